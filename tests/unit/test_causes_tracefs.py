# SPDX-License-Identifier: Apache-2.0
"""Causes by the kernel's trace, from the records of a step. Damaged ones are refused."""

from __future__ import annotations

import base64
import random
import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import report_runs
import streams
from rtgauge.causes.beginnings import how_of
from rtgauge.causes.explain import traced
from rtgauge.causes.model import (
    Cause,
    Segment,
    Task,
    causes_of,
    document_of,
    plain,
)
from rtgauge.causes.tracefs import Kept, kept_of
from rtgauge.causes.tracefs.kept import _Chosen, _Run
from rtgauge.causes.tracefs.pages import (
    HARDIRQ,
    IRQS_OFF,
    read_format,
)
from rtgauge.errors import UsageError
from rtgauge.report.results import model
from rtgauge.report.results.gather import medians
from rtgauge.store.samples import StoredStep
from rtgauge.stream import RecordType
from traces import BOARDS, DUE, ORDINARY, TARGET, captured, entry, path, switch, timer

START: Final = 5_000_000_000


COMMON: Final = b"""name: local_timer_entry
ID: 3
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
"""


HEAD: Final[tuple[dict[str, Any], ...]] = (
    {"part": "cost", "without_ns": 3000, "with_ns": 7200},
    {"part": "format", "name": "irq_vectors/local_timer_entry", "data": COMMON},
    {"part": "format", "name": "sched/sched_waking", "data": COMMON.replace(b"ID: 3", b"ID: 4")},
)


def stored(
    folder: Path,
    records: Sequence[Mapping[str, Any]],
    ambience: Sequence[Mapping[str, Any]] = (),
    series: int = 2,
    values: Sequence[int] | None = (5000, 7000, 200_000),
    **header: Any,
) -> StoredStep:
    """``values``: of the first series. None: it has a histogram of 60 µs only."""
    stream = streams.Builder(start_ns=START, **header)
    stream.series(0, context="irq", histogram_only=values is None)
    for number in range(1, series):
        stream.series(number)
    if values is None:
        stream.histogram(0, [60_000] * 3)
    else:
        stream.samples(0, 0, values)
    for body in records:
        stream.add(RecordType.TRACE, body)
    for body in ambience:
        stream.add(RecordType.AMBIENCE, body)
    place = folder / "steps" / "000"
    place.mkdir(parents=True)
    (place / "stream.cbor").write_bytes(stream.trailer().data)
    return StoredStep(folder, 0, {})


def page_of(*times_ns: int, missed: bool = False) -> bytes:
    """A page of task 9: a waking at the first of these times of the step, and the beginning of a
    timer's handler at each of the others."""
    content, now = b"", START + times_ns[0]
    for place, time_ns in enumerate(times_ns):
        number, flags = (3, IRQS_OFF | HARDIRQ) if place else (4, IRQS_OFF)
        event = (number | flags << 16).to_bytes(4, "little") + (9).to_bytes(4, "little")
        content += entry(2, START + time_ns - now) + event
        now = START + time_ns
    commit = len(content) | missed << 31
    return (START + times_ns[0]).to_bytes(8, "little") + commit.to_bytes(8, "little") + content


def sample(snapshot: int, **changes: int) -> dict[str, Any]:
    """The third sample of the handler: 200 µs late."""
    chosen = {"index": 2, "due_ns": 2_000_000, "value": 200_000, "thread": 0}
    return {"part": "sample", "snapshot": snapshot, "series": 0, "cpu": 0, **chosen, **changes}


def page(snapshot: int, number: int, data: bytes, at: int = 0) -> dict[str, Any]:
    place = {"snapshot": snapshot, "cpu": 0, "number": number, "at": at}
    return {"part": "page", **place, "data": data}


def end(snapshot: int, omitted: int = 0, error: str = "") -> dict[str, Any]:
    return {"part": "end", "snapshot": snapshot, "pages": 1, "omitted": omitted, "error": error}


def test_from_the_records_to_the_cause(tmp_path: Path) -> None:
    """The page came in two records, with the snapshot before that of its sample."""
    whole = page_of(1_000_000, 2_190_000, 2_300_000)
    records = [*HEAD, sample(0, index=1, due_ns=10**6, value=7000), page(0, 4, whole[:20])]
    records += [page(0, 4, whole[20:], at=20), end(0), sample(1), end(1)]
    step = stored(tmp_path, records)
    kept = kept_of(step)
    assert kept.added_ns == 4200
    causes = list(kept.causes(step, {0: 7000}))
    assert [one.index for one in causes] == [1, 2]
    cause = causes[1]
    assert (cause.due_ns, cause.latency_ns, cause.context, cause.rest_ns) == (
        2 * 10**6,
        200_000,
        "irq",
        0,
    )
    assert [(one.kind, one.length_ns) for one in cause.segments] == [
        ("interrupts-off", 190_000),
        ("interrupt", 10_000),
    ]
    assert cause.blame == "interrupts were off, task thread 9 (190 of 200\u202fµs)"
    assert cause.cost.added_ns == 4200
    assert cause.unseen == ""


