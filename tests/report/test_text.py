import pytest

from strop.report.text import clipped, count, duration, figures, moment, printable, spread


def test_printable_moves_no_cursor_and_breaks_no_encoding():
    hostile = "a\x1b[2Jb\x07\x00\r\x7f\x9b\u202eevil\u2066\ud800\tc\r\nd\n"
    assert printable(hostile) == "a␛[2Jb␇␀␍␡��evil��\tc\nd\n"
    assert printable(hostile).encode()
    assert printable("Grüße ✓ 好") == "Grüße ✓ 好"


def test_what_is_left_out_is_counted():
    text = clipped("h" * 900 + "t" * 900, 900)
    assert text == "h" * 600 + "\n[900 characters left out]\n" + "t" * 300
    assert clipped("short", 900) == "short"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.0004, "under 1 ms"),
        (0.0041, "4 ms"),
        (0.82, "0.8 s"),
        (42.4, "42 s"),
        (59.7, "1 min 0 s"),
        (425, "7 min 5 s"),
        (7800, "2 h 10 min"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_numbers():
    assert count(1234567) == "1,234,567"
    assert [figures(x) for x in (4123.4, 41.23, 0.04123, 0.0, -1234.0)] == [
        "4,120",
        "41.2",
        "0.0412",
        "0",
        "-1,230",
    ]
    assert moment(1_767_225_600) == "2026-01-01 00:00 UTC"
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == "3 (2 to 4)"
    assert spread([7.0]) == "7"
    assert spread([]) == "-"
