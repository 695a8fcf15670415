# SPDX-License-Identifier: Apache-2.0
"""The model of the largest values against SciPy, and each reason for which it is refused."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, chisquare, cramervonmises, expon, genpareto, geom, norm, pearsonr

from rtgauge.stats import ExcursionsBuilder, Extrapolation, Part, extrapolation
from rtgauge.stats.extrapolation import (
    FIT_LIMIT,
    HOLD_OUT_LIMIT,
    Fit,
    _anderson,
    _apart,
    _chosen,
    _cluster_maxima,
    _drifts,
    _held_out,
    _stability,
    _uneven,
    fit,
    region,
)

COUNT = 20_000
MODULE = sys.modules[fit.__module__]


def part(values: NDArray[np.floating], positions: NDArray[np.int64] | None = None) -> Part:
    """The part of a run as a pass over its samples gives it."""
    at = np.arange(len(values)) if positions is None else positions
    large = ExcursionsBuilder()
    large.add(at, np.round(values).astype(np.int64))
    index, value = large.largest()
    order = np.argsort(index)
    return Part(index[order], value[order], len(values), large.above())


def smooth(seed: int, count: int = COUNT) -> NDArray[np.float64]:
    return np.random.default_rng(seed).gamma(4, size=count) * 1000 + 3000


def modelled(*series: NDArray[np.floating], **more: object) -> Extrapolation:
    return extrapolation([part(one) for one in series], **more)  # type: ignore[arg-type]


def refused(found: Extrapolation, words: str) -> bool:
    return any(words in reason for reason in found.reasons)


# --- the fit -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [-0.4, -0.2, 0.0, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("number", [30, 300])
def test_the_fit_is_that_of_scipy(shape: float, number: int) -> None:
    random = np.random.default_rng(round(shape * 100) + 100)
    excess = genpareto.rvs(shape, scale=700, size=number, random_state=random)
    found = fit(excess)
    of_scipy = genpareto.fit(excess, floc=0)
    assert found.log_likelihood == pytest.approx(
        genpareto.logpdf(excess, found.shape, 0, found.scale).sum(), rel=1e-9
    )
    if of_scipy[0] > -0.5:
        best = genpareto.logpdf(excess, of_scipy[0], 0, of_scipy[2]).sum()
        assert found.log_likelihood >= best - 1e-3
        assert found.shape == pytest.approx(of_scipy[0], abs=0.01)
        assert found.scale == pytest.approx(of_scipy[2], rel=0.02)


def test_exponential_excesses_have_the_shape_0() -> None:
    excess = -np.log1p(-(np.arange(1000) + 0.5) / 1000)
    found = fit(excess)
    assert abs(found.shape) < 0.02
    assert found.exponential(excess) == pytest.approx(excess, rel=0.05)


@pytest.mark.parametrize("excess", [[], [1.0], [0.0, 0.0], [-1.0, 2.0]])
def test_what_cannot_be_fitted(excess: list[float]) -> None:
    with pytest.raises(ValueError, match="excesses"):
        fit(np.array(excess))


@pytest.mark.parametrize("shape", [-0.2, 0.0, 0.3])
def test_the_interval_of_the_shape_is_that_of_the_likelihood(shape: float) -> None:
    """Against a search with SciPy for the scale that is best with each shape."""
    random = np.random.default_rng(7)
    excess = genpareto.rvs(shape, size=400, random_state=random)
    found = fit(excess)
    known = region(excess, found)

    def lost(value: float) -> float:
        def scaled(log_scale: float) -> float:
            density = genpareto.logpdf(excess, value, 0, math.exp(log_scale))
            return -float(density.sum()) if np.isfinite(density).all() else 1e9

        best = minimize_scalar(scaled, bounds=(-1, 1), method="bounded")
        return found.log_likelihood + float(best.fun)

    limit = chi2.ppf(0.95, 1) / 2
    step = 2 * 3.5 * (1 + found.shape) / math.sqrt(400) / 40
    for end, inward in ((known.shapes.min(), 1), (known.shapes.max(), -1)):
        assert lost(end + inward * step) < limit
        assert lost(end - 2 * inward * step) > limit


def test_the_distances_are_those_of_scipy() -> None:
    random = np.random.default_rng(3)
    excess = genpareto.rvs(0.4, size=300, random_state=random)
    some = fit(excess[:150])
    parameters = some.shape, 0, some.scale
    of_scipy = cramervonmises(excess[150:], genpareto(*parameters).cdf)
    assert _held_out(excess) == pytest.approx(of_scipy.statistic, rel=1e-6)
    part_below = np.sort(genpareto.cdf(excess, *parameters))
    ranks = 2 * np.arange(1, 301) - 1
    distance = -300 - (ranks * (np.log(part_below) + np.log1p(-part_below[::-1]))).sum() / 300
    assert _anderson(some.exponential(excess)) == pytest.approx(distance, rel=1e-6)


# --- given and refused ---------------------------------------------------------------------------


def test_a_smooth_series_has_a_level_with_an_interval() -> None:
    found = modelled(smooth(1))
    assert found.reasons == ()
    assert 390 < found.clusters <= found.exceedances <= 400  # some are equal to the threshold
    assert found.level is not None and found.level_interval is not None
    assert found.level_interval[0] < found.level < found.level_interval[1]
    assert found.threshold is not None and found.shape_interval is not None
    # By its definition one cluster in ten times the samples exceeds the level.
    many = 10 * found.clusters
    beyond = genpareto.sf(found.level - found.threshold - 0.5, found.shape, 0, found.scale)
    assert many * beyond == pytest.approx(1, rel=1e-6)
    assert [one[1] for one in found.shapes] == [
        found.clusters,
        *(found.clusters // n for n in (2, 4)),
    ]


def test_runs_are_one_series_and_twice_the_samples() -> None:
    found = modelled(smooth(1), smooth(2))
    assert found.reasons == () and found.samples == 2 * COUNT and 780 < found.exceedances <= 800


def mixed(values: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    rare = random.random(len(values)) < 0.002
    return values + rare * random.uniform(30_000, 60_000, len(values))


def bursts(values: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    for at in random.integers(0, len(values), 40):
        values[at : at + 20] *= 3
    return values


def rhythm(values: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    values[::97] += random.uniform(5000, 20_000, len(values[::97]))
    return values


def drift(values: NDArray[np.float64], _: np.random.Generator) -> NDArray[np.float64]:
    return values * np.linspace(1, 1.3, len(values))


def heavy(values: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    return np.asarray(random.pareto(1.5, len(values)) * 1000)


def coarse(values: NDArray[np.float64], _: np.random.Generator) -> NDArray[np.float64]:
    return np.round(values / 1000) * 1000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (mixed, "two groups"),
        (mixed, "does not fit"),
        (coarse, "do not predict"),
        (bursts, "come in groups"),
        (rhythm, "not geometric"),
        (drift, "drifts"),
        (heavy, "reaches 0.5"),
        (coarse, "steps of the clock"),
    ],
)
def test_each_reason_is_found(change: Callable[..., NDArray[np.float64]], words: str) -> None:
    random = np.random.default_rng(5)
    found = modelled(change(smooth(4), random))
    assert refused(found, words), found.reasons


def test_reasons_that_others_know() -> None:
    assert refused(modelled(smooth(1), two_groups=True), "two groups")
    assert refused(modelled(smooth(1), rhythm=True), "rhythm")
    assert refused(modelled(smooth(1), copies=1), "1 of the runs is a copy")
    assert refused(modelled(smooth(1), copies=2), "2 of the runs are copies")
    beyond = modelled(smooth(1), times=20.0, copies=1)
    assert refused(beyond, "10 times is the limit") and len(beyond.reasons) == 2


def test_a_run_that_differs_from_another_drifts() -> None:
    assert refused(modelled(smooth(1), smooth(2) * 1.2), "drifts")


@pytest.mark.parametrize("count", [0, 1, 50, 4000])
def test_few_samples(count: int) -> None:
    found = modelled(smooth(1, count))
    assert refused(found, "fewer than 100 clusters") and found.level is None


def test_no_run_and_no_exceedance() -> None:
    none = extrapolation([])
    assert refused(none, "fewer than 100 clusters")
    assert (none.samples, none.exceedances, none.clusters) == (0, 0, 0)
    assert refused(modelled(np.full(COUNT, 5000.0)), "the largest 4096 are equal")
    ties = np.where(np.arange(COUNT) % 3, 5000.0, 6000.0)
    assert refused(modelled(ties), "are equal")


def test_missed_periods_count_as_time() -> None:
    """Positions are numbers of periods: with every other one missed the gaps stay geometric."""
    values = smooth(8)
    kept = np.flatnonzero(np.random.default_rng(9).random(2 * COUNT) < 0.5)[:COUNT]
    found = extrapolation([part(values[: len(kept)], kept)])
    assert not refused(found, "gaps") and not refused(found, "drifts")


@pytest.mark.parametrize("seed", range(4))
def test_large_values_many_steps_apart_are_coarse(seed: int) -> None:
    """A clock of 1 us: the steps are those from the threshold on, not those between the values
    above it."""
    random = np.random.default_rng(seed)
    values = random.integers(3, 6, COUNT) * 1000.0
    large = random.choice(COUNT, 300, replace=False)
    values[large] = np.where(np.arange(300) < 200, 6000, 9000)
    assert refused(modelled(values), "steps of the clock")


# --- each of its tests, against a count of its own -----------------------------------------------


def test_the_region_is_that_of_the_likelihood_at_each_point() -> None:
    """41 shapes and 41 scales around the fit; those within half the quantile of chi-squared."""
    for shape, confidence in ((-0.4, 0.95), (-0.2, 0.95), (0.0, 0.9), (0.3, 0.99)):
        excess = genpareto.rvs(shape, scale=300, size=200, random_state=np.random.default_rng(3))
        found = fit(excess)
        known = region(excess, found, confidence)
        shapes = found.shape + np.linspace(-1, 1, 41) * 3.5 * (1 + found.shape) / math.sqrt(200)
        far = 3.5 * math.sqrt(2 * (1 + found.shape) / 200)
        scales = found.scale * np.exp(np.linspace(-far, far, 41))
        limit = found.log_likelihood - chi2.ppf(confidence, 1) / 2
        held = {(round(a, 9), round(b, 6)) for a, b in zip(known.shapes, known.scales, strict=True)}
        inside = near = 0
        for one in shapes:
            likelihood = genpareto.logpdf(excess[:, None], one, 0, scales).sum(axis=0)
            for scale, value in zip(scales, likelihood, strict=True):
                if abs(value - limit) < 0.05:  # the product reads a table
                    near += 1
                    continue
                expected = value > limit and one > -0.5
                inside += expected
                assert ((round(one, 9), round(scale, 6)) in held) == expected
        assert 60 < inside <= len(held) <= inside + near and near < 20


@pytest.mark.slow
def test_gaps_are_held_against_the_geometric_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kolmogorov's distance, at each whole number: the limit is moved to either side of it."""
    random = np.random.default_rng(5)
    for _ in range(150):
        often = random.choice([0.001, 0.05, 0.5])
        positions = np.union1d([3, 9], np.flatnonzero(random.random(4000) < often))
        more = random.random(len(positions)) < random.choice([0, 0.2])
        positions = np.union1d(positions, positions[more] + 1)
        span = int(positions[-1]) + 1 + int(random.integers(0, 400))
        gaps = np.diff(positions)
        whole = np.arange(int(gaps.max()) + 2)
        share = np.array([(gaps <= one).mean() for one in whole])
        chance = (len(gaps) + 1) / span
        distance = np.abs(share - geom.cdf(whole, chance)).max() * math.sqrt(len(gaps))
        for factor in (1 - 1e-9, 1 + 1e-9):
            monkeypatch.setattr(MODULE, "GAPS_LIMIT", distance * factor)
            assert _uneven(positions, span) == (factor < 1)


