"""Ctrl-C at any moment: 130, one short message, a run that says so, and nothing left behind."""

import itertools
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from strop.cli.app import run
from strop.errors import EXIT_INTERRUPTED, EXIT_REFUSED
from tests.cli.started import Started, children, of_process, started

NOTHING_BEGUN = "interrupted"
ENDED = "interrupted; everything that was started has been ended"
SOON = 60.0
"""Seconds that the end may take on the slowest machine; two or three are usual."""

When = Callable[[Started], bool]


def hears(command: Started) -> bool:
    """It answers SIGTERM, which Python by itself never does."""
    caught = of_process(command.process.pid, "status").partition("SigCgt:")[2].split()
    return bool(caught) and bool(int(caught[0], 16) >> (signal.SIGTERM - 1) & 1)


def imports(command: Started) -> bool:
    return has_torch(command.process.pid)


def records(query: str) -> When:
    return lambda command: bool(command.query(query))


def tells(event: str) -> When:
    """An event of that kind is in the run's file."""
    return lambda command: any(
        f'"{event}"' in path.read_text() for path in command.runs.glob("*/events.jsonl")
    )


def starts_learner(command: Started) -> bool:
    """Its learner, a process of its own, is importing what it needs."""
    return any(map(has_torch, learners(command)))


def saves(command: Started) -> bool:
    """Its learner writes the weights; it is held there."""
    if not drafts(command):
        return False
    for pid in learners(command):
        os.kill(pid, signal.SIGSTOP)
    assert drafts(command), "the weights were written before the learner was held"
    return True


def drafts(command: Started) -> list[Path]:
    return list(command.runs.glob("*/checkpoints/.*"))


def learners(command: Started) -> list[int]:
    return [pid for pid in children(command.process.pid) if "spawn_main" in of_process(pid, "cmdline")]


def has_torch(pid: int) -> bool:
    return "libtorch" in of_process(pid, "maps")


@dataclass(frozen=True)
class Moment:
    """When, and of which command; what it says then, and whether it has begun a run."""

    command: str
    comes: When
    says: str = ENDED
    begun: bool = True


TRAIN, SCRATCH = "train {recipe}", "train {recipe} --from-scratch"
CHECK = "check shell:train --count 400"
EVAL = "eval shell:held-out-seeds --model {model} --count 400"
MOMENTS = {
    "start": Moment(TRAIN, hears, NOTHING_BEGUN, begun=False),
    "imports": Moment(TRAIN, imports, NOTHING_BEGUN, begun=False),
    "checking": Moment(CHECK, records("SELECT 1 FROM admissions"), begun=False),
    "check-of-a-run": Moment(f"{TRAIN} --set tasks.count=400", records("SELECT 1 FROM admissions")),
    "references": Moment(f"{SCRATCH} --set warm_up.tasks=400", records("SELECT 1 FROM episodes")),
    "warm-up": Moment(SCRATCH, tells("warm-up")),
    "evaluation-before": Moment(f"{TRAIN} --set evaluation.seeds=100", records("SELECT 1 FROM episodes")),
    "evaluation": Moment(EVAL, records("SELECT 1 FROM episodes WHERE closed")),
    "learner": Moment(TRAIN, starts_learner),
    "reinforcement": Moment(TRAIN, tells("step")),
    "saving": Moment(f"{TRAIN} --set steps=1 --set model={{heavy}}", saves),
    "attempt": Moment("run {sleeper} --agent reference", records("SELECT 1 FROM episodes")),
}


def once(command: Started) -> None:
    command.send(signal.SIGINT, group=True)


def alone(command: Started) -> None:
    command.send(signal.SIGINT, group=False)


def terminated(command: Started) -> None:
    command.send(signal.SIGTERM, group=False)


def impatiently(command: Started) -> None:
    """Again and again, until it has ended."""
    while command.process.poll() is None:
        once(command)
        time.sleep(0.01)


WAYS = {way.__name__: way for way in (once, alone, terminated, impatiently)}
USUAL = (
    *(("start", "once"), ("imports", "impatiently"), ("checking", "alone"), ("warm-up", "once")),
    *(("evaluation", "terminated"), ("reinforcement", "impatiently")),
)
RARE = [pair for pair in itertools.product(MOMENTS, WAYS) if pair not in USUAL]


@pytest.fixture(scope="session")
def sleeper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task whose solution takes its time."""
    folder = tmp_path_factory.mktemp("tasks") / "sleeper"
    assert run(["tasks", "new", str(folder)]) == 0
    (folder / "solution" / "solve.sh").write_text("sleep 600\n")
    return folder


@pytest.fixture
def arguments(recipe: Path, model: Path, heavy: Path, sleeper: Path) -> Callable[[str], list[str]]:
    places = {"recipe": recipe, "model": model, "heavy": heavy, "sleeper": sleeper}
    return lambda command: command.format_map(places).split()


@pytest.mark.parametrize(
    ("moment", "way"), [*USUAL, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in RARE)]
)
def test_an_interruption_ends_everything_and_says_so(
    moment: str, way: str, tmp_path: Path, cache: Path, arguments: Callable[[str], list[str]]
) -> None:
    expected = MOMENTS[moment]
    with started(tmp_path, cache, *arguments(expected.command)) as command:
        command.wait_for(expected.comes)
        WAYS[way](command)
        assert (command.end(SOON), command.err.read_text().strip()) == (EXIT_INTERRUPTED, expected.says)
        assert command.left() == []
    assert command.query("SELECT outcome FROM runs") == [("interrupted",)] * expected.begun
    assert command.query("SELECT id FROM episodes WHERE closed IS NULL") == []
    assert command.runs.exists() == (expected.says == ENDED)
    runs = ("--runs", str(command.runs))
    for name in (str(name) for (name,) in command.query("SELECT name FROM runs")):
        assert run(["report", name, *runs]) == run(["show", name, *runs]) == 0
        again = ["run", "shell/create-easy-1", "--agent", "reference", *runs]
        assert run([*again, "--name", name]) == EXIT_REFUSED
        assert run(again) == 0


@pytest.mark.slow
def test_what_a_killed_command_left_open_is_closed_by_the_next(
    tmp_path: Path, cache: Path, arguments: Callable[[str], list[str]]
) -> None:
    with started(tmp_path, cache, *arguments(EVAL)) as command:
        command.wait_for(records("SELECT 1 FROM episodes WHERE closed"))
        assert run(["report", "--runs", str(command.runs)]) == 0
        assert command.query("SELECT outcome FROM runs") == [("running",)]
        command.send(signal.SIGKILL, group=False)
        command.end()
        assert command.query("SELECT id FROM episodes WHERE closed IS NULL")
        assert run(["report", "--runs", str(command.runs)]) == 0
        assert command.left(killed=True) == []
    assert command.query("SELECT outcome FROM runs") == [("killed",)]
    assert command.query("SELECT id FROM episodes WHERE closed IS NULL") == []
