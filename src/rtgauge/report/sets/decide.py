# SPDX-License-Identifier: Apache-2.0
"""What a comparison proves: for each quantity a verdict that rests on runs, not on samples.

Each run gives the logarithm of one figure. Runs of a study are matched by their repeat; sets that
come from elsewhere are compared as they are (``rtgauge.stats.shift``). One quantity is primary and
is judged at 5 %; the others share another 5 %. Two tests at the margin show that a ratio is within
it, or beyond it. Each kind of claim has a correction of its own (Holm). Copies, which repeat every
figure of an earlier run as counted boots of one seed do, count once.
docs/reference/statistics.md, "Comparisons of configurations", shows the error rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from rtgauge import stats
from rtgauge import text as numbers
from rtgauge.errors import UsageError
from rtgauge.report.results.bounds import fingerprint

__all__ = [
    "CONTEXTS",
    "LEVEL",
    "STATISTICS",
    "WITHIN",
    "Uneven",
    "blurred",
    "bucketed",
    "decisions",
    "decisive",
    "main_statistic",
    "named",
    "outranked",
    "rank",
    "resolution",
    "short_waits",
    "uneven",
    "unknown",
]

Run = Mapping[str, Any]
Document = dict[str, Any]

LEVEL: Final = 0.05
WITHIN: Final = 0.10
"""The margin: a ratio is equivalent if its whole interval is within this distance of 1."""

STATISTICS: Final = ("tail", "50", "max", "rate")
"""What is judged of a quantity; ``rate``: the share of samples over the budget."""
COUNTED: Final = 10
"""Samples over the budget that each run must have for a claim of equal rates: fewer allow only
a few distinct values, which may agree by chance."""
LENGTH: Final = 1.05
"""Runs whose numbers of samples differ by more than this factor are not compared by their maxima,
because more samples give a larger one. For shares over a budget, missed periods count, too."""
CONTEXTS: Final = ("user", "kernel", "workqueue", "threaded", "softirq", "irq")


@dataclass(frozen=True)
class _Evidence:
    """Values of a figure, one for each run that counts; matched ones are in the same order."""

    first: Sequence[float]
    second: Sequence[float]
    matched: bool
    dropped: bool = False
    """Whether a run has no figure, because of events without an answer or lost samples. The others
    are then a selection of the better runs, and prove nothing."""
    copies: tuple[int, int] = (0, 0)
    """The number of runs of each set that repeat another run, and so do not count."""
    coarse: bool = False
    """Whether the counts behind the figures are too small to show that two sets are equivalent."""
    uneven: bool = False
    """Whether the figure depends on the lengths of the runs, which differ."""
    short: bool = False
    """Whether waits for answers ended before the budget: more runs alike would decide nothing."""
    blur: float = 0.0
    """By how much the resolution of the figures may change the logarithm of a ratio."""
    bias: float = 0.0
    """By how much the figures may differ because their resolutions do."""

    def shift(self, by: float = 0.0) -> stats.Shift:
        """The shift, less ``by``."""
        if not self.matched:
            return stats.shift(self.first, [value - by for value in self.second])
        pairs = zip(self.first, self.second, strict=True)
        return stats.paired_shift([b - a - by for a, b in pairs])

    def blocks(self) -> list[float] | None:
        """The ratio of each block."""
        if not self.matched:
            return None
        return [math.exp(b - a) for a, b in zip(self.first, self.second, strict=True)]

    def needed(self, family: int) -> int:
        """The minimum number of blocks, or of runs of each set, for a decision. ``family``: number
        of comparisons that share the level."""
        if self.matched:
            return stats.blocks_needed(family, LEVEL)
        number = 1
        while 2 / math.comb(2 * number, number) > LEVEL / family:
            number += 1
        return number


def rank(quantity: Mapping[str, Any]) -> tuple[bool, bool, bool, int]:
    """The order of quantities: loaded before idle, on a time grid before others, times before
    others, threads before handlers."""
    context = quantity["context"]
    known = CONTEXTS.index(context) if context in CONTEXTS else len(CONTEXTS)
    grid = quantity["method"].get("interval", "none") != "none"
    return quantity["load"]["name"] == "idle", not grid, quantity["unit"] != "ns", known


def outranked(
    quantity: Mapping[str, Any], absent: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The quantities that a set lacks and that rank before ``quantity``, which all sets have."""

    def order(one: Mapping[str, Any]) -> tuple[bool, bool]:
        return one["load"]["name"] == "idle", one["unit"] != "ns"

    return [one for one in absent if one["name"] and order(one) < order(quantity)]


