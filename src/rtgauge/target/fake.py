# SPDX-License-Identifier: Apache-2.0
"""A target that does not exist: an agent of its own making, on a clock of its own.

Everything from sample to report runs against it without hardware, without privilege and without
waiting, and comes out the same each time. Faults are put in by name: ``fake:cut``,
``fake:exit=1``, several separated by commas. ``fake:realtime`` runs on the real clock.
"""

from __future__ import annotations

import errno
import importlib.resources
import itertools
import json
import math
import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.catalogue import Catalogue, Measurement
from rtgauge.clock import Clock, FakeClock, RealClock
from rtgauge.errors import TargetError, UsageError, nearest
from rtgauge.stream import RecordType, StreamWriter, Tally
from rtgauge.units import parse_cpus

__all__ = ["CATALOGUE", "FAULTS", "FakeAgent", "FakeTarget"]

NS: Final = 10**9
COUNTED: Final = ("busy", "cpus", "disturbed", "exit")
BLOCK_NS: Final = NS // 4
SNAPSHOT_NS: Final = 5 * NS
PART: Final = 15_000  # samples in one record
CPUS: Final = 2
INT32: Final = 2**31
#: Real time of each block without an end, s: else the samples of a minute are those of a day.
ENDLESS_S: Final = 0.005
# Samples after which goes wrong what would half way, where no end is known.
HALF_WAY: Final = 50

FAULTS: Final = {
    "babbles": "half way the stream turns into noise without end, until told to stop",
    "cpus": "cpus=N: the target has N CPUs, not 2",
    "cut": "the stream breaks off inside a record and the agent is killed",
    "busy": "busy=N: the first N agents find another agent measuring",
    "disturbed": "disturbed=N: the first N agents that measure are kept from the CPU",
    "exit": "exit=N: the agent writes nothing and ends with code N",
    "fails": "the step fails half way, with a reason",
    "garbage": "half way the stream turns into noise",
    "hang": "half way the agent falls silent and does not stop when told",
    "hostile": "the stream is noise from its first byte on",
    "late": "latencies are a thousand times as large",
    "load-dies": "the load ends half way",
    "load-stalls": "the load stalls half way, and the agent continues to its end",
    "lost": "a record is lost on the way",
    "missing": "there is no agent on the target",
    "mute": "the agent ends normally and on time, without a sample",
    "newer": "the stream has a future version",
    "noisy": "the agent prints many lines on stderr",
    "overloaded": "half of the periods are missed, a tenth of a second at a time",
    "overtime": "the agent does not end by itself",
    "realtime": "runs on the real clock",
    "refuses": "the agent refuses its arguments",
    "silent": "half way the agent falls silent, but stops when told",
    "skipped": "nothing can be measured here",
    "stubborn": "the agent neither ends nor stops when told",
    "undescribed": "the agent's description is invalid",
    "unready": "the step fails when its series are declared: its loads do not come up",
    "unprivileged": "the agent runs without root's rights",
    "untuned": "the system is not set up for real time",
    "known-limitation": "tests of known limitations of the C library fail",
    "verdict-fails": "the verdicts fail",
}

_COMMON: Final = [
    {"name": "for", "type": "duration", "default": "10s", "min": "0", "max": "30d",
     "help": "how long to measure; 0: until all samples are taken"},
    {"name": "samples", "type": "integer", "default": "0", "min": "0", "max": "1000000000",
     "help": "number of samples of each series; 0: no limit"},
    {"name": "cpu", "type": "cpus", "default": "all", "help": "the CPUs to measure on"},
    {"name": "priority", "type": "integer", "default": "95", "min": "1", "max": "99",
     "help": "real-time priority of the measuring threads"},
]  # fmt: skip

# The options of measurements that run until they are stopped.
_UNTIL_STOPPED: Final = [
    {**option, "default": "0"} if option["name"] == "for" else option for option in _COMMON
]


def _run_options() -> list[dict[str, Any]]:
    """The options of every run, as the agent described them when they were recorded
    (``tools/run_options.py``)."""
    file = importlib.resources.files("rtgauge.target").joinpath("run_options.json")
    recorded: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return recorded


