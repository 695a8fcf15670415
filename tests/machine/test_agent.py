# SPDX-License-Identifier: Apache-2.0
"""The real agent on this machine: every period accounted for, ends in order, clear refusals.

Nothing here asserts how long something took; counts, order and states are what must hold.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from agents import (
    NOBODY,
    assert_accounted,
    read,
    run,
    run_as,
    start,
    stop_for,
    stop_for_50_ms,
    wait_until_measuring,
)
from rtgauge.stream import (
    Histogram,
    Samples,
    Setting,
    Table,
    Work,
)
from waiting import until

CPU = str(min(os.sched_getaffinity(0)))


@pytest.mark.slow
@pytest.mark.parametrize("interval_us", [20, 50, 100, 333, 1000, 10000])
def test_every_period_is_accounted_for(agent: str, tmp_path: Path, interval_us: int) -> None:
    code, stream = run(agent, tmp_path, "timer", "--for", "600ms", "--interval", f"{interval_us}us")
    assert code == 0
    assert_accounted(stream, 600_000 // interval_us)


def test_every_period_is_accounted_for_under_load(agent: str, tmp_path: Path) -> None:
    code, stream = run(
        agent, tmp_path, "timer", "--for", "2s", "--interval", "100us", "--threads", "2",
        "--load", "sched:groups=2",
    )  # fmt: skip
    assert code == 0
    assert_accounted(stream, 20_000)
    work = [record for record in stream.records if isinstance(record, Work)]
    assert work
    assert all(record.load == "sched" and record.unit == "messages" for record in work)
    assert sum(record.count for record in work) > 0


@pytest.mark.slow
@pytest.mark.parametrize("dither", ["no", "yes"])
def test_a_stall_is_missed_periods_and_nothing_else(
    agent: str, tmp_path: Path, dither: str
) -> None:
    process, output = start(agent, tmp_path, "timer", "--for", "2s", "--dither", dither)
    stop_for_50_ms(process.pid, output)
    assert process.wait(timeout=60) == 0
    stream = read(output)
    for info in stream.series:
        if info.companion is not None:
            # one offset for every grid point, those without a sample too
            assert stream.samples[info.series] == 2000
            continue
        totals = stream.trailer.series[info.series]
        assert totals.count + totals.missed == 2000
        # 50 ms at 1 ms; the machine may have stalled it too
        assert totals.missed >= 45


@pytest.mark.parametrize("interval_us", [100, 1000])
@pytest.mark.slow
def test_an_agent_that_was_stopped_for_long_goes_on(
    agent: str, tmp_path: Path, interval_us: int
) -> None:
    """All of it stood still, as when a virtual machine is: its threads have starved no task."""
    process, output = start(
        agent, tmp_path, "timer", "--for", "0", "--interval", f"{interval_us}us", "--dither", "no"
    )
    stop_for(4, process.pid, output)
    time.sleep(0.5)
    process.terminate()
    assert process.wait(timeout=60) == 4
    stream = read(output)
    assert stream.trailer.state == "interrupted"
    for info, totals in zip(stream.series, stream.trailer.series, strict=True):
        due = (totals.last_due_ns - totals.first_due_ns) // info.interval_ns + 1
        assert totals.count + totals.missed == due
        assert totals.missed > 3_900_000 // interval_us


@pytest.mark.parametrize("priority", ["0", "80"])
def test_the_drain_is_not_in_front_of_a_measuring_thread(
    agent: str, tmp_path: Path, priority: str
) -> None:
    """In front of ordinary tasks otherwise, so that they cannot keep it waiting."""
    process, output = start(agent, tmp_path, "timer", "--priority", priority, "--for", "0")
    wait_until_measuring(output)
    nice = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[16])
    process.terminate()
    assert process.wait(timeout=30) == 4
    real_time = {info.policy for info in read(output).series} == {"fifo"}
    ordinary = os.getpriority(os.PRIO_PROCESS, 0)
    if not real_time:
        assert nice == ordinary
    elif os.geteuid() == 0:
        assert nice < ordinary


@pytest.mark.slow
def test_threads_that_leave_no_time_are_ended(agent: str) -> None:
    """Together they would hold every CPU for ever, though each one sleeps."""
    if os.geteuid() != 0:
        pytest.skip("without real-time priority the threads cannot hold a CPU")
    done = subprocess.run(
        [agent, "run", "timer", "--for", "25s", "--interval", "20us", "--threads", "30"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        pytest.skip("the kernel's fair server, which cannot be stopped here, left time for others")
    assert done.returncode == 1
    assert "no CPU time" in done.stderr
    assert "longer interval" in done.stderr


def test_little_memory_is_locked(agent: str, tmp_path: Path) -> None:
    """At most 1.5 MiB for two threads, at the default interval. The files of the agent and of glibc
    take more, and grow with them."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    where = ("--cpu", ",".join(map(str, cpus)), "--threads", str(2 // len(cpus)))
    process, output = start(agent, tmp_path, "timer", "--for", "0", *where)
    wait_until_measuring(output)
    status = Path(f"/proc/{process.pid}/status").read_text()
    maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
    process.terminate()
    assert process.wait(timeout=30) == 4
    (locked_kib,) = [int(line.split()[1]) for line in status.splitlines() if "VmLck" in line]
    files = [line.split()[0].split("-") for line in maps if ".so" in line or agent in line]
    file_kib = sum(int(end, 16) - int(begin, 16) for begin, end in files) // 1024
    assert 0 < file_kib < locked_kib <= file_kib + 1536


