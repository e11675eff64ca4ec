"""Judging: hidden tests in, one verdict out.

The grader enters through `Workspace.verification`, so the agent's processes are gone and ``/tests`` and
``/logs/verifier`` are places the agent never saw. The reward is Harbor's: ``reward.json`` (an object of
finite numbers) wins over ``reward.txt`` (one finite number); a missing or malformed reward is a grader
fault and never a zero.
"""

import json
import math
from typing import Any

from strop.errors import GraderFault, TaskFault
from strop.tasks.task import Task
from strop.tasks.workspace import Command, Completed, Place, Workspace
from strop.trace import Verdict

PASS = 1.0 - 1e-9
"""A task is passed when its reward reaches one."""

EVIDENCE_CHARACTERS = 2000


async def grade(task: Task, workspace: Workspace) -> Verdict:
    """Run the task's hidden tests on what the agent left.

    Raises:
        TaskFault: ``no-tests``, or ``tests`` where they do not fit.
        GraderFault: ``timeout``, ``no-reward`` or ``bad-reward``.
        SandboxFault: the machine was lost.
    """
    if not any(file.path == "/tests/test.sh" for file in task.tests):
        raise TaskFault("no-tests", f"{task.name} has no tests/test.sh, so nothing can be judged")
    async with workspace.verification(live_system=task.live_system) as place:
        try:
            await place.write(task.tests)
        except OSError as error:
            raise TaskFault("tests", f"the tests of {task.name} cannot be placed: {error}") from error
        completed = await place.run(
            Command(
                ("/bin/bash", "/tests/test.sh"),
                timeout=task.limits.verifier_seconds,
                cwd=task.workdir,
                env=task.verifier_env,
            )
        )
        if completed.timed_out:
            limit = task.limits.verifier_seconds
            raise GraderFault("timeout", f"tests/test.sh of {task.name} ran past {limit:g} s")
        rewards = await _rewards(place, task, completed)
    score = rewards.get("reward", sum(rewards.values()) / len(rewards))
    return Verdict(score, score >= PASS, rewards, _evidence(completed))


async def _rewards(place: Place, task: Task, completed: Completed) -> dict[str, float]:
    for name, parse in (("reward.json", json.loads), ("reward.txt", _number)):
        try:
            data = await place.read(f"/logs/verifier/{name}", max_bytes=65_536)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise GraderFault("bad-reward", f"{name} of {task.name}: {error}") from error
        try:
            return _finite(parse(data.decode()))
        except ValueError as error:
            raise GraderFault("bad-reward", f"{name} of {task.name}: {error}") from error
    raise GraderFault(
        "no-reward",
        f"tests/test.sh of {task.name} ended with exit code {completed.exit_code} and wrote neither "
        f"/logs/verifier/reward.json nor reward.txt; its last output: {_evidence(completed)[-300:]!r}",
    )


def _number(text: str) -> dict[str, float]:
    return {"reward": float(text)}


def _finite(rewards: Any) -> dict[str, float]:
    if not isinstance(rewards, dict) or not rewards:
        raise ValueError("the reward must be an object with at least one number")
    for name, value in rewards.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{name} is {value!r}, not a finite number")
    return {name: float(value) for name, value in rewards.items()}


def _evidence(completed: Completed) -> str:
    text = completed.stdout + (b"\n" if completed.stdout and completed.stderr else b"") + completed.stderr
    return text.decode(errors="replace")[-EVIDENCE_CHARACTERS:]