CATALOGUE: Final[Mapping[str, Any]] = {
    "format": "rtgauge-catalogue",
    "version": 1,
    "agent": "fake",
    "libc": "none",
    "measurements": [
        {
            "name": "timer",
            "code": "",
            "summary": "made-up timer latency",
            "role": "measurement",
            "chapter": "Timer latency",
            "contexts": ["user"],
            "options": [
                *_COMMON,
                {"name": "interval", "type": "duration", "default": "1ms", "min": "20us",
                 "max": "1h", "help": "period of the timer"},
                {"name": "method", "type": "enums", "default": "clock_nanosleep",
                 "values": ["clock_nanosleep", "nanosleep", "timer", "itimer", "timerfd",
                            "deadline"],
                 "help": "how the task waits; several: side by side"},
                {"name": "dither", "type": "flag", "default": "no",
                 "help": "spread the due times"},
            ],
            "series": [{"name": "latency", "unit": "ns", "meaning": "due time to running",
                        "from": "due time", "to": "the task runs",
                        "stages": ["timer interrupt", "handler", "wake-up", "switch"]}],
            "tables": [],
            "verdicts": [],
            "evaluate": [{"parameters": {"for": "20s"}, "thorough": {"for": "10m"},
                          "load": "idle"},
                         {"parameters": {"for": "20s"}, "thorough": {"for": "20m"},
                          "load": "sched"}],
        },
        {
            "name": "clock-cost",
            "code": "CAL-P-TRC",
            "summary": "made-up cost of reading the clock",
            "role": "calibration",
            "chapter": "Calibration",
            "contexts": ["user"],
            "options": [{"name": "cpu", "type": "cpus", "default": "all",
                         "help": "the CPUs to measure on"}],
            "series": [{"name": "cost", "unit": "ns", "meaning": "one reading",
                        "from": "before", "to": "after", "stages": ["read"]}],
            "tables": [{"name": "clocks", "meaning": "resolution of each clock"}],
            "verdicts": [],
            "evaluate": [],
        },
        {
            "name": "pendulum",
            "code": "",
            "summary": "a measurement that the host does not know",
            "role": "measurement",
            "not_on_cobalt": "its string exists only on Linux",
            "contexts": ["user"],
            "options": [
                *_COMMON,
                {"name": "bobs", "type": "integer", "default": "3", "min": "1", "max": "100",
                 "help": "how many bobs hang from the string"},
                {"name": "string", "type": "size", "default": "1KiB", "min": "1", "max": "1MiB",
                 "help": "length of the string"},
                {"name": "medium", "type": "enum", "default": "air",
                 "values": ["air", "water", "honey"], "help": "what it swings in"},
            ],
            "series": [{"name": "swing", "unit": "ns", "meaning": "from one side to the other",
                        "from": "left", "to": "right", "stages": ["fall", "rise"]},
                       {"name": "visitors", "unit": "count", "meaning": "number of visitors",
                        "from": "", "to": "", "stages": []}],
            "tables": [{"name": "bobs", "meaning": "what became of each bob"}],
            "verdicts": [{"rule": "comes-back", "meaning": "what swings out swings back"},
                         {"rule": "stops", "meaning": "what swings comes to rest",
                          "known_limitation": "no pendulum of this library stops"}],
            "evaluate": [{"parameters": {"for": "5s", "medium": "water"},
                          "thorough": {"for": "1m", "bobs": "9"}, "load": "idle"}],
        },
        {
            "name": "telescope",
            "code": "",
            "summary": "needs a device that this target does not have",
            "role": "measurement",
            "needs": "module",
            "contexts": ["user"],
            "options": [*_COMMON],
            "series": [{"name": "distance", "unit": "ns", "meaning": "", "from": "", "to": "",
                        "stages": []}],
            "tables": [],
            "verdicts": [],
            "evaluate": [{"parameters": {}, "load": "idle"}],
        },
        {
            "name": "response",
            "code": "",
            "summary": "made-up answers to made-up events",
            "role": "measurement",
            "answers": True,
            "contexts": ["user"],
            "options": [
                *_UNTIL_STOPPED,
                {"name": "interval", "type": "duration", "default": "30ms", "min": "20us",
                 "max": "1h", "help": "from one event to the next"},
                {"name": "line", "type": "text", "default": "", "help": "output and input"},
                {"name": "context", "type": "enums", "default": "user",
                 "values": ["irq", "kernel", "user"], "help": "context of the answers"},
                {"name": "edge", "type": "enum", "default": "both",
                 "values": ["both", "rising", "falling"], "help": "what is an event"},
            ],
            "series": [{"name": "answer", "unit": "ns", "meaning": "event to answer",
                        "from": "edge", "to": "answered", "stages": ["wake-up"]}],
            "tables": [{"name": "events", "meaning": "how many"}],
            "verdicts": [],
            "evaluate": [],
        },
        {
            "name": "log-host",
            "code": "",
            "summary": "made-up events and the answers to them",
            "role": "measurement",
            "times": "response",
            "contexts": ["user"],
            "options": [
                *_UNTIL_STOPPED,
                {"name": "interval", "type": "duration", "default": "30ms", "min": "20us",
                 "max": "1h", "help": "from one event to the next"},
                {"name": "line", "type": "text", "default": "", "help": "output and input"},
                {"name": "answered-by", "type": "enum", "default": "user",
                 "values": ["user", "kernel", "irq"], "help": "context of the answers"},
                {"name": "edge", "type": "enum", "default": "both",
                 "values": ["both", "rising", "falling"], "help": "what is an event"},
            ],
            "series": [{"name": "response", "unit": "ns", "meaning": "event to answer",
                        "from": "raised", "to": "answered", "stages": ["interrupt"]}],
            "tables": [{"name": "answers", "meaning": "how many"}],
            "verdicts": [{"rule": "every-event-answered", "meaning": "each event is answered"}],
            "evaluate": [],
        },
    ],
    "run_options": _run_options(),
    "loads": [
        {"name": "sched", "summary": "made-up messages", "unit": "messages",
         "options": [{"name": "groups", "type": "integer", "default": "4", "min": "1",
                      "max": "1000", "help": "how many groups"},
                     {"name": "transport", "type": "enum", "default": "socket",
                      "values": ["socket", "pipe"], "help": "what the messages go through"}]},
        *({"name": name, "summary": summary, "unit": unit, "options": []}
          for name, summary, unit in (
              ("cpu", "made-up loops", "loops"), ("net", "made-up packets", "bytes"),
              ("copy", "made-up copies", "bytes"), ("walk", "made-up listings", "files"))),
    ],
    "load_options": [
        {"name": "restart", "type": "duration", "default": "0", "min": "0", "max": "1d",
         "help": "restart it after each interval of this length; 0: never"},
        {"name": "cycle", "type": "duration", "default": "0", "min": "0", "max": "1d",
         "help": "length of a cycle in which it works from … until; 0: none"},
        {"name": "from", "type": "duration", "default": "0", "min": "0", "max": "1d",
         "help": "start time in each cycle"},
        {"name": "until", "type": "duration", "default": "0", "min": "0", "max": "1d",
         "help": "end time in each cycle; 0: end of the cycle"},
    ],
    "profiles": [
        {"name": "doload", "summary": "hackbench 1, network bursts, dd and ls -lR /",
         "mix": "sched:restart=5s:cycle=65s,net:cycle=14s:until=7s,copy,walk"},
    ],
}  # fmt: skip

