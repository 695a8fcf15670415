# SPDX-License-Identifier: Apache-2.0
"""Samples shown on a line, as an external analyser sees them: an emulated board whose GPIO
outputs QEMU reports to this process. There are as many pulses as samples.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab_boots import NEEDS_ARM
from rtgauge.catalogue import Catalogue
from rtgauge.engine.study import execute
from rtgauge.plan import Plan, planned_step
from rtgauge.report.results import model
from rtgauge.store import Store, StoredRun
from rtgauge.target.lab import LabTarget

pytestmark = NEEDS_ARM
BOARD = "arm64-rt-6.1,lines=outside"
CHIP = "9030000.pl061"
TIMEOUT_S = 120.0
LINE = 0
TAKEN = 7
TAKE = f"cd /sys/class/gpio && echo $(($(cat gpiochip*/base) + {TAKEN})) > export"


class Analyser:
    """What QEMU reports of the chip's outputs, in order."""

    def __init__(self, path: Path, chip: str) -> None:
        self._chip = chip
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(path))
        self._answers = threading.Semaphore(0)
        self._edges: list[tuple[int, int]] = []
        threading.Thread(target=self._read, daemon=True).start()
        self._ask()

    def _read(self) -> None:
        with self._socket.makefile("r", encoding="ascii") as lines:
            for text in lines:
                words = text.split()
                if words[0] == "IRQ":
                    self._edges.append((int(words[2]), int(words[1] == "raise")))
                else:
                    assert words[0] == "OK", text
                    self._answers.release()

    def _ask(self) -> None:
        """What is reported before the answer has happened before the question."""
        self._socket.sendall(f"irq_intercept_out {self._chip}\n".encode())
        assert self._answers.acquire(timeout=TIMEOUT_S)

    def levels(self, line: int) -> list[int]:
        """The levels of the line after each of its edges since the last time."""
        self._ask()
        found, self._edges = self._edges, []
        assert all(one == line for one, _ in found), found[:10]
        return [level for _, level in found]

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture(scope="module")
def board() -> Iterator[LabTarget]:
    target = LabTarget(BOARD)
    yield target
    target.close()


@pytest.fixture(scope="module")
def analyser(board: LabTarget) -> Iterator[Analyser]:
    board.environment()
    _, path, chip, *_ = board.log_line(board.answer_line).split(":")
    opened = Analyser(Path(path), chip)
    yield opened
    opened.close()


def marked(store: Store, board: LabTarget, words: str, line: str) -> StoredRun:
    name, *given = words.split()
    options = {**dict(word.split("=") for word in given), "mark": line}
    step = planned_step(Catalogue.from_json(board.describe()), name, options)
    (outcome,) = execute(Plan("marked", (step,)), [board], store)
    return store.get(outcome.id)


# What is carried out; and the series and context of the samples that make a pulse each, or how many
# pulses there are.
CASES: dict[str, tuple[tuple[str, ...], str] | int] = {
    "timer interval=5ms samples=300": (("latency",), "user"),
    "timer interval=5ms samples=100 context=irq,kernel,user": (("latency",), "user"),
    "timer interval=5ms samples=200 method=timerfd dither=yes": (("latency",), "user"),
    "timer interval=5ms samples=100 method=nanosleep": (("latency",), "user"),
    "timer interval=5ms samples=100 method=itimer": (("latency",), "user"),
    "sem-uncontended samples=1000": (("acquire", "release"), "user"),
    "sem-lifecycle samples=100": (("create", "delete"), "user"),
    # of each of the 90 waiters, of which some alone have a series
    "sem-contended samples=20 priority=95": 20 * 90 * 2,
    "mutex-uncontended samples=500": (("acquire", "release"), "user"),
    "mutex-contended samples=100": (("acquire", "release"), "user"),
    "mutex-chain samples=50": (("acquire", "release"), "user"),
    "thread-switch samples=1000 threads=2,10": (("switch",), "user"),
    "thread-lifecycle samples=50": (("create", "delete"), "user"),
    "futex samples=100": (("wake", "send"), "user"),
    "signal samples=100": (("wake", "send"), "user"),
    "pipe samples=100": (("wake", "send"), "user"),
    "process-create samples=20": (("life",), "user"),
    "page-fault samples=100": (("touch",), "user"),
}


@pytest.mark.study(66)
@pytest.mark.parametrize("words", CASES)
def test_a_pulse_for_each_sample(
    store: Store, board: LabTarget, analyser: Analyser, words: str
) -> None:
    run = marked(store, board, words, f"gpio:{CHIP}:{LINE}")
    levels = analyser.levels(LINE)  # read before a test can fail: the next one finds none of them
    assert run.document["steps"][0]["state"] == "complete", run.document["steps"][0]
    assert run.document["plan"]["steps"][0]["mark"] == f"gpio:{CHIP}:{LINE}"
    expected = CASES[words]
    if not isinstance(expected, int):
        names, context = expected
        infos = [(one.info.name, one.info.context, one.totals.count) for one in run.steps[0].series]
        expected = sum(n for name, where, n in infos if name in names and where == context)
    # On a busy machine the emulated one misses periods, of which there are no samples.
    assert expected >= 40
    assert levels == [1, 0] * expected, (len(levels), expected)
    page = json.dumps(model.build([run]))
    assert f"marked on 'gpio:{CHIP}:{LINE}': a write to the line took" in page


# What is asked for, how it ends, and a word of the reason.
REFUSED = {
    f"timer samples=10 context=irq,kernel mark=gpio:{CHIP}:0": ("skipped", "the kernel takes"),
    f"irq-latency samples=10 mark=gpio:{CHIP}:0": ("skipped", "the kernel takes"),
    f"tick-period mark=gpio:{CHIP}:0": ("skipped", "times no single operation"),
    f"sem-order mark=gpio:{CHIP}:0": ("skipped", "times no single operation"),
    f"timer samples=10 mark=gpio:{CHIP}:{TAKEN}": ("failed", "is in use by 'sysfs'"),
    f"timer samples=10 mark=gpio:{CHIP}:8": ("failed", "has no line '8'"),
    "timer samples=10 mark=gpio:gpiochip9:0": ("failed", "there is no GPIO chip 'gpiochip9'"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_marked(
    store: Store, board: LabTarget, analyser: Analyser, words: str
) -> None:
    text, _, line = words.partition(" mark=")
    if line.endswith(f":{TAKEN}"):
        assert board.execute(["/bin/busybox", "sh", "-c", TAKE]).code == 0
    run = marked(store, board, text, line)
    state, reason = REFUSED[words]
    step = run.document["steps"][0]
    assert (step["state"], reason in step["reason"]) == (state, True), step
    assert not analyser.levels(LINE)
