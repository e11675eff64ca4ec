"""The learner in a process of its own.

The owner sends one command at a time and awaits its answer; weights come back through shared memory, by
version. The child ignores Ctrl-C, which is its owner's to handle, and ends when its owner does.
"""

import asyncio
import signal
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing

from strop.errors import Fault, MachineryFault
from strop.training.batch import Row
from strop.training.checkpoint import discard, save_checkpoint
from strop.training.learner import Learner, LearnerSettings
from strop.training.stages import load_network
from strop.training.weights import Exchange, state_of


@dataclass(frozen=True)
class ChildPlan:
    """What the child is started with."""

    model: Path
    settings: LearnerSettings
    exchange: Exchange
    threads: int


class LearnerChild:
    """Example: ``async with LearnerChild(plan) as learner: await learner.step(rows, 1.0)``."""

    def __init__(self, plan: ChildPlan) -> None:
        self._plan = plan
        context = torch.multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, plan), name="strop-learner", daemon=True)
        self._theirs = theirs
        self._turn = asyncio.Lock()
        self._saving: Path | None = None
        """What is half-written when the child is killed now."""

    async def __aenter__(self) -> "LearnerChild":
        resource_tracker.ensure_running()  # which would unblock what is blocked here
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))  # inherited: deaf while it imports
        try:
            self._process.start()  # not in a thread, which a cancellation would leave behind
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        self._theirs.close()
        try:
            await self._ask("ready", None)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End the child, whatever it is doing, and wait until it is gone."""
        self._process.kill()
        await asyncio.shield(asyncio.to_thread(self._process.join))
        async with self._turn:  # whoever still asks has heard of it by then
            self._connection.close()
        if self._saving is not None:
            discard(self._saving)

    async def step(self, rows: Sequence[Row], temperature: float) -> dict[str, float]:
        """One update; afterwards the exchange holds the weights of version ``figures["version"]``.

        Raises:
            MachineryFault: ``not-finite``, or ``learner-lost`` when the child is gone.
        """
        figures: dict[str, float] = await self._ask("step", (rows, temperature))
        return figures

    async def save(self, target: Path, facts: dict[str, Any]) -> None:
        """Write a checkpoint to `target`; nothing of it stays when the child ends before it is whole.

        Raises:
            MachineryFault: it could not be written, or the child is gone.
        """
        self._saving = target
        try:
            await self._ask("save", (target, facts))
        except MachineryFault as fault:
            last = fault.message.strip().rpartition("\n")[2]
            raise MachineryFault(fault.code, f"{target} could not be written: {last}") from fault
        self._saving = None

    async def _ask(self, command: str, payload: Any) -> Any:
        async with self._turn:
            try:
                await asyncio.to_thread(self._connection.send, (command, payload))
                outcome, answer = await asyncio.to_thread(self._connection.recv)
            except (EOFError, OSError) as error:
                await asyncio.to_thread(self._process.join, 5.0)
                code = self._process.exitcode
                raise MachineryFault("learner-lost", f"the learner ended with exit code {code}") from error
        if outcome == "fault":
            raise MachineryFault(*answer)
        return answer


def _serve(connection: Connection, plan: ChildPlan) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(plan.threads)
    try:
        network = load_network(plan.model)
        learner = Learner(network, plan.settings)
    except Exception as error:
        connection.send(("fault", ("learner-failed", f"cannot load {plan.model}: {error}")))
        return
    while True:
        try:
            command, payload = connection.recv()
        except EOFError:
            return
        try:
            connection.send(("done", _obey(learner, network, plan, command, payload)))
        except Fault as fault:
            connection.send(("fault", (fault.code, fault.message)))
        except Exception:
            connection.send(("fault", ("learner-failed", traceback.format_exc(limit=-3))))


def _obey(learner: Learner, network: Any, plan: ChildPlan, command: str, payload: Any) -> Any:
    if command == "step":
        figures = learner.step(*payload)
        plan.exchange.write(learner.version, state_of(network))
        return {**figures, "version": learner.version}
    if command == "save":
        target, facts = payload
        save_checkpoint(network, plan.model, target, facts)
    return None
