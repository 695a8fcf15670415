# SPDX-License-Identifier: Apache-2.0
"""Bounds against scipy's exact tests and simulation; verdicts against the rule they carry out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from rtgauge.stats import (
    DEFAULT_PROBABILITY,
    bound_of_run,
    duration_needed_s,
    exceedance_bound,
    rate_bound,
    rate_lower_bound,
    samples_needed,
    shortest_period_s,
    verdict,
)
from rtgauge.stats.verdict import BudgetVerdict, _option
from rtgauge.text import plain
from rtgauge.units import parse_duration

HOUR = 3600.0


@pytest.mark.parametrize("count", [1, 2, 10, 1000, 200_000_000])
def test_no_exceedance_is_the_rule_of_three(count: int) -> None:
    bound = exceedance_bound(count)
    assert (1 - bound) ** count == pytest.approx(0.05, rel=1e-6)
    assert bound <= -math.log(0.05) / count <= 3 / count


@pytest.mark.slow
@given(st.integers(1, 3000), st.integers(0, 20), st.sampled_from([0.9, 0.95, 0.99]))
def test_exceedance_bound_is_clopper_and_pearsons(
    count: int, exceedances: int, confidence: float
) -> None:
    exceedances = min(exceedances, count)
    test = reference.binomtest(exceedances, count, alternative="less")
    expected = test.proportion_ci(confidence, method="exact").high
    assert exceedance_bound(count, confidence, exceedances) == pytest.approx(expected, rel=1e-8)


@given(st.floats(1, 1e7), st.integers(0, 500), st.sampled_from([0.9, 0.95, 0.99]))
def test_rate_bounds_are_poissons(duration: float, exceedances: int, confidence: float) -> None:
    hours = duration / HOUR
    upper = rate_bound(duration, confidence, exceedances)
    assert reference.poisson.cdf(exceedances, upper * hours) == pytest.approx(1 - confidence)
    lower = rate_lower_bound(duration, confidence, exceedances)
    if exceedances:
        assert reference.poisson.sf(exceedances - 1, lower * hours) == pytest.approx(1 - confidence)
    else:
        assert lower == 0
    needed = duration_needed_s(upper, confidence, exceedances)
    assert needed == pytest.approx(duration)


def test_bounds_hold_as_often_as_they_say() -> None:
    random = np.random.default_rng(11)
    for true in (0.0005, 0.003):
        seen = random.binomial(1000, true, 4000)
        above = [exceedance_bound(1000, 0.95, int(k)) >= true for k in range(seen.max() + 1)]
        assert np.mean(np.array(above)[seen]) >= 0.95 - 0.0035
    maxima = random.random((4000, 50)).max(axis=1)
    assert 0.94 <= np.mean(1 - maxima <= exceedance_bound(50)) <= 0.96


@pytest.mark.slow
@given(st.floats(1e-6, 0.5), st.integers(0, 5), st.sampled_from([0.9, 0.95]))
def test_samples_needed_are_the_fewest(
    probability: float, exceedances: int, confidence: float
) -> None:
    needed = samples_needed(probability, confidence, exceedances)
    assert exceedance_bound(needed, confidence, exceedances) <= probability
    assert exceedance_bound(needed - 1, confidence, exceedances) > probability


def test_headline_of_a_run() -> None:
    bound = bound_of_run(3_600_000, HOUR)
    assert bound.probability == pytest.approx(3 / 3.6e6, rel=0.002)
    assert bound.rate_per_hour == pytest.approx(3, rel=0.002)
    assert bound.period_s == pytest.approx(1200, rel=0.002) == shortest_period_s(HOUR)
    assert bound_of_run(500, 0.5).rate_per_hour == rate_bound(0.5) < math.inf
    empty = bound_of_run(0, 0.0)
    assert (empty.probability, empty.rate_per_hour, empty.period_s) == (1.0, None, None)


def test_a_bound_without_a_time_grid_says_nothing_of_time() -> None:
    bound = bound_of_run(2000, 0.0129, timed=False)
    assert (bound.rate_per_hour, bound.period_s) == (None, None)
    assert bound.probability == exceedance_bound(2000)


def test_events_without_an_answer_are_in_the_bound() -> None:
    bound = bound_of_run(60, 1.2, exceedances=5)
    assert bound.probability == exceedance_bound(60, 0.95, 5) > 5 / 60
    assert bound.rate_per_hour == rate_bound(1.2, 0.95, 5)


def test_impossible_arguments() -> None:
    for wrong in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError):
            exceedance_bound(10, wrong)
    with pytest.raises(ValueError):
        rate_bound(1.0, 0.95, -1)
    with pytest.raises(ValueError):
        samples_needed(0.0)
    assert rate_bound(0.0) == math.inf
    assert duration_needed_s(0.0) == math.inf
    assert exceedance_bound(0) == exceedance_bound(3, exceedances=3) == 1.0


# --- the verdict ---------------------------------------------------------------------------


def test_pass_needs_a_bound_below_the_rate() -> None:
    """At 95 % that is 2.996 h for once an hour, not an hour."""
    for hours, result in ((1.0, "inconclusive"), (2.99, "inconclusive"), (3.0, "pass")):
        for rate in (None, 1.0):
            found = verdict(150_000, 0, 1_000_000, hours * HOUR, rate_per_hour=rate)
            assert found.result == result
    assert verdict(1, 0, 10, 3 * HOUR, rate_per_hour=1.0, confidence=0.99).result == "inconclusive"


def test_the_figures_of_a_verdict_are_in_its_order() -> None:
    """A run of exactly the length that the remedy gave said *at most 12, below 12*."""
    kept = verdict(150_000, 0, 900_000, 900.0, rate_per_hour=12.0)
    assert kept.result == "pass"
    assert "at most 11.99 episodes an hour with 95 % confidence, below 12 an hour" in plain(
        kept.evidence
    )
    late = verdict(150_000, 5, 600_000, 600.0, rate_per_hour=11.815, episodes=(5, 5))
    assert late.result == "fail"
    assert "at least 11.82 episodes an hour with 95 % confidence; allowed: 11.815 an hour" in plain(
        late.evidence
    )


def test_one_exceedance_fails_a_hard_budget_however_long_the_run() -> None:
    for rate in (None, 0.0):
        found = verdict(150_000, 1, 10**9, 1000 * HOUR, rate_per_hour=rate)
        assert found.result == "fail"
        assert "150 us exceeded once" in plain(found.evidence) and "--rate" in found.remedy
        assert found.needed_s is None


def test_never_cannot_be_shown_only_refuted() -> None:
    found = verdict(150_000, 0, 10**9, 1000 * HOUR, rate_per_hour=0.0)
    assert found.result == "inconclusive" and found.needed_s is None
    assert "--rate" in found.remedy


@pytest.mark.parametrize(
    ("episodes", "result"),
    [(4, "pass"), (5, "inconclusive"), (10, "inconclusive"), (15, "inconclusive"), (16, "fail")],
)
def test_a_rate_fails_only_where_its_lower_bound_is_above(episodes: int, result: str) -> None:
    """Ten are allowed in ten hours; chance brings 15 of them in 8 % of the runs."""
    found = verdict(
        150_000, episodes, 10**7, 10 * HOUR, rate_per_hour=1.0, episodes=(episodes, episodes)
    )
    assert found.result == result
    assert (reference.poisson.sf(episodes - 1, 10) < 0.05) == (result == "fail")
    assert (reference.poisson.cdf(episodes, 10) < 0.05) == (result == "pass")


def test_samples_of_one_episode_count_once() -> None:
    """Two stalls of 50 ms at 1 ms in 10 h, once an hour allowed: 100 samples, no failure."""
    found = verdict(150_000, 100, 36 * 10**6, 10 * HOUR, rate_per_hour=1.0, episodes=(2, 2))
    assert found.result == "pass"
    assert "exceeded in 2 episodes (100 of 36 000" in plain(found.evidence)


def test_without_times_an_exceedance_is_an_episode_for_a_pass_and_none_for_a_failure() -> None:
    """A histogram cannot tell a stall from a hundred single events."""
    found = verdict(150_000, 100, 36 * 10**6, 10 * HOUR, rate_per_hour=1.0)
    assert found.result == "inconclusive" and found.episodes == (1, 100)
    assert "in 1 to 100 episodes" in found.evidence and "times are not known" in found.evidence
    assert verdict(150_000, 4, 10**7, 10 * HOUR, rate_per_hour=1.0).result == "pass"
    often = verdict(150_000, 1, 10**7, 10 * HOUR, rate_per_hour=0.005)
    assert often.result == "fail"  # one for certain, where 0.05 are allowed


def test_what_is_late_as_a_rule_is_no_single_episode() -> None:
    """Exceedances without a pause are one episode, and still far above 10 an hour."""
    count = 3_600_000
    for late in (count, count // 2 + 1):
        for episodes in ((1, 1), None):
            found = verdict(150_000, late, count, HOUR, rate_per_hour=10.0, episodes=episodes)
            assert found.result == "fail" and found.episodes == (late, late)
            assert "too often to tell episodes apart: at least" in found.evidence


def test_a_stall_that_is_a_large_part_of_a_run_may_be_one_event() -> None:
    """15 s of 150 s at 10 ms: no claim of a rate for a fail, and every exceedance for a pass."""
    count = 15_000
    for late, episodes in ((1501, (1, 1)), (count // 2, (1, 1)), (1501, None)):
        found = verdict(150_000, late, count, 150.0, rate_per_hour=1000.0, episodes=episodes)
        assert found.result == "inconclusive" and found.episodes == (1, late)
    every_ninth = verdict(150_000, 1666, count, 150.0, rate_per_hour=1000.0, episodes=(1666, 1666))
    assert every_ninth.result == "fail"


def test_episodes_are_counted_up_to_one_period_in_ten() -> None:
    count = 3_600_000
    for many in (10, 11):
        rare = verdict(150_000, count // many, count, HOUR, rate_per_hour=10.0, episodes=(1, 1))
        assert rare.result == "pass" and "in 1 episode (" in rare.evidence
    often = verdict(150_000, 5, 10, HOUR, rate_per_hour=10.0, episodes=(5, 5))
    assert "exceeded 5 times in 10" in plain(often.evidence) and "too often" in often.evidence
    once = verdict(150_000, 1, 5, HOUR, rate_per_hour=10.0, episodes=(1, 1))
    assert "in 1 episode (" in once.evidence


def test_impossible_episodes() -> None:
    for exceedances, episodes in ((3, (0, 2)), (3, (2, 1)), (3, (1, 4)), (0, (1, 1))):
        with pytest.raises(ValueError, match="episodes"):
            verdict(1, exceedances, 10, 1.0, rate_per_hour=1.0, episodes=episodes)


def test_an_operation_is_judged_without_time() -> None:
    enough = samples_needed(DEFAULT_PROBABILITY)
    assert enough == 2995
    for count, exceedances, result in (
        (enough, 0, "pass"),
        (enough - 1, 0, "inconclusive"),
        (10**6, 1, "fail"),
        (0, 0, "inconclusive"),
    ):
        found = verdict(150_000, exceedances, count, None)
        assert found.result == result
        assert (found.bound_per_hour, found.needed_s) == (None, None)
        assert "hour" not in found.evidence + found.remedy and "--for" not in found.remedy
    short = verdict(150_000, 0, 300, None)
    assert short.needed_samples == enough and "--samples 2995" in short.remedy
    assert "1 in 1" in verdict(150_000, 0, enough, None).evidence
    assert short.again_samples == enough and "lost" not in short.remedy
    lost = verdict(150_000, 0, enough, None, unknown=1)
    assert lost.result == "inconclusive" and lost.needed_samples == samples_needed(
        DEFAULT_PROBABILITY, exceedances=1
    )


def test_a_new_run_of_operations_need_not_lose_samples_again() -> None:
    """After a loss of 1000 samples, a million were asked for."""
    lost = verdict(150_000, 0, 2000, None, unknown=1000)
    assert lost.result == "inconclusive" and lost.needed_samples is not None
    assert lost.needed_samples > 10**6 and lost.again_samples == 2995
    wanted = "measure at least 2 995 samples without lost samples (--samples 2995)"
    assert plain(lost.remedy) == wanted
    # In a new run, as many events have no answer, and as many samples are in the same bucket.
    for rate, unanswered in ((None, 3), (1.0, 3), (1.0, 0)):
        found = verdict(
            150_000,
            0,
            2000,
            None,
            unknown=3,
            unanswered=unanswered,
            unsure=3 - unanswered,
            rate_per_hour=rate,
        )
        assert found.again_samples == found.needed_samples
        assert found.again_samples == samples_needed(DEFAULT_PROBABILITY, exceedances=3)
        assert "lost" not in found.remedy and f"--samples {found.again_samples})" in found.remedy
    groups = verdict(150_000, 0, 3000, None, unknown=9, effective=1000)
    assert groups.again_samples == 3 * 2995


def test_operations_in_groups_are_worth_fewer() -> None:
    """A third as much: three times the samples decide."""
    found = verdict(150_000, 0, 6000, None, effective=2000)
    assert found.result == "inconclusive" and found.needed_samples == 3 * 2995
    assert "equivalent to 2 000" in plain(found.evidence)
    assert verdict(150_000, 0, 8985, None, effective=2995).result == "pass"
    assert verdict(150_000, 1, 8985, None, effective=2995).result == "fail"
    assert verdict(150_000, 0, 8985, 1.0, effective=2995) == verdict(150_000, 0, 8985, 1.0)


def test_an_operation_has_no_rate_per_hour() -> None:
    for exceedances in (0, 5):
        found = verdict(150_000, exceedances, 10**6, None, rate_per_hour=1.0)
        assert found.result == "inconclusive" and "not on a time grid" in found.evidence
        assert "omit --rate" in found.remedy


@pytest.mark.slow
@given(
    st.integers(0, 30),
    st.floats(1, 1e6),
    st.one_of(st.none(), st.floats(1e-3, 1e4)),
    st.sampled_from([0.9, 0.95, 0.99]),
    st.integers(0, 3),
)
def test_run_length_still_needed_is_enough_and_no_more(
    exceedances: int, duration: float, rate: float | None, confidence: float, unknown: int
) -> None:
    def judge(length: float) -> BudgetVerdict:
        return verdict(
            1000,
            exceedances,
            10**6,
            length,
            rate_per_hour=rate,
            confidence=confidence,
            unknown=unknown,
            episodes=(exceedances, exceedances),
        )

    found = judge(duration)
    allowed = 1.0 if rate is None else rate
    lower = rate_lower_bound(duration, confidence, exceedances)
    if exceedances if rate is None else lower > allowed:
        assert found.result == "fail"
    elif rate_bound(duration, confidence, exceedances + unknown) < allowed:
        assert found.result == "pass" and found.needed_s == 0 and found.remedy == ""
    else:
        assert found.result == "inconclusive" and found.needed_s is not None
        assert judge(duration + found.needed_s).result == "pass"
        assert judge(max(duration + found.needed_s - 1.01, 0)).result != "pass"


def test_values_that_nobody_knows_prevent_a_pass_but_cause_no_failure() -> None:
    assert verdict(1000, 0, 10**6, 4 * HOUR).result == "pass"
    found = verdict(1000, 0, 10**6, 4 * HOUR, unknown=5)
    assert found.result == "inconclusive" and "5 more of unknown value" in found.evidence


def test_inconclusive_says_how_long_to_run() -> None:
    found = verdict(150_000, 0, 60_000, 60.0)
    assert found.result == "inconclusive"
    assert plain(found.evidence).startswith("150 us never exceeded in 60 000 samples")
    assert plain(found.remedy) == "run 2 h 59 min longer without an exceedance (--for 3h)"
    one = verdict(12_500, 1, 10**6, 2 * HOUR, rate_per_hour=1.0)
    assert "without another exceedance" in one.remedy
    assert "12.5 us exceeded in 1 episode" in plain(one.evidence)


@pytest.mark.parametrize(
    ("exceedances", "rate", "said", "length"),
    [(0, None, "an", "3 h"), (1, 1.0, "another", "4 h 45 min")],
)
def test_a_new_run_need_not_lose_samples(
    exceedances: int, rate: float | None, said: str, length: str
) -> None:
    """500 lost of 10 000 samples asked for a run of 22 days."""
    found = verdict(
        150_000,
        exceedances,
        9500,
        3600.0,
        rate_per_hour=rate,
        unknown=500,
        episodes=(exceedances,) * 2,
    )
    assert plain(found.remedy).startswith(
        f"run {length} without {said} exceedance and without lost samples (--for "
    )
    assert found.again_s is not None and found.needed_s is not None
    for seconds, result in ((found.again_s, "pass"), (found.again_s - 1.01, "inconclusive")):
        again = verdict(
            150_000, exceedances, 10**6, seconds, rate_per_hour=rate, episodes=(exceedances,) * 2
        )
        assert again.result == result
    longer = verdict(150_000, 0, 60_000, 60.0)
    assert longer.again_s == 60 + (longer.needed_s or 0)


def test_samples_in_the_bucket_of_the_budget_need_a_run_that_keeps_them() -> None:
    """A longer run has more of them. Its length is that of as many episodes without them."""
    kept = "without --histogram-only, at a longer --interval or on fewer CPUs"
    for hours, length in ((4, ", for at least 4 h 45 min (--for 285m)"), (5, "")):
        found = verdict(
            9, 1, 10**6, hours * HOUR, rate_per_hour=1.0, unknown=7, exact=False, unsure=7
        )
        alone = verdict(9, 1, 10**6, hours * HOUR, rate_per_hour=1.0, exact=False)
        assert (found.result, alone.result) == (
            "inconclusive",
            "pass" if hours == 5 else found.result,
        )
        assert (
            plain(found.remedy) == f"measure again in a run that keeps its samples: {kept}{length}"
        )
        assert (found.needed_s, found.doubt) == (
            None, "samples in the histogram's bucket of the budget may exceed it"
        )  # fmt: skip
        total = hours * HOUR + (alone.needed_s or 0)
        assert verdict(9, 1, 10**6, total, rate_per_hour=1.0, exact=False).result == "pass"


def test_operations_in_the_bucket_of_the_budget_need_a_run_that_keeps_them() -> None:
    found = verdict(9, 0, 10**4, None, unknown=7, exact=False, unsure=7)
    assert (found.result, found.needed_samples) == ("inconclusive", None)
    assert found.remedy.startswith("measure again in a run that keeps its samples: without --hist")
    assert found.doubt == "samples in the histogram's bucket of the budget may exceed it"
    assert verdict(9, 0, 10**4, None, exact=False).result == "pass"


def test_one_sample_is_one() -> None:
    one = plain(verdict(100_000, 0, 1, 0.001, counted="wake-ups").evidence)
    assert one.startswith("100 us never exceeded in 1 wake-up over 1 ms")
    due = verdict(100_000, 1, 1, 1.0, rate_per_hour=9.0, counted="periods due", episodes=(1, 1))
    assert "(1 of 1 period due)" in due.evidence
    assert "in 2 periods due" in verdict(100_000, 0, 2, 1.0, counted="periods due").evidence


def test_a_failure_of_which_only_a_histogram_is_known_has_no_times() -> None:
    for rate in (None, 1.0):
        for episodes, words in (((50, 50), "look at the times of"), (None, "that keeps them")):
            found = verdict(
                10**5, 50, 10**6, HOUR, rate_per_hour=rate, episodes=episodes, exact=bool(episodes)
            )
            assert found.result == ("fail" if episodes or not rate else "inconclusive")
            assert (words in found.remedy) == (found.result == "fail")
    for exact, words in ((True, "look at the samples above"), (False, "without --histogram-only")):
        found = verdict(10**5, 50, 10**6, None, exact=exact)
        assert found.result == "fail" and words in found.remedy


def test_without_samples_nothing_passes() -> None:
    found = verdict(150_000, 0, 0, 10 * HOUR)
    assert found.result == "inconclusive" and "no samples" in found.evidence
    assert verdict(150_000, 0, 5, 0.0).bound_per_hour is None
    found = verdict(150_000, 0, 0, None)
    assert found.needed_samples == 2995 and "no samples" in found.evidence


def test_the_confidence_and_the_length_are_not_rounded_in_favour() -> None:
    for duration_s, episodes in ((HOUR, (1, 1)), (None, None)):
        for exceedances in (0, 1) if duration_s else (0,):
            found = verdict(
                150_000, exceedances, 10, duration_s, rate_per_hour=1.0 if exceedances else None,
                confidence=0.999999, episodes=episodes if exceedances else None,
            )  # fmt: skip
            assert "99.9999 % confidence" in plain(found.evidence)
    # 1 h 32 min 3 s are missing
    assert plain(verdict(150_000, 0, 100, 5262.0).remedy).startswith("run 1 h 33 min longer")


def test_impossible_counts() -> None:
    for exceedances, count, unknown in ((2, 1, 0), (-1, 5, 0), (0, 1, -1)):
        with pytest.raises(ValueError, match="lie between 0 and the number"):
            verdict(1, exceedances, count, 1.0, unknown=unknown)
    for rate in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError):
            verdict(1, 0, 1, 1.0, rate_per_hour=rate)


@pytest.mark.parametrize(
    ("longer_s", "option"),
    [(2.5, "3s"), (59.2, "1m"), (61, "61s"), (119, "119s"), (600.5, "11m"), (9660, "161m"),
     (7199.5, "2h"), (86399, "1d"), (90000, "25h")],
)  # fmt: skip
def test_the_length_asked_for_is_never_shorter_than_needed(longer_s: float, option: str) -> None:
    assert _option(longer_s) == option
    assert parse_duration(option) >= longer_s * 1e9


# --- at the limits of what may be claimed ----------------------------------------------------


def test_sentences_of_an_operation() -> None:
    sure = "with 95 % confidence"
    enough = verdict(150_000, 0, 10_000, None)
    assert plain(enough.evidence) == (
        f"150 us never exceeded in 10 000 samples: at most 1 in 3 338 exceeds it {sure} "
        f"(required: at most 1 in 1 000)"
    )
    few = verdict(150_000, 0, 300, None, unknown=2)
    assert plain(few.evidence) == (
        f"150 us never exceeded in 300 samples, 2 more of unknown value: too few to show {sure} "
        f"that at most 1 in 1 000 exceeds it"
    )
    failed = verdict(150_000, 3, 300, None)
    assert plain(failed.evidence) == "150 us exceeded 3 times in 300 samples; allowed: never"
    assert failed.needed_samples is None
    grouped = verdict(150_000, 0, 3000, None, effective=2999)
    assert "(in groups, equivalent to 2 999 independent ones)" in plain(grouped.evidence)


def test_a_rate_for_an_operation_needs_samples_only_where_they_would_do() -> None:
    refused = "omit --rate to judge the budget per operation"
    for exceedances, count, more in ((0, 300, True), (0, 10**6, False), (1, 300, False)):
        found = verdict(150_000, exceedances, count, None, rate_per_hour=1.0)
        assert found.needed_samples == (2995 if more else None)
        wanted = ", with at least 2 995 samples (--samples 2995)" if more else ""
        assert plain(found.remedy) == refused + wanted


def test_sentences_over_time() -> None:
    passed = verdict(150_000, 2, 36 * 10**6, 10 * HOUR, rate_per_hour=1.0, episodes=(1, 1))
    assert plain(passed.evidence) == (
        "150 us exceeded in 1 episode (2 of 36 000 000 samples) over 10 h: at most "
        "0.475 episodes an hour with 95 % confidence, below 1 an hour"
    )
    unsure = verdict(150_000, 0, 1000, HOUR)
    assert plain(unsure.evidence) == (
        "150 us never exceeded in 1 000 samples over 1 h: at most 3 episodes an hour "
        "with 95 % confidence; allowed: never (a pass shows fewer than 1 an hour)"
    )
    failed = verdict(150_000, 90, 10**7, HOUR, rate_per_hour=1.0, episodes=(20, 30))
    assert plain(failed.evidence).startswith("150 us exceeded in 20 to 30 episodes (90 of 10")
    assert "at least 13.2 episodes an hour with 95 % confidence; allowed: 1 an hour" in plain(
        failed.evidence
    )
    never = verdict(150_000, 0, 1000, HOUR, rate_per_hour=0.0)
    assert plain(never.evidence).endswith("; allowed: never")


def test_a_rate_that_equals_its_bound_is_not_decided() -> None:
    upper, lower = rate_bound(HOUR, 0.95, 7), rate_lower_bound(HOUR, 0.95, 7)
    for rate, result in (
        (upper, "inconclusive"),
        (math.nextafter(upper, math.inf), "pass"),
        (lower, "inconclusive"),
        (math.nextafter(lower, 0), "fail"),
    ):
        found = verdict(9, 7, 10**6, HOUR, rate_per_hour=rate, episodes=(7, 7))
        assert found.result == result


def test_less_than_a_second_may_be_needed() -> None:
    """For once an hour, 10 784.6 s without an exceedance: whole seconds are asked for."""
    assert verdict(9, 0, 10**6, 10_784.5).needed_s == 0.5
    assert verdict(9, 0, 10**6, 10_784.0).needed_s == 1.0
    assert verdict(9, 0, 0, 77.0).needed_s == 10_785.0
    assert verdict(9, 0, 0, 77.0, rate_per_hour=2.0).needed_s == 5393.0


@pytest.mark.parametrize("wrong", [-0.1, 0.0, 1.0, 1.5])
def test_every_bound_refuses_impossible_arguments(wrong: float) -> None:
    for call in (
        lambda: exceedance_bound(10, wrong),
        lambda: rate_bound(10, wrong),
        lambda: rate_lower_bound(10, wrong),
        lambda: duration_needed_s(10, wrong),
        lambda: samples_needed(0.1, wrong),
        lambda: shortest_period_s(10, wrong),
    ):
        with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
            call()
    for call in (
        lambda: exceedance_bound(10, 0.9, -1),
        lambda: rate_bound(10, 0.9, -1),
        lambda: rate_lower_bound(10, 0.9, -1),
        lambda: duration_needed_s(10, 0.9, -1),
        lambda: samples_needed(0.1, 0.9, -1),
    ):
        with pytest.raises(ValueError, match="cannot be negative"):
            call()
    with pytest.raises(ValueError, match="a probability lies"):
        samples_needed(wrong)


def test_bounds_hold_at_95_percent_of_no_exceedance_unless_told() -> None:
    assert exceedance_bound(99) == exceedance_bound(99, 0.95, 0)
    assert rate_bound(99) == rate_bound(99, 0.95, 0)
    assert rate_lower_bound(99, exceedances=3) == rate_lower_bound(99, 0.95, 3)
    assert rate_lower_bound(99) == rate_lower_bound(0.0, exceedances=3) == 0
    # 0.05 is the chance of at least one event where 0.0513 are expected
    assert rate_lower_bound(0.5, exceedances=1) == pytest.approx(-math.log(0.95) / 0.5 * 3600)
    assert duration_needed_s(99) == duration_needed_s(99, 0.95, 0)
    assert samples_needed(0.01) == samples_needed(0.01, 0.95, 0) == 299
    assert samples_needed(0.96) == 1 and samples_needed(0.99, exceedances=3) == 4
    assert shortest_period_s(99) == shortest_period_s(99, 0.95)
    assert shortest_period_s(-1) == 0


def test_unknown_samples_count_as_samples_that_exceed() -> None:
    """One of 4742 operations may have exceeded. 4741 known and one unknown are as many."""
    assert samples_needed(DEFAULT_PROBABILITY, exceedances=1) == 4742
    assert verdict(9, 0, 4741, None, unknown=1).result == "pass"
    assert verdict(9, 0, 4740, None, unknown=1).result == "inconclusive"
    assert "no samples" not in verdict(9, 0, 1, None).evidence
