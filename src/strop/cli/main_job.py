"""The main job: check the environment, warm up, evaluate, reinforce, evaluate again.

Each stage stands in the store before the next begins. Only here do engine, sandboxes, learner and store
meet; each knows its neighbours by what it asks of them and not by name.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.markup import escape
from sqlalchemy import update

from strop.agent.dialect import dialect_named
from strop.agent.episode import Agent, EpisodeSettings
from strop.agent.scripted import ScriptedPolicy
from strop.cli.bench import Bench, load_renderer, open_bench, toolbox
from strop.cli.console import Display
from strop.cli.job import Job, habits_of
from strop.cli.meter import Meter
from strop.cli.plan import Plan
from strop.cli.runs import RunFolder
from strop.errors import Refusal
from strop.evaluation.estimate import summarise
from strop.evaluation.run import Evaluator
from strop.evaluation.strata import Outcome
from strop.events import Event, JsonLines
from strop.quality.gate import Checked, Gate, admissions
from strop.rollout.dispatcher import Dispatcher, tickets
from strop.rollout.executor import Executor, Ticket
from strop.rollout.groups import Group
from strop.rollout.source import Source
from strop.sandbox.pool import SandboxPool
from strop.seeds import Seed
from strop.store import Episode, Store
from strop.tasks.task import Task
from strop.trace import Trace
from strop.training.advantage import mean_baseline
from strop.training.checkpoint import save_checkpoint
from strop.training.child import ChildPlan, LearnerChild
from strop.training.embedded import build_model
from strop.training.stages import imitation_row, load_network, warm_up
from strop.training.trainer import Loop, train
from strop.training.weights import Exchange, state_of


class MainJob:
    """One run of the main job; ``await MainJob(job, plan, folder, store, display).run(pool)``."""

    def __init__(self, job: Job, plan: Plan, folder: RunFolder, store: Store, display: Display) -> None:
        self.job, self.plan, self.folder, self.store, self.display = job, plan, folder, store, display
        self.clock = display.clock
        self.seed = Seed(job.seed)

    async def run(self, pool: SandboxPool, *, from_scratch: bool) -> None:
        """All stages; `pool` is entered already."""
        executor = Executor(self.store, pool.lease, self.clock)
        admitted = await self.check(pool)
        model = str(await self.warm_up(executor)) if from_scratch else self.job.model
        async with open_bench(self.job, model, self.clock) as bench:
            await self.evaluate(bench, executor, admitted, "before")
            await self.reinforce(bench, executor, pool, admitted)
            await self.evaluate(bench, executor, admitted, "after")

    async def check(self, pool: SandboxPool) -> frozenset[str]:
        """The ids of the tasks that the gate admits; those it has not seen yet are tried."""
        tasks = self.plan.every
        known = admissions(self.store, tasks)
        unknown = [task for task in tasks if task.id not in known]
        gate = Gate(self.store, pool.lease, self.clock, at_once=self.job.sandbox.maximum)
        with self.display.stage("check tasks", len(unknown)) as stage:
            refused: list[Checked] = []

            def observe(checked: Checked) -> None:
                refused.extend([checked] * (not checked.admitted))
                stage.advance(f"{len(refused)} refused")

            await gate.check_all(unknown, self.plan.suite, observe)
            known = admissions(self.store, tasks)
            admitted = frozenset(task_id for task_id, good in known.items() if good)
            stage.figures = f"{len(admitted)} of {len(tasks)} admitted, {len(unknown)} tried now"
        for checked in refused[:3]:
            bad = next(finding for finding in checked.findings if not finding.good)
            self.display.say(escape(f"  refused: {checked.task.name}: {bad.evidence}"))
        if not any(task.id in admitted for task in self.plan.training):
            raise Refusal(
                "the gate admits none of the training tasks",
                where=f"{self.job.tasks.suite}:{self.job.tasks.split}",
                remedy=f"strop check {self.job.tasks.suite}:{self.job.tasks.split} says why",
            )
        return admitted

    async def warm_up(self, executor: Executor) -> Path:
        """Build the embedded model and teach it what reference agents say; returns its folder."""
        traces = await self._references(executor)
        folder, settings = self.folder.checkpoint("warm-up"), self.job.warm_up
        with (
            TemporaryDirectory(prefix=".warm-up-", dir=self.folder.path) as scratch,
            self.display.stage("warm up", settings.drills + settings.steps) as stage,
            JsonLines(self.folder.events) as log,
        ):
            origin = Path(scratch) / "model"
            texts = [message.content for trace in traces for message in trace.messages]
            build_model(origin, texts, self.job.embedded, self.seed / "model")
            renderer, dialect = load_renderer(origin), dialect_named(self.job.dialect)
            tools = dialect.template_tools(toolbox(self.plan.training[0]).specs())
            rows = []
            for trace in traces:
                rows.append(imitation_row(trace.messages, renderer, tools))
                await asyncio.sleep(0)
            network = load_network(origin)

            def observe(step: int, figures: Mapping[str, float]) -> None:
                log(Event("warm-up", self.clock.now(), {"step": step, **figures}))
                stage.advance(f"loss {figures['loss']:.3f}")

            await asyncio.to_thread(
                warm_up, network, rows, renderer, settings, self.seed / "warm-up", observe
            )
            facts = {"plays": habits_of(self.job), "stage": "warm-up"}
            save_checkpoint(network, origin, folder, facts)
        return folder

    async def _references(self, executor: Executor) -> list[Trace]:
        """Passed transcripts of reference agents on the warm-up split."""
        tasks: list[Task] = []
        while (missing := self.job.warm_up.tasks - len(tasks)) > 0:
            tasks += self.plan.suite.tasks(self.job.tasks.warm_up, min(missing, 500), len(tasks))
            await asyncio.sleep(0)  # there are thousands, and Ctrl-C is heard in between
        dialect = dialect_named(self.job.dialect)
        slots = asyncio.Semaphore(self.job.sandbox.maximum)
        with self.display.stage("play references", len(tasks)) as stage:

            async def one(task: Task) -> Trace:
                policy = ScriptedPolicy("reference", self.plan.suite.reference(task), dialect)
                settings = EpisodeSettings(turns=64, seconds=self.job.episode.seconds)
                agent = Agent(policy, dialect, toolbox, settings, system_prompt=self.job.system_prompt)
                async with slots:
                    ticket = Ticket(self.folder.name, "warm-up", task, task.name, self.seed / task.name)
                    trace = await executor.play(agent, ticket)
                stage.advance()
                return trace

            async with asyncio.TaskGroup() as group:
                jobs = [group.create_task(one(task)) for task in tasks]
            passed = [job.result() for job in jobs if job.result().verdict.passed]
            stage.figures = f"{len(passed)} of {len(tasks)} passed"
        return passed

    async def evaluate(self, bench: Bench, executor: Executor, admitted: frozenset[str], when: str) -> None:
        """Play the held-out tasks once each; `when` is ``before`` or ``after``."""
        agent = bench.agent(self.job.evaluation.temperature)
        evaluator = Evaluator(executor, self.folder.name, self.seed / "eval", self.job.rollout.concurrency)
        held_out = {
            name: [task for task in tasks if task.id in admitted]
            for name, tasks in self.plan.held_out.items()
        }
        with self.display.stage(f"evaluate {when}", sum(map(len, held_out.values()))) as stage:
            told = []
            for name, tasks in held_out.items():
                outcomes = await evaluator.run(agent, tasks, f"eval:{when}:{name}", lambda _: stage.advance())
                told.append(f"held-out {name} {share(outcomes)}")
            stage.figures = ", ".join(told)

    async def reinforce(
        self, bench: Bench, executor: Executor, pool: SandboxPool, admitted: frozenset[str]
    ) -> None:
        """Train by reinforcement on the admitted training tasks, then save the weights."""
        job = self.job
        exchange = Exchange.for_state(state_of(bench.model.network))
        assert bench.model.folder is not None
        child = ChildPlan(bench.model.folder, job.learner, exchange, job.engine.threads)
        source = Source(self.plan.training, admitted, self.seed / "source")
        agent = bench.agent(job.sampling.temperature)
        book = tickets(self.folder.name, "rl", self.seed / "rl")
        async with (
            LearnerChild(child) as learner,
            Dispatcher(executor, agent, source, job.rollout, book) as dispatcher,
        ):
            meter = Meter(bench.engine, executor, pool, dispatcher, self.clock.now())
            with self.display.stage("reinforce", job.steps) as stage, JsonLines(self.folder.events) as log:

                def observe(event: Event) -> None:
                    row = meter.enrich(event)
                    log(row)
                    stage.advance(step_line(row.data))

                loop = Loop(
                    dispatcher,
                    learner,
                    bench.engine,
                    exchange.read,
                    self._mark_trained,
                    self.clock,
                    observe,
                    job.sampling.temperature,
                    mean_baseline(job.advantage),
                )
                version = await train(loop, job.steps)
            facts = {"plays": habits_of(job), "stage": "rl", "run": self.folder.name, "version": version}
            await learner.save(self.folder.checkpoint("final"), facts)

    def _mark_trained(self, groups: Sequence[Group], version: int) -> None:
        ids = [trace.episode for group in groups for trace in group.traces]
        with self.store.write() as session:
            session.execute(update(Episode).where(Episode.id.in_(ids)).values(trained_at=version))


def step_line(figures: Mapping[str, float]) -> str:
    """A step in one line: reward, staleness, throughput, and who waited for whom."""
    learning = figures["seconds_learning"] / max(figures["seconds"], 1e-9)
    return (
        f"reward {figures['reward']:.2f} n={figures['episodes']:.0f}  "
        f"staleness {figures['staleness_mean']:.1f} (max {figures['staleness_max']:.0f})  "
        f"{figures['tokens_per_second']:.0f} tok/s  {figures['sandboxes_per_second']:.0f} sandboxes/s  "
        f"learner busy {learning:.0%}"
    )


def share(outcomes: Sequence[Outcome]) -> str:
    """The balanced pass rate with its interval, and how many could not be scored."""
    return str(summarise(outcomes).headline)
