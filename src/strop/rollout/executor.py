"""One episode, from its dispatch in the store to its close there, exactly once.

Whatever happens to an episode, its row is closed: with its verdict, or with the fault that ended it, and
cancellation is such a fault. The executor is the only writer of episodes.
"""

import asyncio
import traceback
from collections import Counter
from dataclasses import dataclass, field

from strop.agent.episode import Agent, Attempt, Lease, attempt
from strop.clock import Clock
from strop.errors import Fault, MachineryFault
from strop.seeds import Seed
from strop.store import Episode, Store, add_trace
from strop.tasks.task import Task
from strop.trace import Trace, Verdict


@dataclass(frozen=True)
class Ticket:
    """What to play and where to book it.

    `seed` fixes the episode; `attempt` tells a refill from the episode whose place it takes.
    """

    run: str
    stage: str
    task: Task
    group: str
    seed: Seed
    attempt: int = 0

    @property
    def episode(self) -> str:
        parts = (self.run, self.stage, self.group, self.attempt)
        return f"{(self.seed / '/'.join(map(str, parts))).integer():016x}"


@dataclass
class Tally:
    """Sums over everything an executor has played; seconds by phase are summed over episodes."""

    episodes: int = 0
    unscored: int = 0
    truncated: int = 0
    turns: int = 0
    sampled_tokens: int = 0
    seconds: Counter[str] = field(default_factory=Counter)


class Executor:
    """Plays tickets for one run."""

    def __init__(self, store: Store, lease: Lease, clock: Clock) -> None:
        self._store, self._lease, self._clock = store, lease, clock
        self.tally = Tally()

    async def play(self, agent: Agent, ticket: Ticket) -> Trace:
        """Dispatch, attempt, close; returns the sealed trace.

        Raises:
            asyncio.CancelledError: after the episode was closed with the fault ``cancelled``.
            MachineryFault: the store could not be written.
        """
        self._dispatch(ticket)
        try:
            trace = await attempt(
                agent, Attempt(ticket.episode, ticket.task, ticket.seed), self._lease, self._clock
            )
        except asyncio.CancelledError:
            fault = MachineryFault("cancelled", "the run was ended before the episode was")
            self._close(_faulty(agent, ticket, fault))
            raise
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
            trace = _faulty(agent, ticket, MachineryFault("unexpected", message))
        self._close(trace)
        return trace

    def _dispatch(self, ticket: Ticket) -> None:
        row = Episode(
            id=ticket.episode,
            run=ticket.run,
            stage=ticket.stage,
            task=ticket.task.name,
            task_id=ticket.task.id,
            group=ticket.group,
            dispatched=self._clock.now(),
            strata=dict(vars(ticket.task.strata)),
        )
        with self._store.write() as session:
            session.add(row)

    def _close(self, trace: Trace) -> None:
        with self._store.write() as session:
            add_trace(session, trace, self._clock.now())
        tally = self.tally
        tally.episodes += 1
        tally.unscored += not trace.verdict.scored
        tally.truncated += trace.stop == "tokens"
        tally.turns += len(trace.turns)
        tally.sampled_tokens += trace.sampled_tokens
        tally.seconds.update(trace.seconds)


def _faulty(agent: Agent, ticket: Ticket, fault: Fault) -> Trace:
    return Trace(
        episode=ticket.episode,
        task=ticket.task.name,
        task_id=ticket.task.id,
        policy=agent.policy.name,
        seed=ticket.seed.integer(),
        messages=(),
        turns=(),
        segments=(),
        stop="fault",
        verdict=Verdict.unscored(fault),
        seconds={},
        trainable=False,
    )
