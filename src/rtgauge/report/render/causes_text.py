# SPDX-License-Identifier: Apache-2.0
"""Causes for the terminal: one table for each sample, whatever its source."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from rtgauge.causes.blame import microseconds, reason
from rtgauge.causes.model import CLASSES, Cause, Segment
from rtgauge.report.results.again import with_store
from rtgauge.text import count, to_the_ns

__all__ = ["common", "lines"]

WIDTH: Final = 80
SEGMENTS_MAX: Final = 12
FUNCTIONS_SHOWN: Final = 3
STACK_SHOWN: Final = 4
_FIGURE: Final = 8
"""Least width of the column of times."""
_CLASS: Final = max(len(words) for words in CLASSES.values()) + 2


def lines(cause: Cause, title: str, note: str = "", store: str = "") -> list[str]:
    """A sample with its segments, blame and remedies. ``title``: measurement and series.
    ``store``: the store to name in printed commands; empty for the default."""
    named = f", {cause.context} context" if cause.context else ""
    text = f"{title}{named}, sample {count(cause.index)}: {microseconds(cause.latency_ns)}"
    found = [text if not note else f"{text}   {note}"] if len(text + note) < WIDTH - 3 else [text]
    if note and len(found[0]) == len(text):
        found.append(f"  {note}")
    found += _table(cause)
    found += _paragraph("blame", cause.blame)
    for number, remedy in enumerate(cause.remedies):
        found += _paragraph("" if number else "try", remedy.text)
        if remedy.command:
            found.append(f"        {with_store(remedy.command, store)}")
    if cause.unseen:
        found += _paragraph("unseen", cause.unseen)
    if cause.cost.added_ns:
        found += _paragraph("cost", cause.cost.text)
    return found


def _table(cause: Cause) -> Iterator[str]:
    segments = _joined(cause.segments)
    longest = sorted(range(len(segments)), key=lambda place: -segments[place].length_ns)
    shown = [segments[place] for place in sorted(longest[:SEGMENTS_MAX])]
    largest = max((one.length_ns for one in shown), default=0)
    rest = sum(one.length_ns for one in segments) - sum(one.length_ns for one in shown)
    times = [largest, rest, cause.rest_ns]
    width = max(_FIGURE, *(len(to_the_ns(ns)) for ns in times))
    for number, one in enumerate(shown):
        yield from _row(one, width, first=number == 0, stack=one.length_ns == largest)
    left = len(segments) - len(shown)
    if left:
        named = "segment" if left == 1 else "segments"
        yield f"{to_the_ns(rest):>{width}}     in {left} more {named}"
    if cause.rest_ns:
        yield f"{to_the_ns(cause.rest_ns):>{width}}     not explained"


def _joined(segments: Sequence[Segment]) -> list[Segment]:
    """The segments, neighbours merged: the two halves of a switch, the parts of a wait for a
    lock."""
    found: list[Segment] = []
    for one in segments:
        last = found[-1] if found else None
        if last and last.kind == one.kind and _together(last, one):
            longer = max(last, one, key=lambda each: each.length_ns)
            found[-1] = Segment(
                last.begin_ns,
                last.length_ns + one.length_ns,
                one.kind,
                one.certainty,
                one.task,
                longer.function,
                longer.stack,
                one.owner or last.owner,
                longer.functions,
            )
        else:
            found.append(one)
    return found


def _together(one: Segment, two: Segment) -> bool:
    if one.kind != "lock":
        return one.kind == "switch"
    owners = {each.owner for each in (one, two) if each.owner or not each.function}
    return one.function == two.function and len(owners) < 2


def _row(segment: Segment, width: int, *, first: bool, stack: bool) -> Iterator[str]:
    unit = " µs" if first else "   "
    head = f"{to_the_ns(segment.length_ns):>{width}}{unit}  "
    head += f"{CLASSES[segment.kind]:<{_CLASS}}"
    yield _cut(head + _detail(segment))
    if stack and segment.stack:
        names = list(segment.stack)
        if len(names) > STACK_SHOWN:
            names = [*names[: STACK_SHOWN - 1], "…", names[-1]]
        yield _cut(" " * (width + 5) + " < ".join(names))


def _detail(segment: Segment) -> str:
    task = segment.task
    if segment.kind == "lock":
        held = f"held by {segment.owner.name}" if segment.owner else ""
        where = f"in {segment.function}" if segment.function else ""
        return ", ".join(filter(None, (where, held)))
    if segment.kind in ("interrupt", "softirq"):
        return segment.function
    name = "" if task is None else f"{task.name}"
    if task is not None and task.priority and segment.kind == "higher-priority":
        name += f" ({task.policy} {task.priority})"
    parts = [f"{to_the_ns(ns)} {function}" for function, ns in segment.functions[:FUNCTIONS_SHOWN]]
    more = " …" if len(segment.functions) > FUNCTIONS_SHOWN else ""
    if not parts and segment.function:
        parts = [segment.function]
    return ": ".join(filter(None, (name, ", ".join(parts)))) + more


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _paragraph(word: str, text: str) -> list[str]:
    if not text:
        return []
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"{word:<8}", subsequent_indent=" " * 8, break_long_words=False
    )


def _which(causes: Sequence[Cause]) -> str:
    """Which samples these are, the worst of each of their series. A trace has the worst one and the
    last ones."""
    if any(one.source != "replay" for one in causes):
        return f"{len(causes)} traced samples"
    series = Counter((one.step, one.series) for one in causes)
    if len(series) < 2:
        return f"the {len(causes)} worst"
    if len(set(series.values())) > 1:
        return f"{len(causes)} samples of {len(series)} series"
    each = len(causes) // len(series)
    return f"the {f'{each} ' if each > 1 else ''}worst of each of {len(series)} series"


def common(causes: Sequence[Cause]) -> list[str]:
    """What the samples of each context have in common, one line each. Those of several
    series of one context are counted together."""
    found = []
    for context in dict.fromkeys(one.context for one in causes):
        mine = [one for one in causes if one.context == context]
        if len(mine) < 2:
            continue
        reasons = Counter(filter(None, (reason(one.blame) for one in mine)))
        if not reasons:
            continue
        named = f" in {context} context" if context else ""
        found.append(f"{_which(mine)}{named}:")
        for words, number in reasons.most_common(3):
            found += textwrap.wrap(
                f"{number:>4}  {words}", WIDTH, subsequent_indent=" " * 6, break_long_words=False
            )
        if len(reasons) > 3:
            left = sum(number for _, number in reasons.most_common()[3:])
            found.append(f"{left:>4}  for other reasons")
    return found
