# SPDX-License-Identifier: Apache-2.0
"""Events from outside: an emulated board that answers on its lines, and this machine as its log
host, in one run. What each side says of the same events has to agree: on lines of a chip that QEMU
emulates (arm64), and on those of its doorbell (x86-64, and arm64 on request).

Time is this machine's, so no test says how long something takes; an answer that was delayed on
purpose by a tenth of a second took at least that.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rtgauge.catalogue import Catalogue
from rtgauge.engine.live import LiveStep
from rtgauge.engine.pair import with_line
from rtgauge.engine.study import execute
from rtgauge.lab.doorbell import DOORBELL_MODULE
from rtgauge.plan import Plan, PlannedStep, planned_step
from rtgauge.store import Store, StoredRun
from rtgauge.stream import Record, SeriesInfo, StreamReader, Table
from rtgauge.target import RunningAgent
from rtgauge.target.lab import LabTarget
from rtgauge.target.local import LocalAgent, LocalTarget
from test_lab_doorbell import IN_AT, MERGED_AT, OUT_AT, Peer
from test_run import Watcher

CHIP = "arm64-rt-6.1,lines=outside"
DOORBELL = "x86_64-rt-6.1,lines=outside"
BOTH = "arm64-rt-6.1,lines=doorbell"
QEMU = {
    "arm64": ("qemu-system-aarch64", "qemu-system-arm"),
    "x86_64": ("qemu-system-x86_64", "qemu-system-x86"),
}
EVENTS = 20
DELAY_NS = 100_000_000
DELAY_EVERY = 10
# The board has enough time for an answer, so a busy machine does not cause a missing one.
PACE = {"samples": f"{EVENTS}", "interval": "2s", "cpu": "0"}
CONTEXTS = ("user", "kernel", "irq")
# A ring that is to be without an answer has been taken by then, if not by an unusual machine: where
# it has not, what comes late is found with the next.
QUIET_S = 2.0


@pytest.fixture(scope="module", params=[CHIP, DOORBELL])
def board(request: pytest.FixtureRequest) -> Iterator[LabTarget]:
    with opened(request.param) as target:
        yield target


@pytest.fixture(scope="module")
def rung() -> Iterator[LabTarget]:
    with opened(DOORBELL) as target:
        yield target


@contextlib.contextmanager
def opened(name: str) -> Iterator[LabTarget]:
    target = LabTarget(name)
    program, package = QEMU[target.board.machine.architecture]
    if shutil.which(program) is None:
        pytest.skip(f"QEMU is not on this machine (Debian's package is {package})")
    try:
        yield target
    finally:
        target.close()


def response(board: LabTarget, **given: str) -> PlannedStep:
    wanted = {**PACE, **{name.replace("_", "-"): text for name, text in given.items()}}
    return planned_step(Catalogue.from_json(board.describe()), "response", wanted)


def carry_out(
    store: Store, board: LabTarget, step: PlannedStep, watcher: Watcher | None = None
) -> StoredRun:
    (outcome,) = execute(Plan("outside", (step,)), [board], store, watcher)
    return store.get(outcome.id)


def states(run: StoredRun) -> list[str]:
    return [step["state"] for step in run.document["steps"][:2]]


def values(run: StoredRun, step: int, name: str) -> NDArray[np.int64]:
    (series,) = (one for one in run.steps[step].series if one.info.name == name)
    blocks = [np.asarray(block, np.int64) for block in series.values()]
    return np.concatenate(blocks) if blocks else np.zeros(0, np.int64)


def table(run: StoredRun, step: int, name: str) -> Mapping[str, Any]:
    (found,) = (one for one in run.steps[step].tables if one.name == name)
    return dict(zip([column.name for column in found.columns], found.rows[0], strict=True))


@pytest.mark.study(13, 15, 39)
@pytest.mark.parametrize("context", CONTEXTS)
def test_both_sides_say_the_same(store: Store, board: LabTarget, context: str) -> None:
    """Every event once, in its order; the log host's time contains the board's way to the answer;
    and the answers that were delayed on purpose are the ones that took longer."""
    extra = {"delay": "100ms", "delay_every": f"{DELAY_EVERY}"} if context == "user" else {}
    run = carry_out(store, board, response(board, context=context, **extra))
    assert states(run) == ["complete", "complete"], run.document["steps"]
    answers, events = table(run, 1, "answers"), table(run, 0, "events")
    assert (answers["raised"], answers["answered"]) == (EVENTS, EVENTS)
    assert (answers["unanswered"], answers["late"], answers["double"], answers["lost"]) == (0,) * 4
    assert (events["seen"], events["answered"], events["lost"]) == (EVENTS, EVENTS, 0)
    (verdict,) = run.steps[1].verdicts
    assert (verdict.rule, verdict.result) == ("every-event-answered", "pass")
    outside, own = values(run, 1, "response"), values(run, 0, "answer")
    assert len(outside) == len(own) == EVENTS
    # The board's stamp behind the answer may be later than the moment at which it was seen outside;
    # what lies before the answer is a part of what was seen.
    if context != "irq":
        assert bool((outside >= values(run, 0, "wake-up")).all())
    if extra:
        delayed = set(range(DELAY_EVERY - 1, EVENTS, DELAY_EVERY))
        assert delayed <= set(np.flatnonzero(outside >= DELAY_NS).tolist())
        assert delayed <= set(np.flatnonzero(own >= DELAY_NS).tolist())


def test_a_board_that_is_silent(store: Store, board: LabTarget) -> None:
    """No board answers: each event is counted as unanswered, and the log host ends."""
    board.environment()
    with_host = response(board)
    catalogue = Catalogue.from_json(LocalTarget().describe())
    alone = planned_step(catalogue, "log-host", {"samples": "20", "interval": "10ms", "cpu": "0"})
    asked = with_line(alone, PlannedStep("x", {**with_host.parameters, "line": board.answer_line}),
                      board)  # fmt: skip
    (outcome,) = execute(Plan("silent", (asked,)), [LocalTarget()], store)
    run = store.get(outcome.id)
    answers = table(run, 0, "answers")
    assert (answers["raised"], answers["answered"], answers["unanswered"]) == (20, 0, 20)
    (verdict,) = run.steps[0].verdicts
    assert verdict.result == "fail"


def test_a_doorbell_beside_a_chip(store: Store) -> None:
    """Where the machine has a chip of its own, the doorbell's is a second one."""
    with opened(BOTH) as board:
        step = response(board, samples="10", interval="500ms", context="irq")
        run = carry_out(store, board, step)
    answers, events = table(run, 1, "answers"), table(run, 0, "events")
    assert states(run) == ["complete", "complete"], run.document["steps"]
    assert (answers["raised"], answers["answered"], answers["lost"]) == (10, 10, 0)
    assert (events["seen"], events["answered"], events["lost"]) == (10, 10, 0)
    assert run.document["environment"]["lab"]["lines"] == "outside, by doorbell"


