import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.agent.dialect import Dialect, FencedDialect, JsonDialect, Unreadable, dialect_named
from strop.agent.fenced import FORMS
from strop.errors import Refusal
from strop.messages import Message, ToolCall, ToolSpec
from strop.tools.dispatch import standard_tools
from strop.tools.tool import ToolResult

JSON, FENCED = JsonDialect(), FencedDialect()
SPECS = [tool.spec() for tool in standard_tools("/app")]

MARKS = "a|  b|```|````|```sh|  ```  |`````\r|====|=====|>>>>|<<<<|-n|x=1|</think>|<tool_call>|</tool_call>"
LINES = st.sampled_from(["", *MARKS.split("|"), '"', "\\", "é中\U0001f600", "\t\0\x85\u2028", "{}", "a "])
TEXT = st.lists(LINES, max_size=6).map("\n".join) | st.text(max_size=20)
"""Text that is built from what the dialects themselves write."""

SHELL = st.builds(lambda command: ToolCall("", "shell", {"command": command}), TEXT)
READ = st.builds(
    lambda path, options: ToolCall("", "read", {"path": path, **options}),
    TEXT,
    st.fixed_dictionaries({}, optional={"offset": st.integers(-9, 10**9), "numbered": st.booleans()}),
)
WRITE = st.builds(lambda path, text: ToolCall("", "write", {"path": path, "content": text}), TEXT, TEXT)
EDIT = st.builds(
    lambda p, old, new: ToolCall("", "edit", {"path": p, "old": old, "new": new}), TEXT, TEXT, TEXT
)
STANDARD = SHELL | READ | WRITE | EDIT | st.just(ToolCall("", "submit", {}))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ANY = st.builds(ToolCall, st.just(""), TEXT.filter(bool), st.dictionaries(TEXT, VALUES, max_size=3))
PROSE = st.text("abc .,\n{}é", max_size=20)


def said(calls: object) -> list[tuple[str, object]]:
    assert isinstance(calls, tuple), calls
    return [(call.name, call.arguments) for call in calls]


@given(st.lists(ANY, min_size=1, max_size=3), PROSE)
def test_json_calls_come_back_whatever_they_hold(calls: list[ToolCall], prose: str) -> None:
    assert said(JSON.read(JSON.write(calls, prose))) == [(call.name, call.arguments) for call in calls]


@given(STANDARD, PROSE)
def test_fenced_calls_come_back_whatever_they_hold(call: ToolCall, prose: str) -> None:
    assert said(FENCED.read(FENCED.write([call], prose))) == [(call.name, call.arguments)]


@given(st.text('`sh \n<>=a{}"tol_c/', max_size=60))
def test_reading_never_breaks(text: str) -> None:
    for dialect in (JSON, FENCED):
        read = dialect.read(text)
        assert isinstance(read, Unreadable) or all(isinstance(call, ToolCall) for call in read)
        if isinstance(read, Unreadable):
            assert read.explanation and "\n" not in read.explanation


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (ToolCall("", "shell", {"command": "cat a.txt"}), "```sh\ncat a.txt\n```"),
        (ToolCall("", "read", {"path": "a.txt"}), "```read a.txt\n```"),
        (ToolCall("", "read", {"path": "a b", "offset": 3}), "```read a b\noffset=3\n```"),
        (ToolCall("", "read", {"path": "a "}), '```read "a "\n```'),
        (ToolCall("", "read", {"path": ""}), '```read ""\n```'),
        (ToolCall("", "write", {"path": "a", "content": "x\n"}), "```write a\nx\n```"),
        (ToolCall("", "write", {"path": "a", "content": "x"}), "```write -n a\nx\n```"),
        (ToolCall("", "write", {"path": "-n", "content": ""}), '```write "-n"\n```'),
        (ToolCall("", "write", {"path": "a", "content": "```\n"}), "````write a\n```\n````"),
        (ToolCall("", "edit", {"path": "a", "old": "x", "new": ""}), "```edit a\n<<<<\nx\n====\n>>>>\n```"),
        (
            ToolCall("", "edit", {"path": "a", "old": "====", "new": "y\n"}),
            "```edit a\n<<<<<\n====\n=====\ny\n\n>>>>>\n```",
        ),
        (ToolCall("", "submit", {}), "```submit\n```"),
    ],
)
def test_how_fenced_calls_look(call: ToolCall, text: str) -> None:
    assert FENCED.write([call]) == text
    assert said(FENCED.read(text)) == [(call.name, call.arguments)]


