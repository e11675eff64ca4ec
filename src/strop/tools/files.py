"""Reading, writing and editing files in the task's folder.

Paths are taken from that folder. What is changed is changed exactly: an edit replaces the one place that
it names and keeps every other byte, the mode, and the link that led there. What goes wrong is said with
what would go right: the nearest names, the closest line and where it differs, the lines between which to
choose.
"""

import difflib
import errno
import posixpath

from pydantic import Field

from strop.config import Settings
from strop.tasks.workspace import Command, File, Workspace
from strop.tools.nearby import closest
from strop.tools.shell import clipped
from strop.tools.tool import ErrorCode, Tool, ToolResult

LOOK_SECONDS = 10.0
"""How long a look around for names and modes may take."""
NAMES = 1000
"""How many names of a folder are compared with one that is not there."""
PLACES = 10
"""How many places of an ambiguous edit are named."""

_PROBLEMS: dict[int, tuple[ErrorCode, str]] = {
    errno.ENOENT: ("not_found", "there is no {path}"),
    errno.ENOTDIR: ("not_found", "there is no {path}: a part of the path is a file, not a folder"),
    errno.ELOOP: ("not_found", "{path} leads in a circle of links"),
    errno.EISDIR: ("is_directory", "{path} is a folder; list it with the shell"),
    errno.EINVAL: ("not_regular", "{path} is not a regular file"),
    errno.EFBIG: ("too_large", "{path} is too large; use the shell: head, tail, sed"),
    errno.ENAMETOOLONG: ("bad_arguments", "the path is too long"),
    errno.ENOSPC: ("disk_full", "the disk is full; {path} was left as it was"),
    errno.EDQUOT: ("disk_full", "the disk is full; {path} was left as it was"),
}


class Read(Settings):
    """Read a text file."""

    path: str
    """The file, from the task's folder."""
    offset: int = Field(default=1, ge=1)
    """The first line to read."""
    limit: int = Field(default=500, ge=1)
    """How many lines to read."""
    numbered: bool = False
    """Whether to show line numbers."""


class Write(Settings):
    """Write a whole file, replacing what was there; folders on the way are made."""

    path: str
    """The file, from the task's folder."""
    content: str
    """All of its text."""


class Edit(Settings):
    """Replace text that occurs exactly once in a file."""

    path: str
    """The file, from the task's folder."""
    old: str
    """The text to replace, exactly as it stands in the file, blanks and line ends included."""
    new: str
    """What to put there."""


def read_tool(workdir: str, output_bytes: int) -> Tool:
    """The tool; of more than `output_bytes` the rest is left for another call."""

    async def act(arguments: Read, workspace: Workspace) -> ToolResult:
        data, problem = await _content(workdir, arguments.path, workspace)
        if problem:
            return problem
        text = _text(data)
        if text is None:
            what = f"{arguments.path} is binary ({len(data)} bytes); look at it with the shell, such as xxd"
            return ToolResult(what, error="binary")
        return _excerpt(arguments, text, output_bytes)

    return Tool("read", Read, act)


def write_tool(workdir: str) -> Tool:
    async def act(arguments: Write, workspace: Workspace) -> ToolResult:
        data = arguments.content.encode()
        problem = await _place(workdir, arguments.path, data, workspace)
        return problem or ToolResult(f"wrote {len(data)} bytes to {arguments.path}")

    return Tool("write", Write, act)


def edit_tool(workdir: str) -> Tool:
    async def act(arguments: Edit, workspace: Workspace) -> ToolResult:
        path, old, new = arguments.path, arguments.old.encode(), arguments.new.encode()
        if not old:
            what = "old is empty, so it names no place; give the text to replace, or write the whole file"
            return ToolResult(what, error="empty_old")
        if old == new:
            return ToolResult("old and new are the same, so nothing was changed", error="no_change")
        data, problem = await _content(workdir, path, workspace)
        if problem:
            return problem
        places = _occurrences(data, old)
        if not places:
            return ToolResult(f"old does not occur in {path}; {closest(data, old)}", error="no_match")
        lines = [data.count(b"\n", 0, place) + 1 for place in places]
        if len(lines) > 1:
            where = ", ".join(map(str, lines[:PLACES])) + (" and on" if len(lines) > PLACES else "")
            what = f"old occurs more than once in {path}, at lines {where}; give more of the text around it"
            return ToolResult(what, error="ambiguous")
        data = data[: places[0]] + new + data[places[0] + len(old) :]
        problem = await _place(workdir, path, data, workspace)
        return problem or ToolResult(f"edited {path} at line {lines[0]}")

    return Tool("edit", Edit, act)


