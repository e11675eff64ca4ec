"""The record of everything: runs, episodes, traces, and the tables that chapters declare.

The store owns the connection, the schema version and its migrations. It is SQLite in WAL mode unless
another URL is given. A commit is whole or absent; a chapter that needs a table declares it on `Table`
and its rows are committed with everything else in the same `Store.write` block.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    Connection,
    Engine,
    ForeignKey,
    Index,
    LargeBinary,
    create_engine,
    event,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from strop.errors import MachineryFault, Refusal, nearest
from strop.trace import Trace, pack, unpack

SCHEMA = 1
"""The version of the tables below and of those that chapters declare."""

MIGRATIONS: Mapping[int, Sequence[str]] = {}
"""The statements that take a store from the version before to the key's version."""


class Table(DeclarativeBase):
    """What every table extends, wherever it is declared."""


class Run(Table):
    """One command's work: a training run, an evaluation, a single attempt."""

    __tablename__ = "runs"
    name: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    started: Mapped[float]
    ended: Mapped[float | None]
    outcome: Mapped[str] = mapped_column(default="running")
    config: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    facts: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    """What the run found: figures for its report."""


class Episode(Table):
    """One dispatched episode: there from dispatch on, closed exactly once with a verdict or a fault."""

    __tablename__ = "episodes"
    id: Mapped[str] = mapped_column(primary_key=True)
    run: Mapped[str] = mapped_column(ForeignKey("runs.name"))
    stage: Mapped[str]
    """Which part of the run asked for it, such as ``rl`` or ``eval:before``."""
    task: Mapped[str]
    task_id: Mapped[str]
    group: Mapped[str]
    dispatched: Mapped[float]
    closed: Mapped[float | None]
    stop: Mapped[str | None]
    score: Mapped[float | None]
    passed: Mapped[bool | None]
    fault: Mapped[str | None]
    """``boundary:code`` where an episode has no score."""
    turns: Mapped[int | None]
    sampled_tokens: Mapped[int | None]
    trained_at: Mapped[int | None]
    """The weight version that training on it made."""
    strata: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)

    __table_args__ = (Index("episodes_by_run", "run", "stage"),)


class TraceBlob(Table):
    """A packed trace, apart from its episode so that tables stay quick to read."""

    __tablename__ = "traces"
    episode: Mapped[str] = mapped_column(ForeignKey("episodes.id"), primary_key=True)
    blob: Mapped[bytes] = mapped_column(LargeBinary)


class Meta(Table):
    """Facts about the store itself."""

    __tablename__ = "meta"
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class Store:
    """A connection to the record; safe to use from one thread at a time.

    Example: ``with Store.open(Path("runs/strop.db")) as store: store.run("quickstart-1")``.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sessions = sessionmaker(engine, expire_on_commit=False)

    @classmethod
    def open(cls, place: Path | str) -> "Store":
        """Open a file (made when missing) or a database URL, migrated to the current schema.

        Raises:
            Refusal: the place is no store, cannot be written, or was made by a newer version.
        """
        if isinstance(place, Path):
            place.parent.mkdir(parents=True, exist_ok=True)
        url = f"sqlite:///{place}" if isinstance(place, Path) else place
        engine = create_engine(url)
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _prepare_sqlite)
        try:
            with engine.begin() as connection:
                _migrate(connection)
        except DatabaseError as error:
            engine.dispose()
            raise Refusal(
                f"cannot open the store: {error.orig}",
                where=str(place),
                remedy="give another --runs folder, or free space on this one's disk",
            ) from error
        return cls(engine)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction: committed whole at the end of the block, rolled back on any error.

        Raises:
            MachineryFault: ``store`` when the database cannot take it, a full disk among the causes.
        """
        try:
            with self._sessions.begin() as session:
                yield session
        except IntegrityError:
            raise
        except DatabaseError as error:
            raise MachineryFault("store", f"the store could not be written: {error.orig}") from error

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session for queries; nothing done in it is kept."""
        with self._sessions() as session:
            yield session

    def run(self, name: str) -> Run:
        """The run of that name.

        Raises:
            Refusal: there is none; the nearest name is given.
        """
        with self.read() as session:
            found = session.get(Run, name)
            names = session.scalars(select(Run.name)).all()
        if found is None:
            raise Refusal(
                f"there is no run {name!r}",
                where="the store",
                nearest=nearest(name, names),
                remedy="strop report lists the runs",
            )
        return found

    def trace(self, run: str, episode: str) -> Trace:
        """The trace of an episode, named by its id or by any unambiguous beginning of it.

        Raises:
            Refusal: no such episode in the run, several that begin so, or one not yet closed.
        """
        self.run(run)
        with self.read() as session:
            query = select(Episode.id).where(Episode.run == run, Episode.id.startswith(episode))
            ids = session.scalars(query.limit(5)).all()
            if len(ids) != 1:
                everyone = session.scalars(select(Episode.id).where(Episode.run == run)).all()
                raise Refusal(
                    f"{len(ids) or 'no'} episodes of {run} begin with {episode!r}",
                    where=f"run {run}",
                    nearest=", ".join(ids) or nearest(episode, everyone[:2000]),
                    remedy=f"strop show {run} lists its episodes",
                )
            blob = session.get(TraceBlob, ids[0])
        if blob is None:
            raise Refusal(f"episode {ids[0]} was dispatched but never closed", where=f"run {run}")
        return unpack(blob.blob)


def add_trace(session: Session, trace: Trace, closed: float) -> None:
    """Close a dispatched episode with its sealed trace.

    Raises:
        MachineryFault: ``closed-twice`` or ``never-dispatched``; nothing is written then.
    """
    row = session.get(Episode, trace.episode)
    if row is None:
        raise MachineryFault("never-dispatched", f"episode {trace.episode} was never dispatched")
    if row.closed is not None:
        raise MachineryFault("closed-twice", f"episode {trace.episode} was already closed")
    fault = trace.verdict.fault
    row.closed, row.stop = closed, trace.stop
    row.score, row.passed = trace.verdict.score, trace.verdict.passed
    row.fault = f"{fault.boundary}:{fault.code}" if fault else None
    row.turns, row.sampled_tokens = len(trace.turns), trace.sampled_tokens
    session.add(TraceBlob(episode=trace.episode, blob=pack(trace)))


def _prepare_sqlite(connection: Any, _record: object) -> None:
    for statement in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {statement}")


def _migrate(
    connection: Connection, migrations: Mapping[int, Sequence[str]] = MIGRATIONS, schema: int = SCHEMA
) -> None:
    known = inspect(connection).has_table("meta")
    found = int(connection.scalar(text("SELECT value FROM meta WHERE key = 'schema'"))) if known else schema
    if found > schema:
        raise Refusal(
            f"this store has schema {found}, this version of strop knows {schema}",
            where=str(connection.engine.url),
            remedy="upgrade strop, or give another --runs folder",
        )
    for version in range(found + 1, schema + 1):
        for statement in migrations[version]:
            connection.execute(text(statement))
    Table.metadata.create_all(connection)
    update = "UPDATE meta SET value = :v WHERE key = 'schema'"
    insert = "INSERT INTO meta (key, value) VALUES ('schema', :v)"
    connection.execute(text(update if known else insert), {"v": str(schema)})
