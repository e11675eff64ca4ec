"""Charts as SVG text, drawn by hand.

Colours and fonts come from the classes of the page's stylesheet, so one drawing serves light and dark. A
chart is drawn at the width at which it is shown, and never scaled down to where its labels are too small. An
axis starts at zero wherever its quantity can be zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from scipy.special import stdtrit

from strop.report.run_report import Step
from strop.report.text import figures
from strop.stats.interval import LEVEL, Difference, Estimate, Interval

WINDOW = 10
"""Steps of the trailing mean in a reward curve."""


@dataclass(frozen=True)
class Curve:
    """Points in the order of x; `tone` is a class of the stylesheet, None in y is a gap."""

    points: Sequence[tuple[float, float | None]]
    tone: str
    dots: bool = False
    label: str = ""
    """What a point is, for the tooltip of its dot."""


@dataclass(frozen=True)
class Band:
    """A shaded range: (x, low, high) in the order of x."""

    points: Sequence[tuple[float, float, float]]
    tone: str


@dataclass(frozen=True)
class Frame:
    """Size in pixels and a name; `top` fixes the end of the y axis, `bound` is a dashed line."""

    title: str
    width: int = 370
    height: int = 150
    top: float | None = None
    bound: float | None = None


_LEFT, _RIGHT, _ABOVE, _BELOW = 44, 12, 12, 24


def plot(curves: Sequence[Curve], bands: Sequence[Band], frame: Frame) -> str:
    """Lines, dots and bands over a common x axis of whole steps, as one ``<svg>``."""
    ys = [y for curve in curves for _, y in curve.points if y is not None and math.isfinite(y)]
    ys += [y for band in bands for _, low, high in band.points for y in (low, high)]
    xs = [x for curve in curves for x, _ in curve.points]
    if not xs or not ys:
        return ""
    scale = _Scale(frame, (min(xs), max(xs)), _limits(ys, frame))
    parts = [_grid(scale, frame)]
    parts += [_band(band, scale) for band in bands]
    parts += [_dots(curve, scale) if curve.dots else _line(curve, scale) for curve in curves]
    if frame.bound is not None:
        y = scale.y(frame.bound)
        parts.append(f'<line class="bound" x1="{_LEFT}" x2="{frame.width - _RIGHT}" y1="{y}" y2="{y}"/>')
    return _svg(frame.title, frame.width, frame.height, "".join(parts))


def reward_chart(steps: Sequence[Step], width: int) -> str:
    """Each step's mean reward as a dot, the trailing mean as a line, its interval over steps as a band."""
    means = trailing([step.reward for step in steps])
    numbers = [step.step for step in steps]
    dots = Curve([(s.step, s.reward) for s in steps], "faint", dots=True, label="mean reward of step")
    line = Curve([(x, e.value) for x, e in zip(numbers, means, strict=True)], "accent")
    band = [
        (float(x), mean.interval.low, mean.interval.high)
        for x, mean in zip(numbers, means, strict=True)
        if mean.n >= WINDOW // 2
    ]
    within = all(0 <= step.reward <= 1 for step in steps)
    frame = Frame("Mean reward by step", width, 230, top=1.0 if within else None)
    return plot([dots, line], [Band(_cropped(band, within), "accent")], frame)


def staleness_chart(steps: Sequence[Step], bound: int | None, width: int) -> str:
    """The mean and the largest staleness of what each step trained on, under the bound that was set."""
    curves = [
        Curve([(s.step, s.staleness_max) for s in steps], "faint"),
        Curve([(s.step, s.staleness_mean) for s in steps], "accent"),
    ]
    return plot(curves, [], Frame("Staleness by step", width, 110, bound=bound))


def quantity_chart(title: str, points: Sequence[tuple[float, float | None]], width: int = 370) -> str:
    """One measured quantity by step."""
    return plot([Curve(points, "accent")], [], Frame(title, width))


def interval_chart(estimates: Sequence[tuple[Estimate, str]], width: int = 190) -> str:
    """Estimates with a tone each, one under the other, on a scale from 0 to 1 (differences: -1 to 1)."""
    low = -1.0 if any(isinstance(estimate, Difference) for estimate, _ in estimates) else 0.0
    height = 10 + 9 * (len(estimates) - 1)

    def across(value: float) -> float:
        return round(5 + (width - 10) * (value - low) / (1 - low), 1)

    parts = [
        f'<line class="tick" x1="{across(mark)}" x2="{across(mark)}" y1="0" y2="{height}"/>'
        for mark in ((0.0, 0.5, 1.0) if low == 0 else (-1.0, 0.0, 1.0))
    ]
    for row, (estimate, tone) in enumerate(estimates):
        if estimate.n == 0:
            continue
        y = 5 + 9 * row
        start, end = across(max(low, estimate.interval.low)), across(min(1.0, estimate.interval.high))
        parts.append(f'<line class="{tone} whisker" x1="{start}" x2="{end}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="{tone} dot" cx="{across(estimate.value)}" cy="{y}" r="3"/>')
    label = "; ".join(str(estimate) for estimate, _ in estimates)
    return _svg(label, width, height, "".join(parts))


