# SPDX-License-Identifier: Apache-2.0
"""Which samples are explained, and how their runs are replayed."""

import contextlib
import os
import shlex
import struct
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Run
from explained import (
    KALLSYMS,
    Program,
    handed_over,
    recorded,
    stored_run,
    stream_of,
    wake_up,
)
from rtgauge.causes import Segment, Task
from rtgauge.causes.advice import system_of
from rtgauge.causes.explain import explain, keep, select
from rtgauge.causes.remedies import remedies
from rtgauge.causes.replay import Clock, Guest, Sample, _Replay, check
from rtgauge.errors import RtgaugeError, StoreError, TargetError, UsageError
from rtgauge.lab import images
from rtgauge.lab.cache import digest_of, write_record
from rtgauge.lab.machine import Answer
from rtgauge.lab.recorder import (
    ANCHOR,
    Piece,
    Recording,
)
from rtgauge.report.results.gather import medians
from rtgauge.store import StoredRun
from rtgauge.store.samples import IMPORTED
from rtgauge.target.lab import LabTarget
from rtgauge.text import GAP


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    """A run of a counted board with two contexts and dithered due times."""
    return stored_run(tmp_path, {"timer": 900})


class Board:
    """A board that carries out orders: it gives the stream of a step, and reads its counter."""

    def __init__(self, recording: Recording, stream: bytes) -> None:
        self._path = Path(recording.plugin.split("record=")[1].split(",")[0])
        self._control = recording._control
        self._stream = stream
        self._rows: list[tuple[int, int, int, int, int, int]] = []
        self.orders: list[list[str]] = []

    def read_counter(self, time: int) -> None:
        self._rows.append((time, 0x7F00, 0, 0, ANCHOR, 0))
        data = recorded(self._rows).tobytes()
        self._path.write_bytes(data)
        struct.pack_into("<Q", self._control, 16, len(data))

    def begin(self, words: list[str]) -> None:
        self.orders.append(words)

    def ended(self, limit_s: float) -> Answer:
        assert limit_s > 0
        began = 1_000 * len(self.orders)
        self.read_counter(began)
        self.read_counter(began + 500)
        data = self._stream if "--step" in self.orders[-1] else b""
        return Answer(0, 0, b"", len(data), data, began + 40, began + 540)


@pytest.mark.slow
def test_a_replay_repeats_the_orders_and_asks_for_the_windows(
    stored: StoredRun, tmp_path: Path
) -> None:
    document = stored.document
    orders = [["run", "/agent", "environment"], *document["orders"]]
    wanted = select(stored, sample=("user", 1))
    with Recording(tmp_path, Path("plugin.so")) as recording:
        told: list[str] = []
        replay = _Replay(stored, wanted, tmp_path, recording, told.append)
        board = Board(recording, stream_of(stored.id))
        replay.carry_out(board, orders)  # type: ignore[arg-type]
        assert told == [f"replaying timer (1{GAP}min in the run), step 1 of 1 …"]
        assert board.orders == [words[1:] for words in orders]
        # the clock is 40 ns ahead of the recorder's time
        assert replay.line().time(wanted[0].due_ns) == wanted[0].due_ns - 40
        ((begin, end),) = recording.windows()
        assert begin < wanted[0].due_ns - 300_000 < wanted[0].due_ns + 902 < end
        assert replay.compare() == 4 * 3


def test_a_replay_omits_a_step_that_was_interrupted_without_samples(
    stored: StoredRun, tmp_path: Path
) -> None:
    orders = [*stored.document["orders"], ["read", "0"]]
    interrupted = [*orders[0][:-4], "--step", "1", "--output", "-"]
    with Recording(tmp_path, Path("plugin.so")) as recording:
        replay = _Replay(stored, select(stored), tmp_path, recording)
        assert replay._end([*orders, interrupted, ["read", "0"]]) == len(orders)
        assert replay._end([["run", "/agent", "environment"], *orders]) == 1 + len(orders)