_CPU: Final = "/sys/devices/system/cpu/"
_FACTS: Final[Mapping[str, str | int | None]] = {
    "uname.sysname": "Linux",
    "uname.nodename": "fake",
    "uname.release": "6.12.0-fake-rt",
    "uname.version": "#1 SMP PREEMPT_RT Fake",
    "uname.machine": "x86_64",
    "/sys/kernel/realtime": "1",
    "/boot/config-6.12.0-fake-rt": "CONFIG_HIGH_RES_TIMERS=y\nCONFIG_NO_HZ_IDLE=y\nCONFIG_HZ=250\n"
    "# CONFIG_RT_GROUP_SCHED is not set",
    "/proc/cmdline": "quiet",
    "/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\n"
    "model name\t: Fake Processor\nflags\t\t: fpu tsc",
    "/proc/irq/default_smp_affinity": "3",
    "/proc/self/ns/pid": "pid:[4026531836]",
    "/proc/self/status": "CapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-1",
    "/proc/stat": "cpu  20 0 20 960 0 0 0 0 0 0\ncpu0 10 0 10 480 0 0 0 0 0 0\n"
    "cpu1 10 0 10 480 0 0 0 0 0 0",
    "/proc/sys/kernel/sched_rt_period_us": "1000000",
    "/proc/sys/kernel/sched_rt_runtime_us": "950000",
    "/sys/class/dmi/id/sys_vendor": "Fake",
    "/sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    _CPU + "online": f"0-{CPUS - 1}",
    _CPU + "isolated": "",
    _CPU + "nohz_full": "",
    _CPU + "smt/active": "0",
    _CPU + "smt/control": "notsupported",
    _CPU + "cpuidle/current_driver": "fake_idle",
    **{
        name.replace("#", str(cpu)): value
        for cpu in range(CPUS)
        for name, value in {
            _CPU + "cpu#/topology/thread_siblings_list": str(cpu),
            _CPU + "cpu#/cpufreq/scaling_driver": "fake",
            _CPU + "cpu#/cpufreq/scaling_governor": "performance",
            _CPU + "cpu#/cpuidle/state0/name": "POLL",
            _CPU + "cpu#/cpuidle/state0/latency": "0",
            _CPU + "cpu#/cpuidle/state0/disable": "0",
            _CPU + "cpu#/cpuidle/state1/name": "C1",
            _CPU + "cpu#/cpuidle/state1/latency": "2",
            _CPU + "cpu#/cpuidle/state1/disable": "0",
            _CPU + "cpu#/thermal_throttle/core_throttle_count": "0",
            "/sys/kernel/debug/sched/fair_server/cpu#/runtime": "50000000",
        }.items()
    },
    "/proc/irq/*/effective_affinity_list": "9=0\n24=1",
    "/proc/irq/*/smp_affinity_list": "9=0-1\n24=0-1",
    "/proc/meminfo": "MemTotal: 1048576 kB\nSwapTotal: 0 kB",
    "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority",
    "/proc/sys/kernel/nmi_watchdog": "0",
    "/proc/sys/kernel/numa_balancing": None,
    "/proc/sys/kernel/soft_watchdog": "1",
    "/proc/sys/kernel/timer_migration": "1",
    "/proc/sys/kernel/watchdog": "1",
    "/proc/sys/kernel/watchdog_thresh": "10",
    "/sys/devices/virtual/workqueue/cpumask": "3",
    "/sys/kernel/debug/sched/features": "RT_PUSH_IPI NO_RT_RUNTIME_SHARE",
    "/sys/kernel/irq/*/actions": "9=acpi\n24=fake",
    "/sys/kernel/mm/ksm/run": "0",
    "/sys/kernel/mm/transparent_hugepage/enabled": None,
    "/sys/kernel/rcu_expedited": "0",
    "/sys/kernel/rcu_normal": "1",
    _CPU + "intel_pstate/no_turbo": "1",
    _CPU + "vulnerabilities": "l1tf=Not affected",
    **{
        name: None
        for name in (
            _CPU + "cpu0/cpufreq/energy_performance_preference",
            _CPU + "cpu0/power/energy_perf_bias",
            "/sys/class/net/*/queues/rx-0/rps_cpus",
            "/sys/devices/system/edac/mc/mc0",
            "/sys/devices/system/machinecheck/machinecheck0/check_interval",
            "/sys/fs/resctrl",
            "/sys/kernel/iommu_groups/*/type",
            "/sys/module/edac_core/parameters/edac_mc_poll_msec",
            "/sys/module/pcie_aspm/parameters/policy",
            "/sys/module/usbcore/parameters/autosuspend",
        )
    },
    "agent.daemons": "",
    "/sys/kernel/tracing/current_tracer": "nop",
    "/sys/kernel/tracing/events/enable": "0",
    "agent.realtime_tasks": "1 99 2 0 migration/0\n1 99 2 1 migration/1\n1 50 2 0-1 irq/9-acpi\n"
    "1 50 2 0-1 irq/24-fake\n1 1 2 0 ktimers/0\n1 1 2 1 ktimers/1",
    "agent.smi_count": 0,
    "agent.clock_getres_ns": 1,
    "agent.clock_getres_coarse_ns": 4_000_000,
    "agent.cpus_online": CPUS,
    "agent.libc": "none",
    "agent.uid": 0,
    "agent.fifo": 0,
    "agent.fifo_priority": 99,
    "agent.rlimit_memlock": -1,
    "agent.rlimit_rtprio": 99,
    "agent.rlimit_rttime": -1,
    "agent.dma_latency": 0,
    "agent.module": errno.ENOENT,
}
_UNPRIVILEGED: Final[Mapping[str, str | int | None]] = {
    "agent.uid": 1000,
    "agent.fifo": errno.EPERM,
    "agent.fifo_priority": None,
    "agent.dma_latency": errno.EACCES,
}
#: A distribution's kernel that is not set up for real time.
_UNTUNED: Final[Mapping[str, str | int | None]] = {
    "uname.version": "#1 SMP PREEMPT_DYNAMIC Fake",
    "/sys/kernel/realtime": None,
    "/sys/kernel/debug/sched/preempt": "none (voluntary) full",
    "/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
    "/proc/sys/kernel/nmi_watchdog": "1",
    "/proc/sys/kernel/numa_balancing": "1",
    "/proc/swaps": "Filename\tType\tSize\tUsed\tPriority\n/dev/fake2 partition 1048576 2048 -2",
    **{_CPU + f"cpu{cpu}/cpufreq/scaling_governor": "schedutil" for cpu in range(CPUS)},
}


