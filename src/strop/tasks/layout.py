"""A task as the files of a Harbor folder.

The start files lie under ``environment/rootfs`` as they will lie under the root, so that one ``COPY`` places
them all; whatever the format has no field for is said in ``[metadata.strop]``. `folder` puts it on disk.
"""

import re
from collections.abc import Mapping
from typing import Any

import tomli_w

from strop.errors import Refusal
from strop.tasks.dockerfile import absolute
from strop.tasks.manifest import TEMPLATE
from strop.tasks.task import Task
from strop.tasks.tree import EXECUTABLE, PLAIN

IMAGE = "python:3.13-slim-bookworm"
"""The image that written folders name, for those who run them in containers."""


def layout(task: Task, where: str) -> dict[str, tuple[bytes, int]]:
    """Each file of the folder: its relative path, its bytes and its mode.

    Raises:
        Refusal: a file's path is no plain path below the root of its part, two files have the same path, or
            a text is not Unicode; `where` is named.
    """
    contents: dict[str, tuple[bytes, int]] = {}
    parts = (
        ("environment/rootfs", "/", task.files),
        ("tests", "/tests/", task.tests),
        ("solution", "/solution/", task.solution),
    )
    for part, root, files in parts:
        for file in files:
            relative = f"{part}/{file.path.removeprefix(root)}"
            plain = file.path.startswith(root) and absolute("/", file.path) == file.path != "/"
            if not plain:
                raise Refusal(f"the file {file.path!r} of {task.name} cannot lie under {root}", where=where)
            if relative in contents:
                raise Refusal(f"{task.name} has two files {file.path}", where=where)
            contents[relative] = (file.data, file.mode)
    modes = {path: f"{mode:o}" for path, (_, mode) in contents.items() if mode not in (PLAIN, EXECUTABLE)}
    copy = "COPY rootfs/ /\n" if task.files else ""
    workdir = re.sub(r"([\\$'\"])", r"\\\1", task.workdir)
    texts = {
        "task.toml": tomli_w.dumps(_tables(task, modes)),
        "instruction.md": task.instruction,
        "environment/Dockerfile": f"FROM {IMAGE}\nWORKDIR {workdir}\n{copy}",
    }
    try:
        return {**contents, **{path: (text.encode(), PLAIN) for path, text in texts.items()}}
    except UnicodeEncodeError as error:
        raise Refusal(f"{task.name} holds text that is not Unicode: {error.reason}", where=where) from None


def _tables(task: Task, modes: Mapping[str, str]) -> dict[str, Any]:
    limits, strata = task.limits, task.strata
    ours: dict[str, Any] = {"seed": task.seed, "processes": limits.processes}
    ours |= {"live_system": True} if task.live_system else {}
    ours |= {"modes": dict(modes)} if modes else {}
    return {
        "schema_version": "1.4",
        "task": {"name": task.name},
        "metadata": {
            "type": strata.type,
            "difficulty": strata.difficulty,
            "steps": strata.steps,
            "domain": strata.domain,
            "strop": ours,
        },
        "agent": {"timeout_sec": limits.agent_seconds},
        "verifier": {"timeout_sec": limits.verifier_seconds, "env": _templates(task.verifier_env)},
        "environment": {
            "cpus": limits.cpus,
            "memory_mb": limits.memory_mb,
            "storage_mb": limits.storage_mb,
            "network_mode": "no-network",
            "workdir": task.workdir,
            "env": _templates(task.env),
        },
    }


def _templates(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables as the file spells them: a value that looks like a template becomes a template's default."""
    return {
        name: f"${{LITERAL:-{value}}}" if TEMPLATE.fullmatch(value) else value
        for name, value in variables.items()
    }
