# SPDX-License-Identifier: Apache-2.0
"""The short report: the answer, a summary of the system and its figures, a page for each chapter.

``short`` makes the tree that Markdown and the PDF print whole. The HTML report shows the same
sections above its folded steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.document.answer import answer_figure, answer_of, answer_section, tests_of
from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Command,
    Document,
    Facts,
    Figure,
    Heading,
    Line,
    Section,
    Span,
    Table,
    Tone,
    line,
)
from rtgauge.report.document.causes import causes_sections
from rtgauge.report.document.conclusion import comparison_section, runs_section
from rtgauge.report.document.contexts import contexts_blocks
from rtgauge.report.document.evidence import evidence_blocks
from rtgauge.report.document.tables import Cell, Grid, Named, Row, background_table, counter
from rtgauge.report.pictures import sketch
from rtgauge.report.pictures.distribution import (
    CURVES,
    Curve,
    axes_text,
    distribution,
    load_hues,
    merged,
    off_axis,
)
from rtgauge.report.pictures.drawing import HALF
from rtgauge.report.pictures.folded import folded, folded_said
from rtgauge.report.results.commands import sentence
from rtgauge.report.results.histogram import added
from rtgauge.report.results.labels import (
    UNLOADED_TEXTS,
    UNRESOLVED,
    Level,
    added_text,
    budget_of,
    capital,
    carried_out,
    compiler_text,
    core_text,
    ending,
    group_series,
    highest,
    lab_text,
    length_text,
    limitation,
    link_text,
    load_text,
    peak,
    principal,
    quantity_name,
    realtime_text,
    runs_text,
    sampled_text,
    series_labels,
    step_name,
    step_place,
    steps_text,
    tail_percentile,
    target_name,
    unresolved,
)
from rtgauge.report.results.model import Analysis
from rtgauge.report.results.points import Point, negative_points, positive_points
from rtgauge.report.results.published import place_text
from rtgauge.report.results.ratings import rating_text
from rtgauge.report.sets.compare import Compared

__all__ = [
    "chapter_sections",
    "cpu_text",
    "kernel_text",
    "short",
    "summary",
    "system_facts",
    "told",
]

Model = Mapping[str, Any]

FIGURES: Final = 2
"""Maximum number of pictures on the page of a chapter."""
ENOUGH: Final = 100
"""Minimum number of samples for a picture on that page."""
MANY: Final = 12
"""Maximum number of items of a list. The others are counted."""


def short(analysis: Analysis, compared: Compared | str | None = None, title: str = "") -> Document:
    """The short report on the runs of an analysis. ``compared`` as for ``views``; ``title``: in
    place of the name of the systems."""
    runs = analysis.model["runs"]
    sections: list[Section] = []
    if compared is not None:
        sections.append(comparison_section(compared, analysis))
    elif len(runs) > 1:
        sections.append(runs_section(analysis))
    for number, run in enumerate(runs):
        prefix = f"r{number + 1}-" if len(runs) > 1 else ""
        name = _run_title(run) if prefix else ""
        answer = answer_section(answer_of(run), answer_figure(analysis, number), name, prefix)
        # The complete report has the chapters of several runs.
        first, *more = summary(analysis, number, prefix)
        sections += [answer, replace(first, page=False)] if prefix else [answer, first, *more]
    names = list(dict.fromkeys(target_name(run) for run in runs))
    what = "Comparison" if isinstance(compared, Compared) else "Real-time evaluation"
    what += " of runs on " if len(names) == 1 and what == "Comparison" else " of "
    return Document(title or what + numbers.join(names), _subtitle(runs), tuple(sections))


def summary(analysis: Analysis, number: int, prefix: str = "") -> tuple[Section, ...]:
    """The summary of a run, a section for each of its chapters, and the system."""
    run = analysis.model["runs"][number]
    blocks: list[Block] = [Facts(system_facts(run)), Table(_figures(run))]
    if len(analysis.model["runs"]) == 1:
        blocks += contexts_blocks(analysis.model) + evidence_blocks(analysis.model)
    for name, points in (("Strengths", positive_points(run)), ("Concerns", negative_points(run))):
        if points:
            rows = tuple(_point(point) for point in points[:MANY])
            blocks += [Heading(name), Bullets(rows, left_out=len(points) - len(rows))]
    if lacking := _not_measured(run):
        blocks += [Heading(lacking.label), Table(lacking)]
    return (
        Section("Summary", f"{prefix}summary", tuple(blocks), page=True),
        *causes_sections(run, prefix),
        *chapter_sections(analysis, number, prefix),
        *_system(run, prefix),
    )


def _run_title(run: Model) -> str:
    return target_name(run) + (f": {run['label']}" if run["label"] else "")


def _label(run: Model) -> str:
    return f"“{run['label']}”" if run["label"] else ""


def _subtitle(runs: Sequence[Model]) -> str:
    started = sorted(str(run["started"]) for run in runs if run["started"])
    parts = [runs_text(runs)] if len(runs) > 1 else list(map(_label, runs))
    if len(runs) == 1:
        parts += told(runs[0])
    if started:
        parts.append(started[0].replace("T", " ").split(".")[0].removesuffix("Z") + " UTC")
    return "; ".join(filter(None, parts))


# --- the system ----------------------------------------------------------------------------------


def _first(document: Mapping[str, Any], *names: str) -> str:
    found = (document.get(name) for name in names)
    return next((str(value) for value in found if value not in (None, "", {}, [])), "")


def kernel_text(environment: Model) -> tuple[str, str]:
    """Name with release, and build of the kernel; empty if unknown."""
    kernel = environment.get("kernel") or {}
    release = _first(kernel, "release")
    system = _first(kernel, "sysname", "name") or "Linux"
    return (f"{system} {release}" if release else ""), _first(kernel, "version")


def cpu_text(environment: Model) -> tuple[str, str]:
    """Model and number of the processors; empty if unknown."""
    cpu = environment.get("cpu") or {}
    number = _first(cpu, "count", "online", "cpus")
    note = numbers.plural(int(number), "CPU") if number.isdecimal() else number
    return _first(cpu, "model", "name", "machine", "architecture"), note


def system_facts(run: Model) -> tuple[Named, ...]:
    """What was measured: target, kernel, processor, load, length."""
    environment = run["environment"]
    kernel, build = kernel_text(environment)
    cpu, cpus = cpu_text(environment)
    steps = carried_out(run)
    measured = [step for step in steps if step["role"] == "measurement"]
    loads = list(dict.fromkeys(added_text(step["load"]) for step in measured or steps))
    emulated, link = lab_text(environment), link_text(environment)
    return (
        Named("Target", run["target"], run["label"] or ""),
        *([Named("Board", emulated, environment["lab"].get("board") or "")] if emulated else []),
        *([Named("Connection", "SSH", link)] if link else []),
        Named("Kernel", kernel or "unknown", build),
        Named("Real-time model", realtime_text(environment), core_text(run)),
        Named("Processor", cpu or "unknown", cpus),
        Named("C library", environment["libc"] or "unknown", compiler_text(environment)),
        Named("Load", numbers.join(loads) or "idle", _commands(measured)),
        Named("Length", length_text(run), steps_text(steps)),
        Named("Run", run["id"][:13], f"study {run['study']}" if run["study"] else ""),
    )


def told(run: Model) -> list[str]:
    """The system, its loads and what they do, and the length of the run, in a few words each."""
    facts = {fact.name: fact.text for fact in system_facts(run)}
    said = ["emulated board"] if "Board" in facts else []
    said += [one["found"].partition(",")[0] for one in run["findings"]
             if (one["check"], one["level"]) == ("virtualisation", "warning")]  # fmt: skip
    said += [facts[name] for name in ("Kernel", "Real-time model", "Processor")]
    loads = (step["load"].get("meaning") for step in run["steps"] if step["role"] == "measurement")
    meant = [one for one in dict.fromkeys(loads) if one]
    load = facts["Load"] if facts["Load"] in UNLOADED_TEXTS else f"load: {facts['Load']}"
    said.append(f"{load} ({'; '.join(meant)})" if len(meant) == 1 else load)
    whole, sampled = f"run of {facts['Length']}", sampled_text(run)
    if run["state"] == "running":
        return [*said, "the run has not ended"]
    apart = sampled not in ("", f"sampled for {facts['Length']}")
    return [*said, f"{sampled} in a {whole}" if apart else whole]


def _commands(steps: Sequence[Model]) -> str:
    """The shell commands that ran as loads, whole."""
    found = dict.fromkeys(step["load"].get("command") for step in steps)
    text = numbers.join([command for command in found if command])
    return f"load command: {text}" if text else ""


def _system(run: Model, prefix: str) -> tuple[Section, ...]:
    """What limits the figures (findings with their remedies, settings without effect), the
    background activity and the evaluator's ratings."""
    found = sorted(
        (one for one in run["findings"] if Level.of(one["level"]) >= Level.WARNING),
        key=lambda one: -Level.of(one["level"]),
    )
    blocks: list[Block] = [
        Table(_listed(title, heads, rows))
        for title, heads, rows in (
            (
                "Errors and warnings about the system",
                ["Check", "Level", "Found", "Remedy"],
                [[capital(f["check"]), f["level"], f["found"], _sentence(f)] for f in found],
            ),
            (
                "Settings that did not take effect",
                ["Setting", "Requested", "Effective", "Reason"],
                [
                    [name, *(_known(one.get(key)) for key in ("asked", "effective", "reason"))]
                    for name, one in sorted(run["environment"]["settings"].items())
                    if one["asked"] is not None and one["effective"] != one["asked"]
                ],
            ),
            (
                "Ratings of the evaluator",
                ["Subject", "Rating", "Reason"],
                [
                    [one["subject"], rating_text(one["rating"]), one["reason"]]
                    for one in run["ratings"]
                ],
            ),
            (
                "Notes of the evaluator",
                ["Subject", "Text"],
                [
                    [capital(one["subject"]), " / ".join(one["text"].splitlines())]
                    for one in run["notes"]
                ],
            ),
        )
        if rows
    ]
    if commands := _remedies(found):
        blocks.insert(1, commands)
    if (grid := background_table(dict(run))) is not None:
        blocks.append(Table(replace(grid, title=grid.label)))
    return (Section("System", f"{prefix}system", tuple(blocks)),) if blocks else ()


