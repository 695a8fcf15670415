# SPDX-License-Identifier: Apache-2.0
"""How series, loads and levels are called, the same in the terminal and in the report."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from rtgauge.report import numbers

__all__ = ["Level", "group_series", "series_labels", "work_text"]


class Level(enum.IntEnum):
    """The weight of a finding."""

    OK = 0
    NOTE = 1
    WARNING = 2
    ERROR = 3

    @staticmethod
    def of(name: str) -> Level:
        """The level of that name; an unknown one is a note."""
        return Level.__members__.get(name.upper(), Level.NOTE)


def group_series(series: Sequence[Mapping[str, Any]], places: Sequence[int]) -> list[list[int]]:
    """The places of series that can share a picture: one quantity, context and unit; in order."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for place in places:
        one = series[place]
        groups.setdefault((one["name"], one["context"], one["unit"]), []).append(place)
    return list(groups.values())


def series_labels(series: Sequence[Mapping[str, Any]]) -> list[str]:
    """A short distinct name for each series of a group: what tells it from its neighbours."""
    cpus = [one["cpu"] for one in series]
    keys = list(dict.fromkeys(key for one in series for key in one["labels"]))
    varying = [key for key in keys if len({one["labels"].get(key) for one in series}) > 1]
    labels = []
    for one in series:
        words = []
        if one["cpu"] >= 0 and (len(set(cpus)) > 1 or not varying):
            words.append(f"CPU {one['cpu']}")
        words += [f"{key} {one['labels'].get(key, '–')}" for key in varying]
        labels.append(", ".join(words) or one["name"])
    if len(set(labels)) < len(labels):
        labels = [
            f"{label}, thread {one['thread']}" if one["thread"] >= 0 else label
            for label, one in zip(labels, series, strict=True)
        ]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({at + 1})" for at, label in enumerate(labels)]
    return labels


def work_text(load: Mapping[str, Any]) -> str:
    """What the loads of a step did: ``sched 12 300 messages/s, cpu 410 loops/s``."""
    rates = [
        (one["name"], numbers.rate(one["work_rate"], one["unit"]))
        for one in load["loads"]
        if one["work_rate"] is not None
    ]
    if len(rates) == 1:
        return rates[0][1]
    return ", ".join(f"{name} {rate}" for name, rate in rates)
