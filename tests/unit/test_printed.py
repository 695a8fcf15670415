# SPDX-License-Identifier: Apache-2.0
"""What Xenomai's programs printed becomes a run: the printed figures exactly, and percentiles that
are never below those of the samples. The texts are made of known samples, after the formats in
Xenomai's sources (tests/support/xenomai.py)."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

import fuzz_printed
import xenomai
from answers import text as text_of
from conftest import Result
from rtgauge.errors import StoreError, UsageError
from rtgauge.printed import Told, import_printed, is_printed
from rtgauge.report.document.answer import answer_of
from rtgauge.report.document.steps import _observations
from rtgauge.report.results.model import build, validate
from rtgauge.store import Store
from rtgauge.store.made import READER, Subject, earlier_import, find_import, importing

Command = Callable[..., Result]
Int64 = NDArray[np.int64]


def imported(store: Store, path: Path, text: str, told: Told | None = None) -> dict[str, Any]:
    """The results of the run that is made of a text."""
    path.write_bytes(text.encode())
    run = store.get(import_printed(store, path, told or Told()).run)
    document = build([run])
    validate(document)
    found: dict[str, Any] = document["runs"][0]
    return found


def series_of(run: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in run["series"] if one["name"] == name]
    return found  # type: ignore[no-any-return]


def table_of(run: dict[str, Any], name: str) -> list[dict[str, Any]]:
    (table,) = [one for one in run["tables"] if one["name"] == name]
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


def messages(run: dict[str, Any], step: int = 0) -> str:
    return " ".join(event["text"] for event in run["steps"][step]["events"])


def made(seed: int, seconds: int = 20, *, shift: int = 500, rows: int = 1000) -> Int64:
    rng = np.random.default_rng(seed)
    samples = rng.gamma(4, 2000, (seconds, rows)).astype(np.int64) + shift
    samples[3, 7] = 123_456
    return samples


def check_percentiles(series: dict[str, Any], samples: Int64, cell_ns: int) -> None:
    """Each is at the sample of its rank, or above it by less than a cell and a bucket."""
    ordered = np.sort(samples)
    for percent, value in series["percentiles"].items():
        if value is None:
            continue
        true = int(ordered[math.ceil(Fraction(percent) / 100 * len(ordered)) - 1])
        assert true <= value <= true + cell_ns + abs(true) // 64 + 1, (percent, true, value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("context", "method"), [("user", "timerfd"), ("kernel", "timerbench"), ("irq", "timerbench")]
)
@pytest.mark.parametrize("cell_ns", [1000, 100])
@pytest.mark.parametrize("gnuplot", ["", "-", "only"])
def test_the_histogram_of_latency(
    store: Store, tmp_path: Path, context: str, method: str, cell_ns: int, gnuplot: str
) -> None:
    samples = made(1)
    text = xenomai.latency(
        samples, context=context, cell_ns=cell_ns, size=2000, gnuplot=gnuplot, priority=97
    )
    told = Told() if gnuplot else Told(cell_ns=cell_ns)
    run = imported(store, tmp_path / "latency.txt", text, told)
    series = series_of(run, "latency")
    mean = int(sum(int(row.sum() / len(row)) for row in samples) / len(samples))
    assert (series["count"], series["min"], series["max"], series["mean"]) == (
        20_000, int(samples.min()), int(samples.max()), mean,
    )  # fmt: skip
    check_percentiles(series, samples.ravel(), cell_ns)
    assert (series["context"], series["labels"], series["interval_ns"]) == (
        context, {"method": method}, 1_000_000,
    )  # fmt: skip
    scheduled = ("fifo", 97) if context != "irq" else ("", 0)
    assert (series["policy"], series["priority"]) == scheduled
    assert table_of(run, "printed") == [
        {"min": series["min"], "mean": mean, "max": series["max"], "samples": 20_000,
         "overruns": 0, "mode switches": 0}
    ]  # fmt: skip
    assert ("1 µs" if cell_ns == 1000 else "100 ns") in messages(run).replace("\u202f", " ")
    assert run["environment"]["realtime"] == "cobalt"
    parameters = run["steps"][0]["parameters"]
    assert parameters["cell"] == ("1us" if cell_ns == 1000 else "100ns")
    assert parameters.get("xenomai") == ("3.3.1" if gnuplot else None)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_percentiles_are_never_too_low(store: Store, tmp_path: Path, seed: int) -> None:
    """With early expiries, values beyond the histogram, and a second that did not end."""
    rng = np.random.default_rng(seed)
    shift = int(rng.integers(-9000, 3000))
    samples = made(seed, int(rng.integers(4, 12)), shift=shift, rows=500)
    samples[1, 2] = int(rng.integers(5_000, 3_000_000))
    rest = rng.gamma(4, 2000, int(rng.integers(0, 499))).astype(np.int64).tolist()
    if seed % 4 == 0:
        samples = np.minimum(samples, -1000)
        rest = []
    size = int(rng.choice([20, 300, 5000]))
    text = xenomai.latency(samples, period_us=2000, unfinished=rest, size=size)
    series = series_of(imported(store, tmp_path / "latency.txt", text), "latency")
    everything = np.sort(np.array([*samples.ravel().tolist(), *rest], np.int64))
    assert series["count"] == len(everything)
    assert series["max"] > everything[-1] - 1000
    assert series["min"] < everything[0] + 1000
    if not rest:
        assert (series["min"], series["max"]) == (everything[0], everything[-1])
    for percent, value in series["percentiles"].items():
        if value is not None:
            rank = math.ceil(Fraction(percent) / 100 * len(everything))
            assert value >= everything[rank - 1], (percent, value)


@pytest.mark.slow
def test_a_single_sample_and_equal_samples(store: Store, tmp_path: Path) -> None:
    for number, samples in enumerate(([[-2500]], [[7000] * 10], [[1], [999]])):
        array = np.array(samples, np.int64)
        text = xenomai.latency(array, period_us=1_000_000)
        series = series_of(imported(store, tmp_path / f"{number}.txt", text), "latency")
        assert (series["count"], series["min"], series["max"]) == (
            array.size, array.min(), array.max(),
        )  # fmt: skip


def test_what_is_not_exact_is_said(store: Store, tmp_path: Path) -> None:
    samples = made(2, shift=-3000)
    beyond = int((np.abs(samples) >= 99_000).sum())
    text = xenomai.latency(samples, size=100, unfinished=[90_500_000 // 1000])
    told = messages(imported(store, tmp_path / "a.txt", text)).replace("\u202f", " ")
    assert "cells of 1 µs: percentiles and both ends of their intervals may be up to 1 µs" in told
    assert f"ends at 100 µs. All samples of its last cell ({beyond}) count as the maximum" in told
    assert "early expiries as late ones: samples below" in told
    text = xenomai.latency(made(2), size=400, unfinished=[200_500])
    run = imported(store, tmp_path / "b.txt", text)
    assert "The histogram has 1 sample outside of the printed" in messages(run)
    assert series_of(run, "latency")["max"] == 200_999


@pytest.mark.parametrize("clock", ["473364:12:05", "-01:-59:-10", "999999999:00:00"])
def test_a_clock_that_was_set_is_not_the_duration(store: Store, tmp_path: Path, clock: str) -> None:
    """latency prints the time of the wall clock. A board without a battery gets it from NTP."""
    for number, text in enumerate(
        (
            xenomai.latency(made(1)),
            xenomai.latency(made(1), histograms=False),
            xenomai.latency(made(1), gnuplot="only"),
        )
    ):
        set_clock = text.replace("00:00:20/00:00:20", f"{clock}/00:00:20")
        set_clock = set_clock.replace("# 00:00:20 (", f"# {clock} (")
        assert set_clock != text
        run = imported(store, tmp_path / f"{number}.txt", set_clock)
        assert (run["state"], run["steps"][0]["duration_s"]) == ("complete", 20)
    text = xenomai.latency(made(1), histograms=False, quiet=True)
    text = text.replace("00:00:20/00:00:20", f"{clock}/00:00:20")
    assert 0 <= imported(store, tmp_path / "a.txt", text)["steps"][0]["duration_s"] < 2**31


def test_overruns_and_mode_switches_are_counted(store: Store, tmp_path: Path) -> None:
    text = xenomai.latency(made(3), overruns=5, switches=2)
    run = imported(store, tmp_path / "a.txt", text)
    series = series_of(run, "latency")
    assert (series["missed"], series["corrected"]) == (5, None)
    said = {point.text: point.note for point in _observations(run, run["steps"][0])}
    assert said["5 periods were missed."].endswith("Their delays are unknown.")
    both = {**run, "series": [series, {**series, "missed": 1, "corrected": {}}]}
    said_of_both = {one.text: one.note for one in _observations(both, run["steps"][0])}
    assert said_of_both["6 periods were missed."].endswith("contain the delays of some.")
    assert not any("histograms only" in text for text in said)
    (row,) = table_of(run, "printed")
    assert (row["overruns"], row["mode switches"]) == (5, 2)
    # those of the warm-up count, too
    later = text.replace("|     2|", "|     0|", 1)
    for name, printed, result in (("c", text, "inconclusive"), ("d", later, "fail")):
        run = imported(store, tmp_path / f"{name}.txt", printed)
        (test,) = [one for one in run["tests"] if one["rule"] == "no-maximum-by-mode-switch"]
        assert test["result"] == result
        assert "may have caused it: 2" in test["evidence"]
        assert ("warm-up" in test["evidence"]) == (result == "inconclusive")
        assert "latency -b" in test["remedy"]
    kernel = imported(store, tmp_path / "b.txt", xenomai.latency(made(3), context="kernel"))
    assert not kernel["tests"]


def test_without_a_histogram(store: Store, tmp_path: Path) -> None:
    """The maximum of each second is a series. The other figures are a table."""
    samples = made(4)
    text = xenomai.latency(samples, histograms=False)
    run = imported(store, tmp_path / "a.txt", text)
    (series,) = run["series"]
    assert (series["name"], series["count"], series["max"], series["interval_ns"]) == (
        "second-max", 20, 123_456, 0,
    )  # fmt: skip
    check_percentiles(series, samples.max(axis=1), 0)
    (row,) = table_of(run, "printed")
    assert (row["min"], row["max"], row["samples"]) == (samples.min(), 123_456, "")
    skipped = [one for one in run["tests"] if one["result"] == "skipped"]
    assert ["latency -h" in one["remedy"] for one in skipped] == [True]
    quiet = imported(
        store, tmp_path / "b.txt", xenomai.latency(samples, histograms=False, quiet=True)
    )
    assert not quiet["series"]
    assert table_of(quiet, "printed") == [row]
    for each in (run, quiet):
        answer = answer_of(each)
        assert text_of(answer.worst) == "Observed maximum 123 us (load unknown), as printed"
        assert answer.measured == "timer, unknown"


@pytest.mark.parametrize("higher", [False, True])
def test_the_maximum_of_a_run_may_be_one_without_a_histogram(
    store: Store, tmp_path: Path, higher: bool
) -> None:
    """The output of two calls of latency, of which only the first printed its histogram."""
    drawn, bare = np.full((3, 1000), 20_000), np.full((3, 1000), 5_000)
    bare[1, 7] = 90_000 if higher else 12_000
    first = xenomai.latency(drawn, context="kernel")
    text = first + xenomai.latency(bare, histograms=False, quiet=True)
    run = imported(store, tmp_path / "a.txt", text)
    assert [one["name"] for one in run["series"]].count("latency") == 1
    answer = answer_of(run)
    worst = text_of(answer.worst)
    assert worst.startswith(f"Observed maximum {'90.0' if higher else '20.0'} us")
    assert worst.endswith("as printed") == higher
    late = f"too late for cycles of {'250' if higher else '50'} us and shorter"
    assert late in answer.title.replace("\u202f", " ").replace("µs", "us")
    assert bool(text_of(answer.cause)) is not higher  # of the maximum of the series


def test_overruns_are_told_without_a_histogram(store: Store, tmp_path: Path) -> None:
    """There is no series with missed periods, so only the table had them."""
    head = "== Sampling period: 100 us\n== Test mode: periodic user-mode task\n"
    row = "RT{}|      1.612|      1.915|     97.580|{:8}|     0|"
    for name, overruns in (("some", 500), ("none", 0)):
        text = head + row.format("D", overruns) + "      1.612|     99.580\n"
        text += row.format("S", overruns) + "    00:00:02/00:00:02\n"
        (test, _) = imported(store, tmp_path / f"{name}.txt", text)["tests"]
        assert test["rule"] == "distribution"
        assert ("latency counted 500 overruns" in test["evidence"]) == bool(overruns)


def test_an_output_that_was_cut_is_interrupted(store: Store, tmp_path: Path) -> None:
    samples = made(5)
    whole = xenomai.latency(samples, histograms=False).splitlines()
    text = "\n".join(whole[:12]) + "\nRTD|      1.5"
    run = imported(store, tmp_path / "a.txt", text)
    (series,) = run["series"]
    assert run["state"] == run["steps"][0]["state"] == "interrupted"
    assert "without its line RTS" in run["steps"][0]["reason"]
    assert series["count"] == 6
    (row,) = table_of(run, "printed")
    assert (row["min"], row["max"]) == (samples[:6].min(), samples[:6].max())


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["\r\n", "\r", "mixed"])
def test_line_ends_and_what_is_around(store: Store, tmp_path: Path, ends: str) -> None:
    """As a serial console logs it: other line ends, time stamps, kernel messages, colours."""
    samples = made(6)
    lines = xenomai.latency(samples).splitlines()
    lines = [
        f"[{number:5d}.01] {line}" if "|" in line else line for number, line in enumerate(lines)
    ]
    lines.insert(9, "\x1b[31m[ 9.12] usb 1-1: new device\x1b[0m")
    choice = ["\r\n", "\n", "\r\r\n"] if ends == "mixed" else [ends]
    text = "".join(line + choice[n % len(choice)] for n, line in enumerate(lines))
    series = series_of(imported(store, tmp_path / "a.txt", text), "latency")
    assert (series["count"], series["max"]) == (20_000, 123_456)


@pytest.mark.parametrize("version", ["2.4.2", "v2.6.4", "2"])
def test_the_formats_of_older_versions(store: Store, tmp_path: Path, version: str) -> None:
    """Before 2.5 there was no column msw. With Xenomai 2 the task waits by another call."""
    text = xenomai.latency(made(7), histograms=True).replace("|---msw", "")
    lines = []
    for line in text.splitlines():
        parts = line.split("|")
        if line.startswith(("RTD|", "RTS|")):
            del parts[5]
        lines.append("|".join(parts))
    run = imported(store, tmp_path / "a.txt", "\n".join([*lines, ""]), Told(version=version))
    assert series_of(run, "latency")["labels"] == {"method": "rt_task_wait_period"}
    assert table_of(run, "printed")[0]["mode switches"] == ""
    assert not run["tests"]


@pytest.mark.slow
@pytest.mark.parametrize("stamps", [False, True])
def test_clocks_and_switches(store: Store, tmp_path: Path, stamps: bool) -> None:
    """A log of xeno-test: several programs, one after the other. The last second of switchtest is
    not a whole one."""
    text = (
        xenomai.clocktest([(0, 12.3, 0.125, 0, 0.0), (1, -3.0, -0.25, 4, 1.5)])
        + "\n"
        + xenomai.switchtest([[31_000, 30_000], [32_000, 29_000], [5, 4]])
        + xenomai.latency(made(8))
        + xenomai.latency(made(9), context="irq")
    )
    if stamps:
        text = "".join(f"[{n:5d}.01] {line}\n" for n, line in enumerate(text.splitlines()))
    run = imported(store, tmp_path / "xeno-test.log", text, Told(load="xeno-test"))
    assert [step["measurement"] for step in run["steps"]] == [
        "clocktest", "switchtest", "timer", "timer",
    ]  # fmt: skip
    assert {step["load"]["name"] for step in run["steps"]} == {"xeno-test"}
    assert table_of(run, "clocks") == [
        {"cpu": 0, "offset": 12_300, "drift": 125, "warps": 0, "largest warp": 0},
        {"cpu": 1, "offset": -3_000, "drift": -250, "warps": 4, "largest warp": 1_500},
    ]
    assert table_of(run, "switches") == [
        {"cpu": "0", "seconds": 2, "min": 31_000, "max": 32_000, "total": 63_005},
        {"cpu": "1", "seconds": 2, "min": 29_000, "max": 30_000, "total": 59_004},
    ]
    assert run["tests"][0]["evidence"] == "warps: 4, on 1 of 2 CPUs"
    results = {test["rule"]: test["result"] for test in run["tests"]}
    assert results == {
        "no-clock-warps": "fail", "registers-kept": "pass", "no-maximum-by-mode-switch": "pass",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("errors", "told", "result"),
    [
        ("Error after context switch from task 3(rtk0-3) to task 4(rtup0-4),", True, "fail"),
        ("No context switches during one second, aborting.", True, "fail"),
        ("", False, "inconclusive"),
        ("", True, "pass"),
    ],
)
def test_errors_of_switchtest(
    store: Store, tmp_path: Path, errors: str, told: bool, result: str
) -> None:
    text = xenomai.switchtest([[3], [4]], errors=errors, told=told)
    run = imported(store, tmp_path / "a.txt", text)
    (test,) = run["tests"]
    assert test["result"] == result
    assert errors[:40] in test["evidence"]


def test_switchtest_on_a_board_without_a_floating_point_unit(store: Store, tmp_path: Path) -> None:
    head = (
        "== Testing FPU check routines...\n"
        "== Hardware FPU not available on your board or not enabled in Linux kernel\n"
        "== configuration: skipping FPU switches tests.\n"
    )
    text = head + xenomai.switchtest([[3], [4]], told=False)
    run = imported(store, tmp_path / "a.txt", text)
    assert [one["result"] for one in run["tests"]] == ["pass"]


@pytest.mark.slow
def test_a_switchtest_of_many_cpus(store: Store, tmp_path: Path) -> None:
    """It prints the names of its threads in one line. The time for a line is in proportion to its
    length, also of one that begins with many spaces."""
    names = " ".join(f"rtuo_ufpp_ufps{cpu}-{task}" for cpu in range(64) for task in range(23))
    text = xenomai.switchtest([[3], [4]]).replace("== Threads:", f"== Threads: {names}")
    text += f"{' ' * 4000}x\n" * 100
    run = imported(store, tmp_path / "a.txt", text)
    assert [one["result"] for one in run["tests"]] == ["pass"]


def test_a_switchtest_that_did_not_start_is_inconclusive(store: Store, tmp_path: Path) -> None:
    """It prints its counts also if it could not create its tasks."""
    run = imported(store, tmp_path / "a.txt", xenomai.switchtest([[7, 0]]))
    (test,) = run["tests"]
    assert test["result"] == "inconclusive"
    assert test["evidence"] == "7 switches: switchtest did not switch on every CPU"
    assert table_of(run, "switches")[0]["total"] == 7


GPIOIRQBENCH = """Freescale MPC5200 (IceCube)
CPU: | MPC5200 v1.0, Core v1.1 at 396 MHz |
OS: | Linux 2.6.24.2 and Xenomai 2.4.2 |
| Min | Max |
Xenomai user space task (-t0) | 13us | 119us |
Xenomai kernel space task (-t1) | 7us | 82us |
Xenomai interrupt handler (-t2) | 2us | 47us |
Plain Linux user space task | 31us | 5749us |
cyclictest -t1 -p80 -n -i1000 | 11us | 89us |
"""


def test_the_published_table_of_gpioirqbench(store: Store, tmp_path: Path) -> None:
    """The table of AN2008_03, as its page has it."""
    run = imported(store, tmp_path / "icecube.txt", GPIOIRQBENCH)
    rows = table_of(run, "responses")
    assert [(row["context"], row["min"], row["mean"], row["max"]) for row in rows] == [
        ("user", 13_000, "", 119_000),
        ("kernel", 7_000, "", 82_000),
        ("irq", 2_000, "", 47_000),
        ("user", 31_000, "", 5_749_000),
        ("", 11_000, "", 89_000),
    ]
    (step,) = run["steps"]
    assert step["parameters"]["system"].startswith("Freescale MPC5200 (IceCube), MPC5200 v1.0")
    assert not run["series"]


@pytest.mark.slow
def test_the_output_of_irqbench(store: Store, tmp_path: Path) -> None:
    """Its lines before the last one have the mean of a second."""
    text = (
        "CPU frequency: 2400.000 MHz\nPort type:     serial\n\nWaiting on target...\n"
        "Warming up...\n9990: 3.100 / 4.200 / 19.300 us\n19980: 3.000 / 4.300 / 21.400 us\n---\n"
        "19990: 3.000 / 4.250 / 21.400 us\n"
    )
    run = imported(store, tmp_path / "a.txt", text)
    whole = {"what": "irqbench", "context": "", "min": 3_000, "mean": 4_250, "max": 21_400,
             "events": 19_990}  # fmt: skip
    assert table_of(run, "responses") == [whole]
    assert run["state"] == "complete"
    stamped = "".join(f"[   12.40] {line}\n" for line in text.splitlines())
    assert table_of(imported(store, tmp_path / "b.txt", stamped), "responses") == [whole]
    cut = text[: text.index("---")]
    for number, (log, before) in enumerate(((cut, []), (text + cut, [whole]))):
        run = imported(store, tmp_path / f"cut-{number}.txt", log)
        assert table_of(run, "responses") == [*before, {**whole, "mean": "", "events": 19_980}]
        assert run["steps"][0]["state"] == "interrupted"
    run = imported(store, tmp_path / "twice.txt", cut + text)
    assert [step["state"] for step in run["steps"]] == ["interrupted", "complete"]
    found = [row for table in run["tables"] for row in table["rows"]]
    assert found == [["irqbench", "", 3_000, "", 21_400, 19_980], [*whole.values()]]


@pytest.mark.slow
def test_the_same_file_is_imported_once(
    rtgauge: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "latency.txt"
    path.write_text(xenomai.latency(made(1)))
    words = ("import", str(path), "--name", "panda", "--kernel", "3.4.6", "--load", "xeno-test")
    first = rtgauge(*words, "--json").json()
    assert (first["format"], first["new"], first["results"]) == (
        "rtgauge-imported-results", True, ["timer"],
    )  # fmt: skip
    assert "already in the store" in rtgauge(*words).err
    assert rtgauge("import", str(path), "--cell", "1us", "--json").json()["new"]
    shown = rtgauge("show", first["run"]).out
    assert "printed:panda" in shown
    assert "rtgauge run" not in shown  # no command repeats a file
    monkeypatch.setattr("rtgauge.store.made.READER", READER + 1)
    said = rtgauge(*words).err
    assert f"as run {first['run'][:13]}. Remove it: rtgauge delete {first['run'][:13]}" in said
    assert "an earlier version" not in rtgauge(*words).err
    monkeypatch.setattr("rtgauge.store.made.READER", READER + 2)
    told = rtgauge(*words, "--json").json()
    assert told["new"] and told["earlier"] not in (None, told["run"])


def test_an_import_that_was_killed_is_made_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counted as made, and its part of the file as the whole."""
    path = tmp_path / "latency.txt"
    path.write_text(xenomai.latency(made(1)))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("rtgauge.store.folder.RunFolder.seal", Mock(side_effect=KeyboardInterrupt))
        import_printed(store, path, Told())
    (killed,) = store.runs()
    found = import_printed(store, path, Told())
    assert found.new and found.run != killed.id
    assert earlier_import(store, found.run) is None
    monkeypatch.setattr("rtgauge.printed.run.importing", Mock(side_effect=StoreError("", "")))
    assert not import_printed(store, path, Told()).new  # also in a store that is read-only


