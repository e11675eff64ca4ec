"""Packed is unpacked, and accumulated is whole: log-probabilities and gradients agree."""

from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from strop.training.learner import Learner, LearnerSettings
from strop.training.packing import PACKED, sampled_logits
from tests.training.conftest import VOCABULARY, make_network, make_rows


def dense_logits(network: Any, rows: list[Any]) -> torch.Tensor:
    """transformers' own forward, one row at a time."""
    network.set_attn_implementation("sdpa")
    parts = []
    with torch.no_grad():
        for row in rows:
            logits = network(input_ids=torch.from_numpy(row.ids)[None].long()).logits[0]
            parts.append(logits[torch.from_numpy(row.sampled).nonzero().squeeze(1) - 1])
    network.set_attn_implementation(PACKED)
    return torch.cat(parts)


def test_packed_rows_equal_transformers_own_forward() -> None:
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=128,
        initializer_range=0.2,
    )
    torch.manual_seed(0)
    for network in (make_network(), Qwen3ForCausalLM(config)):
        rows = make_rows(9)
        network.set_attn_implementation(PACKED)
        packed, _ = sampled_logits(network.eval(), rows, 1.0)
        torch.testing.assert_close(packed, dense_logits(network, rows), atol=1e-4, rtol=1e-4)


def test_rows_do_not_see_each_other() -> None:
    network = make_network().eval()
    network.set_attn_implementation(PACKED)
    one, two = make_rows(2)
    alone, _ = sampled_logits(network, [two], 1.0)
    beside, _ = sampled_logits(network, [one, two], 1.0)
    torch.testing.assert_close(beside[int(one.sampled.sum()) :], alone, atol=1e-5, rtol=1e-5)


def test_accumulated_gradients_equal_those_of_one_pass() -> None:
    rows = make_rows(12)
    gradients = []
    for tokens in (10_000, 30):
        learner = Learner(make_network(), LearnerSettings(microbatch_tokens=tokens, clip_norm=1e9))
        learner.step(rows, 1.0)
        gradients.append([p.grad.clone() for p in learner.network.parameters() if p.grad is not None])
    for whole, pieces in zip(*gradients, strict=True):
        torch.testing.assert_close(pieces, whole, atol=1e-6, rtol=1e-4)
