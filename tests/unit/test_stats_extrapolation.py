# SPDX-License-Identifier: Apache-2.0
"""The model of the largest values against SciPy, and each reason for which it is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, cramervonmises, genpareto

from rtgauge.stats import ExcursionsBuilder, Extrapolation, Part, extrapolation
from rtgauge.stats.extrapolation import _anderson, _held_out, fit, region

COUNT = 20_000


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
        (mixed, "held out"),
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
    assert refused(extrapolation([]), "fewer than 100 clusters")
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
