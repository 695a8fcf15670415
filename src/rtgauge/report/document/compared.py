# SPDX-License-Identifier: Apache-2.0
"""What a comparison shows, whatever its format: its tables, their rows, and what it leaves out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.results.bounds import SHORT, WAIT
from rtgauge.report.results.cases import Case, Group, RunCases, plain
from rtgauge.report.results.labels import capital, waits_for_answers
from rtgauge.report.sets.compare import FIGURES, method_text, row_name, unreached, where
from rtgauge.report.sets.decide import LEVEL, Uneven, short_waits, uneven
from rtgauge.stats import percentile_names

__all__ = [
    "advice",
    "blocks",
    "comparison_cases",
    "decided",
    "decision_text",
    "explained",
    "figures_of",
    "interval_text",
    "is_judged",
    "is_worse",
    "left_out",
    "marks",
    "methods",
    "probability",
    "rate_texts",
    "ratio",
    "rows",
    "shown_decisions",
    "shown_ratios",
    "told_apart",
    "verdict_cells",
    "verdict_text",
]

Document = Mapping[str, Any]

_CLOSEST: Final = 6
"""Maximum number of decimals that tell a ratio from 1: a smaller difference is that of rounding."""
_HEADS: Final = {"min": "min", "50": "median", "max": "max"}


def figures_of(quantity: Document) -> list[tuple[str, str]]:
    """The columns of figures that a quantity has: the name and the head of each. A quantity without
    a tail percentile has no column for the tail."""
    tail = quantity["tail"]
    heads = _HEADS if tail is None else {**_HEADS, "tail": f"{tail}{numbers.GAP}%"}
    return [(name, heads[name]) for name in FIGURES if name in heads]


def ratio(value: float | None, *limits: float) -> str:
    """A multiple with two decimals at most: ``×4.70``, ``×12.3``, ``×123``; a dash for None. Below
    0.1, and close to 1 or to a limit, as many decimals as tell it from these: ``×0.00340``,
    ``×0.997``."""
    if value is None:
        return "–"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    if 0 < value < 0.1:
        digits = 2 - math.floor(math.log10(value))
    apart = {
        n
        for n in range(digits, _CLOSEST + 1)
        if all(round(value, n) != round(one, n) for one in (1.0, *limits))
    }
    return f"×{value:.{min(apart, default=digits)}f}"


def interval_text(interval: Sequence[float], within: float) -> str:
    """The ends of the interval of a ratio, with the digits that tell them from the margin."""
    margin = 1 + within
    low, high = (ratio(value, margin, 1 / margin).removeprefix("×") for value in interval)
    return f"[{low}, {high}]"


def rate_texts(row: Mapping[str, Any], letters: Sequence[str]) -> list[str]:
    """The work rates of a load as texts, a set each: ``A 98 900 KiB/s``, ``B 92 000 KiB/s (×0.93, 3
    runs, 91 800 KiB/s to 92 400 KiB/s)``."""
    texts = []
    for letter, rates, mean, share in zip(
        letters, row["rates"], row["means"], row["ratios"], strict=True
    ):
        if mean is None:
            continue
        more = [] if share is None else [ratio(share)]
        if len(rates) > 1:
            ends = [numbers.rate(end, row["unit"]) for end in (min(rates), max(rates))]
            said = "all alike" if ends[0] == ends[1] else " to ".join(ends)
            more.append(f"{len(rates)} runs, {said}")
        text = f"{letter} {numbers.rate(mean, row['unit'])}"
        texts.append(text + (f" ({', '.join(more)})" if more else ""))
    return texts


def shown_ratios(document: Document, quantity: Document, row: Document) -> dict[str, float | None]:
    """The ratios of a row to the first set: of the runs where these were compared, else of all
    samples. Empty for the first set."""
    pooled: dict[str, float | None] = dict(row["ratio"] or {})
    at = document["quantities"].index(quantity)
    return pooled | {
        one["statistic"]: one["ratio"]
        for one in document["comparisons"]
        if (one["quantity"], one["set"]) == (at, row["set"])
        and one["ratio"] is not None
        and pooled.get(one["statistic"]) is not None
    }


def told_apart(document: Document, quantity: Document) -> str:
    """What distinguishes a quantity from others of its name and load. Empty if it is unique."""
    contexts = {one["context"] for one in document["quantities"]} - {""}
    context = f"{quantity['context']} context" if quantity["context"] else ""
    alone = contexts <= {"user"}
    return ", ".join([*filter(None, ["" if alone else context]), *quantity["told"]])


def blocks(document: Document) -> list[tuple[str, list[Document]]]:
    """The quantities that share a table, those of one name, load and tail, each with its title.
    Those under load precede the idle ones."""
    ordered = sorted(document["quantities"], key=lambda one: one["load"]["name"] == "idle")
    groups = itertools.groupby(ordered, key=lambda one: (where(one), one["tail"]))
    return [(title, list(members)) for (title, _), members in groups]


def rows(document: Document, quantity: Document) -> Iterator[tuple[list[str], bool]]:
    """Each row of a quantity: its cells, and whether these are ratios to the first set."""
    unit = quantity["unit"]
    names = [name for name, _ in figures_of(quantity)]
    limit = quantity["budget"]
    columns = [
        _in_line([row["figures"][name] for row in quantity["rows"]], unit, limit) for name in names
    ]
    for at, row in enumerate(quantity["rows"]):
        letter = document["sets"][row["set"]]["letter"]
        cells = [letter, numbers.count(row["count"])]
        cells += [column[at] for column in columns]
        cells += [numbers.count(row["missed"]), numbers.count(row["lost"])]
        yield cells, False
        if row["ratio"] is not None:
            first = document["sets"][0]["letter"]
            shares = [ratio(shown_ratios(document, quantity, row)[name]) for name in names]
            yield [f"{letter}/{first}", "", *shares, "", ""], True


def _in_line(values: Sequence[float | None], unit: str, limit: int | None) -> list[str]:
    """Figures of one column with aligned decimal points, none of them rounded to a budget."""
    figures = [numbers.shown(value, unit, limit) for value in values]
    most = max((len(one.decimals) for one in figures), default=0)
    return [
        one.text + " " * (most - len(one.decimals) + (1 if most and not one.decimals else 0))
        for one in figures
    ]


def marks(document: Document, quantity: Document) -> list[str]:
    """What limits the figures of a quantity, a line for each set."""
    return [
        f"{document['sets'][row['set']]['letter']}: {'; '.join(row['marks'])}"
        for row in quantity["rows"]
        if row["marks"]
    ]


def statistic_text(quantity: Document, name: str) -> str:
    """A statistic of a quantity in words: ``median``, ``99.9 %``, ``max``, ``over 150 µs``."""
    if name == "rate":
        return f"over {numbers.shown(quantity['budget'], quantity['unit']).full}"
    return {"50": "median", "max": "max of each run"}.get(name, f"{quantity['tail']}{numbers.GAP}%")


def verdict_text(document: Document, one: Document) -> str:
    """The verdict of a comparison in words, and what is still needed for a decision."""
    second = document["sets"][one["set"]]["letter"]
    margin = numbers.percent(document["within"], 6)
    words = {
        "better": f"{second} is better",
        "worse": f"{second} is worse",
        "equivalent": f"equivalent within {margin}",
        "not decided": "not decided",
        "not enough runs": "not enough runs",
    }[one["verdict"]]
    if one["beyond"] and one["verdict"] in ("better", "worse"):
        words += f", by more than the {margin} margin"
    if unlike := _uneven(document, one):
        words += f", {unlike.why}"
    elif _short_waits(document, one):
        words += f", {SHORT}"
    if not one["needed"]:
        return words
    whose = "blocks" if one["matched"] else "runs of each"
    single = "block" if one["matched"] else "run of each"
    if one["verdict"] == "not enough runs":
        return f"{words}, {numbers.count(one['needed'])} {whose} are needed"
    more = one["needed"] - min(one["runs"])
    kind = f"{single} is" if more == 1 else f"{whose} are"
    return f"{words}, about {numbers.count(more)} more {kind} needed" if more > 0 else words


def _uneven(document: Document, one: Document) -> Uneven | None:
    """The numbers of samples that keep a figure from being judged."""
    if one["verdict"] != "not decided":
        return None
    quantity = document["quantities"][one["quantity"]]
    answers = waits_for_answers(quantity["name"], quantity["unit"])
    return uneven(one["statistic"], *_rows(document, one), answers=answers)


def _short_waits(document: Document, one: Document) -> int:
    """The number of events whose answers were not waited for long enough to judge a figure."""
    if one["verdict"] != "not decided":
        return 0
    return short_waits(one["statistic"], *_rows(document, one))


def _rows(document: Document, one: Document) -> list[Document]:
    """The rows of the two sets of a comparison."""
    quantity = document["quantities"][one["quantity"]]
    return [row for row in quantity["rows"] if row["set"] in (0, one["set"])]


def verdict_cells(document: Document, one: Document) -> list[str]:
    """A comparison as cells: the two sets, statistic, ratio, interval, evidence and verdict."""
    quantity = document["quantities"][one["quantity"]]
    first, second = document["sets"][0]["letter"], document["sets"][one["set"]]["letter"]
    evidence = numbers.plural(one["runs"][0], "block")
    if not one["matched"]:
        evidence = f"{one['runs'][0]} and {numbers.plural(one['runs'][1], 'run')}"
    share = interval = ""
    if one["interval"] is not None:
        interval = interval_text(one["interval"], document["within"])
        share = ratio(one["ratio"])
        evidence = f"p {probability(one['p_adjusted'])}, {evidence}"
    return [
        f"{second}/{first}", statistic_text(quantity, one["statistic"]), share, interval,
        f"{evidence}: {verdict_text(document, one)}",
    ]  # fmt: skip


def probability(p: float) -> str:
    """A p-value with two significant digits, or as many as tell it from the level of a test."""
    digits = (n for n in range(2, _CLOSEST + 1) if float(f"{p:.{n}g}") != LEVEL)
    return f"{p:.{next(digits, 2)}g}"


def decision_text(document: Document, one: Document) -> str:
    """A verdict of the comparison in one line, with its figures."""
    return f"{_title(document, one)}: {_outcome(document, one)}"


def _title(document: Document, one: Document) -> str:
    quantity = document["quantities"][one["quantity"]]
    statistic = statistic_text(quantity, one["statistic"])
    return ", ".join(filter(None, [where(quantity), told_apart(document, quantity), statistic]))


def _outcome(document: Document, one: Document) -> str:
    pair, _, share, interval, verdict = verdict_cells(document, one)
    return f"{pair} {share} {interval}, {verdict}" if share else verdict


def shown_decisions(document: Document) -> list[Document]:
    """The comparisons worth a line, the primary one first: those with an interval or a proven
    direction; a single one where no set has enough runs."""
    found = document["comparisons"]
    return [one for one in found if is_judged(one)] or list(found[:1])


def is_judged(one: Document) -> bool:
    """Whether a comparison has an interval or a proven direction. A direction can be proven where
    the resolution leaves the interval without limits."""
    return one["interval"] is not None or one["verdict"] in ("better", "worse")


def decided(document: Document) -> list[str]:
    """The verdicts in lines, the primary one first. Consecutive verdicts on one quantity name it
    once."""
    said, before = [], None
    for one in shown_decisions(document):
        quantity = document["quantities"][one["quantity"]]
        again = f"{statistic_text(quantity, one['statistic'])}: {_outcome(document, one)}"
        said.append(again if quantity is before else decision_text(document, one))
        before = quantity
    return said


def explained(document: Document) -> str:
    """An explanation of the terms in verdicts with an interval; empty without such a verdict."""
    found = [one for one in shown_decisions(document) if one["interval"] is not None]
    if not found:
        return ""
    first = document["sets"][0]["letter"]
    text = (
        f"×: centre of the runs' ratios to {first} (not the ratio of the figures of all samples), "
    )
    text += f"with its 95{numbers.GAP}% interval in brackets. "
    text += "p: probability of a ratio at least as far from 1 if the systems were alike."
    if any(one["matched"] for one in found):
        text += " Block: one repeat of the study, with each system once."
    return text


def _alike(document: Document, one: Document) -> bool:
    """Whether all ratios of a comparison are the same."""
    if one["blocks"]:
        return len(set(one["blocks"])) == 1
    name = str(one["statistic"])
    values = [{each["figures"].get(name) for each in row["runs"]} for row in _rows(document, one)]
    return all(len(each) == 1 and None not in each for each in values)


def advice(document: Document) -> list[str]:
    """Which runs do not count as evidence, and what would allow a decision; a sentence for each."""
    said: list[str] = []
    copies: list[str] = []
    found = document["comparisons"]
    for at, one in enumerate(document["sets"]):
        letter = one["letter"]
        if missing := _incomplete(document, at):
            said.append(_uncounted(document, at, missing))
        place = 0 if at == 0 else 1
        again = max((c["copies"][place] for c in found if at in (0, c["set"])), default=0)
        if again:
            copies.append(f"{numbers.plural(again, 'run')} of {letter}")
    if copies:
        said.append(
            f"Not counted: {numbers.join(copies)}. Each repeats another run in every figure, as "
            "boots of one image with one seed do. A study with --repeat N gives each repeat a seed "
            "of its own, and lab:BOARD,seed=N sets the seed of one board"
        )
    said += _not_judged(document)
    judged = [one for one in found if not (_uneven(document, one) or _short_waits(document, one))]
    if judged and all(one["verdict"] == "not enough runs" for one in judged):
        needed = judged[0]["needed"] if judged[0]["matched"] else 0
        measured = {target for one in document["sets"] for target in one.get("targets", [])}
        if _of_several_cores(document):
            how = "at least 4 runs with each --core, with one label for each core (rtgauge run … "
            how += "--core CORE --label NAME --repeat 4)"
        elif len(measured) == 1:  # a study has a set for each target
            how = "at least 4 runs of each, under labels (rtgauge run … --label NAME --repeat 4)"
        else:
            how = f"{needed or 6} blocks as a study (rtgauge run … --repeat {needed or 6} with "
            how += "each --target), or at least 4 runs under each label"
        said.append(f"Too few runs to decide: measure {how}")
    same = [one for one in found if one["interval"] and _alike(document, one)]
    if same:
        matched = all(one["matched"] for one in same)
        said.append(
            f"Where all {'blocks have the same ratio' if matched else 'ratios are the same'}, the "
            "values are as coarse as the clock, or constant"
        )
    lost = unreached(document)
    if lost:
        targets = "target" if len(lost) == 1 else "targets"
        said.append(f"Measure {numbers.join(lost)} again when the {targets} can be reached")
    if not document["quantities"] and len(document["sets"]) - len(lost) > 1:
        said.append(
            "No quantity was measured in the same way on two systems. Measure all of them with the "
            "same command, on targets with clocks of the same kind"
        )
    return [f"{text}." for text in said]


def _uncounted(document: Document, at: int, missing: int) -> str:
    """The runs of a set that do not count. In a study, their blocks do not count either."""
    one, several = document["sets"][at], missing > 1
    text = (
        f"{one['letter']}: {missing} of {numbers.plural(len(one['runs']), 'run')} "
        f"{'have' if several else 'has'} no complete figure "
        f"({numbers.join(one['states']) or 'not complete'}) and {'do' if several else 'does'} not "
        "count"
    )
    primary = [each for each in document["comparisons"] if each["primary"]]
    if any(each["matched"] for each in primary if at in (0, each["set"])):
        text += f", nor does the rest of {'their blocks' if several else 'its block'}. To get all "
        text += f"blocks, repeat the study (rtgauge run … --repeat {len(one['runs'])} with each "
        return f"{text}--target)"
    return f"{text}. Measure {'them' if several else 'it'} again"


def _of_several_cores(document: Document) -> bool:
    """Whether the sets are of several cores of one target, which no study measures in blocks."""
    targets = {target for one in document["sets"] for target in one.get("targets", [])}
    return len(targets) == 1 and any(one["name"] == "core name" for one in document["differences"])


def _not_judged(document: Document) -> list[str]:
    """The figures that are not judged because the runs have unequal numbers of samples or too few
    for a median, or because waits for answers were short, each kind in one sentence."""
    said = []
    found = [(one, unlike) for one in document["comparisons"] if (unlike := _uneven(document, one))]
    if found:
        one, unlike = found[0]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        remedy = unlike.remedy[0].upper() + unlike.remedy[1:]
        said.append(
            f"{_title(document, one)}{more}: {unlike.text}, so not judged, because maxima and "
            f"shares over a budget depend on the number of samples. {remedy}"
        )
    if brief := [one for one in document["comparisons"] if _without_median(document, one)]:
        more = f" and {len(brief) - 1} more" if len(brief) > 1 else ""
        said.append(
            f"{_title(document, brief[0])}{more}: not judged, because runs have too few samples "
            "for it. Use longer runs (--for or --samples)"
        )
    if short := [one for one in document["comparisons"] if _short_waits(document, one)]:
        more = f" and {len(short) - 1} more" if len(short) > 1 else ""
        number = numbers.plural(_short_waits(document, short[0]), "event")
        said.append(
            f"{_title(document, short[0])}{more}: not judged, because {SHORT} ({number}). "
            f"{capital(WAIT)}"
        )
    return said


def _without_median(document: Document, one: Document) -> bool:
    """Whether a run is too short for the median that is to be compared."""
    runs = [each for row in _rows(document, one) for each in row["runs"] if each["complete"]]
    return one["statistic"] == "50" and any(
        each["figures"]["50"] is None and not percentile_names(each["count"] + each["missed"])
        for each in runs
    )


def _incomplete(document: Document, at: int) -> int:
    """The number of runs of a set without a complete figure of the primary quantity."""
    primary = [one["quantity"] for one in document["comparisons"] if one["primary"]]
    if not primary:
        return 0
    rows = document["quantities"][primary[0]]["rows"]
    whole = {
        each["run"] for row in rows if row["set"] == at for each in row["runs"] if each["complete"]
    }
    return (
        len(set(document["sets"][at]["runs"]) - whole) if any(r["set"] == at for r in rows) else 0
    )


def comparison_cases(document: Document, started: str) -> RunCases:
    """The comparison as test cases: one fails where worse by more than the margin is proven, and is
    skipped where nothing is decided. ``started``: the date of the suite."""
    groups = []
    for at, one in enumerate(document["sets"][1:], 1):
        cases = []
        for found in document["comparisons"]:
            if found["set"] != at:
                continue
            undecided = found["verdict"] in ("not decided", "not enough runs")
            outcome = "fail" if is_worse(found) else "skip" if undecided else "pass"
            why = "" if outcome == "pass" else plain(verdict_text(document, found))
            line = plain(_outcome(document, found))
            cases.append(Case(plain(_title(document, found)), outcome, why, (line,)))
        first = document["sets"][0]
        groups.append(
            Group(plain(f"{one['letter']} {one['name']} against {first['letter']} {first['name']}"),
                  0.0, tuple(cases))
        )  # fmt: skip
    complete = bool(document["comparisons"])
    nothing = "" if complete else " ".join(advice(document)) or "nothing was compared"
    return RunCases(
        id="comparison",
        name="comparison",
        target="comparison",
        started=plain(started),
        seconds=0.0,
        case=Case("compared", "pass" if complete else "skip", plain(nothing)),
        facts=tuple((f"set {one['letter']}", plain(one["name"])) for one in document["sets"]),
        findings=tuple(plain(text) for text in advice(document)),
        groups=tuple(group for group in groups if group.cases),
    )


def is_worse(one: Document) -> bool:
    """Whether a comparison proves that a set is worse by more than the margin."""
    return bool(one["verdict"] == "worse" and one["beyond"])


def left_out(document: Document) -> list[str]:
    """The quantities that are not compared, with the reason, a sentence for each."""
    letters = [one["letter"] for one in document["sets"]]
    reasons: dict[str, list[str]] = {}
    for one in document["apart"]:
        whose = " and ".join(letters[at] for at in one["sets"])
        reason = f"measured in different ways in {whose}: {one['reason']}"
        reason += f". {one['remedy']}" if one["remedy"] else ""
        reasons.setdefault(reason, []).append(_what(one))
    for one in document["absent"]:
        whose = numbers.join([letters[at] for at in one["sets"]])
        reason = f"not in {whose}: {one['reason']}"
        reasons.setdefault(reason, []).append(_what(one))
    said = []
    for reason, what in reasons.items():
        shown = what[:3] + ([f"{len(what) - 3} more"] if len(what) > 3 else [])
        said.append(f"{'; '.join(shown)}: {reason}")
    return said


def methods(members: Sequence[Document]) -> list[str]:
    """How the quantities of a table were measured; what holds for several is stated once."""
    whose: dict[str, list[str]] = {}
    for one in members:
        whose.setdefault(method_text(one), []).append(row_name(one))
    if len(whose) == 1:
        return list(filter(None, whose))
    return [f"{'; '.join(names)}: {text}" for text, names in whose.items() if text]


def _what(one: Document) -> str:
    context = f", {one['context']} context" if one["context"] else ""
    return f"{where(one)}{context}"
