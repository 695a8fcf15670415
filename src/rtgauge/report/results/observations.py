# SPDX-License-Identifier: Apache-2.0
"""Observations on a step: what rules find in its samples, in sentences.

On the path of a sample: the figures of ``gather`` and the series of the results model come in,
observations for the model leave. Every rule is one function in ``RULES``, and
docs/reference/report.md describes it. No rule knows a measurement by its name.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtgauge import stats
from rtgauge import text as numbers
from rtgauge.report.results.background import STOLEN_STEP_NS, STOLEN_STEPS, around, stolen_ns
from rtgauge.report.results.gather import Figures, Large
from rtgauge.report.results.labels import group_series, peak, series_labels, things_of
from rtgauge.stats.patterns import TICKS_HZ
from rtgauge.stats.rhythm import APART_NS
from rtgauge.units import parse_duration

if TYPE_CHECKING:
    from rtgauge.stream import Ambience

__all__ = ["QUOTA", "RULES", "SAME", "About", "Growth", "Mark", "Rule", "Told", "growths", "told"]

Document = dict[str, Any]
Series = Mapping[str, Any]

FIRST_TIMES: Final = 5
FIRST_NS: Final = 1000
FIRST_PART: Final = 0.01
SPREAD_TIMES: Final = 3
SPREAD_NS: Final = 500
DRIFT_TIMES: Final = 1.5
DRIFT_NS: Final = 500
DRIFT_SAMPLES: Final = 200
"""A tenth of this many samples has a median that means something."""
DRIFT_PAIRS: Final = 40
"""Min number of the 45 pairs of tenths that rise. 1717 of 10! orders have that many."""
SAME: Final = 1.05
"""Two samples are as late as each other if they are as far above the median, but for this factor
(chosen, not derived)."""
STOLEN: Final = 0.001
SMI_NS: Final = 10_000_000
"""An interrupt of the firmware takes less than this."""
MAINLY: Final = 0.5
"""A rhythm that explains more than this share of the late samples may be named in the answer."""
GROWN: Final = 0.2
GROWN_NS: Final = 20
SURE: Final = 6
"""Minimum number of label values for a 95 % interval of a slope (``stats.slope``)."""
BATCH_NS: Final = 20
MOST: Final = 16
"""Number of series or CPUs of a quantity, those with the highest maxima, that are searched for
second lines."""


@dataclass(frozen=True)
class Mark:
    """A value at which a picture has a line, and the text of the line."""

    value: int
    text: str


@dataclass(frozen=True)
class Told:
    """The observations on a step. ``marks``: the second lines for its pictures, by the place of the
    first series of each quantity that has one."""

    observations: list[Document]
    marks: Mapping[int, Mark]


@dataclass(frozen=True)
class About:
    """What is known of the system and of a step: the environment, the facts, the load, and the
    interrupts of each CPU per second."""

    environment: Mapping[str, Any]
    facts: Mapping[str, Any]
    load: Mapping[str, Any]
    interrupts: Mapping[int, float]

    def suspects(self, comb: stats.Comb) -> list[str]:
        """The known activities that have the rate of a rhythm, in words."""
        known = []
        if disturb := self.load.get("disturb"):
            known.append((f"the injection ({disturb})", 1e9 / parse_duration(_parts(disturb)[2])))
        hz = float((self.environment.get("kernel") or {}).get("hz") or 0)
        known += [(f"the tick ({rate:g} Hz)", rate) for rate in ([hz] if hz else TICKS_HZ)]
        if (self.environment.get("lab") or {}).get("mode") != "counted":  # no host delays that
            known.append((QUOTA, _QUOTA_HZ))
        for file, factor, name in _UPKEEP:
            value = self._seconds(file)
            if value:
                seconds = factor * value
                known.append((f"{name} ({numbers.duration(seconds)})", 1 / seconds))
        found = [name for name, rate in known if comb.near([rate])]
        for cpu, rate in self.interrupts.items():
            if rate > 0 and comb.near([rate], stats.SAME_RATE):  # a mean, not a clock's rate
                about = float(f"{rate:.3g}")
                many = f"{about:g}" if about < 1000 else numbers.count(about)
                found.append(f"the interrupts of CPU {cpu} (about {many} a second)")
        return found

    def _seconds(self, file: str) -> int:
        """The seconds of a fact; 0 without any, or if the watchdog is off."""
        if file == _WATCHDOG and str(self.facts.get(_SOFT)) != "1":
            return 0
        # Runs of older agents have no threshold: it is 10 s unless changed.
        value = str(self.facts.get(file, "10" if file == _WATCHDOG else ""))
        return int(value) if value.isdigit() and int(value) < _DAY else 0


QUOTA: Final = "a CPU quota"
_QUOTA_HZ: Final = 10.0  # kernel/sched/fair.c: default_cfs_period()
_DAY: Final = 86_400
_SOFT: Final = "/proc/sys/kernel/soft_watchdog"
_WATCHDOG: Final = "/proc/sys/kernel/watchdog_thresh"
_UPKEEP: Final = (
    # mm/vmstat.c: from one whole second to another (round_jiffies_relative), so exact on average
    ("/proc/sys/vm/stat_interval", 1.0, "the kernel's memory statistics, vm.stat_interval"),
    # kernel/watchdog.c: a timer every 2/5 of the threshold
    (_WATCHDOG, 0.4, "the soft lockup detector, kernel.soft_watchdog"),
)
"""Facts in seconds, the period of a wake-up as a share of each, and what wakes up."""


@dataclass(frozen=True)
class Quantity:
    """The series of one quantity of a step: their places in the run, names and figures."""

    name: str
    places: Sequence[int]
    series: Sequence[Series]
    labels: Sequence[str]
    figures: Sequence[Figures]
    about: About

    @property
    def hz(self) -> float:
        """The rate of the kernel's tick; 0: not known."""
        return float((self.about.environment.get("kernel") or {}).get("hz") or 0)

    @functools.cached_property
    def lines(self) -> list[tuple[stats.Line, list[int]]]:
        """Its second lines, the most certain first."""
        return _lines(self)

    @property
    def timed(self) -> bool:
        """Whether its values are times."""
        return bool(self.series[0]["unit"] == "ns")

    def whose(self, at: int, alike: Sequence[int]) -> str:
        """The series that a sentence is about, and the number of others that it holds for."""
        if len(self.series) == 1:
            return ""
        more = len(alike) - 1
        words = self.labels[at]
        if more:
            words += f", and {more} more of {len(self.series)} series"
        return f" ({words})"


