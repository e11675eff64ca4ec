"""The engine's front: sample, abort, score and swap weights from asyncio, while one owner runs the steps.

Everything that touches the queues, the pool or the weights happens in one worker thread: it carries out
the commands that came in, then schedules, runs and settles one step. Weights therefore change only between
steps, and each token's version says under which it was drawn. Every waiter is always resolved: with its
answer, with finish ``abort``, or with the fault that ended the engine.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from strop.clock import Clock
from strop.engine.bounds import Bounds
from strop.engine.models import LoadedModel
from strop.engine.request import Output, Request
from strop.engine.runner import Runner
from strop.engine.scheduler import Limits, Scheduler, Swap
from strop.engine.sequence import Detokenize, Live
from strop.errors import Fault, MachineryFault

_PHASES = ("schedule", "forward", "draw", "settle", "update", "score")
_Answer = tuple["asyncio.Future[Any]", Any]
"""Who waits, and for what he is to get; a fault is raised where he waits."""


@dataclass(frozen=True)
class Metrics:
    """Totals since the start, and the queues now."""

    version: int
    steps: int
    sampled_tokens: int
    prefill_tokens: int
    """Computed in rows of more than one token; what a preemption made necessary again included."""
    cached_tokens: int
    """Found in the prefix cache instead of computed."""
    preemptions: int
    busy_seconds: Mapping[str, float]
    """By phase of a step (schedule, forward, draw, settle), and update and score between steps."""
    waiting: int
    running: int
    free_blocks: int


class Engine:
    """Tokens in; tokens, log-probabilities and versions out; used from one event loop.

    Example: ``output = await engine.generate(Request("e12-t3", (5, 9, 2), Sampling(max_tokens=48)))``.
    """

    def __init__(
        self,
        model: LoadedModel,
        limits: Limits,
        clock: Clock,
        version: int = 0,
        detokenize: Detokenize | None = None,
        threads: int = 1,
    ) -> None:
        """Allocate the pool; nothing runs until the first request.

        Args:
            model: its weights are the engine's to change from now on.
            limits: memory and batch sizes.
            clock: for `metrics` alone.
            version: of the weights that the model has now.
            detokenize: the text of token ids; requests with stop strings need it.
            threads: torch's, in the worker.
        """
        self._scheduler = Scheduler(limits, version, detokenize)
        self._runner = Runner(model, limits)
        self._bounds = Bounds(model.vocabulary, model.max_positions, limits.tokens, detokenize is not None)
        self._clock = clock
        self._seconds = dict.fromkeys(_PHASES, 0.0)
        self._worker = ThreadPoolExecutor(1, "strop-engine", torch.set_num_threads, (threads,))
        self._commands: list[Callable[[], None]] = []
        self._answers: list[_Answer] = []
        self._owners: dict[Live, asyncio.Future[Any]] = {}
        self._ids: set[str] = set()
        self._waiters: set[asyncio.Future[Any]] = set()
        self._wake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._ended: tuple[str, str, Exception | None] | None = None

    @property
    def version(self) -> int:
        """The version of the weights that the next step runs under."""
        return self._scheduler.version

    async def generate(self, request: Request) -> Output:
        """Sample one reply. Cancelling whoever awaits it aborts the request and frees its blocks.

        Raises:
            MachineryFault: ``bad-request`` names what is wrong with it; ``engine-closed`` and
                ``engine-failed`` say that no answer will come.
        """
        self._bounds.check(request)
        if request.id in self._ids:
            raise MachineryFault("bad-request", f"{request.id}: a request of that id is under way")
        waiter = self._promise()
        self._post(lambda: self._submit(request, waiter))
        self._ids.add(request.id)
        try:
            output: Output = await waiter
            return output
        except asyncio.CancelledError:
            self.abort(request.id)
            raise
        finally:
            self._ids.discard(request.id)

    def abort(self, request_id: str) -> None:
        """End a request before the next step; whoever awaits it gets what was sampled until then."""
        if self._ended is None:
            self._post(lambda: self._take_out(request_id))

    async def update_weights(
        self, tensors: Mapping[str, Tensor], version: int, mode: Literal["keep", "recompute"] = "keep"
    ) -> Swap:
        """Put other weights in place between two steps.

        Args:
            tensors: a flat state dict of the whole network; not to be changed until this returns.
            version: newer than any before.
            mode: whether running requests keep the keys and values that older weights computed, or
                compute them again. Requests that start later never use older ones, in either mode.

        Raises:
            MachineryFault: ``bad-weights``: a wrong name, shape, value or version; nothing has changed.
        """
        waiter = self._promise()
        self._post(lambda: self._reply(waiter, lambda: self._update(tensors, version, mode)))
        swap: Swap = await waiter
        return swap

    async def score(self, ids: Sequence[int], temperature: float = 1.0) -> tuple[float, ...]:
        """Log-probabilities of ``ids[1:]``, each given all before it, under the current weights.

        Nothing is read from the cache of prefixes.

        Raises:
            MachineryFault: ``bad-request``: ids are out of range or too many, or the temperature is wrong.
        """
        self._bounds.check_ids(ids, "score")
        self._bounds.check_temperature(temperature, "score")
        waiter = self._promise()
        self._post(lambda: self._reply(waiter, lambda: self._score(ids, temperature)))
        found: list[float] = await waiter
        return tuple(found)

    def metrics(self) -> Metrics:
        """A look at the engine, exact between steps."""
        scheduler, counts = self._scheduler, self._scheduler.counts
        return Metrics(
            scheduler.version,
            counts.steps,
            counts.sampled_tokens,
            counts.prefill_tokens,
            counts.cached_tokens,
            counts.preemptions,
            dict(self._seconds),
            len(scheduler.waiting),
            len(scheduler.running),
            scheduler.free_blocks,
        )

    async def close(self) -> None:
        """Stop after the step in progress; all who still wait get ``engine-closed``. Again is harmless."""
        self._end("engine-closed", "the engine was closed")
        if self._loop is not None:
            await asyncio.wait([self._loop])
        self._worker.shutdown()

    def _promise(self) -> "asyncio.Future[Any]":
        """Something to await that is certain to be resolved."""
        if self._ended is not None:
            raise self._fault()
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        waiter.add_done_callback(self._waiters.discard)
        return waiter

    def _post(self, command: Callable[[], None]) -> None:
        """Have the worker do something before its next step."""
        self._commands.append(command)
        self._wake.set()
        if self._loop is None:
            self._loop = asyncio.create_task(self._run(), name="strop-engine")

    async def _run(self) -> None:
        """Give the worker one turn after the other, and what comes of it to those who wait."""
        loop = asyncio.get_running_loop()
        try:
            while self._ended is None:
                if not self._commands and self._scheduler.idle:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                commands, self._commands = self._commands, []
                for waiter, answer in await loop.run_in_executor(self._worker, self._turn, commands):
                    _resolve(waiter, answer)
        except asyncio.CancelledError:
            self._end("engine-closed", "the event loop was shut down")
            raise
        except Exception as error:
            self._end("engine-failed", f"{type(error).__name__}: {error}", error)
        finally:
            self._worker.shutdown(wait=False)

    def _end(self, code: str, message: str, cause: Exception | None = None) -> None:
        """Take no more work, and let nobody wait any longer."""
        if self._ended is None:
            self._ended = (code, message, cause)
        for waiter in list(self._waiters):
            _resolve(waiter, self._fault())
        self._wake.set()

    def _fault(self) -> MachineryFault:
        assert self._ended is not None
        code, message, cause = self._ended
        fault = MachineryFault(code, message)
        fault.__cause__ = cause
        return fault

    # From here on: the worker's side.

    def _turn(self, commands: Sequence[Callable[[], None]]) -> list[_Answer]:
        for command in commands:
            command()
        if not self._scheduler.idle:
            self._step()
        answers, self._answers = self._answers, []
        return answers

    def _step(self) -> None:
        with self._timed("schedule"):
            rows = self._scheduler.schedule()
        with self._timed("forward"):
            logits = self._runner.forward(rows)
        with self._timed("draw"):
            draws = self._runner.draw(rows, logits)
        with self._timed("settle"):
            for sequence in self._scheduler.settle(rows, draws):
                self._deliver(sequence)

    def _submit(self, request: Request, waiter: "asyncio.Future[Any]") -> None:
        self._owners[self._scheduler.submit(request)] = waiter

    def _take_out(self, request_id: str) -> None:
        sequence = self._scheduler.abort(request_id)
        if sequence is not None:
            self._deliver(sequence)

    def _deliver(self, sequence: Live) -> None:
        self._answers.append((self._owners.pop(sequence), sequence.output()))

    def _reply(self, waiter: "asyncio.Future[Any]", work: Callable[[], Any]) -> None:
        try:
            answer = work()
        except Fault as fault:
            answer = fault
        self._answers.append((waiter, answer))

    def _update(self, tensors: Mapping[str, Tensor], version: int, mode: str) -> Swap:
        with self._timed("update"):
            if version <= self._scheduler.version:
                raise MachineryFault(
                    "bad-weights", f"version {version} is not newer than {self._scheduler.version}"
                )
            self._runner.commit(self._runner.stage(tensors))
            return self._scheduler.swap(version, recompute=mode == "recompute")

    def _score(self, ids: Sequence[int], temperature: float) -> list[float]:
        with self._timed("score"):
            return self._runner.score(ids, temperature)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        begin = self._clock.now()
        yield
        self._seconds[phase] += self._clock.now() - begin


def _resolve(waiter: "asyncio.Future[Any]", answer: Any) -> None:
    if waiter.done():  # whoever waited was cancelled
        return
    if isinstance(answer, Exception):
        waiter.set_exception(answer)
    else:
        waiter.set_result(answer)
