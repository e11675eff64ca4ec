"""Rows of results, and the coordinates that a score is reported by.

An `Outcome` is one closed attempt, thinned to what statistics need. A coordinate maps an outcome to the
stratum it belongs to; a cell is a family at a difficulty, the unit that weighs the same in every headline.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from strop.tasks.task import Strata
from strop.trace import Trace


@dataclass(frozen=True)
class Outcome:
    """What became of one attempt; `score` and `passed` are None where it is unscored.

    Example: ``Outcome("shell/lookup-easy-12", "3f9a", Strata("lookup", "easy", 2), passed=True)``.
    """

    task: str
    task_id: str
    strata: Strata
    seed: int = 0
    score: float | None = None
    passed: bool | None = None
    fault: str | None = None
    """``boundary:code`` of what cost it the score."""
    stop: str = "submitted"
    turns: int = 0
    tokens: int = 0

    @property
    def scored(self) -> bool:
        return self.passed is not None

    @classmethod
    def of(cls, trace: Trace, strata: Strata) -> "Outcome":
        """The row of a sealed trace; a trace does not know the strata of its task."""
        verdict, fault = trace.verdict, trace.verdict.fault
        return cls(
            trace.task,
            trace.task_id,
            strata,
            seed=trace.seed,
            score=verdict.score,
            passed=verdict.passed,
            fault=f"{fault.boundary}:{fault.code}" if fault else None,
            stop=trace.stop,
            turns=len(trace.turns),
            tokens=trace.sampled_tokens,
        )


class Cell(NamedTuple):
    """A family at a difficulty. Example: ``Cell("lookup", "easy")``."""

    type: str
    difficulty: str

    def __str__(self) -> str:
        return f"{self.type}, {self.difficulty}"


def cell(outcome: Outcome) -> Cell:
    return Cell(outcome.strata.type, outcome.strata.difficulty)


def step_bucket(steps: int) -> str:
    """``1``, ``2`` or ``3+``; ``unknown`` where nobody counted."""
    return "unknown" if steps <= 0 else "3+" if steps >= 3 else str(steps)


Coordinate = Callable[[Outcome], str]

COORDINATES: Mapping[str, Coordinate] = {
    "type": lambda outcome: outcome.strata.type,
    "difficulty": lambda outcome: outcome.strata.difficulty,
    "steps": lambda outcome: step_bucket(outcome.strata.steps),
    "exact steps": lambda outcome: str(outcome.strata.steps) if outcome.strata.steps > 0 else "unknown",
    "domain": lambda outcome: outcome.strata.domain,
}
"""How tables are cut, by the name that heads them."""

_ORDER = {"easy": 0, "medium": 1, "hard": 2}


def ordered(strata: Sequence[str]) -> list[str]:
    """Strata as a reader expects them: easy before hard, 2 before 10, the unknown last."""

    def key(stratum: str) -> tuple[bool, int, int, str]:
        number = re.match(r"\d+", stratum)
        return (
            stratum == "unknown",
            _ORDER.get(stratum, len(_ORDER)),
            int(number.group()) if number else 0,
            stratum,
        )

    return sorted(set(strata), key=key)
