# SPDX-License-Identifier: Apache-2.0
"""Blame, remedies and reports of explained samples."""

import errno
import json
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import report_runs as made
from conftest import Run
from explained import MEASURED, ORDINARY, TIMERS, cause, segment, stored_run
from rtgauge.causes import CLASSES, Cause, Remedy, Segment, Task, document_of
from rtgauge.causes.advice import advised
from rtgauge.causes.blame import main_segment, reason
from rtgauge.causes.explain import Explained, keep
from rtgauge.causes.remedies import REMEDIES, System, remedies
from rtgauge.errors import TargetError
from rtgauge.report.document.answer import answer_of
from rtgauge.report.document.answer.cause import _likely, hint_of
from rtgauge.report.document.answer.data import Data
from rtgauge.report.document.blocks import Document, plain_line
from rtgauge.report.document.causes import causes_sections
from rtgauge.report.pictures.segments import gantt, gantt_said
from rtgauge.report.render import markdown
from rtgauge.report.render.causes_text import common, lines
from rtgauge.report.render.perfetto import trace
from rtgauge.report.results import model
from rtgauge.store import StoredRun


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    return stored_run(tmp_path, {"timer": 900})


STOCK = System("voluntary", "lab:x86_64-stock", ("timer", "--load", "sched"))


def test_the_blame_names_class_task_and_function_and_what_to_try() -> None:
    found = cause(
        segment("interrupts-off", 20_000, "free_one_page"),
        segment("preemption-off", 40_000, "copy", stack=("copy", "read")),
        segment("interrupt", 10_000, "apic_timer_interrupt"),
        segment("preemption-off", 25_000, "clear"),
    )
    main = main_segment(found.segments)
    assert main is not None
    assert (main.kind, main.function, main.length_ns) == ("preemption-off", "copy", 65_000)
    blamed = advised(found, 8_000, STOCK)
    assert blamed.blame == "task load/sched was not preempted: copy (65.0 of 95.0\u202fµs)"
    first, second = blamed.remedies
    command = "rtgauge tune timer --load sched --target lab:x86_64-stock --try preempt=full"
    assert first.command == command
    assert "PREEMPT_RT" in second.text
    text = "\n".join(lines(blamed, "timer latency", "replayed"))
    for words in (
        "user context",
        "sample 1\u202f883",
        "95.0\u202fµs",
        "not preempted",
        "copy < read",
        "try",
    ):
        assert words in text
    assert all(len(line) <= 80 for line in text.splitlines() if "rtgauge tune" not in line)


@pytest.mark.parametrize("length_ns", [1_000, 999_999, 1_000_000, 79_751_885, 1_500_000_000])
def test_the_figures_of_segments_are_in_a_column(length_ns: int) -> None:
    """The points are one below the other, also of times of more than a ms."""
    found = cause(segment("interrupt", 500, "f"), segment("operation", length_ns, "g"))
    table = lines(replace(found, rest_ns=30), "timer")[1:4]
    assert len({line.index(".") for line in table}) == 1, table


def test_the_longest_segment_is_shown_among_many_equal_ones() -> None:
    short = [
        segment("softirq" if at % 2 else "interrupt", 100, f"handler_{at}") for at in range(20)
    ]
    text = "\n".join(lines(cause(*short, segment("interrupt", 500_000, "bad_driver_irq")), "timer"))
    assert "500.000" in text and "bad_driver_irq" in text
    assert "0.900     in 9 more segments" in text


def test_each_owner_of_a_lock_is_blamed_for_its_own_part() -> None:
    other = Task("another", 11)
    found = cause(
        segment("lock", 500, "get"),
        segment("lock", 1_000, "get", owner=other, task=other),
        segment("lock", 60_000, "get", owner=ORDINARY),
        segment("lock", 500, "get", owner=None, task=MEASURED),
    )
    main = main_segment(found.segments)
    assert main is not None
    assert (main.owner, main.length_ns) == (ORDINARY, 60_500)
    text = "\n".join(lines(replace(found, blame="x"), "timer latency"))
    assert "1.500 µs  waiting for a lock      in get, held by another" in text
    assert "60.500     waiting for a lock      in get, held by load/sched" in text