@pytest.mark.slow
def test_drifts_are_those_of_published_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of the positions, Spearman's correlation, and chi-squared in ten pieces: the level
    is moved to either side of three times the smallest probability."""
    random, least = np.random.default_rng(6), []
    for _ in range(200):
        number, span = int(random.integers(20, 300)), 5000
        kind, strength = random.integers(4), random.uniform(0, 0.4)
        at = random.random(number)
        if kind == 1:
            at = at ** (1 + strength)
        if kind == 2:
            at = np.where(random.random(number) < strength, 0.4 + 0.2 * at, at)
        positions = np.unique((at * span).astype(np.int64))
        excess = np.round(random.exponential(1000, len(positions)))
        if kind == 3:
            excess += positions / span * 2000 * strength
        place, number = (positions + 0.5) / span, len(positions)
        rate = (place.mean() - 0.5) * math.sqrt(12 * number)
        ranks = np.argsort(np.argsort(excess, kind="stable"))
        size = pearsonr(place, ranks).statistic * math.sqrt(number - 1)
        pieces = np.histogram(place, np.linspace(0, 1, 11))[0]
        chances = [2 * norm.sf(abs(rate)), 2 * norm.sf(abs(size)), chisquare(pieces).pvalue]
        least.append(int(np.argmin(chances)))
        if 1e-6 < (level := 3 * min(chances)) < 0.9:
            for factor in (1 - 1e-6, 1 + 1e-6):
                monkeypatch.setattr(MODULE, "_LEVEL", level * factor)
                assert _drifts(positions, excess, span) == (factor > 1)
    assert min(least.count(test) for test in range(3)) > 20


@pytest.mark.slow
@given(st.sets(st.integers(0, 60), min_size=1, max_size=40), st.integers(0, 2**16))
def test_neighbours_are_one_cluster(at: set[int], seed: int) -> None:
    positions = sorted(at)
    excess = np.random.default_rng(seed).integers(0, 9, len(positions)).astype(float)
    expected: list[float] = []
    for number, place in enumerate(positions):
        if place - 1 in at:
            expected[-1] = max(expected[-1], excess[number])
        else:
            expected.append(excess[number])
    assert _cluster_maxima(np.array(positions), excess).tolist() == expected


def test_a_gap_is_too_wide_by_the_chance_of_its_spacing() -> None:
    """The k-th largest of exponential values is as far from the next as one of mean 1 / k."""
    number = 200
    even = np.cumsum(1 / np.arange(number, 0, -1.0))  # each spacing is its mean
    allowed = math.log(number / 0.001)  # expected: one in a thousand series
    for place in (0, 3, number - 1):
        for more, apart in ((0.999, False), (1.001, True)):
            values = even.copy()
            values[place:] += (more * allowed - 1) / (number - place)
            assert _apart(values) == apart
    assert _apart(np.array([1.0, math.inf]))


def test_higher_thresholds_have_their_own_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half and quarter of the clusters have shapes of their own, with the standard error of fits
    that share samples. The level is moved to either side of the probability of each."""
    for seed in range(20):
        random = np.random.default_rng(seed)
        tops = genpareto.rvs(0.1, scale=500, size=300, random_state=random)
        tops[np.argsort(tops)[-30:]] *= 1 + seed % 4 * 0.7
        found = fit(tops)
        rows = _stability(tops, 7000, found)
        assert rows[0] == (7000, 300, found.shape, True)
        for at, part in ((1, 2), (2, 4)):
            threshold, number, shape, _ = rows[at]
            assert number == 300 // part
            above = np.sort(tops)[::-1][number]
            assert threshold == 7000 + math.ceil(above)
            assert shape == fit(np.sort(tops - above)[-number:]).shape
            error = 1.15 * (1 + found.shape) * math.sqrt(1 / number - 1 / 300)
            level = 4 * norm.sf(abs(shape - found.shape) / error)
            for factor in (1 - 1e-6, 1 + 1e-6):
                monkeypatch.setattr(MODULE, "_LEVEL", level * factor)
                assert _stability(tops, 7000, found)[at][3] == (factor < 1)
    alone = Fit(0.0, 1.0, 0.0)
    for count, steps in ((99, 1), (100, 2), (199, 2), (200, 3)):
        assert len(_stability(np.arange(1.0, count + 1), 0, alone)) == steps
    assert len(_stability(np.ones(400), 0, alone)) == 1


