# SPDX-License-Identifier: Apache-2.0
"""How often a tune calls a setting helpful that changes nothing, by simulation with fixed seeds.

    PYTHONPATH=src python bench/effects.py [--repetitions N]

Each repetition is a whole design with the functions of the product: random order, drift, scatter
from run to run, and settings that change nothing, alone or next to some that do. It counts the
tunes that call any of the inert settings helpful, those with any claim about an inert one, and how
often the interval of the last setting, which is inert, covers 1. It writes
bench/results/effects.json.
Nothing is measured: the figures are the same on every machine.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from claims import COVERAGE, LEVEL, SHAPES
from numpy.typing import NDArray
from pairs import write_results
from sections import limited

from rtgauge.report.sets.tuned import judged
from rtgauge.stats import design, effects

Float64 = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Float64]

REPETITIONS: Final = 2000
SEED: Final = 7
FACTORS: Final = (1, 2, 3, 4, 6, 7, 10, 15, 19)
SCATTER: Final = 0.15
"""Standard deviation of normal scatter from run to run: 15 %."""


def nothing(levels: Float64) -> Float64:
    """No setting changes anything."""
    return np.zeros(len(levels))


def active(levels: Float64) -> Float64:
    """One setting halves the value, another raises it by a third, and together they do more. The
    third helps only where the first is off."""
    first, second, third = levels[:, 0], levels[:, 1], levels[:, 2]
    return (
        -math.log(2) / 2 * first + math.log(1.33) / 2 * second + 0.1 * first * second
        - 0.1 * third + 0.1 * third * first
    )  # fmt: skip


def slowest(levels: Float64) -> Float64:
    """The value is that of the slowest of three paths, each of which one setting shortens."""
    paths = np.exp(-0.4 * levels[:, :3]) * np.array([1.0, 0.9, 0.7])
    return np.asarray(np.log(paths.max(axis=1)), np.float64)


TRUTHS: Final[Mapping[str, tuple[Callable[[Float64], Float64], int]]] = {
    "nothing changes anything": (nothing, 0),
    "three settings change it": (active, 3),
    "the slowest of three paths": (slowest, 3),
}


def case(name: str, factors: int, shape: str, repetitions: int) -> dict[str, Any]:
    """One case: the shares of tunes with a wrong claim about an inert setting."""
    truth, changing = TRUTHS[name]
    draw = SHAPES[shape]
    helped = claimed = covered = 0
    random = np.random.default_rng([SEED, factors, len(name), len(shape)])
    for repetition in range(repetitions):
        found = design(factors, repetition)
        levels = np.where(np.array(found.rows), 1.0, -1.0)
        number = len(levels)
        drift = np.linspace(0.0, 3 * SCATTER, number)
        values = truth(levels) + drift + SCATTER * draw(random, number)
        solved = effects(values.tolist(), found.blocks, found.rows, whole=found.kind == "full")
        said = [verdict for verdict, _ in judged(solved)][changing:]
        helped += "helps" in said
        claimed += "helps" in said or "hurts" in said
        last = solved[-1]
        assert last is not None
        covered += last.low <= 0 <= last.high
    return {
        "case": f"{name}, {factors} settings, {factors - changing} inert, {shape}",
        "repetitions": repetitions,
        "helps": helped / repetitions,
        "claims": claimed / repetitions,
        "covers": covered / repetitions,
        "held": limited(claimed / repetitions, LEVEL, repetitions)
        and limited(1 - covered / repetitions, 1 - COVERAGE, repetitions),
    }


def main() -> int:
    """Simulate all cases; 0 if every rate is within its limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    given = parser.parse_args()
    cases = []
    for name, (_, changing) in TRUTHS.items():
        for factors in FACTORS:
            if factors <= changing:
                continue
            for shape in SHAPES:
                one = case(name, factors, shape, given.repetitions)
                cases.append(one)
                mark = "" if one["held"] else "  TOO HIGH"
                print(
                    f"{one['case']}: {one['helps']:.2%} help, {one['claims']:.2%} claims, "
                    f"covers {one['covers']:.1%}{mark}",
                    flush=True,
                )
    if given.repetitions >= REPETITIONS:
        print(write_results("effects", {"seed": SEED, "level": LEVEL}, cases).name)
    return 0 if all(one["held"] for one in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
