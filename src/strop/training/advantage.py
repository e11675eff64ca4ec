"""How much better an episode did than could be expected of its task."""

from collections.abc import Callable, Sequence

from pydantic import Field

from strop.config import Settings


class AdvantageSettings(Settings):
    """How scores become advantages."""

    negative: float = Field(1.0, ge=0, le=1)
    """Weight of the siblings below their group's mean; at 0 they only set the baseline."""


def mean_baseline(settings: AdvantageSettings) -> Callable[[Sequence[float]], list[float]]:
    """Score minus the group's mean, for each sibling; what is below it, times `negative`.

    No division by the group's deviation, which would weigh groups by how rare their successes are
    ("Understanding R1-Zero-Like Training", Liu et al. 2025, section 3.2: Dr. GRPO). A small model's failures
    are long and unlikely, so their gradient is large and mostly noise; they may weigh less, as under a lower
    baseline ("Asymmetric REINFORCE for off-Policy Reinforcement Learning", Arnal et al. 2025).
    """

    def advantage(scores: Sequence[float]) -> list[float]:
        mean = sum(scores) / len(scores)
        return [max(score - mean, settings.negative * (score - mean)) for score in scores]

    return advantage
