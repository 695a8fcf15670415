# SPDX-License-Identifier: Apache-2.0
"""How often a claim of the report is wrong, by simulation with fixed seeds.

    PYTHONPATH=src python bench/verdicts.py [--repetitions N] [--section NAME]

Each section simulates data of known truth, has the functions of the product judge them, and counts
the wrong claims. It writes bench/results/verdicts.json; docs/reference/statistics.md has the
tables. Nothing is measured, so it needs no quiet machine, and gives the same figures everywhere.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import signal, special
from sections import Case, main

from rtgauge.stats import (
    EpisodesBuilder,
    ExcursionsBuilder,
    TimelineBuilder,
    effective_of_maximum,
    effective_sizes,
    exceedance_bound,
    percentile_intervals,
    verdict,
)

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

REPETITIONS: Final = 4000
SEED: Final = 20

# --- section `budget`: false pass and false fail of a budget with a rate --------------------------

INTERVAL_S: Final = 0.001
BUDGET_NS: Final = 150_000
ALLOWED_PER_HOUR: Final = 1.0
FACTORS: Final = (0.2, 0.5, 0.9, 1.1, 2.0, 5.0)
"""True rate of events, as multiples of the allowed one."""
HOURS: Final = (1, 4, 10, 24, 54)
LENGTHS: Final[Mapping[str, int]] = {"single": 1, "clustered": 50}
"""Periods that one event delays: a single wake-up, or those of a stall of 50 ms."""
AT_MOST: Final = 0.05


def judged(random: np.random.Generator, per_hour: float, hours: float, length: int) -> str:
    """The product's verdict on a run in which events come at random and delay so many periods."""
    periods = round(hours * 3600 / INTERVAL_S)
    number = int(random.poisson(per_hour * hours))
    first = np.sort(random.integers(0, periods, number))
    last = np.minimum(first + length - 1, periods - 1)
    found = EpisodesBuilder()
    found.add(first, last)
    late = np.zeros(0, np.int64)
    if number:  # stalls may overlap
        late = np.unique(
            np.concatenate([np.arange(a, b + 1) for a, b in zip(first, last, strict=True)])
        )
    episodes = found.count()
    return verdict(
        BUDGET_NS,
        len(late),
        periods,
        hours * 3600,
        rate_per_hour=ALLOWED_PER_HOUR,
        episodes=(episodes, episodes),
    ).result


def budget(repetitions: int) -> list[Case]:
    """False pass: the truth is above the allowed rate. False fail: it is below."""
    cases = []
    for shape, length in LENGTHS.items():
        for factor in FACTORS:
            for hours in HOURS:
                random = np.random.default_rng([SEED, length, round(factor * 10), hours])
                rate = factor * ALLOWED_PER_HOUR
                results = Counter(judged(random, rate, hours, length) for _ in range(repetitions))
                wrong = results["pass" if factor > 1 else "fail"] / repetitions
                cases.append(
                    {
                        "case": f"{shape} events, {factor:g} of the allowed rate, {hours} h",
                        "repetitions": repetitions,
                        **{
                            name: results[name] / repetitions
                            for name in ("pass", "fail", "inconclusive")
                        },
                        "wrong": wrong,
                        "at_most": AT_MOST,
                        "held": wrong <= AT_MOST,
                    }
                )
    return cases


# --- section `intervals`: percentiles of samples that depend on each other ------------------------

NS: Final = 1_000_000
BLOCK: Final = 500
PHI: Final = 0.95
LEAST: Final = 0.93
SECONDS: Final = (60, 600)
MOST: Final = 2000
"""Repetitions at most: each has up to 600 000 samples."""


def independent(random: np.random.Generator, count: int) -> Float64:
    return random.standard_normal(count)


def autoregressive(random: np.random.Generator, count: int) -> Float64:
    """AR(1): each sample has 0.95 of the one before."""
    noise = random.standard_normal(count + 500) * math.sqrt(1 - PHI**2)
    values: Float64 = signal.lfilter([1], [1, -PHI], noise)[500:]
    return values