def _faults(detail: str) -> dict[str, str]:
    faults: dict[str, str] = {}
    for word in filter(None, detail.split(",")):
        name, _, value = word.partition("=")
        if name not in FAULTS:
            raise UsageError(f"target 'fake' has no fault '{name}'", nearest(name, FAULTS))
        if name in COUNTED and not re.fullmatch("[0-9]{1,4}", value):
            raise UsageError(f"target 'fake': {name} takes a number", f"write fake:{name}=1")
        faults[name] = value
    return faults


class FakeTarget:
    """The target ``fake``; ``catalogue`` and ``clock`` may be others, for tests."""

    def __init__(
        self,
        detail: str = "",
        *,
        catalogue: Mapping[str, Any] = CATALOGUE,
        clock: Clock | None = None,
    ) -> None:
        self.name = f"fake:{detail}" if detail else "fake"
        self._faults = _faults(detail)
        self.clock: Clock = clock or (RealClock() if "realtime" in self._faults else FakeClock())
        self._catalogue = catalogue
        self._left = {name: int(self._faults.pop(name, 0)) for name in ("busy", "disturbed")}

    def describe(self) -> str:
        """The made-up catalogue."""
        if "missing" in self._faults:
            raise TargetError("there is no agent on target 'fake'", "choose another target")
        if "undescribed" in self._faults:
            return "Hello! I am an agent."
        return json.dumps(self._catalogue)

    def environment(self) -> bytes:
        """Header and environment of the made-up machine."""
        writer, privileged = StreamWriter(), "unprivileged" not in self._faults
        header = _header(writer, self.clock, privileged, measurement="environment")
        return header + writer.environment(self._facts())

    def start(self, arguments: Sequence[str]) -> FakeAgent:
        """Start a made-up agent; calibrations have no faults, so that each comes but once."""
        request = self._request(list(arguments))
        faults = self._faults if request.measurement.role == "measurement" else {}
        for always in ("unprivileged", "cpus"):
            if always in self._faults:
                faults = {**faults, always: self._faults[always]}
        for name, left in self._left.items():
            if left and (name == "busy" or request.measurement.role == "measurement"):
                self._left[name] -= 1
                faults = {**faults, name: ""}
                break
        return FakeAgent(request, faults, self.clock, self._facts())

    def close(self) -> None:
        """Nothing to leave behind."""

    def _facts(self) -> dict[str, str | int | None]:
        facts = dict(_FACTS)
        if "unprivileged" in self._faults:
            facts.update(_UNPRIVILEGED)
        if "untuned" in self._faults:
            facts.update(_UNTUNED)
        if "cpus" in self._faults:
            cpus = max(1, int(self._faults["cpus"]))
            facts.update({_CPU + "online": f"0-{cpus - 1}", "agent.cpus_online": cpus})
        return facts

    def _request(self, words: list[str]) -> _Request:
        if words[:1] != ["run"]:
            raise TargetError(
                "the fake agent can only 'run'", f"use --target local for '{' '.join(words[:1])}'"
            )
        catalogue = Catalogue.from_document(dict(self._catalogue))
        measurement = catalogue.measurement(words[1])
        given: dict[str, str] = {}
        flags = [f"--{option.name}" for option in catalogue.run_options if option.type == "flag"]
        rest = [word for word in words[2:] if word not in flags]
        for name, value in zip(rest[::2], rest[1::2], strict=True):
            given[name.removeprefix("--")] = value
        return _Request(
            measurement,
            {option.name: given.get(option.name, option.default) for option in measurement.options},
            {name for name in given if measurement.has(name)},
            catalogue.normalise_load(given.get("load", "idle")),
            _parts_of_load(catalogue, given.get("load", "idle"), given.get("load-cmd", "")),
            given.get("load-cmd", ""),
            given.get("disturb", ""),
            given.get("core", "auto"),
            given.get("run", ""),
            int(given.get("step", "0")),
            "--histogram-only" in words,
            "--keep-settings" in words,
        )


