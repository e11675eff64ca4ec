"""What a report is made of, as plain data.

`cli/` gathers it from the store and the events of a run; tables, charts and pages render it. Figures come
in as rates, estimates and counts; a bare fraction has no place to go.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from strop.evaluation.comparison import Comparison
from strop.evaluation.estimate import Summary
from strop.trace import Trace


@dataclass(frozen=True)
class Step:
    """One step of the learner.

    `reward` is the mean over the step's `episodes`. `seconds` says where the time of each process went, such
    as ``{"learner": {"backward": 0.8, "waiting": 0.4}}``. `loss` and `entropy` are None in a step that
    trained on nothing.
    """

    step: int
    reward: float
    episodes: int
    staleness_mean: float = 0.0
    staleness_max: float = 0.0
    loss: float | None = None
    entropy: float | None = None
    tokens_per_second: float = 0.0
    sandboxes_per_second: float = 0.0
    seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """One set of tasks, evaluated once (a summary) or before and after (a comparison).

    Example: ``Evaluation("Held-out seeds", "families seen in training, other seeds", comparison)``.
    """

    title: str
    about: str
    result: Summary | Comparison


@dataclass(frozen=True)
class Stage:
    """The episodes of one part of a run, counted: each dispatched one was scored, or has a fault."""

    name: str
    dispatched: int
    scored: int
    truncated: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)
    """Unscored episodes by ``boundary:code``."""


@dataclass(frozen=True)
class RunReport:
    """Everything that the page of one run shows; what is empty is left out of the page."""

    name: str
    kind: str
    """``training run``, ``evaluation``."""
    started: float
    """Seconds since 1970, UTC."""
    seconds: float
    """How long it took."""
    outcome: str = "done"
    facts: Mapping[str, str] = field(default_factory=dict)
    """Further facts for the head of the page, such as the model and the fingerprint of the recipe."""
    config: str = ""
    """The resolved recipe as TOML."""
    steps: tuple[Step, ...] = ()
    staleness_bound: int | None = None
    evaluations: tuple[Evaluation, ...] = ()
    stages: tuple[Stage, ...] = ()
    transcripts: tuple[Trace, ...] = ()
