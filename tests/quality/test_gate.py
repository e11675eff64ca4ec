"""What the gate says of a task, and that it is written down and found again."""

import asyncio
import gc
import itertools
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from strop.agent.episode import Lease
from strop.clock import ManualClock
from strop.quality.gate import GATE, Admission, Checked, Gate, admissions
from strop.quality.probe import Finding
from strop.sandbox.pool import SandboxPool
from strop.sandbox.scripted import Planned, ScriptedPool, ScriptedWorkspace
from strop.store import Store
from strop.suites.shell.suite import SUITE
from strop.tasks.catalog import Suite
from strop.tasks.task import Limits, Task
from strop.tasks.workspace import File
from tests.quality.conftest import JUDGE, LOST, NOTES, SOLVE, Machines, Plan, ToySuite, reward, said, toy
from tests.rollout.conftest import make_task

PASSES: dict[str, Planned] = {JUDGE: reward("1")}
FAILS: dict[str, Planned] = {JUDGE: reward("0")}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "strop.db") as opened:
        yield opened


def check(
    store: Store,
    lease: Lease,
    tasks: Sequence[Task],
    suite: Suite | None = None,
    at_once: int = 8,
    observe: Callable[[Checked], None] = lambda _: None,
) -> list[Checked]:
    clock = ManualClock(100.0)
    return clock.run(Gate(store, lease, clock, at_once).check_all(tasks, suite, observe))


def row(store: Store, task: Task, gate: str = GATE) -> Admission:
    with store.read() as session:
        return session.get_one(Admission, (task.id, gate))


@pytest.mark.parametrize("suite", [None, ToySuite()], ids=["folder", "suite"])
def test_the_reference_passes_twice_and_the_idler_fails_in_three_fresh_sandboxes(
    store: Store, suite: Suite | None
) -> None:
    machines, task = Machines(), toy()
    pool = machines.pool()
    (checked,) = check(store, pool.lease, [task], suite)
    second = "reference" if suite else "solution"
    assert [finding.probe for finding in checked.findings] == ["solution", second, "idler"]
    assert checked.admitted and checked.task is task
    assert pool.leases == [task.limits] * 3 and not pool.out
    first, again, idle = ([command.line for command in made.ran] for made in machines.made)
    solved, judged = ("/bin/bash", "/solution/solve.sh"), ("/bin/bash", "/tests/test.sh")
    assert first == [solved, judged] and idle == [judged]
    assert again == (["good", judged] if suite else first)


@pytest.mark.parametrize(
    "outcomes", [*itertools.product(("passes", "fails", "lost"), repeat=3)], ids="-".join
)
def test_only_two_passes_and_a_failing_idler_admit(store: Store, outcomes: tuple[str, ...]) -> None:
    plans: dict[str, Plan] = {"passes": PASSES, "fails": FAILS, "lost": LOST}
    pool = Machines([plans[outcome] for outcome in outcomes]).pool()
    (checked,) = check(store, pool.lease, [toy()], ToySuite())
    assert checked.admitted == (outcomes == ("passes", "passes", "fails"))
    good = [bool(finding.good) for finding in checked.findings]
    assert good == [outcomes[0] == "passes", outcomes[1] == "passes", outcomes[2] == "fails"]


@pytest.mark.parametrize("missing", ["tests", "solution"])
def test_a_task_without_its_parts_is_refused_without_a_sandbox(store: Store, missing: str) -> None:
    task = replace(toy(), tests=()) if missing == "tests" else make_task()
    pool = Machines().pool()
    (checked,) = check(store, pool.lease, [task])
    name = {"tests": "tests/test.sh", "solution": "solution/solve.sh"}[missing]
    assert checked.findings == (Finding("files", False, f"there is no {name}"),)
    assert not pool.leases
    assert admissions(store, [task]) == {task.id: False}


def test_the_word_is_kept_by_task_id(tmp_path: Path) -> None:
    good, bad, unknown = toy(0), toy(1), toy(2)
    plans = [{}, {}, {}, {SOLVE: said("", 1)}]
    with Store.open(tmp_path / "strop.db") as store:
        check(store, Machines(plans).pool().lease, [good, bad], at_once=1)
    with Store.open(tmp_path / "strop.db") as store:
        assert admissions(store, [good, bad, unknown]) == {good.id: True, bad.id: False}
        assert admissions(store, [bad]) == {bad.id: False}
        kept = row(store, bad)
    assert (kept.task, kept.admitted, kept.checked) == (bad.name, False, 100.0)
    assert [(found["probe"], found["good"]) for found in kept.findings] == [
        ("solution", False),
        ("solution", True),
        ("idler", True),
    ]
    assert "solve.sh ends with 1" in kept.findings[0]["evidence"]


@pytest.mark.parametrize(
    "changed",
    [
        replace(toy(), instruction="Do another thing."),
        replace(toy(), limits=Limits(memory_mb=64)),
        replace(toy(), tests=(File("/tests/test.sh", b"exit 1\n", 0o755),)),
    ],
    ids=["instruction", "limits", "tests"],
)
def test_the_word_lapses_with_anything_that_bears_on_a_score(store: Store, changed: Task) -> None:
    check(store, Machines().pool().lease, [toy()])
    assert admissions(store, [toy()]) == {toy().id: True}
    assert admissions(store, [changed]) == {}


