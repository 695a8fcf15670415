# SPDX-License-Identifier: Apache-2.0
"""``--explain`` on this machine: which samples it keeps, and a kernel that refuses a part of it."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from agents import Stream, number, read
from rtgauge.stream import Event, Samples, Trace
from rtgauge.target.local import find_agent

ROOT = Path(__file__).resolve().parents[2]
LATE_NS = 200_000_000
ROOM = 16  # samples of a snapshot
TRACING = "/sys/kernel/tracing"
# Instances can be made there, and nothing in them can be set.
EMPTY = f"mount -t tmpfs none {TRACING} && mkdir {TRACING}/instances"
HIDDEN = f"mount -t tmpfs none {TRACING} && mount -t tmpfs none /sys/kernel/debug"
SECURITY = "/sys/kernel/security"
MOUNT = f"{{ test -d {TRACING}/instances || mount -t tracefs nodev {TRACING}; }}"
WITH_TRACEFS = f'{MOUNT}; exec "$@"'


def _traced() -> bool:
    if os.geteuid() or not shutil.which("unshare"):
        return False
    look = f"{MOUNT} && test -w {TRACING}/events/sched/sched_waking/enable"
    words = ["unshare", "--mount", "sh", "-c", look]
    return not subprocess.run(words, capture_output=True, check=False, timeout=60).returncode


traced = pytest.mark.skipif(not _traced(), reason="needs root, and a kernel with tracefs")
no_tracefs = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare") or not Path(TRACING).is_dir(),
    reason="a folder in the place of tracefs needs root, and the folder",
)


def timer(tmp_path: Path, script: str, *words: str) -> tuple[bytes, Stream]:
    """``timer`` as a script calls it, with mounts of its own: what the script writes, and the
    stream."""
    path = tmp_path / "stream.cbor"
    command = [str(find_agent()), "run", "timer", *words, "--output", str(path)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *command],
        stdout=subprocess.PIPE, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout, read(path)


@traced
def test_of_many_series_the_largest_samples_are_kept(tmp_path: Path) -> None:
    """More series than a snapshot has room for have their maxima at once."""
    words = ("--threads", "24", "--cpu", "0", "--interval", "10ms", "--samples", "60", "--explain")
    _, stream = timer(tmp_path, WITH_TRACEFS, *words)
    due: dict[int | None, int] = {}
    kept: list[int] = []
    full = dropped = counted = 0
    for one in stream.records:
        if isinstance(one, Event) and one.event == "maximum":
            due[one.series] = number(one, "value")
        elif isinstance(one, Trace) and one.part == "sample":
            kept.append(int(one.fields["value"]))
        elif isinstance(one, Trace) and one.part == "dropped":
            counted += int(one.fields["samples"])
        elif isinstance(one, Trace) and one.part == "end":
            assert sorted(kept) == sorted(due.values())[-ROOM:]
            full += len(due) > ROOM
            dropped += max(0, len(due) - ROOM)
            due, kept = {}, []
    assert full
    assert counted == dropped
    assert due == {}


@traced
def test_each_sample_above_a_time_is_kept_or_counted(tmp_path: Path) -> None:
    """All samples are above 1 ns. More of them come in a snapshot than it has room for."""
    words = ("--threads", "2", "--cpu", "0", "--interval", "2ms", "--samples", "300")
    _, stream = timer(tmp_path, WITH_TRACEFS, *words, "--explain-above", "1ns")
    records = stream.records
    taken = [(one.series, one.index, one.values) for one in records if isinstance(one, Samples)]
    traced = [one.fields for one in records if isinstance(one, Trace) and one.part == "sample"]
    dropped = [
        int(one.fields["samples"])
        for one in records
        if isinstance(one, Trace) and one.part == "dropped"
    ]
    values = [value for _, _, block in taken for value in block]
    kept = {(one["series"], one["index"]) for one in traced}
    assert len(kept) == len(traced) > ROOM
    assert len(traced) + sum(dropped) == len(values) == 600
    assert dropped
    assert max(int(one["value"]) for one in traced) == max(values)


@traced
@pytest.mark.skipif(not shutil.which("strace"), reason="there is no strace, which delays a wake-up")
def test_one_late_wake_up_is_not_the_cost(tmp_path: Path) -> None:
    """It is longer than all wake-ups of a median together, and only one of them is late."""
    late = f"inject=clock_nanosleep:delay_exit={LATE_NS // 1000}:when=20"
    script = f'{MOUNT}; exec strace -f -o /dev/null -e trace=clock_nanosleep -e {late} "$@"'
    words = ("--cpu", "0", "--interval", "1ms", "--samples", "5", "--explain")
    _, stream = timer(tmp_path, script, *words)
    (cost,) = (one for one in stream.records if isinstance(one, Trace) and one.part == "cost")
    assert int(cost.fields["without_ns"]) < LATE_NS / 2


KILLS = """
cd "$instances"; round=0
while [ $round -lt $rounds ]; do
    round=$((round + 1)); waited=0; made=
    "$@" </dev/null >/dev/null 2>&1 & victim=$!
    while [ -z "$made" ] && [ $waited -lt 3000 ]; do
        waited=$((waited + 1)); sleep 0.01
        for child in $victim $(ps -o pid= --ppid $victim); do
            [ ! -e rtgauge-$child-explain ] || made=rtgauge-$child-explain
        done
    done
    sleep 0.$((10 + round * 37 % 60)); kill -9 $victim; wait $victim
    waited=0
    while [ -e "$made" ] && [ $waited -lt 1000 ]; do waited=$((waited + 1)); sleep 0.01; done
    if [ -n "$made" ] && [ ! -e "$made" ]; then echo removed; else echo "left: '$made'"; fi
