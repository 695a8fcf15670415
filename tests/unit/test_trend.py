# SPDX-License-Identifier: Apache-2.0
"""Changes over the runs of a label: the document, its texts, and the command."""

from __future__ import annotations

import copy
import itertools
import json
import re
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from rich.console import Group

import report_runs as made
from conftest import Run
from rtgauge import stats
from rtgauge.cli.trend import _gate
from rtgauge.errors import UsageError
from rtgauge.report.document.trended import conclusion, trend_document, worse
from rtgauge.report.pictures.drawing import text_width
from rtgauge.report.pictures.trended import trended
from rtgauge.report.render import console, html, markdown
from rtgauge.report.results import gather, model
from rtgauge.report.results.kept import joined, packed, unpacked
from rtgauge.report.sets.trend import Trended, trend, validate
from rtgauge.stream import Counter


def _run(number: int, centre: float, **more: Any) -> made.FakeRun:
    """A run of 2000 wake-ups around a median, which differs a little from run to run."""
    random = np.random.default_rng([31, number])
    values = random.lognormal(np.log(centre * random.normal(1, 0.02)), 0.1, 2000)
    info = made.info(0, **more.pop("info", {}))
    series = made.FakeSeries(info, np.arange(2000), values.astype(np.int64))
    return made.run(
        [made.step(0, [series], **more.pop("step", {}))],
        id=f"0192f0c4-6d1e-7aaa-8000-{number:012}",
        started=f"2026-11-{number // 24 + 1:02}T{number % 24:02}:00:00Z",
        **more,
    )


def _kernel(release: str) -> dict[str, Any]:
    environment = copy.deepcopy(made.ENVIRONMENT)
    environment["kernel"]["release"] = release
    return environment


def _trend(runs: Sequence[made.FakeRun], **more: Any) -> dict[str, Any]:
    analysis = model.analyse(cast(Any, runs), pictures=False)
    places = tuple(range(len(runs)))
    chosen = [Trended("nightly", places, tuple(place + 1 for place in places))]
    document = trend(analysis, chosen, **more)
    validate(document)
    return document


def _text(document: dict[str, Any], width: int = 80) -> str:
    text = console.printed(
        Group(*console.render(trend_document(document, pictures=False).sections)), width
    )
    assert all(len(line) <= width for line in text.splitlines())
    return text


@pytest.mark.slow
def test_a_change_is_dated_sized_and_explained() -> None:
    """Medians of 5 µs, from run 21 on of 6 µs, with another kernel."""
    runs = [_run(at, 5000.0, environment=_kernel("6.1.0")) for at in range(20)]
    runs += [_run(at, 6000.0, environment=_kernel("6.12.0")) for at in range(20, 32)]
    document = _trend(runs)
    first = document["series"][0]
    assert first["primary"] and first["statistic"] == "tail" and first["verdict"] == "worse"
    assert [one["statistic"] for one in document["series"]] == ["tail", "50", "max"]
    (change,) = first["changes"]
    assert (change["at"], change["number"]) == (20, 21)
    assert change["started"] == "2026-11-01T20:00:00Z" and change["run"] == runs[20].id
    low, high = change["interval"]
    values = np.log([one["value"] for one in first["values"]])
    expected = stats.shift(values[:20].tolist(), values[20:].tolist())
    assert np.log([low, high]) == pytest.approx([expected.low, expected.high])
    assert np.log(change["ratio"]) == pytest.approx(expected.estimate)
    assert change["ratio"] == pytest.approx(1.2, abs=0.03)
    assert change["direction"] == "worse"
    assert change["differences"][0] == {"name": "kernel", "values": ["6.1.0", "6.12.0"]}
    assert [one["runs"] for one in first["segments"]] == [20, 12]
    medians = [int(np.sort(run.steps[0].series[0].value)[999]) for run in runs]
    median = document["series"][1]
    assert [one["value"] for one in median["values"]] == medians
    text = _text(document)
    flat = re.sub(r"\s+", " ", text)
    assert re.search(r"has been worse since run #21 \(2026-11-01 20:00\): ×1[.](19|2)", flat)
    two = {**document, "series": document["series"][:2]}
    assert len(worse(two)) == 2
    # The run and the size are those of the first figure.
    assert ", and 1 other figure is worse, too" in conclusion(two).partition(": ×1.")[2]
    assert "other figure" not in conclusion({**two, "series": [first]})
    assert "kernel: 6.1.0 → 6.12.0" in text
    web = html.page(trend_document(document))
    assert web.count("<svg") >= 2 and "<script" not in web and "#21" in web
    assert "run #21" in markdown.render(trend_document(document)).replace("\\#", "#")


