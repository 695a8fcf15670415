# SPDX-License-Identifier: Apache-2.0
"""How often bounds and extrapolations are wrong, by simulation with fixed seeds.

    PYTHONPATH=src python bench/claims_bounds.py [--repetitions N] [--section NAME]

Series of a known distribution give samples, hours and boots. The functions of the product bound
what comes next, and each bound below the truth is an error. Extrapolations are counted: given,
refused, and whether the interval of a given one covers the true level. It writes
bench/results/claims_bounds.json. Nothing is measured: the figures are the same on every machine.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sections import Case, limited, main

from rtgauge import stats
from rtgauge.stats.extrapolation import Part, extrapolation
from rtgauge.stats.special import gamma_inverse

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
Draw = Callable[[np.random.Generator, int], Float64]

REPETITIONS: Final = 2000
SEED: Final = 22
ERROR: Final = 0.05
SAMPLES: Final = 20_000
REFERENCE: Final = 8_000_000
HOUR: Final = 1000
"""Samples of an hour in the simulation."""
HOURS: Final = 20
REFUSED: Final = 0.95
GIVEN: Final = 0.80
COVER: Final = 0.90


def mixed(share: float) -> Draw:
    """An exponential body, and rare samples of another cause, 10 to 30 times as late."""

    def draw(random: np.random.Generator, number: int) -> Float64:
        rare = random.random(number) < share
        return random.exponential(size=number) + rare * random.uniform(10, 30, number)

    return draw


def bursty(random: np.random.Generator, number: int) -> Float64:
    """Noise that becomes five times as large for some 20 samples, every 500 samples or so."""
    starts = np.flatnonzero(random.random(number) < 1 / 500)
    ends = np.minimum(starts + random.geometric(1 / 20, len(starts)), number)
    depth = np.zeros(number + 1, np.int64)
    np.add.at(depth, starts, 1)
    np.add.at(depth, ends, -1)
    noisy = np.cumsum(depth[:-1]) > 0
    return random.exponential(size=number) * np.where(noisy, 5.0, 1.0)


def periodic(random: np.random.Generator, number: int) -> Float64:
    """A disturbance each 97 samples."""
    hit = (np.arange(number) + random.integers(97)) % 97 == 0
    return np.asarray(random.exponential(size=number) + hit * random.uniform(3, 8, number))


def pareto(random: np.random.Generator, number: int) -> Float64:
    """Infinite variance: Student's distribution with two degrees has the same tail."""
    return np.asarray(random.pareto(2, number))


def quantised(random: np.random.Generator, number: int) -> Float64:
    """Whole numbers, most of them equal to others."""
    return np.round(random.exponential(size=number))


SMOOTH: Final[Mapping[str, Draw]] = {
    "normal": lambda random, number: random.standard_normal(number) + 6,
    "exponential": lambda random, number: random.exponential(size=number),
    "Gumbel": lambda random, number: random.gumbel(size=number) + 4,
    "gamma, shape 4": lambda random, number: random.gamma(4, size=number),
    "log-normal, sigma 0.3": lambda random, number: random.lognormal(0, 0.3, number) * 3,
}
HEAVY: Final[Mapping[str, Draw]] = {"heavy: Pareto, variance infinite": pareto}
BROKEN: Final[Mapping[str, Draw]] = {
    "mixed, 1 in 100": mixed(1 / 100),
    "mixed, 1 in 1000": mixed(1 / 1000),
    "bursty": bursty,
    "periodic": periodic,
}


