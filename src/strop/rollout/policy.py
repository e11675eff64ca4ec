"""A token-exact policy over an engine.

Each turn renders what is new, samples, and records the sampled ids with their log-probabilities and
weight versions as the engine gave them. Text is decoded for the tools and never encoded again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from strop.agent.dialect import Dialect
from strop.agent.ports import Reply
from strop.agent.record import Record
from strop.config import Settings
from strop.engine.request import Output, Request, Sampling
from strop.errors import MachineryFault, PolicyFault
from strop.messages import Message, ToolSpec
from strop.renderer import Renderer
from strop.seeds import Seed
from strop.trace import Segment


class Generator(Protocol):
    """What a policy needs of an engine."""

    async def generate(self, request: Request) -> Output:
        """Raises MachineryFault when the engine is gone or refuses the request."""
        ...


class SamplingSettings(Settings):
    """How the policy samples."""

    temperature: float = Field(1.0, ge=0)
    """1 samples the model's own distribution, 0 takes the likeliest token."""
    reply_tokens: int = Field(64, ge=1)
    """Longest reply of one turn, in tokens."""


@dataclass(frozen=True)
class EnginePolicy:
    """Example: ``EnginePolicy("embedded", engine, renderer, FencedDialect(), SamplingSettings())``."""

    name: str
    engine: Generator
    renderer: Renderer
    dialect: Dialect
    settings: SamplingSettings

    def start(self, tools: Sequence[ToolSpec], seed: Seed) -> "EngineConversation":
        return EngineConversation(self, Record(self.renderer, self.dialect.template_tools(tools)), seed)


class EngineConversation:
    """One episode's tokens, and the request that is under way."""

    def __init__(self, policy: EnginePolicy, record: Record, seed: Seed) -> None:
        self._policy, self._record, self._seed = policy, record, seed
        self._turn = 0

    async def reply(self, view: Sequence[Message], max_tokens: int) -> Reply:
        record, renderer = self._record, self._policy.renderer
        record.extend(view)
        room = max_tokens - len(record.ids)
        if room < 1:
            raise PolicyFault("context-full", f"{len(record.ids)} tokens leave no room under {max_tokens}")
        seed = (self._seed / self._turn).integer()
        self._turn += 1
        sampling = Sampling(
            max_tokens=min(room, self._policy.settings.reply_tokens),
            temperature=self._policy.settings.temperature,
            seed=seed,
            stop_ids=renderer.stop_ids,
            stop_strings=self._policy.dialect.stop_strings,
        )
        output = await self._policy.engine.generate(Request(f"{seed:016x}", tuple(record.ids), sampling))
        if output.finish == "abort":
            raise MachineryFault("aborted", "the engine aborted this turn's request")
        record.sampled(output.ids, output.logprobs, output.versions)
        closed = bool(output.ids) and output.ids[-1] in renderer.stop_ids
        text = renderer.tokenizer.decode(output.ids[:-1] if closed else output.ids)
        return Reply(text, output.finish, len(output.ids), len(record.ids))

    def segments(self) -> tuple[Segment, ...]:
        return self._record.segments()
