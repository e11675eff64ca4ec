"""How the store's database is reached.

SQLite runs in WAL mode, so that a report can be read while a run writes, and every statement is inside a
transaction, so that a migration is whole or absent. Any other database is given by URL.
"""

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import ArgumentError

from strop.errors import Refusal


def connect(place: Path | str) -> Engine:
    """An engine for a SQLite file (its folder is made) or a database URL; nothing is read or written yet.

    Raises:
        Refusal: the folder cannot be made, or the URL or its driver cannot be used.
    """
    try:
        if isinstance(place, Path):
            place.parent.mkdir(parents=True, exist_ok=True)
            engine = create_engine(URL.create("sqlite", database=str(place)))
        else:
            engine = create_engine(place)
    except OSError as error:
        raise Refusal(
            f"cannot make the folder of the store: {error.strerror}",
            where=str(place),
            remedy="give another --runs folder",
        ) from error
    except (ArgumentError, ImportError) as error:
        raise Refusal(
            f"cannot use this database URL: {error}",
            where=str(place).partition("://")[0],
            remedy="write sqlite:///FILE, or postgresql://... with its driver installed: pip install psycopg",
        ) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # Python's driver would leave CREATE and ALTER outside of transactions; `_begin_sqlite` begins them all.
    connection.isolation_level = None
    for statement in ("busy_timeout=10000", "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {statement}")


def _begin_sqlite(connection: Connection) -> None:
    """Who will write waits for its turn at once: one that has read could not become a writer later."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
