# SPDX-License-Identifier: Apache-2.0
"""The methods of `timer` on this machine: each accounts for its periods, and ends as it should."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest

from agents import (
    NOBODY,
    Stream,
    assert_accounted,
    number,
    read,
    run,
    run_as,
    start,
    stop_for_50_ms,
    values_of,
    wait_until_measuring,
)
from rtgauge.stream import Samples, Setting, Verdict

CPUS = sorted(os.sched_getaffinity(0))
CPU = str(CPUS[0])
GRID = ["clock_nanosleep", "timer", "itimer", "timerfd", "deadline"]
METHODS = [*GRID, "nanosleep"]
PROCESS = "rtgauge-measure"
HOUR_NS = 3600 * 10**9


def run_method(agent: str, tmp_path: Path, method: str, *words: str) -> tuple[int, Stream]:
    """Run it; what the kernel refuses here is skipped, with its reason."""
    code, stream = run(agent, tmp_path, "timer", "--method", method, *words)
    if code == 77:
        assert method == "deadline"
        assert stream.trailer.remedy
        pytest.skip(stream.trailer.reason)
    return code, stream


def children(process: int) -> list[int]:
    """Measuring processes of an agent."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                name, _, rest = (folder / "stat").read_text().rpartition(")")
            except OSError:
                continue
            if int(rest.split()[1]) == process and name.endswith(f"({PROCESS}"):
                found.append(int(folder.name))
    return found


