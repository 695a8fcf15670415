# SPDX-License-Identifier: Apache-2.0
"""The line of ``--mark``, recorded by an analyser, and the samples of the run that was marked.

The marked runs are written here, and their lines are drawn from the same samples, so that what the
analyser saw is known: each pulse is its sample and a write to the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from captures import analogue
from conftest import Run
from marked import LOOP, US, line, marked_run
from rtgauge.capture import Marked, Wanted, import_marks, marks
from rtgauge.errors import UsageError
from rtgauge.report.results.model import build
from rtgauge.store import Store

WRITE = 20 * US


def spans(
    path: Path, values: Sequence[int] | NDArray[np.int64], draw: np.random.Generator
) -> tuple[Path, NDArray[np.float64]]:
    """The line of spans in this order, and the true width of each pulse."""
    widths = np.asarray(values) + WRITE + draw.uniform(0, 3 * US, len(values))
    rises = 500 * US + np.cumsum(widths + draw.uniform(5 * US, 90 * US, len(widths))) - widths
    return line(path, rises, widths), widths


def samples(draw: np.random.Generator, count: int, low_us: int = 5) -> NDArray[np.int64]:
    return draw.integers(low_us * US, (low_us + 200) * US, count).astype(np.int64)


def results(store: Store, run: str) -> dict[str, Any]:
    (built,) = build([store.get(run)])["runs"]
    assert isinstance(built, dict)
    return built


def values_of(store: Store, run: str) -> dict[tuple[str, str], NDArray[np.int64]]:
    """By series, and what it is of."""
    return {
        (one.info.name, one.info.labels.get("of", "")): np.concatenate(list(one.values()))
        for one in store.get(run).steps[0].series
    }


def rows_of(run: dict[str, Any]) -> dict[tuple[str, str], list[int]]:
    (table,) = [one for one in run["tables"] if one["name"] == "accuracy"]
    return {(row[0], row[1]): row[2:] for row in table["rows"]}


@pytest.mark.study(66)
def test_each_pulse_belongs_to_its_sample(store: Store, tmp_path: Path) -> None:
    draw = np.random.default_rng(66)
    acquire, release = samples(draw, 60), samples(draw, 60, 300)
    source = marked_run(store, {"acquire": acquire, "release": release})
    path, widths = spans(tmp_path / "m.sr", np.stack((acquire, release), 1).ravel(), draw)
    found = import_marks(store, path, Marked("D0", source), Wanted())
    assert (found.new, found.events, found.answered) == (True, 120, 120)
    seen = values_of(store, found.run)
    for name, own, width in (("acquire", acquire, widths[::2]), ("release", release, widths[1::2])):
        assert seen["sample", name].tolist() == own.tolist()
        assert np.abs(seen["pulse", name] - width).max() <= US + 1
        off = seen["difference", name]
        assert off.tolist() == (seen["pulse", name] - seen["sample", name]).tolist()
        assert off.min() >= WRITE - US and off.max() <= WRITE + 4 * US
    run = results(store, found.run)
    rows = rows_of(run)
    for name, own in (("acquire", acquire), ("release", release)):
        for figure, value in (("min", own.min()), ("max", own.max()), ("mean", own.mean())):
            sample, pulse, _, error = rows[name, figure]
            assert abs(sample - value) <= 1
            assert WRITE - US <= pulse - sample <= WRITE + 4 * US
            assert error == (106 if figure == "mean" else US)  # 2 us / sqrt(6 * 60) = 105.4 ns
    (test,) = run["tests"]
    assert (test["rule"], test["result"]) == ("every-sample-marked", "pass")
    assert run["environment"]["kernel"]["release"] == "6.12-rt"
    assert run["environment"]["capture"]["of"] == source.id


@pytest.mark.slow
def test_means_are_as_accurate_as_they_are_said_to_be(store: Store, tmp_path: Path) -> None:
    """95 of 100 recordings are within the error: 13 of these 16, which always are the same."""
    draw = np.random.default_rng(95)
    own = samples(draw, 40)
    source = marked_run(store, {"acquire": own})
    within = 0
    for number in range(16):
        path, widths = spans(tmp_path / f"{number}.sr", own, draw)
        found = import_marks(store, path, Marked("D0", source), Wanted())
        pulse = values_of(store, found.run)["pulse", ""]
        error = 2 * US / (6 * len(own)) ** 0.5
        within += bool(abs(float(np.mean(pulse - widths))) <= error)
    assert within >= 13


def test_means_of_an_analogue_line_are_as_wrong_as_its_pulses(store: Store, tmp_path: Path) -> None:
    """A threshold away from the middle makes all pulses too long."""
    draw = np.random.default_rng(9)
    own = samples(draw, 300)
    source = marked_run(store, {"acquire": own})
    widths = own + WRITE + draw.uniform(0, 3 * US, len(own))
    rises = 500 * US + np.cumsum(widths + draw.uniform(5 * US, 90 * US, len(own))) - widths
    edges = np.sort(np.concatenate((rises, rises + widths))) / US
    wave = 3.3 * (np.searchsorted(edges, np.arange(edges[-1] + 100), side="right") % 2)
    path = analogue(tmp_path / "a.sr", wave, wave)
    found = import_marks(store, path, Marked("A0", source), Wanted(threshold=0.4))
    _, mean, _, error = rows_of(results(store, found.run))["acquire", "mean"]
    assert error == 2 * US
    assert 2 * US / (6 * len(own)) ** 0.5 < mean - widths.mean() <= error


def test_series_one_after_the_other(store: Store, tmp_path: Path) -> None:
    """Within a test loop all of one series come first."""
    draw = np.random.default_rng(7)
    acquire, release = samples(draw, 30), samples(draw, 30, 300)
    source = marked_run(store, {"acquire": acquire, "release": release})
    loops = [
        np.concatenate((acquire[at : at + LOOP], release[at : at + LOOP]))
        for at in range(0, 30, LOOP)
    ]
    path, _ = spans(tmp_path / "m.sr", np.concatenate(loops), draw)
    found = import_marks(store, path, Marked("D0", source), Wanted())
    seen = values_of(store, found.run)
    assert seen["difference", "acquire"].max() <= WRITE + 4 * US
    assert seen["difference", "release"].min() >= WRITE - US


def test_a_recording_that_began_late(store: Store, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    own = samples(draw, 400)
    source = marked_run(store, {"acquire": own})
    path, widths = spans(tmp_path / "m.sr", own[137:350], draw)
    found = import_marks(store, path, Marked("D0", source, series=("acquire",)), Wanted())
    seen = values_of(store, found.run)
    assert seen["sample", ""].tolist() == own[137:350].tolist()
    assert np.abs(seen["pulse", ""] - widths).max() <= US + 1
    run = results(store, found.run)
    (test,) = run["tests"]
    assert (test["result"], "213 pulses for 400 samples" in test["evidence"]) == (
        "inconclusive",
        True,
    )
    assert any("187 samples. These samples are left out" in text for text in messages(run))


@pytest.mark.parametrize("alternating", [True, False])
def test_a_recording_of_two_series_that_began_late(
    store: Store, tmp_path: Path, alternating: bool
) -> None:
    draw = np.random.default_rng(13)
    two = np.stack((samples(draw, 200), samples(draw, 200, 300)))
    source = marked_run(store, {"acquire": two[0], "release": two[1]})
    loops = two.reshape(2, -1, LOOP)
    order = two.T.ravel() if alternating else loops.transpose(1, 0, 2).ravel()
    path, _ = spans(tmp_path / "m.sr", order[57:], draw)
    wanted = Marked("D0", source, series=("acquire", "release"))
    found = import_marks(store, path, wanted, Wanted())
    assert found.events == 343
    seen = values_of(store, found.run)
    assert np.concatenate([seen["difference", name] for name in ("acquire", "release")]).max() <= (
        WRITE + 4 * US
    )


def test_pulses_shorter_than_their_samples_do_not_belong_to_them(
    store: Store, tmp_path: Path
) -> None:
    draw = np.random.default_rng(4)
    own = samples(draw, 50, 300)
    source = marked_run(store, {"acquire": own})
    path, _ = spans(tmp_path / "m.sr", samples(draw, 50), draw)
    found = import_marks(store, path, Marked("D0", source), Wanted())
    (test,) = results(store, found.run)["tests"]
    assert test["result"] == "fail"
    assert "50 of 50 pulses are shorter than their samples" in test["evidence"]


@pytest.mark.slow
@pytest.mark.parametrize("dither", [False, True])
@pytest.mark.parametrize("ppm", [-40.0, 25.0])
def test_rises_are_wake_ups(store: Store, tmp_path: Path, dither: bool, ppm: float) -> None:
    """The analyser's clock is found, and each latency up to a constant."""
    draw = np.random.default_rng(5)
    count, interval_ns = 900, 2000 * US
    own = draw.integers(4 * US, 90 * US, count).astype(np.int64)
    offsets = draw.integers(0, 1900 * US, count).astype(np.int64) if dither else None
    source = marked_run(
        store, {"latency": own}, interval_ns=interval_ns, offsets=offsets, kind="pulse"
    )
    woken = np.arange(count) * interval_ns + own + (0 if offsets is None else offsets)
    late = draw.uniform(0, 2 * US, count)
    late[700] += 60 * US  # the line was written late
    rises = 7777 * US + (woken + late) * (1 + ppm / 1e6)
    path = line(tmp_path / "m.sr", rises[20:], np.full(count - 20, 5.0 * US))
    found = import_marks(store, path, Marked("D0", source), Wanted())
    seen = values_of(store, found.run)
    assert seen["sample", ""].tolist() == own[20:].tolist()
    off = seen["difference", ""]
    assert abs(float(np.median(off))) <= US
    assert int(off.argmax()) == 680 and 57 * US <= off[680] <= 63 * US
    others = np.delete(off, 680)
    assert np.abs(others).max() <= 3 * US
    run = results(store, found.run)
    way = "fast" if ppm > 0 else "slow"
    (said,) = [text for text in messages(run) if "clock is" in text]
    number = float(said.partition("clock is ")[2].split()[0])
    assert abs(number - abs(ppm)) < 1 and f"ppm {way}" in said


