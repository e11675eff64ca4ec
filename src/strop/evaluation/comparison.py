"""Two arms on the same tasks: what changed, overall and stratum by stratum.

Only tasks that both arms scored enter a difference, in the same weights as the headline; the others are
counted, and bounds say what they could have made of it. What may be said of a change is generated from its
interval, never from the sign of a mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from strop.errors import Refusal
from strop.evaluation.estimate import Summary, balanced_rate, by_task, filled, rate, summarise
from strop.evaluation.strata import COORDINATES, Cell, Coordinate, Outcome, cell, ordered
from strop.seeds import Seed
from strop.stats.interval import Difference, Estimate
from strop.stats.pairing import McNemar, mcnemar, paired_difference
from strop.stats.proportions import Rate
from strop.stats.resampling import balanced_difference

Pair = tuple[Outcome, Outcome]


@dataclass(frozen=True)
class Change:
    """A stratum before and after, over the tasks that both arms scored."""

    stratum: str
    before: Rate
    after: Rate
    difference: Difference
    changed: McNemar


@dataclass(frozen=True)
class ChangeTable:
    """One cut through a comparison; `coordinate` is a key of `COORDINATES`."""

    coordinate: str
    rows: tuple[Change, ...]


@dataclass(frozen=True)
class Headline:
    """The mean over cells, before and after, over the tasks that both arms scored."""

    before: Estimate
    after: Estimate
    difference: Difference


@dataclass(frozen=True)
class Comparison:
    """Two arms on the same tasks; `before` and `after` summarise each arm's own attempts."""

    before: Summary
    after: Summary
    headline: Headline
    overall: Change
    tables: tuple[ChangeTable, ...]
    alone: int
    """Tasks that only one arm attempted; they are in no difference."""
    unpaired: int
    """Tasks that both attempted and at least one left unscored."""
    worst: Difference
    """The headline difference had every unscored attempt gone against the second arm."""
    best: Difference
    """The headline difference had every unscored attempt gone for the second arm."""


def compare(before: Sequence[Outcome], after: Sequence[Outcome], seed: Seed) -> Comparison:
    """Two arms, paired task by task; `seed` fixes the bootstrap of the headline difference.

    Raises:
        Refusal: a task of the same name has another content in the second arm.
        ValueError: a task was attempted twice in one arm.
    """
    first, second = by_task(before), by_task(after)
    everyone = [(first[name], second[name]) for name in first if name in second]
    _refuse_changed_tasks(everyone)
    pairs = [(then, now) for then, now in everyone if then.scored and now.scored]
    headline = Headline(
        balanced_rate([then for then, _ in pairs]),
        balanced_rate([now for _, now in pairs]),
        _balanced_change(pairs, seed),
    )
    return Comparison(
        before=summarise(before),
        after=summarise(after),
        headline=headline,
        overall=_change("all", pairs),
        tables=tuple(ChangeTable(name, _changes(pairs, cut)) for name, cut in COORDINATES.items()),
        alone=len(first) + len(second) - 2 * len(everyone),
        unpaired=len(everyone) - len(pairs),
        worst=_balanced_change(
            [(filled(a, passed=True), filled(b, passed=False)) for a, b in everyone], seed
        ),
        best=_balanced_change([(filled(a, passed=False), filled(b, passed=True)) for a, b in everyone], seed),
    )


def claim(comparison: Comparison) -> str:
    """What the headline allows to be said, in words."""
    difference = comparison.headline.difference
    if difference.n == 0:
        return "No task was scored in both evaluations, so nothing can be said."
    if not difference.settled:
        return "These tasks cannot tell the change from chance."
    return f"The pass rate {'rose' if difference.value > 0 else 'fell'}."


def sentence(comparison: Comparison) -> str:
    """The claim with its figures."""
    headline = comparison.headline
    figures = f"{headline.before} before, {headline.after} after, paired difference {headline.difference}"
    return claim(comparison) if headline.difference.n == 0 else f"{claim(comparison)[:-1]}: {figures}."


def _refuse_changed_tasks(pairs: Sequence[Pair]) -> None:
    changed = [(then, now) for then, now in pairs if then.task_id != now.task_id]
    if changed:
        then, now = changed[0]
        raise Refusal(
            f"{len(changed)} of {len(pairs)} tasks changed between the two evaluations",
            where=f"{then.task}: id {then.task_id} before, {now.task_id} after",
            remedy="evaluate both models on the same version of the tasks",
        )


def _changes(pairs: Sequence[Pair], cut: Coordinate) -> tuple[Change, ...]:
    strata = ordered([cut(then) for then, _ in pairs])
    return tuple(_change(name, [pair for pair in pairs if cut(pair[0]) == name]) for name in strata)


def _change(stratum: str, pairs: Sequence[Pair]) -> Change:
    before, after = [bool(then.passed) for then, _ in pairs], [bool(now.passed) for _, now in pairs]
    return Change(
        stratum,
        rate([then for then, _ in pairs]),
        rate([now for _, now in pairs]),
        paired_difference([float(passed) for passed in before], [float(passed) for passed in after]),
        mcnemar(before, after),
    )


def _balanced_change(pairs: Sequence[Pair], seed: Seed) -> Difference:
    cells: dict[Cell, list[float]] = {}
    for then, now in pairs:
        cells.setdefault(cell(then), []).append(float(bool(now.passed)) - float(bool(then.passed)))
    return balanced_difference([cells[key] for key in sorted(cells)], seed)
