# SPDX-License-Identifier: Apache-2.0
"""Captures become runs: what was put into them is found, in whatever format they come."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import captures
from captures import RATE, analogue, regular, samples, session
from conftest import Run
from rtgauge import report
from rtgauge import text as numbers
from rtgauge.capture import Wanted, convert, import_capture, is_capture, recording
from rtgauge.capture import session as sessions
from rtgauge.capture.edges import Edges
from rtgauge.capture.files import open_recording
from rtgauge.capture.pairing import Answers
from rtgauge.capture.recording import Levels
from rtgauge.capture.run import Found, _verdict
from rtgauge.errors import RtgaugeError, StoreError, UsageError
from rtgauge.report.results.model import build, validate
from rtgauge.store import Store
from rtgauge.store.made import READER

needs_sigrok = pytest.mark.skipif(
    shutil.which("sigrok-cli") is None, reason="sigrok-cli is not installed"
)
LINES = Wanted(event="D0", answer="D1")
COLUMNS = Wanted(event="A", answer="B")


def imported(store: Store, path: Path, wanted: Wanted = LINES) -> dict[str, Any]:
    """The results of the run that is made of a capture."""
    run = store.get(import_capture(store, path, wanted).run)
    document = build([run])
    validate(document)
    found: dict[str, Any] = document["runs"][0]
    return found


def delays_of(store: Store, path: Path, wanted: Wanted = LINES) -> dict[int, int]:
    """The number of each answered event, and its delay in ns."""
    (step,) = store.get(import_capture(store, path, wanted).run).steps
    found: dict[int, int] = {}
    for chunk in step.series[0].chunks():
        found |= zip(chunk.index.tolist(), chunk.value.tolist(), strict=True)
    return found


def delays_in(store: Store, folder: Path, text: str, wanted: Wanted = COLUMNS) -> dict[int, int]:
    """The same of a table."""
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return delays_of(store, path, wanted)


def counted(raised: int, answered: int, **more: int) -> dict[str, int]:
    """The table of answers, with zeros where ``more`` has no other number."""
    zeros = dict.fromkeys(("unanswered", "late", "double", "lost", "ambiguous"), 0)
    return {"raised": raised, "answered": answered, **zeros, **more}


def answers(run: dict[str, Any]) -> dict[str, int]:
    (table,) = [one for one in run["tables"] if one["name"] == "answers"]
    names = [column["name"] for column in table["columns"]]
    return dict(zip(names, table["rows"][0], strict=True))


# --- what is in a capture ------------------------------------------------------------------------

SLOW = {500 + 1000 * k: 5000 + 30 for k in range(10)}


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10 000 events, 6 ms apart; one answer in 1000 comes 5 ms later."""
    folder = tmp_path_factory.mktemp("night")
    return session(folder / "night.sr", regular(10_000, 6000, SLOW))


def check_night(store: Store, path: Path, wanted: Wanted = LINES) -> None:
    delays = delays_of(store, path, wanted)
    assert len(delays) == 10_000
    assert {k: v for k, v in delays.items() if v > 1_000_000} == {
        k: v * 1000 for k, v in SLOW.items()
    }
    assert all(delays[k] == 1000 * (30 + (k * 7) % 17) for k in delays if k not in SLOW)
    run = imported(store, path, wanted)
    (series,) = run["series"]
    assert (series["name"], series["count"], series["missed"]) == ("response", 10_000, 0)
    assert (series["max"], series["min"]) == (5_030_000, 30_000)
    assert series["interval_ns"] == 6_000_000
    assert answers(run) == counted(10_000, 10_000)
    assert [one["result"] for one in run["tests"]] == ["pass"]


@pytest.mark.slow
def test_each_of_ten_injected_delays_is_found(store: Store, night: Path) -> None:
    check_night(store, night)


@pytest.mark.slow
@needs_sigrok
def test_the_same_from_a_vcd_file(store: Store, night: Path, tmp_path: Path) -> None:
    path = tmp_path / "night.capture"  # the name says nothing
    subprocess.run(["sigrok-cli", "-i", night, "-O", "vcd", "-o", path], check=True, timeout=300)
    check_night(store, path)


@pytest.mark.slow
@needs_sigrok
def test_the_same_from_sigroks_csv(store: Store, tmp_path: Path) -> None:
    made = session(tmp_path / "a.sr", regular(40, 3000, {7: 900}))
    path = tmp_path / "a.csv"
    subprocess.run(["sigrok-cli", "-i", made, "-O", "csv", "-o", path], check=True, timeout=300)
    assert delays_of(store, path) == delays_of(store, made)


@pytest.mark.slow
def test_unanswered_late_and_double(store: Store, tmp_path: Path) -> None:
    period, number = 1000, 12
    events = [12_100 + k * period for k in range(number)]
    found = [at + 40 for at in events]
    found[4] = events[5] + 10  # late: answers event 4 after event 5 was raised
    del found[8:10]  # events 8 and 9 are not answered: the line stays
    found += [events[2] + 300, events[2] + 320]  # one edge too many, and back
    path = session(tmp_path / "a.sr", samples(events, sorted(found), 40 * period))
    run = imported(store, path)
    assert answers(run) == counted(12, 10, unanswered=2, late=1, double=2)
    (series,) = run["series"]
    assert series["count"] + series["missed"] == 12
    assert series["count"] == 10
    delays = delays_of(store, path)
    assert set(delays) == set(range(12)) - {8, 9}
    assert delays[4] == 1_010_000
    assert {delays[k] for k in delays if k != 4} == {40_000}
    (verdict,) = run["tests"]
    assert (verdict["rule"], verdict["result"]) == ("every-event-answered", "fail")
    assert "2 of 12 events" in verdict["evidence"]
    assert "numbers 8, 9" in verdict["evidence"]
    assert "1 more only after the next one" in verdict["evidence"]


