# SPDX-License-Identifier: Apache-2.0
"""``rtgauge compare``: sets of runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rtgauge.cli.help import command
from rtgauge.cli.options import as_json, named_store, open_store, store_option
from rtgauge.cli.output import print_comparison, print_json, say, unread
from rtgauge.cli.selection import Selection, select_set, study_of_last
from rtgauge.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rtgauge.report.sets.compare import RunSet
    from rtgauge.store import RunRow

__all__ = ["compare"]

MARGIN_MAX: Final = 10.0


@command()
@click.argument("sets", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="Report to write. The suffix selects the format: .html, .pdf and .md are whole reports. "
    "Files .json, .xml (JUnit) and .tap (KTAP) contain the comparison alone. Repeatable.",
)
@click.option(
    "--primary",
    metavar="QUANTITY",
    default="",
    help="Primary quantity, in words such as 'timer irq max'. It is judged by itself, at 5 %. The "
    "default is the tail percentile of the outermost context under load.",
)
@click.option(
    "--within",
    metavar="PERCENT",
    default="10%",
    show_default=True,
    help="Margin up to which ratios count as equivalent.",
)
@click.option(
    "--gate",
    is_flag=True,
    help="Exit with 3 if a set is proven to be worse by more than the margin, and with 77 if the "
    "runs cannot prove anything about the primary quantity.",
)
@as_json
@store_option
def compare(
    sets: tuple[str, ...],
    output: tuple[Path, ...],
    primary: str,
    within: str,
    gate: bool,
    as_json: bool,
    place: str | None,
) -> int:
    """Put sets of runs side by side: kernels, contexts and loads in one table.

    Each of SETS is a run, a label, a study, or STUDY@TARGET. A list A,B,C of these is one set. A
    study or label with several targets gives one set for each target, so one word is enough. 'last'
    is the study of the last run. Ratios are relative to the first set. Quantities that were
    measured in different ways are listed, but not compared.

    \b
    Examples:
      rtgauge compare last
      rtgauge compare before after
      rtgauge compare 0190c3a5@lab:x86_64-rt 0190c3a5@local -o both.html
      rtgauge compare 1,2,3,4 5,6,7,8 --within 5% --gate -o gate.xml
    """
    from rtgauge.report import Source, faults_as_errors, format_of, write
    from rtgauge.report.sets.compare import Claims

    for path in output:
        format_of(path)
    claims = Claims(_margin(within), primary)
    with open_store(place) as store, faults_as_errors("the comparison"):
        rows = store.runs()
        whole = study_of_last(store) if list(sets) == ["last"] else None
        chosen = [select_set(rows, word) for word in sets] if whole is None else [whole]
        runs, found = arrange(chosen, lambda row: store.get(row.id).document.get("plan") or {})
        source = Source([store.get(row.id) for row in runs], sets=found, claims=claims)
        if output or not as_json:
            _ = source.analysis  # the one pass over the samples that all of them are made from
        document = source.compared().document
        with unread():
            if as_json:
                print_json(document)
            else:
                print_comparison(document, source.model["runs"], named_store())
        for path in output:
            write(source, path)
            say(f"the report is in {path}")
    return _gate(document, primary) if gate else ExitCode.DONE


def _margin(text: str) -> float:
    """A margin such as ``10%`` as a share. Raises UsageError."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0 < share <= MARGIN_MAX:
        raise UsageError(
            f"--within: '{text}' is not a margin above 0 and up to 1000 %", "write 10%, or 2.5%"
        )
    return share


def _gate(document: Mapping[str, Any], words: str = "") -> ExitCode:
    """What a gate ends with, said in a line on stderr. ``words``: the name of the primary quantity,
    empty for the default."""
    from rtgauge.report.document.compared import decision_text, is_judged, is_worse

    found = document["comparisons"]
    if not found:
        say(
            "gate: nothing to compare: no quantity of the first set "
            "was measured in the same way in another set"
        )
        return ExitCode.SKIPPED
    worse = [one for one in found if is_worse(one)]
    for one in worse:
        say(f"gate: {decision_text(document, one)}")
    if worse:
        return ExitCode.OVER_BUDGET
    if all(one["verdict"] == "not enough runs" for one in found):
        say("gate: too few runs to prove anything")
        return ExitCode.SKIPPED
    primary = [one for one in found if one["primary"]]
    unproven = [one for one in primary if not is_judged(one) or _unknown(document, one)]
    for one in unproven:
        say(f"gate: nothing is proven: {decision_text(document, one)}")
    lacking = _lacking(document, words, primary[0] if primary else None)
    for text in lacking:
        say(f"gate: nothing is proven: {text}. Choose another quantity with --primary")
    if unproven or lacking:
        return ExitCode.SKIPPED
    say("gate: no set is proven to be worse by more than the margin")
    return ExitCode.DONE


def _unknown(document: Mapping[str, Any], one: Mapping[str, Any]) -> bool:
    """Whether the figure of a comparison is unknown in one of its runs."""
    from rtgauge.report.sets.decide import unknown

    rows = document["quantities"][one["quantity"]]["rows"]
    return unknown(one["statistic"], *(row for row in rows if row["set"] in (0, one["set"]))) > 0


def _lacking(document: Mapping[str, Any], words: str, one: Mapping[str, Any] | None) -> list[str]:
    """The primary quantity, if a set lacks it, and those that would be primary if each set had
    them. ``one``: a comparison of the primary quantity, None without any."""
    from rtgauge.report.sets.decide import decisive, named, outranked

    quantities = document["quantities"]
    if one is not None:
        place = one["quantity"]
    else:
        place = named(quantities, words)[0] if words else decisive(quantities)
    quantity = quantities[place]
    there = {row["set"] for row in quantity["rows"]}
    without = [number for number in range(len(document["sets"])) if number not in there]
    lacked = {**quantity, "sets": without, "reason": "not measured in this way there"}
    found = [
        *([lacked] if without else []),
        *([] if words else outranked(quantity, document["absent"])),
    ]
    return [
        f"{each['measurement']}: {each['name']}, load {each['load']['name']}, is not in "
        + ", ".join(document["sets"][number]["letter"] for number in each["sets"])
        + f" ({each['reason']})"
        for each in found
    ]


def arrange(
    chosen: Sequence[Selection], plan_of: Callable[[RunRow], Mapping[str, Any]]
) -> tuple[list[RunRow], list[RunSet]]:
    """All runs, each once, and the sets that they make; those of a study in the order of its plan.
    Raises UsageError if a run would be compared with itself."""
    from rtgauge.report.sets.compare import RunSet, in_order

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
