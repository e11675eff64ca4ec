"""Which task comes next.

The source walks over admitted tasks, each once before any comes again, in an order fixed by its seed, and
passes over most of what is solved: a group whose siblings all pass has no variance and costs as much as any
other. It judges by the solve rate of the task's stratum, since a single task comes round too rarely to be
judged by itself. The same seed and the same reports give the same walk.
"""

from collections import defaultdict
from collections.abc import Sequence

from strop.seeds import Seed
from strop.tasks.task import Task

FLOOR = 0.1
"""The least chance of a task to be taken, so that a stratum that was solved once is looked at again."""
GAIN = 0.25
"""How much a new group moves its stratum's solve rate."""


class Source:
    """An endless walk over a finite set of tasks.

    A task is taken with the chance ``2 (1 - s)``, but at least `FLOOR` and at most 1, where s is the recent
    solve rate of its family and difficulty, one half at first.

    Example: ``Source(tasks, admitted={task.id for task in tasks}, seed=Seed(0)).draw()``.
    """

    def __init__(self, tasks: Sequence[Task], admitted: frozenset[str], seed: Seed) -> None:
        """Raises ValueError when none of `tasks` (by content id) is among `admitted`."""
        self._tasks = [task for task in tasks if task.id in admitted]
        self._seed = seed
        self._walked = 0
        self._order: list[int] = []
        self._rates: dict[tuple[str, str], float] = defaultdict(lambda: 0.5)
        if not self._tasks:
            raise ValueError("none of the tasks is admitted")

    def __len__(self) -> int:
        return len(self._tasks)

    def draw(self) -> Task:
        """The next task of the walk that is taken."""
        while True:
            task = self._next()
            if (self._seed / "taken" / self._walked).random().random() < self.chance(task):
                return task

    def chance(self, task: Task) -> float:
        """The chance of a task to be taken when the walk comes to it."""
        rate = self._rates[task.strata.type, task.strata.difficulty]
        return max(FLOOR, min(1.0, 2.0 * (1.0 - rate)))

    def report(self, task: Task, score: float) -> None:
        """The siblings of a group on `task` scored `score` on average."""
        stratum = task.strata.type, task.strata.difficulty
        self._rates[stratum] += GAIN * (score - self._rates[stratum])

    def _next(self) -> Task:
        turn, place = divmod(self._walked, len(self._tasks))
        if place == 0:
            self._order = list(range(len(self._tasks)))
            (self._seed / turn).random().shuffle(self._order)
        self._walked += 1
        return self._tasks[self._order[place]]
