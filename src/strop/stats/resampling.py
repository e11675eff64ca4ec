"""The stratified paired bootstrap: what else could this sample have said?

Every cell weighs the same and is resampled within itself, so the mix of families and difficulties is no
source of noise. Randomness comes from the seed that is handed in: the same rows and the same seed give
the same interval on every machine.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from strop.seeds import Seed
from strop.stats.interval import LEVEL, Difference, Interval, floored
from strop.stats.proportions import effective_size

RESAMPLES = 4000


def balanced_difference(
    cells: Sequence[Sequence[float]], seed: Seed, level: float = LEVEL, resamples: int = RESAMPLES
) -> Difference:
    """The mean over cells of the mean paired difference within each; one number in [-1, 1] per task.

    A cell of n is resampled n - 1 at a time (Rao and Wu 1988, JASA 83:231), without which small cells look
    steadier than they are. Cells of a single task are resampled together. The percentile interval is
    widened to what so many tasks cannot rule out. Empty cells are left out.
    """
    rows = [np.asarray(cell, np.float64) for cell in cells if len(cell)]
    if not rows:
        return Difference(math.nan, Interval(-1.0, 1.0, level), 0)
    value = math.fsum(float(row.mean()) for row in rows) / len(rows)
    alone = [row for row in rows if row.size == 1]
    strata = [(row, 1) for row in rows if row.size > 1]
    if alone:
        strata.append((np.concatenate(alone), len(alone)))
    generator = np.random.default_rng((seed / "bootstrap").integer())
    totals = np.zeros(resamples)
    for row, weight in strata:
        totals += weight * _resampled_means(row, resamples, generator)
    low, high = np.quantile(totals / len(rows), (0.5 - level / 2, 0.5 + level / 2))
    # A skewed resample may leave the value itself outside; the interval of a figure holds the figure.
    interval = Interval(min(float(low), value), max(float(high), value), level)
    size = effective_size([row.size for row in rows])
    return Difference(value, floored(interval, value, size, (-1.0, 1.0)), sum(row.size for row in rows))


def _resampled_means(
    row: NDArray[np.float64], resamples: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    drawn = generator.integers(0, row.size, (resamples, max(1, row.size - 1)))
    means: NDArray[np.float64] = row[drawn].mean(axis=1)
    return means
