"""Every family of the suite is what it claims to be, in real sandboxes."""

import asyncio
from pathlib import Path

import pytest

from strop.cli.wall import WallClock
from strop.errors import Refusal
from strop.quality.gate import Checked, Gate, admissions
from strop.sandbox import kernel
from strop.sandbox.pool import PoolSettings, SandboxPool
from strop.store import Store
from strop.suites.shell.suite import DIFFICULTIES, FAMILIES, SUITE


def test_in_every_family_the_reference_and_the_solution_pass_and_the_idler_fails(tmp_path: Path) -> None:
    try:
        kernel.require()
    except Refusal as error:
        pytest.skip(str(error))
    names = [
        f"{family}-{difficulty}-{n}" for family in FAMILIES for difficulty in DIFFICULTIES for n in (3, 8)
    ]
    tasks = [SUITE.task(name) for name in names]
    found: list[Checked] = []

    async def check(store: Store) -> None:
        clock = WallClock()
        async with SandboxPool(PoolSettings(maximum=8, spare=4), clock, tmp_path / "cache") as pool:
            gate = Gate(store, pool.lease, clock, at_once=8)
            await gate.check_all(tasks, SUITE, found.append)

    with Store.open(tmp_path / "strop.db") as store:
        asyncio.run(check(store))
        admitted = admissions(store, tasks)
    refused = [(c.task.name, f.evidence) for c in found for f in c.findings if not f.good]
    assert refused == []
    assert len(found) == len(tasks) and all(admitted[task.id] for task in tasks)
