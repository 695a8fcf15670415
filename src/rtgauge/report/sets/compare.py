# SPDX-License-Identifier: Apache-2.0
"""Sets of runs side by side: the comparison document that ``rtgauge compare`` and reports share.

A set is one run, or several of one kind: those of a target in a study, those of a label. A
comparison covers what was measured in the same way: the same quantity in the same context, under
the same load, with the same interval, priority and method, on clocks of the same kind. Other
quantities are listed with the difference. Figures of several CPUs and runs of a set are combined,
next to those of each run. Nothing is ranked, and no significance is claimed.
docs/formats/results.md explains the document.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from rtgauge import stats
from rtgauge import text as numbers
from rtgauge.errors import UsageError
from rtgauge.facts import printable
from rtgauge.report.results import gather, schemas
from rtgauge.report.results.background import CHECKS
from rtgauge.report.results.labels import (
    LENGTHS,
    highest,
    load_text,
    ordinary_policies,
    peak,
    reached,
    realtime_text,
    target_name,
)
from rtgauge.report.results.model import Analysis, Document
from rtgauge.report.results.published import published_cost
from rtgauge.report.sets.decide import WITHIN, decisions, named, resolution
from rtgauge.report.sets.work import work_rates
from rtgauge.stats import Counts
from rtgauge.units import parse_duration

__all__ = [
    "FIGURES",
    "Claims",
    "Compared",
    "RunSet",
    "changed",
    "compare",
    "in_order",
    "is_one_of",
    "letter",
    "load_of",
    "method_text",
    "note",
    "quantities",
    "refusal",
    "row_name",
    "set_facts",
    "sets_by_target",
    "unreached",
    "validate",
    "where",
]

Run: TypeAlias = Mapping[str, Any]
Method: TypeAlias = tuple[tuple[str, str], ...]

CONTEXTS: Final = ("irq", "softirq", "threaded", "workqueue", "kernel", "user")
FIGURES: Final = ("min", "50", "tail", "max")
"""The figures that are compared, by their names in the document; ``tail`` is the percentile that
the quantity names."""

TAIL_MAX: Final = 99.9
UNKNOWN: Final = "unknown"

# Options for length and placement, those that the series itself records, and a fact of the system.
_NO_METHOD: Final = (*LENGTHS, "cpu", "context", "priority", "stop-above", "xenomai")
# Parts of the environment that differ between any two runs.
_VOLATILE: Final = ("settings", "host", "privileges", "findings")
_PASSING: Final = (
    "memory available bytes",
    "virtualisation steal",
    "kernel version",
    "boot id",
    "lab boot",
    "uptime s",
    "load average",
)
# Fact -> facts that only repeat its difference: names, or prefixes ending in "-".
_REPEATING: Final = (
    (
        "kernel",
        (
            "kernel build",
            "lab board",
            "lab kernel",
            "lab kernel digest",
            "lab initramfs digest",
            "lab modules digest",
            "lab package linux-",
        ),
    ),
    ("real-time model", ("kernel preemption", "kernel preemption dynamic")),
    ("kernel command line", ("lab kernel arguments",)),
)
_CHOICES: Final = re.compile(r"\A(?:[\w-]+ )*\[([\w-]+)\](?: [\w-]+)*\Z")
_TEXT: Final = 160


@dataclass(frozen=True)
class RunSet:
    """Runs that are taken together: their places among the runs of the report."""

    name: str
    places: tuple[int, ...]


@dataclass(frozen=True)
class Claims:
    """What a comparison is to decide. ``within``: the margin up to which ratios are equivalent.
    ``primary``: words for the primary quantity (``decide.named``); empty: the tail of the outermost
    context under load."""

    within: float = WITHIN
    primary: str = ""


@dataclass(frozen=True)
class Compared:
    """The document, and the table of values behind each row of its quantities."""

    document: Document
    tables: tuple[tuple[Counts, ...], ...]


def letter(at: int) -> str:
    """The short name of the set at a place: A, B, …, Z, A2, …"""
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[at % 26] + (str(at // 26 + 1) if at >= 26 else "")


def sets_by_target(runs: Sequence[Run]) -> list[RunSet]:
    """A set for each target, in the order of their study."""
    names: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        names.setdefault(str(run["target"]), []).append(place)
    order = in_order(names, runs[0]["plan"]) if runs else []
    return [RunSet(target_name(runs[names[one][0]]), tuple(names[one])) for one in order]


def in_order(targets: Iterable[str], plan: Mapping[str, Any]) -> list[str]:
    """Targets in the order of a plan, because the runs of a study have a random one. Others come
    last, in their own order."""
    told = plan.get("targets")
    named = told if isinstance(told, list) else []
    return sorted(targets, key=lambda one: named.index(one) if one in named else len(named))


def _lab(run: Run) -> Mapping[str, Any]:
    found = run["environment"].get("lab")
    return found if isinstance(found, Mapping) else {}


def _mode(run: Run) -> str:
    """``counted``, ``plain``, or nothing for a machine that is not emulated."""
    return str(_lab(run).get("mode") or "")


def _boot(run: Run) -> tuple[str, str]:
    """What tells the boot of a run from others: every counted boot of one image has the same boot
    id, and a name that the host gave it."""
    known = str(run["boot_id"] or "")
    return (known, str(_lab(run).get("boot") or "")) if known else (str(run["id"]), "")


def _kernel(run: Run) -> tuple[str, str]:
    kernel = run["environment"].get("kernel") or {}
    return str(kernel.get("release") or UNKNOWN), str(run["environment"]["realtime"])


def refusal(runs: Sequence[Run], sets: Sequence[RunSet]) -> UsageError | None:
    """Why these sets must not be compared; None if they may be. Different kernels must not be
    compared if the emulated lab measured one of them in real time, where the load of the host
    determines latencies."""
    kernels = [{_kernel(runs[place]) for place in _known(runs, one)} for one in sets]
    kernels = [one for one in kernels if one]
    if all(one == kernels[0] for one in kernels):
        return None
    measured = [runs[place] for one in sets for place in _known(runs, one)]
    plain = [run for run in measured if _mode(run) == "plain"]
    if not plain:
        return None
    return UsageError(
        f"run {plain[0]['id'][:13]} was measured in the lab's plain mode, in which the load of the "
        "host determines latencies, so the kernels cannot be compared",
        "run the study in counted mode: rtgauge lab run PLAN",
    )


# --- what belongs together -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Base:
    measurement: str
    name: str
    unit: str
    context: str
    load: tuple[str, str, str]

    def order(self, seen: Mapping[_Base, int]) -> tuple[Any, ...]:
        known = CONTEXTS.index(self.context) if self.context in CONTEXTS else len(CONTEXTS)
        idle = self.load[0] != "idle"
        first = min(
            place
            for other, place in seen.items()
            if (other.measurement, other.name) == (self.measurement, self.name)
        )
        loads = min(place for other, place in seen.items() if other.load == self.load)
        return first, idle, loads, known, seen[self]


_Member: TypeAlias = tuple[int, int]
"""The place of a run, and of a series in it."""


def _load(step: Mapping[str, Any]) -> tuple[str, str, str]:
    load = step["load"]
    return str(load["name"]), str(load.get("command") or ""), str(load.get("disturb") or "")


def _steps(run: Run) -> dict[int, Mapping[str, Any]]:
    return {step["step"]: step for step in run["steps"] if step["role"] == "measurement"}


def _step(runs: Sequence[Run], number: int, at: int) -> Mapping[str, Any]:
    """The step of a series of a run."""
    return _steps(runs[number])[runs[number]["series"][at]["step"]]


def _common(runs: Sequence[Run], places: Iterable[int]) -> dict[str, set[str]]:
    """Measurement -> the options that all of its steps with series name. An older agent did not
    know the others. A step that was not carried out names only what was asked for."""
    found: dict[str, set[str]] = {}
    for place in places:
        measured = {one["step"] for one in runs[place]["series"]}
        for number, step in _steps(runs[place]).items():
            names = set(step["parameters"])
            if names and number in measured:
                found.setdefault(step["measurement"], names).intersection_update(names)
    return found


_CLOCKS: Final = {"": "time", "plain": "time of the host", "counted": "instructions as time"}


def _method(run: Run, step: Mapping[str, Any], one: Mapping[str, Any], known: set[str]) -> Method:
    """How a series was measured. Another value of any of these facts makes another quantity."""
    labels = sorted(one["labels"].items())
    told = set(one["labels"]) | set(_NO_METHOD)
    facts = [(str(name), str(value)) for name, value in labels]
    interval = one["interval_ns"]
    facts.append(("interval", numbers.shown(interval, "ns").full if interval else "none"))
    facts.append(("policy", f"SCHED_{one['policy'].upper()}" if one["policy"] else ""))
    facts.append(("priority", str(one["priority"]) if one["policy"] in ("fifo", "rr") else ""))
    facts += [
        (name, str(value))
        for name, value in sorted(step["parameters"].items())
        if name in known and name not in told and name != "interval"
    ]
    facts.append(("clock", _CLOCKS.get(_mode(run), "time")))
    return tuple(facts)


def is_one_of(quantity: Mapping[str, Any], run: Run, one: Mapping[str, Any]) -> bool:
    """Whether a series of a run is one of a quantity, as far as the series and its load tell:
    a step may have several, which differ in their labels or interval."""
    step = _steps(run).get(one["step"])
    if step is None or step["load"]["name"] != quantity["load"]["name"]:
        return False
    facts = dict(_method(run, step, one, set()))
    return all(one[key] == quantity[key] for key in ("measurement", "name", "context")) and all(
        quantity["method"].get(name, "") == value for name, value in facts.items()
    )


Grouped: TypeAlias = dict[_Base, dict[Method, dict[int, list[_Member]]]]


def _grouped(runs: Sequence[Run], sets: Sequence[RunSet]) -> Grouped:
    """Quantity -> method -> set -> its series."""
    known = _common(runs, [place for one in sets for place in one.places])
    found: Grouped = {}
    for number, chosen in enumerate(sets):
        for place in chosen.places:
            run = runs[place]
            steps = _steps(run)
            for at, one in enumerate(run["series"]):
                step = steps.get(one["step"])
                if step is None or not (one["count"] or one["max_at_least"]):
                    continue
                base = _Base(
                    one["measurement"], one["name"], one["unit"], one["context"], _load(step)
                )
                method = _method(run, step, one, known.get(one["measurement"], set()))
                members = found.setdefault(base, {}).setdefault(method, {})
                members.setdefault(number, []).append((place, at))
    return found


def compare(analysis: Analysis, sets: Sequence[RunSet], claims: Claims = Claims()) -> Compared:
    """The sets side by side. The others are compared with the first one.

    Raises UsageError where that would mislead (``refusal``), with fewer than two sets, or without
    the primary quantity that ``claims`` name.
    """
    runs = analysis.model["runs"]
    if len(sets) < 2:
        raise UsageError(
            "a comparison needs at least two sets of runs",
            "name two runs, labels or STUDY@TARGET, or one study of several targets",
        )
    refused = refusal(runs, sets)
    if refused is not None:
        raise refused
    grouped = _grouped(runs, sets)
    seen = {base: place for place, base in enumerate(grouped)}
    quantities: list[Document] = []
    tables: list[tuple[Counts, ...]] = []
    apart: list[Document] = []
    absent: list[Document] = []
    for base in sorted(grouped, key=lambda base: base.order(seen)):
        methods = grouped[base]
        shared = [method for method, members in methods.items() if len(members) > 1]
        told = _told(shared or list(methods))
        for method in shared:
            quantity, counts = _quantity(analysis, sets, base, method, methods[method], told)
            quantities.append(quantity)
            tables.append(counts)
        single = [(m, next(iter(methods[m]))) for m in methods if m not in shared]
        apart += _apart(runs, sets, base, single)
        absent += _absent(runs, sets, base, single, methods)
    absent += _nowhere(analysis, sets, grouped)
    primary = named(quantities, claims.primary) if claims.primary else None
    document = {
        "format": "rtgauge-comparison",
        "version": 1,
        "sets": [_set(runs, one, at) for at, one in enumerate(sets)],
        "differences": _differences(runs, sets),
        "quantities": quantities,
        "apart": apart,
        "absent": absent,
        "work": work_rates(runs, [one.places for one in sets]),
        "published_work": published_cost(
            [runs[place]["environment"]["realtime"] for one in sets for place in _known(runs, one)]
        ),
        "within": claims.within,
        "comparisons": decisions(runs, quantities, claims.within, primary),
    }
    document["note"] = note(document)
    return Compared(document, tuple(tables))


def quantities(analysis: Analysis, chosen: RunSet) -> list[Document]:
    """The quantities of one set, as a comparison has them: a row with the figures of each run."""
    grouped = _grouped(analysis.model["runs"], [chosen])
    return [
        _quantity(analysis, [chosen], base, method, members, _told(list(methods)))[0]
        for base, methods in grouped.items()
        for method, members in methods.items()
    ]


def changed(runs: Sequence[Run], before: RunSet, after: RunSet) -> list[Document]:
    """The differences of the environments of two sets of runs, the kernel first, with both
    texts."""
    return _differences(runs, [before, after])


def _told(methods: Sequence[Method]) -> list[str]:
    """The facts in which several methods of one quantity differ."""
    names = list(dict.fromkeys(name for method in methods for name, _ in method))
    return [name for name in names if len({dict(method).get(name) for method in methods}) > 1]


def _describe(base: _Base) -> Document:
    name, command, disturb = base.load
    load = {"name": name}
    if command:
        load["command"] = command
    if disturb:
        load["disturb"] = disturb
    return {
        "measurement": base.measurement,
        "name": base.name,
        "unit": base.unit,
        "context": base.context,
        "load": load,
    }


def _tail(tables: Sequence[Counts]) -> str | None:
    """The percentile that stands for the tail: the highest up to 99.9 for which every run has
    enough samples, because a verdict is about runs. None without a percentile above the median."""
    carried = [set(stats.percentile_names(table.count)) for table in tables]
    names = {name for name in set.intersection(*carried) if 50 < float(name) <= TAIL_MAX}
    return max(names, key=float, default=None)


def _quantity(
    analysis: Analysis,
    sets: Sequence[RunSet],
    base: _Base,
    method: Method,
    members: Mapping[int, Sequence[_Member]],
    told: Sequence[str],
) -> tuple[Document, tuple[Counts, ...]]:
    present = [number for number in range(len(sets)) if number in members]
    counts = tuple(_counts(analysis, members[number]) for number in present)
    each = [
        [one for one in own if one[0] == run]
        for own in members.values()
        for run in dict.fromkeys(run for run, _ in own)
    ]
    runs = analysis.model["runs"]
    # Only complete runs are judged.
    whole = [o for o in each if _complete(runs[o[0][0]], [runs[r]["series"][at] for r, at in o])]
    tail = _tail([_counts(analysis, own) for own in whole or each])
    budget = _budget(analysis, [one for own in members.values() for one in own])
    rows = [_row(analysis, number, members[number], tail, budget) for number in present]
    facts = dict(method)
    first = rows[0]["figures"] if rows[0]["set"] == 0 else None
    for row in rows:
        row["ratio"] = None if first is None or row["set"] == 0 else _ratio(row["figures"], first)
        if row["ratio"] is not None:
            row["ratio"]["max"] = None  # one sample on either side: a ratio would rank them
    return {
        **_describe(base),
        "crowded": any("others" in _step(runs, *one)["load"] for own in each for one in own),
        "method": {name: value for name, value in facts.items() if value},
        "told": [facts[name] for name in told if facts.get(name)],
        "tail": tail,
        "budget": budget,
        "rows": rows,
    }, counts


def _ratio(figures: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, float | None]:
    """Each figure as a multiple of the first set's; null where that has no meaning."""
    return {
        name: figures[name] / first[name]
        if figures[name] is not None
        and first[name] is not None
        and min(figures[name], first[name]) > 0
        and not any(isinstance(one[name], numbers.AtLeast) for one in (figures, first))
        else None
        for name in FIGURES
    }


