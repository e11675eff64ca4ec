import asyncio

import pytest

from strop.clock import ManualClock


def test_it_moves_only_when_told() -> None:
    clock = ManualClock(5)
    clock.advance(2.5)
    assert clock.now() == 7.5
    with pytest.raises(ValueError, match="go back by 1 s"):
        clock.advance(-1)


def test_sleeping_moves_it_at_once() -> None:
    clock = ManualClock()
    clock.run(asyncio.sleep(30 * 86_400))
    assert clock.now() == pytest.approx(30 * 86_400)


def test_tasks_wake_in_the_order_of_their_times() -> None:
    clock, woken = ManualClock(), []

    async def sleeper(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append((seconds, clock.now()))

    async def main() -> None:
        await asyncio.gather(*(sleeper(seconds) for seconds in (3, 1, 2.5)))

    clock.run(main())
    assert woken == [(1, 1), (2.5, 2.5), (3, 3)]


def test_timeouts_follow_it() -> None:
    clock = ManualClock()

    async def main() -> str:
        try:
            async with asyncio.timeout(10):
                await asyncio.sleep(11)
        except TimeoutError:
            return "late"
        return "in time"

    assert clock.run(main()) == "late"
    assert clock.now() == 10


@pytest.mark.parametrize("start", [1e7, 1.8e9, 1e12])
def test_a_late_start_is_no_obstacle(start: float) -> None:
    """Where a double no longer holds the nanosecond that asyncio counts with, such as after the epoch."""
    clock = ManualClock(start)
    clock.run(asyncio.sleep(0.25))
    assert clock.now() == pytest.approx(start + 0.25, abs=1e-3)


def test_a_schedule_that_can_never_go_on_is_reported() -> None:
    async def wait_for_nothing() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="stuck"):
        ManualClock().run(wait_for_nothing())


def test_the_same_schedule_twice_is_the_same() -> None:
    def once() -> list[tuple[int, float]]:
        clock, seen = ManualClock(), []

        async def worker(number: int, queue: asyncio.Queue[int]) -> None:
            while True:
                item = await queue.get()
                await asyncio.sleep(0.1 * (item % 7))
                seen.append((item, clock.now()))
                queue.task_done()

        async def main() -> None:
            queue: asyncio.Queue[int] = asyncio.Queue(maxsize=3)
            workers = [asyncio.create_task(worker(n, queue)) for n in range(4)]
            for item in range(40):
                await queue.put(item)
            await queue.join()
            for task in workers:
                task.cancel()

        clock.run(main())
        return seen

    assert once() == once() and len(once()) == 40
