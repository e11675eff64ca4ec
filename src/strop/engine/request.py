"""What an engine is asked, and what it answers: token ids in; token ids, log-probabilities and weight
versions out.

Sampling follows the pure temperature distribution: no truncation setting is offered here that would bias
the ratio between learner and sampler. A request's tokens depend on its seed and never on its neighbours.
"""

from dataclasses import dataclass
from typing import Literal

Finish = Literal["stop", "length", "abort"]


@dataclass(frozen=True)
class Sampling:
    """How to sample.

    `temperature` 0 is greedy. A reply ends, the ending included, at a token of `stop_ids`, or as soon as
    its decoded text contains one of `stop_strings`, or after `max_tokens` tokens.
    """

    max_tokens: int
    temperature: float = 1.0
    seed: int = 0
    stop_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """Example: ``Request("e12-t3", prompt=(5, 9, 2), sampling=Sampling(max_tokens=48))``."""

    id: str
    prompt: tuple[int, ...]
    sampling: Sampling


@dataclass(frozen=True)
class Output:
    """The answer to one request; `ids`, `logprobs` and `versions` have equal length.

    `logprobs` are natural logarithms under the distribution sampled from (temperature applied; under the
    model's own distribution where temperature is 0). `cached_tokens` counts the prompt tokens whose keys
    and values were found in the prefix cache.
    """

    id: str
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    finish: Finish
    cached_tokens: int = 0
