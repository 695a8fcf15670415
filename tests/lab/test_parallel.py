# SPDX-License-Identifier: Apache-2.0
"""Events and answers over two parallel ports on one cable, by Debian's driver ppdev."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from lab_boots import BUSYBOX, Boot, Booted, on_boards, pair_orders, row_of, shell
from rtgauge.stream import Record, Samples, SeriesInfo, StreamReader

BOARDS: Final = ("x86_64-rt-6.1", "x86_64-stock-6.1")
DELAY_NS: Final = 5_000_000


def pair(name: str, board: str, host: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    lines = ("parallel:/dev/parport1", "parallel:/dev/parport0")
    return pair_orders(name, host, board, lines=lines)


def alone(line: str) -> tuple[str, ...]:
    return ("/agent", "run", "response", "--samples", "1", "--line", line, "--output", "-")


REFUSED: Final = {
    "no port": ("parallel:/dev/parport7", 2, "'/dev/parport7' is not a parallel port"),
    "no device": ("parallel:/dev/null", 2, "'/dev/null' is not a parallel port"),
    "no path": ("parallel:parport0", 2, "'parallel:parport0' is not a parallel port"),
    "more": ("parallel:/dev/parport0:d1", 2, "is not a parallel port"),
}
BUSY: Final = (
    "/agent run response --for 3s --line parallel:/dev/parport0 --output /one >/dev/null & "
    f"{BUSYBOX} sleep 1; /agent run log-host --keep-settings --samples 1 "
    "--line parallel:/dev/parport0 --output /two; echo $?; wait $!"
)
ORDERS: Final = (
    ("cable", shell("insmod /parport.ko; insmod /ppdev.ko; insmod /laplink.ko; ls /dev/parport*")),
    *pair("both", "", "--samples 1000 --interval 2ms"),
    *pair("falling", "--edge falling", "--edge falling --samples 200 --interval 2ms"),
    *pair("late", "--delay 5ms --delay-every 100", "--samples 1000 --interval 10ms"),
    ("busy", shell(BUSY)),
    *((name, alone(line)) for name, (line, _, _) in REFUSED.items()),
    # a user could unload the cable: nothing holds the ports any more
    ("no cable", shell("rmmod laplink && rmmod ppdev && rmmod parport")),
)
BOOTS: Final = {
    board: Boot(
        board,
        ORDERS,
        modules=(("/laplink.ko", "kmod/tests/laplink.c"),),
        debian=("parport", "ppdev"),
    )
    for board in BOARDS
}
each_board = on_boards(BOOTS)


def records(booted: Booted, name: str) -> list[Record]:
    return list(StreamReader().feed(booted.steps[name].stream))


def values(found: list[Record], name: str) -> NDArray[np.int64]:
    [number] = [one.series for one in found if isinstance(one, SeriesInfo) and one.name == name]
    blocks = [one.values for one in found if isinstance(one, Samples) and one.series == number]
    return np.concatenate(blocks).astype(np.int64)


@pytest.mark.study(45)
@each_board
@pytest.mark.parametrize(("name", "count"), [("both", 1000), ("falling", 200)])
def test_every_pulse_is_one_event_and_one_answer(
    booted: list[Booted], board: str, name: str, count: int
) -> None:
    step = booted[0].steps[name]
    assert len(booted[0].steps["cable"].stream.split()) == 4
    assert step.stream.split() == [b"0", b"0"], (board, step.said)
    ours, theirs = (records(booted[0], f"{name}.{side}") for side in ("host", "board"))
    assert row_of(ours) == (count, count, 0, 0, 0, 0, 0)
    assert row_of(theirs)[:3] == (count, count, 0)
    response, turn_around = values(ours, "response"), values(theirs, "turn-around")
    assert len(response) == count
    assert int(np.median(response)) > int(np.median(turn_around)) > 0
    assert {one.labels["line"] for one in ours if isinstance(one, SeriesInfo)} == {"parallel"}


@each_board
def test_delayed_answers_are_found(booted: list[Booted], board: str) -> None:
    step = booted[0].steps["late"]
    assert step.stream.split() == [b"0", b"0"], (board, step.said)
    found = values(records(booted[0], "late.host"), "response")
    late = np.flatnonzero(found >= DELAY_NS)
    assert len(late) == 10
    assert bool((np.delete(found, late) < DELAY_NS // 2).all())


@each_board
def test_what_is_refused(booted: list[Booted], board: str) -> None:
    steps = booted[0].steps
    for name, (_, code, said) in REFUSED.items():
        assert steps[name].code == code, (board, name, steps[name].said)
        assert said in steps[name].said
    assert steps["busy"].stream == b"1\n"
    assert "cannot use the parallel port /dev/parport0" in steps["busy"].said
    assert "fuser names it" in steps["busy"].said
    assert steps["no cable"].code == 0, steps["no cable"].said
    for word in ("BUG", "WARNING", "Call Trace"):
        assert word not in booted[0].log
