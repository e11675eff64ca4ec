"""The network of a sandbox: a loopback device, and nothing beyond it.

A network namespace is the dearest part of a sandbox to make and to undo, so a slot keeps its own from one
sandbox to the next, but only as long as not one packet has passed in it: without traffic there are no
connections, no caches, no counters to find, and nobody inside may change its settings, because it belongs to
the parent. One that was used is thrown away.
"""

import fcntl
import os
import socket
import struct

from strop.sandbox import identity, syscalls

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


class Network:
    """A fresh network; making one leaves the calling process in it."""

    def __init__(self) -> None:
        syscalls.unshare(syscalls.NEWNET)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plug:
            fcntl.ioctl(plug, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
        # The right to bind low ports comes with owning the network, which a sandbox does not.
        identity.write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
        self._namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._counters = os.open("/proc/self/net/dev", os.O_RDONLY | os.O_CLOEXEC)

    def enter(self) -> None:
        """Take the calling process, and what it forks from now on, into this network."""
        syscalls.setns(self._namespace, syscalls.NEWNET)

    def is_untouched(self) -> bool:
        """Whether no packet has ever passed."""
        lines = os.pread(self._counters, 4096, 0).splitlines()[2:]
        return all(not any(map(int, line.split(b":", 1)[1].split())) for line in lines)

    def close(self) -> None:
        os.close(self._namespace)
        os.close(self._counters)
