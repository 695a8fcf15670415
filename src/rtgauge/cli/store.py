# SPDX-License-Identifier: Apache-2.0
"""Commands on stored runs: ``runs``, ``show``, ``report``, ``delete``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtgauge.cli.help import command
from rtgauge.cli.options import (
    as_json,
    cover_of,
    cover_options,
    find_id,
    find_run,
    open_store,
    store_option,
)
from rtgauge.cli.output import format_seconds, print_json, print_results, print_table, say, width
from rtgauge.cli.selection import select
from rtgauge.errors import UsageError

if TYPE_CHECKING:
    from rtgauge.store import RunRow

__all__ = ["delete", "report", "runs", "show"]

ID_SHOWN = 13
TARGET_SHOWN = 12
LABEL_SHOWN = 10


@command()
@as_json
@store_option
def runs(as_json: bool, place: str | None) -> None:
    """List the runs in the store, newest first."""
    with open_store(place) as store:
        rows = store.runs()
    if as_json:
        keys = ("id", "label", "study", "target", "state", "started", "duration_s", "steps")
        entries = [
            {**{key: getattr(row, key) for key in keys}, "headline": row.headline} for row in rows
        ]
        print_json({"format": "rtgauge-runs", "version": 1, "runs": entries})
        return
    if not rows:
        say("there are no runs in the store yet")
        return
    labelled = any(row.label for row in rows)
    elsewhere = any(row.target != "local" for row in rows)
    table = []
    for row in rows:
        result = row.headline if row.state == "complete" else row.state
        if row.state != "complete" and row.headline:
            result += f": {row.headline}"
        cells = [row.id[:ID_SHOWN], str(row.started)[:16].replace("T", " "), _took(row)]
        cells += [_cut(row.target, TARGET_SHOWN, end=True)] if elsewhere else []
        cells += [_cut(row.label or "", LABEL_SHOWN)] if labelled else []
        table.append([*cells, result])
    head = ["RUN", "STARTED", "TOOK", *(["TARGET"] if elsewhere else [])]
    print_table([*head, *(["LABEL"] if labelled else []), "RESULT"], table, width())


def _took(row: RunRow) -> str:
    """How long a run took; one that is being carried out, how long it has been."""
    if row.state != "running":
        return format_seconds(row.duration_s or 0.0)
    try:
        began = datetime.fromisoformat(row.started)
        return format_seconds(max((datetime.now(UTC) - began).total_seconds(), 0.0))
    except (TypeError, ValueError):  # not a date, or one without a time zone
        return ""


def _cut(text: str, most: int, *, end: bool = False) -> str:
    """A text cut to ``most`` letters; with its ``end`` where that distinguishes it."""
    if len(text) <= most:
        return text
    return f"…{text[1 - most :]}" if end else f"{text[: most - 1]}…"


@command()
@click.argument("run")
@as_json
@store_option
def show(run: str, as_json: bool, place: str | None) -> None:
    """Show the results of a run.

    RUN is the beginning of its id, or 'last'.
    """
    from rtgauge.report.results import model  # noqa: PLC0415

    with open_store(place) as store:
        document = model.build([find_run(store, run)])
    if as_json:
        print_json(document)
    else:
        print_results(document)


@command()
@click.argument("run", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    multiple=True,
    metavar="FILE",
    help="File to write. The suffix selects the format: .html, .pdf, .json, .md, "
    ".xml (JUnit), .tap (KTAP). Repeatable.",
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

    RUN is the beginning of a run's id, 'last', a study, a label, or STUDY@TARGET. Several targets
    stand side by side in it.

    \b
    Examples:
      rtgauge report last -o report.html
      rtgauge report last -o report.pdf --paper letter
      rtgauge report last -o full.pdf --full
      rtgauge report last -o board.pdf --title "Gateway 7" --meta customer=ACME
      rtgauge report 0190c3a5-7b12 0190c3a6 -o results.json
    """
    from rtgauge.report import Source, format_of, write  # noqa: PLC0415

    for path in output:
        format_of(path)
    cover = cover_of(given)
    with open_store(place) as store:
        rows = store.runs()
        chosen = dict.fromkeys(row.id for name in run for row in select(rows, name).runs)
        found = [store.get(identity) for identity in chosen]
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
                raise UsageError("delete asks, but there is no terminal to ask on", "add --yes")
            noun = "run" if len(identities) == 1 else "runs"
            listed = ", ".join(identity[:ID_SHOWN] for identity in identities)
            click.confirm(f"Delete {noun} {listed}?", abort=True, err=True)
        for identity in identities:
            store.delete(identity)
    if as_json:
        print_json({"format": "rtgauge-deleted", "version": 1, "runs": identities})
    else:
        say(f"deleted: {', '.join(identities)}")
