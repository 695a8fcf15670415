# SPDX-License-Identifier: Apache-2.0
"""The summary on a terminal: what ``rtgauge show`` prints, and ``rtgauge run`` at its end.

On the path of a sample: the results model becomes text for people; for programs there is --json.
A block for each step: what was measured under which load, a table of its series, what may be
claimed, the verdicts. Without a terminal there are no colours and no control characters.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from rtgauge import text as numbers
from rtgauge.facts import printable
from rtgauge.report.pictures import sketch
from rtgauge.report.results.labels import (
    KNOWN,
    RESULTS,
    Level,
    background,
    carried_out,
    chapters,
    claim,
    group_series,
    judged,
    lab_text,
    load_text,
    ordinary,
    ordinary_policies,
    peak,
    quantity_name,
    realtime_text,
    representative,
    series_labels,
    step_name,
    step_number,
    tail_percentile,
    target_name,
    watched,
    work_text,
    worst,
)
from rtgauge.report.results.points import prepared, verdict_of_run
from rtgauge.report.results.published import place_text
from rtgauge.report.results.ratings import rating_text
from rtgauge.report.sets import quantities

__all__ = ["printed", "render", "text"]

ROW_LIMIT: Final = 16
TAIL: Final = "99.9"
LEAST_WIDTH: Final = 40
LABEL_ROOM: Final = 14  # columns that a label may be folded into; with less it gets its own line
SPARK: Final = 12

_HOLD: Final = "\ue000"  # stands for a gap within a figure until the lines are made
FINDINGS_SHOWN: Final = 4  # with their remedies; the others by name
_STYLES: Final = {
    "pass": "green",
    "ok": "green",
    "complete": "green",
    "fail": "bold red",
    "failed": "bold red",
    "error": "bold red",
    "inconclusive": "yellow",
    "known limitation": "yellow",
    "interrupted": "yellow",
    "running": "yellow",
    "warning": "yellow",
    "warn": "yellow",
    "skipped": "dim",
    "note": "",
}
_PLAIN: Final = str.maketrans(
    {"·": "-", "—": "-", "─": "-", **dict(zip(sketch.BLOCKS, "_.-=+*#@", strict=True))}
)


def _safe(value: object) -> str:
    """Text from a target without anything that a terminal would obey."""
    text = _held(str(value))
    return "".join(
        part if part == _HOLD else printable(re.sub(r"\s+", " ", part))
        for part in re.split(f"({_HOLD})", text)
    )


def _held(text: str) -> str:
    """The text with its gaps so that rich, to which any space is one, breaks no line there."""
    text = re.sub(r"(?<=\d) (?=%)", _HOLD, text.replace(_HOLD, " "))
    return text.replace(numbers.GAP, _HOLD).replace("\u00a0", _HOLD)


def render(model: Mapping[str, Any], *, across: bool = True) -> RenderableType:
    """The summary of a results model as something that a rich console prints. ``across``: with what
    its runs have in common side by side."""
    parts: list[RenderableType] = []
    for number, run in enumerate(model["runs"]):
        if parts:
            parts.append(Text())
        parts.extend(_run(run, quantities.within(model, number)))
    tables = quantities.across(model) if across else []
    if tables:
        parts += [Text(), Text(f"{len(model['runs'])} runs side by side", "bold")]
        parts += _side_by_side(tables)
        parts.append(Text(quantities.CAUTION, "dim"))
    return Group(*parts)


def text(
    model: Mapping[str, Any],
    width: int = 80,
    *,
    color: bool = False,
    encoding: str = "utf-8",
    across: bool = True,
) -> str:
    """The same as text, by default without control characters, in what the encoding can show."""
    return printed(render(model, across=across), width, color=color, encoding=encoding)


def printed(
    what: RenderableType, width: int = 80, *, color: bool = False, encoding: str = "utf-8"
) -> str:
    """What rich prints as text, in what the encoding can show."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=max(width, LEAST_WIDTH),
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    # Every text for a terminal goes through here; the styles, which are ours, become control
    # characters only after it.
    segments = [
        one if one.control else Segment(_obeyed_by_none(one.text), one.style)
        for one in console.render(what)
    ]
    console.print(Segments(segments), end="")
    plain = "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
    plain = plain.replace("\u00a0", " ").replace(numbers.GAP, " ").replace(_HOLD, " ")
    try:
        plain.encode(encoding)
    except UnicodeEncodeError:
        plain = numbers.plain(plain).translate(_PLAIN)
        plain = plain.encode(encoding, "replace").decode(encoding)
    return plain