def test_an_ordinary_sample_blames_nothing() -> None:
    found = cause(segment("interrupt", 5_000, "apic_timer_interrupt"), latency_ns=9_000)
    assert advised(found, 8_000, STOCK).blame.startswith("nothing:")
    assert not advised(found, 8_000, STOCK).remedies
    # as a board of the lab had it: a handler's time varies by more than it takes
    found = cause(segment("interrupt", 2_447, "apic_timer_interrupt"), latency_ns=2_447)
    assert advised(found, 1_011, STOCK).blame.startswith("nothing:")
    # an operation of a test loop waits for no interrupt
    handler = replace(segment("interrupt", 2_660, "apic_timer_interrupt"), begin_ns=27)
    loop = (segment("operation", 27, "x"), handler, segment("operation", 55, "x"))
    found = replace(found, segments=loop, latency_ns=2_742)
    assert advised(found, 82, STOCK).blame.startswith("an interrupt handler ran")
    assert advised(found, 1_371, STOCK).blame.startswith("nothing:")
    # state 0 of x86 polls
    found = cause(segment("hardware", 95_000, "idle state 0"))
    words = "nothing ran: the processor was idle: idle state 0"
    assert advised(found, 8_000, STOCK).blame.startswith(words)
    # most of it was not seen
    found = cause(segment("switch", 4_000, "x"), latency_ns=190_000)
    assert advised(found, 8_000, STOCK).blame.startswith("not seen: 186 of 190\u202fµs")
    found = cause(segment("interrupts-off", 4_100, "x"), latency_ns=4_100)
    assert advised(found, 1_011, STOCK).blame.startswith("interrupts were off")


@pytest.mark.parametrize(
    ("handler", "threaded"),
    [
        ("eth0", True),
        ("call_function_single", False),
        ("reschedule_ipi", False),
        ("Rescheduling interrupts", False),
        ("Function call interrupts", False),
        ("irq_work", False),
        ("local timer", False),
        ("at91_tick", False),
        ("tc_clkevt", False),
        ("hpet2", False),
    ],
)
def test_only_handlers_of_devices_become_threads(handler: str, threaded: bool) -> None:
    found = remedies(segment("interrupt", 9, handler), STOCK)
    assert any("threadirqs" in one.text for one in found) is threaded


@pytest.mark.parametrize(
    ("main", "system", "words"),
    [
        (segment("lock", 9, "get_random_u16"), STOCK, "randomize_kstack_offset=off"),
        (segment("preemption-off", 9, "x"), replace(STOCK, realtime="preempt_rt"), ""),
        (segment("interrupts-off", 9, "__free_one_page"), STOCK, "PREEMPT_RT kernel"),
        (segment("interrupts-off", 9, "x"), replace(STOCK, realtime="preempt_rt"), ""),
        (segment("softirq", 9, "net_rx_action"), STOCK, "threadirqs"),
        (segment("higher-priority", 9, "x"), STOCK, "priority=98"),
        (
            segment("higher-priority", 9, "x", task=Task("hog", 3, "fifo", 99)),
            STOCK,
            'that ran", ""]',
        ),
        (segment("higher-priority", 9, "x", task=Task("edf", 3, "deadline")), STOCK, ""),
        (segment("higher-priority", 9, "", task=Task("migration/0", 12, "fifo", 99)), STOCK, ""),
        (segment("hardware", 9, ""), STOCK, "--try idle=poll"),
        (segment("hardware", 9, "idle state 3"), STOCK, "--try idle=poll"),
        (segment("hardware", 9, "idle state 0"), STOCK, ""),
        (segment("hardware", 9, "idle state 0"), replace(STOCK, machine="aarch64"), "--try nohlt"),
        (segment("hardware", 9, "idle state 3"), replace(STOCK, boots=False), 'idle", ""]'),
        (segment("higher-priority", 9, "x"), replace(STOCK, boots=False), "priority=98"),
        (segment("hardware", 9, ""), replace(STOCK, machine="aarch64"), "--try nohlt"),
        (segment("switch", 9, "x"), STOCK, ""),
        (
            segment("preemption-off", 9, "busy", task=Task("rtgauge_disturb", 5, "fifo", 1)),
            replace(STOCK, disturb="spin_lock:1us:9us"),
            "the injection",
        ),
    ],
)
def test_remedies_depend_on_class_function_and_kernel(
    main: Segment, system: System, words: str
) -> None:
    text = json.dumps([(one.text, one.command) for one in remedies(main, system)])
    assert words in text
    assert words or text == "[]"


def test_another_priority_is_tried_against_that_of_the_run() -> None:
    system = replace(STOCK, words=("timer", "--priority", "20"))
    task = Task("irq/17-eth0", 3, "fifo", 50)
    (remedy,) = remedies(segment("higher-priority", 9, "", task=task), system)
    words = "rtgauge tune timer --priority 20 --target lab:x86_64-stock --try priority=98"
    assert remedy.command == words


