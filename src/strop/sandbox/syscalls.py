"""System calls that Python does not wrap, for the sandbox parent and the init.

Privileged calls carry a key, a random number in their unused sixth argument. The seccomp filter lets
them pass with the key and refuses them without, so that one filter, installed once in the parent, binds
every sandbox and still leaves the init its mounts. The key lives only in the memory of the parent and of
the init, which no process in a sandbox can read.
"""

import ctypes
import os
import struct
from collections.abc import Sequence

_NAMES = (
    "umount2 mount pivot_root vhangup quotactl acct unshare kexec_load init_module delete_module "
    "clock_settime syslog reboot settimeofday adjtimex socket add_key request_key keyctl clone swapon "
    "swapoff perf_event_open fanotify_init name_to_handle_at open_by_handle_at clock_adjtime setns kcmp "
    "finit_module seccomp bpf userfaultfd kexec_file_load lookup_dcookie nfsservctl prctl capset"
).split()
_X86_64 = (
    "166 165 155 153 179 163 272 246 175 176 227 103 169 164 159 41 248 249 250 56 167 168 298 300 303 304 "
    "305 308 312 313 317 321 323 320 212 180 157 126"
)
_AARCH64 = (
    "39 40 41 58 60 89 97 104 105 106 112 116 142 170 171 198 217 218 219 220 224 225 241 262 264 265 266 "
    "268 272 273 277 280 282 294 18 42 167 91"
)
_EVERYWHERE = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "close_range": 436,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "open_tree_attr": 467,
}
_X86_64_ONLY = {"iopl": 172, "ioperm": 173, "modify_ldt": 154, "uselib": 134, "ustat": 136, "sysfs": 139}


def _table(numbers: str, extra: dict[str, int]) -> dict[str, int]:
    return {**dict(zip(_NAMES, map(int, numbers.split()), strict=True)), **_EVERYWHERE, **extra}


NUMBERS = {"x86_64": _table(_X86_64, _X86_64_ONLY), "aarch64": _table(_AARCH64, {})}
"""System call numbers by machine, as the kernel's own headers give them."""

KEYED = frozenset(
    "mount umount2 pivot_root open_tree move_mount mount_setattr fsopen fsconfig fsmount fspick "
    "open_tree_attr setns unshare clone3".split()
)
"""The calls that pass the filter with the key only."""

KEY = int.from_bytes(os.urandom(8), "little") >> 1

NEWTIME, NEWNS, NEWCGROUP, NEWUTS = 0x80, 0x20000, 0x2000000, 0x4000000
NEWIPC, NEWUSER, NEWPID, NEWNET = 0x8000000, 0x10000000, 0x20000000, 0x40000000

RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND = 1, 2, 4, 8, 32, 4096
REC, PRIVATE = 16384, 1 << 18
DETACH = 2

AT_FDCWD = -100
AT_EMPTY_PATH, AT_RECURSIVE = 0x1000, 0x8000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, 0o2000000
_MOVE_MOUNT_FROM_EMPTY = 4
_MOUNT_ATTR_IDMAP = 0x100000
_CLONE_PIDFD = 0x1000
_SIGCHLD = 17
_CAPABILITY_VERSION_3 = 0x20080522
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NAME, _PR_CAPBSET_DROP = 1, 4, 15, 24

_libc = ctypes.PyDLL(None, use_errno=True)  # PyDLL keeps the interpreter lock, so a raw clone stays sound
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = [ctypes.c_long] * 7
_before_fork = ctypes.pythonapi.PyOS_BeforeFork
_after_fork_child = ctypes.pythonapi.PyOS_AfterFork_Child
_after_fork_parent = ctypes.pythonapi.PyOS_AfterFork_Parent
_before_fork.restype = _after_fork_child.restype = _after_fork_parent.restype = None
_numbers = NUMBERS.get(os.uname().machine, {})


