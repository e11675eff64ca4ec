"""A run's name, folder and row, whatever becomes of it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from strop.cli.runs import NewRun, RunFolder, begin_run, bury, open_store
from strop.clock import ManualClock
from strop.config import Settings
from strop.errors import MachineryFault, Refusal
from strop.store import Episode, Run, Store


class Toy(Settings):
    """Settings of a run that does nothing."""

    steps: int = 3


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def store(runs: Path) -> Iterator[Store]:
    with open_store(runs) as opened:
        yield opened


def new(name: str | None = None, stem: str = "toy") -> NewRun:
    return NewRun("train", stem, name, Toy())


def dispatch(store: Store, run: str, episode: str = "e1", closed: float | None = None) -> None:
    columns = {"stage": "rl", "task": "t", "task_id": "t", "group": "g", "dispatched": 5.0, "closed": closed}
    with store.write() as session:
        session.add(Episode(id=episode, run=run, **columns))


def outcomes(store: Store) -> dict[str, str]:
    with store.read() as session:
        return {run.name: run.outcome for run in session.scalars(select(Run))}


def test_a_run_that_ends_well_has_its_recipe_and_its_times(store: Store, runs: Path) -> None:
    clock = ManualClock(100.0)
    with begin_run(store, runs, new(), clock) as folder:
        assert folder.recipe.read_text() == "steps = 3\n" and outcomes(store) == {"toy-1": "running"}
        clock.advance(7.0)
    row = store.run("toy-1")
    assert (row.started, row.ended, row.outcome, row.config) == (100.0, 107.0, "done", {"steps": 3})
    assert [path.name for path in folder.path.iterdir()] == ["recipe.toml"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(KeyboardInterrupt(), "interrupted"), (OSError("gone"), "failed"), (Refusal("no"), "refused")],
)
def test_a_run_that_ends_otherwise_says_how(
    store: Store, runs: Path, error: BaseException, outcome: str
) -> None:
    with pytest.raises(type(error)), begin_run(store, runs, new(), ManualClock()) as folder:
        dispatch(store, folder.name, closed=1.0)
        raise error
    assert outcomes(store) == {"toy-1": outcome}


def test_a_run_that_is_refused_before_its_first_episode_was_never_there(store: Store, runs: Path) -> None:
    with pytest.raises(Refusal), begin_run(store, runs, new(), ManualClock()):
        raise Refusal("no")
    assert outcomes(store) == {} and not (runs / "toy-1").exists()


def test_an_episode_that_nobody_closed_is_not_passed_over(store: Store, runs: Path) -> None:
    with (
        pytest.raises(MachineryFault, match="1 episodes of toy-1"),
        begin_run(store, runs, new(), ManualClock()) as folder,
    ):
        dispatch(store, folder.name)


def test_names_follow_one_another_and_are_taken_once(store: Store, runs: Path) -> None:
    for expected in ("toy-1", "toy-2"):
        with begin_run(store, runs, new(), ManualClock()) as folder:
            assert folder.name == expected
    with begin_run(store, runs, new(stem="my recipe (2)"), ManualClock()) as folder:
        assert folder.name == "my-recipe-2-1"
    with pytest.raises(Refusal, match="there is a run 'toy-1' already") as caught:
        begin_run(store, runs, new("toy-1"), ManualClock()).__enter__()
    assert caught.value.nearest == "toy-1-1"


def test_a_command_that_is_quicker_keeps_the_name(
    store: Store, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both saw the name free; only one makes the folder."""
    (runs / "toy-1").mkdir()
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(()))
    with begin_run(store, runs, new(), ManualClock()) as folder:
        assert folder.name == "toy-2"
    with pytest.raises(Refusal, match="already"):
        begin_run(store, runs, new("toy-1"), ManualClock()).__enter__()


def test_a_run_that_cannot_be_recorded_leaves_no_folder(
    store: Store, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, text: str, encoding: str) -> int:
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        begin_run(store, runs, new(), ManualClock()).__enter__()
    assert outcomes(store) == {} and not (runs / "toy-1").exists()


LIVING = """
import sys
from pathlib import Path
from strop.cli.runs import begin_run, open_store
from strop.clock import ManualClock
from tests.cli.test_runs import dispatch, new
runs = Path(sys.argv[1])
store = open_store(runs)
begun = begin_run(store, runs, new(), ManualClock(3.0))
dispatch(store, begun.__enter__().name)
print("ready", flush=True)
sys.stdin.read()
"""


def test_only_what_a_killed_command_left_is_buried(store: Store, runs: Path) -> None:
    command = [sys.executable, "-c", LIVING, str(runs)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as living:
        assert living.stdout is not None and living.stdout.readline() == b"ready\n"
        bury(store, runs)
        assert outcomes(store) == {"toy-1": "running"}
        living.kill()
        living.wait()
    bury(store, runs)
    bury(store, runs)
    assert outcomes(store) == {"toy-1": "killed"}
    with store.read() as session:
        row, episode = session.get_one(Run, "toy-1"), session.get_one(Episode, "e1")
    assert (row.started, row.ended) == (3.0, 5.0)
    assert (episode.closed, episode.stop, episode.fault, episode.score) == (
        5.0,
        "fault",
        "machinery:killed",
        None,
    )
    assert not RunFolder(runs / "toy-1").lock.exists()


def test_a_run_of_unknown_fate_is_left_alone(store: Store, runs: Path) -> None:
    """Without its folder, or with one that an older version made, nobody can tell."""
    with store.write() as session:
        session.add(Run(name="old", kind="train", started=1.0))
    bury(store, runs)
    assert outcomes(store) == {"old": "running"}
