# SPDX-License-Identifier: Apache-2.0
"""`response` and `log-host` over UDP on loopback and a serial port, each against a made-up peer.

The peer does what real ones do wrong: it is silent, late, answers twice, storms, or goes away.
Counts and order, no times.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from agents import Stream, assert_accounted, messages_of, read, run, table_of, values_named
from rtgauge.stream import Event, Header, Samples, Verdict, read_stream

CPU: Final = str(min(os.sched_getaffinity(0)))
GPIO: Final = any(Path("/dev").glob("gpiochip*"))
RULE: Final = "every-event-answered"
# Long against being scheduled late; a test's length is this times its events.
INTERVAL: Final = "300ms"
EVENTS: Final = 8
# In place of the level: the log host ends.
END: Final = 2
Answers = Callable[[int, int], list[bytes]]


RUN_NUMBER: Final = bytearray(8)
"""Run number of the log host that asked last, or of ours when we ask."""


def datagram(level: int) -> bytes:
    """The notation of docs/reference/lines.md."""
    return b"RTGL\x02" + bytes([level, 0, 0]) + RUN_NUMBER


def level_of(data: bytes) -> int:
    assert data[:5] == b"RTGL\x02"
    assert data[6:8] == b"\0\0"
    RUN_NUMBER[:] = data[8:16]
    return data[5]


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def target(answers: Answers) -> Iterator[int]:
    """A peer that answers event ``number`` of a level with what ``answers`` gives; its port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        one.settimeout(0.2)
        over = threading.Event()

        def serve() -> None:
            with contextlib.suppress(PermissionError):  # ahead of all other activity
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
            number = 0
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    data, peer = one.recvfrom(64)
                    if level_of(data) == END:
                        continue
                    for answer in answers(number, level_of(data)):
                        one.sendto(answer, peer)
                    number += 1

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield int(one.getsockname()[1])
        finally:
            over.set()
            thread.join(30)


def log_host(agent: str, tmp_path: Path, port: int, *more: str) -> tuple[int, Stream]:
    words = ("--line", f"net:127.0.0.1:{port}", "--interval", INTERVAL, "--cpu", CPU)
    return run(agent, tmp_path, "log-host", *words, "--samples", str(EVENTS), *more)


def table(stream: Stream, name: str) -> dict[str, int]:
    [row] = table_of(stream, name)
    return {column: int(cell) for column, cell in row.items()}


def answers_of(stream: Stream) -> tuple[int, ...]:
    """Raised, answered, unanswered, late, double, lost; each event is accounted for."""
    raised, answered, unanswered, late, double, lost, ambiguous = table(stream, "answers").values()
    assert raised == answered + unanswered + ambiguous
    return raised, answered, unanswered, late, double, lost


def verdict(stream: Stream) -> Verdict:
    [one] = [r for r in stream.records if isinstance(r, Verdict)]
    assert one.rule == RULE
    return one


def missed_at(stream: Stream) -> list[int]:
    """The numbers of the events that have no sample."""
    there: set[int] = set()
    for record in stream.records:
        if isinstance(record, Samples):
            gaps = record.gaps.tolist() if record.gaps is not None else []
            there |= {
                record.index + at + sum(periods for position, periods in gaps if position <= at)
                for at in range(len(record.values))
            }
    return [number for number in range(EVENTS) if number not in there]


