# SPDX-License-Identifier: Apache-2.0
"""The records of tunes: ``tunes/STUDY/tune.json`` next to the runs (docs/formats/tune.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from rtgauge.errors import StoreError, UsageError
from rtgauge.store.files import FolderLock, make_folder, read_json, store_errors, write_json
from rtgauge.store.store import Store

__all__ = ["FORMAT", "VERSION", "TuneFile", "find_tune"]

FORMAT: Final = "rtgauge-tune"
VERSION: Final = 1
_NAME: Final = "tune.json"


class TuneFile:
    """The record of a tune, locked for this process until it is closed."""

    def __init__(self, store: Store, study: str) -> None:
        """Open or create it. Raises StoreError if another process carries the tune out."""
        folder = _folder(store) / study
        make_folder(folder)
        with store_errors("lock", folder):
            lock = FolderLock.take(folder)
        if lock is None:
            raise StoreError(
                f"another process is carrying out tune {study}", "wait until that process ends"
            )
        self._lock = lock
        self._path = folder / _NAME

    def read(self) -> dict[str, Any] | None:
        """The record; None if there is none yet."""
        return _read(self._path) if self._path.exists() else None

    def write(self, document: dict[str, Any]) -> None:
        """Replace the record."""
        write_json(self._path, document)

    def close(self) -> None:
        """Let others have it."""
        self._lock.release()


def _folder(store: Store) -> Path:
    return store.path.parent / "tunes"


def _read(path: Path) -> dict[str, Any]:
    document = read_json(
        path, f"tune {path.parent.name}", f"delete {path.parent}: the runs of the tune stay"
    )
    if document.get("format") != FORMAT or document.get("version") != VERSION:
        raise StoreError(
            f"{path} is not a record of a tune of version {VERSION}",
            "use the version of rtgauge that wrote it",
        )
    return document


def find_tune(store: Store, word: str) -> dict[str, Any]:
    """The record of the tune whose study begins with this word; ``last``: of the newest one that is
    not complete. Raises UsageError, StoreError."""
    paths = sorted(_folder(store).glob(f"*/{_NAME}"), reverse=True)
    if word == "last":
        for path in paths:
            document = _read(path)
            if document["state"] != "complete":
                return document
        raise UsageError("no tune was interrupted", "start one: rtgauge tune --help")
    found = [path for path in paths if path.parent.name.startswith(word.lower())]
    if len(found) != 1:
        what = f"{len(found)} tunes begin" if found else "no tune begins"
        raise UsageError(f"{what} with '{word}'", "give the study that rtgauge tune printed")
    return _read(found[0])