def test_the_samples_above_the_threshold_in_their_order() -> None:
    """A fiftieth of all, at most 1000, and none of those that a part may lack."""
    random = np.random.default_rng(9)
    whole = random.permutation(30_000)
    rows = whole[:20_000], whole[20_000:]
    found = _chosen([Part(np.arange(len(row)), row, len(row), None) for row in rows])
    assert found is not None
    threshold = np.sort(whole)[-601]
    at = np.flatnonzero(whole > threshold)
    assert found[2] == threshold and found[0].tolist() == at.tolist()
    assert found[1].tolist() == whole[at].tolist() and len(at) == 600
    higher = int(np.sort(whole)[-301])
    found = _chosen([Part(np.arange(len(row)), row, len(row), higher) for row in rows])
    assert found is not None and found[2] == higher and len(found[0]) == 300
    found = _chosen([Part(np.arange(30_000), whole, 10**6, None)])
    assert found is not None and len(found[0]) == 1000
    few = int(np.sort(whole)[-100])  # 99 above
    assert _chosen([Part(np.arange(30_000), whole, 30_000, few)]) is None
    assert _chosen([Part(np.arange(30_000), whole, 30_000, few - 1)]) is not None
    turned = _chosen([Part(np.arange(30_000)[::-1], whole[::-1], 30_000, None)])
    assert turned is not None and (np.diff(turned[0]) > 0).all()
    assert Part(np.array([3, 8]), np.array([1, 1]), 5, None).span == 9
    assert Part(np.array([3, 8]), np.array([1, 1]), 50, None).span == 50


