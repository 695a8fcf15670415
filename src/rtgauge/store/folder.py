# SPDX-License-Identifier: Apache-2.0
"""The folder of a run (docs/formats/run-folder.md): writing it, and putting right what was
interrupted.

Step 7 of the path of a sample: it becomes durable; the bytes of the agent's stream are
appended to ``stream.cbor`` as they come, and synced at least once a second by a thread of its own,
so that a slow disk never holds up the pipe to the agent.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rtgauge.errors import RtgaugeError, StoreError, StreamError
from rtgauge.store.files import (
    FolderLock,
    make_folder,
    read_json,
    store_error,
    store_errors,
    sync_folder,
    write_file,
    write_json,
)
from rtgauge.store.identity import is_run_id, new_run_id
from rtgauge.store.scan import StepScan, load_failure, scan_stream
from rtgauge.store.seal import RECORDS, STREAM, Seal, read_seal, seal_step
from rtgauge.stream import StreamEnd

__all__ = [
    "DOCUMENT",
    "ENVIRONMENT",
    "FORMAT",
    "VERSION",
    "RunFolder",
    "StreamFile",
    "read_document",
    "recover",
    "step_path",
]

FORMAT = "rtgauge-run"
VERSION = 1
DOCUMENT = "run.json"
ENVIRONMENT = "environment.cbor"
SYNC_INTERVAL_S = 0.5
FLOOR = 1 << 26
"""Bytes that a stream leaves free on its disk, for other programs and for sealing."""
LOCK_TRIES = 50
LOCK_PAUSE_S = 0.02

_FINAL = ("complete", "interrupted", "failed", "skipped")


def step_path(run: Path, number: int) -> Path:
    """The folder of a step."""
    return run / "steps" / f"{number:03d}"


def read_document(path: Path) -> dict[str, Any]:
    """``run.json`` of the run's folder ``path``.

    StoreError, naming the run, when it is missing, damaged or of a newer version.
    """
    name = path.name
    document = read_json(path / DOCUMENT, f"run {name}")
    if document.get("format") != FORMAT or not isinstance(document.get("version"), int):
        raise StoreError(
            f"run {name} is damaged: its run.json is not of the format {FORMAT}",
            "restore it from a copy, or delete the run",
        )
    if document["version"] > VERSION:
        raise StoreError(
            f"run {name} has version {document['version']}, but this rtgauge reads up to {VERSION}",
            "use the newer rtgauge that wrote it",
        )
    if document.get("id") != name or not _well_formed(document):
        raise StoreError(
            f"run {name} is damaged: its run.json does not match its folder",
            "restore it from a copy, or delete the run",
        )
    return document


def _well_formed(document: dict[str, Any]) -> bool:
    steps = document.get("steps", [])
    return isinstance(steps, list) and all(
        isinstance(step, dict) and type(step.get("step")) is int and step["step"] >= 0
        for step in steps
    )


class StreamFile:
    """The stream of a running step. What ``write`` has returned from is in the system's hands: the
    death of this process loses none of it, a power failure at most the last second."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with store_errors("write", path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o666)
            sync_folder(path.parent)
        self._closed = False
        self._unsynced = threading.Event()
        self._stop = threading.Event()
        self._failed: OSError | None = None
        self._syncer = threading.Thread(target=self._sync_often, name="store-sync", daemon=True)
        self._syncer.start()

    def write(self, data: bytes) -> None:
        """Append ``data``. StoreError when it cannot be (a full disk): all that was written
        before stays, and with it the whole records at the beginning of ``data`` that had room."""
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        self._check()
        view = memoryview(data)
        try:
            disk = os.fstatvfs(self._file)
            if disk.f_bavail * disk.f_frsize - len(view) < FLOOR:
                raise StoreError(
                    f"stopped writing {self.path}: "
                    f"less than {FLOOR >> 20} MiB would remain free there",
                    "free some space there, or keep the runs elsewhere with --store",
                )
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            raise store_error("write", self.path, error) from error
        self._unsynced.set()

    def close(self) -> None:
        """Sync and close. StoreError when the last bytes could not be made durable."""
        if self._closed:
            return
        self._closed = True
        self._stop.set()
        self._unsynced.set()
        self._syncer.join()
        try:
            if self._failed is None:
                os.fsync(self._file)
        except OSError as error:
            self._failed = error
        finally:
            os.close(self._file)
        self._check()

    def __enter__(self) -> StreamFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close()
        except StoreError:
            if not issubclass(kind, StoreError):  # the first error says more
                raise

    def _check(self) -> None:
        if self._failed is not None:
            raise store_error("sync", self.path, self._failed) from self._failed

    def _sync_often(self) -> None:
        while not self._stop.wait(SYNC_INTERVAL_S):
            self._unsynced.wait()
            self._unsynced.clear()
            try:
                os.fdatasync(self._file)
            except OSError as error:
                self._failed = error
                return


