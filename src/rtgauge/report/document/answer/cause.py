# SPDX-License-Identifier: Apache-2.0
"""The cause of the maximum as far as the data tell, and the command that finds more."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from rtgauge import text as numbers
from rtgauge.causes.blame import NEAR_NS, host_of, main_segment, microseconds, ordinary
from rtgauge.causes.model import causes_of
from rtgauge.report.document.answer.commands import raised_command, target_words
from rtgauge.report.document.answer.data import NOT_RT, Data, Model
from rtgauge.report.document.answer.state import exceeds
from rtgauge.report.document.blocks import Line, line
from rtgauge.report.results.again import lasting_command, step_command, without_foreign
from rtgauge.report.results.labels import (
    ORDINARY,
    made_of_a_file,
    ordinary_policies,
    peak,
    step_place,
    under_load,
    waits_for_answers,
    worst,
)
from rtgauge.report.results.observations import SAME
from rtgauge.units import parse_duration

__all__ = ["EXPLAIN", "TRACE", "cause_of", "far_below", "hint_of", "rhythm_of", "unseen_checks"]

EXPLAIN: Final = "rtgauge explain"
FAR_BELOW: Final = 10
"""If every budget exceeds the maximum by more than this factor, its cause needs no search."""
COLD_NS: Final = 1_000_000
"""Cold caches delay a sample by less than this."""
DITHERED: Final = 1000
"""Number of periods from which on a timer has dither by default."""
ALIKE: Final = ("measurement", "name", "context", "labels", "interval_ns")
"""What the series of one quantity under different loads have in common."""
CONFIDENCE: Final = 0.95
SHORT: Final = ("hardware", "interrupts-off", "interrupt", "softirq")
"""Classes of which hardly a stretch is longer than ``SHORT_NS`` unless a host took time from it."""
SHORT_NS: Final = 1_000_000
HYPERVISOR: Final = "the hypervisor"
FIRMWARE: Final = "the firmware"
UNSEEN: Final = {
    "stolen time": (HYPERVISOR, "virtualisation"),
    "management interrupts": (FIRMWARE, "smi"),
}
"""By the rule of an observation: what the kernel did not see, and the check that has a remedy."""
PERIODIC: Final = "Likely cause: something periodic."
UNKNOWN: Final = "The data do not show what caused the maximum."
TRACE: Final = "rtgauge run timer --explain"


def cause_of(data: Data) -> tuple[Line, str]:
    """The cause of the maximum, where a replay or a trace shows it, else the likely one. With the
    command that finds more."""
    if data.printed is not None:  # no series has this maximum
        return (), ""
    if data.top is not None and data.top["step"] in data.unanswered:
        return (), ""  # the other side, or the way to it
    if data.top is not None and (found := _explained(data.run, data.top)):
        known, cause = found
        for who, text in _unseen(data):  # a trace shows none of them
            if who != FIRMWARE and _too_long(cause) and not data.disturbed(data.top):
                return line(f"Possible cause: {who}. {text} Another one: {known}."), ""
            return line(f"Possible cause: {known}. Another one: {who}. {text}"), ""
        return line(f"Cause: {known}."), ""
    likely = _likely(data)
    return ((), "") if likely[0] == line(UNKNOWN) and far_below(data) else likely


def rhythm_of(data: Data, cause: Line) -> Model | None:
    """The rhythm of most late samples of the series with the maximum, unless the cause of the
    maximum tells as much."""
    if data.top is None or data.disturbed(data.top) or not cause:
        return None
    place = data.run["series"].index(data.top)
    periodic = any(span.text.startswith(PERIODIC) for span in cause)
    found = (
        each
        for observation in data.step(data.top)["observations"]
        for each in observation.get("late", ())
        if each["series"] == place and (each["suspects"] or not periodic)
    )
    return next(found, None)


def far_below(data: Data) -> bool:
    """Whether all samples are far below every budget, so that the cause of the maximum does not
    matter."""
    if any(exceeds(data, verdict) for verdict in data.verdicts):
        return False
    budgets = [int(step["budget"]["budget_ns"]) for step in data.measured if step["budget"]]
    top = None if data.top is None else peak(data.top)
    return bool(budgets) and top is not None and top * FAR_BELOW < min(budgets)


def _likely(data: Data) -> tuple[Line, str]:
    """The likely cause of the maximum as far as the observations tell, and the command that
    finds more."""
    one = data.top
    if one is None:
        return (), ""
    run, step = data.run, data.step(one)
    place = run["series"].index(one)
    by_rule = _by_rule(data)
    above_median = (peak(one) or 0) - _median(one)
    told = step["observations"]
    if one["policy"] in ORDINARY and (policies := ordinary_policies(run, step)):
        text = f"Likely cause: {policies}. Without real-time priority, other tasks run first."
        return line(text), raised_command(data)
    if _injected(run, step, one, above_median):
        text = "Likely cause: the injection of this run."
        return line(text), step_command(run, step, {"disturb": ""})
    limit = {"stop-above": f"{_limit_us(one):.15g}us"}
    traced = [] if _is_traced(step) or step["core"] not in (None, "linux") else ["--explain"]
    stop = lasting_command(run, step, 3599, limit, traced)
    if "stop-above" not in step["parameters"]:
        stop = ""
    counted = (run["environment"].get("lab") or {}).get("mode") == "counted"
    if (
        counted
        and one["interval_ns"]
        and not made_of_a_file(run)
        and (_is_traced(step) or not any(map(_is_traced, run["steps"])))
    ):
        stop = f"{EXPLAIN} {step.get('run', run['id'])[:13]}"
    for who, text in _unseen(data):
        return line(f"Possible cause: {who}. {text}"), ""
    cold = any(each["rule"] == "first sample" and place in each["series"] for each in told)
    again = (one["rest"]["max"] or 0) - _median(one)
    if cold and one["first"] == peak(one) and SAME * again < above_median <= COLD_NS:
        first, usual = (numbers.shown(each, "ns").full for each in (one["first"], _median(one)))
        text = f"The first sample is {first}, and the median of all samples is {usual}."
        return line(f"Likely cause: cold caches. {text}"), ""
    if "second line" in by_rule:
        text = f"{PERIODIC} {by_rule['second line']}"
        return line(text), stop if (again := _with_dither(run, step, one)) is None else again
    if text := _depends(data, one, step) or _gap(data, one):
        return line(text), stop
    if not stop and waits_for_answers(one["name"], one["unit"]) and not made_of_a_file(run):
        load = step["run_options"].get("load")
        kept, left_out = without_foreign(run, {"load": load} if load else {})
        loaded = [word for name, text in kept.items() for word in (f"--{name}", text)]
        stop = f"{TRACE} {shlex.join([*target_words(run), *loaded])}".strip() + left_out
    return line(UNKNOWN), stop


def _depends(data: Data, one: Model, step: Model) -> str:
    """A sentence on a maximum that is much larger than the idle one; empty for another."""
    idle = [each for each in data.idle if _alike(each, one)]
    other = _maximum(idle)
    if not under_load(step) or not other or (peak(one) or 0) < 3 * other:
        return ""
    told = f"while idle it is {numbers.shown(other, 'ns').full}"
    loaded = [each for each in data.loaded if _alike(each, one)]
    if _later_by_chance(loaded, one, idle, other) > 1 - CONFIDENCE:
        return f"The maximum may depend on the load: {told}. This may also be chance."
    if data.run["environment"]["realtime"] in NOT_RT:
        told += ", and this kernel is not PREEMPT_RT: its longest non-preemptible sections "
        told += "delay every task"
    return f"The maximum depends on the load: {told}."


def _gap(data: Data, one: Model) -> str:
    """A sentence on what took the CPU of the maximum for as long in another step, without the
    kernel's knowledge; empty without such a gap."""
    gaps = [
        each
        for each in data.run["series"]
        if each["name"] == data.step(each).get("unseen_gaps") and each["cpu"] == one["cpu"] >= 0
    ]
    gaps = [each for each in gaps if not data.disturbed(each)]
    at = worst(gaps)
    if at is None or (peak(gaps[at]) or 0) < (peak(one) or 0):
        return ""
    where = step_place(data.run, data.step(gaps[at]))
    return (
        f"Possible cause: the hardware, the firmware or a hypervisor. One of them took CPU "
        f"{one['cpu']} for up to {numbers.shown(peak(gaps[at]), 'ns').full} in {where}, and the "
        "kernel did not see it."
    )


