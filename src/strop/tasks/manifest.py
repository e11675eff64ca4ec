"""``task.toml`` as Harbor writes it (schema 1.x, Terminal-Bench 2 among its subsets).

Every field of the format is known here, so that a misspelt one is told from one that this version cannot
honour. A model states the field's type and default and nothing about what Strop does with it; `folder`
decides that.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from strop.config import Settings

NetworkMode = Literal["public", "no-network", "allowlist"]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Text = Annotated[str, Field(strict=True)]
Whole = Annotated[int, Field(ge=0, strict=True)]
Size = Annotated[int, Field(ge=1, strict=True)]
Number = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Variables = dict[Text, Text]
User = Annotated[Text, BeforeValidator(lambda user: str(user) if type(user) is int else user)]

TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}", re.DOTALL)
"""An environment value that is replaced from the caller's environment, if the whole of it has this form."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)
_MEBIBYTES = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "": 1 / 1024**2}


class Author(Settings):
    name: Text
    email: Text | None = None


class About(Settings):
    """The ``[task]`` section."""

    name: Annotated[str, Field(min_length=1, strict=True)]
    """``organisation/name``."""
    version: Text | None = None
    description: Text = ""
    authors: tuple[Author, ...] = ()
    keywords: tuple[Text, ...] = ()


class Agent(Settings):
    timeout_sec: Seconds | None = None
    """Seconds that an attempt may take."""
    user: User | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[Text, ...] | None = None


class HealthCheck(Settings):
    command: Text
    interval_sec: float = 5
    timeout_sec: float = 30
    start_period_sec: float = 0
    start_interval_sec: float = 5
    retries: int = 3


class McpServer(Settings):
    name: Text
    transport: Literal["sse", "stdio", "streamable-http"] = "sse"
    url: Text | None = None
    command: Text | None = None
    args: tuple[Text, ...] = ()
    headers: Variables = Field(default_factory=dict)


class Tpu(Settings):
    type: Text
    topology: Text


class Environment(Settings):
    build_timeout_sec: Seconds = 600
    docker_image: Text | None = None
    os: Literal["linux", "windows"] = "linux"
    cpus: Number | None = None
    """Processors, a fraction allowed."""
    memory_mb: Size | None = None
    """Memory in MiB."""
    storage_mb: Size | None = None
    """Disk space in MiB."""
    gpus: Whole | None = None
    gpu_types: tuple[Text, ...] | None = None
    tpu: Tpu | None = None
    network_mode: NetworkMode = "public"
    allowed_hosts: tuple[Text, ...] | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    env: Variables = Field(default_factory=dict)
    skills_dir: Text | None = None
    workdir: Text | None = None
    healthcheck: HealthCheck | None = None

    @model_validator(mode="before")
    @classmethod
    def _legacy(cls, tables: Any) -> Any:
        """``memory = "2G"``, ``storage = "10G"`` and ``allow_internet`` are older spellings."""
        if not isinstance(tables, Mapping):
            return tables
        current = dict(tables)
        for old in ("memory", "storage"):
            if old in current:
                current[f"{old}_mb"] = _one_spelling(current, old, f"{old}_mb", mebibytes(current.pop(old)))
        if "allow_internet" in current:
            allowed = current.pop("allow_internet")
            if not isinstance(allowed, bool):
                raise ValueError(f"holds allow_internet = {allowed!r}; it is true or false")
            mode = "public" if allowed else "no-network"
            current["network_mode"] = _one_spelling(current, "allow_internet", "network_mode", mode)
        return current


class Collect(Settings):
    command: Text
    service: Text = "main"
    timeout_sec: Seconds = 60
    user: User | None = None


class Verifier(Settings):
    timeout_sec: Seconds = 600
    """Seconds that judging may take."""
    env: Variables = Field(default_factory=dict)
    user: User | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[Text, ...] | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: Environment | None = None
    collect: tuple[Collect, ...] = ()


class Solution(Settings):
    env: Variables = Field(default_factory=dict)


class Artifact(Settings):
    source: Text
    destination: Text | None = None
    exclude: tuple[Text, ...] = ()
    service: Text | None = None


Artifacts = tuple[
    Annotated[Artifact, BeforeValidator(lambda item: {"source": item} if isinstance(item, str) else item)],
    ...,
]


class Step(Settings):
    name: Text
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    min_reward: float | dict[str, float] | None = None
    healthcheck: HealthCheck | None = None
    artifacts: Artifacts = ()


class Manifest(Settings):
    """The whole file; ``[metadata]`` is free."""

    schema_version: Text = "1.4"
    source: Text | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    artifacts: Artifacts = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    task: About | None = None
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    environment: Environment = Environment()
    solution: Solution = Solution()
    steps: tuple[Step, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _legacy(cls, tables: Any) -> Any:
        """``version`` is the older spelling of ``schema_version``."""
        if not isinstance(tables, Mapping) or "version" not in tables:
            return tables
        current = dict(tables)
        version = current.pop("version")
        return {**current, "schema_version": _one_spelling(current, "version", "schema_version", version)}


class Strop(Settings):
    """``[metadata.strop]``: what a task of ours says beyond the format."""

    seed: Annotated[int, Field(strict=True)] = 0
    """The seed that the task was made from."""
    live_system: Flag = False
    """Whether judging sees what the agent did to system folders."""
    processes: Annotated[int, Field(ge=1, strict=True)] | None = None
    """The largest number of processes at a time."""
    modes: Variables = Field(default_factory=dict)
    """Octal permissions of files that are neither 644 nor 755, which is all that git would keep."""


class Coordinates(Settings):
    """The strata in ``[metadata]``; Terminal-Bench's ``category`` stands in for a missing domain."""

    type: Text = "task"
    difficulty: Text = "unknown"
    steps: Whole = 0
    """Commands of the reference solution, 0 where nobody counted."""
    domain: Text | None = None
    category: Text = "unknown"


def mebibytes(size: Any) -> int:
    """The MiB in a size such as ``2G`` or ``512M``, at least one.

    Raises:
        ValueError: it is no size.
    """
    found = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if found is None:
        raise ValueError(f'holds the size {size!r}; a size is written "512M" or "2G"')
    return max(1, round(float(found[1]) * _MEBIBYTES[found[2].upper()]))


def _one_spelling(tables: Mapping[str, Any], old: str, new: str, value: Any) -> Any:
    if new in tables and tables[new] != value:
        raise ValueError(f"contradicts itself: {old} and {new} differ; keep {new}")
    return value
