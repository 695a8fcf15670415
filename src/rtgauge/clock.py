# SPDX-License-Identifier: Apache-2.0
"""Where the host takes its time from: the real clock, or one that only moves when told to.

Whatever waits, times out or stamps asks a ``Clock``, so that a run against the fake target takes
hours of its own time and no time of ours.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

__all__ = ["Clock", "FakeClock", "RealClock"]


class Clock(Protocol):
    """Time that passes, and the date."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    def now(self) -> datetime:
        """The date and time, in UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        ...


class RealClock:
    """The system's clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class FakeClock:
    """A clock that stands still until someone sleeps on it."""

    def __init__(self, start: datetime = datetime(2024, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._passed = 0.0

    def monotonic(self) -> float:
        return self._passed

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed)

    def sleep(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time does not go back")
        self._passed += seconds
