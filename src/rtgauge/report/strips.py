# SPDX-License-Identifier: Apache-2.0
"""What went on beside the samples, for strips below the picture over time.

The rate at which each load worked, and of the ambience frequency, temperature, interrupts, stolen
time and system management interrupts, as the agent's records of a step tell. Records are merged
where there are more than a screen can show: counts are added; of a frequency the least stays, of a
temperature the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from rtgauge.store import StoredStep
    from rtgauge.stream import Work

__all__ = ["POINTS", "Strip", "strips"]

POINTS: Final = 300
LINES: Final = 8
"""So many CPUs have a line each; of more the least, the median and the largest are drawn."""

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
    return _work(step.work, points) + _ambience(getattr(step, "ambience", None) or (), points)


def _work(records: Iterable[Work], points: int) -> list[Strip]:
    loads: dict[str, list[Work]] = {}
    for record in records:
        if record.to_ns > record.from_ns:
            loads.setdefault(record.load, []).append(record)
    found = []
    for load, parts in loads.items():
        x, row = [], []
        for some in _runs(parts, points):
            x.append(some[-1].to_ns / 1e9)
            row.append(
                sum(one.count for one in some) * 1e9 / sum(one.to_ns - one.from_ns for one in some)
            )
        unit = parts[0].unit
        found.append(
            Strip(
                f"Load {load}",
                f"{unit}/s" if unit else "1/s",
                "Work that the load did. Where it dips, the load was kept from working, or paused.",
                [load],
                x,
                [row],
            )
        )
    return found


def _runs(records: Sequence[Any], points: int) -> list[Sequence[Any]]:
    """The records in at most so many groups of neighbours."""
    size = -(-len(records) // max(points, 1))
    return [records[at : at + size] for at in range(0, len(records), size)] if records else []


def _least(values: Sequence[Value]) -> Value:
    return min((v for v in values if v is not None), default=None)


def _largest(values: Sequence[Value]) -> Value:
    return max((v for v in values if v is not None), default=None)


def _ambience(records: Sequence[Any], points: int) -> list[Strip]:
    if not records:
        return []
    cpus: list[int] = sorted({cpu for record in records for cpu in record.cpus})
    groups = _runs(records, points)
    x = [some[-1].time_ns / 1e9 for some in groups]
    before = [0.0, *x[:-1]]
    lengths = [stop - start for start, stop in zip(before, x, strict=True)]

    def of(record: Any, name: str, cpu: int) -> Value:
        values = getattr(record, name)
        at = record.cpus.index(cpu) if cpu in record.cpus else -1
        return None if at < 0 or at >= len(values) or values[at] is None else float(values[at])

    def state(name: str, scale: float) -> list[list[Value]]:
        return [
            [
                None if (v := _least([of(one, name, cpu) for one in some])) is None else v * scale
                for some in groups
            ]
            for cpu in cpus
        ]

    def rate(name: str, scale: float) -> list[list[Value]]:
        rows = []
        for cpu in cpus:
            row: list[Value] = []
            for some, length in zip(groups, lengths, strict=True):
                values = [v for one in some if (v := of(one, name, cpu)) is not None]
                row.append(sum(values) * scale / length if values and length > 0 else None)
            rows.append(row)
        return rows

    names = [f"CPU {cpu}" for cpu in cpus]
    found = [
        _strip(
            "Frequency",
            "MHz",
            "The least in each interval: a core that clocks down answers late.",
            names,
            x,
            state("frequency_khz", 1e-3),
        ),
        _strip(
            "Interrupts",
            "1/s",
            "All interrupts of each CPU; every one of them delays the task on it.",
            names,
            x,
            rate("interrupts", 1.0),
        ),
        _strip(
            "Stolen time",
            "%",
            "What a hypervisor took away; no setting inside can give it back.",
            names,
            x,
            rate("steal_ns", 1e-7),
        ),
    ]
    counted = [[None if one.smi is None else float(one.smi) for one in some] for some in groups]
    smi = [
        sum(v for v in some if v is not None) if any(v is not None for v in some) else None
        for some in counted
    ]
    found.append(
        Strip(
            "System management interrupts",
            "count",
            "The firmware stops all CPUs for each, unseen by the kernel.",
            ["all CPUs"],
            x,
            [smi],
        )
    )
    zones = list(dict.fromkeys(zone for record in records for zone in record.temperature_mc))
    found.append(
        _strip(
            "Temperature",
            "°C",
            "The largest in each interval; near its limit a processor slows down.",
            zones,
            x,
            [
                [
                    None
                    if (v := _largest([_zone(one.temperature_mc, zone) for one in some])) is None
                    else v / 1000
                    for some in groups
                ]
                for zone in zones
            ],
        )
    )
    return [one for one in found if any(v is not None for row in one.y for v in row)]


def _zone(temperatures: Mapping[str, int], zone: str) -> Value:
    value = temperatures.get(zone)
    return None if value is None else float(value)


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
        ("least", _least),
        ("median", _middle),
        ("largest", _largest),
    ]
    return Strip(
        title,
        unit,
        f"{caption} Of {len(rows)} the least, the median and the largest.",
        [name for name, _ in many],
        x,
        [[take(column) for column in columns] for _, take in many],
    )


def _middle(values: Sequence[Value]) -> Value:
    known = [v for v in values if v is not None]
    return float(np.median(known)) if known else None
