# SPDX-License-Identifier: Apache-2.0
"""The doorbell's server with a simulated QEMU and a simulated program outside, and the real agent
as the log host of a simulated board: counts and order, no times."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from agents import Stream, messages_of, rows_of, run
from rtgauge.lab.doorbell import DOORBELL, Doorbell
from rtgauge.stream import Verdict
from rtgauge.target.local import find_agent

CPU: Final = str(min(os.sched_getaffinity(0)))
EVENTS: Final = 8
# Long against being scheduled late; a test's length is this times its events.
INTERVAL: Final = "300ms"
WAIT_S: Final = 10.0
INPUT, OUTPUT = 2, 1
# From kmod/doorbell.h.
MAGIC_AT, PEER_AT, BOARD_AT, MERGED_AT, IN_AT, OUT_AT = 0, 12, 16, 20, 64, 96


class Peer:
    """One end of the protocol, as QEMU's documentation defines it."""

    def __init__(self, server: socket.socket) -> None:
        server.settimeout(WAIT_S)
        self.server = server
        self.version, _ = self.message()
        self.own, _ = self.message()
        self.bells: dict[int, int] = {}
        self.memory: mmap.mmap | None = None
        while self.memory is None or len(self.bells) < 2:
            value, descriptor = self.message()
            assert descriptor is not None
            if value == -1:
                self.memory = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
                os.close(descriptor)
            else:
                assert value not in self.bells
                self.bells[value] = descriptor

    def message(self) -> tuple[int, int | None]:
        data, descriptors, _, _ = socket.recv_fds(self.server, 8, 1)
        if not data:
            raise EOFError
        (value,) = struct.unpack("<q", data)
        return value, descriptors[0] if descriptors else None

    def word(self, place: int) -> int:
        assert self.memory is not None
        return int(struct.unpack_from("<I", self.memory, place)[0])

    def write(self, place: int, value: int) -> None:
        assert self.memory is not None
        struct.pack_into("<I", self.memory, place, value)

    def ring(self, peer: int) -> None:
        os.eventfd_write(self.bells[peer], 1)

    def rings(self, timeout: float = WAIT_S) -> int:
        """How often this one was rung since it was asked last."""
        if not select.select([self.bells[self.own]], [], [], timeout)[0]:
            return 0
        return os.eventfd_read(self.bells[self.own])

    def close(self) -> None:
        self.server.close()
        for bell in self.bells.values():
            os.close(bell)


def outside(path: Path) -> Peer:
    one = socket.socket(socket.AF_UNIX)
    try:
        one.connect(str(path))
        return Peer(one)
    except BaseException:
        one.close()
        raise


@pytest.fixture
def doorbell(tmp_path: Path) -> Iterator[Doorbell]:
    made = Doorbell(tmp_path / "lines")
    yield made
    made.close()


@pytest.fixture
def board(doorbell: Doorbell) -> Iterator[Peer]:
    """QEMU, with a board that hears."""
    peer = Peer(socket.socket(fileno=os.dup(doorbell.descriptor)))
    doorbell.started()
    peer.write(BOARD_AT, 1)
    yield peer
    peer.close()


def test_what_qemu_is_told(doorbell: Doorbell) -> None:
    number = doorbell.descriptor
    assert doorbell.arguments() == [
        "-chardev",
        f"socket,fd={number},id=doorbell",
        "-device",
        "ivshmem-doorbell,vectors=1,chardev=doorbell",
    ]


def test_both_have_the_memory_and_each_others_bell(
    doorbell: Doorbell, board: Peer, tmp_path: Path
) -> None:
    other = outside(tmp_path / "lines")
    assert (board.version, board.own, other.version, other.own) == (0, 0, 0, 1)
    assert [board.word(place) for place in range(0, 16, 4)] == [0x44475452, 1, DOORBELL.lines, 1]
    board.ring(board.word(PEER_AT))
    board.ring(board.word(PEER_AT))
    assert other.rings() == 2
    other.ring(0)
    assert board.rings() == 1
    other.write(IN_AT, 5)
    assert board.word(IN_AT) == 5
    heard = [doorbell.heard]
    board.write(BOARD_AT, 0)
    assert [*heard, doorbell.heard] == [True, False]
    other.close()


def test_one_at_a_time(board: Peer, tmp_path: Path) -> None:
    """A second one gets nothing. When the first has gone, another one may come."""
    first = outside(tmp_path / "lines")
    with pytest.raises(EOFError):
        outside(tmp_path / "lines")
    first.ring(0)
    assert board.rings() == 1
    first.close()
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            outside(tmp_path / "lines").close()
            break
        except EOFError:  # it has not been seen yet that the first is gone
            assert time.monotonic() < deadline, "no connection is accepted any more"


@pytest.mark.parametrize("who", ["QEMU", "server"])
def test_an_end_is_told(doorbell: Doorbell, board: Peer, tmp_path: Path, who: str) -> None:
    other = outside(tmp_path / "lines")
    if who == "QEMU":
        board.server.close()
    else:
        doorbell.close()
    with pytest.raises(EOFError):
        other.message()
    other.close()
    with pytest.raises((EOFError, ConnectionError)):
        outside(tmp_path / "lines")
    doorbell.close()


