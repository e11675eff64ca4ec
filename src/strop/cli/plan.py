"""Which tasks a run needs, and what each is for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strop.cli.job import Job
from strop.errors import Refusal, nearest
from strop.tasks.catalog import Suite, suites
from strop.tasks.task import Task
from strop.training.recipe import TaskSettings

EVALUATED = {"seeds": "held-out-seeds", "families": "held-out-families"}
"""What is evaluated before and after, and the split of the suite that it comes from."""
_LOOKED_AT = 252
"""How many tasks of a split show every family and difficulty that it has."""


@dataclass(frozen=True)
class Plan:
    """The tasks of a run, by what they are for."""

    suite: Suite
    training: Sequence[Task]
    held_out: Mapping[str, Sequence[Task]]

    @classmethod
    def of(cls, job: Job, where: str) -> "Plan":
        """The tasks that a job asks for.

        Raises:
            Refusal: there is no such suite, or it has no such split.
        """
        registered = suites()
        name = job.tasks.suite
        if name not in registered:
            known = nearest(name, registered)
            raise Refusal(f"there is no suite {name!r}", where, known, "name one that is installed")
        suite = registered[name]
        suite.tasks(job.tasks.warm_up, 0)  # that there is no such split is said now, and not after the check
        wanted = {"seeds": job.evaluation.seeds, "families": job.evaluation.families}
        return cls(
            suite,
            training_tasks(suite, job.tasks, where),
            {what: suite.tasks(split, wanted[what]) for what, split in EVALUATED.items()},
        )

    @property
    def every(self) -> list[Task]:
        return [*self.training, *(task for tasks in self.held_out.values() for task in tasks)]


def training_tasks(suite: Suite, settings: TaskSettings, where: str) -> Sequence[Task]:
    """The first tasks of a split that are of a wanted family and difficulty.

    Raises:
        Refusal: the split has no such task; which part of the wish is at fault is named.
    """
    if not settings.families and not settings.difficulties:
        return suite.tasks(settings.split, settings.count)
    looked = suite.tasks(settings.split, _LOOKED_AT)
    for key, noun, wanted, known in (
        ("families", "family", settings.families, {task.strata.type for task in looked}),
        ("difficulties", "difficulty", settings.difficulties, {task.strata.difficulty for task in looked}),
    ):
        for name in wanted:
            if name not in known:
                raise Refusal(
                    f"{suite.name}:{settings.split} has no {noun} {name!r}",
                    where,
                    nearest(name, known),
                    f"tasks.{key} may name {', '.join(sorted(known))}",
                )

    def is_wanted(task: Task) -> bool:
        family, difficulty = task.strata.type, task.strata.difficulty
        return family in (settings.families or {family}) and (
            difficulty in (settings.difficulties or {difficulty})
        )

    found: list[Task] = []
    start = 0
    while len(found) < settings.count:
        found += filter(is_wanted, looked)
        start += len(looked)
        if not found:
            raise Refusal(
                f"the first {start} tasks of {suite.name}:{settings.split} hold none of these families "
                "at these difficulties",
                where,
                remedy="leave tasks.families or tasks.difficulties out",
            )
        looked = suite.tasks(settings.split, _LOOKED_AT, start)
    return found[: settings.count]
