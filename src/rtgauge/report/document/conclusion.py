# SPDX-License-Identifier: Apache-2.0
"""The conclusion of a comparison: one sentence, the loaded case first, its picture and its table.

The sentence describes what was seen, by the highest percentile that all systems have: a maximum is
one sample of one boot, so maxima are shown and not ranked (docs/reference/statistics.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.document.answer import (
    OBSERVED,
    action_blocks,
    answer_of,
    answer_section,
    board_text,
    whole_of,
)
from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Callout,
    Figure,
    Heading,
    Paragraph,
    Section,
    Span,
    Table,
    line,
    plain_line,
)
from rtgauge.report.document.compared import (
    advice,
    decided,
    decision_text,
    explained,
    figures_of,
    left_out,
    marks,
    rate_texts,
    ratio,
    shown_decisions,
    shown_ratios,
    told_apart,
    verdict_cells,
    verdict_text,
)
from rtgauge.report.document.contexts import contexts_blocks
from rtgauge.report.document.evidence import evidence_blocks
from rtgauge.report.document.next_steps import after_comparison
from rtgauge.report.document.sides import sides
from rtgauge.report.document.tables import Cell, Grid, Row, column, counter
from rtgauge.report.pictures.distribution import axes_text, distribution, merged, selected
from rtgauge.report.pictures.ratios import ROWS, Ratio, ratios
from rtgauge.report.results.labels import (
    TRACED,
    capital,
    target_name,
    unloaded_text,
    waits_for_answers,
)
from rtgauge.report.results.model import Analysis
from rtgauge.report.sets.compare import Compared, load_of, set_facts, unreached, where
from rtgauge.report.sets.decide import decisive as primary_of
from rtgauge.report.sets.decide import main_statistic, rank

__all__ = ["comparison_section", "conclusion", "decisive", "runs_section"]

Model = Mapping[str, Any]

TABLES: Final = 6
"""Maximum number of quantities with a table in a short report."""
RUNS: Final = 4
"""Maximum number of runs in a table on the first page: a longer table would displace the
pictures."""


def decisive(document: Model) -> int | None:
    """The place of the quantity that the conclusion is about; None if nothing is compared."""
    primary = [one["quantity"] for one in document["comparisons"] if one["primary"]]
    return primary[0] if primary else primary_of(document["quantities"])


def conclusion(document: Model) -> str:
    """The comparison in one sentence."""
    at = decisive(document)
    lost = unreached(document)
    if at is None and len(document["sets"]) - len(lost) < 2:
        targets = "target" if len(lost) == 1 else "targets"
        return (
            f"Nothing can be compared: the {targets} of {numbers.join(lost)} could not be reached"
        )
    if at is None:
        return "Nothing can be compared: no quantity was measured in the same way on two systems"
    quantity = document["quantities"][at]
    name = "tail" if quantity["tail"] is not None else "50"
    share = quantity["tail"] if name == "tail" else "50"
    rows = [row for row in quantity["rows"] if row["figures"][name] is not None]
    load = load_of(quantity)
    what = capital(unloaded_text(load) or f"under load {load['name'].partition(':')[0]}")
    what += f", {share}{numbers.GAP}% of the {quantity['measurement']}'s {quantity['name']} samples"
    answers = waits_for_answers(quantity["name"], quantity["unit"])
    if any(row["missed"] for row in rows) and not answers:
        what += " and missed periods"
    if quantity["context"] not in ("", "user"):
        what += f" in {quantity['context']} context"
    if len(rows) < 2:
        only = f"known only for {_name(document, rows[0])}" if rows else "not known for any system"
        return f"{what}: {only}"
    said = [
        f"{numbers.shown(row['figures'][name], quantity['unit']).full} on {_name(document, row)}"
        for row in rows
    ]
    values = [row["figures"][name] for row in rows]
    low, high = min(values), max(values)
    text = f"{what} stay within {numbers.join(said)}"
    if low <= 0:
        return text
    there = [row["set"] for row in rows]
    # the verdicts are about the first set and another one
    judged = [
        one
        for one in document["comparisons"]
        if one["primary"] and 0 in there and one["set"] in there
    ]
    proven = list(filter(None, (_proven(document, one) for one in judged)))
    pair = len(rows) == 2 and len(judged) == 1
    if pair and proven and not _shows(judged[0], rows):
        return capital(decision_text(document, judged[0]))
    if proven:  # a sentence about several pairs names none of them
        return f"{proven[0]}: {text[0].lower()}{text[1:]}" if pair else text
    alike = judged and all(one["verdict"] == "equivalent" for one in judged)
    if alike and high < (1 + document["within"]) * low:
        return f"{text}: about the same"
    undecided = pair and judged[0]["verdict"] in ("not decided", "not enough runs")
    return f"{text}: no difference is proven" if undecided else text


def _proven(document: Model, primary: Model) -> str:
    """What the runs prove of the quantity that the conclusion is about; empty if nothing."""
    if primary["verdict"] not in ("better", "worse"):
        return ""
    if primary["statistic"] != main_statistic(document["quantities"][primary["quantity"]]):
        return ""
    letter = document["sets"][primary["set"]]["letter"]
    return f"{letter} is {primary['verdict']}, 95{numbers.GAP}% sure"


def _shows(primary: Model, rows: Sequence[Model]) -> bool:
    """Whether the figures of all samples show what the runs prove. Where runs differ in length,
    they may not."""
    name = str(primary["statistic"])
    first, second = (row["figures"][name] for row in rows)
    return bool(second < first if primary["verdict"] == "better" else second > first)


def _name(document: Model, row: Model) -> str:
    """The letter of a set, and its name without the ids of its runs."""
    one = document["sets"][row["set"]]
    return f"{one['letter']} ({str(one['name']).partition(' (')[0]})"


def comparison_section(compared: Compared | str, analysis: Analysis) -> Section:
    """The first section of a report on several systems. ``compared``: a text says why they are not
    compared."""
    every = analysis.model["runs"]
    runs = [Table(_runs(every))] if len(every) <= RUNS else []  # each has a section of its own
    blocks: list[Block]
    if isinstance(compared, str):
        box = Callout("warn", "The systems are not compared", (Paragraph(line(compared)),))
        blocks = [box, *runs, *contexts_blocks(analysis.model), *evidence_blocks(analysis.model)]
        return Section("Comparison", "comparison", tuple(blocks))
    document = compared.document
    at = decisive(document)
    boards = dict.fromkeys(filter(None, map(board_text, every)))
    if at is not None and all(len(one["runs"]) == 1 for one in document["sets"]):
        runs = []  # the answer of each system is that of its run
    inside: list[Block] = [Paragraph(line(Span(text, "warn"))) for text in boards]
    blocks = []
    if at is not None:
        quantity = document["quantities"][at]
        inside += sides(document, quantity, every)
        for text in marks(document, quantity):
            inside.append(Paragraph(line(text)))
        blocks += filter(None, (ratios_figure(document), _figure(compared, at)))
        blocks += action_blocks(after_comparison(document, quantity, every))
    else:  # no table of a quantity names the sets
        sets = [f"{one['letter']}: {one['name']}; {set_facts(one)}" for one in document["sets"]]
        inside += [Paragraph(line(text)) for text in sets]
    blocks += contexts_blocks(analysis.model)
    if said := [*decided(document), *advice(document)]:
        blocks.append(Heading("Verdicts"))
        blocks.append(Bullets(tuple((line(text), ()) for text in said)))
        if terms := explained(document):
            blocks.append(Paragraph(line(Span(terms, "dim"))))
    blocks += [*_quantities(document), *_work(document), *runs]
    blocks += evidence_blocks(analysis.model)
    blocks.append(Paragraph(line(document["note"])))
    if out := left_out(document):
        items = tuple((line(capital(text)), ()) for text in out)
        blocks += [Heading("Not compared"), Bullets(items)]
    box = Callout("note", conclusion(document), tuple(inside))
    return Section("Comparison", "comparison", (box, *blocks))


def _figure(compared: Compared, at: int) -> Figure | None:
    document, quantity = compared.document, compared.document["quantities"][at]
    curves, left = selected(
        [
            merged(_name(document, row), [counts], [row["figures"]["max"]])
            for row, counts in zip(quantity["rows"], compared.tables[at], strict=True)
        ]
    )
    svg = distribution(curves, quantity["unit"], quantity["name"])
    if not svg:
        return None
    caption = f"{axes_text(curves)}. Compare where most samples are, and where whole tails "
    caption += f"separate. The last points are single samples.{left}"
    return Figure(svg, capital(where(quantity)), caption, f"{conclusion(document)}.")


def ratios_figure(document: Model) -> Figure | None:
    """The ratios with their intervals; None where no set has enough runs."""
    found = [one for one in shown_decisions(document) if one["interval"] is not None]
    rows = []
    for one in found:
        quantity = document["quantities"][one["quantity"]]
        pair, statistic, *_ = verdict_cells(document, one)
        name = f"{pair} {told_apart(document, quantity) or quantity['name']}, {statistic}"
        if quantity["load"]["name"] not in ("idle", TRACED):
            name += f", {quantity['load']['name'].partition(':')[0]}"
        said = verdict_text(document, one).partition(",")[0]
        low, high = one["interval"]
        rows.append(Ratio(name, one["verdict"], said, one["ratio"], low, high, one["blocks"] or ()))
    first = document["sets"][0]["letter"]
    svg = ratios(rows, document["within"], f"ratio to {first}: left of 1 is better")
    if not svg:
        return None
    more = f" The first {ROWS} of {len(rows)} are shown." if len(rows) > ROWS else ""
    blocks = " Each dot is the ratio in one repeat." if any(row.blocks for row in rows) else ""
    return Figure(
        svg,
        f"Ratios to {first} with their intervals",
        "A diamond is the ratio, a line its 95\u202f% interval. A line that does not reach 1 is "
        "not enough for a proof: the verdict on the right also corrects for the number of figures."
        f"{blocks}{more}",
        "The values are in the list below.",
    )


def _quantities(document: Model) -> list[Block]:
    """The tables of the first quantities, the loaded ones first."""
    ordered = sorted(document["quantities"], key=rank)
    tables = [_quantity(document, one) for one in ordered[:TABLES]]
    found: list[Block] = [
        Table(replace(one, caption="") if at else one) for at, one in enumerate(tables)
    ]
    if (left := len(ordered) - len(tables)) > 0:
        text = f"The JSON document has {numbers.plural(left, 'more quantity', 'more quantities')}."
        found.append(Paragraph(line(Span(text, "dim"))))
    return found


def _work(document: Model) -> list[Block]:
    """The work rates of the loads, set by set."""
    letters = [one["letter"] for one in document["sets"]]
    items = tuple(
        (line(f"{row['measurement']} under {row['load']}, {row['name']}: "
              f"{', '.join(rate_texts(row, letters))}"), ())
        for row in document["work"]
    )  # fmt: skip
    if not items:
        return []
    published = document["published_work"]
    said = (Paragraph(line(published)),) if published else ()
    return [Heading("Work of the loads"), Bullets(items), *said]


def _quantity(document: Model, quantity: Model) -> Grid:
    names = figures_of(quantity)
    unit = quantity["unit"]
    columns = {
        name: column(
            [row["figures"][name] for row in quantity["rows"]], unit, limit=quantity["budget"]
        )
        for name, _ in names
    }
    counts = ["missed"]
    if any(row["lost"] for row in quantity["rows"]):
        counts.append("lost")
    rows = []
    for at, row in enumerate(quantity["rows"]):
        cells = [Cell(numbers.count(row["count"]))]
        for name, _ in names:
            share = shown_ratios(document, quantity, row).get(name)
            cell = columns[name][at]
            cells.append(cell if share is None else Cell(cell.text, cell.pad, ratio(share)))
        cells += [counter(row[name]) for name in counts]
        rows.append(Row(_name(document, row), cells))
    apart = told_apart(document, quantity)
    title = capital(where(quantity)) + (f", {apart}" if apart else "")
    heads = ["System", "Samples", *map(capital, [*(head for _, head in names), *counts])]
    first = document["sets"][0]["letter"]
    return Grid(title, heads, rows, f"Ratios are relative to {first}. The ratio of a "
                "figure with a verdict is the centre of the runs' ratios.", title)  # fmt: skip


def _runs(runs: Sequence[Model]) -> Grid:
    """A row for each run: what it was, and its answer."""
    rows = []
    for number, run in enumerate(runs, 1):
        answer = answer_of(run)
        said = plain_line(answer.worst).removeprefix(OBSERVED)
        cells = [Cell(target_name(run)), Cell(run["label"] or "–"), Cell(answer.title), Cell(said)]
        rows.append(Row(f"Run {number}", cells))
    return Grid("Runs", ["Run", "System", "Label", "Answer", "Observed maximum"], rows, "", "Runs")


def runs_section(analysis: Analysis) -> Section:
    """The first section of a report on several runs of one system, with the answer of a resumed
    evaluation."""
    every = analysis.model["runs"]
    whole = whole_of(every)
    answer = () if whole is None else answer_section(answer_of(whole), None).blocks
    return Section(
        "Runs",
        "comparison",
        (
            *answer,
            Table(_runs(every)),
            *contexts_blocks(analysis.model),
            *evidence_blocks(analysis.model),
        ),
    )
