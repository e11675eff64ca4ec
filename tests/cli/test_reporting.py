"""From the store and the events to the data of a report, again and again the same."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.cli.reporting import evaluations, examples, gather, outcome_of, runs_of, stage_of, step_of
from strop.cli.runs import RunFolder
from strop.clock import ManualClock
from strop.evaluation.comparison import Comparison
from strop.evaluation.estimate import Summary
from strop.events import Event, JsonLines
from strop.report.pages import write_page
from strop.report.run_report import Stage
from strop.rollout.groups import Group
from strop.store import Episode, Run, Store, add_trace
from strop.tasks.task import Strata
from strop.trace import Trace, Turn
from strop.training.trainer import measure
from tests.cli.test_meter import Works
from tests.rollout.conftest import make_task, make_trace

EASY = Strata("lookup", "easy", 2, "configuration")


@dataclass
class Book:
    """A store with a run in it, and the run's folder."""

    store: Store
    folder: RunFolder
    count: int = 0

    def run(self, kind: str = "train", **facts: Any) -> None:
        self.folder.path.mkdir(exist_ok=True)
        with self.store.write() as session:
            session.add(Run(name=self.folder.name, kind=kind, started=100.0, **facts))

    def episode(self, stage: str, number: int, trace: Trace | None) -> str:
        """Dispatch an attempt at task `number` and, if there is a trace of it, close it."""
        self.count += 1
        episode = f"{999 - self.count:03}"
        with self.store.write() as session:
            session.add(
                Episode(
                    id=episode,
                    run=self.folder.name,
                    stage=stage,
                    task=f"toy/{number}",
                    task_id=f"id-{number}",
                    group="g",
                    dispatched=float(self.count),
                    strata=asdict(EASY),
                )
            )
        if trace is not None:
            with self.store.write() as session:
                add_trace(session, replace(trace, episode=episode, task=f"toy/{number}"), 1000.0)
        return episode

    def rows(self, stage: str) -> list[Episode]:
        with self.store.read() as session:
            return [row for row in session.query(Episode).all() if row.stage == stage]


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with Store.open(tmp_path / "strop.db") as store:
        yield Book(store, RunFolder(tmp_path / "train-1"))


def test_an_outcome_is_the_episodes_row(book: Book) -> None:
    book.run()
    book.episode("eval", 1, make_trace(0.5, tokens=7))
    book.episode("eval", 2, make_trace(None))
    book.episode("eval", 3, None)
    scored, lost, still_open = (
        outcome_of(row) for row in sorted(book.rows("eval"), key=lambda row: row.task)
    )
    assert (scored.task, scored.task_id, scored.strata) == ("toy/1", "id-1", EASY)
    assert (scored.score, scored.passed, scored.fault, scored.stop) == (0.5, False, None, "submitted")
    assert (scored.turns, scored.tokens) == (1, 7)
    assert (lost.scored, lost.score, lost.fault, lost.stop) == (False, None, "sandbox:lost", "fault")
    assert (still_open.scored, still_open.stop, still_open.turns) == (False, "fault", 0)


def test_a_stage_counts_every_episode_once(book: Book) -> None:
    book.run()
    traces = [make_trace(1.0), make_trace(0.0), replace(make_trace(0.0), stop="tokens"), make_trace(None)]
    for number, trace in enumerate([*traces, None]):
        book.episode("rl", number, trace)
    counted = stage_of("rl", book.rows("rl"))
    assert counted == Stage("rl", dispatched=5, scored=3, truncated=1, faults={"sandbox:lost": 1})


def test_the_same_tasks_before_and_after_are_compared(book: Book) -> None:
    book.run()
    for number in range(4):
        book.episode("eval:before:seeds", number, make_trace(0.0))
        book.episode("eval:after:seeds", 3 - number, make_trace(float(number != 0)))
    (found,) = evaluations({name: book.rows(name) for name in ("eval:before:seeds", "eval:after:seeds")})
    assert found.title == "Held-out seeds" and isinstance(found.result, Comparison)
    overall = found.result.overall
    assert (overall.before.passed, overall.after.passed, overall.after.total) == (0, 3, 4)
    assert found.result.alone == 0


@pytest.mark.parametrize(
    ("stages", "titles"),
    [
        ({"eval": [1, 2]}, ["Tasks"]),
        ({"eval:before:seeds": [1, 2]}, ["Held-out seeds, before"]),
        (
            {"eval:before:families": [1, 2], "eval:after:families": [1]},
            ["Held-out families, before", "Held-out families, after"],
        ),
        ({"warm-up": [1], "rl": [2], "run": [3]}, []),
    ],
)
def test_what_cannot_be_compared_is_summed_up_alone(
    book: Book, stages: dict[str, list[int]], titles: list[str]
) -> None:
    book.run()
    for stage, numbers in stages.items():
        for number in numbers:
            book.episode(stage, number, make_trace(1.0))
    found = evaluations({stage: book.rows(stage) for stage in stages})
    assert [one.title for one in found] == titles
    assert all(isinstance(one.result, Summary) and one.result.overall.passed >= 1 for one in found)


def step_event() -> Event:
    """A step's event as trainer and meter make it."""
    group = Group("g", make_task(), size=2, refills=0)
    for score in (1.0, 0.0):
        group.report(make_trace(score, version=1))
    works = Works()
    meter = works.meter(since=10.0)
    works.work(tokens=80, sandboxes=4, forward=6.0, grading=2.5)
    data = {
        "step": 3,
        **measure([group], version=2),
        "loss": 0.25,
        "entropy": 1.5,
        "seconds_waiting": 1.0,
        "seconds_learning": 2.0,
        "seconds_publishing": 0.5,
    }
    return meter.enrich(Event("step", 18.0, data))


