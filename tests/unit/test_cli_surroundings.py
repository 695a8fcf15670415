# SPDX-License-Identifier: Apache-2.0
"""The command line in odd surroundings: closed files, little memory, strange plans and clocks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import SOURCES, Run
from test_cli import QUICK


def shell(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A shell command in which ``rtgauge`` is this program."""
    program = f'rtgauge() {{ "{sys.executable}" -m rtgauge "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", program + text],
        env={**os.environ, "PYTHONPATH": str(SOURCES), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["runs", "runs --json", "describe --target fake", "run --help"])
@pytest.mark.slow
def test_standard_files_that_are_closed(words: str, closed: str) -> None:
    done = shell(f"rtgauge {words} {closed}")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


@pytest.mark.slow
def test_a_closed_output_is_no_place_for_a_file(rtgauge: Run) -> None:
    """The index would be opened as standard output, and the text be written into it."""
    assert rtgauge("run", "timer", *QUICK).code == 0
    assert shell("rtgauge show last >&- && rtgauge runs --json").returncode == 0
    assert len(rtgauge("runs").out.splitlines()) == 2


@pytest.mark.slow
def test_a_reader_that_has_gone_costs_neither_report_nor_exit_code() -> None:
    run = "run timer --target fake --for 1s"
    code = "| true; [ ${PIPESTATUS[0]} = "
    done = shell(
        f"set -e; rtgauge {run} --label a --budget 1us -o run.xml {code} 3 ]\n"
        f"rtgauge {run} --json -o run.html {code} 0 ]\n"
        f"rtgauge compare 1 2 --gate -o both.json {code} 77 ]\n"
        f"rtgauge check --target fake:unprivileged --strict {code} 3 ]\n"
        f"ls run.xml run.html both.json"
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_a_current_folder_that_was_deleted(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "deleted"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    done = rtgauge("runs")
    assert (done.code, done.out) == (1, "")
    assert done.err == "rtgauge: the current folder was deleted\n  change to another folder\n"


def test_ctrl_c_while_the_modules_are_loaded_prints_no_traceback(tmp_path: Path) -> None:
    """Loading takes a fifth of a second. `git bisect run` stops at this code."""
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt")
    done = shell("rtgauge runs; exit $?", PYTHONPATH=f"{tmp_path}:{SOURCES}")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("name", ["TERM", "HUP"])
@pytest.mark.slow
def test_a_signal_ends_any_command_as_ctrl_c_does(tmp_path: Path, name: str) -> None:
    """It ended without a message, and left the folder of its connection."""
    ssh, folder = tmp_path / "ssh", tmp_path / "folder"
    ssh.write_text(f"#!/bin/sh\nkill -{name} $PPID\nexec sleep 60\n")
    ssh.chmod(0o755)
    folder.mkdir()
    path = f"{tmp_path}:{os.environ['PATH']}"
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    try:
        done = shell("rtgauge check --target ssh://board", PATH=path, TMPDIR=str(folder))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (done.returncode, done.stderr) == (4, "rtgauge: interrupted\n")
    assert not [*folder.iterdir()]


def test_a_signal_leaves_the_handler_of_the_caller(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that calls ``main`` may handle SIGHUP itself. It was ignored afterwards."""
    program = sys.modules["rtgauge.cli.main"]
    monkeypatch.setattr(program, "_invoke", lambda _: signal.raise_signal(signal.SIGTERM))
    before = signal.signal(signal.SIGHUP, handler := lambda *_: None)
    try:
        assert rtgauge("runs").code == 4
        assert signal.getsignal(signal.SIGHUP) is handler
    finally:
        signal.signal(signal.SIGHUP, before)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_second_signal_of_a_closed_terminal_does_not_stop_the_cleaning_up(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell and the kernel each send a SIGHUP."""
    cleaned: list[bool] = []

    def ends(_: object) -> None:
        try:
            signal.raise_signal(signal.SIGHUP)
        finally:
            signal.raise_signal(signal.SIGHUP)
            cleaned.append(True)

    monkeypatch.setattr(sys.modules["rtgauge.cli.main"], "_invoke", ends)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert rtgauge("runs").code == 4 and cleaned
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
def test_little_address_space_is_said_before_anything_else() -> None:
    # language-ok: shell code
    done = shell("ulimit -v 400000; rtgauge runs")
    assert done.returncode == 1
    assert done.stderr.startswith("rtgauge: the address space is limited to 390 MiB")
    assert len(done.stderr.splitlines()) == 2
    # language-ok: shell code
    assert shell("ulimit -v 1048576; rtgauge run timer --target fake --for 1s").returncode == 0


@pytest.mark.parametrize("name", ["/dev/zero", "zero.toml", "fifo.toml", "folder.toml", "big.toml"])
def test_plans_that_are_no_files_of_a_plan_s_size(rtgauge: Run, name: str) -> None:
    Path("zero.toml").symlink_to("/dev/zero")
    os.mkfifo("fifo.toml")
    Path("folder.toml").mkdir()
    with Path("big.toml").open("wb") as file:
        file.truncate(1 << 30)
    result = rtgauge("run", name, "--target", "fake")
    assert (result.code, len(result.err.splitlines())) == (2, 2), result.err
    assert "is not a plan" in result.err


@pytest.mark.slow
def test_a_clock_at_the_end_of_the_year_9999(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nanoseconds have more than 64 bits then."""
    real = os.stat

    def late(path: Any, *words: Any, **more: Any) -> Any:
        found = real(path, *words, **more)
        if not str(path).endswith("run.json"):
            return found
        return SimpleNamespace(st_mtime_ns=253402300799 * 10**9, st_size=found.st_size)

    monkeypatch.setattr("rtgauge.store.store.os.stat", late)
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    monkeypatch.setattr("rtgauge.clock.FakeClock.now", lambda _: end)
    for words in (("run", "timer", *QUICK), ("runs",), ("show", "last")):
        result = rtgauge(*words)
        assert result.code == 0, result.err
