"""The suite's promises that need no sandbox; that references pass and idlers fail is tried in tests/story."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.errors import Refusal
from strop.suites.shell.suite import DIFFICULTIES, HELD_OUT, SUITE, TRAINED
from strop.suites.shell.words import FOLDERS, PEOPLE, STEMS, VALUES
from strop.tasks.catalog import suites

NAMES = st.builds(
    "{}-{}-{}".format,
    st.sampled_from([*TRAINED, *HELD_OUT]),
    st.sampled_from(DIFFICULTIES),
    st.integers(0, 3_999_999),
)


def test_it_is_registered() -> None:
    assert suites()["shell"] is SUITE


def test_there_are_enough_families_from_one_step_to_six() -> None:
    assert len(TRAINED) >= 12 and len(HELD_OUT) >= 3 and not set(TRAINED) & set(HELD_OUT)
    steps = Counter(task.strata.steps for task in SUITE.tasks("held-out-seeds", 336))
    assert min(steps) == 1 and max(steps) == 6
    assert sum(count for length, count in steps.items() if length >= 3) >= 100


def test_splits_share_no_task_and_no_content() -> None:
    names: set[str] = set()
    ids: set[str] = set()
    for split in SUITE.splits:
        tasks = SUITE.tasks(split, 252)
        assert not names & {task.name for task in tasks}
        assert not ids & {task.id for task in tasks}
        names |= {task.name for task in tasks}
        ids |= {task.id for task in tasks}


def test_held_out_families_are_in_no_training_split() -> None:
    for split in ("train", "warm-up", "held-out-seeds"):
        assert {task.strata.type for task in SUITE.tasks(split, 252)} == set(TRAINED)
    assert {task.strata.type for task in SUITE.tasks("held-out-families", 27)} == set(HELD_OUT)


def test_a_split_is_spread_evenly_and_goes_on_where_it_was_left() -> None:
    cells = Counter((t.strata.type, t.strata.difficulty) for t in SUITE.tasks("train", 84))
    assert set(cells.values()) == {2} and len(cells) == 42
    assert SUITE.tasks("train", 10, 5) == SUITE.tasks("train", 15)[5:]


@given(NAMES)
def test_a_name_makes_the_same_task_again(name: str) -> None:
    task = SUITE.task(name)
    assert task == SUITE.task(f"shell/{name}") and task.name == f"shell/{name}"
    assert task.seed == int(name.rpartition("-")[2])


@given(NAMES)
def test_what_must_stay_is_checked_and_nothing_hidden_is_in_the_start_files(name: str) -> None:
    task = SUITE.task(name)
    rules = next(file.data.decode() for file in task.tests if file.path == "/tests/rules").splitlines()
    judged = {rule.split(" ", 1)[1] for rule in rules}
    assert judged >= {file.path.removeprefix("/app/") for file in task.files}
    assert all(file.path.startswith("/app/") for file in task.files)
    assert any(not rule.startswith("same") for rule in rules), "a task that asks for nothing"


@given(NAMES)
def test_what_the_agent_must_find_out_is_not_in_the_instruction(name: str) -> None:
    plan = SUITE._plan(*SUITE._coordinates(name))
    words = set(SUITE.task(name).instruction.replace(".txt", "").replace(".", " ").replace(",", " ").split())
    learned = {plan.truth[key] for step in plan.steps for key in step.learn if key in plan.truth}
    assert not {word.removesuffix(".txt") for word in learned} & words


@given(NAMES)
def test_there_are_several_wordings_and_tasks_come_in_each(name: str) -> None:
    family, difficulty, _ = SUITE._coordinates(name)
    wordings = SUITE._plan(family, difficulty, 0).wordings
    openings = {wording.partition("{")[0] for wording in wordings}
    told = {SUITE.task(f"{family}-{difficulty}-{number}").instruction for number in range(60)}
    assert len(wordings) >= 3
    assert {opening for opening in openings for text in told if text.startswith(opening)} == openings


def test_no_word_hides_in_another() -> None:
    """grep and sed match within words, so a value or a person must not be a part of another word."""
    everything = {*STEMS, *FOLDERS, *VALUES, *PEOPLE}
    assert len(everything) == len(STEMS) + len(FOLDERS) + len(VALUES) + len(PEOPLE)
    for word in (*VALUES, *PEOPLE):
        assert [other for other in everything if word in other] == [word]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("lokup-easy-1", "lookup"), ("lookup-esy-1", "easy"), ("lookup-easy-x", "lookup-easy-12")],
)
def test_an_unknown_task_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(Refusal) as refusal:
        SUITE.task(name)
    assert refusal.value.nearest == nearest


def test_an_unknown_split_names_the_nearest() -> None:
    with pytest.raises(Refusal) as refusal:
        SUITE.tasks("trian", 3)
    assert refusal.value.nearest == "train"
