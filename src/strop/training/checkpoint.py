"""Weights on disk: a Hugging Face folder that is whole or absent.

A checkpoint holds everything that a model folder holds, so whatever loads a model loads a checkpoint.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch

COMPANIONS = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
"""What a checkpoint takes over from the folder that its model came from."""


def save_checkpoint(network: Any, origin: Path, target: Path, facts: dict[str, Any]) -> None:
    """Write `network` with the tokenizer of `origin` to `target`, replacing it; `facts` go along as JSON."""
    draft, older = (target.with_name(f".{target.name}.{what}") for what in ("draft", "older"))
    for left in (draft, older):
        shutil.rmtree(left, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        with torch.no_grad():
            network.save_pretrained(draft)
        for name in COMPANIONS:
            if (origin / name).exists():
                shutil.copyfile(origin / name, draft / name)
        (draft / "strop.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        if target.exists():
            target.rename(older)
        try:
            draft.rename(target)
        except OSError:
            if older.exists():
                older.rename(target)
            raise
    finally:
        for left in (draft, older):
            shutil.rmtree(left, ignore_errors=True)


def discard(target: Path) -> None:
    """Take away what a save that was killed left of `target`; an older one comes back."""
    draft, older = (target.with_name(f".{target.name}.{what}") for what in ("draft", "older"))
    if older.exists() and not target.exists():
        older.rename(target)
    for left in (draft, older):
        shutil.rmtree(left, ignore_errors=True)
