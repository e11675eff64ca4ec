"""One task before it is written down: a world, what must become of it, and how to get there.

A family makes a `Plan`; this file turns it into a `Task`. The reference works from steps that may read:
a step's command can name ``{things}`` that only an earlier step's output tells, and the agent fills them
in from what it really read, while ``solve.sh`` is written with the truth.
"""

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from strop.tasks.catalog import Script
from strop.tasks.task import Limits, Strata, Task
from strop.tasks.workspace import File

WORKDIR = "/app"
JUDGE = files("strop.suites.shell").joinpath("test.sh").read_bytes()

Facts = Mapping[str, str]


@dataclass(frozen=True)
class Step:
    r"""A command, and what its output tells.

    `learn` maps a name to a regular expression whose first group is the value; `conclude` derives more
    names from all that is known. Example: ``Step("cat app.conf", {"target": r"target=(\S+)"})``.
    """

    command: str
    learn: Facts = field(default_factory=dict)
    conclude: Callable[[Facts], Facts] = field(default=lambda known: {})


@dataclass(frozen=True)
class Plan:
    """What a family makes of a draw of words.

    `before` and `after` map paths under the work folder to contents; `after` holds only what changes:
    None for what must be gone. Whatever `before` holds and `after` does not name must stay as it is.
    """

    wordings: tuple[str, ...]
    facts: Facts
    before: Mapping[str, str]
    after: Mapping[str, str | None]
    steps: tuple[Step, ...]
    truth: Facts = field(default_factory=dict)
    executable: tuple[str, ...] = ()
    """Paths that must be executable afterwards."""
    runnable: tuple[str, ...] = ()
    """Paths that are executable from the start."""


def build_task(plan: Plan, name: str, strata: Strata, wording: str, seed: int) -> Task:
    """The task that `plan` states, in one of its wordings."""
    tests = [File("/tests/test.sh", JUDGE, 0o755)]
    rules = []
    for path, content in sorted({**plan.before, **plan.after}.items()):
        if content is None:
            rules.append(f"gone {path}")
            continue
        rules.append(f"{'same' if path in plan.before and path not in plan.after else 'text'} {path}")
        tests.append(File(f"/tests/want/{path}", content.encode()))
    rules += [f"exec {path}" for path in plan.executable]
    tests.append(File("/tests/rules", "".join(f"{rule}\n" for rule in rules).encode()))
    commands = [fill(step.command, plan.truth) for step in plan.steps]
    solve = "\n".join(["#!/bin/bash", "set -e", f"cd {WORKDIR}", *commands, ""])
    return Task(
        name=name,
        instruction=wording.format(**plan.facts),
        files=tuple(
            File(f"{WORKDIR}/{path}", text.encode(), 0o755 if path in plan.runnable else 0o644)
            for path, text in plan.before.items()
        ),
        tests=tuple(tests),
        solution=(File("/solution/solve.sh", solve.encode(), 0o755),),
        workdir=WORKDIR,
        limits=Limits(agent_seconds=60, verifier_seconds=30, memory_mb=128, storage_mb=32, processes=64),
        strata=strata,
        seed=seed,
    )


def reference(plan: Plan) -> Script:
    """The agent that follows the plan and knows nothing that it has not read."""

    def script() -> Generator[str, str, None]:
        known: dict[str, str] = {}
        for step in plan.steps:
            output = yield fill(step.command, known)
            for name, pattern in step.learn.items():
                found = re.search(pattern, output, re.MULTILINE)
                if found is None:
                    return
                known[name] = found.group(1)
            known.update(step.conclude(known))

    return script


def fill(command: str, known: Facts) -> str:
    """`command` with each ``{name}`` replaced; an unknown one is a mistake of the family's."""
    return re.sub(r"\{(\w+)\}", lambda found: known[found.group(1)], command)
