# SPDX-License-Identifier: Apache-2.0
"""Cost of the answer to an external event by handler, kernel thread and user task.

Two agents on one emulated board in counted mode, whose GPIO lines QEMU wires: the log host drives
line 0 and hears line 3, the board hears line 1 and answers on line 2. In each context 10 000 events
every 500 us, and 10 000 every 8 ms of which each thousandth answer is held back by 5 ms. All of it
is done twice, each time on a restarted board.

Required, on each board and in each context: every event has exactly one answer, by both sides'
counts. Both sides find exactly the ten delayed answers, with their 5 ms. The second start measures
the same bit for bit. At the median the handler answers before the kernel thread, and that answers
before the user task. The figures are counted ns: one instruction takes one.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pairs import write_results

from rtgauge.lab.machine import Limits
from rtgauge.stream import Record, Samples, SeriesInfo, StreamReader, Table
from rtgauge.target.lab import LabTarget

BOARDS = ("arm64-rt-6.1", "arm64-stock-6.1")
CONTEXTS = ("irq", "kernel", "user")
CHIP = "9030000.pl061"
EVENTS = 10_000
DELAY_NS = 5_000_000
EVERY = 1_000
AT_ONCE = ("500us", "")
DELAYED = ("8ms", f"--delay 5ms --delay-every {EVERY}")
LIMITS = Limits(order_cpu_s=900.0, order_s=3600.0)
# The log host is below the kernel's thread that brings a user task its edges: it would not be in
# its way on a machine of its own either.
PAIR = f"""
/agent run response --context $0 --line gpio:{CHIP}:2:1 $4 --output /board >/dev/null & P=$!
i=0; while [ ! -s /board ] && [ $((i = i + 1)) -lt 500 ]; do /bin/busybox usleep 10000; done
/agent run log-host --keep-settings --priority 40 --line gpio:{CHIP}:0:3 --samples $2 \\
    --interval $3 --answered-by $0 --output /host >/dev/null && kill -INT $P && wait $P &&
