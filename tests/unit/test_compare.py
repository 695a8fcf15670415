# SPDX-License-Identifier: Apache-2.0
"""Sets of runs side by side: every figure against one computed from the samples directly, and what
is not put side by side."""

from __future__ import annotations

import copy
import dataclasses
import functools
import io
import json
import math
import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import report_runs as made
from answers import latency
from conftest import Run
from report_pages import inflated
from rtgauge import stream
from rtgauge import text as numbers
from rtgauge.cli import main
from rtgauge.cli.compare import _gate
from rtgauge.errors import UsageError
from rtgauge.report import Source
from rtgauge.report.document.blocks import Table
from rtgauge.report.document.compared import advice
from rtgauge.report.document.conclusion import comparison_section, conclusion
from rtgauge.report.document.summary import short
from rtgauge.report.document.views import views as views_of
from rtgauge.report.pictures import drawing, figures
from rtgauge.report.render import compare_text, html, markdown
from rtgauge.report.results import model
from rtgauge.report.sets import compare
from rtgauge.report.sets.compare import RunSet, refusal

CONTEXTS = {"irq": 300, "kernel": 2000, "user": 5000}


def series(seed: int, factor: float, **more: Any) -> list[made.FakeSeries]:
    """A series for each context on one CPU."""
    random = np.random.default_rng(seed)
    samples = more.get("samples", 12_000)
    return [
        made.sampled(
            (random.gamma(4, typical / 4, samples) * factor + 50).astype(np.int32),
            n,
            0,
            context=context,
            labels=more.get("labels", {}),
            interval_ns=more.get("interval_ns", made.MS),
            policy=more.get("policy", "fifo") if context != "irq" else "",
            priority=more.get("priority", 80) if context != "irq" else 0,
        )
        for n, (context, typical) in enumerate(CONTEXTS.items())
    ]


def kernel_run(
    number: int, target: str, kernel: str, factor: float = 1.0, *, lab: str = "", **more: Any
) -> made.FakeRun:
    """A run of two steps, idle and under a load, with a kernel of its own."""
    environment = copy.deepcopy(made.ENVIRONMENT)
    environment["kernel"]["release"] = kernel
    environment["realtime"] = "preempt_rt" if "rt" in kernel else "voluntary"
    if lab:
        environment["lab"] = {"mode": lab, "board": target}
    steps = [
        made.step(0, series(10 * number, factor, **more), load="idle"),
        made.step(1, series(10 * number + 1, factor * 3, **more), load="sched"),
    ]
    steps = [
        dataclasses.replace(one, header=made.header(n, "timer", one.document["load"]))
        for n, one in enumerate(steps)
    ]
    return made.run(
        steps,
        id=f"0192f0c4-6d1e-7aaa-8000-00000000000{number}",
        target=target,
        boot_id=f"boot{number}",
        study="0192f0c4-6d1e-7aaa-8000-ffffffffffff",
        environment=environment,
    )


def study(**more: Any) -> list[made.FakeRun]:
    return [
        kernel_run(1, "lab:rt", "6.1-rt", **more),
        kernel_run(2, "lab:stock", "6.1", 8.0, **more),
        kernel_run(3, "lab:stock", "6.1", 8.0, **more),
        kernel_run(4, "lab:rt", "6.1-rt", **more),
    ]


@functools.cache
def compared_study(lab: str = "") -> compare.Compared:
    """The comparison of ``study()``. Tests only read it."""
    return compared(study(lab=lab))


def compared(
    runs: list[made.FakeRun], sets: list[RunSet] | None = None, **claims: Any
) -> compare.Compared:
    analysis = model.analyse(runs, pictures=False)  # type: ignore[arg-type]
    chosen = compare.sets_by_target(analysis.model["runs"]) if sets is None else sets
    found = compare.compare(analysis, chosen, compare.Claims(**claims))
    compare.validate(found.document)
    return found


def nearest_rank(values: list[int], percent: float) -> int:
    return sorted(values)[math.ceil(round(len(values) * percent / 100, 9)) - 1]


def blocks(
    made_of: Callable[[int, int], made.FakeSeries], budget_ns: int | None = None, **claims: Any
) -> dict[str, Any]:
    """The comparison of two targets in eight blocks. ``made_of`` gives the series of a block and a
    target."""
    runs = []
    for repeat in range(8):
        for place, target in enumerate(("a", "b")):
            name = f"{place}{repeat}"
            step = made.step(0, [made_of(repeat, place)], budget_ns=budget_ns)
            more = {"id": name, "boot_id": name, "target": target, "repeat": repeat}
            runs.append(made.run([step], study="s", **more))
    return compared(runs, **claims).document


def test_a_histogram_of_the_same_samples_is_no_difference() -> None:
    """The upper ends of its buckets were worse in each block."""

    def made_of(repeat: int, place: int) -> made.FakeSeries:
        values = np.random.default_rng(repeat).normal(5e5, 1e4, 2000).astype(np.int32)
        one = made.sampled(values)
        return made.as_histogram(one) if place else one

    document = blocks(made_of, within=0.001)
    rows = document["quantities"][0]["rows"]
    assert [one["bucket"] for row in rows for one in row["runs"]] == [0] * 8 + [1 / 128] * 8
    found = {one["statistic"]: one for one in document["comparisons"]}
    assert found["50"]["matched"] and min(found["50"]["blocks"]) > 1
    verdicts = {name: one["verdict"] for name, one in found.items()}
    assert verdicts == {"tail": "not decided", "50": "not decided", "max": "equivalent"}


def test_buckets_are_not_the_steps_of_a_clock() -> None:
    """The distances of the upper ends and of the maximum depended on the maximum."""

    def made_of(repeat: int, place: int) -> made.FakeSeries:
        values = np.random.default_rng(repeat).normal(5e5, 1e4, 2000).astype(np.int32)
        values = (values * (1 + 0.008 * place)).astype(np.int32)
        values[0] = 540_671 + place  # the end of a bucket, or not
        return made.as_histogram(made.sampled(values))

    document = blocks(made_of, within=0.001)
    rows = document["quantities"][0]["rows"]
    assert len({one["resolution_ns"] for row in rows for one in row["runs"]}) == 1
    found = {one["statistic"]: one for one in document["comparisons"]}
    assert found["50"]["verdict"] == "worse"


