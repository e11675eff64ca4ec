"""A figure that cannot be printed alone.

An `Estimate` is made with its interval and its sample size, and there is no way to show it without
them; tables and pages take estimates and rates, never bare numbers. Randomness never enters here.
"""

from dataclasses import dataclass
from statistics import NormalDist

LEVEL = 0.95
"""The confidence level wherever none is stated."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval.

    >>> str(Interval(0.571, 0.667))
    '[0.57, 0.67]'
    """

    low: float
    high: float
    level: float = LEVEL

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"an interval from {self.low} to {self.high} holds nothing")

    def __str__(self) -> str:
        return f"[{decimal(self.low)}, {decimal(self.high)}]"

    def excludes(self, value: float) -> bool:
        return not self.low <= value <= self.high


@dataclass(frozen=True)
class Estimate:
    """A value, what the sample cannot rule out, and the size of the sample in tasks.

    >>> str(Estimate(0.62, Interval(0.571, 0.667), 400))
    '0.62 [0.57, 0.67] n=400'
    """

    value: float
    interval: Interval
    n: int

    @property
    def figure(self) -> str:
        """The value alone, for a table that shows interval and n beside it."""
        return "-" if self.n == 0 else decimal(self.value)

    @property
    def range(self) -> str:
        """The interval as text, signed where the value is."""
        return str(self.interval)

    def __str__(self) -> str:
        return f"{self.figure} {self.range} n={self.n}"


@dataclass(frozen=True)
class Difference(Estimate):
    """An estimate of after minus before, printed with its sign.

    >>> str(Difference(0.21, Interval(0.168, 0.25), 400))
    '+0.21 [+0.17, +0.25] n=400'
    """

    @property
    def figure(self) -> str:
        return "-" if self.n == 0 else decimal(self.value, signed=True)

    @property
    def range(self) -> str:
        return f"[{decimal(self.interval.low, signed=True)}, {decimal(self.interval.high, signed=True)}]"

    @property
    def settled(self) -> bool:
        """Whether the interval excludes zero, so that the sign can be told from chance."""
        return self.n > 0 and self.interval.excludes(0.0)


def decimal(value: float, *, signed: bool = False) -> str:
    """Two decimals, without a negative zero."""
    rounded = round(value, 2) + 0.0
    return f"{rounded:+.2f}" if signed and rounded else f"{rounded:.2f}"


def quantile(level: float) -> float:
    """The standard normal quantile that a two-sided interval of `level` reaches out to.

    Raises:
        ValueError: `level` is not strictly between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1, not {level}")
    return NormalDist().inv_cdf(0.5 + level / 2)


def unseen(n: float, level: float = LEVEL) -> float:
    """How probable an outcome may still be that none of `n` draws showed (Clopper and Pearson at 0 of n)."""
    return 1.0 - ((1.0 - level) / 2) ** (1.0 / n) if n > 0 else 1.0


def floored(interval: Interval, value: float, n: float, bounds: tuple[float, float]) -> Interval:
    """`interval`, widened to what `n` draws of a quantity within `bounds` cannot rule out.

    Intervals that measure their width by the spread of the sample collapse where every draw agreed, as
    happens in small strata; an outcome at either bound that was merely never drawn keeps them open.
    """
    missed = unseen(n, interval.level)
    low = min(interval.low, value - missed * (value - bounds[0]))
    high = max(interval.high, value + missed * (bounds[1] - value))
    return Interval(max(low, bounds[0]), min(high, bounds[1]), interval.level)
