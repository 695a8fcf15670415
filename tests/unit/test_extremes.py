# SPDX-License-Identifier: Apache-2.0
"""What the stream's reader accepts, every report shows; what it must not accept is refused with one
line, from a running agent and from a bundle alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bundles
import extremes
import fuzz_capture
import fuzz_extremes
import streams
from rtgauge import report
from rtgauge.errors import RtgaugeError, StoreError
from rtgauge.report.results import gather
from rtgauge.store import Store
from rtgauge.store.bundle import import_bundle
from rtgauge.store.parquet import COLUMNS, ParquetReader, ParquetWriter
from rtgauge.stream import COUNT_LIMIT, NUMBER_LIMIT
from streams import Builder


@pytest.mark.slow
def test_a_short_run_of_the_fuzzer(tmp_path: Path) -> None:
    tally = fuzz_extremes.fuzz(20, 0, 120, tmp_path, 1)
    assert not tally.how, tally.how
    assert tally.executions == 120
    assert tally.thorough > 50


@pytest.mark.slow
def test_a_short_run_of_the_fuzzer_of_captures(tmp_path: Path) -> None:
    tally = fuzz_capture.fuzz(20, 0, 60, tmp_path, 1)
    assert not tally.how, tally.how
    assert tally.executions == 60
    assert tally.thorough > 6


def at_the_limits() -> Builder:
    """Series with the largest times, values and counts that there are."""
    stream = Builder()
    stream.series(0, interval_ns=2**40).series(1, interval_ns=0, scale=2**29, histogram_only=True)
    stream.series(2, interval_ns=0, histogram_only=True).series(3, interval_ns=0)
    stream.samples(0, 0, [5, 6, -(2**31)], due_ns=-NUMBER_LIMIT)
    stream.samples(0, 2**20 - 2, [2**31 - 1, 7, 8], due_ns=NUMBER_LIMIT - 2 * 2**40)
    stream.event("wide", NUMBER_LIMIT, series=0, index=1, value=NUMBER_LIMIT)
    stream.event("missed", 0, series=0, index=2, count=2**20 - 5)
    stream.histogram(1, [-(2**31), 2**31])
    stream.histogram(2, [-NUMBER_LIMIT, NUMBER_LIMIT], lost=COUNT_LIMIT, missed=COUNT_LIMIT)
    # a snapshot from before the first sample that came
    stream.event("withheld", 0, series=3, index=0, count=2)
    stream.histogram(3, [1, 2, 3]).samples(3, 5, [9])
    totals = {"count": COUNT_LIMIT, "first_due_ns": -NUMBER_LIMIT, "last_due_ns": NUMBER_LIMIT}
    rows = [streams.totals(number, **totals) for number in range(4)]
    return stream.trailer(duration_ns=NUMBER_LIMIT, series=rows)


@pytest.mark.slow
def test_the_limits_themselves_are_reported_in_every_format(tmp_path: Path) -> None:
    extremes.carried_through(tmp_path, at_the_limits().data, list(report.FORMATS))


def test_a_sample_after_the_last_snapshot_is_in_the_maximum(tmp_path: Path) -> None:
    """The step of an agent that died: the last snapshot of its histogram is older."""
    stream = Builder().series(0).samples(0, 0, [5]).event("withheld", 0, series=0, index=1, count=3)
    stream.histogram(0, [5, 1, 2, 3]).samples(0, 9, [700])
    with Store.open(str(tmp_path)) as store:
        step = store.get(bundles.carry_out(store, data=stream.data)).steps[0]
        (figures,) = gather.gather([(step.series[0], step)])
        assert figures.max == 700
        assert figures.counts.max == 5


@pytest.mark.parametrize("missed", [[(400, 3), (3, 2)], [(45, 1), (3, 2), (9, 1)]])
def test_missed_periods_may_be_in_any_order(tmp_path: Path, missed: list[tuple[int, int]]) -> None:
    stream = Builder().series(0).samples(0, 0, [9000] * 4).samples(0, 6, [5000] * 40)
    for index, count in missed:
        stream.event("missed", 0, series=0, index=index, count=count)
    with Store.open(str(tmp_path)) as store:
        step = store.get(bundles.carry_out(store, data=stream.trailer().data)).steps[0]
        columns = (column.tolist() for column in step.series[0].missed_events)
        assert list(zip(*columns, strict=True)) == sorted(missed)
        (figures,) = gather.gather([(step.series[0], step)])
        assert figures.missed == sum(number for _, number in missed)


STEPS: tuple[Any, ...] = (
    None, 3, "abc", {"0": {}}, [1, 2], [{}, {}], [{"parameters": None}],
    [{"parameters": {"context": 5}}], [{"parameters": ["context"]}],
    [{"parameters": {"context": "a\x1b]0;x\x07,irq"}}],
)  # fmt: skip
PLANS: tuple[dict[str, Any], ...] = (
    *({"name": "xeno-test", "steps": steps} for steps in STEPS),
    {"name": ["xeno-test"]},
    {"name": {"a": 1}},
    {"name": "evaluate", "options": 5},
    {"name": "evaluate", "options": {"core": ["x"]}, "steps": [{"measurement": 1}]},
)


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS, ids=range(len(PLANS)))
def test_a_plan_of_any_shape_is_reported(tmp_path: Path, plan: dict[str, Any]) -> None:
    """A bundle brings its own plan."""
    with Store.open(str(tmp_path / "one")) as store:
        run = store.get(bundles.carry_out(store, plan=plan))
        (tmp_path / "b.rtgauge").write_bytes(bundles.pack(bundles.files_of(run.path)))
    with Store.open(str(tmp_path / "two")) as store:
        import_bundle(store, tmp_path / "b.rtgauge")
        extremes.follow(store.get(run.id), [".html", ".md", ".json", ".xml"])


def wrong_histogram(**changes: Any) -> Builder:
    return Builder().series(0, histogram_only=True).histogram(0, [1, 2, 3], **changes)


WRONG: dict[str, tuple[Builder, str]] = {
    "no buckets": (wrong_histogram(buckets=[]), "do not add up"),
    "another count": (wrong_histogram(count=4), "do not add up"),
    "another maximum": (wrong_histogram(max=4), "do not lie in"),
    "a sum beyond": (wrong_histogram(sum=10), "'sum' is not possible"),
    "a value": (Builder().series(0).event("wide", 0, series=0, index=0, value=2**61), "'value' is"),
    "a scale": (Builder().series(0, scale=2**30), "'scale' is"),
    "a time": (Builder().series(0).samples(0, 0, [1], due_ns=2**61), "'due_ns' is"),
    "an index": (Builder().series(0).samples(0, 2**53, [1], due_ns=0), "is beyond"),
    "an end": (
        Builder().series(0).trailer(series=[streams.totals(0, count=1, first_due_ns=9)]),
        "it ends before it begins",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_from_an_agent_and_from_a_bundle_the_same_is_refused(tmp_path: Path, name: str) -> None:
    stream, reason = WRONG[name]
    with Store.open(str(tmp_path / "one")) as store:
        run = store.get(bundles.carry_out(store, data=stream.data))
        assert reason in run.steps[0].end.reason
        extremes.follow(run, [".html"])
        files = bundles.files_of(run.path)
    # somebody put the record into the sealed stream
    cut = b"".join(stream.parts[:-1])
    assert files["steps/000/records.cbor"] == cut[: len(files["steps/000/records.cbor"])]
    files["steps/000/records.cbor"] = stream.data
    assert reason in refused(tmp_path, files)


def refused(folder: Path, files: dict[str, bytes]) -> str:
    (folder / "b.rtgauge").write_bytes(bundles.pack(files))
    with Store.open(str(folder / "two")) as store:
        with pytest.raises(StoreError) as found:
            import_bundle(store, folder / "b.rtgauge")
        assert not store.runs()
    return found.value.message


@pytest.mark.parametrize(
    ("totals", "trailer"),
    [
        ({"count": COUNT_LIMIT + 1}, False),
        ({"last_due_ns": 2**61}, False),
        ({"first_due_ns": 1, "last_due_ns": 0}, False),
        ({"count": 41}, True),
        ({"overruns": 1}, True),
    ],
)
def test_totals_of_a_seal_are_those_of_its_records(
    tmp_path: Path, totals: dict[str, int], trailer: bool
) -> None:
    stream = Builder().series(0).samples(0, 0, streams.latencies(40))
    if trailer:
        stream.trailer(series=[streams.totals(0, count=40)])
    with Store.open(str(tmp_path / "one")) as store:
        files = bundles.files_of(store.path / bundles.carry_out(store, data=stream.data))

    def change(seal: dict[str, Any]) -> None:
        seal["series"][0]["totals"] |= totals

    files = bundles.with_json(files, "steps/000/seal.json", change)
    assert "series 0" in refused(tmp_path, files)


@pytest.mark.parametrize(
    ("column", "value"),
    [("index", COUNT_LIMIT + 1), ("due_ns", -NUMBER_LIMIT - 1), ("value", NUMBER_LIMIT + 1)],
)
def test_samples_of_a_bundle_have_the_limits_of_a_stream(
    tmp_path: Path, column: str, value: int
) -> None:
    stream = (
        Builder().series(0).samples(0, 0, [1, 2, 3]).event("wide", 0, series=0, index=2, value=4)
    )
    with Store.open(str(tmp_path / "one")) as store:
        run = store.get(bundles.carry_out(store, data=stream.data))
        path = run.steps[0].folder / "series-0.parquet"
        with ParquetReader(path) as reader:
            numbers = {name: reader.read(0, name) for name in COLUMNS}
        numbers[column][-1] = value
        with open(path, "wb") as file:
            writer = ParquetWriter(file, "", wide=True, level=1)
            writer.write([numbers[name] for name in COLUMNS])
            writer.close()
        files = bundles.files_of(run.path)
    assert "its samples are beyond the limits of a stream" in refused(tmp_path, files)


def test_a_fault_of_a_renderer_is_one_line_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(_: report.Source) -> bytes:
        raise IndexError("index 3 is out of bounds")

    monkeypatch.setattr("rtgauge.report.writing.FORMATS", {**report.FORMATS, ".md": faulty})
    with Store.open(str(tmp_path / "store")) as store:
        run = store.get(bundles.carry_out(store))
        with pytest.raises(RtgaugeError, match=r"^cannot make a\.md from the run: IndexError"):
            report.write([run], tmp_path / "a.md")
    assert not (tmp_path / "a.md").exists()


@pytest.mark.slow
def test_gaps_of_a_dithered_series_that_overlap_are_reported(tmp_path: Path) -> None:
    stream = Builder().series(0).series(1, name="offset", companion=0)
    stream.samples(0, 0, [5, 6]).samples(1, 0, [1, 2])
    stream.event("missed", 0, series=0, index=100, count=50)
    stream.event("missed", 0, series=0, index=120, count=9)
    stream.event("missed", 0, series=0, index=1, count=300).samples(0, 400, [7])
    extremes.carried_through(tmp_path, stream.trailer().data, [".html"])
