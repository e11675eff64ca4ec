"""``strop tasks list|show|new``."""

import shlex
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from strop.cli.console import Display
from strop.cli.options import count_option
from strop.cli.wall import WallClock
from strop.errors import Refusal
from strop.tasks.catalog import find, suites
from strop.tasks.folder import write_folder
from strop.tasks.task import Strata, Task
from strop.tasks.workspace import File

TEST = b"""#!/bin/bash
# Judges what the agent left behind: 1 passes, 0 does not.
if [ "$(cat /app/greeting.txt)" = "hello" ]; then reward=1; else reward=0; fi
echo $reward > /logs/verifier/reward.txt
"""
SOLVE = b"""#!/bin/bash
echo hello > /app/greeting.txt
"""


@click.group()
def command() -> None:
    """List, show or begin tasks."""


@command.command("list")
@click.argument("spec", required=False)
@count_option
def list_tasks(spec: str | None, count: int | None) -> None:
    """List the suites, or the tasks of SPEC (a suite, a split such as shell:train, a folder)."""
    display = Display(WallClock())
    table = Table(box=None, header_style="bold")
    if spec is None:
        for heading in ("suite", "split", "what it holds"):
            table.add_column(heading)
        for name, suite in suites().items():
            for split, about in suite.splits.items():
                table.add_row(name, split, about)
    else:
        for heading in ("task", "type", "difficulty", "steps", "instruction"):
            table.add_column(heading, overflow="fold")
        for task in find(spec, count).tasks:
            strata = task.strata
            where = (strata.type, strata.difficulty, str(strata.steps))
            table.add_row(*map(escape, (task.name, *where, task.instruction)))
    display.console.print(table)


@command.command()
@click.argument("name")
@click.option("--export", type=click.Path(path_type=Path), help="Write the task as a folder.")
def show(name: str, export: Path | None) -> None:
    """Show a task: its instruction, start files, hidden tests and solution."""
    display = Display(WallClock())
    selection = find(name)
    task = selection.tasks[0]
    if len(selection.tasks) > 1:
        raise Refusal(f"{name} is {len(selection.tasks)} tasks", nearest=task.name, remedy="name one of them")
    strata = task.strata
    display.say(f"[bold]{escape(task.name)}[/]  {task.id}")
    display.say(escape(f"{strata.type}, {strata.difficulty}, {strata.steps} steps, {strata.domain}\n"))
    display.say(escape(f"{task.instruction}\n"))
    for file in (*task.files, *task.tests, *task.solution):
        display.say(f"[bold]{escape(file.path)}[/] [dim]{len(file.data)} bytes[/]")
        if file.data and b"\0" not in file.data and not file.path.endswith("test.sh"):
            text = file.data.decode(errors="replace").rstrip()
            display.console.print("  " + text.replace("\n", "\n  "), markup=False)
    if export is not None:
        write_folder(task, export)
        display.say(escape(f"written to {export}"))


@command.command()
@click.argument("folder", type=click.Path(path_type=Path))
def new(folder: Path) -> None:
    """Begin a task of your own: a small working example in FOLDER, to be changed."""
    task = Task(
        name=f"local/{folder.name}",
        instruction="Write the word hello to the file greeting.txt.",
        tests=(File("/tests/test.sh", TEST, 0o755),),
        solution=(File("/solution/solve.sh", SOLVE, 0o755),),
        strata=Strata(type="example", difficulty="easy", steps=1, domain="files"),
    )
    write_folder(task, folder)
    display = Display(WallClock())
    display.say(escape(f"{folder} holds a task that works. Change instruction.md, tests/test.sh and"))
    display.say("solution/solve.sh, then:")
    spec = escape(shlex.quote(str(folder)))
    display.say(f"  strop check {spec}\n  strop run {spec} --agent reference\n  strop run {spec}")
