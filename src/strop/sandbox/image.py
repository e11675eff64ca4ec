"""The file system that every sandbox starts from: a curated, read-only view of the host.

Shown of the host are its system folders (``/usr`` without ``/usr/local`` and ``/usr/src``) and a handful
of public files of ``/etc``; everything else is made here. Home folders, projects and the host's own
settings are not hidden: they are never mounted at all.

This file says what there is; `stage.py` mounts it.
"""

import os
import stat
from collections.abc import Iterator, Sequence

Entry = tuple[str, str, "str | bytes", int]
"""Path below the root, kind (``folder``, ``file`` or ``link``), content or target, mode."""

DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
"""Major and minor numbers."""
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}

MASKED_IN_USR = ("local", "src")
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FOLDERS = (
    "app dev etc home media mnt opt proc root run srv sys tmp usr var var/cache var/lib var/local var/log "
    "var/tmp"
).split()
_MODES = {"tmp": 0o1777, "var/tmp": 0o1777, "root": 0o700, "etc/shadow": 0o640}
_LOCAL = "bin etc include lib sbin share share/man src".split()
_ETC = {
    "passwd": (
        "root:x:0:0:root:/root:/bin/bash\n"
        "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
        "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
        "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
    "group": (
        "root:x:0:\ndaemon:x:1:\nbin:x:2:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nmail:x:8:\nsudo:x:27:\n"
        "www-data:x:33:\nshadow:x:42:\nstaff:x:50:\nusers:x:100:\nnogroup:x:65534:\n"
    ),
    "shadow": "root:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n",
    "hosts": "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n",
    "hostname": "sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n",
    "resolv.conf": "",
    "fstab": "",
    "profile": "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n",
}
_ETC_OF_HOST = (
    "ld.so.cache ld.so.conf services protocols mime.types shells os-release debian_version login.defs "
    "locale.alias magic magic.mime"
).split()
_ETC_FOLDERS_OF_HOST = ("ld.so.conf.d", "alternatives")


def skeleton(host: str = "/") -> list[Entry]:
    """What a sandbox's root holds besides the system trees; links of a merged-usr host are repeated."""
    entries: list[Entry] = [("folder", name, "", _MODES.get(name, 0o755)) for name in _FOLDERS]
    entries += [("folder", name, "", 0o755) for name in system_trees(host) if name != "usr"]
    entries += links(host)
    entries.append(("link", "var/run", "/run", 0))
    for name, text in _ETC.items():
        entries.append(("file", f"etc/{name}", text, _MODES.get(f"etc/{name}", 0o644)))
    for name in _ETC_OF_HOST:
        entries += _copied(host, f"etc/{name}")
    for folder in _ETC_FOLDERS_OF_HOST:
        path = os.path.join(host, "etc", folder)
        entries.append(("folder", f"etc/{folder}", "", 0o755))
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else ():
            entries += _copied(host, f"etc/{folder}/{name}")
    return entries


def links(host: str = "/") -> list[Entry]:
    """The links ``/bin``, ``/lib`` and so on of a host whose system folders are merged into ``/usr``."""
    found = [(name, os.path.join(host, name)) for name in _SYSTEM]
    return [("link", name, os.readlink(path), 0) for name, path in found if os.path.islink(path)]


def system_trees(host: str = "/") -> list[str]:
    """The host's real system folders, ``usr`` first: only it on a merged host."""
    return [name for name in _SYSTEM if _is_folder(os.path.join(host, name))]


def usr_mask(owned: Sequence[str]) -> list[Entry]:
    """The layer above the host's ``/usr``: an own ``/usr/local``, and the folders in `owned`.

    Where owners cannot be mapped, the host's folders would belong to nobody and refuse new files; a folder
    of the same name in this layer lends them an owner.
    """
    entries: list[Entry] = [("folder", name, "", 0o755) for name in owned]
    entries += [("folder", name, "", 0o755) for name in MASKED_IN_USR]
    return entries + [("folder", f"local/{name}", "", 0o755) for name in _LOCAL]


def place(folder: str, entries: Sequence[Entry], owner: int) -> None:
    """Make the entries below `folder`, all owned by `owner`."""
    os.makedirs(folder, exist_ok=True)
    os.chown(folder, owner, owner)
    for kind, name, content, mode in entries:
        path = os.path.join(folder, name)
        if kind == "link":
            os.symlink(content, path)
        elif kind == "folder":
            os.mkdir(path)
            os.chmod(path, mode)
        else:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            os.write(descriptor, content if isinstance(content, bytes) else content.encode())
            os.fchmod(descriptor, mode)
            os.close(descriptor)
        os.chown(path, owner, owner, follow_symlinks=False)


def _copied(host: str, name: str) -> Iterator[Entry]:
    """A public file or link of the host as it is; nothing when it is absent, private or a manual page."""
    path = os.path.join(host, name)
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(path)
        if "/man/" not in target:
            yield "link", name, target, 0
    elif stat.S_ISREG(status.st_mode) and status.st_mode & 0o004:
        descriptor = os.open(path, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as file:
            yield "file", name, file.read(), 0o644


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
