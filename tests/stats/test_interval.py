import math

import pytest

from strop.stats.interval import Difference, Estimate, Interval, decimal, floored, quantile, unseen


def test_a_figure_is_never_printed_alone():
    assert str(Estimate(0.62, Interval(0.571, 0.667), 400)) == "0.62 [0.57, 0.67] n=400"
    assert str(Difference(0.21, Interval(0.168, 0.25), 400)) == "+0.21 [+0.17, +0.25] n=400"
    assert str(Difference(-0.001, Interval(-0.2, 0.004), 9)) == "0.00 [-0.20, 0.00] n=9"
    assert str(Estimate(math.nan, Interval(0, 1), 0)) == "- [0.00, 1.00] n=0"
    with pytest.raises(TypeError):
        Estimate(0.5)  # type: ignore[call-arg]


def test_decimal():
    assert decimal(-0.004) == "0.00"
    assert decimal(0.125, signed=True) == "+0.12"


def test_an_interval_is_ordered():
    with pytest.raises(ValueError, match="holds nothing"):
        Interval(0.5, 0.4)
    with pytest.raises(ValueError, match="holds nothing"):
        Interval(math.nan, 0.4)


@pytest.mark.parametrize(
    ("low", "high", "n", "settled"),
    [
        (0.1, 0.2, 9, True),
        (-0.2, -0.1, 9, True),
        (0.0, 0.2, 9, False),
        (-0.1, 0.1, 9, False),
        (0.1, 0.2, 0, False),
    ],
)
def test_a_sign_is_settled_when_zero_is_excluded(low, high, n, settled):
    assert Difference((low + high) / 2, Interval(low, high), n).settled is settled


def test_quantile():
    assert quantile(0.95) == pytest.approx(1.959963984540054)
    assert quantile(0.9) == pytest.approx(1.6448536269514722)
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="between 0 and 1"):
            quantile(level)


def test_unseen_is_the_exact_bound_at_none_of_n():
    assert unseen(30) == pytest.approx(0.11570330822202743)  # Clopper and Pearson, 0 of 30
    assert unseen(0) == 1.0


def test_a_floor_keeps_an_interval_open():
    missed = unseen(5)
    assert floored(Interval(0, 0), 0.0, 5, (-1, 1)) == Interval(-missed, missed)
    assert floored(Interval(0.5, 0.5), 0.5, 5, (0, 1)) == Interval(0.5 - missed / 2, 0.5 + missed / 2)
    wide = Interval(-0.9, 0.9)
    assert floored(wide, 0.0, 5, (-1, 1)) == wide
    assert floored(Interval(-3, 3), 0.0, 5, (-1, 1)) == Interval(-1, 1)