@pytest.mark.parametrize(("near", "verdict"), [(150_000, "not decided"), (140_000, "worse")])
@pytest.mark.parametrize("sampled", [0, 8])
def test_samples_in_the_bucket_of_the_budget_are_not_over_it(
    near: int, verdict: str, sampled: int
) -> None:
    """With a budget of 150.2 us, the first system has more samples of 150.0 us, and the second has
    twice as many over it."""

    def made_of(repeat: int, place: int) -> made.FakeSeries:
        values = np.random.default_rng(repeat).normal(5e4, 1e3, 2000).astype(np.int32)
        values[:100] = near if place == 0 else 50_000
        values[100 : 120 + 20 * place] = 160_000
        one = made.sampled(values)
        return made.as_histogram(one) if place or repeat >= sampled else one

    document = blocks(made_of, budget_ns=150_200)
    rows = document["quantities"][0]["rows"]
    assert [one["over"] for row in rows for one in row["runs"]] == [20] * 8 + [40] * 8
    unsure = verdict == "not decided" and not sampled
    assert {one["unknown"] for one in rows[0]["runs"]} == {100 if unsure else 0}
    (found,) = (one for one in document["comparisons"] if one["statistic"] == "rate")
    assert found["verdict"] == ("worse" if sampled else verdict)


@pytest.mark.slow
def test_figures_and_ratios_against_the_samples_themselves() -> None:
    runs = study()
    document = compared(runs).document
    assert [one["name"] for one in document["sets"]] == ["lab:rt", "lab:stock"]
    assert [one["boots"] for one in document["sets"]] == [2, 2]
    assert [(one["context"], one["load"]["name"]) for one in document["quantities"]] == [
        (context, load) for load in ("idle", "sched") for context in CONTEXTS
    ]
    assert document["apart"] == document["absent"] == []
    members = [[runs[0], runs[3]], [runs[1], runs[2]]]
    for place, quantity in enumerate(document["quantities"]):
        step, at = divmod(place, 3)
        wanted = []
        for number, row in enumerate(quantity["rows"]):
            each = [one.steps[step].series[at].value.tolist() for one in members[number]]
            values = [int(v) for one in each for v in one]
            wanted.append(
                {
                    "min": min(values),
                    "50": nearest_rank(values, 50),
                    "tail": nearest_rank(values, 99.9),
                    "max": max(values),
                }
            )
            assert row["set"] == number
            assert quantity["tail"] == "99.9"
            assert row["count"] == len(values)
            assert row["figures"] == wanted[-1]
            assert [one["run"] for one in row["runs"]] == [one.id for one in members[number]]
            for own, mine in zip(row["runs"], each, strict=True):
                assert own["figures"]["50"] == nearest_rank(mine, 50)
                assert own["figures"]["max"] == max(mine)
        assert quantity["rows"][0]["ratio"] is None
        ratios = dict(quantity["rows"][1]["ratio"])
        assert ratios.pop("max") is None
        assert ratios == pytest.approx(
            {name: wanted[1][name] / wanted[0][name] for name in ratios}, rel=1e-12
        )


@pytest.mark.slow
def test_the_tables_behind_the_figures_hold_every_sample() -> None:
    runs = study()
    found = compared(runs)
    for place, tables in enumerate(found.tables):
        step, at = divmod(place, 3)
        for table, members in zip(tables, ((0, 3), (1, 2)), strict=True):
            values = sorted(
                int(v) for one in members for v in runs[one].steps[step].series[at].value
            )
            assert np.repeat(table.values, table.counts).tolist() == values


@pytest.mark.parametrize(
    ("first", "second", "tail"),
    [
        (12_000, 10_000, "99.9"),
        (12_000, 9_999, "99"),
        (999, 12_000, "90"),
        (12_000, 99, None),
        (15, 12_000, None),
    ],
)
@pytest.mark.slow
def test_the_tail_is_the_highest_percentile_that_the_samples_of_both_sets_carry(
    first: int, second: int, tail: str | None
) -> None:
    runs = study()[:2]
    for run, count in zip(runs, (first, second), strict=True):
        for step in run.steps:
            for one in step.series:
                one.index, one.value = one.index[:count], one.value[:count]
    document = compared(runs).document
    for place, quantity in enumerate(document["quantities"]):
        assert quantity["tail"] == tail
        number, at = divmod(place, 3)
        values = [run.steps[number].series[at].value.tolist() for run in runs]
        found = [row["figures"]["tail"] for row in quantity["rows"]]
        if tail is None:
            assert found == [None, None]
            assert quantity["rows"][1]["ratio"]["tail"] is None
            continue
        assert found == [nearest_rank(one, float(tail)) for one in values]
        assert quantity["rows"][1]["ratio"]["tail"] == found[1] / found[0]
    head = next(
        line for line in compare_text.terminal(document).splitlines() if "set  samples" in line
    ).replace("\u202f", " ")
    wanted = [] if tail is None else [f"{tail} %"]
    assert re.findall(r"[0-9.]+ %", head) == wanted
    source = Source(runs)  # type: ignore[arg-type]
    section = comparison_section(compared(runs), source.analysis)
    grid = next(block.grid for block in section.blocks if isinstance(block, Table))
    assert re.findall(r"[0-9.]+ %", " ".join(grid.heads).replace("\u202f", " ")) == wanted


@pytest.mark.slow
def test_the_run_with_the_maximum_of_a_side_is_named() -> None:
    runs = study()
    for run, top in ((runs[0], 80_000_000), (runs[1], 90_000_000)):
        for one in run.steps[1].series:
            one.value[5] = top
    source = Source(runs)  # type: ignore[arg-type]
    section = repr(comparison_section(compared(runs), source.analysis)).replace("\\u202f", " ")
    assert re.search(r"'A: lab:rt'.*?Observed maximum 80 000 µs'.*? \(run 1, ", section)
    assert re.search(r"'B: lab:stock'.*?Observed maximum 90 000 µs'.*? \(run 2, ", section)


@pytest.mark.slow
def test_the_tail_is_one_that_each_run_of_a_set_carries() -> None:
    runs = study()
    for step in runs[-1].steps:
        for one in step.series:
            one.index, one.value = one.index[:5000], one.value[:5000]
    sets = [RunSet("a", (0, 1)), RunSet("b", (2, 3))]
    document = compared(runs, sets).document
    assert {quantity["tail"] for quantity in document["quantities"]} == {"99"}
    for quantity in document["quantities"]:
        each = [run["figures"]["tail"] for row in quantity["rows"] for run in row["runs"]]
        assert len(each) == 4
        assert None not in each


