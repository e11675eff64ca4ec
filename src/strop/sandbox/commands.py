"""Running commands in a sandbox, as its init does it.

A command ends when its first process does, not when the last holder of its output closes: after a short
grace the answer goes out, and what background jobs print later is drained and dropped, so that none of
them ever blocks or dies on a full or broken pipe. At its deadline a command's whole tree is killed.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from strop.sandbox import processes

GRACE = 0.02
"""Seconds that output may lag behind the end of its command."""
CHUNK = 65_536
CANNOT_RUN, NOT_FOUND = 126, 127
CHILD_OOM_SCORE = 500
"""Above the init's, so that the kernel short of memory ends a command and not the sandbox."""

_RESET = set(range(1, signal.NSIG)) - {signal.SIGKILL, signal.SIGSTOP, 32, 33}


class Capture:
    """The head and the tail of a stream: at most `limit` bytes, half from either end."""

    def __init__(self, limit: int) -> None:
        self._head_room, self._tail_room = limit - limit // 2, limit // 2
        self._head, self._tail = bytearray(), bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        self._total += len(data)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._tail_room + CHUNK:
            del self._tail[: len(self._tail) - self._tail_room]

    def kept(self) -> bytes:
        return bytes(self._head + self._tail[max(0, len(self._tail) - self._tail_room) :])

    def omitted(self) -> int:
        return max(0, self._total - self._head_room - self._tail_room)


class Running:
    """A command on its way; `older` is who was there when it began, at `started`."""

    def __init__(self, request: dict[str, Any], older: processes.Living) -> None:
        self.id = request["id"]
        self.pid = 0
        self.older = older
        self.started = time.monotonic()
        self.due = self.started + request["timeout"]
        self.timed_out = False
        self.exit_code: int | None = None
        self.seconds = 0.0
        self.streams: dict[int, Capture] = {}
        self.captures = {name: Capture(request["max_bytes"]) for name in ("stdout", "stderr")}


class Commands:
    """All commands of the sandbox; `oom` is a descriptor of this process's ``oom_score_adj``."""

    def __init__(self, oom: int) -> None:
        self._running: dict[int, Running] = {}
        self._streams: dict[int, Running | None] = {}
        self._null = os.open("/dev/null", os.O_RDWR)
        self._oom = oom
        self._own_score = os.pread(oom, 16, 0).strip()

    def attach(self, poll: "select.poll", answer: Callable[..., None]) -> None:
        """Watch streams with `poll`; send the owner headers and blobs with `answer`."""
        self._poll, self._answer = poll, answer

    def start(self, request: dict[str, Any], env: Mapping[str, str]) -> None:
        """Begin a command; one that cannot begin is answered at once, as a shell would put it."""
        running = Running(request, processes.living())
        out, out_write = os.pipe()
        err, err_write = os.pipe()
        try:
            running.pid = self._spawn(request["argv"], request["cwd"], env, (out_write, err_write))
        except (OSError, ValueError) as error:
            os.close(out)
            os.close(err)
            self._refuse(request, error)
            return
        finally:
            os.close(out_write)
            os.close(err_write)
        self._running[running.pid] = running
        for descriptor, name in ((out, "stdout"), (err, "stderr")):
            running.streams[descriptor] = running.captures[name]
            self._streams[descriptor] = running
            os.set_blocking(descriptor, False)
            self._poll.register(descriptor, select.POLLIN)

    def kill(self, request_id: int) -> None:
        """End the tree of a command that nobody waits for any longer."""
        for running in self._running.values():
            if running.id == request_id:
                self._end_tree(running)

    def readable(self, descriptor: int) -> bool:
        """Take what a stream holds; False when the descriptor is no stream of a command."""
        if descriptor not in self._streams:
            return False
        running = self._streams[descriptor]
        self._drain(descriptor)
        if running is not None and running.exit_code is not None and not running.streams:
            self._finish(running)
        return True

    def reap(self) -> None:
        """Bury the dead: first processes of commands, and orphans."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            running = self._running.get(pid)
            if running is not None:
                self._ended(running, status)

    def tick(self) -> float | None:
        """End what is overdue; milliseconds until something will be."""
        now = time.monotonic()
        for running in list(self._running.values()):
            if now < running.due:
                continue
            if running.exit_code is not None:
                self._finish(running)
            else:
                running.timed_out = True
                running.due = float("inf")
                self._end_tree(running)
        due = min((running.due for running in self._running.values()), default=float("inf"))
        return None if due == float("inf") else max(0.0, due - now) * 1000 + 0.1

    def _spawn(self, argv: list[str], cwd: str, env: Mapping[str, str], streams: tuple[int, int]) -> int:
        program = _program(argv[0], env.get("PATH", ""))
        actions = [
            (os.POSIX_SPAWN_DUP2, descriptor, number)
            for number, descriptor in enumerate((self._null, *streams))
        ]
        os.chdir(cwd)
        try:
            os.pwrite(self._oom, b"%d" % max(CHILD_OOM_SCORE, int(self._own_score)), 0)
            return os.posix_spawn(
                program, argv, env, file_actions=actions, setpgroup=0, setsigdef=_RESET, setsigmask=()
            )
        finally:
            os.pwrite(self._oom, self._own_score, 0)
            os.chdir("/")

    def _refuse(self, request: dict[str, Any], error: Exception) -> None:
        program, culprit = request["argv"][0], getattr(error, "filename", None)
        in_folder = culprit == request["cwd"]
        missing = isinstance(error, FileNotFoundError) and not in_folder
        reason = getattr(error, "strerror", None) or str(error)
        what = f"in {culprit}" if in_folder else program
        text = f"cannot run {what}: {reason}\n".encode()[: request["max_bytes"]]
        header = {
            "id": request["id"],
            "exit": NOT_FOUND if missing else CANNOT_RUN,
            "seconds": 0.0,
            "timed_out": False,
            "omitted": {},
            "stdout": 0,
        }
        self._answer(header, text)

    def _end_tree(self, running: Running) -> None:
        others = [pid for pid, other in self._running.items() if other is not running]
        processes.end_newer(running.older, others)

    def _ended(self, running: Running, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        running.exit_code = code if code >= 0 else 128 - code
        now = time.monotonic()
        running.seconds = now - running.started
        running.due = now + GRACE
        for descriptor in list(running.streams):
            self._drain(descriptor)
        if not running.streams:
            self._finish(running)

    def _drain(self, descriptor: int) -> None:
        """Take what is there, at most a pipe full; what was reported ready may have been taken already."""
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return
        running = self._streams[descriptor]
        if data and running is not None:
            running.streams[descriptor].add(data)
        elif not data:
            self._close(descriptor)

    def _finish(self, running: Running) -> None:
        del self._running[running.pid]
        for descriptor in running.streams:
            self._streams[descriptor] = None
        captures = running.captures
        out = captures["stdout"].kept()
        header = {
            "id": running.id,
            "exit": running.exit_code,
            "seconds": running.seconds,
            "timed_out": running.timed_out,
            "omitted": {name: capture.omitted() for name, capture in captures.items() if capture.omitted()},
            "stdout": len(out),
        }
        self._answer(header, out, captures["stderr"].kept())

    def _close(self, descriptor: int) -> None:
        running = self._streams.pop(descriptor)
        if running is not None:
            del running.streams[descriptor]
        self._poll.unregister(descriptor)
        os.close(descriptor)


def _program(name: str, path: str) -> str:
    """Where a program named without a slash lies; the name itself when it is nowhere."""
    if "/" in name:
        return name
    for folder in path.split(":"):
        candidate = f"{folder or '.'}/{name}"
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return name
