"""The processes of a sandbox, as its init sees and ends them.

Lineage is lost when a process detaches from its parent, so a command's tree is told by time: what was not
there when the command began, and does not descend from anything that was, is the command's.
"""

import os
import signal
from collections.abc import Iterable

_PASSES = 100

Living = dict[int, tuple[int, int]]
"""Parent and start time (clock ticks since boot) by process id."""


def living() -> Living:
    """Every process but this one and the dead."""
    found: Living = {}
    if not anyone():
        return found
    for name in os.listdir("/proc"):
        if not name.isdigit() or name == "1":
            continue
        try:
            descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY)
            try:
                fields = os.read(descriptor, 4096).rsplit(b")", 1)[1].split()
            finally:
                os.close(descriptor)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if fields[0] not in (b"Z", b"X"):
            found[int(name)] = (int(fields[1]), int(fields[19]))
    return found


def anyone() -> bool:
    """Whether there is another process in the sandbox, alive or not yet reaped."""
    try:
        os.kill(-1, 0)
    except ProcessLookupError:
        return False
    return True


def end_newer(older: Living, spared: Iterable[int]) -> None:
    """Kill what neither is in `older` or `spared` nor descends from it; everything, if it breeds too fast."""
    for _ in range(_PASSES):
        now = living()
        safe = {pid for pid, (_, start) in now.items() if pid in older and older[pid][1] == start}
        safe.update(spared)
        victims = [pid for pid in now if not _descends(pid, now, safe)]
        if not victims:
            return
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it ended by itself
    end_all()


def end_all() -> None:
    """Kill every process of the sandbox but its init. The kernel does it in one sweep, forks included."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return  # nobody was there


def _descends(pid: int, now: Living, ancestors: set[int]) -> bool:
    while pid in now:
        if pid in ancestors:
            return True
        pid = now[pid][0]
    return False
