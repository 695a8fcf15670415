# SPDX-License-Identifier: Apache-2.0
"""What a comparison shows, whatever its format: its tables, their rows, and what it leaves out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.sets.compare import FIGURES, method_text, row_name, where
from rtgauge.report.sets.decide import WITHIN

__all__ = [
    "blocks",
    "decided",
    "decision_text",
    "figures_of",
    "left_out",
    "marks",
    "methods",
    "ratio",
    "rows",
]

Document = Mapping[str, Any]

_HEADS: Final = {"min": "min", "50": "median", "max": "max"}


def figures_of(quantity: Document) -> list[tuple[str, str]]:
    """The columns of figures that a quantity has, each with its head: none for the tail where no
    percentile stands for it."""
    tail = quantity["tail"]
    heads = _HEADS if tail is None else {**_HEADS, "tail": f"{tail}{numbers.GAP}%"}
    return [(name, heads[name]) for name in FIGURES if name in heads]


def ratio(value: float | None) -> str:
    """A multiple with two or three digits that mean something: ``×4.7``."""
    if value is None:
        return "–"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"×{value:.{digits}f}"


def blocks(document: Document) -> list[tuple[str, list[Document]]]:
    """The quantities that share a table, those of one name, load and tail, each with its title.
    Those under load precede the idle ones."""
    ordered = sorted(document["quantities"], key=lambda one: one["load"]["name"] == "idle")
    groups = itertools.groupby(ordered, key=lambda one: (where(one), one["tail"]))
    return [(title, list(members)) for (title, _), members in groups]


def rows(document: Document, quantity: Document) -> Iterator[tuple[list[str], bool]]:
    """The rows of a quantity as cells, and whether it is one of ratios."""
    unit = quantity["unit"]
    names = [name for name, _ in figures_of(quantity)]
    columns = [_in_line([row["figures"][name] for row in quantity["rows"]], unit) for name in names]
    for at, row in enumerate(quantity["rows"]):
        letter = document["sets"][row["set"]]["letter"]
        cells = [letter, numbers.count(row["count"])]
        cells += [column[at] for column in columns]
        cells += [numbers.count(row["missed"]), numbers.count(row["lost"])]
        yield cells, False
        if row["ratio"] is not None:
            first = document["sets"][0]["letter"]
            shares = [ratio(row["ratio"][name]) for name in names]
            yield [f"{letter}/{first}", "", *shares, "", ""], True


def _in_line(values: Sequence[float | None], unit: str) -> list[str]:
    """Figures of one column with their decimal points in line."""
    figures = [numbers.shown(value, unit) for value in values]
    most = max((len(one.decimals) for one in figures), default=0)
    return [
        one.text + " " * (most - len(one.decimals) + (1 if most and not one.decimals else 0))
        for one in figures
    ]


def marks(document: Document, quantity: Document) -> list[str]:
    """What limits the figures of a quantity, a line for each set."""
    return [
        f"{document['sets'][row['set']]['letter']}: {'; '.join(row['marks'])}"
        for row in quantity["rows"]
        if row["marks"]
    ]


def decision_text(document: Document, one: Document) -> str:
    """A verdict of the comparison in one line, with its figures."""
    quantity = document["quantities"][one["quantity"]]
    first, second = document["sets"][0]["letter"], document["sets"][one["set"]]["letter"]
    share = {"50": "median", "max": "max", "tail": f"{quantity['tail']}{numbers.GAP}%"}
    what = f"{where(quantity)}, {row_name(quantity)}, {share[one['statistic']]}"
    blocks = one["runs"][0]
    unit = "block" if one["matched"] else "run"
    evidence = numbers.plural(blocks, unit)
    if not one["matched"]:
        evidence = f"{one['runs'][0]} and {numbers.plural(one['runs'][1], unit)}"
    said = {
        "better": f"{second} is better",
        "worse": f"{second} is worse",
        "equivalent": f"equivalent within {numbers.percent(WITHIN)}",
        "not decided": "not decided",
        "not enough runs": "not enough runs",
    }[one["verdict"]]
    if one["needed"]:
        whose = "blocks" if one["matched"] else "runs of each"
        said += f" (about {one['needed']} {whose} are needed)"
    if one["interval"] is None:
        return f"{what}: {evidence}: {said}"
    low, high = (ratio(value) for value in one["interval"])
    shown = f"{second}/{first} {ratio(one['ratio'])} [{low}, {high}]"
    return f"{what}: {shown}, p {one['p_adjusted']:.2g}, {evidence}: {said}"


def decided(document: Document) -> list[str]:
    """The verdicts in lines, the primary one first; a single line where no set has enough runs."""
    found = document["comparisons"]
    if not found:
        return []
    if all(one["interval"] is None for one in found):
        return [decision_text(document, found[0])]
    return [decision_text(document, one) for one in found if one["interval"] is not None]


def left_out(document: Document) -> list[str]:
    """The quantities that are not compared, with the reason, a sentence for each."""
    letters = [one["letter"] for one in document["sets"]]
    reasons: dict[str, list[str]] = {}
    for one in document["apart"]:
        whose = " and ".join(letters[at] for at in one["sets"])
        reason = f"measured in different ways in {whose}: {one['reason']}"
        reasons.setdefault(reason, []).append(_what(one))
    for one in document["absent"]:
        whose = numbers.join([letters[at] for at in one["sets"]])
        reason = f"not in {whose}: {one['reason']}"
        reasons.setdefault(reason, []).append(_what(one))
    said = []
    for reason, what in reasons.items():
        shown = what[:3] + ([f"{len(what) - 3} more"] if len(what) > 3 else [])
        said.append(f"{'; '.join(shown)}: {reason}")
    return said


def methods(members: Sequence[Document]) -> list[str]:
    """How the quantities of a table were measured; once what is true of several."""
    whose: dict[str, list[str]] = {}
    for one in members:
        whose.setdefault(method_text(one), []).append(row_name(one))
    if len(whose) == 1:
        return list(filter(None, whose))
    return [f"{'; '.join(names)}: {text}" for text, names in whose.items() if text]


def _what(one: Document) -> str:
    context = f", {one['context']} context" if one["context"] else ""
    return f"{where(one)}{context}"
