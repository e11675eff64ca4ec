"""The workbench: a model behind an engine and a pool of sandboxes, ready to play.

Opened once a command, closed whole however the command ends.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from strop.agent.dialect import dialect_named
from strop.agent.episode import Agent
from strop.cli.job import Job, require_positions
from strop.cli.runs import cache_folder
from strop.clock import Clock
from strop.engine.engine import Engine
from strop.engine.models import LoadedModel, load_model
from strop.engine.scheduler import Limits
from strop.renderer import Renderer
from strop.rollout.policy import EnginePolicy
from strop.sandbox.pool import SandboxPool
from strop.tasks.task import Task
from strop.tokens import Tokenizer
from strop.tools.dispatch import Toolbox, standard_tools


@dataclass(frozen=True)
class Bench:
    """A model that can play."""

    job: Job
    model: LoadedModel
    engine: Engine
    renderer: Renderer
    clock: Clock

    def agent(self, temperature: float) -> Agent:
        """The model as an agent, sampling at `temperature`."""
        job = self.job
        dialect = dialect_named(job.dialect, template_shows_tools=self.renderer.shows_tools)
        sampling = job.sampling.model_copy(update={"temperature": temperature})
        policy = EnginePolicy(self.model.name, self.engine, self.renderer, dialect, sampling)
        return Agent(policy, dialect, toolbox, job.episode, system_prompt=job.system_prompt)


def toolbox(task: Task) -> Toolbox:
    """What every agent may use in a task's folder."""
    return Toolbox(standard_tools(task.workdir))


def load_renderer(folder: Path) -> Renderer:
    """The renderer of a model folder."""
    return Renderer(Tokenizer.load(folder))


@asynccontextmanager
async def open_bench(job: Job, model: str, clock: Clock) -> AsyncIterator[Bench]:
    """Load a model and start its engine.

    Raises:
        Refusal: no such model, or the recipe asks for more context than it has.
    """
    loaded = load_model(model, cache=cache_folder())
    assert loaded.folder is not None
    renderer = load_renderer(loaded.folder)
    if loaded.max_positions is not None:
        require_positions(job, loaded.max_positions, model)
    limits = Limits(
        blocks=job.engine.blocks,
        block_size=job.engine.block_size,
        running=job.rollout.concurrency,
        token_budget=job.engine.token_budget,
    )
    engine = Engine(
        loaded,
        limits,
        clock,
        detokenize=lambda ids: renderer.tokenizer.decode(list(ids)),
        threads=job.engine.threads,
    )
    try:
        yield Bench(job, loaded, engine, renderer, clock)
    finally:
        await engine.close()


def open_pool(job: Job, clock: Clock) -> SandboxPool:
    """The sandboxes of a job; enter it to start them."""
    return SandboxPool(job.sandbox, clock, cache_folder())
