"""Time as an argument.

Code that waits uses asyncio's own `sleep` and `timeout`; code that stamps asks a `Clock`. Under
`ManualClock.run` both follow the same simulated time, which jumps to the next timer as soon as every
task waits, so that a schedule of hours is a deterministic test of milliseconds. The wall clock is
handed in by `cli/`.
"""

import asyncio
import math
import selectors
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
NANOSECOND = 1e-9


class Clock(Protocol):
    """Anything that tells the time."""

    def now(self) -> float:
        """Seconds since an origin of the clock's own; never runs backwards."""
        ...


class ManualClock:
    """A clock that moves only when told, or when everybody on it waits.

    >>> clock = ManualClock()
    >>> clock.run(asyncio.sleep(3600))
    >>> clock.now()
    3600.0
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError(f"a clock cannot go back by {-seconds} s")
        self._now += seconds

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end on an event loop whose timers follow this clock.

        Raises:
            RuntimeError: every task waits and no timer is set, which no passing of time would cure.
        """
        with asyncio.Runner(loop_factory=lambda: _ManualLoop(self)) as runner:
            return runner.run(main)


class _ManualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        super().__init__(_JumpingSelector(clock))

    def time(self) -> float:
        return self._clock.now()


class _JumpingSelector(selectors.DefaultSelector):
    """Where a real loop would sleep until the next timer, this one moves the clock there."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("every task waits and no timer is set: this schedule is stuck")
        self._clock.advance(timeout)
        if self._clock.now() + NANOSECOND == self._clock.now():
            # asyncio runs a timer when the time plus its resolution is past it. Late times cannot express
            # that nanosecond, so the clock goes one step of theirs beyond the timer.
            self._clock.advance(math.ulp(self._clock.now()))
        return ready