def decisive(quantities: Sequence[Mapping[str, Any]]) -> int | None:
    """The place of the primary quantity, the first by ``rank``. None without quantities."""
    return min(range(len(quantities)), key=lambda at: rank(quantities[at]), default=None)


def main_statistic(quantity: Mapping[str, Any]) -> str:
    """The statistic to judge unless another one is named: the tail, or the median without a
    tail."""
    return "50" if quantity["tail"] is None else "tail"


def named(quantities: Sequence[Mapping[str, Any]], words: str) -> tuple[int, str]:
    """The quantity and the statistic that words such as ``timer irq max`` mean: parts of a
    measurement, a series, a context, a load, what tells quantities apart, and a statistic (median,
    a percentile or ``tail``, max, rate). Raises UsageError unless exactly one matches."""
    wanted = set(words.lower().replace("%", " ").replace(",", " ").replace(":", " ").split())
    found = []
    for at, quantity in enumerate(quantities):
        if quantity["unit"] != "ns":
            continue
        for name in STATISTICS:
            if (name == "tail" and quantity["tail"] is None) or (
                name == "rate" and quantity["budget"] is None
            ):
                continue
            own = {"50": {"50", "median"}, "tail": {"tail", str(quantity["tail"])}}.get(
                name, {name}
            )
            if not own & wanted and name != main_statistic(quantity):
                continue
            if wanted <= own | _words(quantity):
                found.append((at, name))
    if len(found) == 1:
        return found[0]
    said = [
        " ".join([*_names(quantities[at]), {"50": "median"}.get(name, name)])
        for at, name in found or [(at, "") for at in range(len(quantities))]
    ]
    listed = "; ".join(text.strip() for text in said[:6]) + ("; …" if len(said) > 6 else "")
    raise UsageError(
        f"'{words}' matches {len(found) or 'none'} of the compared quantities",
        f"name one of: {listed}" if listed else "the systems have no quantity in common",
    )


def _names(quantity: Mapping[str, Any]) -> list[str]:
    parts = [quantity["measurement"], quantity["name"], quantity["context"], *quantity["told"]]
    return [*filter(None, parts), quantity["load"]["name"]]


def _words(quantity: Mapping[str, Any]) -> set[str]:
    joined = " ".join(_names(quantity)).lower()
    return set(joined.replace(",", " ").replace(":", " ").split())


def decisions(
    runs: Sequence[Run],
    quantities: Sequence[Mapping[str, Any]],
    within: float = WITHIN,
    primary: tuple[int, str] | None = None,
) -> list[Document]:
    """The comparisons of each set with the first one, the primary quantity's first.

    Only times are judged, where less is better. ``within``: the margin of "equivalent".
    ``primary``: the place of a quantity and a statistic; None: the main one of the first by
    ``rank``.
    """
    if primary is None and (first := decisive(quantities)) is not None:
        primary = first, main_statistic(quantities[first])
    by_id = {run["id"]: run for run in runs}
    prints = {run["id"]: fingerprint(run) or str(run["id"]) for run in runs}
    found: list[tuple[Document, _Evidence]] = []
    for at, quantity in enumerate(quantities):
        first = quantity["rows"][0]
        if quantity["unit"] != "ns" or first["set"] != 0:
            continue
        for row in quantity["rows"][1:]:
            for name in STATISTICS:
                if not _has(first, row, name, quantity):
                    continue
                evidence = _evidence(first, row, name, by_id, prints)
                document: Document = {
                    "quantity": at,
                    "set": row["set"],
                    "statistic": name,
                    "primary": (at, name) == primary,
                    "matched": evidence.matched,
                    "runs": [len(evidence.first), len(evidence.second)],
                    "copies": list(evidence.copies),
                    "blocks": evidence.blocks(),
                }
                found.append((document, evidence))
    _judge([one for one in found if one[0]["primary"]], within)
    _judge([one for one in found if not one[0]["primary"]], within)
    return sorted((document for document, _ in found), key=lambda one: not one["primary"])