def _obeyed_by_none(text: str) -> str:
    return _HOLD.join(printable(part) for part in text.split(_HOLD))


def _line(*parts: tuple[str, str]) -> Text:
    line = Text()
    for words, style in parts:
        line.append(words, style or None)
    return line


def _indented(line: RenderableType, by: int = 2) -> Padding:
    return Padding(line, (0, 0, 0, by))


def _run(run: Mapping[str, Any], tables: Sequence[quantities.Table]) -> list[RenderableType]:
    environment = run["environment"]
    kernel = (environment.get("kernel") or {}).get("release") or ""
    facts = [
        str(kernel),
        realtime_text(environment),
        numbers.duration(run["duration_s"]),
    ]
    title = _safe(target_name(run)) + (f" · {_safe(run['label'])}" if run["label"] else "")
    parts: list[RenderableType] = [
        _line((title, "bold"), (f"  {_safe(', '.join(fact for fact in facts if fact))}", "dim")),
        _line((f"run {_safe(run['id'])}", "dim")),
    ]
    if emulated := lab_text(environment):
        parts.append(Text(_safe(emulated), "yellow"))
    steps = carried_out(run)
    asked_for = any(step["role"] != "calibration" for step in steps)
    aside = [step for step in steps if asked_for and step["role"] == "calibration"]
    whole = chapters(run)
    if whole:
        parts += _chapters(run, whole)
        aside = []
    for step in () if whole else steps:
        if step not in aside:
            parts.append(Text())
            parts.extend(_step(run, step))
    if not whole and any(_lacking(run, step) for step in steps if step not in aside):
        words = "–  too few samples for this percentile"
        if any(one["unanswered"] for one in run["series"]):
            words += ", or events without an answer"
        parts += [Text(), Text(words, "dim")]
    if aside:
        parts.append(Text())
    for step in aside:
        parts.extend(_calibration(run, step))
    parts += _ratings(run)
    parts += _side_by_side(tables)
    parts += _background(run)
    findings = [f for f in run["findings"] if Level.of(f["level"]) >= Level.WARNING]
    if findings:
        parts += [Text(), Text("Limits of these figures", "bold")]
        findings.sort(key=lambda f: -Level.of(f["level"]))
        for finding in findings[:FINDINGS_SHOWN]:
            parts.append(_finding(finding))
        if more := [_safe(finding["check"]) for finding in findings[FINDINGS_SHOWN:]]:
            words = f"and {len(more)} more: {', '.join(more)} (see the report)"
            parts.append(_indented(Text(words, "dim")))
    if preparation := prepared(run):
        words = " ".join(text for text in (preparation.text, preparation.note) if text)
        parts += [Text(), _line((_safe(words[:1].upper() + words[1:]), ""))]
    verdict = verdict_of_run(run)
    parts += [
        Text(),
        _line(
            (verdict.text + ". ", _STYLES[verdict.kind] or "bold"),
            (_safe(verdict.note).strip(), ""),
        ),
    ]
    return parts


def _chapters(run: Mapping[str, Any], parts: Mapping[str, Sequence[Any]]) -> list[RenderableType]:
    """An evaluation: its chapters, and each step in a line or two."""
    names = [len(_title(run, step)) for steps in parts.values() for step in steps]
    found: list[RenderableType] = []
    for name, steps in parts.items():
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=min(max(names), 21), no_wrap=True, overflow="ellipsis")
        table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        for width in (9, 6, 9, 14):
            table.add_column(justify="right", width=width, no_wrap=True)
        if len(found) == 0:
            table.add_row("", "", *(Text(head, "dim") for head in ("median", "spread", "max")), "")
        below: list[RenderableType] = []
        alike: dict[str, list[Mapping[str, Any]]] = {}
        for step in steps:
            alike.setdefault(_why(step), []).append(step)
        for step in steps:
            for row in _short(run, step):
                table.add_row(*row)
            same = alike[_why(step)]
            if _why(step) and step is same[0]:
                below.append(_indented(_incomplete(run, same)))
            below += _trouble(run, step)
        found += [Text(), Text(_safe(name), "bold"), table, *below]
    return [*found, Text(), Text("Spread: 99.9 % value / median.", "dim")]


