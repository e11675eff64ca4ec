"""The owner's end of the socket to one init: questions out, answers matched to them by id."""

import asyncio
from typing import Any

from strop.errors import SandboxFault
from strop.sandbox import frames

Answer = tuple[dict[str, Any], bytes]


class Channel(asyncio.Protocol):
    """When the sandbox dies, whoever waits gets a fault, as does whoever asks later."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._unpacker = frames.Unpacker()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._last_id = 0
        self._lost: SandboxFault | None = None
        self._ready: asyncio.Future[Answer] = self._loop.create_future()

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    async def ready(self) -> None:
        """Wait until the sandbox is built.

        Raises:
            SandboxFault: ``start``, naming the system call that failed; ``lost``.
        """
        header, _ = await self._ready
        if "broken" in header:
            raise SandboxFault("start", f"a sandbox could not be built: {header['broken']}")

    async def ask(self, operation: str, blob: bytes = b"", *, within: float, **fields: Any) -> Answer:
        """Send a request, wait for its answer.

        Raises:
            OSError: the init says so.
            SandboxFault: ``lost``; ``unresponsive`` after `within` seconds; ``limits``.
        """
        if self._lost is not None:
            raise self._lost
        self._last_id += 1
        number = self._last_id
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[number] = answer
        self._send({"id": number, "op": operation, **fields}, blob)
        try:
            async with asyncio.timeout(within):
                header, data = await answer
        except TimeoutError:
            message = f"the sandbox did not answer {operation!r} within {within:g} s"
            raise SandboxFault("unresponsive", message) from None
        except asyncio.CancelledError:
            if operation == "run" and self._lost is None:
                self._send({"op": "kill", "run": number})
            raise
        finally:
            del self._waiting[number]
        if "broken" in header:
            raise SandboxFault("limits", f"the limits of a lease could not be set: {header['broken']}")
        if "errno" in header:
            raise OSError(header["errno"], header["message"], header["path"])
        return header, data

    def abort(self, fault: SandboxFault) -> None:
        """Let the sandbox go; `fault` is what those who wait or ask will hear."""
        self._fail(fault)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._lost is not None:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        for header, blob in self._unpacker.feed(data):
            number = header.get("id")
            if number is None and self._ready.done():
                self._fail(SandboxFault("lost", f"the sandbox died: {header['broken']}"))
            future = self._ready if number is None else self._waiting.get(number)
            if future is not None and not future.done():
                future.set_result((header, blob))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(SandboxFault("lost", "the sandbox died"))

    def _send(self, header: dict[str, Any], blob: bytes = b"") -> None:
        assert self._transport is not None, "nobody asks before the channel is connected"
        self._transport.write(frames.head(header, len(blob)) + blob)

    def _fail(self, fault: SandboxFault) -> None:
        if self._lost is None:
            self._lost = fault
            for future in (self._ready, *self._waiting.values()):
                if not future.done():
                    future.set_exception(fault)
            if self._ready.done() and not self._ready.cancelled():
                self._ready.exception()  # heard, even if nobody waits for it
