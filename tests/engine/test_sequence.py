from collections.abc import Sequence

import pytest

from strop.engine.request import Request, Sampling
from strop.engine.sequence import Draw, Live

WORDS = ["<", "/", "do", "ne", ">", "x", "é", ""]


def detokenize(ids: Sequence[int]) -> str:
    return "".join(WORDS[token] for token in ids)


def feed(live: Live, ids: Sequence[int]) -> list[int]:
    """Append tokens until one of them ends the sequence."""
    for token in ids:
        live.append(Draw(token, -1.0), 0, detokenize)
        if live.finish:
            break
    return live.tokens[len(live.request.prompt) :]


def request(**sampling: object) -> Request:
    return Request("r", (5, 5, 5), Sampling(**{"max_tokens": 200, **sampling}))  # type: ignore[arg-type]


def test_a_stop_string_across_tokens_ends_it_with_the_token_that_completes_it() -> None:
    live = Live(request(stop_strings=("</done>",)), 0)
    assert feed(live, [5, 0, 1, 2, 3, 4, 5]) == [5, 0, 1, 2, 3, 4]
    assert live.finish == "stop"


def test_the_prompts_text_does_not_count() -> None:
    live = Live(Request("r", (0, 1, 2), Sampling(max_tokens=3, stop_strings=("</done>",))), 0)
    feed(live, [3, 4, 5])
    assert live.finish == "length"


@pytest.mark.parametrize("before", range(60, 140))
def test_a_stop_string_is_found_however_much_came_before(before: int) -> None:
    live = Live(request(stop_strings=("nothing", "</done>")), 0)
    filler = [5, 6, 7, 0, 1] * 40
    feed(live, [*filler[:before], 0, 1, 2, 3, 4])
    assert live.finish == "stop"
    assert len(live.logprobs) == before + 5


def test_tokens_without_text_do_not_push_a_stop_string_out_of_sight() -> None:
    live = Live(request(stop_strings=("</done>",)), 0)
    feed(live, [5] * 40 + [0, 1] + [7] * 90 + [2, 3, 4])
    assert live.finish == "stop"


def test_only_a_tail_of_a_long_text_is_decoded() -> None:
    decoded: list[int] = []

    def counting(ids: Sequence[int]) -> str:
        decoded.append(len(ids))
        return detokenize(ids)

    live = Live(request(stop_strings=("</done>",)), 0)
    for _ in range(199):
        live.append(Draw(5, -1.0), 0, counting)
    assert max(decoded) < 80


def test_a_stop_id_is_kept_and_wins_over_the_length() -> None:
    live = Live(request(max_tokens=2, stop_ids=(4,)), 0)
    assert feed(live, [5, 4]) == [5, 4]
    assert live.finish == "stop"


def test_output_has_one_logprob_and_one_version_a_token() -> None:
    live = Live(request(), 0)
    live.append(Draw(5, -0.5), 3, None)
    live.append(Draw(1, -0.25), 4, None)
    output = live.output()
    assert (output.ids, output.logprobs, output.versions) == ((5, 1), (-0.5, -0.25), (3, 4))
    assert output.finish == "abort"


def test_a_block_is_filed_once_full_under_all_its_versions() -> None:
    live = Live(Request("r", tuple(range(5)), Sampling(max_tokens=9)), 0)
    live.start([], [], size=4)
    live.blocks = [7, 8]
    assert list(live.advance(3, version=0, size=4)) == []
    [(mixed, block)] = live.advance(1, version=1, size=4)
    assert block == 7
    pure = Live(live.request, 1)
    pure.start([], [], size=4)
    pure.blocks = [9, 10]
    [(one, _)] = pure.advance(5, version=1, size=4)
    assert mixed != one
    assert (one,) == pure.wanted(size=4, version=1)
