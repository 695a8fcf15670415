# SPDX-License-Identifier: Apache-2.0
"""The background activity of a run in figures, and findings on what disturbed the run.

The records of a step (``StoredStep.ambience``) are read once, whatever their number. They give the
series of the step ``background``, the last one of the results model, and findings where a
hypervisor, the firmware or a changing clock disturbed the run. ``strips`` draws the same records
over time.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rtgauge import text as numbers
from rtgauge.facts import Facts
from rtgauge.facts.interpret import online_cpus

if TYPE_CHECKING:
    from rtgauge.facts import Fact
    from rtgauge.stream import Ambience

__all__ = [
    "CHECKS",
    "MEASUREMENT",
    "ROLE",
    "Extent",
    "Watched",
    "crowd",
    "crowded",
    "findings",
    "place",
    "series",
]

Document = dict[str, Any]

MEASUREMENT: Final = "background"
ROLE: Final = "background"
CHECKS: Final = ("steal-time", "smi", "frequency-change", "temperature", "other-programs")
"""The names of the findings. They are about the run, not about the configuration."""

STEADY: Final = 0.9
"""A clock is steady if its slowest reading is at least this share of its fastest."""
HOT_MC: Final = 95_000
"""Temperature (m°C) at which processors lower their clock, or are about to."""
SECOND_NS: Final = 1_000_000_000
STOLEN_STEP_NS: Final = 10_000_000
"""/proc/stat has hundredths of a second."""
OTHERS_CPUS: Final = 0.5
OTHERS_SHARE: Final = 0.1
"""Other programs keep a machine from being idle if they use half of a CPU, and a tenth of all."""
OTHERS_NS: Final = 30 * SECOND_NS
"""They must do so for this time, or for half of the step. Regular services need less."""
SHORT_NS: Final = SECOND_NS
"""A shorter step has no share of CPU time: each CPU's idle time has steps of 10 ms."""
STOLEN_STEPS: Final = 5
"""One step more or less changes a smaller number by more than a fifth: it gives no share."""


@dataclass
class Extent:
    """Min, mean and max of readings, each weighted with the time that it covers."""

    count: int = 0
    first: int | None = None
    min: int | None = None
    max: int | None = None
    rest_min: int | None = None
    rest_max: int | None = None
    sum: float = 0.0
    weight: float = 0.0
    rest_sum: float = 0.0
    rest_weight: float = 0.0

    def add(self, value: int, weight: float = 1.0, amount: float | None = None) -> None:
        """Add a reading. ``amount``: the value times its weight, if known more exactly."""
        amount = value * weight if amount is None else amount
        self.merge(Extent(1, value, value, value, sum=amount, weight=weight))

    def merge(self, later: Extent) -> None:
        """Add the readings of ``later``, which follow these in time."""
        if not self.count:
            self.__dict__.update(vars(later))
            return
        self.count += later.count
        self.min, self.max = _least(self.min, later.min), _largest(self.max, later.max)
        self.sum += later.sum
        self.weight += later.weight
        self.rest_min = _least(self.rest_min, later.min)
        self.rest_max = _largest(self.rest_max, later.max)
        self.rest_sum += later.sum
        self.rest_weight += later.weight

    @property
    def mean(self) -> float | None:
        """The mean; None without readings."""
        return self.sum / self.weight if self.weight > 0 else None

    @property
    def rest(self) -> dict[str, int | float | None]:
        """Min, mean and max of all readings but the first."""
        mean = self.rest_sum / self.rest_weight if self.rest_weight > 0 else None
        return {"min": self.rest_min, "mean": mean, "max": self.rest_max}


