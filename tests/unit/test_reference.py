# SPDX-License-Identifier: Apache-2.0
"""Published figures: every row is readable, has a source, and joins the names of the catalogue."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import pytest

import report_runs as made
from rtgauge import reference, stream
from rtgauge.report.document import published as shown
from rtgauge.report.render import html
from rtgauge.report.results import model
from rtgauge.report.results.published import published, published_cost
from rtgauge.report.results.ratings import published_ratings
from rtgauge.target.local import find_agent


def test_every_row_is_readable_and_has_its_source() -> None:
    rows = reference.rows()
    assert len(rows) == 112
    for row in rows:
        assert row.source in reference.works()
        assert row.measurement and row.series and row.board
        values = [v for v in (row.min_us, row.avg_us, row.max_us) if v is not None]
        assert values == sorted(values)
        assert values or row.value_us is not None or row.verdict or row.note
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


@pytest.mark.study(24)
def test_methods_are_those_of_cyclictest_s_options() -> None:
    """The study assigns them otherwise in its text: its page gives both."""
    methods = {(True, False): "clock_nanosleep", (True, True): "nanosleep",
               (False, False): "timer", (False, True): "itimer"}  # fmt: skip
    found = set()
    for row in reference.rows():
        if row.tool == "cyclictest":
            words = row.command.split()
            which = methods["-n" in words, "-s" in words]
            assert row.labels["method"] == which, row
            found.add(which)
    assert found == set(methods.values())
    page = (Path(__file__).parents[2] / "docs" / "studies" / "at91sam.md").read_text("utf-8")
    for options, method in (("`-n`", "`clock_nanosleep`"), ("`-s -n`", "`nanosleep`"),
                            ("no option", "`timer`"), ("`-s`", "`itimer`")):  # fmt: skip
        assert f"\n| {options} | {method}" in page
    assert "assigns some options to other methods" in page


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


def _catalogue() -> dict[str, Any]:
    described = subprocess.run(
        [find_agent(), "describe"], check=True, capture_output=True, timeout=20
    )
    catalogue: dict[str, Any] = json.loads(described.stdout)
    return catalogue


def test_rows_join_the_names_of_the_catalogue() -> None:
    """A measurement that the agent has knows the series by the published name. One that gives a
    table alone is published by the quantity that was searched for."""
    described = _catalogue()
    known = {
        one["name"]: {series["name"] for series in one["series"]} or {"period"}
        for one in described["measurements"]
    }
    for row in reference.rows():
        if row.measurement in known and row.series != "verdict":
            assert row.series in known[row.measurement], f"{row.measurement}: {row.series}"


def _shown(measurement: str, series: list[dict[str, Any]], load: str, realtime: str) -> set[str]:
    """The rows for a step with these series, each with its place in the file."""
    step = {"step": 0, "measurement": measurement, "load": {"name": load}, "parameters": {}}
    run = {
        "environment": {"realtime": realtime},
        "series": [{"step": 0, "unit": "ns", "labels": {}, **one} for one in series],
        "tables": [{"step": 0}],
        "tests": [],
    }
    return {_key(one) for one in published(step, run)}


def _key(one: Any) -> str:
    """What tells a published row from every other."""
    return str([one[name] for name in (
        "source", "board", "kernel", "name", "variant", "context", "load", "command", "duration_s",
        "min_us", "max_us", "value_us", "generated", "lost", "note",
    )])  # fmt: skip


@pytest.mark.slow
@pytest.mark.study(28, 56, 69, 70, 74, 112, 122, 136)
def test_every_row_is_shown_in_some_situation_of_the_catalogue() -> None:
    described = _catalogue()
    loads = ["idle", "sched,cpu", *(one["name"] for one in described["profiles"])]
    rows = reference.rows()
    found: set[str] = set()
    for one in described["measurements"]:
        labels = {str(row.labels): dict(row.labels) for row in rows if row.labels}
        series = [
            {"name": each["name"], "context": context, "labels": label}
            for each in one["series"]
            for context in one["contexts"]
            for label in ({}, *labels.values())
        ]
        for load in loads:
            for realtime in ("preempt_rt", "voluntary", "cobalt"):
                for each in [[which] for which in series] or [[]]:
                    found |= _shown(one["name"], each, load, realtime)
    told = published_cost(["preempt_rt", "none"]) + published_ratings()
    others = [row for row in rows if row.measurement in ("throughput", "rating")]
    found |= {_key({**vars(row), "name": row.series}) for row in others if row.note in told}
    keys = [_key({**vars(row), "name": row.series}) for row in rows]
    assert len(set(keys)) == len(rows)
    assert [key for key in keys if key not in found] == []


def _boards(load: str, realtime: str, context: str = "user", name: str = "response") -> list[str]:
    series = [{"name": name, "context": context}]
    document = {"step": 0, "measurement": "log-host", "load": {"name": load}, "parameters": {}}
    run = {
        "environment": {"realtime": realtime},
        "series": [{"step": 0, "unit": "ns", "labels": {}, **one} for one in series],
        "tables": [],
        "tests": [],
    }
    return [f"{one['board']} {one['realtime']}" for one in published(document, run)]


@pytest.mark.study(56, 122)
def test_the_load_decides_then_the_kind_of_kernel() -> None:
    assert _boards("gpioirqbench", "preempt_rt") == [
        "IceCube preempt_rt", "IceCube none", "IceCube xenomai",
        "Sequoia none", "Sequoia xenomai", "Qong EVB-LITE xenomai",
    ]  # fmt: skip
    assert _boards("doload:peer=10.0.0.1/9", "voluntary") == [
        "AT91SAM9M10-G45-EK none", "AT91SAM9M10-G45-EK preempt_rt",
        "AT91SAM9G20-EK none", "AT91SAM9G20-EK preempt_rt",
    ]  # fmt: skip
    assert _boards("find", "cobalt", "kernel") == ["CARME xenomai", "CARME none"]
    assert len(_boards("sched", "none")) == 11  # no such load: all that were loaded
    assert _boards("idle", "none", "irq") == ["CARME none", "CARME xenomai"]


def test_a_table_without_series_has_all_rows_of_its_measurement() -> None:
    assert len(_shown("irq-sustained", [], "idle", "preempt_rt")) == 16


def _published(
    measurement: str, series: list[dict[str, Any]], lab: dict[str, str] | None = None, **more: Any
) -> list[dict[str, Any]]:
    stored = [
        made.sampled(np.full(30, 1000, np.int64), at, interval_ns=0, **one)
        for at, one in enumerate(series)
    ]
    environment = {**made.ENVIRONMENT, **({"lab": lab} if lab else {})}
    run = made.run([made.step(0, stored, measurement, **more)], environment=environment)
    document = made.built(run)
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


@pytest.mark.slow
def test_a_row_stands_beside_no_series_of_another_kind() -> None:
    series = [{"name": "uncached", "labels": {"what": w}} for w in ("code", "read", "write")]
    assert {one["variant"]: one["series"] for one in _published("cpu-power", series)} == {
        "code": [0], "memory read": [1], "memory write": [2],
    }  # fmt: skip
    first = [{"name": "first", "labels": {"what": w}} for w in ("code", "read")]
    assert [(one["board"], one["value_us"], one["series"]) for one in
            _published("cpu-power", first)] == [
        ("Advantech SOM-6760", 132.9, [0]), ("Pentium MMX", 1562, [0]),
    ]  # fmt: skip
    kinds = [{"name": "create", "labels": {"kind": k, "used": u}}
             for k in ("private", "shared") for u in ("yes", "no")]  # fmt: skip
    found = {one["variant"]: one["series"] for one in _published("sem-lifecycle", kinds)}
    assert found == {"used": [0], "never used": [1]}
    series = [{"name": "delete", "labels": {"scenario": s}} for s in ("terminated", "blocked")]
    deleted = _published("thread-lifecycle", series)
    assert {one["variant"]: one["series"] for one in deleted} == {
        "run and terminate": [0], "run and block": [1],
    }  # fmt: skip
    series = [{"name": "acquire", "labels": {"waiters": n}} for n in ("1", "50", "90")]
    assert not _published("sem-contended", series)
    (one,) = _published("sem-contended", [*series, {"name": "acquire-all", "labels": {}}])
    assert (one["series"], one["samples"]) == ([3], 7476)


def _analysis(measurement: str, series: list[made.FakeSeries], **more: Any) -> model.Analysis:
    return model.analyse(cast(Any, [made.run([made.step(0, series, measurement, **more)])]))


def _cells(analysis: model.Analysis) -> list[dict[str, tuple[str, str]]]:
    """The published table: of each row the texts and notes by the head of the column."""
    run = analysis.model["runs"][0]
    grid = shown.published_table(run, run["steps"][0])
    assert grid is not None
    return [
        {head: (cell.text, cell.note) for head, cell in zip(grid.heads[1:], row.cells, strict=True)}
        for row in grid.rows
    ]


@pytest.mark.study(113)
def test_published_figures_are_not_rounded_and_have_their_counterpart() -> None:
    values = np.array([1000, 2000, 6000], np.int64)
    info = made.info(0, interval_ns=0, name="delete", labels={"scenario": "never-run"})
    (row,) = _cells(_analysis("thread-lifecycle", [made.FakeSeries(info, np.arange(3), values)]))
    assert row["Min"] == ("33.1", "here 1.00")
    assert row["Mean"] == ("34.8", "here 3.00")
    assert row["Max"] == ("656.7", "here 6.00")
    assert "Figure" not in row  # nothing published there


def test_a_single_figure_stands_beside_the_median() -> None:
    info = made.info(0, interval_ns=0, name="cached", labels={"what": "code"})
    series = [made.FakeSeries(info, np.arange(30), np.full(30, 1000, np.int64))]
    rows = _cells(_analysis("cpu-power", series))
    assert [row["Figure"] for row in rows] == [("23.5", "here 1.00"), ("271.7", "here 1.00")]
    assert all("Max" not in row for row in rows)


def test_the_periods_of_sustained_interrupts_have_their_losses() -> None:
    columns = [("interrupts", ""), ("period", "ns"), ("generated", ""), ("lost", "")]
    heads = tuple(stream.Column(name, unit) for name, unit in columns)
    table = stream.Table(0, "sustained", heads, ((1000, 5000, 1000, 0),))
    rows = _cells(_analysis("irq-sustained", [], tables=[table]))
    assert len(rows) == 16
    assert rows[0]["Figure"] == ("34", "5 of 1\N{NARROW NO-BREAK SPACE}000 lost")


def test_the_ranges_of_a_board_s_table_are_drawn_with_this_run_s() -> None:
    random = np.random.default_rng(1)
    contexts = ("user", "kernel", "irq")
    analysis = _analysis("timer", [
        made.sampled(made.latencies(random, 500, 9000 >> at), at, context=context)
        for at, context in enumerate(contexts)
    ], load="doload")  # fmt: skip
    run = analysis.model["runs"][0]
    figure = shown.published_figure(run, run["steps"][0])
    assert figure is not None
    text = figure.text.replace("\N{NARROW NO-BREAK SPACE}", " ")
    for said in (
        "AT91SAM9263-EK, Xenomai: 105 µs", "AT91SAM9263-EK, Xenomai: 62 µs",
        "AT91SAM9263-EK, Xenomai: 26 µs", "AT91SAM9G20-EK, Xenomai: 8.72 to 106.589 µs",
        "AT91SAM9M10-G45-EK, Xenomai: \N{MINUS SIGN}3.835 to 21.106 µs",
        "AT91SAM9G20-EK, stock, cyclictest (default): 27 to 39 823 µs",
    ):  # fmt: skip
        assert said in text
    assert text.count("(this run)") == len(contexts)
    own = ElementTree.fromstring(figure.svg)
    assert len(own.findall(".//{*}path[@class='f-c0']")) == len(contexts)
    assert figure.svg in html.render(analysis)


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
    assert _published("timer", [{"name": "drift", "labels": {}}]) == []
    assert _published("pendulum", [{"name": "latency", "labels": {}}]) == []
    assert _published("timer", [{"name": "latency", "context": "irq"}])[0]["context"] == "irq"
