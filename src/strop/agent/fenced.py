"""Calls as fenced blocks, one a reply: the few tokens that a small model can afford.

The first word of a block names the tool, the rest of that line a path, the lines below are its text. What
is put into a block comes out of it unchanged, whatever fences and marks it holds: a fence, and the marks of
an edit, are made longer than any like them inside.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from strop.errors import nearest
from strop.messages import ToolCall

FORMS = {
    "shell": "```sh\nchmod +x run.sh\n```",
    "read": "```read notes.txt\n```",
    "write": "```write notes.txt\nmilk\n```",
    "edit": "```edit notes.txt\n<<<<\nmilk\n====\nbread\n>>>>\n```",
    "submit": "```submit\n```",
}
"""How each tool's block looks, by the tool's name: whole calls, for a small model copies a placeholder."""
WORDS = {"sh": "shell", "bash": "shell", **{name: name for name in FORMS}}
"""The first words that are taken, and the tools that they mean."""

_OPENING = re.compile(r" {0,3}(`{3,})[ \t]*([^`]*)")
_CLOSING = re.compile(r" {0,3}(`{3,})[ \t\r]*")
_PLAIN_PATH = re.compile(r'[^\s"`-][^`\n]*')
_MARK = 4
"""The fewest signs in a mark of an edit."""


@dataclass(frozen=True)
class Block:
    r"""What follows an opening fence on its line, and the lines below, each ended by a newline.

    Example: ``Block("sh", "cat a.txt\n")``.
    """

    info: str
    body: str
    closed: bool = True

    @property
    def word(self) -> str:
        return self.info.split(maxsplit=1)[0] if self.info else ""

    @property
    def rest(self) -> str:
        return self.info[len(self.word) :].strip()


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a text, as CommonMark finds them; an unclosed one reaches to the end."""
    found: list[Block] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        opening = _OPENING.fullmatch(lines[at])
        at += 1
        if opening is None:
            continue
        begin = at
        while at < len(lines) and _fence(lines[at]) < len(opening[1]):
            at += 1
        body = "".join(f"{line}\n" for line in lines[begin:at])
        found.append(Block(opening[2].strip(), body, closed=at < len(lines)))
        at += 1
    return found


def read_block(text: str) -> ToolCall:
    """The call of a reply: its one block that names a tool.

    Raises:
        ValueError: there is none, or more than one, or it is not as it should be; for the model to read.
    """
    block = _only(blocks(text))
    name = WORDS[block.word]
    try:
        return ToolCall("call-0", name, _arguments(name, block))
    except ValueError as error:
        raise ValueError(f"the {block.word} block cannot be read: {error}") from None


def write_block(call: ToolCall) -> str:
    """The call as a block.

    Raises:
        ValueError: there is no form for this tool with these arguments.
    """
    given = dict(call.arguments)
    try:
        info, body = _written(call.name, given)
    except KeyError as missing:
        raise ValueError(f"there is no block for a call of {call.name!r}: {missing} is unknown") from None
    if given:
        raise ValueError(f"a {call.name} block has no place for {', '.join(given)}")
    fence = "`" * max(3, *(_fence(line) + 1 for line in body.split("\n")))
    return f"{fence}{info}\n{body}{fence}"


def _fence(line: str) -> int:
    """The length of the closing fence that a line is; 0 for any other line."""
    closing = _CLOSING.fullmatch(line)
    return len(closing[1]) if closing else 0


def _only(found: list[Block]) -> Block:
    for block in found:
        if not block.closed:
            raise ValueError(
                f"the block ```{block.info[:40]} is not closed: end it with a line ```; where its own text "
                "has such a line, begin and end it with ````"
            )
    calls = [block for block in found if block.word in WORDS]
    if len(calls) > 1:
        raise ValueError(f"there are {len(calls)} blocks in this reply; write one and wait for its result")
    if calls:
        return calls[0]
    named = [block.word for block in found if block.word]
    if named:
        raise ValueError(f"there is no tool {named[0][:40]!r}; nearest: {nearest(named[0][:40], WORDS)}")
    raise ValueError("there is no block in this reply; write a line ```sh, then a command, then a line ```")


