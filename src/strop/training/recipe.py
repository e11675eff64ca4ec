"""What a training run is made of, in one TOML file.

Each part's settings stand beside the part; this file only composes them.
"""

from typing import Literal

from pydantic import Field

from strop.agent.episode import EpisodeSettings
from strop.config import Settings
from strop.rollout.dispatcher import RolloutSettings
from strop.rollout.policy import SamplingSettings
from strop.training.advantage import AdvantageSettings
from strop.training.embedded import EmbeddedSettings
from strop.training.learner import LearnerSettings
from strop.training.stages import WarmUpSettings


class TaskSettings(Settings):
    """What is trained on."""

    suite: str = "shell"
    split: str = "train"
    """The split that reinforcement learning draws from."""
    count: int = Field(840, ge=1, le=100_000)
    """How many of its tasks there are; the gate checks each before it may train."""
    families: tuple[str, ...] = ()
    """Of which families; none named means all."""
    difficulties: tuple[str, ...] = ()
    """Of which difficulties; none named means all."""
    warm_up: str = "warm-up"
    """The split that the warm-up learns from."""


class EngineSettings(Settings):
    """Memory and batch sizes of the embedded engine."""

    blocks: int = Field(4096, ge=1, le=1_000_000)
    """Blocks in the pool of keys and values."""
    block_size: int = Field(16, ge=1, le=4096)
    """Tokens in a block; only whole blocks are found again, so short turns want small ones."""
    token_budget: int = Field(1024, ge=1, le=1_000_000)
    """Tokens computed in one step."""
    threads: int = Field(1, ge=1, le=256)
    """Of the sampler; the learner has as many."""


class Recipe(Settings):
    """A training run."""

    model: str = "embedded"
    """``embedded``, ``smollm2``, or the folder of a model."""
    dialect: Literal["fenced", "json"] = "fenced"
    """How the model writes its calls."""
    system_prompt: bool = False
    """Whether the tools are explained to the model; the embedded one was trained without."""
    seed: int = 0
    """The root of every random choice."""
    steps: int = Field(60, ge=1)
    """Weight updates by reinforcement learning."""
    tasks: TaskSettings = TaskSettings()
    episode: EpisodeSettings = EpisodeSettings()
    sampling: SamplingSettings = SamplingSettings()
    rollout: RolloutSettings = RolloutSettings()
    advantage: AdvantageSettings = AdvantageSettings()
    learner: LearnerSettings = LearnerSettings()
    engine: EngineSettings = EngineSettings()
    embedded: EmbeddedSettings = EmbeddedSettings()
    warm_up: WarmUpSettings = WarmUpSettings()
