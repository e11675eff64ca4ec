import math

import numpy as np
import pytest

from strop.stats.interval import Interval, unseen
from strop.stats.pairing import McNemar, mcnemar, paired_difference


def arms(both: int, gained: int, lost: int, neither: int) -> tuple[list[float], list[float]]:
    before = [1.0] * both + [0.0] * gained + [1.0] * lost + [0.0] * neither
    after = [1.0] * both + [1.0] * gained + [0.0] * lost + [0.0] * neither
    return before, after


@pytest.mark.parametrize(
    ("table", "low", "high"),
    # Worked out apart from the code: the roots of the score equation of each arm, put into method 10.
    [
        ((36, 12, 2, 0), 0.0569, 0.3404),
        ((20, 12, 2, 16), 0.0562, 0.3292),
        ((0, 12, 2, 36), 0.0569, 0.3404),
        ((16, 2, 9, 73), -0.1398, -0.0027),
        ((54, 0, 0, 0), -0.0664, 0.0664),
        ((53, 0, 1, 0), -0.0977, 0.0496),
        ((2, 97, 1, 0), 0.8721, 0.9854),
        ((30, 0, 29, 41), -0.3746, -0.1954),
    ],
)
def test_pass_and_fail_use_newcombe(table, low, high):
    difference = paired_difference(*arms(*table))
    _, gained, lost, _ = table
    assert difference.n == sum(table)
    assert difference.value == pytest.approx((gained - lost) / sum(table))
    assert (difference.interval.low, difference.interval.high) == pytest.approx((low, high), abs=6e-5)


def test_graded_scores_use_student():
    before, after = [0.2, 0.5, 0.1, 0.9, 0.4], [0.6, 0.5, 0.7, 0.8, 0.9]
    # Student's from scipy 1.17, ttest_rel(after, before).confidence_interval(): wide enough above, while
    # below the five tasks cannot rule out a sixth that loses everything.
    difference = paired_difference(before, after)
    assert difference.value == pytest.approx(0.28)
    assert difference.interval.low == pytest.approx(0.28 - unseen(5) * 1.28)
    assert difference.interval.high == pytest.approx(0.6667140545548216)


def test_students_interval_stands_where_there_are_enough_tasks():
    generator = np.random.default_rng(4)
    before = generator.random(400)
    after = np.clip(before + generator.normal(0.1, 0.3, 400), 0, 1)
    delta = after - before
    half = 1.9659273 * delta.std(ddof=1) / 20  # the 0.975 quantile of t with 399 degrees of freedom
    interval = paired_difference(list(before), list(after)).interval
    assert (interval.low, interval.high) == pytest.approx(
        (delta.mean() - half, delta.mean() + half), abs=1e-6
    )


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("score", [0.0, 0.5, 1.0])
def test_few_tasks_without_change_settle_nothing(n, score):
    difference = paired_difference([score] * n, [score] * n)
    assert difference.value == 0
    assert not difference.settled
    assert difference.interval.high > 0.4
    assert difference.interval.low == pytest.approx(-difference.interval.high)


def test_every_task_gained():
    difference = paired_difference([0.0] * 12, [1.0] * 12)
    assert difference.value == 1
    assert difference.settled
    assert 0.4 < difference.interval.low < 1 and difference.interval.high == 1


def test_no_tasks_leave_everything_possible():
    difference = paired_difference([], [])
    assert (difference.n, difference.interval) == (0, Interval(-1.0, 1.0))
    assert not difference.settled
    assert str(difference) == "- [-1.00, +1.00] n=0"


def test_order_of_the_arms_is_the_sign():
    before, after = arms(9, 7, 1, 3)
    there, back = paired_difference(before, after), paired_difference(after, before)
    assert there.value == -back.value
    assert there.interval.low == pytest.approx(-back.interval.high)


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ([0.0], [], "cannot be paired"),
        ([0.0], [1.1], "between 0 and 1"),
        ([math.nan], [1.0], "between 0 and 1"),
    ],
)
def test_arms_must_match(before, after, what):
    with pytest.raises(ValueError, match=what):
        paired_difference(before, after)


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    # scipy 1.17, binomtest(min, changed).pvalue; statsmodels' exact McNemar agrees.
    [
        (9, 1, 0.021484375),
        (1, 9, 0.021484375),
        (5, 5, 1.0),
        (12, 3, 0.03515625),
        (0, 0, 1.0),
        (30, 14, 0.0226288412059),
    ],
)
def test_mcnemar(gained, lost, p):
    before, after = arms(4, gained, lost, 6)
    found = mcnemar([score == 1 for score in before], [score == 1 for score in after])
    assert found == McNemar(gained, lost, pytest.approx(p))
