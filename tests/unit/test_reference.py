# SPDX-License-Identifier: Apache-2.0
"""Published figures: every row is readable, has a source, and joins the names of the catalogue."""

from __future__ import annotations

import json
import subprocess
from typing import Any, cast

import numpy as np
import pytest

import report_runs as made
from rtgauge import reference
from rtgauge.report.document import tables
from rtgauge.report.results import model
from rtgauge.target.local import find_agent


def test_every_row_is_readable_and_has_its_source() -> None:
    rows = reference.rows()
    assert len(rows) == 105
    for row in rows:
        assert row.source in reference.works()
        assert row.measurement and row.series and row.board
        values = [v for v in (row.min_us, row.avg_us, row.max_us) if v is not None]
        assert values == sorted(values)
        assert values or row.value_us is not None or row.verdict
        assert row.realtime in ("preempt_rt", "none", "xenomai", "")
        assert row.context in ("user", "kernel", "irq", "")
        assert row.verdict in ("pass", "fail", "")
        assert (row.generated is None) == (row.lost is None)
    switch = next(row for row in rows if row.variant == "128 threads")
    assert (switch.min_us, switch.avg_us, switch.max_us, switch.samples) == (1.0, 1.7, 34.6, 16320)
    assert switch.labels == {"threads": "128"}
    assert {row.labels["method"] for row in rows if "method" in row.labels} == {
        "clock_nanosleep", "nanosleep", "timer", "itimer",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "what"),
    [("1.0,1.7", "1.0,x"), ("16320", "16.5"), (",1.0,1.7", ",1.7"), (",user,", ",user")],
)
def test_a_damaged_row_is_named(change: str, what: str) -> None:
    head = ",".join(reference.Row.__dataclass_fields__)
    good = "a,b,,Linux,,,m,s,,user,,t,,,16320,1.0,1.7,34.6,,,,,,,what=x"
    assert reference.read(f"# note\n{head}\n{good}")[0].max_us == 34.6
    with pytest.raises(ValueError, match="row 1"):
        reference.read(f"{head}\n{good.replace(change, what)}")


def test_rows_join_the_names_of_the_catalogue() -> None:
    """A measurement that the agent has knows the series by the published name. One that gives a
    table alone is published by the quantity that was searched for."""
    agent = find_agent()
    described = json.loads(subprocess.run(
        [agent, "describe"], check=True, capture_output=True, timeout=20
    ).stdout)  # fmt: skip
    known = {
        one["name"]: {series["name"] for series in one["series"]} or {"period"}
        for one in described["measurements"]
    }
    for row in reference.rows():
        if row.measurement in known and row.series != "verdict":
            assert row.series in known[row.measurement], f"{row.measurement}: {row.series}"


def _published(
    measurement: str, series: list[dict[str, Any]], lab: dict[str, str] | None = None, **more: Any
) -> list[dict[str, Any]]:
    stored = [
        made.FakeSeries(
            made.info(at, interval_ns=0, **one), np.arange(30), np.full(30, 1000, np.int64)
        )
        for at, one in enumerate(series)
    ]
    environment = {**made.ENVIRONMENT, **({"lab": lab} if lab else {})}
    run = made.run([made.step(0, stored, measurement, **more)], environment=environment)
    document = model.build(cast(Any, [run]))
    model.validate(document)
    found: list[dict[str, Any]] = document["runs"][0]["steps"][0]["published"]
    return found


def test_rows_stand_beside_the_series_of_the_same_label() -> None:
    series = [{"name": "switch", "labels": {"threads": n}} for n in ("2", "10", "50", "1000")]
    found = _published("thread-switch", series)
    assert [(one["variant"], one["series"]) for one in found] == [
        ("2 threads", [0]), ("10 threads", [1]), ("1000 threads", [3]),
    ]  # fmt: skip
    assert found[0]["work"].startswith("L. Perneel")
    scenario = [{"name": "create", "labels": {"scenario": "never-run"}}]
    (one,) = _published("thread-lifecycle", scenario)
    assert (one["variant"], one["mean_us"]) == ("never run", 25.3)


def test_a_row_stands_beside_no_series_of_another_kind() -> None:
    series = [{"name": "uncached", "labels": {"what": w}} for w in ("code", "read", "write")]
    assert {one["variant"]: one["series"] for one in _published("cpu-power", series)} == {
        "code": [0], "code, first load": [0], "memory read": [1], "memory write": [2],
    }  # fmt: skip
    series = [{"name": "delete", "labels": {"scenario": s}} for s in ("terminated", "blocked")]
    found = _published("thread-lifecycle", series)
    assert {one["variant"]: one["series"] for one in found} == {
        "run and terminate": [0], "run and block": [1],
    }  # fmt: skip
    series = [{"name": "acquire", "labels": {"waiters": n}} for n in ("1", "50", "90")]
    assert not _published("sem-contended", series)
    (one,) = _published("sem-contended", [*series, {"name": "acquire-all", "labels": {}}])
    assert (one["series"], one["samples"]) == ([3], 7476)


def test_a_single_figure_is_no_largest_sample() -> None:
    data = made.FakeSeries(
        made.info(0, interval_ns=0, name="cached", labels={"what": "code"}),
        np.arange(30),
        np.full(30, 1000, np.int64),
    )
    run = made.run([made.step(0, [data], "cpu-power")])
    document = model.build(cast(Any, [run]))
    run_ = document["runs"][0]
    grid = tables.published_table(run_, run_["steps"][0])
    assert grid is not None
    cells = dict(zip(grid.heads, [None, *grid.rows[0].cells], strict=True))
    texts = [cast(Any, cells[name]).text for name in ("Max", "Max here", "Single figure")]
    assert texts == ["–", "–", "23.5"]


def test_no_board_s_figures_stand_beside_those_of_an_emulated_one() -> None:
    series = [{"name": "latency", "labels": {"method": "itimer"}}]
    assert _published("timer", series)
    assert _published("timer", series, {"mode": "counted", "meaning": ""}) == []


def test_rows_of_the_same_method_and_real_time_model_come_first() -> None:
    for method, mean in (("clock_nanosleep", 87.0), ("itimer", 2441.0)):
        found = _published(
            "timer", [{"name": "latency", "labels": {"method": method}}], load="sched"
        )
        assert found[0]["mean_us"] == mean
        assert found[0]["realtime"] == "preempt_rt"
        assert all(one["variant"] in ("xenomai",) or one["tool"] == "cyclictest" for one in found)
        assert len(found) <= 4
    assert _published("timer", [{"name": "drift", "labels": {}}]) == []
    assert _published("pendulum", [{"name": "latency", "labels": {}}]) == []
    assert _published("timer", [{"name": "latency", "context": "irq"}])[0]["context"] == "irq"
