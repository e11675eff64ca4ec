import pytest

from strop.rollout.source import FLOOR, Source
from strop.seeds import Seed
from strop.suites.shell.suite import SUITE
from strop.tasks.task import Task

TASKS = SUITE.tasks("train", 42)
ALL = frozenset(task.id for task in TASKS)


def drawn(source: Source, count: int) -> list[str]:
    return [source.draw().name for _ in range(count)]


def of(source: Source, tasks: list[str], task: Task) -> float:
    """The share of `tasks` that are of the stratum of `task`, of which there is one in each round."""
    return sum(name == task.name for name in tasks) / (len(tasks) / len(source))


def test_each_round_holds_every_task_once_in_another_order() -> None:
    source = Source(TASKS, ALL, Seed(1))
    first, second = drawn(source, 42), drawn(source, 42)
    assert sorted(first) == sorted(second) == sorted(task.name for task in TASKS)
    assert first != second


def test_the_same_seed_and_reports_give_the_same_walk() -> None:
    def walk(seed: int) -> list[str]:
        source, names = Source(TASKS, ALL, Seed(seed)), []
        for _ in range(200):
            task = source.draw()
            source.report(task, float(task.strata.difficulty == "easy"))
            names.append(task.name)
        return names

    assert walk(1) == walk(1) != walk(2)


def test_what_is_solved_comes_seldom_and_comes_back() -> None:
    source = Source(TASKS, ALL, Seed(1))
    for _ in range(30):
        source.report(TASKS[0], 1.0)
    assert source.chance(TASKS[0]) == FLOOR
    assert 0 < of(source, drawn(source, 42 * 60), TASKS[0]) < 3 * FLOOR
    for _ in range(3):
        source.report(TASKS[0], 0.0)
    assert source.chance(TASKS[0]) == 1.0


def test_what_always_fails_is_not_given_up() -> None:
    source = Source(TASKS, ALL, Seed(1))
    for _ in range(30):
        source.report(TASKS[0], 0.0)
    assert source.chance(TASKS[0]) == 1.0


def test_a_stratum_that_varies_is_always_taken() -> None:
    source = Source(TASKS, ALL, Seed(1))
    for score in (0.25, 0.75) * 10:
        source.report(TASKS[3], score)
    assert source.chance(TASKS[3]) > 0.9
    assert source.chance(TASKS[4]) == 1.0, "another stratum has nothing to do with it"


def test_what_the_gate_did_not_admit_is_never_drawn() -> None:
    admitted = frozenset(task.id for task in TASKS[:3])
    source = Source(TASKS, admitted, Seed(1))
    assert {source.draw().id for _ in range(30)} == admitted
    with pytest.raises(ValueError, match="admitted"):
        Source(TASKS, frozenset(), Seed(1))
