"""What a recipe refuses, and that it is its own record."""

import tomllib
from typing import Any

import pytest

from strop.config import check, override
from strop.errors import Refusal
from strop.training.recipe import Recipe


def recipe(*overrides: str) -> Recipe:
    return check(Recipe, override({}, overrides), "mine.toml")


def refusal(*overrides: str) -> Refusal:
    with pytest.raises(Refusal) as caught:
        recipe(*overrides)
    assert caught.value.where == "mine.toml"
    return caught.value


def leaves(tables: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Every setting by its dotted name."""
    found = []
    for key, value in tables.items():
        inner = leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]
        found += inner
    return found


DEFAULTS = dict(leaves(Recipe().model_dump(mode="json")))


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_setting_is_checked_by_its_dotted_name(name: str) -> None:
    mistyped = refusal(f"{name}=3" if isinstance(DEFAULTS[name], str) else f'{name}="no such value"')
    assert mistyped.what.startswith(f"{name} must be")
    unknown = refusal(f"{name}x=1")
    assert unknown.what == f"unknown key '{name}x'" and unknown.nearest == name


@pytest.mark.parametrize(
    ("override", "nearest"),
    [
        ("learning_rate=1e-3", "learner.learning_rate"),
        ("learner.trust=0.1", "learner.loss.trust"),
        ("rollout.slack=1", "rollout.staleness.slack"),
        ("task.count=3", "tasks"),
        ("sampling.temprature=0", "sampling.temperature"),
    ],
)
def test_a_key_in_the_wrong_place_or_misspelt_names_the_right_one(override: str, nearest: str) -> None:
    assert refusal(override).nearest == nearest


@pytest.mark.parametrize(
    ("name", "least"),
    [
        *(
            ("steps", 1),
            ("tasks.count", 1),
            ("warm_up.tasks", 1),
            ("warm_up.batch", 1),
            ("warm_up.drills", 0),
        ),
        *(("engine.blocks", 1), ("engine.block_size", 1), ("engine.token_budget", 1), ("engine.threads", 1)),
        *(("rollout.groups", 1), ("rollout.siblings", 2), ("rollout.concurrency", 1)),
        *(("rollout.staleness.bound", 0), ("rollout.staleness.slack", 0)),
        *(("episode.turns", 1), ("sampling.reply_tokens", 1), ("embedded.layers", 1)),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(name: str, least: int) -> None:
    refused = refusal(f"{name}={least - 1}")
    assert refused.what == f"{name} must be greater than or equal to {least}, got {least - 1}"
    assert dict(leaves(recipe(f"{name}={least}").model_dump()))[name] == least


def test_a_recipe_written_down_reads_back_the_same() -> None:
    changed = recipe("learner.loss.trust=0.125", "model=smollm2", "rollout.staleness.bound=3")
    assert check(Recipe, tomllib.loads(changed.to_toml()), "written") == changed
    assert changed != Recipe()
