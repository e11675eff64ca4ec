import asyncio
import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.tasks.workspace import Command, Completed, File
from strop.tools.files import Edit, Read, Write, edit_tool, read_tool, write_tool


def read(workspace, path: str, output_bytes: int = 1000, **rest):
    tool = read_tool(str(workspace.root), output_bytes)
    return asyncio.run(tool.act(Read(path=path, **rest), workspace))


def write(workspace, path: str, content: str):
    return asyncio.run(write_tool(str(workspace.root)).act(Write(path=path, content=content), workspace))


def edit(workspace, path: str, old: str, new: str):
    tool = edit_tool(str(workspace.root))
    return asyncio.run(tool.act(Edit(path=path, old=old, new=new), workspace))


def put(workspace, path: str, data: bytes | str, mode: int = 0o644) -> None:
    file = workspace.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    file.chmod(mode)


def test_a_file_is_read_as_it_is(workspace) -> None:
    put(workspace, "sub/a b.txt", "\ufeff one\r\n\ttwo\nno newline")
    for path in ("sub/a b.txt", f"{workspace.root}/sub/a b.txt", "./sub/../sub/a b.txt"):
        result = read(workspace, path)
        assert (result.text, result.error) == ("\ufeff one\r\n\ttwo\nno newline", None)


def test_an_empty_file_says_so(workspace) -> None:
    put(workspace, "a", "")
    assert read(workspace, "a").text == "(empty file)"


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"offset": 2}, "two\nthree\n"),
        ({"limit": 1}, "one\n[lines 1 to 1 of 3; the next has offset 2]"),
        ({"offset": 2, "limit": 1}, "two\n[lines 2 to 2 of 3; the next has offset 3]"),
        ({"offset": 3, "limit": 9}, "three\n"),
        (
            {"limit": 2, "numbered": True},
            "     1\tone\n     2\ttwo\n[lines 1 to 2 of 3; the next has offset 3]",
        ),
    ],
)
def test_lines_are_chosen_and_how_to_go_on_is_said(workspace, asked, text: str) -> None:
    put(workspace, "a", "one\ntwo\nthree\n")
    assert read(workspace, "a", **asked).text == text


def test_an_offset_behind_the_end_is_explained(workspace) -> None:
    put(workspace, "a", "one\n")
    result = read(workspace, "a", offset=2)
    assert result.error == "bad_arguments" and "a has 1 lines" in result.text


@given(st.lists(st.text("aé\t \r", max_size=30), max_size=12), st.integers(8, 60))
def test_reading_on_gives_the_whole_file(lines: list[str], output_bytes: int) -> None:
    text = "\n".join(line[:2] for line in lines)

    class Held:
        async def read(self, path: str) -> bytes:
            return text.encode()

    tool, told, offset = read_tool("/app", output_bytes), "", 1
    while text:
        result = asyncio.run(tool.act(Read(path="a", offset=offset), Held())).text
        shown, note, rest = result.rpartition("[lines ")
        told += shown if note else result
        if not note:
            break
        offset = int(rest.split("the next has offset ")[1].rstrip("]"))
    assert told == text


def test_a_line_that_is_too_long_for_a_result_is_clipped(workspace) -> None:
    put(workspace, "a", "x" * 5000 + "\nend\n")
    result = read(workspace, "a", output_bytes=100)
    assert "bytes left out" in result.text and len(result.text) < 250
    assert result.text.endswith("[lines 1 to 1 of 2; the next has offset 2]")


@pytest.mark.parametrize("data", [b"a\0b", b"\xff\xfe", b"caf\xe9"])
def test_a_binary_file_is_not_read(workspace, data: bytes) -> None:
    put(workspace, "a.bin", data)
    result = read(workspace, "a.bin")
    assert result.error == "binary" and "shell" in result.text


def test_a_missing_file_brings_up_to_three_names_like_it(workspace) -> None:
    for name in ("notes.txt", "notes.md", "note.txt", "nodes.txt", "zebra"):
        put(workspace, f"sub/{name}", "")
    result = read(workspace, "sub/notes.tx")
    assert result.error == "not_found"
    assert result.text.startswith("there is no sub/notes.tx; nearest: notes.txt, ")
    assert result.text.count(",") == 2 and "zebra" not in result.text
    assert edit(workspace, "sub/notes.tx", "a", "b").text == result.text


def test_a_missing_folder_brings_no_names(workspace) -> None:
    assert read(workspace, "no/such").text == "there is no no/such"
    put(workspace, "file", "")
    assert read(workspace, "file/inside").error == "not_found"


def test_a_folder_is_no_file(workspace) -> None:
    (workspace.root / "sub").mkdir()
    for result in (read(workspace, "sub"), edit(workspace, "sub", "a", "b"), read(workspace, "")):
        assert result.error == "is_directory" and "folder" in result.text