@pytest.mark.slow
def test_quantities_of_one_load_whose_tails_differ_have_a_table_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compare_text, "ROWS", 100)
    runs = study()[:2]
    for run in runs:
        one = run.steps[0].series[2]
        one.index, one.value = one.index[:5000], one.value[:5000]
    document = compared(runs).document
    assert [one["tail"] for one in document["quantities"][:3]] == ["99.9", "99.9", "99"]
    text = compare_text.terminal(document).replace("\u202f", " ")
    heads = [line for line in text.splitlines() if "samples" in line and "median" in line]
    assert [re.findall(r"[0-9.]+ %", line) for line in heads] == [["99.9 %"], ["99.9 %"], ["99 %"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"interval_ns": 2 * made.MS}, "interval 1 000 µs against 2 000 µs"),
        ({"priority": 50}, "priority 80 against 50"),
        ({"policy": "other"}, "policy SCHED_FIFO against SCHED_OTHER"),
        ({"labels": {"method": "timerfd"}}, "method none against timerfd"),
        ({"lab": "counted"}, "clock time against instructions as time"),
    ],
)
def test_what_was_measured_otherwise_stands_beside_nothing(
    more: dict[str, Any], reason: str
) -> None:
    runs = [kernel_run(1, "a", "6.1-rt"), kernel_run(2, "b", "6.1", **more)]
    document = compared(runs).document
    same = {one["context"] for one in document["quantities"]}
    other = {one["context"] for one in document["apart"]}
    assert other and other.isdisjoint(same)
    assert other | same == set(CONTEXTS)
    for one in document["apart"]:
        assert one["sets"] == [0, 1]
        assert reason in one["reason"].replace("\u202f", " ")
    text = " ".join(compare_text.terminal(document).split())
    assert "Not compared" in text and "measured in different ways" in text


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{}, {"interval": "1ms"}])
@pytest.mark.parametrize("first", [False, True])
def test_options_of_a_skipped_step_hide_no_difference(asked: dict[str, str], first: bool) -> None:
    """A step that was not carried out names only the options asked for, not their defaults."""
    runs = [kernel_run(1, "local", "6.1"), kernel_run(2, "local", "6.1")]
    for run, dither in zip(runs, ("no", "yes"), strict=True):
        for step in run.steps:
            step.header.parameters["dither"] = stream.Parameter(None, dither)
    skipped = runs[0].steps[0 if first else 1]
    skipped.series, skipped.header = [], None
    skipped.document.update(state="skipped", parameters=asked)
    document = compared(runs, [RunSet("A", (0,)), RunSet("B", (1,))]).document
    assert document["quantities"] == []
    assert {one["reason"] for one in document["apart"]} == {"dither no against yes"}


@pytest.mark.slow
def test_a_way_that_both_have_is_compared_and_the_other_one_said() -> None:
    runs = [kernel_run(1, "a", "6.1-rt"), kernel_run(2, "b", "6.1")]
    runs[1].steps[0].series = runs[1].steps[0].series[1:]
    runs[1].steps[0].document.update(state="complete")
    document = compared(runs).document
    (lacking,) = document["absent"]
    assert (lacking["context"], lacking["load"]["name"], lacking["sets"]) == ("irq", "idle", [1])
    assert lacking["reason"] == "not measured there"
    runs[1].steps[0].series = []
    runs[1].steps[0].document.update(state="skipped", reason="the module is not there")
    document = compared(runs).document
    assert {one["reason"] for one in document["absent"]} == {"skipped: the module is not there"}
    assert len(document["absent"]) == 3
    assert "timer: latency (µs), idle" in compare_text.terminal(document)


@pytest.mark.parametrize(("quantities", "said"), [([], []), (["duration"], ["locks"])])
def test_a_measurement_that_only_judges_behaviour_lacks_no_quantity(
    quantities: list[str], said: list[str]
) -> None:
    """One of its tests was skipped, or all passed: neither is why it is not compared."""
    runs = [kernel_run(1, "a", "6.1-rt"), kernel_run(2, "b", "6.1")]
    entry = {**made.CATALOGUE["measurements"][0], "name": "locks"}
    entry["series"] = [{**entry["series"][0], "name": name} for name in quantities]
    catalogue = {**made.CATALOGUE, "measurements": [*made.CATALOGUE["measurements"], entry]}
    for run, result in zip(runs, ("pass", "skipped"), strict=True):
        verdict = stream.Verdict(0, "no inversion", result, "needs a second CPU", "")
        run.steps.append(made.step(2, [], "locks", header=None, verdicts=[verdict]))
        run.document["catalogue"] = catalogue
    absent = compared(runs).document["absent"]
    assert list(dict.fromkeys(one["measurement"] for one in absent)) == said
    reasons = {tuple(one["sets"]): one["reason"] for one in absent}
    assert not said or reasons == {
        (0,): "no sample was taken",
        (1,): "skipped: needs a second CPU",
    }


@pytest.mark.slow
def test_kernels_are_not_compared_by_the_mode_plain() -> None:
    with pytest.raises(UsageError, match="plain mode") as caught:
        compared(study(lab="plain"))
    assert "counted" in caught.value.remedy
    same = [kernel_run(n, f"t{n}", "6.1", lab="plain") for n in (1, 2)]
    document = compared(same).document  # one kernel on two boards: no note on kernels
    assert "Emulated in real time" in document["note"]
    counted = compared_study("counted").document
    assert "time is the number of instructions" in counted["note"]
    assert [one["emulated"] for one in counted["sets"]] == [["counted"], ["counted"]]
    source = Source(study(lab="plain"))  # type: ignore[arg-type]
    assert isinstance(source.comparison, str) and "plain mode" in source.comparison


@pytest.mark.slow
def test_environments_are_compared_by_name() -> None:
    document = compared_study().document
    differences = {one["name"]: one["values"] for one in document["differences"]}
    assert differences["kernel"] == ["6.1-rt", "6.1"]
    assert differences["real-time model"] == ["PREEMPT_RT", "voluntary preemption only"]
    assert len(differences) == 2
    runs = study()
    runs[3].document["environment"]["cpu"]["model"] = "another"
    differences = {one["name"]: one["values"] for one in compared(runs).document["differences"]}
    assert differences["cpu model"][0].endswith(" / another")


@pytest.mark.slow
def test_a_setting_without_effect_is_no_difference() -> None:
    def setting(name: str, effective: str | None) -> stream.Setting:
        return stream.Setting(0, name, "1", None, effective, "")

    runs = study()
    for run in runs:
        governor = (
            "performance" if "rt" in run.document["environment"]["kernel"]["release"] else None
        )
        run.steps[0].settings = [setting("governor", governor)]
    assert len({run.document["environment"]["kernel"]["release"] for run in runs}) == 2
    runs[0].steps[0].settings.append(setting("irq", None))
    differences = {one["name"]: one["values"] for one in compared(runs).document["differences"]}
    assert differences["setting governor"] == ["performance", "–"]
    assert "setting irq" not in differences


