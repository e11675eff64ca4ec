"""Warm sandboxes, handed out one at a time and never twice.

At most `maximum` are out; whoever comes later waits, in order, up to a deadline. `spare` ones are kept
ready, made off the way of those who wait. A slot (its ids, its control group) is taken again only when the
kernel says that nothing of the last sandbox there is left. When the pool closes, in whatever way, its
parent goes and with it every process, mount and control group.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import Field

from strop.clock import Clock
from strop.config import Settings
from strop.errors import SandboxFault
from strop.sandbox import kernel, limits, verifier
from strop.sandbox.limits import Groups
from strop.sandbox.machine import Machine
from strop.sandbox.parent import Parent
from strop.sandbox.sandbox import Sandbox
from strop.tasks.task import Limits

STARTS_AT_ONCE = 4
"""The parent makes one after another; a few on the way keep it busy."""
FAILURES_IN_A_ROW = 3
"""After which those who wait are told."""
_CLOSE_SECONDS = 10.0


class PoolSettings(Settings):
    """How many sandboxes, and how long one may be waited for."""

    maximum: int = Field(8, ge=1, le=4096)
    """Sandboxes out at the same time; further leases wait."""
    spare: int = Field(2, ge=0, le=4096)
    """Sandboxes kept warm beyond those that are out."""
    lease_seconds: float = Field(120.0, gt=0)
    """How long a lease may wait for its sandbox."""
    start_seconds: float = Field(20.0, gt=0)
    """How long a sandbox may take to start."""


@dataclass(frozen=True)
class PoolMetrics:
    """Counts since the pool opened; `live` counts all that are not yet gone, spare ones included.

    Example: ``PoolMetrics(started=12, destroyed=9, live=3, spare=2, failed=0, ...)``.
    """

    started: int = 0
    destroyed: int = 0
    live: int = 0
    spare: int = 0
    failed: int = 0
    start_seconds: float = 0.0
    """Summed over the started."""
    lease_seconds: float = 0.0
    """Waited by leases, summed."""
    commands: int = 0


class SandboxPool:
    """Use as an async context manager; ``async with pool.lease(task.limits) as sandbox``.

    `cache` is a folder for what outlives the pool: the verifier layer.
    """

    def __init__(self, settings: PoolSettings, clock: Clock, cache: Path) -> None:
        self._settings, self._clock, self._cache = settings, clock, cache
        self._counts = PoolMetrics()
        self._free = deque(range(settings.maximum + settings.spare))
        self._out = asyncio.Semaphore(settings.maximum)
        self._spares: deque[Machine] = deque()
        self._waiting: deque[asyncio.Future[Machine]] = deque()
        self._machines: set[Machine] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._parent: Parent | None = None
        self._groups = Groups(())
        self._opening = asyncio.Lock()
        self._closed = False
        self._mapped = False

    async def __aenter__(self) -> Self:
        kernel.require()
        try:
            await self._open_parent()
            await self._start(self._free.popleft())
        except SandboxFault as fault:
            await self._close()
            raise kernel.explain(fault) from fault
        except BaseException:
            await self._close()
            raise
        self._refill()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    @asynccontextmanager
    async def lease(self, limits: Limits) -> AsyncIterator[Sandbox]:
        """A sandbox of one's own until the end of the block, held to `limits` from its first request on.

        Raises:
            SandboxFault: ``lease-timeout``; ``start`` or ``parent``: none can be made.
        """
        began = self._clock.now()
        try:
            async with asyncio.timeout(self._settings.lease_seconds):
                await self._out.acquire()
                try:
                    machine = await self._take()
                except BaseException:
                    self._out.release()
                    raise
        except TimeoutError:
            raise SandboxFault(
                "lease-timeout",
                f"no sandbox came free within {self._settings.lease_seconds:g} s; "
                f"{self._settings.maximum} may be out at once",
            ) from None
        self._count(lease_seconds=self._clock.now() - began)
        try:
            yield self._lend(machine, limits)
        finally:
            machine.kill()
            self._out.release()

    def metrics(self) -> PoolMetrics:
        running = sum(machine.commands for machine in self._machines)
        return replace(
            self._counts,
            live=len(self._machines),
            spare=len(self._spares),
            commands=self._counts.commands + running,
        )

    def limits_note(self) -> str:
        """Who holds a sandbox to its limits, in words."""
        owners = "" if self._mapped else "; owners of system files cannot be mapped and look like nobody"
        return self._groups.note() + owners

    def _lend(self, machine: Machine, wanted: Limits) -> Sandbox:
        try:
            self._groups.hold(machine.slot, wanted)
        except OSError as error:
            raise SandboxFault("limits", f"the limits of a lease could not be set: {error}") from error
        return Sandbox(
            machine,
            limits.for_init(wanted, self._groups),
            lambda: self._groups.hold(machine.slot, wanted, judging=True),
        )

    async def _take(self) -> Machine:
        while self._spares:
            machine = self._spares.popleft()
            if not machine.is_lost:
                self._refill()
                return machine
        if self._failures >= FAILURES_IN_A_ROW:
            self._failures = 0  # whoever comes later deserves another try
        waiting: asyncio.Future[Machine] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._refill()
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self._offer(waiting.result())
            raise
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def _offer(self, machine: Machine) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(machine)
                return
        self._spares.append(machine)

    def _refill(self) -> None:
        """Start what is missing, as far as there are slots."""
        missing = self._settings.spare + len(self._waiting) - len(self._spares) - len(self._starting)
        room = min(missing, len(self._free), STARTS_AT_ONCE - len(self._starting))
        if self._closed or self._failures >= FAILURES_IN_A_ROW:
            return
        for _ in range(room):
            task = asyncio.create_task(self._start(self._free.popleft()))
            self._starting.add(task)
            task.add_done_callback(self._started)

    def _started(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            fault = error if isinstance(error, SandboxFault) else SandboxFault("start", str(error))
            self._count(failed=1)
            self._failures += 1
            while self._failures >= FAILURES_IN_A_ROW and self._waiting:
                waiting = self._waiting.popleft()
                if not waiting.done():
                    waiting.set_exception(fault)
        self._refill()

    async def _start(self, slot: int) -> None:
        """One more sandbox, for whoever waits longest or to be kept.

        Raises:
            SandboxFault: ``start`` or ``parent``.
        """
        began = self._clock.now()
        machine = None
        try:
            async with asyncio.timeout(self._settings.start_seconds):
                parent = await self._open_parent()
                machine = Machine(slot, await parent.sandbox(slot), self._gone)
                self._machines.add(machine)
                await machine.ready()
        except TimeoutError:
            message = f"a sandbox did not start within {self._settings.start_seconds:g} s"
            raise SandboxFault("start", message) from None
        finally:
            if machine is None:
                self._free.append(slot)
            elif not machine.is_ready:
                machine.kill()
        self._failures = 0
        self._count(started=1, start_seconds=self._clock.now() - began)
        self._offer(machine)

    async def _open_parent(self) -> Parent:
        async with self._opening:
            if self._parent is None or self._parent.lost is not None:
                layer = verifier.build(self._cache)
                self._groups.remove()
                self._groups = Groups(limits.hierarchies())
                self._parent = Parent()
                found = await self._parent.start(self._groups.folders, layer)
                self._groups.keep(found["groups"])
                self._mapped = bool(found["mapped"])
            return self._parent

    def _gone(self, machine: Machine) -> None:
        self._machines.discard(machine)
        if machine in self._spares:
            self._spares.remove(machine)
        self._free.append(machine.slot)
        self._count(destroyed=int(machine.is_ready), commands=machine.commands)
        self._refill()

    def _count(self, **more: float) -> None:
        counts = self._counts
        self._counts = replace(counts, **{name: getattr(counts, name) + n for name, n in more.items()})

    async def _close(self) -> None:
        self._closed = True
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(SandboxFault("closed", "the pool was closed"))
        try:
            for task in self._starting:
                task.cancel()
            await asyncio.gather(*self._starting, return_exceptions=True)
            for machine in self._machines:
                machine.kill()
            if self._parent is not None:
                await self._parent.close()
            await self._last_rites()
        finally:
            if self._parent is not None:
                self._parent.finish()
            for machine in list(self._machines):
                machine.forget()
            self._groups.remove()

    async def _last_rites(self) -> None:
        """The parent has buried them all; let each one's descriptor say so."""
        for _ in range(int(_CLOSE_SECONDS * 1000)):
            if not self._machines:
                return
            await asyncio.sleep(0.001)
