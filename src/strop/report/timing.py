"""Where the time of a run went, and what went through it per second."""

from collections.abc import Sequence
from dataclasses import dataclass

from strop.report.run_report import Step
from strop.report.text import duration, spread

RESTING = ("idle", "waiting")
"""Phases in which a process did nothing, drawn without a colour."""

TONES = 7
"""Colours of the stylesheet, ``t0`` and up; ``rest`` is the one without."""


@dataclass(frozen=True)
class Part:
    """One phase of a process; `width` is its share and `tone` its colour, as the stylesheet has them."""

    name: str
    seconds: str
    width: str
    tone: str


@dataclass(frozen=True)
class Process:
    """One process of the run, its phases from the longest to the shortest."""

    name: str
    seconds: str
    parts: tuple[Part, ...]


def processes(steps: Sequence[Step]) -> tuple[Process, ...]:
    """Where the time of each process went over all steps; a phase has the same colour in every process."""
    totals: dict[str, dict[str, float]] = {}
    for step in steps:
        for process, phases in step.seconds.items():
            spent = totals.setdefault(process, {})
            for phase, seconds in phases.items():
                spent[phase] = spent.get(phase, 0.0) + seconds
    busy = dict.fromkeys(phase for spent in totals.values() for phase in spent if phase not in RESTING)
    tones = {phase: f"t{number % TONES}" for number, phase in enumerate(busy)}
    shown = []
    for process, spent in totals.items():
        whole = sum(spent.values())
        parts = [
            Part(phase, duration(seconds), f"{100 * seconds / whole:.2f}%", tones.get(phase, "rest"))
            for phase, seconds in sorted(spent.items(), key=lambda item: -item[1])
            if seconds > 0
        ]
        shown.append(Process(process, duration(whole), tuple(parts)))
    return tuple(shown)


def throughput(steps: Sequence[Step]) -> tuple[tuple[str, str], ...]:
    """Median and middle half over the steps; a quantity that nobody measured is left out."""
    quantities = (
        ("sampled tokens per second", [step.tokens_per_second for step in steps]),
        ("sandboxes per second", [step.sandboxes_per_second for step in steps]),
        ("episodes per step", [float(step.episodes) for step in steps]),
    )
    return tuple((name, spread(values)) for name, values in quantities if any(values))