def test_arguments_that_the_kernel_has_or_ignores_are_no_remedies() -> None:
    system = replace(STOCK, without_effect=frozenset({"preempt=full", "threadirqs", "idle=poll"}))
    for kind in ("preemption-off", "softirq"):
        (remedy,) = remedies(segment(kind, 9, "x"), system)
        assert remedy.text.startswith("a PREEMPT_RT kernel")
    assert not remedies(segment("interrupt", 9, "eth0"), system)
    assert not remedies(segment("hardware", 9, ""), system)


def test_the_table_of_remedies_names_only_classes_of_the_model() -> None:
    assert {row.kind for row in REMEDIES} <= set(CLASSES)


def test_what_the_worst_samples_have_in_common_is_counted() -> None:
    one = replace(cause(), blame="task a was not preempted: f (1.00 of 2.00\u202fµs)")
    two = replace(one, blame="task a was not preempted: f (9.00 of 12.0\u202fµs)")
    text = common([one, two, replace(one, blame="interrupts were off: g (1.0 of 2.0 µs)")])
    assert text[0] == "the 3 worst in user context:"
    assert text[1].split(None, 1) == ["2", "task a was not preempted: f"]
    assert common([one]) == []
    bare = replace(one, blame="")
    assert common([bare, bare]) == []
    assert [row.split()[0] for row in common([bare, bare, bare, one, two])[1:]] == ["2"]
    unseen = [
        replace(one, blame=f"not seen: {n}.00 of 9.50\u202fµs is not explained") for n in (8, 9)
    ]
    assert common(unseen)[1].split(None, 1) == ["2", reason(unseen[0].blame)]
    both = [replace(one, series=series, index=index) for series in (2, 3) for index in (0, 1)]
    assert common(both)[0] == "the 2 worst of each of 2 series in user context:"
    assert common(both[1:])[0] == "3 samples of 2 series in user context:"
    # of a trace, the worst one and the last ones
    traced = [replace(each, source="tracefs") for each in (one, two)]
    assert common(traced)[0] == "2 traced samples in user context:"
    usual = [replace(one, blame=f"nothing: an ordinary sample. The median is {n}") for n in (1, 2)]
    assert [row.split(None, 1) for row in common(usual)[1:]] == [
        ["2", "nothing: an ordinary sample"]
    ]


def test_causes_replace_earlier_ones_of_the_same_sample(tmp_path: Path) -> None:
    run = StoredRun(tmp_path, {"id": "0198"})
    keep(run, [cause(segment("switch", 1, "a"))])
    keep(run, [replace(cause(), index=7), cause(segment("switch", 2, "b"))])
    kept = run.causes["causes"]
    assert [(one["index"], len(one["segments"])) for one in kept] == [(7, 0), (1883, 1)]
    assert kept[1]["segments"][0]["function"] == "b"


def explained_run(*causes: Cause) -> dict[str, Any]:
    run: Any = made.run([made.step(0, [made.FakeSeries(made.info(), *made_samples())])])
    run.causes = json.loads(json.dumps(document_of(run.id, causes)))
    document: dict[str, Any] = model.build([run])["runs"][0]
    return document


def made_samples() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.arange(100), np.full(100, 5000, np.int32)


BLAMED = replace(
    cause(
        segment("interrupts-off", 20_000, "free_one_page"),
        replace(
            segment("preemption-off", 60_000, "copy<b>", functions=(("copy<b>", 60_000),)),
            begin_ns=20_000,
        ),
        replace(segment("lock", 14_000, "get", owner=ORDINARY), begin_ns=80_000),
    ),
    blame="task load/sched was not preempted: copy<b> (60.0 of 95.0\u202fµs)",
    rest_ns=1_000,
    remedies=(Remedy("preempt=full", "rtgauge tune timer --try preempt=full"),),
)


TRACED = (
    segment("interrupt", 7_000, "local timer"),
    replace(segment("trace", 88_000, "stack"), begin_ns=7_000),
)


