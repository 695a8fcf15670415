# SPDX-License-Identifier: Apache-2.0
"""Verdicts of a tune where runs have no value: what is lost may be the worst of a configuration."""

from __future__ import annotations

import math
import random
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import report_runs as made
from rtgauge import stats
from rtgauge.engine.tune import confirmation, screening
from rtgauge.report.document import tuned
from rtgauge.report.document.views import _head
from rtgauge.report.render import markdown
from rtgauge.report.results import model
from rtgauge.report.sets import tuned as sets
from rtgauge.text import plain

Row = dict[str, Any]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """A tune of one factor that shortens the tail by a fifth, whose confirmation follows. ``ends``
    says how the n-th run with or without it ends: "complete", "failed" or "lost"."""

    def result(ends: Callable[[Row, int], str]) -> dict[str, Any]:
        scatter = random.Random(3)
        head, rows = screening(1, 5)
        record: dict[str, Any] = {
            "design": head,
            "tried": [{"name": "a=1", "kind": "kernel", "values": ["a=1"]}],
            "dropped": {},
            "ignored": {},
            "configurations": rows,
        }
        rows += confirmation(record, [0], 12)
        values: dict[str, float] = {}
        lost: dict[str, str] = {}
        seen: dict[tuple[str, bool], int] = {}
        for row in rows:
            key = (row["phase"], bool(row["on"]))
            seen[key] = seen.get(key, 0) + 1
            end = ends(row, seen[key])
            row["state"] = "failed" if end == "failed" else "complete"
            row["run"] = f"r{row['number']}" if row["state"] == "complete" else ""
            if end == "lost":
                lost[row["run"]] = "events without an answer"
            elif row["run"]:
                typical = math.log(80e3 if row["on"] else 100e3)
                values[row["run"]] = typical + scatter.gauss(0, 0.05)
        monkeypatch.setattr(sets, "_values", lambda _: sets._Values({}, values, lost))
        return sets.tuned(record, model.analyse([]))

    return result


def setting(before: str = "1", reason: str = "") -> Row:
    return {"asked": "120", "effective": "120", "before": before, "reason": reason}


@pytest.mark.parametrize(
    ("kind", "value", "runs", "verdict", "reason"),
    [
        ("setting", "stat_interval", [({}, 80)] * 4, "ignored", "has no such setting"),
        ("setting", "stat_interval", [({"s": setting()}, 80)] * 4, "equivalent", ""),
        ("setting", "stat_interval", [({"s": setting("120")}, 80)] * 4, "ignored", "already has"),
        (
            "setting",
            "stat_interval",
            [({"s": setting(reason="permission denied: run as root")}, 80)] * 4,
            "ignored",
            "s: permission denied: run as root",
        ),
        (
            "setting",
            "stat_interval",
            [({"s": setting()}, 80)] * 3 + [({}, 80)],
            "not decided",
            "in effect in 3 of 4 runs",
        ),
        ("priority", "95", [({}, 95)] * 4, "equivalent", ""),
        ("priority", "95", [({}, 0)] * 4, "ignored", "did not get this priority"),
    ],
)
def test_a_factor_that_was_not_in_effect_is_not_judged(
    kind: str, value: str, runs: list[tuple[Row, int]], verdict: str, reason: str
) -> None:
    always = {"rt_runtime": setting()}
    present: list[Row] = [
        {"id": f"off{at}", "environment": {"settings": always}, "series": [{"priority": 80}]}
        for at in range(4)
    ]
    tried: list[Row] = [
        {
            "id": f"on{at}",
            "environment": {"settings": {**always, **settings}},
            "series": [{"priority": None}, {"priority": priority}],
        }
        for at, (settings, priority) in enumerate(runs)
    ]
    factor = {"verdict": "equivalent", "reason": ""}
    sets._unapplied(
        factor,
        {"kind": kind, "values": [value]},
        [*present, *tried],
        {f"on{at}" for at in range(4)},
        {f"off{at}" for at in range(4)},
    )
    assert factor["verdict"] == verdict
    assert reason in factor["reason"] and bool(reason) == bool(factor["reason"])


def verdict(found: dict[str, Any]) -> str:
    return str(found["factors"][0]["verdict"])


def test_a_tune_without_losses_decides(judged: Callable[..., dict[str, Any]]) -> None:
    found = judged(lambda _row, _number: "complete")
    assert verdict(found) == "helps" and found["factors"][0]["reason"] == ""
    assert found["confirmation"]["verdict"] == "better"