@pytest.mark.slow
@pytest.mark.study(20, 22)
@pytest.mark.parametrize("method", GRID)
@pytest.mark.parametrize("interval_us", [100, 1000])
def test_every_period_is_accounted_for(
    agent: str, tmp_path: Path, method: str, interval_us: int
) -> None:
    code, stream = run_method(
        agent, tmp_path, method, "--for", "600ms", "--interval", f"{interval_us}us"
    )
    assert code == 0
    assert_accounted(stream, 600_000 // interval_us)
    for info in stream.series:
        assert info.labels == {"method": method}
        assert (info.cpu == -1) == (method == "deadline")
        assert info.interval_ns == interval_us * 1000


@pytest.mark.study(21)
def test_a_relative_sleep_has_no_grid(agent: str, tmp_path: Path) -> None:
    code, stream = run_method(agent, tmp_path, "nanosleep", "--for", "600ms")
    assert code == 0
    for info, totals in zip(stream.series, stream.trailer.series, strict=True):
        assert info.interval_ns == 0
        assert totals.missed == 0
        # its period is the sleep and the work, so there are fewer than on a grid
        assert 0 < stream.samples[info.series] + totals.lost == totals.count < 600
        times = [
            record.due_ns
            for record in stream.records
            if isinstance(record, Samples) and record.series == info.series
        ]
        assert all(time_ns > 0 for time_ns in times)
        assert times == sorted(times)
        assert times[-1] > times[0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.slow
def test_no_latency_is_below_zero_by_more_than_a_timer_is_early(
    agent: str, tmp_path: Path, method: str
) -> None:
    """A due time that is not the one of the kernel's timer would be off by a period or more."""
    _, stream = run_method(agent, tmp_path, method, "--for", "1s", "--interval", "200us")
    assert min(values_of(stream)) > -20_000


@pytest.mark.slow
@pytest.mark.parametrize("method", GRID)
def test_a_stall_is_missed_periods_and_nothing_else(
    agent: str, tmp_path: Path, method: str
) -> None:
    process, output = start(
        agent, tmp_path, "timer", "--method", method, "--for", "0", "--dither", "no"
    )
    try:
        wait_until_measuring(output)
    except AssertionError:
        if process.poll() == 77 and method == "deadline":
            pytest.skip("the kernel refuses it")
        raise
    stalled = children(process.pid) if method == "itimer" else [process.pid]
    assert len(stalled) == (len(CPUS) if method == "itimer" else 1)
    for one in stalled:
        stop_for_50_ms(one, output)
    time.sleep(0.5)
    process.terminate()
    assert process.wait(timeout=60) == 4
    stream = read(output)
    for info, totals in zip(stream.series, stream.trailer.series, strict=True):
        due = (totals.last_due_ns - totals.first_due_ns) // info.interval_ns + 1
        assert totals.count + totals.missed == due
        assert stream.samples[info.series] == totals.count
        assert stream.missed[info.series] == totals.missed
        # 50 ms at 1 ms; the machine may have stalled it too
        assert totals.missed >= 45


@pytest.mark.parametrize("method", METHODS)
def test_samples_end_the_step(agent: str, tmp_path: Path, method: str) -> None:
    code, stream = run_method(agent, tmp_path, method, "--for", "0", "--samples", "123")
    assert code == 0
    assert set(stream.samples.values()) == {123}


@pytest.mark.parametrize("method", METHODS)
def test_the_threshold_ends_the_step(agent: str, tmp_path: Path, method: str) -> None:
    code, stream = run_method(agent, tmp_path, method, "--for", "20s", "--stop-above", "1ns")
    assert code == 0
    assert "stop threshold" in stream.trailer.reason
    (event,) = [event for event in stream.events if event.event == "threshold"]
    assert event.series is not None
    assert event.fields["index"] == stream.samples[event.series] - 1
    assert number(event, "value") > 1


def wait_until_begun(process: subprocess.Popen[bytes], output: Path) -> None:
    give_up = time.monotonic() + 30
    while process.poll() is None and not (output.exists() and output.stat().st_size > 1000):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    time.sleep(0.2)  # into the second wait, where there is one


@pytest.mark.parametrize("method", METHODS)
def test_a_stop_wakes_it(agent: str, tmp_path: Path, method: str) -> None:
    """Though the next period is an hour away."""
    words = ("timer", "--method", method, "--for", "0", "--interval", "1h")
    process, output = start(agent, tmp_path, *words, stderr=subprocess.DEVNULL)
    wait_until_begun(process, output)
    process.send_signal(signal.SIGTERM)
    code = process.wait(timeout=30)
    if code == 77 and method == "deadline":
        pytest.skip("the kernel refuses it")
    assert code == 4
    stream = read(output)
    assert stream.trailer.state == "interrupted"


@pytest.mark.parametrize(
    ("method", "dither"), [("timer", "yes"), ("timer", "no"), ("itimer", "no")]
)
def test_a_signal_of_another_program_is_no_expiry(
    agent: str, tmp_path: Path, method: str, dither: str
) -> None:
    """It was taken for one, and moved the grid by a period."""
    words = ("timer", "--method", method, "--for", "0", "--interval", "1h", "--dither", dither)
    process, output = start(agent, tmp_path, *words, stderr=subprocess.DEVNULL)
    wait_until_begun(process, output)
    tgkill = ctypes.CDLL(None).tgkill
    for one in children(process.pid) if method == "itimer" else [process.pid]:
        tasks = [int(task.name) for task in Path(f"/proc/{one}/task").iterdir()]
        for task in tasks if method == "itimer" else sorted(tasks)[1:]:
            tgkill(one, task, signal.SIGALRM)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 4
    stream = read(output)
    for totals in stream.trailer.series:
        assert totals.count <= 1 and totals.missed == 0
    assert all(abs(value) < HOUR_NS // 4 for value in values_of(stream))


@pytest.mark.slow
@pytest.mark.parametrize("held", [True, False])
def test_a_signal_to_the_process_costs_no_period(agent: str, tmp_path: Path, held: bool) -> None:
    """The kernel queues SIGALRM once: where another program's is pending as the timer expires, the
    timer's is dropped. The next expiry was taken for this one, with a latency of a period more.
    ``held``: the process is stopped from the signal on, so that it is pending for longer."""
    words = ("timer", "--method", "itimer", "--for", "6s", "--interval", "1s", "--cpu", CPU)
    process, output = start(agent, tmp_path, *words, stderr=subprocess.DEVNULL)
    wait_until_begun(process, output)
    (measuring,) = children(process.pid)
    with contextlib.suppress(ProcessLookupError):
        while process.poll() is None:
            if held:
                os.kill(measuring, signal.SIGSTOP)
            os.kill(measuring, signal.SIGALRM)
            time.sleep(0.3 if held else 0.01)
            if held:
                os.kill(measuring, signal.SIGCONT)
                time.sleep(0.02)
    assert process.wait(timeout=30) == 0
    stream = read(output)
    (totals,) = stream.trailer.series
    assert (totals.count, totals.missed) == (6, 0)
    assert all(0 <= value < 900_000_000 for value in values_of(stream))


@pytest.mark.parametrize("method", ["clock_nanosleep", "timer", "timerfd", "deadline"])
def test_dither_has_an_offset_for_every_grid_point(agent: str, tmp_path: Path, method: str) -> None:
    code, stream = run_method(
        agent, tmp_path, method, "--for", "500ms", "--interval", "500us", "--dither", "yes"
    )
    assert code == 0
    companions = [info for info in stream.series if info.companion is not None]
    assert len(companions) == len(CPUS)
    for info in companions:
        assert stream.samples[info.series] == 1000
        totals = stream.trailer.series[info.companion or 0]
        assert totals.count + totals.missed == 1000


@pytest.mark.parametrize("method", ["itimer", "nanosleep"])
def test_dither_is_used_where_it_can_be(agent: str, tmp_path: Path, method: str) -> None:
    words = ["--for", "100s", "--samples", "20", "--interval", "4s"]
    done = subprocess.run(
        [agent, "run", "timer", "--method", f"timer,{method}", *words, "--dither", "yes"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert method in done.stderr
    assert "auto" in done.stderr
    code, stream = run(
        agent, tmp_path, "timer", "--method", f"timer,{method}", "--for", "100s",
        "--stop-above", "1ns",
    )  # fmt: skip
    assert code == 0
    dithered = {
        stream.series[info.companion].labels["method"]
        for info in stream.series
        if info.companion is not None
    }
    assert dithered == {"timer"}


@pytest.mark.study(19)
def test_several_methods_side_by_side(agent: str, tmp_path: Path) -> None:
    """For each of them a set of threads, due one after the other over the period."""
    methods = ["timerfd", "itimer", "clock_nanosleep"]
    code, stream = run(
        agent, tmp_path, "timer", "--method", ",".join(methods), "--for", "600ms",
        "--threads", "2", "--interval", "12ms",
    )  # fmt: skip
    assert code == 0
    assert_accounted(stream, 50)
    assert [info.labels["method"] for info in stream.series] == [
        method for method in methods for _ in range(2 * len(CPUS))
    ]
    assert [info.thread for info in stream.series] == list(range(6 * len(CPUS)))
    assert stream.header.parameters["method"].effective == ",".join(methods)
    firsts = [totals.first_due_ns for totals in stream.trailer.series]
    # an interval timer starts after a time of whole microseconds, and a little late
    apart = 12_000_000 // len(firsts)
    for before, after in pairwise(firsts):
        assert abs(after - before - apart) < 500_000


@pytest.mark.parametrize("align", ["no", "yes"])
def test_aligned_threads_of_all_cpus_are_due_at_the_same_time(
    agent: str, tmp_path: Path, align: str
) -> None:
    """Those of one CPU are still due one after the other."""
    code, stream = run(
        agent, tmp_path, "timer", "--align", align, "--for", "200ms", "--threads", "2",
        "--interval", "12ms",
    )  # fmt: skip
    assert code == 0
    firsts = [totals.first_due_ns for totals in stream.trailer.series]
    slots = [first - firsts[0] for first in firsts]
    if align == "yes":
        assert slots == [0, 6_000_000] * len(CPUS)
    else:
        assert slots == [12_000_000 // len(firsts) * place for place in range(len(firsts))]


def test_what_the_kernel_refuses_is_skipped_and_the_rest_measured(
    agent: str, tmp_path: Path
) -> None:
    words = ["--for", "200ms", "--interval", "50us"]
    code, stream = run(agent, tmp_path, "timer", "--method", "timer,deadline", *words)
    assert code == 0
    assert {info.labels["method"] for info in stream.series} == {"timer"}
    assert stream.header.parameters["method"].effective == "timer"
    assert stream.header.parameters["method"].asked == "timer,deadline"
    (verdict,) = [record for record in stream.records if isinstance(record, Verdict)]
    assert verdict.result == "skipped"
    assert "100 µs" in verdict.evidence
    assert "100us" in verdict.remedy
    code, stream = run(agent, tmp_path, "timer", "--method", "deadline", *words)
    assert code == 77
    assert stream.trailer.state == "skipped"
    assert "100 µs" in stream.trailer.reason
    code, stream = run(
        agent, tmp_path, "timer", "--method", "itimer", "--for", "1ms", "--interval", "33333ns"
    )
    assert code == 77
    assert "whole microseconds" in stream.trailer.reason


def test_a_reservation_too_small_for_a_sample_is_skipped(agent: str, tmp_path: Path) -> None:
    """Its threads would be late for having used it up."""
    words = ["--for", "100ms", "--cpu", CPU, "--interval", "100us"]
    code, stream = run(agent, tmp_path, "timer", "--method", "deadline", "--threads", "3", *words)
    assert code == 77
    assert "use up the reservation" in stream.trailer.reason
    assert "fewer threads" in stream.trailer.remedy
    code, stream = run_method(agent, tmp_path, "deadline", "--threads", "2", *words)
    assert code == 0
    assert_accounted(stream, 1000)


def test_without_privilege_each_is_measured_or_skipped(agent: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become a user without privilege")
    words = ("timer", "--method", ",".join(METHODS), "--for", "100ms")
    done, stream = run_as(NOBODY, agent, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    skipped = [record for record in stream.records if isinstance(record, Verdict)]
    assert [record.evidence.split(":")[0] for record in skipped] == ["deadline"]
    assert "root" in skipped[0].remedy
    for info, totals in zip(stream.series, stream.trailer.series, strict=True):
        if info.labels["method"] in ("deadline", "nanosleep"):
            assert bool(totals.count) == (info.labels["method"] == "nanosleep")
        else:
            assert totals.count + totals.missed == 100


def test_a_reservation_is_no_change_of_policy(agent: str, tmp_path: Path) -> None:
    code, stream = run_method(agent, tmp_path, "deadline", "--for", "1500ms")
    assert code == 0
    assert {(info.policy, info.priority) for info in stream.series} == {("deadline", 0)}
    # not what another agent on this machine restores
    names = [str(event.fields["name"]) for event in stream.events if event.event == "setting"]
    assert not [name for name in names if name.startswith("policy")]


def test_a_measuring_process_that_dies_fails_the_step(agent: str, tmp_path: Path) -> None:
    """And nothing is left of it, nor of the others."""
    process, output = start(agent, tmp_path, "timer", "--method", "itimer,timer", "--for", "30s")
    wait_until_measuring(output)
    measuring = children(process.pid)
    assert len(measuring) == len(CPUS)
    os.kill(measuring[0], signal.SIGKILL)
    assert process.wait(timeout=30) == 1
    stream = read(output)
    assert stream.trailer.state == "failed"
    assert "signal 9" in stream.trailer.reason
    assert stream.trailer.remedy
    assert all(totals.count for totals in stream.trailer.series)
    assert not any(Path(f"/proc/{pid}").exists() for pid in measuring)


@pytest.mark.slow
def test_a_measuring_process_does_not_end_beside_those_that_measure(
    agent: str, tmp_path: Path
) -> None:
    """Its one sample is due first, that of the thread four seconds later."""
    words = ("--method", "itimer,clock_nanosleep", "--interval", "8s", "--for", "8s", "--cpu", CPU)
    process, output = start(agent, tmp_path, "timer", *words)
    wait_until_measuring(output)
    time.sleep(0.2)
    states = [
        Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        for child in children(process.pid)
    ]
    assert process.wait(timeout=30) == 0
    assert states == ["S"]
    assert set(read(output).samples.values()) == {1}


def test_measuring_processes_die_with_the_agent(agent: str, tmp_path: Path) -> None:
    process, output = start(agent, tmp_path, "timer", "--method", "itimer", "--for", "30s")
    wait_until_measuring(output)
    measuring = children(process.pid)
    assert len(measuring) == len(CPUS)
    process.kill()
    process.wait(timeout=30)
    give_up = time.monotonic() + 30
    while any(
        Path(f"/proc/{pid}").exists() and "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
        for pid in measuring
    ):
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_a_measuring_process_locks_its_memory_and_does_not_fault(
    agent: str, tmp_path: Path
) -> None:
    words = ("timer", "--method", "itimer", "--for", "0", "--interval", "200us", "--load", "cpu")
    process, output = start(agent, tmp_path, *words)
    wait_until_measuring(output)

    def faults(child: int) -> int:
        return int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[7])

    measuring = children(process.pid)
    before = [faults(child) for child in measuring]
    time.sleep(1)
    after = [faults(child) for child in measuring]
    locked = [Path(f"/proc/{child}/status").read_text() for child in measuring]
    process.terminate()
    assert process.wait(timeout=30) == 4
    stream = read(output)
    (setting,) = [
        record for record in stream.records
        if isinstance(record, Setting) and record.name == "locked memory"
    ]  # fmt: skip
    if setting.effective == "all":
        assert measuring
        for status in locked:
            (kib,) = [int(line.split()[1]) for line in status.splitlines() if "VmLck" in line]
            assert kib > 0
    # a page that the kernel itself moves is a fault as well
    assert all(then - now < 8 for now, then in zip(before, after, strict=True))
