"""The default model: a tokenizer for which a word is the same token wherever it stands, and fixed weights."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strop.messages import Message
from strop.renderer import Renderer
from strop.seeds import Seed
from strop.suites.shell.suite import SUITE
from strop.tokens import Tokenizer
from strop.training.embedded import (
    END,
    PIECES,
    ROLES,
    TEMPLATE,
    EmbeddedSettings,
    build_model,
    build_tokenizer,
)
from strop.training.stages import load_network
from strop.training.weights import state_of

TEXTS = [task.instruction for task in SUITE.tasks("train", 210)] + [
    "```sh\nmkdir -p notes && echo amber > notes/plan.txt\n```",
    "```submit\n```",
    "(no output)\n",
    *["on 2024-12-24 -->\n\n    indented\n    indented\n"] * 5,
]
BACKEND = build_tokenizer(TEXTS, 2048)
TOKENIZER = Tokenizer(BACKEND, TEMPLATE, {"eos_token": END})
WORDS = sorted(set(re.findall("[A-Za-z]+", " ".join(TEXTS[:210]))))
TINY = EmbeddedSettings(
    vocabulary=512,
    hidden=32,
    layers=2,
    heads=2,
    key_value_heads=1,
    head_width=16,
    feed_forward=48,
    positions=64,
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", " ", "\n", "  ", "/", ".", "-", "'", "7", "```sh\n", "\n```", f"{END}"]),
            st.sampled_from(WORDS),
        ),
        max_size=12,
    )
)
def test_a_word_is_one_token_and_the_same_one_wherever_it_stands(placed: Sequence[tuple[str, str]]) -> None:
    text = "".join((before or " ") + word for before, word in placed)
    expected = [TOKENIZER.id(word) for _, word in placed]
    letters = [i for i in TOKENIZER.encode(text) if TOKENIZER.decode([i]).isalpha()]
    assert letters == expected


def test_no_token_holds_a_blank_and_a_word() -> None:
    """Fences and the words for silence, which the tokenizer takes whole, are the only exceptions."""
    whole = ["```sh\n", "```submit\n", "\n```", "(no output)\n"]
    tokens = [TOKENIZER.decode([i]) for i in range(TOKENIZER.size)]
    mixed = [token for token in tokens if re.search(r"\s", token) and token.strip()]
    assert set(whole) <= set(mixed)
    assert [token for token in mixed if not any(token in piece for piece in whole)] == []
    assert all(len(token) == 1 for token in tokens if token.isspace()), "blanks are single"


def test_digits_and_signs_are_single() -> None:
    assert [TOKENIZER.decode([i]) for i in TOKENIZER.encode("2024-->")] == list("2024-->")


def test_every_piece_is_in_one_of_the_classes() -> None:
    text = "Write amber,  twice!\n\n```sh\nls -l é中 \x00\n```(no output)\n"
    assert "".join(re.findall(PIECES, text)) == text


@given(st.text())
def test_decode_gives_back_what_was_encoded(text: str) -> None:
    encodable = text.encode("utf-8", "replace").decode()
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == encodable
    assert TOKENIZER.decode(TOKENIZER.encode_plain(text)) == encodable


def test_roles_and_the_end_are_control_tokens() -> None:
    assert TOKENIZER.special == {END, *(f"<|{role}|>" for role in ROLES)}
    assert Renderer(TOKENIZER).stop_ids == (TOKENIZER.eos,)


def test_the_vocabulary_has_the_size_asked_for_where_the_text_allows() -> None:
    assert build_tokenizer(TEXTS, 300).get_vocab_size() == 300
    assert build_tokenizer([], 4096).get_vocab_size() == 256 + 1 + len(ROLES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "deep" / "embedded"
    build_model(folder, TEXTS, TINY, Seed(1))
    return folder


def test_what_was_built_is_a_model_folder(folder: Path) -> None:
    tokenizer, network = Tokenizer.load(folder), load_network(folder)
    assert tokenizer.size == network.config.vocab_size == network.get_input_embeddings().num_embeddings
    assert network.config.eos_token_id == tokenizer.eos
    assert network.config.max_position_embeddings == TINY.positions
    ids = Renderer(tokenizer).first([Message("user", "Write amber."), Message("assistant", "```sh\n")], ())
    assert tokenizer.decode(ids) == f"<|user|>Write amber.{END}<|assistant|>```sh\n{END}<|assistant|>"
    logits = network(torch.tensor([ids])).logits
    assert logits.shape == (1, len(ids), tokenizer.size) and bool(logits.isfinite().all())


def test_the_settings_are_the_network(folder: Path) -> None:
    shapes = {tuple(tensor.shape) for tensor in state_of(load_network(folder)).values()}
    queries, keys = TINY.heads * TINY.head_width, TINY.key_value_heads * TINY.head_width
    assert shapes == {
        (TINY.vocabulary, TINY.hidden),
        (TINY.hidden,),
        (TINY.feed_forward, TINY.hidden),
        (TINY.hidden, TINY.feed_forward),
        (queries, TINY.hidden),
        (keys, TINY.hidden),
        (TINY.hidden, queries),
    }
    spread = float(load_network(folder).get_input_embeddings().weight.detach().std())
    assert spread == pytest.approx(TINY.spread, rel=0.05)


def test_the_same_seed_gives_the_same_model_and_another_seed_another(folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(99)  # what was drawn before must not matter
    build_model(tmp_path / "again", TEXTS, TINY, Seed(1))
    build_model(tmp_path / "other", TEXTS, TINY, Seed(2))
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert {file.name: file.read_bytes() for file in (tmp_path / "again").iterdir()} == files
    other = {file.name: file.read_bytes() for file in (tmp_path / "other").iterdir()}
    assert [name for name in files if other[name] != files[name]] == ["model.safetensors"]


def test_a_folder_that_is_there_already_is_left_alone(folder: Path) -> None:
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(FileExistsError):
        build_model(folder, TEXTS, TINY, Seed(2))
    assert (folder / "model.safetensors").read_bytes() == before
