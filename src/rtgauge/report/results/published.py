# SPDX-License-Identifier: Apache-2.0
"""The published figures for a step: the same quantity, measured by others on other systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge import reference
from rtgauge import text as numbers
from rtgauge.report.results.labels import ORDINARY, group_series, is_response, name_among, peak

__all__ = ["CAUTION", "place_text", "places", "published", "published_cost"]

CAUTION: Final = (
    "Others measured these figures on other boards and kernels, and under other loads. They show "
    "the order of magnitude to expect, and are not a ranking."
)

ENOUGH: Final = 3
"""Minimum number of published maxima for a place among them."""

_KINDS: Final = {
    "preempt_rt": "preempt_rt", "cobalt": "xenomai",
    **dict.fromkeys(("full", "lazy", "voluntary", "none"), "none"),
}  # fmt: skip
"""Real-time model of an environment -> the kind of kernel of published.csv."""

Series = Mapping[str, Any]


def published(step: Mapping[str, Any], run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The published rows for a step of the results model, in the model's form.

    They have the measurement, series and context of the step, and its value where the row names a
    label or an option. Rows under the same load are preferred. Without them, these are the rows
    under any load, or the idle ones for an idle step, and else all rows. The rows of one board
    follow each other. Boards with the same label, then with the same kind of kernel come first. A
    step with tables or tests alone has all rows of its measurement.
    """
    emulated = bool(_altered(step) or run["environment"].get("lab"))
    members = [p for p, one in enumerate(run["series"]) if one["step"] == step["step"]]
    if not members:
        rows = [row for row in reference.rows() if row.measurement == step["measurement"]]
        bare = not any(one["step"] == step["step"] for one in (*run["tables"], *run["tests"]))
        return [
            _row(row, [])
            for row in rows
            if not bare and (not emulated or (row.verdict and row.value_us is None))
        ]
    if emulated:
        return []  # disturbed on purpose, or emulated: no figures of a board
    unique: dict[tuple[Any, ...], dict[str, Any]] = {}
    for group in group_series(run["series"], members):
        for one in _chosen(step, run, group):
            unique.setdefault(tuple(str(v) for key, v in one.items() if key != "series"), one)
    return list(unique.values())


def _altered(step: Mapping[str, Any]) -> bool:
    """Whether an injection or the kernel's trace changed the figures of a step."""
    return bool(step["load"].get("disturb")) or "explain_ns" in step["load"]


