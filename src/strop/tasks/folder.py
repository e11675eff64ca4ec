"""Tasks on disk: Harbor / Terminal-Bench folders, read and written.

What was written reads back as an equal task. What a folder asks for and this version cannot give is either
refused or stated in a note; nothing is passed over in silence. A folder appears whole or not at all.
"""

import posixpath
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from strop.config import check, read_toml
from strop.errors import Refusal, nearest
from strop.tasks.dockerfile import Build, absolute, build
from strop.tasks.layout import layout
from strop.tasks.manifest import TEMPLATE, Coordinates, Environment, Manifest, Strop
from strop.tasks.support import departures, refuse_unsupported
from strop.tasks.task import Limits, Strata, Task
from strop.tasks.tree import Tree, entries, read_tree
from strop.tasks.workspace import File


@dataclass(frozen=True)
class Reading:
    """A task and, in sentences, what its folder asks for that is done otherwise here."""

    task: Task
    notes: tuple[str, ...]


def is_task_folder(path: Path) -> bool:
    """Whether `path` was meant to be a task, however broken."""
    return (path / "task.toml").exists() or (path / "instruction.md").exists()


def read_folder(path: Path) -> Task:
    """The task in a folder, for callers that have no one to show the notes to.

    Raises:
        Refusal: as `examine_folder`.
    """
    return examine_folder(path).task


def examine_folder(path: Path) -> Reading:
    """The task in a folder, with notes on what is done otherwise than it says.

    Raises:
        Refusal: it is no task folder, a file is missing, unreadable or wrong, or the task needs what this
            version cannot give; the file is named.
    """
    _require_task_folder(path)
    manifest = check(Manifest, read_toml(path / "task.toml"), str(path / "task.toml"))
    refuse_unsupported(path, manifest)
    notes = [f"task.toml: {departure}" for departure in departures(manifest)]
    strop, strata = _metadata(path, manifest.metadata)
    limits = _limits(manifest, strop)
    trees = _trees(path, limits.storage_mb << 20, strop.modes)
    if "/test.sh" not in trees["tests"].files:
        raise Refusal(
            "the task has no tests, so nothing could be judged",
            where=str(path / "tests" / "test.sh"),
            remedy="write a script that puts a number into /logs/verifier/reward.txt",
        )
    built = _environment(path, manifest.environment, trees["environment"])
    task = Task(
        name=manifest.task.name if manifest.task else f"local/{path.resolve().name}",
        instruction=_instruction(path),
        files=built.files,
        tests=_placed(trees["tests"], "/tests"),
        solution=_placed(trees["solution"], "/solution"),
        workdir=absolute("/", built.workdir or ""),
        env={**built.env, **_values(path, "environment.env", manifest.environment.env)},
        verifier_env=_values(path, "verifier.env", manifest.verifier.env),
        live_system=strop.live_system,
        limits=limits,
        strata=strata,
        seed=strop.seed,
    )
    return Reading(task, (*notes, *built.notes, *_tree_notes(trees)))


def write_folder(task: Task, path: Path) -> None:
    """Write a task as a folder that `read_folder` reads back equal.

    Raises:
        Refusal: `path` exists, its parent does not, it cannot be written, or the task holds something that a
            folder cannot keep; nothing is left behind then.
    """
    if path.is_symlink() or path.exists():
        raise Refusal(
            f"{path.name} exists already", where=str(path), remedy="give another name, or remove it"
        )
    if not path.parent.is_dir():
        raise Refusal(
            f"there is no folder {path.parent.name}", where=str(path.parent), remedy="make it first"
        )
    contents = layout(task, str(path))
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as scratch:
            made = Path(scratch) / path.name
            for relative, (data, mode) in contents.items():
                file = made / relative
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
                file.chmod(mode)
            _require_equal(task, made, str(path))
            made.rename(path)
    except OSError as error:
        raise Refusal(
            f"{task.name} cannot be written: {error.strerror or error}",
            where=str(path),
            remedy="give a place that you may write to and that has room",
        ) from error


def _require_task_folder(path: Path) -> None:
    if not path.is_dir():
        beside = [entry.name for entry in entries(path.parent)] if path.parent.is_dir() else []
        what = "is a file, not a task folder" if path.exists() else "does not exist"
        raise Refusal(
            f"{path.name} {what}", where=str(path), nearest=nearest(path.name, beside), remedy="name a folder"
        )
    for name, purpose in (("task.toml", "its settings"), ("instruction.md", "what the agent is told")):
        file = path / name
        if file.is_symlink():
            raise Refusal(f"{name} is a link", where=str(file), remedy="put the file itself there")
        if not file.is_file():
            old = (path / "task.yaml").exists()
            raise Refusal(
                f"the task has no {name}, which holds {purpose}",
                where=str(file),
                remedy="task.yaml is the format of Terminal-Bench 1; convert it to a Harbor folder"
                if old
                else f"add {name}; strop tasks new shows a complete folder",
            )


