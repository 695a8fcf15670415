# SPDX-License-Identifier: Apache-2.0
"""The published figures for a step: the same quantity, measured by others on other systems."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge import reference
from rtgauge import text as numbers
from rtgauge.report.results.labels import ORDINARY, group_series, is_response

__all__ = ["CAUTION", "place_text", "places", "published"]

MOST: Final = 4
"""Maximum number of published rows for a quantity."""

CAUTION: Final = (
    "Others measured these figures on other boards, kernels and loads. They show the order of "
    "magnitude to expect, and are not a ranking."
)

ENOUGH: Final = 3
"""Minimum number of published maxima for a place among them."""

Series = Mapping[str, Any]


def published(step: Mapping[str, Any], run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The published rows for a step of the results model, in the model's form.

    They have the measurement and series of the step, and its value where the variant names a label
    or an option. Preferred are, in this order: the same label, the same real-time model, a load if
    the step had one, Linux itself. There is one row for each board and variant.
    """
    known = [row for row in reference.rows() if row.measurement == step["measurement"]]
    found = []
    places = [p for p, one in enumerate(run["series"]) if one["step"] == step["step"]]
    for members in group_series(run["series"], places):
        series = [run["series"][place] for place in members]
        found += _chosen(step, run, _rows(step, series[0]), members, series)
    if any(one["step"] == step["step"] for one in run["tests"]):
        found += [_row(row, []) for row in known if row.verdict and row.min_us is None][:MOST]
    unique: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in found:
        unique.setdefault(tuple(str(value) for key, value in one.items() if key != "series"), one)
    return list(unique.values())


def places(step: Mapping[str, Any], run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The places of a step's maxima among the published ones of the same quantity.

    Compared with rows of the same series, context and label or method, measured under load if the
    step was, and idle if it was. A published maximum known only by a lower bound
    (``max_bound``) counts if that bound is already larger. Series without real-time priority or
    with unanswered events have no place. Among series that differ only in their
    CPU, the one with the highest maximum has a place.
    """
    if step["load"].get("disturb") or run["environment"].get("lab") or step["state"] == "failed":
        return []
    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, one in enumerate(run["series"]):
        if one["step"] == step["step"] and one["max"] is not None and one["unit"] == "ns":
            key = (one["name"], one["context"], one["policy"], *sorted(one["labels"].items()))
            alike.setdefault(key, []).append(place)
    found = []
    for members in alike.values():
        place = max(members, key=lambda place: run["series"][place]["max"])
        one, unanswered = run["series"][place], any(run["series"][p]["missed"] for p in members)
        if one["policy"] in ORDINARY or (unanswered and is_response(one["name"], one["unit"])):
            continue
        own_us = one["max"] / 1000
        rows = _rows(step, one)
        published_us = [
            row.max_us
            for row in rows
            if row.max_us is not None
            and (row.max_bound != "lower" or row.max_us >= own_us)
            and row.context == one["context"] != ""
            and row.load
            and (row.load != "idle") == (step["load"]["name"] != "idle")
            and _fit(row, step, one, rows) >= 0
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
    return (
        f"{one['name']}, max {numbers.shown(one['max'], one['unit']).full}: larger than "
        f"{place['lower']} of {place['published']} published maxima "
        f"({numbers.shown(round(place['least_us'] * 1000), 'ns').full} to "
        f"{numbers.shown(round(place['most_us'] * 1000), 'ns').full}; {one['context']}, {load})"
    )


def _rows(step: Mapping[str, Any], one: Series) -> list[reference.Row]:
    """The published rows of the measurement and series."""
    if is_response(one["name"], one["unit"]):
        # Seen from outside or by itself: the studies measured the same.
        return [row for row in reference.rows() if row.series == one["name"]]
    known = (step["measurement"], one["name"])
    return [row for row in reference.rows() if (row.measurement, row.series) == known]


def _chosen(
    step: Mapping[str, Any],
    run: Mapping[str, Any],
    rows: Sequence[reference.Row],
    places: Sequence[int],
    series: Sequence[Series],
) -> list[dict[str, Any]]:
    if step["load"].get("disturb") or run["environment"].get("lab"):
        return []  # disturbed on purpose, or emulated: no figures of a board
    rated = []
    for row in rows:
        fits = [_fit(row, step, one, rows) for one in series]
        best = max(fits)
        if best < 0:
            continue
        whose = [place for place, fit in zip(places, fits, strict=True) if fit == best]
        loaded = (row.load not in ("", "idle")) == (step["load"]["name"] != "idle")
        same = row.realtime == run["environment"]["realtime"]
        rated.append(((best, same, loaded, row.os == "Linux"), row, whose))
    rated.sort(key=lambda one: one[0], reverse=True)
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for _, row, whose in rated:
        if len(found) < MOST:
            found.setdefault((row.board, row.variant, row.context), _row(row, whose))
    return list(found.values())


def _fit(
    row: reference.Row, step: Mapping[str, Any], one: Series, rows: Sequence[reference.Row]
) -> int:
    """2: a label or option is the same. 0: unknown. -1: it differs."""
    if row.context and one["context"] and row.context != one["context"]:
        return -1
    for name, value in row.labels.items():
        found = one["labels"].get(name, step["parameters"].get(name))
        if found is not None:
            return 2 if found == value else -1
    words = [_words(value) for value in one["labels"].values()]
    if _words(row.variant) in words:
        return 2
    # A label that is another row's variant: then this row is of another kind.
    others = [_words(other.variant) for other in rows]
    return -1 if any(word in others for word in words) else 0


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", text.lower()))


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
        "duration_s": row.duration_s,
        "samples": row.samples,
        "min_us": row.min_us,
        "mean_us": row.avg_us,
        "max_us": row.max_us,
        "max_bound": row.max_bound,
        "value_us": row.value_us,
        "verdict": row.verdict,
        "note": row.note,
        "series": list(series),
    }