def places(step: Mapping[str, Any], run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The places of a step's maxima among the published ones of the same quantity.

    They are compared with rows of the same series, context and label or method: those under load if
    the step had a load, else the idle ones. A published maximum known only by a lower bound
    (``max_bound``) counts if that bound is already larger. Series under an unknown load, without
    real-time priority, with unanswered events or with missed periods later than all samples have no
    place. Among series that differ only in their CPU, the one with the highest maximum has a place.
    """
    if _altered(step) or run["environment"].get("lab") or step["state"] == "failed":
        return []
    if step["load"]["name"] == "unknown":
        return []
    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, one in enumerate(run["series"]):
        if one["step"] == step["step"] and peak(one) is not None and one["unit"] == "ns":
            key = (one["name"], one["context"], one["policy"], *sorted(one["labels"].items()))
            alike.setdefault(key, []).append(place)
    found = []
    for members in alike.values():
        place = max(members, key=lambda place: run["series"][place]["max"] or 0)
        one, unanswered = run["series"][place], any(run["series"][p]["missed"] for p in members)
        if one["policy"] in ORDINARY or (unanswered and is_response(one["name"], one["unit"])):
            continue
        if any(run["series"][member]["max_at_least"] is not None for member in members):
            continue
        own_us = one["max"] / 1000
        published_us = [
            row.max_us
            for row in _rows(step, one)
            if row.max_us is not None
            and (row.max_bound != "lower" or row.max_us >= own_us)
            and row.context == one["context"] != ""
            and row.load
            and (row.load != "idle") == (step["load"]["name"] != "idle")
            and _fit(row, step, one) >= 0
        ]
        if len(published_us) >= ENOUGH:
            found.append(
                {
                    "series": place,
                    "lower": sum(value < own_us for value in published_us),
                    "published": len(published_us),
                    "least_us": min(published_us),
                    "most_us": max(published_us),
                }
            )
    return found


def place_text(place: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """The place of a maximum among the published ones, in a sentence."""
    one = run["series"][place["series"]]
    step = next(step for step in run["steps"] if step["step"] == one["step"])
    load = "idle" if step["load"]["name"] == "idle" else "under load"
    placed = sorted({place["series"], *(other["series"] for other in step["places"])})
    name = name_among([run["series"][at] for at in placed], placed.index(place["series"]))
    lower, every = place["lower"], place["published"]
    many = {0: f"not larger than any of {every}", every: f"larger than all {every}"}
    larger = many.get(lower, f"larger than {lower} of {every}")
    return (
        f"{name}, max {numbers.shown(one['max'], one['unit']).full}: {larger} "
        f"published maxima "
        f"({numbers.exact(place['least_us'])}{numbers.GAP}µs to "
        f"{numbers.exact(place['most_us'])}{numbers.GAP}µs, {one['context']}, {load})"
    )


def _rows(step: Mapping[str, Any], one: Series) -> list[reference.Row]:
    """The published rows of the measurement and series."""
    if is_response(one["name"], one["unit"]):
        # The studies measured the same, from outside or on the system itself.
        return [row for row in reference.rows() if row.series == one["name"]]
    known = (step["measurement"], one["name"])
    return [row for row in reference.rows() if (row.measurement, row.series) == known]


def _chosen(
    step: Mapping[str, Any], run: Mapping[str, Any], members: Sequence[int]
) -> list[dict[str, Any]]:
    """The rows for the series of one quantity, at ``members``."""
    series = [run["series"][place] for place in members]
    fitting = []
    for row in _rows(step, series[0]):
        fits = [_fit(row, step, one) for one in series]
        if (best := max(fits)) >= 0:
            whose = [place for place, fit in zip(members, fits, strict=True) if fit == best]
            fitting.append((_alike(row.load, str(step["load"]["name"])), best, row, whose))
    closest = max((load for load, *_ in fitting), default=0)
    kind = _KINDS.get(run["environment"]["realtime"], "")
    rated = [
        ((best, row.realtime == kind, row.os == "Linux"), row, whose)
        for load, best, row, whose in fitting
        if load == closest
    ]
    rated.sort(key=lambda one: one[0], reverse=True)
    boards = list(dict.fromkeys((row.source, row.board) for _, row, _ in rated))
    rated.sort(key=lambda one: boards.index((one[1].source, one[1].board)))
    return [_row(row, whose) for _, row, whose in rated]


def _alike(published: str, load: str) -> int:
    """How alike a published load is: 2: the same. 1: both idle or both not. 0: not alike."""
    if published in (load.partition(":")[0], "" if load == "idle" else load):
        return 2
    return int((published not in ("", "idle")) == (load != "idle"))


def _fit(row: reference.Row, step: Mapping[str, Any], one: Series) -> int:
    """1: the labels or options that the row names are the same. 0: the row does not name a label
    or an option of the series. -1: a label, an option or the context differs."""
    if row.context and one["context"] and row.context != one["context"]:
        return -1
    known = {**step["parameters"], **one["labels"]}
    same = [known[name] == value for name, value in row.labels.items() if name in known]
    return (1 if all(same) else -1) if same else 0


def _row(row: reference.Row, series: Sequence[int]) -> dict[str, Any]:
    return {
        "source": row.source,
        "work": reference.works().get(row.source, row.source),
        "board": row.board,
        "cpu": row.cpu,
        "os": row.os,
        "kernel": row.kernel,
        "realtime": row.realtime,
        "name": row.series,
        "variant": row.variant,
        "context": row.context,
        "load": row.load,
        "tool": row.tool,
        "command": row.command,
        "duration_s": row.duration_s,
        "samples": row.samples,
        "min_us": row.min_us,
        "mean_us": row.avg_us,
        "max_us": row.max_us,
        "max_bound": row.max_bound,
        "value_us": row.value_us,
        "generated": row.generated,
        "lost": row.lost,
        "verdict": row.verdict,
        "note": row.note,
        "series": list(series),
    }


def published_cost(kinds: Sequence[str]) -> str:
    """What was published of the throughput of PREEMPT_RT, if one of the kernels has that and
    another has not; empty otherwise. ``kinds``: the real-time models."""
    if len({kind == "preempt_rt" for kind in kinds}) < 2:
        return ""
    told = [row for row in reference.rows() if row.measurement == "throughput"]
    return " ".join(f"Published for PREEMPT_RT: {row.note} ({row.source})." for row in told)
