from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from strop.engine.models import LoadedModel
from strop.engine.request import Request, Sampling
from strop.engine.runner import Runner, _groups
from strop.engine.scheduler import Limits, Scheduler
from strop.errors import MachineryFault

LIMITS = Limits(blocks=16, block_size=4, running=4, token_budget=32)


def weights(model: LoadedModel) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.network.state_dict().items()}


def groups(lengths: Sequence[int], spans: Sequence[int], limit: int) -> list[tuple[int, int]]:
    return _groups(np.array(lengths), np.array(spans), limit)


def test_groups_keep_like_lengths_together_and_decoding_apart() -> None:
    assert groups([1, 1, 1, 2, 10, 30, 90, 95, 140, 400, 600], [1] * 11, limit=100) == [
        (0, 3),
        (3, 6),
        (6, 9),
        (9, 11),
    ]


def test_groups_gather_no_more_than_the_limit_unless_one_row_does() -> None:
    assert groups([1] * 5, [2, 2, 2, 3, 9], limit=6) == [(0, 3), (3, 4), (4, 5)]


def test_a_step_without_a_token_to_draw_draws_none(tiny: LoadedModel) -> None:
    scheduler, runner = Scheduler(Limits(16, 4, 4, 5)), Runner(tiny, LIMITS)
    scheduler.submit(Request("a", tuple(range(9)), Sampling(2)))
    rows = scheduler.schedule()
    logits = runner.forward(rows)
    assert logits.shape == (0, 64)
    assert runner.draw(rows, logits) == []


def test_each_position_has_its_own_random_number(tiny: LoadedModel) -> None:
    """Under a flat distribution tokens show the numbers that were drawn."""
    torch.nn.init.zeros_(tiny.network.lm_head.weight)
    scheduler, runner = Scheduler(LIMITS), Runner(tiny, LIMITS)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        scheduler.submit(Request(name, (ord(name) - 90,), Sampling(30, seed=seed)))
    drawn = {}
    while not scheduler.idle:
        rows = scheduler.schedule()
        for live in scheduler.settle(rows, runner.draw(rows, runner.forward(rows))):
            drawn[live.request.id] = live.output().ids
    assert drawn["a"] == drawn["b"] != drawn["c"]
    assert len(set(drawn["a"])) > 15


def test_new_weights_are_used_and_the_old_ones_are_gone(
    tiny: LoadedModel, build_tiny: Callable[[int], LoadedModel]
) -> None:
    runner, other = Runner(tiny, LIMITS), build_tiny(1)
    before = runner.score((1, 2, 3, 4), 1.0)
    runner.commit(runner.stage(weights(other)))
    assert runner.score((1, 2, 3, 4), 1.0) == Runner(other, LIMITS).score((1, 2, 3, 4), 1.0) != before


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda w: w.update({"model.norm.wait": w["model.norm.weight"]}), "nearest: model.norm.weight"),
        (lambda w: w.update({"model.norm.weight": torch.ones(7)}), r"shape \[7\], not \[32\]"),
        (lambda w: w.pop("model.norm.weight"), "1 weights are missing, 'model.norm.weight' first"),
        (lambda w: w["model.norm.weight"].fill_(torch.nan), "no finite numbers"),
    ],
)
def test_wrong_weights_are_named_and_leave_the_old_ones(
    tiny: LoadedModel, spoil: Callable[[dict[str, torch.Tensor]], object], said: str
) -> None:
    runner, before = Runner(tiny, LIMITS), weights(tiny)
    given = {name: tensor + 1 for name, tensor in before.items()}
    spoil(given)
    with pytest.raises(MachineryFault, match=said) as caught:
        runner.stage(given)
    assert caught.value.code == "bad-weights"
    assert all(torch.equal(tensor, before[name]) for name, tensor in tiny.network.state_dict().items())


def test_tied_weights_may_be_given_under_either_name(build_tiny: Callable[[int], LoadedModel]) -> None:
    model = build_tiny(0)
    model.network.config.tie_word_embeddings = True
    model.network.tie_weights()
    runner, given = Runner(model, LIMITS), weights(model)
    del given["lm_head.weight"]
    assert len(runner.stage(given)) == len(given)
    given["lm_head.weight"] = given.pop("model.embed_tokens.weight")
    assert len(runner.stage(given)) == len(given)


def test_weights_of_another_type_are_converted(tiny: LoadedModel) -> None:
    runner, before = Runner(tiny, LIMITS), weights(tiny)
    runner.commit(runner.stage({name: tensor.double() for name, tensor in before.items()}))
    assert all(torch.equal(tensor, before[name]) for name, tensor in tiny.network.state_dict().items())
