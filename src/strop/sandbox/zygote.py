"""The warm parent of all sandboxes of a pool.

One thread, the standard library, and everything imported before the first fork, because afterwards the
interpreter's files are out of sight. It makes sandboxes on request and hands each one's socket to the
owner. When the owner's socket closes, or the owner dies, it ends every sandbox, frees their control groups
and goes.
"""

import gc
import json
import os
import resource
import select
import signal
import socket
import sys
from typing import Any

from strop.sandbox import frames, identity, image, namespaces, seccomp, syscalls
from strop.sandbox.commands import Commands
from strop.sandbox.init import Init
from strop.sandbox.judging import Judging
from strop.sandbox.namespaces import Slot
from strop.sandbox.stage import Stage


class Zygote:
    """The parent's state: its stage, its slots, its children."""

    def __init__(self, control: socket.socket, settings: dict[str, Any]) -> None:
        self._control = control
        self._groups = _usable(settings["groups"])
        self._links = image.links()
        privileged = os.geteuid() == 0
        _enter_own_namespaces(privileged)
        self._stage = Stage(privileged, settings["verifier"])
        seccomp.install()
        self._slots: dict[int, Slot] = {}
        self._children: set[int] = set()

    def serve(self) -> None:
        """Until the owner is gone."""
        wake = _wake_on_signals()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wake, select.POLLIN)
        gc.collect()
        gc.freeze()
        groups = [group.path for group in self._groups]
        self._send({"ready": True, "mapped": self._stage.mapped, "groups": groups})
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == wake:
                    if signal.SIGTERM in os.read(wake, 4096):
                        return
                    self._reap()
                else:
                    request = self._control.recv(65_536)
                    if not request:
                        return
                    self._start(json.loads(request)["start"])

    def end(self) -> None:
        """Leave nothing: no process, and with the last of them no mount; no control group."""
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        for pid in self._children:
            os.waitpid(pid, 0)
        for group in self._groups:
            group.remove()

    def _start(self, index: int) -> None:
        try:
            slot = self._slots.get(index) or self._slots.setdefault(index, self._new_slot(index))
            slot.enter_network()
            pieces = self._stage.pieces(slot.users)
            theirs, ours = socket.socketpair()
            try:
                pid, pidfd = syscalls.clone(namespaces.FLAGS)
                if pid == 0:
                    _live(slot, pieces, ours, self._links)
            finally:
                ours.close()
                for piece in pieces.values():
                    os.close(piece)
        except OSError as error:
            self._send({"failed": index, "errno": error.errno, "message": str(error)})
            return
        self._children.add(pid)
        with theirs:
            try:
                slot.admit(pid)
                theirs.send(b"\0")
                self._send({"started": index, "pid": pid}, theirs.fileno(), pidfd)
            except OSError as error:
                os.kill(pid, signal.SIGKILL)
                self._send({"failed": index, "errno": error.errno, "message": f"admission: {error}"})
            finally:
                os.close(pidfd)

    def _new_slot(self, index: int) -> Slot:
        return Slot(index, self._stage, [group.add(index) for group in self._groups])

    def _reap(self) -> None:
        while self._children:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._children.discard(pid)

    def _send(self, message: dict[str, Any], *descriptors: int) -> None:
        socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)


class _Group:
    """A control group of the pool, held by descriptors because its path is soon out of sight."""

    def __init__(self, path: str) -> None:
        self.path = path
        folder, self._name = os.path.split(path)
        self._above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._here = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self._slots: list[str] = []

    def add(self, index: int) -> int:
        """Make the group of a slot; a descriptor of its ``cgroup.procs``."""
        name = str(index)
        os.mkdir(name, dir_fd=self._here)
        self._slots.append(name)
        return os.open(f"{name}/cgroup.procs", os.O_WRONLY, dir_fd=self._here)

    def clear(self) -> None:
        for name in self._slots:
            os.rmdir(name, dir_fd=self._here)
        self._slots = []

    def remove(self) -> None:
        self.clear()
        os.rmdir(self._name, dir_fd=self._above)


def _usable(paths: list[str]) -> list[_Group]:
    """The groups that this process may really put another into: a folder's permissions do not tell."""
    usable = []
    for path in paths:
        group = _Group(path)
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            theirs.recv(1)
            os._exit(0)
        try:
            join = group.add(0)
            os.write(join, str(pid).encode())
            os.close(join)
            usable.append(group)
        except OSError:
            pass  # left out of the answer to the owner, who says so in words
        finally:
            ours.close()
            theirs.close()
            os.waitpid(pid, 0)
            group.clear()
    return usable


def main() -> None:
    """Entry: ``python -I -S -E -c ... CONTROL_DESCRIPTOR SOURCE_FOLDER`` (see `parent.py`)."""
    with socket.socket(fileno=int(sys.argv[1])) as owner:
        owner.set_inheritable(False)
        settings = json.loads(owner.recv(65_536))
        try:
            zygote = Zygote(owner, settings)
        except OSError as error:
            owner.send(json.dumps({"broken": str(error), "errno": error.errno}).encode())
            return
        try:
            zygote.serve()
        finally:
            zygote.end()


def _enter_own_namespaces(privileged: bool) -> None:
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))  # 0 would still feed a core_pattern that is a pipe
    syscalls.rename_process("strop")
    flags = syscalls.NEWNS | syscalls.NEWUTS
    if privileged:
        syscalls.unshare(flags)
    else:
        ids = f"0 {os.geteuid()} 1", f"0 {os.getegid()} 1"
        syscalls.unshare(flags | syscalls.NEWUSER)
        identity.write("/proc/self/setgroups", "deny")
        identity.write("/proc/self/uid_map", ids[0])
        identity.write("/proc/self/gid_map", ids[1])
    socket.sethostname("sandbox")
    syscalls.mount("", "/", "", syscalls.REC | syscalls.PRIVATE)


def _live(slot: Slot, pieces: dict[str, int], channel: socket.socket, links: list[image.Entry]) -> None:
    """The whole life of a sandbox's first process; never returns."""
    try:
        _close_all_but(channel.fileno(), *pieces.values())
        if channel.recv(1) != b"\0":
            return
        try:
            oom = os.open("/proc/self/oom_score_adj", os.O_RDWR)  # later, /proc/self is sealed even to itself
            judging = Judging(namespaces.furnish(slot, pieces), links)
            init = Init(channel, Commands(oom), judging)
            namespaces.seal()
        except OSError as error:
            channel.sendall(frames.head({"broken": str(error), "errno": error.errno}))
            return
        init.serve()
    except BrokenPipeError:
        return  # the owner went while we spoke
    except Exception as error:
        channel.send(frames.head({"broken": f"its init failed: {error!r}"}))
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def _close_all_but(*descriptors: int) -> None:
    """Keep these and the standard three."""
    first = 3
    for descriptor in sorted(descriptors):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _wake_on_signals() -> int:
    """A descriptor that yields the number of each signal: a child has died, or the owner.

    The owner's death shows as the end of its socket too, unless a child of the owner inherited that.
    """
    wake, signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    syscalls.die_with_parent(signal.SIGTERM)
    return wake
