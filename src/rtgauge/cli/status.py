# SPDX-License-Identifier: Apache-2.0
"""``rtgauge`` without a command: the last run and its answer, the store, whether this machine is
ready, and the next command."""

from __future__ import annotations

import contextlib
import shlex
from typing import TYPE_CHECKING, Final

from rtgauge import __version__
from rtgauge.cli.brief import Brief, brief_of
from rtgauge.cli.options import open_store
from rtgauge.cli.output import encodable_lines, show, width
from rtgauge.errors import RtgaugeError
from rtgauge.text import plural

if TYPE_CHECKING:
    from rtgauge.store import RunRow

__all__ = ["status"]

_TONES: Final[dict[str, str | None]] = {
    "fit": "green",
    "tests passed": "green",
    "no budget": None,
    "not fit": "red",
    "too late": "red",
    "failed": "red",
}


def status(place: str | None = None) -> None:
    """Print what ``rtgauge`` without a command shows. ``place``: the store, if it is not the usual
    one."""
    show(f"rtgauge {__version__}: evaluates the real-time behaviour of Linux systems", bold=True)
    rows: list[RunRow] = []
    brief = None
    try:
        with open_store(place) as store:
            rows = store.runs()
            brief = brief_of(store, rows[0]) if rows else None
            folder = store.path.parent
        if rows and brief:
            _last(rows[0], brief)
        _field("Store", f"{plural(len(rows), 'run')} in {folder}")
    except RtgaugeError as error:
        _field("Store", error.message)
    _field("Machine", _machine())
    show("")
    show("Next:")
    for text in _next(rows, brief, place):
        show(f"  {text}")


def _last(row: RunRow, brief: Brief) -> None:
    when = row.started[:16].replace("T", " ")
    label = f" ({row.label})" if row.label else ""
    where = f" on {row.target}{label}, {when} UTC" if row.target else ""  # unknown if unreadable
    _field("Last run", f"#{row.number}{where}: {brief.verdict}")
    color = _TONES.get(brief.verdict, "yellow")
    title = brief.title or brief.worst or row.headline
    if title:
        for line in encodable_lines(title, 10):
            show(line, fg=color)
    if brief.title and brief.worst:
        for line in encodable_lines(f"observed maximum {brief.worst}", 10):
            show(line)


def _field(name: str, text: str) -> None:
    first, *more = encodable_lines(text, 10)
    show(f"{name:9} {first.strip()}")
    for line in more:
        show(line)


def _machine() -> str:
    """What the audit says of this machine, in a line."""
    from rtgauge.audit import audit, realtime_model
    from rtgauge.engine.environment import read_facts
    from rtgauge.report.results.labels import realtime_text
    from rtgauge.target import open_target

    try:
        with contextlib.closing(open_target("local")) as target:
            _, facts, _ = read_facts(target.environment())
        findings = audit(facts)
    except RtgaugeError as error:
        return f"not known ({error.message})"
    levels = [finding.level for finding in findings]
    counts = [plural(levels.count(one), one) for one in ("error", "warning") if one in levels]
    kernel = realtime_text({"realtime": realtime_model(facts)})
    ready = "ready" if not counts else f"{' and '.join(counts)} (rtgauge check)"
    return f"{kernel}; {ready}" if kernel else ready


def _next(rows: list[RunRow], brief: Brief | None, place: str | None) -> list[str]:
    """The commands that help most now, with the store at ``place``."""
    of = f" --store {shlex.quote(place)}" if place else ""
    if brief is None:
        found = {
            "rtgauge check": "find obstacles to real-time behaviour",
            f"rtgauge evaluate{of}": "measure everything, and write the report",
        }
    elif rows[0].state == "running":
        found = {f"rtgauge runs{of}": "its progress"}
    else:
        found = {
            f"rtgauge show{of}": "the results of the last run",
            f"rtgauge report{of}": "its report",
        }
        if brief.command:
            from rtgauge.report.results.again import with_store

            command = with_store(brief.command, place or "")
            found = {command: "recommended by the last run", **found}
    found["rtgauge --help"] = "all commands"
    longest = width() - 6 - max(map(len, found.values()))
    room = max((len(text) for text in found if len(text) <= longest), default=0)
    return [text if len(text) > room else f"{text:{room}}  # {why}" for text, why in found.items()]