@dataclass(frozen=True)
class _Request:
    """The arguments of the fake agent."""

    measurement: Measurement
    parameters: Mapping[str, str]
    given: set[str]
    load: str
    loads: Mapping[str, str]
    command: str
    disturb: str
    core: str
    run: str
    step: int
    histogram_only: bool
    keep_settings: bool

    def number(self, name: str) -> int:
        if not self.measurement.has(name):
            return 0
        return self.measurement.option(name).number(self.parameters[name])


def _parts_of_load(catalogue: Catalogue, text: str, command: str) -> dict[str, str]:
    """The loads that are at work, each with its unit; profiles taken apart."""
    names = [] if text == "idle" else [part.partition(":")[0] for part in text.split(",")]
    units = {}
    for name in names:
        profile = catalogue.profiles.get(name)
        mix = [part.partition(":")[0] for part in profile.mix.split(",")] if profile else [name]
        units.update({one: catalogue.load(one).unit for one in mix})
    return {**units, "command": "ms"} if command else units


def _clocks(clock: Clock) -> dict[str, int]:
    passed = int(clock.monotonic() * NS)
    realtime = min(int(clock.now().timestamp() * NS), 2**63 - 1)
    return {"monotonic_ns": passed, "boottime_ns": passed, "realtime_ns": realtime}


