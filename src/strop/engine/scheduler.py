"""Who computes what in the next step: no tensors, no clock, no randomness.

A step is one flat batch under a token budget: first every running sequence that has one token to compute,
then pieces of prompts, the oldest request first. Waiting requests are admitted in order of arrival as soon
as the blocks for all of their tokens are there; only one whose next block another is just computing is
passed over until it can share that block. When a running sequence needs a block and none is left, the
youngest gives up its own and waits to compute them again. So the oldest request always advances, and
since everyone becomes the oldest, nobody starves.
"""

import itertools
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter

from strop.engine.blocks import Blocks
from strop.engine.prefix import PrefixCache
from strop.engine.request import Request
from strop.engine.sequence import Detokenize, Draw, Live, Row


@dataclass(frozen=True)
class Limits:
    """What an engine may use.

    Memory is ``blocks * block_size`` tokens of keys and values. `token_budget` bounds the tokens of one
    step and has to exceed `running`, the number of sequences in it, so that prompts advance beside a full
    house of decoding.
    """

    blocks: int = 2048
    block_size: int = 16
    running: int = 128
    token_budget: int = 1024

    def __post_init__(self) -> None:
        if min(self.blocks, self.block_size, self.running) < 1:
            raise ValueError(f"every limit is at least 1: {self}")
        if self.token_budget <= self.running:
            raise ValueError(
                f"token_budget ({self.token_budget}) must exceed running ({self.running}), "
                "or prompts would stand still beside decoding sequences"
            )

    @property
    def tokens(self) -> int:
        """The longest sequence that the pool can hold."""
        return self.blocks * self.block_size


@dataclass(frozen=True)
class Swap:
    """What a weight update did to the running: how many kept their cache, how many compute it again."""

    version: int
    kept: int
    recomputed: int


@dataclass
class Counts:
    """Running totals of a scheduler's life."""

    steps: int = 0
    sampled_tokens: int = 0
    prefill_tokens: int = 0
    cached_tokens: int = 0
    preemptions: int = 0


