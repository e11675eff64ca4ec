"""Calls as JSON objects between tags, as larger models learn to write them.

The JSON is taken strictly, for a call that is half guessed is worse than one that is asked for again; what
is wrong with it is said in a line.
"""

import json
from collections.abc import Sequence
from typing import Any

from strop.messages import ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"


def read_tagged(text: str) -> tuple[ToolCall, ...]:
    """The calls of a reply; one object that is the whole reply needs no tags.

    Raises:
        ValueError: there is no call, or one that is not as it should be; for the model to read.
    """
    found: list[Any] = []
    at = text.find(OPEN)
    while at >= 0:
        value, end = _decoded(text, at + len(OPEN))
        rest = text[end : end + 200].lstrip()
        if rest and not rest.startswith(CLOSE):
            raise ValueError(f"after a call's JSON there must be {CLOSE}, not {rest[:20]!r}")
        found.append(value)
        at = text.find(OPEN, end)
    if not found and text.lstrip().startswith("{"):
        value, end = _decoded(text, 0)
        if text[end:].strip():
            raise ValueError(f"write the call between {OPEN} and {CLOSE}")
        found.append(value)
    if not found:
        form = f'{OPEN}{{"name": ..., "arguments": {{...}}}}{CLOSE}'
        raise ValueError(f"there is no call in this reply; write {form}")
    return tuple(_call(f"call-{number}", value) for number, value in enumerate(found))


def write_tagged(calls: Sequence[ToolCall]) -> str:
    """The calls in text, each between tags."""
    bodies = [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]
    return "\n".join(f"{OPEN}\n{json.dumps(body, ensure_ascii=False)}\n{CLOSE}" for body in bodies)


def _decoded(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins at `at`, blanks skipped, and where it ends."""
    while text[at : at + 1].isspace():
        at += 1
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Invalid control character"):
            raise ValueError("a line break or tab inside a JSON string is written \\n or \\t") from None
        around = text[max(at, error.pos - 15) : error.pos + 15]
        raise ValueError(f"the call is not valid JSON: {error.msg} near {around!r}") from None
    except RecursionError:
        raise ValueError("the call is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key is given twice in the call's JSON")
    return value


def _constant(name: str) -> float:
    raise ValueError(f"the call is not valid JSON: it has no {name}")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def _call(call_id: str, value: Any) -> ToolCall:
    """The call that a value states; some templates say ``parameters`` where others say ``arguments``."""
    if not isinstance(value, dict):
        raise ValueError('a call must be a JSON object with "name" and "arguments"')
    given = value.keys() & {"arguments", "parameters"}
    if len(given) > 1 or value.keys() - {"name", *given}:
        raise ValueError('a call has only "name" and "arguments"; put everything else into "arguments"')
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError('a call needs a "name", the tool to use')
    arguments = value[given.pop()] if given else {}
    if not isinstance(arguments, dict):
        raise ValueError('"arguments" of a call must be a JSON object')
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a string of the call holds half a character") from None
    return ToolCall(call_id, name, arguments)
