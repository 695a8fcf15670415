# SPDX-License-Identifier: Apache-2.0
"""How often a comparison of configurations is wrong, by simulation with fixed seeds.

    PYTHONPATH=src python bench/claims.py [--repetitions N] [--section NAME]

Two configurations that are equal give runs whose values scatter, and blocks that drift. The
functions of the product compare them, and each difference found is a false alarm. It writes
bench/results/claims.json. Nothing is measured: the figures are the same on every machine.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wilcoxon
from sections import Case, limited, main

from rtgauge.report.sets.decide import decisions
from rtgauge.stats import holm, paired_shift, shift

Float64 = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Float64]

REPETITIONS: Final = 4000
SEED: Final = 21
LEVEL: Final = 0.05
BLOCKS: Final = (6, 8, 9, 12, 20)
COVERAGE: Final = 0.94
SIZE: Final = (8, 0.04)
"""From that many blocks on, equal configurations give at least that rate of alarms: a test that
gives fewer wastes power."""
FAMILY: Final = 6
"""Quantities that are judged together."""

SHAPES: Final[Mapping[str, Draw]] = {
    "normal": lambda random, number: random.standard_normal(number),
    "Gumbel": lambda random, number: random.gumbel(size=number),
    "t with 2 degrees": lambda random, number: random.standard_t(2, number),
    "mixed: one run in ten is ten times as late": lambda random, number: np.log(
        random.exponential(size=number) * np.where(random.random(number) < 0.1, 10.0, 1.0)
    ),
}
"""Logarithms of a quantile, a value for each run: its scatter from boot to boot."""


def drift(number: int) -> Float64:
    """What the blocks have in common: a machine that gets slower by three standard deviations."""
    return np.linspace(0.0, 3.0, number)


def paired(repetitions: int) -> list[Case]:
    """Blocks of one run of each configuration: false alarms, and the cover of the interval."""
    cases = []
    for name, draw in SHAPES.items():
        for number in BLOCKS:
            random = np.random.default_rng([SEED, number, len(name)])
            alarms = covered = 0
            for _ in range(repetitions):
                common = drift(number)
                first, second = draw(random, number) + common, draw(random, number) + common
                found = paired_shift((second - first).tolist())
                alarms += found.p <= LEVEL
                covered += found.low <= 0 <= found.high
            case = _case(f"{name}, {number} blocks", alarms, covered, repetitions)
            if number >= SIZE[0]:
                case["at_least"] = SIZE[1]
                case["held"] &= limited(1 - case["alarms"], 1 - SIZE[1], repetitions)
            cases.append(case)
    return cases


def divided(repetitions: int) -> list[Case]:
    """Runs without a match: false alarms, and the cover of the interval."""
    cases = []
    for name, draw in SHAPES.items():
        for one, other in ((4, 4), (5, 8), (10, 10)):
            random = np.random.default_rng([SEED, one, other, len(name)])
            alarms = covered = 0
            for _ in range(repetitions):
                found = shift(draw(random, one).tolist(), draw(random, other).tolist())
                alarms += found.p <= LEVEL
                covered += found.low <= 0 <= found.high
            cases.append(_case(f"{name}, {one} and {other} runs", alarms, covered, repetitions))
    return cases


def _case(name: str, alarms: int, covered: int, repetitions: int) -> Case:
    rate, cover = alarms / repetitions, covered / repetitions
    return {
        "case": name,
        "repetitions": repetitions,
        "alarms": rate,
        "cover": cover,
        "at_most": LEVEL,
        "held": limited(rate, LEVEL, repetitions) and limited(1 - cover, 1 - COVERAGE, repetitions),
    }


def family(repetitions: int) -> list[Case]:
    """Six quantities of one study, which share half of their scatter: any false alarm."""
    cases = []
    for name, draw in SHAPES.items():
        for number in (9, 12):
            random = np.random.default_rng([SEED, FAMILY, number, len(name)])
            alarms = 0
            for _ in range(repetitions):
                shared = draw(random, number) - draw(random, number)
                p_values = [
                    paired_shift((shared + draw(random, number) - draw(random, number)).tolist()).p
                    for _ in range(FAMILY)
                ]
                alarms += min(holm(p_values)) <= LEVEL
            rate = alarms / repetitions
            cases.append(
                {
                    "case": f"{name}, {FAMILY} quantities, {number} blocks",
                    "repetitions": repetitions,
                    "alarms": rate,
                    "at_most": LEVEL,
                    "held": limited(rate, LEVEL, repetitions),
                }
            )
    return cases


def claims(repetitions: int) -> list[Case]:
    """The verdicts of a whole comparison: nine quantities in 12 blocks, some of them equal, the
    others at the margin. False is any of better, worse and beyond for an equal one, and any of
    equivalent and beyond for one at the margin."""
    cases = []
    margin, scatter, number = math.log(1.1), 0.03, 12
    for name in ("normal", "t with 2 degrees"):
        for apart in (0, 4, 8):
            random = np.random.default_rng([SEED, apart, len(name)])
            wrong = equivalent = 0
            for _ in range(repetitions):
                found = decisions(*_documents(random, SHAPES[name], number, scatter, apart, margin))
                others = [one for one in found if not one["primary"]]
                kinds = [("equivalent",) if _place(one) < apart else ("better", "worse")
                         for one in others]  # fmt: skip
                wrong += any(
                    one["verdict"] in kind or one["beyond"]
                    for one, kind in zip(others, kinds, strict=True)
                )
                equivalent += sum(one["verdict"] == "equivalent" for one in others)
            rate = wrong / repetitions
            cases.append(
                {
                    "case": f"{name}, {8 - apart} equal and {apart} at the margin",
                    "repetitions": repetitions,
                    "false_claims": rate,
                    "equivalent_of_8": equivalent / repetitions,
                    "at_most": LEVEL,
                    "held": limited(rate, LEVEL, repetitions),
                }
            )
    return cases


_STATISTICS: Final = ("50", "max", "tail")


def _place(one: Mapping[str, Any]) -> int:
    """The place of a secondary quantity among eight: the first tail is the primary one."""
    return int(3 * one["quantity"] + _STATISTICS.index(one["statistic"]) - (one["quantity"] > 0))


def _documents(
    random: np.random.Generator, draw: Draw, number: int, scatter: float, apart: int, margin: float
) -> tuple[list[Case], list[Case]]:
    """Runs of two sets in blocks, and three quantities with three figures each."""
    runs = [
        {"id": f"{at}-{block}", "study": "s", "repeat": block,
         "series": [{"step": 0, "name": "", "count": 1, "first": 0, "min": 0, "max": at + 1,
                     "mean": block, "percentiles": {}, "rest": 0}]}
        for at in range(2)
        for block in range(number)
    ]  # fmt: skip
    quantities = []
    for at in range(3):
        rows = []
        for second in range(2):
            figures = {}
            for name in _STATISTICS:
                place = _place({"quantity": at, "statistic": name})
                by = margin if second and (at, name) != (0, "tail") and place < apart else 0.0
                figures[name] = np.exp(scatter * draw(random, number) + drift(number) + by)
            rows.append(
                {"set": second, "runs": [
                    {"run": f"{second}-{block}", "count": 1, "over": None, "missed": 0,
                     "complete": True,
                     "figures": {key: float(value[block]) for key, value in figures.items()}}
                    for block in range(number)
                ]}
            )  # fmt: skip
        quantities.append(
            {"measurement": "timer", "name": "latency", "unit": "ns", "context": "user",
             "load": {"name": "sched"}, "method": {}, "told": [], "tail": "99", "budget": None,
             "rows": rows}
        )  # fmt: skip
    return runs, quantities


def methods(repetitions: int) -> list[Case]:
    """Changes of sign of the mean against signed ranks: how often each finds a shift of two
    standard deviations (or their like) of a run. The product uses the mean below 10 blocks."""
    cases = []
    sizes = {"normal": 2.0, "Gumbel": 2.6, "t with 2 degrees": 3.0}
    sizes["mixed: one run in ten is ten times as late"] = 3.0
    for number in (6, 8, 9, 10, 12):
        signs = 1 - 2 * (np.arange(2**number)[:, None] >> np.arange(number) & 1)
        for name, draw in SHAPES.items():
            random = np.random.default_rng([SEED, 7, number, len(name)])
            values = np.array(
                [draw(random, number) - draw(random, number) for _ in range(repetitions)]
            )
            values += sizes[name]
            sums = np.abs(values @ signs.T)
            mean = ((sums >= sums[:, :1] * (1 - 1e-12)).mean(axis=1) <= LEVEL).mean()
            ranks = (wilcoxon(values, axis=1, method="exact").pvalue <= LEVEL).mean()
            cases.append(
                {
                    "case": f"{name}, {number} blocks",
                    "repetitions": repetitions,
                    "by_mean": float(mean),
                    "by_ranks": float(ranks),
                    "held": None,
                }
            )
    return cases


def power(repetitions: int) -> list[Case]:
    """The second configuration is later by a multiple of the scatter: how often that is found."""
    cases = []
    for number in (6, 8, 12):
        for size in (1.0, 2.0, 3.0):
            random = np.random.default_rng([SEED, number, round(size)])
            found = sum(
                paired_shift((random.standard_normal(number) * math.sqrt(2) + size).tolist()).p
                <= LEVEL
                for _ in range(repetitions)
            )
            cases.append(
                {
                    "case": f"normal, {number} blocks, {size:g} standard deviations of a run",
                    "repetitions": repetitions,
                    "found": found / repetitions,
                    "held": None,
                }
            )
    return cases


SECTIONS: Final[Mapping[str, Callable[[int], list[Case]]]] = {
    "paired": paired,
    "divided": divided,
    "family": family,
    "claims": claims,
    "power": power,
    "methods": methods,
}


if __name__ == "__main__":
    purpose = (__doc__ or "").partition("\n")[0]
    facts = {"seed": SEED, "level": LEVEL}
    sys.exit(main("claims", purpose, SECTIONS, facts, REPETITIONS))