@dataclass(frozen=True)
class Rule:
    """A rule: its name, its condition in words, and the function that finds it."""

    name: str
    says: str
    find: Callable[[Quantity], Iterator[tuple[str, list[int]]]]


def told(
    step: Document,
    run: Mapping[str, Any],
    figures: Mapping[int, Figures],
    watched: Collection[Ambience] = (),
    facts: Mapping[str, Any] | None = None,
) -> Told:
    """The observations on one step of a run of the results model; ``figures``: place in the run's
    series -> what its samples say; ``watched``: the step's records of background activity;
    ``facts``: those of its environment."""
    places = [
        place
        for place, one in enumerate(run["series"])
        if one["step"] == step["step"] and place in figures
    ]
    about = About(run["environment"], facts or {}, step["load"], _interrupts(watched))
    found = []
    marks = {}
    groups = group_series(run["series"], places)
    for members in groups:
        series = [run["series"][place] for place in members]
        quantity = Quantity(
            series[0]["name"],
            members,
            series,
            series_labels(series),
            [figures[place] for place in members],
            about,
        )
        for rule in RULES:
            for text, at in rule.find(quantity):
                words = f"{quantity.name}: {text}" if len(groups) > 1 else text
                words = words[:1].upper() + words[1:]
                found.append(_observation(rule.name, words, [members[one] for one in at]))
                if rule.find is _second_line:
                    found[-1]["reach"] = round(quantity.lines[0][0].worst_ns)
                    found[-1]["periodic"] = _disturber(quantity)
                    found[-1]["maxima"] = _recurring(quantity)
                    found[-1]["late"] = _mainly(quantity)
        if quantity.timed and quantity.lines:
            line, some = quantity.lines[0]
            middle = series[some[0]]["percentiles"].get("50") or series[some[0]]["mean"] or 0
            text = f"second line, every {_period(line)}"
            text += " or an alias" if _hidden(quantity, some) else ""
            marks[members[0]] = Mark(round(middle + line.excess_ns), text)
    tables = [table for table in run["tables"] if table["step"] == step["step"]]
    found += [
        _observation("batches", *one)
        for one in _batches(tables, [(p, run["series"][p]) for p in places])
    ]
    if disturb := step["load"].get("disturb"):
        found.insert(0, _observation("disturbed", _on_purpose(disturb), []))
    found += _background(list(watched), [(p, run["series"][p]) for p in places])
    return Told(found, marks)


def _on_purpose(disturb: str) -> str:
    kind, length, period = _parts(disturb)
    return (
        f"An injection ({kind} for {length} every {period}) disturbed this step: these are not the "
        "figures of the undisturbed system."
    )


def _parts(disturb: str) -> tuple[str, str, str]:
    kind, length, period = disturb.split(":")
    return kind, length, period


def _interrupts(watched: Collection[Ambience]) -> dict[int, float]:
    """CPU -> its interrupts per second."""
    span_ns = 0
    total: dict[int, int] = {}
    for before, record in pairwise(watched):
        if record.interrupts is not None:
            span_ns += record.time_ns - before.time_ns
        for cpu, number in zip(record.cpus, record.interrupts or (), strict=False):
            total[cpu] = total.get(cpu, 0) + number
    return {cpu: number * 1e9 / span_ns for cpu, number in total.items()} if span_ns > 0 else {}


def _observation(rule: str, text: str, series: Sequence[int]) -> Document:
    return {"rule": rule, "text": text, "series": list(series)}