def _sentence(finding: Model) -> str:
    """The remedy of a finding as the table has it."""
    text = sentence(finding["remedy"], finding["command"])
    return text or ("the command below" if finding["command"] else "")


def _remedies(found: Sequence[Model]) -> Bullets | None:
    """The commands in the remedies of some findings, each once, with the checks that it serves."""
    checks: dict[str, list[str]] = {}
    for one in found:
        if one["command"]:
            checks.setdefault(one["command"], []).append(capital(one["check"]))
    items = [(line(numbers.join(names)), (Command(text),)) for text, names in checks.items()]
    return Bullets(tuple(items)) if items else None


def _known(value: object) -> str:
    return "–" if value in (None, "") else str(value)


def _listed(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Grid:
    """A table of texts."""
    lines = [Row(name, [Cell(text, cls="words") for text in rest]) for name, *rest in rows]
    return Grid(title, heads, lines, "", title)


# --- figures of the whole run --------------------------------------------------------------------


def _places(run: Model, step: Model) -> list[int]:
    return [at for at, one in enumerate(run["series"]) if one["step"] == step["step"]]


def _figures(run: Model) -> Grid:
    """A row for each step that was measured, sorted by chapters: its ``principal`` quantity
    and tests."""
    rows, shown = [], []
    for chapter, steps in _chapters(run).items():
        for step in steps:
            if step["state"] == "skipped":
                continue
            tests = [test for test in tests_of(run) if test["step"] == step["step"]]
            found = principal(run["series"], _places(run, step), step)
            series = [run["series"][at] for at in found[0]] if found else []
            shown += series
            name = step_name(run, step) + (f": {series[0]['name']}" if series else "")
            cells = [Cell(chapter), Cell(load_text(step["load"])), *_median_and_max(series, step)]
            rows.append(Row(name, [*cells, _tests(tests, step)]))
    title = "Figures"
    heads = ["Step", "Chapter", "Load", "Median", "Max", "Tests"]
    caption = "The first quantity of each step. "
    if any(step.get("unseen_gaps") for step in run["steps"]):
        caption += "For gaps of several causes: those of the cause with the longest gap. "
    caption += "For several series: the range of their medians and the highest maximum."
    if unresolved(shown, medians=True):
        caption += f" 0 or 0.00: {UNRESOLVED}."
    return Grid(title, heads, rows, caption, title)


def _median_and_max(series: Sequence[Model], step: Model) -> list[Cell]:
    if not series:
        return [Cell("–"), Cell("–")]
    unit = series[0]["unit"]
    medians = [one["percentiles"]["50"] for one in series if "50" in one["percentiles"]]
    low = numbers.shown(min(medians, default=None), unit)
    high = numbers.shown(max(medians, default=None), unit)
    span = high.full if low.text == high.text else f"{low.text} to {high.full}"
    top = highest(peak(one) for one in series)
    return [Cell(span), Cell(numbers.shown(top, unit, budget_of(step, unit)).full, cls="peak")]


def _tests(tests: Sequence[Model], step: Model) -> Cell:
    if step["state"] == "failed":
        return Cell("step failed", cls="bad")
    if not tests:
        return Cell("–")
    many = Counter(str(test["result"]) for test in tests)
    known = sum(map(limitation, tests))
    others = [numbers.plural(known, "known limitation")] if known else []
    others += [f"{many[how]} {how}" for how in ("inconclusive", "skipped") if many[how]]
    judged = len(tests) - many["skipped"]
    if failed := many["fail"] - known:
        return Cell(", ".join([f"{failed} of {judged} failed", *others]), cls="bad")
    of = "" if many["pass"] + known == judged else f" of {judged}"
    passed = [f"{many['pass']}{of} passed"] if judged else []
    return Cell(", ".join([*passed, *others]))


def _chapters(run: Model) -> dict[str, list[Any]]:
    """The chapters of a run with their steps, in the order of the steps. A step without a chapter
    is in one named after its measurement."""
    found: dict[str, list[Any]] = {}
    for step in carried_out(run):
        name = step["chapter"] or step["measurement"] or "Other measurements"
        found.setdefault(name, []).append(step)
    return found


def _not_measured(run: Model) -> Grid | None:
    """The steps that were skipped or failed, those with the same reason together."""
    alike: dict[tuple[str, str, str], list[Any]] = {}
    for step in carried_out(run):
        if step["state"] in ("skipped", "failed"):
            state, reason, remedy = ending(step)
            key = (state, reason or "no reason recorded", remedy)
            alike.setdefault(key, []).append(step)
    if not alike:
        return None
    rows = []
    for (state, reason, remedy), steps in alike.items():
        names = list(dict.fromkeys(step["measurement"] for step in steps))
        shown = names[:6] + ([f"{len(names) - 6} more"] if len(names) > 6 else [])
        cells = [Cell(f"{len(steps)} {state}"), Cell(capital(reason)), Cell(capital(remedy))]
        rows.append(Row(", ".join(shown), cells))
    heads = ["Measurements", "Steps", "Reason", "Remedy"]
    return Grid("Steps without a valid result", heads, rows)


def _point(point: Point) -> tuple[Line, tuple[Block, ...]]:
    tones: dict[str, Tone] = {"pass": "pass", "note": "note", "warn": "warn", "fail": "fail"}
    note = f" {point.note}" if point.note else ""
    return line(Span(point.text, tones[point.kind]), Span(note, "dim")), ()


# --- chapters ------------------------------------------------------------------------------------


def chapter_sections(analysis: Analysis, number: int, prefix: str = "") -> Iterator[Section]:
    """A section for each chapter: its quantities, pictures, failed tests and observations."""
    run = analysis.model["runs"][number]
    for at, (name, steps) in enumerate(_chapters(run).items(), 1):
        done = [step for step in steps if step["state"] != "skipped"]
        if not done:
            continue
        blocks: list[Block] = []
        if meanings := _meanings(analysis, number, done):
            blocks.append(Facts(meanings))
        if grid := _quantities(run, done):
            blocks.append(Table(grid))
        blocks += _pictures(analysis, number, done)
        if failed := _failed(run, done):
            blocks += [Heading("Failed tests"), Bullets(tuple(failed))]
        if said := _observations(run, done):
            blocks += [Heading("Observations"), Bullets(tuple(said))]
        anchor = f"{prefix}page-{at}"
        yield Section(capital(name), anchor, tuple(blocks), page=True)


def _meanings(analysis: Analysis, number: int, steps: Sequence[Model]) -> tuple[Named, ...]:
    """The measurements of a chapter and what they measure, from the catalogue of the run."""
    catalogue = analysis.runs[number].document.get("catalogue") or {}
    texts = {one.get("name"): one.get("summary") for one in catalogue.get("measurements") or ()}
    names = dict.fromkeys(step["measurement"] for step in steps)
    return tuple(Named(name, capital(str(texts[name]))) for name in names if texts.get(name))


def _quantities(run: Model, steps: Sequence[Model]) -> Grid | None:
    """A row for each quantity of each step; its series are merged."""
    names: list[str] = []
    found: list[tuple[Model, list[Any]]] = []
    for step in steps:
        places = _places(run, step)
        for members in group_series(run["series"], places):
            under = load_text(step["load"])
            load = "" if under == "idle" else f", {under}"
            quantity = quantity_name(run["series"], members, places)
            names.append(f"{step_name(run, step)}: {quantity}{load}")
            found.append((step, [run["series"][at] for at in members]))
    if not found:
        return None
    drawn = [added([one["histogram"] for one in series]) for _, series in found]
    counts = ["missed"]
    if any(one["lost"] for _, series in found for one in series):
        counts.append("lost")
    rows = []
    for name, (step, series), histogram in zip(names, found, drawn, strict=True):
        unit = series[0]["unit"]
        tail = tail_percentile([one["percentiles"] for one in series])
        high = [one["percentiles"][tail] for one in series if tail in one["percentiles"]]
        cells = [Cell(numbers.count(sum(one["count"] for one in series)))]
        low = [one["min"] for one in series if one["min"] is not None]
        cells.append(Cell(numbers.shown(min(low, default=None), unit).full))
        median, top = _median_and_max(series, step)
        cells.append(median)
        share = f"{tail}{numbers.GAP}%" if tail and tail != "99.9" else ""
        cells.append(Cell(numbers.shown(max(high, default=None), unit).full, note=share))
        cells.append(top)
        cells += [counter(sum(one[name] for one in series)) for name in counts]
        shape = sketch.blocks(histogram, sketch.extent([histogram])).replace(" ", "\u00a0")
        cells.append(Cell(shape, cls="spark"))
        rows.append(Row(name, cells))
    heads = ["Quantity", "Samples", "Min", "Median", f"99.9{numbers.GAP}%", "Max"]
    heads += map(capital, counts)
    caption = "All series of a quantity together: the range of their medians, the highest "
    caption += f"99.9{numbers.GAP}% value and maximum. Each histogram has its own range, and both "
    caption += "axes are logarithmic."
    if unresolved([one for _, series in found for one in series]):
        caption += f" 0 or 0.00: {UNRESOLVED}."
    return Grid("Quantities", [*heads, "Histogram"], rows, caption, "")


def _pictures(analysis: Analysis, number: int, steps: Sequence[Model]) -> Iterator[Figure]:
    """The distributions of the first quantities of a chapter: a curve for each load, or else for
    each label. If the quantities are gaps by their cause, the cause with the longest gap of all
    steps."""
    run = analysis.model["runs"][number]
    quantities: dict[tuple[str, str], list[int]] = {}
    for step in steps:
        places = [at for at in _places(run, step) if run["series"][at]["unit"] == "ns"]
        if step.get("unseen_gaps"):
            of = step["measurement"]
            every = [at for at, one in enumerate(run["series"]) if one["measurement"] == of]
            longest = principal(run["series"], every, step)
            names = {run["series"][longest[1]]["name"]} if longest else ()
            places = [at for at in places if run["series"][at]["name"] in names]
        for members in group_series(run["series"], places)[:1]:
            one = run["series"][members[0]]
            quantities.setdefault((one["measurement"], one["name"]), []).extend(members)
    left = FIGURES
    for (measurement, name), members in quantities.items():
        if sum(run["series"][at]["count"] for at in members) < ENOUGH or not left:
            continue
        left -= 1
        curves = _curves(analysis, number, members)
        among = {run["series"][at]["step"] for at in members}
        limits = {budget_of(step, "ns") for step in steps if step["step"] in among}
        budget = limits.pop() if len(limits) == 1 else None
        svg = distribution(curves, "ns", name, budget, HALF)
        tops = [f"{one.name}: {one.top_text('ns', budget)}" for one in curves if one.counts.count]
        if svg:
            caption = f"{axes_text(curves)}. The ring marks the maximum."
            caption += off_axis(curves, budget)
            yield Figure(svg, f"{measurement}: {name}", caption, f"{capital('; '.join(tops))}.")


def _curves(analysis: Analysis, number: int, members: Sequence[int]) -> list[Curve]:
    run = analysis.model["runs"][number]
    steps = {step["step"]: step for step in run["steps"]}
    series = [run["series"][at] for at in members]
    loads = [load_text(steps[one["step"]]["load"]) for one in series]
    names = loads
    if len(set(loads)) == 1:
        labels = series_labels(series)
        names = labels if len(set(labels)) <= CURVES else ["all series"] * len(series)
    elif len(set(loads)) > CURVES:
        names = ["all loads"] * len(series)
    by_name: dict[str, list[int]] = {}
    for name, at in zip(names, members, strict=True):
        by_name.setdefault(name, []).append(at)
    figures, places = analysis.figures[number], analysis.places[number]
    hues = load_hues(loads) if names is loads else {}
    return [
        replace(
            merged(
                name,
                [figures[places[at]].counts for at in some],
                [peak(run["series"][at]) for at in some],
            ),
            hue=hues.get(name),
        )
        for name, some in by_name.items()
    ]


def _failed(run: Model, steps: Sequence[Model]) -> list[tuple[Line, tuple[Block, ...]]]:
    among = {step["step"]: step for step in steps}
    return [
        (
            line(
                Span(f"{step_place(run, among[test['step']])}: {test['rule']}. ", "fail"),
                " ".join(f"{capital(t.rstrip('.'))}." for t in (test["evidence"], test["remedy"])
                         if t.strip()),
            ),
            (),
        )
        for test in tests_of(run)
        if test["result"] == "fail" and test["step"] in among
    ]  # fmt: skip


def _observations(run: Model, steps: Sequence[Model]) -> list[tuple[Line, tuple[Block, ...]]]:
    found: list[tuple[Line, tuple[Block, ...]]] = [
        (line(Span(f"{step_place(run, step)}: ", "dim"), text), below)
        for step in steps
        for text, below in (
            *((one["text"], _folded(one)) for one in step["observations"]),
            *((f"{place_text(one, run)}.", ()) for one in step["places"]),
        )
    ]
    more = len(found) - MANY
    return (
        found if more <= 0 else [*found[:MANY], (line(f"{more} more in the complete report."), ())]
    )


def _folded(observation: Model) -> tuple[Block, ...]:
    """The picture of a rhythm over its period."""
    periodic = observation.get("periodic")
    if periodic is None:
        return ()
    period = numbers.shown(periodic["period_ns"], "ns").full
    caption = "The dashed line is the number expected without a rhythm."
    title = f"Excursions over the period of {period}"
    title += ", or of an alias" if periodic["aliases_ns"] else ""
    return (Figure(folded(periodic), title, caption, folded_said(periodic)),)
