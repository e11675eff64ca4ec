import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.tasks.workspace import Completed
from strop.tools.shell import Shell, clipped, shell_tool, told


def shell(workspace, command: str, seconds: float = 20, output_bytes: int = 1000):
    tool = shell_tool(str(workspace.root), seconds, output_bytes)
    return asyncio.run(tool.act(Shell(command=command), workspace))


def test_output_comes_as_it_is(workspace) -> None:
    (workspace.root / "a.txt").write_text(" one\n\ttwo\n")
    result = shell(workspace, "cat a.txt")
    assert (result.text, result.error, result.exit_code) == (" one\n\ttwo\n", None, 0)
    assert not result.ends_episode


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("true", "(no output)"),
        ("false", "(no output)\n[exit code 1]"),
        ("echo out; exit 3", "out\n[exit code 3]"),
        ("printf out; exit 3", "out\n[exit code 3]"),
        ("echo err >&2", "err\n"),
        ("echo out; echo err >&2", "out\n[stderr]\nerr\n"),
        ("printf out; printf err >&2; exit 2", "out\n[stderr]\nerr\n[exit code 2]"),
        ("no-such-command 2>/dev/null", "(no output)\n[exit code 127]"),
        ("printf 'a\\xffb'", "a\ufffdb"),
        ("kill -9 $$", "(no output)\n[exit code 137]"),
    ],
)
def test_what_a_model_reads(workspace, command: str, text: str) -> None:
    assert shell(workspace, command).text == text


def test_commands_start_in_the_tasks_folder_each_time(workspace) -> None:
    (workspace.root / "sub").mkdir()
    shell(workspace, "cd sub; export X=1")
    assert shell(workspace, 'pwd; echo "$X"').text == f"{workspace.root}\n\n"


def test_a_timeout_says_so_and_keeps_what_there_was(workspace) -> None:
    result = shell(workspace, "echo before; sleep 60; echo after", seconds=0.5)
    assert result.text == "before\n[timed out after 0.5 s and was ended]"
    assert result.error == "timeout"


def test_of_a_long_output_the_ends_are_kept_and_the_rest_counted(workspace) -> None:
    result = shell(workspace, "seq 1000", output_bytes=100)
    head, note, tail = result.text.split("\n[")[0], result.text.split("[")[1].split("]")[0], result.text
    assert head.startswith("1\n2\n3\n") and tail.endswith("\n999\n1000\n")
    whole = len("".join(f"{n}\n" for n in range(1, 1001)))
    assert note == f"... {whole - 100} bytes left out ..."
    assert workspace.commands[0].max_bytes == 200


def test_what_the_sandbox_left_out_is_counted_too() -> None:
    kept = b"a" * 100 + b"z" * 100
    completed = Completed(0, kept, b"", 0.1, omitted={"stdout": 5000})
    assert told(completed, 9, 100) == "a" * 50 + "\n[... 5100 bytes left out ...]\n" + "z" * 50
    assert told(completed, 9, 1000) == "a" * 100 + "\n[... 5000 bytes left out ...]\n" + "z" * 100


@given(st.text("aé中\U0001f600", max_size=60), st.integers(8, 40))
def test_no_character_is_cut(text: str, limit: int) -> None:
    shown = clipped(text.encode(), limit)
    assert "\ufffd" not in shown
    head, _, rest = shown.partition("\n[... ")
    if rest:
        left_out, _, tail = rest.partition(" bytes left out ...]\n")
        assert text.startswith(head) and text.endswith(tail)
        assert len((head + tail).encode()) + int(left_out) == len(text.encode())
        assert len((head + tail).encode()) <= limit
    else:
        assert shown == text


def test_a_nul_byte_is_refused_before_it_reaches_the_machine(workspace) -> None:
    result = shell(workspace, "printf a\0b")
    assert result.error == "bad_arguments" and "NUL" in result.text
    assert workspace.commands == []