def _arguments(name: str, block: Block) -> dict[str, Any]:
    """What a block says, by argument."""
    if name == "shell":
        if block.rest:
            raise ValueError("the command goes on the lines below the first")
        return {"command": block.body.removesuffix("\n")}
    if name == "submit":
        return {}
    if name == "read":
        return {**_options_in(block.body), "path": _path_in(block.rest)}
    if name == "write":
        cut = block.rest == "-n" or block.rest.startswith("-n ")
        path = _path_in(block.rest[2:].strip() if cut else block.rest)
        return {"path": path, "content": block.body.removesuffix("\n") if cut else block.body}
    old, new = _edit_in(block.body)
    return {"path": _path_in(block.rest), "old": old, "new": new}


def _written(name: str, given: dict[str, Any]) -> tuple[str, str]:
    """A block's info string and body; takes out of `given` what it has written.

    Raises:
        KeyError: the tool, or an argument as text, is not there.
    """
    if name == "shell":
        command = _taken(given, "command")
        return "sh", command + "\n" if command else ""
    if name == "submit":
        return "submit", ""
    path = _path_out(_taken(given, "path"))
    if name == "read":
        return f"read {path}", _options_out(given)
    if name == "write":
        content = _taken(given, "content")
        whole = not content or content.endswith("\n")
        return f"write {path}" if whole else f"write -n {path}", content if whole else content + "\n"
    if name == "edit":
        return f"edit {path}", _edit_out(_taken(given, "old"), _taken(given, "new"))
    raise KeyError(name)


def _taken(given: dict[str, Any], key: str) -> str:
    value = given.pop(key, None)
    if not isinstance(value, str):
        raise KeyError(key)
    return value


def _path_in(rest: str) -> str:
    """The path on a block's first line, plain or as a JSON string."""
    if not rest:
        raise ValueError("its path is missing; it stands on the first line, behind the tool's name")
    if not rest.startswith('"'):
        return rest
    try:
        return str(json.loads(rest))
    except ValueError:
        raise ValueError(f"its path {rest[:40]} is not a JSON string") from None


def _path_out(path: str) -> str:
    """Plain where it can be read back so, else as a JSON string."""
    if _PLAIN_PATH.fullmatch(path) and path == path.strip():
        return path
    return json.dumps(path).replace("`", "\\u0060")


def _options_in(body: str) -> dict[str, Any]:
    """Options such as ``offset=11 limit=20``."""
    options: dict[str, Any] = {}
    for word in body.split():
        key, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"-?(0|[1-9][0-9]{0,17})|true|false", value):
            raise ValueError(f"{word[:40]!r} is no option such as offset=11")
        options[key] = json.loads(value)
    return options


def _options_out(given: dict[str, Any]) -> str:
    """Takes out of `given` what is a number or a truth value."""
    fit = [key for key, value in given.items() if type(value) in (int, bool) and key.isidentifier()]
    words = [f"{key}={json.dumps(given.pop(key))}" for key in fit]
    return " ".join(words) + "\n" if words else ""


def _edit_in(body: str) -> tuple[str, str]:
    lines = body.split("\n")
    if len(lines[0]) < _MARK or set(lines[0]) != {"<"}:
        raise ValueError("below its first line come <<<<, the old text, ====, the new text, >>>>")
    size = len(lines[0])
    try:
        middle = lines.index("=" * size, 1)
        end = lines.index(">" * size, middle + 1)
    except ValueError:
        raise ValueError(
            f"behind {'<' * size} it needs a line {'=' * size} and a line {'>' * size}"
        ) from None
    if any(line.strip() for line in lines[end + 1 :]):
        raise ValueError(f"nothing may follow {'>' * size}: a block makes one edit")
    return "\n".join(lines[1:middle]), "\n".join(lines[middle + 1 : end])


def _edit_out(old: str, new: str) -> str:
    size = _MARK
    lines = {*old.split("\n"), *new.split("\n")}
    while lines & {"=" * size, ">" * size}:
        size += 1
    texts = [text + "\n" if text else "" for text in (old, new)]
    return f"{'<' * size}\n{texts[0]}{'=' * size}\n{texts[1]}{'>' * size}\n"
