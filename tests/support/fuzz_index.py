# SPDX-License-Identifier: Apache-2.0
"""Fuzzing the index of a store: a true one with rows, tables, its version or its bytes changed.

    PYTHONPATH=src python tests/support/fuzz_index.py --executions 10000000 --jobs 2 --seed 1

Each execution runs ``runs`` on a store of three runs with such an index. One in ``--follow`` also
runs ``show last``, ``delete`` and ``run``, in any order. Each command must be carried out or end
with one line and a remedy, and the folders of the runs must stay as they were. Where all are
carried out, the index has each run once in the end, with its true values unless values were changed
to others that a run may have; and the true rows are there again once the index is deleted. The
index that fails is written to ``--keep``.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import bundles
import fuzzing
import streams
from fuzzing import Tally
from rtgauge.store import index

BLOCK = 1000
FOLLOW = 20
RUNS = 3
COLUMNS = tuple(column.name for column in index.runs.columns)
# As SQL: types and values that no run gives.
VALUES = (
    "NULL", "x'00ff'", "zeroblob(100000)", "9223372036854775807", "-9223372036854775808", "-1",
    "0", "1e300", "-1e-300", "9e999", "-9e999", "''", "'x'", "'2147483648'", "char(0)",
    "CAST(x'6dff6e' AS TEXT)", "CAST(x'eda080' AS TEXT)", "char(27) || '[2J'", "char(8238)",
    "'a' || char(10) || 'b'", "printf('%.300000c', 'x')", "'../../etc/passwd'", "'running'",
    "'unreadable'", "'complete'", "'0001-01-01T00:00:00+23:59'", "'9999-12-31T23:59:59Z'", "'inf'",
    "'0192f0c4-6d1e-7aaa-8000-00000000000f'", "id", "started", "-changed_ns", "size + 1",
)  # fmt: skip
VERSIONS = (
    "NULL", "''", "'0000'", "'0001'", "'0002'", "'0003'", "'9999'", "'abc'", "'00002'", "2", "2.0",
    "x'30303032'", "x'ff'", "CAST(x'ff' AS TEXT)", "'0002' || char(10)", "'../0001'", "'head'",
    "char(1632, 1632, 1632, 1634)", "printf('%.100000c', '0')",
)  # fmt: skip
TYPES = ("", "TEXT", "BLOB", "INTEGER", "REAL", "ANY", "VARCHAR(36)", "NUMERIC")
ENDS = ("", "", " WITHOUT ROWID", " STRICT")

Change = Callable[[Path, random.Random], None]


def _execute(file: Path, *statements: str) -> None:
    """Statements on a SQLite file; those that it refuses have no effect."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        for statement in ("PRAGMA ignore_check_constraints = 1", *statements):
            with contextlib.suppress(sqlite3.Error):
                database.execute(statement)
        database.commit()


def _loose(rng: random.Random) -> list[str]:
    """Statements that make the table again with other columns, types and constraints."""
    names = [*COLUMNS]
    match rng.randrange(6):
        case 0:
            names.remove(rng.choice(names))
        case 1:
            names.append(rng.choice(("extra", "a b", "é", "rowid", "_")))
        case 2:
            rng.shuffle(names)
        case 3:
            names[rng.randrange(len(names))] = rng.choice(("x", "select", "Headline", "ID"))
    columns = []
    for name in names:
        kind = rng.choice(TYPES)
        if rng.random() < 0.7 and name in COLUMNS:
            kind = str(index.runs.c[name].type)
        null = " NOT NULL" if rng.random() < 0.9 else ""
        more = rng.choice(
            ("", "", "", "", "", " DEFAULT 5", " UNIQUE", " COLLATE NOCASE", " CHECK (0)")
        )
        columns.append(f'"{name}" {kind}{null}{more if rng.random() < 0.2 else ""}')
    key = ", PRIMARY KEY (id)" if rng.random() < 0.5 else ""
    table = f"CREATE TABLE runs ({', '.join(columns)}{key})"
    kept = ", ".join(f'"{name}"' for name in names if name in COLUMNS)
    copy = f"INSERT INTO runs ({kept}) SELECT {kept} FROM old"
    return [
        "ALTER TABLE runs RENAME TO old",
        table + rng.choice(ENDS),
        table,
        *[copy] * rng.choice((0, 1, 2)),
        "DROP TABLE old",
    ]


def change_rows(file: Path, rng: random.Random) -> None:
    """Values of rows, also such as the table's constraints do not allow."""
    statements = _loose(rng) if rng.random() < 0.2 else []
    for _ in range(rng.choice((1, 1, 2, 5))):
        where = rng.choice(("", " WHERE rowid = 1", " WHERE rowid = 2"))
        column = rng.choice(COLUMNS)
        statements.append(f"UPDATE runs SET {column} = {rng.choice(VALUES)}{where}")
        if rng.random() < 0.2:
            values = [rng.choice(VALUES) if rng.random() < 0.3 else name for name in COLUMNS]
            values[0] = rng.choice(VALUES)
            statements.append(f"INSERT INTO runs SELECT {', '.join(values)} FROM runs LIMIT 1")
        if rng.random() < 0.1:
            statements.append("DELETE FROM runs WHERE rowid = 1")
    _execute(file, *statements)


