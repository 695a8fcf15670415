# SPDX-License-Identifier: Apache-2.0
"""Causes as a trace that Perfetto and other viewers open: the JSON form of trace events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rtgauge.causes.blame import microseconds
from rtgauge.causes.model import CLASSES, Cause

__all__ = ["SUFFIX", "trace"]

SUFFIX: Final = ".trace.json"


def trace(causes: Sequence[Cause]) -> dict[str, Any]:
    """The document. Each sample is a process, each task in it a thread; times count from the due
    time of the sample, in microseconds."""
    return {
        "displayTimeUnit": "ns",
        "traceEvents": [
            event for number, cause in enumerate(causes, 1) for event in _events(cause, number)
        ],
    }


def _events(cause: Cause, number: int) -> Iterator[dict[str, Any]]:
    title = f"{cause.context or 'sample'} {cause.index}: {microseconds(cause.latency_ns)}"
    yield _name("process_name", number, 0, title)
    threads: dict[tuple[int, str], int] = {}
    for segment in cause.segments:
        task = segment.task
        key = (task.pid, task.name) if task else (-1, "unknown task")
        if key not in threads:
            threads[key] = len(threads) + 1
            pid = f" ({key[0]})" if key[0] >= 0 else ""
            yield _name("thread_name", number, threads[key], f"{key[1]}{pid}")
        yield {
            "name": ": ".join(filter(None, (CLASSES[segment.kind], segment.function))),
            "cat": segment.kind,
            "ph": "X",
            "ts": segment.begin_ns / 1000,
            "dur": segment.length_ns / 1000,
            "pid": number,
            "tid": threads[key],
            "args": {
                "stack": list(segment.stack),
                "functions_ns": dict(segment.functions),
                "certainty": segment.certainty,
                **({"owner": segment.owner.name} if segment.owner else {}),
            },
        }


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
