"""The mounts that the sandbox parent holds ready, and in which it lives.

The parent enters a mount namespace of its own, gathers here what sandboxes are made of, makes that its
root and lets the host's root go: a sandbox, which starts as a copy of this namespace, never had the
host's folders in reach. It has few mounts, because each is copied and undone with every sandbox.
"""

import os
import stat
from collections.abc import Iterable

from strop.sandbox import identity, image, syscalls
from strop.sandbox.syscalls import NODEV, NOEXEC, NOSUID, RDONLY

WORK, NEW, LOWER, VERIFIER = "/work", "/new", "/lower", "/verifier"
HIDDEN = "/hidden"
"""A layer of whiteouts: what the host's ``/usr`` does not show."""

_BASE = "/tmp"
"""A folder that every host has; the stage covers it, in the parent's own namespace only."""
_MASKED = "acpi asound interrupts kcore keys latency_stats sched_debug scsi timer_list timer_stats".split()


class Stage:
    """Where the pieces lie.

    `privileged`: the parent is the host's root; `mapped`: file owners of the host are mapped into sandboxes,
    else they look like nobody's; `masked`: entries of ``/proc`` and what covers each.
    """

    def __init__(self, privileged: bool, verifier: str) -> None:
        self.privileged = privileged
        self.trees = image.system_trees()
        sources = {**{f"/{name}": f"/{name}" for name in self.trees}, VERIFIER: verifier}
        self.mapped = privileged and _can_map(self.trees)
        self._kept = () if privileged and _can_map([verifier]) else (VERIFIER,)
        self.masked = _masked()
        self._copied = tuple(sources)
        self._entries = image.skeleton()
        self._owned = [] if self.mapped else _host_folders("/usr")
        self._placed: set[str] = set()
        self._gather(sources)

    def skeleton(self, owner: int) -> str:
        """The folder with the layers of sandboxes whose root is `owner`: ``root`` and ``usr`` in it."""
        folder = f"/slots/{owner}"
        if folder not in self._placed:
            os.mkdir(folder)
            image.place(f"{folder}/root", self._entries, owner)
            image.place(f"{folder}/usr", image.usr_mask(self._owned), owner)
            self._placed.add(folder)
        return folder

    def pieces(self, users: int | None) -> dict[str, int]:
        """Detached copies of the host's trees and of the verifier layer, by the path they are taken from.

        `users` is the user namespace to map owners through, where the file system lets them be mapped.
        """
        found = {}
        for path in self._copied:
            found[path] = syscalls.open_tree(path)
            if users is not None and path not in self._kept:
                syscalls.set_attributes(found[path], 0, users)
        return found

    def _gather(self, sources: dict[str, str]) -> None:
        pieces = {path: syscalls.open_tree(source) for path, source in sources.items()}
        for piece in pieces.values():
            syscalls.set_attributes(piece, RDONLY | NODEV)
        devices = {}
        if not self.privileged:
            pieces["/proc"] = syscalls.open_tree("/proc")
            devices = {name: syscalls.open_tree(f"/dev/{name}") for name in image.DEVICES}
        syscalls.mount("strop", _BASE, "tmpfs", NOSUID | NODEV, "size=256m,mode=755")
        os.chdir(_BASE)
        lower = [f"{LOWER}/{name}" for name in self.trees]
        for name in (*sources, "/proc", WORK, NEW, HIDDEN, "/dev", "/slots", LOWER, *lower):
            os.mkdir(name[1:])
        if self.privileged:
            syscalls.mount("proc", "proc", "proc", NOSUID | NODEV | NOEXEC)
        for name in image.MASKED_IN_USR:
            os.mknod(f"{HIDDEN[1:]}/{name}", stat.S_IFCHR, 0)
        for name, piece in pieces.items():
            syscalls.attach(piece, name[1:])
            os.close(piece)
        _make_devices("dev", devices)
        syscalls.pivot()


def _can_map(paths: Iterable[str]) -> bool:
    """Whether the file systems at `paths` let their owners be mapped; overlays, for one, do not."""
    users = identity.namespace(identity.mapping(identity.owner(0, True), True))
    try:
        for path in paths:
            tree = syscalls.open_tree(os.path.join("/", path))
            try:
                syscalls.set_attributes(tree, 0, users)
            finally:
                os.close(tree)
    except OSError:
        return False
    finally:
        os.close(users)
    return True


def _make_devices(folder: str, bound: dict[str, int]) -> None:
    """Real nodes where they may be made (one mount for all), else the host's, one mount each."""
    syscalls.mount("strop", folder, "tmpfs", NOSUID | NOEXEC, "size=64k,mode=755")
    for name, (major, minor) in image.DEVICES.items():
        path = f"{folder}/{name}"
        if bound:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))
            syscalls.attach(bound[name], path)
            os.close(bound[name])
        else:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
            os.chmod(path, 0o666)
    for name, target in image.DEVICE_LINKS.items():
        os.symlink(target, f"{folder}/{name}")
    for name in ("pts", "shm"):
        os.mkdir(f"{folder}/{name}")
    top = os.open(folder, os.O_PATH)
    syscalls.set_attributes(top, RDONLY)
    os.close(top)


def _masked() -> dict[str, str]:
    """What covers each masked entry of /proc: an empty read-only folder or the null device."""
    present = [name for name in _MASKED if os.path.exists(f"/proc/{name}")]
    return {name: "/dev/pts" if os.path.isdir(f"/proc/{name}") else "/dev/null" for name in present}


def _host_folders(path: str) -> list[str]:
    found = {entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)}
    return sorted(found - set(image.MASKED_IN_USR))
