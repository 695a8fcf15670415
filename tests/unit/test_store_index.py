# SPDX-License-Identifier: Apache-2.0
"""The index of a store: made from the folders, migrated, damaged, used by several processes."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import fuzz_index
from rtgauge.errors import StoreError
from rtgauge.store import Store, index, migrations
from test_store import child, finished

HERE = Path(__file__).parent


def test_the_index_is_made_again_from_the_folders(store: Store) -> None:
    ids = {finished(store) for _ in range(3)}
    before = store.runs()
    with sqlite3.connect(store.path.parent / "index.db") as database:
        database.execute("UPDATE runs SET headline = 'wrong'")
    database.close()
    assert {row.headline for row in store.runs()} == {"wrong"}
    store.close()
    for path in store.path.parent.glob("index.db*"):
        path.unlink()
    with Store.open(str(store.path.parent)) as again:
        assert again.runs() == before
        assert {row.id for row in before} == ids


@pytest.mark.slow
def test_what_others_change_is_seen(store: Store) -> None:
    with Store.open(str(store.path.parent)) as other:
        run_id = finished(other)
        assert [row.id for row in store.runs()] == [run_id]
        shutil.copytree(other.path / run_id, other.path / "keep")
        other.delete(run_id)
        assert store.runs() == []
        os.rename(other.path / "keep", other.path / run_id)
        assert [row.id for row in store.runs()] == [run_id]


CREATOR = """
import sys
from rtgauge.store import Store
from test_store import finished

with Store.open(sys.argv[1]) as store:
    for _ in range(int(sys.argv[2])):
        finished(store)
        store.runs()
"""


@pytest.mark.slow
def test_several_processes_at_once(tmp_path: Path) -> None:
    """Also in making and migrating the index."""
    path = str(tmp_path / "s")
    processes = [child(CREATOR, path, "8") for _ in range(3)]
    for process in processes:
        with process:
            process.communicate(timeout=120)
        assert process.returncode == 0
    with Store.open(path) as store:
        assert [row.state for row in store.runs()] == ["complete"] * 24


def test_a_stored_index_of_version_1_opens(tmp_path: Path) -> None:
    """The dump is of a file as version 0.1.0 wrote it; every later version must open it."""
    database = sqlite3.connect(tmp_path / "index.db")
    database.executescript((HERE / "test_store_index_v1.sql").read_text())
    database.close()
    with Store.open(str(tmp_path)) as store:
        assert store.runs() == []  # its run is not in the folders
        run_id = finished(store)
        assert [row.id for row in store.runs()] == [run_id]
    database = sqlite3.connect(tmp_path / "index.db")
    assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [
        (index.MIGRATION,)
    ]
    database.close()


def test_stored_index_is_what_is_made_now(tmp_path: Path) -> None:
    """While no migration changes a table; the one that does ends this test, and keeps the dump."""
    with Store.open(str(tmp_path)):
        pass
    made = schema(tmp_path / "index.db")
    database = sqlite3.connect(tmp_path / "v1.db")
    database.executescript((HERE / "test_store_index_v1.sql").read_text())
    database.close()
    assert schema(tmp_path / "v1.db") == made


def schema(path: Path) -> dict[str, list[Any]]:
    database = sqlite3.connect(path)
    names = [
        row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    found = {name: database.execute(f"PRAGMA table_info({name})").fetchall() for name in names}
    database.close()
    return found


def test_transactions_on_postgresql_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """With SQLite in its place. Otherwise two processes insert the same run."""
    locked: list[int] = []
    create = sa.create_engine

    def connected(connection: Any, _record: Any) -> None:
        connection.create_function("pg_advisory_xact_lock", 1, locked.append)

    def engine(_url: sa.URL, **options: Any) -> sa.Engine:
        assert options["pool_pre_ping"]  # a server may close a connection during a long run
        made = create("sqlite://", poolclass=sa.StaticPool)
        sa.event.listen(made, "connect", connected)
        return made

    monkeypatch.setattr(sa, "create_engine", engine)
    one = index.Index(sa.make_url("postgresql://h/d"))
    one.write([], ["x"])
    assert one.stamps() == {}
    one.close()
    assert len(locked) >= 3 and len(set(locked)) == 1


def test_migrations_make_the_table_that_the_program_uses(store: Store) -> None:
    columns = schema(store.path.parent / "index.db")["runs"]
    assert [column[1] for column in columns] == [column.name for column in index.runs.columns]
    assert max(migrations.known()) == index.MIGRATION


@pytest.mark.parametrize(
    "change",
    [
        "headline = CAST(x'6dff6e' AS TEXT)",
        "id = CAST(x'ff' AS TEXT)",
        "duration_s = 9e999",
        "duration_s = -9e999",
    ],
)
def test_a_row_of_the_index_that_nobody_can_have_written(store: Store, change: str) -> None:
    """A damaged index costs nothing else: it is rebuilt from the run."""
    run = finished(store)
    before = store.runs()
    with sqlite3.connect(store.path.parent / "index.db") as database:
        database.execute(f"UPDATE runs SET {change}")
    database.close()
    with Store.open(str(store.path.parent)) as again:
        assert again.runs() == before
        assert again.get(run[:8]).id == run


def test_an_index_of_a_newer_version(store: Store) -> None:
    store.close()
    database = sqlite3.connect(store.path.parent / "index.db")
    database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.commit()
    database.close()
    with pytest.raises(StoreError, match=r"newer version \(9999\)") as caught:
        Store.open(str(store.path.parent))
    assert "delete" not in caught.value.remedy


def test_a_damaged_index(store: Store) -> None:
    """In a store's folder the index is rebuilt, and the old file is kept next to it."""
    run_id = finished(store)
    store.close()
    file = store.path.parent / "index.db"
    whole = file.read_bytes()
    for damaged in (b"no database at all" * 1000, whole[:5000], b"\0" * 100):
        file.write_bytes(damaged)
        with Store.open(str(store.path.parent)) as again:
            assert [row.id for row in again.runs()] == [run_id]
        assert file.with_name("index.db.damaged").read_bytes() == damaged
        for path in store.path.parent.glob("index.db*"):
            path.unlink()