def test_every_event_is_answered(agent: str, tmp_path: Path) -> None:
    levels: list[int] = []

    def mirror(_: int, level: int) -> list[bytes]:
        levels.append(level)
        return [datagram(level)]

    with target(mirror) as port:
        code, stream = log_host(agent, tmp_path, port, "--answered-by", "kernel")
    assert (code, answers_of(stream)) == (0, (EVENTS, EVENTS, 0, 0, 0, 0))
    assert levels == [1, 0] * (EVENTS // 2)
    assert (verdict(stream).result, verdict(stream).remedy) == ("pass", "")
    assert [(one.name, one.context) for one in stream.series] == [("response", "kernel")]
    assert all(value > 0 for value in values_named(stream, "response"))
    assert_accounted(stream, EVENTS)


@pytest.mark.parametrize("listens", [True, False])
@pytest.mark.slow
def test_a_silent_target_ends_in_a_verdict(
    agent: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], listens: bool
) -> None:
    with target(lambda *_: []) as port:
        code, stream = log_host(agent, tmp_path, port if listens else free_port())
    assert f"no samples\n    periods missed: {EVENTS}, overruns: " in capfd.readouterr().out
    assert (code, stream.trailer.state) == (3, "complete")
    assert answers_of(stream) == (EVENTS, 0, EVENTS, 0, 0, 0)
    assert verdict(stream).result == "fail"
    assert verdict(stream).evidence.startswith(
        f"0 of {EVENTS} events answered. Without an answer: number 0, 1, 2"
    )
    assert "wiring" in verdict(stream).remedy
    assert "If its last log host was killed, wait 10 s" in verdict(stream).remedy
    assert_accounted(stream, EVENTS, held=True)


@pytest.mark.slow
def test_a_late_answer_is_no_answer_to_the_next_event(agent: str, tmp_path: Path) -> None:
    held: list[bytes] = []

    def late(number: int, level: int) -> list[bytes]:
        if number == 3:
            held.append(datagram(level))
            return []
        before = held[:]
        held.clear()
        return [*before, datagram(level)]

    with target(late) as port:
        code, stream = log_host(agent, tmp_path, port)
    assert (code, answers_of(stream)) == (3, (EVENTS, EVENTS - 1, 1, 1, 0, 0))
    assert missed_at(stream) == [3]
    assert verdict(stream).evidence.endswith("Without an answer: number 3; late: 1")
    assert_accounted(stream, EVENTS, held=True)


@pytest.mark.parametrize("dither", ["no", "yes"])
@pytest.mark.slow
def test_the_stream_has_the_times_at_which_events_were_raised(
    agent: str, tmp_path: Path, dither: str
) -> None:
    """Every third answer comes after two intervals and a half, for which the next event waits: it
    is due after that answer, and before the target sees it."""
    seen: list[int] = []
    answered: list[int] = []

    def late(number: int, level: int) -> list[bytes]:
        seen.append(time.monotonic_ns())
        if number % 3 == 1:
            time.sleep(0.025)
        answered.append(time.monotonic_ns())
        return [datagram(level)]

    with target(late) as port:
        words = ("--interval", "10ms", "--timeout", "20s", "--dither", dither, "--samples", "30")
        _, stream = log_host(agent, tmp_path, port, *words)
    assert answers_of(stream)[:3] == (30, 30, 0)
    times: dict[str, dict[int, int]] = {one.name: {} for one in stream.series}
    offsets = [0] * 30
    for record in stream.records:
        if isinstance(record, Samples):
            info = stream.series[record.series]
            points = range(record.index, record.index + len(record.values))
            for at, point in enumerate(points):
                times[info.name][point] = record.due_ns + at * info.interval_ns
                if info.name == "dither":
                    offsets[point] = int(record.values[at])
    due = [stream.header.start_ns + times["response"][k] + offsets[k] for k in range(30)]
    assert all(one <= other for one, other in zip(due, seen, strict=True))
    assert all(one <= other for one, other in zip(answered, due[1:], strict=False))
    assert all(one == times["response"] for one in times.values())
    largest = [one for one in stream.events if one.event == "maximum"][-1]
    assert largest.time_ns == times["response"][int(str(largest.fields["index"]))]
    assert {one.last_due_ns for one in stream.trailer.series} == {times["response"][29]}


