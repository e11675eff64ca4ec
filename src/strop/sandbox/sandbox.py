"""One throw-away machine, as its user holds it.

A `Sandbox` is a workspace (`strop.tasks.workspace.Workspace`). Every request has a deadline; a sandbox that
misses one is killed, because nothing that happens in it can be trusted any longer.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from strop.errors import SandboxFault
from strop.sandbox.channel import Answer
from strop.sandbox.frames import LARGEST_BLOB
from strop.sandbox.machine import Machine
from strop.tasks.workspace import Command, Completed, File, Place

PATIENCE = 30.0
"""Seconds that an answer may take beyond what was asked for."""


class Room:
    """A place in a sandbox: the agent's, or the judges'."""

    def __init__(self, machine: Machine, judging: bool) -> None:
        self._machine, self._judging = machine, judging
        self._closed = False

    async def run(self, command: Command) -> Completed:
        """As `Place.run`. Of a stream that was cut, the first ``max_bytes - max_bytes // 2`` bytes are its
        head and the others its tail.
        """
        line = command.line
        argv = ["/bin/bash", "-c", "--", line] if isinstance(line, str) else list(line)
        try:
            header, output = await self._ask(
                "run",
                within=command.timeout + PATIENCE,
                argv=argv,
                cwd=command.cwd or "/app",
                env=dict(command.env),
                timeout=command.timeout,
                max_bytes=command.max_bytes,
            )
        except OSError as error:
            raise SandboxFault("broken", f"the sandbox can start nothing any longer: {error}") from error
        self._machine.commands += 1
        return Completed(
            exit_code=header["exit"],
            stdout=output[: header["stdout"]],
            stderr=output[header["stdout"] :],
            seconds=header["seconds"],
            timed_out=header["timed_out"],
            omitted=header["omitted"],
        )

    async def read(self, path: str, max_bytes: int = 16_777_216) -> bytes:
        _, data = await self._ask("read", within=PATIENCE, path=path, max_bytes=max_bytes)
        return data

    async def write(self, files: Sequence[File]) -> None:
        for entries, blob in _pieces(files):
            await self._ask("write", blob, within=PATIENCE, files=entries)

    def close(self) -> None:
        self._closed = True

    async def _ask(self, operation: str, blob: bytes = b"", *, within: float, **fields: Any) -> Answer:
        if self._closed:
            raise SandboxFault("closed", f"{operation!r} came after the end of the verification")
        return await self._machine.ask(operation, blob, within=within, judging=self._judging, **fields)


class Sandbox(Room):
    """A sandbox on loan.

    `limits` go to the init with the first request; `before_judging` makes room in the memory limit.
    """

    def __init__(self, machine: Machine, limits: dict[str, Any], before_judging: Callable[[], None]) -> None:
        super().__init__(machine, judging=False)
        self._limits: dict[str, Any] | None = limits
        self._before_judging = before_judging

    @asynccontextmanager
    async def verification(self, *, live_system: bool = False) -> AsyncIterator[Place]:
        """As `Workspace.verification`. Commands whose folder the agent removed run in the judges' own home.
        The agent's places come back with the next request made to this sandbox itself, which ends the
        judges' processes.
        """
        room = Room(self._machine, judging=True)
        try:
            self._before_judging()
            await self._ask("judge", within=PATIENCE, live_system=live_system)
        except OSError as error:
            fault = SandboxFault("verification", f"the places for judging could not be made: {error}")
            self._machine.kill(fault)
            raise fault from error
        try:
            yield room
        finally:
            room.close()

    async def _ask(self, operation: str, blob: bytes = b"", *, within: float, **fields: Any) -> Answer:
        if self._limits is not None:
            fields["limits"], self._limits = self._limits, None
        return await super()._ask(operation, blob, within=within, **fields)


def _pieces(files: Sequence[File]) -> Iterator[tuple[list[tuple[str, int, int, bool]], bytes]]:
    """Requests that place `files`: entries of (path, mode, bytes, more to come) and the bytes themselves."""
    entries: list[tuple[str, int, int, bool]] = []
    blob = bytearray()
    for file in files:
        at = 0
        while True:
            piece = file.data[at : at + LARGEST_BLOB - len(blob)]
            at += len(piece)
            more = at < len(file.data)
            entries.append((file.path, file.mode, len(piece), more))
            blob += piece
            if len(blob) >= LARGEST_BLOB:
                yield entries, bytes(blob)
                entries, blob = [], bytearray()
            if not more:
                break
    if entries:
        yield entries, bytes(blob)
