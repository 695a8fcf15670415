# SPDX-License-Identifier: Apache-2.0
"""The steps of ``xeno-test`` on this machine: a program in place of Xenomai's smokey, the clocks of
its CPUs, and the registers of threads that are switched."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from agents import Stream, messages_of, read, results, table_of, verdicts
from rtgauge.target.local import find_agent

CPU: Final = str(min(os.sched_getaffinity(0)))
CPUS: Final = sorted(os.sched_getaffinity(0))
WHOLE: Final = "smokey ends without a failure"
GOOD: Final = "echo posix_mutex OK\necho 'can skipped (no kernel support)'\n"


@pytest.fixture(autouse=True)
def no_smokey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = [one for one in os.environ["PATH"].split(":") if not Path(one, "smokey").exists()]
    monkeypatch.setenv("PATH", ":".join([str(tmp_path / "bin"), *path]))
    if Path("/usr/xenomai/bin/smokey").exists():
        pytest.skip("this machine has Xenomai's smokey")


def smokey(tmp_path: Path, script: str) -> None:
    program = tmp_path / "bin" / "smokey"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)


def run(tmp_path: Path, *words: str) -> tuple[int, Stream, str]:
    output = tmp_path / "stream.cbor"
    done = subprocess.run(
        [find_agent(), "run", *words, "--output", output],
        stderr=subprocess.PIPE, timeout=60, check=False, text=True,
    )  # fmt: skip
    return done.returncode, read(output), done.stderr


# --- smokey ---------------------------------------------------------------------------------------


def test_missing_smokey_is_skipped(tmp_path: Path) -> None:
    code, stream, said = run(tmp_path, "smokey")
    assert code == 77
    assert results(stream) == {}
    assert stream.trailer.state == "skipped"
    assert "is not installed" in stream.trailer.reason
    assert "/usr/xenomai/bin" in said


def test_each_test_of_smokey_is_a_test(tmp_path: Path) -> None:
    words = tmp_path / "words"
    smokey(tmp_path, f'echo "$0" "$@" > {words}\n{GOOD}')
    code, stream, said = run(tmp_path, "smokey")
    assert (code, said) == (0, "")
    assert results(stream) == {
        "smokey: posix_mutex": "pass", "smokey: can": "skipped", WHOLE: "pass",
    }  # fmt: skip
    assert "1 of 2 tests passed" in verdicts(stream)[WHOLE].evidence
    assert words.read_text().split() == [
        str(tmp_path / "bin" / "smokey"), "--run", "--keep-going", "random_alloc_rounds=64",
        "pattern_check_rounds=64",
    ]  # fmt: skip


def test_vm_is_passed_on(tmp_path: Path) -> None:
    words = tmp_path / "words"
    smokey(tmp_path, f'echo "$@" > {words}\n{GOOD}')
    assert run(tmp_path, "smokey", "--vm", "yes")[0] == 0
    assert words.read_text().split()[-1] == "--vm"


def test_failing_test_fails(tmp_path: Path) -> None:
    smokey(tmp_path, f"{GOOD}echo 'posix-cond.c:77, assertion failed'\n"
           "echo 'test posix_cond failed: -22'\nexit 1\n")  # fmt: skip
    code, stream, _ = run(tmp_path, "smokey")
    assert code == 3
    found = verdicts(stream)
    assert found["smokey: posix_cond"].result == "fail"
    assert found["smokey: posix_cond"].evidence == "posix-cond.c:77, assertion failed"
    assert "smokey --run=NAME" in found["smokey: posix_cond"].remedy
    assert found[WHOLE].result == "fail"
    assert found["smokey: posix_mutex"].result == "pass"


@pytest.mark.parametrize(
    ("end", "words"),
    [("exit 2", "ended with status 2"), ("kill -SEGV $$", "killed by signal 11")],
)
def test_status_fails_without_a_failing_test(tmp_path: Path, end: str, words: str) -> None:
    smokey(tmp_path, f"{GOOD}echo 'cannot bind' >&2\n{end}\n")
    code, stream, _ = run(tmp_path, "smokey")
    assert code == 3
    assert verdicts(stream)[WHOLE].result == "fail"
    assert words in verdicts(stream)[WHOLE].evidence
    assert "cannot bind" in verdicts(stream)[WHOLE].evidence


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        (
            '   0"000.000| BUG in low_init(): [main] ABI mismatch: required r18, provided r19',
            "of the version that the kernel has",
        ),
        (
            "smokey: error while loading shared libraries: libcobalt.so.2: cannot open shared "
            "object file: No such file or directory",
            "install Xenomai's libraries",
        ),
    ],
)
def test_programs_of_another_version_have_their_remedy(
    tmp_path: Path, message: str, remedy: str
) -> None:
    smokey(tmp_path, f"echo '{message}' >&2\nexit 1\n")
    code, stream, _ = run(tmp_path, "smokey")
    assert code == 3
    assert results(stream) == {WHOLE: "fail"}
    assert message.strip() in verdicts(stream)[WHOLE].evidence
    assert remedy in verdicts(stream)[WHOLE].remedy


def test_nothing_printed_is_not_a_pass(tmp_path: Path) -> None:
    smokey(tmp_path, "exit 0\n")
    code, stream, _ = run(tmp_path, "smokey")
    assert code == 0
    assert results(stream) == {WHOLE: "inconclusive"}


def test_failing_test_fails_the_whole_whatever_the_status(tmp_path: Path) -> None:
    smokey(tmp_path, f"{GOOD}echo 'test posix_cond failed: -22'\nexit 0\n")
    code, stream, _ = run(tmp_path, "smokey")
    assert code == 3
    assert verdicts(stream)[WHOLE].result == "fail"


@pytest.mark.parametrize(("last", "whole"), [("t OK", "pass"), ("test t failed: -22", "fail")])
def test_results_without_room_are_counted(tmp_path: Path, last: str, whole: str) -> None:
    """Results beyond the room are not lost silently, and a failing one of them counts."""
    lines = "".join(f"echo 't{number} OK'\n" for number in range(130))
    smokey(tmp_path, f"{lines}echo '{last}'\n")
    code, stream, _ = run(tmp_path, "smokey")
    assert code == (0 if whole == "pass" else 3)
    found = verdicts(stream)
    assert len(found) == 129
    assert found[WHOLE].result == whole
    assert "3 results after the first 128 were left out" in found[WHOLE].evidence


def test_repeated_output_of_forked_processes_counts_once(tmp_path: Path) -> None:
    smokey(tmp_path, f"{GOOD}{GOOD}echo 'test posix_mutex failed: -1'\nexit 1\n")
    code, stream, _ = run(tmp_path, "smokey")
    assert code == 3
    assert results(stream) == {
        "smokey: posix_mutex": "fail", "smokey: can": "skipped", WHOLE: "fail",
    }  # fmt: skip


def test_smokey_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    smokey(tmp_path, f"sleep 100 &\necho $! $$ > {pids}\n{GOOD}wait\n")
    code, stream, _ = run(tmp_path, "smokey", "--timeout", "1s")
    assert code == 3
    assert verdicts(stream)["smokey: posix_mutex"].result == "pass"
    assert "did not end within 1 s" in verdicts(stream)[WHOLE].evidence
    for pid in pids.read_text().split():
        stat = Path(f"/proc/{pid}/stat")
        assert not stat.exists() or stat.read_text().split()[2] == "Z"


def test_smokey_has_none_of_the_limits_of_the_agent(tmp_path: Path) -> None:
    limits = tmp_path / "limits"
    smokey(tmp_path, "grep -h -e realtime -e SigBlk /proc/self/limits /proc/self/status "
           f"> {limits}\n{GOOD}")  # fmt: skip
    assert run(tmp_path, "smokey")[0] == 0
    said = limits.read_text()
    found = re.search(r"Max realtime timeout +(\d+)", said)
    assert found is None or int(found[1]) >= 600_000_000, "as long as it may take"
    assert "SigBlk:\t0000000000000000" in said


# --- clocks and registers -------------------------------------------------------------------------


def test_clocks_of_all_cpus(tmp_path: Path) -> None:
    code, stream, said = run(tmp_path, "clock-warps", "--for", "300ms")
    assert (code, said) == (0, "")
    assert set(results(stream).values()) == {"pass"}
    rows = table_of(stream, "warps")
    assert [row["cpu"] for row in rows] == [cpu for cpu in CPUS for _ in range(2)]
    assert all(int(row["readings"]) > 0 and row["warps"] == 0 for row in rows)
    for linux, core in zip(rows[::2], rows[1::2], strict=True):
        assert linux["readings"] == 2 * int(core["readings"]), (
            "one before each of the core, one after"
        )
    for row in rows:
        if row["cpu"] == CPUS[0]:
            assert (row["ahead at least"], row["ahead at most"]) == ("", "")
        elif row["ahead at least"] != "":
            assert int(row["ahead at least"]) <= 0 <= int(row["ahead at most"])


def test_registers_of_all_threads(tmp_path: Path) -> None:
    if platform.machine() not in ("x86_64", "aarch64"):
        code, _, said = run(tmp_path, "core-switches", "--for", "100ms")
        assert code == 77
        assert "registers" in said
        return
    code, stream, said = run(tmp_path, "core-switches", "--for", "300ms")
    assert (code, said) == (0, "")
    assert list(results(stream).values()) == ["pass"]
    rows = table_of(stream, "switches")
    assert len(rows) == 3 * len(CPUS), "no thread of both cores on Linux"
    assert all(int(row["checks"]) > 0 and row["changed"] == 0 for row in rows)
    checks = sum(int(row["checks"]) for row in rows)
    evidence = next(iter(verdicts(stream).values())).evidence
    assert evidence.startswith(f"0 of {checks} checks of {len(rows)} threads")


# --- a load that the board has no place for -------------------------------------------------------


@pytest.mark.parametrize(("needed", "state"), [("no", "complete"), ("yes", "failed")])
def test_disk_in_memory(tmp_path: Path, needed: str, state: str) -> None:
    """The profile xeno-test continues without a disk, and the run has a message with the reason."""
    folder = Path("/dev/shm")
    if not folder.is_dir() or os.statvfs(folder).f_bavail == 0:
        pytest.skip("no /dev/shm")
    load = f"disk:path={folder}:size=64KiB:needed={needed},cpu"
    words = ("timer", "--for", "300ms", "--cpu", CPU, "--dither", "no", "--load", load)
    code, stream, said = run(tmp_path, *words)
    assert (code == 0, stream.trailer.state) == (state == "complete", state), said
    texts = messages_of(stream)
    told = [text for text in texts if text.startswith("without load disk")]
    assert len(told) == (1 if needed == "no" else 0)
    assert "lies in memory" in (told[0] if told else said)


def test_no_load_at_all_is_not_a_load(tmp_path: Path) -> None:
    """The samples would be those of the idle system, and be shown as under load."""
    folder = Path("/dev/shm")
    if not folder.is_dir() or os.statvfs(folder).f_bavail == 0:
        pytest.skip("no /dev/shm")
    load = f"disk:path={folder}:size=64KiB:needed=no"
    words = ("timer", "--for", "300ms", "--cpu", CPU, "--dither", "no", "--load", load)
    code, stream, said = run(tmp_path, *words)
    assert code == 1, said
    assert stream.trailer.state == "failed"
    assert "none of the loads can run here" in said
    assert "lies in memory" in said


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.study(123)
@pytest.mark.parametrize(("script", "expected"), [("", 0), (GOOD, 0), ("exit 1\n", 3)])
@pytest.mark.slow
def test_command(tmp_path: Path, script: str, expected: int) -> None:
    """All steps in one command. A missing smokey is skipped, a failing one is a failure."""
    if script:
        smokey(tmp_path, script)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "rtgauge", "xeno-test", "--for", "300ms", "--cpu", CPU),
            *("--load", "cpu", "--json", "--no-progress", "--store", str(tmp_path / "store")),
        ],
        capture_output=True, timeout=100, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == expected, done.stderr
    run = json.loads(done.stdout)["runs"][0]
    steps = {one["measurement"]: one for one in run["steps"] if one["role"] == "measurement"}
    assert list(steps) == ["smokey", "clock-warps", "core-switches", "timer"]
    assert steps["smokey"]["state"] == ("complete" if script else "skipped")
    assert all(steps[name]["state"] == "complete" for name in list(steps)[1:])
    assert any(one["measurement"] == "timer" and one["count"] for one in run["series"])
