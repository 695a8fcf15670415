# SPDX-License-Identifier: Apache-2.0
"""The replay of a stored run: the same image, with the same orders, and with the recorder.

The guest's clock is a linear function of the time that the recorder counts. Its line is known from
the clock readings of the guest program around each order, so the windows of the samples are known
before the step begins. Afterwards the reads of the counter that samples in user context came from
give it to within CLOSE_NS. Nothing is explained unless all samples of the run are equal.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.causes.beginnings import DUE, EVENT, how_of
from rtgauge.causes.orders import orderly, steps_of
from rtgauge.errors import StoreError, TargetError, UsageError
from rtgauge.lab.machine import Answer, Machine, found_program, working_folder
from rtgauge.lab.names import names
from rtgauge.lab.recorder import Piece, Recording, plugin, require_plugins
from rtgauge.store import StoredRun, StoredSeries, StoredStep
from rtgauge.target.lab import LabTarget
from rtgauge.text import duration

__all__ = [
    "LATE_NS",
    "NEAR_NS",
    "Clock",
    "Guest",
    "Sample",
    "arrays",
    "carried_out",
    "check",
    "due_of",
    "replayed",
    "without_orders",
]

# By how much an event may come after its due time.
LATE_NS: Final = 500_000
# Before a sample is due: calls that are still open belong to its stacks.
BEFORE_NS: Final = 300_000
AFTER_NS: Final = 5_000
# By how much a window may be off: the line is known from few readings by then.
MARGIN_NS: Final = 20_000
# How much longer than the whole run one of its programs may take, before the board counts as hung.
SLOWER: Final = 5.0
SPARE_S: Final = 300.0
# How far the line of the guest's clock may be off, and its interpolation.
NEAR_NS: Final = 2_000
CLOSE_NS: Final = 40
# Stamps farther away than this do not give the guest's clock: Linux changes its rate.
ABOUT_NS: Final = 1_000_000_000
PLAIN: Final = "measure with 'rtgauge run … --explain', which traces while it measures"

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """A sample to explain. Times by the guest's clock: ``due_ns`` with its dither."""

    step: int
    series: int
    context: str
    index: int
    since_ns: int
    """When it was due, since the step began. The beginning of its test loop, if it has one."""
    due_ns: int
    latency_ns: int
    how: str = DUE
    """How it began: ``DUE``, ``EVENT`` or ``LOOP``."""
    stamp_ns: int = 0
    """The cost of a time stamp that was subtracted from it."""
    tolerance_ns: int = 0
    """By how much the difference of two readings of its clock may be off."""
    at: int | None = None
    """When it began in the recorder's time, if an earlier replay gave that."""
    only: bool = True
    """No other operation of its loop took as long."""

    @property
    def raw_ns(self) -> int:
        """Between its two readings of the clock."""
        return self.latency_ns + self.stamp_ns


@dataclass(frozen=True)
class Line:
    """The guest's clock by the recorder's: ``clock0 + (time - time0) * rate``."""

    time0: int
    clock0: int
    rate: float = 1.0

    def time(self, clock: int) -> float:
        """The recorder's time of a moment of the guest's clock, in ns."""
        return self.time0 + (clock - self.clock0) / self.rate


class Clock:
    """The guest's clock by the recorder's, from pairs of both. Linux changes the rate of its clock
    a little at each tick, so it is interpolated between them."""

    def __init__(self, times: Int64s, clocks: Int64s) -> None:
        order = np.argsort(times, kind="stable")
        self._times = times[order]
        self._shift = (clocks[order] - self._times).astype(np.float64)
        self._clocks = clocks[order]

    def times(self, clocks: Int64s) -> Int64s:
        """The recorder's time of moments of the guest's clock, in ns."""
        shift = np.interp(clocks.astype(np.float64), self._clocks, self._shift)
        return clocks - np.rint(shift).astype(np.int64)

    def time(self, clock: int) -> int:
        """That of one moment."""
        return int(self.times(np.array([clock], np.int64))[0])


def _nearest(anchors: Int64s, times: Int64s) -> Int64s:
    after = np.clip(np.searchsorted(anchors, times), 1, len(anchors) - 1)
    before = np.abs(anchors[after - 1] - times) <= np.abs(anchors[after] - times)
    return np.where(before, anchors[after - 1], anchors[after])


