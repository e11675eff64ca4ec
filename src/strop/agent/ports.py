"""What the loop needs from others.

A `Policy` samples turns; `rollout/policy` implements it over an engine, `agent/scripted` over a plan. A
`Memory` decides what the model is shown; the append-only one lives here, `context/` will hold others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from strop.messages import Message, ToolSpec
from strop.seeds import Seed
from strop.trace import Segment


@dataclass(frozen=True)
class Reply:
    """One sampled message.

    `text` is what the model said, without end-of-turn tokens; `context_tokens` is the length of the
    context after it; `finish` is ``stop``, ``length`` (cut by the token limit), or ``silent`` (a scripted
    policy has come to its end).
    """

    text: str
    finish: str
    sampled_tokens: int = 0
    context_tokens: int = 0


class Conversation(Protocol):
    """A policy within one episode; it owns the episode's tokens."""

    async def reply(self, view: Sequence[Message], max_tokens: int) -> Reply:
        """Sample the next assistant message, given everything the memory shows.

        As long as `view` extends the view of the call before, nothing is rendered again; else a new
        segment begins. `max_tokens` bounds the whole context, the reply included.

        Raises:
            PolicyFault: ``context-full`` when not even one token fits under `max_tokens`.
            MachineryFault: the engine is gone.
        """
        ...

    def segments(self) -> tuple[Segment, ...]:
        """The token-exact record so far; empty where exact tokens are unknown."""
        ...


class Policy(Protocol):
    """Something that plays episodes."""

    @property
    def name(self) -> str: ...

    def start(self, tools: Sequence[ToolSpec], seed: Seed) -> Conversation:
        """Begin an episode; `seed` fixes every random choice of it."""
        ...


class Memory(Protocol):
    """What the model sees of what was said."""

    def add(self, message: Message) -> None: ...

    def view(self) -> Sequence[Message]: ...


class AppendOnly:
    """The memory that shows everything, always."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def add(self, message: Message) -> None:
        self._messages.append(message)

    def view(self) -> Sequence[Message]:
        return self._messages
