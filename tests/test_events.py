import pytest

from strop.events import Event, JsonLines, fan_out, read_events

EVENTS = [Event("step", 1.5, {"reward": 0.25, "note": "é\u2028\n"}), Event("end", 2.0)]


def test_events_come_back_from_a_file_in_order(tmp_path) -> None:
    path = tmp_path / "events.jsonl"
    with JsonLines(path) as lines:
        lines(EVENTS[0])
        assert read_events(path) == EVENTS[:1]  # written at once, for whoever watches
    with JsonLines(path) as lines:
        lines(EVENTS[1])
    assert read_events(path) == EVENTS


def test_a_line_that_a_killed_process_left_half_written_is_no_event(tmp_path) -> None:
    path = tmp_path / "events.jsonl"
    with JsonLines(path) as lines:
        lines(EVENTS[0])
    with path.open("a") as file:
        file.write('{"kind": "st')
    assert read_events(path) == EVENTS[:1]
    with JsonLines(path) as lines:
        lines(EVENTS[1])
    assert read_events(path) == EVENTS


def test_an_empty_file_has_no_events(tmp_path) -> None:
    path = tmp_path / "events.jsonl"
    JsonLines(path).__exit__(None, None, None)
    assert read_events(path) == []


def test_every_observer_gets_every_event_in_order() -> None:
    seen: list[tuple[str, Event]] = []
    observe = fan_out(lambda event, name=name: seen.append((name, event)) for name in "ab")
    for event in EVENTS:
        observe(event)
    assert seen == [(name, event) for event in EVENTS for name in "ab"]


@pytest.mark.parametrize("name", ["kind", "time"])
def test_data_cannot_hide_what_an_event_is(name: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be called {name}"):
        Event("step", 1.0, {name: 3})
