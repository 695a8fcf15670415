# SPDX-License-Identifier: Apache-2.0
"""Other activity during the steps: figures against brute force, and findings where it disturbed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import report_runs as made
from rtgauge.report.document.summary import short
from rtgauge.report.document.tables import background_table
from rtgauge.report.render import markdown, terminal
from rtgauge.report.results import background, model
from rtgauge.report.results.points import negative_points
from rtgauge.report.sets.compare import compare, sets_by_target
from rtgauge.stream import Ambience

S = 1_000_000_000


def record(at_s: float, **changes: Any) -> Ambience:
    """A reading at which nothing was out of the ordinary, of two CPUs."""
    quiet: dict[str, Any] = {
        "sequence": 1,
        "time_ns": round(at_s * S),
        "cpus": (0, 1),
        "frequency_khz": (2_000_000, 2_000_000),
        "interrupts": (250, 100),
        "steal_ns": (0, 0),
        "smi": 0,
        "temperature_mc": {"0 cpu": 50_000},
    }
    return Ambience(**{**quiet, **changes})


def seen(*records: Ambience) -> background.Watched:
    return background.Watched().step(records)


def with_steps(series: list[Any]) -> dict[str, Any]:
    steps = [{"step": 1, "role": "measurement"}, {"step": 2, "role": "background"}]
    return {"steps": steps, "series": series}


def found(*steps: background.Watched, cpus: tuple[int, ...] = (0, 1)) -> dict[str, str]:
    named = [(f"timer (step {at + 1})", cpus, one) for at, one in enumerate(steps)]
    return {one["check"]: one["found"] for one in background.findings(named)}


def test_figures_of_two_steps_against_brute_force() -> None:
    random = np.random.default_rng(3)
    steps = []
    for _ in range(2):
        times = np.cumsum(random.choice([1.0, 10.0], 40))
        steps.append(
            [
                record(
                    float(at),
                    frequency_khz=(int(random.integers(800_000, 3_000_000)), None),
                    interrupts=(int(random.integers(0, 9000)), 5),
                    steal_ns=(int(random.integers(0, S // 9)), 0),
                    idle_ns=(int(random.integers(0, S // 2)), None),
                    smi=int(random.integers(0, 3)),
                    temperature_mc={"0 cpu": int(random.integers(30_000, 90_000))},
                )
                for at in times
            ]
        )
    total = seen(*steps[0])
    total.merge(seen(*steps[1]))
    rows = {(one["name"], one["cpu"]): one for one in background.series(total, 2, 0.95)}
    assert list(rows) == [
        ("frequency", 0), ("interrupts", 0), ("interrupts", 1), ("busy", 0), ("steal", 0),
        ("steal", 1), ("smi", -1), ("temperature", -1),
    ]  # fmt: skip
    spans = [np.diff([one.time_ns for one in step]) / S for step in steps]
    weights = np.concatenate(spans)
    used = [
        [
            round(s * S) - ((one.idle_ns or (0,))[0] or 0) - (one.steal_ns or (0,))[0]
            for s, one in zip(span, step[1:], strict=True)
        ]
        for span, step in zip(spans, steps, strict=True)
    ]
    assert total.cpu_share == pytest.approx(np.concatenate(used).sum() / (weights.sum() * S))
    for name, counts in (
        (
            "interrupts",
            [[one.interrupts[0] for one in step[1:] if one.interrupts] for step in steps],
        ),
        ("busy", used),
        ("steal", [[one.steal_ns[0] for one in step[1:] if one.steal_ns] for step in steps]),
    ):
        counted = np.concatenate(counts)
        rates = np.round(counted / weights)
        one = rows[name, 0]
        assert one["count"] == len(rates) == 78
        assert (one["min"], one["max"], one["first"]) == (rates.min(), rates.max(), rates[0])
        assert one["mean"] == pytest.approx(counted.sum() / weights.sum())
        assert one["rest"]["max"] == rates[1:].max()
        assert one["rest"]["mean"] == pytest.approx(counted[1:].sum() / weights[1:].sum())
    clocks = [[one.frequency_khz[0] or 0 for one in step] for step in steps]
    assert rows["frequency", 0]["count"] == 80
    assert rows["frequency", 0]["min"] == min(map(min, clocks))
    long = np.concatenate([[1e-9, *span] for span in spans])
    assert rows["frequency", 0]["mean"] == pytest.approx(
        np.average(np.concatenate(clocks), weights=long)
    )
    smi = [one.smi for step in steps for one in step[1:]]
    assert rows["smi", -1]["mean"] == pytest.approx(np.mean([s for s in smi if s is not None]))
    assert rows["temperature", -1]["labels"] == {"zone": "0 cpu"}
    assert total.extents["interrupts", 0, ""].weight == pytest.approx(weights.sum())


def test_the_first_reading_is_only_the_reference() -> None:
    watched = seen(record(1), record(2, interrupts=(7, 8)))
    rows = {(one["name"], one["cpu"]): one for one in background.series(watched, 1, 0.95)}
    assert rows["interrupts", 0]["count"] == 1 and rows["interrupts", 0]["max"] == 7
    assert rows["interrupts", 0]["rest"] == {"min": None, "mean": None, "max": None}


def test_interrupts_that_are_not_known_are_not_none() -> None:
    watched = seen(record(1, interrupts=None), record(2, interrupts=None))
    assert watched.interrupts_per_s is None
    names = {one["name"] for one in background.series(watched, 1, 0.95)}
    assert "interrupts" not in names and "steal" in names


def test_steal_time_that_is_not_known_is_not_none() -> None:
    watched = seen(record(1, steal_ns=None), record(2, steal_ns=None))
    names = {one["name"] for one in background.series(watched, 1, 0.95)}
    assert "steal" not in names and "interrupts" in names
    assert not watched.steal_ns and found(watched) == {}


def test_the_share_of_stolen_time_is_of_the_time_in_which_it_was_counted() -> None:
    watched = seen(
        record(0),
        record(1, steal_ns=(S // 2, 0)),
        record(2, steal_ns=None),
        record(3, steal_ns=None),
    )
    assert "took 50\N{NARROW NO-BREAK SPACE}% of the time of CPU 0" in found(watched)["steal-time"]


@pytest.mark.parametrize("steal", [None, (7, 8)])
@pytest.mark.parametrize("interrupts", [None, (7, 8)])
def test_the_table_says_what_could_not_be_read(
    interrupts: tuple[int, int] | None, steal: tuple[int, int] | None
) -> None:
    one = record(1, interrupts=interrupts, steal_ns=steal)
    watched = seen(one, replace(one, time_ns=2 * S))
    series = background.series(watched, 2, 0.95)
    table = background_table(with_steps(series))
    assert table is not None
    assert ("/proc/interrupts could not be read" in table.caption) == (interrupts is None)
    assert ("/proc/stat could not be read" in table.caption) == (steal is None)


def test_a_step_too_short_for_a_second_reading_lacks_nothing() -> None:
    series = background.series(seen(record(1)), 2, 0.95)
    table = background_table(with_steps(series))
    assert table is not None and "could not be read" not in table.caption


def test_a_quiet_run_has_no_findings() -> None:
    assert found(seen(*(record(at) for at in range(9)))) == {}
    slightly = seen(record(0), record(1, frequency_khz=(1_900_000, None)))
    assert found(slightly) == {}
    unknown = seen(record(0, smi=None), record(1, smi=None, frequency_khz=(None, None)))
    assert found(unknown) == {}


def test_what_disturbed_is_found() -> None:
    quiet = seen(record(0), record(1))
    stolen = seen(record(0), record(1), record(11, steal_ns=(0, S // 10)))
    assert found(quiet, stolen) == {
        "steal-time": "a hypervisor took 0.91\u202f% of the time of CPU 1 in timer (step 2), "
        "up to 1\u202f% between two readings"
    }
    nearly = seen(record(0), record(1, steal_ns=(997 * S // 1000, 0)))
    assert "took 99.7\u202f% of the time of CPU 0" in found(nearly)["steal-time"]
    assert found(quiet, stolen, cpus=(0,)) == {}
    # booked late: more than the time since the reading before
    late = seen(record(0), record(1, steal_ns=(S // 2, 0)), record(2, steal_ns=(3 * S, 0)))
    assert found(late) == {
        "steal-time": "a hypervisor took 75\u202f% of the time of CPU 0 in timer (step 1), "
        "up to 100\u202f% between two readings"
    }
    assert found(seen(record(0), record(1, smi=2)), seen(record(0), record(1, smi=1))) == {
        "smi": "2 system management interrupts in timer (step 1), and in 1 other step"
    }
    slow = seen(record(0), record(1, frequency_khz=(2_000_000, 1_200_000)))
    assert found(slow) == {
        "frequency-change": "the clock of CPU 1 varied between 1\u202f200 and 2\u202f000 MHz in "
        "timer (step 1)"
    }
    assert found(seen(record(0, temperature_mc={"1 soc": 96_000}))) == {
        "temperature": "96 °C at 1 soc in timer (step 1)"
    }


@pytest.mark.parametrize(
    ("changes", "check"),
    [({"temperature_mc": {"0 cpu": 96_000}}, "temperature"), ({"smi": 2}, "smi")],
)
def test_a_comparison_marks_the_figures_that_were_disturbed(
    changes: dict[str, Any], check: str
) -> None:
    runs: Any = []
    for name in ("a", "b"):
        step = made.step(0, made.timer_series(1, 2000))
        step.ambience = [record(0), record(1, **(changes if name == "b" else {}))]
        runs.append(made.run([step], id=name, target=f"lab:{name}"))
    analysis = model.analyse(runs)
    document = compare(analysis, sets_by_target(analysis.model["runs"])).document
    marks = [row["marks"] for row in document["quantities"][0]["rows"]]
    assert marks == [[], [f"disturbed: {check}"]]


def test_a_share_of_a_few_ticks_is_not_told() -> None:
    """One tick of 10 ms is 12 % of 80 ms."""
    tick = S // 100
    short = seen(record(0), record(0.08, steal_ns=(0, tick)))
    longest = seen(record(0), record(1, steal_ns=(0, 4 * tick)), record(20))
    share = seen(record(0), record(10, steal_ns=(5 * tick, 0)))
    ticks = "took 40\u202fms from CPU 1 in timer (step 2), counted in steps of 10\u202fms"
    others = ", and in 1 other step"
    assert found(short, longest) == {"steal-time": f"a hypervisor {ticks}{others}"}
    assert found(short, share)["steal-time"] == (
        "a hypervisor took 0.5\u202f% of the time of CPU 0 in timer (step 2), up to 0.5\u202f% "
        f"between two readings{others}"
    )


@pytest.mark.slow
def test_in_the_results_model() -> None:
    run = made.evaluation(2, 2000)
    for step in run.steps:
        step.ambience = [record(0), record(1, steal_ns=(S // 4, 0)), record(2)]
    analysis = model.analyse([run])  # type: ignore[list-item]
    model.validate(analysis.model)
    document = analysis.model["runs"][0]
    last = document["steps"][-1]
    assert (last["role"], last["measurement"]) == ("background", "background")
    assert last["step"] == len(run.steps)
    watched = [one for one in document["series"] if one["step"] == last["step"]]
    assert watched == document["series"][-len(watched) :]
    assert {one["name"] for one in watched} == set(
        ("frequency", "interrupts", "steal", "smi", "temperature")
    )
    steal = next(one for one in watched if one["name"] == "steal" and one["cpu"] == 0)
    assert steal["max"] == S // 4 and steal["count"] == 2 * len(run.steps)
    (finding,) = [one for one in document["findings"] if one["check"] == "steal-time"]
    assert finding["level"] == "warning"
    texts = [point.text for point in negative_points(document)]
    assert any(text.startswith("steal-time: a hypervisor took 12\u202f%") for text in texts)
    limits = terminal.text(analysis.model).partition("Findings: 1 error")[2]
    assert "steal-time" in limits.partition(".")[0]
    assert re.search(r"\| Frequency \(MHz\), CPU 0 +\| 2.000 \|", markdown.render(short(analysis)))


@pytest.mark.slow
def test_without_background_activity_there_is_no_such_step() -> None:
    analysis = model.analyse([made.evaluation(2, 2000)])  # type: ignore[list-item]
    document = analysis.model["runs"][0]
    assert all(step["role"] != "background" for step in document["steps"])
