"""A checkpoint is whole or absent, and loads as what was saved."""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from strop.training.checkpoint import COMPANIONS, save_checkpoint
from strop.training.stages import load_network
from strop.training.weights import state_of
from tests.training.conftest import make_network

FACTS = {"stage": "rl", "version": 3}


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """The folder that a model came from; it has no generation_config.json."""
    folder = tmp_path / "origin"
    folder.mkdir()
    for name in COMPANIONS[:3]:
        (folder / name).write_text(f"this is {name}")
    (folder / "notes.txt").write_text("of no use to a model")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


class Breaks:
    """A network that writes a part of itself and then finds no room."""

    def save_pretrained(self, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half of the")
        raise OSError(28, "No space left on device")


def test_what_was_saved_is_loaded(network: Any, origin: Path, tmp_path: Path) -> None:
    target = tmp_path / "checkpoints" / "final"
    save_checkpoint(network, origin, target, FACTS)
    loaded, saved = state_of(load_network(target)), state_of(network)
    assert loaded.keys() == saved.keys()
    assert all(torch.equal(loaded[name], saved[name]) for name in saved)
    assert json.loads((target / "strop.json").read_text()) == FACTS
    assert [(target / name).read_text() for name in COMPANIONS[:3]] == [
        f"this is {n}" for n in COMPANIONS[:3]
    ]
    assert not (target / "notes.txt").exists()
    assert [entry.name for entry in target.parent.iterdir()] == ["final"]


def test_a_save_replaces_the_whole_of_an_older_one(network: Any, origin: Path, tmp_path: Path) -> None:
    target = tmp_path / "final"
    save_checkpoint(make_network(1), origin, target, {"old": True})
    (target / "stale.bin").write_text("of the older one")
    save_checkpoint(network, origin, target, FACTS)
    assert torch.equal(load_network(target).lm_head.weight, network.lm_head.weight)
    assert "stale.bin" not in tree(target) and "old" not in (target / "strop.json").read_text()


def test_a_model_can_be_saved_over_the_folder_that_it_came_from(network: Any, origin: Path) -> None:
    save_checkpoint(network, origin, origin, FACTS)
    assert (origin / "tokenizer.json").read_text() == "this is tokenizer.json"
    assert torch.equal(load_network(origin).lm_head.weight, network.lm_head.weight)


@pytest.mark.parametrize("older", [False, True], ids=["anew", "over an older one"])
@pytest.mark.parametrize("broken", ["network", "facts"])
def test_a_save_that_fails_leaves_what_was_there_and_nothing_else(
    network: Any, origin: Path, tmp_path: Path, broken: str, older: bool
) -> None:
    target = tmp_path / "checkpoints" / "final"
    if older:
        save_checkpoint(make_network(1), origin, target, {"old": True})
    before = tree(tmp_path)
    if broken == "network":
        with pytest.raises(OSError, match="No space left"):
            save_checkpoint(Breaks(), origin, target, FACTS)
    else:
        with pytest.raises(TypeError, match="serializable"):
            save_checkpoint(network, origin, target, {"stage": object()})
    assert tree(tmp_path) == before
    assert [entry.name for entry in target.parent.iterdir()] == ["final"] * older


def test_what_a_killed_save_left_is_swept_away(network: Any, origin: Path, tmp_path: Path) -> None:
    draft = tmp_path / ".final.draft"
    draft.mkdir()
    (draft / "half.bin").write_text("of a save that was killed")
    save_checkpoint(network, origin, tmp_path / "final", FACTS)
    assert not draft.exists() and not (tmp_path / "final" / "half.bin").exists()


@pytest.mark.parametrize("broken", ["removal", "rename"])
def test_a_replacement_that_fails_half_way_leaves_one_that_is_whole(
    network: Any, origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    target = tmp_path / "final"
    save_checkpoint(make_network(1), origin, target, {"old": True})
    names, draft = set(tree(target)), tmp_path / ".final.draft"
    remove, rename = shutil.rmtree, Path.rename

    def remove_half(path: Path, ignore_errors: bool = False) -> None:
        if path == draft or not path.exists():
            return remove(path, ignore_errors)
        (path / "model.safetensors").unlink()
        raise OSError(5, "Input/output error")

    def rename_not(path: Path, new: Path) -> Path:
        if path == draft:
            raise OSError(5, "Input/output error")
        return rename(path, new)

    if broken == "removal":
        monkeypatch.setattr(shutil, "rmtree", remove_half)
    else:
        monkeypatch.setattr(Path, "rename", rename_not)
    with contextlib.suppress(OSError):
        save_checkpoint(network, origin, target, FACTS)
    assert target.exists() and set(tree(target)) == names
