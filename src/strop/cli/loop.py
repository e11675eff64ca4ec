"""The event loop of a command: one task, to which all others belong, and which an interruption cancels."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from strop.cli.interruption import INTERRUPTION

T = TypeVar("T")


def complete(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run an async function to its end, in a loop of its own.

    Raises:
        KeyboardInterrupt: it was interrupted, and has ended everything that it started.
    """
    with INTERRUPTION.answered_by(None), asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(work())
        try:
            with INTERRUPTION.answered_by(lambda: loop.call_soon_threadsafe(task.cancel)):
                return loop.run_until_complete(task)
        finally:
            if INTERRUPTION.came:
                raise KeyboardInterrupt
