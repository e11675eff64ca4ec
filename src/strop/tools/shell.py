"""A bash command in the task's folder, and what it printed.

The text of a result is the output as it came: standard output, then standard error, labelled only where
there are both. What a model must not miss is said after it in brackets: a failure, a timeout. Of a long
output its beginning and its end are kept, and the bytes between them counted.
"""

from strop.config import Settings
from strop.tasks.workspace import Command, Completed, Workspace
from strop.tools.tool import Tool, ToolResult

NO_OUTPUT = "(no output)"


class Shell(Settings):
    """Run a bash command in the task's folder and see what it prints."""

    command: str
    """One or more lines of bash; each call starts in the task's folder, in a shell of its own."""


def shell_tool(workdir: str, seconds: float, output_bytes: int) -> Tool:
    """The tool; `seconds` limits one command, `output_bytes` what is shown of each stream."""

    async def act(arguments: Shell, workspace: Workspace) -> ToolResult:
        if "\0" in arguments.command:
            return ToolResult("a command cannot hold a NUL byte; write it as $'\\0'", error="bad_arguments")
        # Twice the bytes are asked for, so that a cut in the middle of them is not in what is shown.
        command = Command(arguments.command, seconds, cwd=workdir, max_bytes=2 * output_bytes)
        completed = await workspace.run(command)
        text = told(completed, seconds, output_bytes)
        return ToolResult(text, "timeout" if completed.timed_out else None, completed.exit_code)

    return Tool("shell", Shell, act)


def told(completed: Completed, seconds: float, output_bytes: int) -> str:
    """What a model reads of a command that has ended."""
    out, err = (
        clipped(stream, output_bytes, completed.omitted.get(name, 0))
        for name, stream in (("stdout", completed.stdout), ("stderr", completed.stderr))
    )
    parts = [out, "[stderr]", err] if out and err else [out or err or NO_OUTPUT]
    if completed.timed_out:
        parts.append(f"[timed out after {seconds:g} s and was ended]")
    elif completed.exit_code:
        parts.append(f"[exit code {completed.exit_code}]")
    text = ""
    for part in parts:
        text += part if not text or text.endswith("\n") else f"\n{part}"
    return text


def clipped(data: bytes, limit: int, omitted: int = 0) -> str:
    """The text of an output, or its two ends where it is longer than `limit` bytes.

    `omitted` bytes are missing already, somewhere around the middle of `data`.
    """
    if len(data) + omitted <= limit:
        return data.decode("utf-8", "replace")
    head, tail = min(limit // 2, len(data) // 2), len(data) - min(limit // 2, len(data) // 2)
    for _ in range(3):  # a character is at most four bytes, and is not cut
        head -= _inside(data, head)
        tail += _inside(data, tail)
    left_out = omitted + tail - head
    ends = [piece.decode("utf-8", "replace") for piece in (data[:head], data[tail:])]
    return f"{ends[0]}\n[... {left_out} bytes left out ...]\n{ends[1]}"


def _inside(data: bytes, at: int) -> bool:
    """Whether a cut at `at` is inside a character."""
    return 0 < at < len(data) and data[at] & 0xC0 == 0x80
