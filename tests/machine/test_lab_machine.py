# SPDX-License-Identifier: Apache-2.0
"""The emulated machine and what the host does about it, with a script in QEMU's place."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rtgauge.errors import TargetError
from rtgauge.lab.doorbell import DOORBELL
from rtgauge.lab.lines import Chip
from rtgauge.lab.machine import DATA_MAX, MODES, Limits, Machine, Setup, consoles_folder
from rtgauge.target.lab import LabAgent
from waiting import until

TESTS = Path(__file__).resolve().parents[1]
# What a host of its own needs to import.
FOLDERS = [str(TESTS / "support"), str(TESTS / "machine"), str(TESTS.parent / "src")]
# Long enough for a machine that computes only as long as it has to, short enough to wait for.
SHORT = Limits(boot_cpu_s=0.5, boot_s=20.0, order_cpu_s=0.5, order_s=2.0)


def fake_qemu(folder: Path, name: str = "qemu-system-fake") -> Path:
    """A program that can be started in QEMU's place."""
    path = folder / name
    sources, fake = TESTS.parent / "src", TESTS / "support" / "fake_qemu.py"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={sources} exec {sys.executable} {fake} "$@"\n')
    path.chmod(0o755)
    return path


def setup_of(program: str, mode: str = "counted", behaviour: str = "") -> Setup:
    return Setup(
        name="board",
        program=program,
        package="qemu-system-fake",
        devices=(),
        kernel=Path("kernel"),
        initramfs=Path("initramfs"),
        arguments=behaviour,
        mode=MODES[mode],
    )


Start = Callable[..., Machine]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Start]:
    """Makes machines, and ends them."""
    made: list[Machine] = []

    def make(mode: str = "counted", behaviour: str = "", limits: Limits | None = None) -> Machine:
        made.append(Machine(setup_of(str(fake_qemu(tmp_path)), mode, behaviour), limits))
        return made[-1]

    yield make
    for one in made:
        one.close()


def process_ends(pid: int) -> bool:
    """Whether a process that is not our child goes away."""
    for _ in range(600):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("mode", ["counted", "plain"])
def test_orders_and_answers(machine: Start, mode: str) -> None:
    one = machine(mode)
    assert one.start() == "module=loaded\n"
    for number in range(20):
        output = one.execute(["/bin/echo", "a b", f"{number}", "ü"])
        assert (output.code, output.stdout) == (0, f"a b {number} ü".encode())
        assert output.duration_ns == 2000


def test_the_main_loop_of_counted_machines_comes_first(machine: Start) -> None:
    """On one CPU with the thread that executes the guest, and above it; that one is ordinary."""
    counted, plain = machine(mode="counted"), machine(mode="plain")
    for one in (counted, plain):
        one.start()
    assert counted._process is not None
    assert plain._process is not None
    assert len(os.sched_getaffinity(counted._process.pid)) == 1
    assert os.sched_getaffinity(plain._process.pid) == os.sched_getaffinity(0)
    assert os.sched_getscheduler(plain._process.pid) == os.SCHED_OTHER
    if os.geteuid() == 0:
        policy = os.sched_getscheduler(counted._process.pid)
        assert policy == os.SCHED_FIFO | os.SCHED_RESET_ON_FORK


@pytest.mark.parametrize("mode", ["counted", "plain"])
@pytest.mark.parametrize("count", [0, 1, DATA_MAX, DATA_MAX + 1, 2 * DATA_MAX + 12345])
@pytest.mark.slow
def test_output_comes_whole_whatever_its_size(machine: Start, mode: str, count: int) -> None:
    one = machine(mode)
    one.start()
    output = one.execute(["/bin/bytes", str(count)])
    assert output.stdout == bytes(i * i % 251 for i in range(count))


def test_exit_code_and_messages(machine: Start) -> None:
    one = machine()
    one.start()
    output = one.execute(["/bin/exit", "3"])
    assert (output.code, output.stderr) == (3, b"it did not work\nread the manual\n")
    assert one.execute(["/bin/exit", "-9"]).code == -9


