import subprocess
from pathlib import Path

import pytest

from strop.errors import Refusal
from strop.sandbox import verifier
from strop.sandbox.reaper import PREFIX


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    return verifier.build(tmp_path_factory.mktemp("cache"))


def run(layer, *command, **options):
    environment = {
        "PATH": f"{layer}/bin:/usr/bin:/bin",
        "PYTHONPATH": f"{layer}/lib",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **options)


def test_the_systems_own_python_runs_pytest_from_it(layer, tmp_path):
    (tmp_path / "test_x.py").write_text("def test_x():\n    assert 1 + 1 == 2\n")
    for command in (("pytest", "-q"), ("python3", "-m", "pytest", "-q")):
        completed = run(layer, *command, "-p", "no:cacheprovider", str(tmp_path))
        assert "1 passed" in completed.stdout, completed.stderr


def test_it_holds_pytest_and_its_dependencies_readable_by_all(layer):
    names = {path.name for path in (layer / "lib").iterdir()}
    assert {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "sitecustomize.py"} <= names
    for path in layer.rglob("*"):
        mode = path.stat().st_mode
        assert mode & 0o444 == 0o444 and not mode & 0o022, path
    compiled = list((layer / "lib/_pytest").glob("__pycache__/*.pyc"))
    assert compiled, "or every test run would compile pytest again"


def test_it_is_made_once(layer, monkeypatch):
    monkeypatch.setattr(verifier, "_fill", lambda *_: pytest.fail("made again"))
    assert verifier.build(layer.parent) == layer


def test_two_makers_do_not_disturb_each_other(tmp_path, layer):
    first = verifier.build(tmp_path)
    late = tmp_path / f"{PREFIX}late"
    late.mkdir()
    verifier._publish(late, first)
    assert (first / "bin/pytest").exists() and first.name == layer.name
    late.rmdir()
    with pytest.raises(FileNotFoundError):
        verifier._publish(late, tmp_path / "nowhere")


def test_a_full_disk_is_a_refusal_and_leaves_nothing_half_written(tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(verifier.shutil, "copyfile", full)
    with pytest.raises(Refusal, match="No space left") as caught:
        verifier.build(tmp_path)
    assert caught.value.where == str(tmp_path) and "space" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_a_system_python_that_is_too_old_is_refused(tmp_path, monkeypatch):
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 'SyntaxError: too new for me' >&2\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setattr(verifier, "_INTERPRETER", str(old))
    with pytest.raises(Refusal, match="too new for me"):
        verifier.build(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_refused_with_its_name(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Refusal, match="verifier layer") as caught:
        verifier.build(tmp_path / "file/cache")
    assert str(tmp_path / "file/cache") in caught.value.where


def test_a_missing_dependency_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(verifier, "_ROOT", "no-such-distribution")
    with pytest.raises(Refusal, match="no-such-distribution") as caught:
        verifier.build(tmp_path)
    assert "pip install" in caught.value.remedy


@pytest.mark.parametrize("how", ["-c", "-m", "-"])
def test_the_working_folder_is_searched_last(layer, tmp_path, how):
    (tmp_path / "json.py").write_text("raise SystemExit('forged')\n")
    (tmp_path / "mine.py").write_text(
        "import json, sys; print(json.__name__, sys.path[-1] in ('', sys.argv[-1]))\n"
    )
    text = "import mine"
    command = {"-c": ["-c", text], "-m": ["-m", "mine"], "-": ["-"]}[how]
    completed = run(layer, "/usr/bin/python3", *command, str(tmp_path), cwd=tmp_path, input=text)
    assert completed.stdout == "json True\n", completed.stderr


def test_a_scripts_own_folder_is_searched_first(layer, tmp_path):
    (tmp_path / "mine.py").write_text("value = 1\n")
    (tmp_path / "script.py").write_text("import mine, sys; print(sys.path[0])\n")
    completed = run(layer, "/usr/bin/python3", str(tmp_path / "script.py"), cwd="/")
    assert Path(completed.stdout.strip()) == tmp_path
