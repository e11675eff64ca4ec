"""What no process in a sandbox may ask of the kernel.

A filter of classic BPF, installed once in the sandbox parent and inherited by everything below it. It
narrows the shared kernel's surface; isolation itself rests on namespaces and dropped capabilities. It is
installed with CAP_SYS_ADMIN, not with no-new-privileges, so that su and sudo go on working inside.
"""

import ctypes
import errno
import os
import struct

from strop.sandbox.syscalls import KEY, KEYED, NUMBERS, call

_FORBIDDEN = frozenset(
    "mount umount2 pivot_root open_tree move_mount mount_setattr fsopen fsconfig fsmount fspick "
    "open_tree_attr setns unshare bpf perf_event_open userfaultfd keyctl add_key request_key kexec_load "
    "kexec_file_load init_module finit_module delete_module open_by_handle_at name_to_handle_at swapon "
    "swapoff reboot settimeofday clock_settime clock_adjtime adjtimex acct quotactl quotactl_fd syslog "
    "lookup_dcookie kcmp fanotify_init nfsservctl vhangup iopl ioperm modify_ldt uselib ustat sysfs".split()
)
_ABSENT = frozenset("clone3 io_uring_setup io_uring_enter io_uring_register".split())
"""Answered with ENOSYS, upon which C libraries fall back to older calls."""

_NAMESPACES = 0x7E020080
_FAMILIES = (1, 2, 10, 16)
"""UNIX, INET, INET6, NETLINK. AF_VSOCK, for one, is not confined by network namespaces."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16
_SET_MODE_FILTER = 1


def program(machine: str, key: int) -> bytes:
    """The filter as the kernel reads it: instructions of 8 bytes.

    Raises:
        KeyError: no system call numbers are known for `machine`.
    """
    numbers = NUMBERS[machine]
    code = [
        _step(_LOAD, _AT_ARCHITECTURE),
        _step(_EQUAL, _ARCHITECTURES[machine], 1, 0),
        _fail(errno.ENOSYS),
        _step(_LOAD, _AT_NUMBER),
    ]
    if machine == "x86_64":
        code += [_step(_AT_LEAST, _X32_BIT, 0, 1), _fail(errno.ENOSYS)]
    for name in sorted((_FORBIDDEN | _ABSENT) & numbers.keys()):
        answer = errno.ENOSYS if name in _ABSENT else errno.EPERM
        code += _guard(numbers[name], _keyed(key, answer) if name in KEYED else [_fail(answer)])
    code += _guard(numbers["clone"], _clone())
    code += _guard(numbers["socket"], _socket())
    code.append(_step(_RETURN, _ALLOW))
    return b"".join(code)


def install() -> None:
    """Bind this process and all its descendants.

    Raises:
        OSError: the kernel has no seccomp filters, or this process may not install one.
    """
    code = program(os.uname().machine, KEY)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("=HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    call("seccomp", _SET_MODE_FILTER, 0, header)


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def _fail(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _argument(index: int, high: bool = False) -> bytes:
    return _step(_LOAD, _AT_ARGUMENTS + 8 * index + (4 if high else 0))


def _guard(number: int, block: list[bytes]) -> list[bytes]:
    """`block`, which must end in a return on every path, for one system call only."""
    return [_step(_EQUAL, number, 0, len(block)), *block]


def _keyed(key: int, answer: int) -> list[bytes]:
    return [
        _argument(5),
        _step(_EQUAL, key & 0xFFFFFFFF, 0, 3),
        _argument(5, high=True),
        _step(_EQUAL, key >> 32, 0, 1),
        _step(_RETURN, _ALLOW),
        _fail(answer),
    ]


def _clone() -> list[bytes]:
    return [_argument(0), _step(_ANY_BIT, _NAMESPACES, 0, 1), _fail(errno.EPERM), _step(_RETURN, _ALLOW)]


def _socket() -> list[bytes]:
    allowed = [_step(_EQUAL, family, len(_FAMILIES) - place) for place, family in enumerate(_FAMILIES)]
    return [_argument(0), *allowed, _fail(errno.EAFNOSUPPORT), _step(_RETURN, _ALLOW)]
