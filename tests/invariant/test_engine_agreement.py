"""Schedules that must agree: paged = dense, cached = cold, chunked = whole, batched = alone, preempted =
undisturbed, and each version with its own weights.

The networks are small and sharp: their weights are wide enough that a wrong key, value or mask moves
log-probabilities by far more than the tolerance, which `test_the_networks_are_sharp` makes sure of.
"""

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from strop.engine.models import LoadedModel
from strop.engine.prefix import chain
from strop.engine.request import Output, Request, Sampling
from strop.engine.runner import Runner
from strop.engine.scheduler import Limits, Scheduler
from strop.engine.sequence import Live

CLOSE = 1e-4
SHAPE = {
    "vocab_size": 64,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_attention_heads": 6,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "initializer_range": 0.25,
}

ARCHITECTURES: Mapping[str, Callable[[], PreTrainedModel]] = {
    "llama, grouped queries": lambda: LlamaForCausalLM(
        LlamaConfig(**SHAPE, num_hidden_layers=3, num_key_value_heads=2)
    ),
    "llama, one key-value head": lambda: LlamaForCausalLM(
        LlamaConfig(**SHAPE, num_hidden_layers=2, num_key_value_heads=1, tie_word_embeddings=True)
    ),
    "qwen3, a key-value head for each query": lambda: Qwen3ForCausalLM(
        Qwen3Config(**SHAPE, num_hidden_layers=2, num_key_value_heads=6)
    ),
    "mistral, sliding window": lambda: MistralForCausalLM(
        MistralConfig(**SHAPE, num_hidden_layers=2, num_key_value_heads=2, sliding_window=13)
    ),
    "gemma 3, window in some layers, own scaling": lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(
            **SHAPE,
            num_hidden_layers=3,
            num_key_value_heads=3,
            sliding_window=11,
            query_pre_attn_scalar=5,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        )
    ),
}


def build(name: str = "llama, grouped queries", seed: int = 0) -> LoadedModel:
    torch.manual_seed(seed)
    return LoadedModel.of(ARCHITECTURES[name](), name)


def dense(model: LoadedModel, ids: Sequence[int], temperature: float = 1.0) -> list[float]:
    """Log-probabilities of ``ids[1:]`` by transformers' own forward and its own attention."""
    network = copy.deepcopy(model.network)
    network.set_attn_implementation("eager")
    with torch.inference_mode():
        logits = network(input_ids=torch.tensor([ids[:-1]]), use_cache=False).logits[0]
    logprobs = (logits / temperature).log_softmax(-1)
    found: list[float] = logprobs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()
    return found


def prompt(length: int, seed: int) -> tuple[int, ...]:
    pick = random.Random(seed)
    return tuple(pick.randrange(64) for _ in range(length))


class Machine:
    """A scheduler and a runner, driven step by step without asyncio."""

    def __init__(self, model: LoadedModel, limits: Limits, detokenize: None = None) -> None:
        self.model = model
        self.scheduler = Scheduler(limits, detokenize=detokenize)
        self.runner = Runner(model, limits)
        self.outputs: dict[str, Output] = {}

    def step(self) -> None:
        rows = self.scheduler.schedule()
        draws = self.runner.draw(rows, self.runner.forward(rows))
        for live in self.scheduler.settle(rows, draws):
            self.outputs[live.request.id] = live.output()
        self.scheduler.check()

    def serve(self, *requests: Request) -> list[Output]:
        for request in requests:
            self.scheduler.submit(request)
        while not self.scheduler.idle:
            self.step()
        assert self.scheduler.free_blocks == self.scheduler.limits.blocks
        return [self.outputs[request.id] for request in requests]

    def update(self, weights: LoadedModel, recompute: bool = False) -> None:
        self.runner.commit(self.runner.stage(weights.network.state_dict()))
        self.scheduler.swap(self.scheduler.version + 1, recompute)


def machine(model: LoadedModel, **limits: int) -> Machine:
    settings = {"blocks": 256, "block_size": 8, "running": 16, "token_budget": 512, **limits}
    return Machine(model, Limits(**settings))


