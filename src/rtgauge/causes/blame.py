# SPDX-License-Identifier: Apache-2.0
"""The blame for a sample: class and task of the segments that took most of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.causes.model import CHOICE, CLASSES, LATE, UNTIL, Segment, Task

__all__ = [
    "blame", "host_of", "main_segment", "microseconds", "ordinary", "reason", "untraced_ns",
]  # fmt: skip

ORDINARY: Final = 2.0
NEAR_NS: Final = 3_000


def ordinary(latency_ns: int, median_ns: float, near_ns: int = NEAR_NS) -> bool:
    """Whether a sample is ordinary: within twice the median of its series, or at most ``near_ns``
    above.

    A handler takes about 1 µs, and the delivery of an interrupt varies by as much. An operation of
    a test loop waits for no interrupt, so that ``near_ns`` is 0 for it."""
    return latency_ns <= max(ORDINARY * median_ns, median_ns + near_ns)


def untraced_ns(segments: Sequence[Segment], latency_ns: int) -> int:
    """The latency of a sample without the time that the trace itself took."""
    return latency_ns - sum(one.length_ns for one in segments if one.kind == "trace")


def blame(
    segments: Sequence[Segment], latency_ns: int, median_ns: float
) -> tuple[str, Segment | None]:
    """The sentence, and the segment that it is about; None for an ordinary sample. A sample that is
    ordinary without the time of the trace is ordinary."""
    near_ns = 0 if any(one.kind == "operation" for one in segments) else NEAR_NS
    without_ns = untraced_ns(segments, latency_ns)
    if ordinary(without_ns, median_ns, near_ns):
        text = "nothing: an ordinary sample. The median of the series is "
        text += microseconds(int(median_ns))
        if not ordinary(latency_ns, median_ns, near_ns):
            text += f". The trace took {microseconds(latency_ns - without_ns)} of this sample"
        return text, None
    main = main_segment(segments)
    if main is None:
        return "", None
    rest = latency_ns - sum(one.length_ns for one in segments)
    if rest > main.length_ns:
        return f"not seen: {_part(rest, latency_ns)} is not explained", None
    return f"{_sentence(main)} ({_part(main.length_ns, latency_ns)})", main


def main_segment(segments: Sequence[Segment]) -> Segment | None:
    """What took most of a sample: segments of one class and task together, as one segment. Those of
    a handler or softirq have one function, and those of a lock one function and one owner. The
    trace itself is not blamed."""
    segments = [one for one in _owned(segments) if one.kind != "trace"]
    total: Counter[tuple[str, str, Task | None]] = Counter()
    for one in segments:
        total[_key(one)] += one.length_ns
    if not total:
        return None
    key, length = total.most_common(1)[0]
    same = [one for one in segments if _key(one) == key]
    return replace(max(same, key=lambda one: one.length_ns), length_ns=length)


def _owned(segments: Sequence[Segment]) -> list[Segment]:
    """The segments, those of a lock with the owner. In some of a replay the waiting task itself
    runs, before it leaves the CPU and after it is back. A trace has no functions, and a segment
    without an owner there may be of another lock."""
    owned = list(segments)
    for places in (range(len(owned)), reversed(range(len(owned)))):
        owners: dict[str, Task] = {}
        for place in places:
            one = owned[place]
            if one.kind != "lock" or not one.function:
                continue
            if one.owner:
                owners[one.function] = one.owner
            elif one.function in owners:
                owned[place] = replace(one, owner=owners[one.function])
    return owned


def _key(segment: Segment) -> tuple[str, str, Task | None]:
    named = segment.kind in ("lock", "interrupt", "softirq") or not segment.task
    name = segment.function if named or not segment.task else segment.task.name
    return segment.kind, name, segment.owner if segment.kind == "lock" else None


def _sentence(main: Segment) -> str:
    task = main.task.name if main.task else "an unknown task"
    rank = f"{main.task.policy} {main.task.priority}" if main.task and main.task.priority else ""
    owner = f", held by {main.owner.name}" if main.owner else ""
    where = f": {main.function}" if main.function else ""
    if (main.kind, main.function) == ("hardware", LATE):
        return "the interrupt came late, although interrupts were enabled"
    if (main.kind, main.function) == ("switch", CHOICE):
        return f"the scheduler chose a task of lower priority: {task}"
    if (main.kind, main.function) == ("switch", UNTIL) and task == "idle":
        return "the idle task ran until the task switch"
    if (main.kind, main.function) == ("switch", UNTIL):
        return f"task {task} ran until the task switch, no longer than usual"
    return {
        "hardware": f"nothing ran: the processor was idle{where}",
        "interrupts-off": f"interrupts were off{where}, task {task}",
        "interrupt": f"an interrupt handler ran{where}",
        "softirq": f"a softirq ran{where}",
        "preemption-off": f"task {task} was not preempted{where}",
        "higher-priority": f"a task of higher or equal priority ran: {task} {rank}".rstrip(),
        "lock": f"waited for a lock{f' in {main.function}' if main.function else ''}{owner}",
        "operation": f"the operation itself took this long{where}",
        "switch": f"the task switch itself{where}",
        "return": f"the return to the task{where}",
    }.get(main.kind, CLASSES[main.kind])


def reason(text: str) -> str:
    """A blame without the figures of its sample and series."""
    if text.startswith("not seen:"):
        return "not seen: most of the time is not explained"
    return text.rpartition(" (")[0] or text.partition(". ")[0]


def microseconds(ns: int) -> str:
    """A time as the sentences on a cause have it."""
    return numbers.shown(ns, "ns").full


def _part(ns: int, latency_ns: int) -> str:
    """A part of a sample, with the digits that tell it from the whole."""
    part, whole = numbers.shown(ns, "ns", latency_ns), numbers.shown(latency_ns, "ns", ns)
    return f"{part.text} of {whole.full}"


def host_of(environment: Mapping[str, Any]) -> str:
    """What may take time from the system without the knowledge of its kernel; empty for nothing.
    Counted boards have no such time."""
    lab, found = environment.get("lab"), environment.get("virtualisation")
    if isinstance(lab, dict) and lab:
        return "" if lab.get("mode") == "counted" else "the host of the emulator"
    known = isinstance(found, dict) and (found.get("hypervisor") or found.get("steal"))
    return "the hypervisor" if known else ""
