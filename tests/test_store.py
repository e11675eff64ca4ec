import dataclasses
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import Mapped, mapped_column

from strop import store as module
from strop.errors import MachineryFault, Refusal, SandboxFault
from strop.store import SCHEMA, Episode, Run, Store, Table, TraceBlob, add_trace
from strop.trace import SegmentBuilder, Trace, Turn, Verdict


class Note(Table):
    """A table as a chapter would declare one."""

    __tablename__ = "notes_of_the_store_tests"
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "runs" / "strop.db") as opened:
        yield opened


def trace(episode: str, verdict: Verdict | None = None) -> Trace:
    builder = SegmentBuilder()
    builder.render([1, 2])
    builder.sample([3, 4], [-0.5, -1.5], [0, 1])
    return Trace(
        episode=episode,
        task="shell/a",
        task_id="0123",
        policy="p",
        seed=1,
        messages=(),
        turns=(Turn("stop", 2, 0.1, 0.2),),
        segments=(builder.seal(),),
        stop="submitted",
        verdict=verdict or Verdict(1.0, True, {"reward": 1.0}),
        seconds={"total": 0.3},
    )


def dispatch(store: Store, *episodes: str, run: str = "r1") -> None:
    with store.write() as session:
        if session.get(Run, run) is None:
            session.add(Run(name=run, kind="train", started=1.0))
            session.flush()
        for episode in episodes:
            session.add(
                Episode(
                    id=episode,
                    run=run,
                    stage="rl",
                    task="shell/a",
                    task_id="0123",
                    group="g",
                    dispatched=2.0,
                )
            )


def close(store: Store, closed: Trace) -> None:
    with store.write() as session:
        add_trace(session, closed, closed=3.0)


def refusal(call) -> Refusal:
    with pytest.raises(Refusal) as caught:
        call()
    return caught.value


def test_a_closed_episode_has_its_trace_and_its_figures(store: Store) -> None:
    dispatch(store, "e1")
    close(store, trace("e1"))
    assert store.trace("r1", "e1") == trace("e1")
    with store.read() as session:
        row = session.get(Episode, "e1")
    assert (row.closed, row.stop, row.score, row.passed, row.fault) == (3.0, "submitted", 1.0, True, None)
    assert (row.turns, row.sampled_tokens, row.trained_at) == (1, 2, None)


def test_an_unscored_episode_says_what_cost_it_the_score(store: Store) -> None:
    dispatch(store, "e1")
    close(store, trace("e1", Verdict.unscored(SandboxFault("lost", "gone"))))
    with store.read() as session:
        row = session.get(Episode, "e1")
    assert (row.score, row.passed, row.fault) == (None, None, "sandbox:lost")


def test_an_episode_is_closed_exactly_once(store: Store) -> None:
    dispatch(store, "e1")
    close(store, trace("e1"))
    with pytest.raises(MachineryFault, match="closed-twice"):
        close(store, dataclasses.replace(trace("e1"), stop="turns"))
    with pytest.raises(MachineryFault, match="never-dispatched"):
        close(store, trace("e2"))
    assert store.trace("r1", "e1").stop == "submitted"
    with store.read() as session:
        assert session.query(TraceBlob).count() == 1


def test_a_block_is_written_whole_or_not_at_all(store: Store) -> None:
    dispatch(store, "e1")

    def half_done() -> None:
        with store.write() as session:
            add_trace(session, trace("e1"), closed=3.0)
            session.add(Note(id=1, text="x"))
            session.flush()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half_done()
    with store.read() as session:
        assert session.get(Episode, "e1").closed is None
        assert session.get(Note, 1) is None
    close(store, trace("e1"))


def test_an_episode_of_no_run_is_refused_by_the_database(store: Store) -> None:
    with pytest.raises(IntegrityError), store.write() as session:
        session.add(Episode(id="e", run="none", stage="", task="", task_id="", group="", dispatched=0.0))


def test_what_is_done_while_reading_is_not_kept(store: Store) -> None:
    with store.read() as session:
        session.add(Note(id=1, text="x"))
        session.flush()
    with store.read() as session:
        assert session.get(Note, 1) is None


