"""The token-exact record of an episode, and its verdict.

Sampled ids are stored once, with the log-probability and the weight version under which each was
sampled, and are never re-tokenised. A segment is a stretch with one unbroken token prefix; only a
rewritten context starts a new one. An episode without a score carries the fault that cost it the
score: unscored is not zero.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strop.errors import Fault, FaultRecord
from strop.messages import Message, ToolCall

UNSAMPLED = -1
"""The version of a token that was rendered, not sampled."""

StopReason = Literal["submitted", "turns", "tokens", "seconds", "silent", "fault"]
"""Why an episode ended. ``silent``: the policy had nothing more to say; ``tokens``: truncation,
counted and shown wherever scores are."""


@dataclass(frozen=True)
class Verdict:
    """What the grader found.

    Example: ``Verdict(1.0, True, {"reward": 1.0}, "ok")``; unscored: ``Verdict.unscored(fault)``.
    """

    score: float | None
    passed: bool | None
    rewards: Mapping[str, float] = field(default_factory=dict)
    evidence: str = ""
    fault: FaultRecord | None = None
    tampered: bool = False

    @classmethod
    def unscored(cls, fault: Fault) -> "Verdict":
        return cls(None, None, evidence=fault.message, fault=fault.record())

    @property
    def scored(self) -> bool:
        return self.score is not None


@dataclass(frozen=True)
class Segment:
    """Tokens with one unbroken prefix; all arrays have the shape ``[tokens]``.

    `versions` is `UNSAMPLED` and `logprobs` 0 where a token was rendered. `logprobs` are natural
    logarithms under the distribution that was sampled from. `extras` is an open slot for further
    per-token arrays (routed experts, say), whose first axis is the token.
    """

    ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    versions: NDArray[np.int32]
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    cut: str = "start"
    """Why it began: ``start``, or what rewrote the context before it."""

    def __post_init__(self) -> None:
        shapes = {self.ids.shape, self.logprobs.shape, self.versions.shape}
        if len(shapes) != 1 or any(len(extra) != len(self.ids) for extra in self.extras.values()):
            raise ValueError(f"a segment's arrays differ in length: {shapes}")

    def __eq__(self, other: object) -> bool:
        """Equal bit for bit, types included."""
        if not isinstance(other, Segment):
            return NotImplemented
        return self.cut == other.cut and self._bits() == other._bits()

    def _bits(self) -> list[tuple[str, str, tuple[int, ...], bytes]]:
        own = [("", array) for array in (self.ids, self.logprobs, self.versions)]
        arrays = [*own, *sorted(self.extras.items(), key=lambda extra: extra[0])]
        return [(name, array.dtype.str, array.shape, array.tobytes()) for name, array in arrays]

    @property
    def sampled(self) -> NDArray[np.bool_]:
        sampled: NDArray[np.bool_] = self.versions != UNSAMPLED
        return sampled


class SegmentBuilder:
    """Grows a segment, token by token; it can append and be sealed, nothing else."""

    def __init__(self, cut: str = "start") -> None:
        self.ids: list[int] = []
        self._logprobs: list[float] = []
        self._versions: list[int] = []
        self._cut = cut

    def render(self, ids: list[int]) -> None:
        """Append tokens that the model did not sample."""
        self.ids += ids
        self._logprobs += [0.0] * len(ids)
        self._versions += [UNSAMPLED] * len(ids)

    def sample(self, ids: list[int], logprobs: list[float], versions: list[int]) -> None:
        """Append sampled tokens, one log-probability and one weight version each."""
        if not len(ids) == len(logprobs) == len(versions):
            raise ValueError("each sampled token needs one log-probability and one version")
        self.ids += ids
        self._logprobs += logprobs
        self._versions += versions

    def seal(self) -> Segment:
        return Segment(
            np.asarray(self.ids, np.int32),
            np.asarray(self._logprobs, np.float32),
            np.asarray(self._versions, np.int32),
            cut=self._cut,
        )


@dataclass(frozen=True)
class Turn:
    """One sampled message and what came back; seconds are on the run's clock."""

    finish: str
    """``stop``, ``length`` or ``abort``, as the engine said."""
    sampled_tokens: int
    sampling_seconds: float
    tool_seconds: float
    errors: tuple[str, ...] = ()
    """Error codes of the tool calls of this turn, in order; empty for a good one."""


@dataclass(frozen=True)
class Trace:
    """The sealed record of one attempt at one task.

    Example: ``store.traces.get(episode_id).verdict.score``.
    """

    episode: str
    task: str
    task_id: str
    policy: str
    seed: int
    messages: tuple[Message, ...]
    turns: tuple[Turn, ...]
    segments: tuple[Segment, ...]
    stop: StopReason
    verdict: Verdict
    seconds: Mapping[str, float]
    """Where its time went: lease, sampling, tools, grading, total."""
    trainable: bool = True
    """False where the policy speaks messages and the exact tokens are unknown."""

    @property
    def sampled_tokens(self) -> int:
        return sum(int(segment.sampled.sum()) for segment in self.segments)

    @property
    def oldest_version(self) -> int | None:
        """The oldest weights that sampled any token, or None when nothing was sampled."""
        versions = [s.versions[s.sampled].min() for s in self.segments if s.sampled.any()]
        return int(min(versions)) if versions else None


def pack(trace: Trace) -> bytes:
    """A trace as a compressed blob; `unpack` gives it back equal, bit for bit."""
    text = json.dumps(trace, default=_plain, separators=(",", ":"))
    return zlib.compress(text.encode("utf-8", "surrogatepass"), level=3)


def unpack(blob: bytes) -> Trace:
    """The trace inside a blob made by `pack`."""
    body: dict[str, Any] = json.loads(zlib.decompress(blob).decode("utf-8", "surrogatepass"))
    verdict = body["verdict"]
    if verdict["fault"]:
        verdict["fault"] = FaultRecord(**verdict["fault"])
    body["verdict"] = Verdict(**verdict)
    body["messages"] = tuple(_message_in(row) for row in body["messages"])
    body["turns"] = tuple(Turn(**{**row, "errors": tuple(row["errors"])}) for row in body["turns"])
    body["segments"] = tuple(
        Segment(
            _array_in(row["ids"]),
            _array_in(row["logprobs"]),
            _array_in(row["versions"]),
            {name: _array_in(extra) for name, extra in row["extras"].items()},
            row["cut"],
        )
        for row in body["segments"]
    )
    return Trace(**body)


def _message_in(row: dict[str, Any]) -> Message:
    calls = tuple(ToolCall(**call) for call in row["tool_calls"])
    return Message(**{**row, "tool_calls": calls})


def _plain(value: Any) -> Any:
    """What JSON does not know: an array, a mapping that is no dict, or one of the dataclasses above."""
    if isinstance(value, np.ndarray):
        return _array_out(value)
    return dict(value) if isinstance(value, Mapping) else vars(value)


def _array_out(array: NDArray[Any]) -> list[Any]:
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return [little.dtype.str, list(little.shape), base64.b64encode(little.tobytes()).decode()]


def _array_in(packed: list[Any]) -> NDArray[Any]:
    dtype, shape, data = packed
    return np.frombuffer(base64.b64decode(data), dtype).reshape(shape)