class RunFolder:
    """The folder of a run that only this process writes until ``close``."""

    def __init__(self, path: Path, document: dict[str, Any], lock: FolderLock) -> None:
        self.path = path
        self.document = document
        self._lock = lock

    @classmethod
    def create(cls, runs: Path, document: dict[str, Any]) -> RunFolder:
        """A new folder below ``runs`` with this ``run.json``, which gets an id if it lacks one.

        The folder becomes visible when it is complete and locked.
        """
        document = {"format": FORMAT, "version": VERSION, "id": new_run_id(), **document}
        run_id = document["id"]
        if not isinstance(run_id, str) or not is_run_id(run_id):
            raise StoreError(f"'{run_id}' is not the id of a run", "let rtgauge choose the id")
        path = runs / run_id
        new = runs / f".{run_id}.new"
        make_folder(runs)
        with store_errors("make the folder", path):
            if path.exists():
                raise FileExistsError(errno.EEXIST, "a run with this id already exists", str(path))
            new.mkdir()
            lock = _lock_new(new)
        if lock is None:
            shutil.rmtree(new, ignore_errors=True)
            raise StoreError(f"cannot lock {new}", "keep the runs on a local disk (--store)")
        folder = cls(new, document, lock)
        try:
            folder.write_document(document)
            with store_errors("make the folder", path):
                (new / "steps").mkdir()
                os.rename(new, path)
                sync_folder(runs)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            lock.release()
            raise
        folder.path = path
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder | None:
        """A folder that is there, to write it on; None while another process has it."""
        with store_errors("open", path):
            lock = FolderLock.take(path)
        if lock is None:
            return None
        try:
            return cls(path, read_document(path), lock)
        except BaseException:
            lock.release()
            raise

    @property
    def id(self) -> str:
        return str(self.document["id"])

    def write_document(self, document: dict[str, Any]) -> None:
        """Replace ``run.json``."""
        document = {**document, "format": FORMAT, "version": VERSION, "id": self.document["id"]}
        write_json(self.path / DOCUMENT, document)
        self.document = document

    def save_environment(self, data: bytes) -> None:
        """Keep the records of ``rtgauge-agent environment``."""
        write_file(self.path / ENVIRONMENT, data)

    def step_folder(self, number: int) -> Path:
        """The folder of a step, made where it is missing."""
        path = step_path(self.path, number)
        make_folder(path)
        return path

    def append_stream(self, number: int) -> StreamFile:
        """The stream of a step, to append to."""
        folder = self.step_folder(number)
        if (folder / RECORDS).exists():
            raise ValueError(f"step {number} of run {self.id} is sealed")
        return StreamFile(folder / STREAM)

    def drop_stream(self, number: int) -> None:
        """Forget what a step sent, before another try. It must not be sealed."""
        path = step_path(self.path, number) / STREAM
        with store_errors("write", path):
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()

    def seal(self, number: int) -> StreamEnd:
        """Move the samples of a finished step into Parquet; how its stream ended.

        StoreError if that fails, such as without free space. The stream stays as it was then.
        """
        return seal_step(step_path(self.path, number), self.id, number).end

    def close(self) -> None:
        """Let others have it. ``run.json`` should name the final state by now."""
        self._lock.release()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lock_new(new: Path) -> FolderLock | None:
    """The lock of a folder just created. Before it is locked, another process may consider the
    folder abandoned and remove it. The folder is then created again."""
    lock = None
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(FileNotFoundError):
            lock = FolderLock.take(new)
        if lock is not None:
            break
        time.sleep(LOCK_PAUSE_S)
        new.mkdir(exist_ok=True)
    return lock


