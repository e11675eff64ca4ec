"""``strop run TASK``."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click

from strop.agent.dialect import FencedDialect
from strop.agent.episode import Agent, EpisodeSettings
from strop.agent.scripted import ScriptedPolicy, idler, lines
from strop.cli.bench import open_bench, open_pool, toolbox
from strop.cli.console import Display
from strop.cli.job import read_overrides, read_scripted
from strop.cli.loop import complete
from strop.cli.options import model_option, name_option, runs_option, set_option
from strop.cli.runs import NewRun, begin_run, open_store
from strop.cli.wall import WallClock
from strop.errors import EXIT_BROKEN, EXIT_NEGATIVE, Refusal
from strop.report.transcript import transcript_view
from strop.rollout.executor import Executor, Ticket
from strop.sandbox import kernel
from strop.seeds import Seed
from strop.tasks.catalog import Script, Selection, find
from strop.trace import Trace


@click.command()
@click.argument("task")
@model_option
@click.option(
    "--agent",
    "who",
    type=click.Choice(["model", "reference", "idler"]),
    default="model",
    show_default=True,
    help="Who plays: the model, the task's own reference, or an agent that does nothing.",
)
@set_option
@name_option
@runs_option
def command(task: str, model: str, who: str, overrides: Sequence[str], name: str | None, runs: Path) -> int:
    """Play TASK once and print the transcript and the reward.

    TASK is a task folder (task.toml, instruction.md, tests/test.sh) or a suite's task, such as
    shell/lookup-easy-12. The exit code is 0 when the task was passed and 1 when it was not.
    """
    job = read_overrides(model, overrides) if who == "model" else read_scripted(who, overrides)
    kernel.require()
    display = Display(WallClock())
    selection = find(task)
    if len(selection.tasks) != 1:
        first = selection.tasks[0].name
        raise Refusal(f"{task} is {len(selection.tasks)} tasks", nearest=first, remedy="name one of them")
    for note in selection.notes:
        display.note(note)
    script = idler if who == "idler" else reference_of(selection, task)

    async def play(run: str) -> Trace:
        async with AsyncExitStack() as stack:
            pool = await stack.enter_async_context(open_pool(job, display.clock))
            if who == "model":
                bench = await stack.enter_async_context(open_bench(job, model, display.clock))
                agent = bench.agent(job.sampling.temperature)
            else:
                agent = scripted(who, script)
            ticket = Ticket(run, "run", selection.tasks[0], "single", Seed(job.seed) / "run")
            return await Executor(store, pool.lease, display.clock).play(agent, ticket)

    with (
        open_store(runs) as store,
        begin_run(store, runs, NewRun("run", "run", name, job), display.clock) as folder,
    ):
        trace = complete(lambda: play(folder.name))
    display.console.print(transcript_view(trace))
    if not trace.verdict.scored:
        return EXIT_BROKEN
    return 0 if trace.verdict.passed else EXIT_NEGATIVE


def scripted(name: str, script: Script) -> Agent:
    """An agent that follows a script in as many turns as it takes."""
    dialect = FencedDialect()
    policy = ScriptedPolicy(name, script, dialect)
    return Agent(policy, dialect, toolbox, EpisodeSettings(turns=64, seconds=600), system_prompt=False)


def reference_of(selection: Selection, where: str) -> Script:
    """The suite's agent, else the lines of the folder's ``solve.sh``.

    Raises:
        Refusal: the task brings no reference.
    """
    task = selection.tasks[0]
    if selection.suite is not None:
        return selection.suite.reference(task)
    solve = next((file for file in task.solution if file.path == "/solution/solve.sh"), None)
    if solve is None:
        raise Refusal(
            f"{task.name} brings no reference",
            where=f"{where}/solution/solve.sh",
            remedy="add solution/solve.sh, or choose --agent model",
        )
    try:
        return lines(solve.data.decode())
    except UnicodeDecodeError as error:
        raise Refusal(
            f"solve.sh is not UTF-8: byte {error.start} is wrong",
            where=f"{where}/solution/solve.sh",
            remedy="save it as UTF-8",
        ) from error
