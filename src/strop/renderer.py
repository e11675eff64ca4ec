"""Messages into token deltas under a model's chat template.

The opening of a conversation is rendered once; after each sampled reply only what follows it is. What was
sampled is never rendered again: its ids stay in the context exactly as they came, whatever the template
would have made of their text. What follows a reply is found by rendering the real history with a sentinel
in the reply's place and taking the text behind it.

Text from outside cannot become a control token: those written in a message are veiled while the template
runs, and encoded as plain text.
"""

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from strop.errors import MachineryFault, Refusal
from strop.messages import Message, ToolCall, ToolSpec
from strop.template import CLOSE, OPEN, REPLY, RESULT, TOOL, ChatTemplate, Telling, answered_calls, exchange
from strop.tokens import Tokenizer


class Renderer:
    """A tokenizer's chat template, made incremental.

    Example: ``ids = renderer.first(messages, tools)``; sample; then, with the reply and the results added
    to `messages`, ``ids += sampled + renderer.next(messages, tools, answered=2, tail=sampled)``.
    """

    def __init__(self, tokenizer: Tokenizer, today: datetime.date | None = None) -> None:
        """Try out what the template takes; `today` is for templates that insist on a date.

        Raises:
            Refusal: there is no template, or no conversation can go on behind an assistant's message.
        """
        if not tokenizer.template:
            raise Refusal(
                "the tokenizer has no chat template",
                remedy="use an instruct model, or write chat_template.jinja beside its tokenizer.json",
            )
        self.tokenizer = tokenizer
        self._template = ChatTemplate(tokenizer.template, tokenizer.names, today)
        self.shows_tools = self._template.shows_tools
        """Whether the model learns of its tools from the template; else a system message has to say."""
        written = [token for token in tokenizer.added if token in tokenizer.template]
        control = {*tokenizer.special, *written}
        self._outside = _any_of({*control, OPEN, CLOSE})
        self._own = _any_of({*tokenizer.special, OPEN, CLOSE})
        self._endings = _find_endings(self._template, _any_of(control), tokenizer.names["eos_token"])
        tokens = self._endings.closing + self._endings.following
        self._turn_end = _any_of(tokens)
        self.stop_ids = tuple(dict.fromkeys([*map(tokenizer.id, tokens), tokenizer.eos]))
        """The tokens at which an assistant's turn is over: the template's own, the one that ends a turn
        with a tool call first; and the end of text."""

    def first(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """Ids of a conversation, up to where the assistant speaks next.

        Raises:
            MachineryFault: ``template``; the template refuses the conversation.
        """
        veil = _Veil(self._outside, self._own)
        text = self._template.text(veil.messages(messages), veil.tools(tools))
        return self._encode(text, veil, opening=True)

    def next(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], answered: int, tail: Sequence[int]
    ) -> list[int]:
        """Ids that go behind the sampled message `answered`, up to where the assistant speaks next.

        `tail` is what was sampled, or at least the last few ids of it. Where it has not ended its turn
        itself, cut by a limit or a stop string, the turn is closed first.

        Raises:
            MachineryFault: ``template``; the template refuses the conversation, or hides where the
                assistant's turn ends.
        """
        if messages[answered].role != "assistant":
            raise ValueError(f"message {answered} is the {messages[answered].role}'s, so it was not sampled")
        veil = _Veil(self._outside, self._own)
        text, in_call = self._behind(veil.messages(messages), veil.tools(tools), answered)
        end = self._turn_end.search(text)
        if in_call and end is None:
            raise MachineryFault("template", "the chat template never ends a turn that calls tools")
        start, anchor = (end.start() if in_call and end else 0), ""
        if tail and tail[-1] in self.stop_ids:
            anchor = self.tokenizer.decode(tail[-1:])
            if end and (end.group() == anchor or end.group() in self._endings.closing):
                start = end.end()
        elif self._endings.words and self.tokenizer.decode(tail).endswith(self._endings.words):
            start = len(self._endings.words)
        return self._encode(text[start:], veil, anchor=anchor)

    def said(self, ids: Sequence[int]) -> str:
        """The text of a sampled reply, without the token that ended it."""
        return self.tokenizer.decode(ids[:-1] if ids and ids[-1] in self.stop_ids else ids)

    def _behind(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], answered: int
    ) -> tuple[str, bool]:
        """The text behind the sampled message, and whether the sentinel stood inside a call of it."""
        telling = self._template.telling(tools)
        calls = list(answered_calls(messages, answered).values()) if telling.results == "calls" else []
        reply = replace(messages[answered], content=REPLY)
        if calls:
            last = replace(calls[-1], arguments={"argument": REPLY})
            reply = replace(reply, tool_calls=(*calls[:-1], last))
        told = [*messages[:answered], reply, *messages[answered + 1 :]]
        marked = [replace(tools[0], name=tools[0].name + TOOL), *tools[1:]] if tools else []
        text = _after_reply(self._template.text(told, marked))
        if TOOL in text:
            # The template moves its tools along with the conversation. Here they stay where they were first
            # told; said again, they would stand in the context twice.
            text = _after_reply(self._template.text(told, telling=telling))
        return text, bool(calls)

    def _encode(self, text: str, veil: "_Veil", *, opening: bool = False, anchor: str = "") -> list[int]:
        ids: list[int] = []
        for piece, plain in veil.lift(text):
            if plain:
                ids += self.tokenizer.encode_plain(piece)
            elif opening and not ids:
                ids += self.tokenizer.encode(piece)
            else:
                ids += self.tokenizer.encode_after(piece, "" if ids else anchor)
        return ids


