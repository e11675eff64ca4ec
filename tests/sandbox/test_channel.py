"""The owner's end of the socket, against an init played by the test."""

import asyncio
import socket

import pytest

from strop.errors import SandboxFault
from strop.sandbox.channel import Channel
from strop.sandbox.frames import Unpacker, head


class FakeInit:
    """The other end, in the same event loop."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._unpacker = Unpacker()
        self._heard: list = []

    async def hear(self):
        while not self._heard:
            data = await asyncio.get_running_loop().sock_recv(self._end, 65_536)
            self._heard += self._unpacker.feed(data)
        return self._heard.pop(0)

    def say(self, header, blob=b""):
        self._end.send(head(header, len(blob)) + blob)

    def say_bytes(self, data):
        self._end.send(data)

    def hang_up(self):
        self._end.close()


def play(scenario):
    """Runs the scenario with a connected channel and its init."""

    async def main():
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        channel = Channel()
        await asyncio.get_running_loop().create_unix_connection(lambda: channel, sock=ours)
        try:
            return await scenario(channel, FakeInit(theirs))
        finally:
            channel.abort(SandboxFault("lost", "the test is over"))
            theirs.close()
            await asyncio.sleep(0)

    return asyncio.run(main())


def test_answers_find_their_questions_in_any_order():
    async def scenario(channel, init):
        asks = [asyncio.create_task(channel.ask("read", within=5, path=name)) for name in "abc"]
        questions = [(await init.hear())[0] for _ in asks]
        for question in reversed(questions):
            init.say({"id": question["id"]}, question["path"].encode())
        return [(await ask)[1] for ask in asks]

    assert play(scenario) == [b"a", b"b", b"c"]


def test_an_error_of_the_init_is_raised_as_itself():
    async def scenario(channel, init):
        ask = asyncio.create_task(channel.ask("read", within=5))
        question, _ = await init.hear()
        init.say({"id": question["id"], "errno": 2, "message": "gone", "path": "/app/x"})
        with pytest.raises(FileNotFoundError) as caught:
            await ask
        return caught.value.filename

    assert play(scenario) == "/app/x"


def test_silence_is_a_fault_and_a_late_answer_harms_nobody():
    async def scenario(channel, init):
        with pytest.raises(SandboxFault) as caught:
            await channel.ask("read", within=0.01)
        question, _ = await init.hear()
        init.say({"id": question["id"]}, b"late")
        ask = asyncio.create_task(channel.ask("read", within=5))
        question, _ = await init.hear()
        init.say({"id": question["id"]}, b"prompt")
        return caught.value.code, (await ask)[1]

    assert play(scenario) == ("unresponsive", b"prompt")


def test_a_cancelled_run_is_called_off():
    async def scenario(channel, init):
        ask = asyncio.create_task(channel.ask("run", within=5))
        question, _ = await init.hear()
        ask.cancel()
        await asyncio.gather(ask, return_exceptions=True)
        return question["id"], (await init.hear())[0]

    number, second = play(scenario)
    assert second == {"op": "kill", "run": number}


@pytest.mark.parametrize("end", ["hang up", "babble", "last words"])
def test_whoever_waits_or_comes_later_hears_that_the_sandbox_is_lost(end):
    async def scenario(channel, init):
        init.say({"ready": True})
        await channel.ready()
        ask = asyncio.create_task(channel.ask("read", within=5))
        await init.hear()
        if end == "babble":
            init.say_bytes(b"\xff" * 64)
        if end == "last words":
            init.say({"broken": "its init failed: MemoryError()"})
        init.hang_up()
        with pytest.raises(SandboxFault) as first:
            await ask
        with pytest.raises(SandboxFault) as second:
            await channel.ask("read", within=5)
        return first.value.code, second.value.code, first.value.message

    first, second, message = play(scenario)
    assert (first, second) == ("lost", "lost")
    assert ("MemoryError" in message) == (end == "last words")


def test_a_sandbox_that_could_not_be_built_says_why():
    async def scenario(channel, init):
        init.say({"broken": "mount of proc at /new/proc: Operation not permitted", "errno": 1})
        with pytest.raises(SandboxFault) as caught:
            await channel.ready()
        return caught.value.code, caught.value.message

    code, message = play(scenario)
    assert code == "start" and "mount of proc" in message
