# SPDX-License-Identifier: Apache-2.0
"""Loads and background activity over the time of a step, against brute force."""

from __future__ import annotations

import copy
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import report_runs as made
from rtgauge import stream
from rtgauge.report.document.summary import short
from rtgauge.report.pictures import strips
from rtgauge.report.render import html, markdown, terminal
from rtgauge.report.results import model
from rtgauge.report.results.cases import cases_of

S = 1_000_000_000


def watched(seconds: int, cpus: int, seed: int = 1) -> list[Any]:
    random = np.random.default_rng(seed)
    return [
        SimpleNamespace(
            time_ns=(at + 1) * S,
            cpus=list(range(cpus)),
            frequency_khz=[int(v) for v in random.integers(800_000, 3_600_000, cpus - 1)] + [None],
            interrupts=[int(v) for v in random.integers(0, 3000, cpus)],
            steal_ns=[int(v) for v in random.integers(0, S // 10, cpus)],
            smi=int(random.integers(0, 2)),
            temperature_mc={"package": int(random.integers(40_000, 90_000))},
            idle_ns=[int(v) for v in random.integers(0, 9 * S // 10, cpus)],
        )
        for at in range(seconds)
    ]


def found_in(step: Any, points: int = 300) -> dict[str, strips.Strip]:
    return {one.title: one for one in strips.strips(step, points)}


@pytest.mark.parametrize("points", [7, 25, 300])
def test_strips_say_what_was_recorded(points: int) -> None:
    step = made.step(0, [])
    random = np.random.default_rng(5)
    done = [int(v) for v in random.integers(0, 900, 40)]
    step.work = [
        stream.Work(0, "cpu", "loops", v, at * S, (at + 1) * S) for at, v in enumerate(done)
    ]
    records = step.ambience = watched(40, 3)
    found = found_in(step, points)
    assert next(iter(found)) == "Load cpu"
    load = found["Load cpu"]
    assert load.unit == "loops/s" and len(load.x) <= points
    starts = [0, *(round(x) for x in load.x)]
    spans = list(itertools.pairwise(starts))
    assert load.y[0] == pytest.approx([sum(done[a:b]) / (b - a) for a, b in spans])
    for cpu in range(3):
        parts = [[one.interrupts[cpu] for one in records[a:b]] for a, b in spans]
        assert found["Interrupts"].y[cpu] == pytest.approx([sum(p) / len(p) for p in parts])
        stolen = [[one.steal_ns[cpu] for one in records[a:b]] for a, b in spans]
        assert found["Stolen time"].y[cpu] == pytest.approx(
            [100 * sum(p) / (len(p) * S) for p in stolen]
        )
        idle = [[one.idle_ns[cpu] for one in records[a:b]] for a, b in spans]
        used = [
            [S - i - s for i, s in zip(*two, strict=True)] for two in zip(idle, stolen, strict=True)
        ]
        assert found["CPU time in use"].y[cpu] == pytest.approx(
            [100 * sum(p) / (len(p) * S) for p in used]
        )
    least = [min(one.frequency_khz[0] for one in records[a:b]) / 1000 for a, b in spans]
    assert found["Frequency"].y[0] == pytest.approx(least)
    assert found["Frequency"].y[2] == [None] * len(spans)
    smi = [sum(one.smi for one in records[a:b]) for a, b in spans]
    assert found["System management interrupts"].y[0] == pytest.approx(smi)
    hot = [max(one.temperature_mc["package"] for one in records[a:b]) / 1000 for a, b in spans]
    assert found["Temperature"].y[0] == pytest.approx(hot)


def test_no_more_time_is_stolen_than_there_was() -> None:
    """The kernel books it late, more than the time since the reading before."""
    step = made.step(0, [])
    step.ambience = watched(40, 3)
    step.ambience[7].steal_ns = [3 * S, S, 0]
    for points in (40, 5):
        stolen = found_in(step, points)["Stolen time"].y
        assert max(value for row in stolen for value in row if value is not None) <= 100
    assert found_in(step, 40)["Stolen time"].y[0][7] == 100


def test_of_many_cpus_the_least_the_median_and_the_largest_are_drawn() -> None:
    step = made.step(0, [])
    step.ambience = watched(5, 64)
    strip = found_in(step)["Interrupts"]
    assert list(strip.labels) == ["min", "median", "max"]
    rows = [one.interrupts for one in step.ambience]
    assert strip.y[0] == [min(row) for row in rows]
    assert strip.y[2] == [max(row) for row in rows]
    assert strip.y[1] == [float(np.median(row)) for row in rows]


def test_nothing_recorded_draws_nothing() -> None:
    step = made.step(0, [])
    assert strips.strips(step) == []  # type: ignore[arg-type]
    step.ambience = watched(4, 1)
    for one in step.ambience:
        one.smi, one.temperature_mc, one.idle_ns = None, {}, ()
    assert list(found_in(step)) == ["Interrupts", "Stolen time"]


@pytest.mark.parametrize(
    ("hidden", "strip", "other"),
    [("interrupts", "Interrupts", "Stolen time"), ("steal_ns", "Stolen time", "Interrupts")],
)
def test_what_a_container_hides_leaves_the_other_strips(
    hidden: str, strip: str, other: str
) -> None:
    step = made.step(0, [])
    step.ambience = watched(4, 3)
    for one in step.ambience:
        setattr(one, hidden, None)
    found = found_in(step)
    assert strip not in found
    assert len(found["Frequency"].y) == len(found[other].y) == 3


@pytest.mark.parametrize("points", [7, 40])
def test_rates_are_of_the_time_in_which_something_was_counted(points: int) -> None:
    step = made.step(0, [])
    records = step.ambience = watched(40, 2)
    for one in records:
        one.busy = [None, S - one.idle_ns[1] - one.steal_ns[1]]
    for one in records[9:11]:
        one.busy = None
        one.interrupts = one.steal_ns = None
        one.idle_ns[1] = None  # offline
    found = found_in(step, points)
    for title, key, scale in (
        ("Interrupts", "interrupts", 1),
        ("Stolen time", "steal_ns", 100 / S),
        ("CPU time in use", "busy", 100 / S),
    ):
        strip = found[title]
        spans = itertools.pairwise([0, *(round(x) for x in strip.x)])
        for shown, (begin, end) in zip(strip.y[1], spans, strict=True):
            counted = [getattr(one, key)[1] for one in records[begin:end] if getattr(one, key)]
            mean = scale * sum(counted) / len(counted) if counted else None
            assert shown == pytest.approx(mean)


@pytest.mark.slow
def test_background_activity_is_a_table_and_no_measurement() -> None:
    analysis = model.analyse([made.evaluation(2, 2000)])  # type: ignore[list-item]
    before = {
        "html": html.render(analysis),
        "markdown": markdown.render(short(analysis)),
        "terminal": terminal.text(analysis.model),
    }
    cases = cases_of(analysis.model["runs"][0])
    run = analysis.model["runs"][0]
    number = len(run["steps"])
    step = {**copy.deepcopy(run["steps"][0]), "step": number, "measurement": "background"}
    run["steps"].append({**step, "role": "background", "budget": None, "stream": None})
    one = copy.deepcopy(run["series"][0])
    for cpu in range(2):
        run["series"].append(
            {**one, "step": number, "measurement": "background", "name": "frequency", "unit": "MHz",
             "cpu": cpu, "min": 800 + cpu, "mean": 1600.5, "max": 3600}
        )  # fmt: skip
    model.validate(analysis.model)
    page = html.render(analysis)
    assert "Frequency (MHz), CPU 1" in page and 'id="background"' in page
    assert page.count('class="step"') == before["html"].count('class="step"') > 0
    assert page.count("<figure") == before["html"].count("<figure")
    assert 'id="step-5"' not in page
    text = markdown.render(short(analysis))
    assert "| Frequency (MHz), CPU 1 | 801 |" in text
    text = terminal.text(analysis.model)
    assert text == before["terminal"]  # the report has it
    assert cases_of(run) == cases
