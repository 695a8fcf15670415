# SPDX-License-Identifier: Apache-2.0
"""Whether periodic disturbers are found among events, by simulation with fixed seeds.

    PYTHONPATH=src python bench/disturbers.py [--repetitions N] [--section NAME]

Sets of events of which some are periodic, sets without a rhythm (at random, in clusters, on the
grid of the samples, in bursts), and wake-ups that a periodic disturbance delays, with and without
dither. The product searches each. It writes bench/results/disturbers.json.
All figures but the CPU time of the section *large* are the same on every machine.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sections import Case, limited, main

from rtgauge.stats import Comb, Exposure, Line, aliases, comb, disturber

Float64 = NDArray[np.float64]
Draw = Callable[[np.random.Generator, float], Float64]

REPETITIONS: Final = 2000
SEED: Final = 2311
NUMBER: Final = 400
SHARE: Final = 0.2
GRID_NS: Final = 1e6
MOST_FOUND: Final = 0.01
LEAST_FOUND: Final = 0.99
COVERAGE: Final = 0.93
MOST_PARTS: Final = 100
MOST_NAMED: Final = 0.05
NAMED: Final = 1.05
"""As `SAME` of rtgauge.report.document.answer.cause."""
LARGE: Final = 100_000
LARGE_S: Final = 5.0


def at_random(random: np.random.Generator, span: float) -> Float64:
    """Events at random."""
    return random.uniform(0, span, NUMBER)


def clusters(number: int, width_ns: float) -> Draw:
    """Clusters at random, of Poisson-distributed size, whose events are spread over a width."""

    def draw(random: np.random.Generator, span: float) -> Float64:
        sizes = random.poisson(NUMBER / number, number)
        begin = np.repeat(random.uniform(0, span, number), sizes)
        return np.clip(begin + random.uniform(0, width_ns, len(begin)), 0, span)

    return draw


def quantised(random: np.random.Generator, span: float) -> Float64:
    """Wake-ups of the grid at random, each a little late."""
    points = random.choice(int(span / GRID_NS), NUMBER, replace=False)
    return points * GRID_NS + random.lognormal(math.log(5e4), 0.3, NUMBER)


def runs_of_wakeups(random: np.random.Generator, span: float) -> Float64:
    """Disturbances at random, each delaying ten wake-ups of the grid one after the other."""
    begin = random.choice(int(span / GRID_NS) - 10, NUMBER // 10, replace=False)
    points = np.unique((begin[:, None] + np.arange(10)).ravel())
    return points * GRID_NS + random.lognormal(math.log(5e4), 0.3, len(points))


def slow_change(random: np.random.Generator, span: float) -> Float64:
    """Events at random that are ten times as frequent at the end."""
    return span * np.sqrt(random.uniform(0.01, 1, NUMBER))


NULLS: Final[Mapping[str, tuple[Draw, float]]] = {
    "at random": (at_random, 0.0),
    "80 clusters of 3 ms": (clusters(80, 3e6), 0.0),
    "40 clusters of 50 ms": (clusters(40, 5e7), 0.0),
    "5 bursts of 300 ms": (clusters(5, 3e8), 0.0),
    "on a grid of 1 ms": (quantised, GRID_NS),
    "runs of 10 wake-ups on a grid of 1 ms": (runs_of_wakeups, GRID_NS),
    "ever more frequent": (slow_change, 0.0),
}


def search(events: Float64, span: float, interval_ns: float = 0.0) -> Comb | None:
    """What the product finds."""
    return comb(events, Exposure(np.array([0.0, span])), interval_ns=interval_ns)


def periodic(random: np.random.Generator, span: float, jitter_ns: float) -> tuple[float, Float64]:
    """A period of which 80 to 800 fit into the time, and events of which a fifth are periodic."""
    period = span / random.uniform(100, 800)
    some = round(NUMBER * SHARE)
    turns = random.choice(np.arange(1, int(span / period) - 1), some, replace=False)
    found = turns * period + random.uniform(0, period) + random.normal(0, jitter_ns, some)
    return period, np.concatenate((found, random.uniform(0, span, NUMBER - some)))


def found(repetitions: int) -> list[Case]:
    """A fifth of 400 events is periodic: how often the period is right to 0.1 %."""
    cases = []
    for name, seconds, jitter, most in (
        ("5 s, jitter of 0.1 % of a period", 5, 0.001, repetitions),
        ("5 s, jitter of 1 % of a period", 5, 0.01, repetitions),
        ("60 s, jitter of 0.1 % of a period", 60, 0.001, repetitions // 10),
        ("3600 s, jitter of 0.1 % of a period", 3600, 0.001, repetitions // 50),
    ):
        random = np.random.default_rng([SEED, seconds, round(jitter * 1000)])
        right = covered = 0
        shares = []
        for _ in range(most):
            span = seconds * 1e9
            period, events = periodic(random, span, jitter * span / 400)
            one = search(events, span)
            if one is not None and abs(one.period_ns / period - 1) <= 1e-3:
                right += 1
                covered += abs(one.period_ns - period) <= one.error_ns
                shares.append(one.share)
        rate, cover = right / most, covered / max(right, 1)
        cases.append(
            {
                "case": name,
                "repetitions": most,
                "right": rate,
                "cover": cover,
                "share": float(np.mean(shares)),
                "at_least": LEAST_FOUND,
                "held": rate >= LEAST_FOUND and limited(1 - cover, 1 - COVERAGE, most),
            }
        )
    return cases


def few(repetitions: int) -> list[Case]:
    """Few periods of 1 s, or events in few of 100, each event 50 us off, and events at random: how
    often the period is right to 0.1 %, and how often another is found."""
    cases = []
    for name, low, high, of, two, others, least in (
        ("12 to 30 periods", 12, 30, 0, False, 0, LEAST_FOUND),
        ("12 to 30 periods, 10 other events", 12, 30, 0, False, 10, 0.0),
        ("6 to 11 periods, two events in each", 6, 11, 0, True, 0, 0.0),
        ("12 to 30 periods, two events in each", 12, 30, 0, True, 0, 0.0),
        ("12 to 30 periods, two events in each, 10 others", 12, 30, 0, True, 10, 0.0),
        ("12 to 30 of 100 periods", 12, 30, 100, False, 0, 0.95),
        ("12 to 30 of 100 periods, 10 other events", 12, 30, 100, False, 10, 0.0),
        ("12 to 14 of 100 periods", 12, 14, 100, False, 0, 0.0),
    ):
        random = np.random.default_rng([SEED, len(name), high, of])
        right = wrong = 0
        for _ in range(repetitions):
            number = int(random.integers(low, high + 1))
            turns = random.choice(of or number, number, replace=False) + random.uniform(0, 0.5)
            if two:
                turns = np.concatenate((turns, turns + random.uniform(0.05, 0.45)))
            span = (of or number) * 1e9
            some = turns * 1e9 + random.normal(0, 5e4, len(turns))
            events = np.append(some, random.uniform(0, span, others))
            one = search(np.clip(events, 0, span), span)
            if one is not None and abs(one.period_ns / 1e9 - 1) <= 1e-3:
                right += 1
            elif one is not None:
                wrong += 1
        cases.append(
            {
                "case": name,
                "repetitions": repetitions,
                "right": right / repetitions,
                "at_least": least,
                "wrong": wrong / repetitions,
                "at_most": MOST_FOUND,
                "held": right >= least * repetitions and wrong <= MOST_FOUND * repetitions,
            }
        )
    return cases


def nothing(repetitions: int) -> list[Case]:
    """Events without a rhythm: how often one is found."""
    cases = []
    for name, (draw, interval_ns) in NULLS.items():
        random = np.random.default_rng([SEED, len(name)])
        alarms = 0
        for _ in range(repetitions):
            span = 1e9 * math.exp(random.uniform(math.log(2), math.log(8)))
            alarms += search(draw(random, span), span, interval_ns) is not None
        rate = alarms / repetitions
        cases.append(
            {
                "case": name,
                "repetitions": repetitions,
                "alarms": rate,
                "at_most": MOST_FOUND,
                "held": rate <= MOST_FOUND,
            }
        )
    return cases


def delayed(random: np.random.Generator, period: float, dithered: bool) -> Line | None:
    """What the product finds in wake-ups every ms that a disturbance delays once a period."""
    number = np.arange(int(random.choice([10, 30]) * 1e9 / GRID_NS))
    length, phase = random.choice([5e4, 2e5, 4e5]), random.uniform(0, period)
    sweep = 2 * np.abs((number * (0x04F1BBCD / 2**32)) % 1.0 - 0.5)  # as the agent's dither
    due = (number + (sweep if dithered else 0.0)) * GRID_NS
    latency = 3500 + random.normal(0, 100, len(due))
    latency += np.maximum(length - (due + phase) % period, 0)
    excess, times = latency - float(np.median(latency)), due + latency
    large = excess > 2 * float(np.quantile(excess, 0.9))
    exposure = Exposure(np.array([times[0], times[-1]]))
    return disturber(
        times[large],
        excess[large],
        exposure,
        len(times),
        interval_ns=GRID_NS,
        dithered=dithered,
    )


def told(found: float, period: float) -> bool:
    """Whether a period is, to 0.1 %, among those that the report gives on a grid without dither:
    that found, its two aliases, and the whole fractions and multiples of the three."""
    given = np.array([found, *aliases(found, GRID_NS)])[:, None]
    times = np.arange(1, MOST_PARTS)
    every = np.concatenate((given * times, given / times))
    return bool((np.abs(every / period - 1) <= 1e-3).any())


def grid(repetitions: int) -> list[Case]:
    """Disturbances every 2 to 50 ms among wake-ups every ms: how often the period is right to
    0.1 %, is within the interval, and is among those told, and how often another is by chance."""
    cases = []
    for name, dithered, least in (("without dither", False, 0.0), ("with dither", True, 0.9)):
        random = np.random.default_rng([SEED, len(name)])
        number = right = covered = among = chance = 0
        for turn in range(repetitions // 2):
            tenths = random.uniform(20, 500, 2)
            if turn % 3 == 1:
                tenths = np.round(tenths)
            elif turn % 3 == 2:
                tenths = np.round(tenths, -1) + random.uniform(-0.05, 0.05, 2)
            period, other = (tenths * GRID_NS / 10).tolist()
            line = delayed(random, period, dithered)
            if line is None:
                continue
            one, number = line.comb, number + 1
            right += abs(one.period_ns / period - 1) <= 1e-3
            covered += abs(one.period_ns - period) <= one.error_ns
            among += told(one.period_ns, period)
            chance += told(one.period_ns, other)
        cases.append(
            {
                "case": f"wake-ups every ms, {name}",
                "repetitions": repetitions // 2,
                "found": number / (repetitions // 2),
                "right": right / number,
                "cover": covered / number,
                "at_least": least,
                "told": among / number,
                "by_chance": chance / number,
                "held": right >= least * number and (dithered or among >= LEAST_FOUND * number),
            }
        )
    return cases


def disturbed(
    random: np.random.Generator, spread: float, others: float
) -> tuple[Line | None, float, float, bool]:
    """Wake-ups every ms for 30 s. A disturbance of about 30 us every 5 to 40 ms delays some, and a
    Poisson-distributed number of others take at least 100 us. Gives what the product finds, the
    period, the maximum above the median, and whether the disturbance caused it."""
    span = 30_000 * GRID_NS
    due = np.arange(30_000) * GRID_NS + random.uniform(0, GRID_NS / 10, 30_000)
    latency = random.lognormal(math.log(13e3), 0.15, len(due))
    period = float(random.uniform(5e6, 40e6))
    begin = np.arange(random.uniform(0, period), span, period)
    after = np.searchsorted(due, begin)
    begin, after = begin[after < len(due)], after[after < len(due)]
    np.maximum.at(latency, after, 13e3 + random.lognormal(math.log(30e3), spread, len(after)))
    own = float(latency.max())
    where = random.integers(0, len(due), random.poisson(others))
    latency[where] = np.maximum(latency[where], 1e5 + 3e5 * random.pareto(1.2, len(where)))
    excess = latency - float(np.median(latency))
    large = np.flatnonzero(excess > 2 * float(np.quantile(excess, 0.9)))
    large = large[np.argsort(-excess[large], kind="stable")][:4096]
    line = disturber(
        (due + latency)[large],
        excess[large],
        Exposure(np.array([0.0, span])),
        len(due),
        interval_ns=GRID_NS,
        dithered=True,
    )
    return line, period, float(excess.max()), float(latency.max()) == own


def reach(repetitions: int) -> list[Case]:
    """Whether a periodic disturbance is named as the cause of the maximum: how often it is where it
    caused the maximum, and how often where something else did."""
    cases = []
    for spread, others in ((0.3, 1.0), (0.3, 20.0), (0.3, 200.0), (1.0, 0.0), (1.0, 20.0)):
        random = np.random.default_rng([SEED, int(10 * spread), int(others)])
        named = {True: 0, False: 0}
        number = {True: 0, False: 0}
        for _ in range(repetitions // 8):
            line, period, top, own = disturbed(random, spread, others)
            if line is None or abs(line.comb.period_ns / period - 1) > 1e-3:
                continue
            number[own] += 1
            named[own] += NAMED * line.worst_ns >= top
        wrong = named[False] / max(number[False], 1)
        cases.append(
            {
                "case": f"{others:g} other late wake-ups, lengths differ by e^{spread:g}",
                "repetitions": repetitions // 8,
                "own": number[True],
                "named": named[True] / number[True] if number[True] else None,
                "other": number[False],
                "wrong": wrong,
                "at_most": MOST_NAMED,
                "held": wrong <= MOST_NAMED,
            }
        )
    return cases


def large(_repetitions: int) -> list[Case]:
    """100 000 events of an hour, a tenth of them periodic: the CPU time that the search takes."""
    random = np.random.default_rng([SEED, LARGE])
    span, period = 3600e9, 0.360037e9
    events = np.concatenate((np.arange(1, 9999) * period, random.uniform(0, span, LARGE - 9998)))
    begin = time.process_time()
    one = search(events, span)
    took = time.process_time() - begin
    right = one is not None and abs(one.period_ns / period - 1) <= 1e-3
    return [
        {
            "case": f"{LARGE} events of an hour, 9998 of them periodic",
            "repetitions": 1,
            "seconds": took,
            "at_most": LARGE_S,
            "held": took <= LARGE_S and right,
        }
    ]


SECTIONS: Final[Mapping[str, Callable[[int], list[Case]]]] = {
    "large": large,
    "found": found,
    "few": few,
    "nothing": nothing,
    "grid": grid,
    "reach": reach,
}


if __name__ == "__main__":
    purpose = (__doc__ or "").partition("\n")[0]
    facts = {"seed": SEED, "events": NUMBER}
    sys.exit(main("disturbers", purpose, SECTIONS, facts, REPETITIONS))
