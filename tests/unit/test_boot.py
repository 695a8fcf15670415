# SPDX-License-Identifier: Apache-2.0
"""Reboots by a command of the user, on a fake whose state is a file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from rtgauge.clock import FakeClock
from rtgauge.engine.boot import Booter, check_booted, unknown_arguments
from rtgauge.errors import TargetError
from rtgauge.stream import StreamWriter
from rtgauge.target.fake import FakeTarget, _clocks


class Board(FakeTarget):
    """A board that a command boots by writing its arguments to a file."""

    state: Path

    def environment(self) -> bytes:
        if self.name == "fake:lost" or not self.state.exists():
            raise TargetError("no route to host")
        boot = f"{self.state.stat().st_mtime_ns:036d}"
        writer = StreamWriter()
        head = writer.header(
            agent="fake",
            libc="none",
            compiler="none",
            machine="x86_64",
            boot_id=boot,
            privileged=True,
            clock=_clocks(self.clock),
            start_ns=0,
            measurement="environment",
        )
        return head + writer.environment({"/proc/cmdline": self.state.read_text()})


def go_on() -> bool:
    """It is not stopped."""
    return False


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "state"
    path.write_text("quiet")
    monkeypatch.setattr(Board, "state", path, raising=False)
    monkeypatch.setattr("rtgauge.engine.boot.RETRY_S", 0.01)
    return path


def booter(command: str, patience_s: float = 5.0) -> Booter:
    return Booter(Board(), command, patience_s, lambda _name: Board())


def test_the_command_gets_the_arguments_and_the_target_comes_back(state: Path) -> None:
    one = booter(f"sh -c 'echo \"$@\" >{state}' sh")
    before = one.target
    one.boot(["a=1", "b=2 3"], go_on)
    assert state.read_text() == "a=1 b=2 3\n"
    assert one.target is not before
    one.boot([], go_on)
    assert state.read_text() == "\n"


def test_a_target_that_was_not_rebooted_is_an_error(state: Path) -> None:
    with pytest.raises(TargetError, match="has not rebooted since --boot-cmd") as caught:
        booter("true", 0.1).boot(["a=1"], go_on)
    assert "check that --boot-cmd reboots it" in caught.value.remedy


def test_each_target_that_does_not_answer_yet_is_closed(state: Path) -> None:
    opened: list[Board] = []
    closed: list[Board] = []

    class Slow(Board):
        def environment(self) -> bytes:
            if len(opened) < 4:
                raise TargetError("the connection was closed")
            return super().environment()

        def close(self) -> None:
            closed.append(self)

    def reopen(_name: str) -> Board:
        opened.append(Slow())
        return opened[-1]

    one = Booter(Board(), f"sh -c 'echo \"$@\" >{state}' sh", 5.0, reopen)
    one.boot(["a=1"], go_on)
    assert one.target is opened[3]
    assert closed == opened[:3]


def test_a_target_that_stays_away_is_an_error_and_can_be_booted_again(state: Path) -> None:
    one = booter(f"f() {{ if [ $# -gt 0 ]; then rm -f {state}; else echo >{state}; fi; }}; f", 0.1)
    with pytest.raises(TargetError, match=r"did not return within 0 s .*no route to host"):
        one.boot(["a=1"], go_on)
    one.boot([], go_on)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_boot_whose_wait_was_stopped_is_waited_for(state: Path, at_once: bool) -> None:
    """A command fails while the target is down, and has no effect while it shuts down."""
    opened = 0

    def reopen(_name: str) -> Board:
        nonlocal opened
        opened += 1
        if opened == 3:
            state.write_text("quiet a=1")
        return Board()

    down = f"rm {state}" if at_once else "true"
    command = f"f() {{ [ -e {state} ] || exit 255; [ $# -eq 0 ] || {down};"
    command += f" ! grep -q a=1 {state} || echo quiet >{state}; }}; f"
    one = Booter(Board(), command, 5.0, reopen)
    with pytest.raises(TargetError, match="was stopped"):
        one.boot(["a=1"], lambda: True)
    one.boot([], go_on)
    assert state.read_text() == "quiet\n"


def again(clock: FakeClock, _name: str) -> Board:
    """The board as it is found after the command."""
    return Board(clock=clock)


def test_a_target_that_cannot_be_asked_before_must_still_reboot(state: Path) -> None:
    """Without a boot id to compare, it must have started after the command was called."""
    for up_s, rebooted in ((1000.0, False), (0.0, True)):
        running = FakeClock()
        running.sleep(up_s)
        lost = Booter(Board("lost"), "true", 0.1, partial(again, running))
        if rebooted:
            lost.boot(["a=1"], go_on)
        else:
            with pytest.raises(TargetError, match="has not rebooted since --boot-cmd"):
                lost.boot(["a=1"], go_on)


def test_a_command_that_fails_is_quoted(state: Path) -> None:
    with pytest.raises(TargetError, match="ended with code 3: no such board"):
        booter("f() { echo no such board >&2; exit 3; }; f").boot(["a=1"], go_on)


def test_the_arguments_are_verified() -> None:
    facts = {
        "/proc/cmdline": "quiet a=1 b",
        "agent.unknown_parameters": "b BOOT_IMAGE=x",
    }
    check_booted(dict(facts), ["a=1", "b"], ["c"])
    with pytest.raises(TargetError, match="without 'c' in /proc/cmdline"):
        check_booted(dict(facts), ["c"], [])
    with pytest.raises(TargetError, match="with 'b' still in /proc/cmdline"):
        check_booted(dict(facts), ["a=1"], ["b"])
    facts["/proc/cmdline"] = "x-y=1 console=a x_y=2 console=b x=1 x=2"
    check_booted(dict(facts), ["x-y=1", "x_y=2", "console=a", "x=2"], [])
    for one in ("tsc=reliable", "pci=nomsi", "isolcpus=1", "initcall_blacklist=a"):
        name = one.partition("=")[0]
        check_booted({"/proc/cmdline": f"{one} {name}=b"}, [one], [])
    for line in ("isolcpus=2 isolcpus=1", "isolcpus=domain,nohz,2-3 isolcpus=1"):
        with pytest.raises(TargetError, match=r"'isolcpus=1', but 'isolcpus=.*2.*' precedes"):
            check_booted({"/proc/cmdline": line}, ["isolcpus=1"], [])
    with pytest.raises(TargetError, match="'nohz_full=2' precedes it"):
        check_booted({"/proc/cmdline": "nohz_full=2 nohz_full=1"}, ["nohz_full=1"], [])
    for line in ("isolcpus=managed_irq,2 isolcpus=1", "isolcpus=domain,1 isolcpus=1"):
        check_booted({"/proc/cmdline": line}, ["isolcpus=1"], [])
    check_booted({"/proc/cmdline": "nohz_full=0,1,2,3 nohz_full=0-3"}, ["nohz_full=0-3"], [])
    with pytest.raises(TargetError, match="'nohz_full=0-N' precedes it"):
        check_booted({"/proc/cmdline": "nohz_full=0-N nohz_full=all"}, ["nohz_full=all"], [])
    for one, later in (("x-y=1", "x_y=2"), ("x=1", "x=2")):
        with pytest.raises(TargetError, match=f"with '{one}', but '{later}' follows"):
            check_booted(dict(facts), [one], [])
    assert unknown_arguments(dict(facts), ["a=1", "b"]) == ["b"]
    assert unknown_arguments({"agent.unknown_parameters": None}, ["b"]) == []


def test_it_waits_no_longer_when_it_is_stopped(state: Path) -> None:
    said = "the wait for fake to return after --boot-cmd was stopped"
    with pytest.raises(TargetError, match=said) as caught:
        booter("true", 600.0).boot(["a=1"], lambda: True)
    assert caught.value.remedy == "check that the target boots"
