# SPDX-License-Identifier: Apache-2.0
"""What all runs together prove about values that none of them saw, over all boots in evidence.

Step 10 of the path of a sample: the figures of all runs -> here -> results model.
Runs of one system, with the same label and the same method, are evidence for the same quantity.
docs/reference/statistics.md, "Bounds from several runs", says what is claimed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rtgauge import stats
from rtgauge import text as numbers
from rtgauge.report.results.labels import LENGTHS, highest, load_name, peak
from rtgauge.stats.bound import rate_bound

__all__ = [
    "BOOT_PART",
    "INDEPENDENT",
    "SHORT",
    "WAIT",
    "Held",
    "Member",
    "bounds",
    "fingerprint",
    "verdict_on",
]

Document = dict[str, Any]

BOOT_PART: Final = 0.05
"""Upper bound on the share of boots that the number of boots still needed would prove."""
INDEPENDENT: Final = "events are independent"
"""The condition of bounds with unanswered events."""
SHORT: Final = "the wait for some answers was shorter than the budget"
"""Why a budget without a rate is not judged, although no answer is known to exceed it."""
WAIT: Final = "use a --timeout and an --interval above the budget"
"""The remedy for ``SHORT``."""
_NO_METHOD: Final = (*LENGTHS, "stop-above")
_HOUR_S: Final = 3600.0
_SAMPLES: Final = 100
_VALUES: Final = 5


@dataclass(frozen=True)
class Held:
    """A series held against a budget, as ``stats.verdict`` takes it. Those of several runs add up.

    ``doubts``: why the measurement is not the one asked for, with remedies. ``waited``: the
    shortest and the longest wait for an event without an answer, 0 if not known. ``uncertain``: the
    exceedances whose samples may be answers to other events. ``late``: the exceedances that are
    events without an answer. ``exact``: whether the samples were kept, not only a histogram.
    ``unsure``: how many of ``unknown`` are in the histogram's bucket of the budget.
    """

    budget_ns: int
    rate_per_hour: float | None
    exceedances: int
    count: int
    duration_s: float | None
    unknown: int
    counted: str
    episodes: tuple[int, int] | None
    effective: int
    unanswered: int = 0
    waited: tuple[int, int] | None = None
    doubts: tuple[tuple[str, str], ...] = ()
    uncertain: int = 0
    late: int = 0
    exact: bool = True
    unsure: int = 0

    def plus(self, other: Held) -> Held:
        """Both together: times, samples and episodes add up."""
        times = self.duration_s, other.duration_s
        both = self.episodes, other.episodes
        waits = [one for one in (self.waited, other.waited) if one is not None]
        return Held(
            self.budget_ns,
            self.rate_per_hour,
            self.exceedances + other.exceedances,
            self.count + other.count,
            None if times[0] is None or times[1] is None else times[0] + times[1],
            self.unknown + other.unknown,
            self.counted if self.counted == other.counted else "samples",
            None
            if both[0] is None or both[1] is None
            else (both[0][0] + both[1][0], both[0][1] + both[1][1]),
            self.effective + other.effective,
            self.unanswered + other.unanswered,
            (min(one for one, _ in waits), max(one for _, one in waits)) if waits else None,
            self.doubts or other.doubts,
            self.uncertain + other.uncertain,
            self.late + other.late,
            self.exact and other.exact,
            self.unsure + other.unsure,
        )

    def certain(self) -> Held:
        """With the uncertain exceedances as samples of unknown value."""
        left, episodes = self.exceedances - self.uncertain, self.episodes
        if episodes is not None:
            low, high = (max(limit - self.uncertain, min(left, 1)) for limit in episodes)
            episodes = low, min(high, left)
        return replace(
            self,
            exceedances=left,
            count=self.count - self.uncertain,
            unknown=self.unknown + self.uncertain,
            episodes=episodes,
            uncertain=0,
        )

    def judged(self, confidence: float) -> stats.BudgetVerdict:
        """The verdict, without the doubts."""
        found = stats.verdict(
            self.budget_ns,
            self.exceedances,
            self.count,
            self.duration_s,
            rate_per_hour=self.rate_per_hour,
            confidence=confidence,
            unknown=self.unknown,
            counted=self.counted,
            episodes=self.episodes,
            effective=self.effective,
            exact=self.exact,
            unsure=self.unsure,
            unanswered=max(self.unanswered - self.late, 0),
        )
        short = self.unanswered > self.late and not self.rate_per_hour
        if found.result != "inconclusive" or not short or found.doubt:
            return found
        return replace(found, doubt=SHORT, remedy=WAIT, needed_s=None, needed_samples=None)


def verdict_on(held: Held, judged: stats.BudgetVerdict, remedy: str) -> Document:
    """The verdict as the model has it: with the unanswered events and the doubts. A failure stands
    if the certain exceedances alone fail (docs/reference/statistics.md, "Answers that may belong to
    other events")."""
    result, evidence = judged.result, judged.evidence
    if result == "fail" and held.uncertain:
        sure = held.certain().judged(judged.confidence).result
        result = "fail" if sure == "fail" else "inconclusive"
    if result == "fail" and held.exceedances == held.late:  # no sample is above the budget
        _, mark, allow = remedy.partition(", or allow")
        remedy = f"find out why events had no answer{mark}{allow}"
    if held.waited is not None:
        verb = "was" if held.unanswered == 1 else "were"
        evidence += f"; {numbers.plural(held.unanswered, 'event')} {verb} not answered"
        evidence += _within(*held.waited)
    for doubt, help_ in held.doubts:
        result = "inconclusive" if result == "pass" else result
        evidence, remedy = f"{evidence}; {doubt}", help_
    return {"result": result, "evidence": evidence, "remedy": remedy}


def _within(shortest: int, longest: int) -> str:
    """How long the events without an answer were waited for; empty if that is not known."""
    if longest <= 0:
        return ""
    low, high = numbers.microseconds(shortest), numbers.microseconds(longest)
    if shortest <= 0:
        return f" within a wait of at most {high}"
    return f" within {high}" if low == high else f" within {low} to {high}"


@dataclass(frozen=True)
class Member:
    """A series that may be evidence: ``run`` and ``place`` in the model, the number of independent
    samples of its maximum, and the series held against the budget, if there is one. ``unseen``: the
    number of its samples and missed periods that may be larger than its maximum."""

    run: int
    place: int
    effective: int
    held: Held | None
    timed: bool
    top: stats.Part | None = None
    unseen: int = 0


@dataclass
class _Evidence:
    """The members of one quantity, and the runs left out because they repeat another one.
    ``firsts``: the first run with the figures."""

    members: list[Member] = field(default_factory=list)
    copies: set[int] = field(default_factory=set)
    firsts: dict[str, int] = field(default_factory=dict)


def bounds(
    runs: Sequence[Document], members: Sequence[Member], confidence: float
) -> list[Document]:
    """The entries of ``bounds``, in the order of the series.

    Evidence excludes series of steps that failed, or that an injection disturbed. Runs with equal
    samples, such as counted boots of one seed, count once.
    """
    figures = [fingerprint(run) for run in runs]
    found: dict[str, _Evidence] = {}
    for member in members:
        run = runs[member.run]
        one = run["series"][member.place]
        step = next(step for step in run["steps"] if step["step"] == one["step"])
        if (
            one["unit"] != "ns"
            or step["role"] != "measurement"
            or step["state"] not in ("complete", "interrupted")
            or step["load"].get("disturb")
            or "explain_ns" in step["load"]
            or not (one["bound"]["samples"] or one["max_at_least"])
        ):
            continue
        evidence = found.setdefault(_alike(run, step, one), _Evidence())
        known = figures[member.run] or f"run {member.run}"
        if evidence.firsts.setdefault(known, member.run) != member.run:
            evidence.copies.add(member.run)
        else:
            evidence.members.append(member)
    return [_entry(runs, evidence, confidence) for evidence in found.values()]


def _alike(run: Document, step: Document, one: Document) -> str:
    """What the evidence for one quantity has in common: system, label, step and series."""
    environment = run["environment"]
    kernel, cpu = environment.get("kernel") or {}, environment.get("cpu") or {}
    parameters = {k: v for k, v in step["parameters"].items() if k not in _NO_METHOD}
    facts = [
        run["target"],
        run["label"] or "",
        [environment.get("host"), cpu.get("model")],
        [environment["libc"], environment["realtime"]],
        [kernel.get(name) for name in ("release", "version", "cmdline")],
        [step["measurement"], load_name(step["load"]), step["load"].get("command"), parameters],
        {k: v for k, v in step["run_options"].items() if k != "label"},
        [one["name"], one["context"], one["labels"], one["interval_ns"]],
        [one["policy"], one["priority"]],
    ]
    return json.dumps(facts, sort_keys=True, default=str)


def fingerprint(run: Mapping[str, Any]) -> str:
    """All figures of a run as a text that another run has only if its samples are the same. Empty
    if the figures may be equal by chance: for constant series, and except in counted mode for short
    or coarse ones."""
    series = [one for one in run["series"] if one["min"] != one["max"]]
    lab = run["environment"].get("lab")
    if not (isinstance(lab, Mapping) and lab.get("mode") == "counted"):
        series = series if any(map(_is_unlike_others, series)) else []
    figures = [
        [one[key] for key in ("step", "name", "count", "first", "min", "mean", "max")]
        + [one["percentiles"], one["rest"]]
        for one in series
    ]
    return json.dumps(figures, sort_keys=True) if figures else ""


def _is_unlike_others(one: Mapping[str, Any]) -> bool:
    """Whether a series has so many samples and values that no other series has the same figures."""
    values = {one["first"], one["min"], one["max"], *one["percentiles"].values()}
    return int(one["count"]) >= _SAMPLES and len(values) >= _VALUES


def _boot(run: Document) -> tuple[str, str]:
    """What tells a boot from others. Runs whose boot is not known count as one boot."""
    lab = run["environment"].get("lab")
    name = lab.get("boot") if isinstance(lab, Mapping) else None
    return str(run["boot_id"] or ""), str(name or "") if run["boot_id"] else ""


def _entry(runs: Sequence[Document], evidence: _Evidence, confidence: float) -> Document:
    members = evidence.members
    series = [runs[one.run]["series"][one.place] for one in members]
    first, run = series[0], runs[members[0].run]
    step = next(step for step in run["steps"] if step["step"] == first["step"])
    by_run: dict[int, list[tuple[Member, Document]]] = {}
    for member, one in zip(members, series, strict=True):
        by_run.setdefault(member.run, []).append((member, one))
    boots: dict[tuple[str, str], bool] = {}
    for number, some in by_run.items():
        boot = _boot(runs[number])
        larger = any(one["unanswered"] or member.unseen for member, one in some)
        boots[boot] = boots.get(boot, False) or larger
    # Several CPUs may be hit at once: the claim is about each CPU, with the fewest samples of any.
    open_, unseen = max(_larger(runs, members))
    timed = all(member.timed for member in members)
    effective, duration_s = _fewest(runs, members)
    per_hour = rate_bound(duration_s, confidence, open_) if timed else math.inf
    over = sum(boots.values())
    top = highest(peak(one) for one in series)
    return {
        "target": run["target"],
        "label": run["label"],
        "measurement": first["measurement"],
        "name": first["name"],
        "context": first["context"],
        "labels": dict(first["labels"]),
        "load": load_name(step["load"]),
        "interval_ns": first["interval_ns"],
        "series": [[member.run, member.place] for member in members],
        "runs": len(by_run),
        "copies": len(evidence.copies),
        "boots": len(boots),
        "samples": sum(one["bound"]["samples"] for one in series),
        "effective_samples": effective,
        "duration_s": duration_s,
        "max": max((one["max"] for one in series if one["max"] is not None), default=None),
        "max_at_least": int(top) if isinstance(top, numbers.AtLeast) else None,
        "confidence": confidence,
        "next_sample": stats.exceedance_bound(effective + unseen, confidence, open_),
        "next_hour": -math.expm1(-per_hour) if timed and duration_s > 0 else None,
        "condition": INDEPENDENT if any(one["unanswered"] for one in series) else None,
        "next_boot": stats.exceedance_bound(len(boots), confidence, over),
        "boots_needed": stats.samples_needed(BOOT_PART, confidence, over),
        "composed": _composed(series),
        "verdicts": _verdicts(runs, members, confidence),
        "extrapolation": _extrapolation(runs, evidence) if first["interval_ns"] else None,
    }


def _extrapolation(runs: Sequence[Document], evidence: _Evidence) -> Document | None:
    """The model of the thread with the highest maximum, over all runs in their order."""
    threads: dict[tuple[int, int], list[Member]] = {}
    top: dict[tuple[int, int], int] = {}
    rules: dict[tuple[int, int], set[str]] = {}
    members = sorted(evidence.members, key=lambda one: str(runs[one.run]["started"]))
    for member, thread in zip(members, _threads(runs, members), strict=True):
        run = runs[member.run]
        one = run["series"][member.place]
        threads.setdefault(thread, []).append(member)
        top[thread] = max(top.get(thread, one["max"] or 0), one["max"] or 0)
        told = next(step for step in run["steps"] if step["step"] == one["step"])["observations"]
        known = rules.setdefault(thread, set())
        known |= {rule["rule"] for rule in told if member.place in rule["series"]}
    thread = max(top, key=lambda key: top[key])
    parts = [one.top for one in threads[thread]]
    if any(part is None for part in parts):
        return None
    found = stats.extrapolation(
        [part for part in parts if part is not None],
        two_groups="two groups" in rules[thread],
        rhythm="second line" in rules[thread],
        copies=len(evidence.copies),
    )
    reasons = [*found.reasons, *_unseen(runs, evidence.members)]
    refused = bool(reasons)
    return {
        "cpu": thread[0],
        "reasons": reasons,
        "samples": found.samples,
        "exceedances": found.exceedances,
        "clusters": found.clusters,
        "threshold": found.threshold,
        "shape": found.shape,
        "shape_interval": None if found.shape_interval is None else list(found.shape_interval),
        "scale": found.scale,
        "shapes": [
            {"threshold": threshold, "clusters": clusters, "shape": shape}
            for threshold, clusters, shape in found.shapes
        ],
        "times": found.times,
        "level": None if refused else found.level,
        "level_interval": None
        if refused or found.level_interval is None
        else list(found.level_interval),
    }


def _unseen(runs: Sequence[Document], members: Iterable[Member]) -> list[str]:
    """The missing samples, which may be the largest of any thread."""
    series = [runs[one.run]["series"][one.place] for one in members]
    lost = sum(one["lost"] for one in series)
    open_ = sum(one["unanswered"] for one in series)
    reasons = []
    if lost:
        verb = "samples were" if lost > 1 else "sample was"
        reasons.append(f"{numbers.count(lost)} {verb} lost, perhaps the largest")
    if open_:
        reasons.append(f"{numbers.plural(open_, 'event')} had no answer, perhaps the latest")
    elif any(one["max_at_least"] is not None for one in series):
        reasons.append("missed periods were later than all samples")
    return reasons


def _threads(runs: Sequence[Document], members: Sequence[Member]) -> list[tuple[int, int]]:
    """The same key for the same thread of all runs: its CPU, and its place among the threads of the
    step on this CPU. The number of a thread counts the threads of all CPUs, so another choice of
    CPUs changes it."""
    series = [runs[one.run]["series"][one.place] for one in members]
    steps = [(one.run, at["step"], at["cpu"]) for one, at in zip(members, series, strict=True)]
    numbers_of: dict[tuple[int, int, int], set[int]] = {}
    for step, one in zip(steps, series, strict=True):
        numbers_of.setdefault(step, set()).add(one["thread"])
    return [
        (one["cpu"], sorted(numbers_of[step]).index(one["thread"]))
        for step, one in zip(steps, series, strict=True)
    ]


def _fewest(runs: Sequence[Document], members: Sequence[Member]) -> tuple[int, float]:
    """The independent samples of the CPU and thread that has the fewest, and the seconds of the one
    observed for the shortest time, each over all runs. A run may lack a CPU of another one."""
    found: dict[tuple[int, int], dict[int, tuple[int, float]]] = {}
    for member, thread in zip(members, _threads(runs, members), strict=True):
        of_thread = found.setdefault(thread, {})
        bound = runs[member.run]["series"][member.place]["bound"]
        effective, duration_s = member.effective, bound["duration_s"]
        known = of_thread.get(member.run, (effective, duration_s))
        of_thread[member.run] = min(known[0], effective), min(known[1], duration_s)
    return (
        min(sum(effective for effective, _ in each.values()) for each in found.values()),
        min(sum(duration_s for _, duration_s in each.values()) for each in found.values()),
    )


def _larger(runs: Sequence[Document], members: Sequence[Member]) -> Iterable[tuple[int, int]]:
    """For each CPU and thread how many events and samples count as larger than the maximum, and how
    many of these have an unknown value."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for member, thread in zip(members, _threads(runs, members), strict=True):
        larger, unseen = found.get(thread, (0, 0))
        unanswered = runs[member.run]["series"][member.place]["unanswered"]
        found[thread] = larger + unanswered + member.unseen, unseen + member.unseen
    return found.values()


def _composed(series: Sequence[Document]) -> Document | None:
    """The sum of the maxima of each stage over all series; None unless all have the same stages."""
    all_stages = [one["composed"]["stages"] for one in series if one["composed"] is not None]
    if len(all_stages) < len(series):
        return None
    names = [stage["name"] for stage in all_stages[0]]
    if any([stage["name"] for stage in stages] != names for stages in all_stages):
        return None
    tops = [max(stages[at]["max"] for stages in all_stages) for at in range(len(names))]
    return {
        "max": sum(tops),
        "stages": [{"name": name, "max": top} for name, top in zip(names, tops, strict=True)],
    }


_ORDER: Final = ("fail", "inconclusive", "pass")


def _worse(
    said: Document, held: Held, judged: stats.BudgetVerdict
) -> tuple[float, float, float, int]:
    """Sorts threads with the same result, the one that decides first: if they failed, the one with
    the most exceedances, if they are inconclusive, the one that lacks the most evidence, and among
    equals the one with the weakest evidence."""
    lacks = 0.0
    if said["result"] == "inconclusive":
        lacks = math.inf
        if not (held.doubts or judged.doubt) and judged.needed_s is not None:
            lacks = judged.needed_s
        elif not held.doubts and judged.needed_samples is not None:
            lacks = judged.needed_samples - held.count
    late = held.exceedances if said["result"] == "fail" else 0
    return -lacks, -late, -(judged.bound_per_hour or 0.0), held.effective


def _verdicts(
    runs: Sequence[Document], members: Sequence[Member], confidence: float
) -> list[Document]:
    """A verdict for each requirement by all its evidence, which are the runs that were given it:
    that of the thread that decides."""
    found: dict[tuple[int, float | None], dict[tuple[int, int], Held]] = {}
    judged_runs: dict[tuple[int, float | None], set[int]] = {}
    over: dict[tuple[int, float | None], dict[tuple[str, str], bool]] = {}
    for member, thread in zip(members, _threads(runs, members), strict=True):
        held = member.held
        if held is None:
            continue
        key = held.budget_ns, held.rate_per_hour
        judged_runs.setdefault(key, set()).add(member.run)
        known = found.setdefault(key, {})
        known[thread] = held if thread not in known else known[thread].plus(held)
        boots_over, boot = over.setdefault(key, {}), _boot(runs[member.run])
        if held.exceedances or held.unknown:
            certain = held.exceedances > held.uncertain
            boots_over[boot] = boots_over.get(boot, False) or certain
    verdicts = []
    for key, threads in found.items():
        tried = [(held, held.judged(confidence)) for held in threads.values()]
        said, held, judged = min(
            ((verdict_on(held, judged, judged.remedy), held, judged) for held, judged in tried),
            key=lambda one: (_ORDER.index(one[0]["result"]), *_worse(*one)),
        )
        longer = not (held.doubts or judged.doubt)
        number = len(over[key])
        boots = len({_boot(runs[at]) for at in judged_runs[key]})
        verdicts.append(
            {
                "budget_ns": held.budget_ns,
                "rate_per_hour": held.rate_per_hour,
                **said,
                "runs": len(judged_runs[key]),
                "boots": boots,
                "boots_over": number,
                "boots_unknown": number - sum(over[key].values()),
                "next_boot": stats.exceedance_bound(boots, confidence, number),
                "boots_lacking": max(
                    stats.samples_needed(BOOT_PART, confidence, number) - boots, 0
                ),
                "hours_lacking": judged.needed_s / _HOUR_S
                if longer and judged.needed_s is not None
                else None,
                "samples_lacking": None
                if not longer or judged.needed_samples is None
                else max(judged.needed_samples - held.count, 0),
            }
        )
    return verdicts
