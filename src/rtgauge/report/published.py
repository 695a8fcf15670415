# SPDX-License-Identifier: Apache-2.0
"""Which published figures stand beside a step: the same quantity, measured by others elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge import reference
from rtgauge.report.labels import group_series
from rtgauge.report.persistence import is_response

__all__ = ["CAUTION", "published"]

MOST: Final = 4
"""So many rows stand beside a quantity at most."""

CAUTION: Final = (
    "Measured by others on other boards, kernels and loads: they say what orders of magnitude to "
    "expect, and are never a ranking."
)

_ANSWERS: Final = ("log-host", "response")
"""What the published figures call the time from an event to its answer."""

Series = Mapping[str, Any]


def published(step: Mapping[str, Any], run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The published rows that stand beside a step of the results model, in the model's form.

    Of the same measurement and series; where the variant names a label or an option, with its
    value. Preferred are, in this order, rows whose label is known to be the same, of the same
    real-time model, loaded or not as the step was, of Linux itself; of each board and variant one.
    """
    known = [row for row in reference.rows() if row.measurement == step["measurement"]]
    found = []
    places = [p for p, one in enumerate(run["series"]) if one["step"] == step["step"]]
    for members in group_series(run["series"], places):
        series = [run["series"][place] for place in members]
        rows = [row for row in known if row.series == series[0]["name"]]
        if is_response(series[0]["name"], series[0]["unit"]):
            # Seen from outside or by itself: the studies measured the same.
            rows = [r for r in reference.rows() if (r.measurement, r.series) == _ANSWERS]
        found += _chosen(step, run, rows, members, series)
    if any(one["step"] == step["step"] for one in run["verdicts"]):
        found += [_row(row, []) for row in known if row.verdict and row.min_us is None][:MOST]
    unique: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in found:
        unique.setdefault(tuple(str(value) for key, value in one.items() if key != "series"), one)
    return list(unique.values())


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
    """2: a label or option is the same; 0: nothing is known against it; -1: another one."""
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
