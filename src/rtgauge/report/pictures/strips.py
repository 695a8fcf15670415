# SPDX-License-Identifier: Apache-2.0
"""Loads and background activity over time, for strips below the picture over time.

The work rate of each load, frequency, temperature, interrupts, CPU time in use, stolen time and
system management interrupts, from the agent's records of a step. Records are merged if there are
more than a screen can show: counts are added, and the minimum of frequencies and the maximum of
temperatures are kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtgauge.report.results.background import busy_ns, stolen_ns

if TYPE_CHECKING:
    from rtgauge.store import StoredStep
    from rtgauge.stream import Ambience, Work

__all__ = ["POINTS", "Strip", "strips"]

POINTS: Final = 300
LINES: Final = 8
"""Maximum number of lines. For more CPUs, min, median and max are drawn."""

Value = float | None


@dataclass(frozen=True)
class Strip:
    """Lines over the time since the step began: ``x[k]`` (s) ends the interval of ``y[..][k]``."""

    title: str
    unit: str
    caption: str
    labels: Sequence[str]
    x: Sequence[float]
    y: Sequence[Sequence[Value]]

    def data(self) -> dict[str, Any]:
        """As the page embeds it."""
        return {
            "title": self.title,
            "unit": self.unit,
            "labels": list(self.labels),
            "x": [round(x, 3) for x in self.x],
            "y": [[None if v is None else float(f"{v:.4g}") for v in row] for row in self.y],
        }


def strips(step: StoredStep, points: int = POINTS) -> list[Strip]:
    """The strips of a step, those of its loads first; none where nothing was recorded."""
    return _work(step.work, points) + _background(step.ambience, points)


def _work(records: Iterable[Work], points: int) -> list[Strip]:
    loads: dict[str, tuple[str, array[int]]] = {}
    for record in records:
        if record.to_ns > record.from_ns:
            _, numbers = loads.setdefault(record.load, (record.unit, array("q")))
            numbers.extend((record.count, record.from_ns, record.to_ns))
    found = []
    for load, (unit, numbers) in loads.items():
        count, start, stop = np.frombuffer(numbers, np.int64).reshape(-1, 3).T
        first = np.arange(0, len(count), _size(len(count), points))
        rate = np.add.reduceat(count, first) * 1e9 / np.add.reduceat(stop - start, first)
        last = np.append(first[1:], len(count)) - 1
        found.append(
            Strip(
                f"Load {load}",
                f"{unit}/s" if unit else "1/s",
                "Work of the load. At a dip, the load was blocked or paused.",
                [load],
                (stop[last] / 1e9).tolist(),
                [rate.tolist()],
            )
        )
    return found


def _size(records: int, points: int) -> int:
    """Number of records in each group, for at most ``points`` groups."""
    return max(-(-records // max(points, 1)), 1)


def _least(values: Sequence[Value]) -> Value:
    return min((v for v in values if v is not None), default=None)


def _largest(values: Sequence[Value]) -> Value:
    return max((v for v in values if v is not None), default=None)


@dataclass
class _Counted:
    """CPU -> what was counted, and the time in which it was counted."""

    numbers: dict[int, int] = field(default_factory=dict)
    spans_ns: dict[int, int] = field(default_factory=dict)

    def add(self, cpus: Iterable[int], numbers: Iterable[int | None], span_ns: int) -> None:
        for cpu, number in zip(cpus, numbers, strict=False):
            if number is not None:
                self.numbers[cpu] = self.numbers.get(cpu, 0) + number
                self.spans_ns[cpu] = self.spans_ns.get(cpu, 0) + span_ns

    def rate(self, cpu: int, scale: float) -> Value:
        span_ns = self.spans_ns.get(cpu, 0)
        return self.numbers[cpu] * scale * 1e9 / span_ns if span_ns > 0 else None


class _Group:
    """Neighbouring records of background activity, merged."""

    def __init__(self) -> None:
        self.end_s = 0.0
        self.cpus: set[int] = set()
        self.frequency_khz: dict[int, int] = {}
        self.interrupts = _Counted()
        self.busy_ns = _Counted()
        self.steal_ns = _Counted()
        self.smi: int | None = None
        self.temperature_mc: dict[str, int] = {}

    def add(self, record: Ambience, span_ns: int) -> None:
        self.end_s = record.time_ns / 1e9
        self.cpus.update(record.cpus)
        for cpu, khz in zip(record.cpus, record.frequency_khz, strict=False):
            if khz is not None:
                self.frequency_khz[cpu] = min(khz, self.frequency_khz.get(cpu, khz))
        if record.interrupts is not None:
            self.interrupts.add(record.cpus, record.interrupts, span_ns)
        if record.steal_ns is not None:
            self.steal_ns.add(record.cpus, stolen_ns(record, span_ns), span_ns)
        self.busy_ns.add(record.cpus, busy_ns(record, span_ns), span_ns)
        if record.smi is not None:
            self.smi = record.smi + (self.smi or 0)
        for zone, value in record.temperature_mc.items():
            self.temperature_mc[zone] = max(value, self.temperature_mc.get(zone, value))


def _groups(records: Collection[Ambience], points: int) -> list[_Group]:
    groups: list[_Group] = []
    size = _size(len(records), points)
    before_ns = 0
    for number, record in enumerate(records):
        if number % size == 0:
            groups.append(_Group())
        groups[-1].add(record, record.time_ns - before_ns)
        before_ns = record.time_ns
    return groups


def _background(records: Collection[Ambience], points: int) -> list[Strip]:
    groups = _groups(records, points)
    if not groups:
        return []
    cpus = sorted({cpu for group in groups for cpu in group.cpus})
    x = [group.end_s for group in groups]

    names = [f"CPU {cpu}" for cpu in cpus]
    found = [
        _strip(
            "Frequency",
            "MHz",
            "The minimum of each interval. A CPU with a lower clock answers later.",
            names,
            x,
            [[_scaled(one.frequency_khz.get(cpu), 1e-3) for one in groups] for cpu in cpus],
        ),
        _strip(
            "Interrupts",
            "1/s",
            "All interrupts of each CPU. Each delays the task on that CPU.",
            names,
            x,
            [[one.interrupts.rate(cpu, 1.0) for one in groups] for cpu in cpus],
        ),
        _strip(
            "CPU time in use",
            "%",
            "Time in which each CPU ran something: the measurement, its load, other programs, "
            "interrupts.",
            names,
            x,
            [[one.busy_ns.rate(cpu, 1e-7) for one in groups] for cpu in cpus],
        ),
        _strip(
            "Stolen time",
            "%",
            "CPU time that the hypervisor took. No setting of the guest can prevent it.",
            names,
            x,
            [[one.steal_ns.rate(cpu, 1e-7) for one in groups] for cpu in cpus],
        ),
    ]
    found.append(
        Strip(
            "System management interrupts",
            "count",
            "Each stops all CPUs, and the kernel does not see it.",
            ["all CPUs"],
            x,
            [[_scaled(group.smi, 1.0) for group in groups]],
        )
    )
    zones = list(dict.fromkeys(zone for group in groups for zone in group.temperature_mc))
    found.append(
        _strip(
            "Temperature",
            "°C",
            "The max of each interval. Near its limit, a processor lowers its clock.",
            zones,
            x,
            [[_scaled(one.temperature_mc.get(zone), 1e-3) for one in groups] for zone in zones],
        )
    )
    return [one for one in found if any(v is not None for row in one.y for v in row)]


def _scaled(value: int | None, scale: float) -> Value:
    return None if value is None else value * scale


def _strip(
    title: str,
    unit: str,
    caption: str,
    labels: Sequence[str],
    x: Sequence[float],
    rows: Sequence[Sequence[Value]],
) -> Strip:
    if len(rows) <= LINES:
        return Strip(title, unit, caption, labels, x, rows)
    columns = list(zip(*rows, strict=True))
    many: list[tuple[str, Callable[[Sequence[Value]], Value]]] = [
        ("min", _least),
        ("median", _middle),
        ("max", _largest),
    ]
    return Strip(
        title,
        unit,
        f"{caption} Min, median and max of {len(rows)} "
        f"{'CPUs' if labels[0].startswith('CPU ') else 'zones'}.",
        [name for name, _ in many],
        x,
        [[take(column) for column in columns] for _, take in many],
    )


def _middle(values: Sequence[Value]) -> Value:
    known = [v for v in values if v is not None]
    return float(np.median(known)) if known else None
