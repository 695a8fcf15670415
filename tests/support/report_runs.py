# SPDX-License-Identifier: Apache-2.0
"""Stored runs that never touched a store, for the tests of the report.

They have the attributes of ``rtgauge.store`` that the report reads, with samples made up here, so
that every figure of the report can be compared with one computed from the arrays directly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtgauge import stream
from rtgauge.report.results import model
from rtgauge.stats import SUB_BITS, bucket_of

MS = 1_000_000


@dataclass(frozen=True)
class FakeChunk:
    index: NDArray[np.int64]
    due_ns: NDArray[np.int64]
    value: NDArray[Any]


@dataclass
class FakeSeries:
    info: stream.SeriesInfo
    index: NDArray[np.int64]
    value: NDArray[Any]
    start_ns: int = 0
    due: NDArray[np.int64] | None = None
    lost: tuple[tuple[int, int, int], ...] = ()
    histogram: stream.Histogram | None = None
    companion: FakeSeries | None = None
    withheld: int = 0
    gaps: tuple[tuple[int, int], ...] = ()
    chunk_rows: int = 1000
    extra_overruns: int = 0
    untold_losses: int = 0

    @property
    def due_ns(self) -> NDArray[np.int64]:
        if self.due is not None:
            return self.due
        return self.start_ns + self.index * self.info.interval_ns

    @property
    def count(self) -> int:
        return len(self.value)

    @property
    def totals(self) -> stream.SeriesTotals:
        due = self.due_ns
        lost = sum(count for _, count, _ in self.lost) + self.untold_losses
        return stream.SeriesTotals(
            series=self.info.series,
            count=len(self.value) + lost,
            missed=sum(count for _, count in self.gaps),
            lost=lost,
            overruns=len(self.gaps) + self.extra_overruns,
            first_due_ns=int(due[0]) if len(due) else 0,
            last_due_ns=int(due[-1]) if len(due) else 0,
        )

    @property
    def missed_events(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        rows = np.array(self.gaps, np.int64).reshape(-1, 2)
        return rows[:, 0].copy(), rows[:, 1].copy()

    @property
    def lost_events(self) -> tuple[NDArray[np.int64], ...]:
        step = max(self.info.interval_ns, 1)
        rows = [(index, index * step, count, largest) for index, count, largest in self.lost]
        table = np.array(rows, np.int64).reshape(-1, 4)
        return tuple(table.T)

    def chunks(self) -> Iterator[FakeChunk]:
        due_ns = self.due_ns
        for start in range(0, len(self.value), self.chunk_rows):
            part = slice(start, start + self.chunk_rows)
            yield FakeChunk(self.index[part], due_ns[part], self.value[part])

    def values(self) -> Iterator[NDArray[Any]]:
        for chunk in self.chunks():
            yield chunk.value


@dataclass
class FakeStep:
    number: int
    document: dict[str, Any]
    series: list[FakeSeries]
    header: Any = None
    settings: list[stream.Setting] = field(default_factory=list)
    told: list[stream.Event] = field(default_factory=list)
    tables: list[stream.Table] = field(default_factory=list)
    verdicts: list[stream.Verdict] = field(default_factory=list)
    work: list[stream.Work] = field(default_factory=list)
    ambience: list[Any] = field(default_factory=list)
    clocks: list[Any] = field(default_factory=list)
    trace: list[Any] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    trailer: stream.Trailer | None = None
    end: stream.StreamEnd | None = field(
        default_factory=lambda: stream.StreamEnd(True, 100, 0, 0, "", False)
    )


@dataclass
class FakeRun:
    id: str
    document: dict[str, Any]
    steps: list[FakeStep]
    causes: dict[str, Any] = field(default_factory=dict)
    imported: bool = False


def info(series: int = 0, cpu: int = 0, **more: Any) -> stream.SeriesInfo:
    values: dict[str, Any] = dict(
        sequence=1,
        series=series,
        name="latency",
        context="user",
        cpu=cpu,
        thread=series,
        policy="fifo",
        priority=95,
        labels={},
        unit="ns",
        scale=1,
        interval_ns=MS,
        companion=None,
        histogram_only=False,
    )
    return stream.SeriesInfo(**{**values, **more})


def sampled(values: NDArray[Any], series: int = 0, cpu: int = 0, **more: Any) -> FakeSeries:
    """A series with one of these values in each period. ``more``: fields of the series (not its
    companion), and of its information."""
    known = FakeSeries.__dataclass_fields__.keys() - {"companion"}
    fields = {key: more.pop(key) for key in known & more.keys()}
    index = np.arange(len(values), dtype=np.int64)
    return FakeSeries(info(series, cpu, **more), index, values, **fields)


def as_histogram(series: FakeSeries) -> FakeSeries:
    """Keep only the histogram of a series."""
    values = series.value
    series.info = replace(series.info, histogram_only=True)
    buckets = np.stack(np.unique(bucket_of(values), return_counts=True), axis=1)
    facts = len(values), int(values.min()), int(values.max()), int(values.sum())
    series.histogram = stream.Histogram(0, 0, *facts, 0, 0, 0, SUB_BITS, buckets)
    return series


def latencies(random: np.random.Generator, count: int, typical: int = 5000) -> NDArray[np.int32]:
    """A body, a shoulder and a few far excursions, as timers on a loaded machine give."""
    body = random.lognormal(np.log(typical), 0.22, count)
    shoulder = random.random(count) < 0.02
    body[shoulder] *= random.uniform(1.5, 4, int(shoulder.sum()))
    rare = random.random(count) < 2e-5
    body[rare] += random.uniform(40_000, 140_000, int(rare.sum()))
    if count:
        body[0] = typical * 3.5
    return body.astype(np.int32)


def with_stalls(
    values: NDArray[np.int32], stalls: dict[int, int], interval: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], tuple[tuple[int, int], ...]]:
    """Remove ``stalls[i]`` grid points after sample i, which was late by that much."""
    index = np.arange(len(values), dtype=np.int64)
    keep = np.ones(len(values), bool)
    values = values.copy()
    gaps = []
    for at, count in sorted(stalls.items()):
        values[at] = count * interval + 7000
        keep[at + 1 : at + 1 + count] = False
        gaps.append((at, min(count, len(index) - at - 1)))
    return index[keep], values[keep], tuple(gaps)


CATALOGUE: dict[str, Any] = {
    "format": "rtgauge-catalogue",
    "version": 1,
    "agent": "0.1.0",
    "libc": "glibc 2.36",
    "measurements": [
        {
            "name": "timer",
            "code": "",
            "role": "measurement",
            "contexts": ["user"],
            "summary": "latency of a periodic task woken by a timer",
            "series": [
                {
                    "name": "latency",
                    "unit": "ns",
                    "from": "due time",
                    "to": "the task runs",
                    "meaning": "How late a task of the highest priority runs after the moment "
                    "it was to be woken.",
                    "stages": ["timer interrupt", "handler", "wake-up", "switch", "return to user"],
                }
            ],
            "tables": [],
            "verdicts": [],
        },
        {
            "name": "clock-cost",
            "code": "CAL-P-TRC",
            "role": "calibration",
            "contexts": ["user"],
            "summary": "what reading a clock costs",
            "series": [
                {
                    "name": "cost",
                    "unit": "ns",
                    "from": "first reading",
                    "to": "second reading",
                    "meaning": "Two readings directly after each other.",
                    "stages": [],
                }
            ],
            "tables": [
                {
                    "name": "clocks",
                    "meaning": "Cost and resolution of each clock that the run uses.",
                }
            ],
            "verdicts": [],
        },
        {
            "name": "round-robin",
            "code": "THR-B-RR",
            "role": "measurement",
            "contexts": ["user"],
            "summary": "time slices of equal threads",
            "series": [
                {
                    "name": "slices",
                    "unit": "count",
                    "meaning": "Loops done in each slice.",
                    "from": "",
                    "to": "",
                    "stages": [],
                }
            ],
            "tables": [],
            "verdicts": [{"rule": "fair", "meaning": "All slices are equally long."}],
        },
    ],
    "loads": [{"name": "sched", "summary": "messages", "unit": "messages", "options": []}],
}

FINDINGS = [
    {
        "check": "preemption",
        "found": "PREEMPT_DYNAMIC, voluntary",
        "level": "error",
        "why": "Code in the kernel is preempted only where it offers it.",
        "remedy": "Boot a PREEMPT_RT kernel, or add preempt=full to the kernel's command line.",
    },
    {
        "check": "high-resolution timers",
        "found": "active on all CPUs",
        "level": "ok",
        "why": "Without them timers expire on the tick.",
        "remedy": "",
    },
    {
        "check": "clock source",
        "found": "tsc",
        "level": "ok",
        "why": "Slow clocks cost microseconds.",
        "remedy": "",
    },
    {
        "check": "cpufreq governor",
        "found": "schedutil on CPUs 0-3",
        "level": "warning",
        "why": "A core that clocks down answers late.",
        "remedy": "cpupower frequency-set -g performance",
        "command": "cpupower frequency-set -g performance",
    },
    {
        "check": "virtualisation",
        "found": "KVM guest, steal time 0.3 %",
        "level": "warning",
        "why": "The hypervisor takes the CPU.",
        "remedy": "Measure on the hardware itself.",
    },
    {
        "check": "SMT siblings",
        "found": "CPU 0 and 2, CPU 1 and 3 share a core",
        "level": "note",
        "why": "Siblings share execution units.",
        "remedy": "Boot with nosmt.",
    },
]

ENVIRONMENT: dict[str, Any] = {
    "kernel": {
        "sysname": "Linux",
        "release": "6.1.0-27-rt-amd64",
        "version": "#1 SMP PREEMPT_RT Debian 6.1.115-1",
        "cmdline": "quiet isolcpus=2-3",
    },
    "cpu": {"model": "Intel(R) Core(TM) i5-8365U CPU @ 1.60GHz", "count": 4, "machine": "x86_64"},
    "libc": "glibc 2.36",
    "realtime": "preempt_rt",
    "settings": {},
}


def header(step: int = 0, measurement: str = "timer", load: str = "sched") -> stream.Header:
    return stream.Header(
        sequence=0,
        agent="0.1.0",
        libc="glibc 2.36",
        compiler="gcc 12.2",
        machine="x86_64",
        run="0192f",
        step=step,
        measurement=measurement,
        parameters={
            "interval": stream.Parameter(None, "1ms"),
            "cpu": stream.Parameter("all", "0-3"),
            "priority": stream.Parameter(None, "95"),
            "for": stream.Parameter("60s", "1m"),
        },
        load=load,
        boot_id="b0",
        privileged=True,
        counter=stream.Counter("tsc", 1_896_000_000),
        clock=stream.ClockReading(1, 2, 3),
        start_ns=5,
    )


def run(steps: list[FakeStep], **document: Any) -> FakeRun:
    base: dict[str, Any] = {
        "format": "rtgauge-run",
        "version": 1,
        "id": "0192f0c4-6d1e-7aaa-8000-000000000001",
        "study": None,
        "label": None,
        "repeat": 0,
        "target": "local",
        "boot_id": "9d0a",
        "started": "2026-11-21T10:00:00Z",
        "duration_s": 63.2,
        "state": "complete",
        "reason": "",
        "remedy": "",
        "plan": {},
        "environment": ENVIRONMENT,
        "findings": FINDINGS,
        "catalogue": CATALOGUE,
        "steps": [step.document for step in steps],
    }
    base.update(document)
    return FakeRun(base["id"], base, steps)


def step(
    number: int, series: list[FakeSeries], measurement: str = "timer", **more: Any
) -> FakeStep:
    fields = {key: more.pop(key) for key in list(more) if key in FakeStep.__dataclass_fields__}
    document: dict[str, Any] = {
        "step": number,
        "measurement": measurement,
        "parameters": {"interval": "1ms"},
        "load": "idle",
        "budget_ns": None,
        "rate_per_hour": None,
        "role": "measurement",
        "state": "complete",
        "reason": "",
        "remedy": "",
        "folder": f"steps/{number:03}",
        "duration_s": 60.0,
    }
    document.update(more)
    if "header" not in fields:
        fields["header"] = header(number, measurement, document["load"])
    return FakeStep(number, document, series, **fields)


def timer_series(cpus: int, count: int, seed: int = 1, stalls: bool = True) -> list[FakeSeries]:
    made = []
    for cpu in range(cpus):
        random = np.random.default_rng(seed * 1000 + cpu)
        values = latencies(random, count, 4200 + 260 * (cpu * 7 % 11))
        index = np.arange(count, dtype=np.int64)
        gaps: tuple[tuple[int, int], ...] = ()
        if stalls and cpu == min(1, cpus - 1) and count > 1000:
            index, values, gaps = with_stalls(values, {count // 3: 12, count // 2: 49}, MS)
        made.append(FakeSeries(info(cpu, cpu), index, values, gaps=gaps, chunk_rows=50_000))
    return made


def evaluation(cpus: int = 4, count: int = 60_000) -> FakeRun:
    """A run such as ``rtgauge evaluate`` leaves: idle, loaded, a calibration, a skipped step."""
    loaded = timer_series(cpus, count, 2)
    work = [
        stream.Work(0, "sched", "messages", 41_230, s * 10**9, (s + 1) * 10**9) for s in range(60)
    ]
    settings = [
        stream.Setting(0, "/dev/cpu_dma_latency", "0", None, "0", ""),
        stream.Setting(
            0, "/proc/sys/kernel/sched_rt_runtime_us", "-1", "950000", "950000", "permission denied"
        ),
    ]
    clocks = stream.Table(
        0,
        "clocks",
        (
            stream.Column("clock", ""),
            stream.Column("minimum", "ns"),
            stream.Column("mean", "ns"),
            stream.Column("readings", "count"),
        ),
        (("CLOCK_MONOTONIC", 21, 24, 100_000), ("counter", 8, 9, 100_000)),
    )
    cost = [
        FakeSeries(
            info(0, 0, name="cost", interval_ns=0, policy="fifo"),
            np.arange(5000, dtype=np.int64),
            np.random.default_rng(5).integers(20, 31, 5000).astype(np.int32),
            due=np.arange(5000, dtype=np.int64) * 400,
        )
    ]
    return run(
        [
            step(
                0,
                timer_series(cpus, count, 1, stalls=False),
                budget_ns=400_000,
                rate_per_hour=100.0,
            ),
            step(
                1,
                loaded,
                load="sched",
                work=work,
                settings=settings,
                budget_ns=150_000,
                rate_per_hour=1.0,
                told=[
                    stream.Event(
                        0,
                        "setting",
                        31 * 10**9,
                        None,
                        {
                            "name": "scaling_governor",
                            "expected": "performance",
                            "found": "schedutil",
                        },
                    )
                ],
            ),
            step(
                2,
                [],
                "round-robin",
                state="skipped",
                reason="no right to use real-time priorities",
                remedy="run as root, or give the user an rtprio limit",
                header=None,
                end=None,
                duration_s=None,
            ),
            step(
                3,
                cost,
                "clock-cost",
                role="calibration",
                tables=[clocks],
                verdicts=[stream.Verdict(0, "resolution", "pass", "1 ns", "")],
            ),
        ],
        label="bench board",
    )


def simple() -> SimpleNamespace:
    """One series of a thousand samples in one step, and its arrays."""
    values = latencies(np.random.default_rng(11), 1000)
    series = sampled(values)
    return SimpleNamespace(run=run([step(0, [series])]), series=series, values=values)


def apart(number: int, count: int = 100) -> list[FakeSeries]:
    """Series with few samples in a step whose bins of time are those of a long one, so that most of
    their bins have no neighbour."""
    values = (np.arange(count) * 2 + 900).astype(np.int32)
    few = [
        FakeSeries(info(at, interval_ns=0, labels={"waiters": str(at)}), np.arange(count), values,
                   due=np.arange(count) * 1_500_000 + at * 180_000)
        for at in range(number)
    ]  # fmt: skip
    size = 9000
    every = np.full(size, 950, np.int32)
    due = np.arange(size) * (1_500_000 * count // size)
    whole = info(number, name="every", interval_ns=0)
    return [*few, FakeSeries(whole, np.arange(size), every, due=due)]


def built(*runs: Any) -> dict[str, Any]:
    """The results model of runs, which follows its schema."""
    document = model.build(runs)
    model.validate(document)
    json.dumps(document, allow_nan=False)
    return document
