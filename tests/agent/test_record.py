"""Sampled ids survive every turn, and a rewritten view starts a new segment."""

from strop.agent.record import Record
from strop.messages import Message
from strop.renderer import Renderer
from strop.tokens import Tokenizer
from strop.trace import UNSAMPLED
from strop.training.embedded import END, TEMPLATE, build_tokenizer


def renderer() -> Renderer:
    backend = build_tokenizer(
        ["write amber to plan.txt", "```sh\necho amber > plan.txt\n```", "(no output)"], 320
    )
    return Renderer(Tokenizer(backend, TEMPLATE, {"eos_token": END}))


def test_what_was_sampled_is_kept_to_the_id_however_odd() -> None:
    record = Record(renderer(), ())
    view = [Message("user", "write amber to plan.txt")]
    record.extend(view)
    odd = [7, 7, 300, 9]
    record.sampled(odd, [-0.1, -0.2, -0.3, -0.4], [3, 3, 4, 4])
    view += [Message("assistant", "whatever was decoded"), Message("tool", "(no output)")]
    record.extend(view)
    (segment,) = record.segments()
    assert segment.ids[segment.sampled].tolist() == odd
    assert segment.versions[segment.sampled].tolist() == [3, 3, 4, 4]
    assert segment.versions[~segment.sampled].tolist() == [UNSAMPLED] * int((~segment.sampled).sum())


def test_a_rewritten_view_starts_a_new_segment_and_keeps_the_old() -> None:
    record = Record(renderer(), ())
    record.extend([Message("user", "write amber to plan.txt")])
    record.sampled([5, 6], [-1.0, -1.0], [0, 0])
    record.extend([Message("user", "a summary"), Message("tool", "(no output)")])
    record.sampled([7], [-1.0], [1])
    first, second = record.segments()
    assert first.cut == "start" and second.cut == "rewritten"
    assert first.ids[first.sampled].tolist() == [5, 6] and second.ids[second.sampled].tolist() == [7]