def change_schema(file: Path, rng: random.Random) -> None:
    """Tables, views, triggers and indices."""
    as_view = ", ".join(rng.choice((name, f"{rng.choice(VALUES)} AS {name}")) for name in COLUMNS)
    choices: tuple[list[str], ...] = (
        _loose(rng),
        _loose(rng),
        ["DROP TABLE runs"],
        ["DROP TABLE alembic_version"],
        ["ALTER TABLE runs RENAME TO old", f"CREATE VIEW runs AS SELECT {as_view} FROM old"],
        ["DROP TABLE runs", "CREATE VIEW runs AS SELECT * FROM runs"],
        ["CREATE TRIGGER t BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'no'); END"],
        ["CREATE TRIGGER t AFTER DELETE ON runs BEGIN INSERT INTO runs SELECT old.*; END"],
        ["CREATE TRIGGER t AFTER DELETE ON runs BEGIN DELETE FROM alembic_version; END"],
        [f"ALTER TABLE runs ADD COLUMN extra {rng.choice(TYPES)}"],
        ["ALTER TABLE runs ADD COLUMN g AS (abs(-9223372036854775808))"],
        [f"ALTER TABLE runs DROP COLUMN {rng.choice(COLUMNS)}"],
        [f"ALTER TABLE runs RENAME COLUMN {rng.choice(COLUMNS)} TO other"],
        ["CREATE TABLE extra (x)"],
        ["CREATE UNIQUE INDEX u ON runs (state)"],
        ["PRAGMA user_version = 5", "PRAGMA application_id = 7"],
        [
            "PRAGMA writable_schema = 1",
            "UPDATE sqlite_master SET "
            + rng.choice((
                "sql = 'CREATE TABLE runs (x)'", "sql = NULL", "sql = 'nonsense'", "rootpage = 99",
                "rootpage = 1", "type = 'view'", "name = x'ff'", "tbl_name = 'x'",
            ))
            + rng.choice((" WHERE name = 'runs'", " WHERE type = 'index'", "")),
        ],
    )  # fmt: skip
    _execute(file, *rng.choice(choices))


def change_version(file: Path, rng: random.Random) -> None:
    """The version of the tables."""
    value = rng.choice(VERSIONS)
    loose = ["DROP TABLE alembic_version", "CREATE TABLE alembic_version (version_num)"]
    statements = loose if rng.random() < 0.4 else []
    statements += rng.choice((
        [f"UPDATE alembic_version SET version_num = {value}"],
        [f"INSERT INTO alembic_version VALUES ({value})"],
        [f"INSERT INTO alembic_version VALUES ('0002'), ({value})"],
    ))  # fmt: skip
    _execute(file, *statements)


