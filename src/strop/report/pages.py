"""The report of a run as one HTML file that needs nothing else.

No script, no network: styles and charts are inside, and a content policy forbids the rest. Every value is
escaped by the template engine, and a bare fraction is refused by it: figures are shown as rates and
estimates, with their intervals and sizes, or not at all.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from strop.errors import Refusal
from strop.evaluation.comparison import Change, Comparison, claim
from strop.evaluation.estimate import Row
from strop.report import charts
from strop.report.run_report import RunReport, Step
from strop.report.text import count, duration, moment, printable
from strop.report.timing import processes, throughput
from strop.report.transcript import transcript
from strop.stats.interval import Estimate
from strop.stats.proportions import Rate

WIDE, NARROW = 760, 350
"""Pixels at which the large charts are drawn, for a screen and for a phone."""


def render_page(report: RunReport) -> str:
    """The page of a run, complete."""
    return (
        _templates()
        .get_template("run.html")
        .render(
            report=report,
            started=moment(report.started),
            took=duration(report.seconds),
            reward=_both([charts.reward_chart(report.steps, width) for width in (WIDE, NARROW)]),
            staleness=_both(
                [charts.staleness_chart(report.steps, report.staleness_bound, w) for w in (WIDE, NARROW)]
            ),
            small=_small_charts(report.steps),
            processes=processes(report.steps),
            throughput=throughput(report.steps),
            transcripts=_grouped(report),
        )
    )


def write_page(report: RunReport, path: Path) -> None:
    """Write the page of a run; the file appears whole or not at all, and replaces an older one.

    Raises:
        Refusal: it cannot be written.
    """
    page = render_page(report).encode()
    scratch = ""
    try:
        handle, scratch = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(page)
        Path(scratch).chmod(0o644)
        Path(scratch).replace(path)
    except OSError as error:
        raise Refusal(
            f"cannot write the report: {error.strerror}", where=str(path), remedy="give another place for it"
        ) from error
    finally:
        if scratch:
            Path(scratch).unlink(missing_ok=True)


def _small_charts(steps: Sequence[Step]) -> tuple[tuple[str, Markup], ...]:
    quantities: tuple[tuple[str, list[tuple[float, float | None]]], ...] = (
        ("Loss", [(step.step, step.loss) for step in steps]),
        ("Entropy, nats per token", [(step.step, step.entropy) for step in steps]),
        ("Sampled tokens per second", [(step.step, step.tokens_per_second) for step in steps]),
        ("Sandboxes per second", [(step.step, step.sandboxes_per_second) for step in steps]),
    )
    drawn = [(title, charts.quantity_chart(title, points)) for title, points in quantities if _told(points)]
    return tuple((title, Markup(svg)) for title, svg in drawn if svg)


def _told(points: Sequence[tuple[float, float | None]]) -> bool:
    """Whether anybody measured this: a quantity that is nothing in every step was not."""
    return any(points[index][1] for index in range(len(points)))


def _both(drawings: Sequence[str]) -> Markup:
    """A drawing for wide screens and one for narrow ones, of which the stylesheet shows one."""
    wide, narrow = drawings
    if not wide:
        return Markup()
    return Markup('<div class="wide">{}</div><div class="narrow">{}</div>').format(
        Markup(wide), Markup(narrow)
    )


def _grouped(report: RunReport) -> Mapping[str, Sequence[Any]]:
    shown = [transcript(trace) for trace in report.transcripts]
    titles = {"passed": "Solved", "failed": "Not solved", "unscored": "Not scored"}
    groups = {title: [item for item in shown if item.outcome == key] for key, title in titles.items()}
    return {title: items for title, items in groups.items() if items}


def _estimate(figure: object) -> Estimate:
    """The figure as an estimate.

    Raises:
        TypeError: it is a bare number, which has no interval to be shown with.
    """
    if isinstance(figure, Rate):
        return figure.estimate()
    if isinstance(figure, Estimate):
        return figure
    raise TypeError(f"{figure!r} has no interval and sample size, so it cannot be shown")


def _inline(figure: object) -> str:
    return str(_estimate(figure))


def _bars(row: Change | Row) -> Markup:
    if isinstance(row, Row):
        return Markup(charts.interval_chart([(row.rate.estimate(), "after")]))
    return Markup(charts.interval_chart([(row.before.estimate(), "before"), (row.after.estimate(), "after")]))


def _shown(value: object) -> object:
    """What the template engine prints: text made printable, counts grouped, fractions refused."""
    if isinstance(value, Markup) or value is None:
        return value
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return count(value)
    raise TypeError(f"the page may not show {value!r} bare")


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("strop.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(estimate=_estimate, bars=_bars, claim=claim, inline=_inline)
    environment.tests.update(comparison=lambda result: isinstance(result, Comparison))
    return environment
