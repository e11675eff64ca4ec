"""Many attempts at once.

The dispatcher starts a group whenever the staleness window admits one, plays its siblings, refills the
unscored among them, and hands out batches in the window's order. It knows neither engine nor sandboxes;
those are the executor's and the agent's. Its groups are bounded by the window, its episodes by
`concurrency`, and every started group leaves exactly once: trained, dropped for want of variance, or
closed at the end of the run.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import Field

from strop.agent.episode import Agent
from strop.config import Settings
from strop.errors import MachineryFault
from strop.rollout.executor import Executor, Ticket
from strop.rollout.groups import Group
from strop.rollout.source import Source
from strop.rollout.staleness import StalenessSettings, Window
from strop.seeds import Seed


class RolloutSettings(Settings):
    """How episodes are grouped and how many run at once."""

    groups: int = Field(16, ge=1, le=4096)
    """Groups in a training batch."""
    siblings: int = Field(8, ge=2, le=4096)
    """Episodes of one task that share a baseline."""
    concurrency: int = Field(96, ge=1, le=4096)
    """The most episodes under way at once."""
    refills: int = Field(2, ge=0)
    """How often unscored siblings of one group are played again, in all."""
    refill_dead: bool = True
    """Whether a group without variance is replaced by a new one; else it takes its place in the batch."""
    patience: int = Field(512, ge=1)
    """How many groups in a row may be without variance before the run is given up."""
    staleness: StalenessSettings = StalenessSettings()


@dataclass
class Census:
    """How groups left: trained, dropped for want of variance, or dropped for want of scores."""

    started: int = 0
    trained: int = 0
    dead: int = 0
    unscored: int = 0


class Dispatcher:
    """Example: ``async with Dispatcher(executor, agent, source, settings, ticket) as d: await d.batch()``."""

    def __init__(
        self,
        executor: Executor,
        agent: Agent,
        source: Source,
        settings: RolloutSettings,
        ticket: Callable[[Group, int], Ticket],
    ) -> None:
        self._executor, self._agent, self._source, self._settings = executor, agent, source, settings
        self._ticket = ticket
        staleness = settings.staleness
        self.window: Window[str] = Window(staleness.bound, settings.groups, staleness.slack)
        self.census = Census()
        self.taken = 0
        """Batches handed out, which is the version that the learner will have made of them."""
        self.published = 0
        """The version that the sampler has."""
        self._groups: dict[str, Group] = {}
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._streak = 0

    async def __aenter__(self) -> "Dispatcher":
        self._fill()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Cancel what is under way and wait until each episode is closed."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def batch(self) -> list[Group]:
        """The next batch, oldest groups first; waits for it.

        Raises:
            MachineryFault: ``no-signal`` when `patience` groups in a row had no variance; or whatever fault
                of the store ended an episode.
        """
        while True:
            if self._failure is not None:
                raise self._failure
            keys = self.window.take()
            if keys is not None:
                self.taken += 1
                self.census.trained += len(keys)
                self._fill()
                return [self._groups.pop(key) for key in keys]
            self._changed.clear()
            await self._changed.wait()

    def publish(self, version: int) -> None:
        """The sampler now has the weights of `version`."""
        self.published = version
        self._fill()

    def _fill(self) -> None:
        while self._failure is None and self.window.admits(self.taken - self.published):
            number = self.census.started
            self.census.started += 1
            group = Group(f"g{number}", self._source.draw(), self._settings.siblings, self._settings.refills)
            self._groups[group.id] = group
            self.window.start(group.id)
            for sibling in range(group.size):
                self._spawn(group, sibling)

    def _spawn(self, group: Group, sibling: int) -> None:
        task = asyncio.create_task(self._play(group, sibling))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            self._changed.set()

    async def _play(self, group: Group, sibling: int) -> None:
        ticket = self._ticket(group, sibling)
        async with self._slots:
            trace = await self._executor.play(self._agent, ticket)
        if group.report(trace):
            self._spawn(group, group.size + group.refilled)
        elif group.complete:
            self._settle(group)

    def _settle(self, group: Group) -> None:
        """Every place of the group is decided: ready, or gone and replaced."""
        scored = bool(group.traces)
        if scored:
            self._source.report(group.task, sum(group.scores) / len(group.scores))
        if group.informative or (scored and not self._settings.refill_dead):
            self._streak = 0
            self.window.ready(group.id)
        else:
            self.census.dead += scored
            self.census.unscored += not scored
            self._streak += 1
            self.window.drop([group.id])
            del self._groups[group.id]
            self._fill()
        if self._streak >= self._settings.patience:
            self._failure = MachineryFault(
                "no-signal",
                f"{self._streak} groups in a row gave nothing to learn from: every sibling scored the same, "
                "or none was scored",
            )
        self._changed.set()


def tickets(run: str, stage: str, seed: Seed) -> Callable[[Group, int], Ticket]:
    """How a run books its groups' episodes: one seed per group and place."""

    def ticket(group: Group, sibling: int) -> Ticket:
        return Ticket(run, stage, group.task, group.id, seed / group.id / sibling, sibling)

    return ticket
