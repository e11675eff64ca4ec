"""A tree of seeds.

Every random choice draws from a path in the tree, such as ``Seed(7) / "rollout" / 12 / "sibling" / 3``.
A path gives the same numbers on every machine and in every order of asking, so two parts of a run
cannot disturb each other's randomness, and a part can be replayed alone.
"""

import hashlib
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Seed:
    """A node of the tree.

    >>> (Seed(7) / "tasks" / 3).integer() == (Seed(7) / "tasks" / 3).integer()
    True
    """

    root: int
    path: tuple[str | int, ...] = ()

    def __truediv__(self, part: str | int) -> "Seed":
        return Seed(self.root, (*self.path, part if isinstance(part, str) else int(part)))

    def integer(self) -> int:
        """A number in [0, 2**63), fixed by root and path."""
        text = repr((self.root, self.path)).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1

    def random(self) -> random.Random:
        """A fresh generator; asking twice gives two generators in the same state."""
        return random.Random(self.integer())
