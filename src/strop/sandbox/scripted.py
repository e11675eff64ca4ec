"""A workspace that answers from a plan, for tests of whatever stands on workspaces.

Nothing runs and nothing is isolated: commands are looked up, files lie in a table, and the faults that a
real machine would have by chance come when the plan says so.
"""

import errno
import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from strop.errors import SandboxFault
from strop.tasks.task import Limits
from strop.tasks.workspace import Command, Completed, File, Place

Planned = str | Completed | SandboxFault | Callable[[Command, "ScriptedWorkspace"], Completed]
"""What a command gives: its standard output, a whole result, a fault, or a function that acts on files."""


def line_of(command: Command) -> str:
    """The command as a plan names it: an argument vector is joined as a shell would need it."""
    return command.line if isinstance(command.line, str) else shlex.join(command.line)


class ScriptedWorkspace:
    r"""Example: ``ScriptedWorkspace({"ls": "a.txt\n", "rm a.txt": SandboxFault("lost", "it died")})``.

    A command that is not in the plan is answered as by a shell that does not know it. `faults` come from
    the other requests: keys are ``read PATH``, ``write`` and ``verification``.
    """

    def __init__(
        self,
        commands: Mapping[str, Planned] | None = None,
        files: Sequence[File] = (),
        faults: Mapping[str, SandboxFault] | None = None,
    ) -> None:
        self._commands = dict(commands or {})
        self._faults = dict(faults or {})
        self.files = {file.path: file for file in files}
        self.ran: list[Command] = []
        self.verifications = 0
        self.lost: SandboxFault | None = None

    async def run(self, command: Command) -> Completed:
        self._check()
        self.ran.append(command)
        line = line_of(command)
        planned = self._commands.get(line)
        if isinstance(planned, SandboxFault):
            self.lost = planned
            raise planned
        if isinstance(planned, str):
            return Completed(0, planned.encode(), b"", 0.0)
        if isinstance(planned, Completed):
            return planned
        if planned is None:
            return Completed(127, b"", f"bash: line 1: {line}: command not found\n".encode(), 0.0)
        return planned(command, self)

    async def read(self, path: str, max_bytes: int = 16_777_216) -> bytes:
        self._check(f"read {path}")
        file = self.files.get(path)
        if file is None:
            code = errno.EISDIR if any(name.startswith(f"{path}/") for name in self.files) else errno.ENOENT
            raise OSError(code, os.strerror(code), path)
        if len(file.data) > max_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return file.data

    async def write(self, files: Sequence[File]) -> None:
        self._check("write")
        self.files.update({file.path: file for file in files})

    @asynccontextmanager
    async def verification(self, *, live_system: bool = False) -> AsyncIterator[Place]:
        """``/tests`` and ``/logs`` are empty within and as they were before afterwards."""
        self._check("verification")
        self.verifications += 1
        hidden = {path: file for path, file in self.files.items() if path.startswith(("/tests/", "/logs/"))}
        self.files = {path: file for path, file in self.files.items() if path not in hidden}
        try:
            yield self
        finally:
            kept = {p: file for p, file in self.files.items() if not p.startswith(("/tests/", "/logs/"))}
            self.files = kept | hidden

    def _check(self, request: str = "") -> None:
        if self.lost is None:
            self.lost = self._faults.get(request)
        if self.lost is not None:
            raise self.lost


class ScriptedPool:
    """Lends what `make` makes; `leases` counts them, `out` holds those not given back.

    `faults` come instead of the next leases, one each.
    """

    def __init__(self, make: Callable[[], ScriptedWorkspace], faults: Sequence[SandboxFault] = ()) -> None:
        self._make = make
        self._faults = list(faults)
        self.leases: list[Limits] = []
        self.out: set[int] = set()

    @asynccontextmanager
    async def lease(self, limits: Limits) -> AsyncIterator[ScriptedWorkspace]:
        self.leases.append(limits)
        if self._faults:
            raise self._faults.pop(0)
        number = len(self.leases)
        self.out.add(number)
        try:
            yield self._make()
        finally:
            self.out.discard(number)
