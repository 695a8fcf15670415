# SPDX-License-Identifier: Apache-2.0
"""Hand-overs between threads against rt-tests: ptsematest, svsematest, pmqtest, sigwaittest.

rt-tests has nothing for condition variables. They are held against ptsematest, whose mutexes are
woken by the same kernel call, and against a bare loop over the C library's condition
variables (bench/bare_condvar.c): what the second ratio leaves of the first is the C library's own.

What they time, by their sources (sigwaittest only by strace): two threads of one priority on one
CPU (``-a``). The
receiver sleeps for the interval, then gives the sender its turn through a call of the kind that is
timed, and waits. The sender reads the clock, makes its call, and waits for its next turn. The
receiver reads the clock when its own call has returned. That is what ours measure as
``--waiter equal``: latency from before the sender's call until after the receiver's, with the
sender's going to sleep in between.

All on one CPU, SCHED_FIFO 80, memory locked, sleep states held, the same interval and number of
hand-overs. The peers give minimum, mean and maximum, by ``gettimeofday`` in whole microseconds; the
difference of two readings that are both cut off is right on average, so means are compared. Ours
are net of one reading of the clock: it is added again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pairs import compile_peer, require, run_pairs, summarise, write_results

from rtgauge.stream import Samples, SeriesInfo, read_stream
from rtgauge.target.local import find_agent

PRIORITY = 80
# of the agent's conductor; the two threads are two below it
CONDUCTOR = PRIORITY + 2
TIMEOUT_S = 120.0
AT_MOST = 1.05


@dataclass(frozen=True)
class Case:
    """A measurement of ours and the program that it is compared with."""

    measurement: str
    words: Sequence[str]
    peer: str
    peer_words: Sequence[str] = ()


CASES = (
    Case("mutex-handover", ("--protocol", "none"), "ptsematest", ("-q",)),
    Case("condvar", (), "ptsematest", ("-q",)),
    Case("condvar", (), "bare_condvar"),
    Case("sem-sysv", (), "svsematest"),
    Case("mq-posix", (), "pmqtest", ("-q",)),
    Case("signal", ("--method", "sigwaitinfo"), "sigwaittest"),
)


@dataclass(frozen=True)
class Handover:
    """How all of them are run."""

    folder: Path
    cpu: int
    interval_us: int
    samples: int

    def run(self, command: Sequence[str]) -> int:
        # svsematest makes its key from the program's path in this variable
        environment = os.environ | {"_": shutil.which(command[0]) or command[0]}
        done = subprocess.run(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            env=environment,
            check=False,
        )
        return done.returncode

    def ours(self, case: Case) -> float:
        """Mean of `wake` in microseconds, the reading of the clock included."""
        stream = self.folder / "stream.cbor"
        command = [
            str(find_agent()), "run", case.measurement, *case.words, "--waiter", "equal",
            "--cpu", str(self.cpu), "--priority", str(CONDUCTOR),
            "--interval", f"{self.interval_us}us", "--samples", str(self.samples),
            "--output", str(stream),
        ]  # fmt: skip
        # 3: a verdict failed, which does not affect the times
        if self.run(command) not in (0, 3):
            raise SystemExit(f"{' '.join(command)} failed")
        series: dict[int, SeriesInfo] = {}
        values: list[int] = []
        for record in read_stream(stream):
            if isinstance(record, SeriesInfo):
                series[record.series] = record
            elif isinstance(record, Samples) and series[record.series].name == "wake":
                stamp_ns = series[record.series].stamp_ns or 0
                values += [int(value) + stamp_ns for value in record.values]
        if len(values) != self.samples:
            raise SystemExit(f"{case.measurement}: {len(values)} samples of {self.samples}")
        return statistics.fmean(values) / 1000

    def peer(self, case: Case) -> float:
        """Mean latency in microseconds."""
        if case.peer == "bare_condvar":
            return self.bare()
        found = self.folder / "peer.json"
        found.unlink(missing_ok=True)
        command = [
            case.peer, *case.peer_words, f"-a{self.cpu}", "-t1", f"-p{PRIORITY}",
            f"-i{self.interval_us}", f"-l{self.samples}", f"--json={found}",
        ]  # fmt: skip
        # sigwaittest has been seen to fail on a busy machine
        if not any(self.run(command) == 0 and found.exists() for _ in range(3)):
            raise SystemExit(f"{' '.join(command)} failed")
        receiver = json.loads(found.read_text())["thread"]["0"]["receiver"]
        if receiver["cpu"] != self.cpu or receiver["priority"] != PRIORITY:
            raise SystemExit(f"{case.peer} ran elsewhere: {receiver}")
        return float(receiver["avg"])

    def bare(self) -> float:
        """The same of a loop around the condition variables of the C library."""
        command = [str(self.folder / "bare_condvar")]
        command += map(str, (self.cpu, PRIORITY, self.interval_us, self.samples))
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        return float(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description="hand-overs against rt-tests")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--interval", type=int, default=500, help="microseconds")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--only", help="one measurement")
    parser.add_argument("--dry", action="store_true", help="write no results")
    arguments = parser.parse_args()
    require(*(case.peer for case in CASES if case.peer != "bare_condvar"))
    results = []
    with tempfile.TemporaryDirectory() as name, open("/dev/cpu_dma_latency", "wb", 0) as latency:
        # as the agent does; the peers do not by themselves
        latency.write((0).to_bytes(4, sys.byteorder))
        compile_peer("bare_condvar", Path(name))
        how = Handover(Path(name), arguments.cpu, arguments.interval, arguments.samples)
        for case in CASES:
            if arguments.only not in (None, case.measurement):
                continue
            title = f"{case.measurement}, {case.peer}"
            pairs = run_pairs(
                arguments.pairs, partial(how.ours, case), partial(how.peer, case), title
            )
            results.append(
                summarise(
                    title,
                    pairs,
                    at_most=AT_MOST,
                    details={
                        "unit": "us",
                        "ours_median": statistics.median(pair.ours for pair in pairs),
                        "peer_median": statistics.median(pair.peer for pair in pairs),
                    },
                )
            )
    facts = {
        "peer": "rt-tests 2.4",
        "cpu": arguments.cpu,
        "priority": PRIORITY,
        "interval_us": arguments.interval,
        "samples": arguments.samples,
    }
    if not arguments.dry:
        print(write_results("handover", facts, results).name)
    return 0 if all(case["held"] is not False for case in results) else 1


if __name__ == "__main__":
    sys.exit(main())
