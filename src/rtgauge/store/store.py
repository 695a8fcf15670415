# SPDX-License-Identifier: Apache-2.0
"""The store: all runs, found by their id; the folders are the truth, the index only lists them."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from rtgauge.errors import RtgaugeError, StoreError, UsageError, nearest
from rtgauge.home import expanded, home
from rtgauge.store.files import FolderLock, make_folder, store_errors, sync_folder
from rtgauge.store.folder import DOCUMENT, RunFolder, read_document, recover, step_path
from rtgauge.store.identity import is_run_id
from rtgauge.store.index import Index, Stamp
from rtgauge.store.numbers import numbered, run_number
from rtgauge.store.samples import StoredRun
from rtgauge.store.scan import scan_stream
from rtgauge.store.seal import RECORDS, SealedSeries, read_seal
from rtgauge.stream.answers import waits_for_answers
from rtgauge.text import AtLeast, microseconds, shown
from rtgauge.units import parse_duration

__all__ = ["RunRow", "Store"]

ENVIRONMENT_VARIABLE = "RTGAUGE_STORE"
SQLITE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
PLACES = "give a folder, a file.db, sqlite:///FILE or postgresql://…?data=FOLDER"
INT64_MAX = 2**63 - 1
UNREADABLE = "unreadable"
IMPORT = ".import"
"""The suffix of a folder that is locked while a file is imported."""
_DIGEST = re.compile("[0-9a-f]{64}")
_SHUT: Final[Stamp] = (0, 0)
"""The stamp of a run whose folder this user cannot read."""
VERDICTS = ("fail", "inconclusive", "pass", "skipped")


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list of all. ``state`` is ``unreadable`` for a run that this program cannot
    read; its ``headline`` then says why. ``number``: its short number in this store."""

    id: str
    label: str
    study: str
    target: str
    state: str
    started: str
    duration_s: float
    steps: int
    headline: str
    number: int = 0


