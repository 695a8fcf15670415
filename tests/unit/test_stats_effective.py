# SPDX-License-Identifier: Apache-2.0
"""Intervals and bounds of samples that depend on each other: they hold as often as they claim.

``bench/verdicts.py`` does the same with more repetitions; docs/reference/statistics.md has its
table.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import signal, special
from scipy import stats as reference

import report_runs as made
from rtgauge import stats
from rtgauge.report.document import tables
from rtgauge.report.results import labels, model
from rtgauge.stats import ExcursionsBuilder, TimelineBuilder

MS = 1_000_000
COUNT = 60_000
Float64 = NDArray[np.float64]
Series = Callable[[np.random.Generator], Float64]


def independent(random: np.random.Generator) -> Float64:
    return random.standard_normal(COUNT)


def autoregressive(random: np.random.Generator) -> Float64:
    noise = random.standard_normal(COUNT + 500) * np.sqrt(1 - 0.95**2)
    values = np.asarray(signal.lfilter([1], [1, -0.95], noise), np.float64)
    return values[500:]


def in_blocks(random: np.random.Generator) -> Float64:
    """Noise whose level changes every 0.5 s."""
    level = np.repeat(random.standard_normal(COUNT // 500 + 1), 500)
    start = int(random.integers(500))
    return (level[start : start + COUNT] + random.standard_normal(COUNT)) / 2**0.5


def nanoseconds(values: Float64) -> NDArray[np.int32]:
    return np.round(100_000 + 10_000 * values).astype(np.int32)


def line_of(values: NDArray[np.int32]) -> tuple[stats.Counts, stats.Timeline]:
    builder = TimelineBuilder(0, (COUNT - 1) * MS, bins=600, interval_ns=MS)
    builder.add(range(0, COUNT * MS, MS), values)
    return builder.counts(), builder.timeline()


@pytest.mark.parametrize("series", [independent, autoregressive, in_blocks])
@pytest.mark.slow
def test_intervals_of_percentiles_hold(series: Series) -> None:
    random = np.random.default_rng(7)
    repetitions = 200
    held: dict[str, int] = {}
    plain: dict[str, int] = {}
    refused = 0
    for _ in range(repetitions):
        counts, line = line_of(nanoseconds(series(random)))
        sizes = stats.effective_sizes(counts, line)
        for found, by in ((held, sizes), (plain, None)):
            for name, (low, high) in stats.percentile_intervals(counts, effective=by).items():
                truth = 100_000 + 10_000 * special.ndtri(float(name) / 100)
                lowest, highest = low or 0, high or 10**9
                found[name] = found.get(name, 0) + (lowest - 1 <= truth <= highest + 1)
        refused += sum(size is None for size in sizes.values())
    # 93 % and, of 200, three standard errors
    assert min(held.values()) >= repetitions * (0.93 - 0.055)
    assert refused <= 0.05 * repetitions * len(held)
    if series is not independent:
        assert plain["50"] < repetitions * 0.5


def test_slow_drifts_have_no_interval() -> None:
    random = np.random.default_rng(3)
    drift = np.cumsum(random.standard_normal(COUNT)) / 100
    counts, line = line_of(nanoseconds(drift / 4))
    sizes = stats.effective_sizes(counts, line)
    assert sizes["50"] is None
    assert stats.percentile_intervals(counts, effective=sizes)["50"] == (None, None)


def test_effective_sizes_of_few_bins_are_those_of_independent_samples() -> None:
    count = np.full(9, 100)
    assert stats.effective_size(np.arange(9), count) == 900
    assert stats.effective_size(np.zeros(40, np.int64), np.full(40, 10)) == 400
    # all that is above is in one batch of 40: worth next to nothing
    above = np.zeros(40, np.int64)
    above[7] = 10
    size = stats.effective_size(above, np.full(40, 10))
    assert size is not None and size < 60
    # bins without samples are not batches
    sparse = np.zeros(400, np.int64)
    sparse[::10] = above
    filled = np.zeros(400, np.int64)
    filled[::10] = 10
    assert stats.effective_size(sparse, filled) == size


def by_definition(above: list[int], count: list[int]) -> int | None:
    """The design effect of at most 30 batches of bins, written out sample by sample."""
    bins = [(a, c) for a, c in zip(above, count, strict=True) if c]
    total, exceeding = sum(count), sum(above)
    number = min(len(bins), 30)
    if number < 10 or exceeding in (0, total):
        return total
    first = [math.ceil(Fraction(k * len(bins), number)) for k in range(number + 1)]
    batches = [bins[a:b] for a, b in itertools.pairwise(first)]
    share = exceeding / total
    off = [sum(a for a, _ in one) - share * sum(c for _, c in one) for one in batches]
    between = sum(d * d for d in off)
    effect = number / (number - 1) * between / (total * share * (1 - share))
    if effect <= reference.chi2.ppf(0.9, number - 1) / (number - 1):
        return total
    neighbours = sum(a * b for a, b in itertools.pairwise(off)) / between
    if neighbours > 2 / math.sqrt(number):
        return None
    return int(
        total / effect * (reference.norm.ppf(0.975) / reference.t.ppf(0.975, number - 1)) ** 2
    )


@pytest.mark.parametrize("bins", [9, 10, 11, 29, 30, 31, 64])
def test_the_effective_size_is_that_of_the_definition(bins: int) -> None:
    random = np.random.default_rng(bins)
    kinds = Counter[str]()
    for _ in range(150):
        count = random.integers(0, 40, bins)
        memory = random.choice([0.0, 0.3, 0.8])
        level = signal.lfilter([1], [1, -memory], random.normal(0, 1, bins))
        chance = special.expit(random.choice([0.0, 0.4, 1.0]) * level - 1)
        above = random.binomial(count, chance)
        found = stats.effective_size(above, count)
        expected = by_definition(above.tolist(), count.tolist())
        assert found == pytest.approx(expected, abs=1) if expected else found is None
        assert found is None or found >= 1
        total = int(count.sum())
        kinds["none" if found is None else "all" if found == total else "fewer"] += 1
    if bins > 15:  # some bins are empty
        assert min(kinds[kind] for kind in ("none", "all", "fewer")) > 5, kinds


def test_two_opposite_batches_are_worth_one_sample() -> None:
    """The largest design effect: half of all samples, in two of 10 batches."""
    count = np.array([1000, 1, 1, 1, 1, 1, 1, 1, 1, 1000])
    assert stats.effective_size(np.array([1000, *[0] * 9]), count) == 1
    # a single one, in a small batch next to a large one
    lone, sizes = np.array([1, *[0] * 9]), np.array([*[1] * 9, 1000])
    size = by_definition(lone.tolist(), sizes.tolist())
    assert size is not None and stats.effective_size(lone, sizes) == size < 500
    above = np.zeros(40, np.int64)
    above[3] = 1
    assert stats.effective_size(above, np.full(40, 10)) == 400
    assert stats.effective_size(10 - above, np.full(40, 10)) == 400
    assert stats.effective_size(np.full(40, 10), np.full(40, 10)) == 400


def test_batches_may_correlate_by_two_standard_errors() -> None:
    """In 16 batches of 10 samples: by 2/4, as in pairs that differ from the mean by 5."""
    count = np.full(16, 10)
    for off, known in (
        ([5, 5, 0, -5, -5, 0, 5, 5, 0, -5, -5, 0, 0, 0, 0, 0], True),  # 100 of 200
        ([5, 5, 5, -5, -5, -5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], True),  # 75 of 150
        ([5, 5, 5, 5, -5, -5, -5, -5, 0, 0, 0, 0, 0, 0, 0, 0], False),  # 125 of 200
    ):
        assert (stats.effective_size(5 + np.array(off), count) is not None) == known


@pytest.mark.slow
def test_sizes_of_a_series_do_not_grow_towards_the_tail() -> None:
    """For each percentile, the smaller size of the share above it and of that at or above it."""
    random = np.random.default_rng(5)
    smaller = refused = 0
    for _ in range(30):
        level = np.repeat(random.integers(0, 60, 50), 60)
        values = (level + random.integers(0, 60, 3000)).astype(np.int32)
        builder = TimelineBuilder(0, 2999, bins=50)
        builder.add(range(3000), values)
        counts, line = builder.counts(), builder.timeline()
        rows = values.reshape(50, 60)
        most = 3000
        found = stats.effective_sizes(counts, line)
        assert list(found) == ["50", "90", "99"]
        for name, size in found.items():
            limit = counts.percentile(name)
            each = [
                stats.effective_size(np.sum(over, axis=1), line.count)
                for over in (rows > limit, rows >= limit)
            ]
            alone = min(one for one in [3000, *each] if one is not None)
            smaller += most < alone
            most = min(most, alone)
            refused += None in each
            assert size == (None if None in each else most)
    assert smaller and refused


def test_the_largest_value_has_at_least_one_sample_behind_it() -> None:
    few = stats.Clustering(1000, 5, 0.001, True)
    assert few.lower < 1 / 1000
    assert [stats.effective_of_maximum(n, few) for n in (0, 1, 100, 10**6)] == [
        0, 1, 1, int(1e6 * few.lower)
    ]  # fmt: skip
    assert stats.effective_of_maximum(7, None) == 7


@pytest.mark.slow
@pytest.mark.parametrize("burst", [1, 10, 50])
def test_the_bound_holds_where_large_values_come_in_groups(burst: int) -> None:
    random = np.random.default_rng(burst)
    repetitions = 300
    held = plain = 0
    for _ in range(repetitions):
        values = np.repeat(random.integers(0, 10**9, COUNT // burst), burst).astype(np.int32)
        truth = 1 - (int(values.max()) + 1) / 10**9
        builder = ExcursionsBuilder()
        builder.add(np.arange(COUNT), values)
        size = stats.effective_of_maximum(COUNT, builder.clustering())
        held += truth <= stats.exceedance_bound(size)
        plain += truth <= stats.exceedance_bound(COUNT)
    assert held >= repetitions * (0.95 - 0.038)
    if burst > 1:
        assert plain < repetitions * 0.4


def test_the_report_says_that_large_values_come_in_groups() -> None:
    random = np.random.default_rng(2)
    values = np.repeat(random.integers(1000, 90_000, 3000), 10).astype(np.int32)
    step = made.step(0, [made.sampled(values)])
    run = made.run([step])
    for one in (
        model.build([run])["runs"][0]["series"][0],  # type: ignore[list-item]
        model.analyse([run]).model["runs"][0]["series"][0],  # type: ignore[list-item]
    ):
        assert one["clustering"]["clustered"]
        assert 8 < one["clustering"]["group"] < 15
        assert one["bound"]["samples"] == 30_000
        assert 900 < one["bound"]["effective_samples"] < 3500
        assert one["bound"]["probability"] == pytest.approx(
            stats.exceedance_bound(one["bound"]["effective_samples"])
        )
        assert 2000 < one["effective_samples"]["50"] < 6000
        said = labels.bound_sentence(one)
        assert "Large values come in groups of about" in said
        assert "if samples are independent" not in said
        groups = {**one["clustering"], "group": 123.4}
        said = labels.bound_sentence({**one, "clustering": groups})
        assert "in groups of about 120, at most " in said
        # the samples count as as many groups of that size
        (most,) = map(float, re.findall(r"about 120, at most ([\d.]+)", said))
        assert most == pytest.approx(30_000 / one["bound"]["effective_samples"], rel=0.05)
    one["percentile_ci"]["50"] = [None, None]
    table = tables.figures_table([one], ["all"], [""], "ns")
    assert tables.NO_INTERVAL in str(table)
    assert "too few independent stretches of time" in str(table)