def _counts(analysis: Analysis, members: Sequence[_Member]) -> Counts:
    return Counts.merged([one.counts for one in _figures_of(analysis, members)])


def _figures_of(analysis: Analysis, members: Sequence[_Member]) -> list[gather.Figures]:
    return [analysis.figures[run][analysis.places[run][at]] for run, at in members]


def _figures(analysis: Analysis, members: Sequence[_Member], tail: str | None) -> dict[str, Any]:
    """The figures of several series together. Percentiles cover the samples that were kept, the
    missed periods and the events without an answer. What has an unknown value counts as larger: the
    max is then a lower limit."""
    series = [analysis.model["runs"][run]["series"][at] for run, at in members]
    figures = _figures_of(analysis, members)
    shares = gather.percentiles(figures, corrected=True)
    top = highest(peak(one) for one in series)
    if top is not None and any(one.unseen for one in figures):
        top = numbers.AtLeast(top)
    return {
        "min": min((one["min"] for one in series if one["min"] is not None), default=None),
        "50": shares.get("50"),
        "tail": None if tail is None else shares.get(tail),
        "max": top,
    }


def _budget(analysis: Analysis, members: Sequence[_Member]) -> int | None:
    """The budget that all these series were measured against, in their unit; None without one."""
    budgets: set[int | None] = set()
    for run, at in members:
        one = analysis.model["runs"][run]["series"][at]
        step = _steps(analysis.model["runs"][run])[one["step"]]
        asked = step["budget"] if one["unit"] == "ns" else None
        budgets.add(int(asked["budget_ns"]) if asked else None)
    return budgets.pop() if len(budgets) == 1 else None


