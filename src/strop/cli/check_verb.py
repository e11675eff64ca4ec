"""``strop check SPEC``."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.markup import escape

from strop.cli.console import Display
from strop.cli.loop import complete
from strop.cli.options import count_option, runs_option
from strop.cli.runs import cache_folder, open_store
from strop.cli.wall import WallClock
from strop.errors import EXIT_NEGATIVE
from strop.quality.gate import Checked, Gate
from strop.sandbox import kernel
from strop.sandbox.pool import PoolSettings, SandboxPool
from strop.store import Store
from strop.tasks.catalog import Selection, find


@click.command()
@click.argument("spec")
@count_option
@runs_option
def command(spec: str, count: int | None, runs: Path) -> int:
    """Try the tasks of SPEC before they may train or score.

    SPEC is a suite (shell), a split (shell:train), a task (shell/lookup-easy-12), a task folder, or a folder
    of task folders. The reference must pass twice and an agent that does nothing must fail.
    """
    kernel.require()
    display = Display(WallClock())
    selection = find(spec, count)
    for note in selection.notes:
        display.note(note)
    with open_store(runs) as store:
        checked = complete(lambda: check(selection, store, display))
    tell(checked, display)
    return 0 if all(one.admitted for one in checked) else EXIT_NEGATIVE


async def check(selection: Selection, store: Store, display: Display) -> list[Checked]:
    """Try every selected task, whether or not the gate has seen it before."""
    clock = display.clock
    async with SandboxPool(PoolSettings(), clock, cache_folder()) as pool:
        with display.stage("check", len(selection.tasks)) as stage:
            gate = Gate(store, pool.lease, clock, at_once=PoolSettings().maximum)
            checked = await gate.check_all(selection.tasks, selection.suite, lambda _: stage.advance())
            stage.figures = f"{sum(one.admitted for one in checked)} of {len(checked)} admitted"
    return checked


def tell(checked: Sequence[Checked], display: Display) -> None:
    """One line a task: all that is wrong with it, or that it is admitted."""
    for one in checked:
        bad = [finding for finding in one.findings if not finding.good]
        if bad:
            display.say(f"[red]✗[/] {escape(one.task.name)}")
            for finding in bad:
                display.say(f"    {finding.probe}: {escape(finding.evidence)}")
        elif len(checked) <= 20:
            told = "; ".join(finding.evidence for finding in one.findings)
            display.say(f"[green]✓[/] {escape(f'{one.task.name}: {told}')}")
