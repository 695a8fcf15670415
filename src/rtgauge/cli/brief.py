# SPDX-License-Identifier: Apache-2.0
"""The answer of a run in a few words, for the list of runs and for ``rtgauge`` alone.

Making it takes a second, so it is kept next to the runs: ``answers/ID.json``, which may be deleted
at any time. It counts only for the run.json and the program that it was made with.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rtgauge import __version__
from rtgauge.errors import RtgaugeError

if TYPE_CHECKING:
    from rtgauge.store import RunRow, Store

__all__ = ["ANSWERS", "FIGURES", "Brief", "brief_of", "forget", "keep", "kept_path", "key"]

ANSWERS: Final = ("answers", ".json")
FIGURES: Final = ("figures", ".npz")
"""Folder and suffix of what is kept next to the runs."""
# States of a run that say more than its answer.
_OWN: Final = ("failed", "interrupted", "skipped", "running", "unreadable")


@dataclass(frozen=True)
class Brief:
    """``verdict``: the state of the answer, or of a run that is not complete. ``title`` and
    ``worst``: the answer's first two lines. ``command``: the first one that it proposes.
    ``measured``: the measurement of ``worst``, with its load."""

    verdict: str
    title: str
    worst: str
    command: str = ""
    measured: str = ""

    @property
    def failed(self) -> bool:
        """Whether the run failed, or shows that the system is not fit or too late."""
        return self.verdict in ("failed", "not fit", "too late")


def brief_of(store: Store, row: RunRow, begins: Callable[[], None] = lambda: None) -> Brief:
    """The answer of a listed run: the kept one, or a new one. ``begins`` is called before that."""
    if row.state in ("running", "unreadable"):
        return Brief(row.state, "", row.headline)
    depends = key(store, row.id, _made())
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(kept_path(store, ANSWERS, row.id).read_text(encoding="utf-8"))
        if kept.pop("key") == depends:
            return Brief(**{name: str(text) for name, text in kept.items()})
    begins()
    from rtgauge.report import faults_as_errors
    from rtgauge.report.document.answer import observed_steps
    from rtgauge.report.results import model

    try:
        with faults_as_errors("the answer"):
            return keep(store, model.build_run(store.get(row.id), observed_steps))
    except RtgaugeError as error:
        return Brief("unreadable", "", error.message)


def keep(store: Store, run: Mapping[str, Any]) -> Brief:
    """The answer of a run of the results model. It is kept if the store can be written."""
    from rtgauge.report.document.answer import OBSERVED, answer_of

    answer = answer_of(run)
    state = run["state"]
    brief = Brief(
        state if state in _OWN else str(answer.state),
        answer.title,
        "".join(span.text for span in answer.worst).removeprefix(OBSERVED),
        next((action.command for action in answer.actions if action.command), ""),
        answer.measured,
    )
    path = kept_path(store, ANSWERS, run["id"])
    depends = key(store, run["id"], _made())
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        new = path.with_name(f".{path.name}")
        new.write_text(json.dumps({"key": depends, **asdict(brief)}), "utf-8")
        new.replace(path)
    return brief


def forget(store: Store, run: str) -> None:
    """Remove what is kept of a run, and what a killed process was about to keep."""
    for kind in (ANSWERS, FIGURES):
        path = kept_path(store, kind, run)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.with_name(f".{path.name}").unlink(missing_ok=True)


def kept_path(store: Store, kind: tuple[str, str], run: str) -> Path:
    """The file with what is kept of a run."""
    folder, suffix = kind
    return store.path.parent / folder / f"{run}{suffix}"


def key(store: Store, run: str, made: int) -> str:
    """What is kept depends on: the run's document, and this program, whose sources are of the time
    ``made`` (ns)."""
    try:
        status = (store.path / run / "run.json").stat()
    except OSError:
        return ""
    return f"{__version__} {made} {status.st_mtime_ns} {status.st_size}"


def _made() -> int:
    from rtgauge.report.document import answer

    folder = Path(str(answer.__file__)).parent
    return max(one.stat().st_mtime_ns for one in folder.glob("*.py"))
