# SPDX-License-Identifier: Apache-2.0
"""What a tune shows: the effect of each factor on the tail of one quantity, and the confirmation.

Each run gives the logarithm of one percentile, so that effects are ratios. The effects come from
least squares over the runs of the design (``rtgauge.stats.effects``); Holm's correction is over all
factors. The confirmation compares the best configuration with the present one in blocks of their
own (``rtgauge.stats.shift``), so the choice of the best does not flatter it.
docs/reference/statistics.md, "Effects of settings", shows the error rates.
"""

from __future__ import annotations

import functools
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rtgauge import stats
from rtgauge import text as numbers
from rtgauge.report.results import gather, schemas
from rtgauge.report.results.model import Analysis
from rtgauge.report.sets.decide import LEVEL, WITHIN, blurred, bucketed, rank, resolution
from rtgauge.stats import Counts, Effect
from rtgauge.units import read_interrupts

__all__ = ["helpful", "judged", "tuned", "validate"]

Document: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[int, str, str, str, str]
"""A quantity of a run: step, measurement, name, context, labels."""

TAIL_MAX: Final = 99.9

_SEVERAL: Final = re.compile(r"([^{}%]*)\{([\d,-]+)\}([^{}%]*)")
"""The name that several settings of a run share: of interrupts with the same affinity."""
_ORDER: Final = ("helps", "hurts", "not decided", "equivalent", "ignored", "fails", "not estimable")


@dataclass(frozen=True)
class _Values:
    """The quantity that decides, and the logarithm of its percentile in each run, by the run's id.

    ``lost``: runs without a value, each with the reason. ``blur``: by how much the resolution of
    the clock may change the logarithm of a ratio."""

    quantity: Document
    of: Mapping[str, float]
    lost: Mapping[str, str]
    blur: float = 0.0


def tuned(record: Mapping[str, Any], analysis: Analysis) -> Document:
    """The record of a tune, completed with the results of its runs: ``value_ns`` of each
    configuration, and the new keys ``quantity``, ``factors`` (in the order of their effects),
    ``interactions``, ``confirmation`` and ``permanent``."""
    values = _values(analysis)
    rows = [dict(row) for row in record["configurations"]]
    for row in rows:
        value = values.of.get(row["run"]) if row["state"] == "complete" else None
        row["value_ns"] = None if value is None else math.exp(value)
        if row["state"] == "complete" and value is None:
            row["reason"] = values.lost.get(row["run"], "the run is not in the store")
    screened = [row for row in rows if row["phase"] == "screen" and row["value_ns"] is not None]
    names = [factor["name"] for factor in record["tried"]]
    factors = _factors(record, screened, names, values.blur)
    _undecide(factors, [row for row in rows if row["phase"] == "screen"], names)
    for factor in factors:
        place = names.index(factor["name"])
        one = record["tried"][place]
        on = {row["run"] for row in screened if place in row["on"]}
        off = {row["run"] for row in screened if place not in row["on"]}
        _unapplied(factor, one, analysis.model["runs"], on, off)
        factor["permanent"] = _permanent(one, analysis, on, off)
    factors.sort(key=lambda one: (_ORDER.index(one["verdict"]), one["ratio"] or math.inf))
    return {
        **record,
        "configurations": rows,
        "quantity": values.quantity,
        "factors": factors,
        "interactions": _interactions(record, screened, names),
        "confirmation": _confirmation(rows, names, values.blur),
    }


def helpful(document: Mapping[str, Any]) -> list[int]:
    """The places of the factors that help: together they are the best configuration."""
    names = [factor["name"] for factor in document["tried"]]
    return sorted(
        names.index(one["name"]) for one in document["factors"] if one["verdict"] == "helps"
    )


# --- values ---------------------------------------------------------------------------------------


