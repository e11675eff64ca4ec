import pytest

from strop.stats.interval import Interval
from strop.stats.proportions import Rate, balanced, effective_size, wilson


@pytest.mark.parametrize(
    ("passed", "total", "level", "low", "high"),
    # scipy 1.17, binomtest(passed, total).proportion_ci(level, method="wilson"); statsmodels agrees.
    [
        (248, 400, 0.95, 0.5715045437377642, 0.6662125056220047),
        (0, 10, 0.95, 0.0, 0.27753279986288926),
        (10, 10, 0.95, 0.7224672001371109, 1.0),
        (1, 3, 0.95, 0.06149194472039626, 0.7923403991979523),
        (29, 263, 0.95, 0.07787890643407444, 0.15387465650176943),
        (7, 20, 0.9, 0.20226004005676104, 0.5334873111515284),
    ],
)
def test_wilson(passed, total, level, low, high):
    interval = Rate(passed, total).interval(level)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-12)
    assert interval.level == level


def test_a_rate_prints_its_size_and_interval():
    assert str(Rate(248, 400)) == "0.62 [0.57, 0.67] n=400"
    assert f"{Rate(0, 0)}" == "- [0.00, 1.00] n=0"


@pytest.mark.parametrize(("passed", "total"), [(-1, 3), (4, 3), (0, -1)])
def test_a_rate_counts(passed, total):
    with pytest.raises(ValueError, match="is no rate"):
        Rate(passed, total)


def test_cells_weigh_the_same_whatever_their_size():
    estimate = balanced([Rate(1, 1), Rate(0, 99)])
    assert estimate.value == 0.5
    assert estimate.n == 100
    assert estimate.interval == wilson(0.5, effective_size([1, 99]))


def test_equal_cells_are_worth_their_sum():
    assert effective_size([7, 7, 7]) == pytest.approx(21)
    estimate, pooled = balanced([Rate(3, 7), Rate(5, 7), Rate(4, 7)]), Rate(12, 21)
    assert estimate.value == pytest.approx(pooled.value)
    assert estimate.interval.low == pytest.approx(pooled.interval().low)


def test_unequal_cells_are_worth_less_and_never_more_than_their_number_of_the_smallest():
    assert effective_size([1, 99]) == pytest.approx(4 / (1 + 1 / 99))
    assert effective_size([1, 10**9]) < 4


def test_cells_without_a_count_are_left_out():
    assert balanced([Rate(0, 0), Rate(1, 2)]) == balanced([Rate(1, 2)])
    nothing = balanced([Rate(0, 0)])
    assert (nothing.n, nothing.interval) == (0, Interval(0.0, 1.0))


def test_an_interval_stays_open_where_everything_passed():
    interval = balanced([Rate(9, 9)] * 36).interval
    assert interval.high == 1.0
    assert 0.98 < interval.low < 0.99
