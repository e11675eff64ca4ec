"""The front: every waiter is resolved, every request ends once, weights change between steps alone."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest
import torch

from strop.clock import ManualClock
from strop.engine.engine import Engine
from strop.engine.models import LoadedModel
from strop.engine.request import Output, Request, Sampling
from strop.engine.scheduler import Limits
from strop.errors import MachineryFault

LIMITS = Limits(blocks=64, block_size=4, running=8, token_budget=32)


@pytest.fixture
def serve(tiny: LoadedModel) -> Callable[[Callable[[Engine], Coroutine[Any, Any, None]]], None]:
    """Run a story on an engine, close it, and see that no block is lost and nothing is left running."""

    def run(story: Callable[[Engine], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            engine = Engine(tiny, LIMITS, ManualClock(), detokenize=lambda ids: " ".join(map(str, ids)))
            try:
                await asyncio.wait_for(story(engine), 60)
                await drained(engine)
            finally:
                await engine.close()
            assert len(asyncio.all_tasks()) == 1

        asyncio.run(main())

    return run


async def drained(engine: Engine) -> None:
    while engine.metrics().running or engine.metrics().waiting:
        await asyncio.sleep(0.001)
    await engine.score((1, 2))  # a turn later, what was aborted is gone
    engine._scheduler.check()
    assert engine.metrics().free_blocks == LIMITS.blocks


async def sampled(engine: Engine, tokens: int) -> None:
    while engine.metrics().sampled_tokens < tokens:
        await asyncio.sleep(0)


def request(name: str, max_tokens: int = 8, **sampling: Any) -> Request:
    pick = random.Random(name)
    return Request(name, tuple(pick.randrange(64) for _ in range(9)), Sampling(max_tokens, **sampling))


def weights(model: LoadedModel) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.network.state_dict().items()}


Serve = Callable[[Callable[[Engine], Coroutine[Any, Any, None]]], None]


def test_many_at_once_each_get_their_own_answer(serve: Serve) -> None:
    async def story(engine: Engine) -> None:
        requests = [request(f"{index}", max_tokens=index % 7 + 1, seed=index) for index in range(40)]
        outputs = await asyncio.gather(*map(engine.generate, requests))
        for asked, output in zip(requests, outputs, strict=True):
            assert output.id == asked.id
            assert (
                len(output.ids) == len(output.logprobs) == len(output.versions) == asked.sampling.max_tokens
            )
            assert output.finish == "length"
        metrics = engine.metrics()
        assert metrics.sampled_tokens == sum(asked.sampling.max_tokens for asked in requests)
        assert metrics.steps < metrics.sampled_tokens, "they shared steps"

    serve(story)


def test_the_answers_logprobs_are_those_of_scoring(serve: Serve) -> None:
    async def story(engine: Engine) -> None:
        asked = request("a", max_tokens=12, temperature=0.7, seed=3)
        output = await engine.generate(asked)
        scored = await engine.score((*asked.prompt, *output.ids), temperature=0.7)
        assert output.logprobs == pytest.approx(scored[len(asked.prompt) - 1 :], abs=1e-4)

    serve(story)


def test_a_seed_fixes_the_answer_and_another_changes_it(serve: Serve) -> None:
    async def story(engine: Engine) -> None:
        first = await engine.generate(request("a", max_tokens=20, seed=1))
        again = await engine.generate(request("a", max_tokens=20, seed=1))
        other = await engine.generate(request("a", max_tokens=20, seed=2))
        assert first.ids == again.ids != other.ids

    serve(story)


def test_stop_ids_and_stop_strings_end_a_reply(serve: Serve) -> None:
    async def story(engine: Engine) -> None:
        free = await engine.generate(request("a", max_tokens=20, seed=1))
        third = free.ids[2]
        by_id = await engine.generate(request("a", max_tokens=20, seed=1, stop_ids=(third,)))
        text = f"{free.ids[2]} {free.ids[3]}"
        by_text = await engine.generate(request("a", max_tokens=20, seed=1, stop_strings=(text,)))
        assert by_id.finish == by_text.finish == "stop"
        assert by_id.ids == free.ids[: free.ids.index(third) + 1]
        assert by_text.ids == free.ids[:4]

    serve(story)


def test_an_abort_gives_whoever_waits_what_there_is(serve: Serve) -> None:
    async def story(engine: Engine) -> None:
        waiting = asyncio.create_task(engine.generate(request("a", max_tokens=200)))
        await sampled(engine, 3)
        engine.abort("a")
        engine.abort("nobody")
        output = await waiting
        assert output.finish == "abort"
        assert 3 <= len(output.ids) < 200

    serve(story)


def test_cancelling_frees_the_blocks_and_the_name(serve: Serve) -> None:
    async def story(engine: Engine) -> None:
        for _ in range(3):
            task = asyncio.create_task(engine.generate(request("a", max_tokens=200)))
            await sampled(engine, engine.metrics().sampled_tokens + 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await drained(engine)
        assert engine.metrics().sampled_tokens < 100, "nothing was sampled for nobody"
        output = await engine.generate(request("a", max_tokens=5))
        assert (output.finish, len(output.ids)) == ("length", 5)

    serve(story)


def test_a_timeout_is_a_cancellation(serve: Serve) -> None:
    async def story(engine: Engine) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(engine.generate(request("a", max_tokens=240)), 0.001)

    serve(story)


def test_a_bad_request_costs_nobody_anything(serve: Serve) -> None:
    async def story(engine: Engine) -> None:
        good = asyncio.create_task(engine.generate(request("a", max_tokens=30)))
        await sampled(engine, 1)
        for bad, said in (
            (Request("b", (), Sampling(3)), "prompt is empty"),
            (Request("b", (64,), Sampling(3)), "out of range"),
            (Request("b", (1,), Sampling(256)), "pool can hold; max_tokens can be 255"),
            (request("a"), "a request of that id is under way"),
        ):
            with pytest.raises(MachineryFault, match=said) as caught:
                await engine.generate(bad)
            assert caught.value.code == "bad-request"
        with pytest.raises(MachineryFault, match="out of range"):
            await engine.score((1, 99))
        assert len((await good).ids) == 30

    serve(story)


def test_an_update_under_way_shows_in_the_versions(
    serve: Serve, build_tiny: Callable[[int], LoadedModel]
) -> None:
    async def story(engine: Engine) -> None:
        waiting = asyncio.create_task(engine.generate(request("a", max_tokens=200)))
        await sampled(engine, 5)
        swap = await engine.update_weights(weights(build_tiny(1)), version=7)
        assert (swap.version, swap.kept, swap.recomputed, engine.version) == (7, 1, 0, 7)
        swap = await engine.update_weights(weights(build_tiny(2)), version=8, mode="recompute")
        assert (swap.kept, swap.recomputed) == (0, 1)
        versions = (await waiting).versions
        assert versions == tuple(sorted(versions))
        assert set(versions) >= {0, 8}
        fresh = await engine.generate(request("a", max_tokens=3))
        assert fresh.versions == (8, 8, 8)

    serve(story)


def test_a_refused_update_leaves_weights_and_version(serve: Serve, tiny: LoadedModel) -> None:
    async def story(engine: Engine) -> None:
        before = await engine.generate(request("a"))
        short = weights(tiny)
        short["model.norm.weight"] = torch.ones(5)
        for tensors, version, said in (
            (short, 1, "shape"),
            ({}, 1, "missing"),
            (weights(tiny), 0, "not newer"),
        ):
            with pytest.raises(MachineryFault, match=said) as caught:
                await engine.update_weights(tensors, version)
            assert caught.value.code == "bad-weights"
        assert engine.version == 0
        after = await engine.generate(request("a"))
        assert (after.ids, after.versions) == (before.ids, before.versions)

    serve(story)


def test_closing_tells_everyone_who_waits(tiny: LoadedModel) -> None:
    async def main() -> None:
        engine = Engine(tiny, LIMITS, ManualClock())
        tasks = [asyncio.create_task(engine.generate(request(f"{n}", max_tokens=200))) for n in range(12)]
        await sampled(engine, 3)
        tasks.append(asyncio.create_task(engine.score((1, 2))))
        await asyncio.sleep(0)
        await engine.close()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, MachineryFault | tuple)
            assert not isinstance(result, MachineryFault) or result.code == "engine-closed"
        await engine.close()
        with pytest.raises(MachineryFault, match="engine-closed"):
            await engine.generate(request("late"))
        engine.abort("late")

    asyncio.run(main())


def test_closing_an_engine_that_never_ran(tiny: LoadedModel) -> None:
    asyncio.run(Engine(tiny, LIMITS, ManualClock()).close())


def test_a_failure_tells_everyone_who_waits_and_who_comes_later(tiny: LoadedModel) -> None:
    async def main() -> None:
        engine = Engine(tiny, LIMITS, ManualClock())
        await engine.generate(request("fine"))
        with torch.no_grad():
            tiny.network.model.norm.weight.fill_(torch.nan)
        results = await asyncio.gather(
            *(engine.generate(request(f"{n}")) for n in range(3)), return_exceptions=True
        )
        for result in results:
            assert isinstance(result, MachineryFault)
            assert result.code == "engine-failed"
            assert "diverged" in result.message
            assert isinstance(result.__cause__, MachineryFault)
        with pytest.raises(MachineryFault, match="engine-failed"):
            await engine.generate(request("late"))
        with pytest.raises(MachineryFault, match="engine-failed"):
            await engine.update_weights({}, 1)
        await engine.close()

    asyncio.run(main())


def test_an_event_loop_that_ends_without_closing_leaves_nobody_waiting(tiny: LoadedModel) -> None:
    seen: list[BaseException] = []

    async def main() -> None:
        engine = Engine(tiny, LIMITS, ManualClock())

        async def wait() -> None:
            try:
                await engine.generate(request("a", max_tokens=200))
            except BaseException as error:
                seen.append(error)
                raise

        tasks.append(asyncio.create_task(wait()))
        await sampled(engine, 2)

    tasks: list[asyncio.Task[None]] = []
    asyncio.run(main())
    assert len(seen) == 1
    assert tasks[0].done()


class SteppingClock:
    """Each look at it takes a second."""

    def __init__(self) -> None:
        self._looks = 0

    def now(self) -> float:
        self._looks += 1
        return float(self._looks)


def test_metrics_say_where_the_time_went(tiny: LoadedModel) -> None:
    async def main() -> None:
        engine = Engine(tiny, LIMITS, SteppingClock())
        await engine.generate(request("a", max_tokens=3))
        await engine.generate(request("b", max_tokens=1))
        await engine.update_weights(weights(tiny), 1)
        metrics = engine.metrics()
        await engine.close()
        assert metrics.steps == 4
        assert metrics.busy_seconds == {
            "schedule": 4, "forward": 4, "draw": 4, "settle": 4, "update": 1, "score": 0,
        }  # fmt: skip
        assert (metrics.sampled_tokens, metrics.prefill_tokens, metrics.cached_tokens) == (4, 18, 0)
        assert (metrics.waiting, metrics.running, metrics.free_blocks) == (0, 0, LIMITS.blocks)

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_each_request_ends_once(
    serve: Serve, build_tiny: Callable[[int], LoadedModel], seed: int
) -> None:
    """Random waits, cancellations, aborts, updates and scores on one engine."""
    pick = random.Random(seed)
    shared = tuple(pick.randrange(64) for _ in range(20))

    async def story(engine: Engine) -> None:
        async def one(index: int) -> Output | None:
            length, fate = pick.randint(1, 30), pick.random()
            asked = Request(f"{index}", shared[: pick.randint(1, 20)], Sampling(length, seed=index))
            task = asyncio.create_task(engine.generate(asked))
            for _ in range(pick.randint(0, 30)):
                await asyncio.sleep(0)
            if fate < 0.3:
                task.cancel()
            elif fate < 0.5:
                engine.abort(asked.id)
            [result] = await asyncio.gather(task, return_exceptions=True)
            if isinstance(result, asyncio.CancelledError):
                assert fate < 0.3
                return None
            assert isinstance(result, Output)
            assert result.finish == ("length" if len(result.ids) == length else "abort")
            assert list(result.versions) == sorted(result.versions)
            return result

        async def updates() -> None:
            for version in range(1, 6):
                await asyncio.sleep(0.002)
                mode = pick.choice(["keep", "recompute"])
                await engine.update_weights(weights(build_tiny(version)), version, mode)  # type: ignore[arg-type]
                await engine.score(shared)

        outputs, _ = await asyncio.gather(asyncio.gather(*map(one, range(60))), updates())
        assert sum(output is not None for output in outputs) > 20

    serve(story)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The worker sets torch's threads for the process; a test gives them back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_detokenizing_is_asked_for_stop_strings_alone(tiny: LoadedModel) -> None:
    def never(ids: Sequence[int]) -> str:
        raise AssertionError("nobody asked for text")

    async def main() -> None:
        engine = Engine(tiny, LIMITS, ManualClock(), detokenize=never)
        await engine.generate(request("a"))
        await engine.close()

    asyncio.run(main())
