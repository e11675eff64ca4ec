"""Policies that follow a plan: the reference, the idler, and whatever a test wants said.

A scripted policy speaks through the same dialect as a model and knows nothing of tokens, so its traces are
marked untrainable; supervised training renders their messages itself.
"""

from collections.abc import Generator, Sequence

from strop.agent.dialect import Dialect
from strop.agent.ports import Reply
from strop.messages import Message, ToolCall, ToolSpec
from strop.seeds import Seed
from strop.tasks.catalog import Script
from strop.trace import Segment


class ScriptedPolicy:
    """Runs the script's commands one a turn, then submits.

    Example: ``ScriptedPolicy("reference", suite.reference(task), FencedDialect())``.
    """

    def __init__(self, name: str, script: Script, dialect: Dialect) -> None:
        self.name = name
        self._script = script
        self._dialect = dialect

    def start(self, tools: Sequence[ToolSpec], seed: Seed) -> "ScriptedConversation":
        return ScriptedConversation(_texts(self._script(), self._dialect))


class ScriptedConversation:
    """One run through a script."""

    def __init__(self, texts: Generator[str, str, None]) -> None:
        self._texts = texts
        self._started = False

    async def reply(self, view: Sequence[Message], max_tokens: int) -> Reply:
        try:
            text = self._texts.send(view[-1].content) if self._started else next(self._texts)
        except StopIteration:
            return Reply("", "silent")
        self._started = True
        return Reply(text, "stop")

    def segments(self) -> tuple[Segment, ...]:
        return ()


def idler() -> Generator[str, str, None]:
    """The script that does nothing at all."""
    yield from ()


def lines(*commands: str) -> Script:
    """A script of fixed commands that ignores what they print."""

    def script() -> Generator[str, str, None]:
        for command in commands:  # noqa: UP028  what is sent back must be taken, which a tuple cannot
            yield command

    return script


def _texts(script: Generator[str, str, None], dialect: Dialect) -> Generator[str, str, None]:
    output: str | None = None
    while True:
        try:
            command = next(script) if output is None else script.send(output)
        except StopIteration:
            break
        output = yield dialect.write((ToolCall("", "shell", {"command": command}),))
    yield dialect.write((ToolCall("", "submit", {}),))
