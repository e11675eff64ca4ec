"""``strop show RUN [EPISODE]``."""

from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table
from sqlalchemy import select

from strop.cli.console import Display
from strop.cli.options import runs_option
from strop.cli.runs import read_store
from strop.cli.wall import WallClock
from strop.errors import Refusal, nearest
from strop.report.transcript import transcript_view
from strop.store import Episode, Store

ROWS = 30
"""Episodes listed unless more are asked for."""


@click.command()
@click.argument("run")
@click.argument("episode", required=False)
@click.option("--stage", help="Only episodes of one stage, such as eval:after:seeds.")
@click.option("--failed", is_flag=True, help="Only episodes that did not pass.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=ROWS, show_default=True, help="How many to list."
)
@runs_option
def command(run: str, episode: str | None, stage: str | None, failed: bool, limit: int, runs: Path) -> None:
    """Show the episodes of RUN, or the transcript of one EPISODE (any beginning of its id will do)."""
    display = Display(WallClock())
    with read_store(runs) as store:
        if episode is not None:
            display.console.print(transcript_view(store.trace(run, episode)))
            return
        store.run(run)
        display.console.print(listing(store, run, stage, failed, limit))


def listing(store: Store, run: str, stage: str | None, failed: bool, limit: int) -> Table:
    """The latest episodes of a run."""
    with store.read() as session:
        stages = set(session.scalars(select(Episode.stage).where(Episode.run == run).distinct()))
    if stage is not None and stage not in stages:
        raise Refusal(
            f"{run} has no episodes of a stage {stage!r}",
            where=f"run {run}",
            nearest=nearest(stage, stages),
            remedy=f"strop show {run} lists its episodes",
        )
    query = select(Episode).where(Episode.run == run).order_by(Episode.dispatched.desc()).limit(limit)
    if stage is not None:
        query = query.where(Episode.stage == stage)
    if failed:
        query = query.where(Episode.passed.is_not(True))
    table = Table(title=f"latest episodes of {run}", title_justify="left", box=None, header_style="bold")
    for heading in ("episode", "stage", "task", "turns", "stop", "score"):
        table.add_column(heading, justify="right" if heading in ("turns", "score") else "left")
    with store.read() as session:
        for row in session.scalars(query):
            score = row.fault or ("open" if row.score is None else f"{row.score:g}")
            cells = (row.id[:8], row.stage, row.task, str(row.turns or 0), row.stop or "", score)
            table.add_row(*map(escape, cells))
    return table
