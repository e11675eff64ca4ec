"""What a tokenizer is: text to token ids and back, and the chat template that came with it.

Nothing is added and nothing is cleaned up: `encode` puts in no beginning of text, `decode` gives every
special token back, and no length limit left in a tokenizer's file cuts anything. What a chat is in
tokens is the renderer's business (`strop.renderer`); this file imports no torch.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from strop.errors import Refusal, nearest

NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The special tokens that chat templates know by name."""


class Tokenizer:
    """A tokenizer of the `tokenizers` library, its chat template and its named special tokens.

    Example: ``Tokenizer.load(Path("models/mine")).encode("hello")``; made on the spot:
    ``Tokenizer(trained, template="{% for message in messages %}...", names={"eos_token": "<|end|>"})``.
    """

    def __init__(self, backend: tokenizers.Tokenizer, template: str, names: Mapping[str, str]) -> None:
        """Take over `backend`; `template` may be empty where only encoding is wanted.

        Raises:
            Refusal: no ``eos_token`` is named, or a named token is not in the vocabulary.
        """
        self._backend = backend
        self._backend.no_truncation()
        self._backend.no_padding()
        self.template = template
        self.names = dict(names)
        added = backend.get_added_tokens_decoder()
        self.added: Mapping[str, int] = {t.content: i for i, t in added.items() if t.content.strip()}
        """Tokens that are found in text before anything is split, blank ones apart: text to id."""
        self.special = frozenset(token.content for token in added.values() if token.special)
        """Those of them that are control tokens and not text."""
        roomy = (t.content for t in added.values() if t.special and not t.rstrip and not t.lstrip)
        self._anchor = next(roomy, None)
        if not self.names.get("eos_token"):
            raise Refusal("the tokenizer names no eos_token", remedy='name one: {"eos_token": "</s>"}')
        self.eos = self.id(self.names["eos_token"])

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """Read a Hugging Face model folder.

        ``tokenizer.json`` is needed. Names come from ``tokenizer_config.json``, then from
        ``special_tokens_map.json``; the template from ``chat_template.jinja``, then from inside
        ``tokenizer_config.json``.

        Raises:
            Refusal: the folder or ``tokenizer.json`` is missing, or one of the files is malformed.
        """
        if not folder.is_dir():
            beside = [str(found) for found in folder.parent.glob("*/") if found.is_dir()]
            raise Refusal(
                f"there is no tokenizer folder {folder.name!r}",
                where=str(folder),
                nearest=nearest(str(folder), beside),
                remedy="give a folder that holds tokenizer.json",
            )
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise Refusal(
                "the folder has no tokenizer.json",
                where=str(folder),
                nearest=nearest("tokenizer.json", [found.name for found in folder.iterdir()]),
                remedy="save it with transformers: AutoTokenizer.from_pretrained(...).save_pretrained(...)",
            )
        try:
            backend = tokenizers.Tokenizer.from_str(file.read_text(encoding="utf-8"))
        except Exception as error:  # the library raises Exception itself
            raise Refusal(
                f"tokenizer.json cannot be read: {error}",
                where=str(file),
                remedy="copy the model's folder again",
            ) from error
        config = _json(folder / "tokenizer_config.json")
        names = _names(_json(folder / "special_tokens_map.json")) | _names(config)
        try:
            return cls(backend, _template(config, folder), names)
        except Refusal as refusal:
            raise Refusal(refusal.what, str(folder), refusal.nearest, refusal.remedy) from None

    def save(self, folder: Path) -> None:
        """Write the files that `load`, and transformers, read."""
        folder.mkdir(parents=True, exist_ok=True)
        config = {"tokenizer_class": "PreTrainedTokenizerFast", **self.names}
        (folder / "tokenizer.json").write_text(self._backend.to_str(pretty=True), encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        (folder / "chat_template.jinja").write_text(self.template, encoding="utf-8")

    @cached_property
    def size(self) -> int:
        """One more than the highest id: the rows that an embedding table needs."""
        return 1 + max(self._backend.get_vocab(with_added_tokens=True).values())

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hex digits over vocabulary, rules, template and names."""
        parts = [self._backend.to_str(), self.template, json.dumps(self.names, sort_keys=True)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

    def id(self, token: str) -> int:
        """The id of a token, written as it stands in the vocabulary.

        Raises:
            Refusal: there is no such token.
        """
        found: int | None = self._backend.token_to_id(token)
        if found is None:
            close = nearest(token, self.added)
            raise Refusal(f"the tokenizer has no token {token!r}", nearest=close)
        return found

    def encode(self, text: str) -> list[int]:
        """Ids of a whole text; special tokens written in it become themselves, none is added."""
        ids: list[int] = self._backend.encode(_encodable(text), add_special_tokens=False).ids
        return ids

    def encode_after(self, text: str, token: str = "") -> list[int]:
        """Ids of a text that goes on behind a special token (any one when none is given).

        Differs from `encode` where a tokenizer treats a beginning apart (a first word that gets a space),
        or where `token` swallows the blanks that follow it.
        """
        anchor = token or self._anchor
        if anchor is None:
            return self.encode(text)
        before, *after = self.encode(anchor + text)
        return after if before == self.added.get(anchor) else self.encode(text)

    def encode_plain(self, text: str) -> list[int]:
        """Ids of a text taken as text alone: special tokens written in it stay letters and signs."""
        plain, text = self._without_added, _encodable(text)
        ids: list[int] = plain.encode(text, add_special_tokens=False).ids
        if self._added_ids.isdisjoint(ids):
            return ids
        # A vocabulary may hold its special tokens as ordinary entries too; one sign alone never is one.
        return [i for sign in text for i in plain.encode(sign, add_special_tokens=False).ids]

    def decode(self, ids: Sequence[int], *, special: bool = True) -> str:
        """The text of the ids; bytes that are no UTF-8 become U+FFFD. `special` keeps special tokens."""
        text: str = self._backend.decode(list(ids), skip_special_tokens=not special)
        return text

    @cached_property
    def _added_ids(self) -> frozenset[int]:
        return frozenset(self.added.values())

    @cached_property
    def _without_added(self) -> tokenizers.Tokenizer:
        body = json.loads(self._backend.to_str())
        return tokenizers.Tokenizer.from_str(json.dumps({**body, "added_tokens": []}))


def _encodable(text: str) -> str:
    """Lone surrogates, which no tokenizer takes, as question marks."""
    return text.encode("utf-8", "replace").decode()


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Refusal(
            f"{file.name} is not JSON: {error}", where=str(file), remedy="copy the model's folder again"
        ) from error
    if not isinstance(body, dict):
        raise Refusal(
            f"{file.name} must hold a JSON object", where=str(file), remedy="copy the model's folder again"
        )
    return body


def _names(config: Mapping[str, Any]) -> dict[str, str]:
    """Named tokens are strings or, in older files, objects with their string under ``content``."""
    found = {name: config.get(name) for name in NAMES}
    texts = {name: t.get("content") if isinstance(t, dict) else t for name, t in found.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str) and text}


def _template(config: Mapping[str, Any], folder: Path) -> str:
    """The template in its file, or in ``tokenizer_config.json`` as a string or a list of named ones."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise Refusal(
                f"{file.name} is not UTF-8: {error}", where=str(file), remedy="copy the model's folder again"
            ) from error
    found = config.get("chat_template") or ""
    if isinstance(found, list):
        named = {str(e.get("name")): e.get("template") for e in found if isinstance(e, dict)}
        if "default" not in named:
            raise Refusal(
                "none of the tokenizer's chat templates is the default one",
                where=str(folder / "tokenizer_config.json"),
                nearest=nearest("default", named),
                remedy="write the one to use into chat_template.jinja beside it",
            )
        found = named["default"]
    return str(found)
