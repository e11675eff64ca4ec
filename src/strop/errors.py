"""Errors, named by the boundary that they crossed.

A `Fault` says which part of the machinery failed, so that nobody mistakes a broken sandbox for a
bad model: a fault of the sandbox, the grader or the machinery leaves an episode unscored, one of
the policy or of a tool is the policy's to live with. A `Refusal` is an answer to a person: what was
wrong, where, the nearest valid choice and the remedy. It is raised before anything is written.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

Boundary = Literal["policy", "tool", "sandbox", "task", "grader", "machinery"]

EXIT_NEGATIVE = 1
"""The command ran and its answer is no: a check failed, a task was not solved."""
EXIT_REFUSED = 2
"""The request was refused; nothing was written."""
EXIT_BROKEN = 3
"""The machinery failed under a valid request."""
EXIT_INTERRUPTED = 130
"""Ctrl-C, or SIGTERM."""
EXIT_UNHEARD = 141
"""Whoever read the output has gone, as a shell shows it of other programs: 128 + SIGPIPE."""


class StropError(Exception):
    """Whatever this package raises on purpose."""

    exit_code: ClassVar[int] = EXIT_BROKEN


class Refusal(StropError):
    """A request that cannot be met, in four parts that fit on one screen.

    >>> print(Refusal("unknown key 'lerning_rate'", "quickstart.toml", "learning_rate", "rename it"))
    unknown key 'lerning_rate'
      where:   quickstart.toml
      nearest: learning_rate
      remedy:  rename it
    """

    exit_code = EXIT_REFUSED

    def __init__(self, what: str, where: str = "", nearest: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.nearest, self.remedy = what, where, nearest, remedy

    def __str__(self) -> str:
        parts = {"where": self.where, "nearest": self.nearest, "remedy": self.remedy}
        lines = [f"  {name + ':':8} {text}" for name, text in parts.items() if text]
        return "\n".join([self.what, *lines])


class Unheard(StropError):
    """Whoever read the output has gone."""

    exit_code = EXIT_UNHEARD


@dataclass(frozen=True)
class FaultRecord:
    """A fault as a trace keeps it.

    Example: ``FaultRecord("sandbox", "lost", "the sandbox died during turn 3")``.
    """

    boundary: Boundary
    code: str
    message: str

    @property
    def blames_policy(self) -> bool:
        """Whether the model, and not the machinery around it, has to answer for this."""
        return self.boundary in ("policy", "tool")


class Fault(StropError):
    """An error attributed to a boundary; `code` is a short stable word, `message` a sentence."""

    boundary: ClassVar[Boundary] = "machinery"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code, self.message = code, message

    def __str__(self) -> str:
        return f"{self.boundary} fault ({self.code}): {self.message}"

    def record(self) -> FaultRecord:
        return FaultRecord(self.boundary, self.code, self.message)


class PolicyFault(Fault):
    """The model broke a rule that it was told: an unreadable reply, a context outgrown."""

    boundary = "policy"


class ToolFault(Fault):
    """A tool was used in a way it does not allow."""

    boundary = "tool"


class SandboxFault(Fault):
    """The throw-away machine could not be made, was lost, or stopped answering."""

    boundary = "sandbox"


class TaskFault(Fault):
    """The task itself is broken: no tests, a start file that cannot be placed."""

    boundary = "task"


class GraderFault(Fault):
    """Judging ended without a valid reward."""

    boundary = "grader"


class MachineryFault(Fault):
    """Whatever else of ours failed: the engine, the store, the learner."""

    boundary = "machinery"


def nearest(name: str, choices: Iterable[str]) -> str:
    """The choice most like `name`, or the only one, or all when none is close and they are few, or ''."""
    known = sorted(set(choices))
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return close[0]
    if len(known) == 1:
        return known[0]
    return "one of " + ", ".join(known) if 0 < len(known) <= 12 else ""