def test_a_limit_without_unit_is_a_usage_error(
    stored: StoredRun, tmp_path: Path, rtgauge: Run
) -> None:
    done = rtgauge("explain", stored.id, "--above", "50", "--store", str(tmp_path / "store"))
    assert done.code == 2
    assert done.err.startswith("rtgauge: --above: ")


@pytest.mark.slow
def test_a_run_is_named_by_its_label(tmp_path: Path, rtgauge: Run) -> None:
    store = ["--store", str(tmp_path / "labelled")]
    words = ["--target", "fake", "--for", "1s", "--no-progress", *store]
    for label in ("board", "other"):
        assert rtgauge("run", "timer", "--label", label, *words).code == 0
    (row,) = [one for one in rtgauge("runs", "--json", *store).json()["runs"]
              if one["label"] == "board"]  # fmt: skip
    done = rtgauge("explain", "board", *store)
    assert done.code == 2 and f"run {row['id']} was measured on fake" in done.err
    assert "there is no run" in rtgauge("explain", "nothing", *store).err


def test_causes_that_are_damaged_do_not_condemn_the_run(
    stored: StoredRun, tmp_path: Path, rtgauge: Run
) -> None:
    (stored.path / "causes.json").write_text("{")
    done = rtgauge("show", stored.id, "--store", str(tmp_path / "store"))
    assert done.code == 1
    assert "remove this file" in done.err and "The run itself is not affected" in done.err
    keep(stored, ())
    assert rtgauge("show", stored.id, "--store", str(tmp_path / "store")).code == 0


def test_only_stamps_of_due_samples_give_the_guests_clock(
    stored: StoredRun, tmp_path: Path
) -> None:
    """And a window is as long as its sample may be late, or begins where a replay found it."""
    series = {"name": "latency", "from": "before the call"}
    catalogue = {"measurements": [{"name": "timer", "series": [series]}]}
    run = StoredRun(stored.path, {**stored.document, "catalogue": catalogue})
    (one, *_) = select(run)
    assert one.how == "event"
    with Recording(tmp_path, Path("plugin.so")) as recording:
        replay = _Replay(run, [one], tmp_path, recording)
        assert not list(replay._stamps())
        replay._readings = [(0, 0), (10_000, 10_000)]
        ((begin, end),) = replay._windows(0)
        assert begin < one.due_ns
        assert end >= one.due_ns + one.latency_ns + 500_000
        placed = replace(one, how="loop", at=2_000_000, stamp_ns=50)
        ((begin, end),) = _Replay(run, [placed], tmp_path, recording)._windows(0) or [(0, 0)]
        assert (begin, end) == (0, 0)  # before the guest's clock is known
        replay = _Replay(run, [placed], tmp_path, recording)
        replay._readings = [(0, 0), (10_000, 10_000)]
        assert replay._windows(0) == [(1_700_000, 2_000_000 + one.latency_ns + 50 + 5_000)]
        series["from"] = "due time"
        assert len(list(_Replay(stored, [], tmp_path, recording)._stamps())) == 3


