# SPDX-License-Identifier: Apache-2.0
"""The verdict on a budget: pass, fail or inconclusive, with its evidence and what is still needed.

A requirement is a budget (150 us), how often it may be exceeded (once an hour), and a confidence
(95 %). What is judged is the distribution corrected for coordinated omission.

With an allowed rate, episodes are counted (``stats.episodes``), and both results are claims at the
given confidence, by the distribution-free bounds on the rate of a Poisson process (Garwood 1936):

- fail: the lower bound on the rate of episodes lies above the allowed rate.
- pass: the upper bound lies below it.
- inconclusive: everything else, with the length of the run that would decide.

If more than one period in ``NEAR`` exceeds, episodes cannot be separated: for a pass, each
exceedance counts. For a fail, each counts if more than half of the periods exceed, because the
system is late as a rule. Otherwise the caller's lower limit counts.

Without an allowed rate (None), or with 0, the budget is hard: a single exceedance fails. No
measurement can show that something never happens, so without a rate a pass claims fewer than one
episode an hour. With an explicit 0, no run passes.

A series without a time grid repeats an operation. It has no rate per hour: a single exceedance
fails, and a pass claims that fewer than 1 in 1000 operations exceed the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from rtgauge import text as numbers
from rtgauge.units import format_duration

from .bound import (
    duration_needed_s,
    exceedance_bound,
    rate_bound,
    rate_lower_bound,
    samples_needed,
)
from .episodes import NEAR

__all__ = ["DEFAULT_PROBABILITY", "DEFAULT_RATE_PER_HOUR", "BudgetVerdict", "verdict"]

Result = Literal["pass", "fail", "inconclusive"]

DEFAULT_RATE_PER_HOUR = 1.0
"""What a pass claims if no allowed rate was given: fewer episodes per hour than this."""

DEFAULT_PROBABILITY = 0.001
"""What a pass claims without a time grid: at most this share of operations exceeds the budget."""


@dataclass(frozen=True)
class BudgetVerdict:
    """The result with its reasons; ``evidence`` and ``remedy`` are sentences for the report."""

    result: Result
    evidence: str
    remedy: str
    """Empty for a pass."""
    budget_ns: int
    exceedances: int
    episodes: tuple[int, int]
    """Lower and upper limit. They are equal where the times of all exceedances are known."""
    count: int
    duration_s: float | None
    confidence: float
    bound_per_hour: float | None
    """Upper bound on the rate of episodes. None if no time passed, or without a time grid."""
    needed_s: float | None
    """Time that the run would have to be longer for a pass. 0 for a pass, None if none helps."""
    again_s: float | None = None
    """Length of a new run for a pass, with as many episodes and without lost samples.
    None if it is decided, or if none helps."""
    needed_samples: int | None = None
    """The number of samples that would decide without a time grid, with as many of unknown value.
    None if it is decided."""
    again_samples: int | None = None
    """The number of samples of a new run that would decide, without lost ones. None if it is
    decided."""
    doubt: str = ""
    """Why an inconclusive result stays so however long the run is, in a few words."""


def _option(seconds: float) -> str:
    """A length of time for the command line, rounded up: seconds to 10 min, then minutes."""
    whole = math.ceil(seconds - 1e-9)
    return format_duration((whole if whole <= 600 else -(-whole // 60) * 60) * 10**9)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{numbers.count(number)} times"


def _remedy_of_failure(budget: str, hard: bool, timed: bool) -> str:
    cause = f"look at the times of the samples above {budget} to find the cause"
    if not timed:
        cause = _with_samples(budget)
    if hard:
        return f"{cause}, or allow a rate (--rate 1/h)"
    return cause


def _with_samples(budget: str) -> str:
    """The remedy where only histograms are known: the agent withheld samples, or a slow link could
    not carry them."""
    return f"find the samples above {budget} in a run that keeps them: {_KEPT}"


def _needed_s(rate: float, duration_s: float, confidence: float, exceedances: int) -> float | None:
    total = duration_needed_s(rate, confidence, exceedances)
    if math.isinf(total):
        return None
    return max(math.floor(total) + 1 - duration_s, 0.0)


@dataclass(frozen=True)
class _Seen:
    """The observation, as in ``verdict``."""

    budget_ns: int
    exceedances: int
    count: int
    duration_s: float | None
    confidence: float
    unknown: int
    counted: str
    episodes: tuple[int, int]
    effective: int
    dense: bool
    """More than one period in ``NEAR`` exceeds: episodes cannot be told apart."""
    timed: bool
    """The times of the exceedances are known, as far as their samples were not lost."""
    exact: bool
    """The samples were kept, not only a histogram of them."""
    unsure: int
    unanswered: int

    @property
    def budget(self) -> str:
        return numbers.microseconds(self.budget_ns)

    def text(self, by_episodes: bool) -> str:
        """The observation in words."""
        low, high = self.episodes
        one = self.counted.replace("periods", "period").removesuffix("s")
        many = numbers.plural(self.count, one, self.counted)
        over = "" if self.duration_s is None else f" over {numbers.duration(self.duration_s)}"
        if not self.exceedances:
            seen = f"{self.budget} never exceeded in {many}{over}"
        elif not by_episodes or self.dense:
            seen = f"{self.budget} exceeded {_times(self.exceedances)} in {many}{over}"
            seen += ", too often to tell episodes apart" if by_episodes else ""
        else:
            share = f"{numbers.count(self.exceedances)} of {many}"
            number = numbers.count(high) if low == high else f"{numbers.count(low)} to "
            number += "" if low == high else numbers.count(high)
            seen = f"{self.budget} exceeded in {number} episode{'' if high == 1 else 's'}"
            seen += f" ({share}){over}"
            if low < high:
                seen += " (a range, because their times are not known)"
        if self.unknown:
            seen += f", {numbers.count(self.unknown)} more of unknown value"
        return seen

    def judged(  # noqa: PLR0913
        self,
        result: Result,
        evidence: str,
        remedy: str,
        *,
        bound: float | None,
        needed_s: float | None,
        again_s: float | None = None,
        needed_samples: int | None = None,
        again_samples: int | None = None,
        doubt: str = "",
    ) -> BudgetVerdict:
        return BudgetVerdict(
            result=result,
            evidence=evidence,
            remedy=remedy,
            budget_ns=self.budget_ns,
            exceedances=self.exceedances,
            episodes=self.episodes,
            count=self.count,
            duration_s=self.duration_s,
            confidence=self.confidence,
            bound_per_hour=bound,
            needed_s=needed_s,
            again_s=again_s,
            needed_samples=needed_samples,
            again_samples=again_samples,
            doubt=doubt,
        )


_KEPT = "without --histogram-only, at a longer --interval or on fewer CPUs"
_NO_SAMPLES = "no samples"
_NOTHING = (_NO_SAMPLES, "measure again")
_IN_BUCKET = (  # a longer run has more of them
    "samples in the histogram's bucket of the budget may exceed it",
    f"measure again in a run that keeps its samples: {_KEPT}",
)


def verdict(  # noqa: PLR0913
    budget_ns: int,
    exceedances: int,
    count: int,
    duration_s: float | None,
    *,
    rate_per_hour: float | None = None,
    confidence: float = 0.95,
    unknown: int = 0,
    counted: str = "samples",
    episodes: tuple[int, int] | None = None,
    effective: int | None = None,
    exact: bool = True,
    unsure: int = 0,
    unanswered: int = 0,
) -> BudgetVerdict:
    """Judges a series by the samples of its corrected distribution that exceed the budget.

    ``count`` is the number of samples of that distribution, ``duration_s`` the time observed; None
    without a time grid. ``unknown`` is the number of samples that were due but whose value is not
    known (lost, or skipped without a known wake-up): each can prevent a pass as if it had exceeded,
    but causes no failure. ``counted`` is what ``count`` counts, for the sentences. ``episodes`` is
    the lower and upper limit of their number. None if the times of exceedances are not known: a
    pass then counts each exceedance, a failure counts one episode. If more than one period in
    ``NEAR`` exceeds, the upper limit is the number of exceedances, and so is the lower one if more
    than half of the periods exceed. ``effective``: the effective number of samples for verdicts per
    operation; ``count`` if not given. ``exact``: whether the samples were kept, not only a
    histogram of them. ``unsure``: how many of ``unknown`` are in the histogram's bucket of the
    budget. ``unanswered``: how many of them are events without an answer, of which a new run has as
    many. ValueError for negative numbers.
    """
    if min(exceedances, count, unknown) < 0 or exceedances > count:
        raise ValueError("exceedances lie between 0 and the number of samples")
    if rate_per_hour is not None and not 0 <= rate_per_hour < math.inf:
        raise ValueError(f"the allowed rate must be finite and at least 0, not {rate_per_hour}")
    low, high = (min(exceedances, 1), exceedances) if episodes is None else episodes
    if not min(exceedances, 1) <= low <= high <= exceedances:
        raise ValueError("episodes lie between 1 and the number of exceedances")
    dense = exceedances > 1 and exceedances * NEAR > count
    if dense:
        high = exceedances
        low = exceedances if 2 * exceedances > count else low
    seen = _Seen(
        budget_ns,
        exceedances,
        count,
        duration_s,
        confidence,
        unknown,
        counted,
        (low, high),
        count if effective is None else effective,
        dense,
        episodes is not None or exact or not exceedances,
        exact,
        unsure,
        unanswered,
    )
    if duration_s is None:
        return _per_operation(seen, rate_per_hour)
    return _over_time(seen, duration_s, rate_per_hour)


def _named(rate: str, what: str) -> str:
    """A rate with the name of its events: ``1 an hour`` becomes ``1 episode an hour``."""
    number = rate.removesuffix(" an hour")
    if not number[0].isdigit():
        return rate
    return f"{number} {what}{'' if number == '1' else 's'} an hour"


def _over_time(seen: _Seen, duration_s: float, rate_per_hour: float | None) -> BudgetVerdict:
    confidence, (low, high) = seen.confidence, seen.episodes
    hard = not rate_per_hour
    allowed = DEFAULT_RATE_PER_HOUR if rate_per_hour is None else float(rate_per_hour)
    suspected = high + seen.unknown
    bound = rate_bound(duration_s, confidence, suspected)
    lower = rate_lower_bound(duration_s, confidence, low)
    text = seen.text(not hard)
    most_text, limit = numbers.per_hour_beside(bound, allowed)
    allowed_text = limit
    if hard:
        allowed_text = "never" + (f" (a pass shows fewer than {limit})" if allowed else "")
    sure = f"with {numbers.percent(confidence, 6)} confidence"
    what = "exceedance" if seen.dense else "episode"
    at_most = f"at most {_named(most_text, what)} {sure}"
    needed: float | None = 0.0
    again: float | None = None
    result: Result
    remedy = doubt = ""
    if seen.exceedances if hard else lower > allowed:
        result, needed = "fail", None
        evidence = f"{text}; allowed: never"
        if not hard:
            least_text, allowed_text = numbers.per_hour_beside(lower, allowed, down=True)
            at_least = _named(least_text, what)
            evidence = f"{text}: at least {at_least} {sure}; allowed: {allowed_text}"
        remedy = _remedy_of_failure(seen.budget, hard, seen.timed)
    elif seen.count == 0:
        result, needed = "inconclusive", _needed_s(allowed, 0.0, confidence, 0)
        evidence, remedy = _NOTHING
        doubt = _NO_SAMPLES
    elif bound < allowed:
        result = "pass"
        evidence = f"{text}: {at_most}, below {limit}"
    else:
        result = "inconclusive"
        evidence = f"{text}: {at_most}; allowed: {allowed_text}"
        needed = _needed_s(allowed, duration_s, confidence, suspected)
        if needed is None:
            doubt = "no run can show that something never happens"
            remedy = f"{doubt}: allow a rate (--rate 1/h)"
        elif seen.unsure:
            doubt, remedy = _IN_BUCKET
            total = _needed_s(allowed, 0.0, confidence, suspected - seen.unsure)
            if total is not None and total > duration_s:
                length = numbers.duration(total, up=True)
                remedy += f", for at least {length} (--for {_option(total)})"
            needed = None
        else:
            without = f"without {'another' if seen.exceedances else 'an'} exceedance"
            remedy = f"run {numbers.duration(needed, up=True)} longer {without}"
            again = duration_s + needed
            clean = _needed_s(allowed, 0.0, confidence, high + seen.unanswered)
            if seen.unknown > seen.unanswered and clean is not None:
                again, length = clean, numbers.duration(clean, up=True)
                remedy = f"run {length} {without} and without lost samples"
            remedy += f" (--for {_option(again)})"
    return seen.judged(
        result,
        evidence,
        remedy,
        bound=None if math.isinf(bound) else bound,
        needed_s=needed,
        again_s=again,
        doubt=doubt,
    )


def _decisive(seen: _Seen, exceedances: int) -> int:
    """The number of samples that decide with so many exceedances, in groups like those seen."""
    needed = samples_needed(DEFAULT_PROBABILITY, seen.confidence, exceedances)
    return max(needed, -(-needed * seen.count // seen.effective)) if seen.effective else needed


def _per_operation(seen: _Seen, rate_per_hour: float | None) -> BudgetVerdict:
    """The verdict on a series without a time grid."""
    suspected = seen.exceedances + seen.unknown
    bound = exceedance_bound(seen.effective + seen.unknown, seen.confidence, suspected)
    sure = f"with {numbers.percent(seen.confidence, 6)} confidence"
    decisive = _decisive(seen, suspected)
    clean = _decisive(seen, seen.unanswered + seen.unsure)
    more = f"at least {numbers.count(clean)} samples"
    more += " without lost samples" if clean < decisive else ""
    more += f" (--samples {clean})"
    claimed = f"1 in {numbers.count(round(1 / DEFAULT_PROBABILITY))}"
    text = seen.text(False)
    if seen.effective < seen.count:
        text += f" (in groups, equivalent to {numbers.count(seen.effective)} independent ones)"
    needed: int | None = None
    again: int | None = None
    doubt = ""
    result: Result
    if rate_per_hour is not None:
        result = "inconclusive"
        doubt = "a rate per hour cannot be judged without a time grid"
        evidence = f"{text}; a rate per hour cannot be judged: the samples are not on a time grid"
        remedy = "omit --rate to judge the budget per operation"
        if not seen.exceedances and bound > DEFAULT_PROBABILITY:
            needed, again = decisive, clean
            remedy += f", with {more}"
    elif seen.exceedances:
        result = "fail"
        evidence = f"{text}; allowed: never"
        remedy = f"look at the samples above {seen.budget} to find the cause"
        remedy = remedy if seen.exact else _with_samples(seen.budget)
    elif seen.count == 0:
        result = "inconclusive"
        needed = again = samples_needed(DEFAULT_PROBABILITY, seen.confidence)
        evidence, remedy = _NOTHING
        doubt = _NO_SAMPLES
    elif bound <= DEFAULT_PROBABILITY:
        result, remedy = "pass", ""
        at_most = numbers.count(math.floor(1 / bound))
        evidence = f"{text}: at most 1 in {at_most} exceeds it {sure} (required: at most {claimed})"
    else:
        result = "inconclusive"
        evidence = f"{text}: too few to show {sure} that at most {claimed} exceeds it"
        if seen.unsure:
            doubt, remedy = _IN_BUCKET
        else:
            needed, again = decisive, clean
            remedy = f"measure {more}"
    return seen.judged(
        result,
        evidence,
        remedy,
        bound=None,
        needed_s=None,
        needed_samples=needed,
        again_samples=again,
        doubt=doubt,
    )
