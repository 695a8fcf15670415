# SPDX-License-Identifier: Apache-2.0
"""Contexts irq, kernel and user, the timerlat tracer and the interrupt measurements, on emulated
boards in counted mode: there time is instructions, so that figures can be bounded."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import Stream, read, values_of
from lab_boots import NEEDS_X86
from rtgauge.stream import SeriesInfo, Setting, Table, Verdict
from rtgauge.target.lab import LabTarget

pytestmark = NEEDS_X86
HOME = Path(os.environ["HOME"])  # before the tests have one of their own
TRACING = "/sys/kernel/tracing"
PCI = "/sys/bus/pci/devices"
MOUNT = f"grep -q ' {TRACING} ' /proc/mounts || mount -t tracefs nodev {TRACING}"


@pytest.fixture(scope="module", params=["x86_64-rt-6.1", "x86_64-stock-6.12"])
def board(request: pytest.FixtureRequest) -> Iterator[LabTarget]:
    """One start for all tests of this file; kernels are fetched once."""
    with pytest.MonkeyPatch.context() as patch:
        if "XDG_CACHE_HOME" not in os.environ:
            patch.setenv("XDG_CACHE_HOME", str(HOME / ".cache"))
        target = LabTarget(request.param)
        yield target
        target.close()


def measure(board: LabTarget, tmp_path: Path, *words: str) -> tuple[int | None, Stream]:
    agent = board.start(["run", *words])
    content = b""
    while (piece := agent.read(1.0)) != b"":
        content += piece or b""
    code = agent.wait(1.0)
    agent.close()
    path = tmp_path / "stream"
    path.write_bytes(content)
    return code, read(path)


def accounted(stream: Stream) -> None:
    """Samples + missed = periods due, in the samples themselves and in the trailer's counters."""
    for info, totals in zip(stream.series, stream.trailer.series, strict=True):
        due = (totals.last_due_ns - totals.first_due_ns) // info.interval_ns + 1
        assert totals.count + totals.missed == due
        assert stream.samples[info.series] + totals.lost == totals.count
        assert stream.missed[info.series] == totals.missed


def shell(board: LabTarget, script: str) -> str:
    output = board.execute(["/bin/sh", "-c", script])
    assert output.code == 0, output.stderr
    return output.stdout.decode()


def values(stream: Stream) -> dict[str, list[int]]:
    """Context, or name of the series where there are several -> samples."""
    shown = [series for series in stream.series if series.name != "dither"]
    several = len({series.context for series in shown}) < len(shown)
    return {
        (series.name if several else series.context): values_of(stream, series.series)
        for series in shown
    }


def by_context(stream: Stream) -> dict[str, SeriesInfo]:
    return {series.context: series for series in stream.series if series.name == "latency"}


def tables(stream: Stream) -> dict[str, list[list[object]]]:
    return {
        record.name: [list(row) for row in record.rows]
        for record in stream.records
        if isinstance(record, Table)
    }


# TID, name, policy and priority of each thread of an interrupt.
INTERRUPT_THREADS = """\
for at in /proc/[1-9]*; do
    read -r name < $at/comm
    case $name in irq/*)
        set -- $(sed 's/.*) //' $at/stat)
        echo "${at#/proc/} $(echo "$name" | tr ' ' _) ${39} ${38}"
    esac
done"""


@pytest.mark.study(12)
def test_priorities_of_interrupt_threads_for_a_run(board: LabTarget, tmp_path: Path) -> None:
    before = shell(board, INTERRUPT_THREADS).splitlines()
    threads = {tid: (name, rest) for tid, name, *rest in (line.split() for line in before)}
    assert all(rest == ["1", "50"] for _, rest in threads.values())
    numbers = sorted({name[4:].partition("-")[0] for name, _ in threads.values()}, key=int)
    chosen = numbers[0] if numbers else "9"
    words = ["--samples", "20", "--irq-priority", f"{chosen}=91,no-such-device=7,41"]
    code, stream = measure(board, tmp_path, "timer", *words)
    assert code == 0
    found = {
        record.name: record
        for record in stream.records
        if isinstance(record, Setting) and ("irq/" in record.name)
    }
    missing = found.pop("irq/no-such-device")
    if "rt" in board.name:
        assert len(threads) > 1
        assert "no thread of an interrupt has this name" in missing.reason
    if threads:
        assert {name.split(":")[1] for name in found} == set(threads)
        for name, record in found.items():
            number = threads[name.split(":")[1]][0][4:].partition("-")[0]
            wanted = "fifo 91" if number == chosen else "fifo 41"
            assert (record.before, record.effective) == ("fifo 50", wanted)
            assert record.reason == ""
    else:
        assert found.keys() == {f"irq/{chosen}", "irq/*"}
        for record in (missing, *found.values()):
            assert "boot with threadirqs, or a PREEMPT_RT kernel" in record.reason
    assert shell(board, INTERRUPT_THREADS).splitlines() == before


