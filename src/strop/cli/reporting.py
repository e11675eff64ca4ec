"""From the store and the events of a run to the data of its report.

Nothing is remembered from the run itself: a report can be written again at any time, from what was recorded.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select

from strop.cli.runs import RunFolder
from strop.clock import Clock
from strop.evaluation.comparison import compare
from strop.evaluation.estimate import summarise
from strop.evaluation.strata import Outcome
from strop.events import read_events
from strop.report.run_report import Evaluation, RunReport, Stage, Step
from strop.seeds import Seed
from strop.store import Episode, Run, Store, TraceBlob
from strop.tasks.task import Strata
from strop.trace import Trace, unpack

TITLES = {
    "seeds": ("Held-out seeds", "families that training saw, in tasks that it did not"),
    "families": ("Held-out families", "families that no training split holds"),
    "tasks": ("Tasks", "as they were asked for"),
}
KINDS = {"train": "training run", "eval": "evaluation", "run": "single attempt"}
SHOWN = 3
"""Transcripts of successes, and of failures, on the page."""


def gather(store: Store, folder: RunFolder, clock: Clock) -> RunReport:
    """Everything that is known of a run."""
    run = store.run(folder.name)
    with store.read() as session:
        episodes = session.scalars(select(Episode).where(Episode.run == run.name).order_by(Episode.id)).all()
    by_stage: dict[str, list[Episode]] = defaultdict(list)
    for episode in sorted(episodes, key=lambda episode: episode.dispatched):
        by_stage[episode.stage].append(episode)
    events = read_events(folder.events) if folder.events.exists() else []
    staleness = run.config.get("rollout", {}).get("staleness", {}).get("bound")
    return RunReport(
        name=run.name,
        kind=KINDS.get(run.kind.split(":")[0], run.kind),
        started=run.started,
        seconds=(run.ended or clock.now()) - run.started,
        outcome=run.outcome,
        facts={"model": str(run.config.get("model", "")), **{k: str(v) for k, v in run.facts.items()}},
        config=folder.recipe.read_text(encoding="utf-8") if folder.recipe.exists() else "",
        steps=tuple(step_of(event.data) for event in events if event.kind == "step"),
        staleness_bound=staleness if run.kind == "train" else None,
        evaluations=evaluations(by_stage),
        stages=tuple(stage_of(name, rows) for name, rows in by_stage.items()),
        transcripts=examples(store, by_stage),
    )


def outcome_of(episode: Episode) -> Outcome:
    """An episode's row as an outcome."""
    return Outcome(
        task=episode.task,
        task_id=episode.task_id,
        strata=Strata(**episode.strata),
        seed=0,
        score=episode.score,
        passed=episode.passed,
        fault=episode.fault,
        stop=episode.stop or "fault",
        turns=episode.turns or 0,
        tokens=episode.sampled_tokens or 0,
    )


def evaluations(by_stage: Mapping[str, Sequence[Episode]]) -> tuple[Evaluation, ...]:
    """What was evaluated, before and after where there is both; stages are named ``eval:WHEN:WHAT``."""
    found: dict[str, dict[str, list[Outcome]]] = defaultdict(dict)
    for stage, episodes in by_stage.items():
        kind, _, rest = stage.partition(":")
        when, _, what = rest.partition(":")
        if kind == "eval":
            found[what or "tasks"][when] = [outcome_of(episode) for episode in episodes]
    results = []
    for what, arms in found.items():
        title, about = TITLES[what]
        both = {"before", "after"} <= set(arms)
        whole = both and {o.task_id for o in arms["before"]} == {o.task_id for o in arms["after"]}
        if whole:
            results.append(Evaluation(title, about, compare(arms["before"], arms["after"], Seed(0))))
            continue
        for when, outcomes in arms.items():
            results.append(Evaluation(f"{title}, {when}" if when else title, about, summarise(outcomes)))
    return tuple(results)


def stage_of(name: str, episodes: Sequence[Episode]) -> Stage:
    faults = Counter(episode.fault for episode in episodes if episode.fault)
    return Stage(
        name,
        dispatched=len(episodes),
        scored=sum(episode.score is not None for episode in episodes),
        truncated=sum(episode.stop == "tokens" for episode in episodes),
        faults=dict(faults),
    )


def step_of(data: Mapping[str, Any]) -> Step:
    """A step's event as a row of the report; seconds of sampler and sandboxes are those of the same span."""
    learner = {name: data[f"seconds_{name}"] for name in ("waiting", "learning", "publishing")}
    sampler = {
        key.removeprefix("engine_"): value
        for key, value in data.items()
        if key.startswith("engine_") and value
    }
    sampler["idle"] = max(0.0, data["seconds"] - sum(sampler.values()))
    phases = ("lease", "sampling", "tools", "grading")
    return Step(
        step=data["step"],
        reward=data["reward"],
        episodes=int(data["episodes"]),
        staleness_mean=data["staleness_mean"],
        staleness_max=data["staleness_max"],
        loss=data.get("loss"),
        entropy=data.get("entropy"),
        tokens_per_second=data["tokens_per_second"],
        sandboxes_per_second=data["sandboxes_per_second"],
        seconds={
            "learner": learner,
            "sampler": sampler,
            "episodes": {name: data[f"episode_{name}"] for name in phases},
        },
    )


def examples(store: Store, by_stage: Mapping[str, Sequence[Episode]]) -> tuple[Trace, ...]:
    """A few transcripts of the last evaluation (else of the last stage): successes, then failures."""
    if not by_stage:
        return ()
    evaluated = [stage for stage in by_stage if stage.startswith("eval:") and stage.endswith("seeds")]
    rows = by_stage[evaluated[-1] if evaluated else list(by_stage)[-1]]
    longest = sorted(rows, key=lambda episode: -(episode.turns or 0))
    passed = [episode.id for episode in longest if episode.passed][:SHOWN]
    failed = [episode.id for episode in longest if episode.passed is False][:SHOWN]
    with store.read() as session:
        blobs = [session.get(TraceBlob, episode) for episode in (*passed, *failed)]
    return tuple(unpack(blob.blob) for blob in blobs if blob is not None)


def runs_of(store: Store) -> Sequence[Run]:
    """Every run, latest first."""
    with store.read() as session:
        return session.scalars(select(Run).order_by(Run.started.desc())).all()
