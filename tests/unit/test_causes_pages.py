# SPDX-License-Identifier: Apache-2.0
"""Pages of the kernel's trace, against the kernel's own text of them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

import pytest

from rtgauge.causes.tracefs.pages import (
    HARDIRQ,
    IRQS_OFF,
    SOFTIRQ,
    Event,
    Format,
    Layout,
    read_format,
    read_layout,
    read_page,
)
from rtgauge.causes.tracefs.segments import Sample, segments_of
from traces import BOARDS, captured, entry

LINE = re.compile(
    r"^ *(?P<task>.*)-(?P<pid>\d+) +\[(?P<cpu>\d+)\] (?P<flags>\S+) +(?P<s>\d+)\.(?P<us>\d{6}): "
    r"(?P<name>\w+): (?P<words>.*)$"
)


def decoded(capture: Mapping[str, Any]) -> tuple[list[bytes], Layout, dict[int, Format]]:
    formats: dict[int, Format] = {}
    for name, text in capture["formats"].items():
        one = read_format(name, text.encode())
        assert one is not None
        formats[one.number] = one
    pages = [base64.b64decode(page) for page in capture["pages"]]
    return pages, read_layout(capture["header_page"].encode(), "little"), formats


def shown(event: Event, words: str) -> list[str]:
    """The fields that the kernel's text of an event has, as it writes them."""
    found = []
    for name in re.findall(r"(?:^| )(\w+)=", words):
        value = event.fields.get(name)
        # the kernel shows these as words or addresses
        if value is not None and name not in ("prev_state", "function", "hrtimer", "ret"):
            value = f"{value:03d}" if name == "target_cpu" else value
            found.append(f"{name}={value}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("board", BOARDS)
def test_pages_hold_what_the_kernel_says(board: str) -> None:
    capture = captured(board)
    pages, layout, formats = decoded(capture)
    assert layout == Layout("little", 8, 8, 16)
    events: list[Event] = []
    for data in pages:
        page = read_page(data, layout, formats)
        assert page is not None
        assert page.events[0].time_ns >= page.begin_ns
        events += page.events
    assert len(events) == len(capture["text"]) > 400
    for event, text in zip(events, capture["text"], strict=True):
        line = LINE.match(text)
        assert line is not None, text
        assert event.name.split("/")[1] == line["name"]
        assert event.pid == int(line["pid"])
        assert (event.time_ns + 500) // 1000 == int(line["s"]) * 10**6 + int(line["us"])
        flags, preempt = event.flags, event.preempt
        assert flags is not None
        assert preempt is not None
        assert bool(flags & IRQS_OFF) == (line["flags"][0] in "dD")
        interrupt = {0: ".b", HARDIRQ: "h", SOFTIRQ: "s", HARDIRQ | SOFTIRQ: "H"}
        column = 2 if len(line["flags"]) == 5 else 3  # 6.1 RT has one for lazy preemption
        assert line["flags"][column] in interrupt[flags & (HARDIRQ | SOFTIRQ)]
        depth = line["flags"][column + 1]
        assert (preempt & 15) == (0 if depth == "." else int(depth, 16))
        for word in shown(event, line["words"]):
            assert word in line["words"]
        if event.name == "sched/sched_switch":
            assert f"==> next_comm={event.fields['next_comm']} " in line["words"]
            assert len(shown(event, line["words"])) == 6


FORMAT: Final = Format("x/y", 7, read_format("x/y", b"ID: 7\n").fields)  # type: ignore[union-attr]


@pytest.mark.parametrize("order", ["little", "big"])
def test_every_kind_of_entry(order: Any) -> None:
    """Padding, time extends and absolute times are not events, but they count for the time."""
    number = int.from_bytes((7).to_bytes(2, order) + b"\0\0", order)

    def one(kind: int, delta: int, *words: int) -> bytes:
        return entry(kind, delta, *words, order=order)

    content = b"".join(
        (
            one(2, 5, number, 0),
            one(1, 0, number),  # shorter than what all events begin with
            one(30, 3, 2),  # 2 * 2^27 + 3
            one(2, 1, number, 99),
            one(29, 4, 8, 0),  # a discarded event of 8 bytes
            one(0, 1, 12, number, 1),  # its length has a word of its own
            one(31, 1, 8 * (2**27) // 2**27),
            one(2, 0, number, 0),
            one(3, 1),  # reaches beyond the page
        )
    )
    begin = 3 << 59 | 17
    page = begin.to_bytes(8, order) + (len(content) | 1 << 31).to_bytes(8, order) + content
    found = read_page(page, Layout(order), {7: FORMAT})
    assert found is not None
    assert found.missed
    times = [event.time_ns for event in found.events]
    extended = begin + 5 + (2 << 27) + 3 + 1
    assert times[:3] == [begin + 5, extended, extended + 5]
    stamp = 3 << 59 | 8 << 27 | 1
    assert times[3:] == [stamp]


def test_formats_that_lack_a_field() -> None:
    bare = read_format("sched/sched_switch", b"name: sched_switch\nID: 310\nformat:\n")
    assert bare is not None
    assert bare.fields == {}
    assert read_format("a/b", b"no number") is None
    assert read_format("a/b", b"\xff\xfe") is None
    capture = captured(BOARDS[0])
    pages, layout, formats = decoded(capture)
    kept = {number: Format(one.name, number, {}) for number, one in formats.items()}
    page = read_page(pages[0], layout, kept)
    assert page is not None
    assert {(e.pid, e.flags, e.preempt) for e in page.events} == {(None, None, None)}
    sample = Sample(page.begin_ns, page.begin_ns + 10**6, 5, page.begin_ns, 1 << 62)
    segments, rest = segments_of(sample, page.events)
    assert sum(one.length_ns for one in segments) + rest == 10**6
    assert read_layout(b"", "little") == Layout("little")
    assert read_layout(b"\tfield: local_t commit;\toffset:8;\tsize:3;\n", "big") == Layout("big")


def test_a_pointer_to_a_text_is_not_a_text() -> None:
    """The event of an interrupt from another CPU has the address of its reason only."""
    text = (
        b"name: ipi_entry\nID: 7\nformat:\n"
        b"\tfield:const char * reason;\toffset:8;\tsize:8;\tsigned:0;\n"
        b"\tfield:char comm[16];\toffset:16;\tsize:16;\tsigned:0;\n"
    )
    form = read_format("ipi/ipi_entry", text)
    assert form is not None
    assert [form.fields[name].text for name in ("reason", "comm")] == [False, True]
