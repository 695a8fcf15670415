# SPDX-License-Identifier: Apache-2.0
"""Links that are too thin for samples, and links that break, on the fake target."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from rtgauge import text
from rtgauge.catalogue import Catalogue
from rtgauge.engine.link import MARGIN, needed_bytes_per_s
from rtgauge.engine.live import LiveStep
from rtgauge.engine.run import RunOutcome
from rtgauge.engine.study import execute
from rtgauge.errors import ExitCode
from rtgauge.plan import Plan, planned_step
from rtgauge.report import Source, write
from rtgauge.report.results import model
from rtgauge.store import Store
from rtgauge.target.base import Pace
from rtgauge.target.fake import CATALOGUE, FakeAgent, FakeTarget
from rtgauge.text import plain
from test_run import Watcher

KNOWN = Catalogue.from_document(dict(CATALOGUE))


def needed(online: set[int], **given: str) -> float:
    return needed_bytes_per_s(planned_step(KNOWN, "timer", given), KNOWN, online)


def test_what_samples_need() -> None:
    one = needed({0}, interval="1ms")
    assert one >= len(KNOWN.measurement("timer").series) * 4 * 1000
    assert needed({0}, interval="100us") > 8 * one
    assert 3.5 * one < needed({0, 1, 2, 3}, interval="1ms") < 4 * one
    assert needed({0, 1, 2, 3}, interval="1ms", cpu="2") == one
    assert needed({0}, interval="10s") < 1000
    assert needed({0}, interval="1ms", samples="300") < one / 5


class Linked(FakeTarget):
    """Somewhere else."""

    def __init__(self, detail: str, bandwidth: float) -> None:
        super().__init__(detail)
        self.bandwidth = bandwidth
        self.lost = ""
        self.reconnect_s = 0.0
        self.connection = {"folder": "/tmp/x", "link": plain(text.bandwidth(bandwidth))}

    def regain(self, _stop: Callable[[], bool]) -> str:
        raise AssertionError("nothing is retried")


def carry_out(store: Store, target: Linked, steps: int = 1) -> tuple[RunOutcome, Watcher]:
    watcher = Watcher()
    step = planned_step(KNOWN, "timer", {"for": "2s", "interval": "1ms", "cpu": "0"})
    (outcome,) = execute(Plan("test", (step,) * steps), [target], store, watcher)
    return outcome, watcher


@pytest.mark.slow
@pytest.mark.parametrize("enough", [False, True])
def test_a_link_that_is_too_thin_for_samples(store: Store, enough: bool) -> None:
    rate = needed({0}, interval="1ms", **{"for": "2s"}) * MARGIN
    outcome, watcher = carry_out(store, Linked("", rate * (1.01 if enough else 0.99)))
    assert outcome.state == "complete"
    source = Source([store.get(outcome.id)])
    model.validate(source.model)
    run = source.model["runs"][0]
    assert run["environment"]["connection"]["folder"] == "/tmp/x"
    for name in ("report.html", "report.md"):
        write(source, Path(name))
        text = Path(name).read_text()
        assert "/tmp/x, link " in text
        assert name.endswith("md") or ("the link carries" in text) is not enough
    step = next(step for step in run["steps"] if step["measurement"] == "timer")
    series = [one for one in store.get(outcome.id).steps[step["step"]].series]
    assert series
    assert {one.info.histogram_only for one in series} == {not enough}
    said = [text for text in watcher.messages if "histograms only" in text]
    assert len(said) == (0 if enough else 1)
    assert ("the link carries" in step["reason"]) is not enough


@pytest.mark.parametrize("retried_s", [0.0, 600.0])
def test_after_a_lost_connection_nothing_is_begun(
    store: Store, monkeypatch: pytest.MonkeyPatch, retried_s: float
) -> None:
    """Its agent has retried as long as it may."""
    target = Linked("", 1e9)
    target.reconnect_s = retried_s

    class Cut(FakeAgent):
        def read(self, timeout: float) -> bytes | None:
            data = super().read(timeout)
            if data and len(data) > 100:
                target.lost = "cut"
                return b""
            return data

        def wait(self, timeout: float) -> int | None:
            return int(ExitCode.INTERRUPTED) if target.lost else super().wait(timeout)

        def messages(self) -> str:
            return "the connection was lost\nrun it once more"

    monkeypatch.setattr("rtgauge.target.fake.FakeAgent", Cut)
    outcome, _ = carry_out(store, target, steps=3)
    assert outcome.state == "interrupted"
    assert outcome.exit_code == ExitCode.INTERRUPTED
    assert "the connection was lost" in outcome.reason
    states = [step["state"] for step in store.get(outcome.id).document["steps"]]
    assert states.count("interrupted") == 1
    assert states.count("skipped") == len(states) - 1


@pytest.mark.parametrize("lost_from", [0, 2])
def test_a_run_that_lost_its_connection_between_two_steps_is_not_complete(
    store: Store, monkeypatch: pytest.MonkeyPatch, lost_from: int
) -> None:
    target = Linked("", 1e9)
    steps = 0

    class Whole(FakeAgent):
        def close(self) -> None:
            nonlocal steps
            super().close()
            if steps >= lost_from:
                target.lost = "the board was restarted"
            steps += 1

    monkeypatch.setattr("rtgauge.target.fake.FakeAgent", Whole)
    outcome, _ = carry_out(store, target, steps=3)
    document = store.get(outcome.id).document
    states = [step["state"] for step in document["steps"]]
    assert states.count("complete") == steps == lost_from + 1
    assert states.count("skipped") == len(states) - steps
    assert (outcome.state, outcome.exit_code) == ("interrupted", ExitCode.INTERRUPTED)
    assert document["state"] == "interrupted"
    assert "connection was lost" in outcome.reason
    assert outcome.remedy


class Late(FakeAgent):
    """Its samples arrive for half a minute after the order to end."""

    killed = False
    until: float | None = None

    def read(self, timeout: float) -> bytes | None:
        if self.until is not None and self._clock.monotonic() > self.until:
            super().stop()
        return super().read(timeout)

    def stop(self) -> None:
        self.until = self._clock.monotonic() + 30

    def kill(self) -> None:
        type(self).killed |= self._code is None and not self._stopped
        super().kill()


class Behind(Late):
    """Its samples are kept where it is."""

    away = ""


class Stopping(Watcher):
    """Stops a step, once."""

    stopped = False

    def act(self, live: LiveStep) -> None:
        if live.step.measurement == "timer" and live.has_results and not self.stopped:
            self.stopped = True
            os.kill(os.getpid(), signal.SIGINT)


HOUR = planned_step(KNOWN, "timer", {"for": "1h", "interval": "10ms", "cpu": "0"})


@pytest.mark.parametrize("kept", [True, False])
def test_what_still_arrives_after_a_stop_is_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    class Silent(Behind):
        def read(self, timeout: float) -> bytes | None:
            data = super().read(timeout)
            return data if self.until is None or not data else None

    agent = Behind if kept else Silent
    monkeypatch.setattr(agent, "killed", False)
    monkeypatch.setattr("rtgauge.target.fake.FakeAgent", agent)
    (outcome,) = execute(Plan("test", (HOUR,)), [Linked("", 1e9)], store, Stopping())
    assert outcome.state == "interrupted"
    assert agent.killed is not kept


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_a_target_that_is_slow_has_longer_to_end(
    store: Store, monkeypatch: pytest.MonkeyPatch, scale: float
) -> None:
    class Emulated(FakeTarget):
        pace = Pace(scale=scale)

    monkeypatch.setattr(Late, "killed", False)
    monkeypatch.setattr("rtgauge.target.fake.FakeAgent", Late)
    execute(Plan("test", (HOUR,)), [Emulated()], store, Stopping())
    assert Late.killed is (scale == 1.0)


@pytest.mark.parametrize("connected", [True, False])
def test_samples_that_a_slow_link_delays_are_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch, connected: bool
) -> None:
    class Slow(FakeAgent):
        def read(self, timeout: float) -> bytes | None:
            data = super().read(timeout)
            self._clock.sleep(15 if data else 0)
            return data

    class Connected(Slow):
        away = ""

    monkeypatch.setattr("rtgauge.target.fake.FakeAgent", Connected if connected else Slow)
    step = planned_step(KNOWN, "timer", {"for": "4s", "interval": "10ms", "cpu": "0"})
    (outcome,) = execute(Plan("test", (step,)), [Linked("", 1e9)], store)
    assert outcome.state == ("complete" if connected else "failed")


@pytest.mark.slow
def test_an_order_to_end_waits_for_the_connection(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log host ends while its board cannot be reached for a minute."""
    killed = []

    class Away(FakeAgent):
        back: float | None = None

        @property
        def away(self) -> str:
            gone = self.back is not None and self._clock.monotonic() < self.back
            return "no answer" if gone else ""

        def read(self, timeout: float) -> bytes | None:
            if self.away:
                self._clock.sleep(timeout)
                return None
            if self.back is not None:
                super().stop()
            return super().read(timeout)

        def stop(self) -> None:
            if self._request.measurement.name != "response":
                super().stop()
            elif self.back is None:
                self.back = self._clock.monotonic() + 60

        def kill(self) -> None:
            if self._code is None:
                killed.append(self._request.measurement.name)
            super().kill()

    monkeypatch.setattr("rtgauge.target.fake.FakeAgent", Away)
    given = {"line": "gpio:a:1:2", "log-host": "fake", "log-line": "gpio:b:3:4", "for": "5s"}
    step = planned_step(KNOWN, "response", given)
    (outcome,) = execute(Plan("test", (step,)), [Linked("", 1e9)], store, Watcher())
    assert (outcome.state, killed) == ("complete", [])