def _header(writer: StreamWriter, clock: Clock, privileged: bool, **fields: object) -> bytes:
    return writer.header(
        agent="fake",
        libc="none",
        compiler="none",
        machine="x86_64",
        boot_id="00000000-0000-4000-8000-00000000fa4e",
        privileged=privileged,
        clock=_clocks(clock),
        start_ns=int(clock.monotonic() * NS),
        **fields,
    )


class _FakeSeries:
    """The samples of one series and what is counted of them."""

    def __init__(self, declaration: dict[str, Any], seed: Sequence[int]) -> None:
        self.declaration = declaration
        self.tally = Tally(declaration["series"])
        self.random = np.random.default_rng(list(seed))

    def draw(self, count: int, factor: int) -> NDArray[np.int64]:
        """The next samples: a body of a few microseconds and a thin tail."""
        if self.declaration["unit"] == "count":
            values = self.random.integers(0, 12, count)
        else:
            values = (2000 + self.random.gamma(2.0, 400.0, count)).astype(np.int64)
            values[self.random.random(count) < 0.001] *= 8
            values *= factor
        values = np.minimum(values, INT32 - 1)
        self.tally.add(values)
        return values


class FakeAgent:
    """A made-up agent: its stream comes block by block as its clock moves on."""

    def __init__(
        self,
        request: _Request,
        faults: Mapping[str, str],
        clock: Clock,
        facts: Mapping[str, str | int | None],
    ) -> None:
        self._request = request
        self._faults = dict(faults)
        self._clock = clock
        self._facts = facts
        self._start = clock.monotonic()
        self._grid = 2 if "overloaded" in self._faults else 1  # periods for each sample
        self._stopped = False
        self._code: int | None = None
        self._messages = ""
        self._setting = "/proc/sys/kernel/sched_rt_runtime_us"
        self._writer = StreamWriter()
        self._blocks = self._produce()
        self._due, self._next = next(self._blocks)

    def read(self, timeout: float) -> bytes | None:
        """The next bytes, when the clock has come to them."""
        while True:
            if self._code is not None and not self._next:
                return b""
            wait = self._start + self._due - self._clock.monotonic()
            if self._stopped and not self._deaf():
                wait = 0.0
            if wait > timeout:
                self._clock.sleep(timeout)
                return None
            self._clock.sleep(max(0.0, wait))
            data = self._next
            self._due, self._next = next(self._blocks, (0.0, b""))
            if data:
                return data

    def stop(self) -> None:
        """End in order, unless it is deaf."""
        self._stopped = True

    def kill(self) -> None:
        """End at once."""
        if self._code is None:
            self._code = -signal.SIGKILL
            self._blocks = iter(())
            self._next = b""

    def wait(self, timeout: float) -> int | None:
        """The exit code, once there is one."""
        if self._code is None:
            self._clock.sleep(timeout)
        return self._code

    def messages(self) -> str:
        """Its output on stderr."""
        return self._messages

    def close(self) -> None:
        """Nothing is held."""
        self.kill()

    def _deaf(self) -> bool:
        return bool({"hang", "stubborn"} & set(self._faults))

    def _produce(self) -> Iterator[tuple[float, bytes]]:
        """The stream as (time since the start, bytes); sets the exit code at its end."""
        request, writer = self._request, self._writer
        if "exit" in self._faults:
            self._messages = "rtgauge-agent: something went wrong\nremedy: try something else\n"
            self._code = int(self._faults["exit"])
            yield 0.0, b""
            return
        if "refuses" in self._faults:
            self._messages = "rtgauge-agent: option 'cpu': CPU 99 is not there\n"
            self._code = 2
            yield 0.0, b""
            return
        if "noisy" in self._faults:
            self._messages = "rtgauge-agent: blah\n" * 3000
        if "hostile" in self._faults:
            yield 0.0, bytes(np.random.default_rng(7).integers(0, 256, 100_000, np.uint8))
            self._code = 0
            yield 0.0, b""
            return
        privileged = "unprivileged" not in self._faults
        parameters = {
            name: {"asked": text if name in request.given else None, "effective": text}
            for name, text in request.parameters.items()
        }
        more: dict[str, object] = {"version": 99} if "newer" in self._faults else {}
        if request.command:
            more["load_command"] = request.command
        if request.disturb:
            more["disturb"] = request.disturb
        if request.core == "cobalt" and not request.measurement.not_on_cobalt:
            more |= {"core": request.core, "core_revision": 19}
        header = _header(
            writer, self._clock, privileged, run=request.run, step=request.step,
            measurement=request.measurement.name, parameters=parameters, load=request.load, **more,
        )  # fmt: skip
        setting = {
            "name": self._setting,
            "asked": "-1",
            "before": "950000",
            "effective": "-1" if privileged else "950000",
            "reason": "" if privileged else "not permitted",
        }
        found = header + writer.environment(self._facts)
        changed = b"" if request.keep_settings else writer.record(RecordType.SETTING, setting)
        yield 0.0, found + changed
        if "busy" in self._faults:
            reason = "another agent, process 42, is measuring here"
            end = self._trailer([], 0, "failed", reason, "end it: kill 42", "busy")
            yield 0.0, end
            return
        if request.core == "cobalt" and request.measurement.not_on_cobalt:
            why = f"it is not measured on the Cobalt core: {request.measurement.not_on_cobalt}"
            yield 0.0, self._trailer([], 0, "skipped", why, "give --core linux")
            return
        entry = request.measurement
        if (entry.answers or entry.times) and not request.parameters["line"]:
            why = "no line was given"
            yield 0.0, self._trailer([], 0, "skipped", why, "add --line gpio:CHIP:OUT:IN")
            return
        if "skipped" in self._faults or request.measurement.name == "telescope":
            reason, remedy = "there is no such device here", "connect the device"
            yield 0.0, self._trailer([], 0, "skipped", reason, remedy)
            return
        yield from self._measure()

    def _measure(self) -> Iterator[tuple[float, bytes]]:
        request, writer = self._request, self._writer
        series = self._series()
        declared = [writer.series(**one.declaration) for one in series]
        if "unready" in self._faults:
            reason = "load sched was not ready after 10 s"
            end = self._trailer(series, 0, "failed", reason, "reduce the load")
            code, self._code = self._code, None
            yield 0.0, b"".join(declared) + end
            yield 1.0, b""  # restoring takes its time
            self._code = code
            yield 1.0, b""
            return
        for record in declared:
            yield 0.0, record
        interval = request.number("interval") or 10**6
        total = self._total(interval)
        endless = math.isinf(total) and not {"overtime", "stubborn"} & set(self._faults)
        block = max(1, BLOCK_NS // interval)
        done, snapshot = 0, SNAPSHOT_NS
        state, reason, remedy = "complete", "", ""
        while done < total and state == "complete":
            if self._stopped and not self._deaf():
                if request.measurement.name != "response" or not math.isinf(total):
                    state, reason = "interrupted", "stopped from outside"
                break
            fault = self._fault_now(done, total, series)
            if fault is not None:
                yield from fault
                if self._code is not None:
                    return
                if "disturbed" in self._faults:
                    reason = "a thread of the measurement did not end within a second"
                    state, remedy = "failed", "re-run on an idle machine"
                elif "fails" in self._faults:
                    state, reason, remedy = "failed", "CPU 1 went away", "leave the CPUs alone"
                elif "load-dies" in self._faults:
                    state, reason, remedy = "failed", "load sched died", "look at its messages"
                if state != "complete":
                    break
            size = int(min(block, total - done))
            if endless and isinstance(self._clock, FakeClock):
                time.sleep(ENDLESS_S)
            data = b"".join(self._block(one, done, size, interval) for one in series)
            done += size
            now = done * interval * self._grid
            if request.loads:
                data += self._work(now - size * interval * self._grid, now)
            if now >= snapshot:
                snapshot += SNAPSHOT_NS
                data += writer.record(RecordType.CLOCK, _clocks(self._clock))
                for one in series:
                    data += writer.histogram(one.tally)
            yield now / NS, data
        now = done * interval * self._grid
        cause = "disturbed" if state == "failed" and "disturbed" in self._faults else ""
        yield now / NS, self._results() + self._trailer(series, now, state, reason, remedy, cause)

    def _total(self, interval: int) -> float:
        if {"overtime", "stubborn"} & set(self._faults):
            return math.inf
        if "mute" in self._faults:
            return 0.0
        request = self._request
        ends = [1000.0] if not request.measurement.has("for") else []
        if request.number("for"):
            ends.append(max(1, request.number("for") // interval))
        if request.number("samples"):
            ends.append(request.number("samples"))
        return min(ends, default=math.inf)

    def _series(self) -> list[_FakeSeries]:
        request = self._request
        privileged = "unprivileged" not in self._faults
        every = range(max(1, int(self._faults.get("cpus", CPUS))))
        cpus = sorted(parse_cpus(request.parameters.get("cpu", "all")) or every)
        choices = [
            [(option.name, value) for value in request.parameters[option.name].split(",")]
            for option in request.measurement.options
            if option.type in ("enum", "enums")
        ]
        series: list[_FakeSeries] = []
        for entry in request.measurement.series:
            threads = itertools.product(cpus, itertools.product(*choices))
            for thread, (cpu, labels) in enumerate(threads):
                number = len(series)
                declaration = {
                    "series": number,
                    "name": entry.name,
                    "cpu": cpu,
                    "thread": thread,
                    "policy": "fifo" if privileged else "other",
                    "priority": request.number("priority") if privileged else 0,
                    "labels": dict(labels),
                    "unit": entry.unit,
                    "interval_ns": request.number("interval"),
                    "histogram_only": request.histogram_only,
                }
                series.append(_FakeSeries(declaration, (request.step, number)))
        return series

    def _block(self, series: _FakeSeries, first: int, size: int, interval: int) -> bytes:
        samples = series.draw(size, 1000 if "late" in self._faults else 1)
        first *= self._grid
        passed = self._passed_over(series, first, interval) if first and self._grid > 1 else b""
        series.tally.last_due_ns = (first + size - 1) * interval
        if series.declaration["histogram_only"]:
            return passed
        return passed + b"".join(
            self._writer.samples(
                series.tally.series, first + at, (first + at) * interval, samples[at : at + PART]
            )
            for at in range(0, size, PART)
        )

    def _passed_over(self, series: _FakeSeries, first: int, interval: int) -> bytes:
        """The periods that were missed between the last sample and this one."""
        tally = series.tally
        last = tally.last_due_ns // interval
        tally.missed += first - last - 1
        return self._writer.missed(tally.series, last, first - last - 1, first * interval)

    def _fault_now(
        self, done: int, total: float, series: list[_FakeSeries]
    ) -> Iterator[tuple[float, bytes]] | None:
        """The fault after half of the samples, if any."""
        if math.isinf(total) and self._request.measurement.name == "response":
            total = HALF_WAY * 2  # it runs until it is stopped
        if done == 0 or done < total / 2 or (math.isinf(total)):
            return None
        faults = set(self._faults)
        if not faults & {
            "babbles", "cut", "garbage", "hang", "silent", "lost", "load-dies", "load-stalls",
            "fails", "disturbed",
        }:  # fmt: skip
            return None
        return self._break(faults, series)

    def _break(self, faults: set[str], series: list[_FakeSeries]) -> Iterator[tuple[float, bytes]]:
        writer = self._writer
        now = self._due
        if "cut" in faults:
            whole = writer.histogram(series[0].tally)
            yield now, whole[: len(whole) // 2]
            self._code = -signal.SIGSEGV
            yield now, b""
        elif "garbage" in faults:
            yield now, bytes(np.random.default_rng(11).integers(0, 256, 50_000, np.uint8))
            self._code = 0
            yield now, b""
        elif "babbles" in faults:
            noise = bytes(np.random.default_rng(11).integers(0, 256, 5000, np.uint8))
            while not self._stopped:
                now += 0.1
                yield now, noise
            self._code = 4
            yield now, b""
        elif faults & {"hang", "silent"}:
            while not self._stopped or self._deaf():
                yield math.inf, b""
        elif "lost" in faults:
            writer.sequence += 3
            del self._faults["lost"]
        elif faults & {"load-dies", "load-stalls"}:
            self._faults.pop("load-stalls", None)
            message = "killed by signal 9"
            yield now, writer.event("load", int(now * NS), load="sched", message=message)
        return

    def _work(self, start: int, end: int) -> bytes:
        records = b""
        for name, unit in self._request.loads.items():
            body = {"load": name, "unit": unit,
                    "count": (end - start) // 10_000, "from_ns": start, "to_ns": end}  # fmt: skip
            records += self._writer.record(RecordType.WORK, body)
        return records

    def _results(self) -> bytes:
        records = b""
        for table in self._request.measurement.tables:
            columns = {"number": "", "size": "ns"}
            records += self._writer.table(table.name, columns, [0, 12], [1, 15])
        for rule in self._request.measurement.verdicts:
            fault = "known-limitation" if rule.known_limitation else "verdict-fails"
            failed = fault in self._faults
            found = ("fail", "it did not", "pull harder") if failed else ("pass", "it did")
            records += self._writer.verdict(rule.rule, *found)
        return records

    def _trailer(
        self,
        series: list[_FakeSeries],
        duration_ns: int,
        state: str,
        reason: str,
        remedy: str,
        cause: str = "",
    ) -> bytes:
        data = b"".join(self._writer.histogram(one.tally) for one in series)
        verdict = 3 if "verdict-fails" in self._faults and self._request.measurement.verdicts else 0
        codes = {"complete": verdict, "interrupted": 4, "failed": 1, "skipped": 77}
        self._code = codes[state]
        return data + self._writer.trailer(
            [one.tally for one in series],
            state=state,
            reason=reason,
            remedy=remedy,
            duration_ns=duration_ns,
            cpu_ns=duration_ns // 100,
            **({"cause": cause} if cause else {}),
        )
