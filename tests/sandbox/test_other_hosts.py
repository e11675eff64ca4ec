"""The same tests as an ordinary user, and as root on a host whose files' owners cannot be mapped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
MOST = ("commands", "sandbox", "isolation", "hostile", "judging", "death")
FEW = ("sandbox", "judging")
REPEATED = "not planted_python and not planted_settings"
"""Tests with many variants whose outcome does not depend on who runs them."""


def run_elsewhere(kind: str, tmp_path: Path, *tests: str) -> str:
    """The summary of a pytest run of `tests`; fails with its output when it fails."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    base = tmp_path / "base"
    base.mkdir()
    for folder in (tmp_path, base):
        folder.chmod(0o777)
    readable = [str(path) for path in {PROJECT, Path(sys.prefix), Path(sys.base_prefix), tmp_path}]
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "pytest_timeout"]
    command += [f"--basetemp={base / 'tmp'}", "-k", REPEATED]
    command += [str(HERE / f"test_{name}.py") for name in tests]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    completed = subprocess.run(
        [sys.executable, str(HERE / "ordinary.py"), kind, *readable, "--", *command],
        capture_output=True,
        text=True,
        cwd=PROJECT,
        env=environment,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout[-6000:] + completed.stderr[-2000:]
    return completed.stdout


def test_everything_works_as_an_ordinary_user(open_pool, tmp_path_factory):
    del open_pool  # which skips where no sandbox can start
    summary = run_elsewhere("user", tmp_path_factory.mktemp("user"), *MOST)
    skipped = [line for line in summary.splitlines() if line.startswith("SKIPPED")]
    assert len(skipped) == 1 and "memory is held per process" in skipped[0], summary


def test_everything_works_where_owners_cannot_be_mapped(open_pool, tmp_path_factory):
    del open_pool
    summary = run_elsewhere("container", tmp_path_factory.mktemp("container"), *FEW)
    assert "SKIPPED" not in summary
