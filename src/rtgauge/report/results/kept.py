# SPDX-License-Identifier: Apache-2.0
"""The figures of one run as bytes, so that sets of many runs need not read all samples again.

Kept are the run of the results model and the table of values of each series, from which sets of
runs make percentiles of several series together. What pictures need is not kept.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from rtgauge.report.results.gather import Figures
from rtgauge.report.results.model import Analysis
from rtgauge.stats import Counts

__all__ = ["joined", "packed", "unpacked"]


def packed(analysis: Analysis, key: str) -> bytes:
    """The figures of an analysis of one run. ``key``: what they depend on."""
    figures = [(key, analysis.figures[0][key]) for key in analysis.places[0]]
    tables = [table for _, one in figures for table in _tables(one) if table is not None]
    head = {
        "key": key,
        "run": analysis.model["runs"][0],
        "counters": list(analysis.counters[0].items()),
        "series": [[*key, each.unseen, *map(_facts, _tables(each))] for key, each in figures],
    }
    file = io.BytesIO()
    np.savez_compressed(
        file,
        head=np.frombuffer(json.dumps(head).encode(), np.uint8),
        values=np.concatenate([one.values for one in tables] or [np.zeros(0, np.int64)]),
        counts=np.concatenate([one.counts for one in tables] or [np.zeros(0, np.int64)]),
    )
    return file.getvalue()


def unpacked(data: bytes, key: str) -> Analysis | None:
    """The analysis of one run from ``packed``, as far as it was kept: without the stored run, marks
    and bounds. None for another key. Raises ValueError, TypeError, KeyError or zipfile.BadZipFile
    for other bytes."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        head = json.loads(file["head"].tobytes())
        if head["key"] != key:
            return None
        values, counts = file["values"], file["counts"]
    at = 0
    figures: dict[tuple[int, int], Figures] = {}

    def table(facts: Sequence[Any] | None) -> Counts | None:
        nonlocal at
        if facts is None:
            return None
        begin, at = at, at + facts[0]
        return Counts(values[begin:at], counts[begin:at], *facts[1:])

    for step, series, unseen, *facts in head["series"]:
        figures[step, series] = _figures(unseen, *map(table, facts))
    counters = dict(head["counters"])
    return Analysis({"runs": [head["run"]]}, (), (figures,), (tuple(figures),), (counters,))


def joined(parts: Sequence[Analysis]) -> Analysis:
    """The analyses of single runs as one of all of them, as far as ``unpacked`` gives it."""
    return Analysis(
        {"runs": [run for one in parts for run in one.model["runs"]]},
        (),
        tuple(table for one in parts for table in one.figures),
        tuple(places for one in parts for places in one.places),
        tuple(counters for one in parts for counters in one.counters),
    )


def _tables(one: Figures) -> tuple[Counts | None, ...]:
    """The tables of a series that are kept. Without missed periods the corrected one is that of the
    samples."""
    same = one.corrected is None or one.corrected.count == one.counts.count
    return one.counts, one.unanswered, None if same else one.corrected


def _facts(table: Counts | None) -> list[int | None] | None:
    if table is None:
        return None
    return [len(table.values), table.sum, table.min, table.max, table.sub_bits]


def _figures(
    unseen: int, counts: Counts | None, unanswered: Counts | None, corrected: Counts | None
) -> Figures:
    assert counts is not None
    return Figures(
        counts=counts,
        corrected=corrected,
        unknown=unseen,
        taken=counts.count,
        kept=counts.count,
        missed=0,
        lost=0,
        lost_runs=(),
        overruns=0,
        first=None,
        max=counts.max,
        rest={},
        duration_s=0.0,
        max_at=None,
        timeline=None,
        unanswered=unanswered,
    )