@pytest.mark.slow
@pytest.mark.parametrize("edge", ["both", "rising"])
@pytest.mark.parametrize("form", ["sr", "csv", "vcd"])
@pytest.mark.parametrize("late_ms", [13, 23])
def test_late_answers_are_those_of_their_events(
    store: Store, tmp_path: Path, late_ms: int, form: str, edge: str
) -> None:
    """A constant delay beyond the interval of 10 ms, whatever the capture's form."""
    if form == "vcd" and shutil.which("sigrok-cli") is None:
        pytest.skip("sigrok-cli is not installed")
    ms, number = 1000, 60
    step = 10 * ms if edge == "both" else 5 * ms
    events = [30 * ms + k * step for k in range(number)]
    found = [at + late_ms * ms for at in events[:: 1 if edge == "both" else 2]]
    lines = samples(events, found, events[-1] + 200 * ms)
    path = tmp_path / f"late.{form}"
    changes = [0, *(np.flatnonzero(np.diff(lines)) + 1).tolist(), len(lines) - 1]
    if form == "sr":
        session(path, lines)
    elif form == "csv":
        rows = [
            f"{at * 1e-6:.6f},{lines[at] & 1},{lines[at] >> 1}" for at in range(0, len(lines), 100)
        ]
        path.write_text("\n".join(["Time[s],D0,D1", *rows]) + "\n")
    else:
        head = ["$timescale 1 us $end", "$var wire 1 ! D0 $end", "$var wire 1 \" D1 $end",
                "$enddefinitions $end"]  # fmt: skip
        path.write_text("\n".join([
            *head, *(f'#{at}\n{lines[at] & 1}!\n{lines[at] >> 1}"' for at in changes),
        ]) + "\n")  # fmt: skip
    wanted = replace(LINES, edge=edge)
    delays = delays_of(store, path, wanted)
    assert len(delays) == (number if edge == "both" else number // 2)
    assert set(delays.values()) == {late_ms * 1_000_000}
    told = answers(imported(store, path, wanted))
    assert (told["unanswered"], told["ambiguous"], told["double"]) == (0, 0, 0)
    assert told["late"] >= len(delays) - 1


@pytest.mark.slow
def test_a_capture_in_mid_run_proves_no_budget(store: Store, tmp_path: Path) -> None:
    """The same edges are quick answers, or late ones to the events before."""
    lines = regular(60, 10_000)[20_000:-5_000]
    path = session(tmp_path / "a.sr", lines)
    run = imported(store, path)
    told = answers(run)
    assert told["ambiguous"] == told["answered"] > 50
    (verdict,) = run["tests"]
    assert (verdict["rule"], verdict["result"]) == ("every-event-answered", "inconclusive")
    assert "--longest" in verdict["remedy"]
    run = imported(store, path, replace(LINES, longest_ns=10_000_000))
    assert answers(run)["ambiguous"] == 0
    assert run["tests"][0]["result"] == "pass"


@pytest.mark.parametrize(
    ("missing", "late", "ambiguous", "both", "result"),
    [
        (0, 0, 0, 0, "pass"),
        (0, 0, 3, 0, "inconclusive"),
        (0, 2, 0, 0, "fail"),
        # late answers may be quick ones to other events, if they are ambiguous
        (0, 3, 3, 3, "inconclusive"),
        (0, 3, 3, 2, "fail"),
        (0, 3, 5, 0, "fail"),
        (1, 0, 3, 0, "fail"),
        (1, 3, 3, 3, "fail"),
    ],
)
def test_a_failure_is_certain(
    missing: int, late: int, ambiguous: int, both: int, result: str
) -> None:
    events = Edges(np.arange(9.0), np.ones(9, np.bool_))
    delay = np.full(9, 0.5)
    delay[:missing] = np.nan
    answers = Answers(delay, late, 0, 0, ambiguous, ambiguous_late=both)
    found = Found(events, answers, None, delay, 1, np.zeros(9, np.int64), 0, 1.0)
    said, evidence, remedy = _verdict(found)
    assert said == result
    assert ("either before the next one or after it" in evidence) == (said == "inconclusive")
    assert bool(remedy) == (said != "pass")


def test_a_single_event_has_no_next() -> None:
    events = Edges(np.arange(1.0), np.ones(1, np.bool_))
    answers = Answers(np.full(1, 0.5), 0, 0, 0, 0)
    found = Found(events, answers, None, np.full(1, 0.5), 1, np.zeros(1, np.int64), 0, 1.0)
    assert _verdict(found)[:2] == ("pass", "1 event, answered")


@pytest.mark.parametrize("missing", [{0, 1}, {10, 11}, set(range(12)), {3}])
def test_count_and_missed_are_the_events(store: Store, tmp_path: Path, missing: set[int]) -> None:
    """Also where the first or the last ones are unanswered, or all."""
    events = [100 + k * 1000 for k in range(12)]
    # An answer's line that pulses: up at the event, down a little later.
    pulses = [at + d for k, at in enumerate(events) if k not in missing for d in (40, 60)]
    path = session(tmp_path / "a.sr", samples(events, pulses, 13_200))
    wanted = Wanted(event="D0", answer="D1", answer_edge="rising")
    run = imported(store, path, wanted)
    series = [one for one in run["series"] if one["name"] == "response"]
    assert sum(one["count"] for one in series) == 12 - len(missing)
    assert answers(run)["unanswered"] == len(missing)
    if series:
        assert series[0]["count"] + series[0]["missed"] == 12


def test_an_event_whose_answer_the_capture_does_not_reach_is_left_out(
    store: Store, tmp_path: Path
) -> None:
    events = [100 + k * 1000 for k in range(5)]
    lines = samples(events, [at + 40 for at in events[:-1]], events[-1] + 30)
    run = imported(store, session(tmp_path / "a.sr", lines))
    assert answers(run)["raised"] == 4
    assert any("left out" in event["text"] for event in run["steps"][0]["events"])


def test_events_that_were_open_when_the_capture_ended(store: Store, tmp_path: Path) -> None:
    """Their answers had fewer than ten intervals to come."""
    events = [12_000 + 1000 * k for k in range(100)]
    answers_at = [at + 50 + k % 20 for k, at in enumerate(events[:96])]
    lines = samples(events, answers_at, events[-1] + 300)
    (verdict,) = imported(store, session(tmp_path / "a.sr", lines))["tests"]
    assert verdict["result"] == "fail"
    assert "not answered within 10 intervals or before the capture ended" in verdict["evidence"]


@pytest.mark.slow
def test_an_edge_after_the_longest_delay_answers_nothing(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path / "a.sr", regular(20, 1000, {7: 400}))
    run = imported(store, path, replace(LINES, longest_ns=300_000))
    told = answers(run)
    assert (told["answered"], told["unanswered"], told["double"]) == (19, 1, 1)
    assert run["series"][0]["max"] < 300_000
    assert "1 of 20 events was not answered within 300us (number 7)" in run["tests"][0]["evidence"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 8])
def test_pulses_without_width_are_two_events_at_the_same_time(
    store: Store, tmp_path: Path, number: int
) -> None:
    """As of a logger whose clock is coarser than the pulses: half of the spaces are 0."""
    path = tmp_path / "pulses.csv"
    rows = ["0.000,0,0"]
    for k in range(number):
        at = 1 + k
        rows += [f"{at}.000,1,0", f"{at}.000,0,0", f"{at}.020,0,1", f"{at}.030,0,0"]
    path.write_text("\n".join(["Time [s],D0,D1", *rows, f"{number + 20}.000,0,0"]) + "\n")
    wanted = [replace(LINES, interval_ns=10**9), LINES]
    for one in wanted[: 2 if number > 1 else 1]:
        assert list(delays_of(store, path, one).values()) == [20_000_000, 30_000_000] * number
    if number == 1:
        with pytest.raises(UsageError, match="all events have the same time") as error:
            import_capture(store, path, LINES)
        assert "--interval" in error.value.remedy


