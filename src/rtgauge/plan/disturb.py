# SPDX-License-Identifier: Apache-2.0
"""Disturbances put in on purpose, ``--disturb KIND:LENGTH:PERIOD``: their kinds and notation.

The agent inserts the module rtgauge_disturb for the step. docs/reference/disturb.md lists the
effects that each kind must have. Machines of the lab are always disturbed, others with the user's
consent only.
"""

from __future__ import annotations

from typing import Final

from rtgauge.errors import OptionError, nearest
from rtgauge.units import format_duration, parse_duration

__all__ = ["KINDS", "normalise_disturb"]

KINDS: Final = (
    "spin_lock",
    "spin_lock_bh",
    "tasklet",
    "kthread",
    "preempt_disable",
    "local_irq_save",
    "raw_spin_lock_irqsave",
)
_US: Final = 1000
# The limits of the module, in ns.
_LENGTH: Final = (_US, 100_000 * _US)
_PERIOD: Final = (10 * _US, 4_000_000 * _US)


def normalise_disturb(text: str) -> str:
    """A disturbance with its durations in their shortest notation. Raises OptionError."""
    parts = text.strip().split(":")
    if len(parts) != 3:
        raise OptionError(
            "disturb",
            f"'{text}' is not KIND:LENGTH:PERIOD",
            "write it as in preempt_disable:200us:7.301ms",
        )
    kind = parts[0]
    if kind not in KINDS:
        raise OptionError("disturb", f"unknown kind of disturbance '{kind}'", nearest(kind, KINDS))
    length = _duration("length", parts[1], _LENGTH)
    period = _duration("period", parts[2], _PERIOD)
    if period < 2 * length:
        raise OptionError(
            "disturb",
            f"the period {parts[2]} is too short for a disturbance of {parts[1]}",
            "give a period of at least twice the length",
        )
    return f"{kind}:{format_duration(length)}:{format_duration(period)}"


def _duration(what: str, text: str, limits: tuple[int, int]) -> int:
    low, high = limits
    try:
        value = parse_duration(text)
    except ValueError as error:
        raise OptionError("disturb", str(error), f"give its {what}, such as 200us") from None
    if not low <= value <= high:
        raise OptionError(
            "disturb",
            f"'{text}' is not a {what} of a disturbance",
            f"give {format_duration(low)} to {format_duration(high)}",
        )
    return value
