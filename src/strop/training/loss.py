"""What is minimised.

`logprobs` are the learner's, `sampler` the sampler's own for the same tokens; both are natural logarithms
under the distribution that was sampled from, and `advantages` is the advantage of each token, all of the
shape ``[tokens]``. A loss returns a sum over tokens; the learner divides by the step's global token count.
"""

from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor

from strop.config import Settings


class LossSettings(Settings):
    """The default loss: DPPO with a binary total-variation mask and a squared log-ratio penalty."""

    trust: float = Field(0.2, gt=0)
    """Largest change in a token's probability, away from where its advantage pushes it, that still trains."""
    penalty: float = Field(1e-3, ge=0)
    """Weight of the squared log-ratio, which keeps learner and sampler together."""


@dataclass(frozen=True)
class Loss:
    """A sum over tokens, and which of them the trust region left in."""

    total: Tensor
    kept: Tensor


def dppo(logprobs: Tensor, sampler: Tensor, advantages: Tensor, settings: LossSettings) -> Loss:
    r"""Policy gradient with the ratio against the sampler, inside a trust region that masks.

    .. math:: \sum_t -m_t \rho_t A_t + \lambda (\log \rho_t)^2, \quad \rho_t = \pi_t / \mu_t

    The mask drops a token once its probability has moved by more than `trust` in the direction in which
    its advantage pushes it: m = 0 where A > 0 and pi - mu > trust, or A <= 0 and pi - mu < -trust
    (DPPO with the binary total-variation divergence; penalty as in Kimi K2.5).
    """
    log_ratio = logprobs - sampler
    moved = (logprobs.exp() - sampler.exp()).detach()
    kept = torch.where(advantages > 0, moved <= settings.trust, moved >= -settings.trust)
    total = -(kept * log_ratio.exp() * advantages).sum() + settings.penalty * log_ratio.square().sum()
    return Loss(total, kept)


def cross_entropy(logprobs: Tensor, weights: Tensor) -> Loss:
    """Supervised training on reference tokens: the weighted negative log-likelihood."""
    return Loss(-(weights * logprobs).sum(), weights > 0)