def in_blocks(random: np.random.Generator, count: int) -> Float64:
    """Noise whose level changes every 0.5 s."""
    level = np.repeat(random.standard_normal(count // BLOCK + 1), BLOCK)
    start = int(random.integers(BLOCK))
    return (level[start : start + count] + random.standard_normal(count)) / math.sqrt(2)


SHAPES: Final[Mapping[str, Callable[[np.random.Generator, int], Float64]]] = {
    "independent": independent,
    "AR(1) 0.95": autoregressive,
    "blocks of 0.5 s": in_blocks,
}


def intervals(repetitions: int) -> list[Case]:
    """Share of the given intervals that contain the true percentile."""
    cases = []
    repetitions = min(repetitions, MOST)
    for shape, series in SHAPES.items():
        for seconds in SECONDS:
            random = np.random.default_rng([SEED, seconds])
            count = seconds * 1000
            held: Counter[str] = Counter()
            refused: Counter[str] = Counter()
            plain: Counter[str] = Counter()
            for _ in range(repetitions):
                values = np.round(100_000 + 10_000 * series(random, count)).astype(np.int32)
                builder = TimelineBuilder(0, (count - 1) * NS, bins=600, interval_ns=NS)
                builder.add(range(0, count * NS, NS), values)
                counts = builder.counts()
                sizes = effective_sizes(counts, builder.timeline())
                before = percentile_intervals(counts)
                for name, (low, high) in percentile_intervals(counts, effective=sizes).items():
                    truth = 100_000 + 10_000 * float(special.ndtri(float(name) / 100))
                    refused[name] += sizes[name] is None
                    if sizes[name] is not None:
                        held[name] += _holds(low, high, truth)
                    plain[name] += _holds(*before[name], truth)
            for name in sizes:
                part = held[name] / max(repetitions - refused[name], 1)
                cases.append(
                    {
                        "case": f"{shape}, {seconds} s, {name} %",
                        "repetitions": repetitions,
                        "covered": part,
                        "refused": refused[name] / repetitions,
                        "covered_as_if_independent": plain[name] / repetitions,
                        "at_least": LEAST,
                        "held": part >= LEAST,
                    }
                )
    return cases


def _holds(low: int | None, high: int | None, truth: float) -> bool:
    """Whether an interval of whole nanoseconds holds it; a side without a limit is open."""
    return (low is None or low - 1 <= truth) and (high is None or truth <= high + 1)


# --- section `groups`: the bound where large values come in groups --------------------------------

DISTINCT: Final = ""
EQUAL: Final = " equal values"
COARSE: Final = " of a coarse clock"
COARSER: Final = " of a coarser clock"
SECOND: Final = {COARSE: 0.02, COARSER: 0.3}
GROUPS: Final = (
    *((size, DISTINCT) for size in (1, 2, 10, 50)),
    *((size, EQUAL) for size in (10, 50)),
    (50, COARSE),
    *((size, COARSER) for size in (1, 50)),
)
"""Sizes, and values of a group: distinct; equal; or equal, with three values in the series. The
second occurs in 2 % or 30 % of the groups, the third in one of four series."""
COARSE_LEAST_S: Final = 60
"""Shorter series often have no sample of the second value."""
GROUPS_SECONDS: Final = (3, 10, 60, 600)
BOUND_LEAST: Final = 0.95
RANGE: Final = 10**9


def _grouped(random: np.random.Generator, number: int, size: int, kind: str) -> tuple[Int64, float]:
    """A number of groups, and the chance of a sample above the largest one."""
    if kind in SECOND:
        above = (SECOND[kind], 0.25 / number, 0.0)  # chances of a value above 0, 1 and 2
        drawn = random.random(number)[:, np.newaxis]
        values = np.repeat((drawn < np.array(above)).sum(axis=1), size)
        return values, above[int(values.max())]
    values = np.repeat(random.integers(size, RANGE, number), size)
    if kind == DISTINCT:
        values -= np.tile(np.arange(size), number)
    return values, 1 - (int(values.max()) + 1) / RANGE


def groups(repetitions: int) -> list[Case]:
    """The bound holds if the chance of a sample above the maximum is at most what it says."""
    cases = []
    repetitions = min(repetitions, MOST)
    for size, kind in GROUPS:
        for seconds in GROUPS_SECONDS:
            if kind in SECOND and seconds < COARSE_LEAST_S:
                continue
            random = np.random.default_rng([SEED, size, seconds])
            count = seconds * 1000
            held = plain = 0
            for _ in range(repetitions):
                values, truth = _grouped(random, count // size, size, kind)
                builder = ExcursionsBuilder()
                builder.add(np.arange(count), values)
                effective = effective_of_maximum(count, builder.clustering())
                held += truth <= exceedance_bound(effective)
                plain += truth <= exceedance_bound(count)
            part = held / repetitions
            error = math.sqrt(BOUND_LEAST * (1 - BOUND_LEAST) / repetitions)
            cases.append(
                {
                    "case": f"groups of {size}{kind}, {seconds} s",
                    "repetitions": repetitions,
                    "covered": part,
                    "covered_as_if_independent": plain / repetitions,
                    "at_least": BOUND_LEAST,
                    # of single values the bound is exact: the simulation scatters about it
                    "held": part >= BOUND_LEAST - (2 * error if size == 1 else 0),
                }
            )
    return cases


# --- the sections: a name, and the function that gives its cases ----------------------------------

SECTIONS: Final[Mapping[str, Callable[[int], list[Case]]]] = {
    "budget": budget,
    "intervals": intervals,
    "groups": groups,
}


if __name__ == "__main__":
    purpose = (__doc__ or "").partition("\n")[0]
    facts = {"seed": SEED, "allowed_per_hour": ALLOWED_PER_HOUR, "interval_s": INTERVAL_S}
    sys.exit(main("verdicts", purpose, SECTIONS, facts, REPETITIONS))
