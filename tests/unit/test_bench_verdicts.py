# SPDX-License-Identifier: Apache-2.0
"""bench/verdicts.py: the verdicts that it simulates, against the exact chances of a wrong one."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import stats as reference

from rtgauge.stats import verdict

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("bench_verdicts", BENCH / "verdicts.py")
    assert spec and spec.loader
    module: ModuleType = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@functools.cache
def result_of(number: int, hours: float) -> str:
    """The result for a number of episodes in a few hours, of which one an hour is allowed."""
    return verdict(
        150_000,
        number,
        round(hours * 3.6e6),
        hours * 3600,
        rate_per_hour=1.0,
        episodes=(number, number),
    ).result


def exact(factor: float, hours: float, result: str) -> float:
    """The chance of a result where episodes come at random: a sum over their number."""
    mean = factor * hours
    return sum(
        float(reference.poisson.pmf(number, mean))
        for number in range(int(mean + 12 * mean**0.5 + 20))
        if result_of(number, hours) == result
    )


@pytest.mark.slow
def test_no_verdict_is_wrong_more_often_than_it_says(bench: Any) -> None:
    for factor in bench.FACTORS:
        for hours in bench.HOURS:
            wrong = "pass" if factor > 1 else "fail"
            assert exact(factor, hours, wrong) <= bench.AT_MOST, (factor, hours)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["single", "clustered"])
def test_the_simulation_gives_the_exact_chances(bench: Any, shape: str) -> None:
    random, number = np.random.default_rng(4), 600
    for factor, hours, result in ((0.2, 10, "pass"), (2.0, 10, "fail"), (0.5, 4, "inconclusive")):
        found = sum(
            bench.judged(random, factor, hours, bench.LENGTHS[shape]) == result
            for _ in range(number)
        )
        chance = exact(factor, hours, result)
        assert abs(found / number - chance) < 4 * (chance * (1 - chance) / number) ** 0.5