def test_the_answer_names_the_cause_or_the_command_that_finds_it() -> None:
    series = made.sampled(np.full(100, 5000, np.int32), context="user")
    series.value[[7, 50]] = 95_000
    top = replace(BLAMED, index=7, series=0)
    lab = {**made.ENVIRONMENT, "lab": {"mode": "counted"}}
    run: Any = made.run([made.step(0, [series])], target="lab:x86_64-stock", environment=lab)
    for causes, words in (
        ((), f"rtgauge explain {run.id[:13]}"),
        ((top,), "Cause: task load/sched was not preempted: copy<b>"),
        # samples of the same value, later and of another series, have causes of their own
        ((replace(top, index=50),), f"rtgauge explain {run.id[:13]}"),
        ((replace(top, series=1),), f"rtgauge explain {run.id[:13]}"),
        ((replace(top, index=50, blame="another"), top), "Cause: task load/sched was"),
        # without the trace, the maximum is ordinary
        (
            (replace(top, blame="nothing: an ordinary sample", segments=TRACED, rest_ns=0),),
            "Cause: the trace itself. It took 88.0\u202fµs of this sample, which is ordinary "
            "without that time.",
        ),
        # neither names a cause
        ((replace(top, blame="nothing: an ordinary sample"),), run.id[:13]),
        ((replace(top, blame="not seen: 9.00 of 9.50\u202fµs is not explained"),), run.id[:13]),
        ((replace(top, blame=""),), run.id[:13]),
    ):
        run.causes = json.loads(json.dumps(document_of(run.id, causes)))
        answer = answer_of(model.build([run])["runs"][0])
        text = f"{plain_line(answer.cause)} {answer.cause_command}"
        assert words in text
    # a sample that is ordinary with the trace, too
    series.value[[7, 50]] = 8_000
    both = (segment("interrupt", 7_000, "local timer"), replace(TRACED[1], length_ns=1_000))
    usual = replace(top, blame="nothing: an ordinary sample", latency_ns=8_000, segments=both)
    run.causes = json.loads(json.dumps(document_of(run.id, (replace(usual, rest_ns=0),))))
    assert "trace" not in plain_line(answer_of(model.build([run])["runs"][0]).cause)
    series.value[[7, 50]] = 95_000
    # only a run without a trace is replayed
    run.causes = {}
    document = model.build([run])["runs"][0]
    command = f"rtgauge explain {run.id[:13]}"
    assert hint_of(Data(document), command).startswith("replays the run")
    document["steps"][0]["load"]["explain_ns"] = 4000
    assert "from the trace" in hint_of(Data(document), command)
    # no trace of this step, and `explain` shows that of another one
    assert _likely(Data(document))[1] == command
    other = {**document["steps"][0], "step": 1}
    document["steps"][0]["load"] = {**other["load"]}
    del document["steps"][0]["load"]["explain_ns"]
    document["steps"].append(other)
    assert _likely(Data(document))[1] != command


def test_the_section_of_a_report_has_picture_table_and_remedies() -> None:
    first, *others = BLAMED.segments
    least = replace(first, length_ns=first.length_ns - 5_000)
    other = replace(BLAMED, index=4, latency_ns=90_000, segments=(least, *others))
    (section,) = causes_sections(explained_run(BLAMED, other))
    text = "".join(markdown.render(Document("x", "", (section,))))
    for words in (
        "95.0 µs",
        "not preempted",
        "interrupts off",
        "held by load/sched",
        "1 more sample",
    ):
        assert words in text.replace("\u202f", " ")
    assert "not explained" in text
    assert "2 of 2 in user context" in text and "What the worst samples have" in text
    both = [replace(one, source="tracefs") for one in (BLAMED, other)]
    (section,) = causes_sections(explained_run(*both))
    said = "".join(markdown.render(Document("x", "", (section,))))
    assert "What the traced samples have in common" in said
    (section,) = causes_sections(explained_run(replace(BLAMED, blame="")))
    assert "Blame:" not in "".join(markdown.render(Document("x", "", (section,))))
    (section,) = causes_sections(explained_run(BLAMED, replace(other, blame="another")))
    assert "in common" not in "".join(markdown.render(Document("x", "", (section,))))
    bare = [replace(BLAMED, index=at, blame="") for at in (5, 6, 7)]
    (section,) = causes_sections(explained_run(BLAMED, other, *bare))
    assert "2 of 5 in user context" in "".join(markdown.render(Document("x", "", (section,))))
    assert "--try preempt=full" in text
    assert not list(causes_sections(explained_run()))
    (section,) = causes_sections(explained_run(replace(BLAMED, unseen="It was not kept.")))
    assert "It was not kept.\n" in "".join(markdown.render(Document("x", "", (section,))))