def test_how_json_calls_look() -> None:
    call = ToolCall("", "shell", {"command": "echo é"})
    text = '<tool_call>\n{"name": "shell", "arguments": {"command": "echo é"}}\n</tool_call>'
    assert JSON.write([call]) == text
    assert JSON.write([call, call], "Look:") == f"Look:\n{text}\n{text}"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('I see. <tool_call>{"name": "submit"}</tool_call> Done.', [("submit", {})]),
        ('<tool_call>\n{"name": "a", "parameters": {"x": 1}}', [("a", {"x": 1})]),
        (' {"name": "a", "arguments": {}}\n', [("a", {})]),
        ('<think>maybe <tool_call> or so</think>\n{"name": "a"}', [("a", {})]),
        ('hm, perhaps</think><tool_call>{"name": "a"}</tool_call>', [("a", {})]),
        (
            '<tool_call>{"name": "a", "arguments": {"x": "</think></tool_call>"}}</tool_call>',
            [("a", {"x": "</think></tool_call>"})],
        ),
    ],
)
def test_what_is_read_as_json_calls(text: str, calls: list[tuple[str, dict]]) -> None:
    read = JSON.read(text)
    assert said(read) == calls
    assert [call.id for call in read] == [f"call-{n}" for n in range(len(calls))]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("I would list the files.", "there is no call in this reply; write <tool_call>"),
        ('<tool_call>{"name": "a", }</tool_call>', "not valid JSON: Expecting property name"),
        ('<tool_call>{"name": "a", "arguments": {"x": "a\nb"}}</tool_call>', "is written \\n"),
        ("<tool_call></tool_call>", "not valid JSON"),
        ('<tool_call>{"name": "a"', "not valid JSON"),
        ('<tool_call>{"name": "a"}</tool>', "there must be </tool_call>, not '</tool>'"),
        ('{"name": "a"} and more', "between <tool_call> and </tool_call>"),
        ('<tool_call>["a"]</tool_call>', "must be a JSON object"),
        ('<tool_call>{"arguments": {}}</tool_call>', 'needs a "name"'),
        ('<tool_call>{"name": "a", "arguments": "{}"}</tool_call>', "must be a JSON object"),
        ('<tool_call>{"name": "a", "command": "ls"}</tool_call>', 'into "arguments"'),
        ('<tool_call>{"name": "a", "name": "b"}</tool_call>', "given twice"),
        ('<tool_call>{"name": "a", "arguments": {"x": NaN}}</tool_call>', "NaN"),
        ('<tool_call>{"name": "a", "arguments": {"x": "\\ud800"}}</tool_call>', "half a character"),
        ('<tool_call>{"name": "a", "arguments": ' + '{"x":' * 100_000, "nested too deeply"),
        ('<tool_call>{"name": "a", "arguments": {"x": ' + "9" * 5000 + "}}</tool_call>", "digits"),
        ('<think>I call <tool_call>{"name": "a"}</tool_call>', "reasoning was not ended"),
        ('<tool_call>{"name": "a"}</tool_call><tool_call>{', "not valid JSON"),
    ],
)
def test_an_unreadable_json_reply_is_explained(text: str, says: str) -> None:
    read = JSON.read(text)
    assert isinstance(read, Unreadable) and says in read.explanation
    assert len(read.explanation) < 200


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("Let me look.\n```bash\nls\n```\nThat lists.", ("shell", {"command": "ls"})),
        ("``` sh\nls\n```", ("shell", {"command": "ls"})),
        ("```sh\nls\r\n```\r", ("shell", {"command": "ls\r"})),
        ("An example:\n```python\nprint()\n```\nNow:\n```sh\nls\n```", ("shell", {"command": "ls"})),
        ("<think>```sh\nrm\n```</think>\n```sh\nls\n```", ("shell", {"command": "ls"})),
        ("```submit\nI am done.\n```", ("submit", {})),
        ("```write a\n  ```\n```", None),
        ('```read "a\\u0060"\n```', ("read", {"path": "a`"})),
    ],
)
def test_what_is_read_as_a_fenced_call(text: str, call: tuple[str, dict] | None) -> None:
    read = FENCED.read(text)
    if call is None:
        assert isinstance(read, Unreadable)
    else:
        assert said(read) == [call]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ls", "there is no block in this reply; write a line ```sh"),
        ("Run ```sh ls``` now", "there is no block"),
        ("```sh\nls", "is not closed"),
        ("```write a.md\n```python\nx\n```\n```", "begin and end it with ````"),
        ("```sh\nls\n```\n```sh\nrm\n```", "there are 2 blocks"),
        ("```python\nprint()\n```", "there is no tool 'python'"),
        ("```wirte a\nx\n```", "nearest: write"),
        ("```sh ls\n```", "the command goes on the lines below"),
        ("```read\n```", "its path is missing"),
        ("```write -n\nx\n```", "its path is missing"),
        ('```read "a\n```', "is not a JSON string"),
        ("```read a\nline 3\n```", "'line' is no option such as offset=11"),
        ("```edit a\nold\nnew\n```", "<<<<, the old text, ====, the new text, >>>>"),
        ("```edit a\n<<<<\nold\n```", "it needs a line ==== and a line >>>>"),
        ("```edit a\n<<<<\nx\n====\ny\n>>>>\n<<<<\n```", "nothing may follow >>>>"),
    ],
)
def test_an_unreadable_fenced_reply_is_explained(text: str, says: str) -> None:
    read = FENCED.read(text)
    assert isinstance(read, Unreadable) and says in read.explanation, read
    assert len(read.explanation) < 200


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [ToolCall("", "submit", {}), ToolCall("", "submit", {})],
        [ToolCall("", "deploy", {})],
        [ToolCall("", "shell", {})],
        [ToolCall("", "shell", {"command": None})],
        [ToolCall("", "shell", {"command": "ls", "timeout": 3})],
        [ToolCall("", "read", {"path": "a", "note": "two words"})],
        [ToolCall("", "submit", {"answer": 1})],
    ],
)
def test_what_has_no_fenced_form_is_not_written(calls: list[ToolCall]) -> None:
    with pytest.raises(ValueError, match=r"block|fenced"):
        FENCED.write(calls)


