import json
import subprocess
import sys

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer

from strop.errors import Refusal
from strop.tokens import Tokenizer

TEMPLATE = "{% for m in messages %}<|turn|>{{ m.content }}<|end|>{% endfor %}"


def trained(**added: bool) -> tokenizers.Tokenizer:
    """A byte-level BPE; `added` tokens by name, true for special ones."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|turn|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(["the cat sat on the mat", "ls -l /app; cat the.txt"] * 10, trainer)
    for name, special in added.items():
        backend.add_tokens([tokenizers.AddedToken(f"<{name}>", special=special, normalized=False)])
    return backend


def tokenizer(**added: bool) -> Tokenizer:
    return Tokenizer(trained(**added), TEMPLATE, {"eos_token": "<|end|>"})


TOKENIZER = tokenizer(tool=False)


@given(st.text())
def test_decode_gives_back_what_was_encoded(text: str) -> None:
    encodable = text.encode("utf-8", "replace").decode()
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == encodable
    assert TOKENIZER.decode(TOKENIZER.encode_plain(text)) == encodable


@given(st.lists(st.sampled_from(["<|end|>", "<tool>", "<|", "|>", "a", " ", "é", "\n", "\ud800"])))
def test_plain_text_holds_no_added_token(parts: list[str]) -> None:
    text = "".join(parts)
    ids = TOKENIZER.encode_plain(text)
    assert not set(ids) & set(TOKENIZER.added.values())
    assert TOKENIZER.decode(ids) == text.replace("\ud800", "?")


def test_nothing_is_added_and_special_tokens_become_themselves() -> None:
    end = TOKENIZER.id("<|end|>")
    assert TOKENIZER.eos == end
    assert TOKENIZER.encode("<|end|>") == [end]
    assert TOKENIZER.encode("") == []
    assert TOKENIZER.decode([end, *TOKENIZER.encode("a")]) == "<|end|>a"
    assert TOKENIZER.decode([end, *TOKENIZER.encode("a")], special=False) == "a"


def test_no_limit_in_the_file_cuts_or_fills_a_text() -> None:
    backend = trained()
    backend.enable_truncation(2)
    backend.enable_padding(length=64)
    ids = Tokenizer(backend, "", {"eos_token": "<|end|>"}).encode("the cat sat on the mat, the cat sat")
    assert 2 < len(ids) < 64


def test_size_covers_the_highest_id() -> None:
    trained_size = trained().get_vocab_size()
    assert tokenizer().size == trained_size
    assert tokenizer(tool=False, other=True).size == trained_size + 2


def test_size_counts_holes() -> None:
    words = {"a": 0, "b": 7, "</s>": 3}
    backend = tokenizers.Tokenizer(models.WordLevel(words, unk_token="a"))
    assert Tokenizer(backend, "", {"eos_token": "</s>"}).size == 8


def test_special_tokens_that_the_vocabulary_also_spells_stay_out_of_plain_text() -> None:
    pieces = [("<unk>", 0.0), ("</s>", -1.0), *((sign, -5.0) for sign in "</s>abc")]
    backend = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=0))
    backend.add_special_tokens(["</s>"])
    spelled = Tokenizer(backend, "", {"eos_token": "</s>"})
    assert spelled.encode("a</s>") == [spelled.id("a"), 1]
    plain = spelled.encode_plain("a</s>b")
    assert 1 not in plain and len(plain) == 6


def test_fingerprint_follows_vocabulary_template_and_names() -> None:
    prints = {
        tokenizer().fingerprint,
        tokenizer(tool=False).fingerprint,
        Tokenizer(trained(), TEMPLATE + " ", {"eos_token": "<|end|>"}).fingerprint,
        Tokenizer(trained(), TEMPLATE, {"eos_token": "<|turn|>"}).fingerprint,
    }
    assert len(prints) == 4 and all(len(p) == 12 for p in prints)
    assert tokenizer().fingerprint == tokenizer().fingerprint


def test_text_behind_a_token_is_not_a_beginning() -> None:
    """Under a SentencePiece-like tokenizer a first word gets a space, a later one does not."""
    backend = tokenizers.Tokenizer(models.BPE(byte_fallback=True))
    backend.normalizer = normalizers.Sequence([])
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    trainer = trainers.BpeTrainer(special_tokens=["</s>"], show_progress=False, initial_alphabet=["▁"])
    backend.train_from_iterator(["user and model", "hi"], trainer)
    later = Tokenizer(backend, "", {"eos_token": "</s>"})
    whole = later.encode("</s>hi")
    assert later.encode("</s>") + later.encode_after("hi") == whole
    assert later.encode("</s>") + later.encode("hi") != whole


def test_a_token_that_swallows_blanks_swallows_them_across_a_seam() -> None:
    backend = trained()
    backend.add_special_tokens([tokenizers.AddedToken("<eat>", rstrip=True, special=True)])
    hungry = Tokenizer(backend, "", {"eos_token": "<eat>"})
    assert hungry.encode_after("\ncat", "<eat>") == hungry.encode("<eat>\ncat")[1:]
    assert hungry.encode_after("\ncat") == hungry.encode("\ncat")


def test_a_folder_gives_back_what_was_saved(tmp_path) -> None:
    saved = tokenizer(tool=False)
    saved.save(tmp_path / "model")
    loaded = Tokenizer.load(tmp_path / "model")
    assert loaded.fingerprint == saved.fingerprint
    assert loaded.template == TEMPLATE and loaded.names == {"eos_token": "<|end|>"}


def test_transformers_reads_what_was_saved(tmp_path) -> None:
    saved = tokenizer(tool=False)
    saved.save(tmp_path / "model")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert theirs.eos_token == "<|end|>" and theirs.chat_template == TEMPLATE
    assert theirs.encode("<tool>ls -l<|end|>", add_special_tokens=False) == saved.encode("<tool>ls -l<|end|>")


def save(folder, config, **files: str) -> None:
    folder.mkdir()
    (folder / "tokenizer.json").write_text(trained().to_str())
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_older_layouts_are_read(tmp_path) -> None:
    named = {"eos_token": {"content": "<|end|>", "special": True}, "pad_token": None}
    save(tmp_path / "a", {**named, "chat_template": TEMPLATE})
    assert Tokenizer.load(tmp_path / "a").template == TEMPLATE
    several = [{"name": "rag", "template": "no"}, {"name": "default", "template": TEMPLATE}]
    save(tmp_path / "b", {"chat_template": several}, special_tokens_map__json=json.dumps(named))
    assert Tokenizer.load(tmp_path / "b").names == {"eos_token": "<|end|>"}
    save(tmp_path / "c", {**named, "chat_template": "old"}, chat_template__jinja="new")
    assert Tokenizer.load(tmp_path / "c").template == "new"
    save(tmp_path / "d", named)
    assert Tokenizer.load(tmp_path / "d").template == ""


def refused(call) -> str:
    with pytest.raises(Refusal) as refusal:
        call()
    return str(refusal.value)


def test_a_missing_folder_is_refused_with_the_nearest(tmp_path) -> None:
    tokenizer().save(tmp_path / "qwen")
    text = refused(lambda: Tokenizer.load(tmp_path / "qwem"))
    assert "qwem" in text and str(tmp_path / "qwen") in text and "remedy" in text


def test_a_folder_without_tokenizer_json_is_refused(tmp_path) -> None:
    (tmp_path / "tokenizer.model").touch()
    text = refused(lambda: Tokenizer.load(tmp_path))
    assert "tokenizer.json" in text and "tokenizer.model" in text and "save_pretrained" in text


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("tokenizer.json", "{", "tokenizer.json cannot be read"),
        ("tokenizer.json", "{}", "tokenizer.json cannot be read"),
        ("tokenizer_config.json", "{", "tokenizer_config.json is not JSON"),
        ("tokenizer_config.json", "[]", "must hold a JSON object"),
        ("tokenizer_config.json", "{}", "no eos_token"),
        ("tokenizer_config.json", '{"eos_token": "<|emd|>"}', "nearest: <|end|>"),
        ("tokenizer_config.json", '{"chat_template": [{"name": "rag"}, 3]}', "default"),
    ],
)
def test_a_broken_file_is_refused(tmp_path, file: str, text: str, says: str) -> None:
    save(tmp_path / "m", {"eos_token": "<|end|>"})
    (tmp_path / "m" / file).write_text(text)
    refusal = refused(lambda: Tokenizer.load(tmp_path / "m"))
    assert says in refusal and str(tmp_path / "m") in refusal


def test_a_template_that_is_not_utf8_is_refused(tmp_path) -> None:
    save(tmp_path / "m", {"eos_token": "<|end|>"})
    (tmp_path / "m" / "chat_template.jinja").write_bytes(b"\xff")
    assert "chat_template.jinja is not UTF-8" in refused(lambda: Tokenizer.load(tmp_path / "m"))


def test_an_unknown_token_is_refused_with_the_nearest() -> None:
    assert "<tool>" in refused(lambda: TOKENIZER.id("<tol>"))


def test_importing_tokens_and_renderer_is_quiet_and_brings_no_torch() -> None:
    code = (
        "import sys, strop.tokens, strop.renderer; print(*sorted({'torch', 'transformers'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("\n", "")
