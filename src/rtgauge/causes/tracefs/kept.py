# SPDX-License-Identifier: Apache-2.0
"""The trace of a step, as its records ``trace`` have it, and the causes of its samples."""

from __future__ import annotations

import bisect
import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from rtgauge import text
from rtgauge.causes.beginnings import DUE, EVENT, how_of
from rtgauge.causes.blame import blame, main_segment, ordinary, untraced_ns
from rtgauge.causes.model import Cause, Cost, Segment
from rtgauge.causes.tracefs.pages import (
    Event,
    Format,
    Layout,
    byte_order,
    read_format,
    read_layout,
    read_page,
)
from rtgauge.causes.tracefs.segments import (
    SWITCH,
    Sample,
    begun_at,
    is_entry,
    is_exit,
    segments_of,
    woken_elsewhere,
)
from rtgauge.facts import Facts
from rtgauge.facts.interpret import container, realtime_model

if TYPE_CHECKING:
    from rtgauge.store import StoredSeries, StoredStep
    from rtgauge.stream import Trace

__all__ = ["Kept", "Lost", "kept_of"]

LAST: Final = 5
"""Number of samples that are explained in addition to the largest of each series: the last."""
SAMPLES_LIMIT: Final = 1024
PAGES_LIMIT: Final = 2048
PAGE_LIMIT: Final = 1 << 17
FORMATS_LIMIT: Final = 64
BYTES_LIMIT: Final = 1 << 25
EVENTS_LIMIT: Final = 1 << 18
LOOKS_LIMIT: Final = 1 << 20
"""Number of events that are looked at, of all samples together."""
SEGMENTS_LEAST: Final = 500
SEGMENT_BYTES: Final = 32
"""A step has as many segments as its pages have times this number of bytes, and at least as many as
``SEGMENTS_LEAST``: a few bytes of a target would fill the memory otherwise."""
LATE_NS: Final = 500_000
"""By how much an event may come after its due time."""
AFTER_NS: Final = 20_000
"""Up to this after a sample the agent keeps all pages."""
LARGEST_LIMIT: Final = 64
"""Number of series of which the largest sample is explained."""
_LATE = (
    "The trace of its beginning is missing: it was overwritten before it was read. Use a lighter"
    " load, or measure on fewer CPUs."
)
_ELSEWHERE = (
    "Another CPU woke the thread, and the trace has only the events of the thread's CPU. The timer"
    " of a CPU with nohz_full may expire on another one."
)
_WAITED = "No event shows what the thread was waiting for during the remaining time."
_MUCH = "There were too many events at its end to keep."
_SWAPPED = "The trace was read during the sample. What came after that is not explained."
_LATER = "Its event came late, and the agent did not keep the trace up to its end."
_RAISED = (
    "The trace does not show when the event came that began this sample of a handler or softirq. A"
    " replay of an emulated board does."
)
_TIMERS: Final = ("hpet", "hrtimer")
"""Sources of interrupts that come when they are due."""
_CONTAINED = (
    "The agent ran in a container with process IDs of its own, but the trace has the"
    " machine's process IDs. Run the container with these (docker run --pid=host)."
)
_STACKLESS = "The kernel does not save stacks (CONFIG_STACKTRACE), so callers are unknown."
_MANY = "The trace has more events than rtgauge reads."


