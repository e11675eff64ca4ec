"""An episode as a reader follows it: who said what, what came back, and how it ended.

`Transcript` is the one structure behind the terminal and the page. A turn's tokens and weight versions come
from the token-exact segments; the text is what was decoded when it was sampled, and is never made again.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from strop.messages import Message
from strop.report.text import clipped, count, duration, printable
from strop.trace import Trace, Turn

LONGEST = 8000
"""Characters of one message that are shown; what is left out is counted in its place."""


@dataclass(frozen=True)
class Exchange:
    """One message; `notes` are what is to be known beside the text, such as ``12 tokens`` or ``timeout``."""

    role: str
    title: str
    text: str
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Transcript:
    """A whole episode; `outcome` is ``passed``, ``failed`` or ``unscored``."""

    episode: str
    task: str
    outcome: str
    verdict: str
    """One line: the score, or the fault that cost it."""
    evidence: str
    facts: tuple[str, ...]
    exchanges: tuple[Exchange, ...]


def transcript(trace: Trace) -> Transcript:
    """The transcript of a sealed trace, every text of it fit to be shown."""
    verdict = trace.verdict
    outcome = "unscored" if verdict.passed is None else "passed" if verdict.passed else "failed"
    facts = (
        f"stopped: {trace.stop}",
        _plural(len(trace.turns), "turn"),
        _plural(trace.sampled_tokens, "sampled token"),
        *_versions_of([v for s in trace.segments for v in s.versions[s.sampled].tolist()]),
        *([_plural(len(trace.segments), "segment")] if len(trace.segments) > 1 else []),
        *(f"{name} {duration(seconds)}" for name, seconds in trace.seconds.items()),
        *([] if trace.trainable else ["not trainable: the exact tokens are unknown"]),
    )
    return Transcript(
        episode=printable(trace.episode),
        task=printable(trace.task),
        outcome=outcome,
        verdict=printable(_verdict(trace)),
        evidence=printable(clipped(verdict.evidence, LONGEST)),
        facts=facts,
        exchanges=tuple(_exchanges(trace)),
    )


def transcript_view(trace: Trace) -> RenderableType:
    """The transcript for a terminal."""
    shown = transcript(trace)
    style = {"passed": "green", "failed": "red", "unscored": "yellow"}[shown.outcome]
    parts: list[RenderableType] = [
        Text.assemble((shown.task, "bold"), "  ", (shown.outcome, style), "  ", (shown.episode, "dim")),
        Text(" · ".join(shown.facts), "dim"),
    ]
    for exchange in shown.exchanges:
        heading = Text(f"\n{exchange.title}", "bold" if exchange.role == "assistant" else "")
        heading.append("".join(f" · {note}" for note in exchange.notes), "not bold dim")
        heading.append("".join(f" · {error}" for error in exchange.errors), "not bold red")
        parts.append(heading)
        body = Text(exchange.text or "(nothing)", "" if exchange.role == "assistant" else "dim")
        parts.append(Padding(body, (0, 0, 0, 2)))
    parts.append(Text(f"\n{shown.verdict}", f"bold {style}"))
    if shown.evidence.strip():
        parts.append(Padding(Text(shown.evidence.rstrip(), "dim"), (0, 0, 0, 2)))
    return Group(*parts)


def _exchanges(trace: Trace) -> Iterator[Exchange]:
    turns = iter(zip(trace.turns, _versions_by_turn(trace), strict=True))
    number = 0
    for message in trace.messages:
        text = printable(clipped(_text(message), LONGEST))
        if message.role != "assistant":
            title = f"{message.role} {message.name}".strip()
            yield Exchange(message.role, printable(title), text)
            continue
        number += 1
        turn, versions = next(turns, (None, ()))
        notes = _notes(turn, versions) if turn else ()
        yield Exchange("assistant", f"turn {number}", text, notes, turn.errors if turn else ())


def _text(message: Message) -> str:
    """What was said; calls that are not part of the text, as chat endpoints give them, are written out."""
    if message.content.strip() or not message.tool_calls:
        return message.content
    return "\n".join(f"{call.name} {json.dumps(dict(call.arguments))}" for call in message.tool_calls)


def _notes(turn: Turn, versions: tuple[str, ...]) -> tuple[str, ...]:
    cut = () if turn.finish == "stop" else (f"ended by {turn.finish}",)
    timing = f"{duration(turn.sampling_seconds)} sampling, {duration(turn.tool_seconds)} tools"
    return (_plural(turn.sampled_tokens, "token"), *versions, timing, *cut)


def _versions_by_turn(trace: Trace) -> list[tuple[str, ...]]:
    """The weight versions that sampled each turn; nothing where exact tokens are unknown."""
    sampled = [version for s in trace.segments for version in s.versions[s.sampled].tolist()]
    if len(sampled) != sum(turn.sampled_tokens for turn in trace.turns):
        return [() for _ in trace.turns]
    found, start = [], 0
    for turn in trace.turns:
        found.append(_versions_of(sampled[start : start + turn.sampled_tokens]))
        start += turn.sampled_tokens
    return found


def _versions_of(versions: list[int]) -> tuple[str, ...]:
    """Example: ``("weights 3",)`` or ``("weights 3 to 5",)``; nothing where nothing was sampled."""
    if not versions:
        return ()
    low, high = min(versions), max(versions)
    return (f"weights {low}",) if low == high else (f"weights {low} to {high}",)


def _verdict(trace: Trace) -> str:
    verdict = trace.verdict
    if verdict.score is None:
        fault = verdict.fault
        return f"unscored, {fault.boundary}:{fault.code}, {fault.message}" if fault else "unscored"
    others = {name: value for name, value in verdict.rewards.items() if name != "reward"}
    parts = [f"{'passed' if verdict.passed else 'failed'}, score {verdict.score:g}"]
    parts += [f"{name} {value:g}" for name, value in others.items()]
    parts += ["tampered with its judging"] if verdict.tampered else []
    return ", ".join(parts)


def _plural(number: int, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"
