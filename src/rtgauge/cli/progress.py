# SPDX-License-Identifier: Apache-2.0
"""What is seen of a run while it is measured: on a terminal one line that keeps up to date,
elsewhere a line when a step begins and one when it ends."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from rtgauge.cli.output import format_seconds
from rtgauge.facts import printable
from rtgauge.plan import describe_step
from rtgauge.run import LiveStep, RunOutcome

__all__ = ["ConsoleProgress", "fitted", "measured"]

REFRESH_S = 0.1
# Kept free at the end of the line: what is typed there, such as ^C, must not break it.
FREE = 4


def _quantity(value: float, unit: str) -> str:
    if unit != "us":
        return f"{value:.0f}"
    value /= 1000
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def measured(live: LiveStep) -> list[str]:
    """What is known so far of the step's first quantity, over all its series: maximum, mean,
    minimum and number of samples, the most important first."""
    found = [one for one in live.series.values() if one.info.companion is None and one.count]
    if not found:
        return []
    name, unit, scale = found[0].info.name, found[0].info.unit, found[0].info.scale
    same = [one for one in found if one.info.name == name]
    count = sum(one.count for one in same)
    high = max(one.max for one in same) * scale
    if unit == "ns" and high >= 1000:
        unit = "us"
    shown = [
        _quantity(value, unit)
        for value in (
            min(one.min for one in same) * scale,
            sum(one.sum for one in same) / count * scale,
            high,
        )
    ]
    return [f"{name} max {shown[2]} {unit}", f"mean {shown[1]}", f"min {shown[0]}",
            f"{count} samples"]  # fmt: skip


def fitted(head: str, gap: str, fields: Sequence[str], columns: int | None) -> str:
    """The head and as many of the fields as have room; a field is there in full or not at all."""
    text = head
    for place, field in enumerate(fields):
        longer = f"{text}{', ' if place else gap}{field}"
        if columns is not None and len(longer) > columns:
            break
        text = longer
    return text if columns is None or len(text) <= columns else f"{text[: columns - 1]}…"


class ConsoleProgress:
    """Writes the progress of runs to ``stream`` (stderr)."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._place = ""
        self._shown = 0.0
        self._standing = False  # a line that is not ended yet

    def run_started(self, document: Mapping[str, Any], number: int, total: int) -> None:
        """Say which run this is."""
        of = f" ({number} of {total})" if total > 1 else ""
        self._line(f"run {document['id']}{of} on {document['target']}")

    def step_started(self, live: LiveStep, number: int, total: int) -> None:
        """Say which step begins."""
        self._place = f"[{number}/{total}] " if number else "calibration: "
        if not self._live:
            self._line(f"{self._place}{describe_step(live.step)} …")

    def step_went_on(self, live: LiveStep) -> None:
        """Bring the line up to date."""
        now = time.monotonic()
        if not self._live or now - self._shown < REFRESH_S:
            return
        self._shown = now
        passed = format_seconds(live.elapsed_s)
        if live.expected_s is not None:
            left = max(0.0, live.expected_s - live.elapsed_s)
            passed = f"{format_seconds(left)} left"
        load = "" if live.step.load == "idle" else f", {live.step.load}"
        head = f"{self._place}{live.step.measurement}{load}: {passed}"
        fields = [printable(one) for one in measured(live)]
        text = fitted(printable(head), "  ", fields, self._columns())
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()
        self._standing = True

    def step_ended(self, live: LiveStep, entry: Mapping[str, Any]) -> None:
        """Say how the step ended."""
        head = f"{self._place}{describe_step(live.step)}: {entry['state']}"
        self._line(fitted(head, "; ", measured(live), self._columns() if self._live else None))
        if entry["reason"]:
            self._line(f"  {entry['reason']}")

    def run_ended(self, outcome: RunOutcome) -> None:
        """Nothing: the results follow."""

    def message(self, text: str) -> None:
        """Say something in between; the line that stands there, with what was typed, stays."""
        if self._standing:
            self._stream.write("\n")
            self._standing = False
        self._line(text)

    def _columns(self) -> int:
        return max(shutil.get_terminal_size((80, 24)).columns - FREE, 20)

    def _line(self, text: str) -> None:
        begin = "\r\x1b[K" if self._live else ""
        indent = " " * (len(text) - len(text.lstrip()))
        self._stream.write(f"{begin}{indent}{printable(' '.join(text.split()))}\n")
        self._stream.flush()
        self._standing = False