def change_bytes(file: Path, rng: random.Random) -> None:
    """Bytes of the file: some bits, the head, whole pages, its length."""
    data = bytearray(file.read_bytes())
    match rng.randrange(6):
        case 0:
            for _ in range(rng.choice((1, 2, 10, 300))):
                data[rng.randrange(len(data))] = rng.randrange(256)
        case 1:
            data[rng.randrange(100)] = rng.randrange(256)
        case 2:
            page = 4096 * rng.randrange(len(data) // 4096)
            other = 4096 * rng.randrange(len(data) // 4096)
            filled = rng.choice((bytes(4096), rng.randbytes(4096), data[other : other + 4096]))
            data[page : page + 4096] = filled
        case 3:
            del data[rng.randrange(len(data)) :]
        case 4:
            page = 4096 * rng.randrange(len(data) // 4096)
            for _ in range(rng.choice((1, 2, 5))):  # the head of a page and its cells
                data[min(page + rng.randrange(40), len(data) - 1)] = rng.choice((0, 1, 13, 255))
        case _:
            data = bytearray(streams.mutate(bytes(data), rng, [bytes(data)]))
    file.write_bytes(data)


def change_files(file: Path, rng: random.Random) -> None:
    """Change the files next to it, or replace it."""
    place = file.with_name(file.name + rng.choice(("", "-wal", "-shm", "-journal", ".damaged")))
    match rng.randrange(6):
        case 0:
            place.write_bytes(rng.randbytes(rng.choice((0, 1, 32, 5000))))
        case 1:
            place.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + rng.randbytes(1000))
        case 2:
            place.write_bytes(b"\x37\x7f\x06\x82" + rng.randbytes(5000))
        case 3:
            place.unlink(missing_ok=True)
            place.mkdir()
        case 4:
            place.unlink(missing_ok=True)
            place.symlink_to(rng.choice((place.name, "nowhere", "runs", "/dev/null", "/dev/full")))
        case _:
            place.unlink(missing_ok=True)
            os.mkfifo(place)


CHANGES: tuple[tuple[str, Change], ...] = (
    ("rows", change_rows),
    ("rows", change_rows),
    ("schema", change_schema),
    ("version", change_version),
    ("bytes", change_bytes),
    ("bytes", change_bytes),
    ("files", change_files),
)
# Changes that may leave a value which a run could have: a row is read again where run.json changed.
PLAUSIBLE = ("rows", "bytes")


def template(folder: Path) -> Path:
    """The store to begin with: its runs were carried out on the fake target."""
    store = folder / "template"
    if not store.exists():
        for number in range(RUNS):
            words = ("--samples", "20", "--cpu", number % 2, "--label", f"é {number}")
            fuzzing.command("run", "timer", "--target", "fake", *words, "--store", store)
        with contextlib.closing(sqlite3.connect(store / "index.db")) as database:
            database.execute("PRAGMA journal_mode = DELETE").fetchall()
    return store


def _listed(store: Path) -> tuple[list[dict[str, Any]] | None, str]:
    code, text, errors = fuzzing.command("runs", "--json", "--store", store)
    if code != 0:
        fuzzing.check_refusal(code, errors)
        return None, errors
    return json.loads(text)["runs"], ""


def outcome(
    store: Path, true: Path, rows_of: dict[str, Any], rng: random.Random, *, exact: bool
) -> str:
    """What becomes of the commands; AssertionError when one is not treated as it must be."""
    files = bundles.files_of(true / "runs")
    identities = sorted(path.name for path in (true / "runs").iterdir())
    gone = rng.choice(identities)
    there = {*identities}
    commands: list[tuple[object, ...]] = [
        ("runs",),
        ("show", "last"),
        ("delete", gone, "--yes"),
        ("run", "timer", "--target", "fake", "--samples", "20"),
    ]
    rng.shuffle(commands)
    refused = ""
    for words in commands:
        code, _, errors = fuzzing.command(*words, "--store", store)
        if code != 0:
            # a run prints its progress first
            errors = "\n".join(errors.splitlines()[-2:]) if words[0] == "run" else errors
            fuzzing.check_refusal(code, errors)
            refused = refused or errors
        elif words[0] == "delete":
            there.remove(gone)
    found = {path.name for path in (store / "runs").iterdir() if not path.name.startswith(".")}
    assert there <= found, "a run is gone"
    kept = {name: data for name, data in files.items() if name.partition("/")[0] in there}
    now = bundles.files_of(store / "runs")
    assert {name: now.get(name) for name in kept} == kept, "a run was changed"
    rows, errors = _listed(store)
    refused = refused or errors
    wanted = {identity: rows_of[identity] for identity in there}
    if rows is not None:
        assert sorted(row["id"] for row in rows) == sorted(found), "the index has other runs"
        if exact:
            assert wanted.items() <= {row["id"]: row for row in rows}.items(), "another row"
    for path in store.glob("index.db*"):
        _remove(path)
    rows, errors = _listed(store)
    assert rows is not None, errors
    assert sorted(row["id"] for row in rows) == sorted(found), "the runs do not come back"
    assert wanted.items() <= {row["id"]: row for row in rows}.items(), "a row does not come back"
    if not refused:
        return ""
    line = refused.splitlines()[0].replace(str(store), "STORE")
    return re.sub(r"[^ -~]+", "?", fuzzing.plain(line))[:100]


def listed(store: Path, rows_of: dict[str, Any], *, exact: bool) -> str:
    """Why ``runs`` is refused; empty if it is not. AssertionError when it lists other runs."""
    rows, errors = _listed(store)
    if rows is None:
        return re.sub(
            r"[^ -~]+", "?", fuzzing.plain(errors.splitlines()[0].replace(str(store), "S"))
        )
    assert sorted(row["id"] for row in rows) == sorted(rows_of), "the index has other runs"
    if exact:
        assert {row["id"]: row for row in rows} == rows_of, "another row"
    return ""


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()


@fuzzing.fuzzer
def fuzz(tally: Tally, rng: random.Random, numbers: range, folder: Path, one_in: int) -> None:
    with mock.patch("os.fsync"), mock.patch.dict(os.environ, {"HOME": str(folder)}):
        true = template(folder)
        rows = {row["id"]: row for row in _listed(true)[0] or ()}
        assert len(rows) == RUNS
        shutil.copytree(true, folder / "listed", dirs_exist_ok=True)
        for number in numbers:
            whole = number % one_in == 0
            store = folder / ("store" if whole else "listed")
            if whole:
                shutil.copytree(true, store)
            else:
                shutil.copy2(true / "index.db", store / "index.db")
            file = store / "index.db"
            kind, change = rng.choice(CHANGES)
            change(file, rng)
            data = file.read_bytes() if file.is_file() else b""
            tally.begin(f"{number}, {kind}", data)
            exact = kind not in PLAUSIBLE
            if whole:
                refused = outcome(store, true, rows, rng, exact=exact)
                shutil.rmtree(store)
            else:
                refused = listed(store, rows, exact=exact)
                for path in store.glob("index.db*"):
                    _remove(path)
            tally.end(f"{kind}: {refused}" if refused else f"accepted: {kind}")
            tally.thorough += whole and not refused


if __name__ == "__main__":
    sys.exit(fuzzing.run("index", fuzz, 5_000, __file__, BLOCK, FOLLOW))