def test_the_table_of_a_report_says_where_functions_and_callers_are_left_out() -> None:
    functions = tuple((f"f{at}", 1000 * (9 - at)) for at in range(5))
    long = segment("operation", 60_000, "f0", functions=functions, stack=tuple("abcdefgh"))
    few = replace(long, length_ns=50_000, functions=functions[:3])
    short = [segment("interrupt", 100 + at, f"handler_{at}") for at in range(15)]

    def shown(*segments: Segment) -> str:
        length_ns = sum(one.length_ns for one in segments)
        found = replace(cause(*segments, latency_ns=length_ns), blame="x")
        (section,) = causes_sections(explained_run(found))
        return "".join(markdown.render(Document("x", "", (section,)))).replace("\\<", "<")

    text = shown(long, few, *short)
    assert "f0 9.000, f1 8.000, f2 7.000 …" in text
    assert text.count("f0 9.000, f1 8.000, f2 7.000") == text.count("7.000 …") + 1 == 2
    assert "(a < b < c < d < e < … < h)" in text
    assert "1 shorter segment" in text and "1 shorter segments" not in text
    assert "(a < b < c < d < e < f)" in shown(replace(long, stack=tuple("abcdef")))


def test_a_report_tells_series_of_one_context_apart_as_the_command_does() -> None:
    """Such as those of thread-switch: a series for each number of threads."""
    labels = ({"threads": "2"}, {"threads": "8"})
    run: Any = made.run(
        [
            made.step(
                0,
                [
                    made.FakeSeries(
                        made.info(series=number, context="user", labels=one), *made_samples()
                    )
                    for number, one in enumerate(labels)
                ],
            )
        ]
    )
    usual = [
        replace(BLAMED, series=number, blame=f"nothing: an ordinary sample. The median is {number}")
        for number in (0, 1)
    ]
    run.causes = json.loads(json.dumps(document_of(run.id, usual)))
    document = made.built(run)
    (section,) = causes_sections(document["runs"][0])
    text = "".join(markdown.render(Document("x", "", (section,))))
    assert "threads 2, user context" in text
    assert "threads 8, user context" in text
    assert "2 of 2 in user context: nothing: an ordinary sample\n" in text


