"""A policy on a set of tasks, once each.

The seed of every episode follows from the task alone, so two policies evaluated on the same tasks meet the
same random numbers and can be compared pair by pair.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import Field

from strop.agent.episode import Agent
from strop.config import Settings
from strop.evaluation.strata import Outcome
from strop.rollout.executor import Executor, Ticket
from strop.seeds import Seed
from strop.tasks.task import Task


class EvaluationSettings(Settings):
    """What is evaluated, and how."""

    seeds: int = Field(336, ge=0, le=100_000)
    """Tasks of trained families on held-out seeds, spread evenly over family and difficulty."""
    families: int = Field(72, ge=0, le=100_000)
    """Tasks of families that were never trained on."""
    temperature: float = Field(1.0, ge=0)
    """At which replies are sampled; 0 takes the likeliest token."""


@dataclass(frozen=True)
class Evaluator:
    """Where episodes are played and booked.

    Example: ``await Evaluator(executor, "run-1", seed, 64).run(agent, tasks, "eval:before")``.
    """

    executor: Executor
    booked_under: str
    """The run's name."""
    seed: Seed
    at_once: int

    async def run(
        self,
        agent: Agent,
        tasks: Sequence[Task],
        stage: str,
        observe: Callable[[Outcome], None] = lambda _: None,
    ) -> list[Outcome]:
        """Play each task once; outcomes in the order of `tasks`, unscored ones among them.

        Raises:
            MachineryFault: the store could not be written.
        """
        slots = asyncio.Semaphore(self.at_once)

        async def one(task: Task) -> Outcome:
            async with slots:
                ticket = Ticket(self.booked_under, stage, task, task.name, self.seed / task.name)
                trace = await self.executor.play(agent, ticket)
            outcome = Outcome.of(trace, task.strata)
            observe(outcome)
            return outcome

        async with asyncio.TaskGroup() as group:
            jobs = [group.create_task(one(task)) for task in tasks]
        return [job.result() for job in jobs]