def test_names_of_changes_cover_neither_runs_nor_each_other() -> None:
    """The name of a change was on the first runs after it, and on the name of the next change."""
    begins = [0, 300, 304, 308, 396]
    values = [1000 * (1 + at % 2) for at in range(400)]
    picture = trended({
        "unit": "ns",
        "values": [{"value": value} for value in values],
        "segments": [
            {"begin": a, "runs": b - a, "median": 1000}
            for a, b in itertools.pairwise([*begins, 400])
        ],
        "changes": [{"at": at, "number": at + 1, "direction": "worse"} for at in begins[1:]],
    })  # fmt: skip
    labels = re.findall(r'<text [^>]*x="([\d.]+)" y="([\d.]+)"([^>]*)>(#\d+)<', picture)
    assert [one[3] for one in labels] == ["#301", "#305", "#309", "#397"]
    boxes = []
    for x, y, more, text in labels:
        wide = text_width(text)
        left = float(x) - (wide if 'text-anchor="end"' in more else 0)
        boxes.append((left, left + wide, float(y)))
    for one, other in itertools.combinations(boxes, 2):
        assert one[2] != other[2] or one[1] <= other[0] or other[1] <= one[0]
    points = [float(y) for y in re.findall(r'd="M[\d.]+ ([\d.]+)a', picture)]
    assert len(points) == 400 and min(points) - 1.6 > max(box[2] for box in boxes)


@pytest.mark.slow
def test_another_kernel_long_before_a_change_is_not_what_changed_there() -> None:
    """The kernel changes at run 11, the latency at run 32. Two boards take turns."""

    def environment(at: int) -> dict[str, Any]:
        return {**_kernel("6.1.0" if at < 10 else "6.12.0"), "serial": "AB"[at % 2]}

    runs = [
        _run(at, 5000.0 if at < 31 else 6000.0, environment=environment(at)) for at in range(45)
    ]
    document = _trend(runs)
    (change,) = document["series"][0]["changes"]
    assert change["at"] == 31
    assert change["differences"] == []
    assert "The recorded environment did not change there." in _text(document)


@pytest.mark.slow
def test_the_kernels_next_to_a_change_are_named() -> None:
    """Another kernel for each run."""
    runs = [
        _run(at, 5000.0 if at < 15 else 6000.0, environment=_kernel(f"6.{at}")) for at in range(30)
    ]
    (change,) = _trend(runs)["series"][0]["changes"]
    (kernel,) = change["differences"]
    assert kernel["values"] == ["6.11 / 6.12 / 6.13 / 6.14", "6.15 / 6.16 / 6.17 / 6.18"]


@pytest.mark.slow
def test_a_change_for_the_better_and_none() -> None:
    document = _trend([_run(at, 6000.0 if at < 15 else 5000.0) for at in range(30)])
    assert document["series"][0]["verdict"] == "better" and not worse(document)
    assert "worse than before" in conclusion(document)
    document = _trend([_run(at, 5000.0) for at in range(30)])
    assert {one["verdict"] for one in document["series"]} == {"no change"}
    assert conclusion(document) == "No change in 3 figures"
    assert "The recorded environment" not in _text(document)


@pytest.mark.slow
def test_a_change_among_ties_has_the_direction_of_the_other_values() -> None:
    later = np.random.default_rng(0).permutation([5000] * 52 + [9000] * 48)
    runs = []
    for at, value in enumerate([5000] * 100 + later.tolist()):
        series = made.sampled(np.full(100, value, np.int64))
        started = f"2026-11-{at // 24 + 1:02}T{at % 24:02}:00:00Z"
        number = f"0192f0c4-6d1e-7aaa-8000-{at:012}"
        runs.append(made.run([made.step(0, [series])], id=number, started=started))
    document = _trend(runs)
    found = document["series"][0]
    assert [one["ratio"] for one in found["changes"]] == [1.0]
    assert found["verdict"] == found["changes"][0]["direction"] == "worse"
    assert worse(document)