def _has(
    first: Mapping[str, Any], second: Mapping[str, Any], name: str, quantity: Mapping[str, Any]
) -> bool:
    """Whether two rows of a quantity have a figure at all."""
    if name == "rate":
        runs = [*first["runs"], *second["runs"]]
        return quantity["budget"] is not None and any(one["over"] for one in runs)
    return name != "tail" or quantity["tail"] is not None


@dataclass(frozen=True)
class Uneven:
    """The min and max of what the runs have, and whether only missed periods differ."""

    fewest: int
    most: int
    missed: bool
    what: str
    """What is counted: ``samples``, for a rate with the missed periods."""
    answers: bool = False
    """Whether missed periods are events without an answer."""

    @property
    def why(self) -> str:
        """Why they differ."""
        if not self.missed:
            return "unequal numbers of samples"
        return "unanswered events differ" if self.answers else "missed periods differ"

    @property
    def text(self) -> str:
        """Why, and how much: ``unequal numbers of samples (900 to 1 000 a run)``."""
        extent = f"{numbers.count(self.fewest)} to {numbers.count(self.most)}"
        what = "" if self.why.endswith(self.what) else f" {self.what}"
        return f"{self.why} ({extent}{what} a run)"

    @property
    def remedy(self) -> str:
        """What makes the figures comparable."""
        if self.missed and self.answers:
            return "find out why events had no answer (rtgauge show RUN)"
        if self.missed:
            return "find out why periods were missed (rtgauge show RUN), or use a longer --interval"
        return "use equal lengths (--for or --samples) on equally many CPUs (--cpu)"


def uneven(name: str, *rows: Mapping[str, Any], answers: bool = False) -> Uneven | None:
    """How the numbers of samples of the complete runs of these rows differ, if they differ too much
    for the statistic ``name``; else None. ``answers``: whether a missed period is an event without
    an answer."""
    runs = [one for row in rows for one in row["runs"] if one["complete"]]
    due = [one["count"] + one["missed"] for one in runs]
    # a rate is the share of all that were due
    counts = due if name == "rate" else [one["count"] for one in runs]
    if name not in ("max", "rate") or _even(counts):
        return None
    what = "samples"
    if name == "rate":
        what = "events" if answers else "samples and missed periods"
    return Uneven(min(counts), max(counts), _even(due), what, answers)


def unknown(name: str, *rows: Mapping[str, Any]) -> int:
    """The number of complete runs of these rows whose figure has no logarithm: it is not above 0,
    or is unknown because events had no answer, samples were lost or missed periods were later than
    all samples."""
    runs = [one for row in rows for one in row["runs"] if one["complete"]]
    return sum(_value(one, name) is None for one in runs)


def short_waits(name: str, *rows: Mapping[str, Any]) -> int:
    """The number of events of the complete runs of these rows that keep the statistic ``name`` from
    being known: they had no answer, and were not waited for as long as the budget."""
    runs = [one for row in rows for one in row["runs"] if one["complete"]]
    return sum(int(one.get("short_waits", 0)) for one in runs) if name == "rate" else 0


def _even(counts: Sequence[int]) -> bool:
    return not counts or max(counts) <= LENGTH * min(counts)


def _value(run: Mapping[str, Any], name: str) -> float | None:
    """The logarithm of a run's figure; None without one. For a rate, half a sample is added
    to those over the budget, so that a run without any has a value. With samples of unknown value
    there is no rate."""
    if name == "rate" and (run.get("unknown") or run.get("short_waits")):
        return None
    if name == "rate":
        return math.log((run["over"] + 0.5) / (run["count"] + run["missed"]))
    value = run["figures"][name]
    if value is None or value <= 0 or isinstance(value, numbers.AtLeast):
        return None
    return math.log(value)


