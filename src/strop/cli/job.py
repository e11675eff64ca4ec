"""What a command is asked to do, resolved from recipe, model and overrides before anything starts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strop.cli.runs import cache_folder
from strop.config import check, load, override
from strop.engine.bounds import COLDEST
from strop.engine.models import model_folder
from strop.errors import Refusal
from strop.evaluation.run import EvaluationSettings
from strop.sandbox.pool import PoolSettings
from strop.training.recipe import Recipe

HABITS = "strop.json"
"""The file of a model folder that says how the model plays and where it comes from."""


class Job(Recipe):
    """What ``strop train`` does, from first check to report."""

    evaluation: EvaluationSettings = EvaluationSettings()
    sandbox: PoolSettings = PoolSettings()


def read_job(recipe: Path, overrides: Sequence[str]) -> Job:
    """The job that a recipe and ``--set`` overrides state.

    Raises:
        Refusal: the file or an override is wrong, or two settings contradict each other.
    """
    job = _consistent(load(Job, recipe, overrides), str(recipe))
    if job.sampling.temperature == 0:
        raise Refusal(
            "sampling.temperature = 0 samples the same reply every time, of which nothing can be learned",
            where=str(recipe),
            nearest="1",
            remedy="raise it; evaluation.temperature may be 0",
        )
    return job


def read_overrides(model: str, overrides: Sequence[str]) -> Job:
    """The settings of a command without a recipe: as the model's folder says it plays, then ``--set``.

    Raises:
        Refusal: there is no such model, or an override is wrong.
    """
    habits = model_folder(model, cache_folder()) / HABITS
    tables = {**_read_habits(habits), "model": model} if habits.exists() else {"model": model}
    job = _consistent(check(Job, override(tables, overrides), str(habits), overrides), "--set")
    if job.model != model:
        raise Refusal(
            f"two models: --model {model} and --set model={job.model}", remedy="name the one that is to play"
        )
    return job


def read_scripted(who: str, overrides: Sequence[str]) -> Job:
    """The settings of a command in which `who` plays by a script, and no model.

    Raises:
        Refusal: an override is wrong.
    """
    return _consistent(check(Job, override({"model": who}, overrides), "--set", overrides), "--set")


def habits_of(job: Job) -> dict[str, Any]:
    """How a model that was trained by this job plays; goes along with its checkpoints."""
    return job.model_dump(mode="json", include={"dialect", "system_prompt", "episode", "sampling"})


def require_positions(job: Job, positions: int, where: str) -> None:
    """See that a model can hold an episode.

    Raises:
        Refusal: it was made for shorter ones.
    """
    if job.episode.tokens > positions:
        raise Refusal(
            f"episode.tokens = {job.episode.tokens} exceeds the model's {positions} positions",
            where=where,
            nearest=str(positions),
            remedy=f"--set episode.tokens={positions}",
        )


def _read_habits(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["plays"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refusal(
            f"cannot read how the model plays: {type(error).__name__}: {error}",
            where=str(path),
            remedy="copy the model's folder again; without this file it plays by the default settings",
        ) from error


def _consistent(job: Job, where: str) -> Job:
    """The job, whose settings go together."""
    _groups_fit(job, where)
    _engine_fits(job, where)
    for name, temperature in (
        ("sampling.temperature", job.sampling.temperature),
        ("evaluation.temperature", job.evaluation.temperature),
    ):
        if 0 < temperature < COLDEST:
            raise Refusal(
                f"{name} = {temperature:g} is too cold to compute with",
                where=where,
                nearest=f"{COLDEST:g}",
                remedy="0 takes the likeliest token",
            )
    return job


def _groups_fit(job: Job, where: str) -> None:
    staleness, groups = job.rollout.staleness, job.rollout.groups
    if staleness.slack > staleness.bound * groups:
        raise Refusal(
            f"rollout.staleness.slack = {staleness.slack} leaves no room for a batch of {groups} groups at "
            f"bound {staleness.bound}",
            where=where,
            nearest=f"slack = {staleness.bound * groups}",
            remedy="lower the slack or raise the bound",
        )


def _engine_fits(job: Job, where: str) -> None:
    engine, tokens, at_once = job.engine, job.episode.tokens, job.rollout.concurrency
    if engine.blocks * engine.block_size < tokens:
        raise Refusal(
            f"{engine.blocks} blocks of {engine.block_size} tokens cannot hold episode.tokens = {tokens}",
            where=where,
            nearest=f"engine.blocks = {-(-tokens // engine.block_size)}",
            remedy="raise engine.blocks or lower episode.tokens",
        )
    if engine.token_budget <= at_once:
        raise Refusal(
            f"engine.token_budget = {engine.token_budget} is not above rollout.concurrency = {at_once}",
            where=where,
            nearest=f"engine.token_budget = {at_once + 1}",
            remedy="raise the budget or lower the concurrency",
        )
