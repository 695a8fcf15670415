# SPDX-License-Identifier: Apache-2.0
"""Traces of boards of the lab, and events and entries of a trace for tests.

``tests/data/trace-*.json`` are from boards of the lab, packed: the files ``format`` of the events,
``snapshot_raw`` of a trace instance (pages in base64, without the zeros at their end), and its
``snapshot``, which is the kernel's own text of the same pages.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any, Final

from rtgauge.causes.tracefs.pages import (
    HARDIRQ,
    IRQS_OFF,
    Event,
)

DATA: Final = Path(__file__).parents[1] / "data"


BOARDS: Final = ("x86_64-stock-6.12", "arm64-rt-6.1")


def captured(board: str) -> dict[str, Any]:
    packed = json.loads((DATA / f"trace-{board}.json").read_text(encoding="utf-8"))["gzip"]
    loaded: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode("".join(packed))))
    return loaded


def entry(kind: int, delta: int, *words: int, order: str = "little") -> bytes:
    head = kind | delta << 5 if order == "little" else kind << 27 | delta
    return b"".join(word.to_bytes(4, order) for word in (head, *words))  # type: ignore[arg-type]


DUE: Final = 1_000_000


TARGET: Final = 50


ORDINARY: Final = 77


def switch(
    us: float, before: int, after: int, prio: int = 120, *, state: int = 0, prev_prio: int = 120
) -> Event:
    fields: dict[str, int | str] = {
        "prev_comm": f"t{before}", "prev_pid": before, "prev_prio": prev_prio, "prev_state": state,
        "next_comm": f"t{after}", "next_pid": after, "next_prio": prio,
    }  # fmt: skip
    return Event(DUE + int(us * 1000), "sched/sched_switch", before, IRQS_OFF, 2, fields)


def waking(
    us: float, pid: int, flags: int = IRQS_OFF | HARDIRQ, *, woken: int = TARGET, prio: int = 19
) -> Event:
    fields: dict[str, int | str] = {
        "comm": f"t{woken}", "pid": woken, "prio": prio, "target_cpu": 0
    }  # fmt: skip
    return Event(DUE + int(us * 1000), "sched/sched_waking", pid, flags, 2, fields)


def timer(us: float, end: str, pid: int = ORDINARY, preempt: int = 0) -> Event:
    name = f"irq_vectors/local_timer_{end}"
    return Event(DUE + int(us * 1000), name, pid, IRQS_OFF | HARDIRQ, preempt, {"vector": 236})


def path(at: float, length: float = 0, preempt: int = 0) -> list[Event]:
    """An interrupt that wakes the thread, which the CPU then switches to after ``length``."""
    return [
        switch(-100, 1, ORDINARY),
        timer(at, "entry", preempt=preempt),
        waking(at + 1, ORDINARY),
        timer(at + 2, "exit"),
        switch(at + 4 + length, ORDINARY, TARGET, 19),
    ]