def _period(line: stats.Line) -> str:
    """The period: in three digits, or in four if they are certain."""
    period = line.comb.period_ns / 1e6
    decimals = 3 - math.floor(math.log10(period))
    if decimals > 0 and 2e-6 * line.comb.error_ns < 10.0**-decimals:
        return f"{period:.{decimals}f}{numbers.GAP}ms"
    return numbers.shown(period, "ms").full


def _ns(value: float) -> str:
    return numbers.shown(value, "ns").full


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 10 else numbers.count(float(f"{ratio:.2g}"))


# --- the rules -----------------------------------------------------------------------------------


def _first(quantity: Quantity) -> Iterator[tuple[str, list[int]]]:
    """The first sample many times the median of the rest."""
    if not quantity.timed:
        return
    ratios = {}
    for at, one in enumerate(quantity.series):
        median = _median_of_rest(quantity.figures[at], one["first"])
        if median is None or one["first"] - median < FIRST_NS:
            continue
        ratio = one["first"] / max(median, one["stamp_ns"] or 1)
        counts = quantity.figures[at].counts
        alike = int(counts.counts[counts.values >= one["first"]].sum()) - 1
        if ratio >= FIRST_TIMES and alike <= FIRST_PART * (counts.count - 1):
            ratios[at] = ratio, median
    if ratios:
        at = max(ratios, key=lambda at: ratios[at][0])
        ratio, median = ratios[at]
        one = quantity.series[at]
        if median < (one["stamp_ns"] or 0):  # a ratio to an unresolved value means nothing
            text = (
                f"the first sample, taken with cold caches, is {_ns(one['first'])}. The median of "
                f"the rest, {_ns(median)}, is less than the cost of a time stamp"
            )
        else:
            text = (
                f"the first sample, taken with cold caches, is {_times(ratio)} times the median of "
                f"the rest: {_ns(one['first'])} against {_ns(median)}"
            )
        text += f"{quantity.whose(at, list(ratios))}."
        yield text, sorted(ratios)


def _median_of_rest(figures: Figures, first: int | None) -> int | None:
    """The median of all samples but the first."""
    counts = figures.counts
    if first is None or counts.count < 2:
        return None
    rank = counts.count // 2  # the ceil((n - 1) / 2)-th of n - 1 samples
    place = int(np.searchsorted(counts.values, first))
    cumulative = counts.cumulative - (np.arange(len(counts.values)) >= place)
    return int(counts.values[int(np.searchsorted(cumulative, rank))])


def _lines(quantity: Quantity) -> list[tuple[stats.Line, list[int]]]:
    """The second lines of a quantity, with the series that were looked at together, the most
    certain first: of each series by itself, of all on one CPU, and on a time grid of all CPUs."""
    cpus: dict[int, list[int]] = {}
    for at, one in enumerate(quantity.series):
        lead = quantity.figures[at].lead
        if lead is not None and len(lead.value) > 1:
            cpus.setdefault(one["cpu"], []).append(at)

    def largest(members: Sequence[int]) -> float:
        return max(float(quantity.series[at]["max"] or 0) for at in members)

    alone = [[at] for members in cpus.values() for at in members if len(members) > 1]
    groups = sorted([*cpus.values(), *alone], key=largest, reverse=True)[:MOST]
    if len(cpus) > 1:
        groups.append(sorted(at for members in cpus.values() for at in members))
    found = []
    for members in groups:
        grids = [quantity.figures[at].large for at in members]
        if all(one is None for one in grids):
            found += [(line, members) for line in _in_loops(quantity, members)]
        elif len({quantity.series[at]["interval_ns"] for at in members}) == 1:
            line = _on_grid(quantity, members, [one for one in grids if one is not None])
            found += [] if line is None else [(line, members)]
    return sorted(found, key=lambda one: -one[0].comb.power)


def _in_loops(quantity: Quantity, members: Sequence[int]) -> Iterator[stats.Line]:
    """The rhythms of series without a time grid, in the first samples of each."""
    if len({quantity.series[at]["cpu"] for at in members}) > 1:
        return
    rates = [quantity.hz] if quantity.hz else TICKS_HZ
    for seamless in (False, True):
        parts = [_placed(quantity, at, seamless) for at in members]
        times, excess, place, late = (np.concatenate(rows) for rows in zip(*parts, strict=True))
        line = stats.second_line(
            times, excess, rates, place, late_ns=late, least_ns=_least_ns(quantity, members)
        )
        # Series that take turns have the rhythm of their turns.
        if line is not None and (len(members) == 1 or line.comb.near(rates, stats.SAME_RATE)):
            yield line


