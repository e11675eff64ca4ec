"""``strop train RECIPE``."""

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import click
from rich.markup import escape

from strop.cli.bench import open_pool
from strop.cli.console import Display
from strop.cli.job import read_job, require_positions
from strop.cli.loop import complete
from strop.cli.main_job import MainJob
from strop.cli.options import name_option, runs_option, set_option
from strop.cli.plan import Plan
from strop.cli.reporting import gather
from strop.cli.runs import NewRun, begin_run, cache_folder, open_store
from strop.cli.wall import WallClock
from strop.engine.models import model_folder
from strop.report.pages import write_page
from strop.report.tables import run_view
from strop.sandbox import kernel


@click.command()
@click.argument("recipe", type=click.Path(path_type=Path))
@set_option
@name_option
@runs_option
@click.option("--from-scratch", is_flag=True, help="Build and warm up the embedded model first.")
@click.option("--open/--no-open", "browse", default=True, help="Open the report in a browser at the end.")
def command(
    recipe: Path, overrides: Sequence[str], name: str | None, runs: Path, from_scratch: bool, browse: bool
) -> None:
    """Post-train a model by a RECIPE: check, warm up, reinforce, evaluate, report."""
    job = read_job(recipe, overrides)
    plan = Plan.of(job, str(recipe))
    if from_scratch:
        require_positions(job, job.embedded.positions, str(recipe))
    else:
        model_folder(job.model, cache_folder())
    kernel.require()
    display = Display(WallClock())
    with open_store(runs) as store:
        with begin_run(store, runs, NewRun("train", recipe.stem, name, job), display.clock) as folder:
            display.say(f"[bold]{folder.name}[/]  {escape(str(folder.path))}")
            main_job = MainJob(job, plan, folder, store, display)

            async def everything() -> None:
                async with open_pool(job, display.clock) as pool:
                    display.say(f"[dim]{pool.limits_note()}[/]")
                    await main_job.run(pool, from_scratch=from_scratch)

            complete(everything)
        report = gather(store, folder, display.clock)
    write_page(report, folder.report)
    display.console.print(run_view(report))
    display.say(escape(f"report: {folder.report}"))
    if browse and sys.stdout.isatty():
        webbrowser.open(folder.report.resolve().as_uri())
