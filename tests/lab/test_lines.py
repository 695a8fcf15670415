# SPDX-License-Identifier: Apache-2.0
"""Events from outside and the answers to them, on emulated boards in counted mode.

Two agents on one board, and lines that QEMU wires: the log host drives line 0, which is the board's
input 1; the board answers on line 2, which is the log host's input 3. Both views of each event are
held against each other, and a second boot is to measure the same bit for bit.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from lab_boots import (
    BUSYBOX,
    NEEDS_ARM,
    Boot,
    Booted,
    Step,
    on_boards,
    pair_orders,
    row_of,
    sample_bytes,
    shell,
)
from lab_boots import LINES_CHIP as CHIP
from rtgauge.stream import (
    Event,
    Header,
    Record,
    Samples,
    SeriesInfo,
    StreamReader,
    Trailer,
    Verdict,
)

pytestmark = NEEDS_ARM
BOARDS: Final = ("arm64-rt-6.1", "arm64-stock-6.1")
EVENTS: Final = 3_000
DELAY_EVERY: Final = 300
DELAY_NS: Final = 5_000_000


def _alone(measurement: str, line: str, *more: str) -> tuple[str, ...]:
    return ("run", measurement, "--line", line, *more)


_BUSY: Final = (
    f"/agent run response --line gpio:{CHIP}:2:1 --output /busy.board >/dev/null & P=$!; "
    f"{BUSYBOX} sleep 1; "
    f"/agent run log-host --keep-settings --line gpio:{CHIP}:0:1 --output /busy.host; echo $?; "
    f"kill -INT $P; wait $P; echo $?"
)
# Two serial ports and the cable that joins them, as a module.
MODEM: Final = ("/nullmodem.ko", "kmod/tests/nullmodem.c")


def _modem(name: str, board: str, host: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    lines = (f"serial:/dev/ttyNM1:{host}", f"serial:/dev/ttyNM0:{board}")
    return pair_orders(name, "", lines=lines)


REFUSED: Final = {
    "no such chip": (f"gpio:{CHIP}x:0:1", "there is no GPIO chip", f"gpiochip0 ({CHIP}, 8 lines)"),
    "no such line": ("gpio:gpiochip0:0:8", "has no line '8'", "it has lines 0 to 7"),
    "no such name": ("gpio:/dev/gpiochip0:out:in", "has no line 'out'", "it has lines 0 to 7"),
    "one line twice": (f"gpio:{CHIP}:1:1", "names one line twice", "the output first"),
}
# Both boots of a board carry these out, from the start.
REPEATED: Final = (
    *pair_orders("pair", f"--samples {EVENTS} --interval 500us"),
    *pair_orders(
        "delayed",
        f"--samples {EVENTS} --interval 8ms",
        f"--delay 5ms --delay-every {DELAY_EVERY}",
    ),
    ("circuit", _alone("log-host", f"gpio:{CHIP}:0:1", "--short-circuit", "1000")),
    ("loopback", _alone("response", f"loopback:{CHIP}:0:1", "--samples", "1000")),
    ("cable", (BUSYBOX, "insmod", MODEM[0])),
    *_modem("modem", "rts:cts", "rts:cts --samples 1000 --interval 2ms"),
)
ORDERS: Final = (
    *REPEATED,
    *pair_orders("rising", "--samples 500 --interval 2ms --edge rising", "--edge rising"),
    *pair_orders("late", "--samples 100 --interval 10ms", "--delay 13ms --delay-every 1"),
    *pair_orders(
        "late.rising",
        "--samples 100 --interval 10ms --edge rising",
        "--edge rising --delay 23ms --delay-every 1",
    ),
    ("unplugged", _alone("log-host", f"gpio:{CHIP}:4:5", "--samples", "50", "--interval", "1ms")),
    ("mark", _alone("log-host", f"gpio:{CHIP}:0:3:1", "--samples", "50", "--interval", "1ms")),
    ("loose", _alone("response", f"loopback:{CHIP}:4:5", "--samples", "50")),
    (
        "loose.20ms",
        _alone("response", f"loopback:{CHIP}:4:5", "--samples", "20", "--timeout", "20ms"),
    ),
    ("busy", shell(_BUSY)),
    *_modem(
        "modem.late",
        "dtr:dsr --edge rising --delay 5ms --delay-every 100",
        "dtr:dcd --edge rising --samples 1000 --interval 10ms",
    ),
    *_modem("modem.loose", "rts:cts", "dtr:cts --samples 20 --interval 2ms"),
    *_modem(
        "modem.13ms",
        "rts:cts --delay 13ms --delay-every 1",
        "rts:cts --samples 100 --interval 10ms",
    ),
    *_modem(
        "modem.23ms",
        "rts:cts --edge rising --delay 23ms --delay-every 1",
        "rts:cts --edge rising --samples 100 --interval 10ms",
    ),
    *_modem(
        "modem.both.23ms",
        "dtr:dsr --delay 23ms --delay-every 1",
        "dtr:dcd --samples 100 --interval 10ms",
    ),
    *_modem(
        "modem.rising.13ms",
        "dtr:dsr --edge rising --delay 13ms --delay-every 1",
        "dtr:dcd --edge rising --samples 100 --interval 10ms",
    ),
    ("no cable", (BUSYBOX, "rmmod", "nullmodem")),
    *((name, _alone("response", line)) for name, (line, _, _) in REFUSED.items()),
)
BOOTS: Final = {
    board: Boot(f"{board},lines=0:1+2:3", ORDERS, "busy", modules=(MODEM,)) for board in BOARDS
}
AGAIN: Final = {
    board: Boot(f"{board},lines=0:1+2:3", REPEATED, "quiet", turn=2, modules=(MODEM,))
    for board in BOARDS
}
each_board = on_boards(BOOTS)


def _records(booted: Booted, name: str) -> list[Record]:
    """The records of an order's own stream, or of the file that it handed out."""
    step = booted.steps[name]
    return list(step.records) or list(StreamReader().feed(step.stream))


