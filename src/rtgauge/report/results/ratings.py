# SPDX-License-Identifier: Apache-2.0
"""The evaluator's ratings, points and notes on what no program can judge, as the plan has them
(docs/reference/plans.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtgauge import reference

__all__ = ["notes", "points", "published_ratings", "rating_text", "ratings"]


def ratings(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The ratings of a stored plan, in the model's form; a damaged one is left out."""
    given = plan.get("ratings")
    found = []
    for one in given if isinstance(given, list) else ():
        if not isinstance(one, Mapping):
            continue
        rating = one.get("rating")
        if isinstance(rating, bool) or not isinstance(rating, int | float):
            if rating != "N.A.":
                continue
        elif not 0 <= rating <= 10:
            continue
        reason = str(one.get("reason") or "")
        found.append({"subject": str(one.get("subject") or ""), "rating": rating, "reason": reason})
    return found


def points(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    """What the evaluator says for and against the system; a damaged point is left out."""
    given = plan.get("points")
    return [
        {"favour": one["favour"], "text": str(one.get("text") or "")}
        for one in (given if isinstance(given, list) else ())
        if isinstance(one, Mapping) and one.get("favour") in ("for", "against")
    ]


def notes(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    """The evaluator's texts with their subjects."""
    given = plan.get("notes")
    texts = given.items() if isinstance(given, Mapping) else ()
    return [{"subject": str(subject), "text": str(text)} for subject, text in texts]


def published_ratings() -> str:
    """The ratings that published evaluations gave."""
    rows = [row for row in reference.rows() if row.measurement == "rating"]
    return " ".join(
        f"Published for {row.os} {row.kernel}: {row.note} ({row.source})." for row in rows
    )


def rating_text(rating: float | str) -> str:
    """A rating as it is shown: ``7.5 of 10``, ``N.A.``."""
    return rating if isinstance(rating, str) else f"{rating:g} of 10"