@pytest.mark.slow
def test_beside_a_run_of_rtgauge(rtgauge: Command, tmp_path: Path) -> None:
    """Compared where both were measured alike; else the difference is named."""
    path = tmp_path / "latency.txt"
    path.write_text(xenomai.latency(made(1), priority=80))
    ran = ("run", "timer", "--target", "fake", "--for", "2s", "--json")
    own = rtgauge(*ran, "--dither", "no", "--load", "idle").json()["runs"][0]["id"]
    rtgauge("import", str(path), "--load", "idle", "--label", "old")
    document = rtgauge("compare", "old", own, "--json").json()
    apart = [one["reason"] for one in document["apart"] if one["name"] == "latency"]
    assert apart, document
    assert apart[0].startswith("method timerfd against clock_nanosleep")
    path.write_text(xenomai.latency(made(2), priority=80))
    rtgauge("import", str(path), "--load", "idle", "--label", "new")
    both = rtgauge("compare", "old", "new", "--json").json()
    assert {one["name"] for one in both["quantities"]} == {"latency", "second-max"}
    path.write_text(xenomai.latency(made(2), histograms=False, quiet=True, priority=80))
    rtgauge("import", str(path), "--load", "idle", "--label", "bare")
    bare = rtgauge("compare", "old", "bare", "--json").json()
    reasons = [one["reason"] for one in bare["absent"] if one["name"] == "latency"]
    assert reasons == ["skipped: user: latency printed no histogram, so there are no percentiles"]


