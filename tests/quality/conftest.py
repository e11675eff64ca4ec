"""A toy task, scripted sandboxes that judge it, and the real ones of `tests.sandbox`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from strop.agent.scripted import lines
from strop.errors import Refusal, SandboxFault
from strop.sandbox.scripted import Planned, ScriptedPool, ScriptedWorkspace
from strop.tasks.catalog import Script
from strop.tasks.task import Task
from strop.tasks.workspace import Command, Completed, File
from tests.rollout.conftest import make_task
from tests.sandbox.conftest import cache, open_pool

__all__ = ["cache", "open_pool"]

SOLVE = "/bin/bash /solution/solve.sh"
JUDGE = "/bin/bash /tests/test.sh"
NOTES = File("/app/notes.txt", b"what is there from the start\n")
LOST = SandboxFault("lost", "the machine died")


def toy(number: int = 0) -> Task:
    """A task that is solved once /app/good is there."""
    solution = (File("/solution/solve.sh", b"good\n", 0o755),)
    return replace(make_task(number), files=(NOTES,), solution=solution)


def said(output: str, exit_code: int = 0, *, timed_out: bool = False) -> Completed:
    return Completed(exit_code, output.encode(), b"", 0.0, timed_out=timed_out)


def solve(command: Command, workspace: ScriptedWorkspace) -> Completed:
    workspace.files["/app/good"] = File("/app/good", b"")
    return said("solved\n")


def judge(command: Command, workspace: ScriptedWorkspace) -> Completed:
    return reward("1" if "/app/good" in workspace.files else "0")(command, workspace)


def reward(text: str, evidence: str = "judged\n") -> Callable[[Command, ScriptedWorkspace], Completed]:
    """A judge that gives `text` whatever it finds."""

    def give(command: Command, workspace: ScriptedWorkspace) -> Completed:
        workspace.files["/logs/verifier/reward.txt"] = File("/logs/verifier/reward.txt", text.encode())
        return said(evidence)

    return give


Plan = Mapping[str, Planned] | SandboxFault


@dataclass
class Machines:
    """Scripted sandboxes, each made for one lease; `plans` are what the first ones do otherwise.

    A fault among the plans is a machine that dies with it at the first request.
    """

    plans: Iterable[Plan] = ()
    made: list[ScriptedWorkspace] = field(default_factory=list)

    def pool(self) -> ScriptedPool:
        """Lends them in order."""
        plans = list(self.plans)
        good: dict[str, Planned] = {SOLVE: solve, "good": solve, JUDGE: judge}

        def make() -> ScriptedWorkspace:
            plan = plans[len(self.made)] if len(self.made) < len(plans) else {}
            faults = {"write": plan} if isinstance(plan, SandboxFault) else {}
            other = {} if isinstance(plan, SandboxFault) else plan
            self.made.append(ScriptedWorkspace({**good, **other}, faults=faults))
            return self.made[-1]

        return ScriptedPool(make)


@dataclass
class ToySuite:
    """Toy tasks with a reference agent."""

    script: Script = field(default_factory=lambda: lines("good"))
    name: str = "toy"
    splits: Mapping[str, str] = field(default_factory=lambda: {"train": "all there is"})

    def tasks(self, split: str, count: int, start: int = 0) -> Sequence[Task]:
        return [toy(number) for number in range(start, start + count)]

    def task(self, name: str) -> Task:
        raise Refusal(f"no task {name!r}")

    def reference(self, task: Task) -> Script:
        return self.script
