"""From groups to rows that a learner can train on.

A row is one segment with the advantage of its episode; only tokens that were sampled carry a loss, and each
sampled token is in exactly one row. Rows without any gradient are left out. Micro-batches are packed by
tokens, so that a step's memory does not depend on how many episodes it has.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strop.rollout.groups import Group
from strop.trace import Segment, Trace


@dataclass(frozen=True)
class Row:
    """Tokens to train on; arrays have the shape ``[tokens]``.

    `weights` is the advantage at each sampled token (1 in supervised training) and 0 elsewhere; `logprobs`
    are the sampler's own.
    """

    ids: NDArray[np.int32]
    sampled: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    weights: NDArray[np.float32]


Advantage = Callable[[Sequence[float]], Sequence[float]]


def rows_of(groups: Iterable[Group], advantage: Advantage) -> list[Row]:
    """The rows of a batch of groups; groups without variance give none."""
    rows = []
    for group in groups:
        for trace, value in zip(group.traces, advantage(group.scores), strict=True):
            if value != 0.0 and trace.trainable:
                rows += [row_of(segment, value) for segment in trace.segments if segment.sampled.any()]
    return rows


def reference_rows(traces: Iterable[Trace]) -> list[Row]:
    """Rows for supervised training: every sampled token of these traces has weight one."""
    return [row_of(segment, 1.0) for trace in traces for segment in trace.segments if segment.sampled.any()]


def row_of(segment: Segment, weight: float) -> Row:
    sampled = segment.sampled.copy()
    sampled[0] = False  # nothing precedes the first token, so no model could have predicted it
    return Row(segment.ids, sampled, segment.logprobs, np.where(sampled, weight, 0.0).astype(np.float32))


def pack(rows: Sequence[Row], tokens: int) -> list[list[Row]]:
    """Micro-batches of at most `tokens` tokens each; a longer row gets one of its own."""
    packed: list[list[Row]] = []
    room = 0
    for row in sorted(rows, key=lambda row: len(row.ids), reverse=True):
        if not packed or len(row.ids) > room:
            packed.append([])
            room = tokens
        packed[-1].append(row)
        room -= len(row.ids)
    return packed
