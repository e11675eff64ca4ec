"""The README's commands work, as they stand, in a fresh clone."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAY_SAY_NO = "1:strop run "
"""The model may fail at the task that it is given; the exit code is 1 then."""


def commands() -> str:
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return "".join(blocks)


def clone(target: Path) -> None:
    """What a clone of this working tree would hold."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def test_the_readme_shows_commands() -> None:
    said = commands()
    for command in ("make demo", "make test", "strop tasks new", "strop check", "strop run", "strop train"):
        assert command in said


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_readmes_commands_run_as_they_stand(tmp_path: Path) -> None:
    here = tmp_path / "strop"
    clone(here)
    script = commands().replace("make test\n", "")
    noting = f"trap 'echo \"$?:$BASH_COMMAND\" >> {tmp_path}/failed' ERR\n"
    plain = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    done = subprocess.run(
        ["bash"], input=noting + script, cwd=here, env=plain, capture_output=True, text=True, check=False
    )
    failed = (tmp_path / "failed").read_text().splitlines() if (tmp_path / "failed").exists() else []
    assert [line for line in failed if not line.startswith(MAY_SAY_NO)] == [], (
        done.stdout[-4000:] + done.stderr[-4000:]
    )
    assert (here / "greet").exists() and list(here.glob("runs/*/report.html"))
