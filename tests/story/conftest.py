"""One whole main job, small, from the shipped model; every story looks at what it left."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from strop.cli.app import run
from strop.errors import Refusal
from strop.rollout.executor import Executor, Ticket
from strop.sandbox import kernel
from strop.store import Store
from strop.trace import Trace

RECIPE = Path(__file__).parents[2] / "recipes" / "quickstart.toml"
SMALL = {
    "steps": 3,
    "tasks.count": 42,
    "rollout.groups": 3,
    "rollout.siblings": 4,
    "rollout.staleness.slack": 1,
    "evaluation.seeds": 42,
    "evaluation.families": 9,
}


@dataclass(frozen=True)
class Trained:
    """What one `strop train` left behind."""

    runs: Path
    store: Store
    dispatched: list[str]
    """The id of each episode that was handed to the executor, in order."""

    @property
    def folder(self) -> Path:
        return self.runs / "story"


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    try:
        kernel.require()
    except Refusal as error:
        pytest.skip(str(error))
    runs = tmp_path_factory.mktemp("story") / "runs"
    dispatched: list[str] = []
    play = Executor.play

    async def counted(self: Executor, agent: object, ticket: Ticket) -> Trace:
        dispatched.append(ticket.episode)
        return await play(self, agent, ticket)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executor, "play", counted)
        sets = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
        assert run(["train", str(RECIPE), "--runs", str(runs), "--name", "story", "--no-open", *sets]) == 0
    with Store.open(runs / "strop.db") as store:
        yield Trained(runs, store, dispatched)
