"""One request on its way: its tokens, how far they are computed, and in which blocks.

A prefix hit, a chunk of a prompt, one decoded token and the second life of a preempted sequence are all
the same thing here: `computed` tokens have their keys and values in `blocks`, the rest have not. The last
token never has when a step begins, because computing it is what gives the next one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from strop.engine.prefix import ROOT, chain, link
from strop.engine.request import Finish, Output, Request

Detokenize = Callable[[Sequence[int]], str]


class Row(NamedTuple):
    """A sequence's share of one step: the tokens from ``start`` to ``start + length``.

    `samples` says whether the row reaches the sequence's last token, so that a next one is drawn.
    """

    sequence: "Live"
    start: int
    length: int
    samples: bool


class Draw(NamedTuple):
    """A sampled token and its natural log-probability."""

    token: int
    logprob: float


class Live:
    """A request that is waiting or running; `arrival` orders all of an engine's requests."""

    def __init__(self, request: Request, arrival: int) -> None:
        self.request = request
        self.arrival = arrival
        self.tokens = list(request.prompt)
        self.logprobs: list[float] = []
        self.versions: list[int] = []
        self.finish: Finish | None = None
        self.computed = 0
        self.blocks: list[int] = []
        self.cached_tokens: int | None = None
        """Prompt tokens found in the cache when first scheduled; None until then."""
        self.keys: list[bytes] = []
        """The keys of its full blocks, in order."""
        self._open: set[int] = set()
        """The versions that the block still being filled was computed under so far."""
        self._wanted: tuple[int, tuple[bytes, ...]] | None = None
        self._text_from = 0

    @property
    def missing(self) -> int:
        """How many tokens are yet to be computed; 1 in the midst of decoding."""
        return len(self.tokens) - self.computed

    def wanted(self, size: int, version: int) -> tuple[bytes, ...]:
        """The keys it looks for in the cache of `version`; worked out once while it waits."""
        if self._wanted is None or self._wanted[0] != version:
            self._wanted = (version, chain(self.tokens, size, version))
        return self._wanted[1]

    @property
    def coming(self) -> tuple[bytes, ...]:
        """The keys it is about to file, or was, before an update: those of an older version nobody wants."""
        return self._wanted[1][len(self.keys) :] if self._wanted is not None else ()

    def start(self, found: list[int], keys: Sequence[bytes], size: int) -> None:
        """Begin, or begin again, on blocks that the cache had."""
        self.blocks, self.keys = found, list(keys)
        self.computed = len(found) * size
        if self.cached_tokens is None:
            self.cached_tokens = self.computed

    def stop(self) -> list[int]:
        """Forget what is computed; the blocks are the caller's to release."""
        table, self.blocks, self.keys = self.blocks, [], []
        self.computed = 0
        self._open.clear()
        self._wanted = None
        return table

    def advance(self, length: int, version: int, size: int) -> Iterator[tuple[bytes, int]]:
        """Take `length` more tokens as computed under `version`; yields each block filled, with its key."""
        end = self.computed + length
        while self.computed < end:
            begin = self.computed - self.computed % size
            self._open.add(version)
            self.computed = min(begin + size, end)
            if self.computed == begin + size:
                previous = self.keys[-1] if self.keys else ROOT
                key = link(previous, self.tokens[begin : begin + size], self._open)
                self.keys.append(key)
                self._open.clear()
                yield key, self.blocks[begin // size]

    def append(self, draw: Draw, version: int, detokenize: Detokenize | None) -> None:
        """Add a sampled token, and settle whether it was the last."""
        self.tokens.append(draw.token)
        self.logprobs.append(draw.logprob)
        self.versions.append(version)
        sampling = self.request.sampling
        if draw.token in sampling.stop_ids or (detokenize is not None and self._says_stop(detokenize)):
            self.finish = "stop"
        elif len(self.logprobs) >= sampling.max_tokens:
            self.finish = "length"

    def output(self) -> Output:
        """The answer as far as it goes; an unfinished one counts as aborted."""
        return Output(
            self.request.id,
            tuple(self.tokens[len(self.request.prompt) :]),
            tuple(self.logprobs),
            tuple(self.versions),
            self.finish or "abort",
            self.cached_tokens or 0,
        )

    def _says_stop(self, detokenize: Detokenize) -> bool:
        """Whether the sampled text contains a stop string.

        Only a tail is decoded, long enough that a stop string which ends in the newest token lies inside
        it, with a margin for characters that were cut in two where the tail begins.
        """
        strings = self.request.sampling.stop_strings
        if not strings:
            return False
        ids = self.tokens[len(self.request.prompt) + self._text_from :]
        text = detokenize(ids)
        if any(string in text for string in strings):
            return True
        margin = max(map(len, strings)) + _CUT_CHARACTERS
        if len(ids) > 2 * _STRIDE and len(detokenize(ids[_STRIDE:])) >= margin:
            self._text_from += _STRIDE
        return False


_STRIDE = 32
"""By how many tokens the tail's beginning moves."""
_CUT_CHARACTERS = 8
