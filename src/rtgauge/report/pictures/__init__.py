# SPDX-License-Identifier: Apache-2.0
"""What the pictures are drawn from: few numbers that stand for all samples, none left out.

Step 11 of the path of a sample: the value table and the time bins of ``gather`` become the arrays
that the HTML report embeds and its script draws. A picture shows all series of one quantity of a
step, on shared axes. Every maximum is among the points: bins are merged, nothing is averaged away.

    histogram   counts between shared edges, logarithmic or (with values <= 0) by asinh
    ccdf        how many samples are at least x, at shared x and at every maximum
    time        min, median and max of each time bin; what was missed or lost in it
    heat        how many samples are in each cell of time x value
    window      samples one by one: around each series' largest, and its first
    against     min, median, 99 % value and max over a numeric label of the series
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.report.pictures.drawing import CROWD
from rtgauge.report.pictures.persistence import below
from rtgauge.report.pictures.strips import POINTS
from rtgauge.report.results.gather import HEAT_COLUMNS, HEAT_ROWS, Figures, Heat
from rtgauge.report.results.labels import peak
from rtgauge.report.results.window import REACH, Window
from rtgauge.stats import Counts, bucket_high, bucket_low, bucket_of
from rtgauge.stats.counts import SUB_BITS
from rtgauge.text import AtLeast, plural

__all__ = ["APART", "Budget", "against", "edges_of", "overlay", "picture", "untimed"]

Int64 = NDArray[np.int64]

KNEE: Final = 1000
"""Below this size an axis that has to show values <= 0 becomes linear (1 us for latencies)."""

APART: Final = 4
"""Maximum number of series with heat maps of their own. More series share one."""

WINDOWS: Final = 64
"""Maximum number of series shown sample by sample: those with the highest maxima."""

_ROWS: Final = (600, 400)
_SHOWN: Final = 8192
_MAPS: Final = 500_000
_WINDOWS: Final = 80_000
_STRIPS: Final = 3000
_MANY: Final = 1024
"""With more series, the picture over time shows less of each, and the tables list fewer of them."""
_FEW: Final = 8
"""Least number of distances between values that show a clock with steps of more than 1 us."""


@dataclass(frozen=True)
class Budget:
    """How many points a series may have, so that the report stays small whatever their number.

    ``columns`` and ``rows`` are those of a heat map, ``reach`` the samples shown one by one on
    either side of the largest.
    """

    histogram: int
    ccdf: int
    columns: int = HEAT_COLUMNS
    rows: int = HEAT_ROWS
    reach: int = REACH
    strip: int = POINTS
    windows: int = WINDOWS
    rows_in: float = 1.0
    """The share of the series of a quantity that its tables list."""
    between: bool = True
    """Whether the picture over time has the min and median of each of many series. Without them it
    has the max of each, and the min of all."""

    @staticmethod
    def of(series: int, maps: int = 1, steps: int = 1) -> Budget:
        """The points for each of ``series`` series in ``steps`` steps, which have ``maps`` heat
        maps: about 250 000 in all, within limits, and 500 000 cells of the maps."""
        share = 250_000 // max(series, 1)
        columns = int((_MAPS / max(maps, 1) * HEAT_COLUMNS / HEAT_ROWS) ** 0.5)
        return Budget(
            histogram=min(max(share // 6, 40), 280),
            ccdf=min(max(share // 6, 40), 240),
            columns=min(max(columns, 60), HEAT_COLUMNS),
            rows=min(max(columns * HEAT_ROWS // HEAT_COLUMNS, 40), HEAT_ROWS),
            reach=min(max(_WINDOWS // max(series, 1) // 2, 20), REACH),
            strip=min(max(_STRIPS // max(steps, 1), 40), POINTS),
            windows=min(max(_SHOWN // max(series, 1), 4), WINDOWS),
            rows_in=min(_ROWS[series > _MANY] / max(series, 1), 1.0),
            between=series <= _MANY,
        )


def _spread(low: int, high: int, number: int) -> Int64:
    """Whole numbers from low to high, evenly spaced on the axis they will be drawn on."""
    if low > 0:
        points = np.geomspace(low, high, number)
    else:
        points = np.sinh(np.linspace(np.arcsinh(low / KNEE), np.arcsinh(high / KNEE), number))
        points *= KNEE
    inner = np.rint(points[1:-1]).astype(np.int64)
    return np.unique(np.concatenate(([low], inner[(inner > low) & (inner < high)], [high])))


def _step(tables: Sequence[Counts]) -> int:
    """The smallest distance between two values: a clock of 52 ns fills every 52nd bin only.

    The values of a series with few of them may be more than 1 us apart for other reasons.
    """
    steps = [np.diff(t.values) for t in tables if t.exact and len(t.values) > 1]
    smallest = [int(one.min()) for one in steps if one.min() <= 1000 or len(one) >= _FEW]
    return max(min(smallest), 1) if smallest else 1


def edges_of(tables: Sequence[Counts], number: int) -> Int64:
    """Edges of about ``number`` bins that hold all samples; bin i is edges[i] <= v < edges[i+1].

    No bin is narrower than the step in which the clock counts.
    """
    filled = [table for table in tables if len(table.values)]
    if not filled:
        return np.array([0, 1], np.int64)
    low = min(int(table.values[0]) for table in filled)
    high = max(int(table.values[-1]) for table in filled) + 1
    edges = _spread(low, high, number + 1) if high - low > 1 else np.array([low, high], np.int64)
    step = _step(filled)
    if step > 1:
        edges = low + (edges - low + step - 1) // step * step
        edges[-1] = max(int(edges[-1]), high)
        edges = np.unique(edges)
    return edges.astype(np.int64)


def _histogram(tables: Sequence[Counts], number: int) -> dict[str, Any]:
    edges = edges_of(tables, number)
    return {
        "edges": edges.tolist(),
        "counts": [np.diff(below(table, edges)).tolist() for table in tables],
    }


def _ccdf(
    tables: Sequence[Counts], corrected: Sequence[Counts | None], number: int
) -> dict[str, Any]:
    everything = [*tables, *(table for table in corrected if table is not None)]
    ends = [int(table.values[-1]) for table in everything if len(table.values)]
    points = np.unique(
        np.concatenate((edges_of(everything, number)[:-1], np.array(ends, np.int64)))
    )

    def at_least(table: Counts) -> list[int]:
        reached = table.count - below(table, points)
        return [int(n) for n in reached[: int(np.searchsorted(-reached, 0))]]

    return {
        "x": points.tolist(),
        "total": [table.count for table in tables],
        "reached": [at_least(table) for table in tables],
        "corrected_total": [0 if table is None else table.count for table in corrected],
        "corrected": [
            None if table is None or table == raw else at_least(table)
            for raw, table in zip(tables, corrected, strict=True)
        ],
    }


def _time(figures: Sequence[Figures], budget: Budget) -> dict[str, Any] | None:
    lines = [one.timeline for one in figures]
    if all(line is None for line in lines):
        return None
    first = next(line for line in lines if line is not None)
    marks: list[list[int | str]] = []
    for number, line in enumerate(lines):
        if line is None:
            continue
        for kind, row in (("missed", line.missed), ("lost", line.lost)):
            at = np.flatnonzero(row)
            marks.extend([int(b), number, kind, int(row[b])] for b in at)
    low = [[] if line is None else _listed(line.low, line.count) for line in lines]
    middle = [[] if line is None else _listed(line.middle, line.count) for line in lines]
    floor = None
    if len(figures) > CROWD and not budget.between:
        floor = _least(low)
        low = middle = [[] for _ in lines]
    return {
        "start_ns": first.start_ns,
        "bin_ns": first.bin_ns,
        "samples": [0 if line is None else int(line.count.sum()) for line in lines],
        "low": low,
        "middle": middle,
        "high": [[] if line is None else _listed(line.high, line.count) for line in lines],
        "floor": floor,
        "marks": marks,
    }


def _least(rows: Sequence[Sequence[int | None]]) -> list[int | None]:
    """The smallest value of each bin in all rows."""
    columns = itertools.zip_longest(*rows)
    return [min((v for v in column if v is not None), default=None) for column in columns]


def _listed(row: Int64, counts: Int64) -> list[int | None]:
    return [int(v) if n else None for v, n in zip(row, counts, strict=True)]


def _row_bits(low: int, high: int, rows: int) -> int:
    """The largest resolution, in bits, at which low to high span at most ``rows`` log-linear
    rows."""
    for bits in range(SUB_BITS, 0, -1):
        if int(bucket_of(high, bits)) - int(bucket_of(low, bits)) < rows:
            return bits
    return 0


def _heat(figures: Sequence[Figures], budget: Budget) -> dict[str, Any] | None:
    """The heat maps of the series, or the sum of all, on rows and columns that they share.

    The rows of a series are finer than the shared ones, or the same: log-linear rows nest.
    """
    maps = [one.heat for one in figures]
    filled = [one for one in maps if one is not None and len(one.low)]
    if not filled:
        return None
    scale = filled[0].scale if len({one.scale for one in filled}) == 1 else 1

    def ends(one: Heat, row: Int64) -> Int64:
        return row * (one.scale // scale)

    low = min(int(ends(one, one.low)[0]) for one in filled)
    high = max(int(ends(one, one.high)[-1]) for one in filled)
    bits = _row_bits(low, high, budget.rows)
    first = int(bucket_of(low, bits))
    rows = np.arange(first, int(bucket_of(high, bits)) + 1)
    step = -(-filled[0].columns // budget.columns)
    columns = -(-filled[0].columns // step)
    apart = len(figures) <= APART
    tables = np.zeros((len(figures) if apart else 1, columns, len(rows)), np.int64)
    for number, one in enumerate(maps):
        if one is not None and len(one.low):
            row = bucket_of(ends(one, one.high), bits) - first
            table = tables[number if apart else 0]
            np.add.at(table, (one.column // step, row[one.row]), one.count)
    return {
        "start_ns": filled[0].start_ns,
        "bin_ns": filled[0].bin_ns * step,
        "columns": columns,
        "low": (bucket_low(rows, bits) * scale).tolist(),
        "high": (bucket_high(rows, bits) * scale).tolist(),
        "maps": tables.reshape(len(tables), -1).tolist(),
    }


def _cut(window: Window | None, before: int, after: int) -> dict[str, Any] | None:
    if window is None:
        return None
    start = max(window.at - before, 0)
    stop = window.at + after + 1
    if window.loop:  # as much of the loop as there is room for
        room = 3 * max(before, 1)
        start = min(max(window.at - room // 2, 0), max(len(window.value) - room, 0))
        stop = start + room
    part = slice(start, stop)
    return {
        "at": window.at - start,
        "index": window.index[part].tolist(),
        "due_ns": window.due_ns[part].tolist(),
        "value": window.value[part].tolist(),
    }


def against(series: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The figures of a quantity's series of the results model over a label with at least three
    values, all of them whole numbers; None without such a label. If there are several, the label
    with the most values is taken. Each combination of the other labels and the CPU is a line."""
    names = dict.fromkeys(name for one in series for name in one["labels"])
    values = {
        name: {int(one["labels"][name]) for one in series}
        for name in names
        if all(_whole(one["labels"].get(name, "")) for one in series)
    }
    label = max(values, key=lambda name: len(values[name]), default="")
    if not label or len(values[label]) < 3:
        return None
    cpus = len({one["cpu"] for one in series}) > 1
    lines: dict[str, list[tuple[int, int, Mapping[str, Any]]]] = {}
    for at, one in enumerate(series):
        if None not in (one["min"], one["max"]):  # a maximum alone is that of a lost sample
            words = [f"{k} {v}" for k, v in one["labels"].items() if k != label]
            words += [f"CPU {one['cpu']}"] if cpus else []
            x = int(one["labels"][label])
            lines.setdefault(", ".join(words), []).append((x, at, one))
    if not lines:
        return None
    rows = {name: sorted(points, key=lambda point: point[:2]) for name, points in lines.items()}

    def figure(name: str) -> list[list[int | None]]:
        return [[one["percentiles"].get(name) for _, _, one in points] for points in rows.values()]

    tops = [[peak(one) for _, _, one in points] for points in rows.values()]
    return {
        "label": label,
        "lines": list(rows),
        "x": [[x for x, _, _ in points] for points in rows.values()],
        "low": [[one["min"] for _, _, one in points] for points in rows.values()],
        "middle": figure("50"),
        "tail": figure("99"),
        "high": tops,
        "at_least": [[isinstance(top, AtLeast) for top in row] for row in tops],
    }


