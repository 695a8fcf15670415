# SPDX-License-Identifier: Apache-2.0
"""Since when a label is worse, or better: changes over its runs, in the order of time.

Each quantity that was measured alike in all runs gives a tail percentile, a median and a maximum
for each run. For each change of these values (``rtgauge.stats.changes``), the document has the run
at which it began, its size with an interval, and what else changed there. The tail of the primary
quantity has a false alarm in one of a hundred series. So have all other figures together.
docs/reference/trend.md explains the document.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rtgauge import stats
from rtgauge import text as numbers
from rtgauge.report.results import schemas
from rtgauge.report.results.labels import waits_for_answers
from rtgauge.report.results.model import Analysis, Document
from rtgauge.report.sets.compare import RunSet, changed, quantities, refusal
from rtgauge.report.sets.decide import STATISTICS, decisive, main_statistic, outranked, uneven
from rtgauge.stats.changes import FEWEST, LEAST

__all__ = ["LEVEL", "Trended", "trend", "validate"]

LEVEL: Final = 0.01
SERIAL: Final = 0.01
SIDE: Final = 50
"""Maximum number of runs next to a change, on either side, from which its size is estimated."""


@dataclass(frozen=True)
class Trended:
    """At most 1000 runs of one name, in the order of time: their places among the runs of the
    analysis, and their numbers in the store (0: unknown)."""

    name: str
    places: tuple[int, ...]
    numbers: tuple[int, ...]


def trend(
    analysis: Analysis, chosen: Sequence[Trended], left_out: Sequence[Mapping[str, str]] = ()
) -> Document:
    """The changes of each set over its runs. ``left_out``: runs that could not be read, with reason
    and remedy. Raises UsageError where runs must not be compared (``compare.refusal``)."""
    runs = analysis.model["runs"]
    sets: list[Document] = []
    series: list[Document] = []
    cut: dict[str, Document] = {}
    for number, one in enumerate(chosen):
        refused = refusal(runs, [RunSet(one.name, (place,)) for place in one.places])
        if refused is not None:
            raise refused
        sets.append({"name": one.name, "runs": len(one.places)})
        series += _set(analysis, one, number, cut)
    return {
        "format": "rtgauge-trend",
        "version": 1,
        "sets": sets,
        "series": series,
        "left_out": [*(dict(one) for one in left_out), *cut.values()],
    }


def _set(
    analysis: Analysis, chosen: Trended, number: int, cut: dict[str, Document]
) -> Iterator[Document]:
    """The series of values of a set, the primary one first. Adds to ``cut`` the runs whose figures
    are not those of the whole step, by their ids: they are not judged."""
    found = [
        one
        for one in quantities(analysis, RunSet(chosen.name, chosen.places))
        if one["unit"] == "ns"
    ]
    named = {
        analysis.model["runs"][place]["id"]: store
        for place, store in zip(chosen.places, chosen.numbers, strict=True)
    }
    for one in found:
        row = one["rows"][0]
        for each in row["runs"]:
            if not each["complete"]:
                run = f"#{named[each['run']]}" if named[each["run"]] else str(each["run"])[:13]
                cut[each["run"]] = {
                    "run": f"run {run}",
                    "reason": f"{one['measurement']} was not completed",
                    "remedy": "measure it again",
                }
        row["runs"] = [each for each in row["runs"] if each["complete"]]
    many = [one for one in found if len(one["rows"][0]["runs"]) >= FEWEST]
    few = [one for one in found if one not in many]
    primary = decisive(many)
    lead = outranked(many[primary], few) if primary is not None else []
    leading = lead[decisive(lead) or 0] if lead else None
    if (wanted := decisive(found)) is not None:
        _lacking(analysis, found, found[wanted], named, cut)
    judged = [
        (leading is None and at == primary and name == main_statistic(one), one, name)
        for at, one in enumerate(many)
        for name in STATISTICS
        if name in ("50", "max") or (name == "tail" and one["tail"] is not None)
    ]
    others = max(len(judged) - (leading is None), 1)
    few.sort(key=lambda one: one is not leading)
    refused = [_too_few(one, found, number, primary=one is leading) for one in few]
    yield from refused[: leading is not None]
    for first, one, name in sorted(judged, key=lambda row: not row[0]):
        level = LEVEL if first else LEVEL / others
        yield {
            **_head(one, number, name),
            "primary": first,
            **_judged(analysis, chosen, one, name, level),
        }
    yield from refused[leading is not None :]


def _too_few(
    quantity: Document, found: Sequence[Document], number: int, *, primary: bool
) -> Document:
    """A quantity of fewer than 20 runs. ``primary``: those that are judged rank behind it."""
    few = len(quantity["rows"][0]["runs"])
    reason = f"{numbers.plural(few, 'run')} measured this way. A trend needs at least {FEWEST}"
    return {
        **_head(quantity, number, main_statistic(quantity)),
        "primary": primary,
        **_refused([], reason, _why_few(quantity, found, few)),
    }


def _lacking(
    analysis: Analysis,
    found: Sequence[Document],
    wanted: Document,
    named: Mapping[str, int],
    cut: dict[str, Document],
) -> None:
    """Add to ``cut`` the runs that did not measure the quantity ``wanted`` in any way."""
    same = ("measurement", "name", "context", "load")
    alike = [one for one in found if all(one[key] == wanted[key] for key in same)]
    there = {each["run"] for one in alike for each in one["rows"][0]["runs"]}
    for run in analysis.model["runs"]:
        if run["id"] not in named or run["id"] in there or run["id"] in cut:
            continue
        steps = [
            step
            for step in run["steps"]
            if step["measurement"] == wanted["measurement"]
            and step["load"]["name"] == wanted["load"]["name"]
            and step["state"] != "complete"
        ]
        number = named[run["id"]]
        reason = f"{wanted['measurement']} was not measured"
        cut[run["id"]] = {
            "run": f"run #{number}" if number else f"run {str(run['id'])[:13]}",
            "reason": f"{reason}: {steps[0]['reason']}" if steps and steps[0]["reason"] else reason,
            "remedy": (steps[0]["remedy"] if steps else "") or "measure it again",
        }


def _why_few(quantity: Document, found: Sequence[Document], few: int) -> str:
    """What to do about too few runs: use one method if the runs of the label differ in it."""
    same = ("measurement", "name", "context", "load")
    for other in found:
        if other is quantity or any(other[key] != quantity[key] for key in same):
            continue
        mine, theirs = quantity["method"], other["method"]
        facts = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        if facts:
            said = ", ".join(
                f"{name} {mine.get(name, 'none')} against {theirs.get(name, 'none')}"
                for name in facts
            )
            return f"measure all runs of a label alike, or give them another label: {said}"
    return f"measure {numbers.plural(FEWEST - few, 'more run')} with this label"


def _head(quantity: Document, number: int, name: str) -> Document:
    kept = (
        "measurement", "name", "unit", "context", "load", "crowded", "method", "told", "tail"
    )  # fmt: skip
    return {"set": number, **{key: quantity[key] for key in kept}, "statistic": name}


def _refused(values: Sequence[Document], reason: str, remedy: str) -> Document:
    return {
        "verdict": "refused",
        "reason": reason,
        "remedy": remedy,
        "values": list(values),
        "dependence_p": None,
        "segments": [],
        "changes": [],
    }


def _judged(
    analysis: Analysis, chosen: Trended, quantity: Document, name: str, level: float
) -> Document:
    """The changes of one figure over the runs."""
    runs = analysis.model["runs"]
    place = {runs[at]["id"]: at for at in chosen.places}
    number = dict(zip(chosen.places, chosen.numbers, strict=True))
    figures = {one["run"]: one["figures"][name] for one in quantity["rows"][0]["runs"]}
    known = [
        (place[run], value)
        for run, value in figures.items()
        if value is not None and not isinstance(value, numbers.AtLeast)
    ]
    known.sort(key=lambda one: chosen.places.index(one[0]))
    at = [one for one, _ in known]
    values = [float(value) for _, value in known]
    told = [
        {
            "run": runs[one]["id"],
            "number": number[one],
            "started": runs[one]["started"],
            "value": value,
        }
        for one, value in zip(at, values, strict=True)
    ]
    if len(values) < len(figures):
        lost = len(figures) - len(values)
        return _refused(
            told,
            f"this figure is unknown for {numbers.plural(lost, 'run')}: events had no answer, "
            "samples were lost or too few, or periods were missed",
            "look at another figure, or find out why: rtgauge show RUN",
        )
    answers = waits_for_answers(quantity["name"], quantity["unit"])
    if unlike := uneven(name, quantity["rows"][0], answers=answers):
        return _refused(
            told,
            f"{unlike.text}, and a maximum depends on the number of samples",
            f"{unlike.remedy}, or give unlike runs another label",
        )
    each = quantity["rows"][0]["runs"]
    step = max(math.gcd(*(one["resolution_ns"] for one in each)), 1)
    # a maximum is exact even in a histogram
    part = 0.0 if name == "max" else max(one["bucket"] for one in each)
    if part:  # a histogram has the upper ends of buckets
        bits = round(-math.log2(part))
        values = [float(stats.bucket_high(stats.bucket_of(int(one), bits), bits)) for one in values]
    scores = stats.normal_scores(values)
    places = stats.settled(values, stats.changes(scores, stats.penalty(len(values), level)))
    p = stats.dependence(scores, places)
    if p <= level and (constant := stats.levels(values)):
        places, p = constant, stats.dependence(scores, constant)
    if p <= SERIAL:
        return {
            **_refused(
                told,
                f"the runs depend on their neighbours (Bartels's rank test, p = {p:.1g}), and "
                "such dependence looks like changes",
                "reboot before each run, leave more time between them, or prove a difference with "
                "`rtgauge compare`",
            ),
            "dependence_p": p,
        }
    bounds = [0, *_clear(values, places, step, part), len(values)]
    segments = [
        {
            "begin": begin,
            "runs": end - begin,
            "median": float(sorted(values[begin:end])[(end - begin - 1) // 2]),
        }
        for begin, end in itertools.pairwise(bounds)
    ]
    found = [
        _change(analysis, told, values, at, begin, middle, end)
        for begin, middle, end in zip(bounds, bounds[1:], bounds[2:], strict=False)
    ]
    verdict = "no change"
    if found:
        verdict = found[-1]["direction"]
    elif len(set(values)) == 1:
        verdict = "constant"
    return {
        "verdict": verdict,
        "reason": "",
        "remedy": "",
        "values": told,
        "dependence_p": p,
        "segments": segments,
        "changes": found,
    }


def _clear(values: Sequence[float], places: Sequence[int], step: int, part: float) -> list[int]:
    """The changes that exceed the resolution: ``step``, in ns, and ``part``, the width of buckets
    as a part of their values. The runs before a change are those since the last clear one, up to
    the next change of any size, so that small changes add up."""
    bounds = [*places, len(values)]
    clear: list[int] = []
    begin, middle = 0, bounds[0]
    for at, end in itertools.pairwise(bounds):
        one = np.array(values[max(begin, middle - SIDE) : middle])
        other = np.array(values[at : min(end, at + SIDE)])
        difference = np.subtract.outer(other, one)
        blur = np.maximum(step, part * np.maximum.outer(other, one))
        differ = difference != 0
        beyond = np.sign(difference) * (np.abs(difference) > blur)
        if differ.any() and np.median(beyond[differ]) != 0:
            clear.append(at)
            begin, middle = at, end
    return clear


def _change(
    analysis: Analysis,
    told: Sequence[Document],
    values: Sequence[float],
    at: Sequence[int],
    begin: int,
    middle: int,
    end: int,
) -> Document:
    """One change: its run, its size, and what else changed with it."""
    first, second = max(begin, middle - SIDE), min(end, middle + SIDE)
    sides = values[first:middle], values[middle:second]
    positive = min(*sides[0], *sides[1]) > 0
    one, other = ([math.log(value) if positive else value for value in side] for side in sides)
    size = stats.shift(one, other)
    # among ties the estimate can be 0 although most of the others are larger
    scores = stats.normal_scores([*one, *other])
    way = size.estimate or float(scores[len(one) :].mean() - scores[: len(one)].mean())
    shown = [size.estimate, size.low, size.high]
    if positive:
        shown = [math.exp(one) for one in shown]
    known = math.isfinite(size.low)
    runs = analysis.model["runs"]
    # What differs between the segments, but changed at another run, is not what changed here.
    whole = {one["name"] for one in changed(runs, *_sides(at[begin:middle], at[middle:end]))}
    near = _sides(at[max(begin, middle - LEAST) : middle], at[middle : min(end, middle + LEAST)])
    return {
        "at": middle,
        "run": told[middle]["run"],
        "number": told[middle]["number"],
        "started": told[middle]["started"],
        "ratio": shown[0] if positive else None,
        "difference": None if positive else shown[0],
        "interval": shown[1:] if known else None,
        "direction": "worse" if way > 0 else "better",
        "differences": [one for one in changed(runs, *near) if one["name"] in whole],
    }


def _sides(before: Sequence[int], after: Sequence[int]) -> tuple[RunSet, RunSet]:
    return RunSet("before", tuple(before)), RunSet("after", tuple(after))


validate = functools.partial(schemas.validate, "rtgauge.report.sets", "trend.schema.json")
"""Raise ``jsonschema.ValidationError`` if the document is not a trend."""