def _values(analysis: Analysis) -> _Values:
    runs = analysis.model["runs"]
    members: dict[Key, dict[int, list[int]]] = {}
    described: dict[Key, Document] = {}
    for number, run in enumerate(runs):
        steps = {step["step"]: step for step in run["steps"] if step["role"] == "measurement"}
        for at, one in enumerate(run["series"]):
            step = steps.get(one["step"])
            if step is None or not one["count"] or one["unit"] != "ns":
                continue
            labels = json.dumps(one["labels"], sort_keys=True)
            key = (one["step"], one["measurement"], one["name"], one["context"], labels)
            members.setdefault(key, {}).setdefault(number, []).append(at)
            described.setdefault(key, _described(step, one))
    if not members:
        nothing = {"step": None, "measurement": "", "name": "", "unit": "ns", "context": "",
                   "load": {"name": "idle"}, "crowded": False, "percentile": None}  # fmt: skip
        return _Values(nothing, {}, {run["id"]: _why(run) for run in runs})
    key = min(members, key=lambda one: (rank(described[one]), one[0]))
    counts = {
        number: Counts.merged(
            [analysis.figures[number][analysis.places[number][at]].counts for at in places]
        )
        for number, places in members[key].items()
        if _usable(runs[number], key[0])
    }
    carried = [set(stats.percentile_names(one.count)) for one in counts.values()]
    shared = set.intersection(*carried) if carried else set()
    tail = max((name for name in shared if 50 <= float(name) <= TAIL_MAX), key=float, default=None)
    values: dict[str, float] = {}
    lost = {run["id"]: _why(run) for number, run in enumerate(runs) if number not in counts}
    for number in counts:
        figures = [
            analysis.figures[number][analysis.places[number][at]] for at in members[key][number]
        ]
        value = gather.percentiles(figures, corrected=True).get(tail or "")
        run_id = str(runs[number]["id"])
        if value is None or value <= 0 or isinstance(value, numbers.AtLeast):
            lost[run_id] = (
                "some run has too few samples for a median"
                if tail is None
                else f"it has no {tail}{numbers.GAP}% value: events had no answer, or samples "
                "were lost"
            )
        else:
            values[run_id] = math.log(value)
    described[key]["percentile"] = tail
    described[key]["crowded"] = any(
        step["step"] == key[0] and "others" in step["load"]
        for number in counts
        for step in runs[number]["steps"]
    )
    described[key].pop("method")
    clocks = [
        resolution(one, analysis.counter_hz(number, members[key][number][0]))
        for number, one in counts.items()
    ]
    blur = blurred(list(values.values()), [math.gcd(*clocks)])
    blur += max((bucketed(float(one.resolution)) for one in counts.values()), default=0.0)
    return _Values(described[key], values, lost, blur)


def _described(step: Mapping[str, Any], one: Mapping[str, Any]) -> Document:
    return {
        "step": one["step"],
        "measurement": one["measurement"],
        "name": one["name"],
        "unit": one["unit"],
        "context": one["context"],
        "load": {"name": step["load"]["name"]},
        "method": {"interval": one["interval_ns"] or "none"},
    }


def _usable(run: Mapping[str, Any], number: int) -> bool:
    return any(step["step"] == number and step["state"] == "complete" for step in run["steps"])


def _why(run: Mapping[str, Any]) -> str:
    reasons = [step["reason"] for step in run["steps"] if step["state"] != "complete"]
    return next(filter(None, reasons), "it yielded no series of durations")


# --- effects --------------------------------------------------------------------------------------


def _factors(
    record: Mapping[str, Any], rows: Sequence[Document], names: Sequence[str], blur: float
) -> list[Document]:
    """A row for each factor."""
    found = stats.effects(
        [math.log(row["value_ns"]) for row in rows],
        [row["block"] for row in rows],
        [[place in row["on"] for place in range(len(names))] for row in rows],
        whole=record["design"]["kind"] == "full",
    ) or [None] * len(names)  # fmt: skip
    documents = []
    for place, (effect, (said, p)) in enumerate(zip(found, judged(found, blur), strict=True)):
        name = names[place]
        factor = {"name": name, "kind": record["tried"][place]["kind"], **_effect(effect, p)}
        factor["freedom"] = None if effect is None else effect.freedom
        factor["verdict"], factor["reason"] = said, ""
        if name in record["dropped"]:
            factor["verdict"], factor["reason"] = "fails", record["dropped"][name]
        elif name in record["ignored"]:
            factor["verdict"] = "ignored"
            factor["reason"] = f"the kernel does not know {record['ignored'][name]}"
        elif effect is None:
            factor["reason"] = "too few runs to estimate its effect"
        documents.append(factor)
    return documents