def worst(output: Output, request: Request, model: LoadedModel) -> float:
    """The largest difference between the engine's log-probabilities and a dense forward's."""
    expected = dense(model, (*request.prompt, *output.ids), request.sampling.temperature or 1.0)
    return gap(output.logprobs, expected[len(request.prompt) - 1 :])


def gap(first: Sequence[float], second: Sequence[float]) -> float:
    return max(abs(one - other) for one, other in zip(first, second, strict=True))


def agree(first: Output, second: Output) -> bool:
    return first.ids == second.ids and gap(first.logprobs, second.logprobs) < CLOSE


def burst() -> list[Request]:
    """Requests of many lengths; some share a beginning, some are siblings, some greedy."""
    shared = prompt(29, seed=99)
    requests = [
        Request(f"{length}", prompt(length, seed=length), Sampling(20, temperature=0.8, seed=length))
        for length in (1, 2, 7, 8, 9, 16, 33, 70)
    ]
    requests += [Request(f"s{seed}", shared, Sampling(24, seed=seed)) for seed in range(4)]
    requests += [Request(f"t{n}", shared + prompt(n, n), Sampling(9, temperature=0.0)) for n in (3, 11)]
    return requests


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small lose more than they gain by threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=ARCHITECTURES)
def model(request: pytest.FixtureRequest) -> LoadedModel:
    return build(request.param)


def test_the_networks_are_sharp(model: LoadedModel) -> None:
    """A key too many or too few, even a far one, shows: the tolerance of these tests means something."""
    ids = prompt(24, seed=5)
    assert gap(dense(model, ids)[-1:], dense(model, ids[1:])[-1:]) > 20 * CLOSE


def test_paged_is_dense(model: LoadedModel) -> None:
    requests = burst()
    for request, output in zip(requests, machine(model).serve(*requests), strict=True):
        assert worst(output, request, model) < CLOSE, request.id


def test_scored_is_dense(model: LoadedModel) -> None:
    runner = machine(model).runner
    ids = prompt(300, seed=3)
    assert gap(runner.score(ids, 0.7), dense(model, ids, 0.7)) < CLOSE


def test_chunked_is_whole(model: LoadedModel) -> None:
    whole = machine(model).serve(*burst())
    for budget in (17, 40):
        chunked = machine(model, token_budget=budget).serve(*burst())
        assert all(map(agree, whole, chunked))


def test_cached_is_cold(model: LoadedModel) -> None:
    engine = machine(model)
    first = engine.serve(*burst())
    again = engine.serve(*burst())
    assert sum(output.cached_tokens for output in again) > sum(output.cached_tokens for output in first)
    assert all(output.cached_tokens >= 24 for output in again[-6:])
    assert all(map(agree, first, again))


def test_batched_is_alone(model: LoadedModel) -> None:
    together = machine(model).serve(*burst())
    alone = [machine(model).serve(request)[0] for request in burst()]
    assert all(map(agree, together, alone))


def test_preempted_is_undisturbed(model: LoadedModel) -> None:
    undisturbed = machine(model).serve(*burst())
    small = machine(model, blocks=14)
    disturbed = small.serve(*burst())
    assert small.scheduler.counts.preemptions > 0
    assert all(map(agree, undisturbed, disturbed))


