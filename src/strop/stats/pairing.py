"""Two arms on the same tasks: the difference per task, and whether chance could explain it.

Pairing removes what both arms share, the difficulty of each task. Pass and fail use Newcombe's interval
(1998, Statistics in Medicine 17:2635, method 10), which keeps its level where nearly every task agrees;
graded scores use Student's t. Scores lie in [0, 1].
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from strop.stats.interval import LEVEL, Difference, Interval, floored
from strop.stats.proportions import wilson


def paired_difference(before: Sequence[float], after: Sequence[float], level: float = LEVEL) -> Difference:
    """The mean of after minus before, over tasks given in the same order.

    Newcombe's interval where every score is 0 or 1, else Student's with n - 1 degrees of freedom, widened
    to what n tasks cannot rule out; no tasks at all leave everything possible.

    Raises:
        ValueError: the arms differ in length, or a score lies outside [0, 1].
    """
    first, second = _scores(before), _scores(after)
    if first.shape != second.shape:
        raise ValueError(f"{first.size} scores before and {second.size} after cannot be paired")
    n = first.size
    if n == 0:
        return Difference(math.nan, Interval(-1.0, 1.0, level), 0)
    differences = second - first
    value = float(differences.mean())
    if np.isin((first, second), (0.0, 1.0)).all():
        return Difference(value, _newcombe(first, second, level), n)
    spread = float(differences.std(ddof=1)) if n > 1 else 0.0
    half = float(stdtrit(n - 1, 0.5 + level / 2)) * spread / math.sqrt(n) if n > 1 else 0.0
    interval = Interval(value - half, value + half, level)
    return Difference(value, floored(interval, value, n, (-1.0, 1.0)), n)


def _scores(scores: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    array = np.asarray(scores, np.float64)
    if array.size and not (np.isfinite(array) & (array >= 0) & (array <= 1)).all():
        raise ValueError("scores lie between 0 and 1")
    return array


def _newcombe(
    before: np.ndarray[tuple[int], np.dtype[np.float64]],
    after: np.ndarray[tuple[int], np.dtype[np.float64]],
    level: float,
) -> Interval:
    n = before.size
    both = float((before * after).sum())
    passed_before, passed_after = float(before.sum()), float(after.sum())
    p, q = passed_after / n, passed_before / n
    one, two = wilson(p, n, level), wilson(q, n, level)
    phi = 0.0
    margins = passed_after * (n - passed_after) * passed_before * (n - passed_before)
    if margins:
        # Both-passed times both-failed minus gained times lost, which is n x both - passed x passed.
        covariance = n * both - passed_before * passed_after
        covariance = max(covariance - n / 2, 0.0) if covariance > 0 else covariance
        phi = covariance / math.sqrt(margins)
    down, up = (p - one.low, two.high - q), (one.high - p, q - two.low)
    low = p - q - math.sqrt(max(0.0, down[0] ** 2 - 2 * phi * down[0] * down[1] + down[1] ** 2))
    high = p - q + math.sqrt(max(0.0, up[0] ** 2 - 2 * phi * up[0] * up[1] + up[1] ** 2))
    return Interval(max(-1.0, low), min(1.0, high), level)


@dataclass(frozen=True)
class McNemar:
    """Tasks whose verdict changed, and the exact two-sided p of so lopsided a split by chance.

    Example: ``McNemar(gained=9, lost=1, p=0.0215)``.
    """

    gained: int
    lost: int
    p: float


def mcnemar(before: Sequence[bool], after: Sequence[bool]) -> McNemar:
    """The exact test of McNemar (1947): under no effect each change is as likely a gain as a loss.

    Raises:
        ValueError: the arms differ in length.
    """
    pairs = list(zip(before, after, strict=True))
    gained = sum(now and not then for then, now in pairs)
    lost = sum(then and not now for then, now in pairs)
    changed = gained + lost
    tail = sum(math.comb(changed, k) for k in range(min(gained, lost) + 1))
    return McNemar(gained, lost, min(1.0, 2 * tail / 2**changed))
