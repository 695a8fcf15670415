# SPDX-License-Identifier: Apache-2.0
"""The report of runs that lie in a store: sealed samples in, the same figures out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import report_runs as made
import streams
from rtgauge import report
from rtgauge.report.results import model
from rtgauge.store import Store, StoredRun, new_run_id
from rtgauge.stream import RecordType, encode_record

INTERVAL = 100_000
COUNT = 30_000


def written(data: Path, *, seal: bool) -> tuple[StoredRun, np.ndarray[Any, Any], int]:
    """A run with a dithered series, a stall of 49 periods and a loss, put through the store."""
    random = np.random.default_rng(4)
    values = made.latencies(random, COUNT)
    values[20_000] = 4_950_000
    offsets = random.integers(0, 50_000, COUNT).astype(np.int32)
    document = dict(made.run([made.step(0, [], budget_ns=150_000)]).document, id=new_run_id())
    records: list[tuple[RecordType, dict[str, Any]]] = []
    head = {
        "format": "rtgauge-stream",
        "version": 1,
        "agent": "0.1.0",
        "libc": "glibc 2.36",
        "compiler": "gcc",
        "machine": "x86_64",
        "run": document["id"],
        "step": 0,
        "measurement": "timer",
        "parameters": {"interval": {"asked": "100us", "effective": "100us"}},
        "load": "idle",
        "boot_id": "b",
        "privileged": True,
        "counter": {"name": "none", "hz": 0},
        "clock": {"monotonic_ns": 1, "boottime_ns": 1, "realtime_ns": 1},
        "start_ns": 1,
    }
    records.append((RecordType.HEADER, head))
    for number, name in enumerate(("latency", "dither")):
        info = {
            "series": number,
            "name": name,
            "context": "user",
            "cpu": 0,
            "thread": 0,
            "policy": "fifo",
            "priority": 95,
            "labels": {},
            "unit": "ns",
            "scale": 1,
            "interval_ns": INTERVAL,
            "histogram_only": False,
        }
        if number:
            info["companion"] = 0
        records.append((RecordType.SERIES, info))
    for start in range(0, COUNT, 2500):
        part = slice(start, start + 2500)
        body = {"index": start, "due_ns": start * INTERVAL}
        records.append((RecordType.SAMPLES, {"series": 1, **body, "samples": offsets[part]}))
        whole = [(start, start + 2500)]
        around = [(start, 20_001), (20_050, start + 2500)]
        for a, b in around if start <= 20_000 < start + 2500 else whole:
            block = {"series": 0, "index": a, "due_ns": a * INTERVAL, "samples": values[a:b]}
            records.append((RecordType.SAMPLES, block))
    gap = {"event": "missed", "time_ns": 1, "series": 0, "index": 20_000, "count": 49}
    records.append((RecordType.EVENT, gap))
    totals = [
        {
            "series": 0,
            "count": COUNT - 49,
            "missed": 49,
            "lost": 0,
            "overruns": 1,
            "first_due_ns": 0,
            "last_due_ns": (COUNT - 1) * INTERVAL,
        },
        {
            "series": 1,
            "count": COUNT,
            "missed": 0,
            "lost": 0,
            "overruns": 0,
            "first_due_ns": 0,
            "last_due_ns": (COUNT - 1) * INTERVAL,
        },
    ]
    records.append(
        (
            RecordType.TRAILER,
            {
                "state": "complete",
                "reason": "",
                "remedy": "",
                "duration_ns": COUNT * INTERVAL,
                "records": len(records),
                "series": totals,
                "cpu_ns": 1,
            },
        )
    )
    with Store.open(data=data) as store:
        with store.create(document) as folder:
            with folder.append_stream(0) as file:
                for number, (kind, body) in enumerate(records):
                    file.write(encode_record(kind, number, body))
            if seal:
                folder.seal(0)
            folder.write_document(document)
            store.update(folder)
        run = store.get(document["id"])
    wake = 4_950_000 + int(offsets[20_000])
    last = 49 * INTERVAL + int(offsets[20_049])
    added = [max(wake, last) - k * INTERVAL - int(offsets[20_000 + k]) for k in range(1, 50)]
    kept = np.delete(values, np.arange(20_001, 20_050))
    return run, kept, max(int(kept.max()), *added)


@pytest.mark.parametrize("seal", [True, False])
def test_figures_of_a_stored_run(tmp_path: Path, seal: bool) -> None:
    run, kept, corrected = written(tmp_path / "data", seal=seal)
    document = model.build([run])
    model.validate(document)
    (one,) = document["runs"][0]["series"]
    assert (one["count"], one["missed"], one["overruns"]) == (len(kept), 49, 1)
    assert (one["min"], one["max"], one["first"]) == (kept.min(), kept.max(), kept[0])
    ordered = np.sort(kept)
    for percent, value in one["percentiles"].items():
        rank = -(-int(float(percent) * 1000) * len(kept) // 100_000)
        assert value == ordered[rank - 1]
    assert one["corrected"]["max"] == corrected
    assert document["runs"][0]["verdicts"][0]["result"] == "fail"
    report.write([run], tmp_path / "x.html")
    assert "4 950" in (tmp_path / "x.html").read_text().replace("\u202f", " ")


@pytest.mark.parametrize("seal", [True, False])
@pytest.mark.parametrize("trailer", [True, False])
def test_samples_that_are_in_the_histogram_alone(tmp_path: Path, seal: bool, trailer: bool) -> None:
    """A host that was away for long: of the middle third there are no samples, but all values
    count, the largest of them among them."""
    values = streams.latencies(3000, seed=3)
    values[1500] = 7_654_321
    stream = streams.Builder().series(0).series(1, companion=0, name="dither")
    for number in range(2):
        stream.samples(number, 0, values[:1000] if not number else [5] * 1000)
    for index in range(1000, 2000, 200):
        for number in range(2):
            stream.event("withheld", index, series=number, index=index, count=200)
    stream.event("missed", 3, series=0, index=1999, count=2)
    for number in range(2):
        kept = values[2000:] if not number else [5] * 1000
        stream.samples(number, 2002, kept)
        whole = values if not number else [5] * 3000
        stream.histogram(number, whole, missed=0 if number else 2)
    if trailer:
        due = {"first_due_ns": 0, "last_due_ns": 3001 * 10**6}
        stream.trailer(
            series=[
                streams.totals(0, count=3000, missed=2, overruns=1, **due),
                streams.totals(1, count=3000, **due),
            ]
        )
    document = dict(made.run([made.step(0, [])]).document, id=new_run_id())
    with Store.open(data=tmp_path / "data") as store:
        with store.create(document) as folder:
            with folder.append_stream(0) as out:
                out.write(stream.data)
            if seal:
                folder.seal(0)
            folder.write_document(document)
            store.update(folder)
        run = store.get(document["id"])
    assert [one.withheld for one in run.steps[0].series] == [1000, 1000]
    built = model.build([run])
    model.validate(built)
    (latency,) = built["runs"][0]["series"]
    report.write([run], tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text()
    assert "Every sample taken was kept" not in text
    assert ("Every sample taken counts, some in histograms alone" in text) == trailer
    assert latency["count"] == 3000
    assert (latency["max"], latency["min"]) == (7_654_321, int(values.min()))
    assert (latency["missed"], latency["lost"]) == (2, 0)
    assert latency["source"] == "histogram"
    assert latency["corrected"] is None
    for text, value in latency["percentiles"].items():
        rank = max(int(np.ceil(float(text) / 100 * 3000)), 1)
        exact = int(np.sort(values)[rank - 1])
        assert exact <= value <= exact * (1 + 1 / 128) + 1
