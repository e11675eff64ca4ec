"""How old a group may grow, by admission alone.

Groups are trained `batch` at a time, oldest first; at most `slack` groups that started after one may be
trained in batches before its own. Nothing that was finished is ever thrown away for its age.

The bound: let C be the most groups active at once. From a group's start to its own batch at most C - 1
groups that were active beside it and `slack` younger ones are trained, which is (C - 1 + slack) // batch
whole batches. The weights it starts from are `lag` trainings behind what has been taken. Hence with
C = (bound + 1 - lag) * batch - slack the learner is never more than `bound` versions ahead of them.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from pydantic import Field

from strop.config import Settings

K = TypeVar("K", bound=Hashable)


class StalenessSettings(Settings):
    """How far learner and sampler may drift apart."""

    bound: int = Field(2, ge=0)
    """The most weight updates between the sampling of a token and the training on it."""
    slack: int = Field(4, ge=0)
    """How many groups may be trained before one that started earlier and takes longer."""


class Window(Generic[K]):
    """Which groups are active, in the order of their start, and how many younger ones went before each.

    Example: ``Window(bound=2, batch=16, slack=4)``.
    """

    def __init__(self, bound: int, batch: int, slack: int = 0) -> None:
        """Raises ValueError where no group could ever start."""
        if bound < 0 or batch < 1 or slack < 0:
            raise ValueError("bound and slack must not be negative, batch must be positive")
        if (bound + 1) * batch - slack < batch:
            raise ValueError(f"a slack of {slack} leaves no room for a batch of {batch} at bound {bound}")
        self.bound, self.batch, self.slack = bound, batch, slack
        self._overtaken: dict[K, int] = {}
        self._ready: set[K] = set()

    def __len__(self) -> int:
        return len(self._overtaken)

    def admits(self, lag: int = 0) -> bool:
        """Whether one more group may start on weights that are `lag` trainings behind."""
        return len(self._overtaken) < (self.bound + 1 - lag) * self.batch - self.slack

    def start(self, key: K) -> None:
        self._overtaken[key] = 0

    def ready(self, key: K) -> None:
        """All siblings of the group are closed and it can be trained on."""
        if key not in self._overtaken:
            raise KeyError(key)
        self._ready.add(key)

    def drop(self, keys: Iterable[K]) -> None:
        """Groups that will not be trained: no variance, or nothing scored."""
        for key in keys:
            del self._overtaken[key]
            self._ready.discard(key)

    def take(self) -> list[K] | None:
        """The next batch, oldest first, or None while it is not complete; what is taken is active no more."""
        chosen = [key for key in self._overtaken if key in self._ready][: self.batch]
        if len(chosen) < self.batch:
            return None
        passed: dict[K, int] = {}
        younger = self.batch
        for key in self._overtaken:
            if key in self._ready:
                younger -= 1
                if younger == 0:
                    break
            else:
                passed[key] = self._overtaken[key] + younger
        if any(count > self.slack for count in passed.values()):
            return None
        self._overtaken.update(passed)
        self.drop(chosen)
        return chosen