@pytest.mark.study(8, 34)
def test_contexts_side_by_side(board: LabTarget, tmp_path: Path) -> None:
    """One timer: as many samples in each context, later in each; the thread has the priority."""
    words = ["--context", "user,irq,kernel", "--samples", "500", "--priority", "70"]
    code, stream = measure(board, tmp_path, "timer", *words)
    assert code == 0
    accounted(stream)
    found = values(stream)
    assert {context: len(samples) for context, samples in found.items()} == {
        "irq": 500,
        "kernel": 500,
        "user": 500,
    }
    assert all(
        a < b < c for a, b, c in zip(*(found[c] for c in ("irq", "kernel", "user")), strict=True)
    )
    medians = {context: statistics.median(samples) for context, samples in found.items()}
    assert 100 < medians["irq"] < 2000
    assert medians["kernel"] < 10_000
    assert medians["user"] < 15_000
    info = by_context(stream)
    assert {one.labels["method"] for one in info.values()} == {"module"}
    assert (info["kernel"].policy, info["kernel"].priority) == ("fifo", 70)
    assert (info["user"].policy, info["user"].priority) == ("fifo", 70)
    assert info["irq"].thread == -1
    assert info["kernel"].thread != info["user"].thread


def test_dither_and_short_intervals(board: LabTarget, tmp_path: Path) -> None:
    words = ["--context", "irq,kernel,user", "--interval", "100us", "--dither", "yes"]
    code, stream = measure(board, tmp_path, "timer", *words, "--samples", "400")
    assert code == 0
    accounted(stream)
    assert [series.name for series in stream.series].count("dither") == 3
    # more than the machine can do: what is missed is counted, and it ends
    words = ["--context", "irq,kernel,user", "--interval", "20us", "--for", "200ms"]
    words += ["--disturb", "local_irq_save:200us:1301us"]
    words += ["--disturb-module", "/modules/rtgauge_disturb.ko"]
    code, stream = measure(board, tmp_path, "timer", *words)
    assert code == 0
    accounted(stream)
    assert all(stream.missed[one.series] > 100 for one in by_context(stream).values())


def test_a_threshold_ends_it(board: LabTarget, tmp_path: Path) -> None:
    words = ["--context", "irq", "--stop-above", "1ns", "--for", "10s", "--dither", "no"]
    code, stream = measure(board, tmp_path, "timer", *words)
    assert code == 0
    assert stream.samples.total() == 1
    assert [event.event for event in stream.events].count("threshold") == 1


@pytest.mark.study(104, 105, 106, 107)
@pytest.mark.parametrize("source", ["hpet", "hrtimer", "pci"])
def test_interrupts(board: LabTarget, tmp_path: Path, source: str) -> None:
    sampled = {
        "irq-latency": {"handler", "acknowledged"},
        "irq-dispatch": {"irq"},
        "irq-to-thread": {"wake-to-thread", "handler-to-thread"},
    }
    for name, series in sampled.items():
        words = [name, "--samples", "200", "--source", source]
        code, stream = measure(board, tmp_path, *words)
        assert code == 0, (name, stream.last)
        accounted(stream)
        found = values(stream)
        assert found.keys() == series
        assert {one.labels["source"] for one in stream.series} == {source}
        for samples in found.values():
            assert len(samples) >= 190
            assert 0 < statistics.median(samples) < 20_000
        messages = [event for event in stream.events if "fallback" in str(event.fields)]
        assert len(messages) == (source == "hrtimer")
        if name == "irq-latency":
            assert all(a < b for a, b in zip(found["handler"], found["acknowledged"], strict=True))
        if name == "irq-to-thread":
            pairs = zip(found["wake-to-thread"], found["handler-to-thread"], strict=True)
            assert all(a < b for a, b in pairs)
        if name == "irq-dispatch":
            assert 0 < int(str(tables(stream)["resolution"][0][1])) < 5000
    # the PCI device is given back disabled
    edu = f"cd {PCI}; for i in *; do grep -q 0x11e8 $i/device && cat $i/enable; done; true"
    assert shell(board, edu).split() == ["0"]


