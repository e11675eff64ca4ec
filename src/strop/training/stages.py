"""What happens to a model before reinforcement learning: the warm-up.

Reference agents play the warm-up tasks in real sandboxes; the model learns to say what they said where they
passed. Losses are on the assistant's tokens alone, exact to the token. A short drill in copying comes first:
a network that has never copied a word learns nothing else for long, and random tokens teach it sooner.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from strop.agent.record import Record
from strop.config import Settings
from strop.errors import MachineryFault
from strop.messages import Message, ToolSpec
from strop.renderer import Renderer
from strop.seeds import Seed
from strop.training.batch import Row, row_of
from strop.training.learner import Learner, LearnerSettings


class WarmUpSettings(Settings):
    """Supervised training on reference transcripts."""

    tasks: int = Field(16_800, ge=1, le=100_000)
    """How many reference transcripts there are to learn from."""
    batch: int = Field(16, ge=1)
    """Rows in a step."""
    drills: int = Field(400, ge=0)
    """Steps of the drill in copying."""
    drill_rate: float = Field(2e-3, gt=0)
    """Their step size, which may be larger: nothing is spoilt yet."""
    steps: int = Field(2000, ge=1)
    """Steps on the transcripts."""
    learning_rate: float = Field(1e-3, gt=0)
    threads: int = Field(1, ge=1)
    """More are faster only where no one else wants the cores, and round differently."""


def load_network(folder: Path) -> Any:
    """The network of a Hugging Face folder in float32."""
    logging.disable_progress_bar()  # whoever runs us shows progress
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def imitation_row(messages: Sequence[Message], renderer: Renderer, tools: Sequence[ToolSpec]) -> Row:
    """A transcript as a row: everything the assistant said, and how it ended its turns, has weight one."""
    record = Record(renderer, tools)
    for index, message in enumerate(messages):
        if message.role == "assistant":
            record.extend(messages[:index])
            ids = [*renderer.tokenizer.encode(message.content), *renderer.stop_ids[:1]]
            record.sampled(ids, [0.0] * len(ids), [0] * len(ids))
    return row_of(record.segments()[-1], 1.0)


def drill_rows(rng: random.Random, renderer: Renderer, count: int) -> list[Row]:
    """Exchanges of random tokens in which the assistant repeats a few stretches of what the user said."""
    frame = renderer.first([Message("user", "0")], ())
    at = frame.index(renderer.tokenizer.encode("0")[0])
    rows = []
    for _ in range(count):
        words = rng.choices(range(renderer.tokenizer.size), k=rng.randint(6, 24))
        told: list[int] = []
        for _ in range(rng.randint(2, 4)):
            start = rng.randrange(len(words) - 3)
            told += words[start : start + rng.randint(2, 8)]
        context = [*frame[:at], *words, *frame[at + 1 :]]
        ids = np.array([*context, *told], np.int32)
        sampled = np.arange(len(ids)) >= len(context)
        rows.append(Row(ids, sampled, np.zeros(len(ids), np.float32), sampled.astype(np.float32)))
    return rows


def warm_up(
    network: Any,
    rows: Sequence[Row],
    renderer: Renderer,
    settings: WarmUpSettings,
    seed: Seed,
    observe: Callable[[int, dict[str, float]], None],
) -> None:
    """Train `network` in place: the drill, then `rows`, each epoch in a new order.

    The step size stays at its peak to the end, so that what follows starts from a model that has not settled.
    `observe` gets the number of the step, drills included, and its figures.
    """
    torch.set_num_threads(settings.threads)
    if not rows:
        raise MachineryFault("no-lessons", "no reference agent passed, so there is nothing to learn from")
    rng = (seed / "drill").random()
    drill = drill_rows(rng, renderer, settings.drills * settings.batch)
    order: list[int] = []
    while len(order) < settings.steps * settings.batch:
        epoch = list(range(len(rows)))
        (seed / "epoch" / len(order)).random().shuffle(epoch)
        order += epoch
    lessons = [rows[index] for index in order[: settings.steps * settings.batch]]
    step = 0
    for stage, peak in ((drill, settings.drill_rate), (lessons, settings.learning_rate)):
        learner = Learner(network, LearnerSettings(learning_rate=peak, warmup_steps=20, weight_decay=0.01))
        for at in range(0, len(stage), settings.batch):
            observe(step, learner.imitate(stage[at : at + settings.batch]))
            step += 1
