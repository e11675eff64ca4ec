import sys
from pathlib import Path

import pytest

from strop.errors import Refusal
from strop.tasks.catalog import DEFAULT_COUNT, find, suites
from strop.tasks.folder import write_folder
from strop.tasks.task import Task
from strop.tasks.workspace import File

SUITE = """
from strop.errors import Refusal
from strop.tasks.task import Task

class Tiny:
    name = "tiny"
    splits = {"train": "to learn on", "held-out-seeds": "other seeds"}

    def tasks(self, split, count, start=0):
        return [Task(f"tiny/{split}-{n}", "Do it.") for n in range(start, start + count)]

    def task(self, name):
        if not name.removeprefix("tiny/").startswith("train-"):
            raise Refusal(f"no task {name}", nearest="tiny/train-0")
        return Task("tiny/" + name.removeprefix("tiny/"), "Do it.")

    def reference(self, task):
        raise NotImplementedError

SUITE = Tiny()
NAMELESS = object()
"""


def install(folder: Path, package: str, entries: dict[str, str], code: str = "") -> None:
    """A package with entry points, as pip would leave it in a site folder."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
    (info / "entry_points.txt").write_text(f"[strop.suites]\n{lines}\n")
    (folder / f"{package}.py").write_text(code)


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    install(folder, "tinysuite", {"tiny": "tinysuite:SUITE"}, SUITE)
    install(
        folder,
        "brokensuite",
        {"broken": "brokensuite:SUITE", "hollow": "tinysuite:NAMELESS", "other": "tinysuite:SUITE"},
        "raise RuntimeError('bad day')",
    )
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in ("tinysuite", "brokensuite"):
        sys.modules.pop(name, None)


def test_suites_are_loaded_when_asked_for(site):
    registered = suites()
    assert {"tiny", "broken", "hollow"} <= set(registered)
    assert "tinysuite" not in sys.modules
    assert registered["tiny"].name == "tiny"
    assert "brokensuite" not in sys.modules
    with pytest.raises(KeyError):
        registered["absent"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("broken", "cannot be loaded: RuntimeError: bad day"),
        ("hollow", "is no suite of that name"),
        ("other", "is no suite of that name"),
    ],
)
def test_a_broken_suite_names_its_package(site, name, what):
    with pytest.raises(Refusal) as caught:
        suites()[name]
    assert what in caught.value.what
    assert "brokensuite" in caught.value.where
    assert "uninstall brokensuite" in caught.value.remedy


def test_two_packages_may_not_register_the_same_name(site):
    install(site, "rivalsuite", {"tiny": "rivalsuite:SUITE"})
    with pytest.raises(Refusal, match="several packages register a suite 'tiny'") as caught:
        suites()["tiny"]
    assert caught.value.where == "rivalsuite, tinysuite"


def test_find_in_a_suite(site):
    assert [task.name for task in find("tiny", 2, 3).tasks] == ["tiny/train-3", "tiny/train-4"]
    assert len(find("tiny").tasks) == DEFAULT_COUNT
    found = find("tiny:held-out-seeds", 1)
    assert [task.name for task in found.tasks] == ["tiny/held-out-seeds-0"]
    assert found.suite is suites()["tiny"]
    assert [task.name for task in find("tiny/train-7").tasks] == ["tiny/train-7"]
    assert find("tiny/train-7").notes == ()
    assert "do not apply" in find("tiny/train-7", 5).notes[0]


@pytest.mark.parametrize(
    ("spec", "what", "nearest"),
    [
        ("tinny", "there is no suite and no folder 'tinny'", "tiny"),
        ("tiny:held-out", "no split 'held-out'", "held-out-seeds"),
        ("tiny:", "no split ''", "one of held-out-seeds, train"),
        ("tiny/nothing", "no task tiny/nothing", "tiny/train-0"),
        ("", "there is no suite and no folder ''", None),
    ],
)
def test_a_miss_gives_the_nearest(site, spec, what, nearest):
    with pytest.raises(Refusal) as caught:
        find(spec)
    assert what in caught.value.what
    assert nearest is None or caught.value.nearest == nearest


@pytest.mark.parametrize(("count", "start"), [(0, 0), (-1, 0), (1, -1)])
def test_counts_start_at_one(site, count, start):
    with pytest.raises(Refusal, match="cannot take"):
        find("tiny", count, start)


def task(name: str) -> Task:
    return Task(f"local/{name}", f"Do {name}.", tests=(File("/tests/test.sh", b"true\n"),))


def test_find_folders(tmp_path):
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "README.md").write_text("notes")
    (folder / "drafts").mkdir()
    for name in ("c", "a", "b"):
        write_folder(task(name), folder / name)
    found = find(str(folder))
    assert [t.name for t in found.tasks] == ["local/a", "local/b", "local/c"]
    assert found.suite is None
    assert found.notes[0].startswith("a: ")
    assert [t.name for t in find(str(folder), 1, 1).tasks] == ["local/b"]
    assert "holds 3 tasks, so 2 and not 5 were taken" in find(str(folder), 5, 1).notes[-1]
    assert [t.name for t in find(str(folder / "b")).tasks] == ["local/b"]
    with pytest.raises(Refusal, match="none from number 3"):
        find(str(folder), 1, 3)
    with pytest.raises(Refusal, match="neither a task folder nor"):
        find(str(folder / "drafts"))
    with pytest.raises(Refusal) as caught:
        find(str(tmp_path / "task"))
    assert caught.value.nearest == str(folder)


def test_one_broken_folder_is_named(tmp_path):
    write_folder(task("a"), tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "instruction.md").write_text("Do it.")
    with pytest.raises(Refusal, match=r"no task\.toml") as caught:
        find(str(tmp_path))
    assert caught.value.where == str(tmp_path / "b" / "task.toml")


def test_two_tasks_may_not_share_a_name(tmp_path):
    for name in ("x", "y"):
        write_folder(task("same"), tmp_path / name)
    with pytest.raises(Refusal, match="two tasks are named 'local/same'"):
        find(str(tmp_path))


def test_a_folder_beside_a_suite_of_the_same_name(site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folder(task("mine"), tmp_path / "tiny")
    assert find("tiny", 1).suite is not None
    assert [t.name for t in find("./tiny").tasks] == ["local/mine"]