@pytest.mark.slow
def test_what_a_difference_implies_is_not_said_again() -> None:
    runs = study(lab="counted")
    for number, run in enumerate(runs):
        stock = "" if "rt" in run.document["environment"]["kernel"]["release"] else "stock "
        environment = run.document["environment"]
        environment["kernel"] |= {
            "build": f"{stock}built by somebody",
            "preemption": f"{stock}preemption",
            "preemption_dynamic": not stock,
            "cmdline": f"{stock}quiet",
        }
        environment["lab"] |= {
            "kernel digest": f"{stock}digest",
            f"package linux-image-{stock}": "1",
            "kernel arguments": f"{stock}quiet",
            "boot": f"boot {number}",
        }
        environment |= {"boot_id": f"{number}", "uptime_s": number, "load_average": number}
    wanted = {"kernel", "real-time model", "kernel command line"}
    assert {one["name"] for one in compared(runs).document["differences"]} == wanted
    for run in runs:  # one kernel, built twice: there is nothing else that says it
        run.document["environment"]["kernel"]["release"] = "6.1"
        run.document["environment"]["realtime"] = "voluntary"
    wanted = {one["name"] for one in compared(runs).document["differences"]}
    assert {"kernel build", "kernel preemption", "lab kernel digest"} <= wanted
    assert "lab package linux-image-stock " in wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "told"),
    [("madvise", None), ("[always] madvise never", ["always", "madvise"])],
)
def test_a_choice_in_brackets_is_compared_by_the_word(other: str, told: list[str] | None) -> None:
    runs = study()
    for run, text in zip(runs, (other, *["always [madvise] never"] * 2, other), strict=True):
        run.document["environment"]["memory"] = {"transparent_huge_pages": text}
    found = {one["name"]: one["values"] for one in compared(runs).document["differences"]}
    assert found.get("memory transparent huge pages") == told


@pytest.mark.slow
def test_what_is_on_or_off_is_yes_or_no() -> None:
    """It was True or False."""
    runs = study()
    for run, active in zip(runs, (True, False, False, True), strict=True):
        run.document["environment"]["cpu"]["smt"] = {"active": active}
    found = {one["name"]: one["values"] for one in compared(runs).document["differences"]}
    assert found["cpu smt active"] == ["yes", "no"]


@pytest.mark.slow
@pytest.mark.parametrize(("other", "told"), [(990_000_000, False), (980_000_000, True)])
def test_memory_that_differs_by_less_than_a_hundredth_is_the_same(other: int, told: bool) -> None:
    runs = study()
    for run, total in zip(runs, (10**9, other, other, 10**9), strict=True):
        run.document["environment"]["memory"] = {"total_bytes": total}
    names = {one["name"] for one in compared(runs).document["differences"]}
    assert ("memory total bytes" in names) is told


@pytest.mark.slow
def test_boots_of_the_lab_are_told_apart_by_the_name_that_the_host_gave_them() -> None:
    runs = study(lab="counted")
    for run, boot in zip(runs, ("x", "y", "z", "x"), strict=True):
        run.document["boot_id"] = "the same in every counted boot"
        run.document["environment"]["lab"]["boot"] = boot
    document = compared(runs).document
    assert [one["boots"] for one in document["sets"]] == [1, 2]
    assert "identical and add no evidence" in document["note"]
    assert "identical and add no evidence" not in compared_study().document["note"]


def test_sets_of_which_every_step_was_skipped_say_why() -> None:
    runs = study()[:2]
    for run in runs:
        for number, step in enumerate(run.steps):
            step.series = []
            reason = "no real-time priority" if number else f"{run.document['target']} lacks it"
            step.document.update(state="skipped", reason=reason)
    document = compared(runs).document
    assert document["quantities"] == []
    assert [(one["load"]["name"], one["sets"], one["reason"]) for one in document["absent"]] == [
        ("idle", [0], "skipped: lab:rt lacks it"),
        ("sched", [0, 1], "skipped: no real-time priority"),
        ("idle", [1], "skipped: lab:stock lacks it"),
    ]
    source = Source(runs)  # type: ignore[arg-type]
    section = repr(comparison_section(compared(runs), source.analysis))
    assert re.search("Nothing can be compared.*'A: lab:rt; .*'B: lab:stock; ", section)
    text = " ".join(compare_text.terminal(document).split())
    assert "Nothing can be compared" in text
    assert "0 samples" not in text and "Maxima" not in text
    assert "B: 1 run, 1 boot. No quantity is compared." in " ".join(text.split())
    assert "timer, idle: not in A: skipped: lab:rt lacks it" in text
    assert "timer, load sched: not in A and B: skipped: no real-time priority" in text


@pytest.mark.slow
def test_what_stands_against_the_figures_is_said_beside_them() -> None:
    runs = study()
    runs[1].steps[1].document.update(state="failed", reason="the load died")
    runs[2].steps[0].told.append(stream.Event(0, "setting", 5, None, {"name": "governor"}))
    document = compared(runs).document
    marks = {
        (one["context"], one["load"]["name"]): [row["marks"] for row in one["rows"]]
        for one in document["quantities"]
    }
    assert marks["user", "sched"] == [[], ["invalid: the step failed"]]
    assert marks["user", "idle"] == [[], ["disturbed: a setting changed during the step"]]
    assert "B: invalid: the step failed" in compare_text.terminal(document)


@pytest.mark.slow
def test_a_disturbance_is_a_load_of_its_own() -> None:
    runs = [kernel_run(1, "a", "6.1-rt"), kernel_run(2, "b", "6.1")]
    runs[1].steps[0].document["disturb"] = "spin_lock:200us:7.3ms"
    document = compared(runs).document
    assert {one["load"]["name"] for one in document["quantities"]} == {"sched"}
    assert {one["load"].get("disturb", "") for one in document["absent"]} == {
        "", "spin_lock:200us:7.3ms",
    }  # fmt: skip


@pytest.mark.slow
def test_one_set_is_not_compared() -> None:
    with pytest.raises(UsageError, match="two sets"):
        compared([kernel_run(1, "a", "6.1"), kernel_run(2, "a", "6.1")])