@dataclass
class Guest:
    """Result of a replay: the recorder's records, the guest's clock and its names."""

    window: Callable[[int], Iterable[Piece]]
    """The records of the window of that number."""
    clock: Clock
    error_ns: float
    """The largest distance between a stamp of a sample and the read of the counter it is from."""
    symbols: bytes
    """The guest's /proc/kallsyms."""
    types: bytes
    """The guest's /sys/kernel/btf/vmlinux, or empty."""
    samples: int
    """How many samples were compared, all equal."""
    seconds: float
    covered: tuple[tuple[int, int], ...]
    """The windows that were recorded."""
    stamps: Int64s
    """Moments of the guest's clock, ascending, at which a read of the counter gave the time."""
    readings: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """When user space read the counter, ascending, in the recorder's time."""

    def knows(self, clock: int) -> bool:
        """Whether the recorder's time of a moment of the guest's clock comes from reads of the
        counter about then. If not, it is off by up to a few µs."""
        place = int(np.searchsorted(self.stamps, clock))
        near = self.stamps[max(place - 1, 0) : place + 1]
        return bool((np.abs(near - clock) <= ABOUT_NS).any())


def check(run: StoredRun) -> Mapping[str, str]:
    """What the run's board was made of. Raises UsageError if the run cannot be replayed."""
    document = run.document
    environment = document.get("environment")
    lab = environment.get("lab") if isinstance(environment, dict) else None
    if not isinstance(lab, dict):
        lab = {}
    if not str(document.get("target", "")).startswith("lab:") or not lab:
        raise UsageError(
            f"run {run.id} was measured on {document.get('target')}, which cannot be replayed",
            PLAIN,
        )
    if lab.get("mode") != "counted":
        raise UsageError(
            f"run {run.id} was measured in {lab.get('mode')} mode, in which two boots differ",
            f"measure in counted mode, or {PLAIN}",
        )
    orders = document.get("orders")
    if not orders and document.get("state") == "running":
        raise UsageError(*without_orders(run))
    if not orders:
        raise UsageError(
            f"run {run.id} does not contain the orders that its board received: it ended before "
            "they were stored, or an earlier version of rtgauge measured it",
            "measure again, and explain the new run",
        )
    if (
        not orderly(orders)
        or not re.fullmatch("[0-9]{1,9}", str(lab.get("seed")))
        or not isinstance(arguments := lab.get("kernel arguments"), str)
        or not arguments.isprintable()
        or not isinstance(document.get("duration_s"), int | float | None)
    ):
        raise UsageError(
            f"run {run.id} cannot be replayed: its record of the orders or of the board is damaged",
            "import it again, or measure again",
        )
    if any(words[0] == "put" for words in orders):
        raise UsageError(
            f"run {run.id} cannot be replayed: it put files on its board, and they are not kept",
            "measure again without these files",
        )
    return {str(name): str(value) for name, value in lab.items()}


def without_orders(run: StoredRun) -> tuple[str, str]:
    """The message and the remedy for a run that has samples but not their orders. Orders are stored
    when a step ends."""
    if run.document.get("state") == "running":
        return (
            f"run {run.id} cannot be replayed yet: no step with samples to explain has ended",
            "wait until such a step has ended",
        )
    return (
        f"run {run.id} ended before the orders of a step with samples were stored, so it cannot be "
        "replayed",
        "measure again, and explain the new run",
    )


def carried_out(run: StoredRun) -> Sequence[StoredStep]:
    """The steps that left a stream, and whose orders are known."""
    ordered = steps_of(run.document.get("orders") or ())
    return [one for one in run.steps if one.header is not None and one.number in ordered]


@contextlib.contextmanager
def replayed(
    run: StoredRun,
    wanted: Sequence[Sample],
    say: Callable[[str], None],
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Guest]:
    """Boot the run's image again, give the same orders, and record the windows of these samples.
    The records are there as long as the context. ``tell`` receives the progress.

    Raises TargetError if something of it is gone or changed, StoreError if a sample differs.
    """
    facts = check(run)
    target = LabTarget(str(run.document["target"]).removeprefix("lab:"))
    setup = target.setup_again(facts)
    require_plugins(found_program(setup.program, setup.package))
    built = plugin(say)
    began = time.monotonic()
    with working_folder("rtgauge-explain", Path(tempfile.gettempdir())) as name:
        folder = Path(name)
        with Recording(folder, built) as recording:
            replay = _Replay(run, wanted, folder, recording, tell)
            machine = Machine(replace(setup, plugin=recording.plugin))
            try:
                tell(f"booting {run.document['target']} …")
                _start(machine, recording)
                replay.carry_out(machine, run.document["orders"])
                tell("comparing the samples with those of the run …")
                samples = replay.compare()
                tell("reading the names of the kernel's functions …")
                symbols, types = names(machine, facts, say)
            finally:
                machine.close()
            yield replay.guest(symbols, types, samples, time.monotonic() - began)


def _start(machine: Machine, recording: Recording) -> None:
    try:
        machine.start()
    except TargetError as error:
        if recording.loaded:
            raise
        raise TargetError(
            f"{machine.setup.program} does not load the recorder, so nothing can be replayed: "
            f"{error.message}",
            "use Debian's QEMU 7.2, and measure again: another version may not export what the "
            "recorder needs",
        ) from None


