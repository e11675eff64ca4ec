"""The disk fills at any moment: one screen, exit code 2, nothing half-written, and room made is room used."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from strop.cli.app import run
from strop.errors import EXIT_REFUSED
from tests.cli.started import Started, started

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk of a few megabytes")

RECORDED = "SELECT 1 FROM episodes WHERE closed"
CHECKED = "SELECT 1 FROM admissions"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str, str], Path]]:
    """Mounts a small disk at a folder of the test's own."""
    mounted = []

    def mount(name: str, size: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "small", str(folder)], check=False
        )
        if made.returncode != 0:
            pytest.skip("this root may not mount anything")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """A file that takes all the room there is."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    return filler


def refusal(command: Started) -> str:
    """What it said on its one screen."""
    code, said = command.end(), command.err.read_text()
    assert code == EXIT_REFUSED, command.words()
    assert "Traceback" not in said and said.count("\n") <= 4, said
    assert said.startswith("the disk is full\n  where: ") and "  remedy:  free some space" in said
    return said


def test_before_anything_is_written(tmp_path: Path, cache: Path, disk: Callable[[str, str], Path]) -> None:
    runs = disk("runs", "1m")
    filler = fill(runs)
    with started(tmp_path, cache, "check", "shell/create-easy-1") as command:
        assert command.end() == EXIT_REFUSED
        said = command.err.read_text()
        assert "disk" in said and "strop.db" in said and "remedy" in said and "Traceback" not in said
        assert command.left() == []
    assert [path for path in runs.iterdir() if path.stat().st_size] == [filler]


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("check shell:train --count 400", CHECKED),
        ("eval shell:held-out-seeds --model {model} --count 400", RECORDED),
        pytest.param("train {recipe} --set tasks.count=400", CHECKED, marks=pytest.mark.slow),
        pytest.param(
            "train {recipe} --from-scratch --set warm_up.tasks=400", RECORDED, marks=pytest.mark.slow
        ),
        pytest.param(
            "train {recipe}", "SELECT 1 FROM episodes WHERE stage = 'rl' AND closed", marks=pytest.mark.slow
        ),
    ],
)
def test_while_records_are_written(
    line: str,
    query: str,
    tmp_path: Path,
    cache: Path,
    recipe: Path,
    model: Path,
    disk: Callable[[str, str], Path],
) -> None:
    runs = disk("runs", "64m")
    with started(tmp_path, cache, *line.format(recipe=recipe, model=model).split()) as command:
        command.wait_for(lambda command: bool(command.query(query)))
        filler = fill(runs)
        assert "strop.db" in refusal(command)
        filler.unlink()
        known = command.query("SELECT count(*) FROM admissions")
        assert run(["report", "--runs", str(runs)]) == 0
        assert command.left() == []
    assert command.query("PRAGMA integrity_check") == [("ok",)]
    assert command.query("SELECT count(*) FROM admissions") == known
    assert command.query("SELECT DISTINCT outcome FROM runs WHERE outcome NOT IN ('failed', 'killed')") == []
    assert command.query("SELECT id FROM episodes WHERE closed IS NULL") == []
    assert run(["run", "shell/create-easy-1", "--agent", "reference", "--runs", str(runs)]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "train {recipe} --set model={heavy} --set steps=1",
        "train {recipe} --from-scratch --set embedded.hidden=256 --set embedded.feed_forward=8192",
    ],
)
def test_while_weights_are_written(
    line: str, tmp_path: Path, cache: Path, recipe: Path, heavy: Path, disk: Callable[[str, str], Path]
) -> None:
    runs = disk("runs", "16m")
    with started(tmp_path, cache, *line.format(recipe=recipe, heavy=heavy).split()) as command:
        refusal(command)
        assert command.left() == []
    assert command.query("SELECT outcome FROM runs") == [("failed",)]
    assert list(runs.glob("*/checkpoints/*")) == []


def test_where_the_judge_is_kept(tmp_path: Path, disk: Callable[[str, str], Path]) -> None:
    """The packages that judging needs are copied into the cache by the first command of all."""
    cache = disk("cache", "200k")
    with started(tmp_path, cache, "check", "shell/create-easy-1") as command:
        assert command.end() == EXIT_REFUSED
        said = command.err.read_text()
        assert "No space left" in said and str(cache) in said and "remedy" in said and "Traceback" not in said
        assert command.left() == []
    assert [path for path in cache.rglob("*") if path.is_file()] == []
    assert [path.name for path in command.runs.iterdir()] == ["strop.db"]
