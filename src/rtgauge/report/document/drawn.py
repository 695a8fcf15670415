# SPDX-License-Identifier: Apache-2.0
"""Which pictures the report has of a quantity, each with its title and what to look for in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rtgauge import text as numbers
from rtgauge.report.pictures.drawing import CROWD
from rtgauge.report.pictures.strips import Strip

__all__ = ["against_view", "drawn_views"]


def against_view(over: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "against",
        "full": True,
        "title": f"Against {over['label']}",
        "caption": "The line joins the medians. The band reaches from the min to the 99 % value, "
        "or to the max if there are too few samples. Triangles are the maxima. Look for growth "
        f"with {over['label']}: a flat line is a constant cost.",
    }


def drawn_views(
    picture: Mapping[str, Any], series: int, below: Sequence[Strip], grid: bool
) -> list[dict[str, Any]]:
    corrected = any(row is not None for row in picture["ccdf"]["corrected"])
    views: list[dict[str, Any]] = [
        {
            "kind": "histogram",
            "full": False,
            "title": "Number of samples per value",
            "caption": "The body shows the usual case. Look at single samples far to the right: "
            "they decide.",
        },
        {
            "kind": "ccdf",
            "full": False,
            "title": "Share of samples at least this large",
            "caption": "A steep end suggests an upper limit. A long flat tail means that a longer "
            "run will show higher values."
            + (" Dashed: corrected for missed periods." if corrected else ""),
        },
    ]
    if picture["time"] is not None:
        marks = {kind for _, _, kind, _ in picture["time"]["marks"]}
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
            caption = (
                "The line is the max of all series, each dot has the colour of its series, and the "
                "band reaches down to the min"
                + (" of all series" if picture["time"]["floor"] else "")
                + f". {look}"
            )
        if marks:
            caption += (
                " Triangles: "
                + numbers.join(
                    [
                        text
                        for kind, text in (
                            ("missed", "periods missed (red)"),
                            ("lost", "samples lost (amber)"),
                        )
                        if kind in marks
                    ]
                )
                + "."
            )
        views.append(
            {"kind": "time", "full": True, "title": "Values over time", "caption": caption}
        )
    views += [
        {
            "kind": "strip",
            "full": True,
            "title": f"{one.title} ({one.unit})",
            # Consecutive loads have the same caption.
            "caption": "" if at and below[at - 1].caption == one.caption else one.caption,
        }
        for at, one in enumerate(below)
    ]
    if picture["heat"] is not None:
        together = series > len(picture["heat"]["maps"])
        caption = (
            "The darker a cell (in the dark theme: the lighter), the more samples it contains"
            + (", of all series together" if together else "")
            + ". The line joins the maxima: none is averaged away. Look for bands separate from "
            "the body, and for what begins, ends or recurs."
        )
        views.append(
            {
                "kind": "heat",
                "full": True,
                "title": "Samples over time and value",
                "caption": caption,
            }
        )
    if series > CROWD:
        views.append(
            {
                "kind": "series",
                "full": True,
                "title": "Series side by side",
                "caption": "A column for each series. The darker a cell (in the dark theme: the "
                "lighter), the more samples it contains. The dot is the maximum. Look for columns "
                "that differ from their neighbours.",
            }
        )
    if picture["window"] is not None:
        views.append(
            {
                "kind": "around",
                "full": False,
                "title": "Test loop of the maximum"
                if picture["window"]["loops"]
                else "Samples around the maximum",
                "caption": "Every sample of that loop at its approximate time. Look for a rhythm, "
                "and for what precedes the maximum."
                if picture["window"]["loops"]
                else "Every sample before and after the maximum, "
                + (
                    "at its due time. Look for what precedes it, how long it lasts, and for gaps, "
                    "where periods were missed."
                    if grid
                    else "one after the other. Look for what precedes it, and how long it lasts."
                ),
            }
        )
        views.append(
            {
                "kind": "begin",
                "full": False,
                "title": "First samples",
                "caption": ("Each dot is a sample" + (" at its due time" if grid else ""))
                + ". Caches and pages are cold at first. Look for how soon the values settle.",
            }
        )
    return views
