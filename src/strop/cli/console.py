"""What a person sees while a run goes on.

Each stage of a run is one line with a bar and its latest figures; when it ends the line stays as a summary.
Where nobody watches (no terminal) a stage prints a line now and then instead.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from strop.clock import Clock
from strop.errors import Unheard

QUIET_SECONDS = 10.0
"""Between two lines of a stage that nobody watches."""
UNWATCHED_WIDTH = 120
"""Columns where there is no terminal to ask."""


class Screen(Console):
    """A console whose reader may go, upon which the command ends without a word."""

    def on_broken_pipe(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # for what Python has yet to flush
        os.close(nowhere)
        raise Unheard("nobody reads the output any longer")


class Stage:
    """One part of a run on the screen."""

    def __init__(self, display: "Display", title: str, total: int, task: TaskID | None) -> None:
        self._display, self._title, self._total, self._task = display, title, total, task
        self._done = 0
        self._said = display.clock.now()
        self.figures = ""

    def advance(self, figures: str = "", by: int = 1) -> None:
        """`by` more is done; `figures` replaces what stands behind the bar."""
        self._done += by
        self.figures = figures or self.figures
        if self._task is not None and self._display.progress is not None:
            self._display.progress.update(self._task, advance=by, figures=self.figures)
        elif self._display.clock.now() - self._said > QUIET_SECONDS and self._done < self._total:
            self._said = self._display.clock.now()
            self._display.console.print(f"  {self._title}: {self._done}/{self._total}  {self.figures}")


class Display:
    """Owns the terminal for the length of a command."""

    def __init__(self, clock: Clock) -> None:
        width = None if sys.stdout.isatty() else UNWATCHED_WIDTH
        self.console: Console = Screen(file=sys.stdout, highlight=False, width=width)
        self.clock = clock
        self.progress: Progress | None = None

    def say(self, text: str) -> None:
        self.console.print(text)

    def note(self, text: str) -> None:
        """What somebody else has written, and is shown as it is."""
        self.console.print(f"note: {text}", style="dim", markup=False)

    @contextmanager
    def stage(self, title: str, total: int) -> Iterator[Stage]:
        """A stage of `total` parts; at its end a line with what came of it."""
        begun = self.clock.now()
        with self._bar(title, total) as task:
            stage = Stage(self, title, total, task)
            yield stage
        seconds = self.clock.now() - begun
        self.console.print(f"[green]✓[/] {title:<22} {stage.figures}  [dim]{seconds:.0f} s[/]")

    @contextmanager
    def _bar(self, title: str, total: int) -> Iterator[TaskID | None]:
        if not self.console.is_terminal:
            self.console.print(f"[dim]·[/] {title} ({total})")
            yield None
            return
        columns = (
            TextColumn("{task.description:<24}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as self.progress:
            yield self.progress.add_task(title, total=total, figures="")
        self.progress = None
