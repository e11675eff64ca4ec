"""The asynchronous loop on the manual clock: deterministic, bounded, and with every episode accounted for."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select
from torch import Tensor

from strop.agent.dialect import FencedDialect
from strop.agent.episode import Agent, EpisodeSettings
from strop.agent.ports import Reply
from strop.clock import ManualClock
from strop.errors import MachineryFault, SandboxFault
from strop.events import Event
from strop.messages import Message, ToolSpec
from strop.rollout.dispatcher import Dispatcher, RolloutSettings, tickets
from strop.rollout.executor import Executor
from strop.rollout.groups import Group
from strop.rollout.source import Source
from strop.rollout.staleness import StalenessSettings
from strop.sandbox.scripted import ScriptedWorkspace
from strop.seeds import Seed
from strop.store import Episode, Run, Store, TraceBlob, unclosed
from strop.tasks.task import Limits, Task
from strop.tasks.workspace import Command, Completed, File
from strop.tools.dispatch import Toolbox, standard_tools
from strop.trace import Segment, SegmentBuilder
from strop.training.batch import Row
from strop.training.trainer import Loop, train

TASKS = [
    Task(f"toy/task-{n}", f"Do {n}.", tests=(File("/tests/test.sh", b"", 0o755),), workdir="/app")
    for n in range(40)
]


@dataclass
class World:
    """A policy that sometimes succeeds, sandboxes that take their time and sometimes die."""

    seed: Seed
    deaths: float = 0.0
    version: int = 0
    success: float = 0.5
    finished: list[str] = field(default_factory=list)

    name: str = "toy"

    def start(self, tools: Sequence[ToolSpec], seed: Seed) -> "Talk":
        return Talk(self, seed)

    def grade(self, command: Command, workspace: ScriptedWorkspace) -> Completed:
        reward = b"1" if "/app/good" in workspace.files else b"0"
        workspace.files["/logs/verifier/reward.txt"] = File("/logs/verifier/reward.txt", reward)
        return Completed(0, b"", b"", 0.0)

    @asynccontextmanager
    async def lease(self, limits: Limits) -> AsyncIterator[ScriptedWorkspace]:
        number = len(self.finished)
        rng = (self.seed / "lease" / number).random()
        self.finished.append("")
        await asyncio.sleep(rng.uniform(0.1, 0.4))
        if rng.random() < self.deaths:
            raise SandboxFault("lost", "it died")
        good = File("/app/good", b"")

        def work(command: Command, workspace: ScriptedWorkspace) -> Completed:
            workspace.files[good.path] = good
            return Completed(0, b"", b"", 0.0)

        yield ScriptedWorkspace({"good": work, "/bin/bash /tests/test.sh": self.grade, "bad": "no\n"})


class Talk:
    """Two turns: a guess after a random while, then the submission."""

    def __init__(self, world: World, seed: Seed) -> None:
        self.world, self.rng = world, seed.random()
        self.builder = SegmentBuilder()
        self.builder.render([1, 2])
        self.said = 0

    async def reply(self, view: Sequence[Message], max_tokens: int) -> Reply:
        version = self.world.version
        await asyncio.sleep(self.rng.lognormvariate(0.0, 1.0))
        self.said += 1
        guess = "good" if self.rng.random() < self.world.success else "bad"
        self.builder.sample([3, 4], [-0.5, -0.5], [version, self.world.version])
        return Reply(f"```sh\n{guess}\n```" if self.said == 1 else "```submit\n```", "stop", 2)

    def segments(self) -> tuple[Segment, ...]:
        return (self.builder.seal(),)


class ToyLearner:
    """Takes two seconds a step."""

    def __init__(self) -> None:
        self.version = 0
        self.rows: list[int] = []

    async def step(self, rows: Sequence[Row], temperature: float) -> dict[str, float]:
        await asyncio.sleep(2.0)
        self.rows.append(len(rows))
        self.version += bool(rows)
        return {"version": self.version}


@dataclass
class ToyEngine:
    world: World

    async def update_weights(self, tensors: Mapping[str, Tensor], version: int) -> None:
        await asyncio.sleep(0.1)
        self.world.version = version


def play(
    folder: Path, steps: int = 6, deaths: float = 0.0, **settings: object
) -> tuple[list[Event], Store, Dispatcher]:
    clock = ManualClock(1000.0)
    world = World(Seed(3), deaths)
    store = Store.open(folder / "strop.db")
    with store.write() as session:
        session.add(Run(name="r", kind="train", started=0.0))
    rollout = RolloutSettings(
        groups=4, siblings=4, concurrency=24, staleness=StalenessSettings(bound=2, slack=1)
    ).model_copy(update=settings)
    agent = Agent(
        world,
        FencedDialect(),
        lambda task: Toolbox(standard_tools(task.workdir)),
        EpisodeSettings(turns=4, seconds=60.0),
        system_prompt=False,
    )
    source = Source(TASKS, frozenset(task.id for task in TASKS), Seed(1))
    executor = Executor(store, world.lease, clock)
    events: list[Event] = []
    dispatchers = []

    async def main() -> None:
        book = tickets("r", "rl", Seed(2))
        async with Dispatcher(executor, agent, source, rollout, book) as dispatcher:
            dispatchers.append(dispatcher)
            loop = Loop(
                dispatcher,
                ToyLearner(),
                ToyEngine(world),
                lambda version: {},
                lambda *_: None,
                clock,
                events.append,
            )
            await train(loop, steps)

    clock.run(main())
    return events, store, dispatchers[0]


def test_the_same_seed_gives_the_same_run_twice(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, first, _ = play(tmp_path / "a")
    two, second, _ = play(tmp_path / "b")
    assert one == two
    assert len(one) == 6
    for store in (first, second):
        store.close()


@pytest.mark.parametrize("deaths", [0.0, 0.1])
def test_staleness_never_exceeds_its_bound_and_sampling_overlaps_learning(
    tmp_path: Path, deaths: float
) -> None:
    events, store, _ = play(tmp_path, steps=12, deaths=deaths)
    ages = [event.data["staleness_max"] for event in events]
    assert max(ages) <= 2
    assert max(ages) >= 1, "nothing was sampled while the learner worked: this was no asynchronous run"
    store.close()


def test_every_dispatched_episode_is_in_the_store_once_with_a_verdict_or_a_fault(tmp_path: Path) -> None:
    _, store, _ = play(tmp_path, steps=8, deaths=0.15)
    with store.read() as session:
        rows = session.scalars(select(Episode)).all()
        blobs = session.scalars(select(TraceBlob.episode)).all()
    assert len(rows) > 8 * 16
    assert sorted(blobs) == sorted(row.id for row in rows)
    assert all(row.closed is not None for row in rows)
    assert all((row.score is None) == (row.fault is not None) for row in rows)
    faults = Counter(row.fault for row in rows if row.fault)
    assert faults["sandbox:lost"] > 0 and faults["machinery:cancelled"] > 0
    assert set(faults) == {"sandbox:lost", "machinery:cancelled"}
    with store.read() as session:
        assert not unclosed(session, "r")
    store.close()


def test_a_dead_group_is_replaced_or_takes_its_place_by_setting(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    refilled, first, dispatcher = play(tmp_path / "a", siblings=2)
    assert dispatcher.census.dead > 0
    assert all(event.data["informative"] == 1.0 for event in refilled)
    kept, second, dispatcher = play(tmp_path / "b", siblings=2, refill_dead=False)
    assert dispatcher.census.dead == 0
    assert any(event.data["informative"] < 1.0 for event in kept)
    for store in (first, second):
        store.close()


def test_a_run_without_any_signal_ends_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(MachineryFault, match=r"no-signal.*12 groups in a row"):
        play(tmp_path, siblings=1, patience=12)


def test_groups_are_never_trained_twice(tmp_path: Path) -> None:
    clock = ManualClock()
    world = World(Seed(5))
    with Store.open(tmp_path / "s.db") as store:
        with store.write() as session:
            session.add(Run(name="r", kind="train", started=0.0))
        agent = Agent(world, FencedDialect(), lambda task: Toolbox(standard_tools("/app")), EpisodeSettings())
        source = Source(TASKS, frozenset(task.id for task in TASKS), Seed(1))

        async def main() -> list[list[Group]]:
            settings = RolloutSettings(groups=3, siblings=4, concurrency=8)
            executor = Executor(store, world.lease, clock)
            async with Dispatcher(
                executor, agent, source, settings, tickets("r", "rl", Seed(2))
            ) as dispatcher:
                batches = []
                for number in range(5):
                    batches.append(await dispatcher.batch())
                    dispatcher.publish(number + 1)
                return batches

        batches = clock.run(main())
    ids = [group.id for batch in batches for group in batch]
    assert len(ids) == len(set(ids)) == 15
    assert all(len(group.traces) == 4 for batch in batches for group in batch)
    assert np.mean([group.informative for batch in batches for group in batch]) == 1.0