def _on_grid(
    quantity: Quantity, members: Sequence[int], large: Sequence[Large]
) -> stats.Line | None:
    """The rhythm of the largest samples of series on a time grid, over the whole step."""
    parts = []
    least = _least_ns(quantity, members)
    for at, one in zip(members, large, strict=True):
        low, high = (quantity.figures[at].counts.percentile(part) for part in (50, 90))
        clear = one.value - low > max(2 * (high - low), least)
        parts.append((one.time_ns[clear], one.value[clear] - low))
    times, excess = (np.concatenate(rows).astype(np.float64) for rows in zip(*parts, strict=True))
    if not len(times):
        return None
    spans = [line for at in members if (line := quantity.figures[at].timeline) is not None]
    begin = min([float(times.min()), *(float(line.start_ns) for line in spans)])
    ends = (line.start_ns + line.bin_ns * len(line.count) for line in spans)
    end = max([float(times.max()), *(float(one) for one in ends)])
    return stats.disturber(
        times,
        excess,
        stats.Exposure(np.array([begin, end])),
        sum(quantity.figures[at].kept for at in members),
        interval_ns=quantity.series[members[0]]["interval_ns"],
        dithered=large[0].dithered,
    )


def _least_ns(quantity: Quantity, members: Sequence[int]) -> int:
    """The excess that samples may have because of the clock: one of its steps, up to 1 µs, and two
    roundings. Values that differ by more than a rounding differ by a step at least."""
    gaps = np.concatenate([np.diff(quantity.figures[at].counts.values) for at in members])
    return int(gaps[gaps > 1].min(initial=1000)) + 2


def _placed(quantity: Quantity, at: int, seamless: bool) -> tuple[np.ndarray, ...]:
    """Four arrays on the samples of a series without a time grid: when they were taken, their
    excess over the median, their place in their test loop (0 to 1), and the error of their time if
    the pace is wrong by its error; all but the place in ns. The first sample of each loop is left
    out: it is cold, and so would show the rhythm of the loops."""
    figures = quantity.figures[at]
    lead = figures.lead
    assert lead is not None
    times = stats.placed(lead.due_ns, lead.value, figures.starts, seamless=seamless)
    kept = np.diff(lead.due_ns, prepend=lead.due_ns[0] - 1) == 0
    excess = lead.value - float(np.median(lead.value))
    first = np.flatnonzero(np.diff(lead.due_ns, prepend=lead.due_ns[0] - 1))
    number = np.diff(first, append=len(lead.due_ns))
    rank = np.arange(len(lead.due_ns)) - np.repeat(first, number)
    place = rank / np.repeat(number, number)
    pace = stats.pace(lead.due_ns, lead.value, figures.starts)
    late = rank * (0.0 if seamless else pace.error_ns)
    return times[kept], excess[kept], place[kept], late[kept]


def _second_line(quantity: Quantity) -> Iterator[tuple[str, list[int]]]:
    """A second line above the first at regular times, with what it explains and may come from."""
    if not quantity.timed:
        return
    found = quantity.lines
    if not found:
        return
    line, members = found[0]
    comb = line.comb
    cpus = {quantity.series[at]["cpu"] for at in members}
    cpu = min(cpus)
    where = "" if len({one["cpu"] for one in quantity.series}) < 2 else f" on CPU {cpu}"
    if len(cpus) > 1:
        where = f" on {len(cpus)} CPUs together"
    elif len(members) == 1 < len(quantity.series):
        where = f" ({quantity.labels[members[0]]})"
    hidden = _hidden(quantity, members)
    error = "" if hidden else f" (±{_ns(max(comb.error_ns, 1.0))})"
    on_grid = quantity.figures[members[0]].large is not None
    samples = sum(
        quantity.figures[at].kept if on_grid else len(lead.value)
        for at in members
        if (lead := quantity.figures[at].lead)
    )
    text = (
        f"a second line{where}: {numbers.count(line.number)} of {numbers.count(samples)} samples "
        f"are about {_ns(line.excess_ns)} above the first line (at most {_ns(line.worst_ns)}) and "
        f"recur every {_period(line)}{error}. They explain "
        f"{numbers.percent(comb.share)} of the {numbers.count(comb.hits)} excursions "
        f"of at least {_ns(line.least_ns)} above the median"
    )
    merged = f" (samples within {_ns(APART_NS)} are one excursion)"
    text += f"{merged if line.large > comb.hits else ''}."
    if line.multiples:
        at = " and ".join(
            f"{times} times ({numbers.count(some)} samples)"
            for times, some in line.multiples.items()
        )
        text += (
            f" Further lines lie at {at} this distance, as if its cause had occurred several times "
            "at once."
        )
    if suspects := _suspects(quantity):
        text += f" This is the period of {' and of '.join(suspects)}."
    if hidden:
        interval_ns = quantity.series[members[0]]["interval_ns"]
        alike = [
            numbers.shown(round(one, 3), "ns", interval_ns).full
            for one in stats.aliases(comb.period_ns, interval_ns)
        ]
        text += (
            f" Samples every {_ns(interval_ns)} cannot distinguish this period from others, "
            f"such as {' and '.join(alike)}, or from whole fractions and multiples "
            "of all three. --dither yes tells them apart, where the method supports it."
        )
    others = {quantity.series[at]["cpu"] for _, some in found for at in some} - cpus
    if others:
        text += f" {len(others)} more CPU{'s show' if len(others) > 1 else ' shows'} one, too."
    yield text, sorted({at for _, some in found for at in some})