def _left_streams(path: Path) -> Iterator[int]:
    steps = path / "steps"
    try:
        names = sorted(entry.name for entry in os.scandir(steps))
    except OSError:
        return
    for name in names:
        if re.fullmatch(r"[0-9]{3,}", name) and (steps / name / STREAM).exists():
            yield int(name)


def recover(path: Path) -> dict[str, Any]:
    """``run.json`` of a run, put right first where its writer is gone: steps that still hold their
    stream are sealed, and what was running is marked as interrupted.

    Where nothing can be written, the document is put right in memory alone, and the streams are
    read as they are.
    """
    document = read_document(path)
    left = list(_left_streams(path))
    if not left and document.get("state") != "running":
        return document
    try:
        folder = RunFolder.open(path)
    except StoreError:
        folder = None
    if folder is None:
        return document
    with folder:
        document = folder.document
        for number in left:
            with contextlib.suppress(StoreError, StreamError):
                folder.seal(number)
        recovered = _interrupted(path, document, left)
        if recovered != document:
            try:
                folder.write_document(recovered)
            except RtgaugeError:
                return recovered
    return recovered


def _records(folder: Path) -> StepScan:
    """The records of a sealed step, without its samples. Empty if they cannot be read."""
    try:
        return scan_stream(folder / RECORDS, sealed=True)
    except (StoreError, StreamError):
        return StepScan()


def _length_s(seal: Seal, records: StepScan) -> float:
    """How long a step lasted, as its stream says: up to the last moment that it names."""
    if records.trailer is not None:
        return round(records.trailer.duration_ns / 1e9, 3)
    moments = [one.totals.last_due_ns for one in seal.series]
    return round(max([0, records.last_ns, *moments]) / 1e9, 3)


_WRITER_GONE = "the program that carried out the run ended before the run did"
_AGAIN = "start the run again. The store keeps what was measured"


def _interrupted(path: Path, document: dict[str, Any], left: list[int]) -> dict[str, Any]:
    if document.get("state") in _FINAL:
        return document
    steps = [dict(step) for step in document.get("steps", [])]
    known = {step["step"] for step in steps}
    steps += [{"step": n, "folder": f"steps/{n:03d}"} for n in sorted(set(left) - known)]
    for step in steps:
        if step.get("state") in _FINAL:
            continue
        began = step["step"] in left or step.get("state") == "running"
        step |= {
            "state": "interrupted" if began else "skipped",
            "reason": _WRITER_GONE,
            "remedy": _AGAIN,
        }
        seal = read_seal(step_path(path, step["step"]))
        if seal is not None and seal.trailer is not None:
            step.update(seal.trailer)
        if seal is None:
            continue
        records = _records(step_path(path, step["step"]))
        step["duration_s"] = step.get("duration_s") or _length_s(seal, records)
        failure = load_failure(records.told)
        if failure is not None and step["state"] in ("complete", "interrupted"):
            step |= {"state": "failed", "reason": failure[0], "remedy": failure[1]}
    outcome = {"state": "interrupted", "reason": _WRITER_GONE, "remedy": _AGAIN}
    for step in steps:
        if step.get("state") == "failed":
            where = f"step {step['step'] + 1} ({step.get('measurement', '')}): "
            outcome = {"state": "failed", "reason": where + str(step.get("reason", "")),
                       "remedy": str(step.get("remedy", ""))}  # fmt: skip
            break
    lasted = sum(step.get("duration_s") or 0.0 for step in steps)
    return {
        **document,
        **outcome,
        "duration_s": document.get("duration_s") or round(lasted, 3),
        "steps": sorted(steps, key=lambda step: int(step["step"])),
    }
