# SPDX-License-Identifier: Apache-2.0
"""A hostile value of a table is refused where it is read, or shown: no report ends with a
traceback."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import bundles
import hostile
import streams
from rtgauge.errors import RtgaugeError
from rtgauge.store import Store
from rtgauge.stream import RecordType
from streams import Builder

MS = 10**6


def table(name: str, columns: dict[str, str], *rows: list[int | str]) -> tuple[int, dict[str, Any]]:
    heads = [{"name": column, "unit": unit} for column, unit in columns.items()]
    return RecordType.TABLE, {"name": name, "columns": heads, "rows": list(rows)}


def response(unit: str) -> bytes:
    """Answers to events, with their table, and stolen time."""
    stream = Builder(
        measurement="log-host", parameters={"timeout": {"asked": None, "effective": "10ms"}}
    )
    stream.series(0, name="response", context="irq").samples(0, 0, streams.latencies(60))
    names = ("raised", "answered", "unanswered", "late", "double", "lost", "ambiguous")
    stream.add(*table("answers", dict.fromkeys(names, unit), [60, 60, 0, 1, 0, 0, 0]))
    stream.add(RecordType.AMBIENCE, streams.ambience_body(MS))
    stolen = streams.ambience_body(100 * MS, steal_ns=[10 * MS, 0], smi=3)
    stream.add(RecordType.AMBIENCE, stolen)
    rows = [streams.totals(0, count=60, last_due_ns=59 * MS)]
    return stream.trailer(series=rows).data


def printed(unit: str) -> bytes:
    """Figures of Xenomai's latency without a histogram."""
    stream = Builder(parameters={"cell": {"asked": None, "effective": "1us"}})
    columns = {"min": unit, "max": unit, "samples": unit}
    return stream.add(*table("printed", columns, [1, 3, ""], [1, 30, 7])).trailer().data


def batches(unit: str) -> bytes:
    """Operations with the means of their batches, and the order of events."""
    stream = Builder(measurement="mutex-uncontended", parameters={})
    stream.series(0, name="release", interval_ns=0, labels={}).samples(0, 0, [100] * 40, due_ns=0)
    columns = {"operation": "", "mean": unit and "ps", "operations": unit}
    stream.add(*table("batches", columns, ["release", 5000, 100]))
    columns = {"rule": "", "time": unit and "ns", "thread": "", "event": ""}
    stream.add(*table("order", columns, ["r", 0, "A", "locks"], ["r", 10, "B", "waits"]))
    stream.add(
        RecordType.VERDICT, {"rule": "r", "result": "fail", "evidence": "seen", "remedy": ""}
    )
    return stream.trailer(series=[streams.totals(0, count=40)]).data


FROM_PRINTED = {
    "environment": {
        "printed": {"file": "f"}, "kernel": {}, "cpu": {}, "libc": "", "realtime": "cobalt",
        "settings": {},
    }
}  # fmt: skip


def faults(folder: Path, cases: Iterable[tuple[str, bytes]], **changes: Any) -> list[str]:
    """The cases that end with an exception that is not an error of rtgauge."""
    found = []
    for at, (name, data) in enumerate(cases):
        with Store.open(str(folder / str(at))) as store:
            run = store.get(bundles.carry_out(store, data=data, **changes))
            try:
                hostile.shown(run, [".md"])
            except RtgaugeError:
                pass
            except Exception as error:
                found.append(f"{name}: {type(error).__name__}: {error}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["count", ""])
@pytest.mark.parametrize("base", [response, printed, batches], ids=lambda base: base.__name__)
def test_no_field_of_a_table_ends_a_report(tmp_path: Path, base: Any, unit: str) -> None:
    more = FROM_PRINTED if base is printed else {}
    assert not faults(tmp_path, hostile.variants(base(unit), [RecordType.TABLE]), **more)
