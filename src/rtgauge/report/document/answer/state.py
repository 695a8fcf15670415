# SPDX-License-Identifier: Apache-2.0
"""The state of the answer: whether the system is good enough, and by which budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.document.answer.data import Data, Model, State
from rtgauge.report.document.blocks import Tone
from rtgauge.report.document.cycles import shortest, support_text
from rtgauge.report.results.labels import (
    above,
    load_text,
    peak,
    step_name,
    unloaded_text,
    worst,
)
from rtgauge.stats.verdict import DEFAULT_RATE_PER_HOUR

__all__ = ["exceeds", "highest_above", "limit_of", "state_of", "undisturbed"]

_Found = tuple[State, Tone, str]


def state_of(data: Data) -> _Found:
    return _unmeasured(data) or _judged(data) or _unjudged(data)


def _unmeasured(data: Data) -> _Found | None:
    """Why the run does not answer the question, if it does not."""
    states = [step["state"] for step in data.measured]
    skipped, failed = states.count("skipped"), states.count("failed")
    steps, lost = data.measured, skipped
    empty = data.empty and not data.verdicts
    if (states and failed == len(states)) or (empty and data.run["state"] == "failed"):
        why = "the run failed" if failed < 2 else f"all {failed} steps failed"
        return State.UNMEASURED, "fail", f"Not measured properly: {why}"
    if states and skipped == len(states):
        why = "the step was skipped" if skipped == 1 else "every step was skipped"
    elif empty:
        why = "the run has no samples"
    elif clock := _coarse_clock(data.run):
        why = f"the clock source, {clock}, advances by whole ticks"
    elif data.due and not data.real and not data.ordinary_wanted:
        why = "latency without real-time priority"
        why += "" if any(step["budget"] for step in steps) else " (and no budget given)"
    elif (data.real and not data.proper) or (data.verdicts and not undisturbed(data)):
        why = "an injection disturbed the run on purpose"
    elif data.unanswered and not _failed(data):
        why = "no event was answered"
    elif lost * 2 > len(steps) and not _failed(data):
        why = f"{lost} of {len(steps)} steps were skipped"
    else:
        why = "" if data.due or data.failed_tests else _lacking(data)
    if not why:
        return None
    judged = [step for step in steps if step["budget"]]
    whose = f" for {data.budgets(judged)}" if judged else ""
    return State.UNMEASURED, "warn", f"Not measured properly{whose}: {why}"


def _failed(data: Data) -> bool:
    """Whether what was measured properly suffices to tell that the system is not fit."""
    fails = [one for one in undisturbed(data) if one["result"] == "fail"]
    return any(one["step"] not in data.unanswered for one in [*fails, *data.failed_tests])


def _coarse_clock(run: Model) -> str:
    """The clock source, if the audit found that it cannot show the latencies; else empty."""
    return next(
        (
            str(one["found"])
            for one in run["findings"]
            if (one["check"], one["level"]) == ("clock-source", "error")
        ),
        "",
    )


def _lacking(data: Data) -> str:
    """Why an evaluation has no latency: the first latency step that did not complete. Empty if no
    step measures latency, or all completed."""
    if len({step["chapter"] for step in data.measured}) < 2:
        return ""
    asked = [step for step in data.measured if step.get("time_grid", True)]
    broken = [step for step in asked if step["state"] in ("failed", "skipped")]
    return f"{broken[0]['measurement']} {broken[0]['state']}" if broken else ""


def undisturbed(data: Data) -> list[Any]:
    """The verdicts on steps without an injection."""
    return [one for one in data.verdicts if not data.steps[one["step"]]["load"].get("disturb")]


def _judged(data: Data) -> _Found | None:
    """The state by the budgets and tests; None if there is nothing to judge by."""
    run, verdicts, here = data.run, undisturbed(data), _here(data.run)
    results = [verdict["result"] for verdict in verdicts]
    held = {verdict["step"] for verdict in data.verdicts}
    open_ = [
        step
        for step in data.measured
        if step["budget"] and (step["state"] != "complete" or step["step"] not in held)
    ]

    def whose(*wanted: str) -> list[Any]:
        return [data.steps[one["step"]] for one in verdicts if one["result"] in wanted]

    if "fail" in results:
        budgets = data.budgets(whose("fail"))
        return State.UNFIT, "fail", f"Not fit{here}: {budgets} {_was(budgets)} exceeded"
    if data.failed_tests:
        many = len(data.failed_tests)
        rules = list(dict.fromkeys(test["rule"] for test in data.failed_tests))
        shown = ", ".join(rules[:2]) + (f" and {len(rules) - 2} more" if len(rules) > 2 else "")
        tests = numbers.plural(len(data.tests), "test")
        return State.UNFIT, "fail", f"Not fit{here}: {many} of {tests} failed ({shown})"
    # A run with a failed step has failed, whatever ended it.
    if run["state"] == "running" or "interrupted" in (
        run["state"],
        *(step["state"] for step in data.measured),
    ):
        how = "has not ended" if run["state"] == "running" else "was interrupted"
        what = f" for {data.budgets(whose('pass', 'inconclusive'))}" if results else ""
        return State.UNPROVEN, "warn", f"Not proven{here}{what}: the run {how}"
    if "inconclusive" in results or open_:
        budgets = data.budgets([*whose("inconclusive"), *open_])
        why = _open(data, verdicts, open_)
        return State.UNPROVEN, "warn", f"Not proven{here} for {budgets}: {why}"
    if results:
        judged = whose("pass")
        if (late := highest_above(data, judged)) is not None:
            step, limit = data.step(late), limit_of(late, judged)
            top = numbers.beside(peak(late) or 0, limit)
            what = f"{step_name(run, step)}, {load_text(step['load'])}, "
            what += f"reached {top} and has no budget"
            title = f"Not proven{here} for {data.budgets(judged)}: {what}"
            return State.UNPROVEN, "warn", title
        loads = {unloaded_text(step["load"]) for step in judged}
        where = f", {loads.pop()}" if len(loads) == 1 and None not in loads else ""
        title = f"Fit{here} for {data.budgets(judged)}{_allowed(judged)}{where}"
        return State.FIT, "pass", title
    return None


def _here(run: Model) -> str:
    """What limits the state of a run that was not measured on the hardware."""
    return " in emulation" if "lab" in run["environment"] else ""


def _allowed(judged: Sequence[Model]) -> str:
    """How often the budgets may be exceeded, where that is more than the default."""
    rates = [step["budget"]["rate_per_hour"] or 0.0 for step in judged]
    if max(rates) <= DEFAULT_RATE_PER_HOUR:
        return ""
    number = numbers.per_hour(max(rates)).removesuffix(" an hour")
    return f" (allowed: fewer than {number} episodes an hour)"


def _open(data: Data, verdicts: Sequence[Model], steps: Sequence[Model]) -> str:
    """Why budgets are neither kept nor exceeded. ``steps``: those with a budget that did not
    complete, or have no series."""
    open_ = [verdict for verdict in verdicts if verdict["result"] == "inconclusive"]
    doubts = [str(verdict["doubt"]) for verdict in open_ if verdict["doubt"]]
    if doubts:
        return max(doubts, key=doubts.count)
    if steps:
        return f"{steps[0]['measurement']} {_ENDED.get(steps[0]['state'], 'has not ended')}"
    if any(exceeds(data, verdict) for verdict in open_):
        return "exceeded, but the run is too short to tell how often"
    if unknown := max((verdict.get("unknown") or 0 for verdict in open_), default=0):
        values = "value is" if unknown == 1 else "values are"
        return f"never exceeded, but {numbers.count(unknown)} {values} unknown"
    needed = [verdict["needed_s"] for verdict in open_]
    if not needed or None in needed:
        return "never exceeded, but the run is too short"
    return f"never exceeded, but a verdict needs {numbers.duration(max(needed), up=True)}"


_ENDED: Final = {
    "complete": "measured nothing",
    "failed": "failed",
    "skipped": "was skipped",
    "interrupted": "was interrupted",
}


def highest_above(data: Data, judged: Sequence[Model]) -> Any:
    """The series with the highest maximum of the steps without a budget that exceed those of the
    others: of the same measurement where one has a budget. None if no series does."""
    late = [
        one
        for one in data.proper
        if not data.step(one)["budget"] and above(one, limit_of(one, judged))
    ]
    at = worst(late)
    return None if at is None else late[at]


def limit_of(one: Model, judged: Sequence[Model]) -> int:
    """The budget, in ns, that a series of a step without one is held against."""
    of = [step for step in judged if step["measurement"] == one["measurement"]] or judged
    return min(int(step["budget"]["budget_ns"]) for step in of)


def _was(budgets: str) -> str:
    return "were" if budgets.startswith("the budgets") else "was"


def exceeds(data: Data, verdict: Model) -> bool:
    limit = data.steps[verdict["step"]]["budget"]["budget_ns"]
    return above(data.run["series"][verdict["series"]], limit)


def _unjudged(data: Data) -> _Found:
    """The state without a budget."""
    here = _here(data.run)
    if data.cycles:
        title = f"No budget given: {support_text(data.cycles, here)}"
        if least := shortest(data.cycles):
            measured = min(one["interval_ns"] for one in data.proper)
            tone: Tone = "pass" if least.interval_ns <= measured else "warn"
            return State.SUPPORTS, tone, title
        if data.cycles[-1].state == "exceeded":
            return State.LATE, "fail", title
        return State.UNPROVEN, "warn", title
    passed = [test for test in data.tests if test["result"] == "pass"]
    open_ = [test for test in data.tests if test["result"] == "inconclusive"]
    tests = numbers.plural(len(passed) + len(open_), "test")
    if passed and open_ and not data.due:
        title = f"No budget given: {len(passed)} of {tests} passed{here}"
        return State.UNPROVEN, "warn", f"{title} ({len(open_)} inconclusive)"
    if passed and not data.due:
        return State.PASSED, "pass", f"No budget given: {tests} passed{here}"
    return State.UNPROVEN, "note", "No budget given: figures without a verdict"
