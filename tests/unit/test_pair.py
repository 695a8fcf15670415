# SPDX-License-Identifier: Apache-2.0
"""A board that answers and the log host that times it, on fake targets: two agents in one run."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from conftest import Run
from rtgauge.catalogue import Catalogue
from rtgauge.engine.link import pair_bytes_per_s
from rtgauge.engine.live import LiveStep
from rtgauge.engine.pair import LogHosts, joined, paired
from rtgauge.engine.run import RunOutcome
from rtgauge.engine.study import execute
from rtgauge.engine.watch import NOTHING, Ended
from rtgauge.errors import ExitCode, UsageError
from rtgauge.plan import Plan, PlannedStep, planned_step, read_plan
from rtgauge.report.render import html
from rtgauge.report.results import model
from rtgauge.store import Store
from rtgauge.target import open_target
from rtgauge.target.fake import CATALOGUE, FakeAgent, FakeTarget
from rtgauge.target.lab import LabTarget
from test_run import Watcher

KNOWN = Catalogue.from_document(dict(CATALOGUE))
LINES = {"line": "gpio:a:1:2", "log-host": "fake", "log-line": "gpio:b:3:4"}


def response(**given: str) -> PlannedStep:
    wanted = {**LINES, "for": "20s", **{name.replace("_", "-"): v for name, v in given.items()}}
    return planned_step(KNOWN, "response", wanted)


def carry_out(
    store: Store, *steps: PlannedStep, board: str = "fake", watcher: Watcher | None = None
) -> RunOutcome:
    (outcome,) = execute(Plan("test", steps), [open_target(board)], store, watcher)
    return outcome


class Order:
    """What was done to agents, in its order, by the measurement of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, str]] = []
        self._names: dict[int, str] = {}
        start, stop = FakeTarget.start, FakeAgent.stop

        def started(target: FakeTarget, arguments: Sequence[str]) -> FakeAgent:
            agent = start(target, arguments)
            self._names[id(agent)] = arguments[1]
            self.done.append(("start", arguments[1]))
            return agent

        def stopped(agent: FakeAgent) -> None:
            self.done.append(("stop", self._names[id(agent)]))
            stop(agent)

        monkeypatch.setattr(FakeTarget, "start", started)
        monkeypatch.setattr(FakeAgent, "stop", stopped)


@pytest.mark.slow
def test_both_are_steps_of_the_boards_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order(monkeypatch)
    watcher = Watcher()
    timer = planned_step(KNOWN, "timer", {"for": "1s"})
    wanted = [response(context="irq", edge="rising", interval="10ms"), timer]
    outcome = carry_out(store, *wanted, watcher=watcher)
    assert (outcome.state, outcome.exit_code) == ("complete", ExitCode.DONE)
    run = store.get(outcome.id)
    board, log, *others = run.document["steps"]
    assert [one["measurement"] for one in (board, log)] == ["response", "log-host"]
    assert [one["measurement"] for one in others] == ["timer", "clock-cost"]
    assert board["parameters"] == {"line": "gpio:a:1:2", "context": "irq", "edge": "rising"}
    assert log["parameters"] == {
        "for": "20s", "interval": "10ms", "edge": "rising", "answered-by": "irq",
        "line": "gpio:b:3:4",
    }  # fmt: skip
    assert log["log_host"]["target"] == "fake"
    assert log["log_host"]["environment"]["kernel"]
    names = {step.number: {one.info.name for one in step.series} for step in run.steps}
    assert (names[0], names[1]) == ({"answer"}, {"response"})
    counts = [one.totals.count for one in run.steps[1].series]
    assert counts == [2000] * len(counts)
    assert all(one.totals.count > 0 for one in run.steps[0].series)
    # Nothing is raised before the board is ready, and the board answers until all is over.
    assert order.done == [
        ("start", "clock-cost"), ("start", "response"), ("start", "log-host"),
        ("stop", "response"), ("start", "timer"),
    ]  # fmt: skip
    assert [(number, total) for _, number, total in watcher.steps] == [
        (0, 3), (1, 3), (2, 3), (3, 3),
    ]  # fmt: skip


