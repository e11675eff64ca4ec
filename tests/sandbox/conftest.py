"""Fixtures for tests in real sandboxes; they are skipped, with the reason, where none can start."""

import asyncio
import functools
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from strop.errors import Refusal
from strop.sandbox.pool import PoolSettings, SandboxPool
from strop.sandbox.sandbox import Sandbox
from strop.tasks.task import Limits

SMALL = Limits(memory_mb=128, storage_mb=32, processes=64)


class WallClock:
    def now(self) -> float:
        return time.monotonic()


@functools.cache
def refusal(cache: Path) -> str:
    """Why this machine runs no sandboxes; '' when it does."""

    async def try_one() -> None:
        async with SandboxPool(PoolSettings(maximum=1, spare=0), WallClock(), cache):
            pass

    try:
        asyncio.run(try_one())
    except Refusal as error:
        return str(error)
    return ""


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def open_pool(cache: Path) -> Callable[..., SandboxPool]:
    """Makes pools, to be entered by the test."""
    if reason := refusal(cache):
        pytest.skip(reason)

    def make(**settings: Any) -> SandboxPool:
        return SandboxPool(PoolSettings(**{"maximum": 2, "spare": 0, **settings}), WallClock(), cache)

    return make


@pytest.fixture
def in_sandbox(open_pool: Callable[..., SandboxPool]) -> Callable[..., Any]:
    """Runs an async scenario on a fresh sandbox, returns what it returns."""

    def run(scenario: Callable[[Sandbox], Awaitable[Any]], limits: Limits = SMALL) -> Any:
        async def main() -> Any:
            async with open_pool(maximum=1) as pool, pool.lease(limits) as sandbox:
                return await scenario(sandbox)

        return asyncio.run(main())

    return run


@pytest.fixture
def is_root() -> bool:
    return os.geteuid() == 0
