"""What is printed where nobody watches, and what a terminal gets."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from strop.cli.app import run
from strop.cli.check_verb import tell
from strop.cli.console import QUIET_SECONDS, UNWATCHED_WIDTH, Display
from strop.clock import ManualClock
from strop.quality.gate import Checked
from strop.quality.probe import Finding
from tests.rollout.conftest import make_task as toy

Lines = Callable[[], list[str]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def display(clock: ManualClock, screen: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> Display:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", screen)
        return Display(clock)


@pytest.fixture
def lines(screen: io.StringIO) -> Lines:
    """What was printed since it was last asked."""

    def take() -> list[str]:
        said = screen.getvalue().splitlines()
        screen.seek(0)
        screen.truncate()
        return said

    return take


def test_a_stage_is_announced_and_summed_up(display: Display, clock: ManualClock, lines: Lines) -> None:
    with display.stage("warm up", 3) as stage:
        assert lines() == ["· warm up (3)"]
        for _ in range(3):
            clock.advance(1.5)
            stage.advance(f"loss {clock.now():.1f}")
        assert lines() == []
    assert lines() == [f"✓ {'warm up':<22} loss 4.5  4 s"]


def test_a_long_stage_says_now_and_then_how_far_it_is(
    display: Display, clock: ManualClock, lines: Lines
) -> None:
    said = []
    with display.stage("check", 100) as stage:
        lines()
        for number in range(100):
            clock.advance(QUIET_SECONDS / 4)
            stage.advance(f"{number} refused")
            said += lines()
    assert said[0] == "  check: 5/100  4 refused"
    assert said[-1] == "  check: 95/100  94 refused"
    assert len(said) == 19, "every fifth time more than the quiet seconds are over"


def test_the_last_part_is_told_by_the_summary_alone(
    display: Display, clock: ManualClock, lines: Lines
) -> None:
    with display.stage("check", 2) as stage:
        lines()
        clock.advance(100.0)
        stage.advance("1 refused", by=2)
        assert lines() == []
    assert lines() == [f"✓ {'check':<22} 1 refused  100 s"]


def test_figures_stay_until_others_come(display: Display, lines: Lines) -> None:
    with display.stage("check", 2) as stage:
        stage.advance("1 refused")
        stage.advance()
        assert stage.figures == "1 refused"
        stage.figures = "1 of 2 admitted"
    assert "1 of 2 admitted" in lines()[-1]


def test_a_stage_that_fails_is_not_summed_up(display: Display, lines: Lines) -> None:
    with pytest.raises(KeyboardInterrupt), display.stage("check", 2):
        raise KeyboardInterrupt
    assert lines() == ["· check (2)"]


def test_lines_are_not_cut_at_eighty_columns_where_there_is_no_terminal(
    display: Display, lines: Lines
) -> None:
    display.say("x" * UNWATCHED_WIDTH)
    assert lines() == ["x" * UNWATCHED_WIDTH]


def test_an_interval_is_shown_as_it_is(display: Display, lines: Lines) -> None:
    with display.stage("evaluate", 1) as stage:
        stage.advance("0.62 [0.57, 0.67] n=400")
    assert "0.62 [0.57, 0.67] n=400" in lines()[-1]


def test_a_terminal_gets_a_bar_that_goes_away_and_the_summary_that_stays(
    display: Display, screen: io.StringIO
) -> None:
    display.console = Console(file=screen, force_terminal=True, width=100, color_system=None)
    with display.stage("check", 2) as stage:
        stage.advance("1 refused")
        assert display.progress is not None
        (task,) = display.progress.tasks
        assert (task.completed, task.total, task.fields["figures"]) == (1, 2, "1 refused")
    assert display.progress is None
    assert screen.getvalue().endswith(f"✓ {'check':<22} 1 refused  0 s\n")


HOSTILE = "there is no [/app/x] in [bold]"
"""Nothing that a task or its tests may not say; rich takes such brackets for styles."""


def test_what_a_finding_quotes_is_shown_as_it_is(display: Display, lines: Lines) -> None:
    tell([Checked(toy(), (Finding("solution", False, HOSTILE),))], display)
    assert f"    solution: {HOSTILE}" in lines()


@pytest.mark.parametrize("verb", ["show", "list"])
def test_an_instruction_is_shown_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    folder = tmp_path / "task"
    assert run(["tasks", "new", str(folder)]) == 0
    (folder / "instruction.md").write_text("Sort [bold] below [/a].")
    capsys.readouterr()
    assert run(["tasks", verb, str(folder)]) == 0
    assert "[bold]" in capsys.readouterr().out.replace("\n", "")