def test_the_word_of_another_gate_is_not_this_ones(store: Store) -> None:
    task = toy()
    with store.write() as session:
        session.add(
            Admission(task_id=task.id, gate="older/1", task="t", admitted=True, checked=0.0, findings=[])
        )
    assert admissions(store, [task]) == {}
    check(store, Machines([FAILS]).pool().lease, [task])
    assert admissions(store, [task]) == {task.id: False}
    assert row(store, task, "older/1").admitted


def test_the_last_word_counts(store: Store) -> None:
    task = toy()
    check(store, Machines([FAILS]).pool().lease, [task])
    assert admissions(store, [task]) == {task.id: False}
    check(store, Machines().pool().lease, [task])
    assert admissions(store, [task]) == {task.id: True}
    assert [found["good"] for found in row(store, task).findings] == [True] * 3


def slowly(pool: ScriptedPool, seconds: Callable[[int], float], busy: list[int]) -> Lease:
    """Leases of `pool`, the n-th after so many seconds; `busy` is told how many are out then."""

    @asynccontextmanager
    async def lease(limits: Limits) -> AsyncIterator[ScriptedWorkspace]:
        async with pool.lease(limits) as workspace:
            await asyncio.sleep(seconds(len(pool.leases)))
            busy.append(len(pool.out))
            yield workspace

    return lease


def test_each_word_is_told_when_it_is_written_and_results_keep_the_order_of_the_tasks(store: Store) -> None:
    tasks = [toy(number) for number in range(5)]
    told: list[Task] = []

    def observe(checked: Checked) -> None:
        assert admissions(store, tasks).get(checked.task.id, False) == checked.admitted
        told.append(checked.task)

    lease = slowly(Machines([LOST]).pool(), lambda number: 100.0 / number, [])
    checked = check(store, lease, tasks, observe=observe)
    assert [one.task for one in checked] == tasks
    assert told == tasks[::-1], "who is done first is told first"
    assert [one.admitted for one in checked] == [False, True, True, True, True]


def test_no_more_tasks_are_under_way_than_asked_for(store: Store) -> None:
    busy: list[int] = []
    lease = slowly(Machines().pool(), lambda _: 1.0, busy)
    check(store, lease, [toy(number) for number in range(6)], at_once=2)
    assert max(busy) == 2 and len(busy) == 18


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_fault_of_the_machinery_is_no_word_on_the_task(store: Store, which: int) -> None:
    """Neither admitted, nor refused for ever: the next run tries the task again."""
    plans: list[Plan] = [{}, {}, {}]
    plans[which] = LOST
    (checked,) = check(store, Machines(plans).pool().lease, [toy()], ToySuite())
    assert not checked.admitted
    assert admissions(store, [toy()]) == {}


def test_a_check_that_is_cancelled_says_nothing() -> None:
    @asynccontextmanager
    async def never(limits: Limits) -> AsyncIterator[ScriptedWorkspace]:
        await asyncio.sleep(3600)
        yield ScriptedWorkspace()

    clock = ManualClock()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await Gate(None, never, clock).check(toy(), ToySuite())  # type: ignore[arg-type]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clock.run(main())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


ONCE = b"test ! -e /app/been && touch /app/been && cp /app/notes.txt /app/copy.txt\n"
COPIED = b"cmp /app/notes.txt /app/copy.txt && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n"


def local(name: str, solve: bytes, test: bytes) -> Task:
    return Task(
        f"local/{name}",
        "Copy notes.txt to copy.txt.",
        files=(NOTES,),
        tests=(File("/tests/test.sh", test, 0o755),),
        solution=(File("/solution/solve.sh", solve, 0o755),),
        limits=Limits(agent_seconds=60, verifier_seconds=60, memory_mb=128, storage_mb=32, processes=64),
    )


def test_in_real_sandboxes(store: Store, open_pool: Callable[..., SandboxPool]) -> None:
    """Among them is a solution that works once in a sandbox, so none may see what another left."""
    sound = local("sound", ONCE, COPIED)
    tasks = [
        sound,
        local("unsolved", b"cp /app/nowhere /app/copy.txt\n", COPIED),
        local("given-away", ONCE, b"echo 1 > /logs/verifier/reward.txt\n"),
        local("unjudged", ONCE, b"echo I cannot tell; exit 3\n"),
    ]
    shell = [SUITE.task("lookup-easy-12")]
    clock = ManualClock()

    async def main() -> list[Checked]:
        async with open_pool() as pool:
            gate = Gate(store, pool.lease, clock, at_once=2)
            return [*await gate.check_all(tasks, None), *await gate.check_all(shell, SUITE)]

    checked = {one.task.name: one for one in asyncio.run(main())}
    assert [name for name, one in checked.items() if one.admitted] == ["local/sound", shell[0].name]
    unsolved, *_, idler = checked["local/unsolved"].findings
    assert "reward 0" in unsolved.evidence and "copy.txt: No such file" in unsolved.evidence and idler.good
    assert [found.good for found in checked["local/given-away"].findings] == [True, True, False]
    assert all(
        "no-reward" in found.evidence and "I cannot tell" in found.evidence
        for found in checked["local/unjudged"].findings
    )
    known = admissions(store, [*tasks, *shell])
    assert {task.name for task in (*tasks, *shell) if known[task.id]} == {"local/sound", shell[0].name}
