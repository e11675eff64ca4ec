"""Where a file comes closest to a text that it does not hold, and how it differs there.

An edit that names no place is repeated blindly unless it is told why. The line that is most like the first
one that does not fit is found, and in it the first character that differs. The work is bounded whatever
the file holds.
"""

import difflib
import re

LINES, WIDTH = 2000, 400
"""How much of a file is searched: its first lines, and the beginning of each."""
WANTED = 40
"""How many lines of the text are looked for."""
AROUND = 30
"""How many characters before and after a difference are shown."""


def closest(data: bytes, old: bytes) -> str:
    r"""A clause such as ``closest is line 3, where character 5 is '\t' and not ' ': '\tx = 1'``."""
    lines = [line[:WIDTH] for line in data.decode("utf-8", "replace").split("\n")[:LINES]]
    wanted = [line[:WIDTH] for line in old.decode("utf-8", "replace").split("\n")[:WANTED]]
    if not data:
        return "the file is empty"
    fits = [_fitting(lines, at, wanted) for at in range(len(lines))]
    most = max(fits)
    if most == len(wanted):
        return f"its first {most} lines are like those from line {fits.index(most) + 1} on"
    candidates = [at + most for at, fit in enumerate(fits) if fit == most and at + most < len(lines)]
    if not candidates:
        return f"the file ends after line {len(lines)}, where old goes on with {wanted[most][:AROUND]!r}"
    words = set(re.findall(r"\w+", wanted[most]))
    best = max(candidates, key=lambda at: _likeness(lines[at], wanted[most], words))
    return f"closest is line {best + 1}, where {_difference(lines[best], wanted[most])}"


def _fitting(lines: list[str], at: int, wanted: list[str]) -> int:
    """How many lines of `wanted`, which may begin and end inside a line, are there from line `at` on."""
    last = len(wanted) - 1
    for number, line in enumerate(wanted):
        if at + number >= len(lines):
            return number
        found = lines[at + number]
        whole = line == found
        begun = number == 0 < last and found.endswith(line)
        ended = number == last > 0 and found.startswith(line)
        if not (whole or begun or ended):
            return number
    return len(wanted)


def _likeness(found: str, wanted: str, words: set[str]) -> int:
    """Higher for a line more like `wanted`, whatever its blanks."""
    shared = sum(len(word) for word in words.intersection(re.findall(r"\w+", found)))
    tight = ["".join(found.split()), "".join(wanted.split())]
    same = WIDTH if tight[0] == tight[1] else 0
    return same + 2 * shared + _common(*tight) + _common(*(line[::-1] for line in tight))


def _difference(found: str, wanted: str) -> str:
    match = difflib.SequenceMatcher(None, found, wanted, autojunk=False).find_longest_match()
    begin = max(0, match.a - match.b)
    same = _common(found[begin:], wanted)
    at = begin + same
    has = repr(found[at]) if at < len(found) else "the end of the line"
    old = repr(wanted[same]) if same < len(wanted) else "the end of the line"
    blanks = "; only blanks differ" if found.split() == wanted.split() else ""
    around = found[max(0, at - AROUND) : at + AROUND]
    return f"character {at + 1} is {has} and not {old}: {around!r}{blanks}"


def _common(one: str, other: str) -> int:
    """How many characters two texts share from their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