def test_a_damaged_index_of_a_read_only_store(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = finished(store)
    store.close()
    file = store.path.parent / "index.db"
    file.write_bytes(b"no database at all")
    monkeypatch.setattr(index, "_writable", lambda _file: False)
    with Store.open(str(store.path.parent)) as again:
        assert [row.id for row in again.runs()] == [run_id]
    assert file.read_bytes() == b"no database at all"


@pytest.fixture(params=[errno.ENOSPC, errno.EDQUOT], ids=["disk", "quota"])
def nothing_left(
    request: pytest.FixtureRequest,
    full_disk: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], None]:
    """From the call on, no file can grow, because the disk is full or the quota is used up."""

    def refuse(*_: int) -> None:
        raise OSError(request.param, os.strerror(request.param))

    def fill() -> None:
        monkeypatch.setattr(os, "posix_fallocate", refuse)
        full_disk(0)

    return fill


def test_runs_on_a_full_disk_can_be_read_and_deleted(
    store: Store, nothing_left: Callable[[], None]
) -> None:
    """SQLite takes space for its shared memory even to read, and failed: 'disk I/O error'."""
    run_id = finished(store)
    store.close()
    nothing_left()
    with Store.open(str(store.path.parent)) as again:
        assert [row.id for row in again.runs()] == [run_id]
        again.delete(run_id)
        assert again.runs() == []
    assert not (store.path / run_id).exists()


def test_a_disk_that_gets_full_names_the_remedy(
    store: Store, nothing_left: Callable[[], None]
) -> None:
    finished(store)
    nothing_left()
    with pytest.raises(StoreError, match="cannot use the index") as caught:
        store.runs()
    assert caught.value.remedy == "free some space there, or keep the runs elsewhere with --store"


VERSION = ("CREATE TABLE alembic_version (version_num TEXT)",)
COLUMNS = ", ".join(f"{column.name} {column.type}" for column in index.runs.columns)
NOT_NULL = ", ".join(f"{column.name} {column.type} NOT NULL" for column in index.runs.columns)
VIEW = ", ".join(f"1 AS {column.name}" for column in index.runs.columns)
AS_IT_WAS = "INSERT INTO runs SELECT " + ", ".join(
    f"old.{column.name}" for column in index.runs.columns
)


