# SPDX-License-Identifier: Apache-2.0
"""Carrying out plans on the fake target: every way in which a step and a run can end."""

from __future__ import annotations

import errno
import html
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rtgauge.engine.environment
import rtgauge.engine.run
import rtgauge.engine.watch
from rtgauge import report
from rtgauge.audit import audit
from rtgauge.catalogue import Catalogue
from rtgauge.engine.environment import lacking, read_facts
from rtgauge.engine.live import LiveStep
from rtgauge.engine.run import RunOutcome
from rtgauge.engine.study import Interruption, execute
from rtgauge.engine.watch import Limits
from rtgauge.errors import NO_MODULE_REMEDY, ExitCode, StoreError, TargetError, UsageError
from rtgauge.plan import Plan, endless, planned_step
from rtgauge.report.render import terminal
from rtgauge.report.results import model
from rtgauge.report.results.points import negative_points
from rtgauge.store import Store
from rtgauge.store.bundle import export_run
from rtgauge.store.folder import ENVIRONMENT, StreamFile
from rtgauge.stream import StreamWriter
from rtgauge.target import open_target
from rtgauge.target.fake import CATALOGUE, FakeAgent, FakeTarget
from rtgauge.text import plain

KNOWN = Catalogue.from_document(dict(CATALOGUE))


def plan(*steps: tuple[str, dict[str, str]], **more: Any) -> Plan:
    return Plan("test", tuple(planned_step(KNOWN, name, given) for name, given in steps), **more)


def timer(**given: str) -> Plan:
    return plan(("timer", {"for": "4s", "load": "sched", **given}))


def carry_out(store: Store, target: str, wanted: Plan | None = None) -> RunOutcome:
    (outcome,) = execute(wanted or timer(), [open_target(target)], store)
    return outcome