def test_tools_are_told_once_by_template_or_system_message() -> None:
    assert JSON.system(SPECS) == "" and JSON.template_tools(SPECS) == tuple(SPECS)
    telling = JsonDialect(template_shows_tools=False)
    assert telling.template_tools(SPECS) == ()
    lines = telling.system(SPECS).split("\n")
    assert [json.loads(line)["name"] for line in lines[1:-1]] == [spec.name for spec in SPECS]
    assert isinstance(telling.read(lines[-1]), Unreadable)  # the dots of the example are not a call
    assert telling.system([]) == ""


def test_every_fenced_form_that_is_told_can_be_read() -> None:
    told = FENCED.system(SPECS)
    for spec in SPECS:
        assert f"{spec.description}\n{FORMS[spec.name]}" in told
        assert said(FENCED.read(FORMS[spec.name]))[0][0] == spec.name
    assert FENCED.template_tools(SPECS) == ()
    assert "edit" not in FENCED.system([spec for spec in SPECS if spec.name == "shell"])


def test_a_tool_without_a_fenced_form_is_refused() -> None:
    with pytest.raises(Refusal, match="no form for the tool 'deploy'"):
        FENCED.system([*SPECS, ToolSpec("deploy", "", {})])


@pytest.mark.parametrize("dialect", [JSON, FENCED])
def test_an_answer_is_the_result_as_it_is(dialect: Dialect) -> None:
    call = ToolCall("call-0", "read", {"path": "a"})
    answer = dialect.answer(call, ToolResult("there is no a", error="not_found"))
    assert answer == Message("tool", "there is no a", call_id="call-0", name="read")


def test_dialects_have_names() -> None:
    assert isinstance(dialect_named("fenced"), FencedDialect)
    assert dialect_named("json").template_tools(SPECS)
    assert not dialect_named("json", template_shows_tools=False).template_tools(SPECS)
    with pytest.raises(Refusal) as refusal:
        dialect_named("jason")
    assert refusal.value.nearest == "json" and refusal.value.remedy
