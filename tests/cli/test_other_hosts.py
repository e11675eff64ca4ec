"""Where no sandbox can be made, and as somebody who may not read and write everything."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strop.cli.app import run
from strop.errors import EXIT_REFUSED
from tests.cli.started import STROP

ROOT = Path(__file__).parents[2]
ORDINARY = ROOT / "tests" / "sandbox" / "ordinary.py"
NO_ROOM_FOR_ANY = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
"""Root of a user namespace of its own may forbid further ones below it."""
SWITCHED_OFF = 'mount --bind "$HOME/zero" /proc/sys/user/max_user_namespaces && exec "$@"'
"""What a machine says of itself on which nobody may make one."""
REFUSED_BY_THE_KERNEL = 'mount --rbind / /mnt && exec chroot /mnt "$@"'
"""The kernel makes no user namespace for a process whose root is not the whole of its mounts."""
CHECK = ("check", "shell/create-easy-1", "--runs")
RUN = ("run", "shell/create-easy-1", "--agent", "reference", "--runs")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another host or user")


def elsewhere(*unshare: str, script: str) -> list[str]:
    return ["unshare", *unshare, "bash", "-c", script, "bash"]


def as_ordinary_user(*readable: Path) -> list[str]:
    paths = {ROOT, Path(sys.prefix), Path(sys.base_prefix), *readable}
    return [sys.executable, str(ORDINARY), "user", *map(str, paths), "--"]


def refusal(command: list[str], home: Path) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == EXIT_REFUSED, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") <= 5, done.stderr
    assert "  where: " in done.stderr and "  remedy: " in done.stderr
    return done.stderr


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder that anybody may write to."""
    for folder in (tmp_path.parent, tmp_path):
        folder.chmod(0o777)
    return tmp_path


def test_root_without_user_namespaces(home: Path) -> None:
    there = elsewhere("--user", "--map-root-user", script=NO_ROOM_FOR_ANY)
    said = refusal([*there, *STROP, *CHECK, str(home / "runs")], home)
    assert "user namespaces are switched off" in said and "sysctl -w" in said
    assert not (home / "runs").exists()


def test_an_ordinary_user_without_user_namespaces(home: Path) -> None:
    (home / "zero").write_text("0\n")
    there = elsewhere("--mount", script=SWITCHED_OFF)
    said = refusal([*there, *as_ordinary_user(home), *STROP, *CHECK, str(home / "runs")], home)
    assert "user namespaces are switched off" in said and "sysctl -w" in said
    assert not (home / "runs").exists()


@pytest.mark.parametrize("verb", [CHECK, pytest.param(RUN, marks=pytest.mark.slow)], ids=["check", "run"])
def test_an_ordinary_user_whom_the_kernel_refuses_them(verb: tuple[str, ...], home: Path) -> None:
    """What the settings of the machine do not tell shows when the first sandbox is made."""
    there = elsewhere("--mount", script=REFUSED_BY_THE_KERNEL)
    said = refusal([*there, *as_ordinary_user(home), *STROP, *verb, str(home / "runs")], home)
    assert "no sandbox can start here" in said and "not permitted" in said
    assert [path.name for path in (home / "runs").iterdir()] == ["strop.db"]


def test_what_an_ordinary_user_may_not_read_or_write(home: Path) -> None:
    assert run(["tasks", "new", str(home / "task")]) == 0
    for name in ("task.toml", "instruction.md", "tests/test.sh"):
        (home / "task" / name).chmod(0)
        said = refusal([*as_ordinary_user(home), *STROP, "tasks", "show", str(home / "task")], home)
        assert str(home / "task" / name) in said
        (home / "task" / name).chmod(0o644)
    (home / "locked").mkdir(mode=0o755)
    for runs in (home / "locked", home / "locked" / "runs"):
        said = refusal([*as_ordinary_user(home), *STROP, *CHECK, str(runs)], home)
        assert str(runs) in said and "give another --runs folder" in said
    assert list((home / "locked").iterdir()) == []