class Store:
    """An open store. Several processes may have it open at once."""

    def __init__(self, index: Index, runs: Path) -> None:
        self._index = index
        self._runs = runs

    @classmethod
    def open(cls, place: str | None = None, *, create: bool = True) -> Store:
        """Open the store, and create it if it is missing. Without ``create``, UsageError for a
        missing store that is not the default.

        ``place``: a folder, the file of a SQLite index, or the URL of an index
        (``sqlite:///FILE``, ``postgresql://…?data=FOLDER``); by default ``$RTGAUGE_STORE``, else
        ``rtgauge`` in the user's folder for data. The folders of the runs are below ``runs/`` in
        the folder given, next to a SQLite file, or in the URL's ``data``. StoreError, UsageError.
        """
        named = place or os.environ.get(ENVIRONMENT_VARIABLE)
        address, data, own = _locate(named or str(_default_folder()))
        try:
            f"{address}{data}".encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"the store {data} has a name that is not UTF-8",
                "keep the runs elsewhere with --store",
            ) from None
        index = address.database if address.get_backend_name() == "sqlite" and not own else None
        at = Path(index or data)
        with store_errors("open the store", at):
            missing = not (at.exists() or (data / "runs").exists())
        if named and missing and not create:
            raise UsageError(
                f"there is no store at {at}",
                "correct its name, or create it with a run: rtgauge run timer --for 10s",
            )
        try:
            make_folder(data)
        except StoreError:
            if not (data / "runs").is_dir():
                raise
        return cls(Index(address, own=own), data / "runs")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._index.close()

    @property
    def path(self) -> Path:
        """The folder in which the folders of the runs are."""
        return self._runs

    def create(self, document: Mapping[str, Any]) -> RunFolder:
        """The folder of a new run, locked for this process until it is closed."""
        folder = RunFolder.create(self._runs, dict(document))
        self.update(folder)
        return folder

    def update(self, folder: RunFolder) -> None:
        """Bring the index up to date with a run that this process writes. If the index fails, the
        next command does so: no run depends on it."""
        stamp = _stamp(folder.path)
        if stamp is not None:
            with contextlib.suppress(StoreError):
                self._index.write([_row(folder.path, stamp)], [])

    def runs(self) -> list[RunRow]:
        """All runs, the newest first."""
        self._synchronise()
        found = []
        rows = self._index.rows()
        numbers = self._numbers(rows)
        names = [name for name in RunRow.__dataclass_fields__ if name != "number"]
        for columns in rows:
            row = RunRow(**{name: columns[name] for name in names}, number=numbers[columns["id"]])
            if row.state == "running" and _is_free(self._runs / row.id):
                row = replace(row, state="interrupted")
            found.append(row)
        return found

    def _numbers(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """The short numbers of runs, the newest first."""
        return numbered(self._runs.parent, [row["id"] for row in reversed(rows)])

    def get(self, prefix: str) -> StoredRun:
        """The run whose id begins with ``prefix``, or that has this number (``#12``, ``12``).

        A run whose writer is gone is put right first. UsageError when no run, or more than one,
        begins so; StoreError when its folder cannot be read or is of a newer version.
        """
        path = self._runs / self._resolve(prefix)
        document = recover(path)
        stamp = _stamp(path)
        if stamp is not None:
            self._index.write([_row(path, stamp)], [])
        return StoredRun(path, document)

    def find(self, prefix: str) -> str:
        """The id of the run that ``prefix`` means, readable or not. UsageError as ``get``."""
        return self._resolve(prefix)

    def delete(self, prefix: str) -> None:
        """Remove a run and all that was measured in it. UsageError, StoreError."""
        run_id = self._resolve(prefix)
        path = self._runs / run_id
        gone = self._runs / f".{run_id}.deleted"
        with store_errors("delete", path):
            lock = FolderLock.take(path)
            if lock is None:
                raise StoreError(
                    f"run {run_id} is being carried out", "stop it first, then delete it"
                )
            try:
                os.rename(path, gone)
                sync_folder(self._runs)
                shutil.rmtree(gone)
            finally:
                lock.release()
        self._index.write([], [run_id])

    def _resolve(self, prefix: str) -> str:
        self._synchronise()
        number = run_number(prefix)
        if number is not None:
            rows = self._index.rows()
            here = {row["id"] for row in rows}
            for identity, other in self._numbers(rows).items():
                if other == number and identity in here:
                    return identity
        ids = sorted(self._index.stamps())
        wanted = prefix.strip().lower()
        found = [one for one in ids if wanted and one.startswith(wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
            raise UsageError(
                f"{len(found)} runs begin with '{prefix}'",
                f"give more characters of the id: {shown}",
            )
        remedy = nearest(wanted, ids) if len(ids) < 10 else "`rtgauge runs` lists them"
        if ids and not remedy.startswith("did you mean"):
            remedy = "`rtgauge runs` lists them"
        raise UsageError(f"there is no run '{prefix}'", remedy)

    def _synchronise(self) -> None:
        """Put all changes of the folders into the index, those of other programs too."""
        there: dict[str, Stamp] = {}
        try:
            with os.scandir(self._runs) as entries:
                names = [entry.name for entry in entries]
        except FileNotFoundError:
            names = []
        except OSError as error:
            raise StoreError(
                f"cannot read the store {self._runs}: {error.strerror}", "check its permissions"
            ) from error
        for name in names:
            if is_run_id(name):
                stamp = _stamp(self._runs / name)
                if stamp is not None:
                    there[name] = stamp
            elif _is_leftover(name):
                _remove_leftover(self._runs / name)
        known = self._index.stamps()
        changed = [
            _row(self._runs / name, stamp)
            for name, stamp in there.items()
            if known.get(name) != stamp
        ]
        gone = known.keys() - there.keys()
        if changed or gone:
            self._index.write(changed, gone)


def _locate(place: str) -> tuple[sa.URL, Path, bool]:
    """The index of the store at ``place``, the folder of its data, and whether the index is in a
    folder of rtgauge's own. Raises UsageError, StoreError."""
    if "://" not in place:
        path = expanded(place).absolute()
        with store_errors("open the store", path):
            index = path.is_file() or (path.suffix in SQLITE_SUFFIXES and not path.is_dir())
        if index:
            return sa.URL.create("sqlite", database=str(path)), path.parent, False
        return sa.URL.create("sqlite", database=str(path / "index.db")), path, True
    try:
        address = sa.make_url(place)
    except sa.exc.ArgumentError as error:
        raise UsageError(f"'{place}' is not the URL of a store", PLACES) from error
    backend = address.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise UsageError(f"a store cannot be kept in '{backend}'", PLACES)
    given = address.query.get("data", "")
    if not isinstance(given, str):
        raise UsageError(f"the store {address.render_as_string()} has several folders", PLACES)
    data = expanded(given).absolute() if given else None
    address = address.difference_update_query(["data"])
    if backend == "sqlite" and address.database and address.database != ":memory:":
        file = Path(address.database).absolute()
        return address.set(database=str(file)), data or file.parent, False
    if data is None:
        raise UsageError(
            f"the store {address.render_as_string()} needs a folder for the runs",
            "add it to the URL: ?data=/FOLDER",
        )
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    return address, data, False


def _default_folder() -> Path:
    base = os.environ.get("XDG_DATA_HOME", "")
    above = Path(base) if os.path.isabs(base) else home() / ".local" / "share"
    return above / "rtgauge"


def _stamp(path: Path) -> Stamp | None:
    """The stamp of a run, ``_SHUT`` if its folder cannot be read, None if there is no run."""
    try:
        status = os.stat(path / DOCUMENT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return _SHUT
    return status.st_mtime_ns & INT64_MAX, status.st_size  # years after 2262 have more bits


def _is_leftover(name: str) -> bool:
    """Whether this is a folder that was being made, deleted or locked when its process ended."""
    of_a_run = is_run_id(name[1:37]) and name[37:] in (".new", ".deleted")
    of_an_import = _DIGEST.fullmatch(name[1:65]) and name[65:] == IMPORT
    return name[:1] == "." and bool(of_a_run or of_an_import)


def _remove_leftover(path: Path) -> None:
    """Remove such a folder, unless another process uses it. Holds its lock to the end."""
    try:
        lock = FolderLock.take(path)
    except OSError:
        return
    if lock is not None:
        shutil.rmtree(path, ignore_errors=True)
        lock.release()


def _is_free(path: Path) -> bool:
    """Whether no process is writing the run."""
    try:
        lock = FolderLock.take(path)
    except OSError:
        return False
    if lock is None:
        return False
    lock.release()
    return True


def _row(path: Path, stamp: Stamp) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": path.name,
        "label": "",
        "study": "",
        "target": "",
        "state": UNREADABLE,
        "started": "",
        "duration_s": 0.0,
        "steps": 0,
        "headline": "",
        "changed_ns": stamp[0],
        "size": stamp[1],
    }
    try:
        found = row | _columns(path, read_document(path))
    except RtgaugeError as error:
        found = row | {"headline": error.message}
    except Exception as error:  # whatever a folder holds: one run must not end every command
        found = row | {"headline": f"run {path.name} is damaged: {type(error).__name__}: {error}"}
    # PostgreSQL does not accept NUL in a text.
    return {
        name: value.replace("\0", "\ufffd") if isinstance(value, str) else value
        for name, value in found.items()
    }


def _columns(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Row of a run in the index."""
    texts = {name: document.get(name) for name in ("label", "study", "target", "state", "started")}
    found: dict[str, Any] = {name: text for name, text in texts.items() if isinstance(text, str)}
    duration = document.get("duration_s")
    if isinstance(duration, int | float) and math.isfinite(duration):
        found["duration_s"] = float(duration)
    found["steps"] = len(document.get("steps", []))
    found["headline"] = _headline(path, document)
    return found


def _headline(path: Path, document: dict[str, Any]) -> str:
    """What came of the run in a few words: why it failed, or the largest value of all that was
    asked for, under which load, and whether it lies above the budget."""
    if document.get("state") in ("failed", "skipped"):
        return str(document.get("reason") or "")
    found = [
        (one.unit == "ns", _longest(one, waited), waited, one, step)
        for step in document.get("steps", [])
        if step.get("role", "measurement") == "measurement"
        for one in _sealed(step_path(path, step["step"]))
        for waited in (_waited_ns(one, step_path(path, step["step"])),)
        if one.companion is None and (one.max is not None or waited)
    ]
    if not found:
        return _judged(path, document)
    in_time, value, waited, worst, step = max(found, key=lambda entry: entry[:3])
    load = step.get("load") or "idle"
    if step.get("load_command"):
        load = "command" if load == "idle" else f"{load},command"
    if step.get("disturb"):
        load = "disturbed" if load == "idle" else f"{load},disturbed"
    over = [
        step["budget_ns"]
        for is_time, value, waited, _, step in found
        if is_time
        and isinstance(step.get("budget_ns"), int)
        and (value > step["budget_ns"] or waited >= step["budget_ns"] > 0)
    ]
    limit = min(over, default=None)
    largest = AtLeast(value) if waited else value
    said = shown(largest, "ns" if in_time else worst.unit, limit if in_time else None)
    text = f"max {said.full} ({step.get('measurement', '')}"
    text += ")" if load == "idle" else f", {load.replace(',', ', ')})"
    return text if limit is None else f"over {microseconds(limit)}: {text}"


def _longest(one: SealedSeries, waited: int) -> int:
    """The largest value of a series, or the wait for an event without an answer if that is longer.
    0 if there is neither."""
    if one.max is None:
        return waited
    return max(one.max * one.scale, waited) if waited else one.max * one.scale


def _waited_ns(one: SealedSeries, folder: Path) -> int:
    """The wait for an event without an answer: the timeout or an interval; 0 if all are answered.
    With dither the waits differ, and the report gives the longest."""
    due = one.totals.count + one.totals.missed
    if not waits_for_answers(one.name, one.unit) or not one.totals.missed or due < 2:
        return 0
    timeout_ns = 0
    with contextlib.suppress(RtgaugeError, ValueError, KeyError):
        header = scan_stream(folder / RECORDS, sealed=True).header
        timeout_ns = parse_duration(header.parameters["timeout"].effective) if header else 0
    return timeout_ns or (one.totals.last_due_ns - one.totals.first_due_ns) // (due - 1)


def _judged(path: Path, document: dict[str, Any]) -> str:
    """The verdicts of a run that has no samples, counted."""
    counts: Counter[str] = Counter()
    for step in document.get("steps", []):
        if step.get("role", "measurement") == "measurement":
            records = step_path(path, step["step"]) / RECORDS
            with contextlib.suppress(RtgaugeError):
                counts.update(one.result for one in scan_stream(records, sealed=True).verdicts)
    return ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])


def _sealed(folder: Path) -> list[SealedSeries]:
    """The series of a step, none where they cannot be read."""
    try:
        seal = read_seal(folder)
    except RtgaugeError:
        return []
    return seal.series if seal else []