def _undecide(factors: Sequence[Document], rows: Sequence[Document], names: Sequence[str]) -> None:
    """Withdraw verdicts if runs of the design may be missing because of what they measured: the
    others would be a selection of the better runs. Failed runs count as missing by chance if as
    many failed with the factor as without it. Runs that were measured again are not missing."""
    empty = sum(row["state"] == "complete" and row["value_ns"] is None for row in rows)
    failed = [row["on"] for row in rows if row["state"] == "failed" and not row["again"]]
    for factor in factors:
        if factor["verdict"] not in ("helps", "hurts", "equivalent"):
            continue
        on = sum(names.index(factor["name"]) in one for one in failed)
        off = len(failed) - on
        if empty:
            have = "has" if empty == 1 else "have"
            factor["reason"] = f"{numbers.plural(empty, 'run')} {have} no value"
        elif on != off:
            factor["reason"] = f"{numbers.plural(on, 'run')} with it failed and {off} without it"
        else:
            continue
        factor["verdict"] = "not decided"


def _unapplied(
    factor: Document,
    tried: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]],
    on: set[str],
    off: set[str],
) -> None:
    """Withdraw the verdict on a setting or a priority that was not in effect in runs with it."""
    if tried["kind"] == "kernel" or factor["verdict"] in ("fails", "not estimable"):
        return
    without = [run for run in runs if run["id"] in off]
    runs = [run for run in runs if run["id"] in on]
    if tried["kind"] == "priority":
        wanted = tried["values"][0]
        had = [any(str(one["priority"]) == wanted for one in run["series"]) for run in runs]
        reason = "the measuring threads did not get this priority"
    else:
        always = {name for run in without for name in run["environment"]["settings"]}
        own = [
            {
                name: one
                for name, one in run["environment"]["settings"].items()
                if name not in always
            }
            for run in runs
        ]
        had = [any(_changed(one) for one in settings.values()) for settings in own]
        refused = [f"{name}: {one['reason']}" for settings in own
                   for name, one in sorted(settings.items()) if one["reason"]]  # fmt: skip
        reason = "the target has no such setting, or already has this value"
        reason = refused[0] if refused else reason
    if had and not any(had):
        factor["verdict"], factor["reason"] = "ignored", reason
    elif not all(had) and factor["verdict"] == "equivalent":
        factor["verdict"] = "not decided"
        factor["reason"] = f"it was in effect in {sum(had)} of {numbers.plural(len(had), 'run')}"


def _changed(setting: Mapping[str, Any]) -> bool:
    """Whether a setting was changed to the value asked for."""
    return (
        setting["asked"] is not None
        and not setting["reason"]
        and setting["before"] != setting["asked"]
    )


def _effect(effect: Effect | None, adjusted: float | None) -> Document:
    if effect is None or adjusted is None:
        return {"ratio": None, "interval": None, "p": None, "p_adjusted": None}
    return {
        "ratio": math.exp(effect.estimate),
        "interval": [math.exp(effect.low), math.exp(effect.high)],
        "p": effect.p,
        "p_adjusted": adjusted,
    }


def judged(effects: Sequence[Effect | None], blur: float = 0.0) -> list[tuple[str, float | None]]:
    """The verdict on each factor, and its p-value. Holm's correction covers all factors, separately
    for each kind of claim."""
    known = [one for one in effects if one is not None]
    adjusted = iter(stats.holm([one.p for one in known]))
    close = iter(stats.holm([one.within(math.log1p(WITHIN) - blur) for one in known]))
    found: list[tuple[str, float | None]] = []
    for effect in effects:
        if effect is None:
            found.append(("not estimable", None))
            continue
        p = next(adjusted)
        if next(close) <= LEVEL:
            said = "equivalent"
        elif p <= LEVEL:
            said = "helps" if effect.estimate < 0 else "hurts"
        else:
            said = "not decided"
        found.append((said, p))
    return found


def _interactions(
    record: Mapping[str, Any], rows: Sequence[Document], names: Sequence[str]
) -> list[Document]:
    """The suspected interactions of two factors, the most certain first."""
    varied = [
        place
        for place in range(len(names))
        if len({place in row["on"] for row in rows}) > 1
    ]  # fmt: skip
    whole = record["design"]["kind"] == "full"
    found = stats.interactions(
        [math.log(row["value_ns"]) for row in rows],
        [row["block"] for row in rows],
        [[place in row["on"] for place in varied] for row in rows],
        whole=whole,
    )
    adjusted = stats.holm([one.effect.p for one in found])
    sure = sorted(
        (p, one.effect.p, one.first, one.second, one.effect)
        for p, one in zip(adjusted, found, strict=True)
        if p <= LEVEL
    ) if found else []  # fmt: skip
    return [
        {
            "factors": [names[varied[first]], names[varied[second]]],
            **_effect(effect, p),
            "aliased": not whole,
        }
        for p, _, first, second, effect in sure
    ]


