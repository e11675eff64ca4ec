from dataclasses import replace

import pytest

from strop.errors import Refusal
from strop.evaluation.comparison import compare, sentence
from strop.evaluation.strata import Outcome
from strop.seeds import Seed
from strop.stats.pairing import McNemar
from strop.stats.proportions import Rate
from strop.tasks.task import Strata


def arm(*cells: tuple[str, str, str]) -> list[Outcome]:
    """Rows from (family, difficulty, one letter per task: p passed, f failed, u unscored)."""
    rows = []
    for family, difficulty, letters in cells:
        for number, letter in enumerate(letters):
            passed = {"p": True, "f": False, "u": None}[letter]
            name = f"s/{family}-{difficulty}-{number}"
            score = None if passed is None else float(passed)
            rows.append(Outcome(name, "id", Strata(family, difficulty, 2), 0, score, passed))
    return rows


def test_only_tasks_that_both_scored_are_compared():
    before = arm(("a", "easy", "ffpp"), ("b", "hard", "fffu"))
    after = arm(("a", "easy", "pppp"), ("b", "hard", "pufp"), ("c", "easy", "p"))
    found = compare(before, after, Seed(1))
    assert (found.overall.before, found.overall.after) == (Rate(2, 6), Rate(5, 6))
    assert found.overall.difference.value == pytest.approx(0.5)
    assert found.overall.changed == McNemar(3, 0, 0.25)
    assert found.headline.before.value == pytest.approx((2 / 4 + 0) / 2)
    assert found.headline.after.value == pytest.approx((1 + 1 / 2) / 2)
    assert found.headline.difference.value == pytest.approx((2 / 4 + 1 / 2) / 2)
    assert (found.alone, found.unpaired) == (1, 2)
    assert (found.before.unscored, found.after.unscored) == (1, 1)
    assert found.after.overall == Rate(7, 8)


def test_bounds_fill_what_is_unscored_against_and_for_the_second_arm():
    before, after = arm(("a", "easy", "pffu")), arm(("a", "easy", "ppuf"))
    found = compare(before, after, Seed(1))
    assert found.headline.difference.value == pytest.approx(1 / 2)
    assert found.worst.value == pytest.approx((0 + 1 + 0 - 1) / 4)
    assert found.best.value == pytest.approx((0 + 1 + 1 + 0) / 4)
    assert found.worst.n == found.best.n == 4


def test_rows_by_stratum():
    before = arm(("a", "easy", "fff"), ("b", "hard", "ppf"))
    after = arm(("a", "easy", "ppf"), ("b", "hard", "pff"))
    tables = {table.coordinate: table.rows for table in compare(before, after, Seed(1)).tables}
    first, second = tables["type"]
    assert (first.stratum, second.stratum) == ("a", "b")
    assert (first.before, first.after, second.before, second.after) == (
        Rate(0, 3),
        Rate(2, 3),
        Rate(2, 3),
        Rate(1, 3),
    )
    assert first.difference.value == pytest.approx(2 / 3)
    assert second.difference.value == pytest.approx(-1 / 3)
    assert [row.stratum for row in tables["difficulty"]] == ["easy", "hard"]


def test_what_is_said_follows_the_interval():
    many, few = "f" * 60, "f" * 2
    rose = sentence(compare(arm(("a", "easy", many)), arm(("a", "easy", "p" * 50 + "f" * 10)), Seed(1)))
    assert rose.startswith("The pass rate rose: 0.00 [0.00, 0.06] n=60 before, 0.83 [")
    fell = sentence(compare(arm(("a", "easy", "p" * 60)), arm(("a", "easy", many)), Seed(1)))
    assert fell.startswith("The pass rate fell")
    unsure = sentence(compare(arm(("a", "easy", few)), arm(("a", "easy", "pf")), Seed(1)))
    assert unsure.startswith("These tasks cannot tell the change from chance: 0.00 [")
    nothing = sentence(compare(arm(("a", "easy", "u")), arm(("a", "easy", "p")), Seed(1)))
    assert "nothing can be said" in nothing


def test_the_seed_fixes_every_interval():
    before = arm(("a", "easy", "ffpp"), ("b", "hard", "fffp"))
    after = arm(("a", "easy", "pppp"), ("b", "hard", "pffp"))
    assert compare(before, after, Seed(2)) == compare(list(before), list(after), Seed(2))
    shuffled = compare(list(reversed(before)), after, Seed(2))
    assert shuffled.headline.difference.value == compare(before, after, Seed(2)).headline.difference.value


def test_changed_tasks_are_not_compared():
    before, after = arm(("a", "easy", "ff")), arm(("a", "easy", "pp"))
    after[1] = replace(after[1], task_id="other")
    with pytest.raises(Refusal, match="1 of 2 tasks changed") as caught:
        compare(before, after, Seed(1))
    assert caught.value.where == "s/a-easy-1: id id before, other after"


def test_two_attempts_at_a_task_are_refused():
    before = arm(("a", "easy", "ff"))
    with pytest.raises(ValueError, match="more than once"):
        compare([*before, before[0]], before, Seed(1))
