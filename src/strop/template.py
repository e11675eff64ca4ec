"""A model's chat template, and how it wants to be told of a conversation.

A chat template is Jinja that a model brings along; it runs in a sandboxed environment that holds what
model makers expect of one. Templates differ in what they take: some have no system role, some read a
tool's result only behind the structured call that it answers, some know nothing of tools. Which is tried
out when a template is loaded, and every conversation is then told its way.
"""

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from strop.errors import MachineryFault, Refusal
from strop.messages import Message, ToolCall, ToolSpec

OPEN, CLOSE = "\U000f0000", "\U000f0001"
"""Private-use characters around a word that stands for something else while a template runs."""
REPLY, RESULT, TOOL = (f"{OPEN}{word}{CLOSE}" for word in ("reply", "result", "tool"))

Row = dict[str, Any]
Results = Literal["tool", "calls", "user"]


@dataclass(frozen=True)
class Telling:
    """What a template takes.

    `system` is whether it has a system role. `results` is ``tool`` where a tool message may follow any
    assistant message, ``calls`` where it must answer a structured call, ``user`` where results can only
    be told as user messages.
    """

    system: bool
    results: Results


class ChatTemplate:
    """A compiled template that has been tried out.

    Example: ``ChatTemplate(source, {"eos_token": "</s>"}).text([Message("user", "hi")])``.
    """

    def __init__(self, source: str, names: Mapping[str, str], today: datetime.date | None = None) -> None:
        """Without `today` a template has no date to ask for, and most then fall back to a fixed one.

        Raises:
            Refusal: `source` is no template, or no conversation can go on behind an assistant's message.
        """
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise
        if today is not None:
            environment.globals["strftime_now"] = today.strftime
        try:
            self._compiled = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise Refusal(
                f"the chat template is not valid Jinja: {error}", remedy="copy the model's folder again"
            ) from error
        self._names = dict(names)
        self._telling = {bool(tools): self._try_out(tools) for tools in ((), (_PROBE,))}
        self.shows_tools = TOOL in (self.attempt(exchange(), (_PROBE,)) or "")
        """Whether the model learns of its tools from the template; else a system message has to say."""

    def telling(self, tools: Sequence[ToolSpec]) -> Telling:
        """How to tell a conversation that has these tools."""
        return self._telling[bool(tools)]

    def text(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        telling: Telling | None = None,
        prompt: bool = True,
    ) -> str:
        """The conversation in the template's words; `prompt` opens the assistant's next turn.

        Raises:
            MachineryFault: ``template``; the template refuses these messages or breaks on them.
        """
        told = rows(messages, telling or self.telling(tools))
        specs = [{"type": "function", "function": _function(tool)} for tool in tools]
        try:
            return self._compiled.render(
                messages=told, tools=specs or None, add_generation_prompt=prompt, **self._names
            )
        except Exception as error:  # a template is code of others and can raise anything
            reason = f"the chat template refuses this conversation: {error}"
            raise MachineryFault("template", reason) from error

    def attempt(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        telling: Telling | None = None,
        prompt: bool = True,
    ) -> str | None:
        """As `text`, or None where the template refuses."""
        try:
            return self.text(messages, tools, telling=telling, prompt=prompt)
        except MachineryFault:
            return None

    def _try_out(self, tools: Sequence[ToolSpec]) -> Telling:
        """The most faithful telling that this template takes and shows."""
        opening = [Message("system", REPLY), Message("user", RESULT)]
        system = REPLY in (self.attempt(opening, tools, telling=Telling(True, "tool")) or "")
        ways: tuple[Results, ...] = ("tool", "calls", "user")
        for results in ways:
            telling = Telling(system, results)
            text = self.attempt(exchange("tool"), tools, telling=telling) or ""
            if RESULT in text.partition(REPLY)[2]:
                return telling
        try:
            self.text(exchange("user"), tools, telling=Telling(system, "user"))
            reason = "it does not show what follows an assistant's message"
        except MachineryFault as fault:
            reason = fault.message
        raise Refusal(
            f"a conversation cannot go on under this chat template: {reason}",
            remedy="mend chat_template.jinja, or give today's date where the template asks for it",
        )


def exchange(answer: Literal["tool", "user", ""] = "") -> list[Message]:
    """A request, a reply that calls a tool, and what came back: marks to find again in a rendering."""
    messages = [Message("user", "x"), Message("assistant", REPLY, (_CALL,))]
    if answer == "tool":
        messages.append(Message("tool", RESULT, call_id=_CALL.id, name=_CALL.name))
    elif answer == "user":
        messages.append(Message("user", RESULT))
    return messages


_PROBE = ToolSpec(TOOL, "x", {"type": "object", "properties": {}, "required": []})
_CALL = ToolCall("call-0", "probe", {"argument": REPLY})


def rows(messages: Sequence[Message], telling: Telling) -> list[Row]:
    """The messages as a template takes them.

    An assistant's content is the whole text that it sampled, calls included; only under ``calls`` stand
    its answered calls instead, numbered ``call00000`` onwards (nine letters and digits, which the
    strictest ask for). What has no role of its own becomes a user message, joined to its neighbours.
    """
    told: list[Row] = []
    ids: dict[int, str] = {}
    for at, message in enumerate(messages):
        answered = answered_calls(messages, at) if telling.results == "calls" else {}
        role, content = message.role, message.content
        if answered:
            ids |= {place: f"call{len(ids) + n:05d}" for n, place in enumerate(answered)}
            calls = [
                {
                    "id": ids[place],
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for place, call in answered.items()
            ]
            told.append({"role": "assistant", "content": "", "tool_calls": calls})
        elif role == "tool" and (telling.results == "tool" or at in ids):
            call_id = ids.get(at, message.call_id)
            told.append({"role": role, "content": content, "name": message.name, "tool_call_id": call_id})
        elif role == "assistant" or (role == "system" and telling.system):
            told.append({"role": role, "content": content})
        elif told and told[-1]["role"] == "user" and telling != Telling(True, "tool"):
            told[-1]["content"] += "\n\n" + content
        else:
            told.append({"role": "user", "content": content})
    return told


def answered_calls(messages: Sequence[Message], at: int) -> dict[int, ToolCall]:
    """The calls of the message `at` that the tool messages right behind it answer, by those' places.

    A result finds its call by id, or by order where it carries no known id.
    """
    calls = messages[at].tool_calls
    known = {call.id: call for call in calls if call.id}
    answered: dict[int, ToolCall] = {}
    for order, message in enumerate(messages[at + 1 :] if calls else ()):
        if message.role != "tool":
            break
        call = known.get(message.call_id) or (calls[order] if order < len(calls) else None)
        if call is not None:
            answered[at + 1 + order] = call
    return answered


def _function(tool: ToolSpec) -> Row:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


class _Generation(Extension):
    """``{% generation %}`` marks, for trainers, what an assistant said; here only its content counts."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without the HTML escapes of Jinja's own filter."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
