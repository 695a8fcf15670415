# SPDX-License-Identifier: Apache-2.0
"""A cause is named only if it can have touched the sample of the maximum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import report_runs as made
from answers import built, latency, text
from rtgauge import stats, stream
from rtgauge.causes import Cause, Cost, Segment, Task
from rtgauge.causes.blame import blame
from rtgauge.causes.model import plain
from rtgauge.report.document.answer import Answer, answer_of, answer_section, cause
from rtgauge.report.document.blocks import Callout, Paragraph
from rtgauge.report.results.observations import QUOTA

MS = 1_000_000
SECOND = 1_000 * MS


def reading(at_s: float, steal: tuple[int, ...] = (0, 0), smi: int | None = 0) -> stream.Ambience:
    """A reading of background activity. ``steal``: of each CPU, in ns."""
    cpus = tuple(range(len(steal)))
    quiet: Any = (None,) * len(steal)
    return stream.Ambience(0, int(at_s * SECOND), cpus, quiet, (0,) * len(steal), steal, smi, {})


def cause_of(*series: made.FakeSeries, **more: Any) -> str:
    """The cause of the maximum of a run with one step of these series."""
    return text(answer_of(built(made.run([made.step(0, list(series), **more)]))).cause)


def stolen(second: int, cpu: int, ns: int = 40 * MS, seconds: int = 10) -> list[stream.Ambience]:
    """Readings of a step, in one second of which a hypervisor took time."""
    taken = tuple(ns if cpu == each else 0 for each in (0, 1))
    return [reading(at - 0.01, taken if at == second else (0, 0)) for at in range(seconds + 1)]


# The maximum of ``latency`` is in the middle: 5 s into the step.


def test_the_hypervisor_is_a_cause_on_the_cpu_of_the_maximum_only() -> None:
    both = latency(30_000, cpu=0), latency(50, cpu=1)
    said = cause_of(*both, ambience=stolen(6, cpu=0))
    assert said.startswith("Possible cause: the hypervisor. A hypervisor took 40 ms from CPU 0 ")
    assert "hypervisor" not in cause_of(*both, ambience=stolen(6, cpu=1))
    # of two CPUs, the one of the maximum is named, though more was taken from the other one
    taken = [reading(at - 0.01, (40 * MS, 90 * MS) if at == 6 else (0, 0)) for at in range(11)]
    said = cause_of(*both, ambience=taken)
    assert "CPU 0" in said and "CPU 1" not in said


@pytest.mark.parametrize(
    ("taken", "disturb", "first"),
    [(True, "", True), (False, "", False), (True, "kthread:200us:7.301ms", False)],
)
def test_the_first_advice_fits_the_hypervisor_as_the_cause(
    taken: bool, disturb: str, first: bool
) -> None:
    """It was another kernel, which a hypervisor delays as well. An injection is likelier."""
    findings = [
        {**made.FINDINGS[0], "check": check, "level": level, "remedy": check, "command": ""}
        for check, level in (("preemption", "error"), ("virtualisation", "warning"))
    ]
    ambience = stolen(6, cpu=0) if taken else ()
    step = made.step(0, [latency(30_000)], ambience=ambience, disturb=disturb)
    actions = answer_of(built(made.run([step], findings=findings))).actions
    assert actions[0].text.startswith("Virtualisation" if first else "Preemption")
    assert sum("Finding virtualisation: " in action.gain for action in actions) == 1


@pytest.mark.parametrize(
    ("second", "named"),
    # the kernel books the time when the CPU runs again, before the next reading
    [(5, False), (6, True), (7, False)],
)
def test_the_hypervisor_is_a_cause_at_the_time_of_the_maximum_only(
    second: int, named: bool
) -> None:
    said = cause_of(latency(30_000), ambience=stolen(second, cpu=0))
    assert ("hypervisor" in said) is named
    assert not named or "1 s" in said


@pytest.mark.parametrize(("taken_ms", "named"), [(10, False), (20, True), (900, True)])
def test_the_hypervisor_is_a_cause_if_it_took_enough_time(taken_ms: int, named: bool) -> None:
    said = cause_of(latency(30_000), ambience=stolen(6, cpu=0, ns=taken_ms * MS))
    assert ("hypervisor" in said) is named


@pytest.mark.parametrize(("taken_ms", "coarse"), [(20, True), (90, True), (100, False)])
def test_a_short_stolen_time_is_shown_with_its_resolution(taken_ms: int, coarse: bool) -> None:
    """Two readings 10 ms apart: the hypervisor took more than 0 and less than 20 ms."""
    said = cause_of(latency(30_000), ambience=stolen(6, cpu=0, ns=taken_ms * MS))
    assert ("The kernel counts this time in steps of 10 ms." in said) is coarse


def test_a_maximum_after_the_last_reading_has_no_cause_in_them() -> None:
    assert "hypervisor" not in cause_of(latency(30_000), ambience=stolen(3, cpu=0, seconds=4))


def test_the_last_reading_is_soon_after_a_sample_that_ends_the_step() -> None:
    """As with ``--stop-above``: the next period does not come."""
    values = np.full(1000, 5_000, np.int32)
    values[-1] = 30 * MS
    series = made.sampled(values, 0, 0)
    end_s = (int(series.due_ns[-1]) + 30 * MS) / SECOND
    readings = [reading(0), reading(end_s + 0.0002, (40 * MS, 0))]
    assert "hypervisor" in cause_of(series, ambience=readings)
    readings = [reading(0), reading(end_s - 0.002, (40 * MS, 0))]
    assert "hypervisor" not in cause_of(series, ambience=readings)


def test_the_hypervisor_is_possible_where_the_time_of_the_maximum_is_not_known() -> None:
    series = latency(30_000)
    series.lost = ((9_999, 1, 31_000_000),)
    for taken_ms, named in ((10, False), (40, True)):
        ambience = stolen(3, cpu=0, ns=taken_ms * MS)
        assert ("hypervisor" in cause_of(series, ambience=ambience)) is named


@pytest.mark.parametrize(
    ("second", "top_us", "named"), [(6, 300, True), (4, 300, False), (6, 30_000, False)]
)
def test_the_firmware_is_a_cause_near_the_maximum_only(
    second: int, top_us: int, named: bool
) -> None:
    """An interrupt of the firmware takes less than 10 ms."""
    readings = [reading(at - 0.01, smi=int(at == second)) for at in range(11)]
    said = cause_of(latency(top_us), ambience=readings)
    assert said.startswith("Possible cause: the firmware. 1 system management") is named


def test_an_injection_is_a_cause_on_its_cpu_only() -> None:
    """The first measured CPU is disturbed."""
    more = {"disturb": "kthread:200us:7.301ms"}
    for tops in ((210, 50), (50, 210)):
        series = [latency(top, cpu=2 + at, thread=at) for at, top in enumerate(tops)]
        assert ("injection" in cause_of(*series, **more)) is (tops[0] == 210)


@pytest.mark.parametrize(("top_us", "named"), [(30, False), (210, True), (5_000, False)])
def test_an_injection_is_a_cause_of_a_maximum_of_its_length_only(top_us: int, named: bool) -> None:
    """On PREEMPT_RT, a thread without a lock delays no real-time task."""
    said = cause_of(latency(top_us), disturb="kthread:200us:7.301ms")
    assert ("injection" in said) is named


def first(top_us: int, usual_us: int, cpu: int) -> made.FakeSeries:
    """A series whose first sample is the largest."""
    values = np.full(1000, usual_us * 1000, np.int32)
    values[0] = top_us * 1000
    return made.sampled(values, cpu, cpu)


def test_cold_caches_are_those_of_the_series_with_the_maximum() -> None:
    """The observation is about the series with the largest ratio."""
    said = cause_of(first(60, 10, cpu=0), first(40, 2, cpu=1))
    assert said.startswith("Likely cause: cold caches.")
    assert "60.0 us" in said and "10.0 us" in said
    assert "CPU 1" not in said and "40.0 us" not in said


def test_caches_do_not_take_milliseconds() -> None:
    assert "caches" not in cause_of(first(40_000, 10, cpu=0))


@pytest.mark.parametrize(("again_us", "named"), [(170, False), (165, False), (100, True)])
def test_cold_caches_are_not_the_cause_of_what_warm_ones_repeat(again_us: int, named: bool) -> None:
    series = first(170, 5, cpu=0)
    series.value[500:505] = again_us * 1000
    assert ("caches" in cause_of(series)) is named


def polled(gap_us: int, cpu: int = 0, name: str = "gaps", **more: Any) -> made.FakeStep:
    """A step of a thread that polled the clock, with one series of gaps."""
    info = made.info(0, cpu, name=name, interval_ns=0)
    series = made.FakeSeries(info, np.arange(1), np.array([gap_us * 1000], np.int32))
    return made.step(1, [series], "polling", **more)


POLLING: Any = {
    "measurements": [
        {"name": "polling", "unseen_gaps": "gaps", "series": [{"name": "gaps"}, {"name": "seen"}]}
    ]
}


@pytest.mark.parametrize(
    ("step", "named"),
    [
        (polled(30), True),
        (polled(29), False),
        (polled(30, cpu=1), False),
        (polled(30, name="seen"), False),
        (polled(30, disturb="local_irq_save:30us:7.301ms"), False),
    ],
)
def test_the_hardware_is_a_cause_if_a_gap_on_the_cpu_is_as_long(
    step: made.FakeStep, named: bool
) -> None:
    """The kernel did not see these gaps."""
    run = made.run([made.step(0, [latency(30)]), step], catalogue=POLLING)
    said = text(answer_of(built(run)).cause)
    gap = (
        "Possible cause: the hardware, the firmware or a hypervisor. "
        "One of them took CPU 0 for up to 30.0 us in polling (step 2), and the kernel did not see "
        "it."
    )
    assert said == (gap if named else cause.UNKNOWN)
    run.document["catalogue"] = {"measurements": [{"name": "polling"}]}  # of an older agent
    assert text(answer_of(built(run)).cause) == cause.UNKNOWN


def blamed(
    ambience: Sequence[stream.Ambience] = (),
    kind: str = "interrupts-off",
    top_us: int = 30_000,
    source: str = "tracefs",
    disturb: str = "",
    **document: Any,
) -> Answer:
    """The answer of a run with a maximum of which a trace shows all but 100 us as this class."""
    document = {"findings": [], **document}
    step = made.step(0, [latency(top_us)], ambience=list(ambience), disturb=disturb)
    run = made.run([step], **document)
    segment = Segment(0, (top_us - 100) * 1000, kind, "inferred", Task("disk", 7, "other"))
    said = blame([segment], top_us * 1000, 5000)[0]
    found = Cause(
        *(0, 0, "user", 5000, 5 * SECOND, top_us * 1000, (segment,), 100_000),
        *(source, said, Cost(0, "")),
    )
    results = built(run)
    results["causes"] = [plain(found)]
    return answer_of(results)


KNOWN = "interrupts were off, task disk (29 900 of 30 000 us)"
GUEST = {**made.ENVIRONMENT, "virtualisation": {"hypervisor": "KVM"}}
PLAIN = {**made.ENVIRONMENT, "lab": {"mode": "plain", "meaning": ""}}
COUNTED = {**GUEST, "lab": {"mode": "counted", "meaning": ""}}


def test_a_trace_does_not_show_what_a_hypervisor_took() -> None:
    """While a virtual CPU does not run, its kernel is where it was."""
    assert text(blamed().cause) == f"Cause: {KNOWN}."
    said = text(blamed(stolen(6, cpu=0)).cause)
    assert said.startswith("Possible cause: the hypervisor. A hypervisor took 40 ms from CPU 0 ")
    assert said.endswith(f" Another one: {KNOWN}.")
    assert text(blamed(stolen(6, cpu=1)).cause) == f"Cause: {KNOWN}."
    said = text(blamed(stolen(6, cpu=0), "preemption-off").cause)
    assert said.startswith("Possible cause: task disk was not preempted (29 900 of 30 000 us). ")
    assert ". Another one: the hypervisor. A hypervisor took 40 ms from CPU 0 " in said


@pytest.mark.parametrize(
    ("environment", "who"), [(GUEST, "the hypervisor"), (PLAIN, "the host of the emulator")]
)
@pytest.mark.parametrize(
    ("kind", "top_us", "first"),
    [
        *[(each, 6400, True) for each in ("interrupts-off", "interrupt", "softirq", "hardware")],
        ("interrupts-off", 900, False),
        ("preemption-off", 6400, False),
        ("higher-priority", 6400, False),
    ],
)
def test_a_trace_of_a_virtual_machine_proves_no_cause(
    environment: dict[str, Any], who: str, kind: str, top_us: int, first: bool
) -> None:
    """The kernel often counts no short theft. No handler runs for milliseconds."""
    said = text(blamed((), kind, top_us, environment=environment).cause)
    known = text(blamed((), kind, top_us).cause).removeprefix("Cause: ").removesuffix(".")
    note = f"A trace does not show time taken by {who}."
    if first:
        assert said == f"Possible cause: {who}. {note} Another one: {known}."
    else:
        assert said == f"Possible cause: {known}. Another one: {who}. {note}"


def test_the_firmware_is_named_after_what_a_trace_shows() -> None:
    ambience = [reading(at - 0.01, smi=int(at == 6)) for at in range(11)]
    known = text(blamed((), top_us=6400).cause).removeprefix("Cause: ")
    said = text(blamed(ambience, top_us=6400).cause)
    assert said.startswith(f"Possible cause: {known} Another one: the firmware. ")


def test_a_counted_board_and_a_replay_lose_no_time_to_a_host() -> None:
    assert text(blamed(environment=COUNTED).cause) == f"Cause: {KNOWN}."
    assert text(blamed(environment=GUEST, source="replay").cause) == f"Cause: {KNOWN}."


def test_an_injection_explains_milliseconds_with_interrupts_off() -> None:
    said = text(blamed(environment=GUEST, disturb="irqsoff:30ms:1s").cause)
    assert said.startswith(f"Possible cause: {KNOWN}. Another one: the hypervisor. A trace ")


def test_the_remedy_for_a_hypervisor_that_a_trace_does_not_show_comes_first() -> None:
    environment = {**GUEST, "realtime": "voluntary"}
    findings = [
        made.FINDINGS[0] | {"check": check, "level": level, "remedy": "do it", "command": ""}
        for check, level in (("preemption", "error"), ("virtualisation", "warning"))
    ]
    first = blamed(environment=environment, findings=findings).actions[0]
    assert (first.text, "Finding virtualisation: " in first.gain) == ("Do it", True)
    # it has no name, but took time since boot
    findings[1]["found"] = "no hypervisor found, but steal time 5 % since boot"
    environment["virtualisation"] = {"hypervisor": "", "steal": 0.05}
    answer = blamed(environment=environment, findings=findings)
    assert text(answer.cause).startswith("Possible cause: the hypervisor. A trace ")
    assert "Finding virtualisation: no hypervisor found, but " in answer.actions[0].gain


def test_the_policy_of_a_task_is_no_cause_of_the_latency_of_a_handler() -> None:
    def said(handler_us: int) -> str:
        handler = latency(handler_us, context="irq", policy="", priority=0)
        task = latency(50, policy="other", priority=0)
        task.info = replace(task.info, series=1)
        step = made.step(0, [handler, task], parameters={"priority": "80"})
        return text(answer_of(built(made.run([step]))).cause)

    assert said(20).startswith("Likely cause: SCHED_OTHER")
    assert "SCHED_OTHER" not in said(300)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("idle", "size", "apart", "cpus", "loads"),
    [
        (1000, 1, 0, 1, 1),
        (100, 1, 0, 1, 1),
        (1000, 8, 1, 1, 1),
        (1000, 1, 0, 8, 1),
        (5000, 1, 0, 1, 10),
        (1000, 2, 30, 1, 1),
        (1000, 8, 30, 1, 1),
        (100, 8, 30, 1, 1),
    ],
)
def test_a_load_without_effect_is_rarely_named(
    idle: int, size: int, apart: int, cpus: int, loads: int
) -> None:
    """Simulated: samples of one distribution in groups, at once on all CPUs. 1000 groups under each
    load. ``apart``: mean distance of the samples of a group, in intervals."""
    named = _named(4000, idle, size, apart, cpus, loads)
    assert 0.0025 < named < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("idle", "power"), [(1000, 0.58), (300, 0.64), (200, 0.67), (100, 0.70)])
def test_an_effect_of_the_load_is_named(idle: int, power: float) -> None:
    """Simulated: samples that are ten times as late under load."""
    assert _named(4000, idle, effect=10) > power


def _named(
    runs: int,
    idle: int,
    size: int = 1,
    apart: int = 0,
    cpus: int = 1,
    loads: int = 1,
    effect: int = 1,
) -> float:
    """The share of runs in which the load is named."""
    random = np.random.default_rng(20261130)
    periods = 1000 * 20 * max(size, 1) * max(apart, 1)
    named = 0
    for _ in range(runs):
        rest, under = random.pareto(1, idle), random.pareto(1, (loads, 1000)) * effect
        top, best = rest.max(), int(under.max(axis=1).argmax())
        above = under[best][under[best] > top]
        starts = random.choice(periods // (20 * size), len(above), replace=False) * 20 * size
        steps = random.integers(2 * apart // 3, 4 * apart // 3 + 1, (len(above), size))
        index = (starts[:, np.newaxis] + steps.cumsum(axis=1)).ravel()
        value = np.repeat((above * 1e6).astype(np.int64), size)
        found = stats.groups(index, index, value, periods) if len(value) else []
        series = [
            {
                "step": step,
                "count": 1000 * size,
                "max_at_least": None,
                "unanswered": 0,
                "clustering": None,
                "histogram": [[value, value, size] for value in above],
                "groups": [(limit / 1e6, number) for limit, number in found],
            }
            for step in range(loads)
            for _ in range(cpus)
        ]
        same = [{"count": idle * size, "unanswered": 0}] * cpus
        likely = cause._later_by_chance(series, series[best * cpus], same, top) <= 0.05
        named += likely and under.max() >= 3 * top
    return named / runs


def test_unanswered_events_in_a_row_do_not_prove_an_effect_of_the_load() -> None:
    index = np.delete(np.arange(2000, dtype=np.int64), np.arange(700, 740))
    values = np.full(len(index), 5000, np.int32)
    silent = made.FakeSeries(made.info(name="response"), index, values, gaps=((699, 40),))
    steps = [made.step(0, [latency(10, name="response")]), made.step(1, [silent], load="sched")]
    run = built(made.run(steps, findings=[]))
    assert run["series"][1]["groups"][0][1] == 1
    assert text(answer_of(run).cause).startswith("The maximum may depend on the load: ")


@pytest.mark.parametrize(("gaps", "number"), [((), 8), (((1299, 2000),), 1)])
def test_missed_periods_count_for_the_mean_distance_in_bursts(gaps: Any, number: int) -> None:
    """Late samples 30 periods apart: a burst in 3300 periods, not in 1300."""
    values = np.full(1300, 5000, np.int32)
    values[100:340:30] = 300_000
    series = made.sampled(values, gaps=gaps)
    run = built(made.run([made.step(0, [series])]))
    assert run["series"][0]["groups"][0] == [300_000, number]


def test_late_samples_close_together_do_not_prove_an_effect_of_the_load() -> None:
    """One stall on two CPUs: twenty late samples in a row on each, a missed period among them."""
    index = np.arange(2000, dtype=np.int64)
    index[1010:] += 1
    values = np.full(2000, 5000, np.int32)
    values[1000:1020] = 300_000
    stalled = [
        made.FakeSeries(made.info(cpu, cpu), index, values, gaps=((1009, 1),)) for cpu in (0, 1)
    ]
    steps = [made.step(0, [latency(10, cpu=cpu) for cpu in (0, 1)])]
    steps += [made.step(1, stalled, load="sched")]
    run = built(made.run(steps, findings=[]))
    assert [one["groups"][0] for one in run["series"] if one["step"] == 1] == [[300_000, 1]] * 2
    assert text(answer_of(run).cause).startswith("The maximum may depend on the load: ")


RHYTHM = "Most late wake-ups (90 %) recur every 100.00 ms. Possible cause: a CPU quota."


@pytest.mark.parametrize(
    ("change", "named", "advised"),
    [
        ({}, True, True),
        ({"series": 1}, False, False),  # of another CPU than that of the maximum
        ({"suspects": ["the tick (250 Hz)"]}, True, False),
        ({"suspects": []}, True, False),
        ({"suspects": [], "maxima": True}, False, False),  # the cause is periodic, which is enough
        ({"maxima": True}, True, True),
        ({"disturb": "kthread:200us:7.301ms"}, False, False),
        ({"budget_us": 40_000}, True, False),  # nothing is late
        ({"budget_us": 400_000}, False, False),  # no cause is searched
        ({"explained": True}, True, True),
    ],
)
def test_a_rhythm_of_most_late_samples_is_in_the_answer(
    change: dict[str, Any], named: bool, advised: bool
) -> None:
    """It follows the cause of the maximum, which may be another one."""
    both = [latency(30_000, cpu=0), latency(50, cpu=1)]
    disturb, budget_us = change.get("disturb", ""), change.get("budget_us", 150)
    step = made.step(0, both, disturb=disturb, budget_ns=1000 * budget_us)
    run = built(made.run([step], findings=[]))
    suspects = change.get("suspects", [QUOTA])
    late = {"series": change.get("series", 0), "text": RHYTHM, "suspects": suspects}
    maxima = [{"series": 0, "text": "Recurs."}] if "maxima" in change else []
    line = {"rule": "second line", "text": "", "series": [0, 1], "late": [late], "maxima": maxima}
    run["steps"][0]["observations"] = [line]
    if "explained" in change:
        found = Cause(
            *(0, 0, "user", 5000, 5 * SECOND, 30_000_000, (), 0),
            *("tracefs", "interrupts were off", Cost(0, "")),
        )
        run["causes"] = [plain(found)]
    answer = answer_of(run)
    assert answer.rhythm == (RHYTHM if named else "")
    assert text(answer.cause).startswith("Cause: ") is ("explained" in change)
    assert any("cpu.max" in action.text for action in answer.actions) is advised
    shown = [block for block in answer_section(answer, None).blocks if isinstance(block, Callout)]
    lines = [text(one.text) for one in shown[0].blocks if isinstance(one, Paragraph)]
    assert lines.count(RHYTHM) == named
    if named and answer.cause:
        assert lines.index(RHYTHM) > lines.index(next(o for o in lines if "ause" in o))