@dataclass(frozen=True, slots=True)
class Lost:
    """Why nothing could be explained, and what to do."""

    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A sample of which the trace was kept."""

    snapshot: int
    series: int
    index: int
    due_ns: int
    value: int
    cpu: int
    thread: int


@dataclass(frozen=True, slots=True)
class _Run:
    """Pages of a CPU without a gap."""

    snapshot: int
    begin_ns: int
    events: list[Event]
    gap_ns: int | None = None
    """Begin of the next pages of its snapshot. None after the last one."""
    lossy: bool = False
    """Events between these pages and the next ones were overwritten."""

    @property
    def end_ns(self) -> int:
        return self.events[-1].time_ns if self.events else self.begin_ns


@dataclass
class Kept:
    """What the trace of a step has. ``added_ns``: by how much its events delay a wake-up; None if
    nothing was traced."""

    lost: list[Lost] = field(default_factory=list)
    without_ns: int = 0
    with_ns: int = 0
    added_ns: int | None = None
    samples: list[_Chosen] = field(default_factory=list)
    dropped: int = 0
    """Number of samples that were to be kept, and for which there was no room."""
    _layout: bytes = b""
    _formats: dict[str, bytes] = field(default_factory=dict)
    _pages: dict[tuple[int, int, int], bytearray] = field(default_factory=dict)
    _omitted: set[int] = field(default_factory=set)
    _errors: dict[int, str] = field(default_factory=dict)
    _bytes: int = 0
    _cut: bool = False
    _looks: int = 0
    _segments: int = 0

    @property
    def asked(self) -> bool:
        """Whether a trace was asked for."""
        return self.added_ns is not None or bool(self.lost)

    # --- taking records in ---

    def take(self, record: Trace) -> None:
        """Memory is limited whatever the records say: samples and pages beyond it are left out."""
        fields = record.fields
        match record.part:
            case "format":
                self._take_format(str(fields["name"]), _bytes(fields["data"]))
            case "cost":
                self.without_ns, self.with_ns = _int(fields["without_ns"]), _int(fields["with_ns"])
                self.added_ns = self.with_ns - self.without_ns
            case "lost" if len(self.lost) < FORMATS_LIMIT:
                self.lost.append(Lost(str(fields["reason"]), str(fields["remedy"])))
            case "sample":
                names = ("snapshot", "series", "index", "due_ns", "value", "cpu", "thread")
                self.samples.append(_Chosen(*(_int(fields[name]) for name in names)))
                if len(self.samples) > SAMPLES_LIMIT:
                    self.samples = _chosen(self.samples)
            case "end":
                if _int(fields["omitted"]):
                    self._omitted.add(_int(fields["snapshot"]))
                if error := str(fields["error"]):
                    self._errors[_int(fields["snapshot"])] = (
                        f"The agent could not read the trace: {error}."
                    )
            case "dropped":
                self.dropped += _int(fields["samples"])

    def _take_format(self, name: str, data: bytes) -> None:
        if name == "header_page":
            self._layout = data
        elif len(self._formats) < FORMATS_LIMIT:
            self._formats[name] = data

    def take_page(self, record: Trace) -> None:
        """A page, after all other records: one that no chosen sample needs is left out."""
        fields = record.fields
        snapshot, cpu, number, at = (
            _int(fields[key]) for key in ("snapshot", "cpu", "number", "at")
        )
        place = (snapshot, cpu, number)
        page = self._pages.get(place)
        if page is None:
            if not self._needs(snapshot, cpu):
                return
            if len(self._pages) >= PAGES_LIMIT or self._bytes >= BYTES_LIMIT:
                self._cut = True
                return
            page = self._pages[place] = bytearray()
        if at == len(page) and at < PAGE_LIMIT:
            page += _bytes(fields["data"])
            self._bytes += len(page) - at

    def _needs(self, snapshot: int, cpu: int) -> bool:
        """A page of a snapshot may show a sample that was found in the next one."""
        return any(
            one.cpu == cpu and one.snapshot - 1 <= snapshot <= one.snapshot for one in self.samples
        )

    # --- giving causes ---

    @cached_property
    def _known(self) -> tuple[Layout, Mapping[int, Format]]:
        formats = {}
        for name, data in self._formats.items():
            one = read_format(name, data)
            if one is not None:
                formats[one.number] = one
        layout = read_layout(self._layout, "little")
        orders = Counter(byte_order(bytes(page), layout) for page in self._pages.values())
        return replace(layout, order=max(orders, key=orders.__getitem__, default="little")), formats

    @cached_property
    def _runs(self) -> Mapping[int, Sequence[_Run]]:
        """CPU -> pages that follow each other."""
        found: dict[int, list[_Run]] = {}
        before: tuple[int, int, int] = (-1, -1, -1)
        left = EVENTS_LIMIT
        for place in sorted(self._pages):
            if left <= 0:
                self._cut = True
                break
            snapshot, cpu, number = place
            page = read_page(bytes(self._pages[place]), *self._known)
            if page is None:
                continue
            runs = found.setdefault(cpu, [])
            follows = before == (snapshot, cpu, number - 1) and not page.missed
            before = place
            left -= len(page.events)
            if follows and runs:
                runs[-1].events.extend(page.events)
            else:
                if page.missed and runs and runs[-1].snapshot == snapshot:
                    runs[-1] = replace(runs[-1], lossy=True)
                runs.append(_Run(snapshot, page.begin_ns, list(page.events)))
        return {cpu: list(_with_gaps(runs)) for cpu, runs in found.items()}

    def cause(
        self,
        one: _Chosen,
        step: StoredStep,
        series: StoredSeries,
        usual_ns: int,
        *,
        threaded: bool,
        how: str = DUE,
    ) -> Cause:
        """Where the time of a chosen sample went. ``usual_ns``: the median of its series.
        ``threaded``: softirqs run in threads only. ``how``: how the sample began."""
        start_ns = step.header.start_ns if step.header else 0
        due_ns = one.due_ns + _offset(series, one.index)
        begin = start_ns + due_ns
        end = begin + max(one.value, 0)
        run = self._best(one, begin, end) if self._looks < LOOKS_LIMIT else None
        segments: tuple[Segment, ...] = ()
        rest, unseen = max(one.value, 0), ""
        timed = series.info.context == "irq" and series.info.labels.get("source") in _TIMERS
        if how == EVENT and not one.thread and not timed:
            unseen = _RAISED
        elif one.thread and container(Facts(step.facts)):
            unseen = _CONTAINED
        elif run is None:
            cut = self._cut or self._looks >= LOOKS_LIMIT
            unseen = self._errors.get(one.snapshot, "") or (_MANY if cut else _LATE)
        else:
            until = self._until(run, one, end)
            ended = _MUCH if run.snapshot == one.snapshot else _SWAPPED
            sample = Sample(begin, end, one.thread, run.begin_ns, until, usual_ns, threaded)
            if how == EVENT and one.thread:
                late = begun_at(replace(sample, end_ns=end + LATE_NS), run.events) - begin
                begin, end = begin + late, end + late
                until = self._until(run, one, end)
                if late > AFTER_NS:  # the agent kept the pages as if it had begun when it was due
                    until, ended = min(until, max(run.end_ns, end - late + AFTER_NS)), _LATER
                sample = replace(sample, due_ns=begin, end_ns=end, until_ns=until)
            room = max(SEGMENTS_LEAST, self._bytes // SEGMENT_BYTES) - self._segments
            segments, rest = segments_of(sample, run.events, room)
            self._looks += len(run.events)
            self._segments += len(segments)
            full = len(segments) == room
            if how == EVENT:
                segments = tuple(replace(each, certainty="inferred") for each in segments)
            if full:
                unseen = _MANY
            elif run.begin_ns > begin:
                unseen = self._errors.get(one.snapshot, _LATE)
            elif until < end:
                unseen = self._errors.get(one.snapshot, ended)
            elif woken_elsewhere(sample, run.events):
                unseen = _ELSEWHERE
            elif rest:
                unseen = _WAITED
        return Cause(
            step=step.number,
            series=one.series,
            context=series.info.context,
            index=one.index,
            due_ns=due_ns,
            latency_ns=one.value,
            segments=segments,
            rest_ns=rest + min(one.value, 0),
            source="tracefs" if self._layout else "module",  # whose pages have a fixed layout
            blame=blame(segments, one.value, usual_ns)[0],
            cost=Cost(self.added_ns or 0, self.cost_text + _stacks(run, begin, end)),
            unseen=unseen,
        )

    def _stackless(self, cause: Cause) -> str:
        """The module's events have stacks, unless the kernel it was built for saves none."""
        main = main_segment(cause.segments)
        if main is None or main.kind not in ("preemption-off", "interrupts-off"):
            return ""
        fields = {name for one in self._known[1].values() for name in one.fields}
        module = cause.source == "module" and "function" in fields
        return _STACKLESS if module and "stack" not in fields else ""

    def _best(self, one: _Chosen, begin: int, end: int) -> _Run | None:
        """The pages that reach back furthest, of those that show some of the sample."""
        runs = [
            run
            for run in self._runs.get(one.cpu, ())
            if run.begin_ns < end and self._until(run, one, end) > begin
        ]
        return min(
            runs,
            key=lambda run: (max(run.begin_ns, begin), run.snapshot != one.snapshot, -run.begin_ns),
            default=None,
        )

    def _until(self, run: _Run, one: _Chosen, end: int) -> int:
        """The time up to which pages show what happened. Those of the sample's own snapshot include
        all up to its end, unless there is a gap before it."""
        complete = run.snapshot == one.snapshot and not (
            run.snapshot in self._omitted or run.snapshot in self._errors
        )
        gap = run.lossy or (run.gap_ns is not None and run.gap_ns < end)
        return end if complete and not gap else run.end_ns

    @property
    def losses(self) -> list[str]:
        """Parts of the trace that should have been kept and were not, without a period."""
        found = []
        if self.dropped:
            samples = text.plural(self.dropped, "sample")
            found.append(f"the trace of {samples} was not kept, because there was no room for it")
        if self._errors:
            snapshots = text.plural(len(self._errors), "snapshot")
            found.append(f"{snapshots} of the trace could not be read completely")
        return found

    @property
    def cost_text(self) -> str:
        added = self.added_ns or 0
        delays = (
            f"delays a wake-up here by {text.time(added)}"
            if added > 0
            else "does not measurably delay a wake-up here"
        )
        return (
            f"the trace {delays}"
            f" ({text.time(self.without_ns)} without it, {text.time(self.with_ns)} with it, medians"
            " of 101 wake-ups before the run)"
        )

    def causes(
        self, step: StoredStep, usual_ns: Mapping[int, float | None], catalogue: Any = None
    ) -> Iterator[Cause]:
        """The causes of the chosen samples, in the order of time. ``usual_ns``: series -> its
        median. ``catalogue``: that of the run."""
        known = {series.info.series: series for series in step.series}
        threaded = realtime_model(step.facts) == "preempt_rt"
        for one in self.samples:
            series = known.get(one.series)
            if series is not None:
                usual = int(usual_ns.get(one.series) or 0)
                how = how_of(catalogue, step.document.get("measurement"), series.info)
                cause = self.cause(one, step, series, usual, threaded=threaded, how=how)
                if not ordinary(untraced_ns(cause.segments, one.value), usual):
                    outside = f"{self._stackless(cause)} {_outside(step, one.cpu, cause)}".strip()
                    cause = replace(cause, unseen=f"{cause.unseen} {outside}".strip())
                yield cause