@pytest.mark.slow
def test_side_by_side_has_the_verdict_of_the_rule(store: Store) -> None:
    outcome = carry_out(store, response(context="irq,user"))
    page = html.render(model.analyse([store.get(outcome.id)]))
    table = page[page.index("contexts and kernels<small>methods and loads side by side") :]
    table = table[: table.index("</table>")]
    assert table.count('<span class="tag pass">pass</span>') == 2, table
    assert ">none<" not in table
    # Only that table contains them, and a row does not give its context twice.
    assert page.count("<small>methods and loads side by side</small>") == 2
    assert "log-host: response (µs)<small>" not in page
    words = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)  # legends are not rows
    assert ", context irq<" not in words and ", answered-by irq<" not in words


@pytest.mark.slow
def test_the_live_view_has_both(store: Store) -> None:
    seen: set[str] = set()

    class Both(Watcher):
        def act(self, live: LiveStep) -> None:
            seen.add(",".join(one.info.name for one in live.series.values() if one.info.cpu == 0))

    carry_out(store, response(), watcher=Both())
    assert "response,answer" in seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "log", "states", "code", "said"),
    [
        ("fake", "fake:cut", "interrupted failed", 1, "log host ended: the agent crashed"),
        ("fake", "fake:silent", "interrupted failed", 1, "log host ended: the agent sent nothing"),
        ("fake", "fake:hang", "interrupted failed", 1, "log host ended: the agent sent nothing"),
        ("fake", "fake:overtime", "interrupted failed", 1, "did not end in time"),
        ("fake", "fake:exit=1", "interrupted failed", 1, "log host ended: something went wrong"),
        ("fake", "fake:refuses", "interrupted failed", 2, "log host ended: option 'cpu'"),
        (
            "fake",
            "fake:skipped",
            "skipped skipped",
            77,
            "the log host cannot measure: there is no such",
        ),
        (
            "fake:cut",
            "fake",
            "failed interrupted",
            1,
            "board ended during the step: the agent crashed",
        ),
        ("fake:fails", "fake", "failed interrupted", 1, "the step: CPU 1 went away"),
        ("fake:silent", "fake", "failed interrupted", 1, "the step: the agent sent nothing"),
        ("fake:exit=2", "fake", "failed skipped", 2, "was not ready to answer: something went"),
        ("fake:unready", "fake", "failed skipped", 1, "ready to answer: load sched was not ready"),
        ("fake:skipped", "fake", "skipped skipped", 77, "not ready to answer: there is no such"),
        ("fake:stubborn", "fake", "interrupted complete", 4, "did not stop when asked"),
    ],
)
def test_how_a_pair_ends(
    store: Store, board: str, log: str, states: str, code: int, said: str
) -> None:
    outcome = carry_out(store, response(log_host=log, **{"for": "60s"}), board=board)
    run = store.get(outcome.id)
    steps = run.document["steps"][:2]
    assert [one["state"] for one in steps] == states.split()
    assert int(outcome.exit_code) == code
    assert said in " ".join(one["reason"] for one in steps)
    for one, step in zip(steps, run.steps, strict=False):
        begun = "exit" not in one["reason"] and one["state"] in ("interrupted", "complete")
        if begun and step.series:  # what came is kept on both sides
            assert any(series.totals.count for series in step.series)


@pytest.mark.parametrize(
    ("timing", "state"), [("failed", "interrupted"), ("interrupted", "interrupted"),
                          ("skipped", "skipped"), ("complete", "failed")],
)  # fmt: skip
def test_a_board_without_an_event_ends_as_its_log_host_did(timing: str, state: str) -> None:
    """It was stopped before the first one, so it is not the one that failed."""
    board = Ended("failed", "the step ended without a sample", "measure longer", cause=NOTHING)
    found, _ = joined(board, Ended(timing, "no such line", "name another"), True)
    assert found.state == state
    assert ("no such line" in found.reason) is (timing != "complete")