def test_a_shape_that_depends_on_the_threshold_and_a_level_that_was_exceeded() -> None:
    """The parts of the result, from those of the model; and two reasons that no made-up series of
    the others gives."""
    for seed in range(4):
        values = np.round(smooth(seed) / 7) * 7
        found = modelled(values)
        assert found.threshold is not None and found.scale is not None
        assert found.level_interval is not None and found.shape_interval is not None
        at = np.flatnonzero(values > found.threshold)
        tops = _cluster_maxima(at, values[at] - found.threshold - 3.5)  # half a step of 7
        model = fit(tops)
        assert (found.shape, found.scale) == (model.shape, model.scale)
        known = region(tops, model)
        assert found.shape_interval == (known.shapes.min(), known.shapes.max())
        levels = [
            found.threshold + 3.5 + genpareto.isf(1 / (10 * len(tops)), shape, 0, scale)
            for shape, scale in zip(known.shapes, known.scales, strict=True)
        ]
        assert found.level_interval == pytest.approx((min(levels), max(levels)), rel=1e-6)
        assert found.shapes[0][:2] == (found.threshold, len(tops))
        assert all(len(row) == 3 for row in found.shapes)
        lower = modelled(values, times=0.001)
        assert refused(lower, "below the largest sample") and not refused(found, "below")
    random = np.random.default_rng(1)
    two = np.concatenate([smooth(1), 14_000 + random.exponential(300, 100)])
    assert refused(modelled(random.permutation(two)), "depends on the threshold")