def _ratings(run: Mapping[str, Any]) -> list[RenderableType]:
    if not run["ratings"]:
        return []
    found: list[RenderableType] = [Text(), Text("Ratings of the evaluator", "bold")]
    for one in run["ratings"]:
        words = f"{one['subject']}: {rating_text(one['rating'])}"
        words += f" ({one['reason']})" if one["reason"] else ""
        found.append(_indented(Text(_safe(words))))
    return found


def _places(run: Mapping[str, Any], step: Mapping[str, Any]) -> list[Text]:
    return [Text(_safe(place_text(one, run)), "dim") for one in step["places"]]


def _title(run: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    load = "" if step["load"]["name"] == "idle" else f", {step['load']['name']}"
    return f"{step_number(step):2} {_safe(step_name(run, step))}{_safe(load)}"


QUANTITIES: Final = 2


def _short(run: Mapping[str, Any], step: Mapping[str, Any]) -> list[list[RenderableType]]:
    """A step in a row or two: of a quantity the series with the largest sample, and verdicts."""
    places = [place for place, one in enumerate(run["series"]) if one["step"] == step["step"]]
    rows: list[tuple[str, str, str, str]] = []
    for members in group_series(run["series"], places):
        series = [run["series"][place] for place in members]
        at = worst(series)
        if at is None:
            continue
        label = f", {series_labels(series)[at]}" if len(series) > 1 else ""
        unit = series[at]["unit"]
        median = series[at]["percentiles"].get("50")
        rows.append(
            (
                f"{series[0]['name']}{label}",
                numbers.shown(median, unit).full,
                numbers.shown(series[at]["spread"], "").text,
                numbers.shown(peak(series[at]), unit).full,
            )
        )
    missed = sum(run["series"][place]["missed"] for place in places)
    tags = Text(justify="right")
    results = [one["result"] for one in judged(run, step["step"])]
    for result in ("fail", "inconclusive", KNOWN, "pass", "skipped"):
        if number := results.count(result):
            word = "known" if result == KNOWN else result
            tags.append(f"{' ' if tags else ''}{number} {word}", _STYLES[result])
    if step["state"] != "complete":
        tags = Text(step["state"], _STYLES[step["state"]])
    elif missed:
        tags.append(f"{' ' if tags else ''}{numbers.count(missed)} missed", _STYLES["fail"])
    name = Text(_title(run, step))
    if not rows:
        return [[name, "", "", "", "", tags]]
    shown: list[list[RenderableType]] = []
    for number, (what, *figures) in enumerate(rows[:QUANTITIES]):
        shown.append(["" if number else name, _safe(what), *map(_safe, figures), ""])
    if len(rows) > QUANTITIES:
        shown.append(["", Text(f"and {len(rows) - QUANTITIES} more", "dim"), "", "", "", ""])
    shown[0][-1] = tags
    return shown


def _why(step: Mapping[str, Any]) -> str:
    """State, reason and remedy of a step that is not complete; empty for one that is."""
    if step["state"] == "complete":
        return ""
    return f"{step['state']} {step['reason']} {step['remedy']}"


def _incomplete(run: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Why steps are not complete, which is the same of all of them."""
    step = steps[0]
    numbers_of = [step_number(one) for one in steps]
    where = f"{numbers_of[0]} {_safe(step_name(run, step))}"
    if len(steps) > 1:
        following = numbers_of == [*range(numbers_of[0], numbers_of[-1] + 1)]
        where = (
            f"{numbers_of[0]} to {numbers_of[-1]}" if following else ", ".join(map(str, numbers_of))
        )
    words = "; ".join(part for part in (step["reason"], step["remedy"]) if part)
    return _line((f"{where}: ", ""), (_safe(words), _STYLES[step["state"]]))


def _trouble(run: Mapping[str, Any], step: Mapping[str, Any]) -> list[RenderableType]:
    """What of a step of an evaluation needs more than its row."""
    where = f"{step_number(step)} {_safe(step_name(run, step))}: "
    severe = ("fail", "inconclusive", KNOWN)
    bad = [one for one in _verdicts(run, step) if one.plain.startswith(severe)]
    lines: list[RenderableType] = [
        Text.assemble(where, one) for one in [*_counters(run, step), *bad]
    ]
    if words := ordinary(run, step):
        lines.append(_line((where, ""), (words, _STYLES["error"])))
    lines += [
        _line((where, ""), (_safe(observation["text"]), ""))
        for observation in step["observations"]
        if observation["rule"] == "growth"
    ]
    lines += [Text.assemble(where, one) for one in _places(run, step)]
    return [_indented(line) for line in lines]


def _side_by_side(tables: Sequence[quantities.Table]) -> list[RenderableType]:
    """Quantities side by side: the figures as studies publish them, with a small histogram."""
    parts: list[RenderableType] = []
    for found in tables:
        rows, unit = found.rows, found.unit
        ends = sketch.extent([row.histogram for row in rows])
        columns = [
            ("time", [numbers.duration(row.duration_s) for row in rows]),
            ("samples", [numbers.count(row.count) for row in rows]),
            ("min", _aligned([row.min for row in rows], unit)),
            ("average", _aligned([row.mean for row in rows], unit)),
            ("max", _aligned([row.max for row in rows], unit)),
        ]
        if any(row.missed for row in rows):
            columns.append(("missed", [numbers.count(row.missed) for row in rows]))
        small = [sketch.blocks(row.histogram, ends, SPARK) for row in rows]
        table = _Figures("side by side", [_safe(row.what) for row in rows], columns, small)
        parts += [Text(), Text(_safe(quantities.title(found)), "bold"), table]
    return parts


def _background(run: Mapping[str, Any]) -> list[RenderableType]:
    """The background activity, a line each; of many CPUs the first few."""
    rows = watched(background(run))
    if not rows:
        return []
    table = Table.grid(padding=(0, 2))
    for label, (least, mean, most) in rows[:ROW_LIMIT]:
        table.add_row(_safe(label), _safe(f"{least} to {most}, mean {mean}"))
    if len(rows) > ROW_LIMIT:
        table.add_row(Text(f"and {len(rows) - ROW_LIMIT} more", "dim"))
    return [Text(), Text("Background activity", "bold"), _indented(table)]


def _calibration(run: Mapping[str, Any], step: Mapping[str, Any]) -> list[RenderableType]:
    """A calibration in a line for each quantity, and its problems."""
    parts: list[RenderableType] = []
    name = f"{step_number(step)} {_safe(step_name(run, step))}"
    places = [place for place, one in enumerate(run["series"]) if one["step"] == step["step"]]
    for members in group_series(run["series"], places):
        series = [run["series"][place] for place in members]
        at = worst(series)
        if at is None:
            continue
        unit = series[at]["unit"]
        medians = [one["percentiles"]["50"] for one in series if "50" in one["percentiles"]]
        words = f"{_safe(series[0]['name'])} max {numbers.shown(series[at]['max'], unit).full}"
        if medians:
            words += ", median up to " if len(medians) > 1 else ", median "
            words += numbers.shown(max(medians), unit).full
        parts.append(_line((f"{name}  ", "bold"), (f"calibration: {_safe(words)}", "")))
    if step["state"] != "complete" or not parts:
        parts.append(
            _line(
                (f"{name}  ", "bold"),
                ("calibration: ", ""),
                (f"{step['state']}", _STYLES[step["state"]]),
            )
        )
        for words in (step["reason"], step["remedy"]):
            if words:
                parts.append(_indented(Text(_safe(words), _STYLES.get(step["state"], ""))))
    parts += [_indented(line) for line in _counters(run, step)]
    return parts + [_indented(line) for line in _verdicts(run, step)]


def _lacking(run: Mapping[str, Any], step: Mapping[str, Any]) -> bool:
    """Whether a percentile is missing in the tables of a step."""
    members = [place for place, one in enumerate(run["series"]) if one["step"] == step["step"]]
    for places in group_series(run["series"], members):
        tables = [run["series"][place]["percentiles"] for place in places]
        name = tail_percentile(tables) or TAIL
        if any(name not in table for table in tables):
            return True
    return False


def _finding(finding: Mapping[str, Any]) -> RenderableType:
    words = Table.grid(padding=(0, 1))
    level = Text(finding["level"], _STYLES.get(finding["level"], ""))
    words.add_column(width=len("warning"), no_wrap=True)
    words.add_column()
    words.add_row(level, Text(f"{_safe(finding['check'])}: {_safe(finding['found'])}"))
    if finding["remedy"]:
        words.add_row("", Text(_safe(finding["remedy"]), "dim"))
    return _indented(words)


def _step(run: Mapping[str, Any], step: Mapping[str, Any]) -> list[RenderableType]:
    work = work_text(step["load"])
    head = [(f"{step_number(step)} {_safe(step_name(run, step))}", "bold")]
    head.append((f"  {_safe(load_text(step['load']))}", ""))
    if work:
        head.append((f", {_safe(work)}", "dim"))
    if policies := ordinary_policies(run, step):
        head.append((f"  {policies}", _STYLES["error"]))
    if step["state"] != "complete":
        head.append((f"  {step['state']}", _STYLES[step["state"]]))
    parts: list[RenderableType] = [_line(*head)]
    if command := step["load"].get("command"):
        parts.append(_indented(Text(f"load command: {_safe(command)}", "dim")))
    for words in (step["reason"], step["remedy"]):
        if words:
            parts.append(_indented(Text(_safe(words), _STYLES.get(step["state"], ""))))
    places = [place for place, one in enumerate(run["series"]) if one["step"] == step["step"]]
    for members in group_series(run["series"], places):
        series = [run["series"][place] for place in members]
        labels = series_labels(series)
        parts.append(_table(series, labels, quantity_name(run["series"], members, places)))
        parts.append(_indented(Text(_safe(claim(series, labels)))))
    if words := ordinary(run, step):
        parts.append(_indented(Text(f"{words[0].upper()}{words[1:]}.", _STYLES["error"])))
    for observation in step["observations"]:
        if observation["rule"] == "disturbed":
            parts.append(_indented(Text(_safe(observation["text"]), _STYLES["warning"])))
    parts += [_indented(line) for line in _counters(run, step)]
    parts += [_indented(line) for line in _verdicts(run, step)]
    return parts + [_indented(line) for line in _places(run, step)]


def _counters(run: Mapping[str, Any], step: Mapping[str, Any]) -> list[Text]:
    """Losses on the way that no series knows of."""
    stream = step["stream"]
    if stream is None:
        return []
    lines = []
    if stream["lost_records"]:
        lines.append(f"{numbers.plural(stream['lost_records'], 'record')} of the stream lost")
    if stream["dropped_bytes"]:
        lines.append(f"{numbers.plural(stream['dropped_bytes'], 'byte')} of the stream dropped")
    if not stream["complete"]:
        lines.append(f"the stream ends early: {stream['reason'] or 'it has no trailer'}")
    return [Text(_safe(line), "yellow") for line in lines]


def _verdicts(run: Mapping[str, Any], step: Mapping[str, Any]) -> list[Text]:
    """The verdicts and tests, same ones together, each with its evidence and remedy."""
    lines = []
    found = judged(run, step["step"])
    names: dict[int, str] = {}
    places = [place for place, one in enumerate(run["series"]) if one["step"] == step["step"]]
    for members in group_series(run["series"], places):
        names.update(zip(members, series_labels([run["series"][p] for p in members]), strict=True))
    for result in RESULTS:
        for rule in dict.fromkeys(v["rule"] for v in found if v["result"] == result):
            same = [v for v in found if v["result"] == result and v["rule"] == rule]
            whose = [names[v["series"]] for v in same if v["series"] in names]
            shown = numbers.join(whose[:4] + ([f"{len(whose) - 4} more"] if len(whose) > 4 else []))
            if len(whose) == len(places) > 2:
                shown = f"all {len(whose)} series"
            line = _line((f"{result} ", _STYLES[result]), (_safe(rule), ""))
            if shown:
                line.append(f" ({_safe(shown)})")
            evidence, remedy = representative(same, run["series"], names)
            line.append(": " + _safe(evidence))
            if remedy:
                line.append("; " + _safe(remedy), "dim")
            lines.append(line)
    return lines


def _table(series: Sequence[Mapping[str, Any]], labels: Sequence[str], quantity: str) -> _Figures:
    unit = series[0]["unit"]
    shown_unit = _safe(numbers.unit_name(unit))
    name = _safe(quantity) + (f" ({shown_unit})" if shown_unit else "")
    order = list(range(len(series)))
    if len(series) > ROW_LIMIT:
        highest = sorted(order, key=lambda at: -(peak(series[at]) or 0))[: ROW_LIMIT - 1]
        order = sorted(highest)
    columns: list[tuple[str, list[str]]] = [
        ("min", _aligned([series[at]["min"] for at in order], unit))
    ]
    tail = tail_percentile([one["percentiles"] for one in series]) or TAIL
    for head, key in (("median", "50"), (f"{tail} %", tail)):
        values = [series[at]["percentiles"].get(key) for at in order]
        columns.append((head, _aligned(values, unit)))
    corrected = [(one["corrected"] or {}).get("percentiles", {}) for one in series]
    if any(one["missed"] for one in series) and any(corrected):
        key = tail if any(tail in table for table in corrected) else tail_percentile(corrected)
        if key:
            values = [corrected[at].get(key) for at in order]
            columns.append((f"{key} % corr.", _aligned(values, unit)))
    columns.append(("max", _aligned([peak(series[at]) for at in order], unit)))
    columns.append(("samples", [numbers.count(series[at]["count"]) for at in order]))
    on_grid = any(one["interval_ns"] > 0 for one in series)
    for key in ("missed", "lost"):
        if any(one[key] for one in series) or (key == "missed" and on_grid):
            columns.append((key, [numbers.count(series[at][key]) for at in order]))
    losses = {
        (head, row)
        for head, _ in columns
        for row, at in enumerate(order)
        if head in ("missed", "lost") and series[at][head]
    }
    rest = len(series) - len(order)
    more = f"and {rest} with lower maxima" if rest else ""
    return _Figures(name, [_safe(labels[at]) for at in order], columns, (), losses, more)


@dataclass(frozen=True)
class _Figures:
    """Figures in columns next to their labels. If that leaves the labels no room, each label has
    a line of its own, with its named figures below."""

    head: str
    labels: Sequence[str]
    columns: Sequence[tuple[str, Sequence[str]]]
    histograms: Sequence[str] = ()
    losses: frozenset[tuple[str, int]] | set[tuple[str, int]] = frozenset()
    more: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        padded = [_padded(head, cells) for head, cells in self.columns]
        room = self._room()
        width = room + sum(2 + len(head) for head, _ in padded)
        width += 2 + SPARK if self.histograms else 0
        yield self._table(padded, room) if width <= options.max_width else self._lines()

    def _room(self) -> int:
        """The columns that the labels need: the longest of them may be folded between words."""
        longest = max(map(len, self.labels), default=0)
        words = (len(word) for label in self.labels for word in label.split())
        return max(min(longest, LABEL_ROOM), min(max(words, default=0), 2 * LABEL_ROOM))

    def _style(self, column: str, row: int) -> str:
        if (column, row) in self.losses:
            return "bold red"
        return "bold" if column == "max" else ""

    def _table(self, padded: Sequence[tuple[str, list[str]]], room: int) -> Table:
        table = Table(
            box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True, show_edge=False
        )
        table.add_column(Text(self.head, "dim"), overflow="fold", min_width=room)
        for head, _ in padded:
            table.add_column(Text(head, "dim"), no_wrap=True)
        if self.histograms:
            table.add_column(Text("histogram", "dim"), no_wrap=True)
        for row, label in enumerate(self.labels):
            cells = [
                Text(padded[at][1][row], self._style(name, row))
                for at, (name, _) in enumerate(self.columns)
            ]
            cells += [Text(self.histograms[row])] if self.histograms else []
            table.add_row(Text(label), *cells)
        if self.more:
            blank = len(self.columns) + bool(self.histograms)
            table.add_row(Text(self.more, "dim"), *[Text("")] * blank)
        return table

    def _lines(self) -> Group:
        lines: list[RenderableType] = [Text(self.head, "dim")]
        for row, label in enumerate(self.labels):
            line = Text()
            for name, cells in self.columns:
                words = _held(f"{name} {cells[row].strip()}").replace(" ", _HOLD)
                line.append("  " if line else "")
                line.append(words, self._style(name, row))
            if self.histograms:
                line.append("  " + self.histograms[row].replace(" ", _HOLD))
            lines += [Text(label), _indented(line)]
        if self.more:
            lines.append(Text(self.more, "dim"))
        return Group(*lines)


def _aligned(values: Sequence[float | None], unit: str) -> list[str]:
    """Figures of one column, their decimal points in line."""
    figures = [numbers.shown(value, unit) for value in values]
    most = max((len(figure.decimals) for figure in figures), default=0)
    return [
        figure.text
        + " " * (most - len(figure.decimals) + (1 if most and not figure.decimals else 0))
        for figure in figures
    ]


def _padded(head: str, cells: Sequence[str]) -> tuple[str, list[str]]:
    """A column whose cells end in line; done here because rich drops the blanks at a line's end."""
    width = max(len(head), *(len(cell) for cell in cells), 0) if cells else len(head)
    return head.rjust(width), [cell.rjust(width) for cell in cells]
