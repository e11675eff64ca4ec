"""The tables of a run for a terminal.

They show what the page shows, from the same data. A cell with a figure is made from a rate or an estimate
and carries its interval; everything else is text or a count.
"""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from strop.evaluation.comparison import ChangeTable, Comparison, sentence
from strop.evaluation.estimate import Summary, Table
from strop.report.charts import trailing
from strop.report.run_report import Evaluation, RunReport, Stage, Step
from strop.report.text import count, duration, figures, moment, printable
from strop.report.timing import processes, throughput
from strop.stats.interval import Difference, Estimate, decimal
from strop.stats.proportions import Rate

SHOWN = ("type", "difficulty", "steps")
"""The cuts that are always shown; the others on request."""


def run_view(report: RunReport) -> RenderableType:
    """Everything but the transcripts, in the order of the page."""
    facts = _grid("", "")
    for name, value in _facts(report).items():
        facts.add_row(Text(printable(name), "dim"), printable(value))
    parts: list[RenderableType] = [Text(f"{report.kind} {printable(report.name)}", "bold"), facts]
    parts += [evaluation_view(evaluation) for evaluation in report.evaluations]
    parts += [_titled("Learning", step_table(report.steps))] if report.steps else []
    parts += [_titled("Where the time went", time_table(report.steps))] if processes(report.steps) else []
    parts += [_titled("Every episode", stage_table(report.stages))] if report.stages else []
    return Group(*parts)


def evaluation_view(evaluation: Evaluation, cuts: Sequence[str] = SHOWN) -> RenderableType:
    """One set of tasks: the headline in words, a table for each cut, what was unscored and truncated."""
    result = evaluation.result
    parts: list[RenderableType] = [Text(printable(evaluation.about), "dim")]
    if isinstance(result, Comparison):
        parts.append(Text(sentence(result)))
        parts += [_comparison_table(table) for table in result.tables if table.coordinate in cuts]
        parts += [*_uncertain(result.before, " before"), *_uncertain(result.after, " after")]
        if result.unpaired or result.alone:
            parts.append(
                Text(
                    f"{count(result.unpaired)} tasks lack a score on one side, {count(result.alone)} were "
                    f"attempted on one side only; at worst {result.worst}, at best {result.best}.",
                    "dim",
                )
            )
    else:
        parts.append(Text(f"Pass rate, mean over cells: {result.headline}; pooled: {result.overall}"))
        parts += [_summary_table(table) for table in result.tables if table.coordinate in cuts]
        parts += _uncertain(result)
    return _titled(evaluation.title, Group(*parts))


def step_table(steps: Sequence[Step], last: int = 10) -> Grid:
    """The last steps, a row each; the trailing reward is the mean of ten steps with its 95 % interval."""
    grid = _grid("step", "reward", "trailing", "staleness", "loss", "entropy", "tokens/s", "boxes/s")
    means = trailing([step.reward for step in steps])
    if len(steps) > last:
        grid.caption = f"the last {last} of {len(steps)} steps"
    for step, mean in list(zip(steps, means, strict=True))[-last:]:
        grid.add_row(
            count(step.step),
            f"{decimal(step.reward)} n={count(step.episodes)}",
            _figure(mean),
            f"{figures(step.staleness_mean)} \u2264 {figures(step.staleness_max)}",
            "-" if step.loss is None else figures(step.loss),
            "-" if step.entropy is None else figures(step.entropy),
            figures(step.tokens_per_second),
            figures(step.sandboxes_per_second),
        )
    return grid


def time_table(steps: Sequence[Step]) -> RenderableType:
    """Where the time of each process went over all steps, and what went through per second."""
    grid = _grid("process", "seconds", "of which")
    grid.columns[2].justify = "left"
    for process in processes(steps):
        parts = ", ".join(f"{part.name} {part.seconds}" for part in process.parts)
        grid.add_row(printable(process.name), process.seconds, printable(parts))
    rates = [Text(f"{name}: {value}", "dim") for name, value in throughput(steps)]
    return Group(grid, *rates)


def stage_table(stages: Sequence[Stage]) -> Grid:
    """Every dispatched episode, once."""
    grid = _grid("stage", "dispatched", "scored", "truncated", "unscored", "faults")
    grid.columns[5].justify = "left"
    for stage in stages:
        counts = (stage.dispatched, stage.scored, stage.truncated, stage.dispatched - stage.scored)
        grid.add_row(printable(stage.name), *map(count, counts), _faults(stage.faults))
    return grid


def _comparison_table(table: ChangeTable) -> Grid:
    grid = _grid(table.coordinate, "n", "before", "after", "difference")
    for row in table.rows:
        figures_of_row = (_figure(row.before), _figure(row.after), _figure(row.difference))
        grid.add_row(printable(row.stratum), count(row.difference.n), *figures_of_row)
    return grid


def _summary_table(table: Table) -> Grid:
    grid = _grid(table.coordinate, "n", "unscored", "pass rate")
    for row in table.rows:
        grid.add_row(printable(row.stratum), count(row.rate.total), count(row.unscored), _figure(row.rate))
    return grid


def _figure(figure: Rate | Estimate) -> Text:
    """A figure with its interval; a difference that excludes zero stands out."""
    estimate = figure.estimate() if isinstance(figure, Rate) else figure
    style = ""
    if isinstance(estimate, Difference) and estimate.settled:
        style = "bold green" if estimate.value > 0 else "bold red"
    return Text.assemble((estimate.figure, style), " ", (estimate.range, "dim"))


def _uncertain(summary: Summary, arm: str = "") -> list[RenderableType]:
    lines = [Text(f"Cut short by their token budget{arm}: {summary.truncated}", "dim")]
    if summary.unscored:
        lost = f"{count(summary.unscored)} attempts{arm} unscored ({_faults(summary.faults)}), in no rate; "
        bounds = f"had all failed {summary.worst}, had all passed {summary.best}."
        lines.append(Text(lost + bounds, "dim"))
    if summary.unmeasured:
        lines.append(Text(f"Without any scored attempt{arm}: {'; '.join(summary.unmeasured)}.", "yellow"))
    return list(lines)


def _faults(faults: Mapping[str, int]) -> str:
    return printable(", ".join(f"{code} {count(number)}" for code, number in faults.items()))


def _facts(report: RunReport) -> dict[str, str]:
    times = {"started": moment(report.started), "took": duration(report.seconds), "ended": report.outcome}
    return {**times, **report.facts}


def _titled(title: str, body: RenderableType) -> RenderableType:
    return Group(Text(), Text(printable(title), "bold"), Padding(body, (0, 0, 0, 2)))


def _grid(first: str, *others: str) -> Grid:
    """A quiet table: names to the left, figures to the right, no frame."""
    grid = Grid(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, show_header=bool(first))
    grid.add_column(first)
    for header in others:
        grid.add_column(header, justify="right" if first else "left")
    return grid
