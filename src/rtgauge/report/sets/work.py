# SPDX-License-Identifier: Apache-2.0
"""Work rates of loads, set by set: what a kernel's real-time model costs in throughput.

A rate is the work of a load in a step divided by the time of the step. The rate of a run is the
mean over its steps with the same measurement and load, and the rate of a set the mean over its
runs. Nothing is proven by it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["work_rates"]

Key: TypeAlias = tuple[str, str, str, str]
"""A load in steps of a run: measurement, load of the steps, name of the load that worked, unit."""


def work_rates(
    runs: Sequence[Mapping[str, Any]], sets: Sequence[Sequence[int]]
) -> list[dict[str, Any]]:
    """The loads that worked in steps of the same measurement under the same load in two sets or
    more. ``sets``: the places of the runs of each.

    ``rates``: work per second of each run, set by set. ``means``: of each set, None without a rate.
    ``ratios``: to the mean of the first set, None for that one.
    """
    found: dict[Key, list[list[float]]] = {}
    for at, places in enumerate(sets):
        for place in places:
            for key, steps in _of_run(runs[place]).items():
                rates = found.setdefault(key, [[] for _ in sets])
                rates[at].append(statistics.fmean(steps))
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


def _of_run(run: Mapping[str, Any]) -> dict[Key, list[float]]:
    """The rates of each load, step by step."""
    found: dict[Key, list[float]] = {}
    for step in run["steps"]:
        for load in step["load"]["loads"]:
            if step["state"] == "complete" and load["work_rate"] is not None:
                key = (step["measurement"], step["load"]["name"], load["name"], load["unit"])
                found.setdefault(key, []).append(load["work_rate"])
    return found
