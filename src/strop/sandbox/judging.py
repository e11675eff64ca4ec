"""Where judging happens: places that the judged never saw, in a system it could not change.

`open` ends every process of the sandbox and mounts, over whatever the agent left there, fresh ``/tests``,
``/logs`` and ``/opt/strop`` (home folder, temporary folder, verifier layer) and the pristine ``/usr`` and
``/etc``. With nobody alive to race, looking and then mounting is safe. `close` ends the judges' processes
and takes it all away again.
"""

import errno
import os
import stat
import time
from collections.abc import Callable

from strop.sandbox import image, processes, syscalls
from strop.sandbox.stage import VERIFIER
from strop.sandbox.syscalls import BIND, NODEV, NOSUID

PEN = "/opt/strop"
HOME, TEMPORARY, LAYER = f"{PEN}/home", f"{PEN}/tmp", f"{PEN}/verifier"
PEN_MB = 128
"""Room for hidden tests and their logs, apart from the agent's storage."""

_FRESH = {"/tests": f"{PEN}/tests", "/logs": f"{PEN}/logs"}
_FOLDERS = (HOME, TEMPORARY, LAYER, f"{PEN}/tests", f"{PEN}/empty")
_LOGS = tuple(f"{PEN}/logs{name}" for name in ("", "/verifier", "/agent", "/artifacts"))
_STEERS_PYTEST = "pytest.ini .pytest.ini pyproject.toml tox.ini setup.cfg conftest.py".split()
"""What pytest would read in the root folder, the parent of ``/tests``."""


class Judging:
    """The judging places of one sandbox.

    `pristine` are detached trees by mount point, `links` those of the root folder.
    """

    def __init__(self, pristine: dict[str, int], links: list[image.Entry]) -> None:
        self._pristine, self._links = pristine, links
        self._mounted: list[str] = []
        self._made: list[str] = []
        self._aside: list[tuple[str, str]] = []

    @property
    def is_open(self) -> bool:
        return bool(self._mounted)

    def open(self, live_system: bool, reap: Callable[[], None]) -> None:
        """Begin judging; `reap` buries the dead.

        Raises:
            OSError: a place could not be made; the sandbox is of no further use.
        """
        end_everyone(reap)
        self._folder(PEN)
        self._mount("strop", PEN, "tmpfs", NOSUID | NODEV, f"size={PEN_MB}m,nr_inodes=16k,mode=755")
        for folder in (*_FOLDERS, *_LOGS):
            os.mkdir(folder)
        os.chmod(TEMPORARY, 0o1777)
        self._attach(VERIFIER, LAYER)
        for place, source in _FRESH.items():
            self._folder(place)
            self._mount(source, place, "", BIND, "")
        if not live_system:
            self._restore_system()
        for name in _STEERS_PYTEST:
            self._set_aside(f"/{name}")

    def close(self, reap: Callable[[], None]) -> None:
        """End the judges' processes and uncover what the agent left."""
        end_everyone(reap)
        for path in reversed(self._mounted):
            tree = VERIFIER if path == LAYER else path
            if tree in self._pristine:
                self._pristine[tree] = syscalls.open_tree(path)
            syscalls.unmount(path)
        for path in reversed(self._made):
            _remove(path)
        for path, aside in reversed(self._aside):
            os.rename(aside, path)
        self._mounted, self._made, self._aside = [], [], []

    def _restore_system(self) -> None:
        masks = [f"/usr/{name}" for name in image.MASKED_IN_USR]
        for tree in self._pristine:
            if tree != VERIFIER:
                self._folder(tree)
                self._attach(tree, tree)
        for path in masks:
            if os.path.isdir(path):
                self._mount(f"{PEN}/empty", path, "", BIND, "")
        for _, name, target, _ in self._links:
            path = f"/{name}"
            if not (os.path.islink(path) and os.readlink(path) == target):
                self._set_aside(path)
                os.symlink(target, path)
                self._made.append(path)

    def _attach(self, tree: str, path: str) -> None:
        syscalls.attach(self._pristine[tree], path)
        os.close(self._pristine[tree])
        self._mounted.append(path)

    def _mount(self, source: str, path: str, kind: str, flags: int, options: str) -> None:
        syscalls.mount(source, path, kind, flags, options)
        self._mounted.append(path)

    def _folder(self, path: str) -> None:
        """Make sure that `path` is a folder, and no link anywhere on the way leads elsewhere."""
        at = ""
        for part in path[1:].split("/"):
            at += "/" + part
            try:
                status = os.lstat(at)
            except FileNotFoundError:
                os.mkdir(at, 0o755)
                self._made.append(at)
                continue
            if not stat.S_ISDIR(status.st_mode):
                self._set_aside(at)
                os.mkdir(at, 0o755)
                self._made.append(at)

    def _set_aside(self, path: str) -> None:
        """Rename what is at `path` out of the way, if anything is."""
        if os.path.lexists(path):
            aside = f"{path}.set-aside-{os.urandom(4).hex()}"
            os.rename(path, aside)
            self._aside.append((path, aside))


def end_everyone(reap: Callable[[], None]) -> None:
    """Kill every process but this one, and wait until none is left."""
    processes.end_all()
    while processes.anyone():
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            time.sleep(0.0002)  # its parent is about to die and leave it to us
        reap()


def _remove(path: str) -> None:
    try:
        os.unlink(path) if os.path.islink(path) else os.rmdir(path)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
