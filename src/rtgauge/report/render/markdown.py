# SPDX-License-Identifier: Apache-2.0
"""The report as Markdown, readable as plain text, in a mail or a terminal, and on a forge.

Tables are padded, so that their columns are aligned as text. Text from a target is escaped: it
becomes neither a heading nor a link, a picture or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from rtgauge import text as numbers
from rtgauge.report.pictures import sketch
from rtgauge.report.results.cases import plain, series_names, step_title
from rtgauge.report.results.labels import (
    RESULTS,
    Level,
    background,
    capital,
    carried_out,
    chapters,
    claim,
    group_series,
    judged,
    lab_text,
    link_text,
    peak,
    quantity_name,
    realtime_text,
    series_labels,
    tail_percentile,
    target_name,
    watched,
    work_text,
)
from rtgauge.report.results.points import Point, negative_points, positive_points, verdict_of_run
from rtgauge.report.results.published import CAUTION, place_text
from rtgauge.report.results.ratings import rating_text
from rtgauge.report.sets import quantities

__all__ = ["escape", "render"]

Document = Mapping[str, Any]

_MARKS = re.compile(r"[\\`*\[\]<>|~$]|(?<!\w)_|_(?!\w)|&(?=[#\w])|!(?=\[)")
_LINE_START = re.compile(r"^([#+=-]|\d+[.)])")


def escape(value: object) -> str:
    """Text that stands for itself within a line."""
    return _MARKS.sub(lambda found: "\\" + found[0], plain(value))


def escape_start(value: object) -> str:
    """The same at the beginning of a line, where more has a meaning: lists, headings."""
    # Of "1." the dot is escaped: a backslash before a digit would be shown.
    return _LINE_START.sub(lambda found: found[0][:-1] + "\\" + found[0][-1], escape(value))


def render(model: Document, comparison: str | None = None) -> str:
    """The Markdown text of a results model. ``comparison`` is the section in which its runs stand
    side by side; without one each run is a set of its own there."""
    parts: list[str] = []
    parts += _runs(model) if comparison is None else [*_runs_table(model), comparison]
    for number, run in enumerate(model["runs"]):
        parts += _run(run, quantities.within(model, number))
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table with its columns in line; those in ``right`` end in line. Cells are escaped."""
    widths = [max(3, *(cell_len(row[at]) for row in [head, *rows])) for at in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = []
        for at, cell in enumerate(cells):
            blank = " " * (widths[at] - cell_len(cell))
            padded.append(blank + cell if at in right else cell + blank)
        return "| " + " | ".join(padded) + " |"

    rule = [
        "-" * (width - 1) + ":" if at in right else "-" * width for at, width in enumerate(widths)
    ]
    return "\n".join([line(head), line(rule), *(line(row) for row in rows)])


def _run(run: Document, tables: Sequence[quantities.Table]) -> list[str]:
    title = escape(target_name(run)) + (f": {escape(run['label'])}" if run["label"] else "")
    verdict = verdict_of_run(run)
    parts = [
        f"# {title}",
        f"**{escape(verdict.text)}.** {escape(verdict.note)}".strip(),
        _facts(run),
    ]
    for name, points in (
        ("Strengths", positive_points(run)),
        ("Concerns", negative_points(run)),
    ):
        if points:
            parts += [f"## {name}", "\n".join(_point(point) for point in points)]
    if tables:
        parts += ["## Side by side", *(part for one in tables for part in _side_by_side(one, True))]
        parts.append(quantities.CAUTION)
    parts += _ratings(run)
    whole = chapters(run)
    for name, steps in whole.items():
        parts.append(f"## {escape(name)}")
        for step in steps:
            parts += _step(run, step, "###")
    for step in () if whole else carried_out(run):
        parts += _step(run, step)
    parts += _background(run)
    parts += _findings(run)
    parts += _settings(run)
    return parts


def _ratings(run: Document) -> list[str]:
    """The evaluator's ratings."""
    if not run["ratings"]:
        return []
    rows = [
        (
            escape(one["subject"]),
            escape(rating_text(one["rating"])),
            escape(one["reason"]),
        )
        for one in run["ratings"]
    ]
    return ["## Ratings of the evaluator", table(("subject", "rating", "reason"), rows, (1,))]


def _runs_table(model: Document) -> list[str]:
    """What several runs are; nothing for a single one."""
    runs = model["runs"]
    if len(runs) < 2:
        return []
    head = ("run", "label", "target", "kernel", "outcome")
    rows = [
        (
            str(number + 1),
            escape(run["label"] or "–"),
            escape(target_name(run)),
            escape(str((run["environment"].get("kernel") or {}).get("release") or "unknown")),
            escape(verdict_of_run(run).text),
        )
        for number, run in enumerate(runs)
    ]
    return [f"# {len(runs)} runs side by side", table(head, rows, [0])]


def _runs(model: Document) -> list[str]:
    """What several runs are, and the quantities that they share."""
    parts = _runs_table(model)
    tables = quantities.across(model) if parts else []
    if tables:
        parts += [part for one in tables for part in _side_by_side(one, False)]
        parts.append(quantities.CAUTION)
    return parts


def _side_by_side(found: quantities.Table, commands: bool) -> list[str]:
    """The figures as studies publish them, and the command of each row below the table."""
    rows, unit = found.rows, found.unit
    ends = sketch.extent([row.histogram for row in rows])
    columns: dict[str, list[str]] = {
        escape(quantities.title(found)): [escape(row.what) for row in rows],
        "time": [escape(numbers.duration(row.duration_s)) for row in rows],
        "samples": [escape(numbers.count(row.count)) for row in rows],
    }
    for head, values in (
        ("min", [row.min for row in rows]),
        ("average", [row.mean for row in rows]),
        ("max", [row.max for row in rows]),
    ):
        columns[head] = [escape(numbers.shown(value, unit).text) for value in values]
    if any(row.missed for row in rows):
        columns["missed"] = [escape(numbers.count(row.missed)) for row in rows]
    last = len(columns)
    columns["histogram"] = [
        sketch.blocks(row.histogram, ends).replace(" ", "\u2007") for row in rows
    ]
    parts = [table(list(columns), list(zip(*columns.values(), strict=True)), range(1, last))]
    if commands:
        parts.append(
            "\n".join(f"- {escape_start(row.what)}: {escape(row.command)}" for row in rows)
        )
    return parts


def _background(run: Document) -> list[str]:
    """The background activity."""
    found = background(run)
    rows = [
        [escape(label), *(escape(text) for text in figures)] for label, figures in watched(found)
    ]
    if not rows:
        return []
    return ["## Background activity", table(("quantity", "min", "mean", "max"), rows, (1, 2, 3))]


def _point(point: Point) -> str:
    text = point.text.strip()
    if point.note.strip():
        text += ("" if text.endswith((".", "!", "?")) else ".") + f" {point.note.strip()}"
    return f"- {escape_start(text)}"


def _facts(run: Document) -> str:
    environment = run["environment"]
    kernel = environment["kernel"]
    facts = {
        "Run": run["id"],
        "Study": run["study"],
        "State": run["state"],
        "Started": run["started"],
        "Length": numbers.duration(run["duration_s"]),
        "Board": lab_text(environment),
        "SSH": link_text(environment),
        "Kernel": " ".join(str(kernel.get(key) or "") for key in ("release", "version")).strip(),
        "Real-time model": realtime_text(environment),
        "Processor": environment["cpu"].get("model"),
        "C library": environment["libc"],
    }
    rows = [(name, escape(value)) for name, value in facts.items() if value]
    return table(("What was tested", ""), rows)


def _step(run: Document, step: Document, level: str = "##") -> list[str]:
    title = step_title(run, step)
    parts = [f"{level} {escape(title[:1].upper() + title[1:])}"]
    if step["state"] != "complete":
        why = "; ".join(escape(text) for text in (step["reason"], step["remedy"]) if text)
        parts.append(f"**{step['state'].capitalize()}**" + (f": {why}" if why else ""))
    elif step["reason"]:
        parts.append(f"{escape_start(capital(step['reason']))}.")
    facts = [f"{name} {value}" for name, value in step["parameters"].items() if value]
    work = work_text(step["load"])
    facts += [f"load: {work}"] if work else []
    if command := step["load"].get("command"):
        facts.append(f"load command: {command}")
    if facts:
        parts.append("Parameters: " + escape(", ".join(facts)) + ".")
    places = [place for place, one in enumerate(run["series"]) if one["step"] == step["step"]]
    for members in group_series(run["series"], places):
        series = [run["series"][place] for place in members]
        labels = series_labels(series)
        parts.append(_series(series, labels, quantity_name(run["series"], members, places)))
        parts.append(escape_start(claim(series, labels)))
    parts += [_table(one) for one in run["tables"] if one["step"] == step["step"]]
    parts += _published(step)
    parts.append("\n".join(f"- {escape_start(place_text(one, run))}" for one in step["places"]))
    parts.append(_verdicts(run, step))
    parts.append("\n".join(f"- {escape_start(one['text'])}" for one in step["observations"]))
    parts.append(
        "\n".join(
            f"- {escape_start(event['text'])} (at {escape(numbers.duration(event['time_s']))})"
            for event in step["events"]
        )
    )
    return parts


def _published(step: Document) -> list[str]:
    """Published figures of the same quantities, measured elsewhere."""
    if not step["published"]:
        return []

    def us(value: float | None) -> str:
        return "–" if value is None else escape(numbers.shown(value * 1000, "ns").text)

    rows = [
        (
            escape(", ".join(text for text in (one["name"], one["variant"]) if text)),
            us(one["min_us"]),
            us(one["mean_us"]),
            (">" if one["max_bound"] else "") + us(one["max_us"]),
            us(one["value_us"]),
            escape(one["board"]),
            escape(f"{one['os']} {one['kernel']}".strip()),
            escape(", ".join(text for text in (one["load"], one["note"]) if text) or "–"),
            escape(one["verdict"] or "–"),
            escape(one["source"]),
        )
        for one in step["published"]
    ]
    figures = ("published (µs)", "min", "mean", "max", "single figure")
    head = (*figures, "board", "kernel", "load, note", "verdict", "source")
    works = "; ".join(dict.fromkeys(f"{one['source']}: {one['work']}" for one in step["published"]))
    return [table(head, rows, (1, 2, 3, 4)), escape_start(f"{CAUTION} {works}.")]


def _series(series: Sequence[Document], labels: Sequence[str], quantity: str) -> str:
    unit = series[0]["unit"]
    shown = numbers.unit_name(unit)
    name = escape(quantity) + (f" ({escape(shown)})" if shown else "")
    columns: dict[str, list[str]] = {name: [escape(label) for label in labels]}

    def values(found: Sequence[Any]) -> list[str]:
        return [escape(numbers.shown(value, unit).text) for value in found]

    columns["min"] = values([one["min"] for one in series])
    for head, key in (("median", "50"), ("99 %", "99"), ("99.9 %", "99.9"), ("99.99 %", "99.99")):
        found = [one["percentiles"].get(key) for one in series]
        if any(value is not None for value in found):
            columns[head] = values(found)
    if any(one["spread"] is not None for one in series):
        spreads = [numbers.shown(one["spread"], "").text for one in series]
        columns["99.9 % / median"] = [escape(text) for text in spreads]
    columns["max"] = values([peak(one) for one in series])
    columns["samples"] = [escape(numbers.count(one["count"])) for one in series]
    for key in ("missed", "lost"):
        if any(one[key] for one in series):
            columns[key] = [escape(numbers.count(one[key])) for one in series]
    if any(one["missed"] and one["corrected"] for one in series):
        tables = [(one["corrected"] or {}).get("percentiles", {}) for one in series]
        if name_of_tail := tail_percentile(tables):
            columns[f"corrected {name_of_tail} %"] = values(
                [table.get(name_of_tail) for table in tables]
            )
    rows = list(zip(*columns.values(), strict=True))
    return table(list(columns), rows, range(1, len(columns)))


def _table(one: Document) -> str:
    names = [column["name"] for column in one["columns"]]
    units = [numbers.unit_name(column["unit"]) for column in one["columns"]]
    head = [
        escape(name) + (f" ({escape(unit)})" if unit else "")
        for name, unit in zip(names, units, strict=True)
    ]
    rows = [
        [
            escape(value)
            if isinstance(value, str)
            else escape(numbers.shown(value, column["unit"]).text)
            for value, column in zip(row, one["columns"], strict=True)
        ]
        for row in one["rows"]
    ]
    right = [
        at
        for at in range(len(names))
        if rows and all(isinstance(row[at], int) for row in one["rows"])
    ]
    if not names:
        return ""
    return f"{escape_start(one['name'])}:\n\n" + table(head, rows, right)


def _verdicts(run: Document, step: Document) -> str:
    names = series_names(run, step["step"])
    rows = [
        (
            f"**{one['result']}**" if one["result"] == "fail" else one["result"],
            escape(one["rule"]),
            escape(names.get(one["series"], "")),
            escape("; ".join(t for t in (one["evidence"], one["remedy"]) if t.strip())),
        )
        for one in sorted(judged(run, step["step"]), key=lambda one: RESULTS.index(one["result"]))
    ]
    return table(("verdict", "rule", "series", "evidence"), rows) if rows else ""


def _findings(run: Document) -> list[str]:
    found = sorted(run["findings"], key=lambda finding: -Level.of(finding["level"]))
    if not found:
        return []
    rows = [
        [escape(finding[key]) for key in ("level", "check", "found", "remedy")] for finding in found
    ]
    return ["## Findings about the system", table(("level", "check", "found", "remedy"), rows)]


def _settings(run: Document) -> list[str]:
    settings = run["environment"]["settings"]
    if not settings:
        return []
    rows = [
        [
            escape(name),
            *(escape("–" if one.get(key) is None else one[key]) for key in ("asked", "effective")),
            escape(one.get("reason") or ""),
        ]
        for name, one in sorted(settings.items())
    ]
    return ["## Settings", table(("setting", "asked", "in effect", "reason"), rows)]
