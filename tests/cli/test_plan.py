"""Which tasks a run trains on."""

import itertools
from dataclasses import replace

import pytest

from strop.cli.plan import training_tasks
from strop.errors import Refusal
from strop.suites.shell.suite import ShellSuite
from strop.tasks.task import Strata, Task
from strop.training.recipe import TaskSettings
from tests.quality.conftest import ToySuite

SHELL = ShellSuite()


def test_without_a_wish_the_first_tasks_of_the_split() -> None:
    tasks = training_tasks(SHELL, TaskSettings(count=5), "r.toml")
    assert [task.name for task in tasks] == [task.name for task in SHELL.tasks("train", 5)]


def test_what_is_wished_is_taken_in_the_order_of_the_split() -> None:
    wish = TaskSettings(count=30, families=("permit", "copy"), difficulties=("easy",))
    names = [task.name for task in training_tasks(SHELL, wish, "r.toml")]
    every = (SHELL.tasks("train", 1, start)[0].name for start in itertools.count())
    wanted = (name for name in every if name.split("/")[-1].startswith(("permit-easy", "copy-easy")))
    assert names == list(itertools.islice(wanted, 30))


@pytest.mark.parametrize(
    ("wish", "what", "nearest"),
    [
        (TaskSettings(families=("permits",)), "no family 'permits'", "permit"),
        (TaskSettings(families=("permit", "swap")), "no family 'swap'", None),
        (TaskSettings(difficulties=("hrad",)), "no difficulty 'hrad'", "hard"),
    ],
)
def test_a_wish_that_no_task_answers(wish: TaskSettings, what: str, nearest: str | None) -> None:
    with pytest.raises(Refusal, match=f"shell:train has {what}") as refusal:
        training_tasks(SHELL, wish, "r.toml")
    assert refusal.value.where == "r.toml" and "may name" in str(refusal.value.remedy)
    assert nearest in (None, refusal.value.nearest)


def test_a_wish_whose_parts_never_meet_is_refused_and_not_sought_forever() -> None:
    class Odd(ToySuite):
        def tasks(self, split: str, count: int, start: int = 0) -> list[Task]:
            return [
                replace(task, strata=Strata("even", "easy") if number % 2 else Strata("odd", "hard"))
                for number, task in enumerate(super().tasks(split, count, start))
            ]

    with pytest.raises(Refusal, match="hold none of these families"):
        training_tasks(Odd(), TaskSettings(families=("even",), difficulties=("hard",)), "r.toml")