def _constant(levels: Sequence[int], hz: int = 10**9, coarse: bool = False) -> dict[str, Any]:
    """The median of 30 runs at each level, all of whose samples are equal. ``hz``: frequency of the
    CPU's counter. ``coarse``: only histograms are kept."""
    runs = []
    for at, level in enumerate(np.repeat(levels, 30).tolist()):
        series = made.sampled(np.full(100, level, np.int64))
        step = made.step(0, [made.as_histogram(series) if coarse else series])
        step.header = replace(step.header, counter=Counter("tsc", hz))
        number = f"0192f0c4-6d1e-7aaa-8000-{at:012}"
        started = f"2026-11-{at // 24 + 1:02}T{at % 24:02}:00:00Z"
        runs.append(made.run([step], id=number, started=started))
    parts = [
        unpacked(packed(model.analyse(cast(Any, [run]), pictures=False), "k"), "k") for run in runs
    ]
    analysis = joined([one for one in parts if one is not None])
    places = tuple(range(len(runs)))
    document = trend(analysis, [Trended("nightly", places, places)])
    validate(document)
    return next(one for one in document["series"] if one["statistic"] == "50")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("levels", "hz", "coarse", "places"),
    [
        ([5000, 5001], 10**9, False, []),
        ([5000, 5002], 10**9, False, [30]),
        ([5000, 5042], 24_000_000, False, []),
        ([5000, 5084], 24_000_000, False, [30]),
        ([5000, 5042, 5084], 24_000_000, False, [60]),
        ([5000, 5042, 5000], 24_000_000, False, []),
        ([5000, 5032], 10**9, True, []),
        ([5000, 5064], 10**9, True, [30]),
    ],
)
def test_a_change_exceeds_the_resolution(
    levels: list[int], hz: int, coarse: bool, places: list[int]
) -> None:
    """One step of the clock, a tick of the counter or a bucket is not a change, but two are, also
    one after the other."""
    found = _constant(levels, hz, coarse)
    assert [one["at"] for one in found["changes"]] == places
    assert found["verdict"] == ("worse" if places else "no change")
    assert [one["begin"] for one in found["segments"]] == [0, *places]


@pytest.mark.slow
def test_constant_values_and_ties_are_no_change() -> None:
    runs = [_run(at, 5000.0) for at in range(24)]
    for run in runs:
        run.steps[0].series = runs[0].steps[0].series
    document = _trend(runs)
    assert {one["verdict"] for one in document["series"]} == {"constant"}
    assert "<svg" in html.page(trend_document(document))


@pytest.mark.slow
def test_histograms_of_the_same_samples_are_no_change() -> None:
    """The upper ends of their buckets are larger than the samples."""
    runs = [_run(at, 5000.0) for at in range(30)]
    value = runs[0].steps[0].series[0].value
    for at, run in enumerate(runs):
        (one,) = run.steps[0].series
        one.value = value
        if at >= 20:
            made.as_histogram(one)
    series = _trend(runs)["series"]
    assert [one["verdict"] for one in series] == ["constant"] * 3
    assert len({one["value"] for one in series[0]["values"]}) == 2


@pytest.mark.slow
def test_too_few_runs_are_refused_with_their_number() -> None:
    document = _trend([_run(at, 5000.0) for at in range(17)])
    (one,) = document["series"]
    assert one["verdict"] == "refused" and one["reason"].startswith("17 runs")
    assert one["remedy"] == "measure 3 more runs with this label"
    assert conclusion(document) == "Nothing can be judged"
    assert "A trend needs at least 20" in re.sub(r"\s+", " ", _text(document))


@pytest.mark.slow
def test_runs_that_were_measured_in_other_ways_are_apart() -> None:
    """Interval and clock: 24 runs alike are judged, 6 others named with the difference."""
    runs = [_run(at, 5000.0) for at in range(24)]
    runs += [_run(at, 9000.0, info={"interval_ns": 2 * made.MS}) for at in range(24, 30)]
    document = _trend(runs)
    kept = [one for one in document["series"] if one["verdict"] == "no change"]
    (apart,) = [one for one in document["series"] if one["verdict"] == "refused"]
    assert {len(one["values"]) for one in kept} == {24}
    assert apart["reason"].startswith("6 runs measured this way")
    assert "interval 2" in apart["remedy"] and "another label" in apart["remedy"]
    assert "Not judged" in _text(document)


@pytest.mark.slow
def test_runs_that_depend_on_their_neighbours_are_refused() -> None:
    """A slow wave over the runs."""
    runs = [_run(at, 5000.0 * (1 + 0.3 * np.sin(at / 9))) for at in range(100)]
    first = _trend(runs)["series"][0]
    assert first["verdict"] == "refused" and first["dependence_p"] <= 0.01
    assert "Bartels" in first["reason"] and "reboot" in first["remedy"]


