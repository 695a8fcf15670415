# SPDX-License-Identifier: Apache-2.0
"""Work rates of loads in a comparison: means over the runs of a set, ratios to the first set."""

from __future__ import annotations

from typing import Any

import pytest

from rtgauge.report.results.published import published_cost
from rtgauge.report.sets.work import rate_texts, work_rates
from rtgauge.text import plain


def _run(rate: float | None, load: str = "disk", state: str = "complete") -> dict[str, Any]:
    loads = [{"name": "disk", "unit": "KiB", "work_rate": rate}]
    step = {"measurement": "timer", "state": state, "load": {"name": load, "loads": loads}}
    return {"steps": [step]}


@pytest.mark.study(58)
def test_means_over_the_runs_of_a_set() -> None:
    runs = [_run(1000), _run(950), _run(1200), _run(900), _run(None), _run(5, state="failed")]
    (row,) = work_rates(runs, [(0, 2), (1, 3, 4, 5)])
    assert row["rates"] == [[1000, 1200], [950, 900]]
    assert row["means"] == [1100, 925]
    assert row["ratios"] == [None, pytest.approx(925 / 1100)]
    first, second = map(plain, rate_texts(row, ["A", "B"]))
    assert first == "A 1 100 KiB/s (2 runs, 1 000 KiB/s to 1 200 KiB/s)"
    assert second.startswith("B 925 KiB/s (") and "0.841" in second


def test_a_load_of_one_set_alone_is_left_out() -> None:
    assert work_rates([_run(1000), _run(900, "cpu,disk")], [(0,), (1,)]) == []
    assert work_rates([_run(1000), _run(None)], [(0,), (1,)]) == []
    (row,) = work_rates([_run(None), _run(10), _run(20)], [(0,), (1,), (2,)])
    assert row["ratios"] == [None, None, None]  # nothing to relate to
    assert len(rate_texts(row, ["A", "B", "C"])) == 2


def test_the_published_cost_is_told_where_it_compares() -> None:
    assert "5 to 10 % less" in published_cost(["preempt_rt", "voluntary"])
    assert published_cost(["preempt_rt", "preempt_rt"]) == ""
    assert published_cost(["none", "full"]) == ""
