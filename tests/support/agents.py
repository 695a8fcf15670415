# SPDX-License-Identifier: Apache-2.0
"""Running the real agent, and what its streams must hold whatever was measured."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from drivers import compiled
from rtgauge.stream import (
    Event,
    Gaps,
    Header,
    Samples,
    SeriesInfo,
    StreamReader,
    Table,
    Trailer,
    Verdict,
    read_stream,
)

NOT_LOADED, LOADS = (
    ("the kernel module rtgauge is not loaded", "rtgauge module load")
    if Path("/proc/modules").exists()
    else ("it does not support loadable modules", "CONFIG_MODULES=y")
)
"""Why the module cannot measure on a machine where nothing loads it, and the remedy."""


NOBODY = 65534
"""A user without privilege."""


def number(event: Event, key: str) -> int:
    value = event.fields[key]
    assert isinstance(value, int)
    return value


class Stream(NamedTuple):
    """A whole stream, taken apart."""

    header: Header
    series: list[SeriesInfo]
    samples: Counter[int]
    missed: Counter[int]
    events: list[Event]
    records: list[object]
    last: Trailer | None
    complete: bool

    @property
    def trailer(self) -> Trailer:
        """The trailer, which has to be there."""
        assert self.last is not None
        return self.last


def read(path: Path, *, histogram_only: bool = False) -> Stream:
    reader = StreamReader()
    records: list[object] = list(read_stream(path, reader))
    end = reader.finish()
    assert end.dropped_bytes == 0
    assert end.lost_records == 0
    samples: Counter[int] = Counter()
    missed: Counter[int] = Counter()
    next_index: Counter[int] = Counter()
    events = [record for record in records if isinstance(record, Event)]
    for record in records:
        if isinstance(record, Samples):
            assert record.index == next_index[record.series]
            samples[record.series] += len(record.values)
            missed[record.series] += record.missed
            next_index[record.series] += len(record.values) + record.missed
        elif isinstance(record, Gaps):
            assert histogram_only
            missed[record.series] += record.missed
        elif isinstance(record, Event) and record.event == "missed":
            assert record.series is not None
            if not histogram_only:
                assert record.fields["index"] == next_index[record.series] - 1
            missed[record.series] += number(record, "count")
            next_index[record.series] += number(record, "count")
        elif isinstance(record, Event) and record.event == "lost":
            assert record.series is not None
            next_index[record.series] += number(record, "count")
    header = records[0]
    assert isinstance(header, Header)
    last = records[-1]
    if isinstance(last, Trailer) and not histogram_only:
        assert_times(records, last)
    return Stream(
        header,
        [record for record in records if isinstance(record, SeriesInfo)],
        samples,
        missed,
        events,
        records,
        last if isinstance(last, Trailer) else None,
        end.complete,
    )


def assert_times(records: list[object], trailer: Trailer) -> None:
    """The trailer has the times of the first and last samples of series without a grid."""
    withheld = {one.series for one in records if isinstance(one, Event) and one.event == "withheld"}
    gridless = {
        one.series for one in records if isinstance(one, SeriesInfo) and one.interval_ns == 0
    }
    times: dict[int, list[int]] = {}
    for record in records:
        if isinstance(record, Samples) and record.series in gridless - withheld:
            times.setdefault(record.series, []).append(record.due_ns)
    for totals in trailer.series:
        if (found := times.get(totals.series)) is not None:
            assert (totals.first_due_ns, totals.last_due_ns) == (found[0], found[-1])
            assert found == sorted(found)


def run(agent: str, tmp_path: Path, *words: str, by: Sequence[str] = ()) -> tuple[int, Stream]:
    """``by``: the program that runs the agent, with its words."""
    output = tmp_path / "stream.cbor"
    command = [*by, agent, "run", *words, "--output", str(output)]
    done = subprocess.run(command, timeout=60, check=False)
    return done.returncode, read(output, histogram_only="--histogram-only" in words)


def start(
    agent: str, tmp_path: Path, *words: str, **more: Any
) -> tuple[subprocess.Popen[bytes], Path]:
    """A running agent, and the file that its stream goes to. ``more``: of the process."""
    output = tmp_path / "stream.cbor"
    command = [agent, "run", *words, "--output", str(output)]
    return subprocess.Popen(command, **more), output


def run_or_skip(agent: str, tmp_path: Path, *words: str) -> tuple[int, Stream]:
    """``run``; the test is skipped for the agent's reason where the agent skips the step."""
    code, stream = run(agent, tmp_path, *words)
    if code == 77:
        assert stream.trailer.remedy
        pytest.skip(stream.trailer.reason)
    return code, stream


