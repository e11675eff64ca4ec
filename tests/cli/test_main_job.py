"""The gate at the head of a run: what was checked before is not tried again."""

from pathlib import Path
from typing import Any

import pytest

from strop.cli.console import Display
from strop.cli.job import Job
from strop.cli.main_job import MainJob
from strop.cli.plan import Plan
from strop.cli.runs import RunFolder
from strop.clock import ManualClock
from strop.errors import Refusal
from strop.sandbox.pool import PoolSettings
from strop.store import Store
from strop.tasks.task import Task
from tests.quality.conftest import LOST, SOLVE, Machines, ToySuite, said, toy


def check(store: Store, machines: Machines, training: list[Task], held_out: list[Task]) -> frozenset[str]:
    """The admitted of a run's tasks; each time as another run would ask, one task after the other."""
    clock = ManualClock()
    plan = Plan(ToySuite(), training, {"seeds": held_out})
    job = Job(sandbox=PoolSettings(maximum=1))
    pool: Any = machines.pool()
    return clock.run(MainJob(job, plan, RunFolder(Path("r")), store, Display(clock)).check(pool))


def test_only_what_is_unknown_is_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, held_out, later = (toy(number) for number in range(4))
    with Store.open(tmp_path / "strop.db") as store:
        first = Machines([{}, {}, {}, {SOLVE: said("not today\n", 1)}])
        assert check(store, first, [good, bad], [held_out]) == {good.id, held_out.id}
        assert len(first.made) == 9
        out = capsys.readouterr().out
        assert "2 of 3 admitted, 3 tried now" in out
        assert f"  refused: {bad.name}: solve.sh ends with 1, reward 0.0: judged" in out
        again = Machines()
        assert check(store, again, [good, bad], [held_out]) == {good.id, held_out.id}
        assert again.made == [], "a known task was tried again"
        assert "2 of 3 admitted, 0 tried now" in capsys.readouterr().out
        more = Machines()
        assert check(store, more, [good, later], []) == {good.id, later.id}
        assert len(more.made) == 3


def test_what_a_lost_machine_kept_from_being_judged_is_not_admitted(tmp_path: Path) -> None:
    with Store.open(tmp_path / "strop.db") as store:
        assert check(store, Machines([LOST]), [toy(0), toy(1)], []) == {toy(1).id}


def test_what_a_lost_machine_kept_from_being_judged_is_tried_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "strop.db") as store:
        check(store, Machines([LOST]), [toy(0), toy(1)], [])
        assert check(store, Machines(), [toy(0), toy(1)], []) == {toy(0).id, toy(1).id}


def test_a_run_that_may_train_on_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machines = Machines([{SOLVE: said("", 1)}] * 15)
    with Store.open(tmp_path / "strop.db") as store, pytest.raises(Refusal) as refused:
        check(store, machines, [toy(number) for number in range(5)], [toy(9)])
    assert refused.value.what == "the gate admits none of the training tasks"
    assert "strop check" in refused.value.remedy
    assert capsys.readouterr().out.count("refused: ") == 3, "three examples will do"
