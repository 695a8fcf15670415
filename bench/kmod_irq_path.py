# SPDX-License-Identifier: Apache-2.0
"""The module's path through the interrupt against the timerlat tracer's, in instructions.

Both on the same PREEMPT_RT kernel in the lab's counted mode, where one instruction takes one
nanosecond: a timer every millisecond on one CPU, whose handler stamps and wakes a kernel thread of
SCHED_FIFO 95, which stamps as well. Compared are, at the median,

- due time to the handler's stamp, and to the thread's: by each tool's own stamps, which are of the
  same clock. What comes after the handler (the interrupt's exit, the switch) is the same code for
  both, so the difference of the second is the difference of the whole path from the interrupt's
  vector to the end of the handler;
- what a loop in user space loses to each event: everything that an event costs, the thread's turn,
  which is not the interrupt's, included. What it loses to others is measured before, and taken off.

Required: none of them above timerlat's.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from pairs import write_results
from sample_cost import output_of

from rtgauge.target.lab import LabTarget

ROOT = Path(__file__).resolve().parents[1]
BOARDS = ("x86_64-rt-6.1", "x86_64-rt-6.12")
SECONDS = 1
EVENTS = 500
TIMEOUT_S = 120.0
RECORD = struct.Struct("<7Q2I")
# kind timer, source hrtimer, contexts irq and kernel
MEASURE = f"/measure 1 1 3 1000000 {EVENTS} /records >/dev/null && cat /records"
TIMERLAT = f"""
cd /sys/kernel/tracing || {{ mount -t tracefs none /sys/kernel/tracing && cd /sys/kernel/tracing; }}
echo 1000 > osnoise/timerlat_period_us && echo timerlat > current_tracer && sleep {SECONDS} &&
echo 0 > tracing_on && cat trace && echo > trace && echo 1 > tracing_on
"""
LATENCY = re.compile(r"context\s+(irq|thread)\s+timer_latency\s+(\d+) ns")


def _program(folder: str) -> bytes:
    """kmod/tests/measure.c, for the guest."""
    program = Path(folder, "measure")
    source = ROOT / "kmod" / "tests" / "measure.c"
    subprocess.run(["gcc", "-O2", "-static", "-o", program, source], check=True, timeout=TIMEOUT_S)
    return program.read_bytes()


def _shell(target: LabTarget, script: str) -> bytes:
    return output_of(target, ["/bin/busybox", "sh", "-c", script])


def _lost(target: LabTarget, contexts: int) -> int:
    return int(json.loads(_shell(target, f"/measure gaps {SECONDS} {contexts}"))["lost_ns"])


def _board(name: str, program: bytes) -> dict[str, dict[str, float]]:
    """Median instructions of each path by tool."""
    target = LabTarget(f"{name},mode=counted")
    try:
        target.environment()
        target.put("/measure", program)
        _shell(target, "sleep 2")  # what starts late has started
        records = list(RECORD.iter_unpack(_shell(target, MEASURE)))
        others, ours = _lost(target, 0), _lost(target, 2)
        trace = LATENCY.findall(_shell(target, TIMERLAT).decode())
        theirs = _lost(target, 0)
    finally:
        target.close()
    stamps = [(entry - due, thread - due) for _, due, _, entry, _, _, thread, _, _ in records]
    return {
        "rtgauge.ko": {
            "due to handler": statistics.median(handler for handler, _ in stamps),
            "due to thread": statistics.median(thread for _, thread in stamps),
            "lost per event": (ours - others) / (1000 * SECONDS),
        },
        "timerlat": {
            "due to handler": statistics.median(int(v) for c, v in trace if c == "irq"),
            "due to thread": statistics.median(int(v) for c, v in trace if c == "thread"),
            "lost per event": (theirs - others) / (1000 * SECONDS),
        },
    }


def main() -> int:
    """Print a table for each board; 1 if a path of the module's is the longer one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("boards", nargs="*", default=BOARDS, help="PREEMPT_RT boards of the lab")
    cases: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        program = _program(folder)
        for name in parser.parse_args().boards:
            result = _board(name, program)
            for what, ours in result["rtgauge.ko"].items():
                theirs = result["timerlat"][what]
                case = {"name": f"{name}: {what}", "ours": ours, "peer": theirs}
                cases.append({**case, "held": ours <= theirs})
                print(
                    f"{name:<16} {what:<16} rtgauge.ko {ours:7.0f}   timerlat {theirs:7.0f}   "
                    f"ratio {ours / theirs:.2f}"
                )
    facts = {"peer": "timerlat", "unit": "instructions, at the median", "events": EVENTS}
    print(write_results("kmod_irq_path", facts, cases).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
