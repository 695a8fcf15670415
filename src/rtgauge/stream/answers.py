# SPDX-License-Identifier: Apache-2.0
"""Series of answers to events, which docs/formats/stream.md defines by their names."""

from __future__ import annotations

from typing import Final

__all__ = ["RESPONSE", "is_response", "things", "waits_for_answers"]

RESPONSE: Final = "response"
"""The series with the delays of answers, in ns."""


def is_response(name: str, unit: str) -> bool:
    """Whether a series contains the delays of answers to events."""
    return name == RESPONSE and unit == "ns"


def waits_for_answers(name: str, unit: str) -> bool:
    """Whether a missed period of the series is an event without an answer. True for responses, and
    for the error that a log host measures on its own output wired to its input."""
    return name in (RESPONSE, "own-error") and unit == "ns"


def things(name: str, unit: str, context: str, interval_ns: int) -> str:
    """What the samples of a series are called, in the plural: answers, interrupts and wake-ups if
    they are due on a time grid, samples otherwise."""
    if waits_for_answers(name, unit) or (name == "answer" and unit == "ns"):
        return "answers"
    if unit != "ns" or interval_ns <= 0:
        return "samples"
    return "interrupts" if context == "irq" else "wake-ups"
