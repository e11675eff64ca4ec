"""A workspace that is a folder of this machine."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from strop.tasks.workspace import Command, Completed, File


class FolderWorkspace:
    """Runs commands and keeps files in `root`, which stands for the task's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands: list[Command] = []

    async def run(self, command: Command) -> Completed:
        self.commands.append(command)
        line = ["/bin/bash", "-c", command.line] if isinstance(command.line, str) else command.line
        begun = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *line,
            cwd=command.cwd or self.root,
            env={**os.environ, "LC_ALL": "C.UTF-8", **command.env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        reading = asyncio.gather(process.stdout.read(), process.stderr.read())
        done, _ = await asyncio.wait([reading], timeout=command.timeout)
        if not done:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        streams = dict(zip(("stdout", "stderr"), await reading, strict=True))
        code = await process.wait()
        kept = {name: self._kept(stream, command.max_bytes) for name, stream in streams.items()}
        omitted = {name: len(streams[name]) - len(kept[name]) for name in kept}
        return Completed(
            code if code >= 0 else 128 - code,
            kept["stdout"],
            kept["stderr"],
            time.monotonic() - begun,
            timed_out=not done,
            omitted={name: count for name, count in omitted.items() if count},
        )

    @staticmethod
    def _kept(stream: bytes, limit: int) -> bytes:
        return stream if len(stream) <= limit else stream[: limit // 2] + stream[-(limit - limit // 2) :]

    async def read(self, path: str, max_bytes: int = 16_777_216) -> bytes:
        return Path(path).read_bytes()

    async def write(self, files: Sequence[File]) -> None:
        for file in files:
            path = Path(file.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(".new")
            beside.write_bytes(file.data)
            beside.chmod(file.mode)
            beside.replace(path)


@pytest.fixture
def workspace(tmp_path: Path) -> FolderWorkspace:
    return FolderWorkspace(tmp_path)
