# SPDX-License-Identifier: Apache-2.0
"""The figures of each run, for commands that take many runs.

Making them reads all samples, so they are kept next to the runs: ``figures/ID.npz``, which may be
deleted at any time. They count only for the program and the run's files they were made with.
"""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import TYPE_CHECKING

from rtgauge.cli.brief import FIGURES, kept_path, key

if TYPE_CHECKING:
    from rtgauge.report.results.model import Analysis
    from rtgauge.store import Store

__all__ = ["figures_of"]


def figures_of(store: Store, run: str) -> Analysis:
    """The analysis of a run, as far as sets of runs need it: the one that is kept, or a new one.
    Raises RtgaugeError."""
    from rtgauge.report import faults_as_errors
    from rtgauge.report.results import model
    from rtgauge.report.results.kept import packed, unpacked

    path = kept_path(store, FIGURES, run)
    depends = _key(store, run)
    try:
        found = unpacked(path.read_bytes(), depends) if depends else None
    except Exception:  # NumPy and zipfile raise errors of any kind for damaged bytes
        found = None
    if found is not None:
        return found
    with faults_as_errors("the figures"):
        analysis = model.analyse([store.get(run)], pictures=False)
    if not depends:
        return analysis
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        new = path.with_name(f".{path.name}")
        new.write_bytes(packed(analysis, depends))
        new.replace(path)
    return analysis


def _key(store: Store, run: str) -> str:
    """What the figures depend on: the program, and all files of the run. Empty if one of them is
    removed at this moment."""
    try:
        stats = [file.lstat() for file in (store.path / run).rglob("*")]
    except OSError:
        return ""
    files = (
        f"{max((one.st_mtime_ns for one in stats), default=0)} {sum(one.st_size for one in stats)}"
    )
    return f"{key(store, run, _made())} {files}"


@functools.cache
def _made() -> int:
    """When the newest of the sources that make figures was changed."""
    from rtgauge import report, stats, store

    folders = [Path(str(one.__file__)).parent for one in (report, stats, store)]
    return max(file.stat().st_mtime_ns for folder in folders for file in folder.rglob("*.py"))
