import pytest

from strop.report.run_report import Step
from strop.report.timing import processes, throughput

STEPS = (
    Step(
        1,
        0.5,
        8,
        tokens_per_second=10,
        seconds={"main": {"sampling": 2, "waiting": 1}, "learner": {"waiting": 3}},
    ),
    Step(2, 0.5, 8, tokens_per_second=30, seconds={"main": {"sampling": 4, "tools": 3, "judging": 0}}),
)


def test_the_time_of_each_process_adds_up():
    main, learner = processes(STEPS)
    assert (main.name, main.seconds) == ("main", "10 s")
    assert [(part.name, part.seconds, part.width) for part in main.parts] == [
        ("sampling", "6.0 s", "60.00%"),
        ("tools", "3.0 s", "30.00%"),
        ("waiting", "1.0 s", "10.00%"),
    ]
    assert [(part.name, part.width) for part in learner.parts] == [("waiting", "100.00%")]
    for process in (main, learner):
        assert sum(float(part.width.rstrip("%")) for part in process.parts) == pytest.approx(100, abs=0.05)


def test_a_phase_has_one_colour_and_waiting_has_none():
    main, learner = processes(STEPS)
    tones = {part.name: part.tone for part in main.parts}
    assert tones["waiting"] == learner.parts[0].tone == "rest"
    assert len(set(tones.values())) == len(tones)


def test_nothing_spent_is_nothing_shown():
    assert processes([Step(1, 0.5, 8)]) == ()
    (process,) = processes([Step(1, 0.5, 8, seconds={"main": {"sampling": 0}})])
    assert process.parts == ()


def test_throughput_leaves_out_what_nobody_measured():
    assert throughput(STEPS) == (
        ("sampled tokens per second", "20 (15 to 25)"),
        ("episodes per step", "8 (8 to 8)"),
    )
    assert throughput(()) == ()
