# SPDX-License-Identifier: Apache-2.0
"""Calibration and the clock tick, measured on this machine: counts, tables, verdicts."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

from agents import read, run, table_of, values_of, verdicts
from rtgauge.stream import Samples, Verdict

# CLOCK_MONOTONIC_COARSE, which Python does not name
CONFIGURED_HZ = round(1 / time.clock_getres(6))
LAST_CPU = str(max(os.sched_getaffinity(0)))


def edges(turns: int) -> int:
    """Ticks less than 25 us from an edge of a turn. With a period of 4 ms there are 0.0125 for each
    turn on average, and about 0.05 more for each turn that begins as the thread gets the CPU back,
    which is just after a tick. So there are more than these in less than 1 of 100 000 steps."""
    return 4 + turns // 4


def count(row: dict[str, object], column: str) -> int:
    value = row[column]
    assert isinstance(value, int)
    return value


@pytest.mark.study(71, 72)
def test_the_tick_is_found_and_judged_by_what_is_configured(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "tick-period")
    verdict = verdicts(stream)["the tick comes as configured"]
    grids = table_of(stream, "grids")
    found = [row["frequency"] for row in grids]
    assert code == {"pass": 0, "inconclusive": 0, "fail": 3}[verdict.result]
    # a machine that is too busy may hide its tick; what is found is judged right in any case
    if not Path("/sys/devices/system/cpu/nohz_full").exists():
        assert (verdict.result == "pass") == (CONFIGURED_HZ in found)
    expected = f"expected: {CONFIGURED_HZ} Hz, chosen when the kernel was built (CONFIG_HZ)"
    # an inconclusive one also says why
    assert any(end in verdict.evidence for end in (expected, "expected: none"))
    for row in grids:
        assert count(row, "points") >= 20
        assert count(row, "with a gap") * 10 > count(row, "points") * 5
        text = f"{row['frequency']} Hz at {row['with a gap']} of {row['points']} points"
        assert text in verdict.evidence
    assert [info.name for info in stream.series] == ["gap", "period"]
    if verdict.result == "pass":
        period = values_of(stream, 1)
        # each within the tolerance of its point, 25 us
        assert all(abs(value - 1e9 / CONFIGURED_HZ) <= 50000 for value in period)
        assert 0 < len(period) < max(count(row, "with a gap") for row in grids)
    assert stream.series[0].cpu == int(LAST_CPU)
    assert stream.samples[0] > 0


def test_another_tick_than_the_one_expected_fails(agent: str, tmp_path: Path) -> None:
    # no multiple of a tick that kernels have
    code, stream = run(agent, tmp_path, "tick-period", "--expect", "777", "--for", "500ms")
    verdict = verdicts(stream)["the tick comes as configured"]
    assert (code, verdict.result) == (3, "fail")
    assert verdict.evidence.endswith("expected: 777 Hz")


def test_too_few_points_are_not_judged(agent: str, tmp_path: Path) -> None:
    # a step that is stopped ends as early
    code, stream = run(agent, tmp_path, "tick-period", "--expect", "12", "--for", "100ms")
    verdict = verdicts(stream)["the tick comes as configured"]
    assert (code, verdict.result) == (0, "inconclusive")
    assert verdict.evidence.endswith(" of the 20 points that a grid needs")


def test_gaps_are_limited_to_the_samples_asked_for(agent: str, tmp_path: Path) -> None:
    _, stream = run(agent, tmp_path, "tick-period", "--samples", "100", "--for", "20s")
    assert stream.trailer.series[0].count <= 100
    assert stream.trailer.duration_ns < 20e9


LINES = [
    "undisturbed",
    "tick",
    "tick, then another thread",
    "no tick",
    "no tick, another thread",
]


@pytest.mark.study(73)
@pytest.mark.parametrize("priority", ["98", "0"])
def test_every_loop_is_on_one_line(agent: str, tmp_path: Path, priority: str) -> None:
    samples = 30000
    words = ["--samples", str(samples), "--priority", priority]
    code, stream = run(agent, tmp_path, "tick-cost", *words)
    assert code == 0
    series = {(info.name, info.labels["policy"]): info for info in stream.series}
    policies = sorted({policy for _, policy in series})
    permitted = os.geteuid() == 0 and priority != "0"
    assert policies == (["fifo", "other"] if permitted else ["other"])
    lines = table_of(stream, "lines")
    ticks = {row["policy"]: row for row in table_of(stream, "ticks")}
    for policy in policies:
        rows = [row for row in lines if row["policy"] == policy]
        assert [row["loops with"] for row in rows] == LINES
        loops = [count(row, "loops") for row in rows]
        info = series["loop", policy]
        assert (info.policy, info.priority) == (policy, 98 if policy == "fifo" else 0)
        # others may have the CPU all the time, but from real-time priority
        assert sum(loops) == stream.samples[info.series] <= samples
        assert policy == "other" or sum(loops) == samples
        for name, line in (("tick", loops[1]), ("other", loops[3])):
            assert stream.samples[series[name, policy].series] == line
        # a tick each; with another thread or without
        hits = count(ticks[policy], "with a tick")
        # those that took half a period held more than a tick; a tick at an edge of a turn is on
        # the line, but no hit: it might have been outside
        turns = sum(
            isinstance(record, Samples) and record.series == info.series
            for record in stream.records
        )
        assert sum(loops[1:3]) - edges(turns) <= hits <= sum(loops[1:4])
        assert ticks[policy]["period"] == round(1e9 / CONFIGURED_HZ)
    skipped = [v for v in stream.records if isinstance(v, Verdict)]
    seen = {policy for policy in policies if ticks[policy]["with a tick"]}
    assert {v.evidence.split(":")[0] for v in skipped} == {"fifo", "other"} - seen
    assert all(v.result == "skipped" and v.remedy for v in skipped)


def test_too_few_loops_show_no_tick(agent: str, tmp_path: Path) -> None:
    _, stream = run(agent, tmp_path, "tick-cost", "--samples", "1000", "--loop", "2us")
    assert {v.result for v in stream.records if isinstance(v, Verdict)} == {"skipped"}
    for row in table_of(stream, "lines"):
        if row["loops with"] in LINES[1:3]:
            assert row["loops"] == 0


def test_a_step_stopped_by_a_signal_did_not_wait_too_long(agent: str, tmp_path: Path) -> None:
    output = tmp_path / "stream.cbor"
    for turn in range(8):
        words = ["run", "tick-cost", "--samples", "100000000", "--loop", "1ms"]
        with subprocess.Popen([agent, *words, "--output", str(output)]) as process:
            time.sleep(0.1 + 0.02 * turn)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)
        evidence = [one.evidence for one in read(output).records if isinstance(one, Verdict)]
        assert not [one for one in evidence if "too long" in one]


KINDS = {
    "code": ["cached", "outer", "uncached", "first"],
    "read": ["cached", "uncached", "first"],
    "write": ["cached", "uncached", "first"],
}


@pytest.mark.study(67, 68)
def test_each_pass_is_timed_in_each_place(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "cpu-power", "--samples", "20")
    assert code == 0
    passes = {str(row["what"]): row for row in table_of(stream, "passes")}
    told = verdicts(stream)
    assert set(passes) == set(KINDS) - ({"code"} if "code is measured" in told else set())
    assert all(verdict.result == "skipped" for verdict in told.values())
    assert sorted((info.labels["what"], info.name) for info in stream.series) == sorted(
        (what, place) for what in passes for place in KINDS[what]
    )
    assert set(stream.samples.values()) == {20}
    sizes = {str(row["cache"]): count(row, "size") for row in table_of(stream, "caches")}
    assert count(passes["read"], "size") == sizes["first level, data"] // 2
    if "code" in passes:
        # whole groups of instructions, in eight equal parts; without the loop that fits
        share = count(passes["code"], "size") / sizes["first level, code"]
        assert 1.98 <= share <= 2.02
    assert (sizes["walk"] < 2 * sizes["last level"]) == ("the walk evicts all caches" in told)
    effects = {
        str(row["what"]): count(row, "uncached / cached") for row in table_of(stream, "effect")
    }
    average = effects.pop("average")
    assert set(effects) == set(passes)
    assert average == sum(effects.values()) // len(effects)
    for what, effect in effects.items():
        row = passes[what]
        assert effect == count(row, "uncached") * 100 // count(row, "cached")


def test_a_walk_without_the_memory_for_it_says_so(agent: str, tmp_path: Path) -> None:
    _, stream = run(agent, tmp_path, "cpu-power", "--samples", "1")
    full = {str(row["cache"]): count(row, "size") for row in table_of(stream, "caches")}
    if full["walk"] <= 32 << 20:
        pytest.skip("the walk is short on this machine")
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = (full["walk"], before[1])
    output = tmp_path / "limited.cbor"
    done = subprocess.run(
        [agent, "run", "cpu-power", "--samples", "1", "--output", str(output)],
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
    )
    stream = read(output)
    assert done.returncode == 0
    verdict = verdicts(stream)["the walk evicts all caches"]
    assert verdict.result == "skipped"
    walk = next(row for row in table_of(stream, "caches") if row["cache"] == "walk")
    assert count(walk, "size") < full["walk"]
    assert f"{count(walk, 'size') // 1024} KiB" in verdict.evidence


def test_code_without_the_memory_for_it_says_so(agent: str, tmp_path: Path) -> None:
    output = tmp_path / "limited.cbor"
    limit = (16 << 10, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    done = subprocess.run(
        [agent, "run", "cpu-power", "--samples", "1", "--output", str(output)],
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert done.returncode == 0
    stream = read(output)
    verdict = verdicts(stream)["code is measured"]
    if verdict.evidence == "not supported on this processor":
        pytest.skip(verdict.evidence)
    assert verdict.result == "skipped"
    assert verdict.evidence == (
        "the code to measure cannot be put into memory: No space left on device"
    )


# --- noise ---

NOISE_KINDS = ["hardware", "interrupt", "thread"]


def test_gaps_are_counted_by_their_cause(agent: str, tmp_path: Path) -> None:
    """Each gap is one sample of one kind, and the tables sum them up."""
    code, stream = run(agent, tmp_path, "noise", "--for", "300ms")
    assert code == 0
    assert {(info.cpu, info.name) for info in stream.series} == {
        (cpu, kind) for cpu in os.sched_getaffinity(0) for kind in NOISE_KINDS
    }
    rows = {(row["cpu"], row["gaps by"]): row for row in table_of(stream, "noise")}
    for info in stream.series:
        gaps = values_of(stream, info.series)
        row = rows[info.cpu, info.name]
        assert (row["gaps"], row["sum"]) == (len(gaps), sum(gaps))
        assert row["max"] == max(gaps, default=0)
        assert all(gap > 1000 for gap in gaps)
        assert count(row, "sum") < count(row, "watched") <= 300_000_000 + count(row, "max")
    for row in table_of(stream, "firmware and hypervisor"):
        counted = not str(row["SMIs counted by"]).startswith("not counted")
        assert isinstance(row["SMIs"], int) == counted


def wait_until_it_runs(pid: int) -> None:
    """Until the shell has used some CPU time: on a crowded machine that may take long."""
    until = time.monotonic() + 60
    while True:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        if name.endswith("(sh") and int(rest.split()[11]) > 2:
            return
        assert time.monotonic() < until
        time.sleep(0.02)


def test_another_thread_is_a_gap_of_its_own_kind(agent: str, tmp_path: Path) -> None:
    """Where two share a CPU, each is away while the other one runs."""
    words = ["noise", "--for", "600ms", "--cpu", LAST_CPU, "--priority", "0"]
    busy = subprocess.Popen(["taskset", "-c", LAST_CPU, "sh", "-c", "while :; do :; done"])
    try:
        wait_until_it_runs(busy.pid)
        code, stream = run(agent, tmp_path, *words)
    finally:
        busy.kill()
        busy.wait()
    assert code == 0
    (row,) = (row for row in table_of(stream, "noise") if row["gaps by"] == "thread")
    assert count(row, "gaps") > 0
    assert count(row, "max") > 100_000
