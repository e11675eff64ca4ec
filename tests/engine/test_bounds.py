import math
from dataclasses import replace

import pytest

from strop.engine.bounds import Bounds
from strop.engine.request import Request, Sampling
from strop.errors import MachineryFault

BOUNDS = Bounds(vocabulary=10, positions=20, pool=100, text=False)
GOOD = Request("r", (1, 2), Sampling(max_tokens=18))


def test_the_longest_request_that_fits_passes() -> None:
    BOUNDS.check(GOOD)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (replace(GOOD, prompt=()), "prompt is empty"),
        (replace(GOOD, prompt=(1, 10)), "token id 10 is out of range, 0 to 9"),
        (replace(GOOD, prompt=(-1,)), "token id -1"),
        (replace(GOOD, prompt=(1,) * 21), "21 tokens exceed the 20"),
        (replace(GOOD, sampling=Sampling(max_tokens=19)), "max_tokens can be 18"),
        (replace(GOOD, prompt=(1,) * 20), "the model can hold; shorten the prompt"),
        (replace(GOOD, sampling=Sampling(max_tokens=0)), "at least 1"),
        (replace(GOOD, sampling=Sampling(max_tokens=4, temperature=-0.1)), "temperature is -0.1"),
        (replace(GOOD, sampling=Sampling(max_tokens=4, temperature=math.nan)), "temperature is nan"),
        (replace(GOOD, sampling=Sampling(max_tokens=4, temperature=1e-30)), "0, for greedy, or 0.001"),
        (replace(GOOD, sampling=Sampling(max_tokens=4, stop_strings=("x", ""))), "stop string is empty"),
        (replace(GOOD, sampling=Sampling(max_tokens=4, stop_strings=("x",))), "given a detokenizer"),
    ],
)
def test_what_does_not_fit_is_named(request_: Request, said: str) -> None:
    with pytest.raises(MachineryFault, match=said) as caught:
        BOUNDS.check(request_)
    assert caught.value.code == "bad-request"


def test_a_pool_smaller_than_the_model_is_named() -> None:
    with pytest.raises(MachineryFault, match="the 16 that the pool can hold; max_tokens can be 14"):
        replace(BOUNDS, pool=16).check(GOOD)


def test_a_model_that_states_no_length_is_bounded_by_the_pool() -> None:
    replace(BOUNDS, positions=None).check(replace(GOOD, sampling=Sampling(max_tokens=98)))
