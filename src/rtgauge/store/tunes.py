# SPDX-License-Identifier: Apache-2.0
"""The records of tunes: ``tunes/STUDY/tune.json`` next to the runs (docs/formats/tune.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rtgauge.errors import StoreError, UsageError
from rtgauge.store.files import FolderLock, make_folder, read_json, store_errors, write_json
from rtgauge.store.store import Store

__all__ = ["FORMAT", "VERSION", "TuneFile", "find_tune"]

FORMAT: Final = "rtgauge-tune"
VERSION: Final = 1
_NAME: Final = "tune.json"
_KEYS: Final[Mapping[str, type]] = {
    "state": str, "target": str, "label": str, "plan": dict, "words": list, "tried": list,
    "design": dict, "confirm_blocks": int, "boot_command": str, "booted": list, "dropped": dict,
    "ignored": dict, "configurations": list,
}  # fmt: skip
_DESIGN: Final[Mapping[str, type]] = {"kind": str, "size": int, "seed": int, "blocks": int}
_ROW: Final[Mapping[str, type | tuple[type, ...]]] = {
    "number": int, "phase": str, "block": int, "on": list, "state": str, "run": str,
    "reason": str, "remedy": str, "duration_s": (int, float), "again": bool,
}  # fmt: skip


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
    study, remedy = path.parent.name, f"delete {path.parent}: the runs of the tune stay"
    document = read_json(path, f"tune {study}", remedy)
    if document.get("format") != FORMAT or document.get("version") != VERSION:
        raise StoreError(
            f"{path} is not a record of a tune of version {VERSION}",
            "use the version of rtgauge that wrote it",
        )
    if document.get("study") != study or not _well_formed(document):
        raise StoreError(f"tune {study} is damaged: {path} is not a record of it", remedy)
    return document


def _well_formed(document: dict[str, Any]) -> bool:
    """Whether a record has all that a resumed tune reads, each of its type."""
    return (
        _has(document, _KEYS)
        and _has(document["design"], _DESIGN)
        and all(isinstance(word, str) for word in (*document["words"], *document["booted"]))
        and all(_has(row, _ROW) for row in document["configurations"])
        and all(
            place in range(len(document["tried"]))
            for row in document["configurations"]
            for place in row["on"]
        )
    )


def _has(part: Any, kinds: Mapping[str, type | tuple[type, ...]]) -> bool:
    return isinstance(part, dict) and all(
        isinstance(part.get(key), kind) for key, kind in kinds.items()
    )


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
