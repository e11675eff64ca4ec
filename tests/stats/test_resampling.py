import numpy as np
import pytest

from strop.seeds import Seed
from strop.stats.interval import Interval
from strop.stats.resampling import balanced_difference


def cells(generator: np.random.Generator, count: int, size: int) -> list[list[float]]:
    return [list(generator.choice([-1.0, 0.0, 1.0], size, p=[0.1, 0.5, 0.4])) for _ in range(count)]


def test_cells_weigh_the_same():
    difference = balanced_difference([[1.0], [0.0] * 99], Seed(1))
    assert difference.value == 0.5
    assert difference.n == 100


def test_the_seed_decides_and_nothing_else():
    rows = cells(np.random.default_rng(0), 12, 9)
    once = balanced_difference(rows, Seed(3))
    np.random.default_rng(9).random(100)
    assert balanced_difference(rows, Seed(3)) == once
    few, others = (balanced_difference(rows, Seed(seed), resamples=60) for seed in (3, 4))
    assert few.interval != others.interval
    assert balanced_difference(rows, Seed(4)).value == once.value


def test_the_interval_agrees_with_the_variance_within_cells():
    rows = cells(np.random.default_rng(1), 36, 9)
    difference = balanced_difference(rows, Seed(5), resamples=20_000)
    variance = sum(np.var(row, ddof=1) / len(row) for row in rows) / len(rows) ** 2
    half = 1.96 * variance**0.5
    assert difference.interval.low == pytest.approx(difference.value - half, abs=0.05 * half)
    assert difference.interval.high == pytest.approx(difference.value + half, abs=0.05 * half)


def test_what_differs_between_cells_is_no_noise():
    """Cells that all gained and cells that all lost are a mix, not an uncertainty."""
    rows = [[1.0] * 20 if index % 2 else [-1.0] * 20 for index in range(20)]
    interval = balanced_difference(rows, Seed(1)).interval
    assert interval.high - interval.low < 0.05


def test_small_cells_do_not_look_steady():
    rows = cells(np.random.default_rng(2), 60, 2)
    interval = balanced_difference(rows, Seed(1), resamples=20_000).interval
    variance = sum(np.var(row, ddof=1) / 2 for row in rows) / 60**2
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * variance**0.5, rel=0.06)


def test_cells_of_one_task_are_resampled_together():
    rows = [[value] for value in (1.0, 0.0, 1.0, -1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0)]
    interval = balanced_difference(rows, Seed(1)).interval
    assert interval.low < 0.25 < 0.5 < 0.75 < interval.high


def test_no_change_anywhere_still_has_an_interval():
    interval = balanced_difference([[0.0] * 3] * 4, Seed(1)).interval
    assert interval.low < -0.2 and interval.high > 0.2


def test_empty_cells_are_left_out():
    assert balanced_difference([[], [1.0, 0.0]], Seed(1)) == balanced_difference([[1.0, 0.0]], Seed(1))
    nothing = balanced_difference([[]], Seed(1))
    assert (nothing.n, nothing.interval, nothing.settled) == (0, Interval(-1.0, 1.0), False)


def test_the_interval_keeps_its_level():
    """Of 300 simulated evaluations about 95 in 100 intervals hold the truth."""
    generator = np.random.default_rng(7)
    held = 0
    for trial in range(300):
        before = generator.beta(2, 2, 24)
        after = generator.beta(8, 1, 24)
        rows = [
            list((generator.random(9) < q).astype(float) - (generator.random(9) < p).astype(float))
            for p, q in zip(before, after, strict=True)
        ]
        truth = float((after - before).mean())
        held += not balanced_difference(rows, Seed(trial), resamples=800).interval.excludes(truth)
    assert 0.91 <= held / 300 <= 0.985