@pytest.mark.slow
def test_versions_of_xenomai_are_compared(rtgauge: Command, tmp_path: Path) -> None:
    """The version belongs to the system, not to how it was measured."""
    for number, version in enumerate(("3.1.2", "3.2.4")):
        path = tmp_path / f"{version}.txt"
        text = xenomai.latency(made(number), gnuplot="-")
        assert text.count("3.3.1") == 1
        path.write_text(text.replace("3.3.1", version))
        rtgauge("import", str(path), "--load", "idle", "--label", version)
    document = rtgauge("compare", "3.1.2", "3.2.4", "--json").json()
    assert {one["name"] for one in document["quantities"]} == {"latency", "second-max"}
    assert document["apart"] == []
    versions = [one for one in document["differences"] if one["name"] == "Xenomai version"]
    assert [one["values"] for one in versions] == [["3.1.2", "3.2.4"]]


def emulated(store: Store, target: str) -> str:
    """A run on an emulated board in counted mode, as it is stored: that of the fake, renamed."""
    (row,) = store.runs()
    run = store.get(row.id)
    document = dict(run.document)
    document["target"] = target
    document["environment"]["lab"] = {"board": "x86_64-rt", "mode": "counted", "meaning": "made up"}
    (run.path / "run.json").write_text(json.dumps(document))
    return run.id


