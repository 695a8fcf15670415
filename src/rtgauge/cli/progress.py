# SPDX-License-Identifier: Apache-2.0
"""What is seen of a run while it is measured: on a terminal one line that keeps up to date,
elsewhere a line when a step begins and one when it ends."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from typing import IO, Any

from rtgauge.cli.output import format_seconds
from rtgauge.facts import printable
from rtgauge.plan import describe_step
from rtgauge.run import LiveStep, RunOutcome

__all__ = ["ConsoleProgress", "measured"]

REFRESH_S = 0.1


def _quantity(value: float, unit: str) -> str:
    if unit != "us":
        return f"{value:.0f}"
    value /= 1000
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def measured(live: LiveStep) -> str:
    """Minimum, mean and maximum so far of the step's first quantity, over all its series."""
    found = [one for one in live.series.values() if one.info.companion is None and one.count]
    if not found:
        return ""
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
    return f"{name} min {shown[0]} mean {shown[1]} max {shown[2]} {unit}, {count} samples"


class ConsoleProgress:
    """Writes the progress of runs to ``stream`` (stderr)."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._place = ""
        self._shown = 0.0

    def run_started(self, document: Mapping[str, Any], number: int, total: int) -> None:
        """Say which run this is."""
        of = f" ({number} of {total})" if total > 1 else ""
        self._line(f"run {document['id']}{of} on {document['target']}")

    def step_started(self, live: LiveStep, number: int, total: int) -> None:
        """Say which step begins."""
        self._place = f"[{number}/{total}] "
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
        text = f"{self._place}{live.step.measurement}, {live.step.load}: {passed}  {measured(live)}"
        columns = shutil.get_terminal_size((80, 24)).columns - 1
        self._stream.write(f"\r\x1b[K{printable(text)[:columns]}")
        self._stream.flush()

    def step_ended(self, live: LiveStep, entry: Mapping[str, Any]) -> None:
        """Say how the step ended."""
        text = f"{self._place}{describe_step(live.step)}: {entry['state']}"
        found = measured(live)
        if found:
            text += f"; {found}"
        if entry["reason"]:
            text += f" ({entry['reason']})"
        self._line(text)

    def run_ended(self, outcome: RunOutcome) -> None:
        """Nothing: the results follow."""

    def message(self, text: str) -> None:
        """Say something in between."""
        self._line(text)

    def _line(self, text: str) -> None:
        begin = "\r\x1b[K" if self._live else ""
        self._stream.write(f"{begin}{printable(' '.join(text.split()))}\n")
        self._stream.flush()