def test_changes_that_come_together(rung: LabTarget) -> None:
    """One ring for several changes of the input is one interrupt: the board sees the last level,
    answers that, and counts the others. A ring without a change is nothing."""
    rung.environment()
    machine = rung._machine
    assert machine is not None
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(str(machine.lines))
        peer = Peer(one)
        agent = rung.start(["run", "response", "--line", rung.answer_line, "--context", "irq"])
        reader = StreamReader()
        records = list(took(agent, reader, lambda all: any(isinstance(x, SeriesInfo) for x in all)))
        expected = [peer.word(OUT_AT + 4)]
        for changes in (1, 3, 2, 0, 1):
            before = peer.word(IN_AT + 8)
            peer.write(IN_AT + 8, before + changes)
            peer.ring(0)
            # an answer shows that the board's input has the level that was set
            turns = changes % 2
            expected.append(expected[-1] + turns)
            if turns:
                assert peer.rings() == 1
            else:
                assert peer.rings(QUIET_S) == 0
            assert peer.word(OUT_AT + 4) == expected[-1]
        assert peer.word(MERGED_AT) == 2 + 1
        agent.stop()
        records += took(agent, reader, lambda _: False)
        peer.close()
    (events,) = (one for one in records if isinstance(one, Table) and one.name == "events")
    found = dict(zip([column.name for column in events.columns], events.rows[0], strict=True))
    assert found == {"seen": 4, "answered": 4, "lost": 0, "repeated": 1}