@pytest.mark.slow
def test_rises_of_another_run(store: Store, tmp_path: Path) -> None:
    draw = np.random.default_rng(14)
    own, other = draw.integers(4 * US, 54 * US, (2, 500)).astype(np.int64)
    source = marked_run(store, {"latency": own}, interval_ns=1000 * US, kind="pulse")
    for latencies, result in ((own, "pass"), (other, "inconclusive")):
        rises = 7777.0 * US + np.arange(500) * 1000 * US + latencies
        path = line(tmp_path / f"{result}.sr", rises, np.full(500, 5.0 * US))
        found = import_marks(store, path, Marked("D0", source), Wanted())
        (test,) = results(store, found.run)["tests"]
        assert test["result"] == result
        assert ("do not follow" in test["evidence"]) == (result != "pass")
    twice = Wanted(samplerate=Fraction(2_000_000))
    with pytest.raises(UsageError, match="come at different rates"):
        import_marks(store, path, Marked("D0", source), twice)


@pytest.mark.parametrize(
    ("kind", "lost"), [("pulse", 3), ("pulse", 700), ("pulse", 995), ("span", 200), ("span", 700)]
)
def test_a_pulse_that_the_recording_lacks(
    store: Store, tmp_path: Path, kind: str, lost: int
) -> None:
    """All later pulses would belong to the sample before."""
    draw = np.random.default_rng(12)
    count, interval_ns = 1000, 1000 * US
    own = draw.integers(4 * US, 90 * US, count).astype(np.int64)
    grid = interval_ns if kind == "pulse" else 0
    source = marked_run(store, {"latency": own}, interval_ns=grid, kind=kind)
    rises = 7777 * US + np.arange(count) * interval_ns + (own if grid else 0.0)
    widths = np.full(count, 5.0 * US) if grid else own + WRITE + 0.0
    path = line(tmp_path / "m.sr", np.delete(rises, lost), np.delete(widths, lost))
    said = refusal(store, path, Marked("D0", source))
    assert said.startswith("the recording has 999 pulses for 1")
    assert ("a pulse in its middle is missing" in said) == (lost > 256)


