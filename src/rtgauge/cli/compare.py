# SPDX-License-Identifier: Apache-2.0
"""``rtgauge compare``: sets of runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtgauge.cli.help import command
from rtgauge.cli.options import as_json, open_store, store_option
from rtgauge.cli.output import print_comparison, print_json, say
from rtgauge.cli.selection import Selection, select, study_of_last
from rtgauge.errors import UsageError

if TYPE_CHECKING:
    from rtgauge.report.sets.compare import RunSet
    from rtgauge.store import RunRow

__all__ = ["compare"]


@command()
@click.argument("sets", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="Report to write, with its section 'side by side'. The suffix selects the format: .html, "
    ".pdf, .md, .json (the comparison alone). Repeatable.",
)
@as_json
@store_option
def compare(
    sets: tuple[str, ...],
    output: tuple[Path, ...],
    as_json: bool,
    place: str | None,
) -> None:
    """Put sets of runs side by side: kernels, contexts and loads in one table.

    Each of SETS is a run, a label, a study, or STUDY@TARGET. A study (or label) of several targets
    is a set for each of them, so that one alone will do; 'last' alone is the study of the last run.
    Ratios are to the first set. What was not measured alike is named, but not compared.

    \b
    Examples:
      rtgauge compare last
      rtgauge compare before after
      rtgauge compare 0190c3a5@lab:x86_64-rt 0190c3a5@local -o both.html
    """
    from rtgauge.report import Source, format_of, write  # noqa: PLC0415

    for path in output:
        if format_of(path) not in (".html", ".pdf", ".md", ".json"):
            raise UsageError(
                f"a comparison is not written as '{path.suffix}'",
                "known are: .html, .json, .md, .pdf",
            )
    with open_store(place) as store:
        rows = store.runs()
        whole = study_of_last(store) if list(sets) == ["last"] else None
        chosen = [select(rows, word) for word in sets] if whole is None else [whole]
        runs, found = arrange(chosen, lambda row: store.get(row.id).document.get("plan") or {})
        source = Source([store.get(row.id) for row in runs], sets=found)
        if output:
            _ = source.analysis  # the one pass over the samples that all of them are made from
        document = source.compared().document
        if as_json:
            print_json(document)
        else:
            print_comparison(document)
        for path in output:
            write(source, path)
            say(f"the report is in {path}")


def arrange(
    chosen: Sequence[Selection], plan_of: Callable[[RunRow], Mapping[str, Any]]
) -> tuple[list[RunRow], list[RunSet]]:
    """All runs, each once, and the sets that they make; those of a study in the order of its plan.
    Raises UsageError if a run would be compared with itself."""
    from rtgauge.report.sets.compare import RunSet, in_order  # noqa: PLC0415

    runs: list[RunRow] = []
    found: list[RunSet] = []
    for one in chosen:
        split: list[str | None] = [None]
        if one.whole and len(one.targets) > 1:
            split = [*in_order(one.targets, plan_of(one.runs[0]))]
        for target in split:
            mine = [row for row in one.runs if target is None or row.target == target]
            again = [row for row in mine if row in runs]
            if again:
                raise UsageError(
                    f"run {again[0].id[:13]} is in two of the sets",
                    "a run is not compared with itself: name other sets",
                )
            places = tuple(range(len(runs), len(runs) + len(mine)))
            runs += mine
            found.append(RunSet(_name(one, target, len(chosen) > 1), places))
    return runs, found


def _name(one: Selection, target: str | None, several: bool) -> str:
    """What a set is called: of one study its target; else as it was named."""
    if target is not None:
        return f"{target} ({one.word})" if several else target
    row = one.runs[0]
    if len(one.runs) == 1 and row.id.startswith(one.word.lower()):
        return f"{row.label or row.target} ({row.id[:18]})"
    if one.word == "last":
        return f"{row.label or row.target} (last)"
    return one.word