def kept_of(step: StoredStep) -> Kept:
    """The trace that was kept of a step; empty if none was."""
    kept = Kept()
    if step.header is None or not len(step.trace):
        return kept
    for record in step.trace:
        kept.take(record)
    kept.samples = _chosen(kept.samples)
    for record in step.trace:
        if record.part == "page":
            kept.take_page(record)
    return kept


def _chosen(samples: Sequence[_Chosen]) -> list[_Chosen]:
    """The largest of each series, and the last ones, in the order of time."""
    largest: dict[int, _Chosen] = {}
    for one in samples:
        if one.series not in largest or one.value > largest[one.series].value:
            largest[one.series] = one
    first = heapq.nlargest(LARGEST_LIMIT, largest.values(), key=lambda one: one.value)
    ordered = sorted(samples, key=lambda one: one.due_ns)
    chosen = {id(one) for one in (*first, *ordered[-LAST:])}
    return [one for one in ordered if id(one) in chosen]


def _outside(step: StoredStep, cpu: int, cause: Cause) -> str:
    """What else may have taken the CPU: what was counted from the last reading of background
    activity before a sample to the first one after it. A trace does not show it."""
    end_ns = cause.due_ns + cause.latency_ns
    around = []
    for one in step.ambience:
        if one.time_ns > cause.due_ns:
            around.append(one)
        if one.time_ns >= end_ns:
            break
    if not around or around[-1].time_ns < end_ns:
        return ""
    found = []
    steal = sum(dict(zip(one.cpus, one.steal_ns or (), strict=False)).get(cpu, 0) for one in around)
    if 2 * steal >= cause.latency_ns:
        found.append(f"the hypervisor took {text.time(steal)} of this CPU")
    if smi := sum(one.smi or 0 for one in around):
        found.append(f"{text.plural(smi, 'system management interrupt')} occurred")
    return f"At about that time {' and '.join(found)}, which no trace shows." if found else ""


