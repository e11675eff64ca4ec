"""How calls are written in text.

A dialect reads what a model said and writes what one would have said: `read` of `write` gives the calls
back, whatever they hold. A reply that cannot be read is explained in a line, for the model to act on.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from strop.agent.fenced import FORMS, read_block, write_block
from strop.agent.tagged import CLOSE, OPEN, read_tagged, write_tagged
from strop.errors import Refusal, nearest
from strop.messages import Message, ToolCall, ToolSpec
from strop.tools.tool import ToolResult


@dataclass(frozen=True)
class Unreadable:
    """A reply without a call that can be read, and why, in one line for the model."""

    explanation: str


class Dialect(Protocol):
    """A way to write calls."""

    @property
    def name(self) -> str: ...

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Texts at which a reply is over, besides the end of its turn."""
        ...

    def system(self, tools: Sequence[ToolSpec]) -> str:
        """What a system message has to say of the tools; empty where the chat template says it.

        Raises:
            Refusal: the dialect has no form for one of them.
        """
        ...

    def template_tools(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """What the chat template is given to say."""
        ...

    def read(self, text: str) -> tuple[ToolCall, ...] | Unreadable:
        """The calls of a reply, at least one, in order; their ids count from ``call-0``."""
        ...

    def write(self, calls: Sequence[ToolCall], prose: str = "") -> str:
        """A reply that makes these calls, after some prose without calls of its own.

        Raises:
            ValueError: the dialect has no form for them.
        """
        ...

    def answer(self, call: ToolCall, result: ToolResult) -> Message:
        """The message that tells a call's result."""
        ...


def _tell(call: ToolCall, result: ToolResult) -> Message:
    return Message("tool", result.text, call_id=call.id, name=call.name)


def _spoken(text: str, call: str) -> str:
    """What was said after the reasoning, if there was any; `call` is how a call begins.

    Raises:
        ValueError: the reasoning was never ended.
    """
    before, ended, after = text.partition("</think>")
    if text.lstrip().startswith("<think>"):
        if not ended:
            raise ValueError("the reasoning was not ended: write </think>, then the call")
        return after
    return after if ended and call not in before else text


class JsonDialect:
    """Calls as JSON objects between tags, any number in a reply.

    Example: ``<tool_call>{"name": "shell", "arguments": {"command": "ls"}}</tool_call>``.
    """

    name = "json"
    stop_strings: tuple[str, ...] = ()

    def __init__(self, *, template_shows_tools: bool = True) -> None:
        """Where the chat template does not tell of tools, `system` does."""
        self._template_shows_tools = template_shows_tools

    def system(self, tools: Sequence[ToolSpec]) -> str:
        if self._template_shows_tools or not tools:
            return ""
        listed = [json.dumps(asdict(tool)) for tool in tools]
        example = f'{OPEN}{{"name": "{tools[0].name}", "arguments": {{...}}}}{CLOSE}'
        return "\n".join(["You have these tools:", *listed, f"Call one by writing {example}"])

    def template_tools(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        return tuple(tools) if self._template_shows_tools else ()

    def read(self, text: str) -> tuple[ToolCall, ...] | Unreadable:
        try:
            return read_tagged(_spoken(text, OPEN))
        except ValueError as error:
            return Unreadable(str(error))

    def write(self, calls: Sequence[ToolCall], prose: str = "") -> str:
        return "\n".join(part for part in (prose, write_tagged(calls)) if part)

    def answer(self, call: ToolCall, result: ToolResult) -> Message:
        return _tell(call, result)


class FencedDialect:
    r"""One fenced block a reply, whose first word names the tool.

    Example: "```sh\ncat a.txt\n```".
    """

    name = "fenced"
    stop_strings: tuple[str, ...] = ()

    def system(self, tools: Sequence[ToolSpec]) -> str:
        for tool in tools:
            if tool.name not in FORMS:
                raise Refusal(
                    f"the fenced dialect has no form for the tool {tool.name!r}",
                    nearest=nearest(tool.name, FORMS),
                    remedy="use the json dialect",
                )
        forms = [f"{tool.description}\n{FORMS[tool.name]}" for tool in tools]
        return "\n\n".join(
            ["Reply with one block and nothing else, then wait for its result. Such blocks are:", *forms]
        )

    def template_tools(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        return ()

    def read(self, text: str) -> tuple[ToolCall, ...] | Unreadable:
        try:
            return (read_block(_spoken(text, "```")),)
        except ValueError as error:
            return Unreadable(str(error))

    def write(self, calls: Sequence[ToolCall], prose: str = "") -> str:
        if len(calls) != 1:
            raise ValueError(f"a fenced reply makes one call, not {len(calls)}")
        return "\n".join(part for part in (prose, write_block(calls[0])) if part)

    def answer(self, call: ToolCall, result: ToolResult) -> Message:
        return _tell(call, result)


def dialect_named(name: str, *, template_shows_tools: bool = True) -> Dialect:
    """The dialect of that name, ``json`` or ``fenced``.

    Raises:
        Refusal: there is none.
    """
    known: Mapping[str, Callable[[], Dialect]] = {
        "json": lambda: JsonDialect(template_shows_tools=template_shows_tools),
        "fenced": FencedDialect,
    }
    if name not in known:
        close = nearest(name, known)
        raise Refusal(f"there is no dialect {name!r}", nearest=close, remedy="choose json or fenced")
    return known[name]()
