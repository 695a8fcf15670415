# SPDX-License-Identifier: Apache-2.0
"""The summary on a terminal: what ``rtgauge show`` prints, and ``rtgauge run`` at its end.

On the path of a sample: the results model becomes text for people; for programs there is --json.
The steps come first, those of an evaluation in a row each, below their chapters. The answer is
last, directly above the prompt. Without a terminal there are no colours and no control
characters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from rtgauge import text as numbers
from rtgauge.report.document.answer import (
    Answer,
    answer_of,
    answer_section,
    in_store,
    limits,
    whole_of,
)
from rtgauge.report.document.answer.data import Data
from rtgauge.report.document.blocks import Block, Callout, Figure, Paragraph, Section, line
from rtgauge.report.document.blocks import Table as Grid
from rtgauge.report.document.contexts import contexts_blocks
from rtgauge.report.document.evidence import bounds_grid, evidence_blocks
from rtgauge.report.pictures import sketch
from rtgauge.report.render import console
from rtgauge.report.render.console import HOLD, indented, printed, safe
from rtgauge.report.results.labels import (
    KNOWN,
    RESULTS,
    UNRESOLVED,
    budget_of,
    capital,
    carried_out,
    chapters,
    ending,
    group_series,
    judged,
    load_name,
    load_text,
    ordinary,
    peak,
    principal,
    quantity_name,
    reached,
    realtime_text,
    representative,
    series_labels,
    step_name,
    step_number,
    tail_percentile,
    target_name,
    unresolved,
    work_text,
    worst,
)
from rtgauge.report.results.points import lacking, prepared
from rtgauge.report.results.published import place_text
from rtgauge.report.results.ratings import rating_text
from rtgauge.report.sets import quantities

__all__ = ["answers", "render", "text"]

ROW_LIMIT: Final = 16
TAIL: Final = "99.9"
LABEL_ROOM: Final = 14  # columns that a label may be folded into; with less it gets its own line
SPARK: Final = 12

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


def render(model: Mapping[str, Any], *, across: bool = True) -> RenderableType:
    """The figures of a results model as something that a rich console prints. ``across``: with what
    its runs have in common side by side."""
    parts: list[RenderableType] = []
    for number, run in enumerate(model["runs"]):
        if parts:
            parts.append(Text())
        parts.extend(_run(run, quantities.within(model, number)))
    if len(model["runs"]) == 1 and (grid := bounds_grid(model)):
        parts += [Text(), *console.render([Grid(grid)])]
    for block in contexts_blocks(model):
        if not isinstance(block, Figure):
            parts += console.render([block])
    tables = quantities.across(model) if across else []
    if tables:
        parts += [Text(), Text(f"{len(model['runs'])} runs side by side", "bold")]
        parts += _side_by_side(tables)
        parts.append(Text(quantities.CAUTION, "dim"))
    return Group(*parts)


def answers(model: Mapping[str, Any], store: str = "", *, together: bool = True) -> RenderableType:
    """The answer of each run; for a single run or a resumed evaluation, one answer and what to do
    next. ``store``: the store to name in printed commands; empty for the default. ``together``:
    with what all runs together prove."""
    parts: list[RenderableType] = [Text(), Rule(style="dim", characters="─")]
    every: list[Block] = []
    if together and len(model["runs"]) > 1 and (found := evidence_blocks(model)):
        every = [Section("All runs together", "all", tuple(found))]
    if (whole := whole_of(model["runs"])) is not None:
        answer = in_store(answer_of(whole), store)
        return Group(*console.render(every), *parts, *console.render(_in_full(answer)))
    targets = [target_name(run) for run in model["runs"]]
    for number, run in enumerate(model["runs"]):
        answer = in_store(answer_of(run), store)
        name = targets[number]
        if targets.count(name) > 1:
            name = capital(quantities.run_name(model["runs"], number))
        alone = len(model["runs"]) == 1
        parts += console.render(_in_full(answer) if alone else _in_short(answer, name))
    return Group(*parts, *console.render(every))


def text(
    model: Mapping[str, Any],
    width: int = 80,
    *,
    color: bool = False,
    encoding: str = "utf-8",
    across: bool = True,
) -> str:
    """Figures and answers as text, by default without control characters, in what the encoding can
    show."""
    both = Group(render(model, across=across), answers(model))
    return printed(both, width, color=color, encoding=encoding)


def _in_full(answer: Answer) -> Iterator[Block]:
    """The blocks of an answer. The cycles are in a line. The steps without results are listed above
    it, once."""
    shown = replace(answer, cycles=(), missing="")
    box, *rest = answer_section(shown, None).blocks
    assert isinstance(box, Callout)
    within, rest = rest[: len(limits(shown))], rest[len(limits(shown)) :]
    cycles = [Paragraph(line(_cycles(answer)))] if answer.cycles else []
    yield replace(box, blocks=(*box.blocks, *cycles, *within))
    yield from rest


def _in_short(answer: Answer, name: str) -> Iterator[Block]:
    said = (line(answer.board), answer.worst, answer.sure, line(answer.audit))
    lines = tuple(Paragraph(one) for one in said if any(span.text for span in one))
    yield Callout(answer.tone, f"{name}: {answer.title}", lines)


def _cycles(answer: Answer) -> str:
    """The cycles that the data support: ``Cycles of 50 µs: exceeded, of 1 ms: supported.``"""
    words = []
    for state, same in itertools.groupby(answer.cycles, key=lambda one: one.state):
        lengths = [numbers.time(one.interval_ns) for one in same]
        ends = lengths if len(lengths) < 2 else [lengths[0], lengths[-1]]
        words.append(f"of {' to '.join(ends)}: {state}")
    return f"Cycles {', '.join(words)}."


def _line(*parts: tuple[str, str]) -> Text:
    line = Text()
    for words, style in parts:
        line.append(words, style or None)
    return line


def _run(run: Mapping[str, Any], tables: Sequence[quantities.Table]) -> list[RenderableType]:
    environment = run["environment"]
    kernel = (environment.get("kernel") or {}).get("release") or ""
    facts = [
        str(kernel),
        realtime_text(environment),
        "running" if run["state"] == "running" else numbers.duration(run["duration_s"]),
    ]
    if not reached(run):
        facts = ["the target could not be reached"]
    title = safe(target_name(run)) + (f" · {safe(run['label'])}" if run["label"] else "")
    parts: list[RenderableType] = [
        _line((title, "bold"), (f"  {safe(', '.join(fact for fact in facts if fact))}", "dim")),
        _line((f"run {safe(run['id'])}", "dim")),
    ]
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
    rows = [_top(run, step) for steps in (whole or {}).values() for step in steps]
    shown = [one for one in rows if one is not None] if whole else run["series"]
    if unresolved(shown, medians=bool(whole)):
        parts += [Text(), Text(f"0 or 0.00  {UNRESOLVED}", "dim")]
    if aside:
        parts.append(Text())
    for step in aside:
        parts.extend(_calibration(run, step))
    parts += _ratings(run)
    if not whole:
        parts += _side_by_side(tables)
    if preparation := prepared(run):
        parts += [Text(), Text(safe(capital(preparation.text)))]
        if preparation.note:
            parts.append(indented(Text(safe(preparation.note))))
    return parts


def _chapters(run: Mapping[str, Any], parts: Mapping[str, Sequence[Any]]) -> list[RenderableType]:
    """An evaluation: its chapters, and each step in a row. What steps have in common is below."""
    rows = [
        (name, [_row(run, step) for step in steps if step["state"] != "skipped"])
        for name, steps in parts.items()
    ]
    found: list[RenderableType] = [Text(), _Steps(rows)]
    every = [step for steps in parts.values() for step in steps]
    below: list[RenderableType] = []
    for why in dict.fromkeys(_why(step) for step in every):
        if why:
            below.append(_incomplete(run, [step for step in every if _why(step) == why]))
    for words in dict.fromkeys(ordinary(run, step) for step in every):
        same = [step for step in every if ordinary(run, step) == words]
        if words:
            below.append(_line((f"{_where(run, same)}: ", ""), (safe(words), _STYLES["error"])))
    for step in every:
        below += _trouble(run, step)
    return [*found, *([Text(), *below] if below else [])]


@dataclass(frozen=True)
class _Row:
    """A step in a row: the largest sample of its ``principal`` quantity, its tests and verdicts."""

    name: str
    quantity: str
    median: str
    max: str
    tags: Text


@dataclass(frozen=True)
class _Steps:
    """Chapters with their steps, in as many columns as there is room for."""

    chapters: Sequence[tuple[str, Sequence[_Row]]]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= 72
        rows = [row for _, steps in self.chapters for row in steps]
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        heads = [""]
        for head, cells, shown in (
            ("", [row.quantity for row in rows], wide),
            ("median", [row.median for row in rows], wide),
            ("max", [row.max for row in rows], True),
            ("", [row.tags.plain for row in rows], True),
        ):
            if shown:
                width = max([len(head), *map(len, cells)])
                justify: Literal["left", "right"] = "right" if head else "left"
                # the counts of a row that are too long for it continue below
                counts = len(heads) > 1 and not head
                table.add_column(width=min(width, 20), justify=justify, no_wrap=not counts)
                heads.append(head)
        table.add_row(*(Text(head, "dim") for head in heads))
        for name, steps in self.chapters:
            if steps:
                table.add_row(Text(safe(name), "bold"), *[""] * (len(heads) - 1))
            for row in steps:
                cells = [row.quantity, row.median] if wide else []
                table.add_row(row.name, *cells, Text(row.max, "bold"), row.tags)
        yield table
        if wide:
            yield Text("The median is that of the series with the max.", "dim")


def _ratings(run: Mapping[str, Any]) -> list[RenderableType]:
    if not run["ratings"]:
        return []
    found: list[RenderableType] = [Text(), Text("Ratings of the evaluator", "bold")]
    for one in run["ratings"]:
        words = f"{one['subject']}: {rating_text(one['rating'])}"
        words += f" ({one['reason']})" if one["reason"] else ""
        found.append(indented(Text(safe(words))))
    return found


def _places(run: Mapping[str, Any], step: Mapping[str, Any]) -> list[Text]:
    return [Text(safe(place_text(one, run)), "dim") for one in step["places"]]


def _title(run: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    name = load_name(step["load"])
    load = "" if name == "idle" else f", {name}"
    return f"{step_number(step):2} {safe(step_name(run, step))}{safe(load)}"


def _top(run: Mapping[str, Any], step: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The series that stands for a step: that with the max of its ``principal`` quantity."""
    places = [place for place, one in enumerate(run["series"]) if one["step"] == step["step"]]
    found = principal(run["series"], places, step)
    return None if found is None else run["series"][found[1]]


