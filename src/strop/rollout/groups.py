"""Siblings: episodes of one task that share a baseline.

A group is complete when each of its places holds a scored trace, or has been given up. An unscored
episode costs its own place only: it is played again, a bounded number of times, and its siblings keep
their work. Every sibling is reported exactly once.
"""

from dataclasses import dataclass, field

from strop.tasks.task import Task
from strop.trace import Trace


@dataclass
class Group:
    """Example: ``Group("g12", task, size=8, refills=2)``."""

    id: str
    task: Task
    size: int
    refills: int
    traces: list[Trace] = field(default_factory=list)
    lost: int = 0
    """Places given up: unscored more often than refills allowed."""
    refilled: int = 0

    def report(self, trace: Trace) -> bool:
        """Take one sibling's trace; whether another episode must be played in its place."""
        if trace.verdict.scored:
            self.traces.append(trace)
            return False
        if self.refilled < self.refills:
            self.refilled += 1
            return True
        self.lost += 1
        return False

    @property
    def complete(self) -> bool:
        return len(self.traces) + self.lost == self.size

    @property
    def scores(self) -> list[float]:
        return [trace.verdict.score for trace in self.traces if trace.verdict.score is not None]

    @property
    def informative(self) -> bool:
        """Whether its scores differ: without variance every advantage is zero."""
        return len(set(self.scores)) > 1
