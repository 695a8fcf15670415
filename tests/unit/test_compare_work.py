# SPDX-License-Identifier: Apache-2.0
"""Work rates of loads in a comparison: means over the runs of a set, ratios to the first set."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rtgauge.report.document.compared import rate_texts
from rtgauge.report.results.published import published_cost
from rtgauge.report.sets.work import work_rates
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
    assert second == "B 925 KiB/s (×0.84, 2 runs, 900 KiB/s to 950 KiB/s)"


def test_the_steps_of_a_run_have_one_rate() -> None:
    """Two methods of the timer under the same load are one run."""
    both = {"steps": [*_run(1000)["steps"], *_run(900)["steps"]]}
    (row,) = work_rates([both, _run(1), _run(3)], [(0,), (1, 2)])
    assert row["rates"] == [[950], [1, 3]]
    first, second = map(plain, rate_texts(row, ["A", "B"]))
    assert first == "A 950 KiB/s"
    assert second == "B 2 KiB/s (×0.00211, 2 runs, 1 KiB/s to 3 KiB/s)"


def test_rates_of_any_runs_and_sets() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        runs = [
            {"steps": [
                step
                for _ in range(rng.randint(0, 3))
                for step in _run(
                    rng.choice((None, 0.0, rng.uniform(0, 1e6))), rng.choice("xy"),
                    rng.choice(("complete", "complete", "failed")),
                )["steps"]
            ]}
            for _ in range(rng.randint(2, 6))
        ]  # fmt: skip
        border = rng.randint(1, len(runs) - 1)
        sets = [range(border), range(border, len(runs))]
        rows = {row["load"]: row for row in work_rates(runs, sets)}
        for load in "xy":
            means = []
            for places in sets:
                told = []
                for place in places:
                    rates = [
                        step["load"]["loads"][0]["work_rate"]
                        for step in runs[place]["steps"]
                        if step["load"]["name"] == load and step["state"] == "complete"
                    ]
                    rates = [rate for rate in rates if rate is not None]
                    told += [sum(rates) / len(rates)] if rates else []
                means.append(sum(told) / len(told) if told else None)
            assert (load in rows) == (None not in means), seed
            if load in rows:
                first, second = means
                assert rows[load]["means"] == pytest.approx(means)
                share = second / first if first and second is not None else None
                assert rows[load]["ratios"] == [None, share and pytest.approx(share)]


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
