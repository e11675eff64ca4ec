import math
import xml.etree.ElementTree as ElementTree

import pytest

from strop.report.charts import (
    Curve,
    Frame,
    interval_chart,
    plot,
    quantity_chart,
    reward_chart,
    staleness_chart,
    ticks,
    trailing,
)
from strop.report.run_report import Step
from strop.stats.interval import Difference, Estimate, Interval
from strop.stats.proportions import Rate

STEPS = tuple(Step(n, 0.5 + 0.01 * n, 8, staleness_mean=1.0, staleness_max=2.0) for n in range(1, 31))


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def positions(svg: str, kind: str, *names: str) -> list[tuple[float, ...]]:
    return [tuple(float(element.attrib[name]) for name in names) for element in drawn(svg).iter(kind)]


def test_a_dot_for_every_step_in_its_place():
    svg = reward_chart(STEPS, 760)
    dots = positions(svg, "circle", "cx", "cy")
    assert len(dots) == len(STEPS)
    xs, ys = zip(*dots, strict=True)
    assert list(xs) == sorted(xs)
    assert list(ys) == sorted(ys, reverse=True)
    assert drawn(svg).attrib["aria-label"] == "Mean reward by step"
    assert next(drawn(svg).iter("title")).text == "mean reward of step 1: 0.51"


def test_rewards_between_zero_and_one_are_drawn_between_zero_and_one():
    labels = [text.text for text in drawn(reward_chart(STEPS, 760)).iter("text")]
    assert {"0", "1"} <= set(labels)
    wider = reward_chart([Step(1, -0.5, 8), Step(2, 1.5, 8)], 760)
    assert {"-0.5", "1.5"} & {text.text for text in drawn(wider).iter("text")}


@pytest.mark.parametrize("width", [760, 350])
def test_nothing_is_drawn_outside_the_frame(width):
    for svg in (reward_chart(STEPS, width), staleness_chart(STEPS, 4, width)):
        height = float(drawn(svg).attrib["height"])
        for kind in ("polyline", "polygon"):
            for element in drawn(svg).iter(kind):
                points = [tuple(map(float, point.split(","))) for point in element.attrib["points"].split()]
                assert all(0 <= x <= width and 0 <= y <= height for x, y in points)


def test_the_bound_is_drawn_where_it_is():
    svg = staleness_chart(STEPS, 4, 760)
    (bound,) = [line for line in drawn(svg).iter("line") if line.attrib["class"] == "bound"]
    grid = [line for line in drawn(svg).iter("line") if line.attrib["class"] == "tick"]
    assert float(bound.attrib["y1"]) == min(float(line.attrib["y1"]) for line in grid)
    assert "bound" not in staleness_chart(STEPS, None, 760)


def test_a_gap_breaks_the_line():
    svg = quantity_chart(
        "Loss", [(1, 0.1), (2, 0.2), (3, None), (4, math.nan), (5, 0.3), (6, 0.1), (7, None), (8, 1)]
    )
    assert len(list(drawn(svg).iter("polyline"))) == 2
    assert len(list(drawn(svg).iter("circle"))) == 1


def test_nothing_to_draw_is_nothing():
    assert quantity_chart("Loss", []) == ""
    assert quantity_chart("Loss", [(1, None)]) == ""
    assert reward_chart([], 760) == ""


def test_one_step_and_constant_values_can_be_drawn():
    for steps in (STEPS[:1], (Step(1, 0.0, 8), Step(2, 0.0, 8))):
        assert "nan" not in reward_chart(steps, 350)
        assert "nan" not in staleness_chart(steps, None, 350)


def test_titles_are_escaped():
    svg = plot([Curve([(1, 1)], "accent", dots=True, label="<b>&")], [], Frame('<"x">'))
    assert drawn(svg).attrib["aria-label"] == '<"x">'
    assert "<b>" not in svg


def test_intervals_on_a_common_scale():
    svg = interval_chart([(Rate(0, 10).estimate(), "before"), (Rate(10, 10).estimate(), "after")], 200)
    before, after = positions(svg, "circle", "cx", "cy")
    assert before[0] == 5 and after[0] == 195
    whiskers = positions(svg, "line", "x1", "x2")[-2:]
    assert all(low <= dot[0] <= high for (low, high), dot in zip(whiskers, (before, after), strict=True))
    assert drawn(svg).attrib["aria-label"] == "0.00 [0.00, 0.28] n=10; 1.00 [0.72, 1.00] n=10"


def test_differences_have_zero_in_the_middle():
    svg = interval_chart([(Difference(0.0, Interval(-1, 1), 4), "after")], 200)
    assert positions(svg, "circle", "cx") == [(100,)]


def test_an_estimate_of_nothing_is_not_drawn():
    svg = interval_chart([(Estimate(math.nan, Interval(0, 1), 0), "after")])
    assert positions(svg, "circle", "cx") == []


def test_the_trailing_mean_and_its_interval():
    means = trailing([0.0, 1.0, 0.5, 0.5], window=3)
    assert [mean.value for mean in means] == [0.0, 0.5, 0.5, pytest.approx(2 / 3)]
    assert [mean.n for mean in means] == [1, 2, 3, 3]
    half = 4.302652729911275 * 0.5 / 3**0.5  # Student's quantile with 2 degrees of freedom
    assert means[2].interval.high == pytest.approx(0.5 + half)


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0, 1, 5, [0, 0.5, 1]),
        (0, 1, 6, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (1, 60, 8, [10, 20, 30, 40, 50, 60]),
        (-0.04, 0, 4, [-0.04, -0.02, 0]),
        (0, 4300, 3, [0, 2000, 4000]),
        (3, 3, 5, [3]),
    ],
)
def test_ticks_are_round(low, high, most, expected):
    assert ticks(low, high, most) == pytest.approx(expected)
    assert len(ticks(low, high, most)) <= most