class Scheduler:
    """Owns the waiting, the running and their blocks; driven by `schedule`, then `settle`, in turn.

    `detokenize` is needed by requests with stop strings alone.
    """

    def __init__(self, limits: Limits, version: int = 0, detokenize: Detokenize | None = None) -> None:
        self.limits = limits
        self.version = version
        self.counts = Counts()
        self.cache = PrefixCache(Blocks(limits.blocks, limits.block_size))
        self.waiting: list[Live] = []
        self.running: list[Live] = []
        self._detokenize = detokenize
        self._arrivals = 0

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running

    @property
    def free_blocks(self) -> int:
        return self.cache.blocks.available

    def submit(self, request: Request) -> Live:
        """Queue a request that fits: ``len(prompt) + max_tokens <= limits.tokens``."""
        sequence = Live(request, self._arrivals)
        self.waiting.append(sequence)
        self._arrivals += 1
        return sequence

    def abort(self, request_id: str) -> Live | None:
        """Take a request out, its blocks freed; None where no such request is waiting or running."""
        for queue in (self.waiting, self.running):
            for index, sequence in enumerate(queue):
                if sequence.request.id == request_id:
                    del queue[index]
                    self.cache.release(sequence.stop())
                    sequence.finish = "abort"
                    return sequence
        return None

    def swap(self, version: int, recompute: bool) -> Swap:
        """Go over to a newer version; running sequences keep their cache, or begin again under it."""
        self.version = version
        touched = sum(sequence.computed > 0 for sequence in self.running)
        if recompute:
            while self.running:
                self._send_back(self.running.pop())
        return Swap(version, 0 if recompute else touched, touched if recompute else 0)

    def schedule(self) -> list[Row]:
        """The next step, rows with one token first, shorter before longer; empty only when idle."""
        rows = [Row(sequence, sequence.computed, 1, True) for sequence in self._decoding()]
        budget = self.limits.token_budget - len(rows)
        filling = [sequence for sequence in self.running if sequence.missing > 1]
        for sequence in itertools.chain(filling, self._admissions(filling)):
            length = min(sequence.missing, budget)
            rows.append(Row(sequence, sequence.computed, length, length == sequence.missing))
            budget -= length
            if budget == 0:
                break
        rows.sort(key=itemgetter(2, 1))
        return rows

    def settle(self, rows: Sequence[Row], draws: Sequence[Draw]) -> list[Live]:
        """Account for a step that was run; `draws` has one entry for each row that samples, in order.

        Returns the sequences that ended, their blocks already released.
        """
        drawn = iter(draws)
        ended = []
        for sequence, _, length, samples in rows:
            for key, block in sequence.advance(length, self.version, self.limits.block_size):
                self.cache.file(key, block)
            if not samples:
                continue
            sequence.append(next(drawn), self.version, self._detokenize)
            if sequence.finish:
                self.cache.release(sequence.stop())
                ended.append(sequence)
        if ended:
            self.running = [sequence for sequence in self.running if not sequence.finish]
        self.counts.steps += 1
        self.counts.sampled_tokens += len(draws)
        self.counts.prefill_tokens += sum(row.length for row in rows if row.length > 1)
        return ended

    def check(self) -> None:
        """Hold every account against every sequence.

        Raises:
            AssertionError: a block leaked, or a queue is out of order.
        """
        self.cache.check(sequence.blocks for sequence in self.running)
        assert not any(sequence.blocks for sequence in self.waiting), "a waiting sequence holds blocks"
        for queue in (self.waiting, self.running):
            arrivals = [sequence.arrival for sequence in queue]
            assert arrivals == sorted(arrivals), "a queue is out of order"

    def _decoding(self) -> list[Live]:
        """The running sequences that have one token to compute, each with room for it."""
        ready = []
        for sequence in list(self.running):  # one sent back meanwhile misses two tokens or more
            if sequence.missing == 1 and self._make_room(sequence):
                ready.append(sequence)
        return ready

    def _make_room(self, sequence: Live) -> bool:
        """Whether its next token has a place in a block, be it at the cost of younger sequences."""
        if sequence.computed < len(sequence.blocks) * self.limits.block_size:
            return True
        while not self.free_blocks:
            youngest = self.running.pop()
            self._send_back(youngest)
            self.counts.preemptions += 1
            if youngest is sequence:
                return False
        sequence.blocks.append(self.cache.take())
        return True

    def _send_back(self, sequence: Live) -> None:
        self.cache.release(sequence.stop())
        insort(self.waiting, sequence, key=attrgetter("arrival"))

    def _admissions(self, filling: Sequence[Live]) -> Iterator[Live]:
        """Admit waiting requests, one each time the caller asks for one."""
        size = self.limits.block_size
        coming = {key for sequence in filling for key in sequence.coming}
        index = 0
        while index < len(self.waiting) and len(self.running) < self.limits.running:
            sequence = self.waiting[index]
            wanted = sequence.wanted(size, self.version)
            known = self.cache.known(wanted)
            if known < len(wanted) and wanted[known] in coming:
                index += 1
                continue
            if not self._seat(sequence, wanted[:known]):
                return
            del self.waiting[index]
            insort(self.running, sequence, key=attrgetter("arrival"))
            coming.update(wanted[known:])
            yield sequence

    def _seat(self, sequence: Live, keys: Sequence[bytes]) -> bool:
        """Give a sequence blocks for all its tokens, those of `keys` shared.

        One block for every running sequence has to remain in reserve: each will ask for its next soon.
        """
        found = self.cache.match(keys)
        needed = self.cache.blocks.spanned(len(sequence.tokens)) - len(found)
        if self.free_blocks < needed + len(self.running):
            self.cache.release(found)
            return False
        sequence.start(found, keys, self.limits.block_size)
        sequence.blocks += [self.cache.take() for _ in range(needed)]
        self.counts.cached_tokens += sequence.computed
        return True