def test_answers_that_are_too_many_are_counted(
    agent: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is not known which of them is the answer: the event has no sample."""
    with target(lambda n, level: [datagram(level)] * (3 if n == 2 else 1)) as port:
        code, stream = log_host(agent, tmp_path, port)
    assert (code, answers_of(stream)) == (0, (EVENTS, EVENTS - 1, 0, 0, 2, 0))
    assert verdict(stream).result == "inconclusive"
    assert "attributable to several events: 1" in verdict(stream).evidence
    assert missed_at(stream) == [2]
    assert "    samples without a value: 1\n" in capfd.readouterr().out


@pytest.mark.slow
def test_an_answer_of_the_wrong_level_is_none(agent: str, tmp_path: Path) -> None:
    with target(lambda n, level: [datagram(level ^ (n == 2))]) as port:
        code, stream = log_host(agent, tmp_path, port)
    assert code == 3
    assert missed_at(stream) == [2]
    raised, answered, unanswered, late, double, _ = answers_of(stream)
    assert (raised, answered, unanswered, late + double) == (EVENTS, EVENTS - 1, 1, 1)


def test_a_storm_is_bounded_and_counted(agent: str, tmp_path: Path) -> None:
    with target(lambda n, level: [datagram(level)] * (5000 if n == 2 else 1)) as port:
        code, stream = log_host(agent, tmp_path, port)
    found = table(stream, "answers")
    assert (code, found["raised"], found["ambiguous"]) == (0, EVENTS, 1)
    assert found["answered"] == EVENTS - 1
    assert 0 < found["double"] < 5000
    assert any("was ignored" in text for text in messages_of(stream))


def test_foreign_datagrams_are_no_answers(agent: str, tmp_path: Path) -> None:
    other = b"RTGL\x02\1\0\0another1"
    with target(lambda n, level: [b"hello", other, datagram(level)]) as port:
        code, stream = log_host(agent, tmp_path, port)
    assert (code, answers_of(stream)) == (0, (EVENTS, EVENTS, 0, 0, 0, 0))
    assert any(
        f"{2 * EVENTS} times something other than an event arrived on the line" in text
        for text in messages_of(stream)
    )


def test_with_one_edge_every_datagram_is_an_event(agent: str, tmp_path: Path) -> None:
    """A datagram back to rest would be echoed as well, and taken for an answer."""
    levels: list[int] = []

    def toggle(number: int, level: int) -> list[bytes]:
        levels.append(level)
        return [datagram(1 - number // 2 % 2)] if level else []

    with target(toggle) as port:
        code, stream = log_host(agent, tmp_path, port, "--edge", "rising")
    assert (code, answers_of(stream)) == (0, (EVENTS, EVENTS, 0, 0, 0, 0))
    assert levels == [1] * EVENTS


def test_the_own_error_is_a_series_of_its_own(agent: str, tmp_path: Path) -> None:
    with target(lambda _, level: [datagram(level)]) as port:
        code, stream = log_host(agent, tmp_path, port, "--short-circuit", "4")
    assert (code, answers_of(stream)) == (0, (4, 4, 0, 0, 0, 0))
    assert [one.name for one in stream.series] == ["own-error"]


# --- late answers ---


Drops = Callable[[int], bool]


def _echo(
    number: int, delay_s: float, drops: Drops, take: Callable[[], Callable[[], object]]
) -> Callable[[], None]:
    """Starts a thread that answers what comes on the descriptor ``number`` after a constant delay,
    except what ``drops`` names. ``take`` reads one message and gives its answer. The result ends
    the thread. As many answers as the delay spans are on their way at once."""
    over = threading.Event()

    def serve() -> None:
        due: list[tuple[float, Callable[[], object]]] = []
        count = 0
        while not over.is_set():
            rest = due[0][0] - time.monotonic() if due else 0.1
            if select.select([number], [], [], max(rest, 0))[0]:
                answer = take()
                if not drops(count):
                    due.append((time.monotonic() + delay_s, answer))
                count += 1
            while due and due[0][0] <= time.monotonic():
                due.pop(0)[1]()

    thread = threading.Thread(target=serve)
    thread.start()

    def end() -> None:
        over.set()
        thread.join(30)

    return end


@contextlib.contextmanager
def echo(delay_s: float, drops: Drops = lambda _: False) -> Iterator[str]:
    """A peer that echoes each datagram after a constant delay; the line to it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))

        def take() -> Callable[[], object]:
            data, peer = one.recvfrom(64)
            return lambda: one.sendto(data, peer)

        end = _echo(one.fileno(), delay_s, drops, take)
        try:
            yield f"net:127.0.0.1:{one.getsockname()[1]}"
        finally:
            end()


