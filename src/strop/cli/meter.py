"""Where time and work went, step by step.

The trainer's events carry the learner's figures; the meter adds what engine, executor and pool did since the
step before, so that one row tells the whole step.
"""

from collections.abc import Mapping
from typing import Any

from strop.engine.engine import Engine
from strop.events import Event
from strop.rollout.dispatcher import Dispatcher
from strop.rollout.executor import Executor
from strop.sandbox.pool import SandboxPool


class Meter:
    """Example: ``Meter(engine, executor, pool, dispatcher, clock.now()).enrich(Event("step", ...))``."""

    def __init__(
        self, engine: Engine, executor: Executor, pool: SandboxPool, dispatcher: Dispatcher, since: float
    ) -> None:
        """The first event is measured from the time `since`, in seconds."""
        self._engine, self._executor, self._pool, self._dispatcher = engine, executor, pool, dispatcher
        self._last, self._time = self._read(), since

    def enrich(self, event: Event) -> Event:
        """The event with the work since the last one, rates over the time in between included."""
        now = self._read()
        spent = {name: value - self._last[name] for name, value in now.items()}
        seconds = max(event.time - self._time, 1e-9)
        self._last, self._time = now, event.time
        rates = {
            "seconds": seconds,
            "tokens_per_second": spent["sampled_tokens"] / seconds,
            "sandboxes_per_second": spent["sandboxes"] / seconds,
        }
        return Event(event.kind, event.time, {**event.data, **spent, **rates})

    def _read(self) -> Mapping[str, Any]:
        engine, pool = self._engine.metrics(), self._pool.metrics()
        tally, census = self._executor.tally, self._dispatcher.census
        busy = {f"engine_{phase}": value for phase, value in engine.busy_seconds.items()}
        phases = ("lease", "sampling", "tools", "grading", "total")
        episodes = {f"episode_{phase}": tally.seconds[phase] for phase in phases}
        return {
            **busy,
            **episodes,
            "sampled_tokens": engine.sampled_tokens,
            "prefill_tokens": engine.prefill_tokens,
            "cached_tokens": engine.cached_tokens,
            "sandboxes": pool.started,
            "commands": pool.commands,
            "played": tally.episodes,
            "unscored": tally.unscored,
            "dead_groups": census.dead,
        }
