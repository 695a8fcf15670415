# SPDX-License-Identifier: Apache-2.0
"""The index over the folders of runs: a database that can be deleted. The store rebuilds it.

SQLite by default, PostgreSQL by its URL; the SQL is what both know. The table is changed by
migrations only (``migrations/``, Alembic), which run when the index is opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import NullPool, StaticPool

from rtgauge.errors import StoreError
from rtgauge.store.files import store_errors

__all__ = ["MIGRATION", "Index", "Stamp"]

MIGRATION = "0002"
"""The newest migration. A test compares it with those in the folder."""

BUSY_S = 30

ROOM = 64 << 10
"""Free space, in bytes, below which a disk is full. SQLite needs 32 KiB for its shared memory."""

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


_SQLITE_TYPES = {sa.Float: ("real", "integer"), sa.Integer: ("integer",)}


def _wrong_types() -> str:
    """SQLite condition for a row that this program cannot have written."""
    parts = []
    for column in runs.columns:
        kinds = next(
            (kinds for kind, kinds in _SQLITE_TYPES.items() if isinstance(column.type, kind)),
            ("text",),
        )
        listed = ", ".join(f"'{kind}'" for kind in kinds)
        parts.append(f"typeof({column.name}) NOT IN ({listed})")
        if isinstance(column.type, sa.Float):
            parts.append(f"abs({column.name}) = 9e999")  # infinite
    texts = [f"CAST({c.name} AS BLOB)" for c in runs.columns if isinstance(c.type, sa.String)]
    return " OR ".join([*parts, f"NOT is_utf8({', '.join(texts)})"])


def _is_utf8(*texts: bytes) -> bool:
    try:
        b"".join(texts).decode()
    except (TypeError, UnicodeDecodeError):
        return False
    return True


_WRONG_TYPES = _wrong_types()


class Index:
    """The open index, for any thread, one transaction at a time. A SQLite file that cannot be
    written (a read-only store) is replaced by one in memory, made from the folders."""

    def __init__(self, url: sa.URL, *, own: bool = False) -> None:
        """``own``: the file is in the folder of a store, so whatever it holds is rtgauge's."""
        self._lock = threading.Lock()
        self._name = url.render_as_string(hide_password=True)
        self._file = _sqlite_file(url)
        if self._file is not None:
            self._name = str(self._file)
            if not self._examine(self._file, own):
                url = sa.make_url("sqlite://")
        try:
            self._engine = self._open(url)
        except sa.exc.OperationalError as error:
            if self._file is None or _writable(self._file):
                raise self._error(error) from error
            url = sa.make_url("sqlite://")
            self._engine = self._open(url)
        except sa.exc.DatabaseError as error:
            raise self._error(error) from error
        except (ImportError, sa.exc.ArgumentError) as error:
            raise StoreError(
                f"cannot use the database {self._name}: {error}",
                "for PostgreSQL, install psycopg. A URL is sqlite:///FILE or postgresql://…",
            ) from error
        self._url = url

    def _examine(self, file: Path, own: bool) -> bool:
        """Rename a damaged index, so that it is rebuilt. False if the store is read-only. Raises
        StoreError for a file that is not an index."""
        _check_companions(file)
        try:
            before = file.stat()
        except OSError:  # not made yet, or opening it gives the reason
            return True
        if stat.S_ISDIR(before.st_mode):
            return True
        if stat.S_ISREG(before.st_mode):
            found = _examined(file)
            if found == "ours":
                return True
            if found == "damaged" or own:
                if not _writable(file):
                    return False
                _set_aside(file, before)
                return True
        raise StoreError(
            f"{file} is not an rtgauge index",
            "name the folder of a store, or another file, with --store",
        )

    def _open(self, url: sa.URL) -> sa.Engine:
        options: dict[str, Any] = {}
        if url.get_backend_name() == "sqlite":
            options["poolclass"] = StaticPool if _sqlite_file(url) is None else NullPool
            options["connect_args"] = {"timeout": BUSY_S, "check_same_thread": False}
        else:
            options["pool_pre_ping"] = True  # a run may last longer than an idle connection
        engine = sa.create_engine(url, **options)
        if url.get_backend_name() == "sqlite":
            event.listen(engine, "connect", _connected)
            event.listen(engine, "begin", _begin)
        elif url.get_backend_name() == "postgresql":
            event.listen(engine, "begin", _alone)
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
            if self._file is not None:  # SQLite takes any type, and any bytes, in any column
                connection.execute(sa.text(f"DELETE FROM runs WHERE {_WRONG_TYPES}"))
            return
        from rtgauge.store import migrations  # noqa: PLC0415 (Alembic is slow to import)

        if found is not None and found not in migrations.known():
            raise StoreError(
                f"the index {self._name} is of a newer version ({found}) than this rtgauge",
                "use the newer rtgauge, or another store with --store",
            )
        migrations.upgrade(connection)

    def _error(self, error: sa.exc.DBAPIError) -> StoreError:
        reason = str(error.orig).splitlines()[0]
        if self._file is None:
            remedy = "check the URL and the database"
        elif isinstance(error, sa.exc.OperationalError):
            remedy = "check the folder, its space and its permissions, and try again"
            if _full(self._file):
                remedy = "free some space there, or keep the runs elsewhere with --store"
        else:
            remedy = f"delete {self._file}: the store rebuilds it from the runs"
        return StoreError(f"cannot use the index {self._name}: {reason}", remedy)

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        try:
            with self._lock:
                file = _sqlite_file(self._url)
                if file is not None and not os.path.exists(file):  # deleted in the meantime
                    self._engine = self._open(self._url)
                with self._engine.begin() as connection:
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