def test_dither_meets_every_phase_and_keeps_its_distance(agent: str, tmp_path: Path) -> None:
    code, stream = run(
        agent, tmp_path, "timer", "--for", "2s", "--interval", "200us", "--dither", "yes",
        "--cpu", CPU,
    )  # fmt: skip
    assert code == 0
    (companion,) = [info for info in stream.series if info.companion is not None]
    blocks = [
        record.values
        for record in stream.records
        if isinstance(record, Samples) and record.series == companion.series
    ]
    offsets = np.concatenate(blocks).astype(np.int64)
    assert len(offsets) == 10_000
    assert 0 <= offsets.min() < 2_000
    assert 198_000 < offsets.max() < 200_000
    apart = np.diff(offsets) + 200_000
    assert apart.min() >= 0.94 * 200_000
    assert apart.max() <= 1.06 * 200_000
    # the phases that a disturbance of 1/50 of the rate meets are as even as all of them
    for some in (offsets, offsets[::50]):
        share = np.histogram(some, bins=10, range=(0, 200_000))[0] / len(some)
        assert abs(share - 0.1).max() < 0.03


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(agent: str, tmp_path: Path, signal_number: int) -> None:
    process, output = start(agent, tmp_path, "timer", "--for", "0", "--interval", "1h")
    until(lambda: output.exists() and output.stat().st_size >= 1000)
    process.send_signal(signal_number)
    assert process.wait(timeout=30) == 4
    stream = read(output)
    assert stream.complete
    assert stream.trailer.state == "interrupted"


def test_the_host_stops_it_or_goes_away(agent: str, tmp_path: Path) -> None:
    for order in (b"stop\n", b""):
        process = subprocess.Popen(
            [agent, "run", "timer", "--for", "0", "--output", "-", "--control"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        first = process.stdout.read1(100)  # type: ignore[attr-defined]
        out, _ = process.communicate(order, timeout=30)
        assert process.returncode == 4
        (tmp_path / "stream.cbor").write_bytes(first + out)
        stream = read(tmp_path / "stream.cbor")
        assert stream.trailer.state == "interrupted"


def test_killed_it_leaves_all_that_was_written(agent: str, tmp_path: Path) -> None:
    process, output = start(agent, tmp_path, "timer", "--for", "0", "--cpu", CPU)
    wait_until_measuring(output)
    process.kill()
    process.wait(timeout=30)
    stream = read(output)
    assert not stream.complete
    assert stream.samples[0] > 0


@pytest.mark.slow
def test_a_changed_affinity_fails_the_step(agent: str, tmp_path: Path) -> None:
    """What the kernel does to a thread whose CPU goes offline, done by hand."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU only: a thread's affinity cannot be changed")
    process, output = start(agent, tmp_path, "timer", "--for", "30s", "--cpu", CPU)
    wait_until_measuring(output)
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "rtgauge-measure":
            os.sched_setaffinity(int(task.name), os.sched_getaffinity(0))
    assert process.wait(timeout=30) == 1
    stream = read(output)
    assert stream.trailer.state == "failed"
    assert "affinity" in stream.trailer.reason
    assert stream.samples[0] > 0


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"),
    reason="a pipe in the place of the kernel's list needs root",
)
def test_a_cpu_that_goes_offline_is_named(agent: str, tmp_path: Path) -> None:
    """It loses its threads before it leaves the list of CPUs."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU only: a thread's affinity cannot be changed")
    output, online = tmp_path / "stream.cbor", tmp_path / "online"
    os.mkfifo(online)
    moved, ended = threading.Event(), threading.Event()

    def tell() -> None:
        """The CPU is in the list until it was read ten times after the thread was moved."""
        looks = 0
        while looks < 1000 and not ended.is_set():
            rest = cpus[1:] if looks > 10 else cpus
            # the reader before may have closed the pipe between opening and writing
            with contextlib.suppress(BrokenPipeError), online.open("wb", buffering=0) as file:
                file.write(b",".join(b"%d" % cpu for cpu in rest) + b"\n")
                looks += moved.is_set()
            time.sleep(0.002)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    script = f'mount --bind {online} /sys/devices/system/cpu/online && exec "$@"'
    words = [agent, "run", "timer", "--for", "30s", "--cpu", str(cpus[0]), "--output", str(output)]
    process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script, "sh", *words])
    try:
        wait_until_measuring(output)
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == "rtgauge-measure":
                os.sched_setaffinity(int(task.name), cpus)
        moved.set()
        assert process.wait(timeout=30) == 1
    finally:
        ended.set()
        os.close(os.open(online, os.O_RDONLY | os.O_NONBLOCK))  # ends the wait for a reader
        teller.join(timeout=10)
        process.kill()
        process.wait(timeout=30)
    stream = read(output)
    assert stream.trailer.reason == f"CPU {cpus[0]} went offline during the step"


