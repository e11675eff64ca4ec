"""What an engine can take; a request outside of it is refused before it costs anything."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from strop.engine.request import Request
from strop.errors import MachineryFault

COLDEST = 0.001
"""The lowest temperature apart from 0: logits divided by less could leave the range of float32."""


@dataclass(frozen=True)
class Bounds:
    """Example: ``Bounds(vocabulary=1024, positions=2048, pool=32768, text=True)``."""

    vocabulary: int
    positions: int | None
    """The longest sequence that the model was made for; None where it states none."""
    pool: int
    """The longest sequence whose keys and values fit, alone."""
    text: bool
    """Whether token ids can be turned into text, to look for stop strings."""

    def check(self, request: Request) -> None:
        """Let a request pass that can be served to its end.

        Raises:
            MachineryFault: ``bad-request``, naming what is wrong and what would be right.
        """
        sampling = request.sampling
        self.check_ids(request.prompt, request.id)
        _require(
            isinstance(sampling.max_tokens, int) and sampling.max_tokens >= 1,
            request.id,
            f"max_tokens is {sampling.max_tokens}; it has to be at least 1",
        )
        self.check_temperature(sampling.temperature, request.id)
        prompt, longest = len(request.prompt), min(self.pool, self.positions or self.pool)
        _require(
            prompt + sampling.max_tokens <= longest,
            request.id,
            f"{prompt} prompt tokens and max_tokens {sampling.max_tokens} exceed the {longest} that the "
            f"{'pool' if longest == self.pool else 'model'} can hold; "
            + (f"max_tokens can be {longest - prompt}" if prompt < longest else "shorten the prompt"),
        )
        _require(all(sampling.stop_strings), request.id, "a stop string is empty")
        _require(
            self.text or not sampling.stop_strings,
            request.id,
            "stop strings need an engine that was given a detokenizer",
        )

    def check_ids(self, ids: Sequence[int], where: str) -> None:
        """Let token ids pass that the model knows.

        Raises:
            MachineryFault: ``bad-request``: there is none, one is unknown, or there are too many.
        """
        _require(len(ids) > 0, where, "the prompt is empty")
        if min(ids) < 0 or max(ids) >= self.vocabulary:
            wrong = next(token for token in ids if not 0 <= token < self.vocabulary)
            _require(False, where, f"token id {wrong} is out of range, 0 to {self.vocabulary - 1}")
        _require(
            self.positions is None or len(ids) <= self.positions,
            where,
            f"{len(ids)} tokens exceed the {self.positions} that the model can hold",
        )

    def check_temperature(self, temperature: float, where: str) -> None:
        """Let a temperature pass that float32 logits survive.

        Raises:
            MachineryFault: ``bad-request``: it is negative, no number, or all but zero.
        """
        _require(
            temperature == 0 or COLDEST <= temperature < math.inf,
            where,
            f"temperature is {temperature}; it has to be 0, for greedy, or {COLDEST} and more",
        )


def _require(condition: bool, where: str, otherwise: str) -> None:
    if not condition:
        raise MachineryFault("bad-request", f"{where}: {otherwise}")