@pytest.mark.slow
def test_results_of_an_emulated_board_are_compared_with_its_runs(
    rtgauge: Command, tmp_path: Path
) -> None:
    """Its time is not that of a machine. Without --target the comparison gives the command."""
    path = tmp_path / "latency.txt"
    path.write_text(xenomai.latency(made(1), priority=95))
    ran = ("run", "timer", "--target", "fake", "--method", "timerfd", "--for", "2s", "--json")
    rtgauge(*ran, "--dither", "no", "--load", "idle")
    with Store.open() as store:
        own = emulated(store, "lab:x86_64-rt")
    words = ("import", str(path), "--load", "idle", "--label")
    rtgauge(*words, "bare")
    (apart,) = rtgauge("compare", own, "bare", "--json").json()["apart"]
    assert apart["reason"] == "clock instructions as time against time"
    remedy = "If latency.txt is from that board, import it again with --target lab:x86_64-rt"
    remedy += ",mode=counted"
    assert apart["remedy"] == remedy
    assert remedy in " ".join(rtgauge("compare", own, "bare").out.split())
    target = ("--target", "lab:x86_64-rt")
    assert rtgauge(*words, "board", *target, "--json").json()["new"]
    assert not rtgauge(*words, "board", *target, "--json").json()["new"]
    document = rtgauge("compare", own, "board", "--json").json()
    assert document["apart"] == []
    assert {one["name"] for one in document["quantities"]} == {"latency"}
    assert [one["emulated"] for one in document["sets"]] == [["counted"], ["counted"]]
    for shown in (rtgauge("show", "board").out, rtgauge("compare", own, "board").out):
        # a measurement does not have the options of the program that printed the file
        assert "--program" not in shown and "rtgauge explain" not in shown
    assert rtgauge(*words, "real", "--target", "lab:x86_64-rt,mode=plain", "--json").json()["new"]
    refused = rtgauge("compare", own, "real")
    assert refused.code == 2 and "in the lab's plain mode" in refused.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "local"], "--target local is not an emulated board"),
        (["--target", "lab:nothing"], "nothing"),
        (["--target", "lab:x86_64-rt,mode=odd"], "the lab has no mode 'odd'"),
        (["--target", "lab:x86_64-rt", "--mark", "D0"], "omit --target"),
        (["--threshold", "1.4"], "--threshold does not apply to"),
    ],
)
def test_a_wrong_option_of_an_import(
    rtgauge: Command, tmp_path: Path, words: list[str], said: str
) -> None:
    path = tmp_path / "latency.txt"
    path.write_text(WHOLE)
    done = rtgauge("import", str(path), *words)
    assert done.code == 2
    assert len(done.err.splitlines()) == 2 and said in done.err
    assert rtgauge("runs", "--json").json()["runs"] == []


