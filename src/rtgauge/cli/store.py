# SPDX-License-Identifier: Apache-2.0
"""Commands on stored runs: ``runs``, ``show``, ``report``, ``delete``."""

from __future__ import annotations

import functools
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtgauge.cli.brief import Brief, brief_of, forget
from rtgauge.cli.carry_out import unused_names
from rtgauge.cli.help import command
from rtgauge.cli.options import (
    as_json,
    cover_of,
    cover_options,
    find_id,
    named_store,
    open_store,
    store_option,
)
from rtgauge.cli.output import (
    format_seconds,
    passing,
    print_json,
    print_results,
    print_table,
    say,
    width,
)
from rtgauge.cli.selection import select
from rtgauge.cli.values import WholeNumber
from rtgauge.errors import UsageError
from rtgauge.text import GAP
from rtgauge.units import parse_duration

if TYPE_CHECKING:
    from rtgauge.store import RunRow, Store, StoredRun

__all__ = ["delete", "report", "runs", "show"]

ID_SHOWN = 13
TARGET_SHOWN = 10, 16  # letters: at least, and at most where there is room
LABEL_SHOWN = 6, 12
LIMIT = 20
MESSAGE = 10  # letters of a message that are shown in any case
WIDE = 100  # columns from which the list shows how long runs took
STATES = ("complete", "failed", "interrupted", "skipped", "running", "unreadable")
_COLORS = {
    "fit": "green",
    "tests passed": "green",
    "not fit": "red",
    "too late": "red",
    "failed": "red",
    "unreadable": "red",
    "not proven": "yellow",
    "not measured properly": "yellow",
    "interrupted": "yellow",
}


@command()
@click.option("--target", metavar="T", help="Only runs on this target.")
@click.option("--label", metavar="TEXT", help="Only runs whose label contains this.")
@click.option("--state", type=click.Choice(STATES), help="Only runs in this state.")
@click.option(
    "--since",
    metavar="WHEN",
    help="Only runs since a date in UTC (2026-11-20), or within a time before now (12h, 7d).",
)
@click.option(
    "--failed", is_flag=True, help="Only runs that failed, or whose system is not fit or too late."
)
@click.option(
    "-n",
    "--limit",
    type=WholeNumber(0),
    metavar="N",
    help=f"Number of runs to list; 0: all (default {LIMIT}, with --json all).",
)
@as_json
@store_option
def runs(
    *,
    target: str | None,
    label: str | None,
    state: str | None,
    since: str | None,
    failed: bool,
    limit: int | None,
    as_json: bool,
    place: str | None,
) -> None:
    """List the runs in the store, newest first.

    Commands accept a run's number: rtgauge show 12. VERDICT is the state of the answer, or of
    the run if it did not complete. WORST is the highest latency of a periodic task.

    \b
    Examples:
      rtgauge runs --failed --since 7d
      rtgauge runs --target lab:x86_64-rt -n 5
    """
    began = _since(since) if since else ""
    from rtgauge.report.results.again import with_store

    with open_store(place) as store:
        every = store.runs()
        rows = [
            row
            for row in every
            if (target is None or row.target == target)
            and (label is None or label in row.label)
            and (state is None or row.state == state)
            and row.started >= began
        ]
        most = (0 if as_json else LIMIT) if limit is None else limit
        listed = rows[: most or None]
        briefs: list[Brief] = []
        if failed or not as_json:
            tell = _nothing if as_json else passing
            listed, briefs = _answers(store, rows, most or len(rows), failed, tell)
        if as_json:
            _print_json(listed)
            return
        if not listed:
            none = "no run in the store matches these options" if every else ""
            say(none or "there are no runs in the store yet")
            return
        _print_runs(listed, briefs)
        if not failed and len(listed) < len(rows):
            options = {"--target": target, "--label": label, "--state": state, "--since": since}
            words = [word for option, value in options.items() if value is not None
                     for word in (option, value)]  # fmt: skip
            command = shlex.join(["rtgauge", "runs", "--limit", "0", *words])
            more = len(rows) - len(listed)
            what = "1 earlier run is" if more == 1 else f"{more} earlier runs are"
            say(f"{what} not listed: {with_store(command, named_store())}")


def _nothing(_text: str) -> None:
    pass