async def _content(workdir: str, path: str, workspace: Workspace) -> tuple[bytes, ToolResult | None]:
    """What a file holds, or what is wrong."""
    if "\0" in path:
        return b"", ToolResult("a path cannot hold a NUL byte", error="bad_arguments")
    full = posixpath.join(workdir, path)
    try:
        return await workspace.read(full), None
    except OSError as error:
        problem = _problem(error, path)
    if problem.error != "not_found":
        return b"", problem
    close = await _nearest_names(full, workspace)
    return b"", ToolResult(problem.text + (f"; nearest: {close}" if close else ""), error="not_found")


async def _place(workdir: str, path: str, data: bytes, workspace: Workspace) -> ToolResult | None:
    """Put `data` where `path` leads, with the mode that is there; or what is wrong."""
    if "\0" in path:
        return ToolResult("a path cannot hold a NUL byte", error="bad_arguments")
    full = posixpath.join(workdir, path)
    script = 'mode=$(stat -L -c %a -- "$1" 2>/dev/null); echo "$mode"; readlink -f -- "$1"'
    looked = await workspace.run(Command(("/bin/sh", "-c", script, "sh", full), timeout=LOOK_SECONDS))
    mode, _, target = looked.stdout.decode("utf-8", "replace").partition("\n")
    target = target.removesuffix("\n")
    known = looked.exit_code == 0 and target.startswith("/") and "\ufffd" not in target
    permissions = int(mode, 8) & 0o777 if known and mode and set(mode) <= set("01234567") else 0o644
    try:
        await workspace.write([File(target if known else full, data, permissions)])
    except OSError as error:
        return _problem(error, path)
    return None


def _problem(error: OSError, path: str) -> ToolResult:
    kinds = {FileNotFoundError: errno.ENOENT, IsADirectoryError: errno.EISDIR, PermissionError: errno.EACCES}
    number = error.errno or kinds.get(type(error), 0)
    code, text = _PROBLEMS.get(
        number, ("permission", "{path} cannot be opened: " + (error.strerror or "refused"))
    )
    return ToolResult(text.format(path=path or "such file"), error=code)


async def _nearest_names(full: str, workspace: Workspace) -> str:
    """Up to three names in the same folder that are like the last part of a path."""
    folder, name = posixpath.split(full)
    listed = await workspace.run(Command(("ls", "-1A", "--", folder), timeout=LOOK_SECONDS))
    if listed.exit_code:
        return ""
    names = listed.stdout.decode("utf-8", "replace").splitlines()[:NAMES]
    return ", ".join(difflib.get_close_matches(name, names, n=3, cutoff=0.4))


def _text(data: bytes) -> str | None:
    """The text of a file, or None where it is not text."""
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _excerpt(arguments: Read, text: str, output_bytes: int) -> ToolResult:
    """The lines that were asked for, as far as they fit, and how to go on."""
    lines = text.split("\n")
    lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    if not lines:
        return ToolResult("(empty file)")
    if arguments.offset > len(lines):
        what = f"{arguments.path} has {len(lines)} lines, so there is none at offset {arguments.offset}"
        return ToolResult(what, error="bad_arguments")
    shown, room = "", output_bytes
    at = first = arguments.offset - 1
    while at < min(len(lines), first + arguments.limit):
        line = f"{at + 1:>6}\t{lines[at]}" if arguments.numbered else lines[at]
        size = len(line.encode())
        if size > room and at > first:
            break
        shown += clipped(line.encode(), output_bytes) if size > output_bytes else line
        room -= size
        at += 1
    if at == len(lines):
        return ToolResult(shown)
    newline = "" if shown.endswith("\n") else "\n"
    note = f"[lines {first + 1} to {at} of {len(lines)}; the next has offset {at + 1}]"
    return ToolResult(f"{shown}{newline}{note}")


def _occurrences(data: bytes, old: bytes) -> list[int]:
    """The places of `old`, overlapping ones too, for each could be meant; enough of them to say so."""
    places: list[int] = []
    at = data.find(old)
    while at >= 0 and len(places) <= PLACES:
        places.append(at)
        at = data.find(old, at + 1)
    return places
