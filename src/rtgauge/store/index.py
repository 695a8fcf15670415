# SPDX-License-Identifier: Apache-2.0
"""The index over the folders of runs: a database that can be deleted and is made again from them.

SQLite by default, PostgreSQL by its URL; the SQL is what both know. The table is changed by
migrations only (``migrations/``, Alembic), which run when the index is opened.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import NullPool, StaticPool

from rtgauge.errors import StoreError

__all__ = ["MIGRATION", "Index", "Stamp"]

MIGRATION = "0002"
"""The newest migration; a test compares it with those in the folder."""

BUSY_S = 30

Stamp = tuple[int, int]
"""By which a changed run.json is known: its time of change (ns) and size."""

metadata = sa.MetaData()
runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("study", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("started", sa.Text, nullable=False),
    sa.Column("duration_s", sa.Float, nullable=False),
    sa.Column("steps", sa.Integer, nullable=False),
    sa.Column("headline", sa.Text, nullable=False),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
)


class Index:
    """The open index, for any thread, one transaction at a time. A SQLite file that cannot be
    written (a read-only store) is replaced by one in memory, made from the folders."""

    def __init__(self, url: sa.URL) -> None:
        self._lock = threading.Lock()
        self._name = url.render_as_string(hide_password=True)
        self._file = _sqlite_file(url)
        if self._file is not None:
            self._name = str(self._file)
        try:
            self._engine = self._open(url)
        except sa.exc.OperationalError as error:
            if self._file is None or _writable(self._file):
                raise self._error(error) from error
            self._engine = self._open(sa.make_url("sqlite://"))
        except sa.exc.DatabaseError as error:
            raise self._error(error) from error
        except (ImportError, sa.exc.ArgumentError) as error:
            raise StoreError(
                f"cannot use the database {self._name}: {error}",
                "for PostgreSQL install psycopg; a URL is sqlite:///FILE or postgresql://…",
            ) from error

    def _open(self, url: sa.URL) -> sa.Engine:
        options: dict[str, Any] = {}
        if url.get_backend_name() == "sqlite":
            options["poolclass"] = StaticPool if _sqlite_file(url) is None else NullPool
            options["connect_args"] = {"timeout": BUSY_S, "check_same_thread": False}
        engine = sa.create_engine(url, **options)
        if url.get_backend_name() == "sqlite":
            event.listen(engine, "connect", _connected)
            event.listen(engine, "begin", _begin)
        try:
            with engine.begin() as connection:
                self._migrate(connection)
        except BaseException:
            engine.dispose()
            raise
        return engine

    def _migrate(self, connection: sa.Connection) -> None:
        found = None
        if sa.inspect(connection).has_table("alembic_version"):
            found = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
        if found == MIGRATION:
            return
        from rtgauge.store import migrations  # noqa: PLC0415 (Alembic is slow to import)

        if found is not None and found not in migrations.known():
            raise StoreError(
                f"the index {self._name} is of a newer version ({found}) than this rtgauge",
                "use the newer rtgauge; or delete the index: it is made again from the runs",
            )
        migrations.upgrade(connection)

    def _error(self, error: sa.exc.DBAPIError) -> StoreError:
        reason = str(error.orig).splitlines()[0]
        if self._file is None:
            remedy = "check the URL and the database"
        elif isinstance(error, sa.exc.OperationalError):
            remedy = "check the folder, its space and its permissions; then try again"
        else:
            remedy = f"delete {self._file}: it is made again from the runs"
        return StoreError(f"cannot use the index {self._name}: {reason}", remedy)

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        try:
            with self._lock, self._engine.begin() as connection:
                yield connection
        except sa.exc.DBAPIError as error:
            raise self._error(error) from error

    def stamps(self) -> dict[str, Stamp]:
        """Each run in the index, and the state of its run.json that was indexed."""
        with self._transaction() as connection:
            rows = connection.execute(sa.select(runs.c.id, runs.c.changed_ns, runs.c.size))
            return {row.id: (row.changed_ns, row.size) for row in rows}

    def rows(self) -> list[Mapping[str, Any]]:
        """All runs, the newest first."""
        query = sa.select(runs).order_by(runs.c.started.desc(), runs.c.id.desc())
        with self._transaction() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def write(self, changed: Iterable[Mapping[str, Any]], gone: Iterable[str]) -> None:
        """Put rows in (in place of older ones of the same id) and take rows out, at once."""
        changed = list(changed)
        removed = [row["id"] for row in changed] + list(gone)
        with self._transaction() as connection:
            for first in range(0, len(removed), 500):
                part = removed[first : first + 500]
                connection.execute(sa.delete(runs).where(runs.c.id.in_(part)))
            if changed:
                connection.execute(sa.insert(runs), changed)

    def close(self) -> None:
        self._engine.dispose()


def _sqlite_file(url: sa.URL) -> Path | None:
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database))


def _writable(file: Path) -> bool:
    existing = [path for path in (file, file.with_name(file.name + "-wal")) if path.exists()]
    return all(os.access(path, os.W_OK) for path in (file.parent, *existing))


def _connected(connection: Any, _record: Any) -> None:
    # Transactions are begun by _begin, at once for writing: two processes then wait for each
    # other instead of failing half-way.
    connection.isolation_level = None
    try:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):  # another process is switching to it just now
            raise


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