def _with_gaps(runs: Sequence[_Run]) -> Iterator[_Run]:
    """These pages of a CPU, each with the beginning of the next ones of its snapshot."""
    begins: dict[int, list[int]] = {}
    for run in runs:
        begins.setdefault(run.snapshot, []).append(run.begin_ns)
    for times in begins.values():
        times.sort()
    for run in runs:
        times = begins[run.snapshot]
        place = bisect.bisect_right(times, run.begin_ns)
        yield replace(run, gap_ns=times[place] if place < len(times) else None)


def _offset(series: StoredSeries, index: int) -> int:
    """How far a sample was due after its grid point."""
    if series.companion is None:
        return 0
    for chunk in series.companion.chunks():
        at = int(chunk.index.searchsorted(index))
        if at < len(chunk.index):
            return int(chunk.value[at]) if chunk.index[at] == index else 0
    return 0


def _stacks(run: _Run | None, begin: int, end: int) -> str:
    """The time that the module took for stacks between these times. It saves one at the end of the
    outermost handler, so each ends at the exit."""
    spent = depth = saved = 0
    for event in run.events if run is not None else ():
        if is_entry(event):
            saved = saved if depth else _int(event.fields.get("stack_ns"))
            depth += 1
        elif is_exit(event) and depth:
            depth -= 1
            if not depth:
                since = max(begin, event.time_ns - max(saved, 0))
                spent += max(0, min(end, event.time_ns) - since)
        elif event.name == SWITCH:
            depth = 0
    return f"; stacks took {text.time(spent)} of this sample" if spent > 0 else ""


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""
