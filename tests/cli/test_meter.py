"""What each event gets to know of the work since the one before."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.cli.meter import Meter
from strop.engine.engine import Metrics
from strop.events import Event
from strop.rollout.dispatcher import Census
from strop.rollout.executor import Tally
from strop.sandbox.pool import PoolMetrics


@dataclass
class Works:
    """Engine, pool, executor and dispatcher in one, at work as the test says."""

    engine: Metrics = field(
        default_factory=lambda: Metrics(
            version=0,
            steps=0,
            sampled_tokens=0,
            prefill_tokens=0,
            cached_tokens=0,
            preemptions=0,
            busy_seconds={"forward": 0.0, "draw": 0.0},
            waiting=0,
            running=0,
            free_blocks=0,
        )
    )
    pool: PoolMetrics = field(default_factory=PoolMetrics)
    tally: Tally = field(default_factory=Tally)
    census: Census = field(default_factory=Census)

    def meter(self, since: float) -> Meter:
        engine: Any = _Counts(lambda: self.engine)
        pool: Any = _Counts(lambda: self.pool)
        both: Any = self
        return Meter(engine, both, pool, both, since)

    def work(self, tokens: int = 0, sandboxes: int = 0, forward: float = 0.0, grading: float = 0.0) -> None:
        busy = {**self.engine.busy_seconds}
        busy["forward"] += forward
        self.engine = replace(
            self.engine, sampled_tokens=self.engine.sampled_tokens + tokens, busy_seconds=busy
        )
        self.pool = replace(
            self.pool, started=self.pool.started + sandboxes, commands=self.pool.commands + 2 * sandboxes
        )
        self.tally.episodes += sandboxes
        self.tally.seconds.update({"grading": grading})
        self.census.dead += 1


@dataclass
class _Counts:
    metrics: Any


def test_the_first_event_counts_from_the_time_and_the_totals_at_the_start() -> None:
    works = Works()
    works.work(tokens=1000, sandboxes=50, forward=9.0, grading=3.0)  # an evaluation before, say
    meter = works.meter(since=100.0)
    works.work(tokens=60, sandboxes=3, forward=1.5, grading=0.5)
    data = meter.enrich(Event("step", 120.0)).data
    assert data["seconds"] == 20.0
    assert (data["sampled_tokens"], data["tokens_per_second"]) == (60, 3.0)
    assert (data["sandboxes"], data["commands"], data["sandboxes_per_second"]) == (3, 6, 0.15)
    assert (data["engine_forward"], data["engine_draw"], data["episode_grading"]) == (1.5, 0.0, 0.5)
    assert (data["played"], data["unscored"], data["dead_groups"]) == (3, 0, 1)


def test_rates_are_over_the_time_between_two_events() -> None:
    works = Works()
    meter = works.meter(since=0.0)
    works.work(tokens=100)
    meter.enrich(Event("step", 10.0))
    works.work(tokens=60, sandboxes=8)
    data = meter.enrich(Event("step", 14.0)).data
    assert (data["seconds"], data["tokens_per_second"], data["sandboxes_per_second"]) == (4.0, 15.0, 2.0)
    idle = meter.enrich(Event("step", 15.0)).data
    assert (idle["sampled_tokens"], idle["tokens_per_second"]) == (0, 0.0)


def test_an_event_keeps_what_it_said_itself() -> None:
    event = Event("step", 3.0, {"step": 7, "reward": 0.5})
    enriched = Works().meter(since=1.0).enrich(event)
    assert (enriched.kind, enriched.time) == ("step", 3.0)
    assert enriched.data.items() >= event.data.items()
    assert event.data == {"step": 7, "reward": 0.5}, "whoever else observes the event sees it as it was"


def test_two_events_at_one_instant_divide_by_nothing() -> None:
    works = Works()
    meter = works.meter(since=5.0)
    works.work(tokens=1)
    assert meter.enrich(Event("step", 5.0)).data["sampled_tokens"] == 1


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 20), st.floats(0.01, 60)), max_size=8))
def test_no_work_is_lost_or_counted_twice(spans: list[tuple[int, int, float]]) -> None:
    works, now = Works(), 0.0
    meter, rows = works.meter(since=now), []
    for tokens, sandboxes, seconds in spans:
        works.work(tokens, sandboxes)
        now += seconds
        rows.append(meter.enrich(Event("step", now)).data)
    assert sum(row["sampled_tokens"] for row in rows) == works.engine.sampled_tokens
    assert sum(row["sandboxes"] for row in rows) == works.pool.started
    assert sum(row["seconds"] for row in rows) == pytest.approx(now)
    for row in rows:
        assert row["tokens_per_second"] * row["seconds"] == pytest.approx(row["sampled_tokens"])
