import re
from dataclasses import replace
from html.parser import HTMLParser

import jinja2
import pytest

from strop.errors import Refusal
from strop.evaluation.comparison import claim
from strop.report import pages
from strop.report.pages import render_page, write_page
from strop.report.run_report import Evaluation
from strop.stats.proportions import Rate

VOID = {"meta", "img"}


class Page(HTMLParser):
    """A strict reader: every element is closed in order; keeps the elements and the text of table rows."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        self.text.append(data)
        if self.rows and "tr" in self.open:
            self.rows[-1] += f" {data.strip()}"


@pytest.fixture(scope="module")
def html(report) -> str:
    return render_page(report)


def test_the_page_is_well_formed(html):
    page = Page(html)
    assert html.startswith("<!doctype html>")
    assert {"script", "img", "link", "iframe", "object", "form"} & {tag for tag, _ in page.elements} == set()


def test_every_stratum_of_every_evaluation_has_its_row(html, report):
    rows = [row.split() for row in Page(html).rows]
    for evaluation in report.evaluations:
        for table in evaluation.result.tables:
            for row in table.rows:
                figures = (row.before.estimate(), row.after.estimate(), row.difference)
                cells = " ".join(f"{estimate.figure} {estimate.range}" for estimate in figures)
                assert f"{row.stratum} {row.difference.n} {cells}".split() in rows


def test_every_other_fact_is_there(html, report):
    text = " ".join(" ".join(Page(html).text).split())
    for name, value in report.facts.items():
        assert f"{name} {value}" in text
    for stage in report.stages:
        assert f"{stage.name} {stage.dispatched:,} {stage.scored:,} {stage.truncated}" in text
    for evaluation in report.evaluations:
        assert evaluation.title in text and evaluation.about in text
        assert claim(evaluation.result) in text
        for estimate in (evaluation.result.worst, evaluation.result.best):
            assert not evaluation.result.unpaired or str(estimate) in text
    for trace in report.transcripts:
        assert trace.task in text
    assert 'name = "quickstart"' in text
    assert "[12,000 characters left out]" in text


def test_charts_have_a_dot_for_every_step(html, report):
    dots = [attrs for tag, attrs in Page(html).elements if tag == "circle" and attrs["class"] == "faint dot"]
    assert len(dots) == 2 * len(report.steps), "once for wide screens and once for narrow ones"


def test_nothing_comes_from_elsewhere(html):
    page = Page(html)
    assert re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]+|url\(|@import|javascript:", html) == []
    assert {"src", "href", "srcset", "action", "onclick", "onerror"} & {
        n for _, a in page.elements for n in a
    } == set()
    assert "default-src 'none'" in html


def test_hostile_text_is_text(report, renamed, make_trace, hostile):
    trace = make_trace(f"shell/{hostile}", 1.0, tool=hostile)
    html = render_page(
        renamed(
            name=hostile,
            outcome=hostile,
            facts={hostile: hostile},
            config=hostile,
            stages=(replace(report.stages[0], name=hostile, faults={hostile: 1}),),
            steps=tuple(replace(step, seconds={hostile: {hostile: 1.0}}) for step in report.steps),
            evaluations=(Evaluation(hostile, hostile, report.evaluations[0].result),),
            transcripts=(trace,),
        )
    )
    page = Page(html)
    assert "<script" not in html and "<img" not in html
    assert {"script", "img"} & {tag for tag, _ in page.elements} == set()
    assert "\x1b" not in html
    html.encode()
    assert "<script>alert(1)</script><img src=x onerror=alert(1)>" in "".join(page.text)


def test_an_evaluation_of_one_arm(report, renamed):
    summary = report.evaluations[0].result.before
    page = Page(render_page(renamed(kind="evaluation", evaluations=(Evaluation("Seeds", "now", summary),))))
    text = " ".join(" ".join(page.text).split())
    assert f"{summary.headline.figure} {summary.headline.range} n={summary.headline.n}" in text
    rows = [row.split() for row in page.rows]
    for table in summary.tables:
        for row in table.rows:
            rate = row.rate.estimate()
            line = f"{row.stratum} {row.rate.total} {row.unscored} {rate.figure} {rate.range}"
            assert line.split() in rows


@pytest.mark.parametrize("missing", ["steps", "evaluations", "stages", "transcripts", "facts", "config"])
def test_what_is_empty_is_left_out(renamed, report, missing):
    page = Page(render_page(renamed(**{missing: type(getattr(report, missing))()})))
    headings = {"steps": "Learning", "stages": "Every episode", "transcripts": "Transcripts"}
    headings |= {"config": "Recipe", "evaluations": "Held-out seeds", "facts": "recipe"}
    assert headings[missing] not in page.text


def test_a_single_step_can_be_shown(renamed, report):
    Page(render_page(renamed(steps=report.steps[:1], staleness_bound=None)))


@pytest.mark.parametrize("source", ["{{ value }}", "{{ value | inline }}", "{{ value | estimate }}"])
def test_a_bare_fraction_cannot_be_rendered(source):
    template = pages._templates().from_string(source)
    with pytest.raises(TypeError, match=r"0\.62"):
        template.render(value=0.62)


def test_a_rate_is_rendered_with_all_that_belongs_to_it():
    assert (
        pages._templates().from_string("{{ value | inline }}").render(value=Rate(248, 400))
        == "0.62 [0.57, 0.67] n=400"
    )


def test_a_name_that_is_missing_is_an_error():
    with pytest.raises((jinja2.UndefinedError, TypeError)):
        pages._templates().from_string("{{ nothing }}").render()


def test_the_page_is_written_whole_and_replaces_an_older_one(report, html, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    write_page(report, path)
    assert path.read_text(encoding="utf-8") == html
    assert path.stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_page_that_cannot_be_written_is_refused(report, tmp_path):
    with pytest.raises(Refusal, match="cannot write the report"):
        write_page(report, tmp_path / "missing" / "report.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(Refusal, match="cannot write the report"):
        write_page(report, tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