def test_an_unknown_run_brings_the_nearest(store: Store) -> None:
    dispatch(store, "e1", run="quickstart-1")
    assert store.run("quickstart-1").kind == "train"
    caught = refusal(lambda: store.run("quikstart-1"))
    assert caught.nearest == "quickstart-1" and caught.remedy
    assert refusal(lambda: store.trace("quikstart-1", "e1")).nearest == "quickstart-1"


def test_an_episode_is_found_by_any_clear_beginning(store: Store) -> None:
    dispatch(store, "e_1", "e_12", "ex34", "f%5")
    for episode in ("e_1", "e_12", "ex34", "f%5"):
        close(store, trace(episode))
    assert store.trace("r1", "e_1").episode == "e_1"  # an id that also begins another
    assert store.trace("r1", "ex").episode == "ex34"
    assert store.trace("r1", "f%").episode == "f%5"
    several = refusal(lambda: store.trace("r1", "e_"))
    assert several.what.startswith("2 episodes") and several.nearest == "e_1, e_12"
    assert refusal(lambda: store.trace("r1", "%")).what.startswith("no episodes")
    assert refusal(lambda: store.trace("r1", "ex35")).nearest == "ex34"


def test_an_episode_that_is_still_out_has_no_trace(store: Store) -> None:
    dispatch(store, "e1")
    assert "no transcript" in refusal(lambda: store.trace("r1", "e1")).what


def test_sqlite_is_in_wal_mode_and_keeps_foreign_keys(store: Store) -> None:
    with store.read() as session:
        assert session.scalar(text("PRAGMA journal_mode")) == "wal"
        assert session.scalar(text("PRAGMA foreign_keys")) == 1
        assert session.scalar(text("PRAGMA busy_timeout")) == 10_000


def test_a_reader_sees_the_last_commit_while_another_writes(tmp_path: Path) -> None:
    path = tmp_path / "strop.db"
    with Store.open(path) as writer, Store.open(path) as reader:
        dispatch(writer, "e1")
        with writer.write() as session:
            add_trace(session, trace("e1"), closed=3.0)
            session.flush()
            with reader.read() as other:
                assert other.get(Episode, "e1").closed is None
        assert reader.trace("r1", "e1") == trace("e1")


def test_two_writers_take_turns(tmp_path: Path) -> None:
    """One that has read before the other wrote still becomes a writer: it has waited at the door."""
    path = tmp_path / "strop.db"
    with Store.open(path) as first, Store.open(path) as second:
        for store, note in ((first, 1), (second, 2), (first, 3)):
            with store.write() as session:
                assert session.query(Note).count() == note - 1
                session.add(Note(id=note, text="x"))


def test_a_write_that_the_database_cannot_take_is_a_fault(store: Store) -> None:
    with store.read() as session:
        pages = session.scalar(text("PRAGMA page_count"))
    with pytest.raises(MachineryFault, match="full"), store.write() as session:
        session.connection().exec_driver_sql(f"PRAGMA max_page_count={pages}")
        session.add(Note(id=1, text="x" * 1_000_000))
    with store.read() as session:
        assert session.get(Note, 1) is None


def schema_of(path: Path) -> str:
    with sqlite3.connect(path) as connection:
        [row] = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchall()
    connection.close()
    return row[0]


def test_opening_again_keeps_everything(tmp_path: Path) -> None:
    path = tmp_path / "a b?c%20" / "strop.db"
    for _ in range(2):
        with Store.open(path) as store:
            with store.write() as session:
                session.merge(Run(name="r", kind="eval", started=1.0, config={"a": [1]}))
            assert store.run("r").config == {"a": [1]}
    assert path.is_file() and schema_of(path) == str(SCHEMA)


