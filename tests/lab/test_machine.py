# SPDX-License-Identifier: Apache-2.0
"""Emulated boards in QEMU: orders, answers, and that time stands still between them."""

from __future__ import annotations

import contextlib
import os
import pty
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from lab_boots import NEEDS_X86
from rtgauge.engine.boot import check_booted, unknown_arguments
from rtgauge.engine.environment import read_facts
from rtgauge.errors import TargetError
from rtgauge.facts import Facts
from rtgauge.lab.machine import DATA_MAX, Output
from rtgauge.stream import StreamReader
from rtgauge.target.lab import LabTarget

pytestmark = NEEDS_X86
SOURCES = Path(__file__).resolve().parents[2] / "src"
SILENCE_S = 600.0
BUSY = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: pass\n"


@pytest.fixture(autouse=True)
def own_consoles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines that are made to fail leave their consoles here."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(params=["x86_64-rt-6.1", "x86_64-stock-6.1,mode=plain,cpus=2"])
def board(request: pytest.FixtureRequest) -> Iterator[LabTarget]:
    target = LabTarget(request.param)
    yield target
    target.close()


def shell(target: LabTarget, script: str) -> Output:
    return target.execute(["/bin/sh", "-c", script])


def test_orders(board: LabTarget) -> None:
    """All on one machine: it takes a while to start."""
    output = shell(board, "echo a; echo b >&2; exit 3")
    assert (output.code, output.stdout, output.stderr) == (3, b"a\n", b"b\n")
    assert shell(board, "kill -9 $$").code == -9
    assert board.execute(["/nowhere"]).code == 127
    assert b"/nowhere cannot be started" in board.execute(["/nowhere"]).stderr
    # more than one piece, and exactly one
    for count in (0, 1, DATA_MAX - 1, DATA_MAX, DATA_MAX + 1, 2 * DATA_MAX + 77):
        output = shell(board, f"head -c {count} /dev/zero | tr '\\0' x")
        assert output.stdout == b"x" * count
    assert len(shell(board, "head -c 100000 /dev/zero >&2").stderr) == 65536
    # files, executable, larger than a piece
    board.put("/tmp/hello", b"#!/bin/sh\necho hello $1\n")
    assert board.execute(["/tmp/hello", "you"]).stdout == b"hello you\n"
    content = random.Random(1).randbytes(DATA_MAX + 4321)
    board.put("/tmp/large", content)
    assert shell(board, "cat /tmp/large").stdout == content
    with pytest.raises(TargetError, match="/none/there cannot be written"):
        board.put("/none/there", b"")
    # what a program leaves behind is ended, and does not hold up the answer
    shell(board, "sleep 1000 & (sleep 1000 &) ; true")
    assert b"sleep" not in shell(board, "ps -o comm").stdout
    assert b"Z" not in shell(board, "ps -o stat").stdout
    # the module is there, and the kernel has nothing to complain about
    log = shell(board, "dmesg").stdout
    for word in (b"BUG:", b"WARNING:", b"Oops", b"Call Trace"):
        assert word not in log
    assert board.facts["module"] == "loaded"
    assert shell(board, "cat /sys/class/net/lo/operstate /proc/mounts").code == 0


# One instruction that needs a right to the port of the pause device.
PORT: Final = 'int main(void) { __asm__ volatile("outb %b0, %w1" :: "a"(46), "Nd"(0xe9)); }'


def test_programs_have_no_right_to_the_pause_device(board: LabTarget, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None or os.uname().machine != "x86_64":
        pytest.skip("no C compiler (cc) for x86-64")
    source, program = tmp_path / "port.c", tmp_path / "port"
    source.write_text(PORT)
    subprocess.run([compiler, "-static", "-o", program, source], check=True, timeout=60)
    board.put("/port", program.read_bytes())
    assert board.execute(["/port"]).code == -signal.SIGSEGV


def test_a_machine_that_goes_down_is_an_error(board: LabTarget) -> None:
    with pytest.raises(TargetError, match="ended on its own") as caught:
        shell(board, "echo c > /proc/sysrq-trigger; sleep 100")
    console = caught.value.remedy.rpartition("see the board's console: ")[2]
    assert "sysrq" in Path(console).read_text(errors="replace")
    with pytest.raises(TargetError, match="has ended"):
        board.start(["run", "timer"])
    assert b"6.1" in board.environment()


def test_a_shell_on_the_console() -> None:
    """Typed at a terminal; job control works there, and leaving it ends the machine."""
    pid, terminal = pty.fork()
    if pid == 0:
        words = [sys.executable, "-m", "rtgauge", "lab", "shell", "x86_64-stock-6.1"]
        os.execve(sys.executable, words, {**os.environ, "PYTHONPATH": str(SOURCES)})
    seen = b""
    typed = False
    with contextlib.suppress(OSError):  # EIO: the terminal's other end is gone
        while select.select([terminal], [], [], SILENCE_S)[0]:
            piece = os.read(terminal, 4096)
            seen += piece
            if b"a shell; 'exit' ends" in seen and not typed:
                typed = True
                os.write(terminal, b"echo $((6*7))$(tty); exit\n")
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL if b"42" not in seen else 0)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0, seen
    assert b"42/dev/" in seen


def _streams(pauses: Sequence[float], busy: bool) -> list[bytes]:
    """What several orders on a fresh machine gave, with these pauses of the host before each."""
    hogs = [
        subprocess.Popen([sys.executable, "-c", BUSY])
        for _ in range(len(os.sched_getaffinity(0)) if busy else 0)
    ]
    target = LabTarget("x86_64-rt-6.1")
    try:
        given = [target.environment()]
        for pause, load in zip(pauses, ("idle", "sched:groups=1", "idle"), strict=True):
            time.sleep(pause)
            words = ["run", "timer", "--samples", "500", "--load", load, "--run", "0" * 36]
            agent = target.start(words)
            stream = b""
            while (piece := agent.read(1.0)) != b"":
                stream += piece or b""
            assert agent.wait(1.0) == 0, agent.messages()
            agent.close()
            given.append(stream)
        given.append(target.execute(["/bin/dmesg"]).stdout)
        return given
    finally:
        target.close()
        for hog in hogs:
            hog.kill()
            hog.wait(30)


def test_counted_runs_agree_whatever_the_host_does() -> None:
    """Bit for bit: environment, three streams, and the kernel's log with its time stamps."""
    quiet = _streams([0.0, 0.0, 0.0], busy=False)
    busy = _streams([0.7, 1.9, 0.1], busy=True)
    assert [len(one) for one in quiet] == [len(one) for one in busy]
    assert quiet == busy
    for stream in quiet[1:4]:
        reader = StreamReader()
        reader.feed(stream)
        assert reader.finish().complete
    assert quiet[1] != quiet[3]  # time has gone on in between


def test_a_board_boots_with_other_arguments_and_names_those_that_its_kernel_ignores() -> None:
    with contextlib.closing(LabTarget("x86_64-stock")) as target:
        for arguments in (["preempt=full", "nosuchargument=1"], []):
            target.boot_with(arguments)
            _, facts, _ = read_facts(target.environment())
            check_booted(facts, arguments, [] if arguments else ["preempt=full"])
            ignored = unknown_arguments(facts, arguments)
            assert ignored == [one for one in arguments if one.startswith("nosuch")]
            assert Facts(facts).text("agent.unknown_parameters") is not None