def _hidden(quantity: Quantity, members: Sequence[int]) -> bool:
    """Whether all samples lie on the points of a grid."""
    large = quantity.figures[members[0]].large
    return large is not None and not large.dithered


def _suspects(quantity: Quantity, number: int = 0) -> list[str]:
    """What is known to have the period of a second line; nothing where others look the same."""
    line, members = quantity.lines[number]
    return [] if _hidden(quantity, members) else quantity.about.suspects(line.comb)


def _disturber(quantity: Quantity) -> Document:
    """The second line of a quantity, for the results model."""
    line, members = quantity.lines[0]
    comb, interval_ns = line.comb, quantity.series[members[0]]["interval_ns"]
    hidden = _hidden(quantity, members)
    limits = [comb.period_ns - comb.error_ns, comb.period_ns + comb.error_ns]
    return {
        "period_ns": comb.period_ns,
        "period_ci_ns": [None, None] if hidden else limits,
        "width_ns": comb.width_ns,
        "excursions": comb.hits,
        "above_median_ns": round(line.least_ns),
        "share": comb.share,
        "fold": list(line.fold),
        "suspects": _suspects(quantity),
        "aliases_ns": stats.aliases(comb.period_ns, interval_ns) if hidden else [],
    }


def _recurring(quantity: Quantity) -> list[Document]:
    """The series whose maximum is on a second line of theirs, each with a sentence on this line."""
    found: dict[int, str] = {}
    for line, members in quantity.lines:
        text = f"samples about {_ns(line.excess_ns)} above the first line recur every "
        text += _period(line)
        if _hidden(quantity, members):
            text += ", or at another period that looks the same"
        for at in members:
            if at not in found and _recurs(quantity, at, line):
                cpu = quantity.series[at]["cpu"]
                words = f"on CPU {cpu}, {text}." if cpu >= 0 else f"{text}."
                found[at] = words[:1].upper() + words[1:]
    return [{"series": quantity.places[at], "text": text} for at, text in sorted(found.items())]


def _mainly(quantity: Quantity) -> list[Document]:
    """The series on a time grid most of whose late samples recur at regular times, each with two
    sentences on the most certain such line and what is known to have its period."""
    found: dict[int, Document] = {}
    for number, (line, members) in enumerate(quantity.lines):
        if line.comb.share <= MAINLY or not quantity.series[members[0]]["interval_ns"]:
            continue
        suspects = _suspects(quantity, number)
        cpus = {quantity.series[at]["cpu"] for at in members}
        several = len({one["cpu"] for one in quantity.series}) > 1
        where = f" on CPU {min(cpus)}" if several and len(cpus) == 1 else ""
        text = f"Most late {things_of(quantity.series[members[0]])}{where} "
        text += f"({numbers.percent(line.comb.share)}) recur every {_period(line)}"
        if _hidden(quantity, members):
            text += ", or at another period that looks the same"
        text += f". Possible cause: {' or '.join(suspects) or 'something periodic'}."
        for at in members:
            place = quantity.places[at]
            found.setdefault(place, {"series": place, "text": text, "suspects": suspects})
    return [one for _, one in sorted(found.items())]


def _recurs(quantity: Quantity, at: int, line: stats.Line) -> bool:
    """Whether the maximum of a series is one of the samples of a rhythm, and no larger than its
    largest."""
    one, figures = quantity.series[at], quantity.figures[at]
    if SAME * line.worst_ns < (peak(one) or 0) - (one["percentiles"].get("50") or 0):
        return False
    if figures.large is None:
        return True  # without a time grid, times are only roughly known
    top = int(figures.large.value.argmax())
    excess = float(figures.large.value[top] - figures.counts.percentile(50))
    when = figures.large.time_ns[[top]].astype(np.float64)
    return bool(line.comb.within(when, excess)[0])


def _two_groups(quantity: Quantity) -> Iterator[tuple[str, list[int]]]:
    """Values in two separate groups."""
    if not quantity.timed:
        return
    found = {
        at: valley
        for at, figures in enumerate(quantity.figures)
        if (valley := stats.valley(figures.counts, _step_ns(figures.counts))) is not None
    }
    if found:
        at = max(found, key=lambda at: found[at].high / max(found[at].low, 1))
        two, count = found[at], quantity.figures[at].counts.count
        text = (
            f"two separate groups of samples: {numbers.percent(two.above / count)} are "
            f"about {_ns(two.high)}, the others about {_ns(two.low)}"
            f"{quantity.whose(at, list(found))}."
        )
        yield text, sorted(found)


def _step_ns(counts: stats.Counts) -> int:
    """The smallest distance of values that differ by more than a rounding, and two roundings: a
    step of the clock, if that is coarse. 0 for two values, which show no clock."""
    gaps = np.diff(counts.values)
    return int(gaps[gaps > 1].min(initial=counts.values[-1])) + 2 if len(gaps) > 1 else 0


