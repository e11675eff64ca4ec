"""What sandboxes need of the machine, and what to do where it is missing.

`require` looks at what can be known beforehand; `explain` turns the failure of the first sandbox, which is
the only complete probe, into words that help.
"""

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

from strop.errors import Refusal, SandboxFault
from strop.sandbox.syscalls import NUMBERS

_SYS_ADMIN = 1 << 21
_ALL_IDS = 4_294_967_295
_APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"


@dataclass(frozen=True)
class Host:
    """The machine as it presents itself; `root` is where its files are looked for."""

    system: str = field(default_factory=platform.system)
    machine: str = field(default_factory=platform.machine)
    user: int = field(default_factory=os.geteuid)
    root: Path = Path("/")

    def setting(self, name: str) -> str:
        """A sysctl such as ``user.max_user_namespaces``; '' where there is none."""
        return self.text(f"proc/sys/{name.replace('.', '/')}").strip()

    def text(self, path: str) -> str:
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""  # absent, or not for us to read: nothing is known

    def effective_capabilities(self) -> int:
        for line in self.text("proc/self/status").splitlines():
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16)
        return 0


def require(host: Host | None = None) -> None:
    """Refuse a machine on which no sandbox can start.

    Raises:
        Refusal: names what is missing and the remedy.
    """
    host = host or Host()
    if host.system != "Linux":
        raise Refusal(
            f"sandboxes need Linux, and this is {host.system}",
            remedy="run Strop on Linux: a virtual machine will do",
        )
    if host.machine not in NUMBERS:
        raise Refusal(
            f"sandboxes are not known to be safe on {host.machine}: its system calls have no filter yet",
            nearest=", ".join(sorted(NUMBERS)),
            remedy="use a machine of one of these architectures",
        )
    if not (host.root / "usr/bin/bash").exists() and not (host.root / "bin/bash").exists():
        raise Refusal("there is no bash", where="/usr/bin/bash", remedy="install the package bash")
    _require_namespaces(host)
    if host.user == 0:
        _require_real_root(host)


def explain(fault: SandboxFault, host: Host | None = None) -> Refusal:
    """Why the first sandbox did not start, and what to do."""
    host = host or Host()
    message = fault.message
    remedy = "the first line names what the kernel refused; run Strop as root, or on a machine of its own"
    if "No space left" in message and ("unshare" in message or "clone3" in message):
        remedy = "too many user namespaces are in use: sysctl -w user.max_user_namespaces=65536"
    elif "No such device" in message and "overlay" in message:
        remedy = "the kernel has no overlay file system: modprobe overlay, or a kernel with CONFIG_OVERLAY_FS"
    elif host.user != 0 and host.setting(_APPARMOR) == "1":
        remedy = f"AppArmor keeps ordinary users from it: sysctl -w {_APPARMOR}=0, or run Strop as root"
    elif "mount of proc" in message or "mount of /proc" in message:
        remedy = "this container hides parts of /proc: start it with --security-opt systempaths=unconfined"
    elif "not permitted" in message and ("unshare" in message or "clone3" in message):
        remedy = "this container forbids namespaces: start it with --privileged, or run Strop outside of it"
    return Refusal(
        f"no sandbox can start here: {message}", where=f"Linux {platform.release()}", remedy=remedy
    )


def _require_namespaces(host: Host) -> None:
    if host.setting("user.max_user_namespaces") == "0":
        raise Refusal(
            "user namespaces are switched off",
            where="sysctl user.max_user_namespaces = 0",
            remedy="as root: sysctl -w user.max_user_namespaces=65536",
        )
    if host.user != 0 and host.setting("kernel.unprivileged_userns_clone") == "0":
        raise Refusal(
            "ordinary users may not make user namespaces",
            where="sysctl kernel.unprivileged_userns_clone = 0",
            remedy="as root: sysctl -w kernel.unprivileged_userns_clone=1, or run Strop as root",
        )


def _require_real_root(host: Host) -> None:
    """A root that is none needs another user: mapped onto itself, a sandbox would be that root."""
    if not host.effective_capabilities() & _SYS_ADMIN:
        raise Refusal(
            "this root may not make sandboxes: it lacks the capability CAP_SYS_ADMIN",
            where="CapEff in /proc/self/status",
            remedy="run Strop as an ordinary user, or start the container with --privileged",
        )
    ids = host.text("proc/self/uid_map").split()
    if ids and int(ids[2]) != _ALL_IDS:
        raise Refusal(
            f"this root is root of {ids[2]} user ids only, which leaves none for sandboxes",
            where="/proc/self/uid_map",
            remedy="run Strop as an ordinary user inside this container, or as root outside of it",
        )
