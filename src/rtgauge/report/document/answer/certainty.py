# SPDX-License-Identifier: Apache-2.0
"""The observed maximum of the answer, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rtgauge import text as numbers
from rtgauge.report.document.answer.data import Data, Model
from rtgauge.report.document.answer.state import exceeds, undisturbed
from rtgauge.report.document.blocks import Line, Span, line
from rtgauge.report.results.again import lasting_command
from rtgauge.report.results.labels import (
    added_text,
    budget_of,
    capital,
    highest,
    load_text,
    ordinary_policies,
    peak,
    series_labels,
    severity,
    step_name,
    things_of,
    weakest,
)
from rtgauge.stats import duration_needed_s
from rtgauge.stats.verdict import DEFAULT_RATE_PER_HOUR

__all__ = ["OBSERVED", "certainty_of", "deciding", "maximum_of", "measured_of", "when_text"]

LOADS: Final = 3
"""The number of other loads that the answer names."""
EVEN: Final = 0.95
"""Shares of the longest time from which series took as long."""
OBSERVED: Final = "Observed maximum "


def maximum_of(data: Data) -> Line:
    if printed := _printed(data):
        return printed
    if data.longest is None:
        return ()
    said = _maximum(data, data.longest)
    if data.top is None:
        return line(*said, ". The samples have no due times.")
    return line(*said, _not_counted(data)) if data.without_due else said


def measured_of(data: Data) -> str:
    """The measurement of the observed maximum, with its load."""
    if data.printed is None and data.longest is None:
        return ""
    step = data.step(data.longest) if data.printed is None else data.steps[data.printed[1]]
    load = added_text(step["load"])
    return str(step["measurement"]) + ("" if load == "idle" else f", {load}")


def _not_counted(data: Data) -> str:
    """The series that the maximum leaves out because they have no due times, with their own
    maximum."""
    names = dict.fromkeys(
        " ".join(one["labels"].values()) or str(one["name"]) for one in data.without_due
    )
    top = numbers.shown(highest(peak(one) for one in data.without_due), "ns").full
    return f". Series without due times are not counted: {numbers.join(list(names))} (max {top})."


def _maximum(data: Data, one: Model) -> Line:
    step = data.step(one)
    shown = numbers.shown(peak(one), one["unit"], budget_of(step, one["unit"])).full
    figure = Span(shown, strong=True)
    where = [_place(data, one), load_text(step["load"])]
    if step["state"] == "failed":
        where.append("of a step that failed")
    if policies := ordinary_policies(data.run, step):
        where.append(policies)
    if one["max_at_least"] is None:
        where.append(when_text(data.run, one))
    text = ", ".join(text for text in where if text)
    missing = one["unanswered"]
    if not missing and one["max_at_least"] is not None:
        return line(OBSERVED, figure, f" ({text}), in a missed period")
    if not missing:
        return line(OBSERVED, figure, f" ({text})")
    of = numbers.count(missing + one["count"])
    verb = "was" if missing == 1 else "were"
    more = f": {numbers.count(missing)} of {of} events {verb} not answered"
    return line(OBSERVED, figure, f" ({text}){more}")


def _printed(data: Data) -> Line:
    """The maximum that a program printed without a histogram, if no series has a higher one."""
    if data.printed is None:
        return ()
    top, step = data.printed
    load = load_text(data.steps[step]["load"])
    return line(
        OBSERVED, Span(numbers.shown(top, "ns").full, strong=True), f" ({load}), as printed"
    )


def when_text(run: Model, one: Model) -> str:
    """The time of day of a maximum, with the date in a run of more than half a day; by a clock that
    was never set, or that of an emulated board, the time since the step began."""
    if one["max_at"] is None:
        return ""
    clock = one["max_at"]["clock"]
    if not clock or clock < "2000" or "lab" in run["environment"]:
        return f"{numbers.duration(one['max_at']['time_s'])} into the step"
    date, _, time = clock.removesuffix("Z").partition("T")
    return f"{f'{date} ' if (run['duration_s'] or 0) > 43200 else ''}{time} UTC"


def _place(data: Data, one: Model) -> str:
    """The measurement, where there are several, and the label of a series."""
    words = []
    compared = data.best or data.without_due
    if len({other["measurement"] for other in compared}) > 1:
        words.append(step_name(data.run, data.step(one)))
    if one["context"] not in ("user", ""):
        words.append(f"{one['context']} context")
    members = [other for other in compared if other["step"] == one["step"]]
    if len(members) > 1:
        words.append(series_labels(members)[members.index(one)])
    elif one["cpu"] >= 0:
        words.append(f"CPU {one['cpu']}")
    return ", ".join(words)


def certainty_of(data: Data) -> tuple[Line, str]:
    """How sure the answer is, and the command of the run that would make it surer."""
    if data.verdicts:
        return _sure_of_budget(data)
    one = data.top
    if one is None:
        return (), ""
    same = [
        other
        for other in data.best
        if other["step"] == one["step"] and things_of(other) == things_of(one)
    ]
    things = "events" if one["unanswered"] else things_of(one)
    total = sum(other["count"] + other["unanswered"] for other in same)
    bound = max((other["bound"] for other in same), key=lambda bound: bound["probability"])
    counted = things.removesuffix("s") if total == 1 else things
    text = f"Measured: {numbers.count(total)} {counted} in "
    text += f"{_times(same)}."
    if bound["probability"] < 0.5:
        cpus = {other["cpu"] for other in same if other["cpu"] >= 0}
        part = "CPU" if len(cpus) == len(same) else "series"
        each, one_part = (f" of each {part}", f" of one {part}") if len(same) > 1 else ("", "")
        text += (
            f" {numbers.percent(bound['confidence'])} sure: fewer than "
            f"{numbers.probability(bound['probability'])} {things}{each} "
            + (
                "have no answer, if events are independent."
                if one["unanswered"]
                else "exceed the maximum."
            )
        )
        if bound["effective_samples"] < bound["samples"]:
            text += (
                f" The late ones come in clusters, so the {numbers.count(bound['samples'])} "
                f"{things}{one_part} count as {numbers.count(bound['effective_samples'])} "
                "independent ones."
            )
    if not bound["period_s"]:  # 0: no sample of the series
        return line(text), ""
    period = numbers.duration(bound["period_s"])
    text += f" Anything rarer than once in {period} may have been missed."
    needed = duration_needed_s(DEFAULT_RATE_PER_HOUR, bound["confidence"])
    # No length mends the last two.
    if bound["duration_s"] >= needed or not data.proper or one["step"] in data.unanswered:
        return line(text), ""
    what, without = f"{things} above the maximum", ""
    if one["unanswered"]:
        what, without = "they", " without unanswered events"
    text += f" A run of {numbers.duration(needed, up=True)}{without} is needed to show that {what} "
    text += f"are rarer than {numbers.per_hour(DEFAULT_RATE_PER_HOUR)}."
    return line(text), lasting_command(data.run, data.step(one), needed, {})


def _times(series: Sequence[Model]) -> str:
    """The time in which all samples of some series were taken. With the shortest time of a series
    if it is clearly shorter: a bound that holds for each of them rests on it."""
    times = [float(one["bound"]["duration_s"]) for one in series]
    text = numbers.duration(max(times))
    if min(times) < EVEN * max(times):
        label = series_labels(series)[times.index(min(times))]
        text += f", but only {numbers.duration(min(times))} of {label}"
    return text


def deciding(data: Data) -> Model:
    """The verdict that decides: failed before inconclusive before passed, then the worst one."""
    order = ("pass", "inconclusive", "fail")
    return max(
        undisturbed(data) or data.verdicts,
        key=lambda one: (order.index(one["result"]), severity(one, data.run["series"])),
    )


def _sure_of_budget(data: Data) -> tuple[Line, str]:
    """How sure the verdict is that decides."""
    verdicts = undisturbed(data) or data.verdicts
    verdict = deciding(data)
    same = [other for other in verdicts if other["step"] == verdict["step"]]
    if verdict["result"] == "pass":
        verdict = weakest(same, data.run["series"])
    one, step = data.run["series"][verdict["series"]], data.steps[verdict["step"]]
    text = f"{capital(verdict['evidence'])}."
    several = len({other["step"] for other in verdicts}) > 1
    under = f", {load_text(step['load'])}" if several else ""
    if len(same) > 1:
        series = [data.run["series"][other["series"]] for other in same]
        text = f"{capital(series_labels(series)[same.index(verdict)])}{under}: {text}"
    elif under:
        text = f"{capital(under.removeprefix(', '))}: {text}"
    proves = one in data.proper and one["step"] not in data.unanswered
    if verdict["result"] == "fail" and not verdict["rate_per_hour"] and proves:
        certain = "" if _of_the_host(data, step) else "That is certain for this run: one"
        text += f" {certain or 'One'} exceedance is enough."
    if data.due and not data.real:
        text += " This proves nothing about a task with real-time priority."
        # the actions begin with the remedy
        return line(text), verdict["command"] if verdict["result"] == "inconclusive" else ""
    others = _others(data, verdicts, verdict)
    if verdict["result"] != "inconclusive":
        return line(text + others), ""
    unbounded = verdict["needed_s"] is None or verdict["bound_per_hour"] is None
    if unbounded or exceeds(data, verdict) or verdict.get("unknown"):
        return line(f"{text}{others} {capital(verdict['remedy'])}."), verdict["command"]
    rate, things = step["budget"]["rate_per_hour"], things_of(one)
    kept = [other for other in same if not exceeds(data, other)]
    bound = max(other["bound_per_hour"] or 0.0 for other in kept)
    needed = max(other["needed_s"] or 0.0 for other in kept)
    measured = [data.run["series"][other["series"]] for other in kept]
    measured = [each for each in measured if things_of(each) == things]
    total = sum(other["count"] for other in measured)
    allowed = DEFAULT_RATE_PER_HOUR if rate is None else rate
    most, limit = map(_episodes, numbers.per_hour_beside(bound, allowed))
    text = (
        f"0 of {numbers.count(total)} {things} above "
        f"{numbers.microseconds(verdict['budget_ns'])} in "
        f"{_times(measured)}{under}. "
        f"{numbers.percent(one['bound']['confidence'])} sure: at most "
        f"{most}. "
        f"A run of {numbers.duration(needed, up=True)} without one is needed to show fewer than "
        f"{limit}"
        f"{' (the default)' if rate is None else ''}."
    )
    return line(text + others), verdict["command"]


def _of_the_host(data: Data, step: Model) -> bool:
    """Whether a hypervisor or an emulator may have caused any exceedance."""
    lab = data.run["environment"].get("lab")
    stolen = any(one["rule"] == "stolen time" for one in step["observations"])
    return stolen or (lab is not None and lab.get("mode") != "counted")


def _episodes(rate: str) -> str:
    """``1 an hour`` becomes ``1 episode an hour``."""
    number, _, unit = rate.partition(" ")
    return f"{number} episode{'' if number == '1' else 's'} {unit}"


def _others(data: Data, verdicts: Sequence[Model], verdict: Model) -> str:
    """Under which other loads the budget of a verdict was exceeded and kept."""
    step = data.steps[verdict["step"]]
    late, kept = [], []
    for one in verdicts:
        other = data.steps[one["step"]]
        same = (other["measurement"], one["budget_ns"]) == (
            step["measurement"],
            verdict["budget_ns"],
        )
        if not same or other["load"] == step["load"]:
            continue
        if exceeds(data, one):
            late.append(load_text(other["load"]))
        elif other["state"] == "complete" and not one["doubt"] and not one.get("unknown"):
            kept.append(load_text(other["load"]))
    said = ""
    if late:
        said += f" {'Also exceeded' if exceeds(data, verdict) else 'Exceeded'}: {_loads(late)}."
    if kept := [load for load in kept if load not in late]:
        said += f" Not exceeded: {_loads(kept)}."
    return said


def _loads(names: Sequence[str]) -> str:
    found = list(dict.fromkeys(names))
    more = [f"{len(found) - LOADS} more"] if len(found) > LOADS + 1 else []
    return numbers.join([*(found[:LOADS] if more else found), *more])