def _values(records: list[Record], name: str) -> NDArray[np.int64]:
    [number] = [one.series for one in records if isinstance(one, SeriesInfo) and one.name == name]
    blocks = [one.values for one in records if isinstance(one, Samples) and one.series == number]
    return np.concatenate(blocks).astype(np.int64)


def _verdict(records: list[Record]) -> Verdict:
    [one] = [one for one in records if isinstance(one, Verdict)]
    return one


def _codes(step: Step) -> list[str]:
    return step.stream.decode().split()


def _trailer(records: list[Record]) -> Trailer:
    last = records[-1]
    assert isinstance(last, Trailer)
    return last


@each_board
def test_both_views_of_every_event(booted: list[Booted], board: str) -> None:
    assert _codes(booted[0].steps["pair"]) == ["0", "0"], booted[0].steps["pair"].said
    ours, theirs = (_records(booted[0], f"pair.{side}") for side in ("host", "board"))
    assert row_of(ours) == (EVENTS, EVENTS, 0, 0, 0, 0, 0), board
    assert row_of(theirs) == (EVENTS, EVENTS, 0, 0)
    assert _verdict(ours).result == "pass"
    assert (_trailer(ours).state, _trailer(theirs).state) == ("complete", "complete")
    response = _values(ours, "response")
    wake, answer = (_values(theirs, name) for name in ("wake-up", "answer"))
    assert len(response) == len(wake) == len(answer) == EVENTS
    assert bool((wake > 0).all())
    assert bool((answer > wake).all())
    # the answer is seen while it is being driven: the wake-up is over by then, for every event
    assert bool((response > wake).all())


