"""Who answers an interruption, and when."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from strop.cli import app, loop
from strop.cli.interruption import SIGNALS, Interruption, stop
from strop.errors import EXIT_INTERRUPTED


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Interruption]:
    """That of this process for the length of a test, before any verb has begun."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    made = Interruption()
    for module in (app, loop):
        monkeypatch.setattr(module, "INTERRUPTION", made)
    made.listen()
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def interruption(fresh: Interruption) -> Interruption:
    """With a verb under way."""
    fresh.begin()
    return fresh


@pytest.mark.usefixtures("fresh")
def test_a_verb_that_has_begun_is_unwound(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)

    def gone(code: int) -> None:
        raise AssertionError(f"it has left with {code}, whatever the verb had begun")

    monkeypatch.setattr(os, "_exit", gone)
    monkeypatch.setattr("strop.cli.tasks_verb.suites", interrupted)
    assert app.run(["tasks", "list"]) == EXIT_INTERRUPTED
    assert capsys.readouterr().err.strip() == "interrupted; everything that was started has been ended"


@pytest.mark.parametrize("number", SIGNALS)
def test_plain_code_is_unwound_once(interruption: Interruption, number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    assert interruption.came
    for again in SIGNALS:
        signal.raise_signal(again)


def test_what_must_not_stay_half_done_is_done_first(interruption: Interruption) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interruption.answered_by(None):
        signal.raise_signal(signal.SIGINT)
        done.append("half")
        with interruption.answered_by(None):
            done.append("whole")
    assert done == ["half", "whole"]


def test_one_that_was_held_back_is_told_to_the_next_who_answers(interruption: Interruption) -> None:
    told: list[str] = []
    with interruption.answered_by(None):
        signal.raise_signal(signal.SIGINT)
        with interruption.answered_by(lambda: told.append("first")):
            told.append("body")
        with interruption.answered_by(lambda: told.append("second")):
            pass
    assert told == ["first", "body"]


def test_a_caller_who_has_it_ignored_is_obeyed(interruption: Interruption) -> None:
    """As a shell does with what it starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interruption.listen()
    signal.raise_signal(signal.SIGINT)
    assert not interruption.came


@pytest.mark.parametrize("number", SIGNALS)
def test_a_loop_has_its_task_cancelled_and_ends_in_good_order(
    interruption: Interruption, number: signal.Signals
) -> None:
    order = []

    async def work() -> None:
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            order.append("cancelled")
            signal.raise_signal(number)
            await asyncio.sleep(0.01)
            order.append("ended")
            raise

    with pytest.raises(KeyboardInterrupt):
        loop.complete(work)
    assert order == ["cancelled", "ended"]


@pytest.mark.parametrize("answer", ["done", "fault"])
def test_work_that_ends_by_itself_is_interrupted_all_the_same(
    interruption: Interruption, answer: str
) -> None:
    async def work() -> str:
        signal.raise_signal(signal.SIGINT)
        if answer == "fault":
            raise OSError("the learner was in the same process group, and is gone")
        return answer

    with pytest.raises(KeyboardInterrupt):
        loop.complete(work)


def test_without_one_a_loop_returns_what_its_work_does(interruption: Interruption) -> None:
    async def work() -> int:
        return 3

    assert loop.complete(work) == 3
    with pytest.raises(KeyboardInterrupt):
        stop()
