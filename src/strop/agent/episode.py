"""One attempt at a task: lease, turns, the agent's end, hidden tests, verdict, sealed trace.

`attempt` always returns a trace. A fault of the machinery (sandbox, task, grader, engine) leaves it
unscored; a policy that runs out of turns, tokens or time is judged by what it left behind. Only
cancellation passes through, after the sandbox has been given back.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from pydantic import Field

from strop.agent.dialect import Dialect, Unreadable
from strop.agent.ports import AppendOnly, Conversation, Memory, Policy, Reply
from strop.clock import Clock
from strop.config import Settings
from strop.errors import Fault, PolicyFault, SandboxFault
from strop.messages import Message, ToolCall
from strop.seeds import Seed
from strop.tasks.grader import grade
from strop.tasks.task import Limits, Task
from strop.tasks.workspace import Workspace
from strop.tools.dispatch import Toolbox
from strop.tools.tool import ToolResult
from strop.trace import StopReason, Trace, Turn, Verdict

Lease = Callable[[Limits], AbstractAsyncContextManager[Workspace]]
"""How a workspace is had for a while; the pool's `lease`."""

Tools = Callable[[Task], Toolbox]
"""Which tools a task's agent gets."""


class EpisodeSettings(Settings):
    """What one attempt may use."""

    turns: int = Field(12, ge=1)
    """Turns after which the attempt is judged as it stands."""
    tokens: int = Field(1024, ge=1)
    """Longest context, in tokens; a reply that reaches it is cut and the attempt judged."""
    seconds: float = Field(60.0, gt=0)
    """Wall time of the turns; the task's own limit holds as well."""


@dataclass(frozen=True)
class Agent:
    """Who plays: a policy, the dialect it speaks, its tools and its limits."""

    policy: Policy
    dialect: Dialect
    tools: Tools
    settings: EpisodeSettings = field(default_factory=EpisodeSettings)
    memory: Callable[[], Memory] = AppendOnly
    system_prompt: bool = True
    """Whether the dialect's explanation of the tools is given; a model trained on it needs none."""


@dataclass(frozen=True)
class Attempt:
    """Which attempt this is: the episode's id, the task, and the seed of every random choice in it."""

    episode: str
    task: Task
    seed: Seed


async def attempt(agent: Agent, what: Attempt, lease: Lease, clock: Clock) -> Trace:
    """Play one episode to its verdict."""
    play = _Play(agent, what, clock)
    try:
        async with lease(what.task.limits) as workspace:
            play.mark("lease")
            await play.prepare(workspace)
            await play.turns(workspace)
            play.verdict = await grade(what.task, workspace)
            play.mark("grading")
    except Fault as fault:
        play.stop, play.verdict = "fault", Verdict.unscored(fault)
    return play.seal()


class _Play:
    """The moving parts of an attempt until it is sealed."""

    def __init__(self, agent: Agent, what: Attempt, clock: Clock) -> None:
        self.agent, self.what, self.clock = agent, what, clock
        self.toolbox = agent.tools(what.task)
        self.memory = agent.memory()
        self.messages: list[Message] = []
        self.done: list[Turn] = []
        self.stop: StopReason = "turns"
        self.verdict = Verdict(None, None)
        self.seconds = dict.fromkeys(("lease", "sampling", "tools", "grading"), 0.0)
        self.begun = self.marked = clock.now()
        self.conversation: Conversation = agent.policy.start(self.toolbox.specs(), what.seed)

    def mark(self, phase: str) -> float:
        """Book the time since the last mark under `phase`."""
        now = self.clock.now()
        spent, self.marked = now - self.marked, now
        self.seconds[phase] += spent
        return spent

    def say(self, message: Message) -> None:
        self.messages.append(message)
        self.memory.add(message)

    async def prepare(self, workspace: Workspace) -> None:
        task = self.what.task
        explanation = self.agent.dialect.system(self.toolbox.specs()) if self.agent.system_prompt else ""
        if explanation:
            self.say(Message("system", explanation))
        self.say(Message("user", task.instruction))
        try:
            await workspace.write(task.files)
        except OSError as error:
            raise SandboxFault("start-files", f"the start files of {task.name}: {error}") from error
        self.mark("tools")

    async def turns(self, workspace: Workspace) -> None:
        limits = self.agent.settings
        try:
            async with asyncio.timeout(min(limits.seconds, self.what.task.limits.agent_seconds)):
                while len(self.done) < limits.turns:
                    if await self.turn(workspace):
                        return
        except TimeoutError:
            self.stop = "seconds"

    async def turn(self, workspace: Workspace) -> bool:
        """One turn; whether it was the last."""
        try:
            reply = await self.conversation.reply(self.memory.view(), self.agent.settings.tokens)
        except PolicyFault as fault:
            self.stop = "tokens" if fault.code == "context-full" else "silent"
            return True
        sampling = self.mark("sampling")
        if reply.finish == "silent":
            self.stop = "silent"
            return True
        cut = reply.finish == "length"
        results = () if cut else await self.act(reply, workspace)
        if cut:
            self.say(Message("assistant", reply.text))
        errors = tuple(result.error for result in results if result.error)
        self.done.append(Turn(reply.finish, reply.sampled_tokens, sampling, self.mark("tools"), errors))
        if any(result.ends_episode for result in results):
            self.stop = "submitted"
            return True
        if cut:
            self.stop = "tokens"
        return cut

    async def act(self, reply: Reply, workspace: Workspace) -> Sequence[ToolResult]:
        """Say the reply, do what it calls for, and say what came back."""
        calls = self.agent.dialect.read(reply.text)
        if isinstance(calls, Unreadable):
            self.say(Message("assistant", reply.text))
            unread = ToolCall("", "", {})
            result = ToolResult(calls.explanation, error="unreadable")
            self.say(self.agent.dialect.answer(unread, result))
            return (result,)
        self.say(Message("assistant", reply.text, tool_calls=calls))
        results = []
        for call in calls:
            results.append(await self.toolbox.call(call, workspace))
            self.say(self.agent.dialect.answer(call, results[-1]))
            if results[-1].ends_episode:
                break
        return results

    def seal(self) -> Trace:
        total = self.clock.now() - self.begun
        segments = self.conversation.segments()
        return Trace(
            episode=self.what.episode,
            task=self.what.task.name,
            task_id=self.what.task.id,
            policy=self.agent.policy.name,
            seed=self.what.seed.integer(),
            messages=tuple(self.messages),
            turns=tuple(self.done),
            segments=segments,
            stop=self.stop,
            verdict=self.verdict,
            seconds={**self.seconds, "total": total},
            trainable=bool(segments),
        )