@pytest.mark.study(105)
def test_an_interrupt_of_a_running_thread(board: LabTarget, tmp_path: Path) -> None:
    """Named apart from that of an idle CPU, which has to be woken first."""
    medians = {}
    for thread in ("none", "running"):
        words = ["irq-latency", "--samples", "200", "--source", "hpet", "--thread", thread]
        code, stream = measure(board, tmp_path, *words)
        assert code == 0
        accounted(stream)
        assert {one.labels.get("thread") for one in stream.series} == {
            "running" if thread == "running" else None
        }
        assert all(one.thread == stream.series[0].thread for one in stream.series)
        medians[thread] = statistics.median(values(stream)["handler"])
    # by instructions, the way out of the idle loop comes on top
    assert medians["running"] < medians["none"]


def test_an_emulated_machine_has_no_hardware_noise(board: LabTarget, tmp_path: Path) -> None:
    """In counted mode time passes by instructions alone: each gap is an interrupt or a thread."""
    words = [
        "noise",
        "--for",
        "500ms",
        "--above",
        "2us",
        "--disturb",
        "local_irq_save:200us:7301us",
    ]
    code, stream = measure(
        board, tmp_path, *words, "--disturb-module", "/modules/rtgauge_disturb.ko"
    )
    assert code == 0
    found = values(stream)
    assert found["hardware"] == []
    rows = {str(row[1]): row for row in tables(stream)["noise"]}
    for kind, row in rows.items():
        assert row[2:5] == [len(found[kind]), sum(found[kind]), max(found[kind], default=0)]


@pytest.mark.study(110)
def test_sustained(board: LabTarget, tmp_path: Path) -> None:
    """The shortest period held; every shorter one that was tried lost interrupts."""
    words = ["irq-sustained", "--interrupts", "1000", "--source", "hpet"]
    code, stream = measure(board, tmp_path, *words)
    assert code == 0
    found = tables(stream)
    count, shortest = (int(str(cell)) for cell in found["shortest"][0])
    assert count == 1000
    # 1 us is the shortest that the HPET is set to: a handler of 0.4 us may hold even that
    assert 1000 <= shortest < 100_000
    tried = [[int(str(cell)) for cell in row] for row in found["sustained"]]
    assert tried[0][:2] == [1000, 100_000]
    assert any(period == shortest and lost == 0 for _, period, _, lost in tried)
    assert all(lost > 0 for _, period, _, lost in tried if period < shortest)
    verdicts = [one for one in stream.records if isinstance(one, Verdict)]
    assert [verdict.result for verdict in verdicts] == ["pass"]


@pytest.mark.study(111)
def test_one_sustained_period(board: LabTarget, tmp_path: Path) -> None:
    """--period tries one period, once, with exactly the number of interrupts asked for."""
    words = ["irq-sustained", "--source", "hpet", "--interrupts", "1234", "--period"]
    code, stream = measure(board, tmp_path, *words, "100us")
    assert code == 0
    assert tables(stream) == {"sustained": [[1234, 100_000, 1234, 0]], "shortest": []}
    assert [one.result for one in stream.records if isinstance(one, Verdict)] == ["pass"]
    # a kernel timer, whose handler cannot keep pace with its shortest period under this load
    code, stream = measure(
        board, tmp_path, "irq-sustained", "--source", "hrtimer", "--period", "5us",
        "--interrupts", "2000", "--disturb", "local_irq_save:200us:1301us",
        "--disturb-module", "/modules/rtgauge_disturb.ko",
    )  # fmt: skip
    [[count, period, generated, lost]] = tables(stream)["sustained"]
    assert (count, period) == (2000, 5000)
    assert 0 < int(str(lost)) <= int(str(generated))
    assert [one.result for one in stream.records if isinstance(one, Verdict)] == ["fail"]
    code, stream = measure(board, tmp_path, *words, "900ns")
    assert code == 77
    assert "1us to 100ms" in stream.trailer.reason