SAVED_NS: Final = 70_321


"""Time for saving a stack, which does not fit into 16 bits."""


STACKED: Final = COMMON + (
    b"\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n"
    b"\tfield:char function[48];\toffset:56;\tsize:48;\tsigned:0;\n"
    b"\tfield:__data_loc char[] stack;\toffset:48;\tsize:4;\tsigned:0;\n"
    b"\tfield:unsigned int stack_ns;\toffset:52;\tsize:4;\tsigned:0;\n"
)


def stacked_page(names: bytes, where: int | None = None) -> bytes:
    """A page of the module: a timer's handler that found a function, and its callers."""
    data = bytearray(104)
    data[:12] = (3 | (IRQS_OFF | HARDIRQ) << 16).to_bytes(4, "little") + bytes((9, 0, 0, 0)) * 2
    where = 104 | len(names) << 16 if where is None else where
    data[48:52] = where.to_bytes(4, "little")
    data[52:56] = SAVED_NS.to_bytes(4, "little")
    data[56:60] = b"spin"
    data += names.ljust((len(names) + 3) & ~3, b"\0")
    # 0: the next word has the bytes of the data
    content = entry(2, 0, 4 | IRQS_OFF << 16, 9) + entry(0, 1_190_000, len(data) + 4) + data
    content += entry(2, 110_000, 4 | IRQS_OFF << 16, 9)
    head = (START + 1_000_000).to_bytes(8, "little") + len(content).to_bytes(8, "little")
    return head + content


def stacked_cause(folder: Path, data: bytes, text: bytes = STACKED, thread: int = 0) -> Cause:
    head = [HEAD[0], {**HEAD[1], "data": text}, HEAD[2]]
    step = stored(folder, [*head, sample(1, thread=thread), page(1, 0, data), end(1)])
    (cause,) = kept_of(step).causes(step, {0: 7000})
    return cause


def test_the_stack_in_a_page(tmp_path: Path) -> None:
    cause = stacked_cause(tmp_path / "a", stacked_page(b"<busy [m]<work<kthread"))
    assert cause.source == "module"
    assert cause.segments[0].stack == ("spin", "busy [m]", "work", "kthread")
    assert "interrupts were off: spin" in cause.blame
    (run,) = kept_of(StoredStep(tmp_path / "a", 0, {}))._runs[0]
    assert [one.fields["stack_ns"] for one in run.events if one.fields.get("stack_ns")] == [
        SAVED_NS
    ]
    assert cause.unseen == ""
    # the sample of a handler ends before
    assert cause.cost.text.endswith("before the run)")
    assert causes_of(document_of("r", [cause])) == (cause,)


@pytest.mark.parametrize(
    ("begin_us", "end_us", "spent"),
    [
        (0, 100, "5 µs"),  # of the inner handler there is none
        (12, 100, "5 µs"),  # the handler began before the sample
        (18, 100, "2 µs"),
        (0, 17, "2 µs"),
        (20, 30, ""),
        (0, 14, ""),  # the sample of the handler itself
        (40, 100, ""),
        (40, 300, "3 µs"),  # the handler's exit is missing, and a switch shows that it ended
    ],
)
def test_the_time_of_stacks_is_that_within_the_sample(
    tmp_path: Path, begin_us: int, end_us: int, spent: str
) -> None:
    """A stack ends at the exit of the outermost handler."""
    events = [
        replace(timer(us, "entry"), fields={"stack_ns": saved})
        for us, saved in ((10, 5000), (11, 9000), (110, 4000), (210, 3000))
    ]
    events += [timer(12, "exit"), timer(20, "exit"), timer(220, "exit")]
    events += [switch(130, ORDINARY, 78), switch(140, 78, ORDINARY)]
    events.sort(key=lambda one: one.time_ns)
    kept = Kept(added_ns=4200)
    kept.__dict__["_runs"] = {0: [_Run(0, 0, events)]}
    step = stored(tmp_path, [])
    chosen = _Chosen(0, 0, 0, DUE + begin_us * 1000 - START, (end_us - begin_us) * 1000, 0, 0)
    cause = kept.cause(chosen, step, step.series[0], 2000, threaded=False)
    said = cause.cost.text.replace("\u202f", " ").partition("before the run)")[2]
    assert said == (f"; stacks took {spent} of this sample" if spent else "")