def test_the_module_comes_and_goes(rung: LabTarget, store: Store) -> None:
    """No line is in use: it can be removed, is then missing, and can be loaded again."""
    rung.environment()
    line = rung.log_line(rung.answer_line)
    wanted = {"samples": "2", "interval": "10ms", "cpu": "0", "line": line}
    alone = planned_step(Catalogue.from_json(LocalTarget().describe()), "log-host", wanted)
    for words, present in (
        (["rmmod", "rtgauge_doorbell"], False),
        (["insmod", DOORBELL_MODULE], True),
    ):
        done = rung.execute(["/bin/busybox", *words])
        assert (done.code, done.stderr) == (0, b"")
        chips = rung.execute(["/bin/busybox", "sh", "-c", "echo /dev/gpiochip*"])
        assert chips.stdout.decode().strip() == ("/dev/gpiochip0" if present else "/dev/gpiochip*")
        (outcome,) = execute(Plan("absent", (alone,)), [LocalTarget()], store)
        (log, *_) = store.get(outcome.id).document["steps"]
        if present:
            assert log["state"] == "complete"
        else:
            assert "does not listen to the doorbell" in log["reason"]


def took(
    agent: RunningAgent, reader: StreamReader, enough: Callable[[list[Record]], bool]
) -> list[Record]:
    """What an agent says until it is enough, or there is no more."""
    records: list[Record] = []
    while not enough(records) and (piece := agent.read(1.0)) != b"":
        records += reader.feed(piece or b"")
    return records


class Killing(Watcher):
    """Kills one of the two once both have something to show."""

    def __init__(self, which: str, board: LabTarget) -> None:
        super().__init__()
        self.which, self.board = which, board
        self.killed = False

    def act(self, live: LiveStep) -> None:
        counts = [one.count for one in live.series.values()]
        if self.killed or len(counts) < 3 or min(counts) < 3:
            return
        self.killed = True
        pid = PIDS[-1]
        if self.which == "board":
            machine = self.board._machine
            assert machine is not None
            assert machine.pid is not None
            pid = machine.pid
        os.kill(pid, signal.SIGKILL)


PIDS: list[int] = []


@pytest.mark.parametrize("which", ["log host", "board"])
def test_one_of_the_two_is_killed(
    store: Store, board: LabTarget, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run says which, ends by itself, and what came is kept on both sides."""
    start = LocalTarget.start

    def started(self: LocalTarget, arguments: list[str]) -> LocalAgent:
        agent = start(self, arguments)
        PIDS.append(agent._process.pid)
        return agent

    monkeypatch.setattr(LocalTarget, "start", started)
    watcher = Killing(which, board)
    run = carry_out(store, board, response(board, samples="1000", interval="50ms"), watcher)
    assert watcher.killed
    answer, log = run.document["steps"][:2]
    if which == "board":
        assert answer["state"] == "failed"
        assert "ended on its own" in answer["reason"]
        assert log["state"] in ("failed", "interrupted")  # its socket was that board's
    else:
        assert (answer["state"], log["state"]) == ("interrupted", "interrupted")
        assert "the log host ended: the agent was killed from outside" in answer["reason"]
    for step in run.steps[:2]:
        assert any(one.totals.count >= 3 for one in step.series)
