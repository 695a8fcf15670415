# SPDX-License-Identifier: Apache-2.0
"""The static agents of other architectures, in QEMU's emulation of a program.

What is tried is that each describes itself, measures, and writes a stream that this machine's
reader takes; values are those of an emulation and mean nothing. The kernel is this machine's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from agents import Stream, read
from emulation import emulator
from rtgauge.architectures import ARCHITECTURES, Architecture
from rtgauge.lab.programs import static_agent
from rtgauge.stream import Histogram, Samples
from rtgauge.target.local import find_agent

SAMPLES: Final = 200
#: One thread alone at no priority, and threads of different priorities.
CPU: Final = ("--cpu", str(min(os.sched_getaffinity(0))))
HARMLESS: Final = ("--priority", "0", "--keep-settings", *CPU)
PATIENCE_S: Final = 300
COUNTERS: Final = {"x86-64": "tsc", "i686": "tsc", "arm64": "cntvct", "riscv64": "rdtime"}


@pytest.fixture(params=list(ARCHITECTURES.values()), ids=list(ARCHITECTURES), name="arch")
def architecture_here(request: pytest.FixtureRequest) -> Architecture:
    arch = request.param
    assert isinstance(arch, Architecture)
    emulator(arch)
    return arch


def carry_out(arch: Architecture, *words: str) -> subprocess.CompletedProcess[bytes]:
    # the emulation has no close_range(), and closes one by one what might be open
    few = ["prlimit", "--nofile=256"]
    command = [*few, emulator(arch), str(static_agent(arch, print)), *words]
    state = Path("state").absolute()
    state.mkdir(mode=0o700, exist_ok=True)
    return subprocess.run(
        command,
        env={**os.environ, "RTGAUGE_STATE": str(state)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )


def measure(arch: Architecture, *words: str) -> tuple[int, Stream, str]:
    done = carry_out(arch, "run", *words, "--output", "-")
    output = Path("stream.cbor")
    output.write_bytes(done.stdout)
    return done.returncode, read(output), done.stderr.decode()


def test_it_is_a_program_of_that_architecture_without_any_need(arch: Architecture) -> None:
    head = static_agent(arch, print).read_bytes()[:64]
    assert head[:4] == b"\x7fELF"
    assert head[5] == (2 if arch.big_endian else 1)


def _without_limitations(description: dict[str, Any]) -> set[str]:
    """The rules that fail with the agent's C library, which are taken out of its description."""
    return {
        f"{one['name']}: {rule['rule']}"
        for one in description["measurements"]
        for rule in one["verdicts"]
        if rule.pop("known_limitation", None)
    }


def test_it_describes_itself_as_all_do(arch: Architecture) -> None:
    done = carry_out(arch, "describe")
    assert done.returncode == 0, done.stderr
    own = subprocess.run(
        [find_agent(), "describe"], capture_output=True, timeout=PATIENCE_S, check=True
    )
    here, there = json.loads(own.stdout), json.loads(done.stdout)
    assert there.pop("libc") == "musl"
    del here["libc"]
    limitations = [_without_limitations(one) for one in (here, there)]
    assert there == here
    assert limitations[0] <= limitations[1], "musl has the limitations of glibc, and more"


def test_its_environment(arch: Architecture) -> None:
    done = carry_out(arch, "environment")
    assert done.returncode == 0, done.stderr
    Path("stream.cbor").write_bytes(done.stdout)
    header = read(Path("stream.cbor")).header
    assert header.libc == "musl"
    assert header.counter.name == COUNTERS.get(arch.name, "none")
    assert (header.counter.hz > 0) == (header.counter.name != "none")
    assert header.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_timer(arch: Architecture) -> None:
    words = ("timer", "--samples", str(SAMPLES), "--interval", "1ms", *HARMLESS)
    code, stream, said = measure(arch, *words)
    assert code == 0, said
    assert (stream.trailer.state, stream.complete) == ("complete", True)
    assert stream.samples[0] + stream.missed[0] >= SAMPLES
    # the values that came one by one, and the extremes that were kept as well, are the same numbers
    values = [int(v) for r in stream.records if isinstance(r, Samples) for v in r.values]
    last = [record for record in stream.records if isinstance(record, Histogram)][-1]
    assert (last.count, last.min, last.max) == (len(values), min(values), max(values))
    assert last.sum == sum(values)


def test_what_has_no_interval(arch: Architecture) -> None:
    code, stream, said = measure(arch, "mutex-uncontended", "--samples", str(SAMPLES), *HARMLESS)
    assert code in (0, 3), said
    assert stream.trailer.state == "complete"
    assert set(stream.samples.values()) == {SAMPLES}


# The processors of the studies' boards: AT91SAM9 (ARM926), i.MX31 (ARM1136), MPC5200 and 440EPx.
@pytest.mark.study(
    38,
    47,
    lacks="the boards themselves, their kernels, and contexts of the kernel before Linux 5.10",
)
@pytest.mark.study(
    46,
    lacks="the boards themselves, their kernels, and contexts of the kernel: no module for PowerPC",
)
@pytest.mark.parametrize(
    ("name", "processor"),
    [
        ("armv5te", "arm926"),
        ("armv5te", "arm1136"),
        ("powerpc", "mpc5200"),
        ("powerpc", "440epx"),
    ],
)
@pytest.mark.parametrize("measurement", ["timer", "mutex-uncontended"])
def test_the_processors_of_the_studies_boards(
    monkeypatch: pytest.MonkeyPatch, name: str, processor: str, measurement: str
) -> None:
    """An emulator that ends at an instruction that this processor does not have."""
    emulator(ARCHITECTURES[name])
    monkeypatch.setenv("QEMU_CPU", processor)
    words = (measurement, "--samples", str(SAMPLES), *HARMLESS)
    code, stream, said = measure(ARCHITECTURES[name], *words)
    assert code in (0, 3), said
    assert stream.trailer.state == "complete"
    assert min(stream.samples.values()) >= SAMPLES


# armv7hf is Thumb-2 code with floating point in registers, armv5te ARM code with functions for it
@pytest.mark.study(127)
@pytest.mark.parametrize("name", ["thread-switch", "mutex-contended"])
def test_threads_of_different_priorities(arch: Architecture, name: str) -> None:
    if os.geteuid():
        pytest.skip("only root may use SCHED_FIFO")
    if arch.big_endian and sys.byteorder == "little" and name == "mutex-contended":
        pytest.skip("the kernel writes a mutex's owner in its own byte order (FUTEX_LOCK_PI)")
    code, stream, said = measure(arch, name, "--samples", str(SAMPLES), *CPU)
    if stream.trailer.state == "skipped" and "SCHED_FIFO" in stream.trailer.reason:
        pytest.skip(f"not here: {stream.trailer.reason}")
    assert code in (0, 3), said
    assert stream.trailer.state == "complete", stream.trailer.reason
    assert any(count == SAMPLES for count in stream.samples.values())
