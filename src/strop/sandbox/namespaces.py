"""Birth: from a fork of the parent to a process alone in a machine of its own.

`Slot` is the parent's side (identity and control groups of a place that sandboxes take one after another),
`furnish` and `seal` the child's: when they have returned, the host is out of reach, and the child itself
is out of reach of what it starts.
"""

import os
import signal

from strop.sandbox import identity, syscalls
from strop.sandbox.network import Network
from strop.sandbox.stage import HIDDEN, LOWER, NEW, VERIFIER, WORK, Stage
from strop.sandbox.syscalls import BIND, NODEV, NOEXEC, NOSUID, RDONLY, REMOUNT

FLAGS = syscalls.NEWUSER | syscalls.NEWPID | syscalls.NEWNS | syscalls.NEWIPC | syscalls.NEWUTS
"""The network is the slot's, control groups are cut off in `furnish`."""
_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 27, 29, 31)
"""Docker's default set without NET_RAW."""
_START_STORAGE = "size=64m,nr_inodes=8k,mode=755"
"""Until the limits of a lease are known."""


class Slot:
    """A place for one sandbox at a time, whose root is `owner` and whose layers lie in `skeleton`.

    `joins` are descriptors of the ``cgroup.procs`` files that a sandbox's first process is written to.
    """

    def __init__(self, index: int, stage: Stage, joins: list[int]) -> None:
        self.stage = stage
        self.joins = joins
        owner = identity.owner(index, stage.privileged)
        self.ids = identity.mapping(owner, stage.privileged)
        self.skeleton = stage.skeleton(owner)
        self.users = identity.namespace(self.ids) if stage.mapped else None
        self._network: Network | None = None

    def enter_network(self) -> None:
        """Go where the next sandbox shall be born."""
        if self._network is not None and self._network.is_untouched():
            self._network.enter()
            return
        if self._network is not None:
            self._network.close()
        self._network = Network()

    def admit(self, pid: int) -> None:
        """Give a newborn its ids and put it under its limits."""
        identity.admit(pid, self.ids)
        for join in self.joins:
            os.pwrite(join, str(pid).encode(), 0)


def furnish(slot: Slot, pieces: dict[str, int]) -> dict[str, int]:
    """Build the machine around this process; returns detached trees for later judging, by mount point.

    Raises:
        OSError: naming the system call that failed.
    """
    os.setresgid(0, 0, 0)
    if slot.stage.privileged:
        os.setgroups([])
    os.setresuid(0, 0, 0)
    syscalls.unshare(syscalls.NEWCGROUP)
    pristine = _file_system(slot, pieces)
    _devices(NEW)
    _proc(f"{NEW}/proc", slot.stage.masked)
    os.chdir(NEW)
    syscalls.pivot()
    return pristine


def seal() -> None:
    """Put this process out of reach of what it will start, and tie its life to its parent's."""
    syscalls.drop_bounding(_CAPABILITIES)
    syscalls.seal_memory()
    syscalls.die_with_parent(signal.SIGKILL)


def _file_system(slot: Slot, pieces: dict[str, int]) -> dict[str, int]:
    syscalls.mount("strop", WORK, "tmpfs", NOSUID | NODEV, _START_STORAGE)
    os.chdir(WORK)
    os.mkdir("shm")
    os.chmod("shm", 0o1777)
    etc = syscalls.open_tree(f"{slot.skeleton}/root/etc")
    syscalls.set_attributes(etc, RDONLY | NODEV)
    pristine = {"/etc": etc, VERIFIER: pieces[VERIFIER]}
    _overlay("root", f"{slot.skeleton}/root", NEW)
    for name in slot.stage.trees:
        lower = f"{LOWER}/{name}"
        syscalls.attach(pieces[f"/{name}"], lower)
        os.close(pieces[f"/{name}"])
        pristine[f"/{name}"] = syscalls.open_tree(lower)
        layers = f"{slot.skeleton}/usr:{HIDDEN}:{lower}" if name == "usr" else lower
        _overlay(name, layers, f"{NEW}/{name}")
    return pristine


def _overlay(name: str, layers: str, target: str) -> None:
    upper, work = f"{name}-upper", f"{name}-work"
    os.mkdir(upper, 0o755)
    os.mkdir(work, 0o755)
    options = f"lowerdir={layers},upperdir={upper},workdir={work},userxattr"
    syscalls.mount("strop", target, "overlay", NODEV, options)


def _devices(root: str) -> None:
    syscalls.bind("/dev", f"{root}/dev")
    options = "newinstance,ptmxmode=0666,mode=0620"
    syscalls.mount("devpts", f"{root}/dev/pts", "devpts", NOSUID | NOEXEC, options)
    syscalls.mount("shm", f"{root}/dev/shm", "", BIND)


def _proc(target: str, masked: dict[str, str]) -> None:
    flags = NOSUID | NODEV | NOEXEC
    syscalls.mount("proc", target, "proc", flags)
    for name, cover in masked.items():
        syscalls.mount(cover, f"{target}/{name}", "", BIND)
    syscalls.mount(f"{target}/sys", f"{target}/sys", "", BIND)
    syscalls.mount("", f"{target}/sys", "", BIND | REMOUNT | RDONLY | flags)
