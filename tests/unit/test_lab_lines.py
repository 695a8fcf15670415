# SPDX-License-Identifier: Apache-2.0
"""Wires between lines of an emulated board, with a script in QEMU's place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rtgauge.errors import TargetError, UsageError
from rtgauge.lab.lines import Chip, Wire, parse_wires, show_wires
from rtgauge.lab.machine import Limits, Machine
from test_lab_machine import fake_qemu, setup_of

CHIP = Chip("pl061", "9030000.pl061", lines=8)
WIRES = (Wire(0, 1), Wire(5, 2))


def wired(folder: Path, behaviour: str, wires: tuple[Wire, ...] = WIRES) -> Machine:
    setup = setup_of(str(fake_qemu(folder)), behaviour=behaviour)
    return Machine(replace(setup, chip=CHIP, wires=wires), Limits(boot_s=20.0))


def test_wires_are_read_and_shown() -> None:
    assert parse_wires("0:1", CHIP) == (Wire(0, 1),)
    assert parse_wires("0:1+5:2", CHIP) == WIRES
    assert show_wires(WIRES, CHIP) == "9030000.pl061:0:1, 9030000.pl061:5:2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no wires"),
        ("0", "contains no wires"),
        ("0:1+", "contains no wires"),
        ("0:1:2", "contains no wires"),
        ("0:-1", "contains no wires"),
        ("a:b", "contains no wires"),
        ("0:8", "no line 8"),
        ("999:0", "no line 999"),
        ("1:1", "line 1 twice"),
        ("0:1+0:2", "line 0 twice"),
        ("0:1+2:1", "line 1 twice"),
        ("0:1+1:2", "line 1 twice"),
    ],
)
def test_what_is_no_wire(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_wires(text, CHIP)


def test_lines_are_wired_before_the_guest_runs_and_never_after(tmp_path: Path) -> None:
    """The script's guest asserts that no client spoke, or went away, while it ran."""
    machine = wired(tmp_path, "chip")
    machine.start()
    device = "/machine/unattached/device[6]"
    for _ in range(2):
        assert json.loads(machine.execute(["/bin/wires"]).stdout) == {
            f"{device}/unnamed-gpio-out[0]": f"{device}/unnamed-gpio-in[1]",
            f"{device}/unnamed-gpio-out[5]": f"{device}/unnamed-gpio-in[2]",
        }
    machine.close()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("", "0 chips of the kind pl061"),
        ("chip chip", "2 chips of the kind pl061"),
        ("chip fixed", "refuses qom-set: it is read-only"),
        ("chip forgets", "did not connect the wire to line 1"),
        ("chip garbles", "is not a JSON object"),
        ("chip deserts", "fake: no such thing"),
        ("chip refuses", "fake: unknown machine"),
    ],
)
def test_lines_that_cannot_be_wired(tmp_path: Path, behaviour: str, message: str) -> None:
    machine = wired(tmp_path, behaviour)
    with pytest.raises(TargetError, match="lines cannot be wired") as caught:
        machine.start()
    assert message in caught.value.message
    assert not machine.running
    assert not machine.folder.exists()


@pytest.mark.slow
def test_silence_ends_at_the_limit(tmp_path: Path) -> None:
    setup = setup_of(str(fake_qemu(tmp_path)), behaviour="silent")
    machine = Machine(replace(setup, chip=CHIP, wires=WIRES), Limits(boot_s=1.0))
    with pytest.raises(TargetError, match="QEMU does not answer"):
        machine.start()


def test_a_machine_without_wires_has_no_way_to_be_spoken_to(tmp_path: Path) -> None:
    machine = wired(tmp_path, "chip", wires=())
    machine.start()
    pid = machine.pid
    assert b"-S" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    machine.close()
