# SPDX-License-Identifier: Apache-2.0
"""``timer`` in the contexts irq and kernel without rtgauge's module, by Xenomai's driver
timerbench. tests/support/fake_core.py plays the core, tests/support/fake_bench.py the driver."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from pathlib import Path
from typing import Final

import pytest

from agents import LOADS, NOT_LOADED, Stream, messages_of, read
from fake_bench import HANDLER, TASK, FakeBench, Order
from fake_core import FakeCore
from rtgauge.stream import Histogram, Verdict
from rtgauge.target.local import find_agent
from waiting import until

ALL: Final = "every context asked for is measured"
RULE: Final = "stays out-of-band"
TIMER: Final = ("timer", "--cpu", "0", "--interval", "5ms", "--for", "50ms", "--dither", "no")
# A cell has 10 ns: a sample is the upper end of its cell.
VALUES: Final = {HANDLER: [601, 602, 645, 1290], TASK: [1490, 1501, -1499, 2040]}
CELLS: Final = {"irq": [609, 609, 649, 1299], "kernel": [1499, 1499, 1509, 2049]}


@pytest.fixture(autouse=True)
def on_cpu_0() -> None:
    if 0 not in os.sched_getaffinity(0):
        pytest.skip("these tests may not run on CPU 0")


def core_with(bench: FakeBench) -> FakeCore:
    return FakeCore(bench.folder / "core", bench=bench)


def run(core: FakeCore, *words: str) -> tuple[int, Stream, str]:
    output = core.folder / "stream.cbor"
    done = core.run([find_agent(), "run", *words, "--output", output])
    return done.returncode, read(output, histogram_only=True), done.stderr.decode()


def histograms(stream: Stream) -> dict[str, Histogram]:
    """The last histogram of each context."""
    contexts = {one.series: one.context for one in stream.series}
    return {contexts[one.series]: one for one in stream.records if isinstance(one, Histogram)}


def test_histogram_of_driver_is_series(tmp_path: Path) -> None:
    bench = FakeBench(tmp_path, VALUES, overruns=3)
    code, stream, said = run(
        core_with(bench), *TIMER, "--context", "irq,kernel", "--core", "cobalt"
    )
    assert (code, said, stream.header.core) == (0, "", "cobalt")
    assert {one.context: one.labels["method"] for one in stream.series} == dict.fromkeys(
        CELLS, "timerbench"
    )
    assert all(one.histogram_only and one.interval_ns == 5_000_000 for one in stream.series)
    assert sum(stream.samples.values()) == 0, "a sample would have a time"
    found = histograms(stream)
    for context, values in CELLS.items():
        one = found[context]
        assert (one.count, one.min, one.max) == (4, values[0], values[-1])
        assert (one.sum, one.missed) == (sum(values), 3)
    assert not [one for one in stream.events if one.event == "maximum"], "nor has the maximum"
    assert len([one for one in messages_of(stream) if "up to 9 ns too high" in one]) == 2
    # the driver says nothing of its switches
    assert RULE not in {one.rule for one in stream.records if isinstance(one, Verdict)}


def test_driver_is_asked(tmp_path: Path) -> None:
    bench = FakeBench(tmp_path, VALUES)
    words = ("--context", "irq,kernel", "--core", "cobalt", "--priority", "70")
    code, stream, _ = run(core_with(bench), *TIMER, *words)
    assert code == 0
    assert bench.orders == [
        Order(HANDLER, 0, 5_000_000, 1, 20000, 10, 0),
        Order(TASK, 70, 5_000_000, 1, 20000, 10, 0),
    ]
    assert bench.ended == [HANDLER, TASK]
    placed = {one.context: (one.cpu, one.policy, one.priority) for one in stream.series}
    assert placed == {"irq": (0, "", 0), "kernel": (-1, "fifo", 70)}
    assert stream.header.parameters["method"].effective == "timerbench"
    assert stream.header.parameters["context"].effective == "irq,kernel"


def test_user_task_is_measured_beside_it(tmp_path: Path) -> None:
    bench = FakeBench(tmp_path, VALUES)
    code, stream, said = run(
        core_with(bench), *TIMER, "--context", "irq,kernel,user", "--core", "cobalt"
    )
    assert (code, said) == (0, "")
    labels = {one.context: one.labels["method"] for one in stream.series}
    assert labels == {"irq": "timerbench", "kernel": "timerbench", "user": "clock_nanosleep"}
    user = next(one for one in stream.series if one.context == "user")
    assert not user.histogram_only
    assert stream.samples[user.series] > 0
    rules = {one.rule: one.result for one in stream.records if isinstance(one, Verdict)}
    assert rules == {RULE: "pass"}


def test_sample_beyond_histogram_is_maximum(tmp_path: Path) -> None:
    bench = FakeBench(tmp_path, {HANDLER: [600, 250_000, 300_123]})
    code, stream, _ = run(core_with(bench), *TIMER, "--context", "irq", "--core", "cobalt")
    assert code == 0
    assert histograms(stream)["irq"].max == 300_123
    said = "irq: 2 samples beyond the histogram, from 199990 ns on, counted as the maximum"
    assert said in messages_of(stream)


def test_driver_is_taken_automatically(tmp_path: Path) -> None:
    bench = FakeBench(tmp_path, VALUES)
    code, stream, _ = run(core_with(bench), *TIMER, "--context", "irq")
    assert (code, stream.header.core) == (0, "cobalt")


@pytest.mark.slow
def test_report_has_its_figures(tmp_path: Path) -> None:
    core = core_with(FakeBench(tmp_path, VALUES))
    done = core.run(
        [
            *(sys.executable, "-m", "rtgauge", "run", *TIMER, "--context", "irq,kernel"),
            *("--json", "--no-progress", "--store", tmp_path / "store"),
        ]
    )
    assert done.returncode == 0, done.stderr.decode()
    document = json.loads(done.stdout)["runs"][0]
    found = {one["context"]: one for one in document["series"] if one["measurement"] == "timer"}
    for context, values in CELLS.items():
        one = found[context]
        assert (one["count"], one["min"], one["max"]) == (4, values[0], values[-1])
        assert one["labels"]["method"] == "timerbench"


@pytest.mark.parametrize(
    ("words", "said", "remedy"),
    [
        (("--dither", "yes"), "cannot dither its due times", LOADS),
        (("--align", "yes"), "cannot align its due times", LOADS),
        (("--stop-above", "1ms"), "returns its samples only at the end", LOADS),
        (("--interval", "2s", "--for", "2s"), "longest interval of Xenomai's timerbench is 1 s",
         LOADS),
        (("--cpu", "1"), "measures only on CPU 0", "measure on that CPU"),
    ],
)  # fmt: skip
def test_what_driver_does_not_have_is_skipped(
    tmp_path: Path, words: tuple[str, ...], said: str, remedy: str
) -> None:
    if "--cpu" in words and 1 not in os.sched_getaffinity(0):
        pytest.skip("there is no CPU 1")
    bench = FakeBench(tmp_path, VALUES)
    code, _, text = run(core_with(bench), *TIMER, "--context", "irq", "--core", "cobalt", *words)
    assert code == 77
    assert said in text
    assert remedy in text
    assert bench.orders == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"start": errno.ENOMEM}, "cannot be started: Cannot allocate memory"),
        ({"end": errno.EFAULT}, "cannot be read: Bad address"),
    ],
)
def test_refusal_of_driver_fails(tmp_path: Path, given: dict[str, int], said: str) -> None:
    bench = FakeBench(tmp_path, VALUES, **given)  # type: ignore[arg-type]
    code, stream, text = run(core_with(bench), *TIMER, "--context", "kernel", "--core", "cobalt")
    assert code == 1
    assert said in text
    assert stream.trailer.state == "failed"


def test_stop_ends_the_driver(tmp_path: Path) -> None:
    """What was measured until then is kept."""
    bench = FakeBench(tmp_path, VALUES)
    core = core_with(bench)
    output = tmp_path / "out"
    words = ("timer", "--cpu", "0", "--for", "60s", "--context", "irq,kernel", "--core", "cobalt")
    process, thread = core.start([find_agent(), "run", *words, "--output", output])
    until(lambda: len(bench.orders) >= 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    thread.join(30)
    assert process.returncode == 4
    assert bench.ended == [HANDLER, TASK]
    found = histograms(read(output, histogram_only=True))
    assert {name: one.count for name, one in found.items()} == dict.fromkeys(CELLS, 4)


def test_without_driver_both_reasons_are_given(tmp_path: Path) -> None:
    core = FakeCore(tmp_path / "core")
    code, _, text = run(core, *TIMER, "--context", "irq", "--core", "cobalt")
    assert code == 77
    assert NOT_LOADED in text
    assert "the kernel has no driver timerbench" in text
