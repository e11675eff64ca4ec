"""``strop eval SPEC``."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.markup import escape

from strop.cli.bench import open_bench, open_pool
from strop.cli.console import Display
from strop.cli.job import read_overrides
from strop.cli.loop import complete
from strop.cli.main_job import share
from strop.cli.options import count_option, model_option, name_option, runs_option, set_option
from strop.cli.reporting import gather
from strop.cli.runs import NewRun, begin_run, open_store
from strop.cli.wall import WallClock
from strop.evaluation.run import Evaluator
from strop.report.pages import write_page
from strop.report.tables import run_view
from strop.rollout.executor import Executor
from strop.sandbox import kernel
from strop.seeds import Seed
from strop.tasks.catalog import find


@click.command()
@click.argument("spec")
@model_option
@count_option
@set_option
@name_option
@runs_option
def command(
    spec: str, model: str, count: int | None, overrides: Sequence[str], name: str | None, runs: Path
) -> None:
    """Evaluate a model on the tasks of SPEC, once each, and write a report.

    SPEC is a suite (shell), a split (shell:held-out-seeds), a task, a task folder, or a folder of folders.
    Replies are sampled; --set evaluation.temperature=0 takes the likeliest token instead.
    """
    job = read_overrides(model, overrides)
    kernel.require()
    display = Display(WallClock())
    selection = find(spec, count)
    for note in selection.notes:
        display.note(note)
    with open_store(runs) as store:
        with begin_run(store, runs, NewRun("eval", "eval", name, job), display.clock) as folder:

            async def everything() -> None:
                async with (
                    open_pool(job, display.clock) as pool,
                    open_bench(job, model, display.clock) as bench,
                ):
                    executor = Executor(store, pool.lease, display.clock)
                    evaluator = Evaluator(
                        executor, folder.name, Seed(job.seed) / "eval", job.rollout.concurrency
                    )
                    agent = bench.agent(job.evaluation.temperature)
                    with display.stage("evaluate", len(selection.tasks)) as stage:
                        outcomes = await evaluator.run(
                            agent, selection.tasks, "eval", lambda _: stage.advance()
                        )
                        stage.figures = share(outcomes)

            complete(everything)
        report = gather(store, folder, display.clock)
    write_page(report, folder.report)
    display.console.print(run_view(report))
    display.say(escape(f"report: {folder.report}"))
