# SPDX-License-Identifier: Apache-2.0
"""What all runs together prove: a table of bounds, and a verdict for each budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Line,
    Paragraph,
    Section,
    Span,
    Table,
    Tone,
    line,
)
from rtgauge.report.document.tables import Cell, Grid, Row
from rtgauge.report.results.bounds import BOOT_PART
from rtgauge.report.results.labels import CROWDED, TRACED, capital, load_text
from rtgauge.stats import samples_needed

__all__ = ["bounds_grid", "evidence_blocks", "extrapolation_section", "verdict_lines"]

Model = Mapping[str, Any]

ROWS: Final = 8
"""Maximum number of quantities in the table of bounds, the loaded ones first."""
NO_CLAIM: Final = 0.9
"""Upper bounds of this size or more claim nothing, and are not shown."""
_TONES: Final[Mapping[str, Tone]] = {"pass": "pass", "fail": "fail", "inconclusive": "warn"}
_RESULTS: Final = {"pass": "kept", "fail": "exceeded", "inconclusive": "not proven"}


def evidence_blocks(model: Model) -> list[Block]:
    """The bounds of all runs, and for several runs the verdicts by all evidence."""
    blocks: list[Block] = []
    if said := verdict_lines(model):
        blocks.append(Bullets(tuple((text, ()) for text in said)))
    if grid := bounds_grid(model):
        blocks.append(Table(grid))
    return blocks


def _shown(model: Model) -> list[Any]:
    """The quantities on a time grid, the loaded ones first."""
    found = [one for one in model["bounds"] if one["interval_ns"]]
    return sorted(found, key=lambda one: one["load"] == "idle")


def bounds_grid(model: Model) -> Grid | None:
    """A row for each quantity on a time grid: its maximum, and upper bounds of the chance that a
    further sample, hour or boot exceeds it. None without such a quantity."""
    found = _shown(model)
    if not found:
        return None
    shown = found[:ROWS]
    composed = any(one["composed"] for one in shown)
    heads = ["Quantity", "Evidence", "Max", "Sample", "Hour", "Boot"]
    heads += ["Composed"] if composed else []
    names = _names(model, shown)
    rows = [Row(name, _cells(one, composed)) for name, one in zip(names, shown, strict=True)]
    confidence = numbers.percent(shown[0]["confidence"])
    caption = (
        f"{confidence} sure: the chance that a further sample of each CPU, a further hour, or an "
        "equal run after another boot exceeds the maximum is at most the value shown."
    )
    if any(_claim(one["next_hour"]) == "–" or _claim(one["next_boot"]) == "–" for one in shown):
        caption += " –: too little evidence for a claim."
    if any(_clustered(model, one) for one in shown):
        caption += " Large samples in groups count as fewer samples."
    if any(one.get("condition") for one in shown):
        caption += " With unanswered events, the values for a sample and an hour hold if events "
        caption += "are independent."
    caption += f" A bound of {numbers.percent(BOOT_PART)} needs {_needed(shown)}."
    if composed:
        caption += (
            " Composed: the sum of the maxima of all stages, as if they coincided (not a bound)."
        )
    if more := len(found) - len(shown):
        caption += f" {numbers.plural(more, 'more quantity', 'more quantities')} in the JSON."
    loads = list(dict.fromkeys(one["load"] for one in shown))
    title = f"Bounds, {numbers.join([_load(load) for load in loads])}"
    return Grid("Bounds", heads, rows, caption, title)


def _clustered(model: Model, one: Model) -> bool:
    """Whether large samples of a series come in groups."""
    bounds = [model["runs"][run]["series"][at]["bound"] for run, at in one["series"]]
    return any(bound["effective_samples"] < bound["samples"] for bound in bounds)


def _needed(shown: Sequence[Model]) -> str:
    """The boots that a bound takes. If no value is known or suspected to be larger than a maximum,
    as many hours."""
    least = min(one["boots_needed"] for one in shown)
    most = max(one["boots_needed"] for one in shown)
    if most == samples_needed(BOOT_PART, shown[0]["confidence"]):
        return f"{most} hours or {most} boots"
    return f"{most} boots" if least == most else f"{least} to {most} boots"


def _cells(one: Model, composed: bool) -> list[Cell]:
    boots = numbers.plural(one["boots"], "boot")
    evidence = f"{boots}, {numbers.duration(one['duration_s'])}"
    if one["copies"]:
        evidence += f", {numbers.plural(one['copies'], 'copy', 'copies')} not counted"
    top = one["max"] if one["max_at_least"] is None else numbers.AtLeast(one["max_at_least"])
    budget = min((verdict["budget_ns"] for verdict in one["verdicts"]), default=None)
    cells = [Cell(evidence), Cell(numbers.shown(top, "ns", budget).full, cls="peak")]
    sample = one["next_sample"]
    cells.append(Cell("–" if sample >= 0.5 else numbers.probability(sample)))
    cells += [Cell(_claim(one["next_hour"])), Cell(_claim(one["next_boot"]))]
    if composed:
        total = one["composed"]
        stages = "" if total is None else _stages(total)
        cells.append(Cell("–" if total is None else numbers.shown(total["max"], "ns").full,
                          note=stages))  # fmt: skip
    return cells


def _stages(total: Model) -> str:
    return " + ".join(
        f"{numbers.shown(stage['max'], 'ns').text} {stage['name']}" for stage in total["stages"]
    )


def _claim(probability: float | None) -> str:
    """An upper bound in percent, rounded up; a dash where it claims nothing."""
    if probability is None or probability >= NO_CLAIM:
        return "–"
    digits = 2 - math.ceil(math.log10(probability * 100)) if probability else 0
    scale = 10 ** max(digits, 0)
    return f"{math.ceil(probability * 100 * scale) / scale:g}{numbers.GAP}%"


def _load(load: str) -> str:
    return load_text({"name": load})


def _names(model: Model, among: Sequence[Model]) -> list[str]:
    """The quantities by name. Those with the name of another one, as of another kernel, have the
    numbers of their runs, and if these are the same, of their steps."""
    names = [_name(model, one, among) for one in model["bounds"]]
    for word in ("run", "step"):
        told = [_numbered(model, one, word) for one in model["bounds"]]
        apart: dict[str, set[str]] = {}
        for name, text in zip(names, told, strict=True):
            apart.setdefault(name, set()).add(text)
        names = [
            f"{name}, {text}" if len(apart[name]) > 1 else name
            for name, text in zip(names, told, strict=True)
        ]
    return [names[model["bounds"].index(one)] for one in among]


def _numbered(model: Model, one: Model, word: str) -> str:
    """The runs or steps of a quantity: ``run 2`` or ``steps 2, 3 and 5``."""
    places = {
        run + 1 if word == "run" else model["runs"][run]["series"][at]["step"] + 1
        for run, at in one["series"]
    }
    return f"{word}{'s' if len(places) > 1 else ''} {numbers.join(list(map(str, sorted(places))))}"


def _name(model: Model, one: Model, among: Sequence[Model]) -> str:
    """The quantity, with the system, context, labels and load in which the others differ."""
    words = [f"{one['measurement']} {one['name']}"]
    quantity = ("measurement", "name")
    same = [other for other in among if all(other[key] == one[key] for key in quantity)]
    if len({other["context"] for other in same}) > 1:
        words.append(one["context"])
    words += [
        value
        for key, value in sorted(one["labels"].items())
        if len({other["labels"].get(key) for other in same}) > 1
    ]
    loads = {other["load"] for other in among}
    if len(loads) > 1:
        one_load = len(loads - {"idle"}) == 1 and one["load"] not in ("idle", TRACED, CROWDED)
        words.append("loaded" if one_load else _load(one["load"]))
    return f"{_system(model, one)}{', '.join(words)}"


def _system(model: Model, one: Model) -> str:
    """The system and its label where there are several, with a colon."""
    known = {(other["target"], other["label"]) for other in model["bounds"]}
    if len(known) < 2:
        return ""
    several = len({label for _, label in known}) > 1
    label = f" {one['label']}" if several and one["label"] else ""
    return f"{one['target']}{label}: "


def verdict_lines(model: Model) -> list[Line]:
    """A line for each budget that several runs have for the same quantity."""
    said = []
    several = [
        one for one in model["bounds"] if any(_runs(one, each) > 1 for each in one["verdicts"])
    ]
    for name, one in zip(_names(model, several), several, strict=True):
        for verdict in one["verdicts"]:
            if (number := _runs(one, verdict)) < 2:
                continue
            budget = numbers.microseconds(verdict["budget_ns"])
            runs = numbers.plural(one["runs"], "run")
            runs = f"all {runs}" if number == one["runs"] else f"{number} of {runs}"
            if number == one["runs"] and f", {_numbered(model, one, 'run')}" in name:
                runs = ""
            text = f"{', '.join(filter(None, (name, runs)))}: {_RESULTS[verdict['result']]}"
            end = f". {capital(verdict['evidence'])}.{_lacking(one, verdict)}"
            head = Span(f"Budget {budget}, {text}", _TONES[verdict["result"]], strong=True)
            said.append(line(head, end))
    return said


def _runs(one: Model, verdict: Model) -> int:
    """The number of runs with the budget."""
    return int(verdict.get("runs", one["runs"]))


def _lacking(one: Model, verdict: Model) -> str:
    """The hours, samples and boots still needed, or the number of boots that exceeded the budget.
    With the number of boots that may have."""
    boots = numbers.plural(verdict.get("boots", one["boots"]), "boot")
    unknown = verdict.get("boots_unknown", 0)
    over = verdict["boots_over"] - unknown
    doubt = " may have exceeded it, because values are unknown or may belong to other events."
    if over:
        return f" {over} of {boots} exceeded it." + (f" {unknown} more{doubt}" if unknown else "")
    text = f" {unknown} of {boots}{doubt}" if unknown else ""
    words = []
    if verdict["hours_lacking"]:
        words.append(numbers.duration(verdict["hours_lacking"] * 3600, up=True))
    if verdict["samples_lacking"]:
        words.append(numbers.plural(verdict["samples_lacking"], "sample"))
    if verdict["boots_lacking"]:
        many = numbers.plural(verdict["boots_lacking"], "boot")
        words.append(f"{many} (for at most {numbers.percent(BOOT_PART)} of boots)")
    return text + (f" Still needed: {numbers.join(words)}." if words else "")


_MODEL: Final = (
    "This is a model, not a measurement. It assumes that larger samples have the causes of those "
    "seen. A rare cause that did not occur in the run makes it invalid. The excesses of clusters "
    "over a threshold are fitted by a generalised Pareto distribution. The level is the value that "
    "one cluster exceeds on average in {times:g} times as many samples, with its 95\u202f% "
    "interval."
)


def extrapolation_section(model: Model) -> Section | None:
    """The appendix on the model of the largest values, or why it is refused; None without a
    quantity."""
    found = [one for one in _shown(model) if one["extrapolation"] is not None]
    if not found:
        return None
    times = found[0]["extrapolation"]["times"]
    blocks: list[Block] = [Paragraph(line(_MODEL.format(times=times)))]
    named = list(zip(_names(model, found), found, strict=True))
    given = [(name, one) for name, one in named if not one["extrapolation"]["reasons"]]
    if given:
        heads = ["Quantity", "Max", "Level", f"95{numbers.GAP}%", "Clusters", "Threshold", "Shape"]
        rows = [Row(name, _model_cells(one)) for name, one in given]
        caption = "Each shape has its interval. Below it are the shapes for higher thresholds. "
        caption += "Under the model, all shapes are equal."
        blocks.append(Table(Grid("Extrapolation", heads, rows, caption, "")))
    refused = [(name, one) for name, one in named if one["extrapolation"]["reasons"]]
    if refused:
        items = [
            line(
                Span(f"{name}: refused. ", "warn"),
                f"{capital('; '.join(one['extrapolation']['reasons']))}.",
            )
            for name, one in refused[:ROWS]
        ]
        blocks.append(Bullets(tuple((item, ()) for item in items)))
        if (more := len(refused) - ROWS) > 0:
            blocks.append(Paragraph(line(f"{more} more in the JSON.")))
    title = f"Extrapolation to {times:g} times the samples: a model"
    return Section(title, "extrapolation", tuple(blocks), folded=True)


def _model_cells(one: Model) -> list[Cell]:
    found = one["extrapolation"]
    low, high = (numbers.shown(round(end), "ns").text for end in found["level_interval"])
    least, most = found["shape_interval"]
    higher = ", ".join(f"{other['shape']:.2f}" for other in found["shapes"][1:])
    return [
        Cell(numbers.shown(one["max"], "ns").full),
        Cell(numbers.shown(round(found["level"]), "ns").full, cls="peak"),
        Cell(f"{low} to {high}"),
        Cell(numbers.count(found["clusters"])),
        Cell(numbers.shown(found["threshold"], "ns").full),
        Cell(f"{found['shape']:.2f} ({least:.2f} to {most:.2f})", note=higher),
    ]
