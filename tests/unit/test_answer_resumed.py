# SPDX-License-Identifier: Apache-2.0
"""The answer of an evaluation that several runs carried out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import report_runs as made
from answers import built, latency, text
from rtgauge.report.document.answer import State, answer_of, whole_of
from rtgauge.report.document.cycles import shortest


def test_a_resumed_evaluation_has_one_answer() -> None:
    """The answer has the results of each step from the run that completed it."""

    def part(at: int, states: dict[str, str], **more: Any) -> dict[str, Any]:
        tops = {"idle": 20, "sched": 90 + at, "disk": 40}
        steps = []
        for number, (load, state) in enumerate(states.items()):
            samples = [latency(tops[load])] if state != "skipped" else []
            budget_ns = 80_000 if load == "idle" else 100_000
            step = made.step(number, samples, load=load, state=state, budget_ns=budget_ns)
            steps.append(step if samples else replace(step, header=None, end=None))
        planned = [{"measurement": "timer", "load": load, "budget_ns": None} for load in states]
        plan = {"name": "evaluate", "steps": planned}
        more = {"findings": [], "started": f"2026-11-1{at}T00:00:00Z", **more}
        return built(made.run(steps, plan=plan, study="s", **more))

    first = part(0, {"idle": "complete", "sched": "interrupted", "disk": "skipped"},
                 state="interrupted", duration_s=60.0)  # fmt: skip
    second = part(1, {"sched": "complete", "disk": "interrupted"}, id="2", state="interrupted")
    third = part(2, {"disk": "complete"}, id="3", duration_s=3.0)
    for one in second["plan"]["steps"]:
        one["new_option"] = ""
    recurs = {"rule": "second line", "text": "", "series": [0]}
    recurs["maxima"] = [{"series": 0, "text": "Recurs."}]
    recurs["late"] = [{"series": 0, "text": "Most recur.", "suspects": ["the tick"]}]
    second["steps"][0]["observations"] = [recurs]
    cut = whole_of([first, second])
    assert cut is not None and "interrupted" in answer_of(cut).title
    command = "rtgauge evaluate --resume 0192f0c4-6d1e"
    assert answer_of(cut).actions[0].command == command
    whole = whole_of([first, second, third])
    assert whole is not None and whole["state"] == "complete"
    assert whole_of([third, first, second]) == whole
    assert text(answer_of(whole).cause) == "Likely cause: something periodic. Recurs."
    assert answer_of(whole).rhythm == "Most recur."
    assert [(one["step"], one["load"]["name"], one["state"]) for one in whole["steps"]] == [
        (0, "idle", "complete"), (1, "sched", "complete"), (2, "disk", "complete")
    ]  # fmt: skip
    assert [one["step"] for one in whole["series"]] == [0, 1, 2]
    for verdict in whole["verdicts"]:
        assert whole["series"][verdict["series"]]["step"] == verdict["step"]
    assert "Observed maximum 91.0 us (CPU 0, load sched" in text(answer_of(whole).worst)
    assert "interrupted" not in answer_of(whole).title
    # Steps that no run recorded, because it was killed, are missing.
    killed = {**first, "steps": first["steps"][:1], "verdicts": [], "tests": []}
    ended = whole_of([killed, part(1, {"idle": "complete"}, id="2", state="interrupted")])
    assert ended is not None and ended["state"] == "interrupted"
    # A step that no run completed has its last state.
    failed = part(2, {"disk": "failed"}, id="3", state="failed")
    again = whole_of([first, second, failed])
    assert again is not None and again["state"] == "failed"
    assert [one["state"] for one in again["steps"]] == ["complete", "complete", "failed"]
    # The worst of what the audits found.
    warned = [{**one, "level": "warning"} for one in made.FINDINGS]
    found = whole_of([{**first, "findings": made.FINDINGS}, {**second, "findings": warned}])
    assert found is not None
    assert {one["level"] for one in found["findings"]} <= {"warning", "error"}
    # Another name of the same kernel.
    kernel = {**third["environment"]["kernel"], "unknown_parameters": ["BOOT_IMAGE=/vmlinuz.old"]}
    kernel["cmdline"] = f"BOOT_IMAGE=/vmlinuz.old {kernel['cmdline']}"
    renamed = {**third, "environment": {**third["environment"], "kernel": kernel}}
    assert (found := whole_of([first, second, renamed])) is not None
    assert found["steps"] == whole["steps"]
    # Other runs have no common answer.
    kernel["cmdline"] += " isolcpus=1"
    assert whole_of([first, second, renamed]) is None
    other = {**second, "study": "other"}
    elsewhere = {**second, "target": "fake"}
    plain_run = {**second, "plan": {**second["plan"], "name": "timer"}}
    for runs in ([first], [first, other], [first, elsewhere], [first, plain_run]):
        assert whole_of(runs) is None


def test_a_resumed_evaluation_is_not_fit_if_a_run_exceeded_the_budget() -> None:
    """The step that was completed later hid the exceedance, and the exit code contradicted the
    answer."""
    plan = {"name": "evaluate", "steps": [{"measurement": "timer", "load": "sched"}]}

    def part(state: str, top: int, **more: Any) -> dict[str, Any]:
        step = made.step(0, [latency(top)], load="sched", state=state, budget_ns=100_000)
        return built(made.run([step], plan=plan, study="s", findings=[], state=state, **more))

    first = part("interrupted", 300)
    second = part("complete", 50, id="2", started="2030-01-01T00:00:00Z")
    whole = whole_of([first, second])
    assert whole is not None
    assert [step["state"] for step in whole["steps"]] == ["complete"]
    answer = answer_of(whole)
    assert answer.state is State.UNFIT
    assert "Observed maximum 300 us" in text(answer.worst)
    assert "--resume" not in answer.actions[0].command
    # Without real-time priority, it proves nothing about a task that has it.
    for one in first["series"]:
        one["policy"] = "other"
    whole = whole_of([first, second])
    assert whole is not None and answer_of(whole).state is State.UNPROVEN


@pytest.mark.parametrize(("top", "shown", "cycle_us"), [(300, 300, 5000), (40, 50, 500)])
def test_a_resumed_evaluation_keeps_the_maximum_of_an_interrupted_step(
    top: int, shown: int, cycle_us: int
) -> None:
    """The step that was completed later hid it, and the data supported shorter cycles."""
    planned = [{"measurement": "timer", "load": load} for load in ("idle", "sched")]

    def part(steps: list[made.FakeStep], at: int, **more: Any) -> dict[str, Any]:
        plan = {"name": "evaluate", "steps": planned[at:]}
        return built(made.run(steps, plan=plan, study="s", findings=[], **more))

    idle = made.step(0, [latency(20)])
    cut = made.step(1, [latency(top, 1000)], load="sched", state="interrupted")
    again = made.step(0, [latency(50)], load="sched")
    first = part([idle, cut], 0, state="interrupted")
    whole = whole_of([first, part([again], 1, id="2", started="2030-01-01T00:00:00Z")])
    assert whole is not None
    answer = answer_of(whole)
    assert f"Observed maximum {shown}" in text(answer.worst)
    least = shortest(answer.cycles)
    assert least is not None and least.interval_ns == cycle_us * 1000


def test_a_resumed_evaluation_names_the_run_to_explain() -> None:
    """It named the first run, also for a maximum that another run measured."""
    plan = {"name": "evaluate", "steps": [{"measurement": "timer", "load": "sched"}]}

    def part(state: str, top: int, **more: Any) -> dict[str, Any]:
        step = made.step(0, [latency(top)], load="sched", state=state)
        run = built(made.run([step], plan=plan, study="s", findings=[], state=state, **more))
        run["environment"]["lab"] = {"mode": "counted", "meaning": ""}
        return run

    first, second = part("interrupted", 20), part("complete", 300, id="0192f0c4-7777-second")
    whole = whole_of([first, second])
    assert whole is not None
    assert answer_of(whole).cause_command == "rtgauge explain 0192f0c4-7777"