@pytest.mark.parametrize("block_size", [1, 3, 64])
def test_the_size_of_a_block_does_not_matter(block_size: int) -> None:
    model = build()
    expected = machine(model).serve(*burst())
    other = machine(model, block_size=block_size, blocks=2048 // block_size).serve(*burst())
    assert all(map(agree, expected, other))


def crossing(engine: Machine, new: LoadedModel, recompute: bool) -> tuple[Request, Output]:
    """A request whose weights change after half of its tokens."""
    request = Request("crossing", prompt(40, seed=1), Sampling(60, seed=4))
    engine.scheduler.submit(request)
    for _ in range(30):
        engine.step()
    engine.update(new, recompute)
    while not engine.scheduler.idle:
        engine.step()
    return request, engine.outputs["crossing"]


@pytest.mark.parametrize("recompute", [False, True])
def test_each_token_names_the_weights_it_was_drawn_under(recompute: bool) -> None:
    old, new = build(seed=0), build(seed=1)
    request, output = crossing(machine(build(seed=0)), new, recompute)
    assert output.versions == (0,) * 30 + (1,) * 30
    ids = (*request.prompt, *output.ids)
    assert gap(output.logprobs[:30], dense(old, ids)[39:69]) < CLOSE
    after = gap(output.logprobs[30:], dense(new, ids)[69:])
    assert after < CLOSE if recompute else after > 10 * CLOSE


def test_a_fresh_request_after_an_update_is_all_new() -> None:
    new = build(seed=1)
    engine = machine(build(seed=0))
    before = Request("before", prompt(40, seed=1), Sampling(10, seed=4))
    engine.serve(before)
    engine.update(new)
    after = Request("after", before.prompt, before.sampling)
    [output] = engine.serve(after)
    assert output.cached_tokens == 0
    assert set(output.versions) == {1}
    assert worst(output, after, new) < CLOSE


def transcript_after_crossing() -> tuple[Output, float]:
    """The next turn of an agent whose last reply crossed an update, and its distance from a dense forward.

    Another request has filed the same prompt's blocks under the new weights, so that the crossing one's
    later blocks hang on a chain that the next turn does walk.
    """
    new = build(seed=1)
    engine = machine(build(seed=0))
    request, output = crossing(engine, new, recompute=False)
    other = Request("other", (*request.prompt, *output.ids[:28]), Sampling(1))
    engine.serve(other)
    turn = Request("next", (*request.prompt, *output.ids, *prompt(5, seed=8)), Sampling(20, seed=6))
    [reply] = engine.serve(turn)
    return reply, worst(reply, turn, new)


def test_the_transcript_of_a_crossing_serves_no_stale_block() -> None:
    reply, difference = transcript_after_crossing()
    assert reply.cached_tokens == 64, "what the other request computed under the new weights, and no more"
    assert difference < CLOSE


def test_seeding_the_chain_alone_would_serve_stale_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The obvious scheme, put in place of ours, fails the test above."""

    def naive(self: Live, length: int, version: int, size: int) -> Iterator[tuple[bytes, int]]:
        begin, self.computed = self.computed, self.computed + length
        for end in range(begin // size * size + size, self.computed + 1, size):
            key = chain((*self.tokens[:end], 0), size, version)[-1]
            self.keys.append(key)
            yield key, self.blocks[end // size - 1]

    monkeypatch.setattr(Live, "advance", naive)
    reply, difference = transcript_after_crossing()
    assert reply.cached_tokens > 64
    assert difference > 10 * CLOSE


def test_a_long_life_of_updates_stays_exact() -> None:
    """Turns of several conversations, interleaved with updates: what follows one, follows its weights."""
    engine = machine(build(seed=0), blocks=60)
    contexts = [prompt(30, seed=0)] * 3 + [prompt(20, seed=1)]
    for round_ in range(6):
        weights = build(seed=round_ + 1)
        requests = [
            Request(f"{round_}-{n}", context, Sampling(12, seed=n)) for n, context in enumerate(contexts)
        ]
        for request in requests:
            engine.scheduler.submit(request)
        for _ in range(5):
            engine.step()
        engine.update(weights, recompute=round_ % 2 == 1)
        while not engine.scheduler.idle:
            engine.step()
        contexts = [
            (*context, *engine.outputs[request.id].ids, round_)
            for context, request in zip(contexts, requests, strict=True)
        ]
        fresh = [Request(f"{round_}-{n}+", context, Sampling(3)) for n, context in enumerate(contexts)]
        for request, output in zip(fresh, engine.serve(*fresh), strict=True):
            assert worst(output, request, weights) < CLOSE
            assert set(output.versions) == {round_ + 1}