def _whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12


def _windows(figures: Sequence[Figures], budget: Budget) -> dict[str, Any] | None:
    """The samples one by one; of many series those with the largest maxima."""
    if all(one.around is None for one in figures):
        return None
    highest = sorted(range(len(figures)), key=lambda at: -(figures[at].counts.max or 0))
    highest = highest[: budget.windows]
    shown = [one if at in highest else None for at, one in enumerate(figures)]
    first = max(budget.reach // 2, 1) - 1
    return {
        "around": [one and _cut(one.around, budget.reach, budget.reach) for one in shown],
        "begin": [one and _cut(one.begin, 0, first) for one in shown],
        "loops": all(one.around is None or one.around.loop for one in figures),
    }


def untimed(data: Mapping[str, Any]) -> str:
    """The sentence of a caption for the samples that a picture over time lacks, because they are in
    histograms alone; empty if it has all."""
    number: int = sum(data["ccdf"]["total"]) - sum(data["time"]["samples"])
    return f" Not in this picture: {plural(number, 'sample')} without a known time." * (number > 0)


def maxima(tops: Sequence[int | None]) -> dict[str, Any]:
    """The maxima of the series of a quantity, and which of them are lower limits."""
    return {"max": tops, "at_least": [isinstance(top, AtLeast) for top in tops]}


def overlay(tables: Sequence[Counts], budget: Budget) -> dict[str, Any]:
    """The arrays behind overlaid distributions: histogram and CCDF alone."""
    return {
        "histogram": _histogram(tables, budget.histogram),
        "ccdf": _ccdf(tables, [None] * len(tables), budget.ccdf),
        "time": None,
        "heat": None,
        "window": None,
    }


def picture(figures: Sequence[Figures], budget: Budget) -> dict[str, Any]:
    """The arrays behind the pictures of one quantity; one entry for each of its series."""
    tables = [one.counts for one in figures]
    return {
        "histogram": _histogram(tables, budget.histogram),
        "ccdf": _ccdf(tables, [one.corrected for one in figures], budget.ccdf),
        "time": _time(figures, budget),
        "heat": _heat(figures, budget),
        "window": _windows(figures, budget),
    }