def test_without_the_module(board: LabTarget, tmp_path: Path) -> None:
    """The tracer where the kernel has it, all restored; else skipped, with both reasons."""
    shell(board, f"rmmod rtgauge; {MOUNT}")
    try:
        before = shell(board, f"cd {TRACING}; ls instances; cat osnoise/cpus osnoise/*_us || true")
        words = ["--context", "irq,kernel", "--samples", "300", "--priority", "60"]
        code, stream = measure(board, tmp_path, "timer", *words)
        if "timerlat" not in shell(board, f"cat {TRACING}/available_tracers").split():
            assert code == 77
            assert "module" in stream.trailer.reason
            assert "timerlat" in stream.trailer.reason
            return
        assert code == 0
        accounted(stream)
        found = values(stream)
        assert [len(found[context]) for context in ("irq", "kernel")] == [300, 300]
        assert all(a < b for a, b in zip(found["irq"], found["kernel"], strict=True))
        info = by_context(stream)
        assert {one.labels["method"] for one in info.values()} == {"timerlat"}
        assert (info["kernel"].policy, info["kernel"].priority) == ("fifo", 60)
        after = shell(board, f"cd {TRACING}; ls instances; cat osnoise/cpus osnoise/*_us || true")
        assert after == before
        # killed, it is all restored as well
        agent = "/agent run timer --context kernel --for 1h --output /tmp/s"
        seen = f"ls {TRACING}/instances | grep rtgauge || exit 9"
        shell(board, f"{agent} & sleep 1; {seen}; kill -9 $!; sleep 1")
        after = shell(board, f"cd {TRACING}; ls instances; cat osnoise/cpus osnoise/*_us || true")
        assert after == before
    finally:
        shell(board, "insmod /modules/rtgauge.ko")


def _latencies(board: LabTarget, observe: str) -> list[int]:
    """User latencies of a timer, in ns, of an agent that another command observes or not."""
    timer = "/agent run timer --keep-settings --dither no --interval 1ms --priority 90"
    script = f"{MOUNT}\n{timer} --samples 3000 --output /tmp/timer & pid=$!\nsleep 0.3\n{observe}"
    shell(board, f"{script}\nwait $pid\n")
    stream = read_file(board, "/tmp/timer")
    found = values(stream)["user"]
    assert len(found) == 3000
    return found[500:1300]


def read_file(board: LabTarget, path: str) -> Stream:
    output = board.execute(["/bin/cat", path])
    assert output.code == 0
    with tempfile.NamedTemporaryFile() as file:
        file.write(output.stdout)
        file.flush()
        return read(Path(file.name))


@pytest.mark.parametrize(("way", "most"), [("module", 1000), ("tracefs", 2600)])
def test_what_observing_costs_a_thread(board: LabTarget, way: str, most: int) -> None:
    """In instructions, on the way from waking to running: as the measurement's page says."""
    device = "/dev/rtgauge_trace"
    if way == "tracefs":
        shell(board, f"mv {device} /hidden")
    try:
        _observing_costs(board, way, most)
    finally:
        if way == "tracefs":
            shell(board, f"mv /hidden {device}")


def _observing_costs(board: LabTarget, way: str, most: int) -> None:
    alone = _latencies(board, "sleep 0.1")
    output = "--for 1200ms --output /tmp/observed"
    observed = _latencies(board, f"/agent run observe --pid $pid {output}")
    cost = statistics.median(observed) - statistics.median(alone)
    print(f"{way} costs {cost:.0f} ns a wake-up, at most {max(observed) - max(alone)} ns")
    assert 0 < cost <= most
    # the reading of the events, on the only CPU
    assert max(observed) - max(alone) < 60_000
    stream = read_file(board, "/tmp/observed")
    (latencies,) = values(stream).values()
    assert stream.series[0].labels["method"] == way
    assert len(latencies) >= 1000
    (lost,) = [one for one in stream.records if isinstance(one, Verdict)]
    assert lost.result == "pass", lost.evidence
    assert lost.evidence.startswith("0 of ")
    # what the timer sees from its due time, less what lies before waking and after the switch
    assert 0 <= statistics.median(latencies) <= statistics.median(observed)
    assert shell(board, f"ls {TRACING}/instances") == ""


def test_the_kernel_has_nothing_to_complain_about(board: LabTarget) -> None:
    """After all of it."""
    log = shell(board, "dmesg")
    for word in ("BUG:", "WARNING:", "Oops", "Call Trace"):
        assert word not in log