def _window(one: Sample, line: Line) -> tuple[int, int]:
    """What to record for a sample, in the recorder's time."""
    if one.at is not None:
        return max(one.at - BEFORE_NS, 0), one.at + one.raw_ns + AFTER_NS
    late = LATE_NS if one.how == EVENT else 0
    begin = int(line.time(one.due_ns)) - BEFORE_NS - MARGIN_NS
    end = int(line.time(one.due_ns + one.raw_ns)) + late + AFTER_NS + MARGIN_NS
    return max(begin, 0), end


def _lasted_s(document: Mapping[str, Any]) -> float:
    """How long the run took. One that has not ended, or was killed, has the times of its steps."""
    times = [one.get("duration_s") for one in document.get("steps") or ()]
    steps = sum(one for one in times if isinstance(one, int | float))
    return max(float(document.get("duration_s") or 0), steps)


class _Replay:
    """A replay in progress."""

    def __init__(
        self,
        run: StoredRun,
        wanted: Sequence[Sample],
        folder: Path,
        recording: Recording,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._run = run
        self._catalogue = run.document.get("catalogue")
        self._wanted = wanted
        self._folder = folder
        self._recording = recording
        self._tell = tell
        self._limit_s = SLOWER * _lasted_s(run.document) + SPARE_S
        self._readings: list[tuple[int, int]] = []  # (the recorder's time, the guest's clock)
        self._anchors: list[Int64s] = []

    def carry_out(self, machine: Machine, orders: Sequence[Sequence[str]]) -> None:
        """Give the orders, and keep the streams of the steps."""
        output: list[bytes] = []
        step = -1
        for words in orders[: self._end(orders)]:
            if words[0] == "read":
                output.append(machine.piece(int(words[1])))
                continue
            self._keep(step, output)
            step = self._step(words[1:])
            if step >= 0:
                self._recording.ask(self._windows(step))
                self._tell(self._progress(step))
            machine.begin(words[1:])
            answer = machine.ended(self._limit_s)
            self._readings += self._read_around(answer)
            output = [answer.data]
        self._keep(step, output)

    def _progress(self, number: int) -> str:
        """Which step is replayed, and how long it took in the run."""
        steps = {one.number: one.document for one in carried_out(self._run)}
        if number not in steps:
            return ""
        lasted = steps[number].get("duration_s")
        took = f" ({duration(lasted)} in the run)" if isinstance(lasted, int | float) else ""
        place = f"step {[*steps].index(number) + 1} of {len(steps)}"
        return f"replaying {steps[number].get('measurement')}{took}, {place} …"

    def _end(self, orders: Sequence[Sequence[str]]) -> int:
        """The number of orders up to the last step that left samples. A step that was interrupted
        without any might take hours."""
        kept = {step.number for step in carried_out(self._run)}
        last = max((at for at, words in enumerate(orders) if self._step(words) in kept), default=-1)
        reads = itertools.takewhile(lambda words: words[0] == "read", orders[last + 1 :])
        return last + 1 + sum(1 for _ in reads)

    def _step(self, words: Sequence[str]) -> int:
        """The step that these words carry out; -1 if they are something else."""
        if "--run" not in words or words[words.index("--run") + 1] != self._run.id:
            return -1
        return int(words[words.index("--step") + 1])

    def _keep(self, step: int, output: Sequence[bytes]) -> None:
        if step < 0:
            return
        path = self._folder / "steps" / f"{step:03d}"
        path.mkdir(parents=True)
        (path / "stream.cbor").write_bytes(b"".join(output))

    def _read_around(self, answer: Answer) -> Iterator[tuple[int, int]]:
        """The clock as the guest program read it before and after a program: the last read of the
        counter, and the one nearest to the time between them."""
        anchors = self._recording.anchors()
        self._anchors.append(anchors)
        if not len(anchors):
            raise TargetError(
                "the recorder saw no read of the guest's counter", "report it, with QEMU's version"
            )
        last = int(anchors[-1])
        began = last - (answer.ended_ns - answer.began_ns)
        nearest = int(anchors[np.argmin(np.abs(anchors - began))])
        yield nearest, answer.began_ns
        yield last, answer.ended_ns

    def line(self) -> Line:
        """The guest's clock, from the readings so far."""
        (time0, clock0), (time1, clock1) = self._readings[0], self._readings[-1]
        return Line(time0, clock0, (clock1 - clock0) / (time1 - time0) if time1 > time0 else 1.0)

    def _windows(self, step: int) -> list[tuple[int, int]]:
        if not self._readings:
            return []
        line = self.line()
        found: list[tuple[int, int]] = []
        for begin, end in sorted(_window(one, line) for one in self._wanted if one.step == step):
            if found and begin <= found[-1][1]:
                found[-1] = (found[-1][0], max(end, found[-1][1]))
            else:
                found.append((begin, end))
        return found

    def compare(self) -> int:
        """How many samples the run and its replay have, all of them equal.

        Raises StoreError, naming the first one that differs.
        """
        count = 0
        for step in carried_out(self._run):
            again = StoredStep(self._folder, step.number, step.document)
            others = {one.info.series: one for one in again.series}
            for series in step.series:
                other = others.get(series.info.series)
                mine, theirs = arrays(series), None if other is None else arrays(other)
                if theirs is None or len(mine) != len(theirs):
                    raise self._differs(step, series, "the numbers of samples differ")
                if (wrong := np.flatnonzero((mine != theirs).any(axis=1))).size:
                    one, two = mine[wrong[0]], theirs[wrong[0]]
                    what = f"sample {one[0]} is {one[2]}, and {two[2]} in the replay"
                    raise self._differs(step, series, what)
                count += len(mine)
        return count

    def _differs(self, step: StoredStep, series: StoredSeries, what: str) -> StoreError:
        return StoreError(
            f"the replay of run {self._run.id} differs from it in step {step.number + 1}, series "
            f"{series.info.name} ({series.info.context}): {what}. Nothing is explained",
            "measure again, and explain the new run. If that differs too, report it",
        )

    def guest(self, symbols: bytes, types: bytes, samples: int, seconds: float) -> Guest:
        """Everything that the replay gave."""
        self._anchors.append(self._recording.anchors())
        if self._recording.lost:
            raise TargetError(
                f"the recorder had no room for all of its records (lost: {self._recording.lost})",
                "free some space in the folder for temporary files (TMPDIR), or explain fewer "
                "samples",
            )
        clock, error, stamps = self._exact()
        windows = tuple(self._recording.windows())
        return Guest(
            *(self._recording.window, clock, error, symbols, types, samples, seconds, windows),
            *(stamps, np.concatenate(self._anchors)),
        )

    def _exact(self) -> tuple[Clock, float, Int64s]:
        """The guest's clock from the stamps of samples in user space, the largest distance of one
        of them from the read of the counter that it came from, and the stamps that were found."""
        line = self.line()
        anchors = np.concatenate(self._anchors)
        times, clocks = (np.array(each, np.int64) for each in zip(*self._readings, strict=True))
        stamps = np.unique(np.fromiter(self._stamps(), np.int64))
        error, found = 0.0, np.empty(0, np.int64)
        if len(stamps):
            expected = line.time0 + (stamps - line.clock0) / line.rate
            # the line is off by some hundred ns: at first only reads without a neighbour
            first = np.searchsorted(anchors, expected - NEAR_NS)
            alone = np.searchsorted(anchors, expected + NEAR_NS) == first + 1
            if alone.any():
                clock = Clock(anchors[first[alone]], stamps[alone])
                nearest = _nearest(anchors, clock.times(stamps))
                off = np.abs(nearest - clock.times(stamps))
                near = off <= CLOSE_NS
                if near.sum() < len(stamps) / 2:
                    raise TargetError(
                        "the recorder's time does not fit the guest's clock: "
                        f"{len(stamps) - int(near.sum())} of {len(stamps)} stamps were not found",
                        "report it, with QEMU's version",
                    )
                times, clocks, error = nearest[near], stamps[near], float(off[near].max())
                found = clocks
        return Clock(times, clocks), error, found

    def _stamps(self) -> Iterator[int]:
        """When the stamps of samples in user space were taken, by the guest's clock."""
        for step in carried_out(self._run):
            start_ns = step.header.start_ns if step.header is not None else 0
            for series in step.series:
                how = how_of(self._catalogue, step.document.get("measurement"), series.info)
                timed = series.info.companion is None and how == DUE
                if timed and series.info.context == "user":
                    rows = arrays(series)
                    yield from (start_ns + due_of(series) + rows[:, 2]).tolist()


def due_of(series: StoredSeries) -> Int64s:
    """When the samples were due since the step began, with their dither."""
    rows = arrays(series)
    due = rows[:, 1]
    if series.companion is not None:
        offsets = arrays(series.companion)
        due = due + offsets[np.searchsorted(offsets[:, 0], rows[:, 0]), 2]
    return due


def arrays(series: StoredSeries) -> Int64s:
    """Index, due time and value (in the unit of the series) of all samples, a row each."""
    scale = series.info.scale
    rows = [
        np.column_stack([chunk.index, chunk.due_ns, chunk.value.astype(np.int64) * scale]).astype(
            np.int64
        )
        for chunk in series.chunks()
    ]
    return np.concatenate(rows) if rows else np.empty((0, 3), np.int64)