done
"""


@pytest.mark.slow
@traced
@pytest.mark.parametrize(("victim", "rounds"), [("agent", 80), ("host", 20)])
def test_whoever_is_killed_leaves_no_instance(tmp_path: Path, victim: str, rounds: int) -> None:
    """The guardian of a killed agent removes its instance. The agent of a killed host ends and
    removes its instance itself. Neither leaves a journal of settings."""
    state = tmp_path / "state"
    options = ["run", "timer", "--for", "60s", "--explain"]
    words = [str(find_agent()), *options, "--output", "/dev/null"]
    if victim == "host":
        store = str(tmp_path / "store")
        words = [sys.executable, "-m", "rtgauge", *options, "--no-progress", "--store", store]
    set_up = f"{MOUNT}; instances={TRACING}/instances; rounds={rounds}"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{set_up}; {KILLS}", "sh", *words],
        capture_output=True, text=True, check=True, timeout=900,
        env={**os.environ, "RTGAUGE_STATE": str(state)},
    )  # fmt: skip
    assert done.stdout.splitlines() == ["removed"] * rounds
    until = time.monotonic() + 10
    while (left := [one.name for one in state.iterdir()]) and time.monotonic() < until:
        time.sleep(0.1)
    assert [name for name in left if name != "lock"] == []


@traced
@pytest.mark.parametrize(
    "mount",
    [f"{MOUNT} && mount -o remount,bind,ro {TRACING}", f"mount -t tmpfs none {TRACING}"],
)
def test_a_container_may_not_have_the_trace_files(tmp_path: Path, mount: str) -> None:
    """They are read-only or missing, and it may not mount: the run is complete, with the remedy."""
    hide = "mount -t tmpfs none /sys/kernel/debug"
    script = f'{mount} && {hide} && exec setpriv --bounding-set=-sys_admin "$@"'
    _, stream = timer(tmp_path, script, "--samples", "50", "--explain")
    (lost,) = (one for one in stream.records if isinstance(one, Trace))
    assert lost.part == "lost"
    assert "trace files cannot be reached" in str(lost.fields["reason"])
    assert "in a container, its host has to provide it" in str(lost.fields["remedy"])
    assert stream.trailer.state == "complete"


@no_tracefs
def test_an_instance_that_cannot_be_set_up_is_given_up(tmp_path: Path) -> None:
    """Without a trace there is no cost, sample or snapshot."""
    script = f'{EMPTY}; "$@" >&2; ls {TRACING}/instances'
    listed, stream = timer(tmp_path, script, "--samples", "50", "--explain")
    found = [one for one in stream.records if isinstance(one, Trace)]
    assert [one.part for one in found] == ["lost"]
    assert "cannot make a trace instance" in str(found[0].fields["reason"])
    assert stream.trailer.state == "complete"
    assert listed == b""


@no_tracefs
@pytest.mark.parametrize(
    ("level", "files", "reason", "remedy"),
    [
        ("none [integrity] confidentiality", EMPTY, "trace instance: this kernel does", "root"),
        ("none integrity [confidentiality]", EMPTY, "trace instance: the kernel is", "=integrity"),
        # as where the kernel was started so: tracefs cannot be mounted
        ("none integrity [confidentiality]", HIDDEN, "reached: the kernel is", "=integrity"),
    ],
)
def test_a_kernel_that_is_locked_down_is_named(
    tmp_path: Path, level: str, files: str, reason: str,
    remedy: str,
) -> None:  # fmt: skip
    """Without the right to mount: the kernel refuses to mount tracefs then."""
    if not Path(SECURITY).is_dir():
        pytest.skip(f"this kernel has no {SECURITY}")
    script = (
        f"mount -t tmpfs none {SECURITY} && echo '{level}' >{SECURITY}/lockdown && {files}"
        ' && exec setpriv --bounding-set=-sys_admin "$@"'
    )
    _, stream = timer(tmp_path, script, "--samples", "5", "--explain")
    (lost,) = (one for one in stream.records if isinstance(one, Trace))
    assert lost.part == "lost"
    assert reason in str(lost.fields["reason"])
    assert remedy in str(lost.fields["remedy"])


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user"
)
def test_a_user_who_is_not_root_gets_the_remedy() -> None:
    """The run is complete without a trace."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # that of the tests is root's alone
        place = Path(name)
        place.chmod(0o777)
        agent = shutil.copy(find_agent(), place)
        path = place / "stream.cbor"
        words = [str(agent), "run", "timer", "--samples", "50", "--explain", "--output", str(path)]
        subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words],
            stdout=subprocess.PIPE, check=True, timeout=60,
            env={**os.environ, "RTGAUGE_STATE": str(place / "state"), "HOME": name},
        )  # fmt: skip
        stream = read(path)
    (lost,) = (one for one in stream.records if isinstance(one, Trace))
    assert lost.part == "lost"
    assert "run as root" in str(lost.fields["remedy"])
    assert stream.trailer.state == "complete"