@pytest.mark.slow
@pytest.mark.parametrize(("step_ns", "found"), [(1000, [10, 20]), (1, [20])])
def test_constant_levels_do_not_depend_on_each_other(step_ns: int, found: list[int]) -> None:
    """Three of them were refused: changes that are so close are not found by ranks, and what is
    left looks like dependence. Steps of the clock add up."""

    def constant(at: int) -> made.FakeRun:
        run = _run(at, 5000.0)
        run.steps[0].series[0].value[:] = 5000 + at // 10 * step_ns
        return run

    first = _trend([constant(at) for at in range(30)])["series"][0]
    assert first["verdict"] == "worse"
    assert [one["begin"] for one in first["segments"]] == [0, *found]
    assert first["dependence_p"] == 1.0


@pytest.mark.slow
def test_kernels_in_the_plain_lab_are_refused() -> None:
    def plain(release: str) -> dict[str, Any]:
        return {**_kernel(release), "lab": {"mode": "plain"}}

    runs = [_run(at, 5000.0, environment=plain(f"6.{at % 2}")) for at in range(24)]
    with pytest.raises(UsageError, match="plain mode"):
        _trend(runs)


@pytest.mark.slow
def test_runs_that_were_left_out_are_listed() -> None:
    lost = {"run": "run #7", "reason": "its samples are damaged", "remedy": "delete it"}
    document = _trend([_run(at, 5000.0) for at in range(20)], left_out=[lost])
    assert "run #7: its samples are damaged. Delete it." in _text(document)


@pytest.mark.slow
def test_an_interrupted_run_is_left_out() -> None:
    """Its 15 samples would leave no tail percentile for any run."""
    runs = [_run(at, 5000.0) for at in range(25)]
    short = runs[7].steps[0].series[0]
    short.index, short.value = short.index[:15], short.value[:15]
    runs[7].steps[0].document["state"] = "interrupted"
    document = _trend(runs)
    assert document["series"][0]["statistic"] == "tail"
    assert {len(one["values"]) for one in document["series"]} == {24}
    (lost,) = document["left_out"]
    assert (lost["run"], lost["reason"]) == ("run #8", "timer was not completed")


