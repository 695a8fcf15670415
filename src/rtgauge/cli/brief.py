# SPDX-License-Identifier: Apache-2.0
"""The answer of a run in a few words, for the list of runs and the state of things.

Making it takes a second, so it is kept next to the runs: ``answers/ID.json``, which may be deleted
at any time. It counts only for the run.json and the program that it was made with.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rtgauge import __version__
from rtgauge.errors import RtgaugeError

if TYPE_CHECKING:
    from rtgauge.store import RunRow, Store

__all__ = ["Brief", "brief_of", "forget", "keep"]

FOLDER: Final = "answers"
# States of a run that say more than its answer.
_OWN: Final = ("failed", "interrupted", "skipped", "running", "unreadable")


@dataclass(frozen=True)
class Brief:
    """``verdict``: the state of the answer, or of a run that is not complete. ``title`` and
    ``worst``: the answer's first two lines. ``command``: the first one that it proposes."""

    verdict: str
    title: str
    worst: str
    command: str = ""

    @property
    def failed(self) -> bool:
        """Whether the run failed, or shows that the system is not fit."""
        return self.verdict in ("failed", "not fit")


def brief_of(store: Store, row: RunRow) -> Brief:
    """The answer of a run of the list: the one that is kept, or a new one."""
    if row.state in ("running", "unreadable"):
        return Brief(row.state, "", row.headline)
    key = _key(store, row.id)
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(_path(store, row.id).read_text(encoding="utf-8"))
        if kept.pop("key") == key:
            return Brief(**{name: str(text) for name, text in kept.items()})
    from rtgauge.report import faults_as_errors  # noqa: PLC0415
    from rtgauge.report.results import model  # noqa: PLC0415

    try:
        with faults_as_errors("the answer"):
            return keep(store, model.build([store.get(row.id)])["runs"][0])
    except RtgaugeError as error:
        return Brief("unreadable", "", error.message)


def keep(store: Store, run: Mapping[str, Any]) -> Brief:
    """The answer of a run of the results model. It is kept if the store can be written."""
    from rtgauge.report.document.answer import OBSERVED, answer_of  # noqa: PLC0415

    answer = answer_of(run)
    state = run["state"]
    brief = Brief(
        state if state in _OWN else str(answer.state),
        answer.title,
        "".join(span.text for span in answer.worst).removeprefix(OBSERVED),
        next((action.command for action in answer.actions if action.command), ""),
    )
    path = _path(store, run["id"])
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        new = path.with_name(f".{path.name}")
        new.write_text(json.dumps({"key": _key(store, run["id"]), **asdict(brief)}), "utf-8")
        new.replace(path)
    return brief


def forget(store: Store, run: str) -> None:
    """Remove what is kept of a run."""
    with contextlib.suppress(OSError):
        _path(store, run).unlink(missing_ok=True)


def _path(store: Store, run: str) -> Path:
    return store.path.parent / FOLDER / f"{run}.json"


def _key(store: Store, run: str) -> str:
    """What an answer depends on: the run's document and this program."""
    from rtgauge.report.document import answer  # noqa: PLC0415

    try:
        status = (store.path / run / "run.json").stat()
        made = Path(str(answer.__file__)).stat()
    except OSError:
        return ""
    return f"{__version__} {made.st_mtime_ns} {status.st_mtime_ns} {status.st_size}"