def test_an_offset_belongs_to_the_sample_of_its_index() -> None:
    """Records of the offsets may be lost, and then those after them have another place."""

    def series(index: list[int], value: list[int], companion: Any = None) -> Any:
        chunk = SimpleNamespace(
            index=np.array(index), value=np.array(value), due_ns=1000 * np.array(index)
        )
        info = SimpleNamespace(scale=1, interval_ns=1000)
        return SimpleNamespace(info=info, chunks=lambda: [chunk], companion=companion)

    own = marks._own(series([0, 1, 2, 4], [5, 6, 7, 9], series([0, 2, 3, 4], [10, 20, 30, 40])))
    assert own.time.tolist() == [15, 1006, 2027, 4049]


def messages(run: dict[str, Any]) -> list[str]:
    return [one["text"] for one in run["steps"][0]["events"] if one["event"] == "message"]


def refusal(store: Store, path: Path, marked: Marked) -> str:
    before = [row.id for row in store.runs()]
    with pytest.raises(UsageError) as caught:
        import_marks(store, path, marked, Wanted())
    assert [row.id for row in store.runs()] == before
    assert caught.value.remedy
    return str(caught.value)


@pytest.mark.slow
def test_what_does_not_fit(store: Store, tmp_path: Path) -> None:
    draw = np.random.default_rng(6)
    own = samples(draw, 50)
    path, _ = spans(tmp_path / "m.sr", own, draw)
    one = marked_run(store, {"acquire": own})
    alike = marked_run(store, {"acquire": own, "release": own[:30], "batch": own[:20]})
    flat = marked_run(store, {"acquire": np.full(90, 8 * US)})
    assert "has no step that was measured with --mark" in refusal(
        store, path, Marked("D0", marked_run(store, {"acquire": own}, mark=""))
    )
    assert "step 2 of run" in refusal(store, path, Marked("D0", one, step=2))
    assert "no channel 'D7'" in refusal(store, path, Marked("D7", one))
    assert "has no pulse" in refusal(store, path, Marked("D1", one))
    assert "no series 'nothing'" in refusal(store, path, Marked("D0", one, series=("nothing",)))
    assert "50 pulses, and several combinations" in refusal(store, path, Marked("D0", alike))
    chosen = Marked("D0", alike, series=("acquire",))
    assert import_marks(store, path, chosen, Wanted()).answered == 50
    two = marked_run(store, {"acquire": own[:20], "release": own[:20]})
    assert "50 pulses, and no combination" in refusal(store, path, Marked("D0", two))
    few = marked_run(store, {"acquire": own[:20]})
    assert "50 pulses for 20 samples" in refusal(store, path, Marked("D0", few))
    assert "could begin at several of them" in refusal(store, path, Marked("D0", flat))
    pulses = np.arange(20, dtype=np.float64) * 1000 * US
    apart = line(tmp_path / "p.sr", pulses + 700 * US, np.full(20, 30.0 * US))
    one_less = marked_run(store, {"pulse": own[:19]}, kind="pulse", interval_ns=1000 * US)
    assert "20 pulses for 19 samples" in refusal(store, apart, Marked("D0", one_less))
    single = line(tmp_path / "s.sr", pulses[:1] + 700 * US, np.full(1, 30.0 * US))
    assert "1 pulse for 19 samples" in refusal(store, single, Marked("D0", one_less))
    one_sample = marked_run(store, {"pulse": own[:1]}, kind="pulse", interval_ns=1000 * US)
    assert "a single pulse is not enough" in refusal(store, single, Marked("D0", one_sample))
    changes = tmp_path / "c.csv"
    changes.write_text("Time [s],D0\n0,0\n0.001,1\n0.00102,0\n0.003,1\n0.00302,0\n")
    assert "not contain the instrument's sample rate" in refusal(store, changes, Marked("D0", one))
    timed = marked_run(store, {"acquire": own}, kind="pulse")
    assert "no times to compare" in refusal(store, path, Marked("D0", timed))