@pytest.mark.slow
@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_text_fits_and_has_the_figures(width: int) -> None:
    document = compared_study("counted").document
    text = compare_text.terminal(document, width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert not any(ord(character) < 32 for line in lines for character in line)
    first = " ".join(text.partition("\n\n")[0].split())
    assert first == " ".join(f"{conclusion(document)}.".replace("\u202f", " ").split())
    assert first.startswith("Under load ")
    rows = [line for line in lines if line.lstrip().startswith(("A ", "B ", "B/A"))]
    tables = text.partition("\n\n")[2].splitlines()
    assert sum("×" in line for line in tables) == 3
    assert "and 1 more table: see --json or the report (-o FILE.html)" in tables
    assert sum("24 000" in line for line in rows or lines) >= 3
    plain = compare_text.terminal(document, width, encoding="ascii")
    assert plain.isascii()


@pytest.mark.slow
@pytest.mark.parametrize("lab", ["counted", ""])
def test_maxima_have_no_ratio(lab: str) -> None:
    """Each is one sample: a ratio of two would rank them, which the note denies."""
    document = compared_study(lab).document
    ratios = [one["rows"][1]["ratio"] for one in document["quantities"]]
    assert all(one["max"] is None for one in ratios)
    assert all(one["50"] is not None for one in ratios)
    compare.validate(document)
    assert ("which paths are preemptible" in document["note"]) == bool(lab)
    assert "Maxima have no ratio" in document["note"]
    tables = compare_text.terminal(document).partition(" set ")[2].splitlines()
    heads = f" set {tables[0]}"
    row = next(line for line in tables if "B/A" in line)
    assert heads.split()[-2:] == ["max", "missed"]
    assert row.endswith("–")


@pytest.mark.slow
def test_a_long_name_of_a_row_is_broken_not_cut() -> None:
    ways = [{"way": f"{word} " + "through the whole of the kernel " * 4} for word in ("up", "down")]
    runs = [kernel_run(1, "a", "6.1-rt"), kernel_run(2, "b", "6.1")]
    for run in runs:
        for step, labels in zip(run.steps, ways, strict=True):
            step.document.update(load={"name": "idle"})
            for one in step.series:
                one.info = dataclasses.replace(one.info, labels=labels)
    text = compare_text.terminal(compared(runs).document)
    assert max(map(len, text.splitlines())) <= 80
    told = " ".join(text.split())
    for labels in ways:
        assert f"irq, {labels['way'].strip()}" in told


@pytest.mark.slow
def test_markdown_begins_with_it() -> None:
    source = Source(study())  # type: ignore[arg-type]
    text = markdown.render(short(source.analysis, source.comparison))
    first = re.findall("^## .*", text, re.MULTILINE)[0]
    assert first == "## Comparison"
    assert " on B (lab:stock)" in text


@pytest.mark.study(135)
@pytest.mark.slow
def test_the_page_draws_what_the_samples_are() -> None:
    runs = study(lab="counted")
    source = Source(runs)  # type: ignore[arg-type]
    page = html.render(source.analysis, source.comparison)
    data = inflated(re.findall(r'id="data">(.*?)</script>', page)[0])
    for step, name in enumerate(("sets-1", "sets-0")):  # the loaded step comes first
        drawn = data[name]
        assert drawn["labels"] == [f"{letter} {one}" for one in CONTEXTS for letter in "AB"]
        assert drawn["hues"] == [0, 1] * 3 and drawn["dashes"] == [0, 0, 1, 1, 2, 2]
        edges = drawn["histogram"]["edges"]
        for place in range(6):
            at, number = divmod(place, 2)
            members = ((0, 3), (1, 2))[number]
            values = np.concatenate([runs[m].steps[step].series[at].value for m in members])
            counted, _ = np.histogram(values, [*edges[:-1], edges[-1] - 0.5])
            assert drawn["histogram"]["counts"][place] == counted.tolist()
            reached = [int((values >= x).sum()) for x in drawn["ccdf"]["x"] if x <= values.max()]
            assert drawn["ccdf"]["reached"][place] == reached
    assert 'class="sets' in page
    assert page.count('<tr class="relative">') == 6 and "time is the number of instructions" in page
    refused = Source(study(lab="plain"))  # type: ignore[arg-type]
    page = html.render(refused.analysis, refused.comparison)
    assert "plain mode" in page and 'class="sets' not in page


@pytest.mark.slow
def test_on_paper_lines_of_a_set_share_colour_and_marker() -> None:
    source = Source(study())  # type: ignore[arg-type]
    shared = views_of(source.analysis, source.comparison).shared
    key = drawing.key(shared.data["sets-0"])
    assert key is not None
    for at, dashes in ((0, 3), (1, 3)):
        assert key.count(f'stroke="{drawing.COLOURS[at]}"') >= dashes
    assert key.count(f'stroke-dasharray="{drawing.DASHES[1]}"') == 2
    for kind in ("histogram", "ccdf"):
        view = {"kind": kind, "full": True, "title": "t", "caption": "c"}
        drawn = figures.draw(shared.data["sets-0"], view, ())
        assert drawn is not None
        assert drawn.svg.count(f'stroke-dasharray="{drawing.DASHES[2]}"') == 2


def test_letters_go_on() -> None:
    letters = [compare.letter(at) for at in range(60)]
    assert letters[:3] == ["A", "B", "C"] and len(set(letters)) == 60


# --- from the command line ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored_study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A data folder with a study of two targets, twice each, and the study's id."""
    folder = tmp_path_factory.mktemp("stored")
    words = ["--samples", "4000", "--cpu", "0", "--method", "nanosleep,timer", "--repeat", "2"]
    targets = ["--target", "fake", "--target", "fake:late"]
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("XDG_DATA_HOME", str(folder))
        patch.delenv("RTGAUGE_STORE", raising=False)
        patch.chdir(folder)
        assert main(["run", "timer", *words, *targets, "--json"]) == 0, err.getvalue()
    return folder, str(json.loads(out.getvalue())["runs"][0]["study"])


@pytest.fixture
def two(stored_study: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store of the test's own with a study of two targets, twice each; gives its id."""
    folder, study = stored_study
    shutil.copytree(folder, tmp_path / "data")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return study


@pytest.mark.slow
def test_compare_a_study(rtgauge: Run, two: str) -> None:
    document = rtgauge("compare", two, "--json").json()
    compare.validate(document)
    assert [one["name"] for one in document["sets"]] == ["fake", "fake:late"]
    for quantity in document["quantities"]:
        assert quantity["rows"][1]["ratio"]["50"] == 1000
        assert [row["count"] for row in quantity["rows"]] == [8000, 8000]
    assert rtgauge("compare", "last", "--json").json() == document
    names = [f"{two}@fake:late", f"{two}@fake"]
    turned = rtgauge("compare", *names, "--json").json()
    assert [one["name"] for one in turned["sets"]] == names
    assert turned["quantities"][0]["rows"][1]["ratio"]["50"] == 0.001
    shown = rtgauge("compare", two)
    assert shown.code == 0 and "×1000" in shown.out
    lines = shown.out.splitlines()  # a command is never broken
    assert max(len(one) for one in lines if not one.startswith("   rtgauge ")) <= 80
    assert "What to do next" in lines


@pytest.mark.slow
def test_a_gate_that_proves_nothing(rtgauge: Run, two: str) -> None:
    """The runs of the fake target are copies of each other."""
    gate = rtgauge("compare", two, "--gate", "-o", "gate.xml", "-o", "gate.tap")
    assert gate.code == 77
    assert "too few runs to prove anything" in gate.err
    assert "Each repeats another run" in " ".join(gate.out.split())
    assert rtgauge("compare", two).code == 0
    assert "<skipped" in Path("gate.xml").read_text()
    assert "# SKIP not enough runs" in Path("gate.tap").read_text()


def gate_of(
    verdicts: list[dict[str, Any]],
    change: Callable[[dict[str, Any]], object] = lambda _: None,
    words: str = "",
) -> int:
    """The exit code for comparisons of one quantity with these verdicts."""
    comparison = {
        "quantity": 0, "set": 1, "statistic": "50", "ratio": 2.0, "interval": [1.5, 2.5],
        "p_adjusted": 0.01, "runs": [6, 6], "matched": True, "needed": None, "primary": False,
    }  # fmt: skip
    document = copy.deepcopy(compared_study().document)
    change(document)
    comparisons = [{**comparison, **one} for one in verdicts]
    return _gate({**document, "comparisons": comparisons}, words)


@pytest.mark.slow
def test_the_exit_code_of_a_gate(capsys: pytest.CaptureFixture[str]) -> None:
    worse = {"verdict": "worse", "beyond": True}
    others = [
        {"verdict": "worse", "beyond": False},
        {"verdict": "better", "beyond": True},
        {"verdict": "not enough runs", "beyond": False},
    ]
    assert gate_of([*others, worse]) == 3
    assert gate_of(others) == 0
    assert gate_of(others[2:]) == 77
    said = capsys.readouterr().err
    assert "worse, by more than the 10" in said and "too few runs" in said
    assert gate_of([]) == 77
    assert "nothing to compare" in capsys.readouterr().err
    unlike = {"verdict": "not decided", "beyond": False, "primary": True, "interval": None}
    assert gate_of([unlike, *others]) == 77
    assert "nothing is proven: " in capsys.readouterr().err
    assert gate_of([unlike, worse]) == 3
    assert gate_of([{**unlike, "primary": False}, *others]) == 0
    for coarse in others[:2]:  # a clock as coarse as the figures leaves an interval without limits
        assert gate_of([{**coarse, "primary": True, "interval": None}]) == 0


def test_a_gate_without_the_primary_figures(capsys: pytest.CaptureFixture[str]) -> None:
    primary = {"verdict": "not decided", "beyond": False, "primary": True}

    def unanswered(document: dict[str, Any]) -> None:
        document["quantities"][0]["rows"][1]["runs"][0]["figures"]["50"] = None

    def absent(load: str) -> Callable[[dict[str, Any]], None]:
        one = {
            "measurement": "timer", "name": "latency", "unit": "ns", "context": "user",
            "load": {"name": load}, "sets": [1], "reason": "not measured there",
        }  # fmt: skip
        return lambda document: document.update(absent=[one])

    assert gate_of([primary]) == 0
    assert gate_of([primary], unanswered) == 77
    capsys.readouterr()
    assert gate_of([primary], absent("sched")) == 77
    assert "timer: latency, load sched, is not in B (not measured" in capsys.readouterr().err
    assert gate_of([primary], absent("sched"), "timer user idle") == 0
    assert gate_of([primary], absent("idle")) == 0


@pytest.mark.slow
def test_the_order_of_the_runs_is_no_difference_of_the_environments() -> None:
    runs = study()
    for one, board in zip(runs, ("first", "second", "first", "second"), strict=True):
        one.document["environment"]["board"] = board
    names = {one["name"] for one in compared(runs).document["differences"]}
    assert names == {"kernel", "real-time model"}


@pytest.mark.slow
@pytest.mark.parametrize(("lacks", "code"), [(None, 0), (0, 77), (2, 77)])
def test_a_gate_judges_the_primary_figure_of_each_set(
    capsys: pytest.CaptureFixture[str], lacks: int | None, code: int
) -> None:
    """Three targets, of which one lacks the step under load."""
    runs = []
    for repeat in range(10):
        for at in range(3):
            one = kernel_run(3 * repeat + at, f"lab:{at}", "6.1-rt", samples=2000)
            one.document["repeat"] = repeat
            if at == lacks:
                one.steps, one.document["steps"] = one.steps[:1], one.document["steps"][:1]
            runs.append(one)
    document = compared(runs).document
    assert {one["set"] for one in document["comparisons"]} == {1, 2}
    assert _gate(document) == _gate(document, "timer user sched") == code
    said = capsys.readouterr().err
    letter = "" if lacks is None else "ABC"[lacks]
    assert (f"load sched, is not in {letter}" in said) == (lacks is not None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--within", "0"), "not a margin"),
        (("--within", "-5%"), "not a margin"),
        (("--within", "ten"), "not a margin"),
        (("--within", "1001%"), "not a margin"),
        (("--primary", "irq"), "'irq' matches none of the compared quantities"),
        (("-o", "gate.txt"), "does not have the suffix of a report format"),
    ],
)
def test_wrong_claims(rtgauge: Run, two: str, words: tuple[str, ...], message: str) -> None:
    found = rtgauge("compare", two, *words)
    assert found.code == 2
    assert message in found.err


@pytest.mark.slow
def test_the_claims_of_the_command_line(rtgauge: Run, two: str) -> None:
    document = rtgauge("compare", two, "--within", "2.5 %", "--json").json()
    assert document["within"] == pytest.approx(0.025)
    told = document["quantities"][0]["told"]
    chosen = rtgauge("compare", two, "--primary", f"max {' '.join(told)}", "--json").json()
    first = chosen["comparisons"][0]
    assert (first["primary"], first["quantity"], first["statistic"]) == (True, 0, "max")


@pytest.mark.slow
def test_a_study_is_shown_side_by_side_when_it_ends(rtgauge: Run) -> None:
    words = ("--samples", "2000", "--target", "fake", "--target", "fake:late")
    shown = rtgauge("run", "timer", *words).out
    assert shown.startswith("The targets side by side\n\nWhile idle, 99") and "B/A" in shown
    assert "runs side by side" not in shown
    figures = re.search(r"^All figures of each run: rtgauge (.*)$", shown, re.M)
    assert figures is not None and rtgauge(*figures[1].split()).code == 0
    again = re.search(r"^To repeat this comparison: rtgauge (.*)$", shown, re.M)
    assert again is not None and rtgauge(*again[1].split()).code == 0
    # a target that failed leaves nothing to compare, but the figures of the other one
    alone = rtgauge("run", "timer", *words[:4], "--target", "fake:exit=1").out
    figures_of_one, heading, rest = alone.partition("The targets side by side\n")
    assert "latency (µs)" in figures_of_one and heading and "Nothing can be compared" in rest
    # the answer of each target is at the end
    end = shown[again.end() :]
    one = r"{}: .*(\n\S.*){{0,2}}\n  Fake target: .*\n  Observed maximum .*(\n  .*)*"
    assert re.search(f"^{one.format('fake')}\n{one.format('fake:late')}$", end.strip(), re.M)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["html", "md", "json"])
