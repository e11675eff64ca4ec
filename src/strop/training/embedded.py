"""The default model, built on the spot: a small decoder and a tokenizer trained on a suite's own text.

The tokenizer keeps words whole and has no twins with a leading space, so that a word copied from an
instruction into a command is the same token in both places. What is built is a Hugging Face folder.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import torch
from pydantic import Field, model_validator
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

from strop.config import Settings
from strop.seeds import Seed

ROLES = ("system", "user", "assistant", "tool")
END = "<|end|>"
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}"
    + END
    + "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PIECES = r"```[a-z]*\n|\n?```|\(no output\)\n?|[A-Za-z]+|[0-9]|[^\sA-Za-z0-9]|\s"
"""What the tokenizer never merges across: fences, words, digits, signs, single blanks."""


class EmbeddedSettings(Settings):
    """The size of the default model."""

    vocabulary: int = Field(1536, ge=1, le=65_536)
    """Enough that every word of the shell suite is one token."""
    hidden: int = Field(128, ge=1, le=65_536)
    layers: int = Field(6, ge=1, le=65_536)
    heads: int = Field(4, ge=1, le=65_536)
    key_value_heads: int = Field(2, ge=1, le=65_536)
    head_width: int = Field(32, ge=2, le=65_536, multiple_of=2)
    feed_forward: int = Field(384, ge=1, le=65_536)
    spread: float = Field(0.05, gt=0, le=1)
    """Standard deviation of the first weights; small networks want larger ones than the usual 0.02."""
    positions: int = Field(1024, ge=1, le=65_536)
    """Longest context that the model is built for, in tokens."""

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.hidden % self.heads or self.heads % self.key_value_heads:
            raise ValueError("wants heads that divide hidden, and key_value_heads that divide heads")
        return self


def build_tokenizer(texts: Iterable[str], size: int) -> Tokenizer:
    """A byte-level BPE tokenizer of at most `size` entries."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END, *(f"<|{role}|>" for role in ROLES)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def build_model(folder: Path, texts: Iterable[str], settings: EmbeddedSettings, seed: Seed) -> None:
    """Write an untrained model with its tokenizer and chat template to `folder`, which is made."""
    folder.mkdir(parents=True)
    tokenizer = build_tokenizer(texts, settings.vocabulary)
    end = tokenizer.token_to_id(END)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    names = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "model_max_length": settings.positions,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(names, indent=2) + "\n", encoding="utf-8")
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=settings.hidden,
        intermediate_size=settings.feed_forward,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.key_value_heads,
        head_dim=settings.head_width,
        max_position_embeddings=settings.positions,
        initializer_range=settings.spread,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=end,
    )
    torch.manual_seed(seed.integer())
    logging.disable_progress_bar()  # whoever runs us shows progress
    LlamaForCausalLM(config).save_pretrained(folder)