@pytest.mark.slow
def test_the_command(rtgauge: Run, tmp_path: Path) -> None:
    draw = np.random.default_rng(8)
    acquire, release = samples(draw, 40), samples(draw, 40)
    place = str(tmp_path / "store")
    with Store.open(place) as opened:
        source = marked_run(opened, {"acquire": acquire, "release": release}).id
    path, _ = spans(tmp_path / "m.sr", np.stack((acquire, release), 1).ravel(), draw)
    words = ("import", path, "--mark", "D0", "--store", place)
    assert rtgauge(*words, "--event", "D0").code == 2
    assert "--kernel does not apply to" in rtgauge(*words, "--kernel", "6.1").err
    first = rtgauge(*words, "--of", source, "--json").json()
    assert (first["format"], first["new"], first["of"]) == (
        "rtgauge-imported-marks", True, source,
    )  # fmt: skip
    assert (first["pulses"], first["samples"]) == (80, 80)
    again = rtgauge(*words, "--of", source)
    assert "which is unchanged" in again.err and "80 pulses for 80 samples" in again.err
    run = first["run"]
    assert rtgauge("export", run, tmp_path / "a.rtgauge", "--store", place).code == 0
    assert rtgauge("delete", run, "--yes", "--store", place).code == 0
    assert rtgauge("import", tmp_path / "a.rtgauge", "--store", place).code == 0
    for name in ("a.html", "a.md", "a.json", "a.xml", "a.tap", "a.pdf"):
        assert rtgauge("report", run, "-o", tmp_path / name, "--store", place).code in (0, 3)
    assert "marks: difference" in (tmp_path / "a.md").read_text()
    page = (tmp_path / "a.html").read_text()
    assert (
        "Sampled at" in page and "Error: the largest error that sampling the line can cause" in page
    )
