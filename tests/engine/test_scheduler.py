"""The scheduler without a network: draws are made up, and blocks are followed symbolically."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.engine.request import Request, Sampling
from strop.engine.scheduler import Limits, Scheduler
from strop.engine.sequence import Draw, Live, Row

SIZE = 4


def scheduler(blocks: int = 64, running: int = 8, token_budget: int = 64) -> Scheduler:
    return Scheduler(Limits(blocks, SIZE, running, token_budget))


def request(name: str, prompt: tuple[int, ...] | int, max_tokens: int = 4) -> Request:
    if isinstance(prompt, int):
        prompt = tuple(range(prompt))
    return Request(name, prompt, Sampling(max_tokens))


def step(engine: Scheduler, token: int = 1) -> tuple[list[Row], list[Live]]:
    rows = engine.schedule()
    ended = engine.settle(rows, [Draw(token, -1.0) for row in rows if row.samples])
    engine.check()
    return rows, ended


def names(rows: list[Row]) -> list[str]:
    return [row.sequence.request.id for row in rows]


def test_a_request_runs_to_its_end_and_gives_its_blocks_back() -> None:
    engine = scheduler()
    engine.submit(request("a", 6, max_tokens=3))
    lengths, ended = [], []
    while not engine.idle:
        rows, done = step(engine)
        lengths.append([row.length for row in rows])
        ended += done
    assert lengths == [[6], [1], [1]]
    assert [live.finish for live in ended] == ["length"]
    assert engine.free_blocks == 64
    assert engine.counts.sampled_tokens == 3
    assert engine.counts.prefill_tokens == 6


def test_prompts_are_cut_to_the_budget_and_decoding_comes_first() -> None:
    engine = scheduler(token_budget=10)
    engine.submit(request("short", (1, 2, 3)))
    step(engine)
    engine.submit(request("long", 25))
    rows, _ = step(engine)
    assert [(row.length, row.samples) for row in rows] == [(1, True), (9, False)]
    rows, _ = step(engine)
    assert [(row.length, row.start) for row in rows] == [(1, 4), (9, 9)]
    rows, _ = step(engine)
    assert [(row.length, row.samples) for row in rows] == [(1, True), (7, True)]


def test_rows_are_sorted_by_length_for_like_ones_to_share_a_call() -> None:
    engine = scheduler()
    for name, length in (("a", 9), ("b", 3), ("c", 7)):
        engine.submit(request(name, tuple(random.Random(name).randrange(99) for _ in range(length))))
    rows, _ = step(engine)
    assert [row.length for row in rows] == [3, 7, 9]


def test_a_burst_of_equal_prompts_is_computed_once() -> None:
    engine = scheduler()
    for index in range(8):
        engine.submit(request(f"sibling-{index}", 18))
    first, _ = step(engine)
    assert names(first) == ["sibling-0"]
    second, _ = step(engine)
    assert len(second) == 8
    assert [row.length for row in second] == [1] + [2] * 7, "four full blocks of four are shared"
    assert {row.sequence.cached_tokens for row in second[1:]} == {16}
    assert engine.counts.cached_tokens == 7 * 16


def test_one_that_shares_only_a_part_waits_only_for_that_part() -> None:
    engine = scheduler(token_budget=12)
    engine.submit(request("first", 30))
    engine.submit(request("second", (*range(8), 99, 98)))
    engine.submit(request("other", (50, 51)))
    assert names(step(engine)[0]) == ["first"]
    rows, _ = step(engine)
    assert names(rows) == ["first"], "the budget went to the older prompt"
    rows, _ = step(engine)
    assert Counter(names(rows)) == Counter(["first", "second", "other"])
    assert next(row for row in rows if row.sequence.request.id == "second").start == 8


def test_a_waiting_sibling_starts_alone_when_the_one_it_waits_for_is_aborted() -> None:
    engine = scheduler(token_budget=12)
    engine.submit(request("a", 30))
    engine.submit(request("b", 30))
    step(engine)
    assert engine.abort("a") is not None
    rows, _ = step(engine)
    assert names(rows) == ["b"]
    assert rows[0].start == 12, "what the first had filed is still found"


def test_the_youngest_gives_way_and_comes_back_to_the_same_tokens() -> None:
    engine = scheduler(blocks=6)
    engine.submit(request("old", (1, 2, 3), max_tokens=17))
    step(engine, token=7)
    engine.submit(request("young", (4, 5, 6), max_tokens=13))
    ended: list[Live] = []
    preempted_at = None
    for count in range(100):
        if engine.idle:
            break
        ended += step(engine, token=7)[1]
        if engine.counts.preemptions and preempted_at is None:
            preempted_at = count
            assert [live.request.id for live in engine.waiting] == ["young"]
    assert preempted_at is not None
    assert [live.request.id for live in ended] == ["old", "young"]
    assert [len(live.logprobs) for live in ended] == [17, 13]
    assert engine.free_blocks == 6


def test_admission_keeps_a_block_in_reserve_for_everyone_who_runs() -> None:
    engine = scheduler(blocks=5)
    engine.submit(request("a", (1, 2, 3), max_tokens=12))
    engine.submit(request("b", (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16), max_tokens=1))
    assert names(step(engine)[0]) == ["a"], "4 blocks are left, and 4 plus one in reserve were needed"
    engine.abort("a")
    assert names(step(engine)[0]) == ["b"]


def test_abort_frees_what_runs_and_forgets_what_waits() -> None:
    engine = scheduler(running=1, token_budget=64)
    engine.submit(request("runs", 9))
    engine.submit(request("waits", (50, 51)))
    step(engine)
    for name in ("runs", "waits"):
        live = engine.abort(name)
        assert live is not None
        assert live.output().finish == "abort"
        engine.check()
    assert engine.abort("runs") is None
    assert engine.idle
    assert engine.free_blocks == 64


def test_running_is_bounded() -> None:
    engine = scheduler(running=2)
    for index in range(5):
        engine.submit(request(f"{index}", (index * 10, index * 10 + 1), max_tokens=2))
    assert names(step(engine)[0]) == ["0", "1"]
    step(engine)
    assert names(step(engine)[0]) == ["2", "3"]


def test_a_new_version_finds_no_block_of_the_old() -> None:
    engine = scheduler()
    engine.submit(request("a", 9, max_tokens=1))
    step(engine)
    engine.submit(request("b", 9, max_tokens=1))
    assert step(engine)[1][0].cached_tokens == 8
    assert engine.swap(1, recompute=False).kept == 0
    engine.submit(request("c", 9, max_tokens=1))
    assert step(engine)[1][0].cached_tokens == 0
    engine.submit(request("d", 9, max_tokens=1))
    assert step(engine)[1][0].cached_tokens == 8


def test_recompute_sends_the_running_back_in_order() -> None:
    engine = scheduler()
    for name in ("a", "b"):
        engine.submit(request(name, (ord(name), 1, 2), max_tokens=9))
    step(engine)
    swap = engine.swap(1, recompute=True)
    assert (swap.kept, swap.recomputed) == (0, 2)
    assert engine.counts.preemptions == 0
    rows, _ = step(engine)
    assert [(row.start, row.length) for row in rows] == [(0, 4), (0, 4)]
    assert rows[0].sequence.versions == [0, 1]
    engine.submit(request("c", (ord("a"), 1, 2, 1, 5)))
    assert step(engine)[0][-1].start == 4, "what was computed again is found under the new version"


def test_limits_that_would_starve_prompts_are_refused() -> None:
    with pytest.raises(ValueError, match="must exceed running"):
        Limits(running=64, token_budget=64)
    with pytest.raises(ValueError, match="at least 1"):
        Limits(blocks=0)


class Content:
    """What stands in each place of the pool: which token, under which version, after what."""

    def __init__(self, blocks: int) -> None:
        self._places: dict[int, tuple[object, int, int]] = {}
        self._size = SIZE

    def write(self, row: Row, version: int) -> None:
        for position in range(row.start, row.start + row.length):
            before = self.read(row.sequence, position - 1) if position else None
            self._places[self._place(row.sequence, position)] = (
                hash(before),
                row.sequence.tokens[position],
                version,
            )

    def read(self, live: Live, position: int) -> tuple[object, int, int]:
        return self._places[self._place(live, position)]

    def _place(self, live: Live, position: int) -> int:
        return live.blocks[position // self._size] * self._size + position % self._size


@st.composite
def commands(draw: st.DrawFn) -> list[tuple[str, int]]:
    kinds = st.sampled_from(["submit"] * 5 + ["step"] * 8 + ["abort", "keep", "recompute"])
    return draw(st.lists(st.tuples(kinds, st.integers(0, 10**6)), min_size=20, max_size=120))


@given(commands())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_every_request_ends_once_and_reads_only_its_own_past(script: list[tuple[str, int]]) -> None:
    """Under any mix of commands: no block leaks, and what a row reads is what a run alone would read.

    A sequence starts on blocks of the current version alone; those it holds through an update it wrote
    itself or shared before.
    """
    engine = scheduler(blocks=20, running=6, token_budget=17)
    content, submitted, ended = Content(20), 0, Counter[str]()
    believed: dict[Live, tuple[list[int], list[tuple[object, int, int]]]] = {}

    def run() -> None:
        rows = engine.schedule()
        assert sum(row.length for row in rows) <= 17
        assert rows or engine.idle
        for row in rows:
            table, past = believed.get(row.sequence, (None, []))
            if table is not row.sequence.blocks:  # it begins, or begins again
                past = []
                for token in row.sequence.tokens[: row.start]:
                    past.append((hash(past[-1] if past else None), token, engine.version))
            assert [content.read(row.sequence, at) for at in range(row.start)] == past
            believed[row.sequence] = row.sequence.blocks, past
        for row in rows:
            content.write(row, engine.version)
            written = range(row.start, row.start + row.length)
            believed[row.sequence][1].extend(content.read(row.sequence, at) for at in written)
        done = engine.settle(rows, [Draw(row.sequence.arrival % 3, -1.0) for row in rows if row.samples])
        ended.update(live.request.id for live in done)

    for kind, number in script:
        pick = random.Random(number)
        if kind == "submit":
            prompt = tuple(pick.randrange(2) for _ in range(pick.choice((1, 5, 12, 30))))
            engine.submit(request(f"{submitted}", prompt, max_tokens=pick.randint(1, 20)))
            submitted += 1
        elif kind == "abort" and submitted:
            live = engine.abort(f"{pick.randrange(submitted)}")
            ended.update([live.request.id] if live else [])
        elif kind in ("keep", "recompute"):
            engine.swap(engine.version + 1, recompute=kind == "recompute")
        else:
            run()
        engine.check()
    for _ in range(5000):
        if engine.idle:
            break
        run()
    engine.check()
    assert ended == Counter({f"{index}": 1 for index in range(submitted)})
    assert engine.free_blocks == 20


def test_nobody_starves_under_a_lasting_backlog() -> None:
    """Strangers' requests are first scheduled in order of arrival, and every step uses its budget well."""
    engine = scheduler(blocks=800, running=32, token_budget=64)
    pick = random.Random(1)
    for index in range(600):
        prompt = tuple(pick.randrange(10**6) for _ in range(pick.randint(1, 90)))
        engine.submit(request(f"{index}", prompt, max_tokens=pick.randint(1, 30)))
    started: list[int] = []
    used: list[int] = []
    while not engine.idle:
        backlog = len(engine.waiting) > 16
        rows, _ = step(engine)
        started += sorted(
            row.sequence.arrival for row in rows if row.start == 0 and not row.sequence.versions[1:]
        )
        if backlog:
            used.append(sum(row.length for row in rows))
    assert list(dict.fromkeys(started)) == sorted(set(started))
    assert sum(used) / len(used) >= 0.9 * 64
