# SPDX-License-Identifier: Apache-2.0
"""Ids of runs: UUIDs of version 7 (RFC 9562, section 5.7), which sort by the time they were made.

The uuid module of Python 3.11 lacks them.
"""

from __future__ import annotations

import re
import secrets
import threading
import time

__all__ = ["is_run_id", "new_run_id"]

_SHAPE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_lock = threading.Lock()
_last_tick = 0


def new_run_id() -> str:
    """A new id, greater than every one made before in this process.

    The 12 bits after the milliseconds are a fraction of the millisecond (RFC 9562, section 6.2,
    method 3); the last 62 bits are random.
    """
    global _last_tick  # noqa: PLW0603
    milliseconds, rest_ns = divmod(time.time_ns(), 1_000_000)
    tick = milliseconds << 12 | (rest_ns << 12) // 1_000_000
    with _lock:
        _last_tick = tick = max(tick, _last_tick + 1)
    number = (tick >> 12) << 80 | 7 << 76 | (tick & 0xFFF) << 64 | 2 << 62 | secrets.randbits(62)
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def is_run_id(text: str) -> bool:
    """Whether ``text`` has the shape of an id, and so is safe as the name of a folder."""
    return _SHAPE.fullmatch(text) is not None