def _evidence(
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    name: str,
    by_id: Mapping[str, Run],
    prints: Mapping[str, str],
) -> _Evidence:
    # What a failed or interrupted step measured until then is not a figure of the whole.
    whole = [[one for one in row["runs"] if one["complete"]] for row in (first, second)]
    sides = [
        {one["run"]: value for one in runs if (value := _value(one, name)) is not None}
        for runs in whole
    ]
    dropped = unknown(name, first, second) > 0
    coarse = name == "rate" and any(one["over"] < COUNTED for runs in whole for one in runs)
    unlike = uneven(name, first, second) is not None
    short = short_waits(name, first, second) > 0
    steps = [math.gcd(*(int(one.get("resolution_ns", 0)) for one in runs)) for runs in whole]
    exact = name == "max"  # exact even in a histogram
    parts = [[0.0 if exact else one.get("bucket", 0.0) for one in runs] for runs in whole]
    blur = bias = 0.0
    if name != "rate":
        most = [max(each, default=0.0) for each in parts]
        blur = blurred([*sides[0].values(), *sides[1].values()], steps) + bucketed(max(most))
        if steps[0] != steps[1] or len({math.fsum(each) / len(each) for each in parts if each}) > 1:
            bias = max(
                blurred(list(side.values()), [step]) + bucketed(part)
                for side, step, part in zip(sides, steps, most, strict=True)
            )
    blocks = [_blocks(side, by_id) for side in sides]
    if all(blocks):
        seen = set()
        pairs: list[tuple[str, str]] = []
        again = 0
        for key in (key for key in blocks[0] if key in blocks[1]):
            pair = blocks[0][key], blocks[1][key]
            fingerprint = tuple(prints[one] for one in pair)
            if fingerprint in seen:
                again += 1
            else:
                seen.add(fingerprint)
                pairs.append(pair)
        # Where one side alone has copies, pairs would count one of its runs several times.
        if pairs and all(len({prints[one] for one in side}) == len(side)
                         for side in zip(*pairs, strict=True)):  # fmt: skip
            return _Evidence(
                [sides[0][a] for a, _ in pairs],
                [sides[1][b] for _, b in pairs],
                matched=True,
                dropped=dropped,
                copies=(again, again),
                coarse=coarse,
                uneven=unlike,
                short=short,
                blur=blur,
                bias=bias,
            )
    values = []
    for side in sides:
        once = {prints[run]: value for run, value in reversed(side.items())}
        values.append(list(once.values()))
    left_out = len(sides[0]) - len(values[0]), len(sides[1]) - len(values[1])
    return _Evidence(
        values[0],
        values[1],
        matched=False,
        dropped=dropped,
        copies=left_out,
        coarse=coarse,
        uneven=unlike,
        short=short,
        blur=blur,
        bias=bias,
    )


def blurred(values: Sequence[float], steps: Sequence[int]) -> float:
    """By how much the resolution of figures may change the logarithm of their ratio. ``values``:
    the logarithms of the figures. ``steps``: the resolution of each system, in ns. A true value
    lies within the largest step of the smallest figure."""
    part = max(steps) * math.exp(-min(values, default=0.0))
    return -math.log1p(-part) if part < 1 else math.inf


def bucketed(part: float) -> float:
    """By how much buckets may change the logarithm of a ratio. ``part``: their width as a part of
    their values, 0 if the samples were kept. Each figure is the upper end of a bucket."""
    return math.log1p(part)


def resolution(counts: stats.Counts, counter_hz: int) -> int:
    """The resolution of the different values of a series, in ns: the distance of which all
    distances between them are multiples. Or the period of the CPU's counter, if no values are
    nearer but for two roundings, or only a histogram was kept. 0 for constant values, and for a
    histogram, without a counter."""
    gaps = np.diff(counts.values) if counts.exact else counts.values[:0]
    period = round(1e9 / counter_hz) if counter_hz else 0
    clear = gaps[gaps > 1].min(initial=period) >= period - 2
    return max(int(np.gcd.reduce(gaps)), period if clear else 0)


