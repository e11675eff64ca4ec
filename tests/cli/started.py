"""The real command as a process of its own, watched, and everything that it must not leave behind.

The watcher adopts orphans: whatever the command starts and does not end becomes a child of this process.
"""

import ctypes
import getpass
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

STROP = (sys.executable, "-m", "strop")
HEARING = ("env", "--default-signal=INT")
"""Tests that were started in the background have Ctrl-C ignored, and so would what they start."""
PATIENCE = 240.0
"""Seconds that any moment may be waited for, on the slowest machine."""
TORCH = f"torchinductor_{getpass.getuser()}"
"""A temporary folder that torch makes as soon as it is imported, whoever imports it."""
HELPER = "multiprocessing.resource_tracker"
_ADOPT_ORPHANS = 36


class Started:
    """A command under way in a folder of its own, which holds its runs, its temporary files, its words."""

    def __init__(self, folder: Path, cache: Path, *arguments: str | Path) -> None:
        assert ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0) == 0
        self.runs, self.out, self.err = folder / "runs", folder / "out", folder / "err"
        self._scratch = folder / "tmp"
        self._scratch.mkdir()
        self._before = children()
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(self._scratch)}
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [*HEARING, *STROP, *map(str, arguments), "--runs", str(self.runs)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**environment, "XDG_CACHE_HOME": str(cache)},
                start_new_session=True,
            )
        self.family = {self.process.pid}
        """Every process that was seen to be of it."""

    def wait_for(self, moment: Callable[["Started"], bool]) -> None:
        """Until `moment` is true of it."""
        deadline = time.monotonic() + PATIENCE
        while not moment(self):
            assert self.process.poll() is None, f"it ended before the moment came: {self.words()}"
            assert time.monotonic() < deadline, f"the moment never came: {self.words()}"
            time.sleep(0.001)
        self.family |= descendants(self.process.pid)

    def send(self, number: int, *, group: bool) -> None:
        """A signal to its whole process group, as a terminal sends it, or to the command alone."""
        with suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.process.pid, number)

    def end(self, within: float = PATIENCE) -> int:
        """Its exit code, once it has ended; seconds."""
        return self.process.wait(within)

    def words(self) -> str:
        return self.out.read_text() + self.err.read_text()

    def query(self, text: str) -> list[tuple[object, ...]]:
        """What its store answers; nothing as long as there is no such table."""
        try:
            with closing(sqlite3.connect(f"file:{self.runs / 'strop.db'}?mode=ro", uri=True)) as store:
                return store.execute(text).fetchall()
        except sqlite3.OperationalError:
            return []

    def left(self, *, killed: bool = False) -> list[str]:
        """What is still there that should not be.

        A moment to go is given to Python's own helper and to what has no memory left, and to all where the
        command was killed.
        """
        deadline = time.monotonic() + 10.0
        while (orphans := self._orphans()) and time.monotonic() < deadline:
            if not killed and not all(HELPER in orphan or orphan.endswith(": ") for orphan in orphans):
                break
            time.sleep(0.005)
        marks = [f"{mark}{pid}{mark}" for pid in self.family for mark in "-_"]
        places = (*Path("/sys/fs/cgroup").glob("**/strop-*"), *Path("/dev/shm").iterdir())
        named = [str(path) for path in places if any(mark in path.name for mark in marks)]
        mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if "strop" in line]
        half = [str(path) for path in self.runs.rglob("*") if is_half(path)]
        scratch = [str(path) for path in self._scratch.iterdir() if path.name != TORCH]
        return [*orphans, *named, *mounts, *scratch, *half]

    def kill(self) -> None:
        """Whatever became of the test, nothing of the command stays."""
        adopted = children() - self._before - {self.process.pid}
        for pid in (self.process.pid, *descendants(self.process.pid), *adopted):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for pid in children() - self._before:
            os.waitpid(pid, 0)

    def _orphans(self) -> list[str]:
        alive = []
        for pid in children() - self._before - {self.process.pid}:
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                alive.append(f"{pid}: {of_process(pid, 'cmdline')}")
        return alive


@contextmanager
def started(folder: Path, cache: Path, *arguments: str | Path) -> Iterator[Started]:
    """The command, which is killed after the block where it still runs."""
    command = Started(folder, cache, *arguments)
    try:
        yield command
    finally:
        command.kill()


def is_half(path: Path) -> bool:
    """Whether nothing of the kind stays when files are written whole and a database is closed."""
    return path.name.startswith(".") or path.name.endswith(("-wal", "-shm", "-journal"))


def children(pid: int | str = "self") -> set[int]:
    try:
        lists = [(thread / "children").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return {int(child) for listed in lists for child in listed.split()}


def descendants(pid: int) -> set[int]:
    found = children(pid)
    return found.union(*map(descendants, found))


def of_process(pid: int, name: str) -> str:
    """A file of ``/proc``; empty when there is no such process any longer."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""