def test_runs_that_lost_events_decide_nothing(judged: Callable[..., dict[str, Any]]) -> None:
    for phases in ({"screen"}, {"confirm"}):
        found = judged(
            lambda row, number, phases=phases: (
                "lost" if row["on"] and row["phase"] in phases and number == 2 else "complete"
            )
        )
        screened = "screen" in phases
        assert verdict(found) == ("not decided" if screened else "helps")
        assert ("1 run has no value" in found["factors"][0]["reason"]) == screened
        assert found["confirmation"]["verdict"] == ("better" if screened else "not decided")


def test_runs_that_fail_on_one_side_decide_nothing(judged: Callable[..., dict[str, Any]]) -> None:
    found = judged(lambda row, number: "failed" if row["on"] and number == 2 else "complete")
    assert verdict(found) == "not decided"
    assert "1 run with it failed and 0 without it" in found["factors"][0]["reason"]
    assert found["confirmation"]["verdict"] == "not decided"
    equal = judged(
        lambda row, number: "failed" if row["phase"] == "screen" and number == 2 else "complete"
    )
    assert verdict(equal) == "helps" and equal["confirmation"]["verdict"] == "better"


@pytest.mark.slow
@pytest.mark.parametrize(("factors", "scatter"), [(3, 0.05), (19, 0.08)])
def test_effects_beyond_the_margin_are_rarely_called_equivalent(
    factors: int, scatter: float
) -> None:
    """Simulated: no effect is within 10 %, so any claim of that kind is wrong."""
    generator = np.random.default_rng(20261130)
    wrong = 0
    for seed in range(300):
        found = stats.design(factors, seed)
        on = np.array(found.rows, float)
        size = 1.001 * math.log(1.1) * generator.choice([-1, 1], factors)
        values = on @ size + generator.normal(0, scatter, len(on))
        solved = stats.effects(
            values.tolist(), found.blocks, found.rows, whole=found.kind == "full"
        )
        wrong += "equivalent" in [verdict for verdict, _ in sets.judged(solved)]
    assert 0 < wrong <= 0.05 * 300


def test_a_coarse_clock_shows_no_equivalence() -> None:
    effect = stats.Effect(0.0, -0.01, 0.01, 1.0, 9, 0.001)
    assert [sets.judged([effect], blur)[0][0] for blur in (0.0, 0.05, 0.2)] == [
        "equivalent", "equivalent", "not decided",
    ]  # fmt: skip


def test_a_confirmation_without_pairs(judged: Callable[..., dict[str, Any]]) -> None:
    found = judged(lambda row, _: "lost" if row["on"] else "complete")
    assert found["confirmation"]["verdict"] == "not decided"
    assert found["confirmation"]["blocks"] == 0


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("worse", "the confirmation shows the opposite: "),
        ("equivalent", "the confirmation shows a difference of at most 10 %: "),
        ("not decided", "the confirmation does not decide it: "),
        ("not enough runs", "the confirmation has too few runs: no figures"),
    ],
)
def test_a_confirmation_that_confirms_nothing(verdict: str, said: str) -> None:
    none = verdict == "not enough runs"
    confirmed = {"verdict": verdict, "blocks": 0, "interval": None, "ratio": None if none else 1.0}
    tune = {
        "state": "complete", "confirmation": confirmed,
        "factors": [factor(0.7, 0.8, 0.01, "helps")],
    }  # fmt: skip
    tone, text = tuned.answer(tune)
    assert tone == "warn" and said in plain(text)


def factor(low: float, high: float, p: float, verdict: str) -> Row:
    return {
        "name": "a=1", "kind": "kernel", "ratio": 1.0, "interval": [low, high], "p_adjusted": p,
        "verdict": verdict, "reason": "", "permanent": [],
    }  # fmt: skip


def shown(*factors: Row, interactions: Sequence[Row] = ()) -> str:
    quantity = {"percentile": None}
    design = {"kind": "full", "size": 2, "seed": 1}
    found = tuned.document({
        "state": "complete", "target": "local", "study": "s", "quantity": quantity,
        "design": design, "tried": [], "configurations": [], "factors": factors,
        "interactions": interactions, "confirmation": None,
    })  # fmt: skip
    return plain(markdown.render(found)).replace("\\", "")


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.95, 1.0996, "[0.95, 1.0996]"), (0.9089, 1.1004, "[0.9089, 1.1004]")],
)
def test_ends_of_intervals_are_told_from_the_margin(low: float, high: float, text: str) -> None:
    page = shown(factor(low, high, 0.0504, "not decided"))
    assert ". All combinations of 0 factors" in page
    assert text in page
    assert "0.0504" in page


