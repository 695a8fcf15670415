# SPDX-License-Identifier: Apache-2.0
"""A real Cobalt kernel on an emulated board. Each machine builds its own: the tests run where the
user has added it as ``lab:cobalt`` (docs/reference/cores.md, "On an emulated board")."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from rtgauge.lab.registry import own_names
from rtgauge.stream import Header, Record, Samples, SeriesInfo, StreamReader, Table, Verdict
from rtgauge.target.lab import LabTarget

ROOT: Final = Path(__file__).resolve().parents[2]
BOARD: Final = "cobalt"
RULE: Final = "stays out-of-band"
METHODS: Final = ("clock_nanosleep", "nanosleep", "timer", "timerfd")
LOAD: Final = ("--load", "sched:groups=2:size=64KiB")
# Xenomai's own program, if the board's overlay has it, and the difference that is allowed.
LATENCY: Final = "/usr/xenomai/bin/latency"
NEAR_NS: Final = 300.0
NEAR: Final = 0.1


@pytest.fixture(autouse=True)
def needs_board() -> None:
    if BOARD not in own_names():
        pytest.skip(f"no board lab:{BOARD}: build a kernel with Cobalt, and use rtgauge lab add")


@contextlib.contextmanager
def boot() -> Iterator[LabTarget]:
    with contextlib.closing(LabTarget(BOARD)) as target:
        yield target


def timer(target: LabTarget, *words: str) -> list[Record]:
    done = target.execute(["/agent", "run", "timer", *words, "--output", "-"])
    assert done.code == 0, done.stderr.decode()
    return list(StreamReader().feed(done.stdout))


def samples(records: list[Record], method: str = "clock_nanosleep") -> NDArray[np.int32]:
    series = next(
        one.series
        for one in records
        if isinstance(one, SeriesInfo) and one.labels["method"] == method and one.companion is None
    )
    return np.concatenate(
        [one.values for one in records if isinstance(one, Samples) and one.series == series]
    )


def shell(target: LabTarget, script: str) -> str:
    done = target.execute(["/bin/busybox", "sh", "-c", script])
    return (done.stdout + done.stderr).decode(errors="replace")


def test_two_boots_are_equal_and_stay_on_the_core() -> None:
    boots = []
    for _ in range(2):
        with boot() as target:
            words = ("--core", "cobalt", "--method", ",".join(METHODS), "--samples", "500")
            records = timer(target, *words)
        header = records[0]
        assert isinstance(header, Header)
        assert (header.core, header.core_revision) == ("cobalt", 19)
        rules = {one.rule: one.result for one in records if isinstance(one, Verdict)}
        assert rules == {RULE: "pass"}
        table = next(one for one in records if isinstance(one, Table) and one.name == "modes")
        assert [row[1:3] for row in table.rows] == [(0, 0)] * len(METHODS)
        boots.append({method: samples(records, method).tolist() for method in METHODS})
        assert all(len(values) == 500 for values in boots[-1].values())
    assert boots[0] == boots[1]


def test_cobalt_is_below_linux_under_load() -> None:
    with boot() as target:
        words = ("--samples", "1000", *LOAD)
        on_cobalt = samples(timer(target, "--core", "cobalt", *words))
        on_linux = samples(timer(target, "--core", "linux", *words))
    assert on_cobalt.max() < on_linux.max()
    assert np.median(on_cobalt) < np.median(on_linux)


def test_latency_of_xenomai_agrees() -> None:
    """``latency -t0`` waits for a timerfd of the core."""
    with boot() as target:
        if shell(target, f"ls {LATENCY}").strip() != LATENCY:
            pytest.skip(f"the overlay of lab:{BOARD} has no {LATENCY}")
        words = ("--core", "cobalt", "--method", "timerfd", "--dither", "no", "--samples", "2000")
        ours = float(np.median(samples(timer(target, *words), "timerfd")))
        said = shell(
            target,
            "echo '0i 0k 0u' > /proc/xenomai/clock/coreclk; "
            f"LD_LIBRARY_PATH=/usr/xenomai/lib {LATENCY} -t0 -T2 -p1000",
        )
    found = re.search(r"^RTS\|\s*[\d.]+\|\s*([\d.]+)\|", said, re.MULTILINE)
    assert found, said
    theirs = float(found[1]) * 1000
    assert abs(ours - theirs) <= max(NEAR_NS, NEAR * theirs)


def test_calls_are_answered_as_recorded(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc)")
    program, source = tmp_path / "calls", ROOT / "tests" / "support" / "cobalt_calls.c"
    words = [compiler, "-O2", "-D_GNU_SOURCE", "-static", "-o", str(program), str(source)]
    subprocess.run(words, check=True, timeout=60)
    recorded = (ROOT / "tests" / "data" / "cobalt_calls.tsv").read_text().splitlines()
    with boot() as target:
        target.put("/calls", program.read_bytes())
        said = target.execute(["/calls"]).stdout.decode()
    assert said.splitlines() == [one for one in recorded if not one.startswith("#")]


def test_killed_agent_leaves_no_task_and_no_setting() -> None:
    with boot() as target:
        first = (
            "/bin/busybox head -1 /proc/xenomai/clock/coreclk && cat /proc/xenomai/sched/threads"
        )
        before = shell(target, first)
        said = shell(
            target,
            "/agent run timer --core cobalt --for 30s --output /x >/dev/null 2>&1 & P=$!; "
            "/bin/busybox sleep 1; "
            f"{first}; echo killed; /bin/busybox kill -9 $P; /bin/busybox sleep 1; {first}",
        )
    during, after = said.split("killed\n")
    assert "irq=0 kernel=0 user=0" in during
    assert "rtgauge-measure" in during
    assert "rtgauge-measure" not in after
    assert after.splitlines()[0] == before.splitlines()[0] != during.splitlines()[0]
