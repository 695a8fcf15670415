# SPDX-License-Identifier: Apache-2.0
"""Work rates of the loads against independent programs that do the same, in pairs
(docs/reference/loads.md).

Ours are counted by the agent's own code, the peers by themselves or by the kernel. Both run on one
CPU where the work allows it, and work that a CPU bounds is given per second of CPU time, of all
processes taking part: other tasks of the machine affect neither. At least 0.9 of the
peer's rate is required where both do the same work per unit; for the others results/README.md says
what differs. ``sched`` has a program of its own (load_sched.py); ``cpu`` has no peer that counts in
its unit.

Needs Debian's packages stress-ng, rt-tests, iperf3. Takes about ten minutes; ``--only copy,walk``
and ``--pairs 4`` give a first look.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from load_sched import build_driver
from pairs import run_pairs, summarise, write_results

REQUIRED = 0.9
TIMEOUT_S = 120  # far above what any takes
CPU = max(os.sched_getaffinity(0))
TREE = "/usr/share"
DISK_FOLDER = "/var/tmp"
PR_SET_TIMERSLACK = 29
KIB = 1024
MIB = 1024 * KIB
CACHE_SIZE = 64 * MIB
CHASE_SIZE = 4 * MIB
BLOCK_SIZE = 16 * MIB


@dataclass(frozen=True)
class Ran:
    """A peer that has run: what it printed, how long it took, the CPU time of all of it."""

    output: str
    seconds: float
    cpu_s: float


def run_peer(words: Sequence[str], *, bound: bool = True, accepted: Sequence[int] = (0,)) -> Ran:
    """Run a peer on the one CPU, with timers as exact as those of our loads."""

    def prepare() -> None:
        if bound:
            os.sched_setaffinity(0, {CPU})
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)

    before, started = cpu_of_children(), time.monotonic()
    done = subprocess.run(
        words,
        check=False,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # pages of the same size as ours
        env={**os.environ, "LC_ALL": "C", "NUMPY_MADVISE_HUGEPAGE": "0"},
        preexec_fn=prepare,
    )
    if done.returncode not in accepted:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
    return Ran(done.stdout, time.monotonic() - started, cpu_of_children() - before)


def cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def find_number(pattern: str, text: str) -> float:
    """The first number that ``pattern`` finds; the peer's words belong into the error."""
    found = re.search(pattern, text, re.MULTILINE)
    if not found:
        raise SystemExit(f"no number like {pattern} in what the peer printed:\n{text}")
    return float(found.group(1))


def interrupts(names: Sequence[str]) -> int:
    """Interrupts of these lines of /proc/interrupts so far, on all CPUs."""
    total = 0
    for line in Path("/proc/interrupts").read_text(encoding="ascii").splitlines():
        name, _, rest = line.strip().partition(":")
        if name in names:
            total += sum(int(word) for word in rest.split() if word.isdigit())
    return total


# What one CPU sends another: calls of functions, and flushes of address translations.
BETWEEN_CPUS = ("CAL", "TLB")


class Ours:
    """The agent's loads, run by the driver."""

    def __init__(self, driver: Path, seconds: float) -> None:
        self.driver = driver
        self.seconds = seconds

    def run(self, load: str, *, bound: bool) -> dict[str, float]:
        words = [str(self.driver), load, f"{round(self.seconds * 1000)}ms"]
        done = subprocess.run(
            [*words, *([str(CPU)] if bound else [])],
            check=True,
            timeout=TIMEOUT_S,
            stdout=subprocess.PIPE,
        )
        work: dict[str, float] = json.loads(done.stdout)
        return work

    def rate(self, load: str, *, bound: bool = True) -> float:
        """Units of work per second."""
        work = self.run(load, bound=bound)
        return work["count"] / (work["to_ns"] - work["from_ns"]) * 1e9

    def cpu_rate(self, load: str, *, bound: bool = True) -> float:
        """Units of work per second of CPU time, which others on the machine do not take."""
        work = self.run(load, bound=bound)
        return work["all"] / work["cpu_ns"] * 1e9