def test_writing_makes_folders_and_replaces_the_whole(workspace) -> None:
    assert write(workspace, "new/deep/a.txt", "é\r\n").text == "wrote 4 bytes to new/deep/a.txt"
    assert (workspace.root / "new/deep/a.txt").read_bytes() == "é\r\n".encode()
    assert write(workspace, "new/deep/a.txt", "").error is None
    assert (workspace.root / "new/deep/a.txt").read_bytes() == b""


def test_mode_and_link_survive_writing_and_editing(workspace) -> None:
    put(workspace, "run.sh", "echo one\n", 0o755)
    (workspace.root / "link").symlink_to("run.sh")
    write(workspace, "link", "echo two\n")
    edit(workspace, "link", "two", "three")
    assert (workspace.root / "link").is_symlink()
    assert (workspace.root / "run.sh").read_text() == "echo three\n"
    assert (workspace.root / "run.sh").stat().st_mode & 0o777 == 0o755
    write(workspace, "fresh", "")
    assert (workspace.root / "fresh").stat().st_mode & 0o777 == 0o644


@given(st.binary(max_size=40), st.binary(max_size=40), st.text(max_size=8))
def test_an_edit_keeps_every_other_byte(before: bytes, after: bytes, new: str) -> None:
    old = "\tthe one place\r\n"
    held = {"/app/f": before + old.encode() + after}

    class Held:
        async def read(self, path: str) -> bytes:
            return held[path]

        async def run(self, command: Command) -> Completed:
            return Completed(0, b"644\n/app/f\n", b"", 0)

        async def write(self, files: list[File]) -> None:
            held.update({file.path: file.data for file in files})

    result = asyncio.run(edit_tool("/app").act(Edit(path="f", old=old, new=new), Held()))
    assert result.error is None
    assert held["/app/f"] == before + new.encode() + after


def test_an_edit_says_where_it_was(workspace) -> None:
    put(workspace, "a", "one\ntwo\nthree\n")
    assert edit(workspace, "a", "three", "3").text == "edited a at line 3"
    assert edit(workspace, "a", "one\ntwo\n", "").text == "edited a at line 1"
    assert (workspace.root / "a").read_text() == "3\n"


@pytest.mark.parametrize(
    ("data", "old", "new", "error", "says"),
    [
        ("a\n", "", "b", "empty_old", "empty"),
        ("a\n", "a", "a", "no_change", "nothing was changed"),
        ("a\nb\na\n", "a", "c", "ambiguous", "at lines 1, 3"),
        ("aaa\n", "aa", "b", "ambiguous", "at lines 1, 1"),
        ("x\n" * 30, "x", "y", "ambiguous", "9, 10 and on"),
        ("\tx = 1\n", "    x = 1", "y", "no_match", "line 1, where character 1 is '\\t' and not ' '"),
        ("a\r\nb\r\n", "a\nb\n", "c", "no_match", "'\\r'"),
    ],
)
def test_an_edit_that_names_no_single_place_changes_nothing(
    workspace, data: str, old: str, new: str, error: str, says: str
) -> None:
    put(workspace, "a", data)
    result = edit(workspace, "a", old, new)
    assert result.error == error and says in result.text
    assert (workspace.root / "a").read_bytes() == data.encode()


class Failing:
    """A workspace whose files cannot be opened for a given reason."""

    def __init__(self, error: OSError) -> None:
        self.error = error

    async def run(self, command: Command) -> Completed:
        return Completed(1, b"", b"", 0.0)

    async def read(self, path: str) -> bytes:
        raise self.error

    async def write(self, files: list[File]) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "disk_full"),
        (OSError(errno.EDQUOT, "Quota exceeded"), "disk_full"),
        (PermissionError("no"), "permission"),
        (OSError(errno.EROFS, "Read-only file system"), "permission"),
        (OSError("something else"), "permission"),
        (IsADirectoryError("folder"), "is_directory"),
        (FileNotFoundError("none"), "not_found"),
        (OSError(errno.EINVAL, "not a regular file"), "not_regular"),
        (OSError(errno.EFBIG, "larger than 9 bytes"), "too_large"),
        (OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)), "bad_arguments"),
    ],
)
def test_whatever_stops_a_file_from_opening_is_a_result(error: OSError, code: str) -> None:
    tools = (read_tool("/app", 100), Read(path="{x}")), (write_tool("/app"), Write(path="{x}", content=""))
    for tool, arguments in tools:
        result = asyncio.run(tool.act(arguments, Failing(error)))
        assert result.error == code and result.text
    refused = asyncio.run(read_tool("/app", 100).act(Read(path="{x}"), Failing(OSError(errno.EROFS, "ro"))))
    assert refused.text == "{x} cannot be opened: ro"


def test_a_nul_byte_in_a_path_is_refused(workspace) -> None:
    for result in (read(workspace, "a\0b"), write(workspace, "a\0b", ""), edit(workspace, "a\0b", "a", "b")):
        assert result.error == "bad_arguments" and "NUL" in result.text
    assert workspace.commands == []