@pytest.mark.slow
def test_events_that_wait_for_answers_take_their_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log host raises no event before the answer to the last."""

    class Late(FakeAgent):
        def _produce(self) -> Iterator[tuple[float, bytes]]:
            return ((3 * due_s, data) for due_s, data in super()._produce())

    monkeypatch.setattr("rtgauge.target.fake.FakeAgent", Late)
    step = planned_step(KNOWN, "response", {**LINES, "samples": "10000", "interval": "10ms"})
    outcome = carry_out(store, step)
    assert outcome.state == "complete", outcome.reason
    assert store.get(outcome.id).steps[1].series[0].totals.count == 10_000


def test_a_log_host_that_cannot_be_reached(store: Store) -> None:
    with pytest.raises(Exception, match="there is no agent"):
        carry_out(store, response(log_host="fake:missing"))
    assert store.runs() == []  # it is known before anything is started


@pytest.mark.slow
def test_a_run_that_is_stopped_stops_the_log_host_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no event is left without an answer by the stop."""
    order = Order(monkeypatch)

    class Stopping(Watcher):
        def act(self, live: LiveStep) -> None:
            if len(live.series) > 2 and self.signs == 100:
                os.kill(os.getpid(), signal.SIGINT)

    outcome = carry_out(store, response(), response(), watcher=Stopping())
    steps = store.get(outcome.id).document["steps"]
    assert (outcome.state, int(outcome.exit_code)) == ("interrupted", 4)
    assert [one["state"] for one in steps[:4]] == ["interrupted"] * 2 + ["skipped"] * 2
    assert order.done[-2:] == [("stop", "log-host"), ("stop", "response")]


