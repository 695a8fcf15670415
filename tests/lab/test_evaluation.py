# SPDX-License-Identifier: Apache-2.0
"""The plan of the published evaluation on emulated boards, stock and PREEMPT_RT, with few samples:
each table and each kind of diagram that the published report has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import Run
from lab_boots import NEEDS_X86
from rtgauge.report.document.answer import State, answer_of

pytestmark = [
    pytest.mark.slow,
    NEEDS_X86,
]
PLAN = Path(__file__).parents[2] / "plans" / "evaluation-2.9.toml"
# of the published report: calibration, tick, threads, semaphores, sustained interrupts
TABLES = {
    "clocks", "passes", "effect", "grids", "turns", "lowered", "loop", "waiters", "order",
    "sustained",
}  # fmt: skip
# over all samples, around the largest, one test loop, against a number
DIAGRAMS = {"time", "around", "begin", "strip", "against", "histogram"}
FEW = {"samples": "120", "for": '"500ms"', "operations": "180", "interrupts": "1000"}


def short_plan() -> str:
    text = PLAN.read_text("utf-8")
    for key, value in FEW.items():
        text, changed = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
        assert changed
    return text


@pytest.mark.study(57)
@pytest.mark.parametrize("kernel", ["stock", "rt"])
def test_the_published_evaluation_on_a_board(rtgauge: Run, tmp_path: Path, kernel: str) -> None:
    plan = tmp_path / "evaluation.toml"
    plan.write_text(short_plan(), "utf-8")
    page = tmp_path / "page.html"
    target = ("--target", f"lab:x86_64-{kernel}-6.12")
    done = rtgauge(
        "run", str(plan), *target, "-o", str(page), "--json", "--store", str(tmp_path / "data")
    )
    assert done.code in (0, 3), done.err
    (run,) = done.json()["runs"]
    states = {step["measurement"]: (step["state"], step["reason"]) for step in run["steps"]}
    assert {state for state, _ in states.values()} == {"complete"}, states
    rules = {test["rule"]: test["result"] for test in run["tests"]}
    assert len(rules) > 20 and set(rules.values()) == {"pass", "skipped"}, rules
    assert {one["name"] for one in run["tables"]} >= TABLES
    assert set(re.findall(r'data-kind="([a-z]+)"', page.read_text("utf-8"))) >= DIAGRAMS


SHORT = ("--for", "300ms", "--samples", "50")
BURSTS = "sched:groups=2:size=64KiB"


# Measurements that keep the CPU busy for half the time of the catalogue.
BUSY = ("--skip", "thread-rules,round-robin")


@pytest.mark.parametrize(("board", "skipped"), [("x86_64-rt", ()), ("arm64-rt", BUSY)])
def test_a_preempt_rt_kernel_is_never_unfit(
    rtgauge: Run, tmp_path: Path, board: str, skipped: tuple[str, ...]
) -> None:
    """The whole catalogue, short. A known limitation of the C library does not make it unfit."""
    words = ("--target", f"lab:{board}", "--budget", "1ms", *SHORT, *skipped)
    report = tmp_path / "page.html"
    done = rtgauge("evaluate", *words, "-o", str(report), "--json", "--store", str(tmp_path / "s"))
    assert done.code == 0, done.err
    (run,) = done.json()["runs"]
    answer = answer_of(run)
    assert answer.state in (State.FIT, State.UNPROVEN) and answer.tone in ("pass", "warn")
    assert report.stat().st_size < 1_500_000


def test_a_stock_kernel_under_a_load_of_long_messages_is_unfit(
    rtgauge: Run, tmp_path: Path
) -> None:
    words = ("--target", "lab:x86_64-stock", "--budget", "20us", "--load", BURSTS)
    few = ("--only", "timer", "--samples", "3000", "--for", "10s")
    done = rtgauge("evaluate", *words, *few, "--json", "--store", str(tmp_path / "s"))
    assert done.code == 3, done.err
    (run,) = done.json()["runs"]
    answer = answer_of(run)
    assert (answer.state, answer.tone) == (State.UNFIT, "fail")