def _over(analysis: Analysis, members: Sequence[_Member], budget: int | None) -> int | None:
    """The number of samples and missed periods over the budget, and of events without an answer."""
    if budget is None:
        return None
    series = [analysis.model["runs"][run]["series"][at] for run, at in members]
    figures = _figures_of(analysis, members)
    return (
        sum(one.all_due.exceeding(budget) + one.lost_over(budget) for one in figures)
        - sum(one.all_due.unsure(budget) for one in figures)
        + sum(int(one["unanswered"]) for one in series)
        + _starved(analysis, members, budget)
    )


def _starved(analysis: Analysis, members: Sequence[_Member], budget: int | None) -> int:
    """The number of missed periods over the budget of threads that got no CPU time until the
    stop."""
    if budget is None:
        return 0
    return sum(
        gather.starved_over(
            analysis.figures[run][analysis.places[run][at]].starved_ns,
            analysis.model["runs"][run]["series"][at]["interval_ns"],
            budget,
        )
        for run, at in members
    )


def _unknown(analysis: Analysis, members: Sequence[_Member], budget: int | None) -> int:
    """The number of samples and missed periods that may exceed the budget, or without a budget the
    maximum."""
    figures = _figures_of(analysis, members)
    if budget is None:
        return sum(one.unseen for one in figures)
    seen = sum(one.lost_over(budget) + one.lost_within(budget) for one in figures)
    unknown = sum(one.unknown + one.lost + one.all_due.unsure(budget) for one in figures)
    return unknown - seen - _starved(analysis, members, budget)


