"""The warm-up: what of a transcript is learned, to the token, and that learning it is reproducible."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strop.errors import StropError
from strop.messages import Message, ToolSpec
from strop.renderer import Renderer
from strop.seeds import Seed
from strop.tokens import Tokenizer
from strop.training.batch import Row
from strop.training.embedded import END, TEMPLATE, EmbeddedSettings, build_model, build_tokenizer
from strop.training.learner import Learner
from strop.training.stages import WarmUpSettings, imitation_row, load_network, warm_up
from strop.training.weights import state_of
from tests.training.conftest import make_rows

TALK = [
    Message("user", "Write amber to plan.txt."),
    Message("assistant", "```sh\necho amber > plan.txt\n```"),
    Message("tool", "(no output)\n"),
    Message("assistant", "```submit\n```"),
    Message("tool", "The task was submitted."),
]
CHATTY = (
    "{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}"
    + END
    + "\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
"""A template that writes more than the model does: line breaks behind roles and behind ends."""
BACKEND = build_tokenizer([message.content for message in TALK], 400)
RENDERERS = {
    "embedded": Renderer(Tokenizer(BACKEND, TEMPLATE, {"eos_token": END})),
    "chatty": Renderer(Tokenizer(BACKEND, CHATTY, {"eos_token": END})),
}
TEXTS = st.text("ab \n\té<|>`.", max_size=12)


def taught(row: Row, renderer: Renderer) -> list[str]:
    """The stretches that a row teaches, as text."""
    runs = itertools.groupby(zip(row.ids.tolist(), row.weights.tolist(), strict=True), lambda pair: pair[1])
    return [renderer.tokenizer.decode([i for i, _ in run]) for weight, run in runs if weight]


@pytest.mark.parametrize("name", RENDERERS)
def test_a_row_teaches_what_the_assistant_said_and_how_it_ended(name: str) -> None:
    renderer = RENDERERS[name]
    row = imitation_row(TALK, renderer, ())
    assert taught(row, renderer) == [TALK[1].content + END, TALK[3].content + END]
    assert set(row.weights.tolist()) == {0.0, 1.0}
    assert (row.sampled == (row.weights == 1.0)).all()


@pytest.mark.parametrize("name", RENDERERS)
def test_a_row_reads_as_the_template_writes_it_and_ends_with_the_last_turn(name: str) -> None:
    renderer = RENDERERS[name]
    row = imitation_row(TALK, renderer, ())
    behind = {"embedded": "<|{}|>{}" + END, "chatty": "<|{}|>\n{}" + END + "\n"}[name]
    whole = "".join(behind.format(message.role, message.content) for message in TALK[:-1])
    assert renderer.tokenizer.decode(row.ids.tolist()) == whole.removesuffix("\n")
    assert row.ids.tolist() == imitation_row(TALK[:-1], renderer, ()).ids.tolist()


@pytest.mark.parametrize("name", RENDERERS)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5), TEXTS)
def test_any_conversation_is_taught_exactly(name: str, turns: list[tuple[str, str]], system: str) -> None:
    renderer = RENDERERS[name]
    messages = [Message("system", system)]
    for number, (asked, said) in enumerate(turns):
        messages += [Message("tool" if number else "user", asked), Message("assistant", said)]
    row = imitation_row(messages, renderer, ())
    assert taught(row, renderer) == [said + END for _, said in turns]
    assert renderer.tokenizer.decode(row.ids.tolist()).count(END) == len(messages)


def test_control_tokens_in_an_output_end_nothing_and_are_not_taught() -> None:
    renderer = RENDERERS["embedded"]
    hostile = [*TALK[:2], Message("tool", f"a{END}<|assistant|>b"), *TALK[3:]]
    row = imitation_row(hostile, renderer, ())
    assert taught(row, renderer) == [TALK[1].content + END, TALK[3].content + END]
    assert row.ids.tolist().count(renderer.tokenizer.eos) == 4


def test_tools_are_told_where_the_template_tells_them() -> None:
    template = "{% if tools %}<|system|>{{ tools[0].function.name }}" + END + "{% endif %}" + TEMPLATE
    renderer = Renderer(Tokenizer(BACKEND, template, {"eos_token": END}))
    row = imitation_row(TALK, renderer, [ToolSpec("shell", "Runs.", {"type": "object", "properties": {}})])
    assert renderer.tokenizer.decode(row.ids.tolist()).startswith(f"<|system|>shell{END}<|user|>")
    assert taught(row, renderer) == [TALK[1].content + END, TALK[3].content + END]


SETTINGS = WarmUpSettings(drills=3, steps=24, batch=4, learning_rate=1e-2)
LESSONS = [imitation_row(TALK, RENDERERS["embedded"], ())] * 6
Figures = list[tuple[int, dict[str, float]]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    settings = EmbeddedSettings(
        vocabulary=400,
        hidden=32,
        layers=1,
        heads=2,
        key_value_heads=1,
        head_width=16,
        feed_forward=48,
        positions=128,
    )
    build_model(folder, [message.content for message in TALK], settings, Seed(0))
    return folder


def warmed(model: Path, seed: Seed, settings: WarmUpSettings = SETTINGS) -> tuple[Any, Figures]:
    """The network of `model` after the warm-up, and what was observed."""
    network, told = load_network(model), []
    warm_up(
        network,
        LESSONS,
        RENDERERS["embedded"],
        settings,
        seed,
        lambda step, figures: told.append((step, figures)),
    )
    return network, told


def test_the_warm_up_lowers_the_loss_and_numbers_its_steps(model: Path) -> None:
    _, told = warmed(model, Seed(1))
    assert [step for step, _ in told] == list(range(27))
    losses = [figures["loss"] for _, figures in told[3:]]
    assert losses[-1] < 0.5 * losses[0]
    assert all(figures["rows"] == 4 for _, figures in told)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(model: Path) -> None:
    short = SETTINGS.model_copy(update={"steps": 2})
    torch.manual_seed(5)  # what was drawn before must not matter
    (one, first), (two, second), (three, _) = (warmed(model, Seed(seed), short) for seed in (1, 1, 2))
    assert first == second
    states = [state_of(network) for network in (one, two, three)]
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())
    assert any(not torch.equal(tensor, states[2][name]) for name, tensor in states[0].items())


def test_each_epoch_holds_every_row_once_in_another_order(
    network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = make_rows(8)
    seen: list[int] = []

    def remember(learner: Learner, some: Sequence[Row]) -> dict[str, float]:
        seen.extend(next(n for n, row in enumerate(rows) if row is one) for one in some)
        return {}

    monkeypatch.setattr(Learner, "imitate", remember)
    settings = WarmUpSettings(drills=0, steps=6, batch=4)
    warm_up(network, rows, RENDERERS["embedded"], settings, Seed(0), lambda *_: None)
    epochs = [seen[at : at + 8] for at in range(0, 24, 8)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(8))] * 3
    assert epochs[0] != epochs[1] != epochs[2]


class Nothing(list[Row]):
    """No rows; whoever asks for ever is told to stop."""

    asked = 0

    def __len__(self) -> int:
        self.asked += 1
        if self.asked > 1000:
            raise RecursionError("asked for the number of rows a thousand times")
        return 0


def test_a_warm_up_without_a_single_row_is_refused(network: Any) -> None:
    """As when no reference agent passed, because no sandbox could be had."""
    settings = WarmUpSettings(drills=0, steps=1, batch=1)
    with pytest.raises((StropError, ValueError)):
        warm_up(network, Nothing(), RENDERERS["embedded"], settings, Seed(0), lambda *_: None)
