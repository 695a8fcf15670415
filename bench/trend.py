# SPDX-License-Identifier: Apache-2.0
"""How often changes over a series of runs are found, and how often false ones are reported, by
simulation with fixed seeds.

    PYTHONPATH=src python bench/trend.py [--repetitions N] [--section NAME]

Section *penalty* finds, for each number of runs, the penalties at which independent values get a
change in one series of 100, and of 1000. Rounded up to a tenth they are the table of
``rtgauge.stats.changes``, which a test compares with the results. The others use that table as the
product does. It writes bench/results/trend.json. Nothing is measured: the figures are the same on
every machine.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sections import SLACK, Case, main

from rtgauge.stats import changes, dependence, levels, normal_scores, penalty, settled
from rtgauge.stats.changes import FEWEST, LEAST

Float64 = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Float64]

REPETITIONS: Final = 4000
SINGLE: Final = 2000
"""Repetitions of the sections that search each series by itself."""
CONSTANT: Final = 10_000
SEED: Final = 23
LEVEL: Final = 0.01
SERIAL: Final = 0.01
FOUND: Final = 0.9
NEAR: Final = 3
"""Runs by which the place of a change that is found may differ."""
TABLE: Final = {20: 100_000, 30: 100_000, 50: 100_000, 100: 50_000, 200: 20_000, 500: 3000,
                1000: 1000}  # fmt: skip
"""Number of runs -> repetitions."""
_AT_ONCE: Final = 400_000

SHAPES: Final[Mapping[str, Draw]] = {
    "normal": lambda random, number: random.standard_normal(number),
    "Gumbel": lambda random, number: random.gumbel(size=number),
    "t with 2 degrees": lambda random, number: random.standard_t(2, number),
    "whole numbers with ties": lambda random, number: random.poisson(3.0, number).astype(float),
}


def largest(scores: Float64) -> Float64:
    """For each row the smallest penalty at which it has no change: the largest gain of 1, 2 or 3
    changes, divided by their number."""
    rows, number = scores.shape
    zero = np.zeros((rows, 1))
    sums = np.concatenate((zero, np.cumsum(scores, axis=1)), axis=1)
    squares = np.concatenate((zero, np.cumsum(scores**2, axis=1)), axis=1)
    end = np.arange(number + 1)
    best = np.where(end >= LEAST, squares - sums**2 / np.maximum(end, 1), np.inf)
    one = best[:, -1]
    found = np.full(rows, -np.inf)
    for many in (1, 2, 3):
        lower = np.full_like(best, np.inf)
        for stop in range((many + 1) * LEAST, number + 1):
            begin = np.arange(many * LEAST, stop - LEAST + 1)
            total = sums[:, stop, None] - sums[:, begin]
            spread = squares[:, stop, None] - squares[:, begin] - total**2 / (stop - begin)
            lower[:, stop] = (best[:, begin] + spread).min(axis=1)
        found = np.maximum(found, (one - lower[:, -1]) / many)
        best = lower
    return found


def penalties(_repetitions: int) -> list[Case]:
    """The table of penalties."""
    cases = []
    for number, repetitions in TABLE.items():
        random = np.random.default_rng([SEED, number])
        base = normal_scores(np.arange(number))
        parts = []
        for begin in range(0, repetitions, _AT_ONCE // number):
            some = min(_AT_ONCE // number, repetitions - begin)
            parts.append(largest(random.permuted(np.tile(base, (some, 1)), axis=1)))
        hundred, thousand = np.quantile(np.concatenate(parts), (0.99, 0.999)).tolist()
        case = {"case": f"{number} runs", "repetitions": repetitions, "held": None}
        cases.append({**case, "one_in_100": round(hundred, 2), "one_in_1000": round(thousand, 2)})
        print(f"    {number}: ({hundred:.2f}, {thousand:.2f}),", flush=True)
    return cases


def _found(values: Float64, level: float = LEVEL) -> list[int]:
    return settled(values, changes(normal_scores(values), penalty(len(values), level)))


def alarms(repetitions: int) -> list[Case]:
    """Independent runs: how often a change is found (``largest``, which a test compares with what
    the product finds)."""
    cases = []
    for name, draw in SHAPES.items():
        for number in (FEWEST, 40, 100, 200):
            random = np.random.default_rng([SEED, number, len(name)])
            rows = [normal_scores(draw(random, number)) for _ in range(repetitions)]
            rate = float(np.mean(largest(np.array(rows)) > penalty(number, LEVEL)))
            limit = LEVEL + SLACK * math.sqrt(LEVEL * (1 - LEVEL) / repetitions)
            case = {"case": f"{name}, {number} runs", "repetitions": repetitions, "alarms": rate}
            cases.append({**case, "at_most": LEVEL, "held": rate <= limit})
    return cases


def power(_repetitions: int) -> list[Case]:
    """The last runs of 100 are later by a multiple of the scatter: how often that is found."""
    cases = []
    for name, size, last, claimed in (
        ("normal", 2.0, 10, True),
        ("Gumbel", 2.0, 10, True),
        ("normal", 1.0, 50, False),
        ("normal", 3.0, 5, False),
        ("Gumbel", 1.0, 50, False),
    ):
        random = np.random.default_rng([SEED, last, len(name)])
        hits = 0
        for _ in range(SINGLE):
            values = SHAPES[name](random, 100)
            scatter = math.pi / math.sqrt(6) if name == "Gumbel" else 1.0
            values[100 - last :] += size * scatter
            hits += any(abs(at - (100 - last)) <= NEAR for at in _found(values))
        rate = hits / SINGLE
        cases.append(
            {
                "case": f"{name}, {size:g} standard deviations in the last {last} of 100 runs",
                "repetitions": SINGLE,
                "found": rate,
                "held": rate >= FOUND if claimed else None,
            }
        )
    return cases


def serial(_repetitions: int) -> list[Case]:
    """How often runs are called dependent: independent ones with and without a change, and runs
    that remember the one before (AR(1))."""
    cases = []
    for name, memory, shift in (
        ("independent", 0.0, 0.0),
        ("independent, a change of 2", 0.0, 2.0),
        ("memory of 0.3", 0.3, 0.0),
        ("memory of 0.5", 0.5, 0.0),
        ("memory of 0.7", 0.7, 0.0),
    ):
        random = np.random.default_rng([SEED, round(10 * memory), round(shift)])
        called = 0
        for _ in range(SINGLE):
            values = random.standard_normal(100)
            for at in range(1, 100):
                values[at] += memory * values[at - 1]
            values[60:] += shift
            scores = normal_scores(values)
            called += dependence(scores, _found(values)) <= SERIAL
        rate = called / SINGLE
        limit = SERIAL + SLACK * math.sqrt(SERIAL * (1 - SERIAL) / SINGLE)
        case = {"case": f"{name}, 100 runs", "repetitions": SINGLE, "refused": rate}
        cases.append({**case, "held": rate <= limit if memory == 0 else None})
    return cases


def constant(_repetitions: int) -> list[Case]:
    """Few different values: how often independent ones have a change, with those between constant
    values. And how often runs that remember the one before, with a resolution of twice the scatter,
    are called levels instead of dependent."""

    def odd(many: int) -> Draw:
        return lambda random, number: random.permutation(np.arange(number) < many).astype(float)

    def coarse(memory: float) -> Draw:
        def draw(random: np.random.Generator, number: int) -> Float64:
            values = random.standard_normal(number)
            for at in range(1, number):
                values[at] = memory * values[at - 1] + math.sqrt(1 - memory**2) * values[at]
            return np.asarray(np.round(values / 2))

        return draw

    shapes: Mapping[str, tuple[Draw, int, bool]] = {
        "4 of 20 runs differ": (odd(4), 20, True),
        "5 of 20 runs differ": (odd(5), 20, True),
        "10 of 20 runs differ": (odd(10), 20, True),
        "4 of 40 runs differ": (odd(4), 40, True),
        "normal, rounded, 20 runs": (coarse(0.0), 20, True),
        "normal, rounded, 100 runs": (coarse(0.0), 100, True),
        "memory of 0.7, rounded, 20 runs": (coarse(0.7), 20, False),
        "memory of 0.9, rounded, 20 runs": (coarse(0.9), 20, False),
        "memory of 0.9, rounded, 100 runs": (coarse(0.9), 100, False),
    }
    cases = []
    for name, (draw, number, independent) in shapes.items():
        random = np.random.default_rng([SEED, number, len(name)])
        alarms = by_level = 0
        for _ in range(CONSTANT):
            values = draw(random, number)
            places = _found(values)
            p = dependence(normal_scores(values), places)
            steps = bool(p <= LEVEL and levels(values))
            by_level += steps
            alarms += steps or (bool(places) and p > SERIAL)
        rate = alarms / CONSTANT
        limit = LEVEL + SLACK * math.sqrt(LEVEL * (1 - LEVEL) / CONSTANT)
        case = {"case": name, "repetitions": CONSTANT, "alarms": rate}
        case["by_level"] = by_level / CONSTANT
        cases.append({**case, "held": rate <= limit if independent else None})
    return cases


SECTIONS: Final[Mapping[str, Callable[[int], list[Case]]]] = {
    "penalty": penalties,
    "alarms": alarms,
    "power": power,
    "serial": serial,
    "constant": constant,
}


if __name__ == "__main__":
    purpose = (__doc__ or "").partition("\n")[0]
    facts = {"seed": SEED, "level": LEVEL}
    sys.exit(main("trend", purpose, SECTIONS, facts, REPETITIONS))