def test_files_are_put_in_pieces(machine: Start) -> None:
    one = machine()
    one.start()
    content = bytes(i % 253 for i in range(DATA_MAX + 1000))
    one.put("/tmp/file", content)
    assert one.piece(0) + one.piece(DATA_MAX) == content
    with pytest.raises(TargetError, match=r"/full cannot be written.*No space left"):
        one.put("/full", b"x")


def test_a_program_that_is_not_there(machine: Start) -> None:
    one = machine()
    one.start()
    with pytest.raises(TargetError, match=r"/bin/none cannot be run .* No such file"):
        one.execute(["/bin/none"])
    assert one.execute(["/bin/echo", "on"]).stdout == b"on"


def test_an_order_too_large_is_refused(machine: Start) -> None:
    one = machine()
    one.start()
    with pytest.raises(TargetError, match="but at most"):
        one.execute(["/bin/echo", "x" * DATA_MAX])
    assert one.execute(["/bin/echo", "on"]).stdout == b"on"


def test_qemu_is_not_there() -> None:
    one = Machine(setup_of("qemu-system-none"))
    with pytest.raises(TargetError, match="qemu-system-none") as caught:
        one.start()
    assert "qemu-system-fake" in caught.value.remedy


def test_a_full_memory_file_system(machine: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(TargetError, match="No space left on device") as caught:
        machine().start()
    assert "8 MiB" in caught.value.remedy


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("refuses", "ended on its own .fake: unknown machine"),
        ("spins", "did not start within"),
        ("stranger", "guest program of another version"),
    ],
)
def test_starts_that_fail(machine: Start, behaviour: str, message: str) -> None:
    one = machine(behaviour=behaviour, limits=SHORT)
    with pytest.raises(TargetError, match=message) as caught:
        one.start()
    assert not one.running
    assert not one.folder.exists()
    assert one.console in caught.value.remedy
    kept = Path(one.console).read_text()
    assert "fake: console of the guest" in kept


def test_a_start_without_a_word_ends_at_the_limit(machine: Start) -> None:
    one = machine(behaviour="silent", limits=Limits(boot_cpu_s=60, boot_s=1))
    with pytest.raises(TargetError, match="did not start"):
        one.start()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("/bin/crash", "ended on its own .fake: on fire"),
        ("/bin/leave", "ended on its own"),
        ("/bin/spin", "did not end spin"),
        ("/bin/sleep", "did not end sleep"),
        ("/bin/garbage", "its answer is invalid"),
    ],
)
def test_machines_that_fail_are_ended(machine: Start, program: str, message: str) -> None:
    one = machine(limits=Limits(order_cpu_s=0.5, order_s=2.0))
    one.start()
    pid = one.pid
    assert pid is not None
    with pytest.raises(TargetError, match=message) as caught:
        one.execute([program])
    assert process_ends(pid)
    assert "see the board's console" in caught.value.remedy
    assert Path(one.console).is_file()
    with pytest.raises(TargetError, match="it has ended"):
        one.execute(["/bin/echo", "on"])


def test_consoles_are_kept_but_not_for_ever(machine: Start) -> None:
    folder = consoles_folder()
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"2000{number:02}-board.log").touch()
    one = machine(behaviour="refuses")
    with pytest.raises(TargetError):
        one.start()
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 20
    assert Path(one.console).name == names[-1]


def test_a_machine_that_ended_well_leaves_nothing(machine: Start) -> None:
    one = machine()
    one.start()
    assert one.folder.is_dir()
    pid = one.pid
    one.close()
    assert pid is not None
    assert process_ends(pid)
    assert not one.folder.exists()
    assert not consoles_folder().exists()