class Busy(FakeTarget):
    """Another agent measures when the board is first asked to answer."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._times = times

    def start(self, arguments: Sequence[str]) -> FakeAgent:
        if arguments[1] == "response" and self._times:
            self._left["busy"], self._times = self._times, 0
        return super().start(arguments)


@pytest.mark.slow
@pytest.mark.parametrize("side", [0, 1])
def test_a_pair_waits_until_another_agent_has_ended(store: Store, side: int) -> None:
    watcher = Watcher()
    step = response(log_host="fake:busy=2" if side else "fake")
    board = FakeTarget() if side else Busy(2)
    (outcome,) = execute(Plan("test", (step, step)), [board], store, watcher)
    assert outcome.state == "complete", outcome.reason
    run = store.get(outcome.id)
    reasons = [one["reason"] for one in run.document["steps"][:4]]
    assert reasons[side].startswith("waited") and not any(reasons[2:])
    assert not reasons[1 - side]
    name = ("fake", "fake:busy=2")[side]
    said = [text for text in watcher.messages if text.startswith(f"{name}: another agent")]
    assert len(said) == 1
    assert all(series.totals.count for step in run.steps[:4] for series in step.series)


@pytest.mark.slow
def test_a_board_that_is_busy_after_its_log_host_is_waited_for(store: Store) -> None:
    class BusyLater(Busy):
        def start(self, arguments: Sequence[str]) -> FakeAgent:
            agent = super().start(arguments)
            self._times = int(arguments[1] == "response" and not self._busy)
            self._busy = self._busy or bool(self._times)
            return agent

        _busy = False

    (outcome,) = execute(Plan("test", (response(log_host="fake:busy=1"),)), [BusyLater(0)], store)
    assert outcome.state == "complete", outcome.reason
    assert store.get(outcome.id).document["steps"][0]["reason"].startswith("waited")


@pytest.mark.slow
@pytest.mark.parametrize("side", [0, 1])
def test_a_pair_does_not_wait_for_ever(store: Store, side: int) -> None:
    step = response(log_host="fake:busy=999" if side else "fake")
    timer = planned_step(KNOWN, "timer", {"for": "1s"})
    board = FakeTarget() if side else Busy(999)
    (outcome,) = execute(Plan("test", (step, timer)), [board], store)
    steps = store.get(outcome.id).document["steps"]
    states = [one["state"] for one in steps[:3]]
    # the board itself can measure while its log host is busy
    other = ["interrupted", "failed", "complete"] if side else ["failed", "skipped", "skipped"]
    assert (outcome.state, states) == ("failed", other)
    assert "Waited 2 min" in steps[side]["reason"]


class Linked(FakeTarget):
    """A target behind a thin link."""

    lost, reconnect_s = "", 0.0
    bandwidth = 1.0
    connection: ClassVar[dict[str, Any]] = {}

    def regain(self, _stop: Callable[[], bool]) -> str:
        raise AssertionError("nothing is retried")


@pytest.mark.slow
@pytest.mark.parametrize("side", [0, 1])
def test_a_link_that_is_too_thin_for_the_samples_of_a_pair(
    store: Store, monkeypatch: pytest.MonkeyPatch, side: int
) -> None:
    board = FakeTarget() if side else Linked()
    hosts = LogHosts(lambda _name: Linked() if side else FakeTarget())
    monkeypatch.setattr("rtgauge.engine.study.LogHosts", lambda *_: hosts)
    (outcome,) = execute(Plan("test", (response(),)), [board], store)
    assert outcome.state == "complete", outcome.reason
    run = store.get(outcome.id)
    for at, step in enumerate(run.steps[:2]):
        thin = at == side
        assert step.series and {one.info.histogram_only for one in step.series} == {thin}
        assert ("the link carries" in run.document["steps"][at]["reason"]) is thin


def test_the_samples_of_a_board_come_as_often_as_the_events() -> None:
    def needed(**given: str) -> tuple[float, float]:
        made = paired(Plan("test", (response(**given),)), FakeTarget(), LogHosts()).steps
        return pair_bytes_per_s(made[0], KNOWN, made[1], KNOWN)

    often, seldom = needed(interval="1ms"), needed(interval="100ms")
    assert all(one > 5 * other for one, other in zip(often, seldom, strict=True))


# --- what a plan says, and what the lab adds -----------------------------------------------------


def test_a_plan_names_the_log_host_for_all_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        "[plan]\nlog-host = 'ssh://pi'\nlog-line = 'gpio:0:1:2'\n"
        "[[step]]\nmeasurement = 'response'\n[[step]]\nmeasurement = 'timer'\n"
        "[[step]]\nmeasurement = 'response'\nlog-host = 'fake'\n"
    )
    steps = read_plan(path, KNOWN).steps
    assert [(one.log_host, one.log_line) for one in steps] == [
        ("ssh://pi", "gpio:0:1:2"), ("", ""), ("fake", "gpio:0:1:2"),
    ]  # fmt: skip


@pytest.mark.slow
def test_options_of_the_log_hosts_own(store: Store, rtgauge: Run, tmp_path: Path) -> None:
    board, log, *_ = store.get(carry_out(store, response(log_set="priority=90")).id).document[
        "steps"
    ]
    assert log["parameters"]["priority"] == "90"
    assert "priority" not in board["parameters"]
    path = tmp_path / "a.toml"
    path.write_text(
        "[plan]\nlog-host = 'fake'\nlog-line = 'gpio:0:1:2'\nlog-set = 'priority=90'\n"
        "[[step]]\nmeasurement = 'response'\n"
        "[[step]]\nmeasurement = 'response'\nlog-set = 'priority=0'\n"
    )
    assert [one.log_set for one in read_plan(path, KNOWN).steps] == ["priority=90", "priority=0"]
    words = [word for name, text in LINES.items() for word in (f"--{name}", text)]
    words = ["run", "response", "--target", "fake", *words, "--for", "2s", "--log-set"]
    done = rtgauge(*words, "priority=70", "--json")
    log = json.loads(done.out)["runs"][0]["steps"][1]
    assert (done.code, log["parameters"]["priority"]) == (0, "70")
    for wrong, said in (
        ("priority", "'priority' is not NAME=VALUE"),
        ("priority=1 priority=2", "given twice"),
        ("interval=1ms", "'interval' cannot be set for the log host alone"),
        ("line=a", "cannot be set for the log host alone"),
        ("prority=1", "no option 'prority'"),
        ("priority=100", "priority"),
    ):
        refused = rtgauge(*words, wrong)
        assert (refused.code, said in refused.err) == (ExitCode.USAGE, True), refused.err


def test_only_what_answers_has_a_log_host(rtgauge: Run) -> None:
    asked = rtgauge("run", "timer", "--target", "fake", "--log-host", "fake")
    assert asked.code == ExitCode.USAGE
    assert "measurement 'timer' does not answer events" in asked.err


@pytest.mark.slow
def test_from_the_command_line(rtgauge: Run) -> None:
    words = [word for name, text in LINES.items() for word in (f"--{name}", text)]
    done = rtgauge("run", "response", "--target", "fake", *words, "--for", "5s", "--json")
    assert done.code == 0, done.err
    assert [one["measurement"] for one in json.loads(done.out)["runs"][0]["steps"]][:2] == [
        "response",
        "log-host",
    ]
    alone = rtgauge("log-host", "--target", "fake", "--line", "gpio:0:1:2", "--for", "2s")
    assert alone.code == 0, alone.err
    assert "log-host" in alone.out
    bare = rtgauge("run", "response", "--target", "fake", "--log-host", "fake", "--for", "1s")
    assert bare.code == ExitCode.USAGE
    assert "no lines were given for log host" in bare.err
    lab = rtgauge("run", "response", "--target", "fake", "--log-host", "lab", "--for", "1s")
    assert lab.code == ExitCode.USAGE
    assert "no log host of its own" in lab.err


class OfTheLab(FakeTarget):
    """A board whose lines are outside, as far as pairs need to know it."""

    log_host = "fake"
    answer_line = "gpio:pl061:1:2"

    def log_line(self, line: str) -> str:
        return line


def steps_of(step: PlannedStep) -> list[dict[str, Any]]:
    made = paired(Plan("test", (step,)), OfTheLab(), LogHosts())
    return [{"of": one.measurement, "host": one.log_host, **one.parameters} for one in made.steps]


def test_a_board_of_the_lab_has_its_own_log_host() -> None:
    bare = {"for": "1s"}
    expected = [
        {"of": "response", "host": "fake", "line": "gpio:pl061:1:2"},
        {"of": "log-host", "host": "fake", "for": "1s", "answered-by": "user"},
    ]
    assert steps_of(planned_step(KNOWN, "response", bare)) == expected
    assert steps_of(planned_step(KNOWN, "response", {**bare, "log-host": "lab"})) == expected
    looped = planned_step(KNOWN, "response", {**bare, "line": "loopback:pl061:0:1"})
    assert [one["of"] for one in steps_of(looped)] == ["response"]
    several = steps_of(planned_step(KNOWN, "response", {**bare, "context": "irq,user"}))
    assert [one.get("context", one.get("answered-by")) for one in several] == [
        "irq", "irq", "user", "user",
    ]  # fmt: skip
    endless = steps_of(planned_step(KNOWN, "response", {}))
    assert endless[1]["samples"] == "1000"


def test_the_boards_lines_as_the_log_host_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Board:
        lines, chip_path = Path("/run/lines"), "/machine/device[6]"

    target = LabTarget("arm64-rt-6.1,lines=outside")
    monkeypatch.setattr(target, "_started", Board)
    expected = "virtual:/run/lines:/machine/device[6]:2:1"
    assert target.log_line(target.answer_line) == expected
    assert target.log_line("gpio:gpiochip0:1:2") == expected
    for line in ("", "net:7007", "gpio:other:1:2", "gpio:gpiochip0:1"):
        with pytest.raises(UsageError, match="not a pair of lines"):
            target.log_line(line)
    assert LabTarget("arm64-rt-6.1").log_host == ""
    rung = LabTarget("x86_64-rt-6.1,lines=outside")
    monkeypatch.setattr(rung, "_started", Board)
    expected = "virtual:doorbell:/run/lines:2:1"
    assert rung.log_line(rung.answer_line) == expected
    assert rung.log_line("gpio:gpiochip0:1:2") == expected
    doorbell = LabTarget("arm64-rt-6.1,lines=doorbell")
    monkeypatch.setattr(doorbell, "_started", Board)
    assert doorbell.log_line(doorbell.answer_line) == expected
    for line in ("gpio:gpiochip0:1:2", "gpio:9030000.pl061:1:2"):  # the machine's own chip
        with pytest.raises(UsageError, match="not a pair of lines"):
            doorbell.log_line(line)