def _alike(one: Model, other: Model) -> bool:
    return all(one[key] == other[key] for key in ALIKE)


def _later_by_chance(
    loaded: Sequence[Model], one: Model, idle: Sequence[Model], idle_max: int
) -> float:
    """If no load had an effect: the probability that the maximum was taken under load, and that its
    step, not the idle one, has all groups of samples above the idle maximum. Only the series with
    the most groups counts, because an event can delay the tasks of all CPUs."""
    same = [each for each in loaded if each["step"] == one["step"]]
    any_load, this_load, without = (sum(map(_due, some)) for some in (loaded, same, idle))
    groups = max(_groups(each, idle_max) for each in same)
    first = any_load / max(any_load + without, 1)
    return float(first * (this_load / max(this_load + without, 1)) ** (groups - 1))


def _due(one: Model) -> int:
    """The number of samples of a series, and of events without an answer."""
    return int(one["count"] + one["unanswered"])


def _groups(one: Model, limit: int) -> float:
    """The number of groups of samples above a limit, and of events without an answer: episodes, or
    the groups in which large values come, if these are fewer. At least 1."""
    above = sum(count for low, _, count in one["histogram"] if low > limit)
    above += one["unanswered"] if (one["max_at_least"] or 0) > limit else 0
    group = (one["clustering"] or {}).get("group") or 1
    episodes = (number for value, number in one.get("groups", ()) if value > limit)
    return float(max(min(above / group, max(episodes, default=1)), 1))


