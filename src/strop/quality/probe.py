"""Single facts about a task, each established in a sandbox of its own.

A probe returns what it finds, a broken machine included: a reference that fails, or a grader that gives no
reward, is a finding and not an error, so one broken task cannot stop the check of the others.
"""

from dataclasses import dataclass

from strop.agent.dialect import FencedDialect
from strop.agent.episode import Agent, Attempt, EpisodeSettings, Lease, attempt
from strop.agent.scripted import ScriptedPolicy, idler
from strop.clock import Clock
from strop.errors import Fault, MachineryFault, SandboxFault
from strop.seeds import Seed
from strop.tasks.catalog import Script
from strop.tasks.grader import grade
from strop.tasks.task import Task
from strop.tasks.workspace import Command
from strop.tools.dispatch import Toolbox, standard_tools
from strop.trace import Trace

EXCERPT = 300
"""Characters of output that a finding quotes."""


@dataclass(frozen=True)
class Finding:
    """Example: ``Finding("idler", False, "an agent that does nothing passes")``."""

    probe: str
    good: bool
    evidence: str
    settled: bool = True
    """False where a fault of the machinery, and nothing about the task, kept it from being found out."""


async def solution(task: Task, lease: Lease) -> Finding:
    """Whether ``solution/solve.sh``, run alone, passes."""
    try:
        async with lease(task.limits) as workspace:
            await workspace.write((*task.files, *task.solution))
            completed = await workspace.run(
                Command(
                    ("/bin/bash", "/solution/solve.sh"),
                    timeout=task.limits.agent_seconds,
                    cwd=task.workdir,
                    env=task.env,
                )
            )
            if completed.timed_out:
                return Finding("solution", False, f"solve.sh ran past {task.limits.agent_seconds:g} s")
            verdict = await grade(task, workspace)
    except (Fault, OSError) as error:
        return Finding("solution", False, str(error), _about_the_task(error))
    if verdict.passed:
        return Finding("solution", True, "solve.sh passes")
    said = (completed.stdout + completed.stderr).decode(errors="replace").strip()[-EXCERPT:]
    why = verdict.evidence.strip()[-EXCERPT:] or said or "no output"
    return Finding(
        "solution", False, f"solve.sh ends with {completed.exit_code}, reward {verdict.score}: {why}"
    )


async def reference(task: Task, script: Script, lease: Lease, clock: Clock) -> Finding:
    """Whether the suite's turn-by-turn agent passes."""
    try:
        trace = await _play("reference", script, task, lease, clock)
    except Exception as error:  # the script is the suite's, and whatever it does is said of the task
        return Finding("reference", False, f"the reference agent breaks: {type(error).__name__}: {error}")
    if trace.verdict.passed:
        return Finding("reference", True, f"the reference agent passes in {len(trace.turns)} turns")
    return Finding("reference", False, f"the reference agent fails: {_why(trace)}", _settled(trace))


async def idle(task: Task, lease: Lease, clock: Clock) -> Finding:
    """Whether an agent that does nothing fails, with a valid reward."""
    trace = await _play("idler", idler, task, lease, clock)
    if trace.verdict.passed is False:
        return Finding("idler", True, "an agent that does nothing fails")
    if trace.verdict.passed:
        return Finding("idler", False, "an agent that does nothing passes")
    why = f"an agent that does nothing cannot be judged: {_why(trace)}"
    return Finding("idler", False, why, _settled(trace))


async def _play(name: str, script: Script, task: Task, lease: Lease, clock: Clock) -> Trace:
    agent = Agent(
        ScriptedPolicy(name, script, FencedDialect()),
        FencedDialect(),
        lambda task: Toolbox(standard_tools(task.workdir)),
        EpisodeSettings(turns=64, seconds=task.limits.agent_seconds),
    )
    return await attempt(agent, Attempt(name, task, Seed(0)), lease, clock)


def _about_the_task(error: Exception) -> bool:
    return not isinstance(error, SandboxFault | MachineryFault)


def _settled(trace: Trace) -> bool:
    fault = trace.verdict.fault
    return fault is None or fault.boundary not in ("sandbox", "machinery")


def _why(trace: Trace) -> str:
    verdict = trace.verdict
    if verdict.fault is not None:
        return f"{verdict.fault.boundary} fault ({verdict.fault.code}): {verdict.fault.message}"
    return f"reward {verdict.score}: {verdict.evidence.strip()[-EXCERPT:] or 'the tests said nothing'}"
