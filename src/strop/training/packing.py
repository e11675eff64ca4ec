"""Many rows in one forward pass.

Rows lie end to end in one sequence; positions start again in each, and attention never crosses from one to
another. The attention function is registered with transformers under `PACKED`, so that the network code is
the one the sampler runs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import log_softmax, scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

from strop.training.batch import Row

PACKED = "strop_packed"


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    row_lengths: Sequence[int] = (),
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Causal attention within each row.

    Query, key and value are ``[1, heads, tokens, width]``, the result is ``[1, tokens, heads, width]``.
    """
    outputs = []
    grouped = query.shape[1] != key.shape[1]
    for q, k, v in zip(
        *(tensor.split(list(row_lengths), dim=2) for tensor in (query, key, value)), strict=True
    ):
        window = sliding_window is not None and q.shape[2] > sliding_window
        mask = _window(q.shape[2], sliding_window, q.device) if window and sliding_window else None
        outputs.append(
            scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=mask is None, scale=scaling, enable_gqa=grouped
            )
        )
    return torch.cat(outputs, dim=2).transpose(1, 2).contiguous(), None


def _window(length: int, width: int, device: torch.device) -> Tensor:
    position = torch.arange(length, device=device)
    behind = position[:, None] - position[None, :]
    return (behind >= 0) & (behind < width)


AttentionInterface.register(PACKED, attend)
AttentionMaskInterface.register(PACKED, lambda *_, **__: None)


def sampled_logits(
    network: torch.nn.Module, rows: Sequence[Row], temperature: float
) -> tuple[Tensor, Tensor]:
    """Logits and ids of the sampled tokens of `rows`, in order: ``[sampled, vocabulary]`` and ``[sampled]``.

    Only the positions before a sampled token go through the head.
    """
    lengths = [len(row.ids) for row in rows]
    device = next(network.parameters()).device
    ids = torch.from_numpy(np.concatenate([row.ids for row in rows])).long().to(device)
    positions = torch.cat([torch.arange(length) for length in lengths]).to(device)
    wanted = torch.from_numpy(np.concatenate([row.sampled for row in rows]).nonzero()[0]).to(device)
    output = network(
        input_ids=ids[None],
        position_ids=positions[None],
        use_cache=False,
        logits_to_keep=wanted - 1,
        row_lengths=lengths,
    )
    return output.logits[0].float() / temperature, ids[wanted]


def gather_logprobs(logits: Tensor, ids: Tensor) -> Tensor:
    """The log-probability of each id under its row of logits."""
    return log_softmax(logits, dim=-1).gather(-1, ids[:, None]).squeeze(-1)


def flat(rows: Sequence[Row], field: str, device: torch.device) -> Tensor:
    """A per-token field of the sampled tokens of `rows`, in the order of `sampled_logits`."""
    return torch.from_numpy(np.concatenate([getattr(row, field)[row.sampled] for row in rows])).to(device)
