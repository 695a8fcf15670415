# SPDX-License-Identifier: Apache-2.0
"""How often a claim of the report is wrong, by simulation with fixed seeds.

    PYTHONPATH=src python bench/verdicts.py [--repetitions N] [--section NAME]

Each section simulates data of known truth, has the functions of the product judge them, and counts
the wrong claims. It writes bench/results/verdicts-DATE.json; docs/statistics.md has the tables.
Nothing is measured, so it needs no quiet machine, and gives the same figures everywhere.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from pairs import write_results

from rtgauge.stats import EpisodesBuilder, verdict

Case = dict[str, Any]

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


# --- the sections: a name, and the function that gives its cases ----------------------------------

SECTIONS: Final[Mapping[str, Callable[[int], list[Case]]]] = {"budget": budget}


def main() -> int:
    """Run the sections and write one results file; 1 if a claim is wrong too often."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--section", choices=SECTIONS, action="append")
    arguments = parser.parse_args()
    cases = []
    for name in arguments.section or SECTIONS:
        for case in SECTIONS[name](arguments.repetitions):
            figures = {key: value for key, value in case.items() if isinstance(value, float)}
            words = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
            print(f"{name}: {case['case']}: {words}: {'held' if case['held'] else 'MISSED'}")
            cases.append({"section": name, **case})
    if not arguments.section:
        facts = {"seed": SEED, "allowed_per_hour": ALLOWED_PER_HOUR, "interval_s": INTERVAL_S}
        print(write_results("verdicts", facts, cases).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