def change(file: Path, *words: str) -> None:
    database = sqlite3.connect(file)
    for one in words:
        database.execute(one)
    database.commit()
    database.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("INSERT INTO alembic_version VALUES ('0001')",),
        ("DROP TABLE alembic_version", *VERSION, "INSERT INTO alembic_version VALUES (NULL)"),
        ("UPDATE alembic_version SET version_num = x'00ff'",),
        ("UPDATE alembic_version SET version_num = 5",),
        ("UPDATE alembic_version SET version_num = '0000'",),
        ("DELETE FROM alembic_version",),
        ("DROP TABLE runs",),
        ("DROP TABLE runs", f"CREATE VIEW runs AS SELECT {VIEW}"),
        ("DROP TABLE runs", "CREATE VIEW runs AS SELECT * FROM runs"),
        ("DROP TABLE runs", "CREATE TABLE runs (x INTEGER)"),
        ("ALTER TABLE runs ADD COLUMN g AS (abs(-9223372036854775808))",),
        (
            "ALTER TABLE runs RENAME TO old",
            f"CREATE TABLE runs ({NOT_NULL})",
            *["INSERT INTO runs SELECT * FROM old"] * 2,
            "DROP TABLE old",
        ),
        (
            "DROP TABLE runs",
            f"CREATE TABLE runs ({COLUMNS})",
            "INSERT INTO runs (id) VALUES ('x')",
        ),
        (f"CREATE TRIGGER again AFTER DELETE ON runs BEGIN {AS_IT_WAS}; END",),
        ("CREATE TRIGGER none BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'no'); END",),
        ("UPDATE runs SET label = x'ff', started = x'ff', target = x'ff', id = x'ff'",),
        ("UPDATE runs SET duration_s = 'abc', steps = 'def'",),
        ("UPDATE runs SET changed_ns = 1e300, size = x'00'",),
    ],
)
def test_an_index_that_somebody_changed_is_made_again(store: Store, words: tuple[str, ...]) -> None:
    run_id = finished(store)
    before = store.runs()
    store.close()
    change(store.path.parent / "index.db", *words)
    with Store.open(str(store.path.parent)) as again:
        assert again.runs() == before
        assert again.get(run_id).id == run_id
        again.delete(run_id)
        assert again.runs() == []


@pytest.mark.parametrize(
    ("column", "kind"), [("steps", "TEXT"), ("label", "INTEGER"), ("duration_s", "TEXT")]
)
def test_an_index_whose_columns_convert_values_is_made_again(
    store: Store, column: str, kind: str
) -> None:
    finished(store)
    before = store.runs()
    store.close()
    with sqlite3.connect(store.path.parent / "index.db") as database:
        (sql,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'runs'").fetchone()
        found = re.sub(rf"\b{column} \w+", f"{column} {kind}", sql)
        assert found != sql
        database.execute("DROP TABLE runs")
        database.execute(found)
    database.close()
    with Store.open(str(store.path.parent)) as again:
        assert str(again.runs()) == str(before)


def test_an_index_with_a_damaged_page_is_made_again(store: Store) -> None:
    """Its tables are read without an error, and cannot be written."""
    run_id = finished(store)
    before = store.runs()
    store.close()
    file = store.path.parent / "index.db"
    change(file, "PRAGMA journal_mode = DELETE")
    with sqlite3.connect(file) as database:
        (page,) = database.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_runs_1'"
        ).fetchone()
    database.close()
    data = bytearray(file.read_bytes())
    data[4096 * (page - 1) : 4096 * page] = bytes(4096)
    file.write_bytes(data)
    with Store.open(str(store.path.parent)) as again:
        assert again.runs() == before
        again.delete(run_id)
        assert again.runs() == []


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_sqlite_does_not_wait_for_the_writer_of_a_fifo(store: Store, suffix: str) -> None:
    store.close()
    os.mkfifo(store.path.parent / f"index.db{suffix}")
    with pytest.raises(StoreError, match=rf"index\.db{suffix} is not a regular file") as caught:
        Store.open(str(store.path.parent))
    assert caught.value.remedy.startswith("remove ")


@pytest.mark.slow
def test_a_short_run_of_the_fuzzer_of_the_index(tmp_path: Path) -> None:
    tally = fuzz_index.fuzz(20, 0, 120, tmp_path, 4)
    assert not tally.how, tally.how
    assert tally.executions == 120
    assert tally.thorough > 20


def test_files_of_others_are_neither_used_nor_to_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, other, more = tmp_path / "text", tmp_path / "other.db", tmp_path / "more.db"
    text.write_text("root:x:0:0:root:/root:/bin/bash\n")
    change(other, "CREATE TABLE places (x INTEGER)")
    version = [*VERSION, "INSERT INTO alembic_version VALUES ('0001')"]
    change(more, *version, "CREATE TABLE runs (x INTEGER)", "CREATE TABLE experiments (x INTEGER)")
    os.mkfifo(tmp_path / "fifo")
    for name in ("text", "other.db", "more.db", "fifo", "/dev/zero"):
        file = tmp_path / name
        before = file.read_bytes() if file.is_file() else b""
        with pytest.raises(StoreError, match="is not an rtgauge index") as caught:
            Store.open(f"sqlite:///{file}?data={tmp_path}/data")
        assert "delete" not in caught.value.remedy
        assert not file.is_file() or file.read_bytes() == before
    assert not list(tmp_path.glob("*.damaged"))
