"""Batches in, weights out.

The learner owns the network, the optimizer and the version: each step that changes the weights makes the
next version, and no version number is made twice. It knows nothing of tasks, sandboxes or time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from strop.config import Settings
from strop.errors import MachineryFault
from strop.training.batch import Row, pack
from strop.training.loss import Loss, LossSettings, cross_entropy, dppo
from strop.training.packing import PACKED, flat, gather_logprobs, sampled_logits


class LearnerSettings(Settings):
    """How a step changes the weights."""

    learning_rate: float = Field(1e-4, gt=0)
    """Peak step size of AdamW."""
    warmup_steps: int = Field(0, ge=0)
    """Steps over which the step size rises from zero."""
    decay_steps: int = Field(0, ge=0)
    """Steps, counted from the first, over which it then falls to `final_rate`; 0 keeps it."""
    final_rate: float = Field(0.1, ge=0)
    """The step size at the end of the decay, as a share of the peak."""
    weight_decay: float = Field(0.0, ge=0)
    clip_norm: float = Field(1.0, gt=0)
    """Largest gradient norm; larger ones are scaled down to it."""
    microbatch_tokens: int = Field(8192, ge=1)
    """Tokens in one forward and backward pass."""
    loss: LossSettings = LossSettings()


@dataclass
class _Sums:
    """Sums over the sampled tokens of a step."""

    tokens: int = 0
    loss: float = 0.0
    kept: float = 0.0
    entropy: float = 0.0
    kl: float = 0.0
    ratio: float = 0.0
    ratio_squared: float = 0.0
    gap: float = 0.0


class Learner:
    """Example: ``Learner(network, LearnerSettings()).step(rows, temperature=1.0)``."""

    def __init__(self, network: Any, settings: LearnerSettings) -> None:
        network.set_attn_implementation(PACKED)
        self.network: torch.nn.Module = network.train()
        self.settings = settings
        self.version = 0
        self.optimizer = torch.optim.AdamW(
            network.parameters(),
            lr=settings.learning_rate,
            betas=(0.9, 0.95),
            weight_decay=settings.weight_decay,
        )

    def step(self, rows: Sequence[Row], temperature: float) -> dict[str, float]:
        """One policy-gradient update; its figures by name.

        Raises:
            MachineryFault: ``not-finite``, before the weights are touched.
        """

        def loss(logprobs: Tensor, some: Sequence[Row]) -> Loss:
            sampler, advantages = (
                flat(some, "logprobs", logprobs.device),
                flat(some, "weights", logprobs.device),
            )
            return dppo(logprobs, sampler, advantages, self.settings.loss)

        return self._update(rows, loss, temperature)

    def imitate(self, rows: Sequence[Row]) -> dict[str, float]:
        """One supervised update towards the sampled tokens of `rows`; figures and errors as in `step`."""

        def loss(logprobs: Tensor, some: Sequence[Row]) -> Loss:
            return cross_entropy(logprobs, flat(some, "weights", logprobs.device))

        return self._update(rows, loss, 1.0)

    @torch.no_grad()
    def logprobs(self, rows: Sequence[Row], temperature: float = 1.0) -> Tensor:
        """The log-probabilities of the sampled tokens of `rows`, in order."""
        logits, ids = sampled_logits(self.network, rows, temperature)
        return gather_logprobs(logits, ids)

    def _update(
        self, rows: Sequence[Row], loss: Callable[[Tensor, Sequence[Row]], Loss], temperature: float
    ) -> dict[str, float]:
        sums = _Sums(tokens=sum(int(row.sampled.sum()) for row in rows))
        if not sums.tokens:
            return {"tokens": 0.0, "rows": 0.0}
        self.optimizer.zero_grad(set_to_none=True)
        for some in pack(rows, self.settings.microbatch_tokens):
            logits, ids = sampled_logits(self.network, some, temperature)
            logprobs = gather_logprobs(logits, ids)
            part = loss(logprobs, some)
            (part.total / sums.tokens).backward()
            self._measure(sums, part, logits.detach(), logprobs.detach(), some)
        norm = float(torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.clip_norm))
        if not torch.isfinite(torch.tensor([norm, sums.loss])).all():
            raise MachineryFault(
                "not-finite", f"loss {sums.loss:g}, gradient norm {norm:g}: no step was taken"
            )
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * rate(self.version, self.settings)
        self.optimizer.step()
        self.version += 1
        return self._figures(sums, rows, norm)

    @staticmethod
    def _measure(sums: _Sums, part: Loss, logits: Tensor, logprobs: Tensor, rows: Sequence[Row]) -> None:
        with torch.no_grad():
            log_ratio = logprobs - flat(rows, "logprobs", logprobs.device)
            ratio = log_ratio.exp()
            every = torch.log_softmax(logits, dim=-1)
            sums.loss += float(part.total)
            sums.kept += float(part.kept.sum())
            sums.entropy -= float((every.exp() * every).sum())
            sums.kl += float((ratio - 1 - log_ratio).sum())
            sums.ratio += float(ratio.sum())
            sums.ratio_squared += float(ratio.square().sum())
            sums.gap = max(sums.gap, float(log_ratio.abs().max()))

    def _figures(self, sums: _Sums, rows: Sequence[Row], norm: float) -> dict[str, float]:
        n = sums.tokens
        return {
            "rows": float(len(rows)),
            "tokens": float(n),
            "context_tokens": float(sum(len(row.ids) for row in rows)),
            "loss": sums.loss / n,
            "kept": sums.kept / n,
            "entropy": sums.entropy / n,
            "kl": sums.kl / n,
            "ess": sums.ratio**2 / (n * sums.ratio_squared),
            "gap": sums.gap,
            "gradient_norm": norm,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
        }


def rate(step: int, settings: LearnerSettings) -> float:
    """The share of the peak step size that step number `step` (from zero) uses."""
    if step < settings.warmup_steps:
        return (step + 1) / (settings.warmup_steps + 1)
    if settings.decay_steps <= settings.warmup_steps:
        return 1.0
    along = (step - settings.warmup_steps) / (settings.decay_steps - settings.warmup_steps)
    return 1.0 + (settings.final_rate - 1.0) * min(along, 1.0)