# --- the confirmation -----------------------------------------------------------------------------


def _confirmation(rows: Sequence[Document], names: Sequence[str], blur: float) -> Document | None:
    chosen = [row for row in rows if row["phase"] == "confirm"]
    if not chosen:
        return None
    best = max((row["on"] for row in chosen), key=len)
    pairs = []
    for block in sorted({row["block"] for row in chosen}):
        mine = {bool(row["on"]): row["value_ns"] for row in chosen if row["block"] == block}
        if mine.get(False) is not None and mine.get(True) is not None:
            pairs.append((math.log(mine[False]), math.log(mine[True])))
    lost = any(
        row["state"] in ("complete", "failed") and row["value_ns"] is None and not row["again"]
        for row in chosen
    )
    document: Document = {
        "on": [names[place] for place in best],
        "blocks": len(pairs),
        "present_ns": None,
        "best_ns": None,
        "ratio": None,
        "interval": None,
        "p": None,
        "verdict": "not decided" if lost else "not enough runs",
    }
    if not pairs:
        return document
    found = stats.paired_shift([after - before for before, after in pairs])
    known = math.isfinite(found.low)
    margin = math.log1p(WITHIN) - blur
    document |= {
        "present_ns": math.exp(sum(one for one, _ in pairs) / len(pairs)),
        "best_ns": math.exp(sum(other for _, other in pairs) / len(pairs)),
        "ratio": math.exp(found.estimate),
        "interval": [math.exp(found.low), math.exp(found.high)] if known else None,
        "p": found.p,
    }
    if lost:  # the other pairs may be a selection of the better ones
        return document
    if known and -margin <= found.low <= found.high <= margin:
        document["verdict"] = "equivalent"
    elif found.p <= LEVEL:
        document["verdict"] = "better" if found.estimate < 0 else "worse"
    elif found.least_p > LEVEL:
        document["verdict"] = "not enough runs"
    else:
        document["verdict"] = "not decided"
    return document


# --- what makes it permanent ----------------------------------------------------------------------


def _permanent(
    factor: Mapping[str, Any], analysis: Analysis, on: set[str], off: set[str]
) -> list[str]:
    """The commands that make a factor permanent on the target."""
    if factor["kind"] == "kernel":
        # GRUB puts it after GRUB_CMDLINE_LINUX, and the last value of an argument wins.
        line = "GRUB_CMDLINE_LINUX_DEFAULT"
        line = f'{line}="${line} {" ".join(factor["values"])}"'
        return [f"echo {shlex.quote(line)} >> /etc/default/grub.d/rtgauge.cfg"]
    if factor["kind"] == "priority":
        return [f"chrt -f -p {factor['values'][0]} PID"]
    runs = {str(run["id"]): run["environment"]["settings"] for run in analysis.model["runs"]}
    shared = [set(runs[one]) for one in on if one in runs]
    names = set.intersection(*shared) if shared else set()
    for one in off & set(runs):
        names -= set(runs[one])
    some = runs[next(iter(on))] if names else {}
    return [
        _setting(name, str(some[name]["asked"]))
        for name in sorted(names)
        if some[name]["asked"] is not None and some[name].get("effective") == some[name]["asked"]
    ]


def _setting(path: str, value: str) -> str:
    if path.startswith("/proc/sys/"):
        line = f"{path.removeprefix('/proc/sys/').replace('/', '.')} = {value}"
        return f"echo {shlex.quote(line)} >> /etc/sysctl.d/90-rtgauge.conf"
    into = ">> /etc/tmpfiles.d/rtgauge.conf"
    if (several := _SEVERAL.fullmatch(path)) is not None and (items := read_interrupts(several[2])):
        # systemd-tmpfiles expands no ranges in braces
        words = shlex.quote(f"w {several[1]}%s{several[3]} - - - - {value}\\n")
        return f"printf {words} {' '.join(map(str, sorted(items)))} {into}"
    return f"echo {shlex.quote(f'w {path} - - - - {value}')} {into}"


validate = functools.partial(schemas.validate, "rtgauge.report.sets", "tune.schema.json")
"""Raise ``jsonschema.ValidationError`` if the document is not a record of a tune."""
