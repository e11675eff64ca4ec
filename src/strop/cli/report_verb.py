"""``strop report [RUN]``."""

from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from strop.cli.console import Display
from strop.cli.options import runs_option
from strop.cli.reporting import gather, runs_of
from strop.cli.runs import RunFolder, read_store
from strop.cli.wall import WallClock
from strop.report.pages import write_page
from strop.report.tables import run_view
from strop.report.text import moment
from strop.store import Store


@click.command()
@click.argument("run", required=False)
@runs_option
def command(run: str | None, runs: Path) -> None:
    """Write the report of RUN as one HTML file and print it; without RUN list the runs."""
    display = Display(WallClock())
    with read_store(runs) as store:
        if run is None:
            display.console.print(listing(store))
            return
        folder = RunFolder(runs / store.run(run).name)
        report = gather(store, folder, display.clock)
    folder.path.mkdir(exist_ok=True)
    write_page(report, folder.report)
    display.console.print(run_view(report))
    display.say(escape(f"report: {folder.report}"))


def listing(store: Store) -> Table:
    """Every run, latest first."""
    table = Table(box=None, header_style="bold")
    for heading in ("run", "kind", "started", "outcome"):
        table.add_column(heading)
    for row in runs_of(store):
        table.add_row(row.name, row.kind, moment(row.started), row.outcome)
    return table