@each_board
def test_delayed_answers_are_found_one_by_one(booted: list[Booted], board: str) -> None:
    ours, theirs = (_records(booted[0], f"delayed.{side}") for side in ("host", "board"))
    assert row_of(ours) == (EVENTS, EVENTS, 0, 0, 0, 0, 0), board
    expected = list(range(DELAY_EVERY - 1, EVENTS, DELAY_EVERY))
    for records, name in ((ours, "response"), (theirs, "answer")):
        values = _values(records, name)
        found = np.flatnonzero(values > DELAY_NS // 2)
        assert found.tolist() == expected, name
        rest = np.delete(values, found)
        # the delay itself is in it, and no more than the worst of the others and a timer
        assert bool((values[found] >= DELAY_NS).all())
        assert bool((values[found] <= DELAY_NS + 2 * rest.max()).all()), name
    assert not np.flatnonzero(_values(theirs, "wake-up") > DELAY_NS // 2).size
    [label] = {one.labels["delayed"] for one in theirs if isinstance(one, SeriesInfo)}
    assert label == f"5ms, 1 of {DELAY_EVERY}"
    said = [str(one.fields.get("text")) for one in theirs if isinstance(one, Event)]
    assert any("delayed on purpose" in text for text in said)


@each_board
def test_one_edge_alone(booted: list[Booted], board: str) -> None:
    ours, theirs = (_records(booted[0], f"rising.{side}") for side in ("host", "board"))
    assert row_of(ours) == (500, 500, 0, 0, 0, 0, 0), board
    assert row_of(theirs) == (500, 500, 0, 0)


@each_board
@pytest.mark.parametrize(
    ("name", "delay_ms"),
    [
        ("late", 13),
        ("late.rising", 23),
        ("modem.13ms", 13),
        ("modem.23ms", 23),
        ("modem.both.23ms", 23),
        ("modem.rising.13ms", 13),
    ],
)
def test_a_late_answer_is_that_of_its_event(
    booted: list[Booted], board: str, name: str, delay_ms: int
) -> None:
    """Each answer comes one or two intervals after the next event is due."""
    step = booted[0].steps[name]
    assert _codes(step) == ["3", "0"], (board, step.said)
    ours = _records(booted[0], f"{name}.host")
    assert row_of(ours) == (100, 100, 0, 100, 0, 0, 0), board
    values = _values(ours, "response")
    assert bool((values >= delay_ms * 1_000_000).all())
    assert bool((values < (delay_ms + 5) * 1_000_000).all())
    assert _verdict(ours).result == "fail"


@each_board
@pytest.mark.parametrize("name", ["unplugged", "mark"])
def test_no_answer_is_a_failed_verdict(booted: list[Booted], board: str, name: str) -> None:
    """Nor are the edges of MARK answers."""
    step = booted[0].steps[name]
    assert (step.code, step.trailer.state) == (3, "complete"), (board, step.said)
    assert row_of(list(step.records)) == (50, 0, 50, 0, 0, 0, 0)
    assert _verdict(list(step.records)).evidence.startswith(
        "0 of 50 events answered. Without an answer: number 0"
    )
    assert [(one.count, one.missed) for one in step.trailer.series] == [(0, 50)]


@each_board
def test_the_own_error_and_a_loopback(booted: list[Booted], board: str) -> None:
    circuit, loopback = (booted[0].steps[name] for name in ("circuit", "loopback"))
    assert (circuit.code, loopback.code) == (0, 0), (board, circuit.said, loopback.said)
    assert row_of(list(circuit.records)) == (1000, 1000, 0, 0, 0, 0, 0)
    assert len(_values(list(circuit.records), "own-error")) == 1000
    assert row_of(list(loopback.records)) == (1000, 1000, 0, 0)
    response, wake = (_values(list(loopback.records), name) for name in ("response", "wake-up"))
    assert len(response) == len(wake) == 1000
    assert bool((response > wake).all())
    loose = booted[0].steps["loose"]
    assert (loose.code, _verdict(list(loose.records)).result) == (3, "fail")
    assert loose.trailer.series[0].missed == 50
    for name, timeout in (("loose", "100ms"), ("loose.20ms", "20ms")):
        # what an unanswered event is held to exceed
        header = next(one for one in booted[0].steps[name].records if isinstance(one, Header))
        assert header.parameters["timeout"].effective == timeout, (board, name)


@pytest.mark.study(45)
@each_board
def test_modem_control_lines(booted: list[Booted], board: str) -> None:
    """The log host's opening of its port is seen by the board; what it raises is answered."""
    steps = booted[0].steps
    assert steps["cable"].code == 0, steps["cable"].said
    assert _codes(steps["modem"]) == ["0", "0"], (board, steps["modem"].said)
    ours, theirs = (_records(booted[0], f"modem.{side}") for side in ("host", "board"))
    assert row_of(ours) == (1000, 1000, 0, 0, 0, 0, 0)
    seen, answered, lost, _ = row_of(theirs)
    assert seen == answered >= 1000
    assert lost == 0
    response, turn_around = _values(ours, "response"), _values(theirs, "turn-around")
    assert len(response) == 1000
    assert int(np.median(response)) > int(np.median(turn_around)) > 0
    assert [one.labels["line"] for one in ours if isinstance(one, SeriesInfo)] == ["serial-modem"]


@each_board
def test_late_and_missing_answers_on_modem_control_lines(booted: list[Booted], board: str) -> None:
    steps = booted[0].steps
    assert _codes(steps["modem.late"]) == ["0", "0"], (board, steps["modem.late"].said)
    ours = _records(booted[0], "modem.late.host")
    assert row_of(ours) == (1000, 1000, 0, 0, 0, 0, 0)
    values = _values(ours, "response")
    found = np.flatnonzero(values >= DELAY_NS)
    assert len(found) == 10
    assert np.diff(found).tolist() == [100] * 9
    assert bool((np.delete(values, found) < DELAY_NS // 2).all())
    # driven by what the board does not read: its wait for an answer ends each time
    assert _codes(steps["modem.loose"]) == ["3", "0"], (board, steps["modem.loose"].said)
    assert row_of(_records(booted[0], "modem.loose.host")) == (20, 0, 20, 0, 0, 0, 0)
    assert steps["no cable"].code == 0, steps["no cable"].said


@each_board
def test_a_line_that_somebody_has(booted: list[Booted], board: str) -> None:
    step = booted[0].steps["busy"]
    assert _codes(step) == ["1", "0"], board
    assert f"line 1 of {CHIP} is in use by 'rtgauge'" in step.said


@each_board
@pytest.mark.parametrize("name", REFUSED)
def test_names_that_there_are_not(booted: list[Booted], board: str, name: str) -> None:
    step = booted[0].steps[name]
    _, reason, remedy = REFUSED[name]
    assert step.code == 2, board
    assert reason in step.said
    assert remedy in step.said


@on_boards(
    BOOTS,
    AGAIN,
    names=(
        "pair.host",
        "pair.board",
        "delayed.host",
        "circuit",
        "loopback",
        "modem.host",
    ),
)
def test_two_boots_measure_the_same(booted: list[Booted], board: str, name: str) -> None:
    first, second = (_records(one, name) for one in booted)
    assert sample_bytes(first), board
    assert sample_bytes(first) == sample_bytes(second)