def _spread(quantity: Quantity) -> Iterator[tuple[str, list[int]]]:
    """The 99 % value many times the median."""
    if not quantity.timed:
        return
    ratios = {}
    for at, one in enumerate(quantity.series):
        middle, high = one["percentiles"].get("50"), one["percentiles"].get("99")
        if middle is None or high is None or high - middle < SPREAD_NS:
            continue
        if high >= SPREAD_TIMES * max(middle, 1):
            ratios[at] = high / max(middle, 1)
    if ratios:
        at = max(ratios, key=lambda at: ratios[at])
        one = quantity.series[at]["percentiles"]
        text = (
            f"a wide spread: 1{numbers.GAP}% of the samples exceed {_ns(one['99'])}, "
            f"{_times(ratios[at])} times the median{quantity.whose(at, list(ratios))}."
        )
        yield text, sorted(ratios)


def _drift(quantity: Quantity) -> Iterator[tuple[str, list[int]]]:
    """Medians that rise or fall during the step."""
    ratios: dict[int, float] = {}
    for at, one in enumerate(quantity.figures if quantity.timed else ()):
        if not one.tenths or one.kept < DRIFT_SAMPLES:
            continue
        pairs = [(late > early) - (late < early)
                 for early, late in itertools.combinations(one.tenths, 2)]  # fmt: skip
        low, high = sorted((one.tenths[0], one.tenths[-1]))
        far = high >= DRIFT_TIMES * max(low, 1) and high - low >= DRIFT_NS
        if far and max(pairs.count(1), pairs.count(-1)) >= DRIFT_PAIRS:
            ratios[at] = high / max(low, 1)
    if ratios:
        at = max(ratios, key=lambda at: ratios[at])
        first, last = (quantity.figures[at].tenths[end] for end in (0, -1))
        text = (
            f"a drift: the median {'rises' if last > first else 'falls'} from {_ns(first)} in the "
            f"first tenth of the time to {_ns(last)} in the last one"
            f"{quantity.whose(at, list(ratios))}."
        )
        yield text, sorted(ratios)


@dataclass(frozen=True)
class Growth:
    """The median of a quantity against a numeric label: ``points`` are (label, median, place of the
    series in the quantity), ascending; ``others`` are the other labels of these series in words."""

    label: str
    others: str
    points: Sequence[tuple[int, int, int]]
    slope: stats.Slope

    @property
    def ratio(self) -> float:
        """The median at the highest value of the label over that at the lowest."""
        return self.points[-1][1] / max(self.points[0][1], 1)

    @property
    def width(self) -> int:
        """The difference between the highest and the lowest median."""
        medians = [median for _, median, _ in self.points]
        return max(medians) - min(medians)

    @property
    def steady(self) -> bool:
        """Whether the medians hardly differ."""
        return self.width <= max(GROWN * min(median for _, median, _ in self.points), GROWN_NS)

    @property
    def grows(self) -> bool:
        """Whether it grows significantly."""
        rise = self.points[-1][1] - self.points[0][1]
        return self.slope.low > 0 and rise > max(GROWN * self.points[0][1], GROWN_NS)


def growths(series: Sequence[Series]) -> list[Growth]:
    """For each label whose values are whole numbers, the median against it: one entry for each set
    of other labels, contexts and CPUs with at least three values of the label."""
    found = []
    for label in dict.fromkeys(key for one in series for key in one["labels"]):
        sets: dict[tuple[Any, ...], list[int]] = {}
        if not all(_whole(one["labels"].get(label, "")) for one in series):
            continue
        for at, one in enumerate(series):
            others = sorted((k, v) for k, v in one["labels"].items() if k != label)
            sets.setdefault((*others, one["cpu"]), []).append(at)
        for key, members in sets.items():
            growth = _growth(label, [(at, series[at]) for at in members])
            if growth is None:
                continue
            pairs = [part for part in key if isinstance(part, tuple)]
            varying = [
                (name, value)
                for name, value in pairs
                if len({one["labels"].get(name) for one in series}) > 1
            ]
            words = ", ".join(f"{name} {value}" for name, value in varying)
            found.append(Growth(label, words, *growth))
    return found


def _whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12


def _growth(
    label: str, members: Sequence[tuple[int, Series]]
) -> tuple[list[tuple[int, int, int]], stats.Slope] | None:
    points, limits = [], []
    for at, one in members:
        median = one["percentiles"].get("50")
        if median is None:
            continue
        low, high = one["percentile_ci"].get("50") or (median, median)
        x = int(one["labels"][label])
        points.append((x, median, at))
        limits.append(
            (
                float(x),
                float(median),
                float(one["min"] if low is None else low),
                float(one["max"] if high is None else high),
            )
        )
    slope = stats.slope(limits)
    return None if slope is None else (sorted(points), slope)


