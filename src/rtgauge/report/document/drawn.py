# SPDX-License-Identifier: Apache-2.0
"""Which pictures the report has of a quantity, each with its title and what to look for in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report import pictures
from rtgauge.report.pictures.drawing import CROWD
from rtgauge.report.pictures.strips import Strip

__all__ = ["against_view", "drawn_views"]


def against_view(over: Mapping[str, Any]) -> dict[str, Any]:
    """The values against an option, such as the number of waiters."""
    return _view(
        "against",
        f"Against {over['label']}",
        f"The line joins the medians. The band reaches from the min to the 99{numbers.GAP}% "
        "value, or to the max if there are too few samples. Triangles are the maxima. Look for "
        f"growth with {over['label']}: a flat line is a constant cost.",
    )


def drawn_views(
    picture: Mapping[str, Any],
    series: int,
    below: Sequence[Strip],
    *,
    grid: bool,
    answers: bool = False,
) -> list[dict[str, Any]]:
    """The pictures of a quantity in the order of the page. ``picture``: their data, ``series``:
    number of series, ``below``: strips below the picture over time, ``grid``: whether the samples
    have due times, ``answers``: whether they are answers to events."""
    corrected = any(row is not None for row in picture["ccdf"]["corrected"])
    views = [
        _view(
            "histogram",
            "Number of samples per value",
            "The body shows the usual case. Look at single samples far to the right: the maximum "
            "is among them.",
            full=False,
        ),
        _view(
            "ccdf",
            "Share of samples at least this large",
            "A steep end suggests an upper limit. A long flat tail suggests that a longer run "
            "will show higher values."
            + (" Dashed: corrected for missed periods." if corrected else ""),
            full=False,
        ),
    ]
    if picture["time"] is not None:
        caption = _over_time(picture["time"], series, answers) + pictures.untimed(picture)
        views.append(_view("time", "Values over time", caption))
    for at, one in enumerate(below):
        # Consecutive loads have the same caption.
        caption = "" if at and below[at - 1].caption == one.caption else one.caption
        views.append(_view("strip", f"{one.title} ({one.unit})", caption))
    if picture["heat"] is not None:
        together = series > len(picture["heat"]["maps"])
        views.append(
            _view(
                "heat",
                "Samples over time and value",
                f"{_DARKER}{', of all series together' if together else ''}. The line joins the "
                "maxima: none is averaged away. Look for bands separate from the body, and for "
                f"what begins, ends or recurs.{pictures.untimed(picture)}",
            )
        )
    if series > CROWD:
        views.append(
            _view(
                "series",
                "Series side by side",
                f"A column for each series. {_DARKER}. The dot is the maximum. Look for columns "
                "that differ from their neighbours.",
            )
        )
    if picture["window"] is not None:
        views += _windows(picture, grid, answers)
    return views


_DARKER: Final = "The darker a cell (in the dark theme: the lighter), the more samples it contains"


def _view(kind: str, title: str, caption: str, full: bool = True) -> dict[str, Any]:
    return {"kind": kind, "full": full, "title": title, "caption": caption}


def _over_time(time: Mapping[str, Any], series: int, answers: bool) -> str:
    """The caption of the values over time."""
    look = "Look for steps, slopes and peaks at regular intervals."
    if series <= 2:
        caption = (
            "The line is the max of each bin, the dotted line its median, and the band reaches "
            f"down to the min. {look}"
        )
    elif series <= 8:
        caption = (
            "Each line is the max of one series, and the band spans all samples of all series. "
            f"With one or two series shown, their medians appear. {look}"
        )
    else:
        whose = " of all series" if time["floor"] else ""
        caption = (
            "The line is the max of all series, each dot has the colour of its series, and the "
            f"band reaches down to the min{whose}. {look}"
        )
    kinds = {kind for _, _, kind, _ in time["marks"]}
    missed = "events without an answer" if answers else "periods missed"
    words = {"missed": f"{missed} (filled, red)", "lost": "samples lost (hollow, amber)"}
    if marks := [text for kind, text in words.items() if kind in kinds]:
        caption += f" Triangles: {numbers.join(marks)}."
    return caption


def _windows(picture: Mapping[str, Any], grid: bool, answers: bool) -> list[dict[str, Any]]:
    """The single samples around the maximum, and the first ones."""
    loops, time = bool(picture["window"]["loops"]), picture["time"]
    lacking = time is not None and (
        any(kind == "lost" for _, _, kind, _ in time["marks"]) or pictures.untimed(picture)
    )
    gaps = "events had no answer" if answers else "periods were missed"
    gaps += " or samples were not kept" if lacking else ""
    before = "Every sample before and after the maximum, "
    if loops:
        title = "Test loop of the maximum"
        caption = (
            "The samples of the test loop (if it is long, those around the maximum) at their "
            "approximate times. Look for a rhythm, and at what precedes the maximum."
        )
    elif grid:
        title = "Samples around the maximum"
        caption = (
            f"{before}at its due time. Look at what precedes the maximum, and how long the values "
            f"stay high. In gaps, {gaps}."
        )
    else:
        title = "Samples around the maximum"
        caption = f"{before}one after the other. Look at what precedes the maximum, and how long "
        caption += "the values stay high."
    at = " at its due time" if grid else ""
    return [
        _view("around", title, caption, full=False),
        _view(
            "begin",
            "First samples",
            f"Each dot is a sample{at}. Caches and pages are cold at first. Look for how soon the "
            "values settle.",
            full=False,
        ),
    ]
