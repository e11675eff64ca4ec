"""The main job, measured: does reinforcement learning lift held-out pass rates, and how long does it take?

Runs the quickstart recipe once a seed, from the shipped warm-up, and compares the model after it with the
model before it (its peer in the same run) on the same held-out tasks: by replies as they are sampled, and by
the likeliest ones (greedy). The checkpoint is the last one; none is chosen. Ends with one line of JSON.

This is the demo as it ships, its time included. `--steps` trains longer or shorter than the recipe says; that
is no longer the demo, so its time has no target, and the figures name the steps.

    python benchmarks/quickstart.py [--quick] [--steps N] [--seeds N] [--runs FOLDER]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from strop.cli.reporting import outcome_of
from strop.cli.runs import open_store
from strop.evaluation.comparison import Comparison, compare
from strop.evaluation.strata import Outcome
from strop.seeds import Seed
from strop.stats.interval import Difference
from strop.store import Episode

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "quickstart.toml"
STROP = [sys.executable, "-c", "from strop.cli.app import main; main()"]


@dataclass(frozen=True)
class Measured:
    """One seed's run."""

    seed: int
    steps: int | None
    """In place of the recipe's own, which are the demo's."""
    seconds: float
    sampled: Comparison
    greedy: Comparison
    families: Comparison

    @property
    def long(self) -> Difference:
        """The change on tasks of three steps or more, pooled."""
        steps = next(table for table in self.sampled.tables if table.coordinate == "steps")
        return next(row.difference for row in steps.rows if row.stratum == "3+")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one seed, three steps, few tasks: does it run?")
    parser.add_argument("--steps", type=int, help="in place of the recipe's own")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--runs", type=Path, help="keep the runs in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        runs = options.runs or Path(scratch)
        seeds, steps = (1, options.steps or 3) if options.quick else (options.seeds, options.steps)
        measured = [measure(seed, runs, steps, options.quick) for seed in range(seeds)]
    for one in measured:
        tell(one)
    print(json.dumps({"benchmark": "quickstart", "results": [row for one in measured for row in judge(one)]}))


def measure(seed: int, runs: Path, steps: int | None, quick: bool) -> Measured:
    """Train with one seed, then evaluate greedily what was trained and what it started from."""
    name = f"quickstart-seed-{seed}"
    tasks = 42 if quick else 336
    settings = [f"seed={seed}", f"evaluation.seeds={tasks}"]
    settings += [f"steps={steps}", f"learner.decay_steps={steps}"] if steps else []
    begun = time.monotonic()
    strop("train", str(RECIPE), "--name", name, "--runs", str(runs), "--no-open", *sets(settings))
    seconds = time.monotonic() - begun
    greedy = {}
    for when, model in (("before", "embedded"), ("after", str(runs / name / "checkpoints" / "final"))):
        run = f"{name}-greedy-{when}"
        asked = ("eval", "shell:held-out-seeds", "--count", str(tasks), "--model", model, "--name", run)
        strop(*asked, "--runs", str(runs), *sets(["evaluation.temperature=0"]))
        greedy[when] = outcomes(runs, run, "eval")
    before, after = (outcomes(runs, name, f"eval:{when}:seeds") for when in ("before", "after"))
    unseen = [outcomes(runs, name, f"eval:{when}:families") for when in ("before", "after")]
    return Measured(
        seed,
        steps,
        seconds,
        compare(before, after, Seed(0)),
        compare(greedy["before"], greedy["after"], Seed(0)),
        compare(unseen[0], unseen[1], Seed(0)),
    )


def strop(*arguments: str) -> None:
    subprocess.run([*STROP, *arguments], check=True)


def sets(settings: list[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def outcomes(runs: Path, run: str, stage: str) -> list[Outcome]:
    with open_store(runs) as store, store.read() as session:
        rows = session.scalars(select(Episode).where(Episode.run == run, Episode.stage == stage)).all()
    return [outcome_of(row) for row in rows]


def tell(one: Measured) -> None:
    print(f"seed {one.seed}: {one.seconds:.0f} s")
    for what, compared in (
        ("sampled", one.sampled),
        ("greedy", one.greedy),
        ("unseen families", one.families),
    ):
        print(f"  {what:16} before {compared.before.headline}  after {compared.after.headline}")
        print(f"  {'':16} difference {compared.headline.difference}")
    print(f"  3 steps or more: difference {one.long}")


def judge(one: Measured) -> list[dict[str, object]]:
    """The figures of one seed against their targets."""
    before, after = one.sampled.before.headline.value, one.sampled.after.headline.value
    gain = one.sampled.headline.difference
    unseen = one.families
    time_target = ("reported", None) if one.steps else ("<= 480", one.seconds <= 480)
    figures: list[tuple[str, float, str, str, bool | None]] = [
        ("pass rate before", before, "rate", "0.3 to 0.7", 0.3 <= before <= 0.7),
        ("pass rate after", after, "rate", ">= 0.85", after >= 0.85),
        ("paired gain", gain.value, "rate", ">= 0.2", gain.value >= 0.2),
        ("paired gain, lower end of 95 %", gain.interval.low, "rate", "> 0", gain.interval.low > 0),
        ("gain on 3+ steps", one.long.value, "rate", "> 0", one.long.value > 0),
        ("tasks of 3+ steps", one.long.n, "tasks", ">= 100", one.long.n >= 100),
        ("greedy before", one.greedy.before.headline.value, "rate", "reported", None),
        ("greedy after", one.greedy.after.headline.value, "rate", "reported", None),
        ("unseen families before", unseen.before.headline.value, "rate", "reported", None),
        ("unseen families after", unseen.after.headline.value, "rate", "reported", None),
        ("whole run", one.seconds, "s", *time_target),
    ]
    return [
        {
            "what": f"seed {one.seed}{f', {one.steps} steps' if one.steps else ''}: {what}",
            "value": round(value, 4),
            "unit": unit,
            "target": target,
            "ok": ok,
        }
        for what, value, unit, target, ok in figures
    ]


if __name__ == "__main__":
    main()