def _row(run: Mapping[str, Any], step: Mapping[str, Any]) -> _Row:
    quantity = median = most = ""
    if (top := _top(run, step)) is not None:
        quantity = safe(top["name"])
        median = safe(numbers.shown(top["percentiles"].get("50"), top["unit"]).full)
        budget = budget_of(step, top["unit"])
        most = safe(numbers.shown(peak(top), top["unit"], budget).full)
    tags = Text()
    results = [one["result"] for one in judged(run, step["step"])]
    for result in ("fail", "inconclusive", KNOWN, "pass", "skipped"):
        if number := results.count(result):
            word = "known" if result == KNOWN else result
            tags.append(f"{' ' if tags else ''}{number}{HOLD}{word}", _STYLES[result])
    missed = lacking([one for one in run["series"] if one["step"] == step["step"]])
    if step["state"] != "complete":
        tags = Text(step["state"], _STYLES[step["state"]])
    elif missed:
        tags.append(f"{' ' if tags else ''}{safe(missed).replace(' ', HOLD)}", _STYLES["fail"])
    return _Row(_title(run, step), quantity, median, most, tags)


def _why(step: Mapping[str, Any]) -> str:
    """State, reason and remedy of a step that is not complete; empty for one that is."""
    if step["state"] == "complete":
        return ""
    return " ".join(ending(step))