class Watcher:
    """Writes down what happens, and calls ``act`` at every sign of life."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int, int]] = []
        self.lives: list[LiveStep] = []
        self.entries: list[Mapping[str, Any]] = []
        self.messages: list[str] = []
        self.signs = 0

    def act(self, live: LiveStep) -> None: ...

    def run_started(self, document: Mapping[str, Any], number: int, total: int) -> None:
        assert document["state"] == "running"

    def step_started(self, live: LiveStep, number: int, total: int) -> None:
        self.steps.append((live.step.measurement, number, total))
        self.lives.append(live)

    def step_went_on(self, live: LiveStep) -> None:
        self.signs += 1
        self.act(live)

    def step_ended(self, live: LiveStep, entry: Mapping[str, Any]) -> None:
        self.entries.append(dict(entry))

    def run_ended(self, outcome: RunOutcome) -> None: ...

    def message(self, text: str) -> None:
        self.messages.append(text)

    def of_target(self, name: str) -> Watcher:
        self.messages.append(f"next to {name}")
        return self


def test_a_complete_run(store: Store) -> None:
    watcher = Watcher()
    wanted = plan(
        ("timer", {"for": "4s", "cpu": "1"}),
        ("pendulum", {"for": "2s", "load": "cpu", "cpu": "1"}),
        label="mine",
    )
    (outcome,) = execute(wanted, [open_target("fake")], store, watcher)
    assert (outcome.state, outcome.exit_code) == ("complete", ExitCode.DONE)
    run = store.get(outcome.id)
    document = run.document
    assert (document["label"], document["target"], document["study"]) == ("mine", "fake", "")
    assert document["started"] == "2024-01-01T00:00:00.000Z"
    assert document["catalogue"] == CATALOGUE
    assert document["findings"]
    assert document["environment"]["kernel"]
    # Calibrations are carried out first, and listed last.
    assert [name for name, _, _ in watcher.steps] == ["clock-cost", "timer", "pendulum"]
    assert [one["measurement"] for one in document["steps"]] == ["timer", "pendulum", "clock-cost"]
    assert [one["role"] for one in document["steps"]] == ["measurement"] * 2 + ["calibration"]
    assert [one["step"] for one in document["steps"]] == [0, 1, 2]
    assert {one["state"] for one in document["steps"]} == {"complete"}
    assert document["steps"][2]["parameters"] == {"cpu": "1"}
    assert (run.path / "environment.cbor").stat().st_size > 0
    assert not list(run.path.glob("steps/*/stream.cbor"))
    headers = [step.header for step in run.steps]
    assert [(one.step, one.run) for one in headers if one] == [(n, outcome.id) for n in range(3)]


def test_the_live_view_agrees_with_what_is_stored(store: Store) -> None:
    watcher = Watcher()
    (outcome,) = execute(timer(), [open_target("fake")], store, watcher)
    live = watcher.lives[1]
    for stored in store.get(outcome.id).steps[0].series:
        seen = live.series[stored.info.series]
        values = [value for part in stored.values() for value in part.tolist()]
        assert len(values) == 4000
        assert (seen.count, seen.min, seen.max, seen.sum) == (
            len(values), min(values), max(values), sum(values),
        )  # fmt: skip
        assert seen.mean == sum(values) / len(values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "state", "code", "reason", "kept"),
    [
        ("fake", "complete", 0, "", 4000),
        ("fake:noisy", "complete", 0, "", 4000),
        ("fake:unprivileged", "complete", 0, "", 4000),
        ("fake:lost", "complete", 0, "lost on the way: 3 records of the stream", 4000),
        ("fake:cut", "failed", 1, "the agent crashed (SIGSEGV)", 2000),
        ("fake:garbage", "failed", 1, "the stream is damaged: record", 2000),
        ("fake:hostile", "failed", 1, "the stream is damaged: record 0", None),
        ("fake:newer", "failed", 1, "version 99", None),
        ("fake:exit=1", "failed", 1, "something went wrong", None),
        ("fake:exit=77", "skipped", 77, "something went wrong", None),
        ("fake:exit=4", "interrupted", 4, "something went wrong", None),
        ("fake:exit=0", "failed", 1, "something went wrong", None),
        ("fake:refuses", "failed", 2, "CPU 99", None),
        ("fake:fails", "failed", 1, "CPU 1 went away", 2000),
        ("fake:mute", "failed", 1, "ended without a sample", 0),
        ("fake:load-dies", "failed", 1, "load sched died", 2000),
        ("fake:load-stalls", "failed", 1, "load sched stopped working: killed", 4000),
        ("fake:babbles", "failed", 1, "the stream is damaged: record", 2000),
        ("fake:skipped", "skipped", 77, "no such device", None),
        ("fake:silent", "failed", 1, "sent nothing for 20 s", 2250),
        ("fake:hang", "failed", 1, "sent nothing for 20 s", 2000),
        ("fake:overtime", "failed", 1, "did not end in time", 64_500),
        ("fake:stubborn", "failed", 1, "did not end in time", 74_500),
    ],
)
def test_how_a_run_ends(
    store: Store, target: str, state: str, code: int, reason: str, kept: int | None
) -> None:
    outcome = carry_out(store, target)
    assert (outcome.state, outcome.exit_code) == (state, code)
    run = store.get(outcome.id)
    step = run.document["steps"][0]
    assert step["state"] == state
    assert reason in step["reason"]
    assert "\n" not in step["reason"] + step["remedy"]
    assert run.document["steps"][1]["state"] == "complete"
    if state != "complete":
        assert step["reason"]
        assert step["reason"] in outcome.reason
    if kept is not None:
        assert [series.count for series in run.steps[0].series] == [kept, kept]


def test_what_cannot_be_measured_is_told_before_the_first_step(store: Store) -> None:
    watcher = Watcher()
    wanted = plan(("timer", {"for": "1s"}), ("telescope", {"for": "1s"}))
    told: list[list[str]] = []
    watcher.act = lambda live: told.append(list(watcher.messages))  # type: ignore[method-assign]
    execute(wanted, [open_target("fake:unprivileged")], store, watcher)
    assert told[0] == watcher.messages
    priority, remedy, module, load = watcher.messages
    assert priority == (
        "fake:unprivileged: real-time priority is not permitted. The latencies "
        "belong to an ordinary task"
    )
    assert remedy.startswith("  allow the user real-time priority, and log in again: printf '%s")
    assert remedy.endswith("/90-rtgauge.conf")
    assert module.endswith("the kernel module rtgauge is not loaded. 1 of 2 steps will be skipped")
    assert load == "  build and load it: rtgauge module load"


@pytest.mark.slow
def test_a_step_without_a_priority_of_its_own_has_the_default(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit asks what precedes the step with the lowest priority."""
    found: list[int] = []

    def spied(facts: Any, *, priority: int, **more: Any) -> Any:
        found.append(priority)
        return audit(facts, priority=priority, **more)

    monkeypatch.setattr("rtgauge.engine.run.audit", spied)
    raised = ("timer", {"for": "1s", "priority": "97"})
    carry_out(store, "fake", plan(raised))
    assert set(found) == {97}
    found.clear()
    carry_out(store, "fake", plan(raised, ("timer", {"for": "1s"})))
    assert set(found) == {95}


def test_priority_0_asks_for_no_right() -> None:
    (step,) = timer().steps
    facts = {"agent.fifo": 1}
    findings = [{"check": "privileges", "remedy": "run as root"}]
    ((text, remedy),) = lacking([step], KNOWN, facts, findings, "local")
    assert (text[:37], remedy) == ("real-time priority is not permitted. ", "run as root")
    step = replace(step, parameters={**step.parameters, "priority": "0"})
    assert list(lacking([step], KNOWN, facts, findings, "local")) == []
    assert list(lacking([step], KNOWN, {}, findings, "local")) == []


def test_a_kernel_without_loadable_modules_is_not_told_to_load_one() -> None:
    (step,) = plan(("telescope", {})).steps
    ((text, remedy),) = lacking([step], KNOWN, {"agent.module": errno.EOPNOTSUPP}, [], "local")
    assert text == (
        "the kernel cannot load the module rtgauge: it does not support loadable modules. "
        "1 of 1 step will be skipped"
    )
    assert remedy == "boot a kernel that was built with CONFIG_MODULES=y"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("local", "build and load it: rtgauge module load"),
        ("ssh://root@b", "build and load it: rtgauge module load --target ssh://root@b"),
        ("lab:mine", NO_MODULE_REMEDY),
    ],
)
def test_the_module_is_loaded_on_the_target(target: str, said: str) -> None:
    """The command was always that for this machine. 'module' does not support the lab's boards."""
    (step,) = plan(("telescope", {})).steps
    ((_, remedy),) = lacking([step], KNOWN, {"agent.module": errno.ENOENT}, [], target)
    assert remedy == said