def _least(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _largest(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


def stolen_ns(record: Ambience, span_ns: int) -> list[int]:
    """For each CPU, the time (ns) that a hypervisor took in the ``span_ns`` before the
    record. Empty if it is not known.

    The kernel books it in steps of 10 ms when the CPU runs again, and may report more than the
    time between two readings. The excess belongs to the time before.
    """
    return [min(stolen, max(span_ns, 0)) for stolen in record.steal_ns or ()]


def busy_ns(record: Ambience, span_ns: int) -> list[int | None]:
    """For each CPU, the time (ns) in which it ran something in the ``span_ns`` before the record,
    interrupts included. None if it is not known; empty if no CPU's is.

    The kernel counts idle and stolen time in steps of 10 ms.
    """
    stolen = record.steal_ns or (0,) * len(record.cpus)
    return [
        None if idle is None else min(max(span_ns - idle - taken, 0), max(span_ns, 0))
        for idle, taken in zip(record.idle_ns or (), stolen, strict=False)
    ]


def around(records: Sequence[Ambience], begin_ns: int, end_ns: int) -> Sequence[Ambience]:
    """The last record before a sample, the records during it, and the first record after it. Empty
    without a record before it or without one after it."""
    first = bisect.bisect_right(records, begin_ns, key=lambda one: one.time_ns)
    last = bisect.bisect_left(records, end_ns, key=lambda one: one.time_ns)
    return records[first - 1 : last + 1] if first and last < len(records) else ()


Key = tuple[str, int, str]
"""Name, CPU (-1: none) and zone (empty: none) of a quantity."""

_UNITS: Final = {
    "frequency": "kHz",
    "interrupts": "1/s",
    "busy": "ns/s",
    "steal": "ns/s",
    "smi": "count",
    "temperature": "mC",
}


@dataclass
class Watched:
    """The records of one step, or of several in their order.

    ``steal_ns``: CPU -> all stolen time. ``smi``: None if they could not be counted. ``busy``: for
    each record after the first, its ``span_ns``, the number of CPUs whose idle time is known, and
    the time (ns) in which these ran something.
    """

    extents: dict[Key, Extent] = field(default_factory=dict)
    steal_ns: dict[int, int] = field(default_factory=dict)
    smi: int | None = None
    busy: list[tuple[int, int, int]] = field(default_factory=list)

    def step(self, records: Iterable[Ambience]) -> Watched:
        """Add the records of a step. Returns itself."""
        before: int | None = None
        for record in records:
            span_ns = record.time_ns - before if before is not None else 0
            before = record.time_ns
            self._state(record, max(span_ns, 1) / SECOND_NS)
            if span_ns > 0:
                self._counted(record, span_ns)
        return self

    def merge(self, later: Watched) -> None:
        """Add the activity of a later step."""
        for key, extent in later.extents.items():
            self.extents.setdefault(key, Extent()).merge(extent)
        for cpu, stolen in later.steal_ns.items():
            self.steal_ns[cpu] = self.steal_ns.get(cpu, 0) + stolen
        if later.smi is not None:
            self.smi = (self.smi or 0) + later.smi
        self.busy += later.busy

    def _extent(self, name: str, cpu: int = -1, zone: str = "") -> Extent:
        return self.extents.setdefault((name, cpu, zone), Extent())

    def _state(self, record: Ambience, weight: float) -> None:
        for cpu, khz in zip(record.cpus, record.frequency_khz, strict=True):
            if khz is not None:
                self._extent("frequency", cpu).add(khz, weight)
        for zone, value in record.temperature_mc.items():
            self._extent("temperature", zone=zone).add(value, weight)

    def _counted(self, record: Ambience, span_ns: int) -> None:
        """The counts since the previous record; the first record is only the reference."""
        seconds = span_ns / SECOND_NS
        steal = stolen_ns(record, span_ns)
        busy = busy_ns(record, span_ns)
        known = [used for used in busy if used is not None]
        if known:
            self.busy.append((span_ns, len(known), sum(known)))
        for name, counts in (
            ("interrupts", record.interrupts or ()),
            ("busy", busy),
            ("steal", steal),
        ):
            for cpu, number in zip(record.cpus, counts, strict=False):
                if number is None:
                    continue
                rate = round(number * SECOND_NS / span_ns)
                self._extent(name, cpu).add(rate, seconds, number)
        for cpu, stolen in zip(record.cpus, steal, strict=False):
            self.steal_ns[cpu] = self.steal_ns.get(cpu, 0) + stolen
        if record.smi is not None:
            self._extent("smi").add(record.smi)
            self.smi = (self.smi or 0) + record.smi

    @property
    def interrupts_per_s(self) -> float | None:
        """Interrupts of all CPUs per second; None if they were not counted."""
        means = [one.mean for (name, _, _), one in self.extents.items() if name == "interrupts"]
        return sum(mean for mean in means if mean is not None) if means else None

    @property
    def cpu_share(self) -> float | None:
        """The share of all CPU time that was used; None if it is not known."""
        if sum(span_ns for span_ns, _, _ in self.busy) < SHORT_NS:
            return None
        possible = sum(span_ns * cpus for span_ns, cpus, _ in self.busy)
        return sum(busy for _, _, busy in self.busy) / possible

    def clock(self, cpu: int) -> tuple[int, int] | None:
        """The slowest and the fastest reading of a CPU's clock in kHz."""
        found = self.extents.get(("frequency", cpu, ""))
        if found is None or found.min is None or found.max is None:
            return None
        return found.min, found.max


def series(watched: Watched, step: int, confidence: float) -> list[Document]:
    """The entries of the results model, in the order frequency, interrupts, steal, smi,
    temperature; within it by CPU.

    Readings are not independent, and do not show what happened between them. Therefore there are no
    percentiles, and the bound claims nothing.
    """
    names = list(_UNITS)
    keys = sorted(watched.extents, key=lambda key: (names.index(key[0]), *key[1:]))
    return [_entry(key, watched.extents[key], step, confidence) for key in keys]


def _entry(key: Key, extent: Extent, step: int, confidence: float) -> Document:
    name, cpu, zone = key
    return {
        "step": step,
        "measurement": MEASUREMENT,
        "name": name,
        "context": "",
        "labels": {"zone": zone} if zone else {},
        "unit": _UNITS[name],
        "cpu": cpu,
        "thread": -1,
        "policy": "",
        "priority": 0,
        "interval_ns": 0,
        "stamp_ns": None,
        "count": extent.count,
        "first": extent.first,
        "min": extent.min,
        "mean": extent.mean,
        "max": extent.max,
        "max_at": None,
        "max_at_least": None,
        "unanswered": 0,
        "percentiles": {},
        "percentile_ci": {},
        "effective_samples": None,
        "clustering": None,
        "spread": None,
        "rest": extent.rest,
        "missed": 0,
        "lost": 0,
        "overruns": 0,
        "corrected": None,
        "bound": {
            "samples": 0,
            "effective_samples": 0,
            "duration_s": 0.0,
            "confidence": confidence,
            "probability": 1.0,
            "rate_per_hour": None,
            "period_s": None,
        },
        "composed": None,
        "source": "samples",
        "histogram": [],
    }


# --- findings ------------------------------------------------------------------------------


def findings(steps: Sequence[tuple[str, Sequence[int], Watched]]) -> list[Document]:
    """Findings on background activity that limits the figures: each kind once, with its worst step.

    ``steps``: for each its name, the CPUs measured (none: all of them) and its activity.
    """
    found = [check(steps) for check in (_steal, _smi, _clock, _heat)]
    return [one for one in found if one is not None]


_Steps = Sequence[tuple[str, Sequence[int], Watched]]


def place(measurement: str, step: int) -> str:
    """The name of a step in a finding."""
    return f"{measurement} (step {step + 1})"


def _others(many: int) -> str:
    return f", and in {numbers.plural(many - 1, 'other step')}" if many > 1 else ""


def crowd(facts: Mapping[str, Fact]) -> Document | None:
    """The other programs that kept all CPUs busy when a step without a load began; None if they
    did not, or if that is not known.

    Both more tasks than CPUs must have been ready to run, without the agent's own one, and the load
    average must be above the number of CPUs: the count alone is one moment, and the average of a
    minute alone may come from an earlier step. /proc/loadavg: proc(5).
    """
    known = Facts(facts)
    found = re.match(r"(\d{1,9}\.\d{1,6}) \S+ \S+ (\d{1,9})/", known.text("/proc/loadavg") or "")
    online = online_cpus(known)
    if found is None or not online:
        return None
    average, others, cpus = float(found[1]), int(found[2]) - 1, len(online)
    if others <= cpus or average <= cpus:
        return None
    return {"ready": others, "cpus": cpus, "load_average": average}


def used(watched: Watched, own_ns: int) -> Document | None:
    """The other programs that used CPU time during a step without a load; None if they used
    little, or if that is not known.

    ``own_ns``: CPU time of the agent in the step. It is taken to be spread evenly, and where it was
    not, other programs get no more than it leaves in the whole step. What neither the agent nor an
    idle CPU accounts for belongs to other programs, and to interrupts.
    """
    whole_ns = sum(span_ns for span_ns, _, _ in watched.busy)
    long_ns, others_ns, most = 0, 0.0, 0
    for span_ns, cpus, busy in watched.busy:
        others = busy - own_ns * span_ns / whole_ns
        if others >= max(OTHERS_CPUS, OTHERS_SHARE * cpus) * span_ns:
            long_ns, others_ns, most = long_ns + span_ns, others_ns + others, max(most, cpus)
    others_ns = min(others_ns, sum(busy for _, _, busy in watched.busy) - own_ns)
    if whole_ns < SHORT_NS or long_ns < min(OTHERS_NS, whole_ns / 2):
        return None
    if others_ns < max(OTHERS_CPUS, OTHERS_SHARE * most) * long_ns:
        return None
    return {"cpus": most, "used": others_ns / long_ns, "time_s": long_ns / SECOND_NS}


def _programs(others: Document) -> str:
    cpus = numbers.plural(others["cpus"], "CPU")
    if "used" in others:
        time = numbers.time(round(others["time_s"] * SECOND_NS))
        return f"for {time}, other programs used the time of {others['used']:.2g} of {cpus}"
    return (
        f"{numbers.count(others['ready'])} tasks of other programs were ready to run on {cpus} at "
        f"its start, with a load average of {others['load_average']:.3g}"
    )


def _pressure(step: Mapping[str, Any]) -> tuple[float, float]:
    """How much other programs disturbed a step: CPUs in use (all, if only its start is known), and
    the load average."""
    others = step["load"]["others"]
    return others.get("used", others["cpus"]), others.get("load_average", 0.0)


def crowded(steps: Iterable[Mapping[str, Any]]) -> list[Document]:
    """The finding on other programs in these steps of the results model, with the worst step."""
    found = [one for one in steps if one["role"] == "measurement" and "others" in one["load"]]
    if not found:
        return []
    worst = max(found, key=_pressure)
    return [
        {
            "check": "other-programs",
            "found": f"{place(worst['measurement'], worst['step'])}: "
            f"{_programs(worst['load']['others'])}{_others(len(found))}",
            "level": "warning",
            "why": "the machine was not idle: the latencies contain the delays that other programs "
            "cause",
            "remedy": "stop the other programs on the target, and measure again",
        }
    ]


def _steal(steps: _Steps) -> Document | None:
    worst: list[tuple[bool, float, str, int, float]] = []
    for where, cpus, watched in steps:
        stolen = {
            cpu: ns for cpu, ns in watched.steal_ns.items() if ns and (not cpus or cpu in cpus)
        }
        if stolen:
            cpu = max(stolen, key=lambda cpu: stolen[cpu])
            one = watched.extents["steal", cpu, ""]
            if stolen[cpu] >= STOLEN_STEPS * STOLEN_STEP_NS:
                share = (one.mean or 0) / SECOND_NS
                worst.append((True, share, where, cpu, (one.max or 0) / SECOND_NS))
            else:
                worst.append((False, one.weight, where, cpu, stolen[cpu]))
    if not worst:
        return None
    as_share, most, where, cpu, other = max(worst)
    if as_share:
        taken = f"{numbers.percent(most)} of the time of CPU {cpu} in {where}, "
        taken += f"up to {numbers.percent(other)} between two readings"
    else:
        taken = f"{numbers.time(other)} from CPU {cpu} in {where}, "
        taken += f"counted in steps of {numbers.time(STOLEN_STEP_NS)}"
    return {
        "check": "steal-time",
        "found": f"a hypervisor took {taken}{_others(len(worst))}",
        "level": "warning",
        "why": "while the hypervisor runs something else, the measured task does not run: such "
        "latencies come from the hypervisor, not from this system",
        "remedy": "measure on the physical machine, or give each virtual CPU a host CPU of its own",
    }


def _smi(steps: _Steps) -> Document | None:
    worst = [(watched.smi, where) for where, _, watched in steps if watched.smi]
    if not worst:
        return None
    count, where = max(worst)
    return {
        "check": "smi",
        "found": f"{numbers.count(count)} system management "
        f"{'interrupt' if count == 1 else 'interrupts'} in {where}" + _others(len(worst)),
        "level": "warning",
        "why": "each stops all CPUs, and the kernel does not see it: the highest latencies may "
        "come from the firmware",
        "remedy": "turn off their causes in the firmware setup (legacy USB, power capping, board "
        "monitoring), and measure again",
    }


def _clock(steps: _Steps) -> Document | None:
    worst: list[tuple[float, str, int, tuple[int, int]]] = []
    for where, cpus, watched in steps:
        clocks = {
            cpu: clock
            for name, cpu, _ in watched.extents
            if name == "frequency" and (not cpus or cpu in cpus)
            if (clock := watched.clock(cpu)) is not None and clock[0] < STEADY * clock[1]
        }
        if clocks:
            cpu = min(clocks, key=lambda cpu: clocks[cpu][0] / clocks[cpu][1])
            low, high = clocks[cpu]
            worst.append((low / high, where, cpu, clocks[cpu]))
    if not worst:
        return None
    _, where, cpu, (low, high) = min(worst)
    return {
        "check": "frequency-change",
        "found": f"the clock of CPU {cpu} varied between {numbers.count(low / 1000)} and "
        f"{numbers.count(high / 1000)} MHz in {where}" + _others(len(worst)),
        "level": "warning",
        "why": "a CPU with a lower clock needs longer for the same path, and each change takes "
        "time (a processor that gets too hot lowers its clock by itself)",
        "remedy": "use the performance governor (--prepare sets it), and improve the cooling if "
        "the clock still falls",
    }


def _heat(steps: _Steps) -> Document | None:
    hot = [
        (extent.max, where, zone)
        for where, _, watched in steps
        for (name, _, zone), extent in watched.extents.items()
        if name == "temperature" and extent.max is not None and extent.max >= HOT_MC
    ]
    if not hot:
        return None
    most, where, zone = max(hot)
    return {
        "check": "temperature",
        "found": f"{most / 1000:.0f} °C at {zone} in {where}"
        + _others(len({where for _, where, _ in hot})),
        "level": "warning",
        "why": "near its temperature limit a processor lowers its clock, and everything takes "
        "longer",
        "remedy": "improve the cooling, and measure again",
    }
