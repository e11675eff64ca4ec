"""Process 1 of a sandbox: it serves its owner over one socket, and buries the dead.

It keeps the right to mount, which nothing it starts has, and cannot be traced, read or signalled from
inside. When its owner or the sandbox parent goes, so does it, and with it, by the kernel, every process of
the sandbox.
"""

import errno
import os
import resource
import select
import signal
import socket
from collections.abc import Callable
from typing import Any

from strop.sandbox import frames, syscalls
from strop.sandbox.commands import Commands
from strop.sandbox.files import Placing, read
from strop.sandbox.judging import HOME, LAYER, TEMPORARY, Judging
from strop.sandbox.syscalls import NODEV, NOSUID, REMOUNT

_ROOM_FOR_NO_SPACE = 1 << 20
"""A file that is really written meets the end of the disk, an error, before the size limit, a signal."""

ENVIRONMENT = {
    # No LANG, as in most containers: loading a locale would cost each program a third of a millisecond.
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/bash",
    "TERM": "dumb",
    "HOSTNAME": "sandbox",
}
JUDGING_ENVIRONMENT = {
    **ENVIRONMENT,
    "PATH": f"{LAYER}/bin:{ENVIRONMENT['PATH']}",
    "HOME": HOME,
    "TMPDIR": TEMPORARY,
    "PYTHONPATH": f"{LAYER}/lib",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "-p no:cacheprovider --confcutdir=/tests",
}


class Init:
    """The loop of process 1."""

    def __init__(self, channel: socket.socket, commands: Commands, judging: Judging) -> None:
        self._channel, self._commands, self._judging = channel, commands, judging
        self._poll = select.poll()
        commands.attach(self._poll, self._answer)
        self._placing = Placing()
        self._unpacker = frames.Unpacker()
        self._wake = _wake_on_child()
        self._acts: dict[str, Callable[[dict[str, Any], bytes], None]] = {
            "run": self._run,
            "kill": lambda request, _: self._commands.kill(request["run"]),
            "read": self._read,
            "write": self._write,
            "judge": self._judge,
            "ping": lambda request, _: self._answer({"id": request["id"]}),
        }

    def serve(self) -> None:
        """Until the owner is gone."""
        self._poll.register(self._channel, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self._answer({"ready": True})
        while True:
            for descriptor, _ in self._poll.poll(self._commands.tick()):
                if descriptor == self._channel.fileno():
                    data = self._channel.recv(1 << 18)
                    if not data:
                        return
                    for request, blob in self._unpacker.feed(data):
                        self._act(request, blob)
                elif descriptor == self._wake:
                    os.read(self._wake, 4096)
                    self._commands.reap()
                else:
                    self._commands.readable(descriptor)

    def _act(self, request: dict[str, Any], blob: bytes) -> None:
        try:
            if "limits" in request and not self._limit(request):
                return
            outside = not request.get("judging") and request["op"] != "kill"
            if self._judging.is_open and outside:
                self._judging.close(self._commands.reap)
            self._acts[request["op"]](request, blob)
        except OSError as error:
            self._fail(request, error.errno, error.strerror or str(error), error.filename)
        except MemoryError:
            self._fail(request, errno.ENOMEM, os.strerror(errno.ENOMEM), None)

    def _fail(self, request: dict[str, Any], number: int | None, message: str, path: str | None) -> None:
        self._answer({"id": request["id"], "errno": number, "message": message, "path": path})

    def _limit(self, request: dict[str, Any]) -> bool:
        try:
            _take_on(**request["limits"])
        except OSError as error:
            self._answer({"id": request["id"], "broken": str(error)})
            return False
        return True

    def _run(self, request: dict[str, Any], _: bytes) -> None:
        base = ENVIRONMENT
        if self._judging.is_open:
            base = JUDGING_ENVIRONMENT
            if not os.path.isdir(request["cwd"]):
                request["cwd"] = HOME  # who removes the working folder shall be judged all the same
        self._commands.start(request, {**base, **request["env"]})

    def _read(self, request: dict[str, Any], _: bytes) -> None:
        self._answer({"id": request["id"]}, read(request["path"], request["max_bytes"]))

    def _write(self, request: dict[str, Any], blob: bytes) -> None:
        self._placing.write(request["files"], blob)
        self._answer({"id": request["id"]})

    def _judge(self, request: dict[str, Any], _: bytes) -> None:
        if self._judging.is_open:
            self._judging.close(self._commands.reap)
        self._judging.open(request["live_system"], self._commands.reap)
        self._answer({"id": request["id"]})

    def _answer(self, header: dict[str, Any], *blobs: bytes | bytearray) -> None:
        size = sum(map(len, blobs))
        self._channel.sendall(frames.head(header, size))
        for blob in blobs:
            self._channel.sendall(blob)


def _take_on(storage: int, inodes: int, files: int, processes: int, data: int | None) -> None:
    """Take on the limits of a lease: bytes of storage, inodes, open files, processes, bytes of data each."""
    options = f"size={storage},nr_inodes={inodes}"
    syscalls.mount("", "/dev/shm", "", REMOUNT | NOSUID | NODEV, options)
    sparse = storage + _ROOM_FOR_NO_SPACE
    resource.setrlimit(resource.RLIMIT_FSIZE, (sparse, sparse))
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    if data is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (data, data))


def _wake_on_child() -> int:
    """A descriptor that is readable after a child has died."""
    wake, signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # which the kernel keeps from a process 1
    return wake
