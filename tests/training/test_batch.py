import numpy as np

from strop.rollout.groups import Group
from strop.training.advantage import AdvantageSettings, mean_baseline
from strop.training.batch import pack, row_of, rows_of
from tests.rollout.conftest import make_task, make_trace
from tests.training.conftest import make_rows

EVEN = mean_baseline(AdvantageSettings())


def test_the_baseline_is_the_mean_of_the_group() -> None:
    assert EVEN([1.0, 0.0, 0.0, 0.0]) == [0.75, -0.25, -0.25, -0.25]
    assert EVEN([1.0, 1.0]) == [0.0, 0.0]
    half = mean_baseline(AdvantageSettings(negative=0.5))
    assert half([1.0, 0.0, 0.0, 0.0]) == [0.75, -0.125, -0.125, -0.125]


def test_without_weight_failures_are_a_baseline_and_give_no_rows() -> None:
    group = Group("a", make_task(), 2, 0)
    for score in (1.0, 0.0):
        group.report(make_trace(score))
    assert len(rows_of([group], EVEN)) == 2
    (row,) = rows_of([group], mean_baseline(AdvantageSettings(negative=0.0)))
    assert row.weights.max() == 0.5


def test_only_sampled_tokens_are_weighed_and_dead_groups_give_no_rows() -> None:
    live, dead = Group("a", make_task(), 2, 0), Group("b", make_task(), 2, 0)
    for score in (1.0, 0.0):
        live.report(make_trace(score))
    for _ in range(2):
        dead.report(make_trace(0.0))
    rows = rows_of([live, dead], EVEN)
    assert [row.weights.tolist() for row in rows] == [[0.0, 0.5, 0.5, 0.5], [0.0, -0.5, -0.5, -0.5]]


def test_a_first_token_that_was_sampled_cannot_be_trained_on() -> None:
    segment = make_trace(1.0).segments[0]
    row = row_of(type(segment)(segment.ids, segment.logprobs, np.zeros(4, np.int32)), 1.0)
    assert row.sampled.tolist() == [False, True, True, True]


def test_packing_keeps_every_row_once_and_holds_the_budget() -> None:
    rows = make_rows(50)
    packed = pack(rows, 40)
    assert sorted(id(row) for some in packed for row in some) == sorted(id(row) for row in rows)
    assert all(sum(len(row.ids) for row in some) <= 40 for some in packed)
    assert [len(some) for some in pack(rows[:3], 1)] == [1, 1, 1], "a row longer than the budget goes alone"