def normal_quantile(part: float) -> float:
    """The quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(part)


def gamma_quantile(part: float) -> float:
    """The quantile of the gamma distribution of shape 4."""
    return gamma_inverse(4, part)


QUANTILES: Final[Mapping[str, Callable[[float], float]]] = {
    "normal": lambda p: 6 + normal_quantile(p),
    "exponential": lambda p: -math.log1p(-p),
    "Gumbel": lambda p: 4 - math.log(-math.log(p)),
    "gamma, shape 4": gamma_quantile,
    "log-normal, sigma 0.3": lambda p: 3 * math.exp(0.3 * normal_quantile(p)),
}


def nanoseconds(values: Float64) -> Int64:
    """As samples: whole numbers of ns."""
    return np.round(values * 1000 + 3000).astype(np.int64)


def largest(values: Int64) -> Part:
    """The largest 4096 samples, as a pass over stored samples keeps them."""
    number = min(len(values), 4096)
    at = np.sort(np.argpartition(values, -number)[-number:])
    above = int(values[at].min()) if number < len(values) else None
    return Part(at, values[at], len(values), above)


def _held(name: str, rate: float, repetitions: int, **more: Any) -> Case:
    held = limited(rate, ERROR, repetitions)
    return {"case": name, "repetitions": repetitions, "errors": rate, "held": held, **more}


def _random(*words: object) -> np.random.Generator:
    return np.random.default_rng([SEED, *(sum(str(word).encode()) for word in words)])


def sample(repetitions: int) -> list[Case]:
    """The chance that a further sample exceeds the maximum of one run of 5000 samples, or three."""
    cases = []
    for name, draw in {**SMOOTH, **HEAVY, **BROKEN}.items():
        random = _random("sample", name)
        reference = np.sort(draw(random, REFERENCE))
        for runs in (1, 3):
            errors = 0
            for _ in range(repetitions):
                effective, top = 0, -math.inf
                for _ in range(runs):
                    values = draw(random, SAMPLES // 4)
                    large = stats.ExcursionsBuilder()
                    large.add(np.arange(len(values)), nanoseconds(values))
                    effective += stats.effective_of_maximum(len(values), large.clustering())
                    top = max(top, float(values.max()))
                truth = 1 - np.searchsorted(reference, top, side="right") / REFERENCE
                errors += int(truth > stats.exceedance_bound(effective))
            cases.append(_held(f"{name}, {runs} of 5 s", errors / repetitions, repetitions))
    return cases


def hour(repetitions: int) -> list[Case]:
    """The chance that a further hour exceeds the maximum of 20 hours, of 1000 samples each."""
    cases = []
    bound = -math.expm1(-stats.rate_bound(HOURS * 3600.0))
    for name, draw in {**SMOOTH, **HEAVY, **BROKEN}.items():
        random = _random("hour", name)
        tops = [draw(random, 100 * HOUR).reshape(100, HOUR).max(axis=1) for _ in range(200)]
        reference = np.sort(np.concatenate(tops))
        errors = 0
        for _ in range(repetitions):
            top = float(draw(random, HOURS * HOUR).max())
            truth = 1 - np.searchsorted(reference, top, side="right") / len(reference)
            errors += int(truth > bound)
        cases.append(_held(name, errors / repetitions, repetitions))
    return cases


def boot(repetitions: int) -> list[Case]:
    """The chance that a further boot exceeds the maximum of 6, 20 or 59 boots, which differ."""
    cases = []
    shapes: dict[str, Draw] = {
        **SMOOTH,
        **HEAVY,
        "mixed, 1 boot in 10": mixed(1 / 10),
        "quantised": quantised,
    }
    for name, draw in shapes.items():
        random = _random("boot", name)
        reference = np.sort(draw(random, REFERENCE))
        for boots in (6, 20, 59):
            tops = draw(random, repetitions * boots).reshape(repetitions, boots).max(axis=1)
            truth = 1 - np.searchsorted(reference, tops, side="right") / REFERENCE
            errors = float(np.mean(truth > stats.exceedance_bound(boots)))
            cases.append(_held(f"{name}, {boots} boots", errors, repetitions))
    return cases


def extrapolated(repetitions: int) -> list[Case]:
    """How often an extrapolation of 20 000 samples is given and refused, and how often the interval
    of a given one covers the true level. Other rules, which find groups and rhythms, are left out:
    they refuse more."""
    cases = []
    for name, draw in {**SMOOTH, **BROKEN}.items():
        random = _random("extrapolation", name)
        given = covered = 0
        why: dict[str, int] = {}
        for _ in range(repetitions):
            part = largest(nanoseconds(draw(random, SAMPLES)))
            found = extrapolation([part])
            for reason in found.reasons:
                why[reason] = why.get(reason, 0) + 1
            if found.reasons:
                continue
            given += 1
            if name in QUANTILES and found.level_interval is not None:
                level = QUANTILES[name](1 - 1 / (10 * SAMPLES)) * 1000 + 3000
                covered += found.level_interval[0] <= level <= found.level_interval[1]
        share = given / repetitions
        case: Case = {"case": name, "repetitions": repetitions, "given": share, "held": None}
        if name in SMOOTH:
            case["cover"] = covered / max(given, 1)
            case["held"] = limited(1 - share, 1 - GIVEN, repetitions)
            case["held"] = case["held"] and limited(1 - case["cover"], 1 - COVER, max(given, 1))
        elif name in BROKEN:
            case["held"] = limited(share, 1 - REFUSED, repetitions)
        case["reasons"] = {reason: number / repetitions for reason, number in why.items()}
        cases.append(case)
    return cases


SECTIONS: Final[Mapping[str, Callable[[int], list[Case]]]] = {
    "sample": sample,
    "hour": hour,
    "boot": boot,
    "extrapolation": extrapolated,
}


if __name__ == "__main__":
    purpose = (__doc__ or "").partition("\n")[0]
    facts = {"seed": SEED, "level": ERROR}
    sys.exit(main("claims_bounds", purpose, SECTIONS, facts, REPETITIONS))