@pytest.mark.parametrize("excess", [[1.0, 2.0], [0.0, 5.0], [3.0, 3.0], [0.2, 0.5]])
def test_two_excesses_are_enough_for_a_fit(excess: list[float]) -> None:
    found = fit(np.array(excess))
    assert found.log_likelihood == pytest.approx(
        genpareto.logpdf(excess, found.shape, 0, found.scale).sum(), rel=1e-6
    )
    assert found.log_likelihood >= expon.logpdf(excess, 0, np.mean(excess)).sum() - 1e-9


def test_the_transform_near_a_shape_of_0() -> None:
    values = np.array([0.1, 1.0, 5.0, 30.0])
    for shape in (0.0, 1e-10, 1e-8, -1e-8, 0.2, -0.2):
        with np.errstate(divide="ignore"):
            expected = -genpareto.logsf(values, shape, 0, 4.0)
        assert Fit(shape, 4.0, 0.0).exponential(values) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_each_limit_refuses_one_in_a_hundred_series_that_the_model_fits() -> None:
    random = np.random.default_rng(11)
    refusals = np.zeros(3)
    for _ in range(500):
        tops = genpareto.rvs(0.1, scale=500, size=200, random_state=random)
        positions = np.flatnonzero(random.random(10_000) < 0.02)
        refusals += (
            _anderson(fit(tops).exponential(tops)) > FIT_LIMIT,
            _held_out(tops) > HOLD_OUT_LIMIT,
            _uneven(positions, 10_000),
        )
    # 5 are expected; more than 13 have a chance of 1 in 1000
    assert (refusals >= 1).all() and (refusals <= 13).all(), refusals
