"""May this task train or score? The gate's word, written down.

An admission names a task by content id and the gate's version, so it lapses as soon as anything that bears
on a score changes. In this first form the reference must pass twice and the idler must fail, each in a
sandbox of its own.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import JSON, select
from sqlalchemy.orm import Mapped, mapped_column

from strop.agent.episode import Lease
from strop.clock import Clock
from strop.quality.probe import Finding, idle, reference, solution
from strop.store import Store, Table
from strop.tasks.catalog import Suite
from strop.tasks.task import Task

GATE = "reference-twice-idler-once/2"
"""Changes whenever an admission would mean something else."""


class Admission(Table):
    """The gate's last word on one task."""

    __tablename__ = "admissions"
    task_id: Mapped[str] = mapped_column(primary_key=True)
    gate: Mapped[str] = mapped_column(primary_key=True)
    task: Mapped[str]
    admitted: Mapped[bool]
    checked: Mapped[float]
    findings: Mapped[list[dict[str, Any]]] = mapped_column(JSON)


@dataclass(frozen=True)
class Checked:
    """A task and what the probes found."""

    task: Task
    findings: tuple[Finding, ...]

    @property
    def admitted(self) -> bool:
        return all(finding.good for finding in self.findings)

    @property
    def settled(self) -> bool:
        """Whether this is a word on the task: admitted, or refused for something that is the task's own."""
        return self.admitted or any(finding.settled and not finding.good for finding in self.findings)


class Gate:
    """Checks tasks and remembers; ``await Gate(store, pool.lease, clock).check_all(tasks, suite)``."""

    def __init__(self, store: Store, lease: Lease, clock: Clock, at_once: int = 8) -> None:
        self._store, self._lease, self._clock = store, lease, clock
        self._slots = asyncio.Semaphore(at_once)

    async def check_all(
        self, tasks: Sequence[Task], suite: Suite | None, observe: Callable[[Checked], None] = lambda _: None
    ) -> list[Checked]:
        """Probe every task and write down the gate's word on each as it falls."""

        async def one(task: Task) -> Checked:
            async with self._slots:
                checked = await self.check(task, suite)
            if checked.settled:
                self._record(checked)
            observe(checked)
            return checked

        async with asyncio.TaskGroup() as group:
            jobs = [group.create_task(one(task)) for task in tasks]
        return [job.result() for job in jobs]

    async def check(self, task: Task, suite: Suite | None) -> Checked:
        """Probe one task: its solution, its reference agent (without one the solution again), the idler."""
        missing = [need for need in ("/tests/test.sh", "/solution/solve.sh") if not _holds(task, need)]
        if missing:
            return Checked(
                task, tuple(Finding("files", False, f"there is no {name[1:]}") for name in missing)
            )
        lease, clock = self._lease, self._clock
        first = await solution(task, lease)
        again = reference(task, suite.reference(task), lease, clock) if suite else solution(task, lease)
        return Checked(task, (first, await again, await idle(task, lease, clock)))

    def _record(self, checked: Checked) -> None:
        row = Admission(
            task_id=checked.task.id,
            gate=GATE,
            task=checked.task.name,
            admitted=checked.admitted,
            checked=self._clock.now(),
            findings=[asdict(finding) for finding in checked.findings],
        )
        with self._store.write() as session:
            session.merge(row)


def _holds(task: Task, path: str) -> bool:
    return any(file.path == path for file in (*task.tests, *task.solution))


def admissions(store: Store, tasks: Iterable[Task]) -> dict[str, bool]:
    """What this version of the gate has said, by task id; a task that was never checked is absent."""
    wanted = {task.id for task in tasks}
    with store.read() as session:
        rows = session.execute(select(Admission.task_id, Admission.admitted).where(Admission.gate == GATE))
        return {task_id: admitted for task_id, admitted in rows if task_id in wanted}