def _answers(
    store: Store, rows: Sequence[RunRow], most: int, failed: bool, tell: Callable[[str], None]
) -> tuple[list[RunRow], list[Brief]]:
    """The first ``most`` rows, or those that ``failed``, with their answers. ``tell`` shows the
    progress, because an answer that is not kept takes seconds."""
    listed: list[RunRow] = []
    briefs: list[Brief] = []
    total = len(rows) if failed else min(most, len(rows))
    try:
        for number, row in enumerate(rows, 1):
            if len(listed) == most:
                break
            words = f"reading run {number} of {total} …"
            one = brief_of(store, row, functools.partial(tell, words))
            if one.failed or not failed:
                listed.append(row)
                briefs.append(one)
    finally:
        tell("")
    return listed, briefs


def _since(text: str) -> str:
    """The earliest start of a run, as run.json writes it. Raises UsageError."""
    try:
        day = datetime.fromisoformat(text)
        began = day if day.tzinfo else day.replace(tzinfo=UTC)  # as the list shows it
    except ValueError:
        try:
            began = datetime.now(UTC) - timedelta(microseconds=parse_duration(text) // 1000)
        except (ValueError, OverflowError):
            raise UsageError(
                f"--since: '{text}' is neither a day nor a time",
                "give a day such as 2026-11-20, or a time such as 12h or 7d",
            ) from None
    return began.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _print_json(rows: Sequence[RunRow]) -> None:
    keys = ("id", "number", "label", "study", "target", "state", "started", "duration_s", "steps")
    entries = [
        {**{key: getattr(row, key) for key in keys}, "headline": row.headline} for row in rows
    ]
    print_json({"format": "rtgauge-runs", "version": 1, "runs": entries})


def _print_runs(rows: Sequence[RunRow], briefs: Sequence[Brief]) -> None:
    labelled = any(row.label for row in rows)
    elsewhere = any(row.target != "local" for row in rows)
    wide = width() >= WIDE
    worst = [_worst(row, brief, wide) for row, brief in zip(rows, briefs, strict=True)]
    # what is in brackets is left out where it does not fit
    figures = [text if wide else text.partition(" (")[0] for text, message in worst if not message]
    figure = max((len(word) for text in figures for word in text.split(" ")), default=0)

    def lines(target: int, label: int) -> tuple[list[list[str]], int]:
        """The columns before the last one, and the room for that."""
        head = ["RUN", "STARTED (UTC)", *(["TOOK"] if wide else [])]
        head += [*(["TARGET"] if elsewhere else []), *(["LABEL"] if labelled else []), "VERDICT"]
        table = [head]
        for row, brief in zip(rows, briefs, strict=True):
            cells = [f"#{row.number}", str(row.started)[:16].replace("T", " ")]
            cells += [_took(row)] if wide else []
            cells += [_cut_target(row.target, target)] if elsewhere else []
            cells += [_cut(row.label or "", label)] if labelled else []
            table.append([*cells, brief.verdict])
        widths = (max(map(len, column)) for column in zip(*table, strict=True))
        return table, width() - sum(widths) - 2 * len(head)

    table, room = lines(TARGET_SHOWN[1], LABEL_SHOWN[1])
    if room < figure:
        label = max(LABEL_SHOWN[0], LABEL_SHOWN[1] - (figure - room))
        table, room = lines(TARGET_SHOWN[1], label)
    if room < figure:
        target = max(TARGET_SHOWN[0], TARGET_SHOWN[1] - (figure - room))
        table, room = lines(target, label)
    last = [
        _cut(text, max(room, MESSAGE)) if message
        else text if wide or len(text) <= room
        else text.partition(" (")[0]
        for text, message in worst
    ]  # fmt: skip
    full = [[*cells, text] for cells, text in zip(table[1:], last, strict=True)]
    print_table([*table[0], "WORST"], full, width(), _COLORS)


def _worst(row: RunRow, brief: Brief, wide: bool) -> tuple[str, bool]:
    """The last cell of a run, with figures in one piece, and whether it is a message."""
    if row.state == "running":
        return (f"for {_took(row)}" if _took(row) else ""), False
    if row.state in ("failed", "skipped") or brief.verdict == "unreadable":
        return " ".join((row.headline or brief.worst).split()), True
    text = brief.worst or re.sub(r"^(over [^:]*: )?max ", "", row.headline)
    if not wide and brief.measured:
        text = f"{text.partition(' (')[0]} ({brief.measured})"
    return text.replace(GAP, "\u00a0"), False


def _took(row: RunRow) -> str:
    """How long a run took; one that is being carried out, how long it has been."""
    if row.state != "running":
        return format_seconds(row.duration_s or 0.0)
    try:
        began = datetime.fromisoformat(row.started)
        return format_seconds(max((datetime.now(UTC) - began).total_seconds(), 0.0))
    except (TypeError, ValueError):  # not a date, or one without a time zone
        return ""


def _cut(text: str, most: int) -> str:
    """A text cut to ``most`` letters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _cut_target(text: str, most: int) -> str:
    """A target cut to ``most`` letters, with its kind and the end that distinguishes it."""
    if len(text) <= most:
        return text
    kind, colon, _ = text.partition(":")
    head = f"{kind}{colon}…"
    return f"{head}{text[len(head) - most :]}" if len(head) < most else _cut(text, most)


@command()
@click.argument("run", default="last")
@as_json
@store_option
def show(run: str, as_json: bool, place: str | None) -> None:
    """Show the results of a run.

    RUN is its number, the beginning of its id, or 'last' (default). For a study, a label, or
    STUDY@TARGET, it shows all runs, and what they prove together.
    """
    from rtgauge.report import faults_as_errors
    from rtgauge.report.results import model

    with open_store(place) as store, faults_as_errors("the summary"):
        document = model.build([store.get(row.id) for row in select(store.runs(), run).runs])
    if as_json:
        print_json(document)
    else:
        print_results(document, store=named_store())


@command()
@click.argument("run", nargs=-1)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="File to write. The suffix selects the format: .html, .pdf, .json, .md, "
    ".xml (JUnit), .tap (KTAP). Repeatable. Default: an unused name that ends in .html.",
)
@click.option(
    "--paper",
    type=click.Choice(["a4", "letter"]),
    default="a4",
    show_default=True,
    help="The size of the pages of a PDF.",
)
@click.option("--full", is_flag=True, help="Write the complete PDF, not the short one.")
@cover_options
@as_json
@store_option
def report(
    *,
    run: tuple[str, ...],
    output: tuple[Path, ...],
    paper: str,
    full: bool,
    as_json: bool,
    place: str | None,
    **given: Any,
) -> None:
    """Write the report of one or more runs to a file.

    RUN is a run's number, the beginning of its id, 'last' (default), a study, a label, or
    STUDY@TARGET. The report compares several targets side by side.

    \b
    Examples:
      rtgauge report
      rtgauge report last -o report.html
      rtgauge report last -o report.pdf --paper letter
      rtgauge report last -o full.pdf --full
      rtgauge report last -o board.pdf --title "Gateway 7" --meta customer=ACME
      rtgauge report 12 13 -o results.json
    """
    from rtgauge.report import Source, format_of, write

    for path in output:
        format_of(path)
    cover = cover_of(given)
    with open_store(place) as store:
        rows, names = store.runs(), run or ("last",)
        chosen = dict.fromkeys(row.id for name in names for row in select(rows, name).runs)
        found = [store.get(identity) for identity in chosen]
        if not output:
            first = next(row for row in rows if row.id == found[0].id)
            output = tuple(unused_names(_system(found[0]), first.started[:10], [".html"]))
        source = Source(found, paper, cover=cover, full=full)
        for path in output:
            write(source, path)
        identities = [one.id for one in found]
    if as_json:
        paths = [str(path) for path in output]
        head = {"format": "rtgauge-report", "version": 1}
        print_json({**head, "runs": identities, "path": paths[0], "paths": paths})
    else:
        for path in output:
            say(f"the report is in {path}")


def _system(run: StoredRun) -> str:
    """What a report is named after: the target, or the machine that was 'local'."""
    target = str(run.document.get("target"))
    host = (run.document.get("environment") or {}).get("host")
    return host if target == "local" and isinstance(host, str) and host else target


@command()
@click.argument("run", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@store_option
def delete(run: tuple[str, ...], yes: bool, as_json: bool, place: str | None) -> None:
    """Delete runs, with all their samples, from the store."""
    with open_store(place) as store:
        identities = list(dict.fromkeys(find_id(store, name) for name in run))
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError("delete asks first, but there is no terminal", "add --yes")
            noun = "run" if len(identities) == 1 else "runs"
            listed = ", ".join(identity[:ID_SHOWN] for identity in identities)
            click.confirm(f"Delete {noun} {listed}?", abort=True, err=True)
        for identity in identities:
            store.delete(identity)
            forget(store, identity)
    if as_json:
        print_json({"format": "rtgauge-deleted", "version": 1, "runs": identities})
    else:
        say(f"deleted: {', '.join(identities)}")