def call(name: str, *arguments: "int | bytes | None") -> int:
    """Make a system call; bytes are passed as C strings, None as a null pointer.

    Raises:
        OSError: naming the call.
    """
    keep = [ctypes.c_char_p(a) if isinstance(a, bytes) else None for a in arguments]
    values = [
        ctypes.cast(pointer, ctypes.c_void_p).value or 0 if pointer is not None else argument or 0
        for pointer, argument in zip(keep, arguments, strict=True)
    ]
    values += [0] * (5 - len(values))
    result: int = _syscall(_numbers[name], *values, KEY if name in KEYED else 0)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    names = os.fsencode(source), os.fsencode(target), kind.encode() or None
    try:
        call("mount", *names, flags, options.encode() or None)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise OSError(error.errno, f"mount of {kind or source or 'flags'} at {target}: {reason}") from None


def bind(source: str, target: str) -> None:
    """Show the tree at `source` at `target` too, with what is mounted below it."""
    mount(source, target, "", BIND | REC)


def unmount(target: str) -> None:
    call("umount2", os.fsencode(target), DETACH)


def pivot() -> None:
    """Make the working directory, which must be a mount, the root; the old root is let go."""
    call("pivot_root", b".", b".")
    unmount(".")
    os.chdir("/")


def open_tree(path: str, at: int = AT_FDCWD) -> int:
    """A detached copy of the mounts at `path` (the descriptor `at` itself when `path` is empty)."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | AT_RECURSIVE | (0 if path else AT_EMPTY_PATH)
    return call("open_tree", at, os.fsencode(path), flags)


def attach(tree: int, target: str) -> None:
    call("move_mount", tree, b"", AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_FROM_EMPTY)


def set_attributes(tree: int, flags: int, users: int | None = None) -> None:
    """Change a detached tree as a whole; `users` is a user namespace to map file owners through."""
    mapping = _MOUNT_ATTR_IDMAP if users is not None else 0
    attributes = struct.pack("=QQQQ", flags | mapping, 0, 0, users or 0)
    call("mount_setattr", tree, b"", AT_EMPTY_PATH | AT_RECURSIVE, attributes, len(attributes))


def clone(flags: int) -> tuple[int, int]:
    """Fork into new namespaces: (0, -1) in the child, (pid, pidfd) in the parent."""
    pidfd = ctypes.c_int(-1)
    arguments = struct.pack(
        "=11Q", flags | _CLONE_PIDFD, ctypes.addressof(pidfd), 0, 0, _SIGCHLD, 0, 0, 0, 0, 0, 0
    )
    pid = -1
    _before_fork()
    try:
        pid = call("clone3", arguments, len(arguments))
    finally:
        _after_fork_child() if pid == 0 else _after_fork_parent()
    return pid, pidfd.value if pid else -1


def setns(descriptor: int, kind: int) -> None:
    call("setns", descriptor, kind)


def unshare(flags: int) -> None:
    call("unshare", flags)


def close_from(first: int) -> None:
    call("close_range", first, 0xFFFFFFFF, 0)


def die_with_parent(signal_number: int) -> None:
    call("prctl", _PR_SET_PDEATHSIG, signal_number)


def seal_memory() -> None:
    """Forbid tracing this process and reading its memory, files and environment through /proc."""
    call("prctl", _PR_SET_DUMPABLE, 0)


def drop_bounding(keep: Sequence[int]) -> None:
    """Forbid the programs started from here every capability not in `keep`, for ever."""
    prctl = _libc.prctl
    for capability in range(64):
        if capability not in keep and prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            return  # past the last capability of this kernel


def rename_process(name: str) -> None:
    """Replace what /proc shows of this process, its arguments included."""
    call("prctl", _PR_SET_NAME, name.encode()[:15])
    stat = os.open("/proc/self/stat", os.O_RDONLY)
    fields = os.read(stat, 4096).rsplit(b")", 1)[1].split()
    os.close(stat)
    start, end = int(fields[45]), int(fields[46])
    text = name.encode()[: end - start - 1]
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text, len(text))
