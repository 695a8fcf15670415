# SPDX-License-Identifier: Apache-2.0
"""Loads and commands of published studies under the real agent, as the studies had them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from agents import assert_accounted, read
from rtgauge.stream import Setting, Trailer, Work, read_stream
from test_load_command import mark, run, running, words
from test_loads import CANNOT_HERE, DESCRIBED, processes_with, wait_until_none
from waiting import until

pytestmark = pytest.mark.slow

PROFILES = {profile["name"]: profile["mix"] for profile in DESCRIBED["profiles"]}
CPUS = sorted(os.sched_getaffinity(0))


def of_load(tmp_path: Path, name: str) -> set[int]:
    """The processes of a load that live now."""
    found = set()
    for pid in processes_with(mark(tmp_path)):
        try:
            if Path(f"/proc/{pid}/comm").read_text() == f"load/{name}\n":
                found.add(pid)
        except OSError:
            continue
    return found


def transfers(pids: set[int]) -> dict[int, tuple[int, int]]:
    """Read calls and bytes that they read, of each process."""
    found = {}
    for pid in pids:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        counts = {name: int(value) for name, value in (line.split(": ") for line in lines)}
        found[pid] = (counts["syscr"], counts["rchar"])
    return found


def assert_crosses(tmp_path: Path, seconds: float) -> None:
    """The walk has folders of several file systems open, one after the other."""
    until = time.monotonic() + seconds
    devices = set[int]()
    while len(devices) < 2:
        assert time.monotonic() < until, devices
        for pid in of_load(tmp_path, "walk"):
            for link in Path(f"/proc/{pid}/fd").glob("*"):
                try:
                    if link.is_dir():
                        devices.add(link.stat().st_dev)
                except OSError:
                    continue


@pytest.mark.study(2, 3, 4)
def test_doload_has_the_parts_of_the_script(tmp_path: Path) -> None:
    with running(tmp_path, "--load", "doload"):
        groups = of_load(tmp_path, "sched")
        # 20 senders and 20 receivers, and those that start them
        assert 40 <= len(groups) <= 42
        before = transfers(of_load(tmp_path, "copy"))
        time.sleep(0.5)
        after = transfers(set(before))
        calls = {pid: after[pid][0] - before[pid][0] for pid in after}
        (copying,) = [pid for pid, count in calls.items() if count > 1000]
        read_bytes = after[copying][1] - before[copying][1]
        assert read_bytes / calls[copying] == pytest.approx(512, rel=0.01)
        assert_crosses(tmp_path, 60)
        until(lambda: len(of_load(tmp_path, "sched") & groups) <= 1, 30)
    wait_until_none(mark(tmp_path))


@pytest.mark.study(6)
def test_all_parts_of_doload_are_restarted_in_each_cycle(tmp_path: Path) -> None:
    """With a cycle of 2 s in place of the 65 s that the profile has."""
    parts = [part.split(":")[0] for part in PROFILES["doload"].split(",")]
    assert PROFILES["doload"].count(":cycle=65s") == len(parts) == 4
    with running(tmp_path, "--load", PROFILES["doload"].replace("65s", "2s")):
        before = {name: of_load(tmp_path, name) for name in parts}
        until = time.monotonic() + 30
        for name in parts:
            # what restarts them stays
            while len(of_load(tmp_path, name) & before[name]) > 1:
                assert time.monotonic() < until, f"{name} was not restarted"
                time.sleep(0.1)
    wait_until_none(mark(tmp_path))


@pytest.mark.study(117)
def test_find_goes_through_all_file_systems(tmp_path: Path) -> None:
    assert PROFILES["find"] == "walk:cross=yes:stat=no"
    with running(tmp_path, "--load", "find"):
        assert_crosses(tmp_path, 60)
    wait_until_none(mark(tmp_path))


@pytest.mark.study(52)
def test_gpioirqbench_takes_its_turns_by_count(tmp_path: Path) -> None:
    """Messages, then reads, each as many as the published programs make, then a pause."""
    output = tmp_path / "stream.cbor"
    with running(tmp_path, "--load", "gpioirqbench"):
        until = time.monotonic() + 120
        while True:
            time.sleep(1)
            work = [one for one in read_stream(output) if isinstance(one, Work)]
            done = Counter[str]()
            for one in work:
                done[one.load] += one.count
            if done["cache"] >= 57_671_680:
                break
            assert time.monotonic() < until, done
        # once each: a turn ends when its count is seen to be reached
        assert 400_000 <= done["sched"] < 800_000
        assert done["cache"] < 2 * 57_671_680
        paused = max(one.to_ns for one in work)
        time.sleep(4)
        work = [one for one in read_stream(output) if isinstance(one, Work)]
        later = {one.load for one in work if one.from_ns > paused and one.count}
        assert later == {"list"}
    wait_until_none(mark(tmp_path))


@pytest.mark.study(123, lacks="the checks before the load, and the latencies")
def test_all_parts_of_xeno_test_work(tmp_path: Path) -> None:
    done = run(tmp_path, "--load", "xeno-test")
    if done.returncode and CANNOT_HERE.search(done.stderr):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    work = [one for one in read_stream(tmp_path / "stream.cbor") if isinstance(one, Work)]
    parts = {one.load.split(":")[0] for one in work if one.count}
    assert parts == {part.split(":")[0] for part in PROFILES["xeno-test"].split(",")}
    wait_until_none(mark(tmp_path))


def _receive(server: socket.socket, received: list[bytes]) -> None:
    client, _ = server.accept()
    with client:
        while piece := client.recv(65536):
            received.append(piece)


@pytest.mark.study(51)
def test_the_output_of_ls_leaves_through_a_terminal_and_tcp(tmp_path: Path) -> None:
    """As under telnet: ls writes to a terminal, whose other end is sent."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        reader = threading.Thread(target=_receive, args=(server, received), daemon=True)
        reader.start()
        port = server.getsockname()[1]
        session = 'script -qfc "yes ls /bin | sh" /dev/null'
        command = f"exec bash -c '{session} >/dev/tcp/127.0.0.1/{port} </dev/null'"
        done = run(tmp_path, "--load-cmd", command)
        assert done.returncode == 0, done.stderr
        reader.join(30)
        assert not reader.is_alive()
    lines = b"".join(received).split(b"\r\n")  # as terminals end them
    assert len(lines) > 3 * len(os.listdir("/bin"))
    wait_until_none(mark(tmp_path))