def test_a_kernel_that_saves_no_stacks_is_named(tmp_path: Path) -> None:
    text = b"\n".join(line for line in STACKED.split(b"\n") if b"stack" not in line)
    cause = stacked_cause(tmp_path, stacked_page(b"<busy"), text)
    assert cause.segments[0].function == "spin"
    assert cause.segments[0].stack == ()
    assert cause.unseen.startswith("The kernel does not save stacks (CONFIG_STACKTRACE)")


@pytest.mark.parametrize("board", BOARDS)
def test_tracefs_has_no_stacks_on_any_kernel(tmp_path: Path, board: str) -> None:
    """Its event of a timer has a field ``function``, as events of the module do."""
    capture = captured(board)
    texts = [("header_page", capture["header_page"]), *capture["formats"].items()]
    formats = [{"part": "format", "name": name, "data": text.encode()} for name, text in texts]
    records = [*formats, *HEAD, sample(1), page(1, 0, page_of(1_000_000, 2_190_000)), end(1)]
    (cause,) = kept_of(step := stored(tmp_path, records)).causes(step, {0: 7000})
    assert cause.source == "tracefs"
    assert cause.segments[0].kind == "interrupts-off"
    assert cause.unseen == ""


@pytest.mark.parametrize(
    ("names", "where"),
    [
        (b"", 104 | 4000 << 16),
        (b"<a", 60000 | 2 << 16),
        (b"<a", 0xFFFFFFFF),
        (b"<" + b"n" * 9000, None),
        (b"<n" * 4000, None),
        (b"<" * 4000, None),
        (b"no mark", None),
        (b"<\xff\xfe\x1b[31m", None),
    ],
)
def test_a_stack_is_limited_whatever_is_sent(
    tmp_path: Path, names: bytes, where: int | None
) -> None:
    cause = stacked_cause(tmp_path, stacked_page(names, where))
    assert sum(one.length_ns for one in cause.segments) + cause.rest_ns == cause.latency_ns
    for one in cause.segments:
        assert len(one.stack) <= 20
        assert all(len(name) <= 64 for name in one.stack)
    assert causes_of(document_of("r", [cause])) == (cause,)


def test_a_sample_that_an_event_began_counts_from_its_handler(tmp_path: Path) -> None:
    """The interrupt came 150 µs after the due time, and the thread ran 100 µs after its handler."""
    step = stored(tmp_path, [])
    chosen = _Chosen(0, 1, 0, DUE - START, 106_000, 0, TARGET)
    kept = Kept(added_ns=4200)
    run = _Run(0, DUE - 300_000, sorted(path(150, 100, preempt=1), key=lambda one: one.time_ns))
    kept.__dict__["_runs"] = {0: [run]}
    cause = kept.cause(chosen, step, step.series[1], 2000, threaded=False, how="event")
    assert sum(one.length_ns for one in cause.segments) + cause.rest_ns == 106_000
    assert cause.segments[0].kind == "interrupt"
    assert cause.blame.startswith("task t77 was not preempted")
    assert {one.certainty for one in cause.segments} == {"inferred"}
    assert cause.rest_ns == 2000  # after the last event of the pages that the agent kept
    run.events[-1:] = []
    cause = kept.cause(chosen, step, step.series[1], 2000, threaded=False, how="event")
    assert cause.rest_ns > 90_000
    assert cause.unseen.startswith("Its event came late")


