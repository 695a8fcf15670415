# SPDX-License-Identifier: Apache-2.0
"""The blame for a sample: class and task of the segments that took most of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rtgauge.causes.model import CLASSES, Segment

__all__ = ["ORDINARY", "blame", "main_segment", "microseconds"]

ORDINARY: Final = 2.0
"""A sample within this many times the median of its series is an ordinary one."""


def blame(
    segments: Sequence[Segment], latency_ns: int, median_ns: float
) -> tuple[str, Segment | None]:
    """The sentence, and the segment that it is about; None if nobody is to blame."""
    if latency_ns <= ORDINARY * median_ns:
        median = microseconds(int(median_ns))
        return f"nobody: an ordinary sample. The median of the series is {median}", None
    main = main_segment(segments)
    if main is None:
        return "", None
    took = f"{main.length_ns / 1000:.3f} of {microseconds(latency_ns)}"
    return f"{_sentence(main)} ({took})", main


def main_segment(segments: Sequence[Segment]) -> Segment | None:
    """What took most of a sample: segments of one class and task together, as one segment."""
    total: Counter[tuple[str, str]] = Counter()
    for one in segments:
        total[_key(one)] += one.length_ns
    if not total:
        return None
    key, length = total.most_common(1)[0]
    same = [one for one in segments if _key(one) == key]
    owner = next((one.owner for one in same if one.owner), None)
    longest = max(same, key=lambda one: one.length_ns)
    return replace(longest, length_ns=length, owner=owner)


def _key(segment: Segment) -> tuple[str, str]:
    lock = segment.kind == "lock"
    return segment.kind, segment.function if lock or not segment.task else segment.task.name


def _sentence(main: Segment) -> str:
    task = main.task.name if main.task else "an unknown task"
    rank = f"{main.task.policy} {main.task.priority}" if main.task and main.task.priority else ""
    owner = f", held by {main.owner.name}" if main.owner else ""
    where = f": {main.function}" if main.function else ""
    return {
        "hardware": f"nothing ran: the processor was halted{where}",
        "interrupts-off": f"interrupts were off{where}, task {task}",
        "interrupt": f"an interrupt handler ran{where}",
        "softirq": f"a softirq ran{where}",
        "preemption-off": f"task {task} was not preempted{where}",
        "higher-priority": f"a task of higher or equal priority ran: {task} {rank}".rstrip(),
        "lock": f"waited for a lock{f' in {main.function}' if main.function else ''}{owner}",
        "switch": f"the switch of tasks itself{where}",
        "return": f"the return to the task{where}",
    }.get(main.kind, CLASSES[main.kind])


def microseconds(ns: int) -> str:
    """A time as every figure of a cause is written."""
    return f"{ns / 1000:.3f} µs"
