from strop.rollout.groups import Group
from tests.rollout.conftest import make_task, make_trace


def test_a_group_is_complete_when_each_place_is_scored() -> None:
    group = Group("g", make_task(), size=2, refills=1)
    assert not group.report(make_trace(1.0))
    assert not group.complete
    assert not group.report(make_trace(0.0))
    assert group.complete and group.informative and group.scores == [1.0, 0.0]


def test_an_unscored_sibling_is_refilled_alone_and_its_siblings_keep_their_work() -> None:
    group = Group("g", make_task(), size=2, refills=1)
    group.report(make_trace(1.0))
    assert group.report(make_trace(None)), "another episode must be played in its place"
    assert not group.complete
    assert not group.report(make_trace(0.0))
    assert group.complete and group.lost == 0 and len(group.traces) == 2


def test_refills_are_bounded_and_then_the_group_trains_smaller() -> None:
    group = Group("g", make_task(), size=3, refills=1)
    assert group.report(make_trace(None))
    assert not group.report(make_trace(None))
    group.report(make_trace(1.0))
    group.report(make_trace(0.0))
    assert group.complete and group.lost == 1 and len(group.traces) == 2


def test_equal_scores_are_no_information() -> None:
    group = Group("g", make_task(), size=2, refills=0)
    group.report(make_trace(0.0))
    group.report(make_trace(0.0))
    assert group.complete and not group.informative
