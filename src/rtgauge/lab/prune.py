# SPDX-License-Identifier: Apache-2.0
"""Removes from the lab's cache what is no longer used.

docs/reference/lab.md lists what is removed. The current kernels of the lab's own boards stay,
because they cost a download. Only entries that the lab made are examined, by record or name, under
the locks of the functions that make them.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from rtgauge.lab.boards import BOARDS
from rtgauge.lab.cache import (
    UNFINISHED,
    Say,
    cache_folder,
    explained,
    locked,
    read_record,
    remove,
)
from rtgauge.lab.images import IMAGE_RECORD, IMAGE_VERSION
from rtgauge.lab.kernels import KERNEL_RECORD, KERNEL_VERSION
from rtgauge.lab.libraries import AGENTS, APT, LIBRARY_RECORD, LIBRARY_VERSION, ROOTS
from rtgauge.lab.names import SUFFIX as NAMES
from rtgauge.lab.own import OWN_KERNELS

__all__ = ["DAYS", "Removed", "prune"]

DAYS: Final = 14.0
_DAY_S: Final = 24 * 3600.0
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")
_LOG: Final = re.compile(r"[0-9a-f]{16}\.log")


@dataclass(frozen=True)
class Removed:
    """A removed entry: its path in the cache, and its bytes."""

    path: str
    size: int


def prune(days: float = DAYS, *, say: Say = lambda _: None) -> list[Removed]:
    """Remove what has not been used for ``days``. Returns the removed entries, in order.

    Waits until boards are prepared. Raises TargetError.
    """
    cache = cache_folder()
    before = time.time() - days * _DAY_S
    removed: list[Removed] = []
    with locked(cache, ("kernels", "boards", OWN_KERNELS), say), explained(cache):
        chosen = _chosen(cache)
        for path in _folders(cache / "kernels"):
            record = read_record(path / KERNEL_RECORD, KERNEL_VERSION)
            if record is not None and path.name not in chosen:
                _take(cache, path, path / KERNEL_RECORD, before, removed)
        for path in _folders(cache / OWN_KERNELS):
            if read_record(path / KERNEL_RECORD, KERNEL_VERSION) is not None:
                _take(cache, path, path / KERNEL_RECORD, before, removed)
        for path in sorted((cache / "packages").glob("*.deb")):
            _take(cache, path, path, before, removed)
    with locked(cache, ("images", "modules"), say), explained(cache):
        for path in _folders(cache / "images"):
            if read_record(path / IMAGE_RECORD, IMAGE_VERSION) is not None:
                _take(cache, path, path / IMAGE_RECORD, before, removed)
        for path in _folders(cache / "modules"):
            if _DIGEST.fullmatch(path.name):
                _take(cache, path, path, before, removed)
        for path in sorted((cache / "modules").glob("*.log")):
            if _LOG.fullmatch(path.name):
                _take(cache, path, path, before, removed)
    _take_libraries(cache, before, removed, say)
    for name, suffix in (("recorder", ".so"), ("names", NAMES)):
        with locked(cache, (name,), say), explained(cache):
            for path in sorted((cache / name).glob(f"*{suffix}")):
                _take(cache, path, path, before, removed)
    return removed


def _take_libraries(cache: Path, before: float, removed: list[Removed], say: Say) -> None:
    """C libraries of boards, and the agents that are linked against them."""
    for name, names in ((ROOTS, (APT, ROOTS)), (AGENTS, (AGENTS,))):
        with locked(cache, names, say), explained(cache):
            for path in _folders(cache / name):
                if read_record(path / LIBRARY_RECORD, LIBRARY_VERSION) is not None:
                    _take(cache, path, path / LIBRARY_RECORD, before, removed)


def _chosen(cache: Path) -> set[str]:
    """The kernels that boards have."""
    found = set()
    for name in BOARDS:
        record = read_record(cache / "boards" / f"{name}.json", KERNEL_VERSION)
        if record is not None:
            found.add(PurePosixPath(str(record.get("kernel"))).name)
    return found


def _folders(above: Path) -> Iterator[Path]:
    """The complete folders there, without links."""
    for path in sorted(above.glob("*")):
        if path.is_dir() and not path.is_symlink() and not path.name.endswith(UNFINISHED):
            yield path


def _take(cache: Path, path: Path, used: Path, before: float, removed: list[Removed]) -> None:
    """Remove it, if ``used`` was not touched since: it is renamed first, so that an interrupted
    removal leaves no entry that looks complete."""
    if path.is_symlink() or used.stat().st_mtime > before:
        return
    size = _size(path)
    gone = path.with_name(path.name + UNFINISHED)
    remove(gone)
    path.rename(gone)
    remove(gone)
    removed.append(Removed(str(path.relative_to(cache)), size))


def _size(path: Path) -> int:
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total or path.lstat().st_size
