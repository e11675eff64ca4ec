"""Each probe establishes one fact in one sandbox, and gives the sandbox back."""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager

import pytest

from strop.agent.episode import Lease
from strop.agent.scripted import lines
from strop.clock import Clock, ManualClock
from strop.quality.probe import EXCERPT, Finding, idle, reference, solution
from strop.sandbox.scripted import Planned, ScriptedWorkspace
from strop.tasks.task import Limits, Task
from strop.tasks.workspace import Command, Completed, File
from tests.quality.conftest import JUDGE, LOST, NOTES, SOLVE, Machines, Plan, reward, said, toy

Probe = Callable[[Task, Lease, Clock], Awaitable[Finding]]


async def _solution(task: Task, lease: Lease, clock: Clock) -> Finding:
    return await solution(task, lease)


async def _reference(task: Task, lease: Lease, clock: Clock) -> Finding:
    return await reference(task, lines("good"), lease, clock)


PROBES: dict[str, Probe] = {"solution": _solution, "reference": _reference, "idler": idle}


def find(probe: Probe, machines: Machines, task: Task | None = None) -> Finding:
    """What a probe finds, having had one sandbox and given it back."""
    clock, pool = ManualClock(), machines.pool()

    async def main() -> Finding:
        return await probe(task or toy(), pool.lease, clock)

    finding = clock.run(main())
    assert len(pool.leases) == 1 and not pool.out
    return finding


def one(plan: Plan) -> Machines:
    return Machines([plan])


def test_a_sound_task_gives_three_good_findings() -> None:
    findings = [find(probe, Machines()) for probe in PROBES.values()]
    assert findings == [
        Finding("solution", True, "solve.sh passes"),
        Finding("reference", True, "the reference agent passes in 2 turns"),
        Finding("idler", True, "an agent that does nothing fails"),
    ]


def test_the_solution_runs_as_the_task_says_and_on_its_start_files() -> None:
    def look(command: Command, workspace: ScriptedWorkspace) -> Completed:
        assert workspace.files[NOTES.path] == NOTES
        assert "/tests/test.sh" not in workspace.files, "the solution could read the hidden tests"
        return said("")

    machines = one({SOLVE: look})
    find(_solution, machines)
    task = toy()
    ran = machines.made[0].ran[0]
    assert (ran.timeout, ran.cwd, ran.env) == (task.limits.agent_seconds, task.workdir, task.env)


@pytest.mark.parametrize(
    ("plan", "evidence"),
    [
        ({SOLVE: said("no such file\n", 3)}, "solve.sh ends with 3, reward 0.0: judged"),
        (
            {SOLVE: said("no such file\n", 3), JUDGE: reward("0", "")},
            "solve.sh ends with 3, reward 0.0: no such file",
        ),
        ({SOLVE: said(""), JUDGE: reward("0.5", " \n")}, "solve.sh ends with 0, reward 0.5: no output"),
        ({SOLVE: said("", timed_out=True)}, "solve.sh ran past 600 s"),
    ],
)
def test_a_solution_that_fails_says_why(plan: dict[str, Planned], evidence: str) -> None:
    assert find(_solution, one(plan)) == Finding("solution", False, evidence)


def test_a_solution_that_ran_out_of_time_is_not_judged() -> None:
    machines = one({SOLVE: said("", timed_out=True), JUDGE: reward("1")})
    assert not find(_solution, machines).good
    assert machines.made[0].verifications == 0


def test_a_finding_quotes_the_end_of_what_the_tests_said() -> None:
    finding = find(_solution, one({JUDGE: reward("0", "x" * 5000 + "the reason\n")}))
    assert finding.evidence.endswith("xxthe reason")
    assert len(finding.evidence) < EXCERPT + 60


def test_the_reference_reads_what_its_commands_print() -> None:
    heard: list[str] = []

    def script() -> Generator[str, str, None]:
        heard.append((yield "ask"))
        yield "good"

    async def probe(task: Task, lease: Lease, clock: Clock) -> Finding:
        return await reference(task, script, lease, clock)

    assert find(probe, one({"ask": "the answer\n"})).good
    assert heard == ["the answer\n"]


def test_a_reference_that_fails_says_why() -> None:
    finding = find(_reference, one({"good": "nothing was done\n"}))
    assert finding == Finding("reference", False, "the reference agent fails: reward 0.0: judged")
    silent = find(_reference, one({JUDGE: reward("0", "")}))
    assert silent.evidence.endswith("reward 0.0: the tests said nothing")


def test_an_idler_that_passes_is_a_bad_finding() -> None:
    finding = find(idle, one({JUDGE: reward("1")}))
    assert finding == Finding("idler", False, "an agent that does nothing passes")


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({JUDGE: said("crashed\n", 1)}, "no-reward"),
        ({JUDGE: reward("none at all")}, "bad-reward"),
        ({JUDGE: said("", timed_out=True)}, "timeout"),
        (LOST, "the machine died"),
    ],
)
def test_what_cannot_be_judged_is_a_bad_finding_and_no_error(name: str, plan: Plan, words: str) -> None:
    finding = find(PROBES[name], one(plan))
    assert finding.probe == name and not finding.good
    assert words in finding.evidence


class FullDisk(ScriptedWorkspace):
    """Takes start files and solutions; the hidden tests find no room."""

    async def write(self, files: Sequence[File]) -> None:
        if any(file.path.startswith("/tests/") for file in files):
            raise OSError(28, "No space left on device", files[0].path)
        await super().write(files)


@pytest.mark.parametrize("name", PROBES)
def test_tests_that_cannot_be_placed_are_a_bad_finding_and_no_error(name: str) -> None:
    @asynccontextmanager
    async def lease(limits: Limits) -> AsyncIterator[ScriptedWorkspace]:
        yield FullDisk()

    clock = ManualClock()

    async def main() -> Finding:
        return await PROBES[name](toy(), lease, clock)

    finding = clock.run(main())
    assert not finding.good and "No space left" in finding.evidence


def test_a_reference_script_that_breaks_is_a_bad_finding_and_no_error() -> None:
    def script() -> Generator[str, str, None]:
        yield str(1 // 0)

    async def probe(task: Task, lease: Lease, clock: Clock) -> Finding:
        return await reference(task, script, lease, clock)

    finding = find(probe, Machines())
    assert not finding.good and "ZeroDivisionError" in finding.evidence
