"""Text from models, tools and measurements, made fit to be shown.

What a model or a tool wrote may hold anything, terminal escapes and half characters included. It is shown as
it is, but it can move no cursor, reverse no line and break no encoding.
"""

import statistics
from collections.abc import Sequence
from datetime import UTC, datetime

_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_CONTROLS |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_CONTROLS |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)
_CONTROLS |= dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)


def printable(text: str) -> str:
    r"""`text` with control characters made visible (escape becomes ␛), newlines and tabs kept.

    Carriage returns before a newline go; what reverses the writing direction and half surrogates become �.
    """
    return text.replace("\r\n", "\n").translate(_CONTROLS)


def clipped(text: str, limit: int) -> str:
    """The head and the tail of a long text, and between them how many characters were left out."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n[{count(len(text) - limit)} characters left out]\n{text[-tail:]}"


def count(number: int) -> str:
    """Example: ``12,345``."""
    return f"{number:,}"


def duration(seconds: float) -> str:
    """Example: ``4 ms``, ``0.8 s``, ``42 s``, ``7 min 5 s``, ``2 h 10 min``."""
    if 0 < seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.001 else "under 1 ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def moment(seconds: float) -> str:
    """A time in seconds since 1970 as a date and a time of day, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def figures(value: float) -> str:
    """A measured quantity to three figures. Example: ``4,120``, ``41.2``, ``0.0412``."""
    if abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def spread(values: Sequence[float]) -> str:
    """The median, and the middle half that it stands for. Example: ``4,120 (3,900 to 4,300)``."""
    if len(values) < 2:
        return figures(values[0]) if values else "-"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{figures(middle)} ({figures(low)} to {figures(high)})"