def _check_companions(file: Path) -> None:
    """StoreError where SQLite would wait for somebody who writes to a FIFO."""
    for suffix in ("-journal", "-wal", "-shm"):
        path = file.with_name(file.name + suffix)
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(path.stat().st_mode):
                raise StoreError(
                    f"cannot use the index {file}: {path} is not a regular file", f"remove {path}"
                )


def _examined(file: Path) -> str:
    """What a regular file is: ``ours`` (one that is empty, or cannot be looked at now, too),
    ``damaged``: an index of ours that was damaged or changed, ``foreign``. It is only read."""
    try:
        with file.open("rb") as opened:
            head = opened.read(16)
        if head and head != b"SQLite format 3\0":
            return "foreign"
        address = f"file:{quote(str(file.absolute()))}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=BUSY_S)) as database:
            return _schema(database)
    except OSError:
        return "ours"
    except sqlite3.OperationalError as error:  # busy, for one; else of the tables themselves
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)  # none: not UTF-8
        return "foreign" if code == sqlite3.SQLITE_ERROR else "ours"
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return "foreign"


def _schema(database: sqlite3.Connection) -> str:
    """The same of a SQLite database, by its tables and all else that has a name in it."""
    named = database.execute("SELECT type, name FROM sqlite_master").fetchall()
    named = [(kind, name) for kind, name in named if not str(name).startswith("sqlite_")]
    if not named:
        return "ours"
    tables = {name for kind, name in named if kind == "table"}
    if "alembic_version" not in tables:
        return "foreign"
    versions = [str(row[0]) for row in database.execute("SELECT version_num FROM alembic_version")]
    known = len(versions) == 1 and re.fullmatch(r"(?!0000)[0-9]{4}", versions[0]) is not None
    if known and versions[0] > MIGRATION:
        return "ours"  # of a newer version
    if tables - {"alembic_version", "runs"}:
        return "foreign"
    whole = sorted(named) == [("table", "alembic_version"), ("table", "runs")]
    if not (whole and known):
        return "damaged"
    columns = database.execute("PRAGMA table_xinfo(runs)").fetchall()
    # A column of another type can convert the values that are written to it.
    found = [(column[1], column[2], bool(column[3]), bool(column[5])) for column in columns]
    wanted = [(column.name, str(column.type), True, column.primary_key) for column in runs.columns]
    if found != wanted:
        return "damaged"
    intact = database.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]
    return "ours" if intact else "damaged"


def _set_aside(file: Path, before: os.stat_result) -> None:
    """Rename a damaged index, unless another process has already rebuilt it."""
    with store_errors("set aside", file), contextlib.suppress(FileNotFoundError):
        if not os.path.samestat(file.stat(), before):
            return
        os.replace(file, file.with_name(f"{file.name}.damaged"))
        for suffix in ("-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)


def _writable(file: Path) -> bool:
    existing = [path for path in (file, file.with_name(file.name + "-wal")) if path.exists()]
    return all(os.access(path, os.W_OK) for path in (file.parent, *existing)) and not _full(file)


def _full(file: Path) -> bool:
    """Whether the disk or the quota has too little space for SQLite, which needs some even to read
    and does not tell why it failed."""
    try:
        with tempfile.TemporaryFile(dir=file.parent) as probe:
            os.posix_fallocate(probe.fileno(), 0, ROOM)
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return False


def _connected(connection: Any, _record: Any) -> None:
    # Transactions are begun by _begin, at once for writing: two processes then wait for each
    # other instead of failing half-way.
    connection.isolation_level = None
    connection.create_function("is_utf8", -1, _is_utf8, deterministic=True)
    try:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):  # another process is switching to it just now
            raise


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _alone(connection: sa.Connection) -> None:
    # One transaction at a time, as with SQLite: otherwise two processes insert the same run.
    # Any number would do.
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7239571042)")
