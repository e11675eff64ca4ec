import pytest

from strop.tools.nearby import LINES, WANTED, closest


@pytest.mark.parametrize(
    ("data", "old", "says"),
    [
        ("a = 1\n\tb = 2\n", "    b = 2", r"line 2, where character 1 is '\t' and not ' '"),
        ("a = 1\n\tb = 2\n", "    b = 2", "only blanks differ"),
        ("one\r\ntwo\r\n", "one\ntwo", r"line 1, where character 4 is '\r' and not the end of the line"),
        ("call(first)\ncall(second)\n", "call(secund)", "line 2, where character 9 is 'o' and not 'u'"),
        ("x = call(thing)\ny = 2\n", "call(thong)", "line 1, where character 12 is 'i' and not 'o'"),
        ("if a:\n    go()\nelse:\n", "if a:\n    stop()", "line 2, where"),
        ("a\nb\nc\na\nb\nd\n", "a\nb\ne", "line 3, where character 1 is 'c' and not 'e'"),
        ("a\nb", "a\nb\nc", "the file ends after line 2, where old goes on with 'c'"),
        ("short", "shorter", "line 1, where character 6 is the end of the line and not 'e'"),
        ("", "x", "the file is empty"),
    ],
)
def test_the_first_difference_is_named(data: str, old: str, says: str) -> None:
    assert says in closest(data.encode(), old.encode())


def test_bytes_that_are_no_text_are_no_obstacle() -> None:
    assert "line 2" in closest(b"\xff\xfe\x00\nhello word\n", b"hello world")


def test_only_so_much_is_searched() -> None:
    far = "other\n" * LINES
    assert f"line {LINES + 1}," not in closest(f"{far}exactly this\n".encode(), b"exactly that")
    long = "same\n" * (WANTED + 1)
    assert closest(f"first\n{long}".encode(), f"{long}differs".encode()) == (
        f"its first {WANTED} lines are like those from line 2 on"
    )