def test_an_error_of_the_module_that_no_kernel_has() -> None:
    """It comes from the board."""
    (step,) = plan(("telescope", {})).steps
    ((text, _),) = lacking([step], KNOWN, {"agent.module": 2**40 + 5}, [], "local")
    assert text.startswith("the kernel module rtgauge cannot be used (")


class WithoutLines(FakeTarget):
    def wrong_line(self, text: str, *, asks: bool) -> tuple[str, str]:
        return (f"'{text}' is not a line", "use net") if asks or text == "wrong" else ("", "")


def test_a_wrong_line_is_refused_before_anything_is_measured(store: Store) -> None:
    """It was found after the calibration, and left a failed run."""
    for name, line in (("response", "wrong"), ("log-host", "gpio:a:1:2")):
        steps = plan(("timer", {}), (name, {"line": line, "for": "1s"}))
        with pytest.raises(UsageError, match=f"--line {line}: '{line}' is not a line") as refused:
            execute(steps, [WithoutLines("")], store)
        assert refused.value.remedy == "use net"
        assert store.runs() == []
    right = plan(("response", {"line": "gpio:a:1:2", "for": "1s"}))
    assert execute(right, [WithoutLines("")], store)[0].state != "failed"


@pytest.mark.parametrize(
    ("name", "remedy"), [("timer", "nothing to measure"), ("response", "check --line")]
)
def test_what_may_have_kept_all_samples_away(store: Store, name: str, remedy: str) -> None:
    """A step that answers waits for the events of another machine."""
    more = {"line": "gpio:a:1:2"} if name == "response" else {}
    outcome = carry_out(store, "fake:mute", plan((name, {"for": "1s", **more})))
    step = store.get(outcome.id).document["steps"][0]
    assert step["reason"] == "the step ended without a sample" and remedy in step["remedy"]


def test_a_step_waits_for_another_agent(store: Store) -> None:
    watcher = Watcher()
    (outcome,) = execute(timer(), [open_target("fake:busy=3")], store, watcher)
    assert outcome.state == "complete"
    (message,) = watcher.messages
    assert message == (
        "fake:busy=3: another agent, process 42, is measuring here. Waiting up to 2 min for it "
        "(a step with --keep-settings does not wait) …"
    )
    first = store.get(outcome.id).document["steps"][1]  # the calibration, which comes first
    assert (first["state"], first["reason"]) == ("complete", "waited 6 s for another agent")
    assert "first_try" not in first
    assert len(watcher.steps) == 2


def test_a_second_try_that_cannot_start_fails_its_step_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = open_target("fake:disturbed=1")
    start = target.start
    tried = 0

    def lost(arguments: Sequence[str]) -> Any:
        nonlocal tried
        if "timer" in arguments:
            tried += 1
            if tried == 2:
                raise TargetError("the connection is lost", "look for it")
        return start(arguments)

    monkeypatch.setattr(target, "start", lost)
    (outcome,) = execute(plan(("timer", {"for": "4s"}), ("pendulum", {})), [target], store)
    run = store.get(outcome.id)
    assert [one["state"] for one in run.document["steps"]] == ["failed", "complete", "complete"]
    assert run.document["steps"][0]["reason"].startswith("the connection is lost (second try)")
    export_run(run, tmp_path / "a.rtgauge")


def throttling(document: Mapping[str, Any]) -> str:
    found = {one["check"]: one["found"] for one in document["findings"]}
    return str(found["throttling"])


def test_the_settings_of_a_step_count_from_its_begin(store: Store) -> None:
    """The record of a run of days had the findings from before its own settings."""
    seen: list[Mapping[str, Any]] = []

    class Reading(Watcher):
        def act(self, live: LiveStep) -> None:
            if live.results and live.step.role == "measurement":
                (row,) = store.runs()
                seen.append(store.get(row.id).document)

    execute(timer(), [open_target("fake")], store, Reading())
    assert seen and seen[0]["state"] == "running"
    assert {throttling(one) for one in seen} == {"during the run: throttling off"}
    assert "/proc/sys/kernel/sched_rt_runtime_us" in seen[0]["environment"]["settings"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (({}, {}), "during the run: throttling off"),
        (({}, {"keep-settings": "yes"}), "throttling at 950000 of 1000000 µs"),
        (({"keep-settings": "yes"}, {}), "throttling at 950000 of 1000000 µs"),
    ],
)
def test_a_setting_of_some_steps_is_not_that_of_the_run(
    store: Store, options: tuple[dict[str, str], ...], found: str
) -> None:
    wanted = plan(*(("timer", {"for": "1s", **one}) for one in options))
    outcome = carry_out(store, "fake", wanted)
    assert found in throttling(store.get(outcome.id).document)


def test_two_values_of_a_setting_are_not_that_of_the_run(store: Store) -> None:
    """The audit showed that of the last step."""

    class Setter(Watcher):
        def act(self, live: LiveStep) -> None:
            value = "900000" if live.step.text("irq-priority") == "60" else "800000"
            live.settings[:] = [replace(one, effective=value) for one in live.settings]

    def found(*priorities: str) -> str:
        steps = (("timer", {"for": "1s", "irq-priority": one}) for one in priorities)
        (outcome,) = execute(plan(*steps), [open_target("fake")], store, Setter())
        return throttling(store.get(outcome.id).document)

    assert "800000" in found("50", "50")
    assert "throttling at 950000 of 1000000 µs" in found("50", "60")