def stress_ng(seconds: float, *words: str, bound: bool = True) -> Ran:
    duration = str(max(1, round(seconds)))
    # 7: it does not trust its own metrics, as on a machine that is very busy
    command = ["stress-ng", "--metrics", "-t", duration, *words]
    return run_peer(command, bound=bound, accepted=(0, 7))


def operations(ran: Ran, name: str) -> float:
    """Operations that stress-ng counts."""
    return find_number(rf"\] {name} +(\d+) ", ran.output)


# ---- the peers: the same work in the same unit, per second of CPU time unless it says more ----


def copies_of_dd(seconds: float, size: int, guess: float) -> float:
    count = max(1, round(guess * seconds))
    words = ["dd", "if=/dev/zero", "of=/dev/null", f"bs={size}", f"count={count}"]
    return count / run_peer(words).cpu_s


def entries_of_find() -> float:
    """Entries of find, which looks at the metadata of each, as ``-size`` needs it."""
    words = ["find", TREE, "-xdev", "-size", "+1000000G"]
    return count_entries() / run_peer(words).cpu_s


def names_of_find() -> float:
    """Entries of find, which prints their names and looks only at folders."""
    words = ["sh", "-c", f"find {TREE} -xdev > /dev/null"]
    return count_entries() / run_peer(words).cpu_s


def entries_of_ls() -> float:
    """Entries of a recursive listing, which sorts and prints as well."""
    return count_entries() / run_peer(["sh", "-c", f"ls -lR {TREE} > /dev/null"]).cpu_s


def count_entries() -> int:
    count = 1
    for _, folders, files in os.walk(TREE):
        count += len(folders) + len(files)
    return count


def programs_of_a_shell(count: int) -> float:
    loop = f"i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done"
    return count / run_peer(["dash", "-c", loop]).cpu_s


def lines_of_numpy(seconds: float, size: int) -> float:
    """Lines of NumPy, which changes one word in each, at the same stride."""
    return find_number(r"^([\d.e+]+)$", run_python(LINES, seconds, size).output)


