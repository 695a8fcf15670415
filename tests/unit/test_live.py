# SPDX-License-Identifier: Apache-2.0
"""What is known of a step while it is measured: figures against brute force, of a fixed size."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgauge.engine.live import (
    BINS,
    LOADS_MAX,
    SECONDS,
    SERIES_MAX,
    SETTINGS_MAX,
    WINDOW_S,
    LiveStep,
    bin_low,
)
from rtgauge.plan import PlannedStep
from rtgauge.stats import bucket_of
from rtgauge.stream import Event, Histogram, Samples, SeriesInfo, Setting, Work

NS = 10**9


def info(number: int = 0, **changes: Any) -> SeriesInfo:
    """A series of the fake kind."""
    values: dict[str, Any] = {
        "sequence": 1, "series": number, "name": "latency", "context": "user", "cpu": number,
        "thread": number, "policy": "fifo", "priority": 80, "labels": MappingProxyType({}),
        "unit": "ns", "scale": 1, "interval_ns": 10**6, "companion": None,
        "histogram_only": False, **changes,
    }  # fmt: skip
    return SeriesInfo(**values)


def samples(values: list[int], due_ns: int = 0, series: int = 0) -> Samples:
    return Samples(2, series, 0, due_ns, np.array(values, np.int32), 0)


def histogram(values: list[int], **changes: Any) -> Histogram:
    found, counts = np.unique(bucket_of(np.array(values, np.int64), 7), return_counts=True)
    fields: dict[str, Any] = {
        "sequence": 3, "series": 0, "count": len(values), "min": min(values), "max": max(values),
        "sum": sum(values), "missed": 0, "lost": 0, "overruns": 0, "sub_bits": 7,
        "buckets": np.stack([found, counts], axis=1), **changes,
    }  # fmt: skip
    return Histogram(**fields)


def event(name: str, **fields: Any) -> Event:
    return Event(4, name, fields.pop("time_ns", 0), fields.pop("series", 0), fields)


def fresh(**changes: Any) -> LiveStep:
    live = LiveStep(PlannedStep("timer"), 10.0)
    live.take(info(**changes))
    return live


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=9), max_size=9),
       st.sampled_from([1, 1000]))  # fmt: skip
def test_figures_are_those_of_all_samples(blocks: list[list[int]], scale: int) -> None:
    live = fresh(scale=scale)
    for second, block in enumerate(blocks):
        live.take(samples(block, second * NS))
    one, every = live.series[0], [value for block in blocks for value in block]
    assert one.count == len(every) == int(one.bins.sum())
    if not every:
        assert (one.mean, one.second, one.recent(0)) == (0.0, -1, None)
        return
    assert (one.min, one.max, one.sum) == (min(every), max(every), sum(every))
    assert one.mean == sum(every) / len(every)
    assert one.recent(one.second) == max(max(block) for block in blocks[-WINDOW_S:])
    for number in np.flatnonzero(one.bins).tolist():
        low = bin_low(number) if number else -np.inf
        high = bin_low(number + 1) if number + 1 < BINS else np.inf
        inside = [value for value in every if low <= value * scale < high]
        assert one.bins[number] == pytest.approx(len(inside), abs=2)  # at the very edges


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 99)), min_size=1, max_size=40))
def test_the_maxima_of_the_last_seconds(blocks: list[tuple[int, int]]) -> None:
    live, worst = fresh(), dict[int, int]()
    newest = 0
    for second, value in blocks:
        live.take(samples([value], second * NS))
        if second > newest - SECONDS:
            newest = max(newest, second)
            worst[second] = max(worst.get(second, 0), value)
    for now in (newest, newest + 5):
        wanted = [worst.get(second) for second in range(now - SECONDS + 1, now + 1)]
        assert live.series[0].maxima(now) == wanted


def test_the_rate_is_that_of_the_last_seconds_whatever_the_blocks() -> None:
    live, due = fresh(), 0
    assert live.series[0].rate(0) is None
    sizes = np.random.default_rng(1).integers(1, 300, 400).tolist()
    for size in sizes:
        live.take(samples([5] * size, due))
        due += size * 10**6
    assert live.series[0].rate(due // NS) == pytest.approx(1000)
    for size in sizes:  # now every second period is missed
        live.take(samples([5] * size, due))
        due += 2 * size * 10**6
    assert live.series[0].rate(due // NS) == pytest.approx(500)


def test_a_series_that_stopped_has_no_rate() -> None:
    live = fresh()
    for second in range(5):
        live.take(samples([5] * 1000, second * NS))
    one = live.series[0]
    for now in (4, 4 + WINDOW_S - 1):  # its newest samples are among the last seconds
        assert one.recent(now) == 5
        assert one.rate(now) == pytest.approx(1000)
    assert one.recent(4 + WINDOW_S) is None
    assert one.rate(4 + WINDOW_S) is None


def test_what_is_missed_lost_and_wide_counts() -> None:
    live = fresh()
    live.take(samples([10, 20]))
    live.take(event("missed", index=1, count=3))
    live.take(event("lost", index=2, count=4, max=500))
    live.take(event("lost", index=6, count=2, max=-(2**63)))  # in the kernel: of unknown size
    live.take(event("wide", index=3, value=2**40, time_ns=NS))
    one = live.series[0]
    assert (one.missed, one.lost, one.min, one.max) == (3, 6, 10, 2**40)
    assert one.recent(1) == 2**40
    live.take(histogram([10, 20], missed=7, lost=1))
    assert (one.missed, one.lost, one.count) == (7, 6, 2)
    for wrong in (event("missed", count="x"), event("lost", max=None), event("x", series=None)):
        live.take(wrong)


def test_histograms_alone() -> None:
    live = fresh(histogram_only=True)
    live.elapsed_s = 5.0
    first = [1000] * 50 + [90_000]
    live.take(histogram(first))
    one = live.series[0]
    assert (one.count, one.min, one.max, one.sum) == (51, 1000, 90_000, sum(first))
    assert int(one.bins.sum()) == 51
    live.elapsed_s = 25.0
    live.take(histogram([*first, *[2000] * 60]))
    recent = one.recent(one.second)
    assert recent is not None and 2000 * 127 / 128 <= recent <= 2000
    assert one.rate(one.second) == pytest.approx(60 / 20)
    assert one.rate(one.second + 39) == pytest.approx(60 / 20)  # snapshots are 20 s apart
    assert one.rate(one.second + 40) is None


def test_the_work_of_the_loads_is_that_of_the_newest_record() -> None:
    live = fresh()
    live.take(Work(5, "sched", "messages", 100, 0, NS))
    live.take(Work(6, "sched", "messages", 100, NS, 3 * NS))
    live.take(Work(7, "net", "bytes", 1, 5, 5))
    assert live.work == {"sched": ("messages", 50.0)}
    live.take(event("load", load="sched", message="died", series=None))
    live.take(event("load", load="net", message="died", series=None))
    assert live.died is not None and live.died.fields["load"] == "sched"


def test_the_time_measured_does_not_count_that_in_which_the_loads_come_up() -> None:
    live = fresh()
    assert live.measured_s == 0
    live.elapsed_s = 3.0
    assert live.measured_s == 0
    live.elapsed_s = 4.5
    live.take(samples([1] * 501, NS // 2))  # due from 0.5 to 1 s
    assert live.measured_s == pytest.approx(1.0)
    live.elapsed_s = 6.0
    assert live.measured_s == pytest.approx(2.5)


@pytest.mark.slow
def test_a_step_of_weeks_and_a_hostile_stream_take_no_more_memory() -> None:
    live = fresh()
    for number in range(10_000):
        live.take(samples([number % 7], number * NS))
        live.take(Work(5, f"load-{number}", "x", 1, 0, 1))
        live.take(Setting(6, "a", "1", "0", "1", ""))
        live.take(info(number))
    live.take(samples([1], 2**62))
    live.take(samples([1], -(2**62)))
    assert len(live.series) <= SERIES_MAX
    assert len(live.work) <= LOADS_MAX and len(live.settings) <= SETTINGS_MAX
    one = live.series[0]
    held = [len(value) for value in vars(one).values() if hasattr(value, "__len__")]
    assert max(held) <= BINS
