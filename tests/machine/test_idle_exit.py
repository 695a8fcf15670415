# SPDX-License-Identifier: Apache-2.0
"""Sleep states of this machine, and of CPUs that files pretend to have."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from agents import Stream, read, run, table_of
from rtgauge.stream import Setting, Verdict

HELD: Final = Path("/dev/cpu_dma_latency")
CPU: Final = max(os.sched_getaffinity(0))
CPUIDLE: Final = Path(f"/sys/devices/system/cpu/cpu{CPU}/cpuidle")
RULE: Final = "every sleep state is entered"
IS_ROOT: Final = os.geteuid() == 0 and os.access(HELD, os.W_OK)
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root limits sleep states")
pretends = pytest.mark.skipif(
    not IS_ROOT or not CPUIDLE.is_dir() or shutil.which("unshare") is None,
    reason="needs root, unshare, and a folder of the kernel for sleep states",
)


def verdict_of(stream: Stream) -> Verdict:
    (verdict,) = [one for one in stream.records if isinstance(one, Verdict)]
    assert verdict.rule == RULE
    return verdict


@needs_root
@pytest.mark.skipif(
    not (CPUIDLE / "state1").is_dir(), reason="this machine has no choice of sleep states"
)
def test_each_sleep_state_of_this_machine(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "idle-exit", "--samples", "30", "--cpu", str(CPU))
    assert code == 0
    states = sorted(CPUIDLE.glob("state*"), key=lambda path: int(path.name.removeprefix("state")))
    rows = table_of(stream, "sleep states")
    assert [row["state"] for row in rows] == [(one / "name").read_text().strip() for one in states]
    assert [row["declared exit"] for row in rows] == [
        int((one / "latency").read_text()) * 1000 for one in states
    ]
    enabled = [one for one in states if (one / "disable").read_text() == "0\n"]
    assert [one.labels["state"] for one in stream.series] == [
        (one / "name").read_text().strip() for one in enabled
    ]
    assert [stream.samples[one.series] for one in stream.series] == [30] * len(enabled)
    verdict = verdict_of(stream)
    rare = [row for row in rows if row["samples"] and row["entries"] < 15]
    assert (verdict.result == "inconclusive") == bool(rare)
    # the states are not held, which all other measurements do
    names = [one.name for one in stream.records if isinstance(one, Setting)]
    assert "/proc/sys/kernel/sched_rt_runtime_us" in names and "cpu_dma_latency" not in names


def pretended(folder: Path, states: Sequence[Mapping[str, object]]) -> Path:
    for number, state in enumerate(states):
        place = folder / f"state{number}"
        place.mkdir(parents=True)
        for name, value in {"disable": 0, "usage": 7, **state}.items():
            if isinstance(value, Path):
                (place / name).symlink_to(value)
            else:
                (place / name).write_text(f"{value}\n")
    folder.mkdir(exist_ok=True)
    return folder


def run_with(
    agent: str, tmp_path: Path, states: Sequence[Mapping[str, object]], *words: str
) -> tuple[int, Stream]:
    """The agent with these states in place of the CPU's."""
    folder, out = pretended(tmp_path / "cpuidle", states), tmp_path / "stream"
    script = f'mount --bind {folder} {CPUIDLE} && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", agent, "run", "idle-exit", "--cpu",
         str(CPU), "--output", str(out), *words],
        timeout=60, check=False, capture_output=True,
    )  # fmt: skip
    return done.returncode, read(out)


POLL: Final = {"name": "POLL", "latency": 0, "residency": 0}
C1: Final = {"name": "C1", "latency": 2, "residency": 2}
C6: Final = {"name": "C6", "latency": 133, "residency": 9000}


@pretends
def test_a_state_that_is_not_entered_is_no_evidence(agent: str, tmp_path: Path) -> None:
    code, stream = run_with(agent, tmp_path, [POLL, C1, C6], "--samples", "21", "--pause", "1ms")
    assert code == 0
    assert [(row["state"], row["declared exit"], row["residency"], row["samples"], row["entries"],
             row["other entries"]) for row in table_of(stream, "sleep states")] == [
        ("POLL", 0, 0, 21, 0, 0), ("C1", 2000, 2000, 21, 0, 0),
        ("C6", 133_000, 9_000_000, 21, 0, 0),
    ]  # fmt: skip
    # four times the residency of C6, for which 1 ms is too short
    assert stream.trailer.duration_ns > 21 * 36_000_000
    verdict = verdict_of(stream)
    assert verdict.result == "inconclusive"
    assert "POLL: 0 entries for 21 wake-ups" in verdict.evidence or "limits" in verdict.evidence


@pretends
@pytest.mark.parametrize("disabled", [False, True])
@pytest.mark.slow
def test_states_that_are_entered(agent: str, tmp_path: Path, disabled: bool) -> None:
    seconds = Path("/proc/uptime")  # in place of a count: it grows while the CPU sleeps
    states = [{**POLL, "usage": seconds}, {**C1, "usage": seconds, "disable": int(disabled)}]
    _, stream = run_with(agent, tmp_path, states, "--samples", "2", "--pause", "1200ms")
    verdict = verdict_of(stream)
    if disabled:
        assert (verdict.result, verdict.evidence) == ("skipped", "C1 is disabled")
    else:
        assert (verdict.result, verdict.evidence) == ("pass", "2 states")
    assert [one.labels["state"] for one in stream.series] == ["POLL", "C1"][: 2 - disabled]
    assert [row["samples"] for row in table_of(stream, "sleep states")] == [2, 0 if disabled else 2]


@pytest.fixture
def held() -> Iterator[None]:
    descriptor = os.open(HELD, os.O_RDWR)
    os.write(descriptor, struct.pack("i", 0))
    yield
    os.close(descriptor)


@pretends
@pytest.mark.usefixtures("held")
def test_another_program_that_holds_the_states_is_named(agent: str, tmp_path: Path) -> None:
    code, stream = run_with(agent, tmp_path, [POLL, C1], "--samples", "5", "--pause", "1ms")
    assert code == 0
    verdict = verdict_of(stream)
    assert verdict.result == "inconclusive"
    assert "another program limits /dev/cpu_dma_latency to 0 us" in verdict.evidence
    assert "fuser" in verdict.remedy


@pretends
@pytest.mark.parametrize(
    ("states", "words", "reason"),
    [
        ([POLL], (), "cannot choose between sleep states"),
        ([], (), "cannot choose between sleep states"),
        ([POLL, C1], ("--keep-settings",), "limiting the sleep states changes a setting"),
    ],
)
def test_where_it_is_skipped(
    agent: str,
    tmp_path: Path,
    states: list[dict[str, object]],
    words: tuple[str, ...],
    reason: str,
) -> None:
    code, stream = run_with(agent, tmp_path, states, *words)
    assert (code, stream.trailer.state) == (77, "skipped")
    assert reason in stream.trailer.reason and stream.trailer.remedy