def _blocks(side: Mapping[str, float], by_id: Mapping[str, Run]) -> dict[tuple[str, int], str]:
    """The runs of a set by study and repeat; empty unless each is the only one of its repeat."""
    found: dict[tuple[str, int], str] = {}
    for name in side:
        run = by_id[name]
        key = (str(run["study"] or ""), int(run["repeat"]))
        if not key[0] or key in found:
            return {}
        found[key] = name
    return found


def _judge(family: Sequence[tuple[Document, _Evidence]], within: float) -> None:
    """Add ratio, interval, p-values and verdict to the documents of a family."""
    judged: list[tuple[Document, _Evidence, stats.Shift]] = []
    for document, evidence in family:
        few = not evidence.first or not evidence.second
        many = len(evidence.first) + len(evidence.second) > stats.RUNS_LIMIT
        if few or many or evidence.uneven:
            document.update(ratio=None, interval=None, p=None, p_adjusted=None, needed=None)
            document["beyond"] = False
            few = few and not (evidence.short or evidence.dropped)
            document["verdict"] = "not enough runs" if few else "not decided"
        else:
            judged.append((document, evidence, evidence.shift()))
    margin = math.log1p(within)
    unequal = [_beyond(evidence, found, 0.0, evidence.bias) for _, evidence, found in judged]
    different = stats.holm(unequal)
    close = stats.holm([_within(evidence, found, margin) for _, evidence, found in judged])
    far = stats.holm(
        [_beyond(evidence, found, margin, evidence.blur) for _, evidence, found in judged]
    )
    for at, (document, evidence, found) in enumerate(judged):
        document.update(
            ratio=math.exp(found.estimate),
            interval=_interval(evidence, found),
            p=unequal[at],
            p_adjusted=different[at],
            needed=None,
            beyond=far[at] <= LEVEL and not evidence.dropped,
        )
        if evidence.dropped:
            document["verdict"] = "not decided"
        elif close[at] <= LEVEL and not evidence.coarse:
            document["verdict"] = "equivalent"
        elif different[at] <= LEVEL and found.estimate != 0:
            document["verdict"] = "better" if found.estimate < 0 else "worse"
        elif found.least_p * len(judged) > LEVEL:
            document["verdict"] = "not enough runs"
            document["needed"] = evidence.needed(len(judged))
        else:
            document["verdict"] = "not decided"
            distance, fits = abs(found.estimate) - evidence.bias, margin - evidence.blur
            if abs(found.estimate) < fits:
                distance = max(distance, fits)
            document["needed"] = stats.runs_needed(found, distance)


def _interval(evidence: _Evidence, found: stats.Shift) -> list[float] | None:
    """The interval of the ratio of the true figures: that of the runs, widened by the resolution. A
    direction that the runs show stays shown. None if it is not finite."""
    low, high = found.low - evidence.blur, found.high + evidence.blur
    if found.low > evidence.bias:
        low = max(low, 0.0)
    if found.high < -evidence.bias:
        high = min(high, 0.0)
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    return [math.exp(low), math.exp(high)]


def _within(evidence: _Evidence, found: stats.Shift, margin: float) -> float:
    """The p-value of the claim that a ratio is within the margin: that of the interval which just
    fits, so twice the larger of two one-sided tests (Schuirmann 1987)."""
    margin -= evidence.blur
    if abs(found.estimate) >= margin:
        return 1.0
    return max(evidence.shift(end).p for end in (-margin, margin))


def _beyond(evidence: _Evidence, found: stats.Shift, margin: float, blur: float) -> float:
    """The p-value of the claim that a ratio is beyond the margin, in the direction seen. ``blur``:
    by how much its logarithm may be wrong."""
    margin += blur
    if margin == 0:
        return found.p
    if abs(found.estimate) <= margin:
        return 1.0
    return evidence.shift(math.copysign(margin, found.estimate)).p
