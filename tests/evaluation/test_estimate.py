import pytest

from strop.evaluation.estimate import Row, summarise
from strop.evaluation.strata import COORDINATES, Outcome
from strop.stats.proportions import Rate
from strop.tasks.task import Strata


def outcomes(*cells: tuple[str, str, int, str]) -> list[Outcome]:
    """Rows from (family, difficulty, steps, a letter per task: passed, failed, unscored, truncated)."""
    rows = []
    for family, difficulty, steps, letters in cells:
        for letter in letters:
            passed = {"p": True, "f": False, "t": False, "u": None}[letter]
            rows.append(
                Outcome(
                    task=f"s/{family}-{difficulty}-{len(rows)}",
                    task_id=f"id{len(rows)}",
                    strata=Strata(family, difficulty, steps, "d"),
                    score=None if passed is None else float(passed),
                    passed=passed,
                    fault="sandbox:lost" if passed is None else None,
                    stop={"t": "tokens", "u": "fault"}.get(letter, "submitted"),
                )
            )
    return rows


ROWS = outcomes(("count", "easy", 1, "pppp"), ("count", "hard", 4, "fu"), ("write", "easy", 2, "pftu"))


def test_the_headline_weighs_cells_and_not_tasks():
    summary = summarise(ROWS)
    assert summary.headline.value == pytest.approx((1 + 0 + 1 / 3) / 3)
    assert summary.headline.n == 8
    assert summary.overall == Rate(5, 8)
    assert summary.headline.interval.low < summary.headline.value < summary.headline.interval.high


def test_unscored_is_counted_apart_with_bounds():
    summary = summarise(ROWS)
    assert summary.unscored == 2
    assert summary.faults == {"sandbox:lost": 2}
    assert summary.worst.value == pytest.approx((1 + 0 + 1 / 4) / 3)
    assert summary.best.value == pytest.approx((1 + 1 / 2 + 2 / 4) / 3)
    assert summary.worst.n == summary.best.n == 10


def test_truncation_is_counted_over_every_attempt():
    assert summarise(ROWS).truncated == Rate(1, 10)


def test_tables_cut_by_every_coordinate():
    tables = {table.coordinate: table.rows for table in summarise(ROWS).tables}
    assert list(tables) == list(COORDINATES)
    assert tables["type"] == (Row("count", Rate(4, 5), 1), Row("write", Rate(1, 3), 1))
    assert tables["difficulty"] == (Row("easy", Rate(5, 7), 1), Row("hard", Rate(0, 1), 1))
    assert tables["steps"] == (Row("1", Rate(4, 4), 0), Row("2", Rate(1, 3), 1), Row("3+", Rate(0, 1), 1))
    assert [row.stratum for row in tables["exact steps"]] == ["1", "2", "4"]


def test_a_cell_without_a_score_is_named():
    summary = summarise(outcomes(("count", "easy", 1, "pp"), ("count", "hard", 3, "uu")))
    assert summary.unmeasured == ("count, hard",)
    assert summary.headline.value == 1.0
    assert summary.worst.value == 0.5


def test_nothing_scored_is_no_figure():
    summary = summarise(outcomes(("count", "easy", 1, "u")))
    assert str(summary.headline) == "- [0.00, 1.00] n=0"
    assert str(summarise([]).overall) == "- [0.00, 1.00] n=0"


def test_two_attempts_at_a_task_are_no_two_tasks():
    with pytest.raises(ValueError, match="s/count-easy-0 was attempted more than once"):
        summarise([*ROWS, ROWS[0]])
