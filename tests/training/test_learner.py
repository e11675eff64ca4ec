from typing import Any

import numpy as np
import pytest
import torch

from strop.errors import MachineryFault
from strop.training.batch import Row
from strop.training.learner import Learner, LearnerSettings, rate
from strop.training.weights import Exchange, state_of
from tests.training.conftest import make_network, make_rows


def on_policy(learner: Learner, rows: list[Row], weights: list[float]) -> list[Row]:
    """The rows as if the learner itself had sampled them, with the given advantages."""
    result = []
    for row, weight in zip(rows, weights, strict=True):
        logprobs = np.zeros(len(row.ids), np.float32)
        logprobs[row.sampled] = learner.logprobs([row]).numpy()
        result.append(
            Row(row.ids, row.sampled, logprobs, np.where(row.sampled, weight, 0.0).astype(np.float32))
        )
    return result


def test_a_step_makes_what_did_well_likelier_and_what_did_badly_less_likely(network: Any) -> None:
    learner = Learner(network, LearnerSettings(learning_rate=1e-2))
    good, bad = make_rows(2)
    rows = on_policy(learner, [good, bad], [1.0, -1.0])
    before = [float(learner.logprobs([row]).sum()) for row in rows]
    figures = learner.step(rows, 1.0)
    after = [float(learner.logprobs([row]).sum()) for row in rows]
    assert after[0] > before[0] and after[1] < before[1]
    assert learner.version == 1
    assert figures["gap"] < 1e-5 and figures["ess"] == pytest.approx(1.0) and figures["kept"] == 1.0


def test_the_step_size_follows_its_schedule() -> None:
    settings = LearnerSettings(warmup_steps=4, decay_steps=14, final_rate=0.1)
    assert [round(rate(step, settings), 3) for step in (0, 3, 4, 9, 14, 100)] == [
        0.2,
        0.8,
        1.0,
        0.55,
        0.1,
        0.1,
    ]
    assert rate(1000, LearnerSettings()) == 1.0


def test_a_step_without_anything_to_learn_makes_no_version(network: Any) -> None:
    learner = Learner(network, LearnerSettings())
    assert learner.step([], 1.0)["tokens"] == 0.0
    assert learner.version == 0


def test_a_loss_that_is_not_finite_is_refused_before_the_weights_are_touched(network: Any) -> None:
    learner = Learner(network, LearnerSettings())
    before = {name: tensor.clone() for name, tensor in state_of(network).items()}
    row = make_rows(1)[0]
    broken = Row(row.ids, row.sampled, row.logprobs, np.where(row.sampled, np.nan, 0.0).astype(np.float32))
    with pytest.raises(MachineryFault, match="not-finite"):
        learner.step([broken], 1.0)
    assert learner.version == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in state_of(network).items())


def test_imitation_learns_a_row_by_heart(network: Any) -> None:
    learner = Learner(network, LearnerSettings(learning_rate=1e-2))
    row = make_rows(1)[0]
    rows = [Row(row.ids, row.sampled, row.logprobs, row.sampled.astype(np.float32))]
    losses = [learner.imitate(rows)["loss"] for _ in range(40)]
    assert losses[-1] < 0.1 < losses[0]


def test_weights_survive_the_exchange_and_slots_take_turns(network: Any) -> None:
    state = {name: tensor.clone() for name, tensor in state_of(network).items()}
    exchange = Exchange.for_state(state)
    exchange.write(4, state)
    other = {name: tensor + 1 for name, tensor in state.items()}
    exchange.write(5, other)
    assert all(torch.equal(exchange.read(4)[name], tensor) for name, tensor in state.items())
    assert all(torch.equal(exchange.read(5)[name], tensor) for name, tensor in other.items())
    assert sum(tensor.numel() for tensor in state.values()) == exchange.slots[0].numel()
    make_network(1).load_state_dict(exchange.read(5), strict=False)