@pytest.mark.parametrize(("length", "answered"), [(130, None), (1200, 0), (130, 1)])
def test_a_capture_that_ends_before_any_answer_is_refused(
    store: Store, tmp_path: Path, length: int, answered: int | None
) -> None:
    events = [100]
    path = session(tmp_path / "a.sr", samples(events, [120] if answered else [], length))
    wanted = replace(LINES, interval_ns=1_000_000)
    if answered is None:
        with pytest.raises(UsageError, match="ends before the answers") as error:
            import_capture(store, path, wanted)
        assert "record until" in error.value.remedy
    else:
        assert answers(imported(store, path, wanted))["answered"] == answered


@pytest.mark.slow
@pytest.mark.parametrize("idle", [0, 1])
def test_both_edges_of_short_pulses(store: Store, tmp_path: Path, idle: int) -> None:
    """1 ms and 29 ms from edge to edge. One answer takes 12 ms."""
    events = [200_000 + 30_000 * (k // 2) + 1000 * (k % 2) for k in range(200)]
    answers_at = [at + (12_000 if k == 101 else 200) for k, at in enumerate(events)]
    lines = samples(events, answers_at, events[-1] + 200_000, idle)
    run = imported(store, session(tmp_path / "a.sr", lines))
    assert answers(run) == counted(200, 200)
    assert run["series"][0]["max"] == 12_000_000


@pytest.mark.slow
def test_one_kind_of_edge_alone(store: Store, tmp_path: Path) -> None:
    """The board toggles its line at each rising edge."""
    events = [100 + k * 500 for k in range(20)]
    toggles = [at + 33 for at in events[::2]]
    path = session(tmp_path / "a.sr", samples(events, toggles, 20_000))
    both = imported(store, path)
    assert answers(both)["unanswered"] > 0
    rising = imported(store, path, Wanted(event="D0", answer="D1", edge="rising"))
    assert answers(rising) == counted(10, 10)
    assert rising["series"][0]["max"] == 33_000


def test_an_inverted_answer(store: Store, tmp_path: Path) -> None:
    events = [100 + k * 500 for k in range(20)]
    lines = samples(events, [at + 21 for at in events], 10_500) ^ np.uint8(2)
    path = session(tmp_path / "a.sr", lines)
    wanted = Wanted(event="D0", answer="D1", answer_edge="inverted")
    assert set(delays_of(store, path, wanted).values()) == {21_000}


def test_a_value_beyond_32_bits_stays_whole(store: Store, tmp_path: Path) -> None:
    metadata = (
        "[global]\n[device 1]\ncapturefile=logic-1\nsamplerate=100 Hz\nprobe1=D0\nprobe2=D1\n"
        "unitsize=1\n"
    )
    lines = samples([10, 1010, 2010], [310, 1012, 2013], 3000)
    path = session(tmp_path / "a.sr", lines, metadata=metadata)
    assert imported(store, path)["series"][0]["max"] == 3_000_000_000


def test_events_off_the_grid_keep_their_times(store: Store, tmp_path: Path) -> None:
    """A companion series says when each event really was."""
    events = [100, 1300, 2050, 3600, 4100]
    path = session(tmp_path / "a.sr", samples(events, [at + 5 for at in events], 6000))
    (step,) = store.get(import_capture(store, path, LINES).run).steps
    response, offset = step.series
    assert offset.info.companion == 0
    due = np.concatenate([chunk.due_ns for chunk in response.chunks()])
    off = np.concatenate([chunk.value for chunk in offset.chunks()])
    assert (due + off).tolist() == [(at - 100) * 1000 for at in events]


# --- analogue lines ------------------------------------------------------------------------------


def ramps(edges: list[float], length: int, low: float, high: float) -> np.ndarray:
    """A line that crosses its middle at these positions, within two samples each time."""
    wave = np.full(length, low)
    for k, at in enumerate(edges):
        x = np.clip((np.arange(length) - at) / 2 + 0.5, 0, 1)
        wave += (high - low) * x * (-1) ** k
    return wave


def test_between_samples_and_with_noise(store: Store, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    events = [1000.25 + 500 * k for k in range(30)]
    delays = random.uniform(20, 60, 30).round(3)
    first = ramps(events, 17_000, 0.0, 3.3)
    second = ramps([at + d for at, d in zip(events, delays, strict=True)], 17_000, 0.2, 5.0)
    second += random.normal(0, 0.02, len(second))
    path = analogue(tmp_path / "a.sr", first, second)
    found = delays_of(store, path, Wanted(event="A0", answer="A1"))
    assert len(found) == 30
    assert [found[k] for k in range(30)] == pytest.approx((delays * 1000).tolist(), abs=30)
    environment = store.get(import_capture(store, path, Wanted(event="A0", answer="A1")).run)
    threshold = environment.document["environment"]["capture"]["threshold"]
    assert [float(one.split()[0]) for one in threshold.split(",")] == pytest.approx(
        [1.65, 2.6], abs=0.1
    )
    asked = Wanted(event="A0", answer="A1", threshold=1.0, hysteresis=0.1)
    again = delays_of(store, path, asked)
    # At 1 V of 3.3 V and of 0.2 to 5 V: a rising edge is answered sooner, a falling one later.
    assert all((again[k] < found[k]) == (k % 2 == 0) for k in range(30))


@pytest.mark.slow
@pytest.mark.parametrize("edges", ["analogue", "digital", "both"])
def test_fast_edges_are_within_the_error(store: Store, tmp_path: Path, edges: str) -> None:
    """Steps between two samples, inverted answers, and a threshold away from the middle."""
    part = np.random.default_rng(8).uniform(0.001, 0.999, (2, 200))
    at = np.array([[1000.0], [1040.0]]) + 100 * np.arange(200) + part
    high = (1.0 if edges == "digital" else 3.3, 3.3 if edges == "analogue" else 1.0)
    first, second = (
        np.where(np.searchsorted(one, np.arange(22_000), side="right") % 2 == up, volt, 0.0)
        for one, up, volt in zip(at, (1, 0), high, strict=True)
    )
    path = analogue(tmp_path / "a.sr", first, second)
    wanted = Wanted(event="A0", answer="A1", threshold=0.4, answer_edge="inverted")
    found = delays_of(store, path, wanted)
    truth = (at[1] - at[0]) * 1000
    wrong = np.abs(np.array([found[k] for k in range(200)]) - truth).max()
    capture = imported(store, path, wanted)["environment"]["capture"]
    error = {"analogue": 2000, "digital": 1000, "both": 1500}[edges]
    assert error / 2 < wrong <= error + 1
    assert capture["sampling_error"] == f"±{numbers.plain(numbers.time(error))}"
    assert ("threshold" in capture) == (edges != "digital")


def test_a_threshold_close_to_a_state(store: Store, tmp_path: Path) -> None:
    """The hysteresis does not reach beyond the state."""
    events = [1000 + 500 * k for k in range(30)]
    first, second = (ramps([at + d for at in events], 17_000, 0.0, 5.0) for d in (0, 40))
    path = analogue(tmp_path / "a.sr", first, second)
    found = delays_of(store, path, Wanted(event="A0", answer="A1", threshold=0.4))
    assert list(found.values()) == pytest.approx([40_000] * 30, abs=20)


@pytest.mark.parametrize("form", ["session", "table"])
def test_the_threshold_is_not_for_a_digital_line(store: Store, tmp_path: Path, form: str) -> None:
    """Instruments for mixed signals record both kinds side by side."""
    events = [1000 + 500 * k for k in range(30)]
    first = np.zeros(17_000)
    for at in events:
        first[at:] = 1 - first[at:]
    second = ramps([at + 40 for at in events], 17_000, 0.0, 5.0)
    if form == "session":
        path = analogue(tmp_path / "a.sr", first, second)
    else:
        path = tmp_path / "a.csv"
        rows: list[tuple[float, ...]] = [
            (k * 1e-6, a, b) for k, (a, b) in enumerate(zip(first, second, strict=True))
        ]
        path.write_text("Time (s),A0,A1\n" + table(rows, "{:.9g}"))
    for threshold in (None, 2.5):
        wanted = Wanted(event="A0", answer="A1", threshold=threshold)
        found = delays_of(store, path, wanted)
        assert list(found.values()) == pytest.approx([40_500] * 30, abs=20)


# --- what oscilloscopes write --------------------------------------------------------------------


def table(rows: list[tuple[float, ...]], form: str = "{:.6e}", separator: str = ",") -> str:
    return "".join(separator.join(form.format(v) for v in row) + "\n" for row in rows)


def scope_rows(period: int = 50, delay: int = 7, number: int = 8) -> np.ndarray:
    lines = samples(
        [20 + k * period for k in range(number)],
        [20 + delay + k * period for k in range(number)],
        20 + number * period,
    )
    return np.stack([(lines & 1) * 3.3, (lines >> 1) * 3.3 + 0.01], axis=1)


def changes(events: Iterable[tuple[float, float]]) -> str:
    """A row for each change of two lines. Events have a time in s, and a delay in ns."""
    rows = []
    for k, (at, delay) in enumerate(events):
        level = (k + 1) % 2
        rows += [f"{at:.9f},{level},{1 - level}\n", f"{at + delay / 1e9:.9f},{level},{level}\n"]
    return "".join(rows)


def timed_rows(step: float, origin: float = -1e-3) -> list[tuple[float, ...]]:
    return [(origin + k * step, *row) for k, row in enumerate(scope_rows().tolist())]


TEKTRONIX = (
    "Model,MSO44\nFirmware Version,1.2\n\nWaveform Type,ANALOG\nPoint Format,Y\n"
    "Horizontal Units,s\nSample Interval,1.0E-6\nRecord Length,420\n\n\nTIME,CH1,CH2\n"
)
SIGLENT = (
    "Record Length,Analog:420\nSample Interval,Analog:1.0e-6\nVertical Units,CH1:V,CH2:V\n"
    "Source,CH1,CH2\nSecond,Volt,Volt\n"
)
RIGOL = "X,CH1,CH2,Start,Increment,\nSequence,Volt,Volt,-1.000000e-03,1.000000e-06\n"


@pytest.mark.study(16, 55)
@pytest.mark.parametrize(
    ("text", "event", "answer"),
    [
        (TEKTRONIX + table(timed_rows(1e-6)), "CH1", "CH2"),
        (SIGLENT + table(timed_rows(1e-6)), "CH1", "CH2"),
        (
            RIGOL
            + "".join(f"{k},{a:.2e},{b:.2e},,\n" for k, (a, b) in enumerate(scope_rows().tolist())),
            "CH1",
            "CH2",
        ),
        ("x-axis,1,2\nsecond,Volt,Volt\n" + table(timed_rows(1e-6)), "1", "2"),
        ("in s,CH1 in V,CH2 in V\n" + table(timed_rows(1e-6)), "CH1 in V", "CH2 in V"),
        (
            "Zeit (s);Kanal A;Kanal B\n" + table(timed_rows(1e-6), separator=";").replace(".", ","),
            "Kanal A",
            "Kanal B",
        ),
        ("\ufeffTime(s), D0 ,D1\r\n" + table(timed_rows(1e-6)).replace("\n", "\r\n"), "D0", "d1"),
    ],
    ids=["tektronix", "siglent", "rigol", "keysight", "rohde", "comma", "plain"],
)
def test_oscilloscopes(store: Store, tmp_path: Path, text: str, event: str, answer: str) -> None:
    found = delays_in(store, tmp_path, text, Wanted(event=event, answer=answer))
    assert list(found) == list(range(8))
    assert list(found.values()) == pytest.approx([7000] * 8, abs=20)


@pytest.mark.parametrize(
    ("head", "parts"),
    [
        ("Time (ms),A,B\n", 1e3),
        ("Time [us],A,B\n", 1e6),
        ("Timestamp (µs),A,B\n", 1e6),
        ("in ms,A,B\n", 1e3),
        ("time_ns,A,B\n", 1e9),
        ("Timestamp ms,A,B\n", 1e3),
        ("Timestamp_ms,A,B\n", 1e3),
        ("Timestamp/us,A,B\n", 1e6),
        ("time.us,A,B\n", 1e6),
        ('"Time: ms",A,B\n', 1e3),
        ("X ms,A,B\n", 1e3),
        ("Milliseconds,A,B\n", 1e3),
        ("Time,A,B\n(ms),(V),(V)\n\n", 1e3),
        ("Time,A,B\n(us),(V),(mV)\n\n", 1e6),
        ("Source,A,B\nMicrosecond,Volt,Volt\n", 1e6),
    ],
)
def test_times_in_other_units_than_seconds(
    store: Store, tmp_path: Path, head: str, parts: float
) -> None:
    rows: list[tuple[float, ...]] = [(at * parts, a, b) for at, a, b in timed_rows(1e-6)]
    found = delays_in(store, tmp_path, head + table(rows, "{:.9g}"))
    assert list(found.values()) == pytest.approx([7000] * 8, abs=20)


@pytest.mark.parametrize(
    ("head", "digits"), [("time", 9), ("timestamp_ns", 0), ("Timestamp (us)", 3)]
)
def test_times_since_1970_keep_their_digits(
    store: Store, tmp_path: Path, head: str, digits: int
) -> None:
    """A floating-point number of such a time is rounded by up to 120 ns."""
    chance = random.Random(1)
    delays = [7000 + chance.randrange(100) for _ in range(100)]
    now, rows, power = 1_764_484_800_123_456_789, [f"{head},A,B"], 10**digits
    for number, delay in enumerate(delays):
        now += 1_000_000 + chance.randrange(-200_000, 200_000)
        level = number % 2
        for time, a, b in ((now, 1 - level, level), (now + delay, 1 - level, 1 - level)):
            text = f"{time // power}.{time % power:0{digits}}" if digits else str(time)
            rows.append(f"{text},{a},{b}")
    found = delays_in(store, tmp_path, "\n".join([*rows, ""]))
    # the first row is the level at the beginning
    assert list(found.values()) == pytest.approx(delays[1:], abs=1)


@pytest.mark.parametrize("text", ["x", "1e999999999", "nan", ""])
def test_a_long_time_that_is_no_number(store: Store, tmp_path: Path, text: str) -> None:
    rows = [f"1764484800.{at:06},{at % 2},{at // 2 % 2}" for at in range(40)]
    rows[20] = f"{text},0,1"
    with pytest.raises(UsageError):
        delays_in(store, tmp_path, "\n".join(["time,A,B", *rows, ""]))


@pytest.mark.parametrize("head", ["Time (s),A (V),B (mV)\n", "in s,A in V,B in mV\n"])
def test_voltages_in_millivolts(store: Store, tmp_path: Path, head: str) -> None:
    path = tmp_path / "scope.csv"
    rows: list[tuple[float, ...]] = [(at, a, 1e3 * b) for at, a, b in timed_rows(1e-6)]
    path.write_text(head + table(rows))
    names = head.strip().split(",")
    wanted = Wanted(event=names[1], answer=names[2], threshold=1.0)
    assert len(delays_of(store, path, wanted)) == 8
    made = import_capture(store, path, replace(wanted, threshold=None))
    document = store.get(made.run).document
    said = document["environment"]["capture"]["threshold"].split(",")
    assert [float(one.split()[0]) for one in said] == pytest.approx([1.65, 1.66], abs=0.05)


@pytest.mark.slow
@needs_sigrok
@pytest.mark.parametrize("label", ["units", "channel", "off"])
@pytest.mark.parametrize("rate", ["20 kHz", "1 MHz", "24 MHz", "2 GHz"])
def test_sigroks_csv_with_times(store: Store, tmp_path: Path, rate: str, label: str) -> None:
    """Its times are whole numbers of ms, µs, ns or ps, rounded down for one sample; without
    duplicates only the rows remain that changed."""
    events = [3000 + 2000 * k for k in range(8)]
    delays = [30 + 3 * k for k in range(8)]
    lines = samples(events, [at + d for at, d in zip(events, delays, strict=True)], 20_000)
    made = session(
        tmp_path / "a.sr",
        lines,
        metadata="[global]\nsigrok version=0.5.2\n\n[device 1]\ncapturefile=logic-1\n"
        f"total probes=2\nsamplerate={rate}\nprobe1=D0\nprobe2=D1\nunitsize=1\n",
    )
    per_ns = 1e9 / float(sessions.parse_rate(rate))
    for options in ("time=true", "time=true:dedup=true", "trigger=true"):
        path = tmp_path / "a.csv"
        written = subprocess.run(
            ["sigrok-cli", "-i", made, "-O", f"csv:label={label}:{options}"],
            check=True,
            capture_output=True,
            timeout=60,
        )
        path.write_bytes(written.stdout)
        if label == "off" and "trigger" in options:
            continue  # nothing in the file tells the trigger from a time
        found = delays_of(store, path, Wanted(event="D0", answer="D1"))
        assert list(found.values()) == pytest.approx([d * per_ns for d in delays], abs=2), options


def test_a_row_for_each_change(store: Store, tmp_path: Path) -> None:
    """Digital channels as Saleae's Logic exports them."""
    path = tmp_path / "digital.csv"
    rows = changes(((k + 1) * 0.01, 40_000 + 1000 * k) for k in range(20))
    path.write_text(f"Time [s],Channel 0,Channel 1\n0.000000000,0,0\n{rows}0.300000000,0,0\n")
    wanted = Wanted(event="Channel 0", answer="Channel 1")
    for rate, error in ((None, "unknown"), ("24 MHz", "±41.7 ns")):
        given = replace(wanted, samplerate=sessions.parse_rate(rate) if rate else None)
        found = delays_of(store, path, given)
        assert found == {k: 40_000 + 1000 * k for k in range(20)}
        run = imported(store, path, given)
        capture = run["environment"]["capture"]
        assert capture["samplerate"] == (rate or "unknown")
        assert capture["sampling_error"] == error
        said = " ".join(event["text"] for event in run["steps"][0]["events"])
        assert ("--samplerate" in said) == (rate is None)
        assert ("Sampled at 24 MHz" in said.replace(numbers.GAP, " ")) == (rate is not None)


@pytest.mark.parametrize("head", ["Time [s],A,B\n0.000000000,0,0\n", "time,A,B\n"])
@pytest.mark.parametrize("jitter_s", [0.0, 3e-3])
def test_a_row_for_each_change_of_regular_events(
    store: Store, tmp_path: Path, head: str, jitter_s: float
) -> None:
    """Such rows follow a grid in the long run. That does not make them samples."""
    delays = [40_000 + 50 * (k % 100) for k in range(200)]
    delays[50] = 5_000_000
    begins = (0.03 * (k + 1) + jitter_s * (k * 7 % 10) / 10 for k in range(200))
    text = head + changes(zip(begins, delays, strict=True))
    found = delays_in(store, tmp_path, text)
    # without an earlier row, the first change is not seen as one
    first = 0 if "0.000000000" in head else 1
    assert list(found.values()) == pytest.approx(delays[first:], abs=1)
    rate = sessions.parse_rate("1GHz")
    assert delays_in(store, tmp_path, text, replace(COLUMNS, samplerate=rate)) == found


@pytest.mark.slow
@pytest.mark.parametrize("asked", [None, 0.5])
def test_segments_of_samples(store: Store, tmp_path: Path, asked: float | None) -> None:
    """20 segments of 1000 samples, 100 ns apart, with slow edges and noise."""
    draw = np.random.default_rng(20)
    rows: list[tuple[float, ...]] = []
    delays = []
    for k in range(20):
        at = np.arange(1000)
        one, two = 300 + draw.uniform(), 500 + draw.uniform(0, 100)
        delays.append((two - one) * 100)
        lines = [3.3 * np.clip((at - middle) / 20 + 0.5, 0, 1) for middle in (one, two)]
        if k % 2:
            lines = [3.3 - line for line in lines]
        noisy = [line + draw.normal(0, 0.02, 1000) for line in lines]
        rows += zip((0.03 * k + at * 1e-7).tolist(), *(one.tolist() for one in noisy), strict=True)
    path = tmp_path / "segments.csv"
    path.write_text("x-axis,1,2\nsecond,Volt,Volt\n" + table(rows, "{:.10g}"))
    wanted = Wanted(event="1", answer="2", hysteresis=asked, interval_ns=30_000_000)
    found = delays_of(store, path, wanted)
    assert list(found.values()) == pytest.approx(delays, abs=100)
    run = imported(store, path, wanted)
    assert answers(run)["double"] == 0
    capture = run["environment"]["capture"]
    assert (capture["samplerate"], capture["sampling_error"]) == ("10 MHz", "±200 ns")
    assert capture["threshold"]


def test_times_that_are_coarser_than_the_rows_are_refused(store: Store, tmp_path: Path) -> None:
    """Times in steps of 10 µs of samples 1 µs apart, as of few printed digits."""
    text = "Time (s),A,B\n" + table(timed_rows(1e-6), "{:.5f}")
    with pytest.raises(UsageError, match="rows have the same time as the row before") as error:
        delays_in(store, tmp_path, text)
    assert "--samplerate" in error.value.remedy
    rate = sessions.parse_rate("1MHz")
    found = delays_in(store, tmp_path, text, replace(COLUMNS, samplerate=rate))
    assert list(found.values()) == pytest.approx([7000] * 8, abs=20)


def test_rows_for_changes_that_lie_nearly_evenly_are_not_samples(
    store: Store, tmp_path: Path
) -> None:
    """Answers a quarter of a period after the events, with jitter."""
    delays = np.random.default_rng(1).uniform(400_000, 600_000, 40).round().tolist()
    rows = changes((1e-3 * (k + 1), delay) for k, delay in enumerate(delays))
    found = delays_in(store, tmp_path, f"Time [s],A,B\n0.000000000,0,0\n{rows}")
    assert list(found.values()) == pytest.approx(delays[: len(found)], abs=1)
    assert len(found) >= 39


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "says"),
    [("unknown", "load unknown"), ("doload", "under load doload"), ("idle", "idle")],
)
def test_the_load_is_what_somebody_says(store: Store, tmp_path: Path, load: str, says: str) -> None:
    path = session(tmp_path / "a.sr", regular(20, 1000))
    made = import_capture(store, path, replace(LINES, load=load))
    run = store.get(made.run)
    assert run.steps[0].document["load"] == load
    assert Wanted().load == "unknown"
    report.write([run], tmp_path / "x.html")
    assert says in (tmp_path / "x.html").read_text()


def test_one_channel_does_not_answer_itself(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path / "a.sr", regular(20, 1000))
    with pytest.raises(UsageError, match="the same channel, 'D0'"):
        import_capture(store, path, Wanted(event="D0", answer="d0"))


def test_columns_without_time_need_a_rate(store: Store, tmp_path: Path) -> None:
    text = table([tuple(row) for row in scope_rows().tolist()], "{:.2f}")
    wanted = Wanted(event="1", answer="2")
    with pytest.raises(UsageError, match="neither times nor a sample rate") as error:
        delays_in(store, tmp_path, text, wanted)
    assert "--samplerate" in error.value.remedy
    wanted = replace(wanted, samplerate=sessions.parse_rate("2MHz"))
    assert set(delays_in(store, tmp_path, text, wanted).values()) == {3500}


@pytest.mark.parametrize(
    ("head", "us"),
    [
        ("Sample Interval,2.0E-6", 2), ("Sample Interval (us),2", 2), ("sample period (µs):,2", 2),
        ("Sample Interval [ms],0.002", 2), ("Sampling Period in ns,2000", 2),
        ("# sample interval (us): 2", 2), ("Sample Interval,us,2", 2), ("Sample Interval,2,us", 2),
        ("Sample Interval (microseconds),2", 2), ("Sample Interval (s),2 us", 2),
        ("Sample Interval,Points\n2us,10", 2), ("Increment (us),Start\n2,0", 2),
        ("t0 = -1e-3, tInc = 2e-06", 2), ("Sample Rate,500000", 2), ("Sample Rate (kHz),500", 2),
        ("Sampling Frequency [MHz]: 0.5", 2), ("Sample Rate,0.5,MSa/s", 2),
        ("Sample Interval (ms),2", 2000), ("Sample Interval (points),2e-6", 2),
    ],
)  # fmt: skip
def test_the_unit_of_a_stated_interval_or_rate(
    store: Store, tmp_path: Path, head: str, us: int
) -> None:
    """In a file without times, the delays are as many intervals."""
    rows = table([tuple(row) for row in scope_rows().tolist()], "{:.2f}")
    found = delays_in(store, tmp_path, f"{head}\nA,B\n{rows}")
    assert set(found.values()) == {7000 * us}


@pytest.mark.parametrize(
    ("head", "instrument"),
    [("Model,MSO44", "MSO44"), ("Model Number,SDS1104X-E", "SDS1104X-E"),
     ("#Device Name: Discovery2", "Discovery2")],
)  # fmt: skip
def test_the_instrument_of_a_table(tmp_path: Path, head: str, instrument: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{head}\n" + "Time (s),A,B\n" + table(timed_rows(1e-6)))
    with open_recording(path) as found:
        assert found.instrument == instrument


# --- files from anybody --------------------------------------------------------------------------


def test_again(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = session(tmp_path / "a.sr", regular(20, 1000))
    first = import_capture(store, path, LINES)
    assert first.new
    other = shutil.copy(path, tmp_path / "copy.sr")
    again = import_capture(store, Path(other), LINES)
    assert (again.run, again.new, again.events) == (first.run, False, first.events)
    assert import_capture(store, path, Wanted(event="D1", answer="D0")).new
    assert len(store.runs()) == 2
    # a reader that may find other samples in it
    monkeypatch.setattr("rtgauge.store.made.READER", READER + 1)
    assert import_capture(store, path, LINES).new
    monkeypatch.setattr("rtgauge.capture.run.importing", Mock(side_effect=StoreError("", "")))
    assert not import_capture(store, path, LINES).new  # also in a store that is read-only


def ini(
    unit: int, bits: Sequence[int], more: str = "samplerate=1 MHz", base: str = "logic-1"
) -> str:
    probes = "".join(f"probe{bit}=N{bit}\n" for bit in bits)
    return f"[device 1]\ncapturefile={base}\n{more}\nunitsize={unit}\n{probes}"


@pytest.mark.slow
def test_sessions_of_any_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of several bytes, in parts in any order, read in pieces of any size."""
    for seed in range(60):
        rng = random.Random(seed)
        monkeypatch.setattr(sessions, "CHUNK", rng.choice((1, 2, 3, 7, 64, 1 << 20)))
        unit, number = rng.choice((1, 2, 3, 8)), rng.choice((1, 2, 3, 60))
        base = rng.choice(("logic-1", "a.b", "logic-1-1"))
        levels = np.random.default_rng(seed).random((number, 8 * unit)) < rng.choice((0.1, 0.5))
        data = np.packbits(levels, axis=1, bitorder="little").tobytes()
        step = unit * rng.randint(1, 40)
        parts = [(f"{base}-{k // step + 1}", data[k : k + step]) for k in range(0, len(data), step)]
        bits = rng.sample(range(1, 8 * unit + 1), 2)
        path = session(
            tmp_path / "a.sr",
            metadata=ini(unit, bits, base=base),
            parts=dict(rng.sample(parts, len(parts))),
        )
        with open_recording(path) as opened:
            assert opened.channels == (f"N{bits[0]}", f"N{bits[1]}")
            lines = opened.lines(*opened.channels, Levels())
        assert lines.length == number
        for bit, edges in zip(bits, (lines.event, lines.answer), strict=True):
            line = levels[:, bit - 1].tolist()
            changes = [(k, line[k]) for k in range(1, number) if line[k] != line[k - 1]]
            assert list(zip(edges.at.tolist(), edges.level.tolist(), strict=True)) == changes, seed


def test_a_session_without_a_rate(store: Store, tmp_path: Path) -> None:
    """sigrok-cli writes 0 Hz if it does not know the rate."""
    path = session(tmp_path / "a.sr", regular(20, 1000), metadata=ini(1, (1, 2), "samplerate=0 Hz"))
    wanted = Wanted(event="N1", answer="N2")
    with pytest.raises(UsageError, match="does not contain a sample rate"):
        import_capture(store, path, wanted)
    run = imported(store, path, replace(wanted, samplerate=sessions.parse_rate("2MHz")))
    assert run["series"][0]["min"] == 15_000


def test_the_rate_of_the_user_replaces_that_of_a_session(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path / "a.sr", regular(20, 1000))
    run = imported(store, path, replace(LINES, samplerate=sessions.parse_rate("2MHz")))
    assert run["series"][0]["min"] == 15_000


@pytest.mark.parametrize("kept", [(), (2,), (1, 3), (1, 999_999_999)])
def test_a_session_without_all_of_its_parts(
    store: Store, tmp_path: Path, kept: tuple[int, ...]
) -> None:
    """The samples after the gap would have wrong times."""
    parts = {f"logic-1-{number}": regular(20, 1000).tobytes() for number in kept}
    path = session(tmp_path / "a.sr", parts=parts)
    with pytest.raises(UsageError, match=r"its part 'logic-1(-1|-2)' is missing"):
        import_capture(store, path, LINES)


def hostile(tmp_path: Path) -> dict[str, bytes]:
    good = session(tmp_path / "good.sr", regular(20, 1000)).read_bytes()

    def made(**more: Any) -> bytes:
        return session(tmp_path / "made.sr", regular(20, 1000), **more).read_bytes()

    listed = bytearray(good)
    end = listed.rfind(b"PK\x05\x06")
    listed[end + 10 : end + 12] = b"\xff\xff"
    encrypted = bytearray(good)  # all parts, in their own heads and in the directory
    for at, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = -1
        while (place := good.find(at, place + 1)) >= 0:
            encrypted[place + flags] |= 1
    packed = io.BytesIO(good)
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("logic-1-2", bytes(1000))
    damaged = bytearray(good)
    damaged[len(good) // 3] ^= 0x55
    return {
        "cut": good[: len(good) // 2],
        "damaged": bytes(damaged),
        "many parts": bytes(listed),
        "encrypted": bytes(encrypted),
        "packed": packed.getvalue(),
        "no session": made(metadata="[global]\n"),
        "newer": made(version=b"9"),
        "not ini": made(metadata="[device 1\nx"),
        "rate": made(metadata="[device 1]\nsamplerate=-1\nprobe1=D0\nprobe2=D1\n"),
        "no rate": made(metadata="[device 1]\ncapturefile=logic-1\nprobe1=D0\nprobe2=D1\n"),
        "unit": made(metadata="[device 1]\nsamplerate=1 MHz\nunitsize=0\nprobe1=D0\nprobe2=D1\n"),
        "bit": made(metadata="[device 1]\nsamplerate=1 MHz\nprobe1=D0\nprobe9=D1\n"),
        "large ini": made(metadata="[device 1]\n" + "a=b\n" * 40_000),
        "no csv": b"time,a,b\nhello,world,!\n",
        "empty": b"",
    }


@pytest.mark.slow
def test_what_is_refused_leaves_nothing(store: Store, tmp_path: Path) -> None:
    for name, content in hostile(tmp_path).items():
        path = tmp_path / "hostile"
        path.write_bytes(content)
        with pytest.raises(RtgaugeError) as error:
            import_capture(store, path, LINES)
        assert error.value.remedy, name
        assert "\n" not in error.value.message, name
        assert store.runs() == [], name


def test_a_session_of_several_instruments(store: Store, tmp_path: Path) -> None:
    """Nothing tells which one has the lines: both may have a D0."""
    lines = "samplerate=1 MHz\nprobe1=D0\nprobe2=D1\n"
    metadata = f"[device 1]\ncapturefile=logic-1\n{lines}[device 2]\ncapturefile=logic-2\n{lines}"
    path = session(tmp_path / "a.sr", regular(20, 1000), metadata=metadata)
    with pytest.raises(UsageError, match="2 instruments"):
        import_capture(store, path, LINES)


def test_a_session_that_unpacks_without_end(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "SAMPLE_LIMIT", 1 << 22)
    path = session(tmp_path / "bomb.sr", bytes(1 << 25))
    assert path.stat().st_size < 1 << 18
    with pytest.raises(UsageError, match="more than 4194304 samples"):
        import_capture(store, path, LINES)


def test_noise_is_refused(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "EDGE_LIMIT", 1000)
    noise = np.random.default_rng(1).integers(0, 4, 10_000).astype(np.uint8)
    with pytest.raises(UsageError, match="more than 1000 edges"):
        import_capture(store, session(tmp_path / "a.sr", noise), LINES)


def test_a_pipe_does_not_hang(store: Store, tmp_path: Path) -> None:
    import os  # noqa: PLC0415

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is not a file"):
        import_capture(store, tmp_path / "pipe", LINES)


def test_vcd_without_sigrok(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.vcd"
    path.write_text("$timescale 1 us $end\n$var wire 1 ! D0 $end\n$enddefinitions $end\n#0 0!\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RtgaugeError, match="needs sigrok-cli") as error:
        import_capture(store, path, LINES)
    assert "apt install sigrok-cli" in error.value.remedy


@pytest.mark.slow
@needs_sigrok
def test_the_sample_rate_of_a_vcd_file_is_how_exact_its_times_are(
    store: Store, tmp_path: Path
) -> None:
    """sigrok notes it in a comment. Other programs do not."""
    made, path = session(tmp_path / "a.sr", regular(20, 1000)), tmp_path / "a.vcd"
    subprocess.run(["sigrok-cli", "-i", made, "-O", "vcd", "-o", path], check=True, timeout=60)
    delays, text = delays_of(store, made), path.read_text()
    assert "Acquisition" in text
    bare = text.replace("Acquisition", "Something")
    for content, rate, error in ((text, None, "±1 us"), (bare, None, "unknown"),
                                 (bare, Fraction(100_000), "±10 us")):  # fmt: skip
        path.write_text(content)
        wanted = replace(LINES, samplerate=rate)
        assert delays_of(store, path, wanted) == delays
        assert imported(store, path, wanted)["environment"]["capture"]["sampling_error"] == error


@needs_sigrok
def test_a_vcd_file_too_long_for_its_time_unit_is_read_more_coarsely(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "CONVERT_SAMPLES", 1_000_000)
    lines = ["$timescale 1 ns $end", "$var wire 1 ! D0 $end", "$var wire 1 \" D1 $end",
             "$enddefinitions $end", "#0", "0!", '0"']  # fmt: skip
    for k in range(10):
        at, level = 1_000_000 * (k + 1), (k + 1) % 2
        lines += [f"#{at}", f"{level}!", f"#{at + 40_000}", f'{level}"']
    path = tmp_path / "a.vcd"
    path.write_text("\n".join([*lines, "#12000000"]) + "\n")
    run = imported(store, path)
    assert answers(run)["answered"] == 10
    assert run["series"][0]["max"] == pytest.approx(40_000, abs=12)
    assert any("in steps of 12 ns" in event["text"] for event in run["steps"][0]["events"])


# --- the command ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command(rtgauge: Run, tmp_path: Path) -> None:
    path = session(tmp_path / "board.sr", regular(20, 1000))
    assert is_capture(path)
    asked = rtgauge("import", path)
    assert asked.code == 2
    assert "The capture has: D0, D1" in asked.err
    wrong = rtgauge("import", path, "--event", "D0", "--answer", "D7")
    assert wrong.code == 2
    assert "D7" in wrong.err
    words = ("import", path, "--event", "D0", "--answer", "D1", "--answered-by", "irq",
             "--label", "night", "--kernel", "6.1-rt", "--realtime", "preempt_rt")  # fmt: skip
    first = rtgauge(*words, "--json").json()
    assert first["new"] is True
    assert (first["events"], first["answered"]) == (20, 20)
    assert "which is unchanged" in rtgauge(*words).err
    run = rtgauge("show", first["run"], "--json").json()["runs"][0]
    assert (run["target"], run["label"]) == ("capture:board", "night")
    assert run["environment"]["realtime"] == "preempt_rt"
    assert run["environment"]["capture"]["samplerate"] == "1 MHz"
    assert run["environment"]["capture"]["sampling_error"] == "±1 us"
    assert run["series"][0]["context"] == "irq"
    for bad in (("--samplerate", "fast"), ("--interval", "0"), ("--threshold", "nan")):
        assert rtgauge("import", path, "--event", "D0", "--answer", "D1", *bad).code == 2
    for name, value in (("--of", "last"), ("--cell", "1us"), ("--target", "lab:x86_64-rt")):
        done = rtgauge("import", path, "--event", "D0", "--answer", "D1", name, value)
        assert done.code == 2 and name in done.err


@pytest.mark.slow
def test_doubtful_pairs_of_pulses_are_reported_with_their_remedy(
    rtgauge: Run, tmp_path: Path
) -> None:
    """Every 10 ms a pulse of 2 ms, answered 25 us later by a pulse of 1 ms."""
    pulses = [(10_000 * k, 10_000 * k + 25) for k in range(1, 31)]
    lines = samples(
        [at for event, _ in pulses for at in (event, event + 2000)],
        [at for _, answer in pulses for at in (answer, answer + 1000)],
        320_000,
    )
    words = ("import", session(tmp_path / "a.sr", lines), "--event", "D0", "--answer", "D1")
    for edges, doubtful in (((), 58), (("--edge", "rising"), 30)):
        for _ in range(2):  # the second import changes nothing, and prints the same
            done = rtgauge(*words, *edges)
            assert f"The answers to {doubtful} of them may belong to other events" in done.err
        remedy = " ".join(rtgauge("show", done.err.split()[1]).out.split())
        assert "import with the edges that count" in remedy
    done = rtgauge(*words, "--edge", "rising", "--answer-edge", "rising")
    assert "30 events, 30 answered" in done.err and "may belong" not in done.err


@pytest.mark.slow
def test_a_run_of_a_capture_goes_out_and_in_like_any_other(rtgauge: Run, tmp_path: Path) -> None:
    path = session(tmp_path / "board.sr", regular(20, 1000, {4: 1010}))
    run = rtgauge("import", path, "--event", "D0", "--answer", "D1", "--json").json()["run"]
    assert rtgauge("export", run, tmp_path / "a.rtgauge").code == 0
    assert rtgauge("delete", run, "--yes").code == 0
    assert rtgauge("import", tmp_path / "a.rtgauge").code == 0
    assert rtgauge("export", run, tmp_path / "b.rtgauge").code == 0
    assert (tmp_path / "a.rtgauge").read_bytes() == (tmp_path / "b.rtgauge").read_bytes()
    for name in ("a.html", "a.md", "a.json", "a.xml", "a.tap"):
        assert rtgauge("report", run, "-o", tmp_path / name).code in (0, 3)


def test_the_helpers_write_what_sigrok_writes(tmp_path: Path) -> None:
    with zipfile.ZipFile(session(tmp_path / "a.sr", regular(3, 1000))) as archive:
        assert archive.namelist() == ["version", "metadata", "logic-1-1"]
    assert captures.RATE == RATE == 1_000_000
