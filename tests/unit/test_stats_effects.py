# SPDX-License-Identifier: Apache-2.0
"""Effects of factors, against contrasts by hand, against SciPy, and with runs missing."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats as published

from rtgauge.stats.designs import Design, design
from rtgauge.stats.effects import Effect, effects, interactions


def made(
    found: Design, halves: list[float], noise: float = 0.0, pair: float = 0.0, seed: int = 1
) -> list[float]:
    """Values of a design: effects, an interaction of the first two factors, drift, noise."""
    generator = np.random.default_rng(seed)
    values = []
    for block, row in zip(found.blocks, found.rows, strict=True):
        sign = [1 if one else -1 for one in row]
        value = 7.0 + 0.3 * block + sum(s * h for s, h in zip(sign, halves, strict=True))
        value += pair * sign[0] * sign[1] if len(sign) > 1 else 0.0
        values.append(value + noise * float(generator.normal()))
    return values


@pytest.mark.parametrize("factors", [1, 2, 3, 4, 7, 11, 19])
def test_effects_are_found_exactly_beside_drift_and_interactions(factors: int) -> None:
    found = design(factors, 5)
    halves = [0.1 * (place - 2) for place in range(factors)]
    values = made(found, halves, pair=0.4)
    for half, one in zip(
        halves, effects(values, found.blocks, found.rows, whole=found.kind == "full"), strict=True
    ):
        assert one is not None
        assert one.estimate == pytest.approx(2 * half, abs=1e-9)


def test_an_effect_is_the_difference_of_means_with_students_interval() -> None:
    found = design(6, 2)
    values = made(found, [0.5, 0, 0, 0, 0, 0], noise=0.2)
    effect = effects(values, found.blocks, found.rows, whole=False)[0]
    assert effect is not None
    on = [value for value, row in zip(values, found.rows, strict=True) if row[0]]
    off = [value for value, row in zip(values, found.rows, strict=True) if not row[0]]
    assert effect.estimate == pytest.approx(np.mean(on) - np.mean(off))
    # The same from the differences within blocks, with SciPy's distribution.
    sign = np.where(np.array(found.rows), 1, -1)
    firsts = [found.blocks.index(block) for block in range(found.size)]
    lasts = [one + 1 for one in firsts]
    half = (np.array(values)[firsts] - np.array(values)[lasts]) / 2
    coefficients = sign[firsts].T @ half / found.size
    rest = half - sign[firsts] @ coefficients
    freedom = found.size - 6
    error = 2 * math.sqrt(rest @ rest / freedom / found.size)
    t = effect.estimate / error
    assert effect.freedom == freedom
    assert effect.p == pytest.approx(2 * published.t.sf(abs(t), freedom))
    width = published.t.ppf(0.975, freedom) * error
    assert effect.high - effect.estimate == pytest.approx(width)
    assert effect.estimate - effect.low == pytest.approx(width)


def test_the_interval_of_a_full_design_is_that_of_published_least_squares() -> None:
    found = design(2, 9)
    values = made(found, [0.3, 0.0], noise=0.1, pair=0.1)
    sign = np.where(np.array(found.rows), 0.5, -0.5)
    dummies = np.equal.outer(found.blocks, range(max(found.blocks) + 1)).astype(float)
    columns = np.column_stack([sign, sign[:, 0] * sign[:, 1], dummies])
    solved, rest, rank, _ = np.linalg.lstsq(columns, np.array(values), rcond=None)
    freedom = len(values) - rank
    covariance = np.linalg.inv(columns.T @ columns) * rest[0] / freedom
    width = published.t.ppf(0.995, freedom) * math.sqrt(covariance[0, 0])
    effect = effects(values, found.blocks, found.rows, 0.99, whole=True)[0]
    assert effect is not None
    assert effect.estimate == pytest.approx(solved[0])
    assert effect.high == pytest.approx(solved[0] + width)
    (pair,) = interactions(values, found.blocks, found.rows, whole=True)
    assert pair.effect.estimate == pytest.approx(solved[2])


def test_all_interactions_of_a_full_design_are_those_of_published_least_squares() -> None:
    """Effects, interactions, probabilities and intervals, with a mean for each block."""
    found = design(3, 4)
    values = made(found, [0.3, 0.0, -0.2], noise=0.1, pair=0.1)
    level = np.where(np.array(found.rows), 0.5, -0.5)
    pairs = list(itertools.combinations(range(3), 2))
    products = [level[:, a] * level[:, b] for a, b in pairs]
    dummies = np.equal.outer(found.blocks, range(max(found.blocks) + 1)).astype(float)
    columns = np.column_stack([level, *products, dummies])
    solved, rest, rank, _ = np.linalg.lstsq(columns, np.array(values), rcond=None)
    freedom = len(values) - rank
    errors = np.sqrt(np.diag(np.linalg.inv(columns.T @ columns)) * rest[0] / freedom)
    every = effects(values, found.blocks, found.rows, whole=True)
    both = interactions(values, found.blocks, found.rows, whole=True)
    assert [(one.first, one.second) for one in both] == pairs
    for place, one in enumerate([*every, *(one.effect for one in both)]):
        assert one is not None
        assert one.freedom == freedom
        assert one.estimate == pytest.approx(solved[place])
        width = published.t.ppf(0.975, freedom) * errors[place]
        assert (one.low, one.high) == pytest.approx((one.estimate - width, one.estimate + width))
        p = 2 * published.t.sf(abs(one.estimate) / errors[place], freedom)
        assert one.p == pytest.approx(p)


@pytest.mark.parametrize("factors", [2, 5])
def test_an_interaction_is_the_ratio_of_the_ratios(factors: int) -> None:
    """The first factor halves a value, but only with the second one on."""
    found = design(factors, 3)
    values = [math.log(0.5) if row[0] and row[1] else 0.0 for row in found.rows]
    pairs = interactions(values, found.blocks, found.rows, whole=factors == 2)
    [one] = [one for one in pairs if (one.first, one.second) == (0, 1)]
    assert math.exp(one.effect.estimate) == pytest.approx(0.5)


@pytest.mark.parametrize("lost", [None, 5])
def test_an_interaction_of_a_folded_design_is_a_published_regression(lost: int | None) -> None:
    """The means of complete blocks are regressed on the product of the levels."""
    found = design(5, 3)
    values = made(found, [0.3, 0, 0, 0, 0], noise=0.1, pair=0.2)
    kept = [run for run in range(len(values)) if run != lost]
    some = interactions(
        [values[run] for run in kept],
        [found.blocks[run] for run in kept],
        [found.rows[run] for run in kept],
        whole=False,
    )
    whole = [block for block in range(found.size) if lost is None or found.blocks[lost] != block]
    means = [np.mean([v for v, b in zip(values, found.blocks, strict=True) if b == block])
             for block in whole]  # fmt: skip
    assert len(some) == 10
    for one in some:
        rows = [found.rows[found.blocks.index(block)] for block in whole]
        products = [0.25 if row[one.first] == row[one.second] else -0.25 for row in rows]
        line = published.linregress(products, means)
        assert one.effect.estimate == pytest.approx(line.slope)
        assert one.effect.p == pytest.approx(line.pvalue)
        assert one.effect.freedom == len(whole) - 2
        width = published.t.ppf(0.975, len(whole) - 2) * line.stderr
        assert one.effect.high == pytest.approx(line.slope + width)
        assert one.effect.low == pytest.approx(line.slope - width)


def test_interactions_of_no_complete_block() -> None:
    found = design(5, 3)
    firsts = [found.blocks.index(block) for block in range(found.size)]
    rows = [found.rows[run] for run in firsts]
    assert interactions([1.0] * 12, range(12), rows, whole=False) == []


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_probabilities_do_not_depend_on_the_unit(scale: float) -> None:
    found = design(5, 4)
    values = made(found, [0.02, 0.0, 0, 0, 0], noise=0.02)
    for one, other in zip(
        effects(values, found.blocks, found.rows, whole=False),
        effects([scale * value for value in values], found.blocks, found.rows, whole=False),
        strict=True,
    ):
        assert one is not None and other is not None
        assert other.p == pytest.approx(one.p)


def test_missing_runs_widen_the_intervals_and_keep_the_effects() -> None:
    found = design(5, 4)
    values = made(found, [0.5, 0.2, 0, 0, 0])
    kept = [run for run in range(24) if run not in (3, 10)]
    some = effects(
        [values[run] for run in kept],
        [found.blocks[run] for run in kept],
        [found.rows[run] for run in kept],
        whole=False,
    )
    assert some[0] is not None and some[1] is not None
    assert some[0].estimate == pytest.approx(1.0)
    assert some[1].estimate == pytest.approx(0.4)
    assert some[0].freedom == 12 - 5 - 2


def test_a_factor_that_was_never_on_has_no_effect_and_the_others_have() -> None:
    found = design(3, 4)
    values = made(found, [0.5, 0.2, 0.9])
    kept = [run for run, row in enumerate(found.rows) if not row[2]]
    some = effects(
        [values[run] for run in kept],
        [found.blocks[run] for run in kept],
        [found.rows[run] for run in kept],
        whole=True,
    )
    assert some[2] is None
    assert some[0] is not None and some[0].estimate == pytest.approx(1.0)


def test_factors_that_were_always_on_together_have_no_effect() -> None:
    rows = [(False, False), (True, True)] * 6
    blocks = [run // 2 for run in range(12)]
    values = [float(run % 2) + 0.01 * run**2 for run in range(12)]
    assert effects(values, blocks, rows, whole=False) == [None, None]
    more = [(*row, run % 3 == 0) for run, row in enumerate(rows)]
    effect = effects(values, blocks, more, whole=False)
    assert effect[:2] == [None, None] and effect[2] is not None
    alone = effects(values, blocks, [row[1:] for row in more], whole=False)[1]
    assert alone is not None and effect[2].estimate == pytest.approx(alone.estimate)


def test_without_freedom_nothing_is_estimated() -> None:
    assert effects([1.0, 2.0], [0, 0], [(False,), (True,)], whole=False) == [None]
    assert effects([], [], [], whole=False) == []
    # one degree of freedom is enough, with the mean of two differences
    rows = [(False,), (True,)] * 2
    (one,) = effects([1.0, 2.0, 1.0, 4.0], [0, 0, 1, 1], rows, whole=False)
    assert one is not None and one.freedom == 1
    assert one.estimate == pytest.approx(2)
    assert one.p == pytest.approx(published.ttest_1samp([1.0, 3.0], 0).pvalue)


def test_values_without_scatter() -> None:
    rows, blocks = [(False,), (True,)] * 4, [0, 0, 1, 1, 2, 2, 3, 3]
    (same,) = effects([2.0] * 8, blocks, rows, whole=True)
    assert same is not None and same.estimate == 0 and same.p == 1
    (apart,) = effects([2.0, 1.0] * 4, blocks, rows, whole=True)
    assert apart is not None and apart.estimate == pytest.approx(-1) and apart.p == 0
    for scale in (1e-7, 0.1, 1e7):
        found = design(3, 6)
        values = [scale * one for one in made(found, [0.3, 0.0, 0.0])]
        some = effects(values, found.blocks, found.rows, whole=True)
        assert [one is not None and one.p for one in some] == [0, 1, 1]


def test_an_interaction_stands_out_among_those_that_share_its_pattern() -> None:
    found = design(6, 8)
    values = made(found, [0.5, 0.2, 0, 0, 0, 0], noise=0.01, pair=0.3)
    for run, block in enumerate(found.blocks):  # without the drift
        values[run] -= 0.3 * block
    every = interactions(values, found.blocks, found.rows, whole=False)
    assert len(every) == len(list(itertools.combinations(range(6), 2)))
    strongest = min(every, key=lambda one: one.effect.p)
    assert (strongest.first, strongest.second) == (0, 1)
    assert strongest.effect.estimate == pytest.approx(1.2, abs=0.1)


@pytest.mark.parametrize("values", [[1.0, math.inf], [1.0]])
def test_values_that_do_not_fit_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"finite|each run"):
        effects(values, [0, 0], [(True,), (False,)], whole=False)


@pytest.mark.parametrize(("estimate", "error"), [(0.02, 0.03), (-0.09, 0.002), (0.0, 0.05)])
def test_an_effect_is_within_a_margin_by_two_one_sided_tests(estimate: float, error: float) -> None:
    one = Effect(estimate, math.nan, math.nan, math.nan, 7, error)
    sides = [published.t.sf((0.1 + sign * estimate) / error, 7) for sign in (-1, 1)]
    assert one.within(0.1) == pytest.approx(2 * max(sides))
    assert one.within(abs(estimate)) == one.within(abs(estimate) - 0.05) == 1.0
    assert Effect(estimate, 0, 0, 0, 7, 0.0).within(0.1) == 0.0


def test_a_95_percent_interval_that_just_fits_gives_5_percent() -> None:
    found = design(2, 3)
    values = made(found, [0.05, 0.0], noise=0.1)
    one = effects(values, found.blocks, found.rows, whole=True)[0]
    assert one is not None and one.estimate > 0
    assert one.within(one.high) == pytest.approx(0.05)
