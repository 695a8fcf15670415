# SPDX-License-Identifier: Apache-2.0
"""Activity of the other CPUs around a sample: the tasks that ran there, and their wake-ups.

All CPUs use the same clock for their events, so times of several CPUs can be compared.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from rtgauge.causes.tracefs.pages import HARDIRQ, SOFTIRQ, Event

__all__ = ["WAKING", "Elsewhere"]

WAKING: Final = "sched/sched_waking"


def _time(event: Event) -> int:
    return event.time_ns


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """``runs``: CPU -> its events, as sequences without a gap. ``cpus``: all other CPUs of the
    system, None if not known."""

    runs: Mapping[int, Sequence[Sequence[Event]]] = field(default_factory=dict)
    cpus: frozenset[int] | None = None

    def events(self) -> Iterator[Event]:
        """All events, those of each CPU by time."""
        for runs in self.runs.values():
            for run in runs:
                yield from run

    def by_cpu(self) -> Iterator[Iterator[Event]]:
        """The events of each CPU by time, with the CPU."""
        for cpu in self.runs:
            yield self._of(cpu)

    def _of(self, cpu: int) -> Iterator[Event]:
        for run in self.runs[cpu]:
            for event in run:
                yield replace(event, cpu=cpu)

    def wakings(self, tasks: Collection[int], begin_ns: int, end_ns: int) -> Iterator[Event]:
        """The wake-ups of these tasks by other CPUs, each with its CPU."""
        for events in self.by_cpu():
            for event in events:
                inside = begin_ns <= event.time_ns < end_ns
                if inside and event.name == WAKING and event.fields.get("pid") in tasks:
                    yield event

    def most(self, cpu: int, begin_ns: int, end_ns: int) -> int | None:
        """The task that a CPU ran for the longest part of this time, 0 if it was idle. None: the
        trace shows less than half of the time."""
        ran: Counter[int] = Counter()
        for run in self.runs.get(cpu, ()):
            place = max(bisect.bisect_right(run, begin_ns, key=_time), 1)
            for at in range(place, len(run)):
                # an event has the task that ran up to it
                since = max(begin_ns, run[at - 1].time_ns)
                until = min(end_ns, run[at].time_ns)
                ran[run[at].pid or 0] += max(0, until - since)
                if run[at].time_ns >= end_ns:
                    break
        shown = 2 * ran.total() >= end_ns - begin_ns
        return ran.most_common(1)[0][0] if shown and ran else None

    def holder(self, begin_ns: int, end_ns: int) -> tuple[int, int] | None:
        """The only task, with its CPU, that another CPU ran at both of these times. None: there are
        several, a CPU ran a handler or different tasks, or the trace does not show all CPUs."""
        found: tuple[int, int] | None = None
        for cpu in self.cpus if self.cpus is not None else ():
            first, last = (self._running(cpu, at) for at in (begin_ns, end_ns))
            if first is None or first != last:
                return None
            if first:
                if found is not None:
                    return None
                found = first, cpu
        return found

    def _running(self, cpu: int, at_ns: int) -> int | None:
        """The task that a CPU ran then, 0 if it was idle. None: not known, or in a handler."""
        for run in self.runs.get(cpu, ()):
            if not run or run[0].time_ns > at_ns or run[-1].time_ns < at_ns:
                continue
            event = run[bisect.bisect_left(run, at_ns, key=_time)]
            entry = event.name.endswith("_entry")
            return None if not entry and (event.flags or 0) & (HARDIRQ | SOFTIRQ) else event.pid
        return None