def _grows(quantity: Quantity) -> Iterator[tuple[str, list[int]]]:
    """Growth with a numeric label."""
    for growth in growths(quantity.series) if quantity.timed else ():
        if growth.grows and not growth.steady:
            (least, low, _), (most, high, _) = growth.points[0], growth.points[-1]
            one = growth.label[:-1] if growth.label.endswith("s") else growth.label
            each = growth.slope
            sure = len({x for x, *_ in growth.points}) >= SURE
            words = f"95{numbers.GAP}%" if sure else "over all pairs"
            yield (
                f"grows with {growth.label}: the median is {_ns(low)} at {least} and {_ns(high)} "
                f"at {numbers.count(most)}, about {_ns(each.each)} per {one} "
                f"({_ns(each.low)} to {_ns(each.high)}, {words}){_others(growth)}.",
                sorted(at for _, _, at in growth.points),
            )


def _steady(quantity: Quantity) -> Iterator[tuple[str, list[int]]]:
    """No growth with a numeric label."""
    for growth in growths(quantity.series) if quantity.timed else ():
        if growth.steady:
            (least, low, _), (most, high, _) = growth.points[0], growth.points[-1]
            yield (
                f"hardly depends on {growth.label}: the median is {_ns(low)} at {least} and "
                f"{_ns(high)} at {numbers.count(most)}, and all medians lie within "
                f"{_ns(growth.width)}{_others(growth)}.",
                sorted(at for _, _, at in growth.points),
            )


def _others(growth: Growth) -> str:
    return f" ({growth.others})" if growth.others else ""


RULES: Final = (
    Rule(
        "first sample",
        f"The first sample is at least {FIRST_TIMES} times the median of the rest, and "
        f"{FIRST_NS // 1000} µs more. At most {FIRST_PART * 100:g}{numbers.GAP}% of the rest take "
        "as long: by chance, one series in a hundred has such a first sample.",
        _first,
    ),
    Rule(
        "second line",
        "The largest samples, separate from the rest, recur at regular times. Samples without "
        "a rhythm (at random times, in clusters or on a time grid) seem to do so in fewer than one "
        "search in a hundred. The report "
        f"gives the period with its 95{numbers.GAP}% interval, the share of the largest samples "
        "that it explains, what is known to have this period, and lines at whole multiples of the "
        "distance.",
        _second_line,
    ),
    Rule(
        "two groups",
        "Each of two groups has at least a hundredth of the samples, and at least ten. The upper "
        "median is at least 1.5 times the lower median and 0.1 µs more, with almost no samples in "
        "between, and the groups are farther apart than a step of the clock.",
        _two_groups,
    ),
    Rule(
        "growth",
        "A label has at least three values, all whole numbers. The whole interval of the slope of "
        "the medians (Theil and Sen) is above zero, and the total growth is more than "
        f"{GROWN * 100:g}{numbers.GAP}% and {GROWN_NS} ns. With at least six values, it is a "
        f"95{numbers.GAP}% confidence interval. With fewer, it spans the slopes of all pairs, and "
        "n medians that differ by chance all rise with probability 1/n!. A drift of the system "
        "during the measurement looks like growth.",
        _grows,
    ),
    Rule(
        "steady",
        f"For such a label, all medians lie within {GROWN * 100:g}{numbers.GAP}%, or "
        f"{GROWN_NS} ns.",
        _steady,
    ),
    Rule(
        "spread",
        f"The 99{numbers.GAP}% value is at least {SPREAD_TIMES} times the median, and "
        f"{SPREAD_NS / 1000:g} µs more.",
        _spread,
    ),
    Rule(
        "drift",
        "The medians of ten parts of the time rise or fall: that of the last part is at least "
        f"{DRIFT_TIMES:g} times that of the first, or the reverse, and {DRIFT_NS / 1000:g} µs "
        f"away. At least {DRIFT_PAIRS} of the 45 pairs of parts rise, or fall. Parts in a random "
        "order do so in fewer than one of a thousand series. A slow wave can look the same.",
        _drift,
    ),
)


def _batches(
    tables: Sequence[Document], series: Sequence[tuple[int, Series]]
) -> Iterator[tuple[str, list[int]]]:
    """The mean of batches against that of single operations, where a row of a table of batches
    has the name of a series and of its labels: ``release``, ``robust: release``, ``switch, 2
    threads``."""
    both = []
    for table in tables:
        units = [column["unit"] for column in table["columns"]]
        if units[:2] != ["", "ps"]:
            continue
        for row in table["rows"]:
            words = _words(str(row[0]))
            for place, one in series:
                if one["mean"] is None or one["unit"] != "ns":
                    continue
                values = _words(" ".join([one["name"], *one["labels"].values()]))
                names = values | _words(" ".join(one["labels"]))
                if words in (values, names) and isinstance(row[1], int):
                    both.append((row[1] / 1000, float(one["mean"]), str(row[0]), place))
    if not both:
        return
    places = sorted({place for *_, place in both})
    batch, single, name, _ = max(both, key=lambda one: abs(one[1] - one[0]))
    if abs(single - batch) <= BATCH_NS:
        yield (
            f"The means of batches and of single operations agree within {_ns(BATCH_NS)}.",
            places,
        )
    else:
        yield (
            f"The means of single operations and of batches differ most for {name}: {_ns(single)} "
            f"against {_ns(batch)}. In a batch, operations overlap. A single operation also "
            "contains every disturbance that hits it.",
            places,
        )


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9_-]+", text.lower()))