def test_reports_of_a_study_have_the_section(rtgauge: Run, two: str, suffix: str) -> None:
    path = Path(f"x.{suffix}")
    assert rtgauge("compare", two, "-o", str(path)).code == 0
    text = path.read_text()
    first = {"json": "rtgauge-comparison", "html": "side by side", "md": "## Comparison"}
    assert first[suffix] in text
    if suffix != "json":
        assert rtgauge("report", two, "-o", str(path)).code == 0
        told = {"html": "B/A", "md": "Ratios are relative to A."}[suffix]
        assert told in path.read_text().partition('id="data"')[0]


@pytest.mark.slow
def test_what_is_no_comparison(rtgauge: Run, two: str) -> None:
    assert rtgauge("compare", f"{two}@fake").code == 2
    assert rtgauge("compare", two, "-o", "x.txt").code == 2
    assert rtgauge("compare", "nothing").code == 2
    assert rtgauge("compare").code == 2


def stalled(number: int, repeat: int, target: str, factor: float) -> made.FakeRun:
    """A run whose task is held up for 49 periods every 2 s, unless ``factor`` is 1."""
    random = np.random.default_rng(number)
    values = (random.gamma(4, 1250, 20_000) * factor + 50).astype(np.int32)
    stalls = {} if factor == 1 else dict.fromkeys(range(1000, 19_000, 2000), 49)
    index, kept, gaps = made.with_stalls(values, stalls, made.MS)
    one = made.FakeSeries(made.info(), index, kept, gaps=gaps)
    return made.run(
        [made.step(0, [one], budget_ns=1_000_000)],
        id=f"0192f0c4-6d1e-7aaa-8000-{number:012}",
        study="0192f0c4-6d1e-7aaa-8000-ffffffffffff",
        target=target,
        repeat=repeat,
    )