def test_a_cpu_of_which_the_caller_only_stays_away_can_be_measured(
    agent: str, tmp_path: Path
) -> None:
    """As with isolcpus=: every process begins on the other CPUs, and may move there."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) == 1:
        pytest.skip("this test needs two CPUs")
    output = tmp_path / "stream.cbor"
    done = subprocess.run(
        [agent, "run", "timer", "--for", "200ms", "--cpu", str(cpus[1]), "--output", str(output)],
        preexec_fn=lambda: os.sched_setaffinity(0, {cpus[0]}),
        check=False,
    )
    assert done.returncode == 0
    assert {info.cpu for info in read(output).series} == {cpus[1]}


@pytest.mark.slow
def test_histograms_alone_count_the_same(agent: str, tmp_path: Path) -> None:
    words = ("timer", "--for", "3500ms", "--dither", "yes", "--histogram-only")
    code, stream = run(agent, tmp_path, *words)
    assert code == 0
    assert not stream.samples
    snapshots = Counter(one.series for one in stream.records if isinstance(one, Histogram))
    for info, totals in zip(stream.series, stream.trailer.series, strict=True):
        if info.companion is None:
            assert totals.count + totals.missed == 3500
            assert snapshots[info.series] > 1
        else:
            assert snapshots[info.series] == 1


@pytest.mark.study(65, lacks="taking it off each sample")
def test_clock_cost_has_a_row_for_each_clock_and_cpu(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "clock-cost", "--samples", "2000")
    assert code == 0
    assert set(stream.samples.values()) == {2000}
    (table,) = [record for record in stream.records if isinstance(record, Table)]
    assert {row[0] for row in table.rows} >= {"CLOCK_MONOTONIC", "CLOCK_REALTIME"}
    names = [column.name for column in table.columns]
    for row in table.rows:
        cell = dict(zip(names, row, strict=True))
        # language-ok: the name of a column in the stream
        assert 0 < int(cell["least cost"]) <= int(cell["mean cost"])


def test_settings_are_recorded_and_put_back(agent: str, tmp_path: Path) -> None:
    path = Path("/proc/sys/kernel/sched_rt_runtime_us")
    before = path.read_text().strip()
    _, stream = run(agent, tmp_path, "timer", "--for", "100ms")
    settings = {record.name: record for record in stream.records if isinstance(record, Setting)}
    throttling = settings[str(path)]
    assert throttling.before == before
    assert path.read_text().strip() == before
    if os.geteuid() == 0 and not throttling.reason:
        assert throttling.effective == "-1"
    else:
        assert throttling.reason


@pytest.mark.parametrize("method", ["clock_nanosleep", "deadline"])
def test_more_is_prepared_where_asked(agent: str, tmp_path: Path, method: str) -> None:
    """Also for threads that are not pinned."""
    path = Path("/proc/sys/vm/stat_interval")
    before = path.read_text().strip()
    _, usual = run(agent, tmp_path, "timer", "--for", "100ms")
    words = ["--for", "100ms", "--cpu", "0", "--method", method]
    _, stream = run(agent, tmp_path, "timer", *words, "--prepare")
    names = {record.name for record in usual.records if isinstance(record, Setting)}
    settings = {record.name: record for record in stream.records if isinstance(record, Setting)}
    assert names < set(settings) and str(path) not in names
    assert settings[str(path)].before == before
    assert settings[str(path)].effective == "120" or settings[str(path)].reason
    assert path.read_text().strip() == before


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["run", "tymer"], "timer"),
        (["run", "timer", "--intervall", "1ms"], "interval"),
        (["run", "timer", "--interval", "5us"], "20us"),
        (["run", "timer", "--interval", "1 parsec"], "1 parsec"),
        (["run", "timer", "--interval"], "interval"),
        (["run", "timer", "--priority", "100"], "99"),
        (["run", "timer", "--cpu", "4000"], "4000"),
        (["run", "timer", "--cpu", "banana"], "banana"),
        (["run", "timer", "--method", "nap"], "clock_nanosleep"),
        (["run", "timer", "--load", "shed"], "sched"),
        (["run", "timer", "--for", "1us"], "interval"),
        (["run", "timer", "--help"], "rtgauge-agent help NAME"),
        (["run", "timer", "stray"], "stray"),
        (["run", "timer", "--prepare", "--keep-settings"], "--keep-settings"),
        (["walk"], "walk"),
        ([], "usage"),
    ],
)
def test_wrong_use_says_what_is_right(agent: str, words: list[str], names: str) -> None:
    done = subprocess.run([agent, *words], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert names in done.stderr


@pytest.mark.parametrize("place", ["/dev/full", "limited.cbor"])
def test_a_full_disk_ends_it(agent: str, place: str, tmp_path: Path) -> None:
    """So does the largest size of a file that the caller allows (ulimit -f)."""
    done = subprocess.run(
        [agent, "run", "timer", "--for", "10s", "--output", tmp_path / place],
        capture_output=True, text=True, timeout=60, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )  # fmt: skip
    assert done.returncode == 1
    assert "written" in done.stderr


@pytest.mark.parametrize("more", [[], ["--output", "stream.cbor"]])
def test_the_summary_is_for_people(agent: str, more: list[str]) -> None:
    """Also with a stream that goes into a file."""
    done = subprocess.run(
        [agent, "run", "timer", "--for", "100ms", *more],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "median" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("how", ["signal", "order"])
@pytest.mark.slow
def test_a_reader_that_is_stuck_cannot_hold_it(agent: str, how: str) -> None:
    """Without a reader: data without room are lost and counted, and a stop works."""
    process = subprocess.Popen(
        [agent, "run", "timer", "--for", "0", "--interval", "20us", "--output", "-", "--control"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    wait_until_full(process.stdout.fileno())
    if how == "signal":
        process.send_signal(signal.SIGTERM)
    else:
        process.stdin.close()
    try:
        assert process.wait(timeout=30) == 4
    finally:
        process.kill()
        process.stdin.close()
        process.stdout.close()


def test_a_reader_that_is_stuck_before_the_measurement_cannot_hold_it(agent: str) -> None:
    """The step is refused, its header is larger than the pipe, and stdin holds only the order."""
    with subprocess.Popen(
        [agent, "run", "timer", "--for", "0", "--mark", "gpio:none:0", "--output", "-",
         "--control"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, pipesize=4096,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(b"stop\n")
        process.stdin.flush()
        try:
            assert process.wait(timeout=30) > 0
        finally:
            process.kill()


def wait_until_full(pipe: int) -> None:
    """Until a pipe without a reader has room for less than one more write."""
    size = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    held, give_up = 0, time.monotonic() + 30
    while held < size - 2 * select.PIPE_BUF:
        assert time.monotonic() < give_up
        time.sleep(0.05)
        (held,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))


@pytest.mark.slow
def test_a_reader_that_was_stuck_gets_the_rest(agent: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [agent, "run", "timer", "--for", "0", "--interval", "20us", "--output", "-", "--control"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    wait_until_full(process.stdout.fileno())
    time.sleep(4)  # longer than the rings last and than threads may leave no time for a drain
    out, _ = process.communicate(b"stop\n", timeout=30)
    assert process.returncode == 4
    (tmp_path / "stream.cbor").write_bytes(out)
    stream = read(tmp_path / "stream.cbor")
    assert stream.trailer.reason == "stopped on request"
    lost = {event.series for event in stream.events if event.event == "lost"}
    assert lost
    for info, totals in zip(stream.series, stream.trailer.series, strict=True):
        assert stream.samples[info.series] + totals.lost == totals.count
        due = (totals.last_due_ns - totals.first_due_ns) // info.interval_ns + 1
        assert totals.count + totals.missed == due


def minor_faults(process: int) -> dict[str, int]:
    """Page faults so far of each measuring thread."""
    faults = {}
    for task in Path(f"/proc/{process}/task").iterdir():
        if (task / "comm").read_text().strip() == "rtgauge-measure":
            faults[task.name] = int((task / "stat").read_text().rpartition(")")[2].split()[7])
    return faults


def test_measuring_threads_do_not_fault(agent: str, tmp_path: Path) -> None:
    """Neither memory that was not touched nor a copy to be made after a fork is met."""
    process, output = start(
        agent, tmp_path, "timer", "--for", "0", "--interval", "100us", "--load", "cpu"
    )
    # once around every ring
    until(lambda: output.exists() and output.stat().st_size >= 200_000)
    faults = minor_faults(process.pid)
    process.terminate()
    assert process.wait(timeout=30) == 4
    assert faults
    # a page that the kernel itself moves is a fault as well; not touched, each would have 16
    assert max(faults.values()) < 8


def test_standard_files_that_are_closed_take_nothing(agent: str, tmp_path: Path) -> None:
    output = tmp_path / "stream.cbor"
    command = f'exec "{agent}" run timer --for 50ms --load shed --output "{output}" <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", command], timeout=60, check=False).returncode == 2
    stream = read(output)
    assert stream.trailer.state == "failed"
    assert "shed" in stream.trailer.reason


def test_nothing_was_due_when_nothing_was_measured(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "timer", "--load", "cpu", "--load-cpu", "4000")
    assert code == 2
    assert stream.series
    assert_accounted(stream, 0)


def test_signals_that_the_caller_blocked_or_ignored(agent: str, tmp_path: Path) -> None:
    """A blocked wake-up would leave a thread asleep for its whole period; nohup is honoured."""
    output = tmp_path / "stream.cbor"
    blocked = {signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP}

    def prepare() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)

    process = subprocess.Popen(
        [agent, "run", "timer", "--for", "0", "--interval", "1h", "--output", str(output)],
        preexec_fn=prepare,  # noqa: PLW1509
    )
    until(lambda: output.exists() and output.stat().st_size >= 1000)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 4


def test_a_thread_that_strays_in_a_short_run_is_found(agent: str, tmp_path: Path) -> None:
    """Between two looks of the draining thread, too."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU only: a thread's affinity cannot be changed")
    process, output = start(agent, tmp_path, "timer", "--for", "600ms", "--cpu", CPU)
    give_up = time.monotonic() + 30
    moved = False
    while process.poll() is None and not moved:
        assert time.monotonic() < give_up
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it may just have ended
                status = (task / "status").read_text()
                if "rtgauge-measure" in status and f"Cpus_allowed_list:\t{CPU}\n" in status:
                    os.sched_setaffinity(int(task.name), os.sched_getaffinity(0))
                    moved = True
    assert moved
    assert process.wait(timeout=30) == 1
    stream = read(output)
    assert "affinity" in stream.trailer.reason or "bind" in stream.trailer.reason


@pytest.mark.parametrize("limit_kib", [0, 64, 1000, 3000])
def test_little_memory_may_be_locked(agent: str, tmp_path: Path, limit_kib: int) -> None:
    """Whatever the limit, it measures, and says whether its memory is locked."""
    if os.geteuid() != 0:
        pytest.skip("only root can become a user without privilege")
    by = ["prlimit", f"--memlock={limit_kib << 10}:{limit_kib << 10}"]
    words = ("timer", "--for", "100ms", "--threads", "4")
    done, stream = run_as(NOBODY, agent, tmp_path, *words, by=by)
    assert done.returncode == 0, done.stderr
    assert_accounted(stream, 100)
    (locked,) = [
        record for record in stream.records
        if isinstance(record, Setting) and record.name == "locked memory"
    ]  # fmt: skip
    assert (locked.effective == "all") == (not locked.reason)
    if limit_kib < 1000:
        assert locked.effective == "none"
