# SPDX-License-Identifier: Apache-2.0
"""Answers with a constant delay of 1 to 45 ms to events every 10 ms: is the delay what is reported?

Over UDP on loopback, from an echo whose answers overlap, and on an emulated board in counted mode,
whose GPIO lines (PL061) QEMU wires: two agents on it, of which one answers with ``--delay``. With
both edges and with one.

Required of each delay: the median is right, or the log host says that it cannot attribute the
answers. Right is from the delay to 5 ms more, on a machine that has other work. An answer taken for
that of another event is off by 10 ms or more. Part of a sweep is not kept.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pairs import write_results

from rtgauge.lab.machine import Limits
from rtgauge.stream import Samples, StreamReader, Table
from rtgauge.target.lab import LabTarget
from rtgauge.target.local import find_agent

BOARD = "arm64-rt-6.1"
CHIP = "9030000.pl061"
EVENTS = 40
EDGES = ("both", "rising")
LINES = ("net", "gpio")
SWEEP_MS = (1, 45)
MORE_MS = 5.0
LIMITS = Limits(order_cpu_s=120.0, order_s=600.0)
# A verdict that failed, of answers that were late, is code 3.
PAIR = f"""
/agent run response --line gpio:{CHIP}:2:1 --edge $0 --delay $1ms --delay-every 1 \\
    --output /board >/dev/null & P=$!
i=0; while [ ! -s /board ] && [ $((i = i + 1)) -lt 500 ]; do /bin/busybox usleep 10000; done
/agent run log-host --keep-settings --priority 40 --line gpio:{CHIP}:0:3 --samples $2 \\
    --interval 10ms --edge $0 --output /host >/dev/null
R=$?; kill -INT $P; wait $P; /bin/busybox cat /host; rm /board /host; [ $R = 0 ] || [ $R = 3 ]
"""


@dataclass(frozen=True)
class Told:
    """What the log host says of one delay; ``median_ms`` is None without a sample."""

    raised: int
    answered: int
    unanswered: int
    ambiguous: int
    median_ms: float | None

    def fault(self, delay_ms: int) -> str:
        """What is not as required."""
        if self.raised != self.answered + self.unanswered + self.ambiguous:
            return "events are not accounted for"
        if self.median_ms is None or 2 * self.ambiguous > self.raised:
            return "" if self.ambiguous else "no sample, and none declared ambiguous"
        right = delay_ms <= self.median_ms <= delay_ms + MORE_MS
        return "" if right else f"{self.median_ms:.3f} ms is reported"


def _told(data: bytes) -> Told:
    records = list(StreamReader().feed(data))
    [table] = [one for one in records if isinstance(one, Table) and one.name == "answers"]
    row = {
        column.name: int(str(cell))
        for column, cell in zip(table.columns, table.rows[0], strict=True)
    }
    blocks = [one.values.astype(np.int64) for one in records if isinstance(one, Samples)]
    median = float(np.median(np.concatenate(blocks))) / 1e6 if blocks else None
    return Told(row["raised"], row["answered"], row["unanswered"], row["ambiguous"], median)


@contextlib.contextmanager
def echo(delay_ms: int) -> Iterator[int]:
    """Echoes each datagram after that time; its port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        one.setblocking(False)
        over = threading.Event()

        def serve() -> None:
            with contextlib.suppress(PermissionError):  # in front of other work
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
            due: list[tuple[float, bytes, tuple[str, int]]] = []
            while not over.is_set():
                rest = due[0][0] - time.monotonic() if due else 0.1
                select.select([one], [], [], max(rest, 0))
                with contextlib.suppress(BlockingIOError):
                    data, peer = one.recvfrom(64)
                    due.append((time.monotonic() + delay_ms / 1000, data, peer))
                while due and due[0][0] <= time.monotonic():
                    _, data, peer = due.pop(0)
                    one.sendto(data, peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield int(one.getsockname()[1])
        finally:
            over.set()
            thread.join()


def over_net(agent: Path, delay_ms: int, edge: str) -> Told:
    with tempfile.TemporaryDirectory() as folder, echo(delay_ms) as port:
        path = Path(folder, "stream")
        words = ["--line", f"net:127.0.0.1:{port}", "--edge", edge, "--interval", "10ms",
                 "--samples", str(EVENTS), "--output", str(path)]  # fmt: skip
        done = subprocess.run(
            [agent, "run", "log-host", *words], env={**os.environ, "RTGAUGE_STATE": folder},
            capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode not in (0, 3):
            raise SystemExit(f"code {done.returncode}: {done.stderr.decode()}")
        return _told(path.read_bytes())


def on_board(target: LabTarget, delay_ms: int, edge: str) -> Told:
    done = target.execute(["/bin/busybox", "sh", "-c", PAIR, edge, f"{delay_ms}", f"{EVENTS}"])
    if done.code:
        raise SystemExit(f"{target.name}: code {done.code}: {done.stderr.decode()}")
    return _told(done.stdout)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ms", type=int, nargs=2, default=SWEEP_MS, help="first and last delay")
    parser.add_argument("--lines", nargs="+", choices=LINES, default=LINES)
    parser.add_argument("--agent", type=Path, help="for net; default: this checkout's")
    options = parser.parse_args(arguments)
    cases: list[dict[str, object]] = []
    faults = 0
    with contextlib.ExitStack() as stack:
        board = None
        if "gpio" in options.lines:
            board = LabTarget(f"{BOARD},lines=0:1+2:3", limits=LIMITS)
            stack.callback(board.close)
        for line in options.lines:
            for edge in EDGES:
                for delay_ms in range(options.ms[0], options.ms[1] + 1):
                    if line == "gpio" and board is not None:
                        told = on_board(board, delay_ms, edge)
                    else:
                        told = over_net(options.agent or find_agent(), delay_ms, edge)
                    fault = told.fault(delay_ms)
                    faults += bool(fault)
                    median = None if told.median_ms is None else round(told.median_ms, 3)
                    cases.append(
                        {"line": line, "edge": edge, "delay_ms": delay_ms, "median_ms": median,
                         "answered": told.answered, "unanswered": told.unanswered,
                         "ambiguous": told.ambiguous, "fault": fault}
                    )  # fmt: skip
                    print(f"{line} {edge} {delay_ms} ms: {median} ms {fault}", flush=True)
    if tuple(options.ms) == SWEEP_MS and tuple(options.lines) == LINES and not options.agent:
        facts = {"events": EVENTS, "interval_ms": 10, "board": BOARD, "allowed_ms": MORE_MS}
        print(write_results("delays", facts, cases))
    print(f"{faults} of {len(cases)} wrong")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
