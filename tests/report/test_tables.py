import io

import pytest
from rich.console import Console

from strop.evaluation.comparison import Comparison
from strop.report.run_report import Evaluation
from strop.report.tables import evaluation_view, run_view, step_table


def printed(view) -> str:
    output = io.StringIO()
    Console(width=140, file=output).print(view)
    return output.getvalue()


def test_a_comparison_has_a_row_for_every_stratum_with_its_intervals(report):
    for evaluation in report.evaluations:
        text = printed(evaluation_view(evaluation))
        assert evaluation.title in text
        for table in evaluation.result.tables:
            if table.coordinate not in ("type", "difficulty", "steps"):
                continue
            for row in table.rows:
                (line,) = [
                    line
                    for line in text.splitlines()
                    if line.split()[:2] == [row.stratum, str(row.difference.n)]
                ]
                for estimate in (row.before.estimate(), row.after.estimate(), row.difference):
                    assert f"{estimate.figure} {estimate.range}" in line


def test_other_cuts_on_request(report):
    assert "domain" not in printed(evaluation_view(report.evaluations[0]))
    assert "domain" in printed(evaluation_view(report.evaluations[0], ("domain",)))


def test_unscored_and_truncated_are_said(report):
    result = report.evaluations[0].result
    assert isinstance(result, Comparison)
    text = " ".join(printed(evaluation_view(report.evaluations[0])).split())
    assert (
        f"{result.before.unscored} attempts before unscored (sandbox:lost {result.before.unscored})" in text
    )
    assert f"had all failed {result.before.worst}, had all passed {result.before.best}." in text
    assert f"Cut short by their token budget after: {result.after.truncated}" in text
    assert f"at worst {result.worst}, at best {result.best}." in text


def test_one_arm_alone(report):
    summary = report.evaluations[0].result.after
    text = printed(evaluation_view(Evaluation("Held-out seeds", "after", summary)))
    assert f"Pass rate, mean over cells: {summary.headline}; pooled: {summary.overall}" in text
    assert "permissions" in text


def test_the_last_steps(report):
    text = printed(step_table(report.steps, last=3))
    assert "the last 3 of 60 steps" in text
    assert [line.split()[0] for line in text.splitlines() if "n=64" in line] == ["58", "59", "60"]


def test_a_step_that_trained_on_nothing(report):
    text = printed(step_table(report.steps[19:20]))
    assert " - " in text


def test_the_whole_run(report):
    text = printed(run_view(report))
    for expected in (
        "training run quickstart-1",
        "9f3a61c0de12",
        "sandbox parent",
        "grader:timeout 3",
        "3,840",
    ):
        assert expected in text


@pytest.mark.parametrize("missing", ["steps", "evaluations", "stages", "transcripts"])
def test_what_is_empty_is_left_out(renamed, missing):
    assert "quickstart-1" in printed(run_view(renamed(**{missing: ()})))
