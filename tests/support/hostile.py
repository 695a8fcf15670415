# SPDX-License-Identifier: Apache-2.0
"""Each field of a stream, with each hostile value in turn."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np

import reader_from_page
import streams
from rtgauge import report
from rtgauge.errors import StreamError
from rtgauge.report.document.answer import answer_of
from rtgauge.report.render import compare_text, terminal
from rtgauge.report.results import model
from rtgauge.report.sets import compare
from rtgauge.report.sets.compare import RunSet
from rtgauge.store import StoredRun
from rtgauge.stream import RecordType, StreamReader
from rtgauge.stream.cbor import encode

NAN: Final = "@nan@"
"""Stands for a number that is not one."""
VALUES: Final[tuple[Any, ...]] = (
    "text", "", None, [], {}, NAN, True, -1, 0, 2**63 - 1, -(2**63), 2**63,
)  # fmt: skip
ITEMS: Final = 7
"""The number of items of a list that are replaced."""
_TYPED: Final = ("samples", "gaps")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of each value of a document, and of the first items of each list."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, one in value.items():
            yield from places(one, (*path, key))
    elif isinstance(value, list):
        for at, one in enumerate(value[:ITEMS]):
            yield from places(one, (*path, at))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value in one place."""
    found = copy.deepcopy(document)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return found


def variants(data: bytes, kinds: Collection[RecordType]) -> Iterator[tuple[str, bytes]]:
    """The stream with one value of a record of ``kinds`` replaced, and its place. Streams of which
    a reader keeps the same come once."""
    records = streams.bodies(data)
    seen: set[tuple[int, bytes]] = set()
    for at, (kind, sequence, packed) in enumerate(records):
        if kind not in kinds:
            continue
        body = reader_from_page.body_of(packed)
        body |= {key: np.array(body[key], np.int32) for key in _TYPED if key in body}
        for path in places(body):
            for value in VALUES:
                new = encode(replaced(body, path, value)).replace(encode(NAN), b"\xf9\x7e\x00")
                changed = [*records[:at], (kind, sequence, new), *records[at + 1 :]]
                whole = b"".join(streams.pack(*one) for one in changed)
                reader = StreamReader()
                with contextlib.suppress(StreamError):  # another version
                    reader.feed(whole)
                kept = reader.finish().records
                accepted = kept, new if kept > at else b""
                if accepted not in seen:
                    seen.add(accepted)
                    name = f"{RecordType(kind).name} {'.'.join(map(str, path))}"
                    yield f"{name} = {value!r}", whole


def shown(run: StoredRun, formats: Collection[str]) -> None:
    """What the commands ``show``, ``runs``, ``report`` and ``compare`` make of a run. Raises what
    they raise."""
    source = report.Source([run])
    model.validate(source.model)
    terminal.text(source.model)
    answer_of(source.model["runs"][0])
    for suffix in formats:
        report.FORMATS[suffix](source)
    sets = [RunSet(name, (at,)) for at, name in enumerate("ab")]
    found = compare.compare(model.analyse([run, run], pictures=False), sets).document
    compare.validate(found)
    compare_text.terminal(found, 100)
