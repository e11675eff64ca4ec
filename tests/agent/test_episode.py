"""One attempt, from lease to verdict, on scripted sandboxes and the manual clock."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from strop.agent.dialect import FencedDialect
from strop.agent.episode import Agent, Attempt, EpisodeSettings, attempt
from strop.agent.ports import Reply
from strop.agent.scripted import ScriptedPolicy, idler, lines
from strop.clock import ManualClock
from strop.errors import MachineryFault, PolicyFault, SandboxFault
from strop.messages import Message, ToolSpec
from strop.sandbox.scripted import Planned, ScriptedPool, ScriptedWorkspace
from strop.seeds import Seed
from strop.tasks.task import Task
from strop.tasks.workspace import Command, Completed, File
from strop.tools.dispatch import Toolbox, standard_tools
from strop.trace import Segment, Trace

TASK = Task(
    "toy/greet",
    "Write hello to greeting.txt.",
    files=(File("/app/notes.txt", b"nothing\n"),),
    tests=(File("/tests/test.sh", b"judge", 0o755),),
)


def judge(command: Command, workspace: ScriptedWorkspace) -> Completed:
    assert workspace.files["/tests/test.sh"].data == b"judge"
    found = workspace.files.get("/app/greeting.txt")
    reward = b"1\n" if found is not None and found.data == b"hello\n" else b"0\n"
    workspace.files["/logs/verifier/reward.txt"] = File("/logs/verifier/reward.txt", reward)
    return Completed(0, b"judged\n", b"", 0.0)


def greet(command: Command, workspace: ScriptedWorkspace) -> Completed:
    workspace.files["/app/greeting.txt"] = File("/app/greeting.txt", b"hello\n")
    return Completed(0, b"", b"", 0.0)


PLAN: dict[str, Planned] = {"greet": greet, "ls": "notes.txt\n", "/bin/bash /tests/test.sh": judge}


@dataclass
class Talker:
    """Says what it is given, one a turn; an exception is raised, a number is waited for."""

    says: Sequence[str | Exception | float]
    finish: str = "stop"
    name: str = "talker"
    seen: list[list[Message]] = field(default_factory=list)

    def start(self, tools: Sequence[ToolSpec], seed: Seed) -> "Talker":
        self.left = list(self.says)
        return self

    async def reply(self, view: Sequence[Message], max_tokens: int) -> Reply:
        self.seen.append(list(view))
        said = self.left.pop(0) if self.left else "```sh\nls\n```"
        if isinstance(said, Exception):
            raise said
        if isinstance(said, float):
            await asyncio.sleep(said)
            said = "```sh\nls\n```"
        return Reply(said, self.finish, 4, 10)

    def segments(self) -> tuple[Segment, ...]:
        return ()


def play(
    policy: Talker | ScriptedPolicy,
    pool: ScriptedPool | None = None,
    settings: EpisodeSettings | None = None,
    system_prompt: bool = False,
) -> Trace:
    clock = ManualClock()
    pool = pool or ScriptedPool(lambda: ScriptedWorkspace(PLAN))
    agent = Agent(
        policy,
        FencedDialect(),
        lambda task: Toolbox(standard_tools(task.workdir)),
        settings or EpisodeSettings(turns=5, seconds=50.0),
        system_prompt=system_prompt,
    )
    trace = clock.run(attempt(agent, Attempt("e1", TASK, Seed(0)), pool.lease, clock))
    assert not pool.out, "a sandbox was not given back"
    return trace


def test_a_solved_task_passes_and_its_transcript_is_whole() -> None:
    trace = play(ScriptedPolicy("reference", lines("ls", "greet"), FencedDialect()))
    assert trace.verdict.passed and trace.verdict.score == 1.0
    assert trace.stop == "submitted"
    assert [message.role for message in trace.messages] == ["user", *["assistant", "tool"] * 3]
    assert trace.messages[2].content == "notes.txt\n"
    assert not trace.trainable


def test_the_idler_fails_and_is_scored() -> None:
    trace = play(ScriptedPolicy("idler", idler, FencedDialect()))
    assert trace.verdict.score == 0.0 and trace.verdict.passed is False
    assert trace.stop == "submitted"


def test_turns_run_out_and_what_was_done_is_judged() -> None:
    trace = play(Talker(["```sh\ngreet\n```"]), settings=EpisodeSettings(turns=3, seconds=50.0))
    assert trace.stop == "turns" and len(trace.turns) == 3
    assert trace.verdict.passed


def test_time_runs_out_and_what_was_done_is_judged() -> None:
    trace = play(Talker(["```sh\ngreet\n```", 1000.0]))
    assert trace.stop == "seconds" and trace.verdict.passed
    assert trace.seconds["total"] == pytest.approx(50.0)


def test_a_cut_reply_ends_the_episode_and_is_not_acted_on() -> None:
    trace = play(Talker(["```sh\ngreet\n```"], finish="length"))
    assert trace.stop == "tokens" and trace.verdict.score == 0.0
    assert trace.messages[-1] == Message("assistant", "```sh\ngreet\n```")


def test_a_full_context_is_truncation_and_not_a_fault() -> None:
    trace = play(Talker(["```sh\ngreet\n```", PolicyFault("context-full", "no room")]))
    assert trace.stop == "tokens" and trace.verdict.passed


def test_an_unreadable_reply_is_explained_to_the_model() -> None:
    talker = Talker(["I would rather not.", "```submit\n```"])
    trace = play(talker)
    assert trace.turns[0].errors == ("unreadable",)
    assert talker.seen[1][-1].role == "tool" and "```" in talker.seen[1][-1].content
    assert trace.stop == "submitted"


def test_the_tools_are_explained_on_demand() -> None:
    talker = Talker(["```submit\n```"])
    play(talker, system_prompt=True)
    assert talker.seen[0][0].role == "system" and "submit" in talker.seen[0][0].content


def late() -> ScriptedPool:
    return ScriptedPool(lambda: ScriptedWorkspace(PLAN), [SandboxFault("lease-timeout", "late")])


def dies_at_work() -> ScriptedPool:
    return ScriptedPool(lambda: ScriptedWorkspace({**PLAN, "greet": SandboxFault("lost", "it died")}))


def dies_in_judging() -> ScriptedPool:
    faults = {"verification": SandboxFault("lost", "it died")}
    return ScriptedPool(lambda: ScriptedWorkspace(PLAN, faults=faults))


def gives_no_reward() -> ScriptedPool:
    return ScriptedPool(lambda: ScriptedWorkspace({**PLAN, "/bin/bash /tests/test.sh": "silence"}))


@pytest.mark.parametrize(
    ("pool", "boundary", "code"),
    [
        (late, "sandbox", "lease-timeout"),
        (dies_at_work, "sandbox", "lost"),
        (dies_in_judging, "sandbox", "lost"),
        (gives_no_reward, "grader", "no-reward"),
    ],
)
def test_a_fault_of_the_machinery_is_unscored_and_never_zero(
    pool: Callable[[], ScriptedPool], boundary: str, code: str
) -> None:
    trace = play(ScriptedPolicy("reference", lines("greet"), FencedDialect()), pool())
    assert trace.verdict.score is None and trace.verdict.passed is None
    assert trace.verdict.fault is not None
    assert (trace.verdict.fault.boundary, trace.verdict.fault.code) == (boundary, code)
    assert trace.stop == "fault"


def test_a_lost_engine_is_unscored() -> None:
    trace = play(Talker([MachineryFault("engine-failed", "it died")]))
    assert trace.verdict.fault is not None and trace.verdict.fault.boundary == "machinery"


def test_cancellation_gives_the_sandbox_back() -> None:
    clock = ManualClock()
    pool = ScriptedPool(lambda: ScriptedWorkspace(PLAN))
    agent = Agent(Talker([1000.0]), FencedDialect(), lambda task: Toolbox(standard_tools("/app")))

    async def main() -> None:
        job = asyncio.create_task(attempt(agent, Attempt("e", TASK, Seed(0)), pool.lease, clock))
        await asyncio.sleep(1.0)
        assert pool.out
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job

    clock.run(main())
    assert not pool.out
