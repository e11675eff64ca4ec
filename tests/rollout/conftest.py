"""Small tasks, traces and agents for the rollout tests."""

from collections.abc import Callable

import numpy as np
import pytest

from strop.errors import SandboxFault
from strop.tasks.task import Task
from strop.tasks.workspace import File
from strop.trace import Segment, Trace, Turn, Verdict


def make_task(number: int = 0) -> Task:
    return Task(
        f"toy/task-{number}",
        f"Do the thing number {number}.",
        tests=(File("/tests/test.sh", b"exit 0\n", 0o755),),
    )


def make_trace(score: float | None, version: int = 0, tokens: int = 3) -> Trace:
    verdict = (
        Verdict(score, score == 1.0) if score is not None else Verdict.unscored(SandboxFault("lost", "gone"))
    )
    segment = Segment(
        np.arange(tokens + 1, dtype=np.int32),
        np.full(tokens + 1, -0.5, np.float32),
        np.array([-1] + [version] * tokens, np.int32),
    )
    return Trace(
        episode="e",
        task="toy/task",
        task_id="0",
        policy="toy",
        seed=0,
        messages=(),
        turns=(Turn("stop", tokens, 0.0, 0.0),),
        segments=(segment,),
        stop="submitted" if score is not None else "fault",
        verdict=verdict,
        seconds={"total": 1.0},
    )


@pytest.fixture
def task() -> Callable[[int], Task]:
    return make_task
