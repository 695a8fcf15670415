# SPDX-License-Identifier: Apache-2.0
"""What Xenomai's programs print, made of known samples.

Written after the formats of testsuite/latency/latency.c, testsuite/clocktest/clocktest.c and
testsuite/switchtest/switchtest.c of Xenomai 3.3.1, and src/testsuite/irqbench/irqbench.c of 2.6.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MODES = {
    "user": "periodic user-mode task",
    "kernel": "in-kernel periodic task",
    "irq": "in-kernel timer handler",
}


def us(ns: float) -> str:
    return f"{ns / 1000:11.3f}"


def clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def histogram(values: Sequence[int], cell_ns: int, size: int) -> Counter[int]:
    """Magnitudes in cells, the last of which also has what is beyond it."""
    return Counter(min(abs(value) // cell_ns, size - 1) for value in values)


def dump(cells: Counter[int], kind: str) -> list[str]:
    rows = [f"HSD|    {kind}| {n:3d} -{n + 1:3d} | {cells[n]:8d}" for n in sorted(cells)]
    return ["---|--param|----range-|--samples", *rows]


def plot(cells: Counter[int], cell_ns: int, figures: str, title: str) -> list[str]:
    """The file of -g."""
    first, last = min(cells), max(cells)
    points = [f"{first * cell_ns / 1000:g} 1"]
    points += [
        f"{(n + 0.5) * cell_ns / 1000:g} {cells.get(n, 0) + 1}" for n in range(first, last + 1)
    ]
    points.append(f"{(last + 1) * cell_ns / 1000:g} 1")
    return [
        f"# {title}",
        "# ----lat min|----lat avg|----lat max|-overrun|---msw|",
        f"# {figures}|",
        "# Xenomai version: Xenomai/cobalt v3.3.1 -- ",
        "# Linux version 6.6.0-rc4+",
        *points,
    ]


def latency(
    samples: NDArray[np.int64],
    *,
    context: str = "user",
    period_us: int = 1000,
    priority: int = 99,
    unfinished: Sequence[int] = (),
    overruns: int = 0,
    switches: int = 0,
    quiet: bool = False,
    cell_ns: int = 1000,
    size: int = 300,
    histograms: bool = True,
    gnuplot: str = "",
) -> str:
    """The output of latency. ``samples``: one row in ns for each second. ``unfinished``: those of
    the last second, which are in the histogram alone. ``gnuplot``: ``-`` for both in one, ``only``
    for the file of -g alone."""
    title = f"({MODES[context]}, {period_us} us period, priority {priority})"
    lines = [
        f"== Sampling period: {period_us} us",
        f"== Test mode: {MODES[context]}",
        "== All results in microseconds",
        "warming up...",
    ]
    means, best, worst = [], 10_000_000, -10_000_000
    for number, second in enumerate(samples):
        if number % 21 == 0 and not quiet:
            lines.append(f"RTT|  {clock(number)}  {title}")
            lines.append(
                "RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst"
            )
        low, high = int(second.min()), int(second.max())
        means.append(int(second.sum() / len(second)))
        best, worst = min(best, low), max(worst, high)
        if not quiet:
            lines.append(
                f"RTD|{us(low)}|{us(means[-1])}|{us(high)}|{overruns:8d}|{switches:6d}"
                f"|{us(best)}|{us(worst)}"
            )
    everything = [*samples.ravel().tolist(), *unfinished]
    cells = histogram(everything, cell_ns, size)
    mean = int(sum(means) / len(means))
    figures = f"{us(best)}|{us(mean)}|{us(worst)}|{overruns:8d}|{switches:6d}"
    plotted = plot(cells, cell_ns, figures, f"{clock(len(samples))} {title}")
    if gnuplot == "only":
        return "\n".join([*plotted, ""])
    if histograms:
        low_cells = histogram([int(row.min()) for row in samples], cell_ns, size)
        high_cells = histogram([int(row.max()) for row in samples], cell_ns, size)
        lines += [*dump(low_cells, "min"), *dump(cells, "avg"), *dump(high_cells, "max")]
        lines.append("HSH|--param|--samples-|--average--|---stddev--")
        lines.append(f"HSS|    avg| {len(everything):9d}| {mean / 1000:10.3f}| {1.5:10.3f}")
    lines += plotted if gnuplot == "-" else []
    lines.append(
        "---|-----------|-----------|-----------|--------|------|-------------------------"
    )
    lines.append(f"RTS|{figures}|    {clock(len(samples))}/{clock(len(samples))}")
    if switches:
        lines.append("Warning! some latency peaks may have been due to involuntary mode switches.")
    return "\n".join([*lines, ""])


def clocktest(rows: Sequence[tuple[int, float, float, int, float]], rounds: int = 3) -> str:
    """The output of clocktest, which moves up in the terminal for each round."""
    lines = [
        "== Testing built-in CLOCK_REALTIME (0)",
        "CPU      ToD offset [us] ToD drift [us/s]      warps max delta [us]",
        "--- -------------------- ---------------- ---------- --------------",
    ]
    for number in range(1, rounds + 1):
        for cpu, offset, drift, warps, largest in rows:
            warped = warps if number == rounds else 0
            lines.append(f"{cpu:3d} {offset:20.1f} {drift:16.3f} {warped:10d} {largest:14.1f}")
        lines.append(f"\033[{len(rows)}A" if number < rounds else "")
    return "\n".join(lines)


def switchtest(seconds: Sequence[Sequence[int]], *, errors: str = "", told: bool = True) -> str:
    """The output of switchtest: the switches of each CPU in each second. The last line of a CPU is
    that of its end."""
    lines = ["== Testing FPU check routines...", "== FPU check routines: OK."] if told else []
    lines.append("== Threads: sleeper_ufps0-0 rtk0-1 rtk0-2")
    totals = [0] * len(seconds[0])
    for number, switches in enumerate(seconds):
        if number % 21 == 0:
            lines += [f"RTT|  {clock(number)}", "RTH|---------cpu|ctx switches|-------total"]
        for cpu, one in enumerate(switches):
            totals[cpu] += one
            lines.append(f"RTD|{cpu:12d}|{one:12d}|{totals[cpu]:12d}")
    return "\n".join([*lines, *([errors] if errors else []), ""])
