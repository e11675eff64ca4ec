"""The record of everything: runs, episodes, traces, and the tables that chapters declare.

The store owns the connection, the schema version and its migrations. It is SQLite in WAL mode unless
another URL is given. A commit is whole or absent; a chapter that needs a table declares it on `Table`
and its rows are committed with everything else in the same `Store.write` block.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from sqlalchemy import (
    JSON,
    Connection,
    Engine,
    ForeignKey,
    Index,
    LargeBinary,
    bindparam,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from strop.database import connect
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


# Built once: thousands of episodes are closed, and making a statement takes longer than executing it.
_EPISODES: Any = Episode.__table__
_CLOSED = ("closed", "stop", "score", "passed", "fault", "turns", "sampled_tokens")
_CLOSE = (
    _EPISODES.update()
    .where(_EPISODES.c.id == bindparam("episode"), _EPISODES.c.closed.is_(None))
    .values({name: bindparam(f"new_{name}") for name in _CLOSED})
)
_ADD_TRACE: Any = cast(Any, TraceBlob.__table__).insert()


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
        self._writing = sessionmaker(engine.execution_options(writes=True), expire_on_commit=False)

    @classmethod
    def open(cls, place: Path | str) -> "Store":
        """Open a file (made when missing) or a database URL, migrated to the current schema.

        Raises:
            Refusal: the place is no store, cannot be written, or was made by a newer version.
        """
        engine = connect(place)
        try:
            with engine.execution_options(writes=True).begin() as connection:
                _migrate(connection)
        except DatabaseError as error:
            engine.dispose()
            raise Refusal(
                f"cannot open the store: {error.orig}",
                where=str(engine.url),
                remedy="give another --runs folder, or free space on this one's disk",
            ) from error
        except Refusal:
            engine.dispose()
            raise
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
            with self._writing.begin() as session:
                yield session
        except IntegrityError:
            raise
        except DatabaseError as error:
            what = f"{self._engine.url} could not be written: {error.orig}"
            raise MachineryFault("store", what) from error

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
            everyone = session.scalars(select(Episode.id).where(Episode.run == run)).all()
            ids = [episode] if episode in everyone else [e for e in everyone if e.startswith(episode)]
            if len(ids) != 1:
                raise Refusal(
                    f"{len(ids) or 'no'} episodes of {run} begin with {episode!r}",
                    where=f"run {run}",
                    nearest=", ".join(ids[:5]) or nearest(episode, everyone[:2000]),
                    remedy=f"strop show {run} lists its episodes",
                )
            blob = session.get(TraceBlob, ids[0])
        if blob is None:
            raise Refusal(
                f"episode {ids[0]} has no transcript: it is still under way, or its command was killed",
                where=f"run {run}",
                remedy=f"strop show {run} lists those that have one",
            )
        return unpack(blob.blob)


def unclosed(session: Session, run: str) -> Sequence[str]:
    """The episodes of a run that were dispatched and never closed; none once the run has ended."""
    query = select(Episode.id).where(Episode.run == run, Episode.closed.is_(None))
    return session.scalars(query).all()


def add_trace(session: Session, trace: Trace, closed: float) -> None:
    """Close a dispatched episode with its sealed trace.

    Raises:
        MachineryFault: ``closed-twice`` or ``never-dispatched``; nothing is written then.
    """
    fault = trace.verdict.fault
    closing = {
        "new_closed": closed,
        "new_stop": trace.stop,
        "new_score": trace.verdict.score,
        "new_passed": trace.verdict.passed,
        "new_fault": f"{fault.boundary}:{fault.code}" if fault else None,
        "new_turns": len(trace.turns),
        "new_sampled_tokens": trace.sampled_tokens,
    }
    connection = session.connection()
    if connection.execute(_CLOSE, {"episode": trace.episode, **closing}).rowcount != 1:
        known = session.get(Episode, trace.episode) is not None
        raise MachineryFault(
            "closed-twice" if known else "never-dispatched",
            f"episode {trace.episode} was {'already closed' if known else 'never dispatched'}",
        )
    connection.execute(_ADD_TRACE, {"episode": trace.episode, "blob": pack(trace)})


def _migrate(connection: Connection) -> None:
    tables = inspect(connection).get_table_names()
    known = "meta" in tables
    value = connection.scalar(text("SELECT value FROM meta WHERE key = 'schema'")) if known else str(SCHEMA)
    if not str(value).isdigit() or (tables and not known and connection.dialect.name == "sqlite"):
        raise Refusal(
            "this is a database, but not a store of strop",
            where=str(connection.engine.url),
            remedy="give another --runs folder",
        )
    found = int(value)
    if found > SCHEMA:
        raise Refusal(
            f"this store has schema {found}, this version of strop knows {SCHEMA}",
            where=str(connection.engine.url),
            remedy="upgrade strop, or give another --runs folder",
        )
    for version in range(found + 1, SCHEMA + 1):
        for statement in MIGRATIONS[version]:
            connection.execute(text(statement))
    Table.metadata.create_all(connection)
    update = "UPDATE meta SET value = :v WHERE key = 'schema'"
    insert = "INSERT INTO meta (key, value) VALUES ('schema', :v)"
    connection.execute(text(update if known else insert), {"v": str(SCHEMA)})
