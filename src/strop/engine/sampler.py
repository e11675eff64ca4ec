"""From logits to tokens.

One uniform number a row decides, drawn by a counter-based generator from the request's seed and the
token's position, so that a request's tokens depend on its seed and not on its neighbours, nor on how often
it was preempted. The token is the first at which the cumulative distribution exceeds the number; its
log-probability is in float32, under the very distribution that was sampled from.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strop.errors import MachineryFault

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def uniforms(seeds: Sequence[int], positions: Sequence[int]) -> NDArray[np.float32]:
    """One number in [0, 1) for each pair of a seed and a position.

    SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"), whose state
    after n steps is known without the steps before; the seed is mixed once to begin with, so that
    neighbouring seeds do not share a stream. 24 bits are used, as many as a float32 below 1 resolves.
    """
    start = np.array([seed & 0xFFFFFFFFFFFFFFFF for seed in seeds], np.uint64)
    counter = np.array(positions, np.uint64)
    with np.errstate(over="ignore"):
        mixed = _mix(_mix(start + _GAMMA) + (counter + np.uint64(1)) * _GAMMA)
    return (mixed >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def sample(logits: Tensor, temperatures: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token a row: ids (int64) and natural log-probabilities (float32), both ``[rows]``.

    Args:
        logits: ``[rows, vocabulary]``, of any floating type.
        temperatures: ``[rows]``, float32; 0 takes the likeliest token and reports the model's own
            log-probability of it.
        numbers: ``[rows]``, float32 in [0, 1), a multiple of 2**-24 each: their product with a row's sum of
            probabilities then stays below the sum.

    Raises:
        MachineryFault: ``not-finite``.
    """
    logprobs = log_softmax(logits, temperatures)
    cumulative = logprobs.exp().cumsum(-1)
    if not cumulative[:, -1].isfinite().all():
        raise MachineryFault("not-finite", "the network's logits are no numbers: its weights have diverged")
    drawn = torch.searchsorted(cumulative, numbers[:, None] * cumulative[:, -1:], right=True)
    greedy = temperatures[:, None] == 0
    if greedy.any():
        drawn = torch.where(greedy, logprobs.argmax(-1, keepdim=True), drawn)
    return drawn[:, 0], logprobs.gather(1, drawn)[:, 0]


def log_softmax(logits: Tensor, temperatures: Tensor) -> Tensor:
    """Log-probabilities in float32 at each row's temperature, 0 counting as 1; ``[rows, vocabulary]``."""
    scale = torch.where(temperatures == 0, 1.0, temperatures)
    return (logits.float() / scale[:, None]).log_softmax(-1)