def test_a_replay_that_differs_explains_nothing(stored: StoredRun, tmp_path: Path) -> None:
    for number, (worst, words) in enumerate(((901, "sample 1 is 900, and 901"), (None, "numbers"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Recording(folder, Path("plugin.so")) as recording:
            replay = _Replay(stored, [], folder, recording)
            board = Board(recording, b"" if worst is None else stream_of(stored.id, worst))
            replay.carry_out(board, stored.document["orders"])  # type: ignore[arg-type]
            with pytest.raises(StoreError, match=words) as error:
                replay.compare()
            assert "Nothing is explained" in error.value.message


def test_samples_are_chosen_by_rank_limit_or_name(stored: StoredRun) -> None:
    worst = select(stored)
    assert [(one.context, one.index, one.latency_ns) for one in worst] == [
        ("user", 1, 902),
        ("irq", 1, 900),
    ]
    header = stored.steps[0].header
    assert header is not None
    assert worst[0].since_ns == 1000 + 2
    assert worst[0].due_ns == header.start_ns + 1002
    assert len(select(stored, worst=3)) == 6
    assert [one.index for one in select(stored, above_ns=900)] == [1]
    assert select(stored, sample=("user", 2))[0].latency_ns == 9
    with pytest.raises(UsageError, match="no sample of the run is above") as error:
        select(stored, above_ns=5000)
    assert "0.902\u202fµs" in error.value.remedy
    with pytest.raises(UsageError, match="no sample kernel:1") as error:
        select(stored, sample=("kernel", 1))
    assert "irq, user" in error.value.remedy


def test_calibrations_are_not_explained(tmp_path: Path) -> None:
    """Their samples are longer than those of the step that was asked for."""
    run = stored_run(tmp_path, {"timer": 900, "clock-cost": 5000})
    assert {one.step for one in select(run, worst=20)} == {0}
    with pytest.raises(UsageError, match="no sample of the run is above") as error:
        select(run, above_ns=1000)
    assert "0.902\u202fµs" in error.value.remedy
    # unless nothing else was measured
    assert len(select(stored_run(tmp_path, {"clock-cost": 900}))) == 2


def test_a_run_without_samples_has_nothing_to_explain(tmp_path: Path, rtgauge: Run) -> None:
    run = stored_run(tmp_path, {"timer": None, "clock-cost": 5000})
    done = rtgauge("explain", run.id, "--store", str(tmp_path / "store"))
    assert (done.code, done.out) == (2, "")
    said = done.err.strip()
    assert "nothing to explain" in said
    assert "no samples of timer (there is no core)" in said
    assert said.endswith("use another board")


def test_of_a_killed_run_the_steps_before_are_explained(tmp_path: Path) -> None:
    """The orders of a step are written at its end."""
    run = stored_run(tmp_path, {"timer": 900, "irq-latency": 5000})
    assert {one.step for one in select(run, worst=20)} == {0}
    with Recording(tmp_path, Path("plugin.so")) as recording:
        replay = _Replay(run, select(run), tmp_path, recording)
        replay.carry_out(Board(recording, stream_of(run.id)), run.document["orders"])  # type: ignore[arg-type]
        assert replay.compare() == 4 * 3
        assert len(list(replay._stamps())) == 3
    said: list[str] = []
    select(run, say=said.append)
    assert [words.partition(" ended")[0] for words in said] == ["step 2"]
    with pytest.raises(UsageError, match="no sample kernel:1"):
        select(run, sample=("kernel", 1), say=said.append)
    assert len(said) == 2


@pytest.mark.parametrize("worst", [{"timer": 900}, {"clock-cost": 5000, "timer": 900}])
def test_samples_whose_orders_are_not_stored_are_refused(
    tmp_path: Path, worst: dict[str, int | None]
) -> None:
    """A run that was killed, also after its calibration, and one that is still running."""
    orders = [["run", "/agent", "environment"]]
    if len(worst) > 1:  # those of the calibration
        orders += [["run", "/agent", "run", "clock-cost", "--run", "x", "--step", "0"]]
    run = stored_run(tmp_path, worst, orders=orders)
    with pytest.raises(UsageError, match="ended before the orders of a step with") as error:
        select(run)
    assert "measure again" in error.value.remedy
    run.document["state"] = "running"
    for now in (orders, []):
        run.document["orders"] = now
        with pytest.raises(UsageError, match="no step with samples to explain has ended") as error:
            select(run)
        assert error.value.remedy.startswith("wait")


def test_a_loop_is_explained_where_the_timed_step_after_it_was_killed(tmp_path: Path) -> None:
    series = [{"name": "latency", "from": "test loop"}]
    catalogue = {"measurements": [{"name": "mutex-contended", "series": series}]}
    run = stored_run(tmp_path, {"mutex-contended": 900, "timer": 5000}, catalogue=catalogue)
    for one in run.steps[0].series:
        one.info = replace(one.info, interval_ns=0)
    said: list[str] = []
    assert {(one.step, one.how) for one in select(run, say=said.append)} == {(0, "loop")}
    assert said
    # with its orders only the timed one is explained
    words = run.document["orders"][0]
    run.document["orders"].append([*words[: words.index("--step")], "--step", "1"])
    assert {one.step for one in select(run, say=said.append)} == {1}
    assert len(said) == 1


def test_the_time_for_a_replay_is_that_of_the_steps_if_the_run_has_not_ended(
    stored: StoredRun, tmp_path: Path
) -> None:
    stored.document["duration_s"] = 0
    stored.document["steps"][0]["duration_s"] = 1000
    with Recording(tmp_path, Path("plugin.so")) as recording:
        assert _Replay(stored, (), tmp_path, recording)._limit_s > 1000


def test_of_many_series_each_has_its_longest_sample_explained(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All samples of the one series are longer than those of the other."""
    monkeypatch.setattr("rtgauge.causes.explain.SAMPLES_MAX", 2)
    series = stored.steps[0].series[0]
    longer = replace(series.info, scale=1000)
    series.info = longer
    assert [one.context for one in select(stored, worst=3)] == ["irq", "user"]
    assert [one.context for one in select(stored, above_ns=1)] == ["irq", "irq"]


DAMAGED: list[object] = [
    5,
    {"a": 1},
    ["run"],
    [["put", "--step", "0"]],
    [[]],
    [[1]],
    [["boot"]],
    [["read"]],
    [["read", "-9"]],
    [["run"]],
    [["run", "/agent", "--step", "0"]],
    [["run", "/agent", "--run"]],
    [["run", "/agent", "--run", "x", "--step"]],
    [["run", "/agent", "--run", "x", "--step", "../../x"]],
    [["run", "/agent", "--run", "x", "--step", "0"]] * 2,
]


@pytest.mark.parametrize(
    ("away_ns", "certainty"),
    [(0, "exact"), (10**9, "exact"), (10**9 + 1, "inferred"), (None, "inferred")],
)
def test_segments_are_exact_only_where_stamps_gave_the_clock(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch, away_ns: int | None, certainty: str
) -> None:
    (one, *_) = select(stored)
    records = recorded(wake_up(Program()).rows)
    clock = Clock(np.array([1000], np.int64), np.array([one.due_ns], np.int64))
    stamps = np.array([] if away_ns is None else [one.due_ns - away_ns, 1 << 60], np.int64)
    window = [Piece(records, np.empty(0, np.int64), np.empty(0, np.int64), {})]
    guest = Guest(lambda number: window, clock, 0.0, KALLSYMS, b"", 6, 1.0, ((0, 10_000),), stamps)
    monkeypatch.setattr("rtgauge.causes.explain.replayed", lambda *_: contextlib.nullcontext(guest))
    (found,) = explain(stored, [one], print, medians=medians).causes
    assert {each.certainty for each in found.segments} == {certainty}
    assert bool(found.unseen) == (certainty == "inferred")


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize("interval_ns", [0, 1000])
def test_samples_that_do_not_begin_when_they_are_due_are_placed(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch, interval_ns: int, found: bool
) -> None:
    """Operations of a loop by a first replay, and samples on a grid by the readings in their own
    window. Without two readings as far apart nothing is explained."""
    catalogue = {"measurements": [{"name": "timer", "series": [{"name": "latency", "from": "x"}]}]}
    run = StoredRun(stored.path, {**stored.document, "catalogue": catalogue})
    for series in run.steps[0].series:
        series.info = replace(series.info, interval_ns=interval_ns, stamp_ns=5)
    (one, *_) = select(run)
    assert (one.how, one.raw_ns) == ("event" if interval_ns else "loop", 902 + 5)
    program = handed_over().run("user", offset=32, ns=2000)
    begin, end = (1010, 1010 + one.raw_ns) if found else (1010, 1500)
    rows = [*program.rows, *((time, 0x7000, 0, 0, ANCHOR, 0) for time in (begin, end))]
    rows.sort(key=lambda row: row[0])
    none = np.empty(0, np.int64)
    window = [Piece(recorded(rows), none, none, {})]
    clock = Clock(np.array([1005], np.int64), np.array([one.due_ns], np.int64))
    readings = np.array([begin, end], np.int64)
    guest = Guest(
        *(lambda number: window, clock, 0.0, KALLSYMS, b"", 6, 1.0, ((0, 10_000),), none),
        readings=readings,
    )
    asked: list[int] = []

    def fake(run: StoredRun, samples: Sequence[Sample], *_: object) -> Any:
        asked.append(len(samples))
        return contextlib.nullcontext(guest)

    monkeypatch.setattr("rtgauge.causes.explain.replayed", fake)
    explained = explain(run, [one], lambda _: None, medians=medians)
    (cause,) = explained.causes
    assert asked == ([1] if interval_ns else [0, int(found)])
    assert explained.seconds == len(asked)
    if found:
        assert sum(each.length_ns for each in cause.segments) == cause.latency_ns == 902
        assert {each.certainty for each in cause.segments} == {"exact"}
        assert cause.segments[0].kind == "operation"
        assert not cause.unseen
    else:
        assert (cause.segments, cause.rest_ns) == ((), 902)
        assert "two readings" in cause.unseen


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "local"}, "cannot be replayed"),
        ({"environment": {"lab": {"mode": "plain"}}}, "plain mode"),
        ({"orders": []}, "does not contain the orders"),
        ({"orders": [["put"]]}, "put files"),
        ({"environment": {"lab": 5}}, "cannot be replayed"),
        ({"environment": 5}, "cannot be replayed"),
        ({"environment": {"lab": {"mode": "counted", "seed": "1"}}}, "is damaged"),
        (
            {"environment": {"lab": {"mode": "counted", "seed": "1", "kernel arguments": "a\0"}}},
            "is damaged",
        ),
        ({"duration_s": "long"}, "is damaged"),
        *(({"orders": orders}, "is damaged") for orders in DAMAGED),
    ],
)
def test_runs_that_cannot_be_replayed_are_refused_with_a_remedy(
    stored: StoredRun, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as error:
        check(StoredRun(stored.path, {**stored.document, **change}))
    assert error.value.remedy


PRECEDED = Segment(0, 1, "higher-priority", "exact", Task("hog", 3, "fifo", 50))


def test_a_command_to_try_is_quoted_whatever_the_run_says(stored: StoredRun) -> None:
    """A user copies it into a shell, and the run may be from elsewhere."""
    step = {"step": 0, "measurement": "timer", "parameters": 5}
    changed = {"target": "ssh:$(reboot);b", "orders": [["run", "--step"]], "environment": 5}
    changed["steps"] = [step]
    system = system_of(StoredRun(stored.path, {**stored.document, **changed}), 0)
    (remedy,) = remedies(PRECEDED, system)
    assert "'ssh:$(reboot);b'" in shlex.split(remedy.command, posix=False)


def test_a_command_to_try_omits_defaults_and_the_trace(stored: StoredRun) -> None:
    options = [{"name": "samples", "default": "3"}, {"name": "method", "default": "timer"}]
    catalogue = {
        "measurements": [{"name": "timer", "options": options}, {"name": "other"}, 5],
        "run_options": [{"name": "core", "default": "auto"}, {"name": "load"}],
    }
    words = [
        "run",
        "/agent",
        "run",
        "timer",
        "--samples",
        "3",
        "--explain",
        "--method",
        "itimer",
        "--core",
        "auto",
    ]
    words += ["--disturb", "irq_off:1us:9us", "--disturb=smi:1us:9us"]  # `tune` refuses it
    words += ["--explain-above", "50us", "--histogram-only", "--load", "auto", "--run", "x"]
    document = {**stored.document, "catalogue": catalogue, "orders": [[*words, "--step", "0"]]}
    system = system_of(StoredRun(stored.path, document), 0)
    kept = ("timer", "--method", "itimer", "--histogram-only", "--load", "auto")
    assert system.words == kept
    # as in a run outside of the lab, which has no orders
    step = {**stored.document["steps"][0], "parameters": {"method": "itimer", "samples": "3"}}
    step["run_options"] = {"core": "auto", "explain": True, "load": "auto"}
    document = {**document, "orders": None, "steps": [step]}
    system = system_of(StoredRun(stored.path, document), 0)
    assert system.words == ("timer", "--method", "itimer", "--load", "auto")


FOREIGN_STEP: dict[str, Any] = {
    "parameters": {"interval": "1ms", "method": "-x", "boot-cmd": "curl c | sh", "line": "a.so"},
    "run_options": {
        "load": "sched,exec:program=curl",
        "load-cmd": "curl a | sh",
        "load-cmd-root": True,
        "allow-load-cmd": True,
        "disturb": "irq_off:1s:2s",
        "allow-disturb": True,
        "agent": "/evil",
        "histogram-only": True,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["local", "ssh://b", "lab:x86_64-stock"])
def test_a_command_to_try_starts_nothing_that_an_imported_run_names(
    stored: StoredRun, target: str
) -> None:
    """Its orders are not checked at the import, and its step may name a program of its author."""
    words = ["run", "a", "run", "timer", "--load-cmd", "curl b | sh", "--allow-load-cmd"]
    entry = {**stored.document["steps"][0], **FOREIGN_STEP}
    changed = {"target": target, "orders": [[*words, "--run", "x", "--step", "0"]]}
    run = StoredRun(stored.path, {**stored.document, **changed, "steps": [entry]})
    (run.path / IMPORTED).touch()
    (remedy,) = remedies(PRECEDED, system_of(run, 0))
    assert system_of(run, 0).machine == "x86_64"
    for kernel, machine in (({"machine": "aarch64"}, "aarch64"), ("odd", "x86_64")):
        elsewhere = {**run.document, "environment": {"kernel": kernel}}
        assert system_of(StoredRun(run.path, elsewhere), 0).machine == machine
    command, _, comment = remedy.command.partition(" # ")
    words = shlex.split(command)
    assert words[:5] == ["rtgauge", "tune", "timer", "--interval", "1ms"]
    assert "--method=-x" in words
    assert words[-2:] == ["--try", "priority=98"]
    assert "curl b" not in command
    named = {"curl", "| sh", "a.so", "irq_off", "allow", "root", "boot-cmd", "evil"}
    if target.startswith("lab:"):
        assert "--load-cmd" in words
        assert not comment
    else:
        assert not {one for one in named if one in command}
        assert {"--load-cmd", "--boot-cmd", "--agent"} < set(comment.split())
        assert "--disturb" not in comment  # `tune` refuses it


def test_no_command_is_given_for_a_run_that_none_repeats(stored: StoredRun) -> None:
    unnamed = {**stored.document["steps"][0], "measurement": None}
    for changed in ({"target": "capture:scope"}, {"steps": [unnamed]}):
        run = StoredRun(stored.path, {**stored.document, "orders": None, **changed})
        (remedy,) = remedies(PRECEDED, system_of(run, 0))
        assert (remedy.command, bool(remedy.text)) == ("", True)
    document = {name: one for name, one in stored.document.items() if name != "target"}
    (remedy,) = remedies(PRECEDED, system_of(StoredRun(stored.path, document), 0))
    assert remedy.command.startswith("rtgauge tune timer")
    assert "--target" not in remedy.command


@pytest.mark.parametrize(
    ("target", "mode", "hardware", "preceded"),
    [
        ("lab:x86_64-stock", "counted", True, True),
        ("lab:x86_64-stock,audit=0", "counted", True, True),
        ("lab:x86_64-stock,seed=3", "counted", False, False),
        ("lab:x86_64-stock", "plain", False, False),
        ("local", None, False, True),
        ("ssh://board", None, False, True),
    ],
)
def test_a_command_to_try_is_one_that_tune_accepts(
    stored: StoredRun, target: str, mode: str | None, hardware: bool, preceded: bool
) -> None:
    """It boots counted boards itself. Other boards of the lab are not tuned at all."""
    environment = {**stored.document["environment"], "lab": mode and {"mode": mode}}
    changed = {"target": target, "environment": environment, "orders": None}
    system = system_of(StoredRun(stored.path, {**stored.document, **changed}), 0)
    for main, command in ((Segment(0, 1, "hardware", "exact"), hardware), (PRECEDED, preceded)):
        (remedy,) = remedies(main, system)
        assert remedy.text
        assert bool(remedy.command) is command


@pytest.mark.parametrize(
    ("kernel", "without_effect"),
    [
        ({"preemption_dynamic": True, "cmdline": "quiet threadirqs"}, {"quiet", "threadirqs"}),
        ({"preemption_dynamic": False, "cmdline": None}, {"preempt=full"}),
        (5, {"preempt=full"}),
    ],
)
def test_the_arguments_that_the_kernel_has_or_ignores(
    stored: StoredRun, kernel: object, without_effect: set[str]
) -> None:
    environment = {**stored.document["environment"], "kernel": kernel}
    run = StoredRun(stored.path, {**stored.document, "environment": environment})
    assert system_of(run, 0).without_effect == without_effect


@pytest.mark.parametrize("orders", [[["put", "--step", "0"]], [["read", "0"]], *DAMAGED])
def test_orders_of_any_form_do_not_stop_a_report(stored: StoredRun, orders: object) -> None:
    run = StoredRun(stored.path, {**stored.document, "orders": orders})
    assert system_of(run, 0).words[0] == "timer"


def test_a_run_of_histograms_alone_is_refused(stored: StoredRun) -> None:
    for series in stored.steps[0].series:
        series.count = 0
    with pytest.raises(UsageError, match="only histograms"):
        select(stored)
    for series in stored.steps[0].series:
        series.info = replace(series.info, interval_ns=0)
    with pytest.raises(UsageError, match="no series of durations"):
        select(stored)


def test_an_image_that_is_gone_or_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTGAUGE_LAB_CACHE", str(tmp_path))
    kernel, archive = tmp_path / "boot", tmp_path / "images" / "a" / images.ARCHIVE
    archive.parent.mkdir(parents=True)
    (tmp_path / "kernels" / "k").mkdir(parents=True)
    kernel.write_bytes(b"kernel")
    archive.write_bytes(b"archive")
    facts = {
        "kernel digest": digest_of(kernel),
        "initramfs digest": digest_of(archive),
    }
    with pytest.raises(TargetError, match="kernel that the run booted is not in the lab's cache"):
        images.stored_image(facts)
    kernel = kernel.rename(tmp_path / "kernels" / "k" / "vmlinuz")
    record = {"version": 1, "kernel": "vmlinuz", "sha256": facts["kernel digest"]}
    write_record(kernel.with_name("kernel.json"), record)
    with pytest.raises(TargetError, match="initramfs that the run booted is not in"):
        images.stored_image(facts)
    write_record(
        archive.with_name(images.IMAGE_RECORD), {"version": images.IMAGE_VERSION, "facts": facts}
    )
    records = (kernel.with_name("kernel.json"), archive.with_name(images.IMAGE_RECORD))
    for path in records:
        os.utime(path, (1e9, 1e9))
    found = images.stored_image(facts)
    assert (found.kernel, found.initramfs) == (kernel, archive)
    assert all(path.stat().st_mtime > 1e9 for path in records)  # `lab prune` leaves both
    for path, name in ((archive, "initramfs"), (kernel, "kernel")):
        content = path.read_bytes()
        path.write_bytes(b"another")
        with pytest.raises(TargetError, match=f"{name} .* was changed") as error:
            images.stored_image(facts)
        assert "measure again" in error.value.remedy
        path.write_bytes(content)
    assert images.stored_image(facts) == found


def test_a_machine_without_qemu_gets_a_remedy(
    stored: StoredRun, tmp_path: Path, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = rtgauge("explain", "last", "--store", str(tmp_path / "store"))
    assert done.code == 1
    *_, said, remedy = done.err.splitlines()
    assert "need qemu-system-x86_64, which is not on this machine" in said
    assert "qemu-system-x86" in remedy


def test_another_qemu_is_refused(stored: StoredRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtgauge.target.lab.found_program", lambda program, package: sys.executable)
    target = LabTarget("x86_64-stock-6.12")
    with pytest.raises(RtgaugeError, match="another QEMU"):
        target.setup_again(check(stored))
