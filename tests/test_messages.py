import dataclasses

import pytest

from strop.messages import Message, ToolCall, ToolSpec


def test_messages_are_values() -> None:
    call = ToolCall("call-0", "shell", {"command": "ls"})
    assert Message("assistant", "x", (call,)) == Message("assistant", "x", (ToolCall(**vars(call)),))
    assert Message("tool", "x") != Message("user", "x")
    for value in (call, Message("user", "x"), ToolSpec("a", "b", {})):
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.name = "other"


def test_a_message_has_no_calls_and_answers_none_unless_said() -> None:
    message = Message("user", "x")
    assert (message.tool_calls, message.call_id, message.name) == ((), "", "")