def reads_of_bare_chase(seconds: float, _rate: float) -> float:
    """Dependent reads by an array of indices. The same share of them is in each range as in ours
    if both make whole passes."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bare_chase"
        source = Path(__file__).with_name("bare_chase.c")
        subprocess.run(["cc", "-O2", f"{source}", "-o", f"{program}"], check=True, timeout=60)
        ran = run_peer([f"{program}", str(seconds), str(CHASE_SIZE)])
    return find_number(r"^([\d.]+) ", ran.output)


def pages_of_numpy(seconds: float, size: int) -> float:
    """Pages of NumPy, which touches each page of a new mapping each time."""
    return find_number(r"^([\d.e+]+)$", run_python(PAGES, seconds, size).output)


def run_python(program: str, seconds: float, size: int) -> Ran:
    return run_peer([sys.executable, "-c", program, str(seconds), str(size)])


LINES = """
import sys, time, numpy
seconds, size = float(sys.argv[1]), int(sys.argv[2])
words = numpy.ones(size // 4, numpy.uint32)
started, done, first = time.process_time(), 0, 0
while time.process_time() < started + seconds:
    lines = words[first * 16 :: 65 * 16]
    lines += 1
    done += lines.size
    first = (first + 1) % 65
print(done / (time.process_time() - started))
"""

PAGES = """
import mmap, sys, time, numpy
seconds, size = float(sys.argv[1]), int(sys.argv[2])
started, done = time.process_time(), 0
while time.process_time() < started + seconds:
    block = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages = numpy.frombuffer(block, numpy.uint8)
    pages[:: mmap.PAGESIZE] = 1
    del pages
    block.close()
    done += size // mmap.PAGESIZE
print(done / (time.process_time() - started))
"""


def forks_of_a_shell(count: int) -> float:
    """Processes of a shell that forks, does nothing in the child, and waits."""
    loop = f"i=0; while [ $i -lt {count} ]; do (:); i=$((i+1)); done"
    return count / run_peer(["dash", "-c", loop]).cpu_s


def forks_of_stress_ng(seconds: float) -> float:
    ran = stress_ng(seconds, "--fork", "1")
    return operations(ran, "fork") / ran.cpu_s


def kib_of_dd(seconds: float, guess: float) -> float:
    """KiB per second that dd writes into a file, forced onto the disk after each 4 MiB."""
    count = max(1, round(guess * seconds / 4 / KIB))
    with tempfile.NamedTemporaryFile(dir=DISK_FOLDER) as file:
        words = ["dd", "if=/dev/zero", f"of={file.name}", "bs=4M", "oflag=sync", f"count={count}"]
        return count * 4 * KIB / find_number(r"copied, ([\d.e-]+) s", run_peer(words).output)


def timers_of_cyclictest(seconds: float) -> float:
    """Timers per second of ten threads that sleep for 200 us."""
    words = ["cyclictest", "-q", "-r", "-t", "10", "-i", "200", "-d", "0", "--policy=other"]

    def count(duration: int) -> float:
        ran = run_peer([*words, "-D", str(duration), "-a", str(CPU)])
        return float(sum(int(cycles) for cycles in re.findall(r" C: *(\d+)", ran.output)))

    return count(max(1, round(seconds))) / max(1, round(seconds))


def interrupts_of_stress_ng(seconds: float, worker: str) -> float:
    before = interrupts(BETWEEN_CPUS)
    ran = stress_ng(seconds, f"--{worker}", str(os.cpu_count()), bound=False)
    return (interrupts(BETWEEN_CPUS) - before) / ran.seconds


def kib_of_iperf(seconds: float) -> float:
    """KiB over loopback, in blocks of 64 KiB, per second of both sides' CPU time."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with subprocess.Popen(
        ["iperf3", "-s", "-1", "-p", port, "--forceflush"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        for line in server.stdout:
            if "listening on" in line:
                break
        words = ["iperf3", "-c", "127.0.0.1", "-p", port, "-l", "64K", "-J"]
        words += ["-t", str(max(1, round(seconds)))]
        report = json.loads(run_peer(words, bound=False).output)
        server.kill()
    sent, used = report["end"]["sum_sent"], report["end"]["cpu_utilization_percent"]
    cpu_s = (used["host_total"] + used["remote_total"]) / 100 * sent["seconds"]
    return float(sent["bytes"] / KIB / cpu_s)


# ---- the cases ----


@dataclass(frozen=True)
class Case:
    """A load of ours and a peer; ``peer`` gets a rate of ours, to know how much to ask for."""

    name: str
    load: str
    peer: Callable[[float, float], float]  # seconds, rate of ours
    words: str  # of the peer, for people
    unit: str
    ours: Callable[[Ours, str], float] = Ours.cpu_rate
    longer: float = 1  # times as long, where the first touch of memory would weigh
    at_least: float | None = REQUIRED


def unbound(ours: Ours, load: str) -> float:
    return ours.cpu_rate(load, bound=False)


def interrupts_of_ours(ours: Ours, load: str) -> float:
    """Interrupts per second while the load runs, by the kernel's own count."""
    before, started = interrupts(BETWEEN_CPUS), time.monotonic()
    ours.rate(load, bound=False)
    return (interrupts(BETWEEN_CPUS) - before) / (time.monotonic() - started)


def cases() -> list[Case]:
    return [
        Case(
            "copy", "copy", lambda s, rate: copies_of_dd(s, 65536, rate),
            "dd if=/dev/zero of=/dev/null bs=65536", "copies/CPU s",
        ),
        Case(
            "copy, 512 bytes", "copy:size=512", lambda s, rate: copies_of_dd(s, 512, rate),
            "dd if=/dev/zero of=/dev/null bs=512", "copies/CPU s",
        ),
        Case(
            "walk", f"walk:path={TREE}", lambda _s, _rate: entries_of_find(),
            f"find {TREE} -xdev -size +1000000G", "entries/CPU s",
        ),
        Case(
            "names", f"walk:path={TREE}:stat=no", lambda _s, _rate: names_of_find(),
            f"find {TREE} -xdev > /dev/null", "entries/CPU s",
        ),
        Case(
            "walk, listing", f"walk:path={TREE}", lambda _s, _rate: entries_of_ls(),
            f"ls -lR {TREE}", "entries/CPU s", at_least=None,
        ),
        Case(
            "list", "list:program=/bin/true",
            lambda s, rate: programs_of_a_shell(max(1, round(s * rate))),
            "dash: while …; do /bin/true; done", "programs/CPU s", at_least=None,
        ),
        Case(
            "cache", f"cache:size={CACHE_SIZE}", lambda s, _rate: lines_of_numpy(s, CACHE_SIZE),
            "numpy: words[first :: 65 lines] += 1", "lines/CPU s", longer=5,
        ),
        Case(
            "chase", f"cache:pattern=chase:size={CHASE_SIZE}", reads_of_bare_chase,
            f"bare_chase {CHASE_SIZE}", "reads/CPU s", longer=5,
        ),
        Case(
            "memory", f"memory:size={BLOCK_SIZE}", lambda s, _rate: pages_of_numpy(s, BLOCK_SIZE),
            "numpy: pages[:: page] = 1 in a new mapping", "pages/CPU s",
        ),
        Case(
            "fork", "fork", lambda s, rate: forks_of_a_shell(max(1, round(s * rate))),
            "dash: while …; do (:); done", "processes/CPU s",
        ),
        Case(
            "fork, stress-ng", "fork", lambda s, _rate: forks_of_stress_ng(s),
            "stress-ng --fork 1", "processes/CPU s", at_least=None,
        ),
        Case(
            "disk", f"disk:path={DISK_FOLDER}", kib_of_dd,
            "dd if=/dev/zero bs=4M oflag=sync", "KiB/s", ours=Ours.rate,
        ),
        Case(
            "timer", "timer", lambda s, _rate: timers_of_cyclictest(s),
            "cyclictest -r -t 10 -i 200 --policy=other", "timers/s", ours=Ours.rate,
        ),
        Case(
            "irq, membarrier", "irq", lambda s, _rate: interrupts_of_stress_ng(s, "membarrier"),
            "stress-ng --membarrier", "interrupts/s", ours=interrupts_of_ours,
        ),
        Case(
            "irq, tlb-shootdown", "irq",
            lambda s, _rate: interrupts_of_stress_ng(s, "tlb-shootdown"),
            "stress-ng --tlb-shootdown", "interrupts/s", ours=interrupts_of_ours,
        ),
        Case(
            "net", "net:pause=0", lambda s, _rate: kib_of_iperf(s),
            "iperf3 -c 127.0.0.1 -l 64K", "KiB/CPU s", ours=unbound,
        ),
    ]  # fmt: skip


def run_case(case: Case, ours: Ours, pairs: int) -> dict[str, object]:
    ours = Ours(ours.driver, ours.seconds * case.longer)
    guess = case.ours(ours, case.load)
    measured = run_pairs(
        pairs,
        lambda: case.ours(ours, case.load),
        lambda: case.peer(ours.seconds / case.longer, guess),
        case.name,
    )
    details: Mapping[str, object] = {"load": case.load, "peer": case.words, "unit": case.unit}
    return summarise(case.name, measured, at_least=case.at_least, details=details)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=12, help="of each case")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--only", default="", help="cases that begin so, separated by commas")
    parser.add_argument("--output", type=Path, help="folder for the results file")
    arguments = parser.parse_args()
    names = tuple(arguments.only.split(","))
    chosen = [case for case in cases() if case.name.startswith(names)]
    peers = {case.words.split()[0].rstrip(":") for case in chosen}
    for program in ("stress-ng", "cyclictest", "iperf3", "dash"):
        if program in peers and not shutil.which(program):
            raise SystemExit(
                f"{program} is not here\ninstall Debian's packages stress-ng, rt-tests, iperf3"
            )
    version = "without stress-ng"
    if "stress-ng" in peers:
        words = ["stress-ng", "--version"]
        version = subprocess.check_output(words, timeout=10, text=True).strip()
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(build_driver(Path(folder)), arguments.seconds)
        done = [run_case(case, ours, arguments.pairs) for case in chosen]
    facts = {
        "ours": "loads of the agent",
        "peer": version,
        "seconds": arguments.seconds,
        "cpu": CPU,
    }
    where = {"folder": arguments.output} if arguments.output else {}
    print(write_results("loads", facts, done, **where).name)
    return 0 if all(case["held"] is not False for case in done) else 1


if __name__ == "__main__":
    sys.exit(main())
