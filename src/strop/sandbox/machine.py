"""The life of one sandbox: from its first process to the last, watched by descriptor, never by number."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from strop.errors import SandboxFault
from strop.sandbox.channel import Answer, Channel
from strop.sandbox.parent import Newborn


class Machine:
    """A sandbox as the pool knows it; `on_death` is called once, when nothing of it is left."""

    def __init__(self, slot: int, newborn: Newborn, on_death: Callable[["Machine"], None]) -> None:
        self.slot = slot
        self._socket, self._pidfd = newborn
        self._channel: Channel | None = None
        self._on_death = on_death
        self.is_ready = self.is_dead = False
        self.commands = 0
        asyncio.get_running_loop().add_reader(self._pidfd, self._died)

    @property
    def is_lost(self) -> bool:
        return self.is_dead or self._channel is None or self._channel.is_lost

    async def ready(self) -> None:
        """Wait until it is built.

        Raises:
            SandboxFault: ``start`` or ``lost``.
        """
        channel = self._channel = Channel()
        await asyncio.get_running_loop().create_unix_connection(lambda: channel, sock=self._socket)
        await channel.ready()
        self.is_ready = True

    async def ask(self, operation: str, blob: bytes = b"", *, within: float, **fields: Any) -> Answer:
        """As `Channel.ask`; a machine that does not answer in time is killed."""
        assert self._channel is not None, "a machine is lent only when it is ready"
        try:
            return await self._channel.ask(operation, blob, within=within, **fields)
        except SandboxFault as fault:
            self.kill(fault)
            raise

    def kill(self, fault: SandboxFault | None = None) -> None:
        """End it now; whoever still waits for it hears `fault`."""
        if not self.is_dead:
            with suppress(ProcessLookupError):  # it is dying already, and `_died` will be called
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self._hang_up(fault or SandboxFault("lost", "the sandbox was given back"))

    def forget(self) -> None:
        """Stop watching."""
        if not self.is_dead:
            self.is_dead = True
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
        self._hang_up(SandboxFault("lost", "the sandbox died"))

    def _hang_up(self, fault: SandboxFault) -> None:
        if self._channel is None:
            self._socket.close()
        else:
            self._channel.abort(fault)

    def _died(self) -> None:
        self.forget()
        self._on_death(self)
