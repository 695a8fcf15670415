# SPDX-License-Identifier: Apache-2.0
"""Series without a time grid over time: each sample in the bin of the moment it was taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import report_runs as made
import streams
from rtgauge.report.render import html
from rtgauge.report.results import gather, model
from rtgauge.store.samples import StoredStep
from rtgauge.store.seal import STREAM, seal_step
from streams import Builder

LOOP = 100
Int64 = NDArray[np.int64]


def in_turns(samples: int, scenarios: int = 3) -> tuple[list[made.FakeSeries], list[Int64]]:
    """Threads created and deleted in test loops of 100, a scenario after the other; and when each
    sample was taken in truth."""
    random = np.random.default_rng(5)
    series: list[made.FakeSeries] = []
    truth: list[Int64] = []
    took = random.integers(20_000, 40_000, (samples // LOOP, scenarios, LOOP, 2))
    spare = random.integers(500, 1500, took.shape)
    flat = (took + spare).reshape(-1)
    begins = (1_000_000 + np.cumsum(flat) - flat).reshape(took.shape)
    for scenario in range(scenarios):
        due = np.repeat(begins[:, scenario, 0, 0], LOOP)
        for place, name in enumerate(("create", "delete")):
            info = made.info(
                2 * scenario + place, name=name, interval_ns=0, labels={"scenario": str(scenario)}
            )
            values = took[:, scenario, :, place].reshape(-1).astype(np.int32)
            series.append(made.FakeSeries(info, np.arange(samples), values, due=due))
            truth.append(begins[:, scenario, :, place].reshape(-1))
    return series, truth


def gathered(series: list[made.FakeSeries]) -> list[Any]:
    step = made.step(0, series)
    return gather.gather([(one, step) for one in series])  # type: ignore[misc]


def stored(folder: Path, series: list[made.FakeSeries], *, older: bool) -> StoredStep:
    """The same through a stream and Parquet; older agents told one time twice in the trailer."""
    stream = Builder()
    totals = []
    for number, one in enumerate(series):
        stream.series(number, name=one.info.name, interval_ns=0, labels=one.info.labels)
        last = 0 if older else int(one.due_ns[-1])
        first = 0 if older else int(one.due_ns[0])
        totals.append(streams.totals(number, count=one.count, first_due_ns=first, last_due_ns=last))
    for at in range(0, series[0].count, LOOP):
        for number, one in enumerate(series):
            values = one.value[at : at + LOOP].tolist()
            stream.samples(number, at, values, due_ns=int(one.due_ns[at]))
    step = StoredStep(folder, 0, {})
    step.folder.mkdir(parents=True)
    (step.folder / STREAM).write_bytes(stream.trailer(series=totals).data)
    seal_step(step.folder, "", 0)
    return StoredStep(folder, 0, {})


@pytest.mark.slow
@pytest.mark.study(83, 86, 90, 92, 101)
@pytest.mark.parametrize("older", [False, True])
def test_100_000_samples_fill_500_bins(tmp_path: Path, older: bool) -> None:
    step = stored(tmp_path, in_turns(100_000)[0], older=older)
    for figures in gather.gather([(one, step) for one in step.series]):
        assert figures.timeline is not None
        assert int(figures.timeline.count.sum()) == 100_000
        assert np.count_nonzero(figures.timeline.count) >= 500


@pytest.mark.study(75)
@pytest.mark.parametrize("samples", [2_000, 100_000])
def test_samples_of_test_loops_are_where_they_were_taken(samples: int) -> None:
    series, truth = in_turns(samples)
    for figures, times in zip(gathered(series), truth, strict=True):
        line = figures.timeline
        assert line is not None
        assert int(line.count.sum()) == samples
        edges = line.start_ns + line.bin_ns * np.arange(len(line.count) + 1)
        expected = np.histogram(times, edges)[0]
        assert int(expected.sum()) >= samples - LOOP
        # A bin or two off the true one: a loop is long compared with the bins of a short step.
        off = np.abs(np.cumsum(line.count) - np.cumsum(expected)).max()
        assert off <= 2 * LOOP
        if samples == 100_000:
            assert np.count_nonzero(line.count) >= 500
            assert figures.heat is not None
            assert len(np.unique(figures.heat.column)) >= 250


def test_the_last_loop_ends_within_the_bins() -> None:
    (figures,) = gathered(in_turns(2_000, 1)[0][:1])
    _, (times, _) = in_turns(2_000, 1)
    end = figures.timeline.start_ns + figures.timeline.bin_ns * len(figures.timeline.count)
    assert abs(end - int(times[-1])) < LOOP * 60_000 // 10
    assert figures.timeline.count.max() <= 12


@pytest.mark.study(108)
def test_interrupts_have_pictures_over_time() -> None:
    random = np.random.default_rng(7)
    series = [
        made.sampled(random.integers(300, 900, 2_000), place, name=name)
        for place, name in enumerate(("handler", "acknowledged"))
    ]
    step = made.step(0, series, "irq-latency")
    page = html.render(model.analyse([made.run([step])]))  # type: ignore[list-item]
    assert page.count('data-kind="time"') >= 1


@pytest.mark.slow
def test_threads_have_pictures_over_time() -> None:
    series, _ = in_turns(2_000)
    page = html.render(model.analyse([made.run([made.step(0, series)])]))  # type: ignore[list-item]
    assert page.count('data-kind="time"') == page.count('data-kind="heat"') == 2