@dataclass(frozen=True)
class _Endings:
    """How an assistant's turn ends."""

    closing: tuple[str, ...]
    """Tokens that close it."""
    following: tuple[str, ...]
    """Tokens that only open the next turn, which the model then says itself to end its own."""
    words: str
    """The text that closes it where no token does."""


def _find_endings(template: ChatTemplate, control: re.Pattern[str], eos: str) -> _Endings:
    """Learn the endings from renderings of an exchange, those of a turn with a tool call first."""
    last = _between(template.attempt(exchange(), prompt=False), "")
    by_tool = _between(template.attempt(exchange("tool"), telling=Telling(True, "tool")), RESULT)
    by_user = _between(template.attempt(exchange("user")), RESULT)
    closed = control.findall(last)[:1]
    follow = [*control.findall(by_tool)[:1], *control.findall(by_user)[:1]]
    called = []
    for tools in ((), (ToolSpec("probe", "x", {"type": "object", "properties": {}}),)):
        if template.telling(tools).results == "calls":
            inside = control.findall(_between(template.attempt(exchange("tool"), tools), RESULT))
            known = [token for token in inside if token in (*closed, *follow, eos)]
            called += known[:1] or inside[:1]
    closing = dict.fromkeys([*called, *(follow if closed else []), *closed])
    following = dict.fromkeys(token for token in follow if token not in closing)
    words = last if not closing and not following and by_user.startswith(last) else ""
    return _Endings(tuple(closing), tuple(following), words)


def _between(text: str | None, end: str) -> str:
    behind = (text or "").partition(REPLY)[2]
    return behind.partition(end)[0] if end else behind


def _after_reply(text: str) -> str:
    _, found, behind = text.partition(REPLY)
    if not found or REPLY in behind:
        how = "more than once" if found else "not at all"
        raise MachineryFault("template", f"the chat template shows an assistant's earlier message {how}")
    return behind


def _any_of(tokens: Iterable[str]) -> re.Pattern[str]:
    """Match the longest; branch by beginnings first, for there are vocabularies with thousands."""
    branches: dict[str, list[str]] = {}
    for token in sorted(set(tokens), key=lambda token: (-len(token), token)):
        branches.setdefault(re.escape(token[:3]), []).append(re.escape(token[3:]))
    return re.compile("|".join(f"{head}(?:{'|'.join(ends)})" for head, ends in branches.items()) or r"(?!)")


class _Veil:
    """Covers control tokens written in a conversation, and knows the way back."""

    def __init__(self, outside: re.Pattern[str], own: re.Pattern[str]) -> None:
        """Cover `own` in what an assistant said, `outside` in everything else.

        The markup of a call or of reasoning in an assistant's own words is meant; elsewhere it is not.
        """
        self._outside, self._own = outside, own
        self._numbers: dict[str, int] = {}

    def messages(self, messages: Sequence[Message]) -> list[Message]:
        return [self._message(message) for message in messages]

    def tools(self, tools: Sequence[ToolSpec]) -> list[ToolSpec]:
        return [ToolSpec(*map(self._cover, (t.name, t.description, t.parameters))) for t in tools]

    def lift(self, text: str) -> Iterator[tuple[str, bool]]:
        """The pieces of a rendering, each with whether it had been covered and is plain text.

        Raises:
            MachineryFault: ``template``; the template cut a cover apart.
        """
        covered = list(self._numbers)
        for place, piece in enumerate(re.split(f"{OPEN}([0-9]+){CLOSE}", text)):
            if place % 2:
                yield covered[int(piece)], True
            elif OPEN in piece or CLOSE in piece:
                raise MachineryFault("template", "the chat template cuts the text of messages apart")
            elif piece:
                yield piece, False

    def _message(self, message: Message) -> Message:
        pattern = self._own if message.role == "assistant" else self._outside
        content = pattern.sub(self._number, message.content)
        calls = tuple(ToolCall(*map(self._cover, (c.id, c.name, c.arguments))) for c in message.tool_calls)
        call_id, name = self._cover(message.call_id), self._cover(message.name)
        return Message(message.role, content, calls, call_id, name)

    def _cover(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._outside.sub(self._number, value)
        if isinstance(value, Mapping):
            return {self._cover(key): self._cover(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._cover(inner) for inner in value]
        return value

    def _number(self, match: re.Match[str]) -> str:
        number = self._numbers.setdefault(match.group(), len(self._numbers))
        return f"{OPEN}{number}{CLOSE}"
