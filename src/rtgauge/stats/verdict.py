# SPDX-License-Identifier: Apache-2.0
"""The verdict on a budget: pass, fail or inconclusive, with its evidence and what is still needed.

A requirement is a budget (150 us), how often it may be exceeded (once an hour), and a confidence
(95 %). What is judged is the distribution corrected for coordinated omission.

- fail: exceeded more often than allowed: more exceedances than rate x duration. One that chance
  can explain in so short a run fails too, and the evidence says so: a budget that was seen broken
  is not passed on to "measure longer".
- pass: the upper bound on the rate (Garwood 1936, distribution-free) lies below the allowed rate.
- inconclusive: everything else, with the length of the run that would decide.

Without an allowed rate (None), or with 0, the budget is hard: a single exceedance fails. That
nothing can happen is beyond any measurement, so without a rate a pass claims what the default
says, fewer than one exceedance an hour; with an explicit 0 there is no pass, only no failure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from .bound import duration_needed_s, exceedance_bound, rate_bound, rate_lower_bound
from .text import duration_text, number_text, option_text, rate_text, time_text

__all__ = ["DEFAULT_RATE_PER_HOUR", "BudgetVerdict", "verdict"]

Result = Literal["pass", "fail", "inconclusive"]

DEFAULT_RATE_PER_HOUR = 1.0
"""What a pass claims where no allowed rate was given: fewer exceedances than this an hour."""


@dataclass(frozen=True)
class BudgetVerdict:
    """The result with its reasons; ``evidence`` and ``remedy`` are sentences for the report."""

    result: Result
    evidence: str
    remedy: str
    """Empty for a pass."""
    budget_ns: int
    allowed_per_hour: float
    exceedances: int
    count: int
    duration_s: float
    confidence: float
    bound_per_hour: float | None
    """Upper bound on the rate of exceedances; None if no time passed."""
    bound_per_sample: float
    """Upper bound on the probability that a sample exceeds the budget."""
    needed_s: float | None
    """How much longer the run would have to be for a pass; 0 for one, None if no length helps."""


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number_text(number)} times"


def _remedy_of_failure(budget: str, hard: bool) -> str:
    cause = f"look at the times of the excursions above {budget} to find what caused them"
    if hard:
        return f"{cause}; if some may happen, say how many (--rate 1/h)"
    return cause


def _needed_s(rate: float, duration_s: float, confidence: float, exceedances: int) -> float | None:
    total = duration_needed_s(rate, confidence, exceedances)
    if math.isinf(total):
        return None
    return max(math.floor(total) + 1 - duration_s, 0.0)


def verdict(
    budget_ns: int,
    exceedances: int,
    count: int,
    duration_s: float,
    *,
    rate_per_hour: float | None = None,
    confidence: float = 0.95,
    unknown: int = 0,
    counted: str = "samples",
) -> BudgetVerdict:
    """Judges a series by the samples of its corrected distribution that exceed the budget.

    ``count`` is the number of samples of that distribution, ``duration_s`` the time observed.
    ``unknown`` is the number of samples that were due but whose value nobody knows (lost, or
    skipped without a known wake-up): they can prevent a pass, each as if it had exceeded, but
    cause no failure. ``counted`` is what ``count`` counts, for the sentences. ValueError for
    negative numbers.
    """
    if min(exceedances, count, unknown) < 0 or exceedances > count:
        raise ValueError("exceedances lie between 0 and the number of samples")
    if rate_per_hour is not None and not 0 <= rate_per_hour < math.inf:
        raise ValueError(f"an allowed rate is not negative: {rate_per_hour}")
    hard = not rate_per_hour
    allowed = DEFAULT_RATE_PER_HOUR if rate_per_hour is None else float(rate_per_hour)
    suspected = exceedances + unknown
    bound = rate_bound(duration_s, confidence, suspected)
    lower = rate_lower_bound(duration_s, confidence, exceedances)
    hours = max(duration_s, 0.0) / 3600
    budget = time_text(budget_ns)
    allowed_text = rate_text(allowed)
    if hard:
        allowed_text = "never" + (f" (shown as less than {allowed_text})" if allowed else "")
    needed: float | None = 0.0

    seen = f"{budget} exceeded {_times(exceedances)}" if exceedances else f"{budget} never exceeded"
    seen += f" in {number_text(count)} {counted} over {duration_text(duration_s)}"
    if unknown:
        seen += f", {number_text(unknown)} more of unknown value"
    at_most = f"at most {rate_text(bound)} with {confidence * 100:.6g} % confidence"

    result: Result
    remedy = ""
    if exceedances > (0 if hard else allowed * hours):
        result, needed = "fail", None
        evidence = f"{seen}; allowed: {'never' if hard else allowed_text}"
        if not hard and lower <= allowed:
            evidence += " (in so short a run chance alone can do that)"
        remedy = _remedy_of_failure(budget, hard)
    elif count == 0:
        result, needed = "inconclusive", _needed_s(allowed, 0.0, confidence, 0)
        evidence, remedy = "no samples", "measure again: without samples nothing can be said"
    elif bound < allowed:
        result = "pass"
        evidence = f"{seen}: {at_most}, below {rate_text(allowed)}"
    else:
        result = "inconclusive"
        evidence = f"{seen}: {at_most}; allowed: {allowed_text}"
        needed = _needed_s(allowed, duration_s, confidence, suspected)
        if needed is None:
            remedy = "no run shows that something never happens: state a rate (--rate 1/h)"
        else:
            again = "another exceedance" if suspected else "an exceedance"
            remedy = (
                f"run {duration_text(needed)} longer without {again} "
                f"(--for {option_text(duration_s + needed)})"
            )
    return BudgetVerdict(
        result=result,
        evidence=evidence,
        remedy=remedy,
        budget_ns=budget_ns,
        allowed_per_hour=allowed,
        exceedances=exceedances,
        count=count,
        duration_s=duration_s,
        confidence=confidence,
        bound_per_hour=None if math.isinf(bound) else bound,
        bound_per_sample=exceedance_bound(count + unknown, confidence, suspected),
        needed_s=needed,
    )
