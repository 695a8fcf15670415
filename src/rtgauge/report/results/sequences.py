# SPDX-License-Identifier: Apache-2.0
"""The order of events: the evidence of tests, as lanes of threads.

A table with the columns of ``SHAPE`` is such evidence for any measurement. Events are drawn in
their order. Between two events of one CPU, the thread of the first ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rtgauge import text as numbers

__all__ = ["Event", "Sequenced", "is_sequence", "sequences"]

SHAPE: Final = (("rule", ""), ("time", "ns"), ("thread", ""), ("event", ""))

MOST: Final = 40
"""Maximum number of events of a rule that are drawn. The table has all."""


@dataclass(frozen=True)
class Event:
    """An event in its lane: the time since the first event, and what happened."""

    lane: int
    time: str
    what: str


@dataclass(frozen=True)
class Sequenced:
    """The events of one rule, in their order, and its threads in the order of their first
    events."""

    rule: str
    result: str
    lanes: Sequence[str]
    events: Sequence[Event]
    left_out: int

    @property
    def text(self) -> str:
        """The same in words, for screen readers."""
        return ", ".join(
            f"{self.lanes[one.lane]} {one.what} at {one.time}{numbers.GAP}µs" for one in self.events
        )


def is_sequence(table: Mapping[str, Any]) -> bool:
    """Whether a table of the results model is such evidence."""
    return tuple((one["name"], one["unit"]) for one in table["columns"]) == SHAPE


def sequences(run: Mapping[str, Any], step: int) -> list[Sequenced]:
    """What the tables of a step say of the order of events, rule by rule."""
    rules: dict[str, list[tuple[int, str, str]]] = {}
    for table in run["tables"]:
        if table["step"] == step and is_sequence(table):
            for rule, time, thread, what in table["rows"]:
                if isinstance(time, int):
                    rules.setdefault(str(rule), []).append((time, str(thread), str(what)))
    results = {one["rule"]: one["result"] for one in run["tests"] if one["step"] == step}
    found = []
    for rule, rows in rules.items():
        lanes = list(dict.fromkeys(thread for _, thread, _ in rows[:MOST]))
        events = [
            Event(lanes.index(thread), numbers.shown(time - rows[0][0], "ns").text, what)
            for time, thread, what in rows[:MOST]
        ]
        left = len(rows) - len(events)
        found.append(Sequenced(rule, results.get(rule, ""), lanes, events, left))
    return found
