# SPDX-License-Identifier: Apache-2.0
"""Events of the kernel's trace: from the formats and ring-buffer pages that the agent kept.

The layout of a page is that of ``include/linux/ring_buffer.h`` and
``Documentation/trace/ring-buffer-design.rst`` of the kernel, and the formats are the files
``events/*/*/format`` of tracefs. Both come from a target, and may be damaged or made up: whatever
does not fit is left out, and nothing is read beyond its page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = [
    "Event",
    "Format",
    "Layout",
    "Page",
    "byte_order",
    "read_format",
    "read_layout",
    "read_page",
]

# A word of a line is tried once: the time grows with the length of the text, whatever it is.
_FIELD = re.compile(
    r"^[ \t]*field:(?P<type>[^;\n]*?)\b(?P<name>\w++)(?:\[[^;\[\]\n]*\])?;[ \t]*"
    r"offset:(?P<offset>\d{1,9});[ \t]*size:(?P<size>\d{1,9});"
    r"(?:[ \t]*signed:(?P<signed>[01]);)?",
    re.MULTILINE,
)
_FIELDS_LIMIT = 16
_OWN_LIMIT = 8
"""Number of fields of an event apart from those that all have (``common_``): each takes memory."""
_TEXT_LIMIT = 1 << 16

_COMMON_BYTES = 8
"""Each event begins with its number, the bits of the kernel, and its task (``common_``)."""

# Kinds of an entry of a page; any other number is the length of the data in words.
_PADDING, _EXTEND, _STAMP = 29, 30, 31
_SHIFT = 27
_STAMP_BITS = 59
_MISSED = 1 << 31
_STORED = 1 << 30
_COMMIT = (1 << 20) - 1

IRQS_OFF: Final = 0x01
HARDIRQ: Final = 0x08
SOFTIRQ: Final = 0x10


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field is in the data of an event."""

    offset: int
    size: int
    signed: bool
    text: bool
    elsewhere: bool  # it says where its text is (__data_loc)


