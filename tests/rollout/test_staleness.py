"""The bound is proven in the module; here it is tried against random durations, drops and late weights."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.rollout.staleness import Window


@given(
    bound=st.integers(0, 5),
    batch=st.integers(1, 6),
    slack=st.integers(0, 8),
    seed=st.integers(0, 10_000),
)
def test_no_group_is_trained_older_than_the_bound(bound: int, batch: int, slack: int, seed: int) -> None:
    if (bound + 1) * batch - slack < batch:
        return
    rng = random.Random(seed)
    window: Window[int] = Window(bound, batch, slack)
    born: dict[int, int] = {}
    flying: list[int] = []
    started = taken = published = 0
    for _ in range(400):
        while window.admits(taken - published):
            window.start(started)
            born[started] = published
            flying.append(started)
            started += 1
        assert flying or len(window) or taken > published, "nothing is under way and nothing may start"
        if flying:
            done = flying.pop(rng.choice([0, rng.randrange(len(flying)), len(flying) - 1]))
            if rng.random() < 0.2:
                window.drop([done])
            else:
                window.ready(done)
        chosen = window.take()
        if chosen is not None:
            assert all(taken - born[key] <= bound for key in chosen)
            taken += 1
        if published < taken and rng.random() < 0.7:
            published += 1
    assert taken > 0


def test_the_bound_is_reached_so_it_is_not_loose() -> None:
    window: Window[int] = Window(bound=2, batch=2)
    for key in range(6):
        assert window.admits()
        window.start(key)
    assert not window.admits()
    for key in range(6):
        window.ready(key)
    assert [window.take(), window.take(), window.take()] == [[0, 1], [2, 3], [4, 5]]


def test_a_straggler_is_overtaken_by_slack_groups_and_no_more() -> None:
    window: Window[int] = Window(bound=3, batch=2, slack=2)
    for key in range(6):
        window.start(key)
    for key in range(1, 6):
        window.ready(key)
    assert window.take() == [1, 2]
    assert window.take() is None, "groups 3 and 4 must not go before group 0 as well"
    window.ready(0)
    assert window.take() == [0, 3]


def test_a_dropped_group_leaves_no_hole() -> None:
    window: Window[int] = Window(bound=2, batch=2)
    for key in range(4):
        window.start(key)
    window.ready(0)
    window.drop([1, 2])
    window.ready(3)
    assert window.take() == [0, 3]


def test_late_weights_leave_less_room() -> None:
    window: Window[int] = Window(bound=1, batch=3)
    assert window.admits(lag=1)
    for key in range(3):
        window.start(key)
    assert not window.admits(lag=1)
    assert window.admits(lag=0)


def test_an_impossible_window_is_refused() -> None:
    with pytest.raises(ValueError, match="slack"):
        Window(bound=0, batch=4, slack=1)
    with pytest.raises(ValueError, match="negative"):
        Window(bound=-1, batch=4)
