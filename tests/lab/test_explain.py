# SPDX-License-Identifier: Apache-2.0
"""`rtgauge explain` on emulated boards: a disturbance put in on purpose is blamed, by class and
thread, where it shows, and nowhere else. The parts add up to the sample."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Result

Run = Callable[..., Result]

pytestmark = pytest.mark.slow

DISTURBER = "rtgauge_disturb"
LOCKED = ("interrupts-off", ("irq", "kernel", "user"))
# Kind -> class and contexts in which it shows, on stock kernels and on PREEMPT_RT.
STOCK = {
    "spin_lock": ("preemption-off", ("kernel", "user")),
    "spin_lock_bh": ("preemption-off", ("kernel", "user")),
    "tasklet": ("softirq", ("kernel", "user")),
    "kthread": ("preemption-off", ("kernel", "user")),
    "preempt_disable": ("preemption-off", ("kernel", "user")),
    "local_irq_save": LOCKED,
    "raw_spin_lock_irqsave": LOCKED,
}
NOWHERE: tuple[str, tuple[str, ...]] = ("", ())
REALTIME = {
    kind: found
    if kind in ("preempt_disable", "local_irq_save", "raw_spin_lock_irqsave")
    else NOWHERE
    for kind, found in STOCK.items()
}
BOARDS = {
    "x86_64-stock-6.12": STOCK,
    "x86_64-rt-6.12": REALTIME,
    "x86_64-stock-6.1": STOCK,
    "x86_64-rt-6.1": REALTIME,
    "arm64-rt-6.1": REALTIME,
}
STEP = """
[[step]]
measurement = "timer"
context = "irq,kernel,user"
samples = 300
"""


def _sums(cause: dict[str, Any]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for one in cause["segments"]:
        sums[one["kind"]] = sums.get(one["kind"], 0) + one["length_ns"]
    return sums


@pytest.mark.study(125, lacks="a lock that another CPU holds, and the board")
@pytest.mark.parametrize("board", BOARDS)
def test_each_disturbance_is_blamed_where_it_shows(
    rtgauge: Run, tmp_path: Path, board: str
) -> None:
    plan, store = tmp_path / "kinds.toml", ("--store", str(tmp_path / "store"))
    kinds = BOARDS[board]
    plan.write_text(STEP + "".join(f'{STEP}disturb = "{kind}:200us:7.301ms"\n' for kind in kinds))
    run = rtgauge("run", str(plan), "--target", f"lab:{board}", "--json", *store)
    assert run.code == 0, run.err
    done = rtgauge("explain", "last", "--worst", "1", "--json", *store)
    assert done.code == 0, done.err
    document = done.json()
    assert document["replay"]["samples"] >= 8 * 3 * 300
    assert len(document["causes"]) == 8 * 3
    for cause in document["causes"]:
        total = sum(one["length_ns"] for one in cause["segments"])
        assert total + cause["rest_ns"] == cause["latency_ns"]
        assert cause["rest_ns"] <= cause["latency_ns"] / 100
        kind, contexts = [NOWHERE, *kinds.values()][cause["step"]]
        if cause["context"] not in contexts:
            assert DISTURBER not in cause["blame"], cause
            assert cause["latency_ns"] < 30_000
            continue
        sums = _sums(cause)
        assert max(sums, key=lambda one: sums[one]) == kind, cause
        assert sums[kind] > 0.9 * cause["latency_ns"] > 90_000
        main = max(cause["segments"], key=lambda one: one["length_ns"])
        if kind != "softirq":  # a tasklet has no thread of its own
            assert main["task"]["name"] == DISTURBER
        assert "injection" in cause["remedies"][0]["text"]
    # the results contain the causes, and the run is as it was
    (shown,) = rtgauge("show", "last", "--json", *store).json()["runs"]
    assert shown["causes"] == document["causes"]
    again = run.json()["runs"][0]
    assert shown["series"] == again["series"]


def test_a_lock_of_the_kernel_is_blamed_with_its_owner_and_remedy(
    rtgauge: Run, tmp_path: Path
) -> None:
    """The random offset of the kernel's stack takes a lock in each system call, and on PREEMPT_RT
    a load that was preempted there holds it."""
    store = ("--store", str(tmp_path / "store"))
    words = ("timer", "--context", "user", "--samples", "600", "--load", "sched")
    run = rtgauge("run", *words, "--target", "lab:arm64-rt-6.1", "--json", *store)
    assert run.code == 0, run.err
    file = tmp_path / "worst.trace.json"
    done = rtgauge("explain", "last", "--worst", "1", "-o", str(file), "--json", *store)
    assert done.code == 0, done.err
    (cause,) = done.json()["causes"]
    assert "lock in get_random_u16" in cause["blame"]
    locks = [one for one in cause["segments"] if one["kind"] == "lock"]
    assert {one["function"] for one in locks} == {"get_random_u16"}
    assert "load/sched" in {one["owner"]["name"] for one in locks if one["owner"]}
    assert any("invoke_syscall" in one["stack"] for one in locks)
    assert "randomize_kstack_offset=off" in cause["remedies"][0]["command"]
    events = json.loads(file.read_text())["traceEvents"]
    assert sum(one["ph"] == "X" for one in events) == len(cause["segments"])
