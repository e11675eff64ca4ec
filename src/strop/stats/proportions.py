"""How often something happened, with Wilson's interval (Wilson 1927, JASA 22:209, the score interval).

A `Rate` is two counts, so its size and its interval always travel with it. Wald's interval is not
offered: it is empty at 0 of n and at n of n, which is where evaluations end up.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from strop.stats.interval import LEVEL, Estimate, Interval, quantile


@dataclass(frozen=True)
class Rate:
    """`passed` out of `total`.

    >>> print(Rate(248, 400))
    0.62 [0.57, 0.67] n=400
    """

    passed: int
    total: int

    def __post_init__(self) -> None:
        if not 0 <= self.passed <= self.total:
            raise ValueError(f"{self.passed} of {self.total} is no rate")

    @property
    def value(self) -> float:
        """The share; not a number where nothing was counted."""
        return self.passed / self.total if self.total else math.nan

    def interval(self, level: float = LEVEL) -> Interval:
        return wilson(self.value, self.total, level)

    def estimate(self, level: float = LEVEL) -> Estimate:
        return Estimate(self.value, self.interval(level), self.total)

    def __str__(self) -> str:
        return str(self.estimate())


def wilson(share: float, n: float, level: float = LEVEL) -> Interval:
    """The score interval of a share among `n` draws; `n` may be an effective, fractional size.

    With nothing drawn, everything is possible: [0, 1].
    """
    if n <= 0:
        return Interval(0.0, 1.0, level)
    z = quantile(level)
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if share <= 0 else max(0.0, centre - half)
    high = 1.0 if share >= 1 else min(1.0, centre + half)
    return Interval(low, high, level)


def balanced(cells: Sequence[Rate], level: float = LEVEL) -> Estimate:
    """The mean of the cells' rates, each cell weighing the same however many tasks it holds.

    The interval is Wilson's at the effective size 1 / sum(w^2 / n) (Kish 1965): the size of a simple sample
    that would carry as much information if every cell had the same rate. Where cells differ, the true
    spread is smaller, so the interval errs on the wide side. Cells without a count are left out.
    """
    counted = [cell for cell in cells if cell.total]
    if not counted:
        return Estimate(math.nan, Interval(0.0, 1.0, level), 0)
    value = math.fsum(cell.value for cell in counted) / len(counted)
    size = effective_size([cell.total for cell in counted])
    return Estimate(value, wilson(value, size, level), sum(cell.total for cell in counted))


def effective_size(sizes: Sequence[int]) -> float:
    """What cells of these sizes are worth, in draws of a simple sample, when all weigh the same."""
    return len(sizes) ** 2 / math.fsum(1 / size for size in sizes)
