"""What a sandbox may use, and who holds it to that.

The kernel does, through control groups where they can be written (version 1 or 2), through resource limits
and the size of a tmpfs everywhere. What nobody holds is said in words, by `Groups.note`.

A sandbox's files lie in memory, so its memory limit covers its storage, and what the kernel needs to keep
track of the files, besides the memory of its processes.
"""

import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strop.sandbox.judging import PEN_MB
from strop.sandbox.reaper import PREFIX, reap, token
from strop.tasks.task import Limits

MIB = 1024 * 1024
INIT_MB = 40
"""For the init itself and the buffers of what it reads and answers."""
OPEN_FILES = 4096
_INODE_BYTES = 1536
_REMOVE_TRIES = 200
_serial = itertools.count()
"""Tells the groups of one process apart."""
_FILES_PER_MB, _LEAST_FILES, _MOST_FILES = 64, 4096, 50_000


@dataclass(frozen=True)
class Hierarchy:
    """One place where control groups can be made: the folder above them, the controllers that work there."""

    above: Path
    version: int
    controllers: frozenset[str]


class Groups:
    """The control groups of one sandbox parent; the parent makes one in each of `folders` for every slot."""

    def __init__(self, hierarchies: Sequence[Hierarchy]) -> None:
        self._made: list[tuple[Hierarchy, Path]] = []
        self._memory: dict[int, int] = {}
        for hierarchy in hierarchies:
            reap(hierarchy.above, groups=True)
            folder = hierarchy.above / f"{PREFIX}{token()}-{next(_serial)}"
            try:
                folder.mkdir()
                if hierarchy.version == 2:
                    wanted = " ".join(f"+{name}" for name in sorted(hierarchy.controllers))
                    (folder / "cgroup.subtree_control").write_text(wanted)
            except OSError:
                continue  # not ours to write; `note` says what is not held for want of it
            self._made.append((hierarchy, folder))

    @property
    def folders(self) -> list[str]:
        return [str(folder) for _, folder in self._made]

    def keep(self, usable: Sequence[str]) -> None:
        """Do without the groups that the parent could not put anybody into."""
        dropped = [(hierarchy, folder) for hierarchy, folder in self._made if str(folder) not in usable]
        self._made = [made for made in self._made if made not in dropped]
        for _, folder in dropped:
            _remove(folder)

    def holds(self, controller: str) -> bool:
        return any(controller in hierarchy.controllers for hierarchy, _ in self._made)

    def hold(self, slot: int, limits: Limits, *, judging: bool = False) -> None:
        """Set the limits of a slot.

        Raises:
            OSError: the slot has no group any longer.
        """
        memory = memory_bytes(limits) + (PEN_MB * MIB if judging else 0)
        for hierarchy, folder in self._made:
            group = folder / str(slot)
            if "memory" in hierarchy.controllers and self._memory.get(slot) != memory:
                self._hold_memory(group, hierarchy.version, memory, self._memory.get(slot))
                self._memory[slot] = memory
            if "pids" in hierarchy.controllers and not judging:
                _write(group / "pids.max", limits.processes + 1)

    def note(self) -> str:
        """Who holds what, in words."""
        versions = {hierarchy.version for hierarchy, _ in self._made}
        by_groups = f"held by control groups (version {max(versions, default=0)})"
        memory = by_groups if self.holds("memory") else "held per process only, by a resource limit"
        processes = by_groups if self.holds("pids") else "held per user of the sandbox, by a resource limit"
        return (
            f"memory: {memory}; processes: {processes}; storage and number of files: held by the size of a "
            "tmpfs; file size and open files: held by resource limits; share of the processors: not held"
        )

    def remove(self) -> None:
        """Take away what a parent that was killed left; its sandboxes may take a moment to die."""
        for _, folder in self._made:
            for path in [*sorted(folder.glob("*/")), folder]:
                _remove(path)

    def _hold_memory(self, group: Path, version: int, memory: int, before: int | None) -> None:
        if version == 2:
            _write(group / "memory.max", memory)
            if (group / "memory.swap.max").exists():
                _write(group / "memory.swap.max", 0)
            return
        names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
        if before is not None and memory > before:
            names.reverse()  # the limit with swap may never be below the one without
        for name in names:
            if (group / name).exists():
                _write(group / name, memory)


def memory_bytes(limits: Limits) -> int:
    return (limits.memory_mb + limits.storage_mb + INIT_MB) * MIB + inodes(limits) * _INODE_BYTES


def inodes(limits: Limits) -> int:
    return min(max(limits.storage_mb * _FILES_PER_MB, _LEAST_FILES), _MOST_FILES)


def for_init(limits: Limits, groups: Groups) -> dict[str, Any]:
    """The part that the init takes on itself and thus hands down, as `init._take_on` reads it."""
    return {
        "storage": limits.storage_mb * MIB,
        "inodes": inodes(limits),
        "files": OPEN_FILES,
        "processes": limits.processes + 1,
        "data": None if groups.holds("memory") else (limits.memory_mb + INIT_MB) * MIB,
    }


def hierarchies(process: Path = Path("/proc/self")) -> list[Hierarchy]:
    """Where this process may have control groups below it, memory and pids only.

    Version 1 is used per controller where it has one, version 2 for the rest, at the nearest group above
    whose children get both.
    """
    groups = dict(_own_groups((process / "cgroup").read_text()))
    found = []
    for kind, options, root, mount in _mounts((process / "mountinfo").read_text()):
        if kind == "cgroup":
            for name in {"memory", "pids"} & set(options):
                here = _below(mount, root, groups.get(name, "/"))
                found.append(Hierarchy(here, 1, frozenset({name})))
        elif kind == "cgroup2":
            found += _unified(mount, _below(mount, root, groups.get("", "/")))
    return [h for h in found if h.above.is_dir() and os.access(h.above, os.W_OK)]


def _unified(top: Path, here: Path) -> list[Hierarchy]:
    """The nearest group whose children get memory and pids; members of its own do not stand in the way."""
    for above in (here, *here.parents):
        control = above / "cgroup.subtree_control"
        given = set(control.read_text().split()) if control.exists() else set()
        if {"memory", "pids"} <= given and os.access(above, os.W_OK):
            return [Hierarchy(above, 2, frozenset({"memory", "pids"}))]
        if above == top:
            break
    return []


def _own_groups(text: str) -> list[tuple[str, str]]:
    """(controller, path); the controller of version 2 is ''."""
    found = []
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found += [(name, path) for name in controllers.split(",")]
    return found


def _mounts(text: str) -> list[tuple[str, list[str], str, Path]]:
    """(kind, options, root, mount point) of every control group mount."""
    found = []
    for line in text.splitlines():
        left, right = line.split(" - ", 1)
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            fields = left.split()
            found.append((kind, options.split(","), fields[3], Path(fields[4])))
    return found


def _below(mount: Path, root: str, path: str) -> Path:
    """Where the group `path` shows under a mount whose top is the group `root`."""
    inside = path.removeprefix(root) if root != "/" else path
    return mount / inside.lstrip("/")


def _remove(path: Path) -> None:
    for _ in range(_REMOVE_TRIES):
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.005)  # busy: it still has a member
    # Whatever stays is empty soon and is reaped when the next pool opens.


def _write(path: Path, value: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)