@pytest.mark.parametrize(
    ("source", "context"), [("gpio", "irq"), ("hpet", "irq"), ("hpet", "softirq")]
)
def test_a_sample_of_a_handler_is_explained_if_its_event_was_due(
    tmp_path: Path, source: str, context: str
) -> None:
    """Another CPU raised the line of the GPIO chip 60 µs after the due time. A sample of a softirq
    begins in the handler."""
    step = stored(tmp_path, [])
    info = replace(step.series[1].info, labels={"source": source}, context=context)
    step.series[1].info = info
    late = 40_000 if source == "hpet" else 100_000
    kept = Kept(added_ns=4200)
    kept.__dict__["_runs"] = {0: [_Run(0, DUE - 300_000, path(late // 1000))]}
    chosen = _Chosen(0, 1, 0, DUE - START, 41_000, 0, 0)
    cause = kept.cause(chosen, step, step.series[1], 2000, threaded=False, how="event")
    if (source, context) == ("hpet", "irq"):
        assert cause.blame.startswith("interrupts were off")
    else:
        assert (cause.segments, cause.rest_ns, cause.blame) == ((), 41_000, "")
        assert "does not show when the event came" in cause.unseen


def test_a_thread_in_a_container_is_not_found_in_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent has its thread's ID from a PID namespace of its own."""
    step = stored(tmp_path, [])
    kept = Kept(added_ns=4200)
    kept.__dict__["_runs"] = {0: [_Run(0, DUE - 300_000, path(1, 200, preempt=1))]}

    def cause(namespace: str, thread: int) -> Cause:
        monkeypatch.setattr(StoredStep, "facts", {"/proc/self/ns/pid": namespace, "/.dockerenv": 1})
        chosen = _Chosen(0, 1, 0, DUE - START, 206_000, 0, thread)
        return kept.cause(chosen, step, step.series[1], 2000, threaded=False)

    contained = cause("pid:[4026532700]", 57)
    assert (contained.segments, contained.rest_ns, contained.blame) == ((), 206_000, "")
    assert "--pid=host" in contained.unseen
    assert cause("pid:[4026531836]", TARGET).blame.startswith("task t77 was not preempted")
    assert cause("pid:[4026532700]", 0).segments  # of a handler


def test_how_a_series_begins_is_what_the_agent_says_of_it(tmp_path: Path) -> None:
    info = stored(tmp_path, []).series[0].info
    series = {"name": info.name, "from": "before the call"}
    catalogue = {"measurements": [{"name": "x"}, {"name": "timer", "series": [series]}]}
    alone = replace(info, interval_ns=0)
    assert how_of(catalogue, "timer", info) == "event"
    assert how_of(catalogue, "timer", alone) == "loop"
    series["from"] = "due time"
    assert how_of(catalogue, "timer", info) == "due"
    assert how_of(catalogue, "timer", alone) == ""
    others: tuple[Any, ...] = (None, {}, {"measurements": 5}, [])
    for other in others:
        assert how_of(other, "timer", info) == "due"
        assert how_of(other, "timer", alone) == ""


@pytest.mark.parametrize(
    ("records", "rest", "unseen"),
    [
        # the page of the beginning is not there, or a gap is in between
        ([page(0, 4, page_of(2_100_000, 2_190_000))], 100_000, "overwritten"),
        (
            [page(0, 4, page_of(1_900_000)), page(0, 5, page_of(2_150_000, missed=True))],
            150_000,
            "overwritten",
        ),
        ([page(0, 4, page_of(1_900_000)), page(0, 6, page_of(2_150_000))], 150_000, "overwritten"),
        # the events around its end are missing
        (
            [
                page(0, 4, page_of(1_900_000, 2_150_000)),
                page(0, 5, page_of(2_300_000, missed=True)),
            ],
            50_000,
            "too many",
        ),
        ([], 200_000, "overwritten"),
        ([page(0, 4, b""), page(0, 5, b"\x01")], 200_000, "overwritten"),
        ([page(0, 4, page_of(1_900_000, 2_150_000)), end(0, omitted=3)], 50_000, "too many"),
        ([end(0, error="No such device")], 200_000, "No such device"),
        # pages after the one that could not be read
        (
            [page(0, 4, page_of(1_900_000, 2_150_000)), end(0, error="Input/output error")],
            50_000,
            "Input/output error",
        ),
        (
            [page(0, 4, page_of(2_100_000, 2_190_000)), end(0, error="Input/output error")],
            110_000,
            "Input/output error",
        ),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, records: list[dict[str, Any]], rest: int, unseen: str
) -> None:
    step = stored(tmp_path, [*HEAD, sample(0), *records])
    (cause,) = kept_of(step).causes(step, {})
    assert cause.rest_ns == rest
    assert unseen in cause.unseen


def test_events_that_were_overwritten_after_a_snapshot_are_not_missing_in_it(
    tmp_path: Path,
) -> None:
    """The buffers were full again when the next snapshot was taken."""
    pages = [page(0, 4, page_of(1_900_000, 2_150_000)), page(1, 0, page_of(9**8, missed=True))]
    later = sample(1, index=50, due_ns=9**8)
    step = stored(tmp_path, [*HEAD, sample(0), later, *pages, end(0), end(1)])
    cause = next(iter(kept_of(step).causes(step, {})))
    assert (cause.rest_ns, cause.unseen) == (0, "")


def test_a_trace_that_was_read_during_the_sample(tmp_path: Path) -> None:
    """The buffers were swapped for the maximum of another series."""
    pages = [page(0, 4, page_of(1_900_000, 2_150_000)), page(1, 9, page_of(2_160_000, 2_250_000))]
    step = stored(tmp_path, [*HEAD, sample(1), *pages, end(0), end(1)])
    (cause,) = kept_of(step).causes(step, {})
    assert cause.rest_ns == 50_000
    assert "read during the sample" in cause.unseen


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"steal_ns": [99_000, 10**9]}, ""),  # of another CPU, or too little
        ({"steal_ns": [150_000, 0]}, "the hypervisor took 150\u202fµs of this CPU,"),
        ({"steal_ns": None}, ""),
        ({"smi": 1}, "1 system management interrupt occurred,"),
        ({"smi": None}, ""),
    ],
)
def test_what_the_kernel_does_not_see_is_named_if_it_was_counted(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    """The readings within the sample count, and the first one after it, but none before it or
    after that. Half of the steal time is in each of two."""
    records = [*HEAD, sample(0), page(0, 4, page_of(1_900_000, 2_190_000)), end(0)]
    other: dict[str, Any] = {"steal_ns": [10**9, 10**9], "smi": 7}
    half = {
        name: each and [ns // 2 for ns in each] for name, each in changes.items() if name != "smi"
    }
    readings = [
        streams.ambience_body(2_000_000, **other),
        streams.ambience_body(2_100_000, **half),
        streams.ambience_body(2_200_000, **{**changes, **half}),
        streams.ambience_body(3_000_000, **other),
    ]
    step = stored(tmp_path, records, readings)
    (cause,) = kept_of(step).causes(step, {0: 7000})
    assert (said in cause.unseen) if said else cause.unseen == ""
    (ordinary,) = kept_of(step).causes(step, {0: 150_000})
    assert ordinary.unseen == ""


@pytest.mark.parametrize(
    ("environment", "value", "host"),
    [
        ({"virtualisation": {"hypervisor": "KVM"}}, 200_000, "the hypervisor"),
        ({"virtualisation": {"hypervisor": "KVM"}}, 7000, ""),
        ({"virtualisation": {"hypervisor": "", "steal": 0.0}}, 200_000, ""),
        ({"virtualisation": {"hypervisor": "", "steal": 0.05}}, 200_000, "the hypervisor"),
        ({"virtualisation": {"hypervisor": "QEMU"}, "lab": {"mode": "counted"}}, 200_000, ""),
        ({"lab": {"mode": "plain"}}, 200_000, "the host of the emulator"),
        ({"virtualisation": 7}, 200_000, ""),
    ],
)
def test_a_trace_of_a_virtual_machine_lacks_the_time_of_the_hypervisor(
    tmp_path: Path, environment: dict[str, Any], value: int, host: str
) -> None:
    """Steal time may be unknown, or be counted later."""
    chosen = sample(0, index=1, due_ns=10**6, value=value)
    page_ = page(0, 4, page_of(900_000, 1_000_000 + value - 1000, 2_000_000))
    step = stored(tmp_path, [*HEAD, chosen, page_, end(0)])
    run = report_runs.run([step], environment=environment)  # type: ignore[list-item]
    run.document["steps"] = [{"step": 0, "measurement": "timer", "run_options": {}}]
    found = traced(run, medians=medians)  # type: ignore[arg-type]
    assert found is not None
    (cause,) = found.causes
    words = f"Time that {host} took does not appear in a trace."
    assert cause.unseen == (words if host else "")


def test_explain_knows_the_usual_time_as_the_report_does(tmp_path: Path) -> None:
    """An ordinary sample above 3 µs, in a second with a system management interrupt."""
    chosen = sample(0, index=1, due_ns=10**6, value=7000)
    records = [*HEAD, chosen, page(0, 4, page_of(900_000, 1_006_000)), end(0)]
    step = stored(tmp_path, records, [streams.ambience_body(2_200_000, smi=1)])
    entry = {"step": 0, "measurement": "timer", "run_options": {}}
    run = report_runs.run([step])  # type: ignore[list-item]
    run.document["steps"] = [entry]
    found = traced(run, medians=medians)  # type: ignore[arg-type]
    assert found is not None
    (shown,) = found.causes
    (reported,) = kept_of(step).causes(step, {0: 7000})
    assert replace(shown, remedies=()) == reported
    assert "nothing:" in shown.blame
    assert shown.unseen == ""


def test_the_median_is_that_of_the_report(tmp_path: Path) -> None:
    """The lower one of two samples. A run of histograms has a median, too."""
    chosen = sample(0, index=1, due_ns=10**6, value=70_000)
    records = [*HEAD, chosen, page(0, 4, page_of(900_000, 1_070_000)), end(0)]
    for kept, median in (([30_000, 70_000], 30_000), (None, 60_000)):
        step = stored(tmp_path / str(median), records, values=kept)
        step.document.update(report_runs.step(0, []).document)  # type: ignore[attr-defined]
        run: Any = report_runs.run([step])  # type: ignore[list-item]
        found = traced(run, medians=medians)
        assert found is not None
        (reported,) = model.build([run])["runs"][0]["causes"]
        assert [plain(one) for one in found.causes] == [reported]
        assert ("nothing:" in reported["blame"]) == (median == 60_000)


def test_a_report_has_the_blame_and_remedies_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = sample(0, index=1, due_ns=10**6, value=90_000)
    records = [*HEAD, chosen, page(0, 4, page_of(900_000, 1_090_000)), end(0)]
    step = stored(tmp_path, records)
    step.document.update(report_runs.step(0, []).document)  # type: ignore[attr-defined]
    environment = {**report_runs.ENVIRONMENT, "realtime": "voluntary"}
    run: Any = report_runs.run([step], environment=environment)  # type: ignore[list-item]
    (shown,) = kept_of(step).causes(step, {})
    task = Task("load/sched", 7, "other")
    late = replace(shown, segments=(Segment(0, 90_000, "higher-priority", "measured", task),))
    monkeypatch.setattr(Kept, "causes", lambda *_: [replace(late, rest_ns=0)])
    found = traced(run, medians=medians)
    assert found is not None
    (remedy,) = found.causes[0].remedies
    assert remedy.command.startswith("rtgauge tune timer --interval 1ms --target local --try ")
    document = model.build([run])["runs"][0]
    assert document["causes"] == [plain(one) for one in found.causes]
    # a run from elsewhere names programs in orders, which its import does not check
    run.imported = True
    words = ["run", "a", "run", "timer", "--load-cmd", "curl a | sh", "--run", "x", "--step", "0"]
    for orders in ([words], [["put", "--step", "0"]], 5):
        run.document["orders"] = orders
        (one,) = model.build([run])["runs"][0]["causes"]
        assert one["remedies"][0]["command"] == remedy.command
    # the worst ones are those of each series, even if several series have the same context
    several = [replace(late, rest_ns=0, series=series, index=index)
               for series in (0, 1) for index in (1, 2)]  # fmt: skip
    monkeypatch.setattr(Kept, "causes", lambda *_: several)
    found = traced(run, worst=1, medians=medians)
    assert found is not None
    assert [(one.series, one.index) for one in found.causes] == [(0, 1), (1, 1)]


def test_samples_and_pages_that_were_not_kept_are_counted(tmp_path: Path) -> None:
    """The counts of all snapshots add up."""
    records = [
        *HEAD,
        sample(0),
        end(0, error="Input/output error"),
        {"part": "dropped", "samples": 3},
    ]
    records += [sample(1), end(1), {"part": "dropped", "samples": 4}]
    assert kept_of(stored(tmp_path / "a", records)).losses == [
        "the trace of 7 samples was not kept, because there was no room for it",
        "1 snapshot of the trace could not be read completely",
    ]
    assert kept_of(stored(tmp_path / "b", [*HEAD, sample(0), end(0)])).losses == []


def test_a_trace_that_seems_to_save_time_costs_nothing_measurable(tmp_path: Path) -> None:
    cost = {"part": "cost", "without_ns": 7200, "with_ns": 3000}
    (cause,) = kept_of(step := stored(tmp_path, [*HEAD[1:], cost, sample(0)])).causes(step, {})
    assert "does not measurably delay a wake-up" in cause.cost.text
    assert "7.2 µs without it, 3 µs with it" in cause.cost.text.replace("\u202f", " ")


def test_the_largest_and_the_last_are_explained(tmp_path: Path) -> None:
    values = [50, 900, 20, 30, 40, 50, 60, 70]
    records = [sample(n, index=n, value=value) for n, value in enumerate(values)]
    step = stored(tmp_path, [*HEAD, *records])
    kept = kept_of(step)
    assert [one.value for one in kept.samples] == [900, 30, 40, 50, 60, 70]


def test_a_step_that_could_not_be_traced_has_the_reason(tmp_path: Path) -> None:
    step = stored(tmp_path, [{"part": "lost", "reason": "no tracefs", "remedy": "mount it"}])
    kept = kept_of(step)
    assert kept.added_ns is None
    run = report_runs.run([step])  # type: ignore[list-item]
    (found,) = model.build([run])["runs"][0]["steps"]  # type: ignore[list-item]
    assert "explain_ns" not in found["load"]
    texts = [one["text"] for one in found["events"]]
    assert "--explain: no tracefs. To explain samples: mount it." in texts
    assert [(one.reason, one.remedy) for one in kept.lost] == [("no tracefs", "mount it")]
    assert list(kept.causes(step, {})) == []
    step.document.update(report_runs.step(0, []).document)  # type: ignore[attr-defined]
    run = report_runs.run([step])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="no tracefs"):
        traced(run, medians=medians)  # type: ignore[arg-type]
    # the report promises a replay of a counted run
    lab = {"mode": "counted", "seed": "1", "kernel arguments": ""}
    environment = {**report_runs.ENVIRONMENT, "lab": lab}
    words = ["run", "a", "run", "timer", "--explain", "--run", "x", "--step", "0"]
    run.document.update(target="lab:x86_64-stock", environment=environment, orders=[words])
    assert traced(run, medians=medians) is None  # type: ignore[arg-type]
    run.document["orders"] = [["run", "a", "environment"]]
    with pytest.raises(UsageError, match="no tracefs"):
        traced(run, medians=medians)  # type: ignore[arg-type]


@pytest.mark.slow
def test_whatever_a_target_sends(tmp_path: Path) -> None:
    """Damaged pages, formats and samples, by the thousand: causes, whose parts add up."""
    rng = random.Random(20)
    capture = captured(BOARDS[0])
    texts = [*capture["formats"].items(), ("header_page", capture["header_page"])]
    good = [base64.b64decode(one) for one in capture["pages"]]
    stacked = stacked_page(b"<busy [m]" * 12)
    begin = int.from_bytes(good[0][:8], "little")

    def damaged(data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(rng.choice((0, 1, 5, 200))):
            if changed:
                changed[rng.randrange(len(changed))] = rng.choice((0, 255, rng.randrange(256)))
        return bytes(changed[: rng.choice((len(changed), rng.randrange(len(changed) + 1)))])

    for trial in range(150):
        records: list[dict[str, Any]] = [HEAD[0]]
        for name, text in texts:
            records.append({"part": "format", "name": name, "data": damaged(text.encode())})
        if trial % 2:
            records[1:] = [{**HEAD[1], "data": damaged(STACKED)}, HEAD[2]]
            begin = START + 1_000_000
        for number in range(rng.randrange(4)):
            due = begin - START + rng.randrange(-(10**6), 10**6 if trial % 2 else 10**8)
            value = rng.choice((-5, 0, 10**5, 10**9))
            records.append(sample(number, index=number, due_ns=due, value=value, thread=140))
        for number in range(rng.randrange(6)):
            one = damaged(stacked if trial % 2 else rng.choice(good))
            records.append(page(rng.randrange(3), number, one, at=rng.choice((0, 0, 0, 7))))
        step = stored(tmp_path / str(trial), records)
        for cause in kept_of(step).causes(step, {0: 9000}):
            assert sum(one.length_ns for one in cause.segments) + cause.rest_ns == cause.latency_ns


@pytest.mark.parametrize(
    "text",
    [b"field:" + b"a" * 65000, b"\nfield:a " * 7000, b"\n" * 65000, b"field:" + b"a[" * 32000],
)
def test_the_time_for_a_format_is_that_of_its_length(text: bytes) -> None:
    """Each of these took minutes or hours when each start of a word was tried with each end."""
    found = read_format("x/y", b"ID: 1\n" + text + b"\n\tfield:int z;\toffset:4;\tsize:4;\n")
    assert found is not None
    assert list(found.fields) == ["z"]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("machine", ["mips", "aarch64_be", "x86_64"])
def test_the_byte_order_is_that_of_the_pages(tmp_path: Path, machine: str, order: Any) -> None:
    """The name of a machine does not give its byte order."""
    number = int.from_bytes((3).to_bytes(2, order) + bytes((IRQS_OFF | HARDIRQ, 0)), order)
    content = entry(2, 0, number, 9, order=order) + entry(2, 150_000, number, 9, order=order)
    begin = (START + 2_050_000).to_bytes(8, order)
    data = begin + (1 << 31 | len(content)).to_bytes(8, order) + content
    step = stored(tmp_path, [*HEAD, sample(0), page(0, 0, data)], machine=machine)
    (cause,) = kept_of(step).causes(step, {})
    assert [(one.kind, one.task and one.task.pid) for one in cause.segments] == [("interrupt", 9)]


@pytest.mark.slow
def test_the_events_are_limited_and_what_was_left_out_is_said(tmp_path: Path) -> None:
    """Small events by the million, in pages that follow each other or do not, and many series."""
    event = entry(2, 0, 3, 0)
    content = event * (30_000 // len(event))
    head = (START + 9).to_bytes(8, "little") + len(content).to_bytes(8, "little")
    records = [sample(0, series=number) for number in range(3000)]
    records += [page(0, number * (1 + number % 2), head + content) for number in range(500)]
    records += [sample(900, value=10**6), page(900, 0, head)]
    step = stored(tmp_path, [*HEAD, *records], series=3000)
    kept = kept_of(step)
    assert len(kept.samples) <= 64 + 5
    causes = list(kept.causes(step, {}))
    events = sum(len(run.events) for runs in kept._runs.values() for run in runs)
    assert events < 300_000
    assert "more events than rtgauge reads" in causes[-1].unseen


@pytest.mark.slow
def test_memory_is_limited_whatever_is_sent(tmp_path: Path) -> None:
    blob = b"\xff" * 30_000
    records = [sample(0)] + [page(0, number % 3000, blob, at=0) for number in range(5000)]
    records += [page(0, 1, blob, at=30_000 * n) for n in range(1, 40)]
    records += [{"part": "format", "name": f"a/{n}", "data": b"ID: 1"} for n in range(500)]
    kept = kept_of(stored(tmp_path, records))
    assert sum(map(len, kept._pages.values())) < (1 << 25) + 30_000 + 40 * 30_000
    assert 1000 < len(kept._pages) <= 2048
    assert max(map(len, kept._pages.values())) < 1 << 18
    assert len(kept._formats) == 64


ALTERNATING: Final = (
    b"ID: 7\n"
    b"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    b"\tfield:int next_pid;\toffset:2;\tsize:1;\tsigned:0;\n"
    b"\tfield:int next_prio;\toffset:3;\tsize:1;\tsigned:0;\n"
) + b"".join(b"\tfield:int a%d;\toffset:0;\tsize:4;\tsigned:0;\n" % n for n in range(13))


def switches(folder: Path, events: int, samples: int) -> StoredStep:
    """Switches of 12 bytes, each to another task, and samples that last through all of them."""
    words = [7 | (1 + number % 7) << 16 | (1 + number % 5) << 24 for number in range(events)]
    content = b"".join(entry(2, 1, word, 0) for word in words)
    records = [HEAD[0], {"part": "format", "name": "sched/sched_switch", "data": ALTERNATING}]
    long_ = {"value": 2_000_000_000, "thread": 3}
    records += [sample(0, series=n, due_ns=2_000_000 + n, **long_) for n in range(samples)]
    for number, at in enumerate(range(0, len(content), 12_000)):
        begin = (START + 2_000_000 + at // 12).to_bytes(8, "little")
        piece = content[at : at + 12_000]
        records.append(page(0, number, begin + len(piece).to_bytes(8, "little") + piece))
    return stored(folder, records, series=samples)


@pytest.mark.slow
def test_memory_for_causes_is_in_proportion_to_what_was_sent(tmp_path: Path) -> None:
    """Not the product of events and samples."""
    step = switches(tmp_path, 6000, 32)
    sent = (tmp_path / "steps/000/stream.cbor").stat().st_size
    tracemalloc.start()
    try:
        kept = kept_of(step)
        causes = [plain(one) for one in kept.causes(step, {})]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(causes) == 32
    assert peak < 100 * sent
    assert all("more events than rtgauge reads" in one["unseen"] for one in causes)
    for one in causes:
        parts = sum(each["length_ns"] for each in one["segments"])
        assert parts + one["rest_ns"] == one["latency_ns"]


@pytest.mark.slow
def test_events_looked_at_for_all_samples_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtgauge.causes.tracefs.kept.LOOKS_LIMIT", 5000)
    monkeypatch.setattr("rtgauge.causes.tracefs.kept.SEGMENTS_LEAST", 10**6)
    step = switches(tmp_path, 2000, 8)
    causes = list(kept_of(step).causes(step, {}))
    assert [bool(one.segments) for one in causes] == [True] * 3 + [False] * 5
    assert "more events than rtgauge reads" in causes[-1].unseen
