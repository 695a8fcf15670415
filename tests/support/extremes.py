# SPDX-License-Identifier: Apache-2.0
"""Streams of extreme values, most of them as docs/formats/stream.md allows, and what reads them
after the stream's reader: the store, an import, the results and every report."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection
from pathlib import Path
from typing import Any

import bundles
import streams
from rtgauge import report
from rtgauge.report.render import terminal
from rtgauge.report.results import model
from rtgauge.store import Store, StoredRun
from rtgauge.store.bundle import export_run, import_bundle
from rtgauge.stream import COUNT_LIMIT, NUMBER_LIMIT, RecordType

MEASUREMENTS = (
    "timer", "log-host", "clock-cost", "response", "nothing", "irq-sustained", "tick-period",
    "sem-order", "round-robin", "thread-lifecycle", "mutex-inversion",
)  # fmt: skip
UNITS = ("ns", "ns", "ns", "count", "", "us", "ms", "s", "x" * 50, "%", "°", "KiB", "b\nc", "ratio")
TEXTS = (
    "", "a", "A" * 300, "\u202e", "a\nb", "<b>", "#x", "ns", "latency", "offset", "response",
    "answers", "raised", "method", "\x1b[2J", "0", "12", "\0", "| | |", "[]", "\\", "$(id)",
)  # fmt: skip
NAMES = ("latency", "latency", "response", "period", "offset", "fast", "time", "")
BIG = (
    0, 1, 2, 7, 127, 128, 255, 256, 999, 2**31 - 1, 2**31, 2**32, 10**9, 10**12, 10**15, 2**52,
    COUNT_LIMIT, COUNT_LIMIT + 1, 10**18, NUMBER_LIMIT - 1, NUMBER_LIMIT, NUMBER_LIMIT + 1,
    2**63 - 1,
)  # fmt: skip


class Extremes:
    """Makes streams; ``share``: how many of their numbers lie beyond the limits."""

    def __init__(self, rng: random.Random, share: float = 0.003) -> None:
        self.rng = rng
        self.share = share
        self._next: dict[int, int] = {}  # series -> index after its last block

    def number(self, limit: int, low: int | None = None) -> int:
        """A number up to a limit, often near one that matters; mostly not beyond."""
        rng = self.rng
        kept = [one for one in BIG if one <= limit]
        if rng.random() < self.share:
            kept = [*BIG]
        found = rng.choice([*kept, limit]) if rng.random() < 0.6 else self._any(limit)
        return found if low is not None or rng.random() < 0.6 else -found

    def _any(self, limit: int) -> int:
        return self.rng.randrange(min(10 ** self.rng.randrange(1, 19), limit + 1)) if limit else 0

    def time(self, low: int | None = None) -> int:
        return self.number(NUMBER_LIMIT, low)

    def count(self) -> int:
        return self.number(COUNT_LIMIT, 0)

    def text(self) -> str:
        return self.rng.choice(TEXTS)

    def make(self) -> bytes:
        """A stream."""
        rng = self.rng
        stream = streams.Builder(
            measurement=rng.choice(MEASUREMENTS),
            counter={"name": "tsc", "hz": self.time(0)},
            start_ns=self.time(),
            clock={key: self.number(2**63 - 1) for key in streams.CLOCKS},
        )
        number = rng.randrange(5)
        for one in range(number):
            self._series(stream, one)
        for _ in range(rng.randrange(25)):
            if number and rng.random() < 0.6:
                self._of_series(stream, rng.randrange(number))
            else:
                self._background(stream)
        if rng.random() < 0.85:
            self._trailer(stream, number)
        return stream.data

    def _series(self, stream: streams.Builder, number: int) -> None:
        rng = self.rng
        more: dict[str, Any] = {"stamp_ns": self.time(0)} if rng.random() < 0.3 else {}
        if rng.random() < 0.2:
            more["companion"] = rng.choice([0, self.count()])
        stream.series(
            number,
            name=rng.choice([*NAMES, self.text()]),
            interval_ns=rng.choice([0, 1, 10**6, 10**6, 10**6, self.time(0)]),
            scale=rng.choice([1, 1, 1, 1000, max(self.number(2**29, 0), 1)]),
            unit=rng.choice(UNITS),
            cpu=rng.choice([-1, 0, 1, self.count()]),
            thread=rng.choice([-1, 0, self.count()]),
            priority=rng.choice([0, 98, self.time()]),
            labels={self.text(): self.text() for _ in range(rng.randrange(3))},
            context=rng.choice(["irq", "kernel", "user"]),
            policy=rng.choice(["fifo", "other", "", self.text()]),
            histogram_only=rng.random() < 0.2,
            **more,
        )

    def _limits(self, stream: streams.Builder, series: int) -> tuple[int, int]:
        """The largest index and the largest value of a series."""
        declared = stream.series_seen[series]
        return (
            min(COUNT_LIMIT, NUMBER_LIMIT // max(declared["interval_ns"], 1)),
            NUMBER_LIMIT // max(declared["scale"], 1),
        )

    def _values(self, largest: int, most: int) -> list[int]:
        rng = self.rng
        kind = rng.randrange(4)
        if kind == 0:
            return [self.number(largest) for _ in range(rng.randrange(1, most))]
        middle = self.number(largest)
        spread = rng.choice([0, 1, 100, 10**6])
        found = [middle + rng.randrange(-spread, spread + 1) for _ in range(rng.randrange(1, most))]
        return [min(max(one, -largest), largest) for one in found]

    def _of_series(self, stream: streams.Builder, series: int) -> None:
        rng = self.rng
        index, largest = self._limits(stream, series)
        interval_ns = stream.series_seen[series]["interval_ns"]
        kind = rng.randrange(6)
        if kind < 3:
            values = self._values(min(2**31 - 1, largest), rng.choice([2, 12, 400]))
            values = [min(max(one, -(2**31)), 2**31 - 1) for one in values]
            first = self._next.get(series, 0) if kind else self.number(index, 0)
            first += rng.choice([0, 0, 1, 5])
            gaps = []
            if len(values) > 2 and interval_ns and rng.random() < 0.3:
                gaps = [(1, min(rng.choice([1, 5, 2**31 - 1]), index) or 1)]
            due_ns = rng.choice([0, self.time(), min(first * interval_ns, NUMBER_LIMIT)])
            due_ns = min(
                due_ns, NUMBER_LIMIT - (len(values) + sum(g for _, g in gaps)) * interval_ns
            )
            if due_ns >= 0:
                stream.samples(series, first, values, due_ns=due_ns, gaps=gaps)
                self._next[series] = first + len(values) + sum(g for _, g in gaps)
        elif kind == 3:
            values = self._values(largest, 30) if rng.random() < 0.9 else []
            total = min(max(sum(values), -(2**63)), 2**63 - 1)
            wrong = {"count": self.count()} if rng.random() < self.share else {}
            counts = {key: self.count() for key in ("missed", "lost", "overruns")}
            stream.histogram(series, values, **{"sum": total} | counts | wrong)
        else:
            count = self.number(index, 0)
            fields = {"index": self.number(index - count, 0) if index >= count else 0}
            fields |= {"count": count, "value": self.number(largest), "max": self.number(largest)}
            name = rng.choice(["maximum", "missed", "lost", "withheld", "wide", "threshold"])
            if name == "wide" and rng.random() < 0.7:
                fields["index"] = rng.randrange(10)
            stream.event(name, self.time(), series=series, **fields)

    def _background(self, stream: streams.Builder) -> None:
        rng, text = self.rng, self.text
        match rng.randrange(7):
            case 0:
                words = {
                    key: text() for key in ("text", "load", "message", "name", "expected", "found")
                }
                stream.event(rng.choice(["message", "load", "setting", "zz"]), self.time(), **words)
            case 1:
                times = sorted((self.time(), self.time()))
                stream.add(RecordType.WORK, {
                    "load": text(), "unit": rng.choice(UNITS), "count": self.number(2**63 - 1, 0),
                    "from_ns": times[0], "to_ns": rng.choice([times[1], self.time()]),
                })  # fmt: skip
            case 2:
                # text has no unit
                columns = [{"name": text(), "unit": unit} for unit in (rng.choice(UNITS), "")]
                rows = [
                    [self.number(2**63 - 1), rng.choice([self.number(2**63 - 1), text()])]
                    for _ in range(rng.randrange(4))
                ]
                stream.add(RecordType.TABLE, {"name": text(), "columns": columns, "rows": rows})
            case 3:
                result = rng.choice(["pass", "fail", "inconclusive", "skipped"])
                stream.add(RecordType.VERDICT, {
                    "rule": text(), "result": result, "evidence": text(), "remedy": text(),
                })  # fmt: skip
            case 4:
                cpus = [self.count() for _ in range(rng.randrange(4))]
                stream.add(RecordType.AMBIENCE, {
                    "time_ns": self.time(0), "cpus": cpus,
                    "frequency_khz": [rng.choice([None, self.count()]) for _ in cpus],
                    "interrupts": rng.choice([None, [self.count() for _ in cpus]]),
                    "idle_ns": [rng.choice([None, self.count()]) for _ in cpus],
                    "steal_ns": rng.choice([None, [self.count() for _ in cpus]]),
                    "smi": rng.choice([None, self.count()]),
                    "temperature_mc": {text(): self.number(COUNT_LIMIT)},
                })  # fmt: skip
            case 5:
                stream.add(
                    RecordType.CLOCK, {key: self.number(2**63 - 1) for key in streams.CLOCKS}
                )
            case _:
                stream.add(
                    RecordType.ENVIRONMENT,
                    {"facts": {text(): rng.choice([None, text(), self.time()])}},
                )

    def _trailer(self, stream: streams.Builder, number: int) -> None:
        rng = self.rng
        totals = []
        for series in range(number):
            if rng.random() < 0.8:
                first, last = sorted((self.time(), self.time()))
                counts = {key: self.count() for key in ("count", "missed", "lost", "overruns")}
                totals.append(
                    streams.totals(series, first_due_ns=first, last_due_ns=last, **counts)
                )
        stream.trailer(
            rng.choice(["complete", "complete", "failed", "interrupted", "skipped"]),
            duration_ns=self.time(0), cpu_ns=self.time(0), records=self.count(), series=totals,
        )  # fmt: skip


def follow(run: StoredRun, formats: Collection[str] = tuple(report.FORMATS)) -> None:
    """The results of a run and every report of it; raises what any of them raises."""
    source = report.Source([run])
    model.validate(source.model)
    terminal.text(source.model)
    for suffix in formats:
        report.FORMATS[suffix](source)


def carried_through(folder: Path, data: bytes, formats: Collection[str], **document: Any) -> None:
    """A stream into a store, out of it as a bundle, into another one, and into the reports.

    RtgaugeError where it is refused.
    """
    with Store.open(str(folder / "one")) as store:
        run = bundles.carry_out(store, data=data, **document)
        export_run(store.get(run), folder / "bundle")
    with Store.open(str(folder / "two")) as store:
        import_bundle(store, folder / "bundle")
        list(itertools.islice(store.runs(), 1))
        follow(store.get(run), formats)
