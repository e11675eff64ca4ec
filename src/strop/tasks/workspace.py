"""All that a task and its grader may ask of a machine.

A sandbox is one way to satisfy it, a scripted fake another. Nothing here says how isolation is done;
`verification` is the one promise about it: what happens inside is out of reach of whatever ran before.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class File:
    r"""A file to place; `path` is absolute, missing folders on the way are made.

    Example: ``File("/app/run.sh", b"echo hi\n", 0o755)``.
    """

    path: str
    data: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Command:
    """What to run: a shell line for bash, or an argument vector run as it is.

    `timeout` is in seconds, after which the command's whole process tree is killed; `max_bytes` bounds
    what is kept of each output stream (the head and the tail of it), the rest is drained and counted.
    """

    line: str | Sequence[str]
    timeout: float = 60.0
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    max_bytes: int = 65_536


@dataclass(frozen=True)
class Completed:
    """What became of a command.

    `exit_code` is the process's own, or 128 + signal; `omitted` counts the bytes that were drained but
    not kept, by stream name.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool = False
    omitted: Mapping[str, int] = field(default_factory=dict)


class Place(Protocol):
    """Somewhere that commands run and files lie."""

    async def run(self, command: Command) -> Completed:
        """Run to the end or the timeout; a command that fails is a result, not an error.

        Raises:
            SandboxFault: the machine is gone or stopped answering.
        """
        ...

    async def read(self, path: str, max_bytes: int = 16_777_216) -> bytes:
        """The content of a regular file.

        Raises:
            FileNotFoundError, IsADirectoryError, PermissionError: as their names say.
            OSError: not a regular file, or larger than `max_bytes`.
            SandboxFault: the machine is gone.
        """
        ...

    async def write(self, files: Sequence[File]) -> None:
        """Place files, replacing what is there; each appears whole or not at all.

        Raises:
            OSError: the first file that cannot be placed (a full disk, a folder in its place).
            SandboxFault: the machine is gone.
        """
        ...


class Workspace(Place, Protocol):
    """A place with an end: judging."""

    def verification(self, *, live_system: bool = False) -> AbstractAsyncContextManager[Place]:
        """End every process the agent left, then open fresh, empty ``/tests`` and ``/logs``.

        What the agent did to system folders (``/usr``, ``/etc``) is hidden from the judging unless
        `live_system`; everything else is seen as the agent left it.

        Raises:
            SandboxFault: the machine is gone or its processes could not be ended.
        """
        ...
