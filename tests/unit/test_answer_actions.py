# SPDX-License-Identifier: Apache-2.0
"""What the answer says to do next, and the commands in it."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import pytest

import report_runs as made
from answers import answered, budgeted, built, interrupted_run, latency, mixed_steps, text, timers
from rtgauge import stream
from rtgauge.errors import NO_MODULE_REMEDY, UNREACHED
from rtgauge.report.document.answer import (
    State,
    answer_of,
    answer_section,
    in_store,
)
from rtgauge.report.document.answer.actions import actions_of
from rtgauge.report.document.answer.commands import (
    repeated_command,
)
from rtgauge.report.document.answer.data import Data
from rtgauge.report.document.blocks import Block, Bullets, Callout, Command, Section
from rtgauge.report.results import model
from rtgauge.report.results.again import step_command
from rtgauge.report.results.commands import checked, sentence
from rtgauge.text import plain
from rtgauge.units import parse_rate


def test_a_board_is_measured_for_as_long_as_the_verdict_needs() -> None:
    run = made.run([made.step(0, [latency(67, 60_000)], budget_ns=150_000)], findings=[])
    document = built(run)
    document["environment"]["lab"] = {"mode": "counted"}
    document["target"] = "lab:x86_64-rt"
    document["plan"] = {"name": "evaluate", "steps": []}
    actions = {one.text: shlex.split(one.command) for one in answer_of(document).actions}
    words = actions["Measure on the board itself, long enough for a verdict"]
    assert words[:3] == ["rtgauge", "run", "timer"]
    assert words[words.index("--target") + 1] == "ssh://root@board"
    assert words[words.index("--for") + 1] == "3h"


def test_what_failed_is_measured_again() -> None:
    """With two budgets in one plan, the highest maximum may be of a step that kept its own."""
    steps = [
        made.step(0, [latency(160)], budget_ns=150_000),
        made.step(1, [latency(250)], load="sched", budget_ns=300_000),
    ]
    document = built(made.run(steps, findings=[]))
    words = shlex.split(repeated_command(Data(document)))
    assert words[words.index("--budget") + 1] == "150us" and "--load" not in words


def test_the_board_is_measured_for_the_verdict_that_is_open() -> None:
    """The highest maximum may be of a step without a budget."""
    steps = [
        made.step(0, [latency(67, 60_000)], budget_ns=150_000),
        made.step(1, [latency(100, 60_000)], load="sched"),
    ]
    document = built(made.run(steps, findings=[]))
    document["environment"]["lab"] = {"mode": "counted"}
    document["target"] = "lab:x86_64-rt"
    actions = {one.text: shlex.split(one.command) for one in answer_of(document).actions}
    words = actions["Measure on the board itself, long enough for a verdict"]
    assert words[words.index("--budget") + 1] == "150us"
    assert words[words.index("--for") + 1] == "3h"
    assert "--load" not in words


@pytest.mark.slow
@pytest.mark.parametrize(("budget_us", "searched"), [(1000, True), (1001, False)])
def test_the_cause_of_a_maximum_far_below_the_budget_is_not_searched(
    budget_us: int, searched: bool
) -> None:
    step = made.step(0, [latency(100)], load="sched", budget_ns=budget_us * 1000)
    run = built(made.run([step], findings=[]))
    data = Data(run)
    found = actions_of(data, State.UNPROVEN, "", "rtgauge explain 1", None)
    assert ("Find the cause" in [one.text for one in found]) is searched


@pytest.mark.parametrize("rate", [1 / 12_000, 1_080_000.0, 1.0])
def test_the_rate_of_a_command_is_one_that_is_accepted(rate: float) -> None:
    step = made.step(0, [latency(67)], budget_ns=150_000, rate_per_hour=rate)
    document = built(made.run([step]))
    words = shlex.split(step_command(document, document["steps"][0], {}))
    assert parse_rate(words[words.index("--rate") + 1]) == pytest.approx(rate)


def test_a_run_too_short_is_not_proven_and_says_how_long() -> None:
    answer = budgeted(67, 60_000, None)
    assert (answer.state, answer.tone) == (State.UNPROVEN, "warn")
    assert "never exceeded, but a verdict needs 3 h" in plain(answer.title)
    said = text(answer.sure)
    assert said.startswith("0 of 60 000 wake-ups above 150 us in 1 min. ")
    assert "one is needed to show fewer than 1 episode an hour (the default)." in said
    words = shlex.split(answer.sure_command)
    assert words[:3] == ["rtgauge", "run", "timer"]
    assert words[words.index("--for") + 1] == "3h"
    assert words[words.index("--budget") + 1] == "150us"
    assert any(action.command == answer.sure_command for action in answer.actions)


def _ambiguous() -> made.FakeStep:
    series = latency(67, 1000, name="response")
    table = stream.Table(0, "answers", (stream.Column("ambiguous", "count"),), ((3,),))
    return made.step(0, [series], "log-host", tables=[table], budget_ns=150_000)


@pytest.mark.parametrize(
    ("step", "why", "remedy"),
    [
        (_ambiguous(), "the answers to 3 events may belong to other events", "Generate events"),
        (
            made.step(
                0,
                [latency(67, name="call", interval_ns=0)],
                "syscalls",
                budget_ns=150_000,
                rate_per_hour=1.0,
            ),
            "a rate per hour cannot be judged without a time grid",
            "Omit --rate",
        ),
        (
            made.step(0, [latency(67)], budget_ns=150_000, rate_per_hour=0.0),
            "no run can show that something never happens",
            "allow a rate (--rate 1/h)",
        ),
        (
            made.step(0, [latency(67)], budget_ns=150_000, state="failed", reason="it broke"),
            "the step failed",
            "Run the step again",
        ),
    ],
)
def test_what_no_longer_run_decides_has_its_own_reason(
    step: made.FakeStep, why: str, remedy: str
) -> None:
    other = made.step(1, [latency(5)], load="sched")
    answer = answered(step, other)
    assert (answer.state, answer.tone) == (State.UNPROVEN, "warn")
    assert plain(answer.title) == f"Not proven for the budget of 150 us: {why}"
    assert remedy in text(answer.sure)
    assert not answer.sure_command
    assert remedy.casefold() in answer.actions[0].text.casefold()
    assert not any("--for 3h" in action.command for action in answer.actions)


@pytest.mark.slow
@pytest.mark.parametrize(("top_us", "fit"), [(149, True), (300, False)])
def test_a_step_without_a_budget_that_exceeds_it_is_not_fit(top_us: int, fit: bool) -> None:
    answer = answered(
        made.step(0, [latency(67, 200_000)], budget_ns=150_000, rate_per_hour=100.0),
        made.step(1, [latency(top_us)], load="sched"),
    )
    assert (answer.state is State.FIT) is fit
    if not fit:
        assert (answer.state, answer.tone) == (State.UNPROVEN, "warn")
        assert plain(answer.title) == (
            "Not proven for the budget of 150 us: timer, load sched, reached 300 us and has no "
            "budget"
        )
        assert "--load sched --budget 150us" in answer.actions[0].command


@pytest.mark.parametrize(("lab", "allowed"), [(True, False), (False, True)])
def test_a_disturbed_step_again_needs_the_consent_again(lab: bool, allowed: bool) -> None:
    step = made.step(0, [latency(300)], disturb="kthread:200us:7.301ms")
    document = built(made.run([step]))
    if lab:
        document["environment"]["lab"] = {"mode": "counted", "meaning": ""}
    command = step_command(document, document["steps"][0], {})
    assert "--disturb kthread:200us:7.301ms" in command
    assert ("--allow-disturb" in command) is allowed
    assert "--allow-disturb" not in step_command(document, document["steps"][0], {"disturb": ""})


FOREIGN = {
    "load-cmd": "touch /tmp/x",
    "load-cmd-root": True,
    "load": "sched,list:program=/tmp/x,copy:path=/dev/watchdog,net:peer=192.0.2.7/25",
    "mark": "gpio:gpiochip0:17",
    "disturb": "kthread:200us:7.301ms",
    "allow-load-cmd": True,
    "agent": "/tmp/x",
    "priority": "80",
}


@pytest.mark.parametrize(
    ("imported", "target"), [(False, "ssh://b"), (True, "ssh://b"), (True, "lab:x86_64-rt")]
)
def test_the_command_of_an_imported_run_has_nothing_that_its_author_alone_vouches_for(
    imported: bool, target: str
) -> None:
    fake = made.run([made.step(0, [latency(300)], run_options=FOREIGN)], target=target)
    fake.imported = imported
    document = built(fake)
    model.validate({"format": "rtgauge-results", "version": 2, "runs": [document], "bounds": []})
    command = step_command(document, document["steps"][0], {"for": "3h"}, ["--prepare"])
    dropped = imported and target == "ssh://b"
    words = shlex.split(command, comments=dropped)
    kept = {"--interval", "--priority", "--for", "--prepare", "--target"}
    foreign = {"--load-cmd", "--load", "--mark", "--disturb", "--load-cmd-root", "--allow-disturb"}
    foreign |= {"--allow-load-cmd", "--agent"}
    assert {w for w in words if w.startswith("--")} == kept | (set() if dropped else foreign)
    _, _, comment = command.partition(" # ")
    assert comment == (
        "without --load-cmd --load --mark --disturb --agent of the imported run: "
        "read and add what you trust"
        if dropped
        else ""
    )
    assert "/tmp/x" not in command or not dropped


@pytest.mark.slow
def test_the_evaluation_of_an_imported_run_again_starts_no_program_of_it() -> None:
    options = {"load": "list:program=/tmp/x", "for": "5s", "prepare": True}
    fake = made.run(
        [made.step(0, [latency(300)])], plan={"name": "evaluate", "options": options, "steps": []}
    )
    own = repeated_command(Data(built(fake)))
    assert own == "rtgauge evaluate --for 5s --load list:program=/tmp/x --prepare"
    fake.imported = True
    assert repeated_command(Data(built(fake))) == (
        "rtgauge evaluate --for 5s --prepare "
        "# without --load of the imported run: read and add what you trust"
    )


def test_without_real_time_priority(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def series(top: int) -> made.FakeSeries:
        return latency(top, policy="other", priority=0)

    steps = [made.step(0, [series(50)]), made.step(1, [series(900)], load="sched")]
    for one in steps:
        one.header.parameters["priority"] = stream.Parameter("80", "80")
    answer = answer_of(built(made.run(steps)))
    assert (answer.state, answer.tone) == (State.UNMEASURED, "warn")
    assert "without real-time priority" in answer.title
    assert "SCHED_OTHER" in text(answer.worst)
    assert not answer.cycles
    again = 'sudo "$(command -v rtgauge)" run timer --interval 1ms --load sched'
    assert answer.actions[0].command == answer.cause_command == again
    # In a clone, the PATH has no rtgauge.
    monkeypatch.setattr("sys.argv", ["/a b/rtgauge"])
    for path, name in (("", "'/a b/rtgauge'"), (str(tmp_path), '"$(command -v rtgauge)"')):
        (tmp_path / "rtgauge").touch(0o755)
        monkeypatch.setenv("PATH", path)
        shown = in_store(answer, "s")
        again = f"sudo {name} run timer --interval 1ms --load sched --store s"
        assert shown.actions[0].command == shown.cause_command == again
    assert "SCHED_OTHER" in text(answer.cause)
    assert not answer.sure_command  # no length mends it


@pytest.mark.parametrize(
    ("failed", "skipped", "whole", "why"),
    [
        (1, 0, 0, "the run failed"),
        (3, 0, 0, "all 3 steps failed"),
        (0, 2, 0, "every step was skipped"),
        (0, 3, 2, "3 of 5 steps were skipped"),
    ],
)
def test_what_was_not_measured(failed: int, skipped: int, whole: int, why: str) -> None:
    answer = answer_of(built(made.run(mixed_steps(failed, skipped, whole))))
    assert answer.state is State.UNMEASURED
    assert answer.title == f"Not measured properly: {why}"
    assert answer.audit.startswith("Configuration audit: ") and "figures hold" not in answer.audit
    assert answer.tone == ("fail" if failed else "warn")
    assert any(action.text == "Run it again" for action in answer.actions)
    number = failed + skipped
    assert answer.missing.startswith(f"Not measured: {number} of {number + whole} step")
    times = f" ×{number}" if number > 1 else ""
    assert answer.missing.endswith(f"(timer{times}): a thread did not end.")
    assert answer.missing in repr(answer_section(answer, None))


@pytest.mark.parametrize("fails", ["budget", "test"])
def test_a_failure_counts_although_most_steps_were_skipped(fails: str) -> None:
    steps = mixed_steps(0, 3, 1)
    if fails == "budget":
        steps.append(made.step(4, [latency(300)], budget_ns=150_000))
    else:
        failed = stream.Verdict(0, "order", "fail", "", "")
        steps.append(made.step(4, [latency(100)], verdicts=[failed]))
    answer = answer_of(built(made.run(steps)))
    assert answer.state is State.UNFIT
    assert answer.missing.startswith("Not measured: 3 of 5 steps")


@pytest.mark.parametrize(
    "remedy",
    [
        "cpupower frequency-set -g performance",
        "sysctl -w kernel.numa_balancing=0 # for a run: rtgauge run --prepare does it",
        "for f in /sys/a*/runtime; do echo 0 > $f; done",
        "echo nop > /sys/tracer; echo 0 > /sys/enable",
    ],
)
@pytest.mark.parametrize("older", [False, True])
def test_a_remedy_that_is_a_command_is_one_in_older_runs_too(remedy: str, older: bool) -> None:
    found = {"check": "it", "found": "wrong", "level": "error", "why": "", "remedy": remedy}
    found |= {} if older else {"command": remedy}
    run = made.run([made.step(0, [latency(10)], load="sched")], findings=[found])
    action = answer_of(built(run)).actions[0]
    assert action.command == remedy
    assert remedy[1:] not in action.gain


@pytest.mark.parametrize(
    "remedy",
    [
        "echo 1;reboot", "echo `reboot`", "echo a | sh", "echo a && reboot", "echo a & reboot",
        "echo a > /etc/passwd", "echo a | tee /etc/passwd", "echo a > /sys/../etc/passwd",
        "echo a > $(reboot)", "sysctl -w kernel.core_pattern=|/tmp/x", "echo a\nreboot",
        "echo 1 > /sys/a # why\nreboot", "rtgauge run timer --load-cmd 'reboot'",
        "rtgauge run timer --load list:program=/tmp/x", "for f in /sys/a; do sh -c $f; done",
        "echo ${HOME}", 'echo "$f"', "echo a > $IFS", "id; reboot",
        "echo b > /proc/sysrq-trigger", "echo mem > /sys/power/state", "rtgauge delete last",
        "look at it: rtgauge delete last", "rtgauge run timer --load copy:path=/dev/watchdog",
        "rtgauge run timer --load net:peer=192.0.2.7/25", "rtgauge run timer --mark gpio:chip:1",
        "rtgauge  delete --yes 1", "rtgauge 'delete' --yes 1", "rtgauge de''lete --yes 1",
        "echo 1 > /sys/a; rtgauge  delete --yes 1", "rtgauge check --agent /tmp/x", "rtgauge\t1",
        "echo 1 # ; reboot", "echo 1 # $(reboot)", "echo 1 # (e:reboot:)", "echo 1 # a | sh",
    ],
)  # fmt: skip
def test_a_remedy_from_elsewhere_starts_no_other_program(remedy: str) -> None:
    """Boards and bundles bring remedies, and reports show commands to copy."""
    assert checked(remedy, remedy, "") == (remedy, "")


@pytest.mark.parametrize(
    ("target", "there"),
    [("local", ""), ("ssh://b", " --target ssh://b"), ("b;reboot", " --target 'b;reboot'")],
)
def test_the_command_of_a_remedy_is_for_the_target(target: str, there: str) -> None:
    command = "rtgauge module load"
    found = checked(f"load it: {command}", command, target)
    assert found == (f"load it: {command}{there}", command + there)
    assert sentence(*found) == "load it"
    assert checked("look at it", command, target) == ("look at it", "")
    assert checked(f"load it: {command}", command, "lab:mine") == (NO_MODULE_REMEDY, "")
    plain = "rtgauge lab remove mine"
    assert checked(plain, plain, target) == (plain, plain)
    assert checked(f"{command};reboot", f"{command};reboot", target)[1] == ""
    assert checked("call rtgauge", "rtgauge", target) == ("call rtgauge", "rtgauge")


def test_the_command_of_a_remedy_that_was_stored_without_it() -> None:
    load = "rtgauge module load"
    there = f"{load} --target ssh://b"
    assert checked(f"load it: {load}", "", "ssh://b") == (f"load it: {there}", there)
    prose = ["for a run: rtgauge run --prepare does it", "echo 1 > /sys/a, or reboot", "look"]
    for remedy in (*prose, "echo 1 > /sys/a or boot with a=1", "load it: rtgauge delete last"):
        assert checked(remedy, "", "") == (remedy, "")


def test_a_remedy_without_its_command() -> None:
    assert sentence("echo 1 > /sys/a", "echo 1 > /sys/a") == ""
    assert sentence("load it", "") == "load it"
    assert (
        sentence("apt install it, and boot it", "apt install it") == "apt install it, and boot it"
    )


@pytest.mark.parametrize(
    ("name", "context", "said"),
    [
        ("latency", "user", "wake-ups"),
        ("latency", "kernel", "wake-ups"),
        ("latency", "irq", "interrupts"),
        ("response", "user", "answers"),
        ("answer", "irq", "answers"),
    ],
)
def test_samples_have_the_name_of_what_they_are(name: str, context: str, said: str) -> None:
    series = latency(30, name=name, context=context)
    answer = answer_of(built(made.run([made.step(0, [series], budget_ns=50_000, load="sched")])))
    (longer,) = [one for one in answer.actions if one.text == "Measure longer"]
    assert f" {said} above 50 us in " in text(answer.sure)
    assert longer.gain == f"shows or excludes rare late {said}"
    shown = answer_of(built(made.run([made.step(0, [series], load="sched")])))
    assert f"{said} above the maximum" in text(shown.sure)


def test_without_real_time_priority_the_remedy_is_an_action_alone() -> None:
    step = made.step(0, [latency(30, policy="other", priority=0)], budget_ns=50_000)
    answer = answer_of(built(made.run([step])))
    assert "measured without" in text(answer.sure)
    assert "rtgauge check" not in text(answer.sure)
    assert answer.actions[0].gain == "shows the latency of a real-time task"


@pytest.mark.parametrize("older", [False, True])
def test_a_kernel_that_can_preempt_more_is_booted_by_a_command(older: bool) -> None:
    command = (
        "echo 'GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT preempt=full\"' "
        ">> /etc/default/grub.d/rtgauge.cfg && update-grub && reboot"
    )
    kernel = {"check": "preemption", "found": "none", "level": "error", "why": "it waits"}
    kernel["remedy"] = "as a first step, boot with preempt=full; then boot another"
    kernel |= {} if older else {"command": command}
    step = made.step(0, [latency(100)], budget_ns=50_000, load="sched")
    first = answer_of(built(made.run([step], findings=[kernel]))).actions[0]
    assert first.text == (
        "As a first step, boot with preempt=full; then boot another. Then measure again"
        + ("" if older else " (run the command as root on a target with GRUB)")
    )
    assert first.command == ("" if older else command)
    assert first.again.startswith("rtgauge run timer")


def test_a_run_that_was_interrupted_is_run_again_first() -> None:
    first = answer_of(built(interrupted_run())).actions[0]
    assert first.text == "Run it again, longer"
    assert shlex.split(first.command)[:3] == ["rtgauge", "run", "timer"]
    document = built(interrupted_run())
    document["plan"]["name"] = "evaluate"
    document["target"] = "lab:x86_64-rt"
    first = answer_of(document).actions[0]
    assert first.text == "Resume the evaluation"
    words = ["rtgauge", "evaluate", "--target", "lab:x86_64-rt", "--resume", document["id"][:13]]
    assert shlex.split(first.command) == words
    document["state"] = "running"
    assert answer_of(document).actions[0].text != "Resume the evaluation"


@pytest.mark.parametrize("late", [False, True])
def test_the_command_of_one_step_does_not_complete_an_interrupted_run(late: bool) -> None:
    cut = made.step(0, [latency(3_000 if late else 67)])
    cut.document["state"] = "interrupted"
    rest = made.step(1, [], header=None, end=None, state="skipped", reason=UNREACHED)
    actions = answer_of(built(made.run([cut, rest], findings=[], state="interrupted"))).actions
    repeat = next(one for one in actions if one.gain == "measures the remaining steps")
    assert (repeat.text, repeat.command) == ("Repeat the command of this run", "")
    assert not any("completes" in one.gain for one in actions)


def test_no_longer_run_is_proposed_for_a_system_that_is_too_late() -> None:
    answer = answer_of(built(timers(100, 2100)))
    assert answer.state is State.LATE and "A run of 3 h is needed" in text(answer.sure)
    assert not answer.sure_command
    assert "Measure longer" not in [action.text for action in answer.actions]


def test_the_limit_of_a_run_that_stops_is_explained() -> None:
    run = built(made.run([made.step(0, [latency(67)], load="sched")], findings=[]))
    run["steps"][0]["parameters"] |= {"stop-above": "0", "for": "10s"}
    answer = answer_of(run)
    hint = "stops at the next wake-up later than 60.0 us, nine tenths of the largest sample, and "
    hint += "traces what makes it late"
    assert plain(answer.cause_hint) == hint
    (gain,) = [one.gain for one in answer.actions if one.text == "Find the cause"]
    assert plain(gain) == hint
    alone = answer_section(dataclasses.replace(answer, actions=()), None).blocks[0]
    assert f"This command {hint}:" in plain(repr(alone)).replace("\\u202f", " ")


def test_an_emulated_board_leads_to_the_board_itself() -> None:
    run = built(timers(10, 18, budget_ns=1_000_000))
    assert not any("board" in action.text for action in answer_of(run).actions)
    run["environment"]["lab"] = {"mode": "counted", "meaning": ""}
    run["target"] = "lab:x86_64-rt"
    texts = [action.text for action in answer_of(run).actions]
    at = texts.index("Measure on the board itself, long enough for a verdict")
    assert texts[at + 1] == "Measure longer"
    command = answer_of(run).actions[at].command
    assert "--target ssh://root@board --interval 1ms --load sched --budget 1ms" in command
    assert "--for 3h" in command
    run = built(timers(10, 18))
    run["environment"]["lab"] = {"mode": "counted", "meaning": ""}
    run["target"] = "lab:x86_64-rt"
    run["plan"]["name"] = "evaluate"
    commands = {action.text: action.command for action in answer_of(run).actions}
    assert commands["Measure on the board itself"] == "rtgauge evaluate --target ssh://root@board"


def test_a_board_and_its_log_host_are_one_command() -> None:
    steps = [
        made.step(0, [], "response", parameters={"line": "gpio:0:1"}, load="sched"),
        made.step(1, [latency(67, 1000, name="response")], "log-host",
                  parameters={"samples": "500", "answered-by": "user", "line": "gpio:1:2"},
                  budget_ns=150_000),
    ]  # fmt: skip
    document = built(made.run(steps))
    document["plan"]["steps"] = [
        {"parameters": {}, "log_host": "ssh://b", "log_line": "gpio:1:2", "log_set": "cpu=1"},
        {"parameters": {"answered-by": "user"}, "log_host": "ssh://b"},
    ]
    wanted = {
        "--line": "gpio:0:1", "--samples": "500", "--log-host": "ssh://b", "--load": "sched",
        "--log-line": "gpio:1:2", "--log-set": "cpu=1", "--budget": "150us",
    }  # fmt: skip
    for step in document["steps"]:
        words = shlex.split(step_command(document, step, {}))
        assert words[:3] == ["rtgauge", "run", "response"]
        given = dict(zip(words[3::2], words[4::2], strict=True))
        assert {name: given.get(name) for name in wanted} == wanted
    longer = shlex.split(step_command(document, document["steps"][1], {"for": "3h"}))
    assert "--samples" not in longer and "3h" in longer


@pytest.mark.parametrize("pair", [True, False])
def test_the_lines_of_an_emulated_board_are_not_those_of_the_board(pair: bool) -> None:
    line = {"line": "gpio:rtgauge-doorbell:1:2"}
    last = {"samples": "500", "answered-by": "user"}
    steps = [
        made.step(0, [latency(67, 1000)], "response" if pair else "timer", parameters=line),
        made.step(1, [latency(67, 1000, name="response")], "log-host", parameters=last),
    ]
    run = built(made.run(steps if pair else steps[:1]))
    run["target"], run["environment"]["lab"] = "lab:x86_64-rt,lines=outside", {"mode": "plain"}
    run["plan"]["steps"] = [{"parameters": {}}, {"parameters": last}][: 2 if pair else 1]
    run["environment"]["lab"]["meaning"] = ""
    actions = list(answer_of(run).actions)
    (board,) = [one for one in actions if one.text == "Measure on the board itself"]
    assert ("doorbell" in board.command) is (not pair)
    lines = "--log-host ssh://root@logger --log-line gpio:gpiochip0:22:23:24"
    assert (lines in board.command and "--line gpio:gpiochip0:17:27" in board.command) is pair
    assert ("root@logger and the lines" in board.gain) is pair
    rest = [one.command for one in actions if one is not board and "response" in one.command]
    assert all("gpio:rtgauge-doorbell:1:2" in command for command in rest) and bool(rest) is pair


def test_actions_are_three_at_most_and_commands_are_whole() -> None:
    environment = made.ENVIRONMENT | {"realtime": "voluntary"}
    answer = answer_of(built(made.run(mixed_steps(1, 4, 6), environment=environment)))
    assert len(answer.actions) == 3
    for command in filter(None, (*(one.command for one in answer.actions), answer.sure_command)):
        assert shlex.split(command)[0] == "rtgauge"
        assert "\n" not in command


def test_two_remedies_with_one_command_are_one_action() -> None:
    run = timers(10, 18)
    finding = {**made.FINDINGS[0], "remedy": "swapoff -a", "command": "swapoff -a"}
    run.document["findings"] = [{**finding, "check": check} for check in ("swap", "memory")]
    actions = answer_of(built(run)).actions
    assert len(actions) == 3
    commands = [text for one in actions for text in (one.command, one.again) if text]
    assert len(commands) == len(set(commands)) and "swapoff -a" in commands


def commands_in(blocks: tuple[Block, ...]) -> list[str]:
    found = []
    for block in blocks:
        if isinstance(block, Command):
            found.append(block.text)
        elif isinstance(block, Callout | Section):
            found += commands_in(block.blocks)
        elif isinstance(block, Bullets):
            found += [one for _, below in block.items for one in commands_in(below)]
    return found


def test_each_command_is_said_once() -> None:
    answer = answer_of(built(timers(10, 18)))
    assert answer.sure_command in [action.command for action in answer.actions]
    assert commands_in((answer_section(answer, None),)).count(answer.sure_command) == 1
    alone = dataclasses.replace(answer, actions=())
    box = answer_section(alone, None).blocks[0]
    assert commands_in((box,)).count(answer.sure_command) == 1


_PAIR = {"parameters": {"answered-by": "1"}}


@pytest.mark.parametrize(
    "steps",
    [[1, 2], "ab", {"a": 1}, [{}, {"parameters": 5}], [1, _PAIR], [{"log_line": {}}, _PAIR]],
)
def test_a_plan_of_another_form_does_not_hide_the_answer(steps: Any) -> None:
    run = made.run([made.step(at, [latency(10)]) for at in range(2)], plan={"steps": steps})
    assert answer_of(built(run)).actions[-1].command


def test_what_finds_the_cause_comes_before_a_longer_run_if_the_system_is_not_fit() -> None:
    step = made.step(0, [latency(200)], budget_ns=150_000, load="sched")
    given = {"stop-above": stream.Parameter("0", "0"), "for": stream.Parameter("60s", "60s")}
    step.header = dataclasses.replace(step.header, parameters=given)
    actions = answered(step).actions
    assert [action.text for action in actions] == ["Find the cause", "Measure the idle system"]
    assert "--stop-above 180us" in actions[0].command
    assert "--load" not in actions[1].command


@pytest.mark.parametrize(
    ("load", "text", "gain"),
    [
        ("explain", "Measure without the trace", "shows whether the trace is the cause"),
        ("sched,explain", "Measure the idle system", "shows whether the load is the cause"),
    ],
)
def test_the_idle_system_is_measured_without_the_trace(load: str, text: str, gain: str) -> None:
    run = built(made.run([made.step(0, [latency(200)], budget_ns=150_000, load=load)], findings=[]))
    run["steps"][0]["run_options"] |= {"explain": True, "explain-above": "50us"}
    action = next(one for one in answer_of(run).actions if one.text == text)
    assert action.gain == gain
    assert "explain" not in action.command
    loaded = [one.command for one in answer_of(run).actions if one.text == "Measure under load"]
    assert len(loaded) == (load == "explain")
    assert not any("explain" in command for command in loaded)


def test_an_interrupted_run_has_one_command_that_repeats_it() -> None:
    step = made.step(0, [latency(67, 60_000)], budget_ns=150_000)
    step.document["state"] = "interrupted"
    answer = answer_of(built(made.run([step], findings=[], state="interrupted")))
    assert answer.sure_command
    repeats = [one.command for one in answer.actions if "--load" not in one.command]
    assert repeats == [answer.sure_command]


def test_an_interrupted_run_that_is_too_late_is_run_again_last() -> None:
    """A run of hours that was stopped because its budget was exceeded was repeated first."""
    step = made.step(0, [latency(200)], budget_ns=150_000, load="sched")
    step.document["state"] = "interrupted"
    run = built(made.run([step], findings=[], state="interrupted"))
    texts = [action.text for action in answer_of(run).actions]
    assert texts == ["Measure the idle system", "Run it again"]


def test_a_remedy_that_ends_in_a_command_has_it_apart() -> None:
    remedy = "build and load the kernel module: rtgauge module load"
    steps = mixed_steps(0, 1, 2)
    steps[-1].document |= {"remedy": remedy, "command": "rtgauge module load"}
    run = made.run(steps)
    run.document["target"] = "ssh://root@board"
    document = built(run)
    command = "rtgauge module load --target ssh://root@board"
    assert document["steps"][-1]["command"] == command
    assert document["steps"][-1]["remedy"] == f"build and load the kernel module: {command}"
    actions = [one for one in answer_of(document).actions if one.command == command]
    assert [one.text for one in actions] == ["Build and load the kernel module"]


def test_a_calibration_that_failed_for_want_of_space_has_its_remedy() -> None:
    """The first advice was another kernel."""
    gone: dict[str, Any] = {"header": None, "end": None}
    free = {"state": "failed", "reason": "the disk is full", "remedy": "free some space there"}
    steps = [
        made.step(0, [], state="skipped", reason="the run has not reached this step", **gone),
        made.step(1, [], "clock-cost", role="calibration", **free, **gone),
    ]
    environment = made.ENVIRONMENT | {"realtime": "voluntary"}
    run = made.run(steps, environment=environment, findings=[], state="failed")
    texts = [one.text for one in answer_of(built(run)).actions]
    assert texts[0] == "Free some space there"
    assert "PREEMPT_RT" in texts[1]


def test_after_an_exceeded_budget_the_remedies_of_the_latency_come_first() -> None:
    steps = mixed_steps(0, 1, 2)
    steps[-1].document["remedy"] = "build and load the kernel module: rtgauge module load"
    slow = made.step(0, [latency(200)], budget_ns=150_000)
    environment = made.ENVIRONMENT | {"realtime": "voluntary"}
    run = made.run([slow, *steps[1:]], environment=environment)
    texts = [one.text for one in answer_of(built(run)).actions]
    assert "PREEMPT_RT" in texts[0]
    assert any(text.startswith("Build and load the kernel module") for text in texts[1:])


@pytest.mark.parametrize("steps", [[], [made.step(1, [latency(5)], load="sched")]])
def test_after_a_failed_test_its_remedy_comes_first(steps: list[made.FakeStep]) -> None:
    """Without a protocol, priority inversion is expected: no other kernel prevents it."""
    tests = [
        stream.Verdict(0, "in turn", "fail", "", ""),
        stream.Verdict(0, "no inversion", "fail", "", "create the mutex with a protocol"),
    ]
    finding = {"check": "preemption", "found": "voluntary", "level": "error", "why": "it waits"}
    kernel = finding | {"remedy": "boot a PREEMPT_RT kernel"}
    locks = made.step(0, [], "locks", verdicts=tests)
    environment = made.ENVIRONMENT | {"realtime": "voluntary"}
    run = made.run([locks, *steps], environment=environment, findings=[kernel])
    answer = answer_of(built(run))
    assert answer.state is State.UNFIT
    texts = [one.text for one in answer.actions]
    assert texts[0] == "Create the mutex with a protocol"
    assert "PREEMPT_RT" in texts[1]
    assert texts.count(texts[0]) == 1