def _metadata(path: Path, metadata: Mapping[str, Any]) -> tuple[Strop, Strata]:
    where = f"{path / 'task.toml'}, [metadata]"
    strop = check(Strop, metadata.get("strop", {}), f"{path / 'task.toml'}, [metadata.strop]")
    known = {key: value for key, value in metadata.items() if key in Coordinates.model_fields}
    found = check(Coordinates, known, where)
    domain = found.category if found.domain is None else found.domain
    return strop, Strata(found.type, found.difficulty, found.steps, domain)


def _limits(manifest: Manifest, strop: Strop) -> Limits:
    default, environment = Limits(), manifest.environment
    return Limits(
        agent_seconds=manifest.agent.timeout_sec or default.agent_seconds,
        verifier_seconds=manifest.verifier.timeout_sec,
        cpus=environment.cpus or default.cpus,
        memory_mb=environment.memory_mb or default.memory_mb,
        storage_mb=environment.storage_mb or default.storage_mb,
        processes=strop.processes or default.processes,
    )


def _trees(path: Path, max_bytes: int, modes: Mapping[str, str]) -> dict[str, Tree]:
    """The three folders of files, with the permissions that ``[metadata.strop.modes]`` states."""
    trees = {name: read_tree(path / name, max_bytes) for name in ("environment", "tests", "solution")}
    for relative, octal in modes.items():
        where = f"{path / 'task.toml'}, [metadata.strop.modes]"
        part, _, below = relative.partition("/")
        if part not in trees or f"/{below}" not in trees[part].files:
            names = [name + file for name, tree in trees.items() for file in tree.files]
            raise Refusal(
                f"there is no file {relative!r}", where, nearest(relative, names), "correct the path"
            )
        if not re.fullmatch("[0-7]{3,4}", octal):
            raise Refusal(f"{octal!r} is no octal mode", where, remedy=f'"{relative}" = "600", for example')
        tree, key = trees[part], f"/{below}"
        files = {**tree.files, key: replace(tree.files[key], mode=int(octal, 8))}
        trees[part] = replace(tree, files=files, unusual=tuple(p for p in tree.unusual if p != key))
    return trees


def _tree_notes(trees: Mapping[str, Tree]) -> Iterator[str]:
    for name, tree in trees.items():
        if tree.unusual:
            yield (
                f"{_listed(name, tree.unusual)}: read as mode 644 or 755, all that git keeps; "
                "[metadata.strop.modes] may state others"
            )
        if tree.linked:
            yield f"{_listed(name, tree.linked)}: a link is kept as the file that it leads to"
        if tree.empty:
            yield f"{_listed(name, tree.empty)}: an empty folder is not kept"


def _listed(part: str, paths: Iterable[str]) -> str:
    first, *others = [part + path for path in paths]
    return f"{first} and {len(others)} more" if others else first


def _environment(path: Path, environment: Environment, tree: Tree) -> Build:
    """Start files, folder to start in, and variables; ``task.toml`` goes before the Dockerfile."""
    if "/Dockerfile" not in tree.files:
        root = absolute("/", environment.workdir or "app")
        return Build(_placed(tree, root), root, {}, ())
    file = path / "environment" / "Dockerfile"
    built = build(_text(file, tree.files["/Dockerfile"].data), tree.files, str(file))
    workdir = environment.workdir or built.workdir
    silent = (
        () if workdir else (f"{file}: no WORKDIR, so the agent starts in /, whatever the image would say",)
    )
    return replace(built, workdir=workdir, notes=(*built.notes, *silent))


def _placed(tree: Tree, root: str) -> tuple[File, ...]:
    return tuple(replace(file, path=posixpath.join(root, path[1:])) for path, file in tree.files.items())


def _instruction(path: Path) -> str:
    file = path / "instruction.md"
    try:
        text = _text(file, file.read_bytes())
    except OSError as error:
        raise Refusal(
            f"cannot read instruction.md: {error.strerror}", where=str(file), remedy=f"chmod a+r {file}"
        ) from error
    if not text.strip():
        raise Refusal("instruction.md is empty", where=str(file), remedy="say what the agent is to do")
    return text


def _text(file: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Refusal(
            f"{file.name} is not UTF-8: byte {error.start} is wrong",
            where=str(file),
            remedy="save it as UTF-8",
        ) from None


def _values(path: Path, section: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Variables with defaults filled in; what would come from the caller's environment alone is refused."""
    values = {}
    for name, value in variables.items():
        template = TEMPLATE.fullmatch(value)
        if template and template[2] is None:
            raise Refusal(
                f"{section}.{name} is taken from the caller's environment, which a task may not depend on",
                where=str(path / "task.toml"),
                remedy=f'write the value out, or give a default: {name} = "${{{template[1]}:-value}}"',
            )
        values[name] = template[2] if template else value
    return values


def _require_equal(task: Task, made: Path, where: str) -> None:
    try:
        found = read_folder(made)
    except Refusal as refusal:
        raise Refusal(f"{task.name} cannot be kept as a folder: {refusal.what}", where=where) from refusal
    same = found.name == task.name and found.strata == task.strata and found.seed == task.seed
    if found.id != task.id or not same:
        raise Refusal(f"{task.name} reads back from a folder as another task", where=where)
