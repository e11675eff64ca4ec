"""A made-up run, of the size and shape of a real one, its figures computed by the real functions."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from strop.errors import SandboxFault
from strop.evaluation.comparison import Comparison, compare
from strop.evaluation.strata import Outcome
from strop.messages import Message
from strop.report.run_report import Evaluation, RunReport, Stage, Step
from strop.seeds import Seed
from strop.tasks.task import Strata
from strop.trace import Segment, Trace, Turn, Verdict

FAMILIES = ("append", "archive", "config-lookup", "count-lines", "extract", "filter-csv", "json-edit")
FAMILIES += ("move-tree", "permissions", "rename", "search-replace", "sort-unique")
CONFIG = 'name = "quickstart"\nseed = 7\n\n[train]\nsteps = 60\ngroup = 8\nlearning_rate = 0.0003\n'
HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(1)> & "quoted" \x1b[31mred\x1b[0m \ud800'


def outcomes(families: tuple[str, ...], skill: float, tasks: int, seed: int) -> list[Outcome]:
    dice, rows = random.Random(seed), []
    for number, family in enumerate(families):
        for level, difficulty in enumerate(("easy", "medium", "hard")):
            steps = 1 + level + number % 3
            for index in range(tasks):
                chance = 1 / (1 + math.exp(-(skill - 0.7 * level - 0.25 * (number % 4))))
                passed = None if dice.random() < 0.008 else dice.random() < chance
                rows.append(
                    Outcome(
                        task=f"shell/{family}-{difficulty}-{index}",
                        task_id="a1b2",
                        strata=Strata(family, difficulty, steps, "files" if number % 2 else "text"),
                        score=None if passed is None else float(passed),
                        passed=passed,
                        fault="sandbox:lost" if passed is None else None,
                        stop="tokens" if dice.random() < 0.02 else "submitted",
                    )
                )
    return rows


def comparison(families: tuple[str, ...], before: float, after: float, tasks: int = 9) -> Comparison:
    return compare(outcomes(families, before, tasks, 1), outcomes(families, after, tasks, 2), Seed(7))


def steps(count: int) -> tuple[Step, ...]:
    dice = random.Random(3)
    return tuple(
        Step(
            step=number,
            reward=min(1.0, 0.46 + 0.44 * (1 - math.exp(-number / 18)) + dice.gauss(0, 0.06)),
            episodes=64,
            staleness_mean=min(2.6, 0.2 + number / 12) + dice.random() * 0.5,
            staleness_max=float(min(4, 1 + number // 5)),
            loss=None if number == 20 else -0.02 + dice.gauss(0, 0.01),
            entropy=0.42 * math.exp(-number / 40) + dice.gauss(0, 0.008),
            tokens_per_second=4100 + dice.gauss(0, 260),
            sandboxes_per_second=17 + dice.gauss(0, 1.4),
            seconds={
                "main": {"sampling": 2.1 + dice.random(), "tools": 0.9, "judging": 0.6, "waiting": 0.3},
                "learner": {"forward": 0.8, "backward": 1.6, "publishing": 0.1, "waiting": 1.4},
                "sandbox parent": {"starting": 0.7, "idle": 3.0},
            },
        )
        for number in range(1, count + 1)
    )


def trace(task: str, score: float | None, *, tool: str = "one\ntwo\nthree\n") -> Trace:
    ids = np.arange(60, dtype=np.int32)
    versions = np.full(60, -1, np.int32)
    versions[20:32], versions[40:52] = 11, np.repeat((11, 12), 6)
    verdict = Verdict(
        score, None if score is None else score >= 1, {"reward": score or 0.0}, "2 passed in 0.01s"
    )
    if score is None:
        verdict = Verdict.unscored(SandboxFault("lost", "the sandbox died during turn 2"))
    return Trace(
        episode="rl-0412-3",
        task=task,
        task_id="0123456789abcdef",
        policy="embedded",
        seed=3,
        messages=(
            Message("user", "Write how many lines the files of /app/notes have to /app/count."),
            Message("assistant", "```sh\ncat notes/*.txt | wc -l\n```"),
            Message("tool", tool, call_id="c0", name="shell"),
            Message("assistant", "```sh\necho 3 > count\n```"),
            Message("tool", "(no output)", call_id="c1", name="shell"),
        ),
        turns=(Turn("stop", 12, 0.21, 0.01), Turn("length", 12, 0.19, 0.4, errors=("timeout",))),
        segments=(Segment(ids, np.zeros(60, np.float32), versions),),
        stop="fault" if score is None else "submitted",
        verdict=verdict,
        seconds={"lease": 0.004, "sampling": 0.4, "tools": 0.41, "judging": 0.05, "total": 0.9},
    )


@pytest.fixture(scope="session")
def report() -> RunReport:
    return RunReport(
        name="quickstart-1",
        kind="training run",
        started=1_767_225_600.0,
        seconds=412.0,
        facts={
            "model": "embedded, 1.2 M parameters",
            "tasks": "shell, 12 families",
            "learner steps": "60",
            "recipe": "9f3a61c0de12",
            "machine": "2 cores, no GPU",
        },
        config=CONFIG,
        steps=steps(60),
        staleness_bound=4,
        evaluations=(
            Evaluation(
                "Held-out seeds",
                "Families seen in training, seeds never seen.",
                comparison(FAMILIES, 0.7, 3.4),
            ),
            Evaluation(
                "Held-out families",
                "Families never trained on, reported whatever they show.",
                comparison(("checksum", "find-largest", "merge-logs"), 0.5, 0.8),
            ),
        ),
        stages=(
            Stage("evaluation before", 405, 402, 9, {"sandbox:lost": 3}),
            Stage("training", 3840, 3829, 41, {"sandbox:lost": 8, "grader:timeout": 3}),
            Stage("evaluation after", 405, 403, 4, {"sandbox:lost": 2}),
        ),
        transcripts=(
            trace("shell/count-lines-easy-3", 1.0),
            trace("shell/config-lookup-hard-8", 0.0, tool="x" * 20_000),
            trace("shell/filter-csv-hard-1", None, tool=HOSTILE),
        ),
    )


@pytest.fixture
def renamed(report: RunReport):
    """The run under another name, with any other field changed."""
    return lambda **changes: replace(report, **changes)


@pytest.fixture
def make_trace():
    """Makes a trace from the name of its task and its score."""
    return trace


@pytest.fixture
def hostile() -> str:
    """What a model might write to break a page or a terminal."""
    return HOSTILE