OBJECTS = ("system_tracing.c.o", "run_explain.c.o")
ALLOCATED, UNWIND = 2, 0x70000001  # flag of sections in memory, type of those for debuggers
LARGEST = 8 << 10  # bytes that `--explain` may add to an agent


def _loaded(path: Path) -> int:
    """Bytes of an object's code, constants and data. It is little-endian ELF."""
    data = path.read_bytes()
    wide = data[4] == 2
    assert data[:6] == (b"\x7fELF\x02\x01" if wide else b"\x7fELF\x01\x01")
    word = "<Q" if wide else "<I"
    (table,) = struct.unpack_from(word, data, 40 if wide else 32)
    entry, count = struct.unpack_from("<HH", data, 58 if wide else 46)
    total = 0
    for place in range(table, table + entry * count, entry):
        kind, flags = struct.unpack_from("<IQ" if wide else "<II", data, place + 4)
        (size,) = struct.unpack_from(word, data, place + (32 if wide else 20))
        total += size if flags & ALLOCATED and kind != UNWIND else 0
    return total


# The other three are larger: docs/explain.md has their sizes.
@pytest.mark.parametrize("processor", ["x86_64", "aarch64", "armv7hf", "riscv64", "armv5te"])
def test_the_parts_for_traces_are_small(processor: str) -> None:
    folder = ROOT / "build" / "static" / processor / "agent" / "libagent.a.p"
    if not folder.exists():
        pytest.skip("this static agent was not built here: run tools/setup.sh --dev, or make check")
    sizes = {name: _loaded(folder / name) for name in OBJECTS}
    assert all(size > 2000 for size in sizes.values()), sizes
    assert sum(sizes.values()) <= LARGEST, sizes
