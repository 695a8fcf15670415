# SPDX-License-Identifier: Apache-2.0
"""What the tests of the answer share: runs of timer latency and their answers."""

from __future__ import annotations

from typing import Any

import numpy as np

import report_runs as made
from rtgauge.report.document.answer import (
    Answer,
    answer_of,
)
from rtgauge.report.document.blocks import Line
from rtgauge.report.results import model
from rtgauge.text import plain


def text(line: Line) -> str:
    return plain("".join(span.text for span in line))


def built(run: Any) -> dict[str, Any]:
    document: dict[str, Any] = model.build([run])["runs"][0]
    return document


def latency(top_us: int, count: int = 10_000, cpu: int = 0, **more: Any) -> made.FakeSeries:
    """A series with one value of ``top_us`` among others of 5 us."""
    values = np.full(count, 5000, np.int32)
    values[count // 2 : count // 2 + 1] = top_us * 1000
    return made.sampled(values, cpu, cpu, **more)


def held_up(count: int = 10_000, gone: int = 49) -> made.FakeSeries:
    """Samples of 5 us. After the middle one the thread was held up once it had its time stamp."""
    index = np.arange(count, dtype=np.int64)
    index[count // 2 :] += gone
    gaps = ((count // 2 - 1, gone),)
    return made.FakeSeries(made.info(), index, np.full(count, 5000, np.int32), gaps=gaps)


def idle_and_loaded(idle: made.FakeSeries, loaded: made.FakeSeries, **more: Any) -> made.FakeRun:
    """A series of each of two steps."""
    steps = [made.step(0, [idle], **more), made.step(1, [loaded], load="sched", **more)]
    return made.run(steps, findings=[])


def timers(idle_us: int, loaded_us: int, count: int = 10_000, **more: Any) -> made.FakeRun:
    """Timer latency idle and under load."""
    return idle_and_loaded(latency(idle_us, count), latency(loaded_us, count), **more)


def answered(*steps: made.FakeStep) -> Answer:
    """The answer of a run of these steps without findings."""
    return answer_of(built(made.run([*steps], findings=[])))


def budgeted(top_us: int, count: int, rate: float | None, budget_us: int = 150) -> Answer:
    budget_ns = budget_us * 1000
    return answered(made.step(0, [latency(top_us, count)], budget_ns=budget_ns, rate_per_hour=rate))


def mixed_steps(failed: int, skipped: int, whole: int) -> list[made.FakeStep]:
    steps = [made.step(n, [latency(10)], load="sched" if n % 2 else "idle") for n in range(whole)]
    for state, number in (("failed", failed), ("skipped", skipped)):
        for _ in range(number):
            why = {"state": state, "reason": "a thread did not end", "remedy": "run it again"}
            steps.append(made.step(len(steps), [], header=None, end=None, **why))
    return steps


def interrupted_run() -> made.FakeRun:
    run = timers(10, 18)
    run.document["state"] = "interrupted"
    return run