def plant(path: Path, version: int) -> None:
    """A store as an older version would have left it: runs without facts, called jobs."""
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);"
        f"INSERT INTO meta VALUES ('schema', '{version}');"
        "CREATE TABLE jobs (name VARCHAR PRIMARY KEY, kind VARCHAR, started FLOAT, ended FLOAT,"
        " outcome VARCHAR, config JSON);"
        "INSERT INTO jobs VALUES ('old', 'train', 1.0, 2.0, 'done', '{}');"
    )
    connection.close()


MIGRATIONS = {
    2: ["ALTER TABLE jobs RENAME TO runs"],
    3: ["ALTER TABLE runs ADD COLUMN facts JSON", 'UPDATE runs SET facts = \'{"was": "job"}\''],
}


def test_an_old_store_is_taken_through_every_version_to_the_present(tmp_path: Path, monkeypatch) -> None:
    plant(tmp_path / "strop.db", 1)
    monkeypatch.setattr(module, "SCHEMA", 3)
    monkeypatch.setattr(module, "MIGRATIONS", MIGRATIONS)
    for _ in range(2):  # the second time there is nothing left to do
        with Store.open(tmp_path / "strop.db") as store:
            assert store.run("old").facts == {"was": "job"}
    with Store.open(tmp_path / "strop.db") as store:
        dispatch(store, "e1", run="old")
        close(store, trace("e1"))
        assert store.trace("old", "e1") == trace("e1")
    assert schema_of(tmp_path / "strop.db") == "3"


def test_a_migration_that_fails_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch) -> None:
    plant(tmp_path / "strop.db", 1)
    monkeypatch.setattr(module, "SCHEMA", 3)
    broken = {**MIGRATIONS, 3: [*MIGRATIONS[3], "oops"]}
    monkeypatch.setattr(module, "MIGRATIONS", broken)
    assert "cannot open the store" in refusal(lambda: Store.open(tmp_path / "strop.db")).what
    connection = sqlite3.connect(tmp_path / "strop.db")
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    connection.close()
    assert sorted(tables) == ["jobs", "meta"] and schema_of(tmp_path / "strop.db") == "1"


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    plant(tmp_path / "strop.db", SCHEMA + 1)
    caught = refusal(lambda: Store.open(tmp_path / "strop.db"))
    assert f"schema {SCHEMA + 1}" in caught.what and "upgrade" in caught.remedy
    assert schema_of(tmp_path / "strop.db") == str(SCHEMA + 1)


def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    garbage, other, odd = tmp_path / "garbage", tmp_path / "other.db", tmp_path / "odd.db"
    garbage.write_bytes(b"not a database at all" * 100)
    for path, script in ((other, "CREATE TABLE songs (a)"), (odd, "CREATE TABLE meta (key, value)")):
        connection = sqlite3.connect(path)
        connection.execute(script)
        connection.close()
    before = {path: path.read_bytes() for path in (garbage, other, odd)}
    assert "not a database" in refusal(lambda: Store.open(garbage)).what
    assert "not a store of strop" in refusal(lambda: Store.open(other)).what
    assert "not a store of strop" in refusal(lambda: Store.open(odd)).what
    engine = create_engine(f"sqlite:///{other}")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT name FROM sqlite_master")).scalars().all() == ["songs"]
    engine.dispose()
    assert garbage.read_bytes() == before[garbage]


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("file/strop.db", "cannot make the folder"),
        (".", "cannot open the store"),
        ("nonsense://user:secret@x", "cannot use this database URL"),
        ("postgresql+nodriver://user:secret@x/y", "cannot use this database URL"),
        ("no url", "cannot use this database URL"),
    ],
)
def test_a_place_that_cannot_be_used_is_refused(tmp_path: Path, place: str, says: str) -> None:
    (tmp_path / "file").write_text("")
    there = place if says == "cannot use this database URL" else tmp_path / place
    caught = refusal(lambda: Store.open(there))
    assert says in caught.what and caught.where and caught.remedy
    assert "secret" not in str(caught)


def test_a_broken_table_does_not_hide_behind_a_fault(store: Store) -> None:
    with pytest.raises(OperationalError), store.read() as session:
        session.execute(text("SELECT * FROM nowhere"))
