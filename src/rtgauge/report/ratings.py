# SPDX-License-Identifier: Apache-2.0
"""Ratings of a run from 0 to 10: those that a rule gives, from the results model alone, and those
that the evaluator gave in the plan for what no program can judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ratings"]


def ratings(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The ratings of a run of the results model, those by rule in the order of its chapters."""
    return _given(run["plan"])


def _given(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The evaluator's ratings, as the plan has them; what is none is left out."""
    given = plan.get("ratings")
    found = []
    for one in given if isinstance(given, list) else ():
        if not isinstance(one, Mapping):
            continue
        rating = one.get("rating")
        if isinstance(rating, bool) or not isinstance(rating, int | float) or not 0 <= rating <= 10:
            continue
        found.append(
            {
                "subject": str(one.get("subject") or ""),
                "rating": rating,
                "rule": "",
                "evidence": str(one.get("reason") or ""),
                "by": "evaluator",
            }
        )
    return found