@dataclass(frozen=True, slots=True)
class Format:
    """The layout of an event: its name with that of its system, its number, its fields."""

    name: str
    number: int
    fields: Mapping[str, Place]


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a page: where its events begin, and the bytes of its ``commit``."""

    order: Literal["little", "big"]
    commit_at: int = 8
    commit_size: int = 8
    data_at: int = 16


@dataclass(frozen=True, slots=True)
class Event:
    """An event. ``pid`` is the task that ran, ``flags`` and ``preempt`` the bits that the kernel
    adds to each event; None if its format lacks them."""

    time_ns: int
    name: str
    pid: int | None
    flags: int | None
    preempt: int | None
    fields: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """The events of a page. ``missed``: events were overwritten between it and the one before."""

    begin_ns: int
    missed: bool
    events: tuple[Event, ...]


def read_format(name: str, data: bytes) -> Format | None:
    """The layout in a file ``format``; None if it has no number."""
    text = data[:_TEXT_LIMIT].decode("utf-8", "replace")
    number = re.search(r"^ID:\s*(\d{1,9})\s*$", text, re.MULTILINE)
    return Format(name, int(number[1]), _fields(text)) if number else None


def _fields(text: str) -> dict[str, Place]:
    found: dict[str, Place] = {}
    own = 0
    for one in _FIELD.finditer(text):
        offset, size = int(one["offset"]), int(one["size"])
        kind = one["type"]
        elsewhere = "__data_loc" in kind
        wide = "char" in kind and "*" not in kind and size > 1 and not elsewhere
        place = Place(offset, size, one["signed"] != "0", wide or elsewhere, elsewhere)
        own += not one["name"].startswith("common_")
        if own > _OWN_LIMIT:
            break
        found[one["name"]] = place
        if len(found) == _FIELDS_LIMIT:
            break
    return found


def read_layout(data: bytes, order: Literal["little", "big"]) -> Layout:
    """The layout of pages in the file ``header_page``; what it lacks is as on 64-bit kernels."""
    fields = _fields(data[:_TEXT_LIMIT].decode("utf-8", "replace"))
    usual = Layout(order)
    commit, content = fields.get("commit"), fields.get("data")
    if commit is None or content is None or commit.size not in (4, 8) or commit.offset > 64:
        return usual
    return Layout(order, commit.offset, commit.size, min(content.offset, 64))


def byte_order(page: bytes, layout: Layout) -> Literal["little", "big"]:
    """That in which the number of bytes of a page is the smaller one. The name of the machine does
    not tell: ``mips`` is one of both."""
    raw = page[layout.commit_at : layout.commit_at + layout.commit_size]
    raw = raw.ljust(layout.commit_size, b"\0")
    little, big = (int.from_bytes(raw, order) & ~(_MISSED | _STORED) for order in ("little", "big"))
    return "big" if big < little else "little"


def read_page(data: bytes, layout: Layout, formats: Mapping[int, Format]) -> Page | None:
    """The events of a page of which the zeros at its end may be missing. None: it is not one."""
    if len(data) < 8:
        return None
    whole = data.ljust(layout.data_at, b"\0")
    begin_ns = int.from_bytes(whole[:8], layout.order)
    commit = int.from_bytes(
        whole[layout.commit_at : layout.commit_at + layout.commit_size], layout.order
    )
    size = commit & _COMMIT
    content = whole[layout.data_at : layout.data_at + size].ljust(min(size, 1 << 17), b"\0")
    events = tuple(_events(content, begin_ns, layout.order, formats))
    return Page(begin_ns, bool(commit & _MISSED), events)


def _events(
    content: bytes, now_ns: int, order: Literal["little", "big"], formats: Mapping[int, Format]
) -> Iterator[Event]:
    for time_ns, data in _entries(content, now_ns, order):
        event = _event(data, time_ns, order, formats)
        if event is not None:
            yield event


def _entries(
    content: bytes, now_ns: int, order: Literal["little", "big"]
) -> Iterator[tuple[int, bytes]]:
    """Time and data of each entry, up to the first one that reaches beyond the page."""

    def word(at: int) -> int:
        return int.from_bytes(content[at : at + 4], order)

    at, end = 0, len(content)
    while at + 4 <= end:
        head = word(at)
        at += 4
        kind, delta = (
            (head & 31, head >> 5) if order == "little" else (head >> _SHIFT, head & (1 << 27) - 1)
        )
        if kind in (_EXTEND, _STAMP):
            time = (word(at) << _SHIFT) + delta
            at += 4
            now_ns = now_ns + time if kind == _EXTEND else _absolute(time, now_ns)
            continue
        now_ns += delta
        if kind == _PADDING:
            if not delta and not word(at):
                return
            at += max((word(at) + 3) & ~3, 4)
            continue
        if kind == 0:
            length = word(at) - 4
            at += 4
        else:
            length = 4 * kind
        if length < 0 or at + length > end or kind > 28:
            return
        yield now_ns, content[at : at + length]
        at += (length + 3) & ~3


def _absolute(time: int, now_ns: int) -> int:
    """A time stamp has 59 bits; the others are those of the time before."""
    found = (now_ns >> _STAMP_BITS << _STAMP_BITS) | (time & (1 << _STAMP_BITS) - 1)
    return found if found >= now_ns else found + (1 << _STAMP_BITS)


def _event(
    data: bytes, time_ns: int, order: Literal["little", "big"], formats: Mapping[int, Format]
) -> Event | None:
    one = formats.get(int.from_bytes(data[:2], order))
    if one is None or len(data) < _COMMON_BYTES:
        return None
    common: dict[str, int | None] = dict.fromkeys(("pid", "flags", "preempt_count"))
    fields: dict[str, int | str] = {}
    for name, place in one.fields.items():
        value = _value(data, place, order)
        if name.startswith("common_"):
            if isinstance(value, int):
                common[name[len("common_") :]] = value
        elif value is not None:
            fields[name] = value
    return Event(time_ns, one.name, common["pid"], common["flags"], common["preempt_count"], fields)


def _value(data: bytes, place: Place, order: Literal["little", "big"]) -> int | str | None:
    raw = data[place.offset : place.offset + place.size]
    if len(raw) < place.size or not raw:
        return None
    if place.elsewhere:
        where = int.from_bytes(raw, order)
        raw = data[where & 0xFFFF : (where & 0xFFFF) + (where >> 16 & 0xFFFF)]
    if place.text:
        return raw.split(b"\0", 1)[0].decode("utf-8", "replace")
    return int.from_bytes(raw, order, signed=place.signed) if place.size <= 8 else None
