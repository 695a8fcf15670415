# SPDX-License-Identifier: Apache-2.0
"""Runs that were measured with ``--mark``, and the line as an analyser recorded it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captures import session
from rtgauge.store import Store, StoredRun, new_run_id
from rtgauge.store.made import Subject, import_header, run_document, step_document, write_run
from rtgauge.stream import StreamWriter, Tally

US = 1000
WHEN = 1.7e9
LINES = (
    "[global]\nsigrok version=0.5.2\n\n[device 1]\ncapturefile=logic-1\n"
    "total probes=2\nsamplerate=1 MHz\nprobe1=D0\nprobe2=D1\nunitsize=1\n"
)
LOOP = 5
"""Samples in a test loop."""


def catalogue(name: str, mark: dict[str, str]) -> dict[str, Any]:
    return {
        "format": "rtgauge-catalogue", "version": 1, "agent": "1", "libc": "", "loads": [],
        "measurements": [{
            "name": name, "code": "", "summary": name, "role": "measurement",
            "chapter": "Semaphores", "contexts": ["user"], "options": [], "tables": [],
            "verdicts": [], "mark": mark,
            "series": [{"name": one, "unit": "ns", "meaning": one, "from": "a", "to": "b",
                        "stages": []} for one in ("acquire", "release", "latency", "batch")],
        }],
    }  # fmt: skip


def marked_run(
    store: Store,
    series: dict[str, NDArray[np.int64]],
    *,
    interval_ns: int = 0,
    offsets: NDArray[np.int64] | None = None,
    mark: str = "gpio:gpiochip0:17",
    kind: str = "span",
    when: float = WHEN,
) -> StoredRun:
    """A run with these samples. Without a grid, ``LOOP`` samples of each series have one time."""
    run, name = new_run_id(), "timer" if interval_ns else "sem-uncontended"

    def records() -> Iterator[bytes]:
        writer = StreamWriter()
        yield import_header(writer, run, 0, name, {}, when, "idle")
        tallies = []
        for number, one in enumerate(series):
            yield writer.series(number, one, interval_ns=interval_ns)
            tallies.append(Tally(number))
        if offsets is not None:
            yield writer.series(9, "dither", companion=0, interval_ns=interval_ns)
            tallies.append(Tally(9))
            yield writer.samples(9, 0, 0, offsets)
            tallies[-1].add(offsets)
        for number, values in enumerate(series.values()):
            for at in range(0, len(values), LOOP):
                due_ns = at * interval_ns if interval_ns else at * 10_000 * US
                yield writer.samples(number, at, due_ns, values[at : at + LOOP])
                tallies[number].last_due_ns = due_ns
            tallies[number].add(values)
            if interval_ns:
                tallies[number].last_due_ns = (len(values) - 1) * interval_ns
        for tally in tallies:
            if offsets is not None:
                tally.last_due_ns = (len(offsets) - 1) * interval_ns
            yield writer.histogram(tally)
        yield writer.trailer(tallies)

    step = step_document(0, name, {}, "idle", 1.0)
    step["run_options"] = {"mark": mark} if mark else {}
    falls = "right after that" if kind == "pulse" else "after the stamp at its end"
    document = run_document(
        run, target="local", tested=Subject(kernel="6.12-rt", board="a board"), about={},
        catalogue=catalogue(name, {"rises": "before", "falls": falls, "kind": kind}),
        steps=[step], when=when,
    )  # fmt: skip
    write_run(store, document, when, [records()])
    return store.get(run)


def line(
    path: Path,
    rises_ns: NDArray[np.float64],
    widths_ns: NDArray[np.float64],
    channel: str = "D0",
) -> Path:
    """The line at 1 MHz: an edge shows in the first sample after it."""
    edges = np.sort(np.concatenate((rises_ns, rises_ns + widths_ns)))
    at = np.ceil(edges / US).astype(np.int64)
    assert (np.diff(at) > 0).all()
    toggles = np.zeros(int(at[-1]) + 100, np.uint8)
    toggles[at] = 1
    levels = (np.cumsum(toggles, dtype=np.uint8) & 1).astype(np.uint8)
    return session(path, levels, metadata=LINES.replace("D0", channel))
