import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from strop.messages import Message, ToolCall
from strop.report.transcript import LONGEST, transcript, transcript_view
from strop.trace import Segment, Turn, Verdict


def printed(trace, width: int = 100) -> str:
    output = io.StringIO()
    Console(width=width, file=output).print(transcript_view(trace))
    return output.getvalue()


def test_turns_carry_their_tokens_versions_and_errors(make_trace):
    shown = transcript(make_trace("shell/a", 1.0))
    assert [exchange.title for exchange in shown.exchanges] == [
        "user",
        "turn 1",
        "tool shell",
        "turn 2",
        "tool shell",
    ]
    first, second = (exchange for exchange in shown.exchanges if exchange.role == "assistant")
    assert first.notes == ("12 tokens", "weights 11", "0.2 s sampling, 10 ms tools")
    assert second.notes == ("12 tokens", "weights 11 to 12", "0.2 s sampling, 0.4 s tools", "ended by length")
    assert (first.errors, second.errors) == ((), ("timeout",))
    assert "24 sampled tokens" in shown.facts and "weights 11 to 12" in shown.facts


@pytest.mark.parametrize(
    ("score", "outcome", "verdict"),
    [
        (1.0, "passed", "passed, score 1"),
        (0.5, "failed", "failed, score 0.5"),
        (None, "unscored", "unscored, sandbox:lost, the sandbox died during turn 2"),
    ],
)
def test_verdicts(make_trace, score, outcome, verdict):
    shown = transcript(make_trace("shell/a", score))
    assert (shown.outcome, shown.verdict) == (outcome, verdict)


def test_other_rewards_and_tampering_are_said(make_trace):
    verdict = Verdict(0.0, False, {"reward": 0.0, "speed": 0.25}, tampered=True)
    shown = transcript(replace(make_trace("shell/a", 0.0), verdict=verdict))
    assert shown.verdict == "failed, score 0, speed 0.25, tampered with its judging"


def test_a_trace_without_exact_tokens(make_trace):
    trace = replace(make_trace("shell/a", 1.0), segments=(), trainable=False)
    shown = transcript(trace)
    assert shown.exchanges[1].notes == ("12 tokens", "0.2 s sampling, 10 ms tools")
    assert "not trainable: the exact tokens are unknown" in shown.facts


def test_versions_are_read_across_segments(make_trace):
    def segment(version: int) -> Segment:
        versions = np.array([-1] * 3 + [version] * 12, np.int32)
        return Segment(np.zeros(15, np.int32), np.zeros(15, np.float32), versions)

    shown = transcript(replace(make_trace("shell/a", 1.0), segments=(segment(4), segment(5))))
    notes = [exchange.notes[1] for exchange in shown.exchanges if exchange.role == "assistant"]
    assert notes == ["weights 4", "weights 5"]
    assert "2 segments" in shown.facts


def test_an_episode_that_ended_before_its_last_turn_was_counted(make_trace):
    trace = make_trace("shell/a", 1.0)
    shown = transcript(replace(trace, turns=trace.turns[:1]))
    assert [exchange.title for exchange in shown.exchanges][3] == "turn 2"
    assert shown.exchanges[3].notes == ()


def test_calls_that_are_not_text_are_written_out(make_trace):
    call = ToolCall("c", "shell", {"command": "ls"})
    trace = replace(
        make_trace("shell/a", 1.0),
        messages=(Message("assistant", "", (call,)),),
        turns=(Turn("stop", 0, 0.0, 0.0),),
        segments=(),
    )
    assert transcript(trace).exchanges[0].text == 'shell {"command": "ls"}'


def test_long_texts_say_what_was_left_out(make_trace):
    shown = transcript(make_trace("shell/a", 1.0, tool="x" * (LONGEST + 1234)))
    assert "[1,234 characters left out]" in shown.exchanges[2].text


def test_the_terminal_shows_everything(make_trace):
    text = printed(make_trace("shell/config-lookup-hard-8", 0.0))
    for expected in (
        "shell/config-lookup-hard-8  failed  rl-0412-3",
        "turn 2 · 12 tokens · weights 11 to 12",
        "timeout",
        "cat notes/*.txt | wc -l",
        "three",
        "failed, score 0",
        "2 passed in 0.01s",
    ):
        assert expected in text


@pytest.mark.parametrize("width", [30, 100])
def test_the_terminal_loses_no_word_of_a_long_fault(make_trace, width):
    text = printed(make_trace("shell/a", None), width)
    assert "unscored, sandbox:lost, the sandbox died during turn 2" in " ".join(text.split())


def test_the_terminal_obeys_no_escape_and_no_markup(make_trace):
    text = printed(make_trace("shell/a", 1.0, tool="\x1b[2J[bold]x[/bold][link=file:///etc]y[/link]\ud800"))
    assert "\x1b" not in text
    assert "␛[2J[bold]x[/bold][link=file:///etc]y[/link]�" in text
