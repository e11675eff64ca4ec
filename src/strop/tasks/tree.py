"""A folder on disk as data: its regular files, read once, safely.

Nothing outside the folder is ever read: a symbolic link is followed only to a regular file of the same
folder. Of a file's permissions only the owner's right to execute is taken from the disk, as git does, so
that a task has the same id whatever umask cloned it.
"""

import stat
from dataclasses import dataclass
from pathlib import Path

from strop.errors import Refusal
from strop.tasks.workspace import File

PLAIN, EXECUTABLE = 0o644, 0o755


@dataclass(frozen=True)
class Tree:
    """The files of a folder, each with a path as if the folder were the root.

    `unusual` holds the paths whose permissions on disk were others than 644 and 755 up to a umask's doing;
    `linked` those that were symbolic links; `empty` the folders without any file, which are not kept.
    """

    files: dict[str, File]
    unusual: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


def read_tree(root: Path, max_bytes: int) -> Tree:
    """Everything under `root`, in the order of the paths; a missing folder is an empty one.

    Raises:
        Refusal: a link that leads out, to a folder or nowhere; something that is no file; an unreadable file
            or name; more than `max_bytes` in all.
    """
    reader = _Reader(root, max_bytes)
    if root.is_symlink() or (root.exists() and not root.is_dir()):
        raise Refusal(f"{root.name} is not a folder of its own", str(root), remedy="put a real folder there")
    if root.is_dir():
        reader.folder(root)
    files = dict(sorted(reader.files.items()))
    return Tree(files, tuple(reader.unusual), tuple(reader.linked), tuple(reader.empty))


def entries(folder: Path) -> list[Path]:
    """What lies in a folder, by name.

    Raises:
        Refusal: it cannot be listed.
    """
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise Refusal(
            f"cannot list {folder.name}: {error.strerror}", where=str(folder), remedy=f"chmod a+rx {folder}"
        ) from error


class _Reader:
    def __init__(self, root: Path, max_bytes: int) -> None:
        self._root, self._left, self._max = root, max_bytes, max_bytes
        self.files: dict[str, File] = {}
        self.unusual: list[str] = []
        self.linked: list[str] = []
        self.empty: list[str] = []

    def folder(self, folder: Path) -> int:
        """Read what is below; the number of files found."""
        found = 0
        for entry in entries(folder):
            if entry.is_dir() and not entry.is_symlink():
                below = self.folder(entry)
                if not below:
                    self.empty.append(self._path(entry))
                found += below
            else:
                self._file(entry)
                found += 1
        return found

    def _file(self, entry: Path) -> None:
        path = self._path(entry)
        source = entry
        if entry.is_symlink():
            source = self._target(entry)
            self.linked.append(path)
        try:
            status = source.stat()
            if not stat.S_ISREG(status.st_mode):
                raise Refusal(
                    f"{entry.name} is neither a file nor a folder", where=str(entry), remedy="remove it"
                )
            self._left -= status.st_size
            if self._left < 0:
                raise Refusal(
                    f"{self._root.name}/ holds more than the {self._max >> 20} MiB that the task may use",
                    where=str(self._root),
                    remedy="raise environment.storage_mb in task.toml, or take files out",
                )
            data = source.read_bytes()
        except OSError as error:
            raise Refusal(
                f"cannot read {entry.name}: {error.strerror}", where=str(entry), remedy=f"chmod a+r {entry}"
            ) from error
        permissions = stat.S_IMODE(status.st_mode)
        mode = EXECUTABLE if permissions & stat.S_IXUSR else PLAIN
        if permissions | 0o022 != mode | 0o022:
            self.unusual.append(path)
        self.files[path] = File(path, data, mode)

    def _target(self, link: Path) -> Path:
        root = self._root.resolve()
        try:
            target = link.resolve(strict=True)
        except (OSError, RuntimeError):
            raise Refusal(
                f"the link {link.name} leads nowhere", where=str(link), remedy="remove it"
            ) from None
        if not target.is_relative_to(root):
            raise Refusal(
                f"the link {link.name} leads out of {self._root.name}/",
                where=str(link),
                remedy="copy the file that is meant into the folder",
            )
        if target.is_dir():
            raise Refusal(
                f"the link {link.name} leads to a folder, and a task is made of files",
                where=str(link),
                remedy="copy the folder that is meant",
            )
        return target

    def _path(self, entry: Path) -> str:
        path = "/" + entry.relative_to(self._root).as_posix()
        try:
            path.encode()
        except UnicodeEncodeError:
            raise Refusal(
                f"the file name {entry.name!r} is not UTF-8", where=str(entry.parent), remedy="rename it"
            ) from None
        return path
