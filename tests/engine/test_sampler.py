import numpy as np
import pytest
import torch

from strop.engine.sampler import log_softmax, sample, uniforms
from strop.errors import MachineryFault


def test_a_number_depends_on_its_seed_and_position_alone() -> None:
    together = uniforms([3, 4, 3, -1], [10, 10, 11, 10])
    assert len(set(together.tolist())) == 4
    assert uniforms([3], [10])[0] == together[0]
    assert uniforms([2**64 - 1], [10])[0] == together[3]


def test_numbers_are_uniform_across_positions_and_across_seeds() -> None:
    count = 20_000
    for numbers in (uniforms([7] * count, range(count)), uniforms(range(count), [5] * count)):
        assert numbers.min() >= 0
        assert numbers.max() < 1
        observed, _ = np.histogram(numbers, bins=20, range=(0, 1))
        chi2 = ((observed - count / 20) ** 2 / (count / 20)).sum()
        assert chi2 < 43.8, "19 degrees of freedom, one in a thousand"
        assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03


def test_tokens_follow_the_distribution() -> None:
    logits = torch.tensor([2.0, 0.0, -1.0, 1.0])
    rows = 20_000
    numbers = torch.from_numpy(uniforms(range(rows), [0] * rows))
    temperature = 0.7
    ids, logprobs = sample(logits.expand(rows, 4), torch.full((rows,), temperature), numbers)
    expected = (logits / temperature).softmax(0)
    observed = torch.bincount(ids, minlength=4) / rows
    assert torch.allclose(observed, expected, atol=0.015)
    assert torch.allclose(logprobs, expected.log()[ids], atol=1e-6)
    assert logprobs.dtype == torch.float32


def test_temperature_zero_is_greedy_and_reports_the_models_own_logprob() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0], [0.0, 3.0, 1.0]])
    ids, logprobs = sample(logits, torch.tensor([0.0, 2.0]), torch.tensor([0.999, 0.0]))
    assert ids.tolist() == [1, 0]
    assert torch.allclose(
        logprobs, torch.stack([logits[0].log_softmax(0)[1], (logits[1] / 2).log_softmax(0)[0]])
    )


def test_the_largest_number_still_gives_a_token_that_can_be_drawn() -> None:
    torch.manual_seed(0)
    logits = torch.randn(500, 300) * 5
    logits[:, 200:] = -torch.inf
    ids, logprobs = sample(logits, torch.ones(500), torch.full((500,), 1 - 2.0**-24))
    assert int(ids.max()) < 200
    assert logprobs.isfinite().all()


def test_zero_never_draws_an_impossible_first_token() -> None:
    ids, _ = sample(torch.tensor([[-torch.inf, 0.0]]), torch.ones(1), torch.zeros(1))
    assert ids.tolist() == [1]


def test_diverged_weights_are_named() -> None:
    with pytest.raises(MachineryFault, match="diverged"):
        sample(torch.tensor([[0.0, torch.nan]]), torch.ones(1), torch.zeros(1))


def test_log_softmax_is_float32_for_half_precision() -> None:
    assert log_softmax(torch.zeros(1, 4, dtype=torch.bfloat16), torch.ones(1)).dtype == torch.float32
