# SPDX-License-Identifier: Apache-2.0
"""Lines of an emulated board's GPIO chip, wired to each other inside QEMU.

A wire is a link of QEMU's object model, from an output of the chip to an input of it. What an
output does reaches the input within the very instruction that drives it, so counted time stays
exact; nothing of the host lies in between. The link can only be set by QEMU's machine protocol
(QMP), before the guest's first instruction: the machine is started stopped, wired, and let go.
After that no command is sent there, because every word would wake QEMU's main loop.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rtgauge.errors import UsageError

__all__ = [
    "BY_DOORBELL",
    "OUTSIDE",
    "Chip",
    "Control",
    "ControlError",
    "Wire",
    "outside_words",
    "parse_wires",
    "show_wires",
]

# In the place of wires: what is outside of the machine drives lines and sees them.
OUTSIDE: Final = "outside"
# The same by a doorbell (lab/doorbell.py), also where the machine has a chip.
BY_DOORBELL: Final = "doorbell"
DEVICES: Final = "/machine/unattached"
ANSWER_MAX: Final = 1024 * 1024


@dataclass(frozen=True)
class Chip:
    """A GPIO chip that a machine of QEMU has: its type there, its label in Linux."""

    kind: str
    label: str
    lines: int


@dataclass(frozen=True)
class Wire:
    """From an output to an input, by their numbers."""

    output: int
    input: int


def parse_wires(text: str, chip: Chip) -> tuple[Wire, ...]:
    """The wires of ``OUTPUT:INPUT``, several joined by ``+``.

    Raises UsageError for invalid text, a line that the chip lacks, or one that is taken twice.
    """
    wires = []
    taken: set[int] = set()
    for word in text.split("+"):
        found = re.fullmatch(r"([0-9]{1,3}):([0-9]{1,3})", word)
        if found is None:
            raise UsageError(
                f"'lines={text}' contains no wires",
                "give each as OUTPUT:INPUT, several joined by '+': lines=0:1+2:3",
            )
        wire = Wire(int(found[1]), int(found[2]))
        for line in (wire.output, wire.input):
            if line >= chip.lines:
                raise UsageError(
                    f"'lines={text}': the chip has no line {line}",
                    f"its lines are 0 to {chip.lines - 1}",
                )
            if line in taken:
                raise UsageError(
                    f"'lines={text}' takes line {line} twice", "a line can have only one wire"
                )
            taken.add(line)
        wires.append(wire)
    return tuple(wires)


def show_wires(wires: Sequence[Wire], chip: Chip) -> str:
    """The wires as the agent's option ``--gpio`` takes them, several joined by commas."""
    return ", ".join(f"{chip.label}:{wire.output}:{wire.input}" for wire in wires)


def outside_words(path: Path) -> list[str]:
    """QEMU's arguments for a socket at which another process drives a chip's inputs and sees
    its outputs: the protocol of QEMU's own device tests (``agent/lines/virtual.c`` speaks it).
    Without a log of its own QEMU would write each word to its stderr."""
    return ["-qtest", f"unix:{path},server=on,wait=off", "-qtest-log", "none"]


class ControlError(Exception):
    """QEMU did not do what it was asked to, or is gone."""


class Control:
    """The words that a machine is started with: QEMU's ``-chardev socket,fd=…`` and ``-mon``."""

    def __init__(self, timeout: float) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.settimeout(timeout)
        self._read = b""

    @property
    def descriptor(self) -> int:
        """QEMU's end, which it inherits."""
        return self._theirs.fileno()

    def arguments(self) -> list[str]:
        """QEMU's arguments: stopped at first, and this socket to speak to it."""
        return [
            *("-S", "-chardev", f"socket,fd={self.descriptor},id=control"),
            *("-mon", "chardev=control,mode=control"),
        ]

    def close(self) -> None:
        """Close both ends."""
        self._theirs.close()
        self._ours.close()

    def connect(self, wires: Sequence[Wire], chip: Chip) -> str:
        """Wire the lines, and let the machine go; gives the chip's path. Raises ControlError.

        QEMU's end has to be its own alone by then: that it ended shows in no other way.
        """
        self._theirs.close()
        self._next()  # the greeting
        self._ask("qmp_capabilities")
        path = self._chip_path(chip)
        for wire in wires:
            end = f"{path}/unnamed-gpio-in[{wire.input}]"
            start = {"path": path, "property": f"unnamed-gpio-out[{wire.output}]"}
            self._ask("qom-set", **start, value=end)
            if self._ask("qom-get", **start) != end:
                raise ControlError(f"QEMU did not connect the wire to line {wire.input}")
        self._ask("cont")
        return path

    def _chip_path(self, chip: Chip) -> str:
        devices = self._ask("qom-list", path=DEVICES)
        names = [one["name"] for one in devices if one["type"] == f"child<{chip.kind}>"]
        if len(names) != 1:
            raise ControlError(f"QEMU's machine has {len(names)} chips of the kind {chip.kind}")
        return f"{DEVICES}/{names[0]}"

    def _ask(self, command: str, **arguments: str) -> Any:
        order = {"execute": command, "arguments": arguments}
        try:
            self._ours.sendall(json.dumps(order).encode() + b"\n")
        except OSError as error:
            raise ControlError(f"QEMU does not listen: {error.strerror}") from None
        while "return" not in (answer := self._next()):  # events may come in between
            if "error" in answer:
                raise ControlError(f"QEMU refuses {command}: {answer['error'].get('desc', '')}")
        return answer["return"]

    def _next(self) -> dict[str, Any]:
        """The next message. Messages are lines of JSON."""
        while b"\n" not in self._read:
            try:
                piece = self._ours.recv(65536)
            except OSError:
                raise ControlError("QEMU does not answer") from None
            if not piece or len(self._read) > ANSWER_MAX:
                raise ControlError("QEMU has ended" if not piece else "QEMU's answer is too long")
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError:
            raise ControlError("QEMU's answer is not a JSON object") from None
        if not isinstance(message, dict):
            raise ControlError("QEMU's answer is not a JSON object")
        return message
