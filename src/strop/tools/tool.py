"""A typed action that a model may take in a workspace, and what it gets back.

A tool is an async function with an argument model; its schema comes from that model, so the documentation
a model reads and the check its call must pass cannot differ. A tool answers every call with a result:
what goes wrong inside a tool is text with an error code from a closed set, for the model to act on. Only
a lost machine is an exception.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from strop.config import Settings
from strop.messages import ToolSpec
from strop.tasks.workspace import Workspace

ErrorCode = Literal[
    "unknown_tool",
    "bad_arguments",
    "unreadable",
    "timeout",
    "not_found",
    "is_directory",
    "permission",
    "not_regular",
    "binary",
    "too_large",
    "disk_full",
    "no_match",
    "ambiguous",
    "empty_old",
    "no_change",
]
"""``unreadable``: the reply held no call that could be read."""


@dataclass(frozen=True)
class ToolResult:
    """What a call gave: text for the model, and an error code when it did not do what was asked.

    Example: ``ToolResult("no such file: a.txt; nearest: b.txt", error="not_found")``.
    """

    text: str
    error: ErrorCode | None = None
    exit_code: int | None = None
    ends_episode: bool = False


@dataclass(frozen=True)
class Tool:
    """A name, an argument model and the function that acts.

    The first line of the argument model's docstring is the tool's description; the docstrings under its
    fields describe the arguments.
    """

    name: str
    arguments: type[Settings]
    act: Callable[[Any, Workspace], Awaitable[ToolResult]]

    def spec(self) -> ToolSpec:
        """What a model is told: the JSON schema of the arguments, without pydantic's titles."""
        described = (self.arguments.__doc__ or "").strip().split("\n")[0]
        return ToolSpec(self.name, described, _parameters(self.arguments))


@cache
def _parameters(arguments: type[Settings]) -> dict[str, Any]:
    """A schema takes milliseconds to make and every episode asks for it."""
    schema = arguments.model_json_schema()
    properties = {
        name: {key: value for key, value in field.items() if key != "title"}
        for name, field in schema.get("properties", {}).items()
    }
    return {"type": "object", "properties": properties, "required": schema.get("required", [])}