def test_the_worst_sample_of_each_series_is_printed(
    stored: StoredRun, tmp_path: Path, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as acquire and release, which have one context."""
    for series in (two := stored.steps[0].series):
        series.info = replace(series.info, name=f"series {series.info.series}")
    monkeypatch.setattr("rtgauge.cli.explain.find_run", lambda *_: stored)
    one = cause(segment("switch", 95_000, "__schedule"))
    other = replace(one, series=0, latency_ns=500, segments=(), rest_ns=500)
    found = Explained((one, replace(one, index=7), other), 46_000, 1.0)
    monkeypatch.setattr("rtgauge.causes.explain.explain", lambda *_, **__: found)
    done = rtgauge("explain", "last", "--store", str(tmp_path / "store"))
    assert done.code == 0, done.err
    assert "replayed: all 46 000 samples equal those of the run\n" in done.out
    titles = [text for text in done.out.splitlines() if "user context, sample" in text]
    assert [text.split(",")[0] for text in titles] == ["timer series 2", "timer series 0"]
    assert len(two) == 4


def test_a_replay_shows_its_progress_on_a_terminal(
    stored: StoredRun, tmp_path: Path, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was silent for a minute."""

    def replay(*given: Any, tell: Callable[[str], None], **_: Any) -> Explained:
        tell("replaying timer …")
        given[2]("a message")
        tell("comparing …")
        raise TargetError("the board hangs", "")

    monkeypatch.setattr("rtgauge.cli.explain.find_run", lambda *_: stored)
    monkeypatch.setattr("rtgauge.causes.explain.explain", replay)
    words = ("explain", "last", "--store", str(tmp_path / "store"))
    silent = rtgauge(*words).err
    assert "a message" in silent and "timer …" not in silent and "\r" not in silent
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    cleared = "\r\x1b[K"
    shown = f"{cleared}replaying timer …{cleared}a message\n{cleared}comparing …{cleared}rtgauge:"
    assert shown in rtgauge(*words).err


def test_series_of_one_name_are_told_apart_and_those_left_out_are_named(
    stored: StoredRun, tmp_path: Path, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as those of thread-switch: a series for each number of threads."""
    for series in (both := stored.steps[0].series):
        threads = types.MappingProxyType({"threads": str(series.info.series + 2)})
        changed = replace(series.info, name="switch", context="user", labels=threads)
        series.info = changed if series.info.companion is None else series.info
    monkeypatch.setattr("rtgauge.cli.explain.find_run", lambda *_: stored)
    one = replace(cause(segment("switch", 95_000, "__schedule")), blame="a cause")
    other = replace(one, series=0, latency_ns=500, segments=(), rest_ns=500)
    found = Explained((one, replace(one, index=7), other), 6, 1.0)
    monkeypatch.setattr("rtgauge.causes.explain.explain", lambda *_, **__: found)
    words = ("explain", "last", "--store", str(tmp_path / "store"))
    done = rtgauge(*words)
    assert done.code == 0, done.err
    titles = [text for text in done.out.splitlines() if "user context, sample" in text]
    assert [text.split(", user context")[0] for text in titles] == [
        "timer switch, threads 4",
        "timer switch, threads 2",
    ]
    assert "3 samples of 2 series in user context:" in done.out
    assert "more series" not in done.out
    monkeypatch.setattr("rtgauge.cli.explain.SERIES_SHOWN", 1)
    done = rtgauge(*words)
    assert "threads 2" not in done.out
    command = f"rtgauge explain {stored.id[:13]} --worst 1"
    assert f"1 more series: {command}" in done.out
    assert len(both) == 4


def test_the_command_of_a_remedy_is_for_the_same_store(
    stored: StoredRun, tmp_path: Path, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtgauge.cli.explain.find_run", lambda *_: stored)
    remedy = Remedy("isolate the CPU", "rtgauge tune timer --try isolcpus")
    one = replace(cause(segment("switch", 95_000, "__schedule")), remedies=(remedy,))
    found = Explained((one,), 6, 1.0)
    monkeypatch.setattr("rtgauge.causes.explain.explain", lambda *_, **__: found)
    place = str(tmp_path / "store")
    assert f"  {remedy.command} --store {place}\n" in rtgauge("explain", "--store", place).out
    assert f"  {remedy.command}\n" in rtgauge("explain").out


def test_the_picture_has_a_bar_for_each_segment_and_no_markup_of_a_target() -> None:
    (one,) = explained_run(BLAMED)["causes"]
    svg = gantt(one)
    assert svg.count("Z") == len(BLAMED.segments)
    assert "copy&lt;b&gt;" in svg
    assert "copy<b>" not in svg
    # at the end of the picture the words are before the bar
    (words,) = (part for part in svg.split("<text") if "held by load/sched" in part)
    assert 'text-anchor="end"' in words
    # the largest sum comes first
    assert gantt_said(one).startswith("not preempted 60.0")


def test_a_trace_takes_the_place_of_an_earlier_one_when_it_is_complete(
    stored: StoredRun, tmp_path: Path, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Explained((cause(segment("switch", 95_000, "__schedule")),), 6, 1.0)
    monkeypatch.setattr("rtgauge.causes.explain.explain", lambda *_, **__: found)
    words = ("explain", "last", "--store", str(tmp_path / "store"))
    file = tmp_path / "worst.trace.json"
    file.write_text("an earlier one, which is longer" * 1000)
    assert rtgauge(*words, "-o", str(file)).code == 0
    assert json.loads(file.read_text()) == trace(found.causes)
    assert [path.name for path in tmp_path.glob("*.trace.json*")] == [file.name]
    done = rtgauge(*words, "-o", str(tmp_path / "nowhere" / file.name))
    assert (done.code, "there is no folder" in done.err) == (2, True)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.chmod", full)
    done = rtgauge(*words, "-o", str(file))
    assert done.code == 1
    assert "cannot write the trace" in done.err
    assert json.loads(file.read_text()) == trace(found.causes)
    assert [path.name for path in tmp_path.glob("*.json*")] == [file.name]
    assert not list(tmp_path.glob(".*"))


def test_a_trace_for_perfetto_has_every_segment_once() -> None:
    document = trace([BLAMED, BLAMED])
    spans = [one for one in document["traceEvents"] if one["ph"] == "X"]
    assert len(spans) == 2 * len(BLAMED.segments)
    assert {one["pid"] for one in spans} == {1, 2}
    assert sum(one["dur"] for one in spans) == 2 * 94.0
    assert spans[1]["ts"] == 20.0
    names = {one["args"]["name"] for one in document["traceEvents"] if one["ph"] == "M"}
    assert "load/sched (7)" in names
    json.dumps(document)
    held = segment("lock", 7, "", owner=TIMERS)
    (_, _, span) = trace([cause(held)])["traceEvents"]
    assert span["name"] == "waiting for a lock"
    assert span["args"]["owner"] == "ktimers/0"
