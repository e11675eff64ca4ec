"""The owner's hold on the sandbox parent, a process of its own (see `zygote.py`).

The parent shares nothing with its owner but one socket: not its descriptors, not its terminal, not its
environment. Closing the socket ends it and every sandbox; so does the owner's death.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import strop
from strop.errors import SandboxFault

_BOOT = "import sys; sys.path.append(sys.argv[2]); from strop.sandbox.zygote import main; main()"
_SOURCE = str(Path(strop.__file__).parent.parent)
_LARGEST_MESSAGE = 65_536
_STOP_SECONDS, _LOOK_SECONDS = 10.0, 0.005
_CLOSED = SandboxFault("closed", "the pool was closed")

Newborn = tuple[socket.socket, int]
"""The socket to a sandbox's init, and a descriptor of its process."""


class Parent:
    """A running sandbox parent; `lost` says why it runs no longer."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[Newborn]] = {}
        self._ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.lost: SandboxFault | None = None
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        self._words = os.memfd_create("strop-parent")
        with theirs:
            self._process = subprocess.Popen(
                (sys.executable, "-I", "-S", "-E", "-c", _BOOT, str(theirs.fileno()), _SOURCE),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._words,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={},
                cwd="/",
            )
        asyncio.get_running_loop().add_reader(self._control, self._receive)

    async def start(self, groups: Sequence[str], verifier: Path) -> dict[str, Any]:
        """Tell it what to work with, wait until it is warm; what it found out about this machine.

        Raises:
            SandboxFault: ``parent``, with its own words.
        """
        settings = {"groups": list(groups), "verifier": str(verifier)}
        self._control.send(json.dumps(settings).encode())
        return await self._ready

    async def sandbox(self, slot: int) -> Newborn:
        """A new sandbox at `slot`, not yet furnished.

        Raises:
            SandboxFault: ``start``: it could not be made; ``parent``: the parent is gone.
        """
        if self.lost is not None:
            raise self.lost
        newborn: asyncio.Future[Newborn] = asyncio.get_running_loop().create_future()
        self._waiting[slot] = newborn
        try:
            self._control.send(json.dumps({"start": slot}).encode())
            return await newborn
        except asyncio.CancelledError:
            if newborn.done() and not newborn.cancelled() and newborn.exception() is None:
                _drop(newborn.result())
            raise
        finally:
            del self._waiting[slot]

    async def close(self) -> None:
        """Let it end every sandbox and itself. Nothing of them is left afterwards."""
        self._let_go(_CLOSED)
        for _ in range(int(_STOP_SECONDS / _LOOK_SECONDS)):
            if self._process.poll() is not None:
                return
            await asyncio.sleep(_LOOK_SECONDS)
        self.finish()

    def finish(self) -> None:
        """As `close`, for when the event loop is not to be waited for any longer."""
        self._let_go(_CLOSED)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its sandboxes die with it; control groups are left to the reaper
            self._process.wait()

    def _receive(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, _LARGEST_MESSAGE, 4)
        except BlockingIOError:
            return
        except ConnectionError:
            data, descriptors = b"", []
        if not data:
            self._gone()
            return
        message = json.loads(data)
        if "broken" in message or message.get("ready"):
            self._hear(message)
        elif "started" in message:
            self._deliver(message["started"], (socket.socket(fileno=descriptors[0]), descriptors[1]))
        else:
            waiting = self._waiting.get(message["failed"])
            if waiting is not None and not waiting.done():
                reason = f"no sandbox could be made: {message['message']}"
                waiting.set_exception(SandboxFault("start", reason))

    def _hear(self, message: dict[str, Any]) -> None:
        if self._ready.done():
            return
        if "broken" in message:
            self._ready.set_exception(SandboxFault("parent", message["broken"]))
        else:
            self._ready.set_result(message)

    def _deliver(self, slot: int, newborn: Newborn) -> None:
        waiting = self._waiting.get(slot)
        if waiting is not None and not waiting.done():
            waiting.set_result(newborn)
        else:
            _drop(newborn)

    def _gone(self) -> None:
        words = os.pread(self._words, 4096, 0).decode(errors="replace").strip()
        self._let_go(SandboxFault("parent", f"the sandbox parent ended unasked; its last words: {words!r}"))
        self._process.wait()

    def _let_go(self, fault: SandboxFault) -> None:
        if self.lost is not None:
            return
        self.lost = fault
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        if not self._ready.done():
            self._ready.set_exception(fault)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(fault)
        os.close(self._words)


def _drop(newborn: Newborn) -> None:
    """Hang up on a sandbox that nobody wants any longer, upon which it ends itself."""
    channel, pidfd = newborn
    channel.close()
    os.close(pidfd)