@pytest.mark.study(51)
def test_a_loop_of_ls_is_a_load_as_it_was_published(tmp_path: Path) -> None:
    done = run(tmp_path, "--load-cmd", "while ls; do ls /bin; done")
    assert done.returncode == 0, done.stderr
    work = [one for one in read_stream(tmp_path / "stream.cbor") if isinstance(one, Work)]
    assert sum(one.count for one in work) > 0
    wait_until_none(mark(tmp_path))


@pytest.mark.study(23)
def test_a_locked_thread_on_each_cpu_at_priority_99(tmp_path: Path) -> None:
    """cyclictest -m -a -t -p99 with an interval of 1 ms."""
    done = run(tmp_path, "--priority", "99", "--interval", "1ms", "--dither", "no")
    assert done.returncode == 0, done.stderr
    stream = read(tmp_path / "stream.cbor")
    assert_accounted(stream, 3000)
    assert [series.cpu for series in stream.series] == CPUS
    assert {(one.policy, one.priority, one.interval_ns) for one in stream.series} == {
        ("fifo", 99, 1_000_000)
    }
    settings = {one.name: one for one in stream.records if isinstance(one, Setting)}
    print(settings)


@pytest.mark.study(49)
def test_one_thread_at_priority_80(tmp_path: Path) -> None:
    """cyclictest -t1 -p80 -n -i1000."""
    words = ("--cpu", f"{CPUS[0]}", "--priority", "80", "--interval", "1ms", "--dither", "no")
    done = run(tmp_path, *words, "--method", "clock_nanosleep")
    assert done.returncode == 0, done.stderr
    stream = read(tmp_path / "stream.cbor")
    assert_accounted(stream, 3000)
    (series,) = stream.series
    assert (series.policy, series.priority, series.interval_ns) == ("fifo", 80, 1_000_000)


def invalid_by_its_load(tmp_path: Path, done: subprocess.CompletedProcess[str]) -> Trailer:
    """A step whose load failed: one line with its remedy, and nothing left."""
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.strip().splitlines()) == 2, done.stderr
    last = list(read_stream(tmp_path / "stream.cbor"))[-1]
    assert isinstance(last, Trailer)
    assert last.state == "failed"
    wait_until_none(mark(tmp_path))
    return last


def test_a_sink_that_goes_away_during_the_step(tmp_path: Path) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    got = []

    def take() -> None:
        connection = listening.accept()[0]
        until = time.monotonic() + 1
        while time.monotonic() < until:
            got.append(len(connection.recv(1 << 20)))
        connection.close()
        listening.close()

    sink = threading.Thread(target=take)
    sink.start()
    try:
        done = run(tmp_path, "--load", f"net:burst=50ms:pause=10ms:peer=127.0.0.1/{port}")
    finally:
        sink.join(60)
    assert sum(got) > 0
    last = invalid_by_its_load(tmp_path, done)
    assert last.reason.startswith("load net: the connection ended: ")
    assert last.remedy == "check the peer"


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mkfs.ext4") or not Path("/dev/loop-control").exists(),
    reason="a small disk needs root, mkfs.ext4 and loop devices",
)
def test_a_disk_that_fills_up_during_the_step(tmp_path: Path) -> None:
    image, disk = tmp_path / "image", tmp_path / "disk"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(12 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True, timeout=60)
    # what else fills it up: in the background, when samples have come
    script = (
        f"mount -o loop {image} {disk} || exit 99; "
        f"{{ sleep 1; dd if=/dev/zero of={disk}/other bs=64k 2>/dev/null; }} & "
        f'"$@"; code=$?; wait; ls -A {disk} >{tmp_path}/left; exit $code'
    )
    inside = ["unshare", "--mount", "sh", "-c", script, "sh"]
    load = f"disk:size=4MiB:sync=64KiB:path={disk}"
    done = subprocess.run(
        [*inside, *words(tmp_path / "stream.cbor", "--load", load, seconds="120s")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if done.returncode == 99:
        pytest.skip(f"a loop device cannot be mounted here: {done.stderr}")
    last = invalid_by_its_load(tmp_path, done)
    assert last.reason == f"load disk: cannot write in {disk}: No space left on device"
    assert last.remedy == "reduce size, or set path to another folder"
    assert (tmp_path / "left").read_text().split() == ["lost+found", "other"]