@pytest.mark.slow
def test_a_gate_needs_the_newest_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Runs that skipped the primary figure are named, and do not pass as unchanged."""
    runs = [_run(at, 5000.0) for at in range(25)]
    newest = [runs[-1].id]
    assert _gate(_trend(runs), newest) == 0
    for run in runs[22:]:
        run.steps[0].series.clear()
        run.steps[0].document.update(state="skipped", reason="no privilege", remedy="use root")
    document = _trend(runs)
    assert [(one["run"], one["reason"], one["remedy"]) for one in document["left_out"]] == [
        (f"run #{number}", "timer was not measured: no privilege", "use root")
        for number in (23, 24, 25)
    ]
    assert {one["verdict"] for one in document["series"]} == {"no change"}
    capsys.readouterr()
    assert _gate(document, newest) == 77
    assert "the newest run of nightly has no primary figure" in capsys.readouterr().err


@pytest.mark.slow
def test_a_figure_while_idle_does_not_replace_the_one_under_load() -> None:
    """The interval under load changed, so neither part has enough runs."""
    runs = []
    for at in range(30):
        idle = _run(at, 5000.0)
        info = {"interval_ns": made.MS if at < 15 else made.MS // 5}
        loaded = _run(at + 100, 9000.0, info=info).steps[0].series
        steps = [*idle.steps, made.step(1, loaded, load="sched")]
        runs.append(made.run(steps, id=idle.id, started=idle.document["started"]))
    document = _trend(runs)
    first, *others = document["series"]
    assert (first["load"]["name"], first["primary"], first["verdict"]) == ("sched", True, "refused")
    assert not any(one["primary"] for one in others)
    assert {one["verdict"] for one in others if one["load"]["name"] == "idle"} == {"no change"}
    assert _gate(document) == 77


@pytest.mark.slow
def test_maxima_of_runs_of_other_lengths_are_refused() -> None:
    runs = [_run(at, 5000.0) for at in range(24)]
    for run in runs[:12]:
        series = run.steps[0].series[0]
        series.index, series.value = series.index[:1500], series.value[:1500]
    found = {one["statistic"]: one for one in _trend(runs)["series"]}
    assert found["max"]["verdict"] == "refused" and "unequal numbers" in found["max"]["reason"]
    assert found["tail"]["verdict"] == found["50"]["verdict"] == "no change"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["no change", "refused"], 0),
        (["refused", "no change"], 77),
        (["refused", "worse"], 3),
        (["refused"], 77),
        ([], 77),
    ],
)
def test_a_gate_needs_its_primary_figure(verdicts: list[str], code: int) -> None:
    document = _trend([_run(at, 5000.0 if at < 15 else 6000.0) for at in range(30)])
    first = document["series"][0]
    document["series"] = [
        {**first, "primary": not at, "verdict": verdict} for at, verdict in enumerate(verdicts)
    ]
    assert _gate(document) == code


# --- the command ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_on_few_damaged_and_failed_runs(rtgauge: Run) -> None:
    for _ in range(3):
        assert rtgauge(
            "run",
            "timer",
            "--target",
            "fake",
            "--for",
            "1s",
            "--label",
            "nightly",
            "--store",
            "data",
        ).code in (0, 3)
    done = rtgauge("trend", "nightly", "--store", "data", "--gate", "-o", "t.html", "-o", "t.md")
    assert done.code == 77 and "A trend needs at least 20" in re.sub(r"\s+", " ", done.out)
    assert "gate: Nothing can be judged" in done.err
    assert Path("t.html").read_text().startswith("<!DOCTYPE html>")
    assert "Nothing can be judged" in Path("t.md").read_text()
    samples = next(iter(sorted(Path("data/runs").glob("*/steps/*/*.parquet"))))
    samples.write_bytes(b"damaged")
    document = rtgauge("trend", "nightly", "--store", "data", "--json").json()
    validate(document)
    assert document["sets"] == [{"name": "nightly", "runs": 2}]
    (lost,) = document["left_out"]
    assert lost["run"] == "run #1" and lost["reason"] and lost["remedy"]
    assert rtgauge("trend", "nightly", "--store", "data").code == 0
    wrong = rtgauge("trend", "nightly", "--store", "data", "-o", "t.pdf")
    assert wrong.code == 2 and ".html, .json, .md" in wrong.err
    bare = rtgauge("trend", "nightly", "--store", "data", "-o", "out")
    assert bare.code == 2 and "'out' does not have the suffix of a trend's format" in bare.err
    rtgauge("run", "timer", "--target", "fake:fails", "--label", "nightly", "--store", "data")
    left_out = rtgauge("trend", "nightly", "--store", "data", "--json").json()["left_out"]
    remedies = [one["remedy"] for one in left_out if one["reason"] == "it failed"]
    assert remedies == ["see why with `rtgauge show 4 --store data`"]
    assert rtgauge("trend", "nightli", "--store", "data").code == 2
    assert rtgauge("trend", "--store", "data").code == 2


def _measure(rtgauge: Run, number: int = 2) -> None:
    for _ in range(number):
        rtgauge("run", "timer", "--target", "fake", "--for", "1s", "--label", "nightly",
                "--store", "data")  # fmt: skip


@pytest.mark.slow
def test_each_run_is_read_once(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _measure(rtgauge)
    first = rtgauge("trend", "nightly", "--store", "data", "--json").json()
    analyse, read = model.analyse, []

    def counted(runs: Any, **more: Any) -> model.Analysis:
        read.extend(runs)
        return analyse(runs, **more)

    monkeypatch.setattr(model, "analyse", counted)
    assert rtgauge("trend", "nightly", "--store", "data", "--json").json() == first
    assert not read
    _measure(rtgauge, 1)
    read.clear()
    assert rtgauge("trend", "nightly", "--store", "data", "--json").json() != first
    assert len(read) == 1
    kept = sorted(Path("data/figures").iterdir())
    assert len(kept) == 3
    kept[0].write_bytes(b"damaged")
    kept[1].write_bytes(kept[1].read_bytes()[:-40])
    read.clear()
    rtgauge("trend", "nightly", "--store", "data", "--json").json()
    assert len(read) == 2
    run = rtgauge("runs", "--store", "data", "--json").json()["runs"][0]["id"]
    rtgauge("delete", run, "--yes", "--store", "data")
    assert len(list(Path("data/figures").iterdir())) == 2


@pytest.mark.slow
def test_figures_of_a_run_that_changes_meanwhile_are_not_kept(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _measure(rtgauge)
    analyse, read = model.analyse, []

    def changed(runs: Any, **more: Any) -> model.Analysis:
        read.extend(runs)
        found = analyse(runs, **more)
        (runs[0].path / "more").write_bytes(b"samples")
        return found

    monkeypatch.setattr(model, "analyse", changed)
    rtgauge("trend", "nightly", "--store", "data", "--json")
    rtgauge("trend", "nightly", "--store", "data", "--json")
    assert len(read) == 4


@pytest.mark.slow
def test_odd_files_of_a_store_do_not_end_a_trend(rtgauge: Run) -> None:
    _measure(rtgauge)
    first = rtgauge("trend", "nightly", "--store", "data", "--json").json()
    one, two = sorted(Path("data/figures").iterdir())
    # bit 0 of the flags of a file of the archive: encrypted; and a way to compress from the future
    data = bytearray(one.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    one.write_bytes(data)
    data = bytearray(two.read_bytes())
    data[data.index(b"PK\x01\x02") + 10] = 99
    two.write_bytes(data)
    assert rtgauge("trend", "nightly", "--store", "data", "--json").json() == first
    (next(Path("data/runs").glob("0*")) / "gone").symlink_to("nowhere")
    assert rtgauge("trend", "nightly", "--store", "data", "--json").json() == first


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The numbers of the runs of each set that is judged from now on, in their order."""
    seen: list[tuple[int, ...]] = []

    def noted(analysis: Any, sets: Sequence[Trended], left_out: Any) -> Any:
        seen.extend(one.numbers for one in sets)
        return trend(analysis, sets, left_out)

    monkeypatch.setattr("rtgauge.report.sets.trend.trend", noted)
    return seen


