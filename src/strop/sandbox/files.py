"""Reading and placing files in a sandbox, as its init does it.

Nothing here blocks on what an agent may have left in a file's place, and a file appears whole or not at all.
"""

import errno
import os
import stat
from typing import Any

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def read(path: str, max_bytes: int) -> bytearray:
    """The content of a regular file.

    Raises:
        OSError: also for what is no regular file (EINVAL) and for one larger than `max_bytes` (EFBIG).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        data = bytearray()
        while piece := os.read(descriptor, min(1 << 20, max_bytes + 1 - len(data))):
            data += piece
        if len(data) > max_bytes:
            raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", path)
        return data
    finally:
        os.close(descriptor)


class Placing:
    """Files on their way in: written beside their place, then renamed into it."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[str, tuple[int, str]] = {}

    def write(self, entries: list[list[Any]], blob: bytes) -> None:
        """Take (path, mode, size, more to come) for each stretch of `blob`.

        Raises:
            OSError: the first file that cannot be placed; of it nothing is left.
        """
        at = 0
        for path, mode, size, more in entries:
            try:
                self._append(path, memoryview(blob)[at : at + size])
                if not more:
                    self._settle(path, mode)
            except OSError as error:
                self._abandon(path)
                raise OSError(error.errno, error.strerror, path) from error
            at += size

    def _append(self, path: str, data: memoryview) -> None:
        if path not in self._open:
            folder = os.path.dirname(path)
            self._count += 1
            beside = f"{folder}/.strop-{self._count}-{os.urandom(4).hex()}"
            try:
                descriptor = os.open(beside, _NEW, 0o600)
            except FileNotFoundError:
                os.makedirs(folder, 0o755, exist_ok=True)
                descriptor = os.open(beside, _NEW, 0o600)
            self._open[path] = (descriptor, beside)
        descriptor, _ = self._open[path]
        while data:
            data = data[os.write(descriptor, data) :]

    def _settle(self, path: str, mode: int) -> None:
        descriptor, beside = self._open[path]
        os.fchmod(descriptor, mode)
        os.rename(beside, path)
        os.close(descriptor)
        del self._open[path]

    def _abandon(self, path: str) -> None:
        if path in self._open:
            descriptor, beside = self._open.pop(path)
            os.close(descriptor)
            os.unlink(beside)
