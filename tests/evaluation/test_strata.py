import numpy as np

from strop.errors import SandboxFault
from strop.evaluation.strata import COORDINATES, Cell, Outcome, cell, ordered, step_bucket
from strop.messages import Message
from strop.tasks.task import Strata
from strop.trace import Segment, Trace, Turn, Verdict


def test_step_buckets():
    assert [step_bucket(steps) for steps in (0, 1, 2, 3, 6)] == ["unknown", "1", "2", "3+", "3+"]


def test_coordinates():
    outcome = Outcome("s/t", "id", Strata("lookup", "hard", 12, "configuration"), passed=True)
    assert {name: cut(outcome) for name, cut in COORDINATES.items()} == {
        "type": "lookup",
        "difficulty": "hard",
        "steps": "3+",
        "exact steps": "12",
        "domain": "configuration",
    }
    assert cell(outcome) == Cell("lookup", "hard")
    assert str(cell(outcome)) == "lookup, hard"


def test_strata_in_the_order_a_reader_expects():
    assert ordered(["hard", "unknown", "easy", "medium", "hard"]) == ["easy", "medium", "hard", "unknown"]
    assert ordered(["10", "2", "unknown", "1"]) == ["1", "2", "10", "unknown"]
    assert ordered(["3+", "1", "2"]) == ["1", "2", "3+"]
    assert ordered(["write", "count"]) == ["count", "write"]


def trace(verdict: Verdict) -> Trace:
    ids = np.arange(5, dtype=np.int32)
    versions = np.array([-1, -1, 3, 3, 3], np.int32)
    return Trace(
        episode="e",
        task="s/t",
        task_id="id",
        policy="p",
        seed=7,
        messages=(Message("user", "Do it."),),
        turns=(Turn("stop", 3, 0.1, 0.1),),
        segments=(Segment(ids, np.zeros(5, np.float32), versions),),
        stop="tokens",
        verdict=verdict,
        seconds={},
    )


def test_an_outcome_of_a_trace():
    outcome = Outcome.of(trace(Verdict(0.5, False, {"reward": 0.5})), Strata("x"))
    assert outcome == Outcome("s/t", "id", Strata("x"), 7, 0.5, False, None, "tokens", turns=1, tokens=3)
    assert outcome.scored


def test_a_fault_is_no_score():
    outcome = Outcome.of(trace(Verdict.unscored(SandboxFault("lost", "gone"))), Strata("x"))
    assert (outcome.score, outcome.passed, outcome.fault) == (None, None, "sandbox:lost")
    assert not outcome.scored
