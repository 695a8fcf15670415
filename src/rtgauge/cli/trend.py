# SPDX-License-Identifier: Apache-2.0
"""``rtgauge trend``: changes over the runs of a label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rtgauge.cli.help import command
from rtgauge.cli.options import as_json, named_store, open_store, store_option
from rtgauge.cli.output import print_json, print_trend, say, unread
from rtgauge.cli.selection import Selection, select_set
from rtgauge.errors import ExitCode, RtgaugeError, UsageError
from rtgauge.text import plural

if TYPE_CHECKING:
    from rtgauge.report.results.model import Analysis
    from rtgauge.store import RunRow, Store

__all__ = ["trend"]

SUFFIXES: Final = (".html", ".json", ".md")


@command()
@click.argument("labels", nargs=-1, required=True, metavar="LABEL...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="Report to write. The suffix selects the format: .html, .md, .json. Repeatable.",
)
@click.option(
    "--gate",
    is_flag=True,
    help="Exit with 3 if the runs since the last change are worse than those before, and with 77 "
    "if the primary figure cannot be judged, or the newest run lacks it.",
)
@as_json
@store_option
def trend(
    labels: tuple[str, ...],
    output: tuple[Path, ...],
    gate: bool,
    as_json: bool,
    place: str | None,
) -> int:
    """Find when the runs of a label became worse or better, and what changed.

    Examines all runs of each LABEL in the order of time, separately for each target. LABEL@TARGET
    takes only the runs on that target. A trend needs 20 runs that were measured in the same way.
    The tail percentile, the median and the maximum are searched for changes of level.

    \b
    Examples:
      rtgauge trend nightly
      rtgauge trend nightly --gate -o trend.html
      rtgauge trend nightly@lab:x86_64-rt --json
    """
    from rtgauge.report import write_trend
    from rtgauge.report.sets.trend import Trended
    from rtgauge.report.sets.trend import trend as search
    from rtgauge.stats.changes import MOST

    for path in output:
        if path.suffix.lower() not in SUFFIXES:
            raise UsageError(
                f"'{path.name}' does not have the suffix of a trend's format",
                f"use one of {', '.join(SUFFIXES)}",
            )
    with open_store(place) as store:
        rows = store.runs()
        chosen = _by_target([select_set(rows, word) for word in labels])
        older = [f"{plural(len(some) - MOST, 'older run')} of {name}" for name, some in chosen
                 if len(some) > MOST]  # fmt: skip
        chosen = [(name, some[-MOST:]) for name, some in chosen]
        wanted = list(dict.fromkeys(row for _, some in chosen for row in some))
        analysis, read, left_out = _analysed(store, wanted)
        left_out += [
            {"run": some, "reason": f"a trend contains only the newest {MOST} runs",
             "remedy": "compare them with `rtgauge compare`"}
            for some in older
        ]  # fmt: skip
        at = {row.id: number for number, row in enumerate(read)}
        sets = [
            Trended(
                name,
                tuple(at[row.id] for row in some if row.id in at),
                tuple(row.number for row in some if row.id in at),
            )
            for name, some in chosen
        ]
        document = search(analysis, sets, left_out)
    with unread():
        if as_json:
            print_json(document)
        else:
            print_trend(document)
    for path in output:
        write_trend(document, path)
        say(f"the report is in {path}")
    newest = [some[-1].id for _, some in chosen]
    return _gate(document, newest) if gate else ExitCode.DONE


def _by_target(chosen: Sequence[Selection]) -> list[tuple[str, list[RunRow]]]:
    """The runs of each word, divided by target and in the order of time, with their
    names."""
    return [
        (
            one.word if len(one.targets) == 1 or "@" in one.word else f"{one.word}@{target}",
            sorted(
                (row for row in one.runs if row.target == target),
                key=lambda row: (row.started, row.id),
            ),
        )
        for one in chosen
        for target in one.targets
    ]


def _analysed(
    store: Store, rows: Sequence[RunRow]
) -> tuple[Analysis, list[RunRow], list[dict[str, str]]]:
    """What the runs say, those that could be read, and why others could not. Each is read by
    itself, so that one that is damaged does not hide the others."""
    from rtgauge.cli.figures import figures_of
    from rtgauge.report.results.again import remedy_with_store, with_store
    from rtgauge.report.results.kept import joined

    parts, read, left_out = [], [], []
    for row in rows:
        name = f"#{row.number}" if row.number else row.id[:13]
        try:
            found = figures_of(store, row.id)
        except RtgaugeError as error:
            remedy = remedy_with_store(error.remedy, named_store())
            left_out.append({"run": f"run {name}", "reason": error.message, "remedy": remedy})
            continue
        if found.model["runs"][0]["state"] == "failed":
            command = with_store(f"rtgauge show {name.lstrip('#')}", named_store())
            reason, remedy = "it failed", f"see why with `{command}`"
            left_out.append({"run": f"run {name}", "reason": reason, "remedy": remedy})
            continue
        parts.append(found)
        read.append(row)
    return joined(parts), read, left_out


def _gate(document: Mapping[str, Any], newest: Sequence[str] = ()) -> ExitCode:
    """What a gate ends with, said in a line on stderr. ``newest``: the id of the newest run of each
    set, whether it could be read or not."""
    from rtgauge.report.document.trended import conclusion, worse

    say(f"gate: {conclusion(document)}")
    if worse(document):
        return ExitCode.OVER_BUDGET
    primary = {one["set"]: one for one in document["series"] if one["primary"]}
    unjudged = False
    for number, one in enumerate(document["sets"]):
        found = primary.get(number)
        if found is None or found["verdict"] == "refused":
            say(f"gate: the primary figure of {one['name']} is not judged")
            unjudged = True
        elif number < len(newest) and found["values"][-1]["run"] != newest[number]:
            say(f"gate: the newest run of {one['name']} has no primary figure")
            unjudged = True
    return ExitCode.SKIPPED if unjudged else ExitCode.DONE
