"""Run as a program by the tests: opens a pool, leases, and works until it is interrupted or killed.

Prints one line of JSON when it is at work: the processes and control groups that must go with it.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from strop.sandbox.pool import PoolSettings, SandboxPool
from strop.tasks.task import Limits
from strop.tasks.workspace import Command


class WallClock:
    def now(self) -> float:
        return time.monotonic()


def family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(member for child in children for member in family(int(child)))]


async def main() -> None:
    pool = SandboxPool(PoolSettings(maximum=2, spare=2), WallClock(), Path(sys.argv[1]))
    async with pool, pool.lease(Limits()) as sandbox:
        await sandbox.run(Command("(setsid sleep 5000 &); mkdir -p /app/x"))
        while pool.metrics().spare < 2:
            await asyncio.sleep(0.005)
        parent = pool._parent._process.pid
        print(json.dumps({"family": family(parent), "groups": pool._groups.folders}), flush=True)
        await sandbox.run(Command("sleep 5000", timeout=9000))


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(130)
