"""A run and where it lives: its folder and its row in the store.

A run's name is taken once. Everything it writes besides the store is in its own folder, and what it was
resolved to from recipe and overrides is the first thing written there. A lock in the folder, which no end of
a process outlives, tells the runs that are under way from those whose command was killed.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sqlalchemy import func, select, update

from strop.cli.interruption import INTERRUPTION
from strop.clock import Clock
from strop.config import Settings
from strop.errors import MachineryFault, Refusal
from strop.store import Episode, Run, Store, unclosed


def cache_folder() -> Path:
    """Where what is made once and used by many runs is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strop"


@dataclass(frozen=True)
class RunFolder:
    """Example: ``RunFolder(Path("runs/quickstart-1")).events``."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def recipe(self) -> Path:
        return self.path / "recipe.toml"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def lock(self) -> Path:
        return self.path / ".lock"

    def checkpoint(self, name: str) -> Path:
        return self.path / "checkpoints" / name


def open_store(runs: Path) -> Store:
    """The store of a folder of runs, both made when they are missing."""
    return Store.open(runs / "strop.db")


def read_store(runs: Path) -> Store:
    """The store of a folder of runs, for who only wants to look.

    Raises:
        Refusal: there is none.
    """
    if not (runs / "strop.db").exists():
        raise Refusal(
            "there are no runs here yet",
            where=str(runs),
            remedy="name their folder with --runs, or begin one: strop train, strop eval, strop run",
        )
    store = open_store(runs)
    bury(store, runs)
    return store


@dataclass(frozen=True)
class NewRun:
    """What is about to be begun; without a `name` the first free ``stem-1``, ``stem-2``, ... is taken."""

    kind: str
    stem: str
    name: str | None
    settings: Settings


@contextmanager
def begin_run(store: Store, runs: Path, new: NewRun, clock: Clock) -> Iterator[RunFolder]:
    """Take a name, make the folder, open the row; close the row with what became of it.

    A run that is refused before its first episode leaves nothing.

    Raises:
        Refusal: the name is taken or cannot be a folder's.
    """
    lock: IO[str] | None = None
    outcome = "failed"
    lost: Sequence[str] = ()
    try:
        with INTERRUPTION.answered_by(None):
            bury(store, runs)
            folder = _take_name(store, runs, new)
            lock = _begin(store, folder, new, clock)
        yield folder
        outcome = "done"
    except (KeyboardInterrupt, GeneratorExit):
        outcome = "interrupted"
        raise
    except Refusal:
        outcome = "refused"
        raise
    finally:
        if lock is not None:
            with lock, INTERRUPTION.answered_by(None):
                lost = _end(store, folder, outcome, clock)
    if lost:
        raise MachineryFault(
            "unclosed", f"{len(lost)} episodes of {folder.name} were dispatched and never closed"
        )


def _take_name(store: Store, runs: Path, new: NewRun) -> RunFolder:
    """Make the folder of a name that no run has."""
    with store.read() as session:
        taken = set(session.scalars(select(Run.name)).all())
    taken |= {entry.name for entry in runs.iterdir()}
    while True:
        chosen = new.name or _free(_as_name(new.stem), taken)
        if not re.fullmatch(r"(?!\.)[\w.-]{1,100}", chosen):
            remedy = "use letters, digits, _ and -, 100 at the most"
            raise Refusal(f"{chosen!r} cannot name a run", "--name", _as_name(chosen), remedy)
        if chosen not in taken:
            with suppress(FileExistsError):  # another command was quicker
                (runs / chosen).mkdir()
                return RunFolder(runs / chosen)
        taken.add(chosen)
        if new.name:
            raise Refusal(
                f"there is a run {chosen!r} already",
                where=str(runs / chosen),
                nearest=_free(chosen, taken),
                remedy="give another --name, or leave it out and one is chosen",
            )


def _begin(store: Store, folder: RunFolder, new: NewRun, clock: Clock) -> IO[str]:
    """Write the recipe and the row; the open file holds the lock."""
    try:
        folder.recipe.write_text(new.settings.to_toml(), encoding="utf-8")
        lock = folder.lock.open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        with store.write() as session:
            config = new.settings.model_dump(mode="json")
            session.add(Run(name=folder.name, kind=new.kind, started=clock.now(), config=config))
    except BaseException:
        shutil.rmtree(folder.path)
        raise
    return lock


def _end(store: Store, folder: RunFolder, outcome: str, clock: Clock) -> Sequence[str]:
    """Close the row; returns the episodes that nobody closed."""
    with store.write() as session:
        row = session.get_one(Run, folder.name)
        played = session.scalar(select(Episode.id).where(Episode.run == folder.name).limit(1))
        if outcome == "refused" and played is None:
            session.delete(row)
            shutil.rmtree(folder.path)
            return ()
        row.ended, row.outcome = clock.now(), outcome
        lost = unclosed(session, folder.name)
    folder.lock.unlink()
    return lost


def bury(store: Store, runs: Path) -> None:
    """Close the runs whose command was killed, or found no room for its last words, and their episodes."""
    with store.read() as session:
        running = session.scalars(select(Run.name).where(Run.outcome == "running")).all()
    for name in filter(lambda name: _is_dead(RunFolder(runs / name)), running):
        with store.write() as session:
            its = Episode.run == name
            last = session.scalar(select(func.max(Episode.dispatched)).where(its))
            closed = {"closed": Episode.dispatched, "stop": "fault", "fault": "machinery:killed"}
            session.execute(update(Episode).where(its, Episode.closed.is_(None)).values(closed))
            row = session.get_one(Run, name)
            row.ended, row.outcome = last or row.started, "killed"
        RunFolder(runs / name).lock.unlink()


def _is_dead(folder: RunFolder) -> bool:
    try:
        with folder.lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError):
        return False
    return True


def _as_name(text: str) -> str:
    """What of a text can name a run."""
    return re.sub(r"[^\w-]+", "-", text).strip("-")[:90] or "run"


def _free(stem: str, taken: set[str]) -> str:
    number = 1
    while f"{stem}-{number}" in taken:
        number += 1
    return f"{stem}-{number}"
