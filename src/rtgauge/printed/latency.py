# SPDX-License-Identifier: Apache-2.0
"""What Xenomai's ``latency`` printed, and its histogram as buckets of a stream.

``latency`` counts the magnitude of each latency in cells of one width, 1 us by default. Its last
cell also contains what is beyond it, and negative latencies are in the cells of positive ones. A
sample becomes the upper end of its cell, so that no percentile is too low. Minimum, mean and
maximum are the printed ones. Source of the format: testsuite/latency/latency.c of Xenomai 2.6 to
3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from rtgauge.printed.lines import refuse
from rtgauge.stats import bucket_of
from rtgauge.stream import Tally
from rtgauge.text import join, plain, plural, time

__all__ = ["TIME_LIMIT", "VALUE_LIMIT", "Figures", "Latency", "distribution"]

NS: Final = 10**9
VALUE_LIMIT: Final = 2**31 - 1
"""The longest latency in ns: ``latency`` keeps it in 32 bits."""
TIME_LIMIT: Final = 1 << 59
_CELL: Final = "name the width of its cells (option -B of latency) with --cell, such as 100ns"


@dataclass(frozen=True)
class Figures:
    """Minimum, mean and maximum in ns, and the counters next to them. ``switches``: mode switches
    that came with a maximum; None: not printed."""

    min: int
    mean: int
    max: int
    overruns: int
    switches: int | None


@dataclass
class Latency:
    """The output of one ``latency``. ``seconds``: what it printed each second. ``total``: what it
    printed at its end, ``plotted``: at the head of a histogram for gnuplot, None if missing.
    ``cells``: number of each cell -> samples."""

    line: int
    context: str = ""
    period_ns: int = 0
    priority: int = 0
    seconds: list[Figures] = field(default_factory=list)
    total: Figures | None = None
    plotted: Figures | None = None
    duration_s: int | None = None
    cells: dict[int, int] = field(default_factory=dict)
    cell_ns: int | None = None
    version: str = ""

    @property
    def figures(self) -> Figures:
        """The figures of the whole run, or else of the seconds that were printed."""
        whole = self.total or self.plotted
        if whole is not None:
            return whole
        last = self.seconds[-1]
        return Figures(
            min(one.min for one in self.seconds),
            sum(one.mean for one in self.seconds) // len(self.seconds),
            max(one.max for one in self.seconds),
            last.overruns,
            last.switches,
        )

    @property
    def ended(self) -> bool:
        """Whether the figures of the whole run are there."""
        return self.total is not None or self.plotted is not None

    @property
    def per_second(self) -> int:
        """Number of samples in a second."""
        return NS // self.period_ns


def distribution(found: Latency, cell_ns: int) -> tuple[Tally, list[str]]:
    """The samples of the histogram as a tally of series 0, and messages on what is not exact.

    UsageError if the histogram contradicts the printed figures.
    """
    figures, cells = found.figures, found.cells
    low, high, count = figures.min, figures.max, sum(cells.values())
    if (count + figures.overruns) * found.period_ns > TIME_LIMIT:
        refuse(
            f"line {found.line}: {count} samples and {figures.overruns} overruns take longer than "
            "18 years"
        )
    if (max(cells) + 1) * cell_ns > VALUE_LIMIT:
        refuse(f"line {found.line}: its histogram ends beyond 2 s")
    top, last = max(cells), max(abs(low), abs(high)) // cell_ns
    above = sum(number for cell, number in cells.items() if cell > last)
    below = sum(number for cell, number in cells.items() if (cell + 1) * cell_ns <= low)
    if max(above, below) > found.per_second:
        refuse(
            f"line {found.line}: {max(above, below)} samples of its histogram lie outside of the "
            f"printed minimum and maximum",
            _CELL,
        )
    of_cells = [name for name, some in (("min", below), ("max", above)) if some]
    printed = join([name for name in ("min", "mean", "max") if name not in of_cells])
    messages = [
        f"latency counted in cells of {time(cell_ns)}: percentiles and both ends of their "
        f"intervals may be up to {time(cell_ns)} too high. {printed.capitalize()} "
        f"{'is' if printed == 'mean' else 'are'} as printed"
    ]
    if of_cells:
        messages.append(
            f"The histogram has {plural(above + below, 'sample')} outside of the printed minimum "
            "and maximum: latency counts the last, unfinished second only in its histogram. "
            f"Its outermost cells give {join(of_cells)}"
        )
        high = (top + 1) * cell_ns - 1 if above else high
        low = min(cells) * cell_ns if below else low
    if last > top:
        messages.append(
            f"The histogram ends at {time((top + 1) * cell_ns)}. All samples of its last cell "
            f"({cells[top]}) count as the maximum, because this cell also contains longer ones"
        )
    if low < 0:
        messages.append(
            f"latency counts early expiries as late ones: samples below {time(-low)} may be "
            "negative, but count as positive"
        )
    counts = _values(found, cell_ns, low, high)
    mean = _checked_mean(found, cell_ns, low, counts)
    tally = Tally(0, count, min=low, max=high, missed=figures.overruns)
    tally.sum = min(max(mean * count, low * count), high * count)
    values = np.fromiter(counts, np.int64, len(counts))
    for bucket, number in zip(bucket_of(values).tolist(), counts.values(), strict=True):
        tally.buckets[bucket] = tally.buckets.get(bucket, 0) + number
    return tally, messages


def _values(found: Latency, cell_ns: int, low: int, high: int) -> dict[int, int]:
    """Value in ns -> samples: each cell counts at its upper end, one sample at the minimum."""
    top = max(found.cells)

    def value(cell: int) -> int:
        if cell == top and high // cell_ns > top:
            return high
        early = high < cell * cell_ns  # too large for a positive latency
        return min(-cell * cell_ns if early else (cell + 1) * cell_ns - 1, high)

    first, last = (min(abs(end) // cell_ns, top) for end in (low, high))
    if not {first, last} <= found.cells.keys() or (
        first == last and low < high and found.cells[first] == 1
    ):
        refuse(
            f"line {found.line}: the cells of its histogram for the printed minimum and maximum "
            "are empty",
            _CELL,
        )
    counts: dict[int, int] = {}
    for cell, number in found.cells.items():
        taken = cell == first
        counts[value(cell)] = counts.get(value(cell), 0) + number - taken
        if taken:
            counts[low] = counts.get(low, 0) + 1
    return {value: number for value, number in counts.items() if number}


def _checked_mean(found: Latency, cell_ns: int, low: int, counts: Mapping[int, int]) -> int:
    """The printed mean, if it can be that of the histogram: with the width of another program's
    cells it is far from it."""
    mean, count = found.figures.mean, sum(counts.values())
    early = -low // cell_ns if low < 0 else -1
    least = sum(
        number * cell_ns * (-cell - 1 if cell <= early else cell)
        for cell, number in found.cells.items()
    )
    most = sum(value * number for value, number in counts.items())
    slack = count * (cell_ns // 2 + abs(mean) // 5)
    if not least - slack <= mean * count <= most + slack:
        refuse(
            f"line {found.line}: its histogram has a mean of about {plain(time(most // count))}, "
            f"but latency printed {plain(time(mean))}",
            _CELL,
        )
    return mean
