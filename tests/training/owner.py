"""Run as a program by the tests: owns a learner and waits, having printed the learner's process id."""

import asyncio
import sys
from pathlib import Path

from strop.training.child import ChildPlan, LearnerChild
from strop.training.learner import LearnerSettings
from strop.training.stages import load_network
from strop.training.weights import Exchange, state_of


async def main(folder: Path) -> None:
    exchange = Exchange.for_state(state_of(load_network(folder)))
    async with LearnerChild(ChildPlan(folder, LearnerSettings(), exchange, 1)) as learner:
        print(learner._process.pid, flush=True)
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