def _where(run: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> str:
    """Which steps: ``19 to 24 (irq-latency, …)``."""
    names = list(dict.fromkeys(safe(step_name(run, one)) for one in steps))
    places = [step_number(one) for one in steps]
    if len(steps) == 1:
        return f"{places[0]} {names[0]}"
    words = []
    for _, group in itertools.groupby(enumerate(sorted(places)), key=lambda one: one[1] - one[0]):
        same = [place for _, place in group]
        words.append(f"{same[0]} to {same[-1]}" if len(same) > 1 else f"{same[0]}")
    more = ", …" if len(names) > 3 else ""
    return f"{', '.join(words)} ({', '.join(names[:3])}{more})"


def _incomplete(run: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Why steps are not complete: the reason is the same for all of them."""
    state, *said = ending(steps[0])
    words = "; ".join(part for part in said if part)
    shown = Text(state, _STYLES[state])
    return Text.assemble(f"{_where(run, steps)}: ", shown, f": {safe(words)}" if words else "")


def _trouble(run: Mapping[str, Any], step: Mapping[str, Any]) -> list[RenderableType]:
    """What the row of a step of an evaluation does not show: what was lost and what failed."""
    where = f"{_where(run, [step])}: "
    severe = ("fail", "inconclusive", KNOWN)
    bad = [one for one in _verdicts(run, step, remedies=False) if one.plain.startswith(severe)]
    found = [*_messages(run, step), *_counters(step), *bad]
    return [Text.assemble(where, one) for one in found]


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
            ("mean", _aligned([row.mean for row in rows], unit)),
            ("max", _aligned([row.max for row in rows], unit)),
        ]
        if any(row.missed for row in rows):
            columns.append(("missed", [numbers.count(row.missed) for row in rows]))
        if any(row.lost for row in rows):
            columns.append(("lost", [numbers.count(row.lost) for row in rows]))
        small = [sketch.blocks(row.histogram, ends, SPARK) for row in rows]
        table = _Figures("side by side", [safe(row.what) for row in rows], columns, small)
        parts += [Text(), Text(safe(quantities.title(found)), "bold"), table]
    return parts


def _calibration(run: Mapping[str, Any], step: Mapping[str, Any]) -> list[RenderableType]:
    """A calibration in a line for each quantity, and its problems."""
    parts: list[RenderableType] = []
    name = f"{step_number(step)} {safe(step_name(run, step))}"
    places = [place for place, one in enumerate(run["series"]) if one["step"] == step["step"]]
    for members in group_series(run["series"], places):
        series = [run["series"][place] for place in members]
        at = worst(series)
        if at is None:
            continue
        unit = series[at]["unit"]
        medians = [one["percentiles"]["50"] for one in series if "50" in one["percentiles"]]
        words = f"{safe(series[0]['name'])} max {numbers.shown(peak(series[at]), unit).full}"
        if medians:
            words += ", median up to " if len(medians) > 1 else ", median "
            words += numbers.shown(max(medians), unit).full
        parts.append(_line((f"{name}  ", "bold"), (f"calibration: {safe(words)}", "")))
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
                parts.append(indented(Text(safe(words), _STYLES.get(step["state"], ""))))
    parts += [indented(line) for line in _messages(run, step)]
    parts += [indented(line) for line in _counters(step)]
    return parts + [indented(line) for line in _verdicts(run, step)]


def _lacking(run: Mapping[str, Any], step: Mapping[str, Any]) -> bool:
    """Whether a percentile is missing in the tables of a step."""
    members = [place for place, one in enumerate(run["series"]) if one["step"] == step["step"]]
    for places in group_series(run["series"], members):
        series = [run["series"][place] for place in places]
        if _nothing(step, series):
            continue
        tables = [one["percentiles"] for one in series]
        name = tail_percentile(tables) or TAIL
        if any(name not in table for table in tables):
            return True
    return False


def _is_advised(run: Mapping[str, Any]) -> bool:
    """Whether the steps have one remedy, with which the answer below begins."""
    data = Data(run)
    return data.failed and len({step["remedy"] for step in data.measured}) == 1


def _nothing(step: Mapping[str, Any], series: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a table of a step that failed would be empty."""
    counts = ("count", "missed", "lost", "unanswered")
    return step["state"] == "failed" and not any(one[name] for one in series for name in counts)


def _threads(series: Sequence[Mapping[str, Any]]) -> str:
    """Policies, priorities and intervals of measuring threads: ``SCHED_FIFO 80, interval 1 ms``."""
    found = []
    for policy in sorted({one["policy"] for one in series} - {""}):
        priorities = {one["priority"] for one in series if one["policy"] == policy} - {0}
        found.append(f"SCHED_{policy.upper()} {_range(priorities, str)}".rstrip())
    lengths = {one["interval_ns"] for one in series if one["interval_ns"] > 0}
    return ", ".join([*found, *([f"interval {_range(lengths, numbers.time)}"] if lengths else [])])


def _range(values: Set[int], shown: Callable[[int], str]) -> str:
    ends = sorted({min(values), max(values)}) if values else []
    return " to ".join(map(shown, ends))


def _step(run: Mapping[str, Any], step: Mapping[str, Any]) -> list[RenderableType]:
    work = work_text(step["load"])
    head = [(f"{step_number(step)} {safe(step_name(run, step))}", "bold")]
    head.append((f"  {safe(load_text(step['load']))}", ""))
    if work:
        head.append((f", {safe(work)}", "dim"))
    if threads := _threads([one for one in run["series"] if one["step"] == step["step"]]):
        head.append((f", {safe(threads)}", _STYLES["error"] if ordinary(run, step) else "dim"))
    if step["state"] != "complete":
        head.append((f"  {step['state']}", _STYLES[step["state"]]))
    parts: list[RenderableType] = [_line(*head)]
    if command := step["load"].get("command"):
        parts.append(indented(Text(f"load command: {safe(command)}", "dim")))
    for words in (step["reason"], "" if _is_advised(run) else step["remedy"]):
        if words:
            parts.append(indented(Text(safe(words), _STYLES.get(step["state"], ""))))
    places = [place for place, one in enumerate(run["series"]) if one["step"] == step["step"]]
    for members in group_series(run["series"], places):
        series = [run["series"][place] for place in members]
        if _nothing(step, series):
            continue
        labels = series_labels(series)
        name = quantity_name(run["series"], members, places)
        parts.append(_table(series, labels, name, budget_of(step, series[0]["unit"])))
    if words := ordinary(run, step):
        parts.append(indented(Text(f"{words[0].upper()}{words[1:]}.", _STYLES["error"])))
    for observation in step["observations"]:
        if observation["rule"] == "disturbed":
            parts.append(indented(Text(safe(observation["text"]), _STYLES["warning"])))
    parts += [indented(line) for line in _messages(run, step)]
    parts += [indented(line) for line in _counters(step)]
    parts += [indented(line) for line in _verdicts(run, step)]
    return parts + [indented(line) for line in _places(run, step)]


def _messages(run: Mapping[str, Any], step: Mapping[str, Any]) -> list[Text]:
    """What the agent reported during a step that left a series without samples, such as threads
    that got no CPU time. Not what the reason of the step already says."""
    if all(one["count"] for one in run["series"] if one["step"] == step["step"]):
        return []
    texts = [
        event["text"]
        for event in step["events"]
        if event["event"] == "message" and event["time_s"] > 0 and event["text"] != step["reason"]
    ]
    return [Text(safe(one), _STYLES["warning"]) for one in dict.fromkeys(texts)]


def _counters(step: Mapping[str, Any]) -> list[Text]:
    """Losses in the stream, which no series records."""
    stream = step["stream"]
    if stream is None:
        return []
    lines = []
    if stream["lost_records"]:
        lines.append(f"{numbers.plural(stream['lost_records'], 'record')} of the stream lost")
    ended = step["state"] != "running"  # the end of another one is still being written
    if ended and stream["dropped_bytes"]:
        lines.append(f"{numbers.plural(stream['dropped_bytes'], 'byte')} of the stream dropped")
    if ended and not stream["complete"]:
        lines.append(f"the stream ends early: {stream['reason'] or 'it has no trailer'}")
    return [Text(safe(line), "yellow") for line in lines]


def _verdicts(
    run: Mapping[str, Any], step: Mapping[str, Any], *, remedies: bool = True
) -> list[Text]:
    """The verdicts and tests, equal ones together, each with its evidence and remedy."""
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
                shown = f"all {numbers.count(len(whose))} series"
            line = _line((f"{result} ", _STYLES[result]), (safe(rule), ""))
            if shown:
                line.append(f" ({safe(shown)})")
            evidence, remedy = representative(same, run["series"], names)
            line.append(": " + safe(evidence))
            if remedy and remedies:
                line.append("; " + safe(remedy), "dim")
            lines.append(line)
    return lines


def _table(
    series: Sequence[Mapping[str, Any]], labels: Sequence[str], quantity: str, budget: int | None
) -> _Figures:
    unit = series[0]["unit"]
    shown_unit = safe(numbers.unit_name(unit))
    name = safe(quantity) + (f" ({shown_unit})" if shown_unit else "")
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
    columns.append(("max", _aligned([peak(series[at]) for at in order], unit, budget)))
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
    return _Figures(name, [safe(labels[at]) for at in order], columns, (), losses, more)


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
                words = safe(f"{name} {cells[row].strip()}").replace(" ", HOLD)
                line.append("  " if line else "")
                line.append(words, self._style(name, row))
            if self.histograms:
                line.append("  " + self.histograms[row].replace(" ", HOLD))
            lines += [Text(label), indented(line)]
        if self.more:
            lines.append(Text(self.more, "dim"))
        return Group(*lines)


def _aligned(values: Sequence[float | None], unit: str, limit: int | None = None) -> list[str]:
    """Figures of one column with aligned decimal points, none of them rounded to ``limit``."""
    figures = [numbers.shown(value, unit, limit) for value in values]
    most = max((len(figure.decimals) for figure in figures), default=0)
    return [
        figure.text
        + " " * (most - len(figure.decimals) + (1 if most and not figure.decimals else 0))
        for figure in figures
    ]


def _padded(head: str, cells: Sequence[str]) -> tuple[str, list[str]]:
    """A column with right-aligned cells. Padded here because rich drops blanks at the end of a
    line."""
    width = max(len(head), *(len(cell) for cell in cells), 0) if cells else len(head)
    return head.rjust(width), [cell.rjust(width) for cell in cells]
