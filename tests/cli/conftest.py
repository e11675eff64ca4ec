"""A model and a recipe so small that every stage of a run comes at once, and takes as long as is asked."""

from pathlib import Path

import pytest

from strop.errors import Refusal
from strop.sandbox import kernel
from strop.seeds import Seed
from strop.suites.shell.suite import SUITE
from strop.training.embedded import EmbeddedSettings, build_model

TINY = EmbeddedSettings(
    vocabulary=512, hidden=32, layers=1, heads=2, key_value_heads=1, head_width=16, feed_forward=64
)
RECIPE = """
model = "{model}"
steps = 100000
[tasks]
count = 3
[episode]
turns = 2
tokens = 256
[sampling]
reply_tokens = 8
[rollout]
groups = 2
siblings = 2
concurrency = 4
refill_dead = false
[rollout.staleness]
bound = 1
slack = 0
[sandbox]
maximum = 4
spare = 1
[evaluation]
seeds = 3
families = 0
[embedded]
vocabulary = {tiny.vocabulary}
hidden = {tiny.hidden}
layers = {tiny.layers}
heads = {tiny.heads}
key_value_heads = {tiny.key_value_heads}
head_width = {tiny.head_width}
feed_forward = {tiny.feed_forward}
[warm_up]
tasks = 3
drills = 2
steps = 50000
batch = 2
"""
"""Its reinforcement has no end, and its warm-up takes minutes."""


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the commands that tests start; skips where no sandbox can."""
    try:
        kernel.require()
    except Refusal as error:
        pytest.skip(str(error))
    return tmp_path_factory.mktemp("cache")


def make_model(folder: Path, **differences: int) -> Path:
    texts = [task.instruction for task in SUITE.tasks("warm-up", 84)]
    build_model(folder, texts, TINY.model_copy(update=differences), Seed(0))
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 25 MB, which takes a moment to write."""
    return make_model(tmp_path_factory.mktemp("models") / "heavy", hidden=256, feed_forward=8192)


@pytest.fixture(scope="session")
def recipe(model: Path) -> Path:
    path = model.parent / "tiny.toml"
    path.write_text(RECIPE.format(model=model, tiny=TINY))
    return path
