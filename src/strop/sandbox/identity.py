"""Whose sandbox is whose: ranges of user ids, and the namespaces that map them.

No sandbox shares an id with a person of the host, and none but an ordinary user's with another sandbox.
"""

import os
import socket

from strop.sandbox import syscalls

FIRST_ID, IDS = 0x70000000, 65_536
"""Where the ranges begin, above those of ordinary users and their containers; ids in each."""


def owner(index: int, privileged: bool) -> int:
    """The id, as the parent sees it, of the root of the sandboxes at slot `index`."""
    return FIRST_ID + index * IDS if privileged else 0


def mapping(owner: int, privileged: bool) -> str:
    return f"0 {owner} {IDS if privileged else 1}"


def admit(pid: int, ids: str) -> None:
    """Give a process in a new user namespace its ids."""
    write(f"/proc/{pid}/uid_map", ids)
    write(f"/proc/{pid}/gid_map", ids)


def namespace(ids: str) -> int:
    """The descriptor of a user namespace in which nobody lives."""
    ours, theirs = socket.socketpair()
    pid, pidfd = syscalls.clone(syscalls.NEWUSER)
    if pid == 0:
        try:
            ours.close()
            theirs.recv(1)
        finally:
            os._exit(0)
    theirs.close()
    try:
        admit(pid, ids)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        ours.close()
        os.waitpid(pid, 0)
        os.close(pidfd)


def write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