def test_a_tune_without_values_explains_no_ratio() -> None:
    """It was "Ratio of no quantity in common with the factor on …"."""
    page = shown(factor(0.5, 2.0, 1.0, "not estimable"))
    assert "\nNo quantity in common. " in page and "Ratio of" not in page


def test_no_suspected_interaction_is_left_out() -> None:
    """Values of a full design of four factors, in which all six pairs interact."""
    names = list("abcd")
    scatter = random.Random(1)
    rows: list[Row] = [
        {"on": [at for at in range(4) if number >> at & 1], "block": block, "value_ns": 0.0}
        for block in range(6)
        for number in range(16)
    ]
    for row in rows:
        pairs = math.comb(len(row["on"]), 2)
        row["value_ns"] = math.exp(10 + 0.3 * pairs + scatter.gauss(0, 0.01))
    found = sets._interactions({"design": {"kind": "full"}}, rows, names)
    assert len(found) == 6
    page = shown(interactions=found)
    assert page.count("Suspected interaction: ") == 3
    for one in found:
        assert " with ".join(one["factors"]) in page


@pytest.mark.parametrize(("number", "more"), [(2, ""), (4, ""), (6, "; 2 more kernels")])
def test_the_head_of_a_report_names_four_kernels(number: int, more: str) -> None:
    kernels = [f"6.{at}.0" for at in range(number)]
    runs: list[Row] = [
        {
            "environment": {"kernel": {"release": one}}, "target": "local", "steps": [],
            "duration_s": None, "boot_id": "", "series": [],
        }
        for one in kernels
    ]  # fmt: skip
    analysis = SimpleNamespace(model={"runs": runs}, runs=[])
    subtitle = _head(analysis, False)["subtitle"]  # type: ignore[arg-type]
    assert subtitle.endswith("; ".join(f"Linux {one}" for one in kernels[:4]) + more)


@pytest.mark.parametrize(
    ("name", "value", "lines"),
    [
        (
            "/proc/irq/{24,26-28}/smp_affinity_list",
            "0-1",
            [f"w /proc/irq/{number}/smp_affinity_list - - - - 0-1" for number in (24, 26, 27, 28)],
        ),
        (
            "/proc/irq/{4095-4097}/smp_affinity_list",
            "0",
            [f"w /proc/irq/{number}/smp_affinity_list - - - - 0" for number in range(4095, 4098)],
        ),
        (
            "/proc/irq/24/smp_affinity_list",
            "0",
            ["w /proc/irq/24/smp_affinity_list - - - - 0"],
        ),
        ("/sys/kernel/mm/ksm/run", "0", ["w /sys/kernel/mm/ksm/run - - - - 0"]),
        ("/proc/sys/vm/stat_interval", "120", ["vm.stat_interval = 120"]),
    ],
)
def test_a_command_makes_each_setting_permanent(
    tmp_path: Path, name: str, value: str, lines: list[str]
) -> None:
    """Interrupts with the same affinity share a record, whose name is that of no file."""
    command, _, file = sets._setting(name, value).rpartition(" >> ")
    assert file in ("/etc/tmpfiles.d/rtgauge.conf", "/etc/sysctl.d/90-rtgauge.conf")
    shell = f"{command} >> {shlex.quote(str(tmp_path / 'made'))}"
    subprocess.run(["sh", "-c", shell], check=True)
    assert (tmp_path / "made").read_text().splitlines() == lines


@pytest.mark.parametrize(("histogram", "blur"), [(False, 0.0), (True, 1 / 128)])
def test_the_buckets_of_a_histogram_are_resolution(histogram: bool, blur: float) -> None:
    values = np.random.default_rng(1).integers(1000, 500_000, 2000).astype(np.int32)
    runs = []
    for number in range(2):
        one = made.sampled(values)
        if histogram and number:
            made.as_histogram(one)
        runs.append(made.run([made.step(0, [one])], id=str(number)))
    analysis = model.analyse(runs, pictures=False)  # type: ignore[arg-type]
    assert sets._values(analysis).blur == pytest.approx(blur, abs=1e-3)
