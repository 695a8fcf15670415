# SPDX-License-Identifier: Apache-2.0
"""The state of a step while it is measured, for the live view. It takes the records of the stream.

A side branch of the path of a sample: nothing here is stored or reported. A step may last for
weeks, so everything kept here has a fixed size.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.plan import PlannedStep
from rtgauge.stats import bucket_low
from rtgauge.stream import (
    Event,
    Gaps,
    Header,
    Histogram,
    Record,
    Samples,
    SeriesInfo,
    Setting,
    Table,
    Trailer,
    Verdict,
    Work,
)

__all__ = ["BINS", "BINS_PER_DECADE", "SECONDS", "WINDOW_S", "LiveSeries", "LiveStep", "bin_low"]

NS: Final = 10**9
# Bins of the small histogram: logarithmic from one unit on. The first one holds smaller values too.
BINS_PER_DECADE: Final = 24
BINS: Final = 10 * BINS_PER_DECADE
_EDGES: Final = 10.0 ** (np.arange(1, BINS) / BINS_PER_DECADE)
# Number of seconds with a maximum each, and number that counts as "the last seconds".
SECONDS: Final = 60
WINDOW_S: Final = 10
# Limits on what is kept of a stream, however much it declares.
LOADS_MAX: Final = 64
SERIES_MAX: Final = 4096
SETTINGS_MAX: Final = 4096


def bin_low(number: int) -> float:
    """The smallest value, in the series' unit, of a bin (the first one's: one unit)."""
    return float(10.0 ** (number / BINS_PER_DECADE))


@dataclass
class LiveSeries:
    """The state of a series. One sample is ``info.scale`` units."""

    info: SeriesInfo
    count: int = 0
    min: int = 0
    max: int = 0
    sum: int = 0
    missed: int = 0
    lost: int = 0
    withheld: bool = False  # samples that are in the histogram alone
    bins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    _seen: bool = False
    _second: int = -1  # the newest one with a sample, of the stream's time
    _maxima: list[int | None] = field(default_factory=lambda: [None] * SECONDS)
    # moments, a second apart: due time, and the samples until then
    _moments: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=WINDOW_S + 1))
    _newest: tuple[int, int] = (0, 0)

    @property
    def mean(self) -> float:
        """The mean of the samples so far; 0 without any."""
        return self.sum / self.count if self.count else 0.0

    @property
    def second(self) -> int:
        """The newest second with a sample; -1 without any."""
        return self._second

    def rate(self, now: int) -> float | None:
        """Samples per second of the last seconds; None before the first second, and without a
        sample in the last ``WINDOW_S`` seconds up to the second ``now``. Snapshots of a histogram,
        or samples, may be rare: then in twice the time between the last two."""
        if not self._moments or self._newest[0] <= self._moments[0][0]:
            return None
        last = [time_ns for time_ns, _ in self._moments][-2:]
        quiet_s = max(WINDOW_S, 2 * (last[-1] - last[0]) // NS)
        if self._newest[0] // NS <= now - quiet_s:
            return None
        (start, before), (end, count) = self._moments[0], self._newest
        return (count - before) * NS / (end - start)

    def maxima(self, now: int) -> list[int | None]:
        """The maximum of each of the ``SECONDS`` up to the second ``now``, the newest last."""
        return [
            self._maxima[second % SECONDS]
            if self._second - SECONDS < second <= self._second and second >= 0
            else None
            for second in range(now - SECONDS + 1, now + 1)
        ]

    def recent(self, now: int) -> int | None:
        """The maximum of the last ``WINDOW_S`` seconds up to ``now``; None without a sample."""
        found = [one for one in self.maxima(now)[-WINDOW_S:] if one is not None]
        return max(found, default=None)

    def samples(self, due_ns: int, values: NDArray[np.int32]) -> None:
        """Take in a block that is not empty."""
        self._extremes(int(values.min()), int(values.max()), due_ns // NS)
        self._moment(due_ns, self.count)
        self.sum += int(values.sum(dtype="int64"))
        self.count += len(values)
        places = np.searchsorted(_EDGES, values * float(self.info.scale), side="right")
        self.bins += np.bincount(places, minlength=BINS)

    def value(self, value: int, time_ns: int) -> None:
        """Take in a single value that no block contains."""
        self._extremes(value, value, time_ns // NS)

    def snapshot(self, record: Histogram, time_ns: int) -> None:
        """Take in a histogram: its counters, and its values where no samples are sent."""
        self.missed = max(self.missed, record.missed)
        self.lost = max(self.lost, record.lost)
        if not (self.info.histogram_only or self.withheld) or not self.count < record.count:
            return
        self._extremes(record.min, record.max, -1)
        low = bucket_low(record.buckets[:, 0], record.sub_bits)
        places = np.searchsorted(_EDGES, low * float(self.info.scale), side="right")
        bins = np.zeros(BINS, np.int64)
        np.add.at(bins, places, record.buckets[:, 1])
        grown = np.flatnonzero(bins > self.bins)
        if len(grown):  # of the new ones only the bin is known
            inside = low[places == grown[-1]].max()
            self._second_maximum(min(int(inside), record.max), time_ns // NS)
        self.bins = bins
        self.count, self.sum = record.count, record.sum
        self._moment(time_ns, self.count)

    def _extremes(self, low: int, high: int, second: int) -> None:
        self.min = min(self.min, low) if self._seen else low
        self.max = max(self.max, high) if self._seen else high
        self._seen = True
        if second >= 0:
            self._second_maximum(high, second)

    def _second_maximum(self, value: int, second: int) -> None:
        if second > self._second:
            for passed in range(max(self._second + 1, second - SECONDS + 1), second + 1):
                self._maxima[passed % SECONDS] = None
            self._second = second
        if second > self._second - SECONDS:
            known = self._maxima[second % SECONDS]
            self._maxima[second % SECONDS] = value if known is None else max(known, value)

    def _moment(self, due_ns: int, count: int) -> None:
        if not self._moments or due_ns >= self._moments[-1][0] + NS:
            self._moments.append((due_ns, count))
        if due_ns > self._newest[0]:
            self._newest = (due_ns, count)


@dataclass
class LiveStep:
    """A step while it is measured."""

    step: PlannedStep
    # when its time is up, and when it would have its samples if no period were missed
    time_s: float | None
    samples_s: float | None = None
    # measures until it is stopped, and how long the steps after it are expected to measure
    endless: bool = False
    after_s: float = 0.0
    skipped: bool = False  # by the agent, as far as that is known beforehand
    elapsed_s: float = 0.0
    header: Header | None = None
    trailer: Trailer | None = None
    series: dict[int, LiveSeries] = field(default_factory=dict)
    settings: list[Setting] = field(default_factory=list)
    # what each load does: its unit, and its work per second in the newest span of time
    work: dict[str, tuple[str, float]] = field(default_factory=dict)
    died: Event | None = None
    tables: int = 0
    # results of its tests: how many there are of each
    tests: Counter[str] = field(default_factory=Counter)
    # when the step's time began, on the clock of ``elapsed_s``: the loads come up before that
    _began_s: float | None = None

    @property
    def has_results(self) -> bool:
        """Whether anything was measured."""
        return bool(self.tables or self.tests or self.results)

    @property
    def results(self) -> int:
        """Number of samples so far, and of periods and events without one."""
        return sum(one.count + one.missed + one.lost for one in self.series.values())

    @property
    def expected_s(self) -> float | None:
        """Expected duration in seconds, None if unknown. A missed period yields no sample, so each
        one prolongs a step that waits for a number of samples."""
        if self.samples_s is None:
            return self.time_s
        missed = [live.missed * (live.info.interval_ns or 0) / NS for live in self.series.values()]
        full_s = self.samples_s + max(missed, default=0.0)
        return full_s if self.time_s is None else min(self.time_s, full_s)

    @property
    def began_s(self) -> float | None:
        """When the first sample was due, on the clock of ``elapsed_s``; None before it is known."""
        return self._began_s

    @property
    def measured_s(self) -> float:
        """Seconds since the first sample was due; 0 before it."""
        return 0.0 if self._began_s is None else max(0.0, self.elapsed_s - self._began_s)

    def take(self, record: Record) -> None:
        """Take in one record of the stream."""
        match record:
            case Samples():
                self._block(record)
            case Gaps(series=series) if series in self.series:
                self.series[series].missed += record.missed
            case Histogram():
                live = self.series.get(record.series)
                if live is not None:
                    live.snapshot(record, int(self.elapsed_s * NS))
                    if live.info.histogram_only and self._began_s is None:
                        self._heard(0)
            case SeriesInfo():
                if len(self.series) < SERIES_MAX:
                    self.series[record.series] = LiveSeries(record)
            case Work():
                span = record.to_ns - record.from_ns
                if span > 0 and (record.load in self.work or len(self.work) < LOADS_MAX):
                    self.work[record.load] = (record.unit, record.count * NS / span)
            case Setting():
                if len(self.settings) < SETTINGS_MAX:
                    self.settings.append(record)
            case Table() | Verdict():
                self._result(record)
            case Event():
                self._event(record)
            case Header():
                self.header = record
            case Trailer():
                self.trailer = record

    def _result(self, record: Table | Verdict) -> None:
        if isinstance(record, Table):
            self.tables += 1
        else:
            self.tests[record.result] += 1

    def _block(self, record: Samples) -> None:
        live = self.series.get(record.series)
        if live is None or not len(record.values):
            return
        live.samples(record.due_ns, record.values)
        live.missed += record.missed
        last = len(record.values) - 1 + record.missed
        self._heard(record.due_ns + last * live.info.interval_ns)

    def _heard(self, time_ns: int) -> None:
        began = max(0.0, self.elapsed_s - time_ns / NS)
        self._began_s = began if self._began_s is None else min(self._began_s, began)

    def _event(self, record: Event) -> None:
        if record.event == "load":
            self.died = self.died or record
        live = self.series.get(-1 if record.series is None else record.series)
        if live is None:
            return
        value = record.fields.get("max" if record.event == "lost" else "value")
        count = record.fields.get("count")
        unknown = value == -(2**63)  # of what was lost in the kernel
        if record.event in ("lost", "wide") and isinstance(value, int) and not unknown:
            live.value(value, record.time_ns)
        if isinstance(count, int):
            if record.event == "missed":
                live.missed += count
            elif record.event == "lost":
                live.lost += count
            elif record.event == "withheld":
                live.withheld = True
