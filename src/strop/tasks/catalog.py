"""Where tasks come from: suites by name, folders by path.

A suite is a named source of procedural tasks; packages register theirs under the entry point group
``strop.suites``. Its tasks are named by their coordinates, so a name alone makes the task again. Splits
part them by seed and by family: what is evaluated was never trained on.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol, runtime_checkable

from strop.errors import Refusal, nearest
from strop.tasks.folder import examine_folder, is_task_folder
from strop.tasks.task import Task
from strop.tasks.tree import entries

GROUP = "strop.suites"
"""The entry point group under which packages register their suites."""

DEFAULT_COUNT = 36
"""How many tasks of an endless split are taken when nobody says."""

Script = Callable[[], Generator[str, str, None]]
"""A reference agent: yields shell commands, is sent what each printed, returns when it is done."""


@runtime_checkable
class Suite(Protocol):
    """A named source of tasks."""

    name: str
    splits: Mapping[str, str]
    """Each split's name and what it holds, in a line."""

    def tasks(self, split: str, count: int, start: int = 0) -> Sequence[Task]:
        """`count` distinct tasks of a split, spread evenly over family and difficulty.

        The split is an endless sequence, the same on every machine; `start` is where to begin in it.
        """
        ...

    def task(self, name: str) -> Task:
        """The task of that name, with or without the suite's own name and a slash before it.

        Raises:
            Refusal: the suite has no such task; the nearest family or difficulty is given.
        """
        ...

    def reference(self, task: Task) -> Script:
        """The agent that solves `task` turn by turn, reading first where reading is needed."""
        ...


@dataclass(frozen=True)
class Selection:
    """Tasks, the suite that they are of (None for folders), and what is to be said about them."""

    tasks: tuple[Task, ...]
    suite: Suite | None = None
    notes: tuple[str, ...] = ()


def suites() -> Mapping[str, Suite]:
    """Every registered suite by name; each is loaded when it is asked for, and not before.

    Asking for one raises a Refusal that names the package if that package is broken.
    """
    registered: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        registered.setdefault(entry.name, []).append(entry)
    return _Registered(registered)


class _Registered(Mapping[str, Suite]):
    def __init__(self, entries: Mapping[str, Sequence[EntryPoint]]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> Suite:
        found = self._entries[name]
        packages = ", ".join(sorted(_package(entry) for entry in found))
        if len({entry.value for entry in found}) > 1:
            raise Refusal(
                f"several packages register a suite {name!r}", where=packages, remedy="uninstall all but one"
            )
        try:
            suite = found[0].load()
        except Exception as error:
            raise Refusal(
                f"the suite {name!r} cannot be loaded: {type(error).__name__}: {error}",
                where=f"{found[0].value} of the package {packages}",
                remedy=f"mend or uninstall {packages}",
            ) from error
        if isinstance(suite, type) or not isinstance(suite, Suite) or suite.name != name or not suite.splits:
            raise Refusal(
                f"what is registered as the suite {name!r} is no suite of that name with splits and tasks",
                where=f"{found[0].value} of the package {packages}",
                remedy=f"mend or uninstall {packages}",
            )
        return suite

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)


def find(spec: str, count: int | None = None, start: int = 0) -> Selection:
    """The tasks that a person means by `spec`.

    ``shell`` is the suite's first split, ``shell:held-out-seeds`` another of its splits,
    ``shell/lookup-easy-12`` one task; a path is a task folder or a folder of task folders, and where it could
    be taken for a suite it is written with ``./``. `count` and `start` choose within a split or a folder of
    folders; of an endless split `DEFAULT_COUNT` are taken unless `count` says otherwise.

    Raises:
        Refusal: there is nothing of that name (the nearest is given), or what is there is broken.
    """
    if (count is not None and count < 1) or start < 0:
        raise Refusal(f"cannot take {count} tasks from number {start}", where=spec, remedy="count from 0")
    registered = suites()
    suite_name = re.split("[:/]", spec, maxsplit=1)[0]
    if suite_name in registered:
        return _in_suite(registered[suite_name], spec, count, start)
    path = Path(spec)
    if spec and path.is_dir():
        if is_task_folder(path):
            reading = examine_folder(path)
            return Selection((reading.task,), None, (*reading.notes, *_alone(count, start)))
        return _in_folder(path, count, start)
    beside = [str(entry) for entry in entries(path.parent) if entry.is_dir()] if path.parent.is_dir() else []
    raise Refusal(
        f"there is no suite and no folder {spec!r}",
        nearest=nearest(suite_name, registered) if not beside or "/" not in spec else nearest(spec, beside),
        remedy="name a suite (shell), a split (shell:held-out-seeds), a task, or the path of a task folder",
    )


def _in_suite(suite: Suite, spec: str, count: int | None, start: int) -> Selection:
    if spec.startswith(f"{suite.name}/"):
        return Selection((suite.task(spec),), suite, _alone(count, start))
    split = spec.removeprefix(suite.name).removeprefix(":") if ":" in spec else next(iter(suite.splits))
    if split not in suite.splits:
        raise Refusal(
            f"the suite {suite.name} has no split {split!r}",
            where=spec,
            nearest=nearest(split, suite.splits),
            remedy="its splits: " + "; ".join(f"{name} ({what})" for name, what in suite.splits.items()),
        )
    return Selection(tuple(suite.tasks(split, DEFAULT_COUNT if count is None else count, start)), suite)


def _in_folder(path: Path, count: int | None, start: int) -> Selection:
    folders = [entry for entry in entries(path) if entry.is_dir() and is_task_folder(entry)]
    if not folders:
        raise Refusal(
            f"{path} is neither a task folder nor a folder of task folders",
            where=str(path),
            remedy="a task folder holds task.toml, instruction.md and tests/test.sh",
        )
    if start >= len(folders):
        raise Refusal(f"{path} holds {len(folders)} tasks, none from number {start} on", where=str(path))
    chosen = folders[start:] if count is None else folders[start : start + count]
    readings = [examine_folder(folder) for folder in chosen]
    names = [reading.task.name for reading in readings]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise Refusal(
                f"two tasks are named {name!r}",
                where=f"{chosen[names.index(name)]} and {chosen[position]}",
                remedy="give one of them another [task] name",
            )
    notes = [f"{folder.name}: {note}" for folder, r in zip(chosen, readings, strict=True) for note in r.notes]
    if count is not None and len(chosen) < count:
        notes.append(f"{path} holds {len(folders)} tasks, so {len(chosen)} and not {count} were taken")
    return Selection(tuple(reading.task for reading in readings), None, tuple(notes))


def _alone(count: int | None, start: int) -> tuple[str, ...]:
    chosen = start or count not in (None, 1)
    return ("one task was named, so count and start do not apply",) if chosen else ()


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value.split(".")[0]
