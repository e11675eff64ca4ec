"""The learner behind its process: what it answers, how it fails, and that nothing of it stays."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from strop.errors import MachineryFault
from strop.training.batch import Row
from strop.training.child import ChildPlan, LearnerChild
from strop.training.learner import Learner, LearnerSettings
from strop.training.stages import load_network
from strop.training.weights import Exchange, state_of
from tests.training.conftest import make_network, make_rows

OWNER = Path(__file__).with_name("owner.py")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ChildPlan:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    make_network().save_pretrained(folder)
    (folder / "tokenizer.json").write_text("the tokenizer")
    exchange = Exchange.for_state(state_of(load_network(folder)))
    return ChildPlan(folder, LearnerSettings(learning_rate=1e-2), exchange, 1)


@dataclass
class Pair:
    """A child, and a learner in this process that is to come to the same."""

    runner: asyncio.Runner
    plan: ChildPlan
    child: LearnerChild
    twin: Learner

    def step(self, rows: list[Row]) -> dict[str, float]:
        """The child's figures, which are the twin's."""
        figures = self.runner.run(self.child.step(rows, 0.8))
        expected = self.twin.step(rows, 0.8)
        assert figures == {**expected, "version": self.twin.version}
        return figures

    def published(self, version: int) -> dict[str, torch.Tensor]:
        return {name: tensor.clone() for name, tensor in self.plan.exchange.read(version).items()}

    def fault(self, rows: list[Row]) -> MachineryFault:
        with pytest.raises(MachineryFault) as caught:
            self.runner.run(self.child.step(rows, 0.8))
        return caught.value


@pytest.fixture(scope="module")
def pair(plan: ChildPlan) -> Iterator[Pair]:
    """One for all tests below, in whatever order: what differs between them is the version they start at."""
    child, twin = LearnerChild(plan), Learner(load_network(plan.model), plan.settings)
    with asyncio.Runner() as runner:
        runner.run(child.__aenter__())
        try:
            yield Pair(runner, plan, child, twin)
        finally:
            runner.run(child.__aexit__(None, None, None))


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_each_step_publishes_the_weights_of_the_next_version(pair: Pair) -> None:
    before = {name: tensor.clone() for name, tensor in state_of(pair.twin.network).items()}
    version = pair.step(make_rows(3))["version"]
    one = pair.published(int(version))
    assert same(one, state_of(pair.twin.network)) and not same(one, before)
    assert pair.step(make_rows(3, seed=1))["version"] == version + 1
    assert same(pair.published(int(version) + 1), state_of(pair.twin.network))
    assert same(pair.published(int(version)), one), "the version before must stay until the one after next"


def test_a_step_with_nothing_to_learn_publishes_nothing_new(pair: Pair) -> None:
    version = int(pair.step(make_rows(2))["version"])
    weights = pair.published(version)
    assert pair.step([]) == {"tokens": 0.0, "rows": 0.0, "version": version}
    assert same(pair.published(version), weights)


def test_commands_are_answered_one_at_a_time_and_in_order(pair: Pair) -> None:
    batches = [make_rows(count, seed=7) for count in (1, 2, 3, 4)]

    async def together() -> list[dict[str, float]]:
        return await asyncio.gather(*(pair.child.step(rows, 1.0) for rows in batches))

    answers = pair.runner.run(together())
    assert [int(answer["rows"]) for answer in answers] == [1, 2, 3, 4]
    assert [pair.twin.step(rows, 1.0)["loss"] for rows in batches] == [answer["loss"] for answer in answers]


def test_a_checkpoint_holds_the_published_weights_and_loads_as_a_model(pair: Pair, tmp_path: Path) -> None:
    version = int(pair.step(make_rows(2))["version"])
    pair.runner.run(pair.child.save(tmp_path / "final", {"version": version}))
    assert same(state_of(load_network(tmp_path / "final")), pair.published(version))
    assert (tmp_path / "final" / "tokenizer.json").read_text() == "the tokenizer"
    assert f'"version": {version}' in (tmp_path / "final" / "strop.json").read_text()


def test_a_step_that_is_not_finite_is_a_fault_of_its_own_and_changes_nothing(pair: Pair) -> None:
    version = int(pair.step(make_rows(2))["version"])
    weights = pair.published(version)
    (row,) = make_rows(1)
    fault = pair.fault([replace(row, weights=np.where(row.sampled, np.nan, 0.0).astype(np.float32))])
    assert fault.code == "not-finite" and "no step was taken" in fault.message
    assert same(pair.published(version), weights)
    assert pair.step(make_rows(2))["version"] == version + 1


def test_an_error_in_the_child_is_a_fault_that_says_where_and_the_child_goes_on(
    pair: Pair, tmp_path: Path
) -> None:
    (row,) = make_rows(1)
    fault = pair.fault([replace(row, ids=row.ids + 1000)])
    assert fault.code == "learner-failed"
    assert "IndexError: index out of range" in fault.message and "Traceback" in fault.message
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(
        MachineryFault, match=r"learner-failed.*final could not be written: NotADirectoryError"
    ):
        pair.runner.run(pair.child.save(tmp_path / "file" / "final", {}))
    pair.step(make_rows(2))


def test_control_c_is_left_to_the_owner(pair: Pair) -> None:
    """At a terminal it reaches the whole process group."""
    pid = pair.child._process.pid
    assert pid is not None
    os.kill(pid, signal.SIGINT)
    pair.step(make_rows(2))


def test_the_child_is_gone_after_an_error_even_in_the_middle_of_a_step(plan: ChildPlan) -> None:
    async def main() -> int | None:
        with pytest.raises(ZeroDivisionError):
            async with LearnerChild(plan) as child:
                step = asyncio.create_task(child.step(make_rows(4000, longest=120), 1.0))
                await asyncio.sleep(0.1)
                pid = child._process.pid
                raise ZeroDivisionError
        with pytest.raises(MachineryFault, match=r"learner-lost.*exit code -9"):
            await step
        with pytest.raises(MachineryFault, match="learner-lost"):
            await child.step(make_rows(1), 1.0)
        return pid

    pid = asyncio.run(main())
    assert not Path(f"/proc/{pid}").exists(), "not even a dead process that nobody waited for"
    ours = [f"torch_{owner}_" for owner in (os.getpid(), pid)]
    assert [entry for entry in Path("/dev/shm").iterdir() if entry.name.startswith(tuple(ours))] == []


async def started(child: LearnerChild) -> tuple["asyncio.Task[LearnerChild]", int]:
    """A child that has a process, and is not yet ready."""
    entering = asyncio.create_task(child.__aenter__())
    while child._process.pid is None:
        await asyncio.sleep(0.001)
    return entering, child._process.pid


def test_a_child_that_dies_at_its_start_is_lost(plan: ChildPlan) -> None:
    async def main() -> None:
        entering, pid = await started(LearnerChild(plan))
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(MachineryFault, match="learner-lost"):
            await entering

    asyncio.run(main())


def test_a_start_that_is_cancelled_leaves_no_child(plan: ChildPlan) -> None:
    async def main() -> bool:
        child = LearnerChild(plan)
        entering, _ = await started(child)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        alive = child._process.is_alive()
        await child.__aexit__(None, None, None)
        return alive

    assert not asyncio.run(main())


def test_the_child_ends_with_its_owner(plan: ChildPlan) -> None:
    command = [sys.executable, str(OWNER), str(plan.model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            child = os.pidfd_open(int(owner.stdout.readline()))
        finally:
            owner.kill()
    ended, _, _ = select.select([child], [], [], 60.0)
    if not ended:
        signal.pidfd_send_signal(child, signal.SIGKILL)
    os.close(child)
    assert ended, "the learner outlived its owner by a minute"