def test_what_outsiders_say_is_not_heard(board: Peer, tmp_path: Path) -> None:
    other = outside(tmp_path / "lines")
    other.server.sendall(b"\xff" * 5000)
    other.ring(0)
    assert board.rings() == 1
    with pytest.raises(EOFError):
        outside(tmp_path / "lines")
    other.close()


# --- the agent -----------------------------------------------------------------------------------


@contextlib.contextmanager
def answering(board: Peer, changes: Callable[[int, int], int]) -> Iterator[None]:
    """The board changes its output as often as ``changes`` says, for the number of the event and
    how often its input has changed in all; then it rings once."""
    over = threading.Event()
    begun = board.word(IN_AT + 4 * INPUT)

    def serve() -> None:
        with contextlib.suppress(PermissionError):  # ahead of all other activity
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
        number = 0
        while not over.is_set():
            if board.rings(0.2):
                now = board.word(IN_AT + 4 * INPUT)
                count = changes(number, now - begun)
                board.write(OUT_AT + 4 * OUTPUT, board.word(OUT_AT + 4 * OUTPUT) + count)
                if count:
                    board.ring(1)
                number += 1

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


def log_host(tmp_path: Path, *more: str) -> tuple[int, Stream]:
    line = f"virtual:doorbell:{tmp_path / 'lines'}:{INPUT}:{OUTPUT}"
    words = ("--line", line, "--interval", INTERVAL, "--cpu", CPU, "--samples", f"{EVENTS}")
    return run(str(find_agent()), tmp_path, "log-host", *words, *more)


def answers_of(stream: Stream) -> tuple[int, ...]:
    """Raised, answered, unanswered, late, double, lost; no event is ambiguous."""
    [row] = rows_of(stream, "answers")
    *counts, ambiguous = (int(cell) for cell in row)
    assert ambiguous == 0
    return tuple(counts)


def test_every_event_is_answered(board: Peer, tmp_path: Path) -> None:
    with answering(board, lambda number, _: 1):
        code, stream = log_host(tmp_path)
    assert code == 0
    assert answers_of(stream) == (EVENTS, EVENTS, 0, 0, 0, 0)
    assert board.word(IN_AT + 4 * INPUT) == EVENTS
    assert not messages_of(stream)


def test_answers_that_come_together_are_counted(board: Peer, tmp_path: Path) -> None:
    """The third event is answered three times with one ring: by its level, and two are lost."""
    with answering(board, lambda number, _: 3 if number == 2 else 1):
        code, stream = log_host(tmp_path)
    assert code == 0
    assert answers_of(stream) == (EVENTS, EVENTS, 0, 0, 0, 2)


@pytest.mark.slow
def test_a_board_that_is_silent_now_and_then(board: Peer, tmp_path: Path) -> None:
    def changes(number: int, _: int) -> int:
        board.write(MERGED_AT, 1)
        return 0 if number in (2, 3) else 1

    with answering(board, changes):
        code, stream = log_host(tmp_path)
    assert code == 3
    assert answers_of(stream) == (EVENTS, EVENTS - 2, 2, 0, 0, 0)
    [verdict] = [r for r in stream.records if isinstance(r, Verdict)]
    assert "Without an answer: number 2, 3" in verdict.evidence
    assert any(
        "1 edge that the board saw as one with the next edge" in text
        for text in messages_of(stream)
    )


def test_qemu_goes_away(board: Peer, tmp_path: Path) -> None:
    def changes(number: int, _: int) -> int:
        if number == 3:
            board.server.close()
        return 1

    with answering(board, changes):
        code, stream = log_host(tmp_path)
    assert code == 1
    assert "the line failed while it was waited on" in stream.trailer.reason
    assert answers_of(stream)[1] >= 3


def test_the_error_of_this_end_alone(board: Peer, tmp_path: Path) -> None:
    line = f"virtual:doorbell:{tmp_path / 'lines'}:3:3"
    words = ("--line", line, "--interval", "20ms", "--cpu", CPU, "--short-circuit", "20")
    code, stream = run(str(find_agent()), tmp_path, "log-host", *words)
    assert code == 0
    assert answers_of(stream) == (20, 20, 0, 0, 0, 0)
    assert [one.name for one in stream.series] == ["own-error"]
    assert board.rings(0.0) == 0


def test_a_line_in_use(board: Peer, tmp_path: Path) -> None:
    first = outside(tmp_path / "lines")
    code, stream = log_host(tmp_path)
    assert code == 1
    assert "is in use" in stream.trailer.reason
    first.close()


def test_a_board_that_does_not_hear(board: Peer, tmp_path: Path) -> None:
    board.write(BOARD_AT, 0)
    code, stream = log_host(tmp_path)
    assert code == 1
    assert "does not listen" in stream.trailer.reason