@contextlib.contextmanager
def serial_echo(delay_s: float, drops: Drops = lambda _: False) -> Iterator[str]:
    """The same with the bytes of a serial port, which is a terminal of our own."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)

    def take() -> Callable[[], object]:
        data = os.read(ours, 1)
        return lambda: os.write(ours, data)

    end = _echo(ours, delay_s, drops, take)
    try:
        yield f"serial:{os.ttyname(theirs)}"
    finally:
        end()
        os.close(ours)
        os.close(theirs)


ECHOES: Final = {"net": echo, "serial": serial_echo}
each_kind = pytest.mark.parametrize("kind", ECHOES)


def late_run(
    agent: str, tmp_path: Path, line: str, edge: str, events: int, interval_ms: int = 10
) -> tuple[int, dict[str, int], list[int], Stream]:
    words = ("--line", line, "--interval", f"{interval_ms}ms", "--cpu", CPU,
             "--edge", edge, "--samples", str(events))  # fmt: skip
    code, stream = run(agent, tmp_path, "log-host", *words)
    found = table(stream, "answers")
    assert found["raised"] == found["answered"] + found["unanswered"] + found["ambiguous"] == events
    [series] = stream.trailer.series
    # an ambiguous event has a sample whose value is not known
    assert (series.count - series.lost, series.missed, series.lost) == (
        found["answered"], found["unanswered"], found["ambiguous"]
    )  # fmt: skip
    return code, found, values_named(stream, "response"), stream


@each_kind
@pytest.mark.parametrize("edge", ["both", "rising"])
@pytest.mark.parametrize("delay_ms", [3, 13, 23])
@pytest.mark.slow
def test_a_late_answer_is_that_of_its_event(
    agent: str, tmp_path: Path, delay_ms: int, edge: str, kind: str
) -> None:
    """A delay beyond the interval is measured as what it is, not modulo one or two intervals."""
    with ECHOES[kind](delay_ms / 1000) as line:
        code, found, delays, stream = late_run(agent, tmp_path, line, edge, 60)
    assert found["answered"] >= 55
    # a machine that is slow adds to it; an answer of another event would be 10 or 20 ms less
    assert all(value >= delay_ms * 1_000_000 for value in delays)
    assert np.median(delays) < delay_ms * 1_000_000 + 7_000_000
    if delay_ms > 10:
        assert (code, verdict(stream).result) == (3, "fail")
        assert found["late"] >= 55
        in_time = found["answered"] - found["late"]
        evidence = verdict(stream).evidence.split(";")[0].split(".")[0]
        assert found["unanswered"] or evidence == f"{in_time} of 60 events answered in time"
        assert "raise --interval (an answer took" in verdict(stream).remedy
        assert verdict(stream).remedy.endswith("\u202fµs)")


@each_kind
@pytest.mark.parametrize("edge", ["both", "rising"])
@pytest.mark.slow
def test_a_dropped_answer_shifts_no_other(agent: str, tmp_path: Path, edge: str, kind: str) -> None:
    with ECHOES[kind](0.003, lambda number: number % 10 == 4) as line:
        _, found, delays, stream = late_run(agent, tmp_path, line, edge, 40, interval_ms=100)
    missing = re.search(r"Without an answer: number ([\d, ]+)", verdict(stream).evidence)
    assert missing is not None
    if not found["late"]:
        assert (found["unanswered"], found["ambiguous"], found["double"]) == (4, 0, 0)
    # a machine that is slow adds others
    assert {4, 14, 24, 34} <= {int(number) for number in missing[1].split(",")}
    assert found["unanswered"] + found["ambiguous"] <= 12
    assert np.median(delays) < 100_000_000  # those of other events are 100 ms more
    assert all(value >= 3_000_000 for value in delays)


# --- the board's side ---


@contextlib.contextmanager
def board(
    agent: str, tmp_path: Path, *more: str, address: str = "127.0.0.1:"
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """An agent that measures `response` and is ready, and its port; its stream is board.cbor."""
    port = free_port()
    output = tmp_path / "board.cbor"
    output.unlink(missing_ok=True)  # an earlier board's would say ready before this one is
    line = f"net:{address}{port}"
    words = ("--line", line, "--cpu", CPU, "--output", str(output), *more)
    with subprocess.Popen([agent, "run", "response", *words], stdin=subprocess.PIPE) as process:
        try:
            give_up = time.monotonic() + 30
            while not (output.exists() and output.stat().st_size) or not any(
                isinstance(record, Header) for record in read_stream(output)
            ):
                assert time.monotonic() < give_up
                assert process.poll() is None
                time.sleep(0.05)
            yield process, port
        finally:
            process.kill()


def ask(one: socket.socket, port: int, level: int) -> int:
    one.sendto(datagram(level), ("127.0.0.1", port))
    return level_of(one.recv(64))


@pytest.fixture(name="host")
def asking_socket() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(30)
        yield one


def test_a_board_without_an_end_ends_in_order(
    agent: str, tmp_path: Path, host: socket.socket
) -> None:
    """Also when its log host died in the middle: it keeps what it has, and ends when told."""
    with board(agent, tmp_path) as (process, port):
        assert [ask(host, port, n % 2) for n in (1, 2, 3, 4, 5)] == [1, 0, 1, 0, 1]
        host.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    stream = read(tmp_path / "board.cbor")
    assert (stream.complete, stream.trailer.state) == (True, "complete")
    assert table(stream, "events") == {"seen": 5, "answered": 5, "lost": 0, "repeated": 0}
    assert [(one.name, one.context) for one in stream.series] == [("turn-around", "user")]
    assert len(values_named(stream, "turn-around")) == 5


@pytest.mark.parametrize(("address", "answers"), [("", False), ("0.0.0.0:", True)])
def test_a_port_alone_is_not_open_to_other_machines(
    agent: str, tmp_path: Path, host: socket.socket, address: str, answers: bool
) -> None:
    """A port alone listens at 127.0.0.1. 127.0.0.2 is an address of this machine, too."""
    with board(agent, tmp_path, address=address) as (process, port):
        if answers:
            host.sendto(datagram(1), ("127.0.0.2", port))
            assert level_of(host.recv(64)) == 1
        else:
            host.connect(("127.0.0.2", port))
            host.send(datagram(1))
            with pytest.raises(ConnectionRefusedError):
                host.recv(64)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert table(read(tmp_path / "board.cbor"), "events")["seen"] == answers


def test_a_stranger_during_a_run_is_not_answered(
    agent: str, tmp_path: Path, host: socket.socket
) -> None:
    """Its datagrams have another run number: they are neither events, nor do they get answers."""
    with (
        board(agent, tmp_path) as (process, port),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        other.settimeout(1)
        assert ask(host, port, 1) == 1
        for _ in range(3):
            other.sendto(b"RTGL\x02\0\0\0stranger", ("127.0.0.1", port))
        assert ask(host, port, 0) == 0
        with pytest.raises(TimeoutError):
            other.recv(64)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    stream = read(tmp_path / "board.cbor")
    assert table(stream, "events") == {"seen": 2, "answered": 2, "lost": 0, "repeated": 0}
    assert any(
        "3 times something other than an event arrived on the line" in text
        for text in messages_of(stream)
    )


@pytest.mark.parametrize(
    ("more", "order", "code", "state"),
    [
        ((), b"stop\n", 0, "complete"),
        ((), b"", 4, "interrupted"),
        (("--samples", "100"), b"stop\n", 4, "interrupted"),
    ],
)
def test_orders_of_the_host(
    agent: str, tmp_path: Path, host: socket.socket,
    more: tuple[str, ...], order: bytes, code: int, state: str,
) -> None:  # fmt: skip
    with board(agent, tmp_path, "--control", *more) as (process, port):
        assert ask(host, port, 1) == 1
        process.communicate(order, timeout=30)
        assert process.returncode == code
    stream = read(tmp_path / "board.cbor")
    assert stream.trailer.state == state
    assert table(stream, "events")["answered"] == 1


def test_repeats_and_one_edge(agent: str, tmp_path: Path, host: socket.socket) -> None:
    with board(agent, tmp_path, "--samples", "4") as (process, port):
        assert [ask(host, port, level) for level in (1, 1, 0, 1)] == [1, 1, 0, 1]
        assert process.wait(30) == 0
    assert table(read(tmp_path / "board.cbor"), "events")["repeated"] == 1
    with board(agent, tmp_path, "--samples", "3", "--edge", "rising") as (process, port):
        found = []
        for level in (1, 0, 1, 0, 1):
            if level:
                found.append(ask(host, port, level))
            else:
                host.sendto(datagram(level), ("127.0.0.1", port))
        assert process.wait(30) == 0
    assert found == [1, 0, 1]
    assert table(read(tmp_path / "board.cbor"), "events")["seen"] == 3


def test_answers_delayed_on_purpose(agent: str, tmp_path: Path, host: socket.socket) -> None:
    words = ("--samples", "9", "--delay", "20ms", "--delay-every", "3")
    with board(agent, tmp_path, *words) as (process, port):
        for number in range(1, 10):
            ask(host, port, number % 2)
        assert process.wait(30) == 0
    stream = read(tmp_path / "board.cbor")
    found = values_named(stream, "turn-around")
    assert len(found) == 9
    assert all(found[at] >= 20_000_000 for at in (2, 5, 8))
    assert stream.series[0].labels["delayed"] == "20ms, 1 of 3"
    assert any("delayed on purpose, by 20ms, 1 of 3" in text for text in messages_of(stream))


def test_it_ends_when_the_time_is_up(agent: str, tmp_path: Path) -> None:
    words = ("--line", f"net:127.0.0.1:{free_port()}", "--cpu", CPU, "--for", "100ms")
    code, stream = run(agent, tmp_path, "response", *words)
    assert (code, stream.trailer.state) == (0, "complete")
    assert table(stream, "events")["seen"] == 0
    # These are a loopback's, and of answers that are delayed.
    parameters = {name: one.effective for name, one in stream.header.parameters.items()}
    assert (parameters["interval"], parameters["delay-every"]) == ("", "")


def test_a_line_is_read_before_a_run(agent: str) -> None:
    """The host asks for that before it measures anything."""

    def line(*words: str) -> dict[str, str]:
        done = subprocess.run(
            [agent, "line", *words], capture_output=True, text=True, timeout=60, check=True
        )
        found: dict[str, str] = json.loads(done.stdout)
        return found

    wrong = line("nett:7")
    assert wrong["reason"] == "'nett:7' is not a line" and "gpio, loopback, net" in wrong["remedy"]
    assert line("net:7") == {}
    assert "does not name an address" in line("--asks", "net:7")["reason"]
    if not GPIO:  # the step is skipped
        assert line("gpio:chip:0:1") == {}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("response",), 77, "no line was given"),
        (("log-host",), 77, "no line was given"),
        (("response", "--line", "nett:7"), 2, "'nett:7' is not a line"),
        (("response", "--line", "net:7", "--interval", "1ms"), 2, "options to the log host"),
        (("response", "--line", "net:7", "--delay-every", "5"), 2, "give --delay"),
        (("log-host", "--line", "net:7"), 2, "does not name an address"),
        (("log-host", "--line", "net:127.0.0.1:7", "--for", "1s", "--interval", "1h"), 2,
         "an interval of 1h does not fit into --for 1s"),
        (("response", "--line", "gpio:chip:0"), 2, "CHIP:OUTPUT:INPUT"),
        pytest.param(
            ("response", "--line", "gpio:chip:0:1"), 77, "this machine has no GPIO chip",
            marks=pytest.mark.skipif(GPIO, reason="this machine has a GPIO chip"),
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(
    agent: str, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    done = subprocess.run(
        [agent, "run", *words, "--output", str(tmp_path / "stream.cbor")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert len(done.stderr.splitlines()) == 2  # the reason, and what to do about it
    records = list(read_stream(tmp_path / "stream.cbor"))
    assert not any(isinstance(record, Event | Samples) for record in records)
