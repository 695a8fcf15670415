# SPDX-License-Identifier: Apache-2.0
"""A run made of a text that Xenomai's own programs printed: a step for each result.

``latency`` becomes the measurement ``timer``, with its histogram as the series ``latency`` and the
maxima of its seconds as the series ``second-max``, and ``irqbench`` and ``gpioirqbench`` become
``log-host``, so that reports show them next to runs of rtgauge. Figures without a distribution are
tables.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from rtgauge.printed.latency import TIME_LIMIT, Latency, distribution
from rtgauge.printed.lines import Text, read_text
from rtgauge.printed.read import Clocks, Found, Responses, Switches, read
from rtgauge.store import Store, new_run_id
from rtgauge.store.made import (
    FACTS,
    LATEST_S,
    Subject,
    asked_of,
    catalogue_of,
    find_import,
    import_header,
    importing,
    measurement_of,
    run_document,
    step_document,
    write_run,
)
from rtgauge.stream import StreamWriter, Tally
from rtgauge.text import plural
from rtgauge.units import format_duration

__all__ = ["CATALOGUE", "Imported", "Told", "import_printed"]

NS: Final = 10**9
CELL_NS: Final = 1000
TOLD_ERRORS: Final = 3

_US: Final = {"type": "duration", "min": "0", "max": "1s", "default": "1ms"}


_measurement = functools.partial(measurement_of, contexts=["irq", "kernel", "user"])

CATALOGUE: Final = catalogue_of(
    _measurement(
        "timer",
        "latency of a periodic task or handler, as Xenomai's latency printed it",
        "Timer latency",
        options=[
            {"name": "interval", **_US, "help": "period of the task"},
            {"name": "dither", "type": "enum", "default": "no", "values": ["no"],
             "help": "latency does not spread its due times"},
        ],
        series=[
            {"name": "latency", "unit": "ns",
             "meaning": "delay from the due time until the handler or task runs",
             "from": "due time", "to": "its first action, a clock reading",
             "stages": ["timer interrupt", "handler", "wake-up", "switch", "return to user"]},
            {"name": "second-max", "unit": "ns", "meaning": "maximum of each second",
             "from": "", "to": "", "stages": []},
        ],
        tables=[
            {"name": "printed", "meaning": "figures of the whole run as printed, samples of "
             "the histogram, and mode switches that coincided with a maximum"},
        ],
        verdicts=[
            {"rule": "no-maximum-by-mode-switch", "meaning": "no maximum of a second coincided "
             "with a switch of the measuring task to Linux"},
            {"rule": "distribution", "meaning": "latency printed its histogram"},
        ],
    ),
    _measurement(
        "clocktest",
        "clocks of the CPUs against each other, as Xenomai's clocktest printed them",
        "Clocks",
        tables=[
            {"name": "clocks", "meaning": "offset and drift of each CPU's clock at the end, "
             "and its warps: readings that were earlier than a previous one on another CPU"},
        ],
        verdicts=[{"rule": "no-clock-warps", "meaning": "no reading was earlier than a "
                   "previous one on another CPU"}],
    ),
    _measurement(
        "switchtest",
        "switches between tasks of the core, as Xenomai's switchtest printed them",
        "Thread switches",
        tables=[{"name": "switches", "meaning": "switches in each whole second and in total"}],
        verdicts=[{"rule": "registers-kept", "meaning": "no switch damaged the registers of "
                   "the floating-point unit, and switching never stopped"}],
    ),
    _measurement(
        "log-host",
        "response to an external event, as irqbench or gpioirqbench printed it",
        "Response to an external event",
        tables=[{"name": "responses", "meaning": "time from each event to its answer, and "
                 "number of events, which in irqbench includes its warm-up"}],
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Told:
    """What the user says of a file. ``cell_ns``: the width of the histogram's cells, where the file
    does not contain it; None: 1 us. ``version``: of Xenomai."""

    tested: Subject = field(default_factory=lambda: Subject(realtime="cobalt"))
    name: str = ""
    load: str = "unknown"
    cell_ns: int | None = None
    version: str = ""


@dataclass(frozen=True)
class Imported:
    """What an import came to. ``new`` False: the store had the same file, read alike. ``results``:
    the names of the measurements, in order."""

    run: str
    new: bool
    results: tuple[str, ...]


@dataclass(frozen=True)
class _Step:
    measurement: str
    parameters: dict[str, str]
    duration_s: float
    unfinished: tuple[str, str] | None = None


def import_printed(store: Store, path: Path, told: Told) -> Imported:
    """Make a run of a text. UsageError if it has no result, or is damaged. The store is unchanged
    then."""
    text = read_text(path)
    board = " ".join(told.tested.lab.get(key, "") for key in ("board", "mode")).rstrip()
    asked = asked_of(told.cell_ns or None, told.version, board)
    same = _is_there(store, text.sha256, asked)
    if same is not None:
        return same
    with importing(store, text.sha256):  # another process may have made it in the meantime
        return _is_there(store, text.sha256, asked) or _made(store, path, told, text, asked)


def _is_there(store: Store, digest: str, asked: str) -> Imported | None:
    """The run that was made of the same text before, if it is in the store."""
    found = find_import(store, "printed", digest, asked)
    if found is None:
        return None
    return Imported(found[0], False, tuple(str(found[1].get("results") or "").split(", ")))


def _made(store: Store, path: Path, told: Told, text: Text, asked: str) -> Imported:
    """A new run of a text."""
    results = read(text)
    run = new_run_id()
    when = min(max(os.stat(path).st_mtime, 0.0), LATEST_S)
    steps = [_step(one, told) for one in results]
    streams = [
        list(_records(run, number, step, one, told, when))
        for number, (step, one) in enumerate(zip(steps, results, strict=True))
    ]
    names = tuple(step.measurement for step in steps)
    about = {"file": path.name, "sha256": text.sha256, "asked": asked, "results": ", ".join(names)}
    document = run_document(
        run,
        target=f"printed:{told.name or path.stem}",
        tested=told.tested,
        about={"printed": about},
        catalogue=CATALOGUE,
        steps=[
            step_document(number, one.measurement, one.parameters, told.load, one.duration_s)
            for number, one in enumerate(steps)
        ],
        when=when,
    )
    cut = {number: one.unfinished for number, one in enumerate(steps) if one.unfinished}
    write_run(store, document, when, streams, cut)
    return Imported(run, True, names)


def _step(one: Found, told: Told) -> _Step:
    if isinstance(one, Latency):
        parameters = {
            "program": "latency",
            "context": one.context,
            "interval": format_duration(one.period_ns),
            "priority": str(one.priority),
            "dither": "no",
        }
        if one.cells:
            parameters["cell"] = format_duration(_cell_ns(one, told))
        if version := one.version or told.version:
            parameters["xenomai"] = version
        cut = "the output of latency ends without its line RTS"
        remedy = "end latency with -T or Ctrl-C, and save its whole output"
        return _Step("timer", parameters, _duration_s(one), None if one.ended else (cut, remedy))
    if isinstance(one, Clocks):
        return _Step("clocktest", {"program": "clocktest", "clock": one.clock}, 0.0)
    if isinstance(one, Switches):
        seconds = max(map(len, one.rows.values()))
        return _Step("switchtest", {"program": "switchtest"}, float(seconds))
    parameters = {"program": "irqbench"} | ({"system": one.system} if one.system else {})
    cut = "the output of irqbench ends without the figures of the whole run"
    remedy = "end irqbench with -T or Ctrl-C, and save its whole output"
    return _Step("log-host", parameters, 0.0, (cut, remedy) if one.last else None)


def _duration_s(one: Latency) -> float:
    """The measured time. latency prints that of the wall clock, which may have been set."""
    if one.cells:
        return (sum(one.cells.values()) + one.figures.overruns) * one.period_ns / NS
    printed = one.duration_s or 0
    return float(len(one.seconds) or (printed if 0 < printed * NS < TIME_LIMIT else 0))


def _cell_ns(one: Latency, told: Told) -> int:
    return one.cell_ns or told.cell_ns or CELL_NS


def _records(
    run: str, number: int, step: _Step, one: Found, told: Told, when: float
) -> Iterator[bytes]:
    """The whole stream of a step."""
    writer = StreamWriter()
    yield import_header(writer, run, number, step.measurement, step.parameters, when, told.load)
    yield writer.environment(FACTS)
    tallies: list[Tally] = []
    if isinstance(one, Latency):
        yield from _latency(writer, one, told, tallies)
    elif isinstance(one, Clocks):
        yield from _clocks(writer, one)
    elif isinstance(one, Switches):
        yield from _switches(writer, one)
    else:
        yield _responses(writer, one)
    yield writer.trailer(tallies, duration_ns=int(step.duration_s * NS))


def _latency(
    writer: StreamWriter, one: Latency, told: Told, tallies: list[Tally]
) -> Iterator[bytes]:
    version = one.version or told.version
    method = "timerbench"  # Xenomai's driver that measures in the kernel
    if one.context == "user":
        method = "rt_task_wait_period" if re.match(r"v?2\b", version) else "timerfd"
    thread = one.context != "irq" and one.priority > 0
    declared: dict[str, Any] = {
        "context": one.context, "cpu": -1, "thread": -1, "policy": "fifo" if thread else "",
        "priority": one.priority if thread else 0, "labels": {"method": method},
    }  # fmt: skip
    figures, seconds = one.figures, np.array([second.max for second in one.seconds], np.int64)
    if one.cells:
        tally, messages = distribution(one, _cell_ns(one, told))
        yield writer.series(
            0, "latency", **declared, interval_ns=one.period_ns, histogram_only=True
        )
        for message in messages:
            yield writer.event("message", text=message)
        if tally.missed:
            yield writer.missed(0, tally.count - 1, tally.missed)
            yield writer.event(
                "message",
                text="The overruns of latency are shown as missed periods after the last sample, "
                "because it does not print when they were",
            )
        tally.last_due_ns = (tally.count + tally.missed - 1) * one.period_ns
        yield writer.histogram(tally)
        tallies.append(tally)
    if len(seconds):
        yield writer.series(1, "second-max", **declared)
        tally = Tally(1, last_due_ns=(len(seconds) - 1) * NS)
        for number, value in enumerate(seconds.tolist()):
            yield writer.samples(1, number, number * NS, [value])
        tally.add(seconds)
        yield writer.histogram(tally)
        tallies.append(tally)
    row: dict[str, tuple[str, int | str]] = {
        "min": ("ns", figures.min),
        "mean": ("ns", figures.mean),
        "max": ("ns", figures.max),
        "samples": ("count", sum(one.cells.values()) or ""),
        "overruns": ("count", figures.overruns),
        "mode switches": ("count", "" if figures.switches is None else figures.switches),
    }
    units = {name: unit for name, (unit, _) in row.items()}
    yield writer.table("printed", units, [value for _, value in row.values()])
    if not one.cells:
        overruns = plural(figures.overruns, "overrun")
        missed = f". latency counted {overruns}, which are missed periods" * bool(figures.overruns)
        yield writer.verdict(
            "distribution",
            "skipped",
            f"{one.context}: latency printed no histogram, so there are no percentiles{missed}",
            "measure with latency -h, or import the file of latency -g",
        )
    if one.context == "user" and figures.switches is not None:
        early = not one.seconds or one.seconds[0].switches == figures.switches
        verdict = _mode_switches(figures.switches, early=early)
        yield writer.verdict("no-maximum-by-mode-switch", *verdict)


def _mode_switches(switches: int, *, early: bool) -> tuple[str, str, str]:
    """``early``: all were before the end of the first second. latency also counts those of its
    warm-up, whose maximum it does not print."""
    if not switches:
        return "pass", "latency counted no switch to Linux that coincided with a maximum", ""
    told = f"switches to Linux that coincided with a maximum, and may have caused it: {switches}"
    return (
        "inconclusive" if early else "fail",
        f"{told}. All may be in the warm-up or the first second" if early else told,
        "find the call that left the core: latency -b stops there, and a kernel with "
        "CONFIG_XENO_OPT_DEBUG_TRACE_RELAX keeps its stack in /proc/xenomai/debug/relax",
    )


def _clocks(writer: StreamWriter, one: Clocks) -> Iterator[bytes]:
    columns = {"cpu": "", "offset": "ns", "drift": "ns/s", "warps": "count", "largest warp": "ns"}
    rows = [
        [cpu, offset * 100, drift, warps, largest * 100]
        for cpu, (offset, drift, warps, largest) in sorted(one.rows.items())
    ]
    yield writer.table("clocks", columns, *rows)
    warps, bad = sum(row[3] for row in rows), sum(row[3] > 0 for row in rows)
    evidence = f"warps: {warps}, on {bad} of {plural(len(rows), 'CPU')}"
    remedy = (
        "find out why the CPUs disagree: on x86, boot without tsc=reliable and look for 'TSC "
        "unstable' in the kernel's log"
    )
    result = ("fail", evidence, remedy) if warps else ("pass", evidence, "")
    yield writer.verdict("no-clock-warps", *result)


def _switches(writer: StreamWriter, one: Switches) -> Iterator[bytes]:
    columns = {"cpu": "", "seconds": "count", "min": "count", "max": "count", "total": "count"}
    whole = {cpu: each[:-1] or each for cpu, each in sorted(one.rows.items())}
    rows: list[list[int | str]] = [
        ["" if cpu < 0 else str(cpu), len(each), min(each), max(each), one.totals[cpu]]
        for cpu, each in whole.items()
    ]
    yield writer.table("switches", columns, *rows)
    total = sum(one.totals.values())
    if one.errors:
        told = ", ".join(one.errors[:TOLD_ERRORS])
        remedy = "report it to the Xenomai project with the kernel's configuration"
        yield writer.verdict("registers-kept", "fail", told, remedy)
    elif not all(one.totals.values()):
        yield writer.verdict(
            "registers-kept",
            "inconclusive",
            f"{total} switches: switchtest did not switch on every CPU",
            "look for its error, and repeat it: switchtest -T 30 >switchtest.txt 2>&1",
        )
    elif one.told:
        yield writer.verdict("registers-kept", "pass", f"{total} switches without an error")
    else:
        yield writer.verdict(
            "registers-kept",
            "inconclusive",
            f"{total} switches, but the file lacks what switchtest writes to standard error",
            "save both: switchtest -T 30 >switchtest.txt 2>&1",
        )


def _responses(writer: StreamWriter, one: Responses) -> bytes:
    columns = {
        "what": "", "context": "", "min": "ns", "mean": "ns", "max": "ns", "events": "count",
    }  # fmt: skip
    found = [*one.rows, *([one.last] if one.last else [])]
    rows: list[list[int | str]] = [
        [
            row.name or "irqbench", row.context, row.min, "" if row.mean is None else row.mean,
            row.max, "" if row.count is None else row.count,
        ]
        for row in found
    ]  # fmt: skip
    return writer.table("responses", columns, *rows)