def stalled_runs(factor: float) -> list[made.FakeRun]:
    """Runs of two targets in turn, of which the second has this factor."""
    return [
        stalled(2 * repeat + at, repeat, target, each)
        for repeat in range(6)
        for at, (target, each) in enumerate((("lab:a", 1.0), ("lab:b", factor)))
    ]


@pytest.mark.slow
def test_stalls_count_with_all_periods_that_they_delay() -> None:
    """One sample in 1950 is late, but one period in 45: the tail of the samples is better."""
    runs = stalled_runs(0.7)
    found = compared(runs).document
    one, other = found["quantities"][0]["rows"]
    assert other["missed"] == 6 * 9 * 49
    latency = [49_007_000 - late * made.MS for late in range(50)]
    beyond = sorted(latency * 54)[-120]  # of 120 000 periods due, 0.1 % are larger
    assert other["figures"]["tail"] == beyond > 1000 * one["figures"]["tail"]
    assert other["over"] == sum(value > 1_000_000 for value in latency) * 54
    primary = found["comparisons"][0]
    assert (primary["statistic"], primary["primary"], primary["verdict"]) == ("tail", True, "worse")
    rate = next(each for each in found["comparisons"] if each["statistic"] == "rate")
    shares = (9 * 49 + 0.5) / 20_000, 0.5 / 20_000
    assert rate["ratio"] == pytest.approx(shares[0] / shares[1])
    assert "Percentiles and shares cover missed periods" in found["note"]
    assert "samples and missed periods" in conclusion(found)


@pytest.mark.parametrize(("budget_ns", "short"), [(500_000, 0), (2_000_000, 40)])
def test_events_that_were_not_waited_for_as_long_as_the_budget_are_counted(
    budget_ns: int, short: int
) -> None:
    """Without a timeout, the wait ends with the interval of 1 ms."""
    runs = []
    for number, target in enumerate(("lab:a", "lab:b")):
        index = np.arange(1000, dtype=np.int64)
        index[500:] += 40
        series = made.FakeSeries(
            made.info(name="response"), index, index % 90 + 5000, gaps=((499, 40),)
        )
        step = made.step(0, [series], "log-host", budget_ns=budget_ns)
        runs.append(made.run([step], id=f"0192f0c4-6d1e-7aaa-8000-{number:012}", target=target))
    (quantity,) = compared(runs).document["quantities"]
    for row in quantity["rows"]:
        (one,) = row["runs"]
        assert (one["over"], one["unknown"], one["short_waits"]) == (40, 0, short)
        assert row["over"] == 40


