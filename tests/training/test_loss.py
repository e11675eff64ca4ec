"""The loss against numbers computed by hand and against autograd of its plain formula."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strop.training.loss import LossSettings, cross_entropy, dppo


def test_dppo_by_hand() -> None:
    learner = torch.log(torch.tensor([0.6, 0.3, 0.9, 0.1]))
    sampler = torch.log(torch.tensor([0.5, 0.5, 0.5, 0.5]))
    advantages = torch.tensor([1.0, -1.0, 1.0, -1.0])
    loss = dppo(learner, sampler, advantages, LossSettings(trust=0.25, penalty=0.0))
    # token 2 rose by 0.4 with a positive advantage and token 3 fell by 0.4 with a negative one: both masked
    assert loss.kept.tolist() == [True, True, False, False]
    assert float(loss.total) == pytest.approx(-(0.6 / 0.5) + 0.3 / 0.5)
    penalty = dppo(learner, sampler, torch.zeros(4), LossSettings(trust=0.25, penalty=0.5))
    squares = [math.log(p / 0.5) ** 2 for p in (0.6, 0.3, 0.9, 0.1)]
    assert float(penalty.total) == pytest.approx(0.5 * sum(squares), rel=1e-5)


def test_moving_against_the_push_is_never_masked() -> None:
    sampler = torch.log(torch.tensor([0.5, 0.5]))
    learner = torch.log(torch.tensor([0.1, 0.9]))
    loss = dppo(learner, sampler, torch.tensor([1.0, -1.0]), LossSettings(trust=0.2))
    assert loss.kept.tolist() == [True, True]


@given(
    st.lists(st.tuples(st.floats(-6, -0.01), st.floats(-6, -0.01), st.floats(-2, 2)), min_size=1, max_size=12)
)
def test_dppo_gradient_is_that_of_the_plain_formula(tokens: list[tuple[float, float, float]]) -> None:
    settings = LossSettings(trust=0.2, penalty=0.01)
    columns = torch.tensor(tokens, dtype=torch.float64)
    sampler, advantages = columns[:, 1], columns[:, 2]
    learner = columns[:, 0].clone().requires_grad_()
    dppo(learner, sampler, advantages, settings).total.backward()
    expected = []
    for pi, mu, advantage in tokens:
        ratio = math.exp(pi - mu)
        moved = math.exp(pi) - math.exp(mu)
        masked = moved > 0.2 if advantage > 0 else moved < -0.2
        expected.append((0.0 if masked else -ratio * advantage) + 2 * 0.01 * (pi - mu))
    assert learner.grad is not None
    torch.testing.assert_close(learner.grad, torch.tensor(expected, dtype=torch.float64))


def test_on_policy_the_gradient_is_reinforce() -> None:
    logits = torch.randn(
        5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ).requires_grad_()
    ids = torch.tensor([1, 2, 3, 4, 5])
    advantages = torch.tensor([1.0, -0.5, 0.25, 2.0, -1.0], dtype=torch.float64)
    logprobs = torch.log_softmax(logits, -1).gather(1, ids[:, None]).squeeze(1)
    dppo(logprobs, logprobs.detach(), advantages, LossSettings()).total.backward()
    probabilities = torch.softmax(logits.detach(), -1)
    expected = advantages[:, None] * (probabilities - torch.nn.functional.one_hot(ids, 7))
    torch.testing.assert_close(logits.grad, expected)


def test_cross_entropy_is_the_weighted_negative_log_likelihood() -> None:
    loss = cross_entropy(torch.tensor([-1.0, -2.0]), torch.tensor([1.0, 0.5]))
    assert float(loss.total) == pytest.approx(2.0)