/bin/busybox cat /$1
"""


@dataclass(frozen=True)
class Side:
    """What one of the two says."""

    counts: tuple[int, ...]
    series: Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Pair:
    """Both sides of the same events."""

    host: Side
    board: Side

    def digest(self) -> str:
        """Digest of every sample of both, in order."""
        total = hashlib.sha256()
        for side in (self.host, self.board):
            for name, values in side.series.items():
                total.update(name.encode() + values.tobytes())
        return total.hexdigest()


def _side(data: bytes) -> Side:
    records: list[Record] = list(StreamReader().feed(data))
    names = {one.series: one.name for one in records if isinstance(one, SeriesInfo)}
    blocks: dict[str, list[NDArray[np.int64]]] = {name: [] for name in names.values()}
    for one in records:
        if isinstance(one, Samples):
            blocks[names[one.series]].append(one.values.astype(np.int64))
    [row] = [one.rows[0] for one in records if isinstance(one, Table)]
    series = {name: np.concatenate(some) for name, some in blocks.items() if some}
    return Side(tuple(int(str(cell)) for cell in row), series)


def _pair(target: LabTarget, context: str, interval: str, more: str, events: int) -> Pair:
    words = (context, "host", f"{events}", interval, more)
    done = target.execute(["/bin/busybox", "sh", "-c", PAIR, *words])
    if done.code:
        raise SystemExit(f"{target.name}, {context}: code {done.code}: {done.stderr.decode()}")
    board = target.execute(["/bin/busybox", "cat", "/board"])
    return Pair(_side(done.stdout), _side(board.stdout))


def _boot(board: str, events: int) -> dict[tuple[str, str], Pair]:
    target = LabTarget(f"{board},lines=0:1+2:3", limits=LIMITS)
    try:
        return {
            (context, name): _pair(target, context, interval, more, events)
            for context in CONTEXTS
            for name, (interval, more) in {"at once": AT_ONCE, "delayed": DELAYED}.items()
        }
    finally:
        target.close()


def _late(values: NDArray[np.int64]) -> NDArray[np.intp]:
    return np.flatnonzero(values >= DELAY_NS)


def _faults(pair: Pair, name: str, events: int) -> list[str]:
    """What is not as required of one pair."""
    faults = []
    if pair.host.counts != (events, events, 0, 0, 0, 0, 0):
        faults.append(f"the log host counts {pair.host.counts}")
    if pair.board.counts != (events, events, 0, 0):
        faults.append(f"the board counts {pair.board.counts}")
    held = list(range(EVERY - 1, events, EVERY)) if name == "delayed" else []
    for side, series in ((pair.host, "response"), (pair.board, "answer")):
        values = side.series[series]
        late = _late(values)
        if late.tolist() != held or len(values) != events:
            faults.append(f"{series}: {late.size} of {len(values)} held back, at {late[:20]}")
        # a handler that waits keeps other interrupts waiting, which come before the log host's
        elif bool((values[late] >= DELAY_NS * 1.01).any()):
            faults.append(f"{series}: held back for {values[late].max()} ns")
    if "wake-up" in pair.board.series:
        wake, answer = pair.board.series["wake-up"], pair.board.series["answer"]
        # the answer is seen while it is being driven: the wake-up is over by then, for every event
        if not bool(((wake < answer) & (wake < pair.host.series["response"])).all()):
            faults.append("an answer is there before the one who gives it")
    return faults


def _figures(values: NDArray[np.int64]) -> dict[str, int]:
    return {
        "min": int(values.min()),
        "median": int(np.sort(values)[(len(values) - 1) // 2]),
        "max": int(values.max()),
    }


def _case(board: str, context: str, name: str, pair: Pair) -> dict[str, object]:
    case: dict[str, object] = {"name": f"{board}: {context}, {name}"}
    for side in (pair.host, pair.board):
        for series, values in side.series.items():
            late = _late(values)
            case[series] = _figures(np.delete(values, late))
            if late.size:
                case[f"{series}, held back"] = {"count": int(late.size), **_figures(values[late])}
    case["both views"] = _figures(pair.host.series["response"] - pair.board.series["answer"])
    return case


def _board(board: str, events: int, turns: int) -> list[dict[str, object]]:
    boots = [_boot(board, events) for _ in range(turns)]
    cases = []
    before = 0
    for (context, name), pair in boots[0].items():
        faults = _faults(pair, name, events)
        digests = {boot[context, name].digest() for boot in boots}
        if len(digests) != 1:
            faults.append("the second start measured something else")
        case = _case(board, context, name, pair)
        if name == "at once":
            median = _figures(pair.host.series["response"])["median"]
            if median <= before:
                faults.append("it is not slower than the context before")
            before = median
        case |= {"digest": digests.pop(), "faults": faults, "held": not faults}
        cases.append(case)
        print(_row(case), flush=True)
    return cases


def _row(case: Mapping[str, object]) -> str:
    words = [f"{case['name']:<34}"]
    for series in ("response", "wake-up", "answer"):
        figures = case.get(series)
        if isinstance(figures, dict):
            words.append(f"{series} {figures['min']} {figures['median']} {figures['max']}")
    faults = case["faults"]
    assert isinstance(faults, Sequence)
    return "   ".join([*words, *map(str, faults)])


def main() -> int:
    """Print a row for each context of each board; 1 if something is not as required."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("boards", nargs="*", default=BOARDS, help="arm64 boards of the lab")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--turns", type=int, default=2, help="starts of each board")
    asked = parser.parse_args()
    cases = [one for name in asked.boards for one in _board(name, asked.events, asked.turns)]
    facts = {
        "unit": "counted ns: min, median, max",
        "events": asked.events,
        "turns": asked.turns,
        "both views": "response less answer, event by event",
    }
    print(write_results("response_contexts", facts, cases).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
