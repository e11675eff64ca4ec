"""A network small enough for any test, sharp enough that a wrong key or value changes its answers."""

from collections.abc import Callable

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from strop.engine.models import LoadedModel


def build(seed: int) -> LoadedModel:
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        eos_token_id=2,
    )
    torch.manual_seed(seed)
    return LoadedModel.of(LlamaForCausalLM(config), "tiny")


@pytest.fixture
def tiny() -> LoadedModel:
    return build(seed=0)


@pytest.fixture
def build_tiny() -> Callable[[int], LoadedModel]:
    """The same network with weights of another seed."""
    return build
