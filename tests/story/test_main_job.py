"""The main job, end to end: what is promised of a run holds of one that really happened."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select

from strop.cli.app import run
from strop.engine.models import model_folder
from strop.events import read_events
from strop.store import Episode, TraceBlob
from strop.trace import Trace, unpack
from strop.training.batch import reference_rows
from strop.training.learner import Learner, LearnerSettings
from strop.training.stages import load_network
from tests.story.conftest import SMALL, Trained


def episodes(trained: Trained, *stages: str) -> list[Episode]:
    with trained.store.read() as session:
        rows = session.scalars(select(Episode).where(Episode.run == "story")).all()
    return [row for row in rows if not stages or row.stage in stages]


def traces(trained: Trained, stage: str) -> list[Trace]:
    with trained.store.read() as session:
        query = select(TraceBlob.blob).join(Episode, Episode.id == TraceBlob.episode)
        blobs = session.scalars(query.where(Episode.run == "story", Episode.stage == stage)).all()
    return [unpack(blob) for blob in blobs]


def test_every_dispatched_episode_is_in_the_store_once_with_a_verdict_or_a_fault(trained: Trained) -> None:
    rows = episodes(trained)
    assert Counter(trained.dispatched) == Counter(row.id for row in rows)
    assert max(Counter(trained.dispatched).values()) == 1
    assert [row.id for row in rows if row.closed is None] == []
    assert [row.id for row in rows if (row.score is None) == (row.fault is None)] == []
    with trained.store.read() as session:
        assert set(session.scalars(select(TraceBlob.episode)).all()) >= {row.id for row in rows}


def test_only_episodes_that_the_run_ended_are_unscored(trained: Trained) -> None:
    faults = {row.fault for row in episodes(trained) if row.fault}
    assert faults <= {"machinery:cancelled"}
    assert {row.stage for row in episodes(trained) if row.fault} <= {"rl"}


def test_each_held_out_task_is_played_before_and_after(trained: Trained) -> None:
    for what, count in (("seeds", SMALL["evaluation.seeds"]), ("families", SMALL["evaluation.families"])):
        before, after = (episodes(trained, f"eval:{when}:{what}") for when in ("before", "after"))
        assert len(before) == len(after) == count
        assert {row.task_id for row in before} == {row.task_id for row in after}


def test_no_task_trains_and_scores(trained: Trained) -> None:
    trained_on = {row.task_id for row in episodes(trained, "rl")}
    scored = {row.task_id for row in episodes(trained) if row.stage.startswith("eval")}
    assert trained_on and scored and not trained_on & scored


def test_each_step_trains_whole_groups_that_vary_within_the_staleness_bound(trained: Trained) -> None:
    steps = [event.data for event in read_events(trained.folder / "events.jsonl") if event.kind == "step"]
    assert [step["step"] for step in steps] == [0, 1, 2]
    rows = [row for row in episodes(trained, "rl") if row.trained_at is not None]
    assert Counter(row.trained_at for row in rows) == {1: 12, 2: 12, 3: 12}
    for group in {row.group for row in rows}:
        scores = {row.score for row in rows if row.group == group}
        assert len(scores) > 1
    for step in steps:
        assert 0 <= step["staleness_mean"] <= step["staleness_max"] <= 2
        assert step["gradient_norm"] > 0 and step["tokens_per_second"] < 1e6


def test_sampler_and_learner_agree_on_the_same_tokens_at_the_same_version(trained: Trained) -> None:
    folder = model_folder("embedded")
    learner = Learner(load_network(folder), LearnerSettings())
    rows = reference_rows(traces(trained, "eval:before:seeds"))
    sampler = np.concatenate([row.logprobs[row.sampled] for row in rows])
    assert len(sampler) > 500
    gap = np.abs(learner.logprobs(rows).numpy() - sampler)
    assert gap.max() < 1e-4
    after = Learner(load_network(trained.folder / "checkpoints" / "final"), LearnerSettings())
    rows = reference_rows(traces(trained, "eval:after:seeds"))
    sampler = np.concatenate([row.logprobs[row.sampled] for row in rows])
    assert np.abs(after.logprobs(rows).numpy() - sampler).max() < 1e-4
    assert np.abs(learner.logprobs(rows).numpy() - sampler).max() > 1e-4, "training changed nothing"


def test_the_versions_of_tokens_say_who_sampled_them(trained: Trained) -> None:
    def versions(stage: str) -> set[int]:
        return {int(v) for t in traces(trained, stage) for s in t.segments for v in s.versions[s.sampled]}

    assert versions("eval:before:seeds") == {0}
    assert versions("eval:after:seeds") == {3}
    assert versions("rl") <= {0, 1, 2, 3} and len(versions("rl")) > 1


def test_the_report_is_one_file_that_needs_no_network(trained: Trained) -> None:
    page = (trained.folder / "report.html").read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)|url\((?!["']?data:|#)|@import""", page)
    for said in ("Held-out seeds", "Held-out families", "easy", "hard", "lookup", "swap"):
        assert said in page


def test_the_checkpoint_plays_as_it_was_trained(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    folder = trained.folder / "checkpoints" / "final"
    facts = json.loads((folder / "strop.json").read_text())
    assert (facts["stage"], facts["run"], facts["version"]) == ("rl", "story", 3)
    assert facts["plays"] == json.loads((model_folder("embedded") / "strop.json").read_text())["plays"]
    assert run(["run", "shell/create-easy-2", "--model", str(folder), "--runs", str(trained.runs)]) in (0, 1)
    assert "```sh" in capsys.readouterr().out


def test_a_run_can_be_looked_at_again(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    runs = ("--runs", str(trained.runs))
    assert run(["report", *runs]) == 0
    assert "story" in capsys.readouterr().out
    page = trained.folder / "report.html"
    page.unlink()
    assert run(["report", "story", *runs]) == 0
    assert page.exists()
    assert run(["show", "story", *runs]) == 0
    capsys.readouterr()
    episode = episodes(trained, "eval:after:seeds")[0]
    assert run(["show", "story", episode.id[:10], *runs]) == 0
    assert episode.task in capsys.readouterr().out


def test_nothing_of_the_run_stays_in_its_folder_but_what_is_named(trained: Trained) -> None:
    left = {str(path.relative_to(trained.runs)) for path in Path(trained.runs).rglob("*") if path.is_file()}
    checkpoint = {f"story/checkpoints/final/{path.name}" for path in model_folder("embedded").iterdir()}
    named = {"story/recipe.toml", "story/events.jsonl", "story/report.html", *checkpoint}
    assert {name for name in left if not name.startswith("strop.db")} >= named
    assert not [name for name in left if "draft" in name or name.endswith(".tmp")]
