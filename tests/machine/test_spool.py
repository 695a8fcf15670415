# SPDX-License-Identifier: Apache-2.0
"""The agent behind its spool: a stream that is cut again and again has every byte once."""

from __future__ import annotations

import contextlib
import os
import random
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import waiting
from rtgauge.stream import Event, Gaps, Histogram, Record, Samples, StreamReader, Trailer
from rtgauge.target.local import find_agent

PATIENCE_S = 120.0
CPU = str(min(os.sched_getaffinity(0)))
ENDED = re.compile(rb"^rtgauge-agent: ended (-?\d+)\n", re.MULTILINE)
DETACHED = 255


until = partial(waiting.until, patience_s=PATIENCE_S)


class Spooled:
    """A host that attaches to an agent, and loses it."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.agent = str(find_agent())
        self.data = bytearray()
        self.said = bytearray()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str) -> None:
        self._begin(
            "run", "timer", "--priority", "0", "--keep-settings", "--cpu", CPU, "--control",
            "--dither", "no",
            "--output", "-", "--spool", str(self.socket), *words,
        )  # fmt: skip

    def attach(self, start: int | None = None) -> None:
        came = len(self.data) if start is None else start
        self._begin("attach", str(self.socket), "--from", str(came))

    def _begin(self, *words: str) -> None:
        self.said.clear()
        self.process = subprocess.Popen(
            [self.agent, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )

    def files(self) -> tuple[int, int, int]:
        process = self.process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        return process.stdin.fileno(), process.stdout.fileno(), process.stderr.fileno()

    def turn(self, size: int = 65536) -> None:
        """Take what comes within 20 ms, so many bytes of it at most."""
        _, out, err = self.files()
        for fd in select.select([out, err], [], [], 0.02)[0]:
            (self.data if fd == out else self.said).extend(os.read(fd, size))

    def tell(self, order: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self.files()[0], order.encode() + b"\n")

    def wait_for(self, size: int) -> None:
        """Read until more than so many bytes have come."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.data) <= size:
            assert time.monotonic() < deadline, "nothing comes"
            self.turn()

    def ended(self) -> int:
        """The exit code of a client that ends by itself; all that it says is taken."""
        assert self.process is not None
        code = self.process.wait(PATIENCE_S)
        for _ in range(10):
            self.turn()
        self.close_files(self.process)
        return code

    def confirm(self) -> None:
        self.tell(f"got {len(self.data)}")

    def cut(self) -> int:
        """Close everything at once, whatever is still on its way; the client's exit code."""
        assert self.process is not None
        self.close_files(self.process)
        return self.process.wait(PATIENCE_S)

    @staticmethod
    def close_files(process: subprocess.Popen[bytes]) -> None:
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()

    def finish(self) -> int:
        """Read to the end, which is confirmed; the agent's exit code as it was announced."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := ENDED.search(self.said)):
            assert time.monotonic() < deadline, "the agent did not end in time"
            self.turn()
            self.confirm()
        self.tell("end")
        code = self.ended()
        announced = int(found[1])
        assert code == (announced if announced >= 0 else 128 - announced)
        assert not self.socket.exists()
        return announced

    def records(self, *, complete: bool = True) -> list[Record]:
        reader = StreamReader()
        records = reader.feed(bytes(self.data))
        end = reader.finish()
        assert (end.dropped_bytes, end.lost_records) == (0, 0)
        assert end.complete == complete
        return records

    def process_named(self, name: str) -> int:
        """The one of its processes that says so: ``rtgauge-spool``, or one of the agent's."""
        found = self.processes()
        [pid] = [one for one in found if Path(f"/proc/{one}/comm").read_text() == f"{name}\n"]
        return pid

    def processes(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and str(self.socket).encode() in (
                    entry / "cmdline"
                ).read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def close(self) -> None:
        """Leave nothing behind, whatever the test did."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.cut()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def spooled(tmp_path: Path) -> Iterator[Spooled]:
    # longer than a socket's address can be
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    host = Spooled(folder / "spool")
    try:
        yield host
    finally:
        host.close()


def taken(records: list[Record]) -> tuple[int, int, int]:
    """Samples that came, those that are in histograms alone, and periods missed."""
    samples = sum(len(one.values) for one in records if isinstance(one, Samples))
    missed = sum(one.missed for one in records if isinstance(one, Samples | Gaps))
    withheld = 0
    for event in records:
        if isinstance(event, Event):
            count = event.fields.get("count")
            assert event.event not in ("missed", "withheld") or isinstance(count, int)
            missed += count if event.event == "missed" and isinstance(count, int) else 0
            withheld += count if event.event == "withheld" and isinstance(count, int) else 0
    return samples, withheld, missed


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.slow
def test_every_byte_comes_once(spooled: Spooled, seed: int) -> None:
    random.seed(seed)
    spooled.start("--for", "3s", "--interval", "500us")
    cuts = 0
    while not ENDED.search(spooled.said):
        deadline = time.monotonic() + random.random() * 0.4
        while time.monotonic() < deadline and not ENDED.search(spooled.said):
            spooled.turn(random.choice((1, 100, 4096, 65536)))
            if random.random() < 0.5:
                spooled.confirm()
        if ENDED.search(spooled.said) or cuts == 12:
            break
        assert spooled.cut() == DETACHED
        cuts += 1
        time.sleep(random.random() * 0.2)
        spooled.attach()
    assert spooled.finish() == 0
    assert cuts >= 3
    records = spooled.records()
    samples, withheld, missed = taken(records)
    assert withheld == 0
    assert samples + missed == 6000
    until(lambda: spooled.processes() == [])


def test_what_was_not_confirmed_comes_again(spooled: Spooled) -> None:
    spooled.start("--for", "500ms")
    spooled.wait_for(3000)
    spooled.tell("got 2000")
    time.sleep(0.1)
    before = bytes(spooled.data)
    spooled.cut()
    # what is forgotten is not available, nor what has not been sent
    for start in (1999, 1 << 40):
        spooled.attach(start)
        assert spooled.ended() == 1
        assert b"not in the spool" in spooled.said
    del spooled.data[2000:]
    spooled.attach(2000)
    assert spooled.finish() == 0
    assert spooled.data[: len(before)] == before
    assert taken(spooled.records())[0] > 0


def test_a_new_host_takes_the_place_of_the_old(spooled: Spooled) -> None:
    spooled.start("--for", "1s")
    spooled.wait_for(3000)
    spooled.confirm()
    old = spooled.process
    assert old is not None
    # its network has fallen silent: the connection is not closed
    spooled.attach()
    assert old.wait(PATIENCE_S) == DETACHED
    Spooled.close_files(old)
    assert spooled.finish() == 0
    spooled.records()


@pytest.mark.slow
def test_with_little_room_there_are_histograms(spooled: Spooled) -> None:
    spooled.start("--for", "3s", "--interval", "200us", "--spool-size", "24KiB", "--hold", "1m")
    spooled.wait_for(1000)
    spooled.cut()
    # three quarters are full after a second, or two if most periods are missed
    time.sleep(2.6)
    spooled.attach()
    assert spooled.finish() == 0
    records = spooled.records()
    samples, withheld, missed = taken(records)
    assert withheld > 0
    assert samples > 0
    assert samples + withheld + missed == 15_000
    last = [one for one in records if isinstance(one, Histogram)][-1]
    assert last.count == samples + withheld
    [trailer] = [one for one in records if isinstance(one, Trailer)]
    assert (trailer.series[0].count, trailer.series[0].lost) == (last.count, 0)
    told = [
        one.fields["text"] for one in records if isinstance(one, Event) and one.event == "message"
    ]
    assert any("only histograms" in str(text) for text in told)


def test_orders_reach_the_agent(spooled: Spooled) -> None:
    spooled.start("--for", "1h")
    spooled.wait_for(3000)
    spooled.cut()
    spooled.attach()
    # an unknown order changes nothing
    spooled.tell("x" * 1000)
    spooled.tell("end")
    spooled.tell("got 99999999999999999999")
    spooled.tell("stop")
    assert spooled.finish() == 4
    [trailer] = [one for one in spooled.records() if isinstance(one, Trailer)]
    assert trailer.state == "interrupted"


def test_an_agent_is_killed(spooled: Spooled) -> None:
    spooled.start("--for", "1h")
    spooled.wait_for(3000)
    spooled.tell("kill")
    assert spooled.finish() == -signal.SIGKILL
    spooled.records(complete=False)


@pytest.mark.parametrize("size", [7, 200_000])
def test_the_end_has_a_line_of_its_own(spooled: Spooled, size: int) -> None:
    spooled.start("--for", "1h")
    spooled.wait_for(3000)
    spool = spooled.process_named("rtgauge-spool")
    [agent] = map(int, Path(f"/proc/{spool}/task/{spool}/children").read_text().split())
    with open(f"/proc/{agent}/fd/2", "wb", buffering=0) as errors:
        for start in range(0, size, 1000):
            spooled.turn()
            errors.write(b"x" * min(1000, size - start))
        spooled.tell("kill")
        assert spooled.finish() == -signal.SIGKILL
    assert spooled.said.endswith(b"x\nrtgauge-agent: ended -9\n")


def test_an_agent_that_nobody_comes_back_to(spooled: Spooled) -> None:
    spooled.start("--for", "1h", "--hold", "1s")
    spooled.wait_for(3000)
    spooled.cut()
    until(lambda: spooled.processes() == [])
    assert not spooled.socket.exists()


def test_a_host_that_removes_the_folder_has_left(spooled: Spooled) -> None:
    spooled.start("--for", "1h", "--hold", "1h")
    spooled.wait_for(3000)
    # as long as it is there it may do that: the folder is its own
    spooled.socket.unlink()
    time.sleep(1.5)
    assert spooled.processes() != []
    spooled.cut()
    until(lambda: spooled.processes() == [])


def test_a_spool_that_is_killed_ends_its_agent(spooled: Spooled) -> None:
    spooled.start("--for", "1h")
    spooled.wait_for(3000)
    os.kill(spooled.process_named("rtgauge-spool"), signal.SIGKILL)
    assert spooled.ended() == DETACHED
    until(lambda: spooled.processes() == [])


def test_malformed_greetings_leave_no_descriptor(
    spooled: Spooled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With too few or too many descriptors, or too few bytes: those that came are closed."""
    spooled.start("--for", "60s")
    # those that start open files until there are samples
    while taken(StreamReader().feed(bytes(spooled.data))) == (0, 0, 0):
        spooled.wait_for(len(spooled.data))
    spools = [Path(f"/proc/{pid}") for pid in spooled.processes()]
    assert spools
    before = {spool: len(open_files(spool)) for spool in spools}
    # the whole name may be longer than an address
    monkeypatch.chdir(spooled.socket.parent)
    with open(os.devnull, "rb") as file:
        for turn in range(300):
            size, files = [(8, 1), (8, 2), (7, 3), (8, 4), (3, 0)][turn % 5]
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
                stranger.connect(spooled.socket.name)
                socket.send_fds(stranger, [bytes(size)], [file.fileno()] * files)
                stranger.settimeout(PATIENCE_S)
                # it hangs up
                with contextlib.suppress(ConnectionResetError):
                    assert stranger.recv(1) == b""
    after = {spool: len(open_files(spool)) for spool in spools}
    assert after == before


def open_files(process: Path) -> list[str]:
    found = []
    with contextlib.suppress(OSError):
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(os.readlink(link))
    return found


def test_nothing_to_attach_to(spooled: Spooled) -> None:
    spooled.attach()
    assert spooled.ended() == 1
    assert b"no agent to attach to" in spooled.said


def test_where_there_can_be_no_socket(spooled: Spooled, tmp_path: Path) -> None:
    spooled.socket = tmp_path / "nowhere" / "spool"
    spooled.start("--for", "200ms")
    assert spooled.process is not None
    while spooled.process.poll() is None:
        spooled.turn()
    assert spooled.ended() == 0
    told = [
        str(one.fields["text"])
        for one in spooled.records()
        if isinstance(one, Event) and one.event == "message"
    ]
    assert any("without a spool" in text and "No such file" in text for text in told)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("attach",), "attach needs"),
        (("attach", "/x", "--from", "-1"), "--from needs"),
        (("run", "timer", "--spool", "x", "--control", "--output", "-"), "not an absolute path"),
        (("run", "timer", "--spool", "/x"), "needs a host"),
        (("run", "timer", "--hold", "soon"), "not a duration"),
        (("run", "timer", "--spool-size", "big"), "not a size"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], says: str) -> None:
    done = subprocess.run(
        [str(find_agent()), *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert says in done.stderr