WHOLE = xenomai.latency(made(1))


def damaged(tag: str, line: str) -> str:
    """The whole output with another line in place of the first one that begins so."""
    old = next(one for one in WHOLE.splitlines() if one.startswith(tag))
    return WHOLE.replace(old, line, 1)


def ending(min_us: str, mean_us: str, max_us: str) -> str:
    return damaged("RTS|", f"RTS| {min_us}| {mean_us}| {max_us}|  0|  0|  00:00:20/00:00:20")


PLOT = xenomai.latency(made(1), gnuplot="only")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (damaged("HSD|    avg", "HSD|    avg|   0 -  2 |  9"), "cell 0 of the histogram"),
        (damaged("HSD|    avg", "HSD|    avg|   0 -  1 | -9"), "is damaged"),
        (damaged("RTD|", "RTD|  1.0|  2.0"), "is damaged"),
        (damaged("RTD|", "RTD|x|x|x|x|x|x|x"), "is damaged"),
        (WHOLE[: WHOLE.index("RTS|")], "its line RTS is missing"),
        (WHOLE[: WHOLE.index("RTT|")], "no figures"),
        (WHOLE.replace("== Test mode", "").replace("RTT|", "RT"), "test mode"),
        (ending("10000.000", "0.000", "-10000.000"), "contradict"),
        (ending("1.000", "2.000", "9999999999.000"), "longer than"),
        (damaged("== Sampling", "== Sampling period: 0 us"), "a period of"),
        (xenomai.latency(made(1), cell_ns=100, size=2000), "--cell"),
        (xenomai.latency(made(1, 5), cell_ns=10_000), "--cell"),
        (PLOT.rsplit("\n", 3)[0] + "\n", "gnuplot"),
        (PLOT[:500], "gnuplot"),
        ("== Threads: a b\n", "no result"),
        (GPIOIRQBENCH.replace("5749us", "5.749ms"), "is damaged: Plain Linux user space task"),
        (GPIOIRQBENCH.replace("5749us", "5,749us"), "is damaged: Plain Linux user space task"),
        ("RTS|" + "9" * 5000 + "\n", "is damaged"),
        (xenomai.latency(made(1), overruns=10**18 - 1), "longer than 18 years"),
    ],
)
def test_damage_is_refused_in_one_line(
    rtgauge: Command, tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    done = rtgauge("import", str(path))
    assert done.code == 2
    assert len(done.err.splitlines()) == 2, done.err
    assert words in done.err
    assert rtgauge("runs", "--json").json()["runs"] == []


def test_other_files_are_not_taken(tmp_path: Path, store: Store) -> None:
    assert not is_printed("time,A,B\n0,0,1\n1,1,0\n")
    assert not is_printed("")
    path = tmp_path / "a"
    for data in (b"", b"RTS|\0", b"hello\n"):
        path.write_bytes(data)
        with pytest.raises(UsageError):
            import_printed(store, path, Told())
    with pytest.raises(UsageError, match="Is a directory"):
        import_printed(store, tmp_path, Told())


def test_a_refusal_is_printable_whatever_the_line_contains(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(WHOLE.replace("RTS|", "RTS|\ta\ue000b|", 1))
    with pytest.raises(UsageError, match=r"is damaged: RTS. a b") as refused:
        import_printed(store, path, Told())
    assert str(refused.value).isprintable()


def test_what_the_user_says(store: Store, tmp_path: Path) -> None:
    tested = Subject("night", "Panda", "3.4.6", "preempt_rt")
    run = imported(store, tmp_path / "a.txt", WHOLE, Told(tested, name="panda"))
    environment = run["environment"]
    assert (run["label"], run["target"]) == ("night", "printed:panda")
    assert (environment["kernel"]["release"], environment["cpu"]["model"]) == ("3.4.6", "Panda")
    assert environment["realtime"] == "preempt_rt"


@pytest.mark.slow
def test_a_part_of_the_fuzzing(tmp_path: Path) -> None:
    tally = fuzz_printed.fuzz(20, 0, 150, tmp_path, 4)
    assert not tally.how, tally.how
    assert tally.thorough > 10
    assert len(tally.outcomes) > 5


# --- recorded on a Cobalt kernel -----------------------------------------------------------------

RECORDED = Path(__file__).parent.parent / "data"


@pytest.mark.slow
def test_a_recorded_session(store: Store, tmp_path: Path) -> None:
    """Xenomai 3.3.1 on an emulated board, in counted mode, as its console printed it."""
    text = (RECORDED / "xenomai-3.3.1.txt").read_text().replace("\n", "\r\n")
    run = imported(store, tmp_path / "a.txt", text)
    assert [step["measurement"] for step in run["steps"]] == [
        "timer", "timer", "timer", "clocktest", "switchtest",
    ]  # fmt: skip
    found = [
        (one["context"], one["count"], one["min"], one["mean"], one["max"], one["priority"])
        for one in run["series"]
        if one["name"] == "latency"
    ]
    assert found == [
        ("user", 3999, -21, -13, 24, 99),
        ("kernel", 3999, -519, -504, -497, 98),
        ("user", 3999, 1978, 1985, 2024, 99),
    ]
    assert [one["count"] for one in run["series"] if one["name"] == "second-max"] == [3, 3, 3]
    assert run["steps"][2]["parameters"]["xenomai"] == "3.3.1"
    assert table_of(run, "clocks")[0]["warps"] == 0
    assert table_of(run, "switches")[0]["total"] == 94_854
    assert {test["result"] for test in run["tests"]} == {"pass"}


def test_a_recorded_histogram_with_an_unfinished_second(store: Store, tmp_path: Path) -> None:
    """Its maximum is 0.748 us as printed, but a sample of the unfinished second took 1.1 us."""
    text = (RECORDED / "latency-t2.txt").read_text()
    run = imported(store, tmp_path / "a.txt", text, Told(cell_ns=100))
    series = series_of(run, "latency")
    assert (series["count"], series["min"], series["max"]) == (39_988, 595, 1199)
    assert table_of(run, "printed")[0]["max"] == 748
    assert "Min and mean are as printed" in messages(run)
    assert "The histogram has 1 sample outside of the printed" in messages(run)
    assert "Its outermost cells give max" in messages(run)
    with pytest.raises(UsageError) as refused:
        imported(store, tmp_path / "b.txt", text)
    assert "--cell" in refused.value.remedy


def test_a_recorded_file_for_gnuplot(store: Store, tmp_path: Path) -> None:
    run = imported(store, tmp_path / "a.plot", (RECORDED / "latency-t1.plot").read_text())
    series = series_of(run, "latency")
    assert (series["context"], series["count"], series["max"]) == ("kernel", 3999, -497)
    assert run["steps"][0]["duration_s"] == 3.999


@pytest.mark.slow
def test_two_imports_of_a_file_at_once_make_one_run(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both looked for a run of the file before either had made one."""
    path = tmp_path / "a.txt"
    path.write_text(xenomai.latency(made(1, 4)))
    meeting = threading.Barrier(2)

    def find(*given: Any) -> Any:
        found = find_import(*given)
        with contextlib.suppress(threading.BrokenBarrierError):
            meeting.wait(0.2)
        return found

    monkeypatch.setattr("rtgauge.printed.run.find_import", find)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(import_printed, store, path, Told()) for _ in range(2)]
        results = [one.result(60) for one in both]
    assert sorted(one.new for one in results) == [False, True]
    assert len({one.run for one in results}) == len(store.runs()) == 1
    assert [one.name for one in store.path.iterdir()] == [results[0].run]


def test_an_import_that_was_killed_leaves_no_lock(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = "0" * 64
    left = store.path / f".{digest}.import"
    left.mkdir(parents=True)
    with importing(store, digest):
        store.runs()
        assert left.exists()
    assert not left.exists()
    left.mkdir()
    store.runs()
    assert not left.exists()
    with importing(store, digest):
        monkeypatch.setattr("rtgauge.store.made._WAIT_S", 0.0)
        with pytest.raises(StoreError, match="another process is importing"):
            importing(store, digest).__enter__()


def test_a_store_without_locks_is_not_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS locks no folder: the call fails, while no other process imports the file."""

    def flock(*_: object) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr("fcntl.flock", flock)
    monkeypatch.setattr("rtgauge.store.made._WAIT_S", 0.0)
    with pytest.raises(StoreError, match=r"cannot lock .*: Bad file descriptor"):
        importing(store, "0" * 64).__enter__()