def _short_waits(analysis: Analysis, members: Sequence[_Member], budget: int | None) -> int:
    """The number of events without an answer that were not waited for as long as the budget."""
    if budget is None:
        return 0
    figures = _figures_of(analysis, members)
    open_ = [one.unanswered for one in figures if one.unanswered]
    return sum(one.count - one.exceeding(budget - 1) for one in open_)


def _resolution_ns(analysis: Analysis, members: Sequence[_Member], counts: Counts) -> int:
    """The resolution of the values, or the width of the cells of a printed histogram."""
    hz = max(analysis.counter_hz(*one) for one in members)
    found = resolution(counts, hz)
    for one in members:
        step = _step(analysis.model["runs"], *one)
        found = max(found, parse_duration(step["parameters"].get("cell", "0ns")))
    return found


def _row(
    analysis: Analysis,
    number: int,
    members: Sequence[_Member],
    tail: str | None,
    budget: int | None,
) -> Document:
    runs = analysis.model["runs"]
    series = [runs[run]["series"][at] for run, at in members]
    each = []
    for run in dict.fromkeys(run for run, _ in members):
        own = [one for one in members if one[0] == run]
        mine = [runs[run]["series"][at] for _, at in own]
        counts = _counts(analysis, own)
        each.append(
            {
                "run": runs[run]["id"],
                "count": sum(one["count"] for one in mine),
                "figures": _figures(analysis, own, tail),
                "over": _over(analysis, own, budget),
                "missed": sum(one["missed"] for one in mine),
                "unknown": _unknown(analysis, own, budget),
                "short_waits": _short_waits(analysis, own, budget),
                "resolution_ns": _resolution_ns(analysis, own, counts),
                "bucket": float(counts.resolution),
                "complete": _complete(runs[run], mine),
            }
        )
    return {
        "set": number,
        "series": len(members),
        "count": sum(one["count"] for one in series),
        "figures": _figures(analysis, members, tail),
        "over": _over(analysis, members, budget),
        "missed": sum(one["missed"] for one in series),
        "lost": sum(one["lost"] for one in series),
        "ratio": None,
        "marks": _marks(runs, members),
        "runs": each,
    }


