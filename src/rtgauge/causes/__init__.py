# SPDX-License-Identifier: Apache-2.0
"""Causes: where the time of a sample went, from its due time to the running task.

    beginnings.py  how the samples of a series begin
    model.py       one model for every source of causes, and its JSON form
    replay.py      a counted run of the lab booted again, with the recorder
    symbols.py     names of functions and tasks
    placing.py     when a sample was taken that does not begin at its due time
    cut.py         records of the recorder into segments
    remedies.py    what to try: a table of data
    explain.py     from the samples of a run to their causes

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