@pytest.mark.slow
def test_the_runs_of_a_list_are_in_the_order_of_time(
    rtgauge: Run, judged: list[tuple[int, ...]]
) -> None:
    _measure(rtgauge, 3)
    assert rtgauge("trend", "3,1,2", "--store", "data", "--json").code == 0
    assert judged == [(1, 2, 3)]


@pytest.mark.slow
def test_the_newest_runs_are_judged(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, judged: list[tuple[int, ...]]
) -> None:
    monkeypatch.setattr(import_module("rtgauge.stats.changes"), "MOST", 2)
    _measure(rtgauge, 3)
    document = rtgauge("trend", "nightly", "--store", "data", "--json").json()
    assert document["sets"] == [{"name": "nightly", "runs": 2}]
    (older,) = document["left_out"]
    assert older["run"] == "1 older run of nightly"
    assert judged == [(2, 3)]


def test_kept_figures_are_those_of_the_run() -> None:
    """Percentiles of several series, and of events without an answer; other bytes are refused."""
    series = made.sampled(np.arange(40) * 1000 - 5000, 0)
    run = made.run([made.step(0, [series])])
    found = model.analyse(cast(Any, [run]), pictures=False)
    (key,) = found.places[0]
    found.figures[0][key].__dict__["unanswered"] = stats.Counts.from_arrays([np.array([30_000])])
    again = unpacked(packed(found, "k"), "k")
    assert again is not None
    assert again.model["runs"] == json.loads(json.dumps(found.model["runs"]))
    assert again.places == found.places and again.counters == found.counters != ({},)
    both = [one.figures[0][key] for one in (found, again)]
    assert gather.percentiles(both[:1]) == gather.percentiles(both[1:]) != {}
    assert [one.counts.count for one in both] == [40, 40]
    found.figures[0][key].__dict__["corrected"] = stats.Counts.from_arrays([np.arange(60) * 1000])
    again = unpacked(packed(found, "k"), "k")
    assert again is not None
    both = [one.figures[0][key] for one in (found, again)]
    shares = [gather.percentiles([one], corrected=True) for one in both]
    assert shares[0] == shares[1] != gather.percentiles(both[:1])
    found.figures[0][key].__dict__["lost"] = 7
    again = unpacked(packed(found, "k"), "k")
    assert again is not None and again.figures[0][key].unseen == 7
    assert unpacked(packed(found, "k"), "other") is None
    with pytest.raises((ValueError, zipfile.BadZipFile)):
        unpacked(b"PK", "k")


@pytest.mark.slow
def test_each_target_is_a_set(rtgauge: Run) -> None:
    for target in ("fake", "fake:late"):
        rtgauge(
            "run", "timer", "--target", target, "--for", "1s", "--label", "n", "--store", "data"
        )
    both = rtgauge("trend", "n", "--store", "data", "-o", "t.json")
    assert both.code == 0
    names = [one["name"] for one in json.loads(Path("t.json").read_text())["sets"]]
    assert names == ["n@fake", "n@fake:late"]
    one = rtgauge("trend", "n@fake", "--store", "data", "--json").json()
    assert [each["name"] for each in one["sets"]] == ["n@fake"]
