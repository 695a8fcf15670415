# SPDX-License-Identifier: Apache-2.0
"""Comparing with a peer on a machine that is never quite quiet: pairs, ratios, results files.

A measurement of ours and one of the peer's are next to each other in time, as a pair, in the
order A B, B A, A B, …; so a slow change of the machine meets both alike, and the ratio within a
pair cancels it. The median of the ratios is given with the distribution-free interval of order
statistics. Used by the programs of ``make bench``::

    pairs = run_pairs(30, measure_ours, measure_peer)
    case = summarise("socket, process", pairs, at_least=0.95)
    path = write_results("load_sched", {"peer": "hackbench 2.40", "unit": "messages/s"}, [case])

Standard library only.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Interval", "Pair", "at_most", "machine", "median_interval", "run_pairs", "summarise"]
__all__ += ["compile_peer", "require", "write_results"]

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Pair:
    """One measurement of ours and one of the peer's, taken one after the other."""

    ours: float
    peer: float
    ours_first: bool

    @property
    def ratio(self) -> float:
        return self.ours / self.peer


@dataclass(frozen=True)
class Interval:
    """A median, and order statistics that hold the true one with at least the confidence asked.

    ``coverage`` is the exact probability for independent values of one continuous distribution.
    With too few values for the confidence, ``low`` and ``high`` are the extremes and ``coverage``
    says what they are worth.
    """

    median: float
    low: float
    high: float
    coverage: float


def run_pairs(
    count: int, ours: Callable[[], float], peer: Callable[[], float], what: str = ""
) -> list[Pair]:
    """Measure ``count`` pairs in ABBA order, after one of each that is thrown away.

    ``ours`` and ``peer`` each measure once and return a positive number. Progress goes to stderr,
    one line for each pair, headed by ``what``.
    """
    ours()
    peer()
    pairs = []
    for number in range(count):
        ours_first = number % 2 == 0
        if ours_first:
            our_value, peer_value = ours(), peer()
        else:
            peer_value, our_value = peer(), ours()
        pairs.append(Pair(our_value, peer_value, ours_first))
        print(
            f"{what} {number + 1}/{count}: ours {our_value:.6g}, peer {peer_value:.6g}, "
            f"ratio {pairs[-1].ratio:.4f}",
            file=sys.stderr,
        )
    return pairs


def median_interval(values: Iterable[float], confidence: float = 0.95) -> Interval:
    """The median of ``values`` with its narrowest symmetric order-statistic interval.

    The k-th smallest and k-th largest of n values enclose the true median with the probability
    1 − 2·P(B < k), B binomial with n and ½ (David and Nagaraja, Order Statistics, 7.1). The
    largest k that still reaches ``confidence`` is taken.
    """
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        raise ValueError("a median needs at least one value")
    below = 0
    chosen, coverage = 1, 1 - 2 * 1 / 2**count
    for k in range(1, count // 2 + 1):
        below += math.comb(count, k - 1)
        reached = 1 - 2 * below / 2**count
        if k > 1 and reached < confidence:
            break
        chosen, coverage = k, reached
    return Interval(
        statistics.median(ordered), ordered[chosen - 1], ordered[count - chosen], coverage
    )


def summarise(
    name: str,
    pairs: Sequence[Pair],
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    details: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """One case of a results file: the ratios ours/peer, their median with its 95 % interval.

    ``held`` says whether the median is within what is required, null where nothing is.
    ``details`` (parameters of the case, further figures) are added to it. Prints the result.
    """
    interval = median_interval(pair.ratio for pair in pairs)
    held = None
    if at_least is not None or at_most is not None:
        held = (at_least is None or interval.median >= at_least) and (
            at_most is None or interval.median <= at_most
        )
    verdict = {None: "", True: ", as required", False: ", NOT as required"}[held]
    print(
        f"{name}: ratio {interval.median:.4f} "
        f"[{interval.low:.4f}, {interval.high:.4f}] of {len(pairs)} pairs{verdict}"
    )
    return {
        "name": name,
        **(details or {}),
        "median_ratio": interval.median,
        "interval": [interval.low, interval.high],
        "coverage": interval.coverage,
        "at_least": at_least,
        "at_most": at_most,
        "held": held,
        "pairs": [
            {"ours": p.ours, "peer": p.peer, "ratio": p.ratio, "ours_first": p.ours_first}
            for p in pairs
        ],
    }


def at_most(name: str, value: float, limit: float) -> dict[str, object]:
    """One case of a results file: a value and its limit. Prints the result."""
    held = value <= limit
    print(f"{name}: {value:.4g}, at most {limit:g}: {'held' if held else 'MISSED'}")
    return {"case": name, "value": value, "at_most": limit, "held": held}


def _first_line(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").split("\n", 1)[0]
    except OSError:
        return None


def _cpuinfo(field: str) -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == field:
            return value.strip()
    return None


def machine() -> dict[str, object]:
    """What a figure depends on, read now: CPU, kernel, C library, memory, clock, load average.

    Nothing that names this machine or a folder of it.
    """
    flags = (_cpuinfo("flags") or "").split()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpuinfo("model name") or _cpuinfo("Model") or platform.machine(),
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "memory_mib": memory >> 20,
        "kernel": platform.release(),
        "kernel_version": platform.version(),
        "libc": " ".join(platform.libc_ver()),
        "clock_source": _first_line(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "virtual_machine": "hypervisor" in flags,
        "load_average": list(os.getloadavg()),
    }


def as_text(value: object, indent: str = "") -> str:
    """JSON in which an array or object of plain values takes one line."""
    inner = indent + " "
    if isinstance(value, dict) and any(isinstance(one, dict | list) for one in value.values()):
        parts = [f"{json.dumps(name)}: {as_text(one, inner)}" for name, one in value.items()]
        return f"{{\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        parts = [as_text(one, inner) for one in value]
        return f"[\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}]"
    return json.dumps(value)


def require(*programs: str) -> None:
    """End with a remedy if a program is not installed."""
    for program in programs:
        if not shutil.which(program):
            raise SystemExit(f"{program} is not here: run make setup, then make bench")


def compile_peer(name: str, folder: Path) -> None:
    """Build ``bench/<name>.c`` in a folder."""
    source = Path(__file__).parent / f"{name}.c"
    words = ["cc", "-O2", "-D_GNU_SOURCE", "-pthread", str(source), "-o", str(folder / name)]
    subprocess.run(words, check=True, timeout=120)


def write_results(
    name: str,
    facts: Mapping[str, object],
    cases: Sequence[Mapping[str, object]],
    folder: Path = RESULTS,
) -> Path:
    """Write ``<name>.json`` and return its path. Replaces the result before.

    ``facts`` are what holds for all cases: the peer and its version, the unit, how it was called.
    """
    date = datetime.datetime.now(datetime.UTC)
    document = {
        "format": "rtgauge-bench",
        "version": 1,
        "bench": name,
        "date": date.isoformat(timespec="seconds"),
        "machine": machine(),
        **facts,
        "cases": list(cases),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    fresh = path.with_suffix(".new")
    fresh.write_text(as_text(document) + "\n", encoding="utf-8")
    fresh.replace(path)
    return path