def _median(one: Model) -> int:
    return one["percentiles"].get("50") or 0


def _injected(run: Model, step: Model, one: Model, excess_ns: int) -> bool:
    """Whether the injection of a step is likely to have caused the maximum of a series. It disturbs
    the CPU of the first thread, for its length."""
    if not (disturb := step["load"].get("disturb")):
        return False
    first = [
        each["cpu"]
        for each in run["series"]
        if each["step"] == step["step"] and each["thread"] == 0 and each["cpu"] >= 0
    ]
    length_ns = parse_duration(disturb.split(":")[1])
    there = not first or one["cpu"] in (first[0], -1)
    return there and length_ns <= 2 * excess_ns <= 4 * length_ns


def _by_rule(data: Data) -> dict[str, str]:
    """The observations that may be about the cause of the maximum: rule -> a sentence on it."""
    place = data.run["series"].index(data.top)
    return {
        observation["rule"]: each["text"]
        for observation in data.step(data.top)["observations"]
        for each in observation.get("maxima", ())
        if each["series"] == place
    }


def _unseen(data: Data) -> list[tuple[str, str]]:
    """What may have caused the maximum without the knowledge of the kernel, and a sentence on
    it."""
    by_rule = _by_rule(data)
    told = [(who, by_rule[rule]) for rule, (who, _) in UNSEEN.items() if rule in by_rule]
    if not told and (found := _explained(data.run, data.top)) and found[1]["source"] != "replay":
        # The kernel counts stolen time in steps of 10 ms, and shorter ones often not at all.
        who = host_of(data.run["environment"])
        told = [(who, f"A trace does not show time taken by {who}.")] if who else []
    return told


