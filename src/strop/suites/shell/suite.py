"""The suite `shell`: which families there are, how they are split, and tasks by name.

A task is named by family, difficulty and number; the number's range says which split it belongs to, so
no task can be in two. Some families are in no training split at all.
"""

import random
from collections.abc import Callable, Mapping, Sequence

from strop.errors import Refusal, nearest
from strop.seeds import Seed
from strop.suites.shell import placing, reading, text, unseen
from strop.suites.shell.plan import Plan, build_task, reference
from strop.suites.shell.words import Draw
from strop.tasks.catalog import Script
from strop.tasks.task import Strata, Task

Family = Callable[[Draw, str], Plan]

TRAINED: Mapping[str, tuple[Family, str]] = {
    "create": (placing.create, "files"),
    "copy": (placing.copy, "files"),
    "rename": (placing.rename, "files"),
    "remove": (placing.remove, "files"),
    "permit": (placing.permit, "permissions"),
    "find": (placing.find, "files"),
    "count": (text.count, "logs"),
    "replace": (text.replace, "text"),
    "extract": (text.extract, "data"),
    "order": (text.order, "text"),
    "merge": (text.merge, "text"),
    "lookup": (reading.lookup, "configuration"),
    "chain": (reading.chain, "navigation"),
    "branch": (reading.branch, "configuration"),
}
HELD_OUT: Mapping[str, tuple[Family, str]] = {
    "swap": (unseen.swap, "files"),
    "tally": (unseen.tally, "logs"),
    "relay": (unseen.relay, "configuration"),
}
FAMILIES = {**TRAINED, **HELD_OUT}
DIFFICULTIES = ("easy", "medium", "hard")

SPLIT_SIZE = 1_000_000


class ShellSuite:
    """Example: ``ShellSuite().task("lookup-hard-12").instruction``."""

    name = "shell"
    splits: Mapping[str, str] = {
        "train": "trained families, for reinforcement learning",
        "held-out-seeds": "trained families, numbers that no training split holds",
        "held-out-families": "families that no training split holds",
        "warm-up": "trained families, for supervised fine-tuning",
    }

    def tasks(self, split: str, count: int, start: int = 0) -> Sequence[Task]:
        if split not in self.splits:
            raise Refusal(
                f"no split {split!r}",
                f"suite {self.name}",
                nearest(split, self.splits),
                f"strop tasks list shows the splits of {self.name}",
            )
        families = HELD_OUT if split == "held-out-families" else TRAINED
        cells = [(family, difficulty) for family in families for difficulty in DIFFICULTIES]
        first = list(self.splits).index(split) * SPLIT_SIZE
        return [
            self._build(*cells[index % len(cells)], first + index // len(cells))
            for index in range(start, start + count)
        ]

    def task(self, name: str) -> Task:
        family, difficulty, number = self._coordinates(name)
        return self._build(family, difficulty, number)

    def reference(self, task: Task) -> Script:
        family, difficulty, number = self._coordinates(task.name)
        return reference(self._plan(family, difficulty, number))

    def _coordinates(self, name: str) -> tuple[str, str, int]:
        family, _, rest = name.removeprefix(f"{self.name}/").partition("-")
        difficulty, _, number = rest.partition("-")
        for given, known in ((family, tuple(FAMILIES)), (difficulty, DIFFICULTIES)):
            if given not in known:
                raise Refusal(
                    f"no task {name!r}",
                    f"suite {self.name}",
                    nearest(given, known),
                    "a task is named family-difficulty-number, such as lookup-easy-12",
                )
        if not number.isdecimal() or int(number) >= SPLIT_SIZE * len(self.splits):
            most = SPLIT_SIZE * len(self.splits) - 1
            raise Refusal(
                f"no task {name!r}",
                f"suite {self.name}",
                f"{family}-{difficulty}-12",
                f"a task's name ends in a number up to {most}",
            )
        return family, difficulty, int(number)

    def _plan(self, family: str, difficulty: str, number: int) -> Plan:
        return FAMILIES[family][0](Draw(self._rng(family, difficulty, number)), difficulty)

    def _build(self, family: str, difficulty: str, number: int) -> Task:
        plan = self._plan(family, difficulty, number)
        return build_task(
            plan,
            f"{self.name}/{family}-{difficulty}-{number}",
            Strata(family, difficulty, len(plan.steps), FAMILIES[family][1]),
            self._rng(family, difficulty, number, "wording").choice(plan.wordings),
            number,
        )

    def _rng(self, *path: str | int) -> random.Random:
        seed = Seed(0) / self.name
        for part in path:
            seed = seed / part
        return seed.random()


SUITE = ShellSuite()
