"""What is asked.

A task is data: it can be hashed, stored, shipped and read back equal. Its content id covers everything
that bears on a score, so an admission or a comparison that names the id cannot silently mean another
task.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property

from strop.tasks.workspace import File


@dataclass(frozen=True)
class Strata:
    """The coordinates a score is reported by.

    Example: ``Strata(type="lookup", difficulty="hard", steps=4, domain="configuration")``.
    """

    type: str = "task"
    difficulty: str = "unknown"
    steps: int = 0
    """Commands of the reference solution, submission not counted; 0 where nobody counted."""
    domain: str = "unknown"


@dataclass(frozen=True)
class Limits:
    """What an attempt may use: seconds, MiB, processes."""

    agent_seconds: float = 600.0
    verifier_seconds: float = 600.0
    cpus: float = 1.0
    memory_mb: int = 512
    storage_mb: int = 256
    processes: int = 128


@dataclass(frozen=True)
class Task:
    """Instruction, start files, hidden tests, reference, limits and strata.

    Example: ``Task("shell/write-easy-7", "Write ...", tests=(File("/tests/test.sh", ...),))``.
    """

    name: str
    """``suite/task``."""
    instruction: str
    files: tuple[File, ...] = ()
    """Placed before the agent starts."""
    tests: tuple[File, ...] = ()
    """Placed under ``/tests`` once the agent is gone; ``/tests/test.sh`` judges."""
    solution: tuple[File, ...] = ()
    """Placed under ``/solution`` for the reference only; ``/solution/solve.sh`` solves."""
    workdir: str = "/app"
    env: Mapping[str, str] = field(default_factory=dict)
    verifier_env: Mapping[str, str] = field(default_factory=dict)
    live_system: bool = False
    """Whether judging sees what the agent did to system folders."""
    limits: Limits = field(default_factory=Limits)
    strata: Strata = field(default_factory=Strata)
    seed: int = 0

    @cached_property
    def id(self) -> str:
        """Sixteen hex digits over everything that bears on a score."""
        digest = hashlib.sha256()
        head = {
            "instruction": self.instruction,
            "workdir": self.workdir,
            "env": dict(self.env),
            "verifier_env": dict(self.verifier_env),
            "live_system": self.live_system,
            "limits": {name: float(limit) for name, limit in asdict(self.limits).items()},
        }
        digest.update(json.dumps(head, sort_keys=True).encode())
        for kind, files in (("file", self.files), ("test", self.tests), ("solution", self.solution)):
            for file in sorted(files, key=lambda f: f.path):
                data = hashlib.sha256(file.data).hexdigest()
                digest.update(f"\0{kind}\0{file.path}\0{file.mode:o}\0{data}".encode())
        return digest.hexdigest()[:16]