def _too_long(cause: Model) -> bool:
    """Whether the cause that a trace shows hardly ever lasts that long: a host may have taken the
    CPU during it."""
    segments = causes_of({"causes": [cause]})[0].segments
    main = main_segment(segments)
    return main is not None and any(
        one.kind == main.kind in SHORT and one.length_ns > SHORT_NS for one in segments
    )


def unseen_checks(data: Data) -> list[str]:
    """The checks of the audit that have a remedy for what ``_unseen`` found, unless an injection is
    the likely cause."""
    if data.top is None or data.disturbed(data.top):
        return []
    named = [who for who, _ in _unseen(data)]
    return [check for who, check in UNSEEN.values() if who in named]


def _with_dither(run: Model, step: Model, one: Model) -> str | None:
    """The command that repeats a step with dither; None if it had dither, or cannot have it. By
    default, a timer has dither in all but short runs, if that is possible."""
    if step["parameters"].get("dither") != "no":
        return None
    if waits_for_answers(one["name"], one["unit"]):
        return lasting_command(run, step, 119, {"dither": "yes"})
    if step["asked"].get("dither") != "no" and one["count"] + one["missed"] >= DITHERED:
        return None
    seconds = max(119, DITHERED * one["interval_ns"] / 1e9)
    return lasting_command(run, step, seconds, {"dither": ""})


def _explained(run: Model, one: Model) -> tuple[str, Model] | None:
    """What a replay or a trace blames for the maximum of a series, and its cause; None unless
    requested."""
    for cause in run["causes"]:
        same = (cause["step"], cause["series"]) == (one["step"], one["number"])
        same = same and cause["latency_ns"] == peak(one)
        # A sample of the same value may have another cause.
        at = one["max_at"]
        same = same and (at is None or cause["index"] == at["index"])
        blame = str(cause["blame"])
        if same and blame and not blame.startswith(("nothing:", "not seen:")):
            return blame, cause
        if same and blame.startswith("nothing:") and (traced_ns := _traced_ns(cause, one)):
            took = f"It took {microseconds(traced_ns)} of this sample"
            return f"the trace itself. {took}, which is ordinary without that time", cause
    return None


def _traced_ns(cause: Model, one: Model) -> int:
    """The time that the trace took of a sample that is not ordinary with it, else 0."""
    kinds = [segment["kind"] for segment in cause["segments"]]
    near_ns = 0 if "operation" in kinds else NEAR_NS
    if ordinary(cause["latency_ns"], one["percentiles"].get("50", 0), near_ns):
        return 0
    return sum(each["length_ns"] for each in cause["segments"] if each["kind"] == "trace")


def _is_traced(step: Model) -> bool:
    """Whether a step has a trace. A run with one is not replayed: `explain` shows its traces."""
    return "explain_ns" in step["load"]


def _limit_us(one: Model) -> float:
    """Nine tenths of the largest sample: the next occurrence of its cause exceeds that, the body
    does not. At least 1 us."""
    return max(float(f"{(one['max'] or 0) * 0.0009:.2g}"), 1)


def hint_of(data: Data, command: str) -> str:
    """What a command that finds the cause does; empty where the cause tells."""
    if command.startswith(EXPLAIN):
        if _is_traced(data.step(data.top)):
            return "shows from the trace of the run what took the time in the maximum"
        return "replays the run and shows what took the time in the maximum"
    if command.startswith(TRACE):
        return "shows what makes tasks of this system late"
    if "--stop-above" not in command:
        without = command and "--disturb" not in command
        disturbed = without and data.top is not None and data.disturbed(data.top)
        return "measures without the injection" if disturbed else ""
    limit_us = _limit_us(data.top)
    limit = numbers.shown(round(limit_us * 1000), "ns").full
    part = ", nine tenths of the largest sample" if limit_us > 1 else ""
    trace = ", and traces what makes it late" if "--explain" in command else ""
    return f"stops at the next wake-up later than {limit}{part}{trace}"


def _maximum(series: Sequence[Model]) -> int | None:
    at = worst(series)
    return None if at is None else peak(series[at])