def test_the_host_does_not_audit_while_a_step_measures(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It competes with the step for the CPUs of its own machine."""
    measuring: list[bool] = []
    watcher = Watcher()

    def audited(*args: Any, **kwargs: Any) -> Any:
        live = watcher.lives[-1] if watcher.lives else None
        measuring.append(live is not None and bool(live.series) and live.trailer is None)
        return audit(*args, **kwargs)

    monkeypatch.setattr(rtgauge.engine.run, "audit", audited)
    wanted = plan(("timer", {"for": "1s"}), ("pendulum", {"for": "1s"}))
    execute(wanted, [open_target("fake")], store, watcher)
    assert measuring and not any(measuring)


def test_the_settings_of_another_agent_are_not_those_of_the_run(store: Store) -> None:
    class Shared(FakeTarget):
        """Another agent changes a setting until the first step waits for it."""

        def _facts(self) -> dict[str, str | int | None]:
            facts = super()._facts()
            return (
                {**facts, "/proc/sys/kernel/timer_migration": "0"} if self._left["busy"] else facts
            )

    (outcome,) = execute(timer(), [Shared("busy=1")], store)
    run = store.get(outcome.id)
    found = {one["check"]: one["found"] for one in run.document["findings"]}
    assert found["timer-migration"] == "on"
    _, facts, _ = read_facts((run.path / ENVIRONMENT).read_bytes())
    assert facts["/proc/sys/kernel/timer_migration"] == "1"


@pytest.mark.parametrize("busy", ["", "busy=1"])
def test_an_agent_that_measures_between_the_steps_leaves_no_facts(store: Store, busy: str) -> None:
    """It measured again when the environment was read after the wait. 'compare' then reported its
    settings as a difference of the systems."""
    name = "/proc/sys/kernel/sched_rt_runtime_us"

    class Shared(FakeTarget):
        def environment(self) -> bytes:
            self.elsewhere = {name: "-1"}
            try:
                return super().environment()
            finally:
                self.elsewhere = {}

        def _facts(self) -> dict[str, str | int | None]:
            return {**super()._facts(), **self.elsewhere}

    target = Shared(busy)
    target.elsewhere = {}
    seen: list[Any] = []

    class Reading(Watcher):
        def act(self, live: LiveStep) -> None:
            if live.results and live.step.role == "measurement":
                (row,) = store.runs()
                seen.append(store.get(row.id).document["environment"])

    (outcome,) = execute(timer(), [target], store, Reading())
    seen.append(store.get(outcome.id).document["environment"])
    assert {one["kernel"]["scheduler"]["sched_rt_runtime_us"] for one in seen} == {"950000"}


@pytest.mark.parametrize("fault", ["unready", "skipped", "killed"])
def test_the_settings_of_a_step_without_results_are_not_those_of_the_run(
    store: Store, fault: str
) -> None:
    class Changing(FakeTarget):
        """The first step that measures fails, and its agent had changed another setting."""

        broken = False

        def start(self, arguments: Sequence[str]) -> FakeAgent:
            agent = super().start(arguments)
            if not self.broken and arguments[1] == "timer":
                self.broken = True
                agent._faults[fault] = ""
                agent._setting, agent._writer = "/sys/of/the/first", StreamWriter()
                agent._blocks = agent._produce()
                agent._due, agent._next = next(agent._blocks)
                if fault == "killed":
                    agent._blocks, agent._code = iter(()), -signal.SIGKILL
            return agent

    given = {"for": "1s"}
    (outcome,) = execute(plan(("timer", given), ("timer", given)), [Changing()], store)
    run = store.get(outcome.id)
    states = [one["state"] for one in run.document["steps"]]
    assert states[0] != "complete" and states[1] == "complete"
    assert [one.name for one in run.steps[0].settings] == ["/sys/of/the/first"]
    taken = {"/proc/sys/kernel/sched_rt_runtime_us"}
    assert set(run.document["environment"]["settings"]) == taken
    (document,) = model.build([run])["runs"]
    assert set(document["environment"]["settings"]) == taken


@pytest.mark.slow
def test_after_two_minutes_no_step_waits(store: Store) -> None:
    target = open_target("fake:busy=9999")
    (outcome,) = execute(timer(), [target], store)
    assert (outcome.state, outcome.exit_code) == ("failed", ExitCode.FAILED)
    assert "process 42, is measuring here. Waited 2 min for it to end" in outcome.reason
    assert outcome.remedy == "end it: kill 42"
    steps = store.get(outcome.id).document["steps"]
    assert [one["state"] for one in steps] == ["skipped", "failed"]
    assert steps[0]["reason"] == steps[1]["reason"]
    assert 120 <= target.clock.monotonic() < 130


def test_waiting_for_another_agent_can_be_stopped(store: Store) -> None:
    watcher = Watcher()

    def stop(text: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    watcher.message = stop  # type: ignore[method-assign]
    (outcome,) = execute(timer(), [open_target("fake:busy=9999")], store, watcher)
    assert outcome.state == "interrupted"
    assert {one["state"] for one in store.get(outcome.id).document["steps"]} == {"skipped"}


def test_a_disturbed_step_is_tried_once_more(store: Store) -> None:
    watcher = Watcher()
    (outcome,) = execute(timer(), [open_target("fake:disturbed=1")], store, watcher)
    assert outcome.state == "complete"
    run = store.get(outcome.id)
    reason = "a thread of the measurement did not end within a second"
    assert run.document["steps"][0]["first_try"] == {
        "state": "failed", "reason": reason, "remedy": "re-run on an idle machine"
    }  # fmt: skip
    assert run.document["steps"][0]["reason"] == f"repeated, because the first try failed: {reason}"
    assert watcher.messages == [f"step 1 (timer): {reason}. Trying once more …"]
    assert [series.count for series in run.steps[0].series] == [4000, 4000]  # of one try
    (document,) = model.build([run])["runs"]
    assert document["steps"][0]["first_try"]["reason"] == reason
    model.validate({"format": "rtgauge-results", "version": 2, "runs": [document], "bounds": []})


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["html", "md"])
def test_the_report_tells_of_waits_and_second_tries(
    store: Store, tmp_path: Path, suffix: str
) -> None:
    outcome = carry_out(store, "fake:busy=3,disturbed=1")
    path = tmp_path / f"report.{suffix}"
    report.write([store.get(outcome.id)], path)
    words = " ".join(html.unescape(plain(path.read_text("utf-8"))).split())
    first = "the first try failed: a thread of the measurement did not end within a second."
    assert "clock-cost (step 2): Waited 6 s for another agent." in words
    assert f"timer (step 1): Repeated, because {first}" in words


def test_a_step_is_not_tried_three_times(store: Store) -> None:
    outcome = carry_out(store, "fake:disturbed=2")
    assert outcome.state == "failed"
    step = store.get(outcome.id).document["steps"][0]
    assert "(second try). The first try failed: a thread" in step["reason"]
    assert step["first_try"]["state"] == "failed"


@pytest.mark.slow
def test_an_agent_whose_stream_is_damaged_is_stopped(store: Store) -> None:
    """It is not waited for: nothing that it still says can be used."""
    watcher = Watcher()
    wanted = timer(**{"for": "1h", "interval": "10ms"})
    (outcome,) = execute(wanted, [open_target("fake:babbles")], store, watcher)
    assert outcome.state == "failed"
    assert 1800 < watcher.lives[1].elapsed_s < 1810


def test_noise_that_does_not_end_when_told_is_cut_off(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rtgauge.engine.watch, "DAMAGED_BYTES", 100_000)
    monkeypatch.setattr(FakeAgent, "stop", lambda self: None)
    (outcome,) = execute(timer(), [open_target("fake:babbles")], store)
    assert (outcome.state, outcome.exit_code) == ("failed", ExitCode.FAILED)
    assert "the stream is damaged" in outcome.reason
    end = store.get(outcome.id).steps[0].end
    assert 100_000 < end.dropped_bytes < 300_000


@pytest.mark.parametrize("target", ["fake:load-stalls", "fake:load-dies"])
def test_run_and_results_agree_on_a_load_that_died(store: Store, target: str) -> None:
    outcome = carry_out(store, target)
    (run,) = model.build([store.get(outcome.id)])["runs"]
    document = store.get(outcome.id).document
    for key in ("state", "reason", "remedy"):
        assert run[key] == document[key]
        assert run["steps"][0][key] == document["steps"][0][key]
    assert run["state"] == "failed"


def test_a_host_that_is_behind_still_sees_everything_in_the_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that writes without a pause is read first; the live view follows when it can."""
    monkeypatch.setattr(rtgauge.engine.watch, "FEED_BYTES", 512)
    monkeypatch.setattr(rtgauge.engine.watch, "MUCH_BYTES", 1000)
    quick = FakeAgent.read
    monkeypatch.setattr(FakeAgent, "read", lambda self, timeout: quick(self, 0.25))
    watcher = Watcher()
    (outcome,) = execute(timer(), [open_target("fake")], store, watcher)
    assert outcome.state == "complete"
    assert [one.count for one in watcher.lives[1].series.values()] == [4000, 4000]
    assert any("faster than" in text for text in watcher.messages)


def test_a_budget_is_never_passed_without_the_priority_asked_for(store: Store) -> None:
    easy = {"budget": "1s", "rate": "3600000/h", "cpu": "0"}
    found = {}
    for target in ("fake", "fake:unprivileged"):
        outcome = carry_out(store, target, timer(**easy))
        (found[target],) = model.build([store.get(outcome.id)])["runs"]
    assert [one["result"] for one in found["fake"]["verdicts"]] == ["pass"]
    (verdict,) = found["fake:unprivileged"]["verdicts"]
    assert verdict["result"] == "inconclusive"
    assert "without the real-time priority asked for (SCHED_OTHER)" in verdict["evidence"]
    assert "check" in verdict["remedy"]
    (finding,) = [one for one in found["fake:unprivileged"]["findings"] if one["level"] == "error"]
    assert finding["check"] == "privileges"
    summary = " ".join(terminal.text({"runs": [found["fake:unprivileged"]], "bounds": []}).split())
    assert "Measured without real-time priority (SCHED_OTHER)" in summary
    assert "All requirements were met" not in summary
    assert "SCHED_OTHER" not in terminal.text({"runs": [found["fake"]], "bounds": []})
    assert any("without real-time" in p.text for p in negative_points(found["fake:unprivileged"]))


@pytest.mark.parametrize(
    ("steps", "calibrated"),
    [
        ([("telescope", {})], False),  # needs the module
        ([("response", {"samples": "10"})], False),  # without a line
        ([("telescope", {}), ("response", {"samples": "10"})], False),
        ([("telescope", {}), ("pendulum", {"for": "1s"})], True),
        ([("response", {"line": "gpio:a:1:2", "samples": "10"})], True),
    ],
)
def test_steps_that_cannot_be_measured_are_not_calibrated_for(
    store: Store, steps: list[tuple[str, dict[str, str]]], *, calibrated: bool
) -> None:
    document = store.get(carry_out(store, "fake", plan(*steps)).id).document
    names = [name for name, _ in steps] + ["clock-cost"] * calibrated
    assert [one["measurement"] for one in document["steps"]] == names


def test_a_step_that_is_known_to_be_skipped_takes_no_time(store: Store) -> None:
    watcher = Watcher()
    wanted = plan(("timer", {"for": "1s"}), ("telescope", {}), ("pendulum", {"for": "2s"}))
    execute(wanted, [open_target("fake")], store, watcher)
    left = {live.step.measurement: live.after_s for live in watcher.lives}
    assert left == {"clock-cost": 3.0, "timer": 2.0, "telescope": 2.0, "pendulum": 0.0}


def test_only_what_was_asked_for_decides_whether_all_was_skipped(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtgauge.engine.run.is_skipped", lambda *_: False)
    one = carry_out(store, "fake", plan(("telescope", {})))
    assert (one.state, one.exit_code) == ("skipped", ExitCode.SKIPPED)
    both = carry_out(store, "fake", plan(("telescope", {}), ("pendulum", {"for": "1s"})))
    assert (both.state, both.exit_code) == ("complete", ExitCode.DONE)


def test_the_worst_state_wins_and_says_which_step(store: Store) -> None:
    outcome = carry_out(
        store, "fake:fails", plan(("telescope", {}), ("timer", {"for": "1s", "load": "sched"}))
    )
    assert outcome.state == "failed"
    assert outcome.reason == "step 2 (timer): CPU 1 went away"


def test_a_plan_that_does_not_fit_is_refused_before_anything_is_started(store: Store) -> None:
    wrong = timer(cpu="0,7")
    with pytest.raises(
        UsageError, match=r"option 'cpu': target 'fake' has no online CPU 7"
    ) as caught:
        execute(wrong, [open_target("fake")], store)
    assert "0-1" in caught.value.remedy
    with pytest.raises(UsageError, match="'load-cpu'"):
        execute(timer(**{"load-cpu": "5"}), [open_target("fake")], store)
    for target in ("fake:missing", "fake:undescribed"):
        with pytest.raises(TargetError):
            execute(timer(), [open_target("fake"), open_target(target)], store)
    assert store.runs() == []


@pytest.mark.parametrize("online", ["0-1,\u202ex", "0-9999", "1-0", "-"])
def test_a_list_of_cpus_that_is_none_stops_nobody(
    store: Store, monkeypatch: pytest.MonkeyPatch, online: str
) -> None:
    read = rtgauge.engine.environment.read_facts

    def wrong(data: bytes) -> tuple[Any, dict[str, Any], Any]:
        header, facts, settings = read(data)
        return header, facts | {"/sys/devices/system/cpu/online": online}, settings

    monkeypatch.setattr(rtgauge.engine.run, "read_facts", wrong)
    assert carry_out(store, "fake", timer(cpu="0")).state == "complete"


def signalling(number: int, at: int, times: int = 1) -> Watcher:
    watcher = Watcher()

    def act(live: LiveStep) -> None:
        if live.step.role == "measurement" and live.elapsed_s > at and times > len(sent):
            sent.append(live.elapsed_s)
            os.kill(os.getpid(), number)

    sent: list[float] = []
    watcher.act = act  # type: ignore[method-assign]
    return watcher


@pytest.fixture
def hangup() -> Iterator[None]:
    """SIGHUP as without nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_ends_in_order_and_keeps_what_there_is(store: Store, number: int) -> None:
    before = signal.getsignal(number)
    watcher = signalling(number, at=2)
    wanted = plan(("timer", {"for": "60s"}), ("pendulum", {}), repeat=5)
    outcomes = execute(wanted, [open_target("fake")], store, watcher)
    assert [one.state for one in outcomes] == ["interrupted"]
    assert outcomes[0].exit_code == ExitCode.INTERRUPTED
    assert signal.getsignal(number) == before
    run = store.get(outcomes[0].id)
    assert [one["state"] for one in run.document["steps"]] == ["interrupted", "skipped", "complete"]
    assert run.steps[0].trailer is not None
    assert run.steps[0].series[0].count == watcher.lives[1].series[0].count > 2000
    assert len(watcher.messages) == 1


@pytest.mark.usefixtures("hangup")
def test_a_terminal_that_is_closed_stops_once() -> None:
    interruption = Interruption()
    with interruption.handling():
        for _ in range(2):  # of the shell, and of the kernel
            signal.raise_signal(signal.SIGHUP)
        assert interruption.asked and not interruption.urgent
        signal.raise_signal(signal.SIGINT)
        assert interruption.urgent


@pytest.mark.usefixtures("hangup")
def test_a_run_below_nohup_is_not_stopped_by_its_terminal() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interruption = Interruption()
    with interruption.handling():
        signal.raise_signal(signal.SIGHUP)
    assert not interruption.asked
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_a_failed_step_precedes_a_signal_in_the_exit_code(store: Store) -> None:
    watcher = signalling(signal.SIGINT, at=5)
    wanted = plan(("timer", {"for": "4s", "load": "sched"}), ("timer", {"for": "60s"}))
    (outcome,) = execute(wanted, [open_target("fake:load-dies")], store, watcher)
    states = [one["state"] for one in store.get(outcome.id).document["steps"]]
    assert states[:2] == ["failed", "interrupted"]
    assert (outcome.state, outcome.exit_code) == ("failed", ExitCode.FAILED)
    assert "load sched died" in outcome.reason


def test_a_second_signal_kills_the_agent(store: Store) -> None:
    watcher = signalling(signal.SIGINT, at=2, times=2)
    (outcome,) = execute(timer(), [open_target("fake:stubborn")], store, watcher)
    assert (outcome.state, outcome.exit_code) == ("interrupted", ExitCode.INTERRUPTED)
    run = store.get(outcome.id)
    assert "killed" in run.document["steps"][0]["reason"]
    assert run.steps[0].trailer is None
    assert run.steps[0].series[0].count >= 2000


def test_an_agent_that_does_not_stop_when_told_is_killed(store: Store) -> None:
    watcher = signalling(signal.SIGINT, at=2)
    (outcome,) = execute(timer(), [open_target("fake:stubborn")], store, watcher)
    assert outcome.state == "interrupted"
    assert "did not stop when asked" in outcome.reason


@pytest.mark.parametrize("line", [{}, {"line": "gpio:a:1:2"}])
@pytest.mark.parametrize("extent", [{}, {"for": "2s"}, {"samples": "20"}])
def test_a_step_without_an_end_is_announced(
    store: Store, extent: dict[str, str], line: dict[str, str]
) -> None:
    def act(live: LiveStep) -> None:
        if live.step.measurement == "response" and line and not extent:
            os.kill(os.getpid(), signal.SIGINT)

    watcher = Watcher()
    watcher.act = act  # type: ignore[method-assign]
    planned = plan(("response", {**extent, **line}))
    (outcome,) = execute(planned, [open_target("fake")], store, watcher)
    ended = "complete" if extent else "interrupted"
    assert outcome.state == (ended if line else "skipped")
    said = "measures until you press Ctrl-C. To limit it, add --for 60s or --samples 1000"
    # an agent skips response without a line
    announced = sum(said in message for message in watcher.messages)
    assert announced == (1 if line and not extent else 0)


@pytest.mark.parametrize(
    ("name", "line", "wanted"),
    [
        ("response", "gpio:a:1:2", True),
        ("response", "loopback:pl061:0:1", False),
        ("log-host", "gpio:a:1:2", False),
    ],
)
def test_a_log_host_and_a_loopback_end_by_themselves(name: str, line: str, wanted: bool) -> None:
    assert endless(planned_step(KNOWN, name, {"line": line}), KNOWN) is wanted


def test_a_signal_during_the_calibration_skips_what_was_asked_for(store: Store) -> None:
    watcher = Watcher()
    watcher.act = lambda live: os.kill(os.getpid(), signal.SIGINT)  # type: ignore[method-assign]
    (outcome,) = execute(timer(), [open_target("fake")], store, watcher)
    assert outcome.state == "interrupted"
    assert outcome.exit_code == ExitCode.INTERRUPTED
    assert store.get(outcome.id).document["steps"][0]["state"] == "skipped"


@pytest.mark.parametrize("error", [StoreError("the disk is full"), OSError(28, "No space left")])
def test_a_store_that_breaks_in_the_middle(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    write = StreamFile.write
    written: list[int] = []

    def fail_late(self: StreamFile, data: bytes) -> None:
        written.append(len(data))
        if len(written) > 12:
            raise error
        write(self, data)

    monkeypatch.setattr(StreamFile, "write", fail_late)
    with pytest.raises(StoreError, match=r"full|No space") as caught:
        carry_out(store, "fake")
    monkeypatch.setattr(StreamFile, "write", write)
    (row,) = store.runs()
    run = store.get(row.id)
    assert run.document["state"] == "failed"
    assert run.document["reason"] == caught.value.message
    assert run.document["steps"][0]["state"] == "failed"
    assert run.steps[0].series[0].count > 0


@pytest.mark.parametrize("gone", ["deleted", "broken"])
def test_a_run_does_not_depend_on_the_index(store: Store, gone: str) -> None:
    place = store.path.parent

    class Deleting(Watcher):
        def step_ended(self, live: LiveStep, entry: Mapping[str, Any]) -> None:
            for path in filter(Path.is_file, place.glob("index.db*")):
                path.unlink()
            if gone == "broken":
                (place / "index.db").mkdir(exist_ok=True)

    (outcome,) = execute(timer(), [open_target("fake")], store, Deleting())
    assert (outcome.state, outcome.exit_code) == ("complete", ExitCode.DONE)
    if gone == "broken":
        (place / "index.db").rmdir()
    assert [(row.id, row.state) for row in store.runs()] == [(outcome.id, "complete")]


def test_a_target_that_goes_away_between_steps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = open_target("fake")
    start = target.start

    def start_once(arguments: Any) -> Any:
        if "timer" in arguments:
            raise TargetError("the target is gone", "look for it")
        return start(arguments)

    monkeypatch.setattr(target, "start", start_once)
    (outcome,) = execute(timer(), [target], store)
    assert (outcome.state, outcome.remedy) == ("failed", "look for it")


def test_the_limits_are_those_given(store: Store) -> None:
    limits = Limits(silence_s=1.0)
    (outcome,) = execute(timer(), [open_target("fake:silent")], store, limits=limits)
    assert "sent nothing for 1 s" in outcome.reason


def test_a_calibration_that_never_ends_is_ended(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = open_target("fake")
    endless = open_target("fake:overtime,realtime")
    assert isinstance(endless, FakeTarget)
    endless.clock = target.clock
    start = target.start

    def start_endless(arguments: Any) -> Any:
        if "clock-cost" in arguments:
            return endless.start(["run", "timer", "--for", "1s"])
        return start(arguments)

    monkeypatch.setattr(target, "start", start_endless)
    limits = Limits(calibration_s=5.0, overtime_s=1.0)
    (outcome,) = execute(timer(), [target], store, limits=limits)
    assert outcome.reason == "step 2 (clock-cost): the agent did not end in time"


@pytest.mark.slow
def test_samples_take_as_long_as_missed_periods_make_them(store: Store) -> None:
    """A machine that misses every second period is given twice the time."""
    wanted = plan(("timer", {"samples": "200000", "interval": "1ms", "for": "0", "cpu": "1"}))
    watcher = Watcher()
    (outcome,) = execute(wanted, [open_target("fake:overloaded")], store, watcher)
    assert (outcome.state, outcome.reason) == ("complete", "")
    (series,) = store.get(outcome.id).steps[0].series
    assert (series.totals.count, series.totals.missed) == (200_000, 200_000 - 250)
    assert watcher.lives[1].expected_s == 399.75


@pytest.mark.slow
@pytest.mark.parametrize("ends", [True, False])
def test_samples_that_still_come_are_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """A sleep begins when the one before has ended, so that the samples need more than the time of
    their intervals."""

    class Late(FakeAgent):
        def _produce(self) -> Iterator[tuple[float, bytes]]:
            for due_s, data in super()._produce():
                yield 1.5 * due_s, data
                if not ends and self._request.measurement.name == "timer" and due_s > 180:
                    yield from ((1.5 * due_s + later, b"") for later in range(10**4))

    monkeypatch.setattr("rtgauge.target.fake.FakeAgent", Late)
    wanted = plan(("timer", {"samples": "200000", "interval": "1ms", "for": "0", "cpu": "1"}))
    limits = Limits(silence_s=1e9)
    (outcome,) = execute(wanted, [open_target("fake")], store, limits=limits)
    assert outcome.state == ("complete" if ends else "failed")
    assert ends or outcome.reason.endswith("the agent did not end in time")


@pytest.mark.slow
def test_a_time_that_was_given_is_not_made_longer_by_missed_periods(store: Store) -> None:
    wanted = plan(("timer", {"samples": "200000", "interval": "1ms", "for": "150s", "cpu": "1"}))
    watcher = Watcher()
    (outcome,) = execute(wanted, [open_target("fake:overloaded")], store, watcher)
    assert outcome.reason.endswith("the agent did not end in time")
    assert watcher.lives[1].expected_s == 150.0


@pytest.mark.slow
def test_a_measurement_that_nobody_knows_is_run_stored_and_reported(store: Store) -> None:
    outcome = carry_out(store, "fake", plan(("pendulum", {"for": "3s", "medium": "honey"})))
    document = model.build([store.get(outcome.id)])
    model.validate(document)
    (run,) = document["runs"]
    found = [one for one in run["series"] if one["measurement"] == "pendulum"]
    assert [(one["name"], one["cpu"], one["unit"], one["count"]) for one in found] == [
        ("swing", 0, "ns", 3000), ("swing", 1, "ns", 3000),
        ("visitors", 0, "count", 3000), ("visitors", 1, "count", 3000),
    ]  # fmt: skip
    assert found[0]["labels"]["medium"] == "honey"
    assert [one["name"] for one in run["tables"] if one["step"] == 0] == ["bobs"]
    assert [(one["rule"], one["result"]) for one in run["tests"]] == [
        ("comes-back", "pass"), ("stops", "pass"),
    ]  # fmt: skip


@pytest.mark.slow
def test_what_is_stored_is_the_same_each_time(store: Store) -> None:
    outcomes = [carry_out(store, "fake") for _ in range(2)]
    sealed = [[series.totals for series in store.get(one.id).steps[0].series] for one in outcomes]
    assert sealed[0] == sealed[1]


class _Ordered(FakeTarget):
    """A target with orders, like an emulated board in counted mode."""

    def __init__(self) -> None:
        super().__init__()
        self.orders: list[list[str]] = []

    def start(self, arguments: Sequence[str]) -> FakeAgent:
        self.orders.append(["run", "/agent", *arguments])
        return super().start(arguments)


def test_a_run_that_is_killed_has_the_orders_of_the_steps_before(store: Store) -> None:
    """A replay needs them. They are in the run's document before the next step begins."""
    seen: list[int] = []
    watcher = Watcher()

    def started(live: LiveStep, number: int, total: int) -> None:
        (row,) = store.runs()
        seen.append(len(store.get(row.id).document.get("orders", ())))

    watcher.step_started = started  # type: ignore[method-assign]
    wanted = plan(("timer", {"for": "1s"}), ("pendulum", {"for": "1s"}))
    (outcome,) = execute(wanted, [_Ordered()], store, watcher)
    assert seen == [0, 1, 2]
    assert len(store.get(outcome.id).document["orders"]) == 3
