"""What happened in a run, in order, for whoever watches.

An event is a word, a time and a few numbers. Producers know only `Observer`; progress displays, the
JSON-lines file and later sinks are observers, and none can hold up a run.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Event:
    """Example: ``Event("step", 12.5, {"step": 3, "reward": 0.61})``."""

    kind: str
    time: float
    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if taken := self.data.keys() & {"kind", "time"}:
            raise ValueError(f"an event's data cannot be called {', '.join(sorted(taken))}")


Observer = Callable[[Event], None]


def fan_out(observers: Iterable[Observer]) -> Observer:
    """One observer that passes each event to all, in order."""
    receivers = tuple(observers)

    def observe(event: Event) -> None:
        for receiver in receivers:
            receiver(event)

    return observe


class JsonLines:
    """An observer that appends each event to a file as one line of JSON."""

    def __init__(self, path: Path) -> None:
        """Go on in `path`; a line that a killed process left half-written is cut off first."""
        if path.exists():
            whole = path.read_bytes().rfind(b"\n") + 1
            with path.open("r+b") as file:
                file.truncate(whole)
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def __call__(self, event: Event) -> None:
        row = {"kind": event.kind, "time": round(event.time, 6), **event.data}
        self._file.write(json.dumps(row) + "\n")

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def read_events(path: Path) -> list[Event]:
    """The events of a JSON-lines file, oldest first; a last line without its end is not yet one."""
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines]
    return [Event(row.pop("kind"), row.pop("time"), row) for row in rows]
