"""From the outcomes of one arm to its figures.

The headline is the pass rate as the mean over cells (family and difficulty), each weighing the same.
Unscored attempts are in no rate; they are counted apart, and bounds say what the headline would be had all
of them failed or passed. Every figure is a `Rate` or an `Estimate`: none can be printed without its
interval and size.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from strop.evaluation.strata import COORDINATES, Cell, Coordinate, Outcome, cell, ordered
from strop.stats.interval import Estimate
from strop.stats.proportions import Rate, balanced


@dataclass(frozen=True)
class Row:
    """A stratum's pass rate over its scored attempts, and how many were not scored."""

    stratum: str
    rate: Rate
    unscored: int


@dataclass(frozen=True)
class Table:
    """One cut through the results; `coordinate` is a key of `COORDINATES`."""

    coordinate: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Summary:
    """One arm."""

    headline: Estimate
    overall: Rate
    """Pooled over tasks, whatever cell they are of."""
    tables: tuple[Table, ...]
    unscored: int
    faults: Mapping[str, int]
    """Unscored attempts by ``boundary:code``."""
    worst: Estimate
    """The headline had every unscored attempt failed."""
    best: Estimate
    """The headline had every unscored attempt passed."""
    truncated: Rate
    """Attempts that ended because their tokens ran out."""
    unmeasured: tuple[str, ...]
    """Cells without a single scored attempt, which the headline therefore leaves out."""


def summarise(outcomes: Sequence[Outcome]) -> Summary:
    """The figures of one arm, one attempt per task.

    Raises:
        ValueError: a task was attempted twice, so that its attempts are no independent draws.
    """
    by_task(outcomes)
    scored = [row for row in outcomes if row.scored]
    measured = {cell(row) for row in scored}
    return Summary(
        headline=balanced_rate(scored),
        overall=rate(scored),
        tables=tuple(Table(name, _rows(outcomes, cut)) for name, cut in COORDINATES.items()),
        unscored=len(outcomes) - len(scored),
        faults=dict(sorted(Counter(row.fault or "unknown" for row in outcomes if not row.scored).items())),
        worst=balanced_rate([filled(row, passed=False) for row in outcomes]),
        best=balanced_rate([filled(row, passed=True) for row in outcomes]),
        truncated=Rate(sum(row.stop == "tokens" for row in outcomes), len(outcomes)),
        unmeasured=tuple(str(missing) for missing in sorted({cell(row) for row in outcomes} - measured)),
    )


def by_task(outcomes: Sequence[Outcome]) -> dict[str, Outcome]:
    """The outcomes by the name of their task.

    Raises:
        ValueError: a task was attempted twice.
    """
    rows = {row.task: row for row in outcomes}
    if len(rows) != len(outcomes):
        twice = next(name for name, count in Counter(row.task for row in outcomes).items() if count > 1)
        raise ValueError(f"{twice} was attempted more than once; give one outcome per task")
    return rows


def rate(scored: Sequence[Outcome]) -> Rate:
    return Rate(sum(bool(row.passed) for row in scored), len(scored))


def balanced_rate(scored: Sequence[Outcome]) -> Estimate:
    """The mean of the pass rates of the cells."""
    cells: dict[Cell, list[Outcome]] = {}
    for row in scored:
        cells.setdefault(cell(row), []).append(row)
    return balanced([rate(rows) for rows in cells.values()])


def filled(outcome: Outcome, *, passed: bool) -> Outcome:
    """The outcome as it would be had an unscored attempt passed or failed; a scored one as it is."""
    return outcome if outcome.scored else replace(outcome, passed=passed, score=float(passed))


def _rows(outcomes: Sequence[Outcome], cut: Coordinate) -> tuple[Row, ...]:
    rows = []
    for stratum in ordered([cut(row) for row in outcomes]):
        members = [row for row in outcomes if cut(row) == stratum]
        scored = [row for row in members if row.scored]
        rows.append(Row(stratum, rate(scored), len(members) - len(scored)))
    return tuple(rows)
