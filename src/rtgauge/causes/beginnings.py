# SPDX-License-Identifier: Apache-2.0
"""How the samples of a series begin, as the agent's description of the run has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rtgauge.stream import SeriesInfo

__all__ = ["DUE", "EVENT", "LOOP", "how_of"]

DUE: Final = "due"
"""At their due time."""
EVENT: Final = "event"
"""By an event, which comes after their due time."""
LOOP: Final = "loop"
"""Operations of a test loop, which is known to begin at a time."""


def how_of(catalogue: Any, measurement: Any, info: SeriesInfo) -> str:
    """One of these, or empty: at due times that the run does not have.

    ``catalogue``: that of the run, or None. A series that it does not have begins at due times.
    """
    measured = catalogue.get("measurements") if isinstance(catalogue, dict) else None
    for one in measured if isinstance(measured, list) else ():
        for series in one.get("series") or () if one.get("name") == measurement else ():
            if series.get("name") == info.name and series.get("from") != "due time":
                return EVENT if info.interval_ns else LOOP
    return DUE if info.interval_ns else ""
