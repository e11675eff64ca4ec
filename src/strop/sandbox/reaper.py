"""Finding and freeing what a killed owner left behind.

Whatever outlives a process on disk or in a control group carries its owner's token in its name: process
namespace, process id and start time. When no such process lives any longer, the thing is nobody's.
"""

import os
import shutil
from pathlib import Path

PREFIX = "strop-"


def token() -> str:
    """The running process, unmistakably: ``4026531836-1234-567890``."""
    return f"{_process_namespace()}-{os.getpid()}-{_start_time(os.getpid())}"


def owner_lives(name: str) -> bool:
    """Whether the owner that `name` carries may still be at work; True also for names that carry none."""
    parts = name.removeprefix(PREFIX).split("-")[:3]
    if not name.startswith(PREFIX) or len(parts) < 3 or not all(part.isdigit() for part in parts):
        return True
    namespace, pid, start = parts
    if int(namespace) != _process_namespace():
        return True  # its owner's number means nothing here
    return _start_time(int(pid)) == int(start)


def reap(folder: Path, *, groups: bool = False) -> list[Path]:
    """Remove what dead owners left in `folder`; control groups are folders that only empty ones can lose.

    Returns what was removed. A group that still has members is left to the next time: its members are
    dying, because a sandbox never outlives its parent.
    """
    removed = []
    for path in sorted(folder.glob(f"{PREFIX}*")):
        if owner_lives(path.name):
            continue
        if not groups:
            shutil.rmtree(path)
        elif not _remove_group(path):
            continue
        removed.append(path)
    return removed


def _remove_group(path: Path) -> bool:
    try:
        for child in path.iterdir():
            if child.is_dir():
                child.rmdir()
        path.rmdir()
    except OSError:
        return False  # a member is left, or another owner was quicker
    return True


def _process_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _start_time(pid: int) -> int:
    """Clock ticks since boot at which a process began; -1 when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return -1
    return int(text.rsplit(")", 1)[1].split()[19])
