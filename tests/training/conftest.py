"""A tiny network and rows for the training tests."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from strop.training.batch import Row

VOCABULARY = 48


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """The threads of so small a network would spend their time in waiting for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_network(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    return LlamaForCausalLM(config)


def make_rows(count: int, seed: int = 0, longest: int = 24) -> list[Row]:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        length = int(rng.integers(4, longest))
        sampled = rng.random(length) < 0.5
        sampled[0], sampled[-1] = False, True
        logprobs = np.where(sampled, rng.normal(-3.5, 0.3, length), 0.0).astype(np.float32)
        weights = np.where(sampled, rng.normal(), 0.0).astype(np.float32)
        rows.append(Row(rng.integers(0, VOCABULARY, length).astype(np.int32), sampled, logprobs, weights))
    return rows


@pytest.fixture
def network() -> Any:
    return make_network()
