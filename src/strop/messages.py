"""What is said between a task, a model and its tools.

Messages are the human-readable side of an episode. The exact side is the trace: text that a model
sampled is kept here as it was decoded, and is never turned back into tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True)
class ToolCall:
    """An action that a model asked for.

    Example: ``ToolCall("call-0", "shell", {"command": "ls"})``.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Message:
    r"""One message; `content` of a sampled one is its decoded text without the end-of-turn token.

    Example: ``Message("tool", "notes.txt\n", call_id="call-0", name="shell")``.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""


@dataclass(frozen=True)
class ToolSpec:
    """A tool as a model is told of it; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]
