"""From a call to its result.

Every call is answered: an unknown tool or a wrong argument with a line to act on, a tool that does not come
back with a timeout. Two things are not answers: a lost machine, which is the sandbox's fault and passes
through, and a tool that breaks on its own, which is the machinery's and never the model's.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence

from strop.config import check
from strop.errors import Fault, MachineryFault, Refusal, nearest
from strop.messages import ToolCall, ToolSpec
from strop.tasks.workspace import Workspace
from strop.tools.files import edit_tool, read_tool, write_tool
from strop.tools.shell import shell_tool
from strop.tools.submit import submit_tool
from strop.tools.tool import ErrorCode, Tool, ToolResult

EXPLANATION = 400
"""Longest explanation of a wrong call, in characters: it quotes what the model wrote."""


class Toolbox:
    """The tools that an agent has.

    Example: ``await Toolbox(standard_tools("/app")).call(ToolCall("1", "shell", {"command": "ls"}), box)``.
    """

    def __init__(self, tools: Sequence[Tool], seconds: float = 120.0) -> None:
        """After `seconds` any call is given up; a tool's own, shorter limit keeps what it had by then."""
        self._tools = {tool.name: tool for tool in tools}
        self._seconds = seconds

    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is told of the tools, in their order."""
        return tuple(tool.spec() for tool in self._tools.values())

    async def call(self, call: ToolCall, workspace: Workspace) -> ToolResult:
        """Do what is asked.

        Raises:
            SandboxFault: the machine is gone.
            MachineryFault: ``tool``; the tool itself is broken.
        """
        tool = self._tools.get(call.name)
        if tool is None:
            close = nearest(call.name, self._tools)
            what = f"there is no tool {call.name!r}"[:EXPLANATION]
            return _refused(f"{what}; nearest: {close}", "unknown_tool")
        try:
            arguments = check(tool.arguments, call.arguments, tool.name)
        except Refusal as refusal:
            close = f"; nearest: {refusal.nearest}" if refusal.nearest else ""
            what = f"{tool.name}: {refusal.what}"[:EXPLANATION]
            return _refused(f"{what}{close}. It takes {_usage(tool.spec())}", "bad_arguments")
        if not _encodable(call.arguments):
            return _refused(f"{tool.name}: an argument holds half a character", "bad_arguments")
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await tool.act(arguments, workspace)
        except Fault:
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                late = f"{tool.name} gave no answer within {self._seconds:g} s and was given up"
                return ToolResult(late, error="timeout")
            raise MachineryFault("tool", f"the tool {tool.name} broke: {error!r}") from error


def standard_tools(
    workdir: str, command_seconds: float = 60.0, output_bytes: int = 16_384
) -> tuple[Tool, ...]:
    """``shell``, ``read``, ``write``, ``edit`` and ``submit`` in a task's folder.

    A command is ended after `command_seconds`; of a long output its two ends are shown, `output_bytes` of
    each stream.
    """
    return (
        shell_tool(workdir, command_seconds, output_bytes),
        read_tool(workdir, output_bytes),
        write_tool(workdir),
        edit_tool(workdir),
        submit_tool(),
    )


def _refused(text: str, error: ErrorCode) -> ToolResult:
    return ToolResult(text, error=error)


def _usage(spec: ToolSpec) -> str:
    """The arguments in a line, such as ``path: string, offset: integer = 1``."""
    fields: Mapping[str, Mapping[str, object]] = spec.parameters["properties"]
    return ", ".join(_field(name, field) for name, field in fields.items()) or "no arguments"


def _field(name: str, field: Mapping[str, object]) -> str:
    default = f" = {field['default']}" if "default" in field else ""
    return f"{name}: {field.get('type', 'any')}{default}"


def _encodable(arguments: Mapping[str, object]) -> bool:
    """Whether all text in them can be written as UTF-8."""
    try:
        json.dumps(dict(arguments), ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True
