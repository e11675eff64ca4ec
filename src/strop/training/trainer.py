"""The asynchronous loop: take a batch, learn, publish, until the steps are done.

While the learner works on one batch the dispatcher is already collecting the next; the staleness window
decides how far ahead it may be. The trainer owns the order of events and nothing else: it wires a
dispatcher, a learner and an engine that do not know each other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from torch import Tensor

from strop.clock import Clock
from strop.events import Event, Observer
from strop.rollout.dispatcher import Dispatcher
from strop.rollout.groups import Group
from strop.training.advantage import AdvantageSettings, mean_baseline
from strop.training.batch import Advantage, Row, rows_of


class StepLearner(Protocol):
    """What the trainer needs of a learner."""

    async def step(self, rows: Sequence[Row], temperature: float) -> dict[str, float]: ...


class Updatable(Protocol):
    """What the trainer needs of an engine."""

    async def update_weights(self, tensors: Mapping[str, Tensor], version: int) -> object: ...


@dataclass(frozen=True)
class Loop:
    """Who takes part."""

    dispatcher: Dispatcher
    learner: StepLearner
    engine: Updatable
    weights: Callable[[int], Mapping[str, Tensor]]
    """The tensors of a version; the exchange's `read`."""
    trained: Callable[[Sequence[Group], int], None]
    """Told of each batch and the version it made, once that version is published."""
    clock: Clock
    observe: Observer
    temperature: float = 1.0
    advantage: Advantage = field(default_factory=lambda: mean_baseline(AdvantageSettings()))


async def train(loop: Loop, steps: int) -> int:
    """Run `steps` updates; returns the version of the last.

    Raises:
        MachineryFault: the learner, the engine or the store failed, or nothing is left to learn from.
    """
    version = 0
    for step in range(steps):
        begun = loop.clock.now()
        groups = await loop.dispatcher.batch()
        gathered = loop.clock.now()
        figures = await loop.learner.step(rows_of(groups, loop.advantage), loop.temperature)
        learned = loop.clock.now()
        made = int(figures.pop("version", version))
        if made != version:
            await loop.engine.update_weights(loop.weights(made), made)
        loop.trained(groups, made)
        loop.dispatcher.publish(step + 1)
        loop.observe(
            Event(
                "step",
                loop.clock.now(),
                {
                    "step": step,
                    "version": made,
                    **measure(groups, version),
                    **figures,
                    "seconds_waiting": gathered - begun,
                    "seconds_learning": learned - gathered,
                    "seconds_publishing": loop.clock.now() - learned,
                },
            )
        )
        version = made
    return version


def measure(groups: Sequence[Group], version: int) -> dict[str, float]:
    """Reward and staleness of a batch that is trained on at `version`.

    `reward` is the mean score of all scored siblings; `staleness_max` is on the oldest token of any group,
    `staleness_mean` is weighted by tokens.
    """
    scores = [score for group in groups for score in group.scores]
    traces = [trace for group in groups for trace in group.traces]
    ages = [version - s.versions[s.sampled] for trace in traces for s in trace.segments]
    every = np.concatenate([np.zeros(0), *ages])
    every = every if len(every) else np.zeros(1)  # nobody has sampled a single token
    return {
        "reward": float(np.mean(scores)) if scores else 0.0,
        "informative": float(np.mean([group.informative for group in groups])),
        "episodes": float(len(traces)),
        "lost": float(sum(group.lost for group in groups)),
        "turns": float(np.mean([len(trace.turns) for trace in traces])) if traces else 0.0,
        "truncated": float(np.mean([trace.stop == "tokens" for trace in traces])) if traces else 0.0,
        "staleness_max": float(every.max()),
        "staleness_mean": float(every.mean()),
    }
