# SPDX-License-Identifier: Apache-2.0
"""Causes: where the time of a sample went, from its due moment to the running task.

    model.py       one model for every source of causes, and its JSON form

Two sources fill it: the replay of a counted run of the lab, and a trace that was recorded during
the run. docs/formats/results.md explains the document.
"""

from __future__ import annotations

from rtgauge.causes.model import (
    CLASSES,
    Cause,
    Cost,
    Remedy,
    Segment,
    Task,
    causes_of,
    document_of,
)

__all__ = [
    "CLASSES",
    "Cause",
    "Cost",
    "Remedy",
    "Segment",
    "Task",
    "causes_of",
    "document_of",
]