def _complete(run: Run, series: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the steps of these series of a run are complete."""
    steps = _steps(run)
    return all(steps[one["step"]]["state"] == "complete" for one in series)


def _marks(runs: Sequence[Run], members: Sequence[_Member]) -> list[str]:
    """Why the figures may not be those of the system."""
    marks: dict[str, None] = {}
    for place, at in members:
        run, step = runs[place], _step(runs, place, at)
        if run["series"][at]["unanswered"]:
            marks["events without an answer: the maximum is a lower limit"] = None
        elif run["series"][at]["max_at_least"] is not None:
            marks["missed periods later than all samples: the maximum is a lower limit"] = None
        if run["series"][at]["lost"]:
            marks["samples were lost"] = None
        if step["state"] == "failed":
            marks["invalid: the step failed"] = None
        elif step["state"] != "complete":
            marks[str(step["state"])] = None
        stream = step["stream"]
        if stream is not None and (stream["lost_records"] or stream["dropped_bytes"]):
            marks["part of the stream was lost"] = None
        if any(event["event"] == "setting" for event in step["events"]):
            marks["disturbed: a setting changed during the step"] = None
        if ordinary_policies(run, step):
            marks["no real-time priority"] = None
        for finding in run["findings"]:
            if finding["check"] in CHECKS and finding["level"] in ("warning", "error"):
                marks[f"disturbed: {finding['check']}"] = None
    return list(marks)


# --- what is not compared ---------------------------------------------------------------------


def _apart(
    runs: Sequence[Run], sets: Sequence[RunSet], base: _Base, single: Sequence[tuple[Method, int]]
) -> list[Document]:
    """Series of one quantity that two sets measured in different ways."""
    found = []
    for at, (method, number) in enumerate(single):
        for other, whose in single[at + 1 :]:
            if whose == number:
                continue
            facts, others = dict(method), dict(other)
            names = [name for name in {**facts, **others} if facts.get(name) != others.get(name)]
            reason = ", ".join(
                f"{name} {facts.get(name) or 'none'} against {others.get(name) or 'none'}"
                for name in names
            )
            both = [runs[place] for at in (number, whose) for place in sets[at].places]
            remedy = ""
            if "clock" in names:
                remedy = _same_clock(both)
            elif "method" in names and base.context == "user":
                remedy = _same_task({facts.get("method", ""), others.get("method", "")})
            found.append({
                **_describe(base), "sets": [number, whose], "reason": reason, "remedy": remedy
            })  # fmt: skip
            break
    return found


def _with_mode(run: Run) -> str:
    """The emulated board of a run, with the mode that it had."""
    target = str(run["target"])
    return target if ",mode=" in target else f"{target},mode={_mode(run)}"


def _same_clock(runs: Sequence[Run]) -> str:
    """What makes printed results comparable with runs of the emulated board that printed them."""
    boards = [_with_mode(run) for run in runs if _mode(run)]
    files = [run["environment"].get("printed") for run in runs if not _mode(run)]
    names = [str(one.get("file") or "") for one in files if isinstance(one, Mapping)]
    if not boards or not names:
        return ""
    target = shlex.quote(printable(boards[0]))
    return f"If {printable(names[0])} is from that board, import it again with --target {target}"


def _same_task(methods: set[str]) -> str:
    """What measures the user tasks of two cores in the same way: on Linux the module wakes them
    together with the other contexts, on Cobalt they have a method of their own."""
    own = methods - {"module"}
    if "module" not in methods or len(own) != 1 or not all(own):
        return ""
    return (
        f"Measure the user task alone in both: --context user --method {own.pop()}, and for "
        "Linux on a kernel with Cobalt also --core linux"
    )


def _absent(
    runs: Sequence[Run],
    sets: Sequence[RunSet],
    base: _Base,
    single: Sequence[tuple[Method, int]],
    methods: Mapping[Method, Mapping[int, Any]],
) -> list[Document]:
    """Sets that lack a quantity which another one has, each with the reason if it is known."""
    there = {number for members in methods.values() for number in members}
    if len(single) > 1 and len({number for _, number in single}) > 1:
        there |= {number for _, number in single}
    lacking = [number for number in range(len(sets)) if number not in there]
    found = []
    for number in lacking:
        reason = next(filter(None, (_why(runs[p], base) for p in sets[number].places)), "")
        found.append(
            {**_describe(base), "sets": [number], "reason": reason or "not measured there"}
        )
    return found


def _nowhere(analysis: Analysis, sets: Sequence[RunSet], grouped: Grouped) -> list[Document]:
    """Measurements of which no set has a single quantity, each with the sets and their reason.
    Those that only judge behaviour never have one, and are left out."""
    runs = analysis.model["runs"]
    known = {(base.measurement, base.load) for base in grouped}
    found: dict[tuple[_Base, str], list[int]] = {}
    for number, chosen in enumerate(sets):
        for place in chosen.places:
            catalogue = analysis.runs[place].document.get("catalogue") or {}
            described = catalogue.get("measurements") or ()
            tests = {one.get("name") for one in described if one.get("series") == []}
            for step in _steps(runs[place]).values():
                if step["measurement"] in tests:
                    continue
                base = _Base(step["measurement"], "", "", "", _load(step))
                if (base.measurement, base.load) in known:
                    continue
                reason = _why(runs[place], base) or "no sample was taken"
                whose = found.setdefault((base, reason), [])
                if number not in whose:
                    whose.append(number)
    return [
        {**_describe(base), "sets": whose, "reason": reason}
        for (base, reason), whose in found.items()
    ]


def _why(run: Run, base: _Base) -> str:
    """Why a run has no series of a quantity; empty if that is unknown."""
    for step in _steps(run).values():
        if step["measurement"] != base.measurement or _load(step) != base.load:
            continue
        if step["state"] != "complete":
            return f"{step['state']}: {step['reason'] or 'no reason recorded'}"
        for test in run["tests"]:
            told = f"{test['rule']} {test['evidence']}"
            mine = test["step"] == step["step"] and test["result"] == "skipped"
            if mine and base.context in told:
                return f"skipped: {test['evidence']}"
    return ""


# --- the sets and their environments --------------------------------------------------------------


def _each(runs: Sequence[Run], one: RunSet, take: Any) -> list[str]:
    return list(dict.fromkeys(printable(str(take(runs[place]))) for place in one.places))


def _known(runs: Sequence[Run], one: RunSet) -> tuple[int, ...]:
    """The runs of the set whose targets were reached."""
    return tuple(place for place in one.places if reached(runs[place]))


def _set(runs: Sequence[Run], one: RunSet, at: int) -> Document:
    known = replace(one, places=_known(runs, one))
    boots = {_boot(runs[place]) for place in known.places}
    modes = [mode for mode in _each(runs, known, _mode) if mode]
    states = [state for state in _each(runs, one, lambda run: run["state"]) if state != "complete"]
    return {
        "letter": letter(at),
        "name": one.name,
        "runs": [runs[place]["id"] for place in one.places],
        "boots": len(boots),
        "targets": _each(runs, one, lambda run: run["target"]),
        "kernels": _each(runs, known, lambda run: _kernel(run)[0]),
        "realtime": _each(runs, known, lambda run: realtime_text(run["environment"])),
        "emulated": modes,
        "states": states,
    }


def _flat(document: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in document.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name} ")
        elif isinstance(value, list | tuple):
            text = ", ".join(
                str(v) if not isinstance(v, Mapping) else " ".join(part for _, part in _flat(v))
                for v in value
            )
            yield name, text
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        else:
            yield name, "" if value is None else str(value)


def _facts(run: Run) -> dict[str, str]:
    environment = run["environment"]
    kernel = environment.get("kernel") or {}
    facts = {"kernel": _kernel(run)[0], "real-time model": realtime_text(environment)}
    facts["kernel command line"] = str(kernel.get("cmdline") or "")
    steps = _steps(run).values()
    for name, found in (
        ("CPUs measured", [step["parameters"].get("cpu") for step in steps]),
        ("CPUs of the load", [step["run_options"].get("load-cpu") for step in steps]),
        ("Xenomai version", [step["parameters"].get("xenomai") for step in steps]),
    ):
        facts[name] = "; ".join(dict.fromkeys(str(one) for one in found if one))  # lists of CPUs
    kept = {key: value for key, value in environment.items() if key not in _VOLATILE}
    for name, text in _flat(kept):
        if name not in _PASSING and name not in ("kernel release", "realtime", "kernel cmdline"):
            facts[name] = text
    for name, setting in sorted(environment["settings"].items()):
        facts[f"setting {name}"] = str(setting["effective"] or "")
    return {name: printable(_chosen(text)) for name, text in facts.items()}


def _chosen(text: str) -> str:
    """The word in brackets of a setting that the kernel shows with all choices. The record of a
    setting that the run made has this word alone."""
    return _CHOICES.sub(r"\1", text)


def _differences(runs: Sequence[Run], sets: Sequence[RunSet]) -> list[Document]:
    """The differences of the environments of the sets, the kernel first; a text for each set.
    A set whose targets could not be reached differs in nothing: its environment is not known."""
    facts = [[_facts(runs[place]) for place in _known(runs, one)] for one in sets]
    names = dict.fromkeys(name for one in facts for each in one for name in each)
    found: list[Document] = []
    repeating: tuple[str, ...] = ()
    for name in names:
        texts = [list(dict.fromkeys(each.get(name, "") for each in one)) for one in facts]
        known = [set(text) for text in texts if text]
        alike = all(text == known[0] for text in known) or _nearly(name, texts)
        if not alike and not _repeats(name, repeating):
            repeating += dict(_REPEATING).get(name, ())
            found.append(
                {
                    "name": name,
                    "values": [_shortened(" / ".join(t) or "–") if t else UNKNOWN for t in texts],
                }
            )
    return found


def _repeats(name: str, others: Sequence[str]) -> bool:
    return any(name == one or (one[-1] == "-" and name.startswith(one)) for one in others)


def _nearly(name: str, texts: Sequence[Sequence[str]]) -> bool:
    """Whether sizes in bytes differ by at most 1 %: different kernels on one machine reserve
    different amounts of its memory."""
    values = [text for one in texts for text in one]
    if not name.endswith(" bytes") or not all(text.isdecimal() for text in values):
        return False
    sizes = [int(text) for text in values]
    return max(sizes) - min(sizes) <= max(sizes) / 100


def _shortened(text: str) -> str:
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"


# --- in words -------------------------------------------------------------------------------------


def note(document: Mapping[str, Any]) -> str:
    """The note on the figures: their data, and what they do not show."""
    samples = [
        sum(
            row["count"]
            for one in document["quantities"]
            for row in one["rows"]
            if row["set"] == at
        )
        for at in range(len(document["sets"]))
    ]
    compared = bool(document["quantities"])
    seen = "; ".join(
        f"{one['letter']}: "
        + (f"{numbers.plural(samples[at], 'sample')}, " if compared else "")
        + _evidence(one)
        for at, one in enumerate(document["sets"])
    )
    modes = {mode for one in document["sets"] for mode in one["emulated"]}
    emulated = {
        "counted": " Emulated, counted mode: time is the number of instructions (1 ns each), "
        "without a cache model. These are not the figures of a board: they show which paths are "
        "preemptible, not how long these take. Boots of one image with one seed are "
        "identical and add no evidence: each repeat of a study has a seed of its own.",
        "plain": " Emulated in real time: the load of the host determines latencies. These are not "
        "the figures of a board.",
    }
    if any(one["p"] is not None and one["needed"] is None for one in document["comparisons"]):
        claim = (
            f"Verdicts rest on runs, not on samples: exact tests, 95{numbers.GAP}% intervals, "
            "Holm's correction for all but the primary quantity. The tables show what was seen. "
            "Maxima have no ratio there, because each is a single sample."
        )
    else:
        claim = (
            "The samples of one boot depend on each other, so these tables claim no significance: "
            "they show what was seen, not whether the next boot would show it again. Maxima have "
            "no ratio, because each is a single sample."
        )
    if any(row["missed"] for one in document["quantities"] for row in one["rows"]):
        claim += " Percentiles and shares cover missed periods and events without an answer, too."
    ratios = f" Ratios are relative to {document['sets'][0]['letter']}. {claim}"
    return (
        f"Compared data: {seen}.{ratios}" if compared else f"Data: {seen}. No quantity is compared."
    ) + "".join(emulated.get(mode, "") for mode in sorted(modes))


def where(quantity: Mapping[str, Any]) -> str:
    """What a quantity is, and under which load: ``timer: latency (µs), load sched``."""
    unit = numbers.unit_name(quantity["unit"])
    name = quantity["measurement"]
    if quantity["name"]:  # without a name, the entry is about the whole measurement
        name += f": {quantity['name']}" + (f" ({unit})" if unit else "")
    return f"{name}, {load_text(load_of(quantity))}"


def load_of(quantity: Mapping[str, Any]) -> Mapping[str, Any]:
    """The load of a quantity for its texts: not idle next to other programs."""
    return {**quantity["load"], **({"others": True} if quantity.get("crowded") else {})}


def row_name(quantity: Mapping[str, Any]) -> str:
    """What distinguishes a quantity from the others under its load: its context, and how it was
    measured if there were several ways."""
    return ", ".join([*filter(None, [quantity["context"]]), *quantity["told"]]) or quantity["name"]


def method_text(quantity: Mapping[str, Any]) -> str:
    """How a quantity was measured, in one line, without what the name of its row already says."""
    words = []
    for name, value in quantity["method"].items():
        if value in quantity["told"]:
            continue
        if name == "policy":
            words.append(value)
        elif name == "clock":
            words.append("" if value == "time" else value)
        elif value not in ("none", "no", "0"):
            words.append(f"{name} {value}")
    return ", ".join(filter(None, words))


def _evidence(one: Mapping[str, Any]) -> str:
    runs = numbers.plural(len(one["runs"]), "run")
    return f"{runs}, {numbers.plural(one['boots'], 'boot')}" if one["boots"] else runs


def unreached(document: Mapping[str, Any]) -> list[str]:
    """The letters of the sets whose targets could not be reached."""
    return [one["letter"] for one in document["sets"] if not one["boots"]]


def set_facts(one: Mapping[str, Any]) -> str:
    """A set in a line: its kernels, runs and boots, emulation, and states other than complete."""
    system = " / ".join(one["kernels"]) + ", " + " / ".join(one["realtime"])
    words = [system if one["boots"] else "the target could not be reached", _evidence(one)]
    words += [f"emulated, {mode} mode" for mode in one["emulated"]]
    words += one["states"]
    return "; ".join(words)


validate = functools.partial(schemas.validate, "rtgauge.report.sets", "comparison.schema.json")
"""Raise ``jsonschema.ValidationError`` if the document is not a comparison."""
