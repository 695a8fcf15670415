# SPDX-License-Identifier: Apache-2.0
"""The report of runs that lie in a store: sealed samples in, the same figures out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bundles
import report_runs as made
import streams
from rtgauge import report, stats
from rtgauge.report.document.views import views
from rtgauge.report.pictures import figures
from rtgauge.report.results import model
from rtgauge.report.results.points import positive_points
from rtgauge.store import Store, StoredRun, new_run_id
from rtgauge.stream import RecordType, StreamWriter, Tally

INTERVAL = 100_000
COUNT = 30_000


def stored(data: Path, document: dict[str, Any], stream: bytes, *, seal: bool) -> StoredRun:
    with Store.open(str(data)) as store:
        with store.create(document) as folder:
            with folder.append_stream(0) as file:
                file.write(stream)
            if seal:
                folder.seal(0)
            folder.write_document(document)
            store.update(folder)
        return store.get(document["id"])


def written(data: Path, *, seal: bool) -> tuple[StoredRun, np.ndarray[Any, Any], int]:
    """A run with a dithered series, a stall of 49 periods and a loss, put through the store."""
    random = np.random.default_rng(4)
    values = made.latencies(random, COUNT)
    values[20_000] = 4_950_000
    offsets = random.integers(0, 50_000, COUNT).astype(np.int32)
    document = dict(made.run([made.step(0, [], budget_ns=150_000)]).document, id=new_run_id())
    writer = StreamWriter()
    parameters = {"interval": {"asked": "100us", "effective": "100us"}}
    records = [
        writer.header(run=document["id"], measurement="timer", parameters=parameters),
        writer.series(0, "latency", priority=95, interval_ns=INTERVAL),
        writer.series(1, "dither", priority=95, interval_ns=INTERVAL, companion=0),
    ]
    for start in range(0, COUNT, 2500):
        stop = start + 2500
        records.append(writer.samples(1, start, start * INTERVAL, offsets[start:stop]))
        whole = [(start, stop)]
        around = [(start, 20_001), (20_050, stop)]
        for a, b in around if start <= 20_000 < stop else whole:
            records.append(writer.samples(0, a, a * INTERVAL, values[a:b]))
    records.append(writer.missed(0, 20_000, 49, 1))
    last_due = (COUNT - 1) * INTERVAL
    tallies = [
        Tally(0, count=COUNT - 49, missed=49, overruns=1, last_due_ns=last_due),
        Tally(1, count=COUNT, last_due_ns=last_due),
    ]
    records.append(writer.trailer(tallies, duration_ns=COUNT * INTERVAL))
    run = stored(data, document, b"".join(records), seal=seal)
    wake = 4_950_000 + int(offsets[20_000])
    last = 49 * INTERVAL + int(offsets[20_049])
    added = [max(wake, last) - k * INTERVAL - int(offsets[20_000 + k]) for k in range(1, 50)]
    kept = np.delete(values, np.arange(20_001, 20_050))
    return run, kept, max(int(kept.max()), *added)


@pytest.mark.slow
@pytest.mark.parametrize("seal", [True, False])
def test_figures_of_a_stored_run(tmp_path: Path, seal: bool) -> None:
    run, kept, corrected = written(tmp_path / "data", seal=seal)
    document = made.built(run)
    (one,) = document["runs"][0]["series"]
    assert (one["count"], one["missed"], one["overruns"]) == (len(kept), 49, 1)
    assert (one["min"], one["max"], one["first"]) == (kept.min(), kept.max(), kept[0])
    rest = kept[1:]
    assert one["mean"] == pytest.approx(kept.mean(), rel=1e-12)
    assert (one["rest"]["min"], one["rest"]["max"]) == (rest.min(), rest.max())
    assert one["rest"]["mean"] == pytest.approx(rest.mean(), rel=1e-12)
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
    run = stored(tmp_path / "data", document, stream.data, seal=seal)
    assert [one.withheld for one in run.steps[0].series] == [1000, 1000]
    built = made.built(run)
    (latency,) = built["runs"][0]["series"]
    shown = views(model.analyse([run]))
    (data,) = shown.shared.data.values()
    assert data["ccdf"]["total"] == [3000]
    assert data["time"]["samples"] == [sum(data["heat"]["maps"][0])] == [2000]
    (group,) = shown.runs[0]["steps"][0]["groups"]
    captions = {one["kind"]: one["caption"].replace("\u202f", " ") for one in group["figures"]}
    lacking = " Not in this picture: 1 000 samples without a known time."
    assert all(captions[kind].endswith(lacking) for kind in ("time", "heat"))
    assert captions["around"].endswith("In gaps, periods were missed or samples were not kept.")
    drawn = figures.draw(data, {"kind": "time", "full": True, "caption": ""}, iter(()))
    assert drawn is not None and drawn.caption.replace("\u202f", " ").endswith(lacking)
    report.write([run], tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text()
    assert "Every sample was kept" not in text
    assert "Some samples are in histograms only" in text
    assert "2 periods were missed" in text and "Their delays are unknown." in text
    assert ("Every sample counts, some in histograms only" in text) == trailer
    alone = {**built["runs"][0], "series": [{**latency, "first": None}]}  # --histogram-only
    said = [point.text for point in positive_points(alone)]
    assert ("Every sample counts, in histograms only." in said) == trailer
    assert latency["count"] == 3000
    assert (latency["max"], latency["min"]) == (7_654_321, int(values.min()))
    assert (latency["missed"], latency["lost"]) == (2, 0)
    assert latency["source"] == "histogram"
    assert latency["corrected"] is None
    for text, value in latency["percentiles"].items():
        rank = max(int(np.ceil(float(text) / 100 * 3000)), 1)
        exact = int(np.sort(values)[rank - 1])
        assert exact <= value <= exact * (1 + 1 / 128) + 1


@pytest.mark.parametrize("trailer", [True, False])
def test_samples_of_a_lost_record_are_of_unknown_value(tmp_path: Path, trailer: bool) -> None:
    stream = streams.Builder().series(interval_ns=10**6)
    values = np.full(7000, 5000, np.int32)
    for start in range(0, 7000, 1000):
        stream.samples(0, start, values[:1000], gaps=[(500, 40)] if start == 6000 else ())
    stream.parts.pop(5)
    totals = streams.totals(0, count=7000, missed=40, overruns=1, last_due_ns=7_039_000_000)
    if trailer:
        stream.add(
            RecordType.TRAILER,
            {"state": "complete", "reason": "", "remedy": "", "duration_ns": 7_040_000_000,
             "cpu_ns": 1, "records": 9, "series": [totals]},
        )  # fmt: skip
    step = made.step(0, [], budget_ns=50_000_000, rate_per_hour=10_000.0).document
    with Store.open(str(tmp_path / "store")) as store:
        run = store.get(bundles.carry_out(store, data=stream.data, steps=[step]))
        document = made.built(run)
    one, verdict = document["runs"][0]["series"][0], document["runs"][0]["verdicts"][0]
    assert (one["count"], one["lost"], one["missed"]) == (7000, 1000, 40)
    # a pass with the 6000 samples that arrived, while any of the others may exceed
    assert (verdict["result"], verdict["unknown"]) == ("inconclusive", 1000)
    bound = document["bounds"][0]
    assert bound["next_sample"] == stats.exceedance_bound(7000, 0.95, 1000)
    assert one["bound"]["probability"] == bound["next_sample"]
    assert one["bound"]["rate_per_hour"] == stats.rate_bound(7.04, 0.95, 1000)
    assert one["bound"]["period_s"] == stats.shortest_period_s(6.04)
    assert bound["next_boot"] == 1.0


def test_missed_periods_of_a_lost_record_are_of_unknown_value(tmp_path: Path) -> None:
    stream = streams.Builder().series(interval_ns=10**6)
    values = np.full(1000, 5000, np.int32)
    for start in range(0, 3000, 1000):
        stream.samples(0, start, values, gaps=[(500, 40)] if start == 1000 else ())
    stream.parts.pop(3)
    totals = streams.totals(0, count=3000, missed=40, overruns=1, last_due_ns=3_039_000_000)
    stream.add(
        RecordType.TRAILER,
        {"state": "complete", "reason": "", "remedy": "", "duration_ns": 3_040_000_000,
         "cpu_ns": 1, "records": 5, "series": [totals]},
    )  # fmt: skip
    step = made.step(0, [], budget_ns=150_000).document
    with Store.open(str(tmp_path / "store")) as store:
        run = store.get(bundles.carry_out(store, data=stream.data, steps=[step]))
        verdict = model.build([run])["runs"][0]["verdicts"][0]
    assert verdict["unknown"] == 1040