def _background(
    records: Sequence[Ambience], series: Sequence[tuple[int, Series]]
) -> Iterator[Document]:
    """Time that a hypervisor took from the step's CPUs, and interruptions by the firmware.
    ``maxima``: the series whose maximum each may have caused."""
    if len(records) < 2:
        return
    span_ns = sum(
        record.time_ns - before.time_ns
        for before, record in pairwise(records)
        if record.steal_ns is not None
    )
    stolen = _stolen(records, {one["cpu"] for _, one in series})
    if stolen and span_ns > 0:
        cpu = max(stolen, key=lambda cpu: sum(stolen[cpu]))
        taken = sum(stolen[cpu])
        if taken >= STOLEN * span_ns:
            told = taken >= STOLEN_STEPS * STOLEN_STEP_NS
            share = f" ({numbers.percent(taken / span_ns)})" if told else ""
            text = (
                f"A hypervisor took {_ms(taken)} of "
                f"{numbers.duration(span_ns / 1e9)} from CPU {cpu}{share}. This may have delayed "
                f"any sample there.{_steps(taken)}"
            )
            maxima = _maxima(records, series, _stolen_there)
            yield {**_observation("stolen time", text, []), "maxima": maxima}
    smi = sum(record.smi or 0 for record in records[1:])
    if smi:
        text = (
            f"{numbers.plural(smi, 'system management interrupt')} occurred during the step. Each "
            "stops all CPUs, and the kernel does not see it."
        )
        maxima = _maxima(records, series, _interrupted_there)
        yield {**_observation("management interrupts", text, []), "maxima": maxima}


def _steps(stolen_ns: int) -> str:
    """The resolution of a stolen time, if it may change the time by more than a tenth."""
    if stolen_ns >= 10 * STOLEN_STEP_NS:
        return ""
    return f" The kernel counts this time in steps of {_ms(STOLEN_STEP_NS)}."


def _ms(ns: int) -> str:
    return numbers.shown(ns / 1e6, "ms").full


def _stolen(records: Sequence[Ambience], cpus: Collection[int]) -> dict[int, list[int]]:
    """CPU -> the time that a hypervisor took from it between records. -1: all CPUs."""
    stolen: dict[int, list[int]] = {}
    for before, record in pairwise(records):
        taken = stolen_ns(record, record.time_ns - before.time_ns)
        for cpu, ns in zip(record.cpus, taken, strict=False):
            if cpu in cpus or -1 in cpus:
                stolen.setdefault(cpu, []).append(ns)
    return stolen


def _maxima(
    records: Sequence[Ambience],
    series: Sequence[tuple[int, Series]],
    find: Callable[[Sequence[Ambience], int, float, str], str],
) -> list[Document]:
    """The series whose maximum may have this cause, and a sentence on it. ``find``: gives the
    sentence from the records around the maximum, its CPU, its excess over the median and a phrase
    for the records; empty if they cannot have caused it."""
    found = []
    for place, one in series:
        top = peak(one)
        if one["unit"] != "ns" or top is None:
            continue
        near, when = records, ""
        if one["max_at"] is not None and one["interval_ns"] and top == one["max"]:
            begin_ns = round(one["max_at"]["time_s"] * 1e9)
            # with dither, or with an event that is awaited, a sample begins later in its period,
            # but ends before the last record, which may end the step
            end_ns = min(begin_ns + one["interval_ns"], max(records[-1].time_ns - top, begin_ns))
            near = around(records, begin_ns, end_ns + top)
            if len(near) < 2:
                continue
            span_ns = near[-1].time_ns - near[0].time_ns
            when = f"in the {numbers.duration(span_ns / 1e9)} around the maximum"
        if text := find(near, one["cpu"], top - (one["percentiles"].get("50") or 0), when):
            found.append({"series": place, "text": text})
    return found


def _stolen_there(records: Sequence[Ambience], cpu: int, excess_ns: float, when: str) -> str:
    stolen = _stolen(records, {cpu})
    # a sample lasts longer than from one record to the next only if its time is known
    taken = {cpu: sum(each) if when else max(each) for cpu, each in stolen.items()}
    most = max(taken, key=lambda cpu: taken[cpu], default=None)
    if most is None or not taken[most] or 2 * taken[most] < excess_ns:
        return ""
    where = when or "between two readings, and the time of the maximum is not known"
    return f"A hypervisor took {_ms(taken[most])} from CPU {most} {where}.{_steps(taken[most])}"


def _interrupted_there(records: Sequence[Ambience], _: int, excess_ns: float, when: str) -> str:
    smi = sum(record.smi or 0 for record in records[1:])
    if smi * SMI_NS < excess_ns or not smi:
        return ""
    where = when or "during the step, and the time of the maximum is not known"
    return f"{numbers.plural(smi, 'system management interrupt')} occurred {where}."