@pytest.mark.filterwarnings("error")
def test_a_process_that_takes_long_to_die_is_waited_for(
    machine: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """close() returns at its limit, and no process is left behind unread."""
    one = machine()
    one.start()
    pid = one.pid
    assert pid is not None
    wait = subprocess.Popen.wait

    def late(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout is not None:
            raise subprocess.TimeoutExpired("qemu", timeout)
        return wait(process)

    monkeypatch.setattr(subprocess.Popen, "wait", late)
    one.close()
    gc.collect()
    until(lambda: not Path(f"/proc/{pid}").exists(), 30)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_qemu_ends_with_the_host(tmp_path: Path, number: signal.Signals) -> None:
    program = fake_qemu(tmp_path)
    host = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
                import sys, time
                sys.path[:0] = [{", ".join(map(repr, FOLDERS))}]
                from test_lab_machine import setup_of
                from rtgauge.lab.machine import Machine
                machine = Machine(setup_of({str(program)!r}))
                machine.start()
                print(machine.pid, machine.folder, flush=True)
                time.sleep(3600)
            """),
        ],
        stdout=subprocess.PIPE,
    )
    with host:
        assert host.stdout is not None
        pid, folder = host.stdout.readline().split()
        host.send_signal(number)
        host.wait(30)
    assert process_ends(int(pid))
    # a host that was killed cannot clear up behind itself: the next one does
    assert Path(os.fsdecode(folder)).is_dir()
    one = Machine(setup_of(str(program), behaviour="refuses"))
    with pytest.raises(TargetError):
        one.start()
    assert not Path(os.fsdecode(folder)).exists()


def test_in_plain_mode_output_is_shown_as_it_comes(machine: Start) -> None:
    plain = machine("plain")
    plain.start()
    for _ in range(2):  # the output of one program does not affect the next
        plain.begin(["/bin/drip", "5"])
        agent = LabAgent(plain, counted=False)
        came = b""
        while came.count(b"\n") < 5:
            came += agent.read(5.0) or b""
            assert agent.wait(0.0) is None
        assert came == b"".join(b"piece %d\n" % number for number in range(5))
        assert agent.read(0.1) is None
        agent.stop()
        while (piece := agent.read(5.0)) != b"":
            came += piece or b""
        assert came.endswith(b"piece 4\nsignal 2\n")
        assert len(came) == 5 * 8 + 9
        assert agent.wait(5.0) == -2


def test_lines_outside_are_at_a_socket(tmp_path: Path) -> None:
    setup = setup_of(str(fake_qemu(tmp_path)), "plain", "chip")
    machine = Machine(replace(setup, chip=Chip("pl061", "a", lines=8), outside=True))
    machine.start()
    words = Path(f"/proc/{machine.pid}/cmdline").read_bytes().decode().split("\0")
    place = words.index("-qtest")
    assert words[place + 1] == f"unix:{machine.lines},server=on,wait=off"
    assert words[place + 2 : place + 4] == ["-qtest-log", "none"]
    assert machine.chip_path == "/machine/unattached/device[6]"
    machine.close()


def test_lines_by_doorbell_need_no_words_at_the_start(tmp_path: Path) -> None:
    """QEMU inherits its end. A program outside is served, and hears of the machine's end."""
    setup = setup_of(str(fake_qemu(tmp_path)), "plain")
    machine = Machine(replace(setup, chip=DOORBELL, outside=True))
    machine.start()
    words = Path(f"/proc/{machine.pid}/cmdline").read_bytes().decode().split("\0")
    assert not {"-S", "-qtest", "-mon"} & set(words)
    assert words[words.index("ivshmem-doorbell,vectors=1,chardev=doorbell") - 1] == "-device"
    (chardev,) = (word for word in words if word.endswith(",id=doorbell"))
    number = chardev.removeprefix("socket,fd=").removesuffix(",id=doorbell")
    assert Path(f"/proc/{machine.pid}/fd/{number}").readlink().name.startswith("socket:")
    with socket.socket(socket.AF_UNIX) as outside:
        outside.settimeout(10.0)
        outside.connect(str(machine.lines))
        assert outside.recv(8) == bytes(8)
        pid = machine.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        while outside.recv(4096):
            pass
    machine.close()
