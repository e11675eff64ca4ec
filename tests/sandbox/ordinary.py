"""Run as a program by the tests, as root: becomes an ordinary user, or root on another kind of host.

``ordinary.py user|container READABLE... -- COMMAND...``. A mount namespace of its own lets the user reach
the READABLE folders wherever they lie, and lets the host's ``/usr`` look as in a container.
"""

import os
import sys
from pathlib import Path

from strop.sandbox import syscalls

NOBODY = 65_534


def blocker(path: Path) -> Path | None:
    """The topmost folder above `path` that others may not enter."""
    for folder in (*reversed(path.parents), path):
        if not folder.stat().st_mode & 0o001:
            return folder
    return None


def open_way(paths: list[Path]) -> None:
    """Cover each folder that is in the way with one that shows `paths` alone."""
    ways: dict[Path, list[Path]] = {}
    for path in paths:
        if (folder := blocker(path)) is not None and folder != path:
            ways.setdefault(folder, []).append(path)
    for folder, below in ways.items():
        trees = {path: syscalls.open_tree(str(path)) for path in below}
        syscalls.mount("way", str(folder), "tmpfs", 0, "mode=755")
        for path, tree in trees.items():
            path.mkdir(parents=True, exist_ok=True)
            syscalls.attach(tree, str(path))


def overlay_usr() -> None:
    """As in a container, ``/usr`` is an overlay, whose owners no kernel maps."""
    syscalls.mount("upper", "/mnt", "tmpfs", 0, "mode=755")
    for name in ("upper", "work"):
        Path("/mnt", name).mkdir()
    syscalls.mount("usr", "/usr", "overlay", 0, "lowerdir=/usr,upperdir=/mnt/upper,workdir=/mnt/work")


def main() -> None:
    kind, rest = sys.argv[1], sys.argv[2:]
    split = rest.index("--")
    readable, command = [Path(path).resolve() for path in rest[:split]], rest[split + 1 :]
    syscalls.unshare(syscalls.NEWNS)
    syscalls.mount("", "/", "", syscalls.REC | syscalls.PRIVATE)
    if kind == "container":
        overlay_usr()
    else:
        open_way(readable)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
