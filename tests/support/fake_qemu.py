# SPDX-License-Identifier: Apache-2.0
"""In QEMU's place: the guest's side of the exchange, and whatever can go wrong with it.

``-append`` names its behaviour from the start, and the program that it runs its behaviour then.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from rtgauge.target.fake import FakeTarget

SAID_AT, DATA_AT, ANSWER_AT = 4096, 4096 + 65536, 64


class Control:
    """QEMU's machine protocol, as far as wiring lines needs it. ``behaviour`` names the
    fault. Messages have events between them, and come in pieces."""

    def __init__(self, descriptor: int, behaviour: list[str]) -> None:
        self.socket = socket.socket(fileno=descriptor)
        self.behaviour = behaviour
        self.wires: dict[str, str] = {}

    def say(self, message: dict[str, Any]) -> None:
        text = json.dumps(message).encode() + b"\r\n"
        for piece in (text[:7], text[7:]):
            self.socket.sendall(piece)

    def wire(self) -> None:
        """Do as told until the machine is let go."""
        self.say({"QMP": {"version": {}, "capabilities": ["oob"]}})
        for line in self.socket.makefile("rb"):
            order = json.loads(line)
            answer = self.answer(order["execute"], order["arguments"])
            self.say({"event": "RESUME", "timestamp": {}})
            self.say(answer)
            if order["execute"] == "cont":
                return

    def answer(self, command: str, given: dict[str, str]) -> dict[str, Any]:
        if "garbles" in self.behaviour:
            self.socket.sendall(b"[]\n")
        if "deserts" in self.behaviour:
            print("fake: no such thing", file=sys.stderr, flush=True)
            os._exit(1)
        if command == "qom-list":
            chips = self.behaviour.count("chip")
            found = [{"name": f"device[{n}]", "type": "child<pl061>"} for n in range(6, 6 + chips)]
            return {"return": [{"name": "device[5]", "type": "child<pl031>"}, *found]}
        if command == "qom-set":
            if "fixed" in self.behaviour:
                return {"error": {"class": "GenericError", "desc": "it is read-only"}}
            self.wires[f"{given['path']}/{given['property']}"] = given["value"]
        if command == "qom-get":
            kept = "" if "forgets" in self.behaviour else given["path"] + "/" + given["property"]
            return {"return": self.wires.get(kept, "")}
        return {"return": {}}

    def left_alone(self) -> bool:
        """Whether no client has spoken, or gone, since."""
        return not select.select([self.socket], [], [], 0)[0]


class Guest:
    """The guest program."""

    def __init__(
        self, memory: mmap.mmap, pause: int, fill: int, control: Control | None = None
    ) -> None:
        self.memory, self.pause, self.fill = memory, pause, fill
        self.control = control
        self.out = b""

    def answer(
        self, done: int, code: int = 0, error: int = 0, *, at: int = 0, said: str = ""
    ) -> None:
        """Write an answer, stand still until the host has read, and wait for the next order."""
        text = said.encode()[:65536]
        self.memory[SAID_AT : SAID_AT + len(text)] = text
        piece = self.out[at : at + len(self.memory) - DATA_AT]
        self.memory[DATA_AT : DATA_AT + len(piece)] = piece
        struct.pack_into(
            "<IIIIiIQQqq", self.memory, ANSWER_AT,
            0x47545259, 2, done, error, code, len(text), len(self.out), len(piece), 1000, 3000,
        )  # fmt: skip
        self.stand()
        while struct.unpack_from("<I", self.memory, 16)[0] == done:
            assert not self.fill, "let go before the order was there"
            time.sleep(0.002)

    def stand(self) -> None:
        for _ in range(self.fill + 1):
            os.write(self.pause, b".")

    def serve(self) -> NoReturn:
        """Carry out orders for ever."""
        while True:
            turn, order = struct.unpack_from("<II", self.memory, 16)
            length, offset = struct.unpack_from("<QQ", self.memory, 24)
            data = bytes(self.memory[DATA_AT : DATA_AT + length])
            if order == 1:
                words = [os.fsdecode(word) for word in data.split(b"\0")[:-1]]
                self.run(turn, words)
            elif order == 2:
                self.answer(turn, at=offset)
            elif order == 3:
                path, _, content = data.partition(b"\0")
                if path == b"/full":
                    self.answer(turn, error=28)
                    continue
                self.out = (self.out if offset else b"") + content
                self.answer(turn)

    def run(self, turn: int, words: list[str]) -> None:  # noqa: PLR0912
        """What the name of the program says."""
        self.out = b""
        match words:
            case ["/bin/echo", *rest]:
                self.out = " ".join(rest).encode()
                self.answer(turn)
            case ["/bin/bytes", count]:
                self.out = bytes(i * i % 251 for i in range(int(count)))
                self.answer(turn)
            case ["/bin/wires"]:
                assert self.control is not None
                assert self.control.left_alone(), "somebody spoke while the guest ran"
                self.out = json.dumps(self.control.wires).encode()
                self.answer(turn)
            case ["/bin/busybox", "insmod", _]:
                self.answer(turn)
            case ["/bin/exit", code]:
                self.answer(turn, int(code), said="it did not work\nread the manual\n")
            case ["/bin/slow", seconds, *rest]:
                time.sleep(float(seconds))
                self.out = " ".join(rest).encode()
                self.answer(turn)
            case ["/bin/drip", count]:
                self.drip(turn, int(count))
            case ["/bin/crash"]:
                print("fake: on fire", file=sys.stderr, flush=True)
                os._exit(3)
            case ["/bin/leave"]:  # as QEMU does it: one thing after the other
                os.close(self.pause)
                time.sleep(0.5)
                sys.exit(0)
            case ["/bin/spin"]:
                while True:
                    pass
            case ["/bin/sleep"]:
                time.sleep(3600)
            case ["/bin/garbage"]:
                self.memory[ANSWER_AT:128] = b"\xff" * 64
                self.stand()
                time.sleep(3600)
            case ["/agent", "describe"]:
                self.out = FakeTarget().describe().encode()
                self.answer(turn)
            case ["/agent", "environment"]:
                self.out = FakeTarget().environment()
                self.answer(turn)
            case ["/agent", *rest]:
                self.agent(turn, rest)
            case _:
                self.answer(turn, error=2)

    def drip(self, turn: int, count: int) -> None:
        """Piece by piece, each once the one before was taken; then wait for a signal. What is
        written over the last piece after the end does not belong to it."""
        self.show(0)
        for number in range(count):
            while struct.unpack_from("<Q", self.memory, 40)[0] != len(self.out):
                time.sleep(0.002)
            piece = f"piece {number}\n".encode()
            self.memory[DATA_AT : DATA_AT + len(piece)] = piece
            self.out += piece
            self.show(len(self.out))
        while not (number := struct.unpack_from("<I", self.memory, 48)[0]):
            time.sleep(0.002)
        self.out += f"signal {number}\n".encode()
        self.show(2**64 - 1)
        self.answer(turn, -number)

    def show(self, end: int) -> None:
        struct.pack_into("<Q", self.memory, 120, end)

    def agent(self, turn: int, words: list[str]) -> None:
        """The fake target's agent. The name of a load's command is the fault."""
        assert words[-2:] == ["--output", "-"], words
        fault = words[words.index("--load-cmd") + 1] if "--load-cmd" in words else ""
        if fault in ("crash", "spin", "sleep"):
            self.run(turn, [f"/bin/{fault}"])
        agent = FakeTarget(fault).start(words[:-2])
        while (piece := agent.read(1.0)) != b"":
            self.out += piece or b""
        self.answer(turn, agent.wait(1.0) or 0, said=agent.messages())


def main() -> None:
    """As QEMU would be started."""
    words = sys.argv[1:]
    if words == ["--version"]:
        print("QEMU emulator version 0.0 (fake)\nand more")
        return
    given = {word: words[i + 1] for i, word in enumerate(words[:-1])}
    Path(_path(words, "id=console")).write_text("fake: console of the guest\n")
    behaviour = given["-append"].split()
    if "refuses" in behaviour:
        print("fake: unknown machine", file=sys.stderr)
        sys.exit(1)
    if "silent" in behaviour:
        time.sleep(3600)
    if "spins" in behaviour:
        while True:
            pass
    control = None
    if "-S" in words:
        (socket_of,) = (word for word in words if word.endswith(",id=control"))
        assert given["-mon"] == "chardev=control,mode=control"
        control = Control(int(socket_of.split(",")[1].removeprefix("fd=")), behaviour)
        control.wire()
    pause = os.open(_path(words, "id=pause"), os.O_WRONLY)
    with open(_path(words, "id=exchange"), "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    magic, version, size, fill = struct.unpack_from("<IIII", memory, 0)
    assert (magic, version, size) == (0x47545258, 2, len(memory))
    assert (fill > 0) == ("-icount" in words), fill
    guest = Guest(memory, pause, fill, control)
    if "stranger" in behaviour:
        guest.stand()
        time.sleep(3600)
    guest.answer(0, said="module=loaded\n")
    guest.serve()


def _path(words: list[str], mark: str) -> str:
    (found,) = (word for word in words if mark in word.split(","))
    (path,) = (
        part.partition("=")[2]
        for part in found.split(",")
        if part.startswith(("path=", "mem-path="))
    )
    return path


if __name__ == "__main__":
    main()