@pytest.mark.slow
def test_lost_samples_may_be_the_largest() -> None:
    """30 of 20 000 samples, more than a thousandth, have unknown values: so has the tail."""
    runs = stalled_runs(1.0)
    for run in runs[1::2]:
        run.steps[0].series[0].untold_losses = 30
    found = compared(runs).document
    lossy = found["quantities"][0]["rows"][1]
    assert lossy["figures"]["tail"] is None and lossy["marks"] == ["samples were lost"]
    assert isinstance(lossy["figures"]["max"], numbers.AtLeast)
    values = np.sort(np.concatenate([run.steps[0].series[0].value for run in runs[1::2]]))
    assert lossy["figures"]["50"] == values[(120_000 + 180) // 2 - 1]
    ratios = {one["statistic"]: one["ratio"] for one in found["comparisons"]}
    assert ratios["tail"] is ratios["max"] is None and ratios["50"] is not None


@pytest.mark.slow
def test_other_cpus_of_task_and_load_are_told() -> None:
    runs = study()[:2]
    for run, cpu, load in zip(runs, ("3", "0-3"), ("0", None), strict=True):
        for step in run.steps:
            step.header.parameters["cpu"] = stream.Parameter("all", cpu)
            step.document["run_options"] = {"load": "sched"} | ({"load-cpu": load} if load else {})
    found = {one["name"]: one["values"] for one in compared(runs).document["differences"]}
    assert (found["CPUs measured"], found["CPUs of the load"]) == (["3", "0-3"], ["0", "–"])


def test_a_target_that_was_lost_is_of_no_kernel() -> None:
    """Else one lost board of the plain lab would end the trend of its label."""

    def run(number: int, known: bool) -> Any:
        return {
            "id": f"0000000{number}-0000-0000",
            "target": "lab:x86_64-rt,mode=plain",
            "boot_id": f"boot{number}" if known else "",
            "series": [1] if known else [],
            "environment": {
                "kernel": {"release": "6.12.0"} if known else {},
                "realtime": "preempt_rt" if known else "unknown",
                "lab": {"mode": "plain"},
            },
        }

    runs = [run(number, number != 2) for number in range(4)]
    assert refusal(runs, [RunSet("nightly", (place,)) for place in range(4)]) is None
    assert refusal(runs, [RunSet("A", (0, 1)), RunSet("B", (2,))]) is None
    runs[3]["environment"]["kernel"]["release"] = "6.13.0"
    assert refusal(runs, [RunSet("nightly", (place,)) for place in range(4)]) is not None
    # two machines, and a board of the lab that was not reached
    for number in (0, 3):
        runs[number]["environment"]["lab"] = {}
    assert refusal(runs, [RunSet("one", (place,)) for place in (0, 2, 3)]) is None


FEW = "not enough runs"


@pytest.mark.parametrize(
    ("tails", "verdicts", "said"),
    [
        ((None, None), ["worse"], "samples: not known for any system"),
        ((None, 9000), ["worse"], "samples: known only for B (b)"),
        ((9000, 18_000), ["worse"], "B is worse, 95 % sure: under load sched"),
        ((9000, 18_000, None), ["worse", FEW], "B is worse, 95 % sure: under load sched"),
        ((9000, 9800), ["worse"], "B is worse, 95 % sure: under load sched"),  # within the margin
        ((9000, None, 9800), [FEW, "worse"], "C is worse, 95 % sure: under load sched"),
        ((9000, None, 18_000), [FEW, "worse"], "C is worse, 95 % sure: under load sched"),
        ((9000, None, 9800), [FEW, FEW], "on C (c): no difference is proven"),
        ((9000, 9000), [FEW], "on B (b): no difference is proven"),
        ((9000, 9000), ["not decided"], "on B (b): no difference is proven"),
        ((9000, 9800), ["equivalent"], "on B (b): about the same"),
        ((9000, 9800, 9810), ["equivalent", "equivalent"], "on C (c): about the same"),
        ((9000, None, 9990), [FEW, "not decided"], "9.99 µs on C (c): no difference is proven"),
        ((9000, 9810, 9800), ["not decided", "equivalent"], " µs on C (c)"),
        ((9000, 9810, 9800), ["worse", "not decided"], " µs on C (c)"),
        ((9000, 9810, 9800), ["not decided", "worse"], " µs on C (c)"),
        ((None, 9000, 18_000), ["worse", "worse"], " µs on C (c)"),
    ],
)
def test_the_conclusion_is_about_the_systems_with_a_figure(
    tails: tuple[int | None, ...], verdicts: list[str], said: str
) -> None:
    """The verdicts are about the first set and another one."""
    rows = [{"set": at, "figures": {"tail": tail}, "missed": 0} for at, tail in enumerate(tails)]
    quantity = {
        "tail": "99", "rows": rows, "load": {"name": "sched"}, "measurement": "timer",
        "name": "latency", "unit": "ns", "context": "user",
    }  # fmt: skip
    primary = [
        {"primary": True, "quantity": 0, "set": at, "statistic": "tail", "verdict": verdict}
        for at, verdict in enumerate(verdicts, 1)
    ]
    sets = [{"letter": compare.letter(at), "name": "abc"[at], "boots": 1, "runs": ["r"],
             "states": []} for at in range(len(tails))]  # fmt: skip
    document = {"sets": sets, "quantities": [quantity], "comparisons": primary, "within": 0.1}
    found = conclusion(document).replace("\u202f", " ")
    assert found.startswith(said) if "95 %" in said else found.endswith(said)
    assert ("95 %" in found) is ("95 %" in said)


@pytest.mark.parametrize(
    ("boots", "said", "advised"),
    [
        ((1, 0), "the target of B could not be reached", "Measure B again when the target can"),
        (
            (0, 1, 0),
            "the targets of A and C could not be",
            "Measure A and C again when the targets",
        ),
        (
            (1, 1, 0),
            "no quantity was measured in the same way on two",
            "Measure C again when the t",
        ),
    ],
)
def test_sets_that_were_not_reached_are_named(
    boots: tuple[int, ...], said: str, advised: str
) -> None:
    sets = [
        {"letter": compare.letter(at), "name": "x", "boots": number, "runs": ["r"], "states": []}
        for at, number in enumerate(boots)
    ]
    document: dict[str, Any] = {
        "sets": sets, "quantities": [], "comparisons": [], "differences": [], "within": 0.1,
    }  # fmt: skip
    assert said in conclusion(document)
    assert any(one.startswith(advised) for one in advice(document))
    assert any("same command" in one for one in advice(document)) == (sum(boots) > 1)


def test_figures_of_all_samples_that_contradict_the_runs_are_not_their_conclusion() -> None:
    """B was faster in each block. Its slow blocks had more samples."""
    runs: list[made.FakeRun] = []
    for block in range(8):
        slow = block % 2
        for name, factor in (("a", 1.2), ("b", 1.0)):
            count = 90 if slow == (name == "b") else 20
            values = np.full(count, round((5000, 15_000)[slow] * factor) + block)
            series = made.sampled(values)
            more = {"id": f"{block}{name}", "study": "s", "repeat": block}
            runs.append(made.run([made.step(0, [series])], target=name, **more))
    sets = [RunSet(name, tuple(range(at, 16, 2))) for at, name in enumerate("ab")]
    document = compared(runs, sets).document
    first, second = (row["figures"]["50"] for row in document["quantities"][0]["rows"])
    assert first < second
    said = conclusion(document).replace("\u202f", " ")
    assert said.startswith("Timer: latency (µs), idle, median: B/A ×0.83")
    assert "B is better" in said and "stay within" not in said


def test_runs_too_short_for_a_median_say_so() -> None:
    """*No difference is proven* had no reason, next to a verdict on the maxima."""

    def sides(count: int) -> Any:
        runs: list[Any] = [
            made.run(
                [made.step(0, [latency(20 + number, count)])],
                id=f"0192f0c4-6d1e-7aaa-8000-00000000000{number}",
                boot_id=f"boot{number}", findings=[],
            )
            for number in range(8)
        ]  # fmt: skip
        found = compare.compare(
            model.analyse(runs), [RunSet("a", (0, 1, 2, 3)), RunSet("b", (4, 5, 6, 7))]
        )
        return found.document

    (said,) = advice(sides(6))
    assert numbers.plain(said) == (
        "timer: latency (us), idle, median: not judged, because runs have too few samples for it. "
        "Use longer runs (--for or --samples)."
    )
    assert not any("too few samples" in text for text in advice(sides(30)))