def trailing(values: Sequence[float], window: int = WINDOW) -> list[Estimate]:
    """At each step the mean of the last steps, with Student's interval over those steps."""
    means = []
    for end in range(1, len(values) + 1):
        recent = values[max(0, end - window) : end]
        n, mean = len(recent), math.fsum(recent) / len(recent)
        variance = math.fsum((value - mean) ** 2 for value in recent) / (n - 1) if n > 1 else 0.0
        half = float(stdtrit(n - 1, 0.5 + LEVEL / 2)) * math.sqrt(variance / n) if n > 1 else 0.0
        means.append(Estimate(mean, Interval(mean - half, mean + half), n))
    return means


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most `most` round numbers (1, 2 or 5 times a power of ten apart) from `low` to `high`."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if (high - low) / (power * factor) < most)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) + 0.0 for index in range(first, math.floor(high / step + 1e-9) + 1)]


class _Scale:
    """Values to pixels, with a tenth of a pixel to spare."""

    def __init__(self, frame: Frame, xs: tuple[float, float], ys: tuple[float, float]) -> None:
        self.frame, self.xs, self.ys = frame, xs, ys

    def x(self, value: float) -> float:
        low, high = self.xs
        share = (value - low) / (high - low) if high > low else 0.5
        return round(_LEFT + share * (self.frame.width - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        low, high = self.ys
        return round(_ABOVE + (high - value) / (high - low) * (self.frame.height - _ABOVE - _BELOW), 1)


def _limits(ys: Sequence[float], frame: Frame) -> tuple[float, float]:
    low = min(0.0, *ys)
    high = frame.top if frame.top is not None else max(0.0, *ys, frame.bound or 0.0)
    return (low, high) if high > low else (low, low + 1.0)


def _grid(scale: _Scale, frame: Frame) -> str:
    parts = []
    for value in ticks(*scale.ys, most=max(3, frame.height // 40)):
        y = scale.y(value)
        parts.append(f'<line class="tick" x1="{_LEFT}" x2="{frame.width - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="end" x="{_LEFT - 7}" y="{y + 3.5:.1f}">{figures(value)}</text>')
    for value in ticks(*scale.xs, most=max(3, frame.width // 70)):
        if value == round(value):
            x, y = scale.x(value), frame.height - 6
            parts.append(f'<text class="middle" x="{x}" y="{y}">{value:.0f}</text>')
    return "".join(parts)


def _line(curve: Curve, scale: _Scale) -> str:
    """The unbroken stretches of a curve; a stretch of a single point is a dot."""
    stretches: list[list[tuple[float, float]]] = [[]]
    for x, y in curve.points:
        if y is not None and math.isfinite(y):
            stretches[-1].append((scale.x(x), scale.y(y)))
        elif stretches[-1]:
            stretches.append([])
    parts = []
    for stretch in stretches:
        if len(stretch) == 1:
            parts.append(
                f'<circle class="{curve.tone} dot" cx="{stretch[0][0]}" cy="{stretch[0][1]}" r="2"/>'
            )
        elif stretch:
            path = " ".join(f"{x},{y}" for x, y in stretch)
            parts.append(f'<polyline class="{curve.tone} line" points="{path}"/>')
    return "".join(parts)


def _dots(curve: Curve, scale: _Scale) -> str:
    return "".join(
        f'<circle class="{curve.tone} dot" cx="{scale.x(x)}" cy="{scale.y(y)}" r="2.2">'
        f"<title>{escape(curve.label)} {x:g}: {figures(y)}</title></circle>"
        for x, y in curve.points
        if y is not None and math.isfinite(y)
    )


def _band(band: Band, scale: _Scale) -> str:
    over = [f"{scale.x(x)},{scale.y(high)}" for x, _, high in band.points]
    under = [f"{scale.x(x)},{scale.y(low)}" for x, low, _ in reversed(band.points)]
    return f'<polygon class="{band.tone} band" points="{" ".join(over + under)}"/>' if over else ""


def _cropped(band: Sequence[tuple[float, float, float]], within: bool) -> list[tuple[float, float, float]]:
    """The band, cut to [0, 1] where every reward lies within."""
    return [(x, max(0.0, low), min(1.0, high)) if within else (x, low, high) for x, low, high in band]


def _svg(title: str, width: int, height: int, body: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title)}">{body}</svg>'
    )