def run_as(
    user: int,
    agent: str,
    tmp_path: Path,
    *words: str,
    by: Sequence[str] = (),
    more: Sequence[str] = (),
) -> tuple[subprocess.CompletedProcess[bytes], Stream]:
    """Run a copy of the agent as a user. ``more``: options of setpriv."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    copy = str(shutil.copy(agent, folder))
    state = f"/tmp/rtgauge-test-{tmp_path.name}-{os.getpid()}"
    try:
        done = subprocess.run(
            [*by, "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *more,
             copy, "run", *words, "--output", "-"],
            capture_output=True, timeout=60, check=False,
            env={**os.environ, "RTGAUGE_STATE": state},
        )  # fmt: skip
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(state, ignore_errors=True)
    (tmp_path / "stream.cbor").write_bytes(done.stdout)
    return done, read(tmp_path / "stream.cbor")


def shared_library(folder: Path, source: str) -> str:
    """A shared library of C source, which a test has an agent load first (``LD_PRELOAD``)."""
    written, library = folder / "library.c", folder / "library.so"
    written.write_text(source)
    compiled(library, "-O1", "-w", "-shared", "-fPIC", str(written), "-ldl")
    return str(library)


def verdicts(stream: Stream) -> dict[str, Verdict]:
    """The verdicts by their rules, each of which has one."""
    found = [record for record in stream.records if isinstance(record, Verdict)]
    by_rule = {verdict.rule: verdict for verdict in found}
    assert len(by_rule) == len(found)
    return by_rule


def results(stream: Stream) -> dict[str, str]:
    """The results of the verdicts by their rules."""
    return {rule: verdict.result for rule, verdict in verdicts(stream).items()}


def table_of(stream: Stream, name: str) -> list[dict[str, Any]]:
    """The rows of a table, by its columns."""
    (table,) = [one for one in stream.records if isinstance(one, Table) and one.name == name]
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def rows_of(stream: Stream, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table."""
    return [tuple(row.values()) for row in table_of(stream, name)]


def values_of(stream: Stream, series: int | None = None) -> list[int]:
    """The samples of a series, or of all."""
    return [
        value
        for record in stream.records
        if isinstance(record, Samples) and series in (None, record.series)
        for value in record.values.tolist()
    ]


def values_named(stream: Stream, name: str) -> list[int]:
    """The samples of the one series with this name."""
    (number,) = [info.series for info in stream.series if info.name == name]
    return values_of(stream, number)


def messages_of(stream: Stream) -> list[str]:
    return [str(event.fields["text"]) for event in stream.events if event.event == "message"]


def assert_accounted(stream: Stream, periods: int, *, held: bool = False) -> None:
    """Samples + missed = periods due, in the samples themselves and in the trailer's counters.
    ``held``: events are held back, which moves their grid."""
    for info, totals in zip(stream.series, stream.trailer.series, strict=True):
        assert totals.count + totals.missed == periods
        assert stream.samples[info.series] + totals.lost == totals.count
        assert stream.missed[info.series] == totals.missed
        due = (totals.last_due_ns - totals.first_due_ns) // info.interval_ns + 1
        assert due >= periods if held else due == periods
        assert totals.last_due_ns <= stream.trailer.duration_ns or not held


def wait_until_measuring(output: Path) -> None:
    """Until the stream holds a block of samples."""
    give_up = time.monotonic() + 30
    while not (output.exists() and output.stat().st_size) or not any(
        isinstance(record, Samples) for record in read_stream(output)
    ):
        assert time.monotonic() < give_up
        time.sleep(0.05)


def stop_for_50_ms(process: int, output: Path) -> None:
    """Hold a whole process up, once there are samples."""
    stop_for(0.05, process, output)


def stop_for(seconds: float, process: int, output: Path) -> None:
    """The same, for longer."""
    wait_until_measuring(output)
    os.kill(process, signal.SIGSTOP)
    give_up = time.monotonic() + 30
    # the signal may have to wait for a CPU, and SIGCONT would take it back
    while any(
        (task / "stat").read_text().rpartition(")")[2].split()[0] != "T"
        for task in Path(f"/proc/{process}/task").iterdir()
    ):
        assert time.monotonic() < give_up
    time.sleep(seconds)
    os.kill(process, signal.SIGCONT)
