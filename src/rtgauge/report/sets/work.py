# SPDX-License-Identifier: Apache-2.0
"""Work rates of loads, set by set: what a kernel's real-time model costs in throughput.

A rate is the work of a load in a step divided by the time of the step. The rate of a set is the
mean over its runs, next to the lowest and the highest of them. Nothing is proven by it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from rtgauge import text as numbers

__all__ = ["rate_texts", "work_rates"]


def work_rates(
    runs: Sequence[Mapping[str, Any]], sets: Sequence[Sequence[int]]
) -> list[dict[str, Any]]:
    """The loads that worked in steps of the same measurement under the same load in two sets or
    more. ``sets``: the places of the runs of each.

    ``rates``: work per second of each run, set by set. ``means``: of each set, None without a rate.
    ``ratios``: to the mean of the first set, None for that one.
    """
    found: dict[tuple[str, str, str, str], list[list[float]]] = {}
    for at, places in enumerate(sets):
        for run in (runs[place] for place in places):
            for step in run["steps"]:
                for load in step["load"]["loads"]:
                    if step["state"] != "complete" or load["work_rate"] is None:
                        continue
                    key = (step["measurement"], step["load"]["name"], load["name"], load["unit"])
                    rates = found.setdefault(key, [[] for _ in sets])
                    rates[at].append(load["work_rate"])
    rows = []
    for (measurement, name, load, unit), rates in found.items():
        if sum(1 for one in rates if one) < 2:
            continue
        means = [statistics.fmean(one) if one else None for one in rates]
        first = means[0]
        ratios = [mean / first if mean is not None and first else None for mean in means]
        rows.append(
            {
                "measurement": measurement, "load": name, "name": load, "unit": unit,
                "rates": rates, "means": means, "ratios": [None, *ratios[1:]],
            }
        )  # fmt: skip
    return rows


def rate_texts(row: Mapping[str, Any], letters: Sequence[str]) -> list[str]:
    """The rates of a row as texts, a set each: ``A 98 900 KiB/s``, ``B 92 000 KiB/s (0.93; 3 runs:
    91 800 to 92 400)``."""
    texts = []
    for letter, rates, mean, ratio in zip(
        letters, row["rates"], row["means"], row["ratios"], strict=True
    ):
        if mean is None:
            continue
        more = [] if ratio is None else [f"×{numbers.GAP}{ratio:.3f}"]
        if len(rates) > 1:
            ends = [numbers.rate(end, row["unit"]) for end in (min(rates), max(rates))]
            said = "all alike" if ends[0] == ends[1] else " to ".join(ends)
            more.append(f"{len(rates)} runs, {said}")
        text = f"{letter} {numbers.rate(mean, row['unit'])}"
        texts.append(text + (f" ({', '.join(more)})" if more else ""))
    return texts