def test_a_steps_event_becomes_a_row() -> None:
    row = step_of(step_event().data)
    assert (row.step, row.reward, row.episodes) == (3, 0.5, 2)
    assert (row.staleness_mean, row.staleness_max) == (1.0, 1.0)
    assert (row.loss, row.entropy) == (0.25, 1.5)
    assert (row.tokens_per_second, row.sandboxes_per_second) == (10.0, 0.5)
    assert row.seconds == {
        "learner": {"waiting": 1.0, "learning": 2.0, "publishing": 0.5},
        "sampler": {"forward": 6.0, "idle": 2.0},
        "episodes": {"lease": 0.0, "sampling": 0.0, "tools": 0.0, "grading": 2.5},
    }


def test_a_step_that_trained_on_nothing_has_no_loss() -> None:
    data = step_event().data
    del data["loss"], data["entropy"]
    assert (step_of(data).loss, step_of(data).entropy) == (None, None)


@given(st.floats(0, 20), st.floats(0, 20))
def test_a_sampler_is_never_idle_for_less_than_nothing(forward: float, draw: float) -> None:
    data = {**step_event().data, "engine_forward": forward, "engine_draw": draw}
    sampler = step_of(data).seconds["sampler"]
    assert sampler["idle"] >= 0.0
    assert sum(sampler.values()) == pytest.approx(max(data["seconds"], forward + draw))


def turns(score: float | None, count: int) -> Trace:
    return replace(make_trace(score), turns=(Turn("stop", 1, 0.0, 0.0),) * count)


def test_examples_are_the_longest_of_the_last_evaluation_on_seeds(book: Book) -> None:
    book.run()
    for stage, most in (("eval:before:seeds", 50), ("eval:after:seeds", 5), ("eval:after:families", 90)):
        for number in range(5):
            book.episode(stage, number, turns(1.0, most - number))
            book.episode(stage, 10 + number, turns(0.0, most - number))
        book.episode(stage, 20, turns(None, 99))
        book.episode(stage, 21, None)
    stages = {
        name: book.rows(name) for name in ("eval:before:seeds", "eval:after:seeds", "eval:after:families")
    }
    shown = examples(book.store, stages)
    assert [trace.verdict.passed for trace in shown] == [True] * 3 + [False] * 3
    assert [len(trace.turns) for trace in shown] == [5, 4, 3, 5, 4, 3]


def test_without_an_evaluation_the_last_stage_gives_the_examples(book: Book) -> None:
    book.run()
    book.episode("warm-up", 1, make_trace(1.0))
    book.episode("rl", 2, make_trace(0.0))
    assert examples(book.store, {}) == ()
    (shown,) = examples(book.store, {name: book.rows(name) for name in ("warm-up", "rl")})
    assert shown.task == "toy/2"


def test_a_report_holds_the_whole_run_and_is_the_same_each_time(book: Book) -> None:
    config = {"model": "embedded", "rollout": {"staleness": {"bound": 2}}}
    book.run(ended=160.0, outcome="done", config=config, facts={"gpus": 0})
    for stage in ("warm-up", "eval:before:seeds", "rl", "eval:after:seeds"):
        book.episode(stage, 1, make_trace(1.0))
    book.folder.recipe.write_text("steps = 1\n")
    with JsonLines(book.folder.events) as log:
        log(Event("warm-up", 11.0, {"step": 0, "loss": 3.0}))
        log(step_event())
    report = gather(book.store, book.folder, ManualClock(500.0))
    assert (report.name, report.kind, report.outcome) == ("train-1", "training run", "done")
    assert (report.started, report.seconds) == (100.0, 60.0)
    assert report.facts == {"model": "embedded", "gpus": "0"} and report.config == "steps = 1\n"
    assert [step.step for step in report.steps] == [3] and report.staleness_bound == 2
    assert [stage.name for stage in report.stages] == [
        "warm-up",
        "eval:before:seeds",
        "rl",
        "eval:after:seeds",
    ]
    assert [found.title for found in report.evaluations] == ["Held-out seeds"]
    assert len(report.transcripts) == 1
    assert gather(book.store, book.folder, ManualClock(900.0)) == report
    write_page(report, book.folder.report)
    assert "train-1" in book.folder.report.read_text()


def test_a_run_under_way_without_files_or_episodes_can_be_reported(book: Book) -> None:
    book.run(kind="eval", config={"rollout": {"staleness": {"bound": 2}}})
    report = gather(book.store, book.folder, ManualClock(130.0))
    assert (report.kind, report.outcome, report.seconds) == ("evaluation", "running", 30.0)
    assert (report.steps, report.stages, report.evaluations, report.transcripts) == ((), (), (), ())
    assert report.staleness_bound is None, "an evaluation has no learner to be behind of"
    write_page(report, book.folder.report)


def test_another_runs_episodes_are_not_in_it(book: Book) -> None:
    book.run()
    book.episode("rl", 1, make_trace(1.0))
    other = Book(book.store, RunFolder(book.folder.path.with_name("train-2")), count=500)
    other.run()
    other.episode("eval", 2, make_trace(1.0))
    assert [stage.name for stage in gather(book.store, book.folder, ManualClock()).stages] == ["rl"]


def test_runs_are_listed_latest_first(book: Book) -> None:
    with book.store.write() as session:
        session.add_all(
            Run(name=name, kind="run", started=at) for name, at in (("b", 1.0), ("a", 3.0), ("c", 2.0))
        )
    assert [run.name for run in runs_of(book.store)] == ["a", "c", "b"]
