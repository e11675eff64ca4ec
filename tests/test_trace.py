import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from strop.errors import GraderFault, SandboxFault
from strop.messages import Message, ToolCall
from strop.trace import UNSAMPLED, Segment, SegmentBuilder, Trace, Turn, Verdict, pack, unpack

TEXT = st.text(max_size=10) | st.just("lone \ud800")


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    length = draw(st.integers(0, 6))
    exact = st.floats(width=32, allow_nan=True)
    return Segment(
        draw(arrays.arrays(np.int32, length)),
        draw(arrays.arrays(np.float32, length, elements=exact)),
        draw(arrays.arrays(np.int32, length, elements=st.integers(-1, 9))),
        draw(
            st.dictionaries(
                st.sampled_from(["experts", "entropy"]),
                arrays.arrays(st.sampled_from([np.uint8, np.float64, np.bool_]), (length, 2)),
            )
        ),
        draw(st.sampled_from(["start", "evicted"])),
    )


CALLS = st.builds(
    ToolCall, TEXT, TEXT, st.dictionaries(TEXT, st.integers() | TEXT | st.lists(st.none()), max_size=2)
)
VERDICTS = st.sampled_from(
    [
        Verdict(1.0, True, {"reward": 1.0, "speed": 0.25}, "ok\n"),
        Verdict(0.0, False, tampered=True),
        Verdict.unscored(SandboxFault("lost", "gone")),
    ]
)
TRACES = st.builds(
    Trace,
    episode=TEXT,
    task=TEXT,
    task_id=TEXT,
    policy=TEXT,
    seed=st.integers(0, 2**63 - 1),
    messages=st.lists(
        st.builds(Message, st.just("assistant"), TEXT, st.lists(CALLS, max_size=2).map(tuple), TEXT, TEXT),
        max_size=3,
    ).map(tuple),
    turns=st.lists(
        st.builds(
            Turn, st.just("stop"), st.integers(0, 9), st.floats(0, 9), st.floats(0, 9), st.just(("timeout",))
        ),
        max_size=3,
    ).map(tuple),
    segments=st.lists(segments(), max_size=3).map(tuple),
    stop=st.just("submitted"),
    verdict=VERDICTS,
    seconds=st.just({"lease": 0.1, "total": 1 / 3}),
    trainable=st.booleans(),
)


@given(TRACES)
def test_a_trace_comes_back_equal_bit_for_bit(trace: Trace) -> None:
    back = unpack(pack(trace))
    assert back == trace
    assert pack(back) == pack(trace)


def test_equality_of_segments_sees_every_bit() -> None:
    def segment(**changes: object) -> Segment:
        whole = {
            "ids": np.array([1, 2], np.int32),
            "logprobs": np.array([0, -1], np.float32),
            "versions": np.array([-1, 3], np.int32),
            "extras": {"e": np.array([1, 2], np.uint8)},
        }
        return Segment(**{**whole, **changes})

    assert segment() == segment()
    for change in (
        {"ids": np.array([1, 3], np.int32)},
        {"ids": np.array([1, 2], np.int64)},
        {"logprobs": np.array([0, -1.0000001], np.float32)},
        {"logprobs": np.array([-0.0, -1], np.float32)},
        {"versions": np.array([-1, 4], np.int32)},
        {"extras": {}},
        {"extras": {"f": np.array([1, 2], np.uint8)}},
        {"cut": "evicted"},
    ):
        assert segment(**change) != segment()
    assert segment() != "segment"


def test_a_builder_keeps_what_was_rendered_and_sampled_in_order() -> None:
    builder = SegmentBuilder("evicted")
    builder.render([5, 6])
    builder.sample([7, 8], [-0.5, -0.25], [3, 4])
    builder.render([9])
    segment = builder.seal()
    assert segment.ids.tolist() == [5, 6, 7, 8, 9]
    assert segment.logprobs.tolist() == [0, 0, -0.5, -0.25, 0]
    assert segment.versions.tolist() == [UNSAMPLED, UNSAMPLED, 3, 4, UNSAMPLED]
    assert segment.sampled.tolist() == [False, False, True, True, False]
    assert (segment.ids.dtype, segment.logprobs.dtype, segment.cut) == (np.int32, np.float32, "evicted")


def test_a_sampled_token_without_its_numbers_is_not_taken() -> None:
    builder = SegmentBuilder()
    with pytest.raises(ValueError, match="one log-probability and one version"):
        builder.sample([1, 2], [-1.0], [0, 0])
    assert builder.ids == []


def test_arrays_of_a_segment_have_one_length() -> None:
    two, three = np.zeros(2, np.int32), np.zeros(3, np.int32)
    with pytest.raises(ValueError, match="differ in length"):
        Segment(two, np.zeros(3, np.float32), two)
    with pytest.raises(ValueError, match="differ in length"):
        Segment(two, np.zeros(2, np.float32), two, {"experts": three})


def test_unscored_is_not_zero() -> None:
    unscored = Verdict.unscored(GraderFault("timeout", "too long"))
    assert (unscored.score, unscored.passed, unscored.scored) == (None, None, False)
    assert unscored.fault is not None and unscored.fault.code == "timeout"
    assert Verdict(0.0, False).scored


def test_counts_over_segments() -> None:
    first, second, third = SegmentBuilder(), SegmentBuilder("evicted"), SegmentBuilder()
    first.sample([1], [-1.0], [7])
    second.render([1])
    second.sample([2, 3], [-1.0, -1.0], [5, 8])
    whole = Trace("e", "t", "i", "p", 0, (), (), (), "turns", Verdict(0.0, False), {})
    assert (whole.sampled_tokens, whole.oldest_version) == (0, None)
    whole = dataclasses.replace(whole, segments=(first.seal(), second.seal(), third.seal()))
    assert (whole.sampled_tokens, whole.oldest_version) == (3, 5)
