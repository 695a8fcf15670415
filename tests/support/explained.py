# SPDX-License-Identifier: Apache-2.0
"""Programs, causes and runs for the tests of ``rtgauge explain``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import report_runs as made
from rtgauge.causes import Cause, Cost, Segment, Task
from rtgauge.causes.cut import Step, Tasks, walk
from rtgauge.causes.symbols import Symbols
from rtgauge.lab.recorder import (
    BLOCK,
    CALL,
    EXCEPTION_RETURN,
    FROM,
    JUMP,
    OTHER,
    RECORD,
    RETURN,
    SYSCALL,
    TO,
)
from rtgauge.store import Store, StoredRun, new_run_id
from rtgauge.stream import StreamWriter, Tally

BASE = 0xFFFFFFFF81000000
NAMES = (
    "asm_sysvec_apic_timer_interrupt",
    "sysvec_apic_timer_interrupt",
    "try_to_wake_up",
    "entry_SYSCALL_64",
    "do_work",
    "helper.constprop.0",
    "__schedule",
    "__switch_to_asm",
    "handle_softirqs",
    "net_rx_action",
    "rt_spin_lock",
    "get_random_u16",
    "rt_spin_unlock",
    "rt_mutex_setprio",
    "__mutex_lock",
)
SETUP = {"program": "qemu", "package": "qemu"}
AT = {name: BASE + 0x100 * number for number, name in enumerate(NAMES)}
KALLSYMS = "".join(f"{address:016x} t {name}\n" for name, address in AT.items()).encode()
LOW, HIGH = 0xFFFF888000001000, 0xFFFF888000002000
WAKER, OTHER_TASK = 0xFFFF888000003000, 0xFFFF888000004000
TIMERS = Task("ktimers/0", 5, "fifo", 1)
ORDINARY, MEASURED = Task("load/sched", 7, "other"), Task("measure", 9, "fifo", 80)


def recorded(rows: Sequence[tuple[int, ...]]) -> NDArray[np.void]:
    """Records as the plugin writes them. Most of them have no argument of a function."""
    return np.array([(*row, 0)[:7] for row in rows], RECORD)


class Program:
    """Records of a program, block by block. A block takes 10 ns unless given."""

    def __init__(self) -> None:
        self.time = 1000
        self.rows: list[tuple[int, ...]] = [(self.time, LOW, 0, 0, TO, 0)]

    def run(
        self, name: str, end: int = OTHER, *, offset: int = 0, ns: int = 10, argument: int = 0
    ) -> "Program":
        address = AT[name] + offset if name in AT else 0x5000 + offset
        low = argument & 0xFFFFFFFF
        self.rows.append((self.time, address, address + 4, ns, BLOCK, end, low))
        self.time += ns
        return self

    def switch(self, leaving: int, entering: int) -> "Program":
        self.rows += [(self.time, leaving, 0, 0, FROM, 0), (self.time, entering, 0, 0, TO, 0)]
        return self

    def jump(self, ns: int) -> "Program":
        self.time += ns
        self.rows.append((self.time, 0, 0, 0, JUMP, 0))
        return self

    def steps(self) -> list[Step]:
        """The blocks so far: a window ends later than the sample."""
        rows = [*self.rows, (self.time, AT["rt_mutex_setprio"], 0, 0, BLOCK, OTHER)]
        return list(walk([recorded(rows)], Symbols(KALLSYMS)))[:-1]


class Known(Tasks):
    """Some tasks, without the bytes of a kernel."""

    def __init__(self) -> None:
        self._known = {LOW: (ORDINARY, 120), HIGH: (MEASURED, 19), WAKER: (TIMERS, 98)}


def wake_up(program: Program, work: str = "do_work") -> Program:
    """An interrupt in the work of an ordinary task wakes the measured one, which runs later."""
    program.run("user").run("user", SYSCALL, offset=8)
    program.run("entry_SYSCALL_64", CALL).run(work, CALL).run("helper.constprop.0", ns=40)
    program.run("asm_sysvec_apic_timer_interrupt", CALL).run("sysvec_apic_timer_interrupt", CALL)
    program.run("try_to_wake_up", RETURN).run("sysvec_apic_timer_interrupt", RETURN, offset=4)
    program.run("asm_sysvec_apic_timer_interrupt", EXCEPTION_RETURN, offset=4)
    program.run("helper.constprop.0", RETURN, offset=8, ns=700).run(work, CALL, offset=4)
    program.run("__schedule", CALL).run("__switch_to_asm", ns=20).switch(LOW, HIGH)
    return program.run("__schedule", offset=8).run("do_work", ns=30).run("user", offset=0x10)


def handed_over() -> Program:
    """A task gives the CPU to the measured one, by a call that an interrupt delays. It reads the
    clock before, and the measured one after it."""
    program = Program().run("user").run("user", offset=8).run("user", SYSCALL, offset=16)
    program.run("entry_SYSCALL_64", CALL).run("do_work", CALL, ns=40)
    program.run("asm_sysvec_apic_timer_interrupt", CALL).run("sysvec_apic_timer_interrupt", CALL)
    program.run("sysvec_apic_timer_interrupt", RETURN, offset=4)
    program.run("asm_sysvec_apic_timer_interrupt", EXCEPTION_RETURN, offset=4)
    program.run("helper.constprop.0", RETURN, ns=200).run("do_work", CALL, offset=4)
    program.run("__schedule", CALL).switch(LOW, HIGH).run("__schedule", RETURN, offset=4)
    return program.run("do_work", offset=8, ns=30).run("user", offset=24, ns=20)


def stored_run(tmp_path: Path, worst: dict[str, int | None], **more: Any) -> StoredRun:
    """A run with these measurements and their longest samples; None: it was not carried out.
    ``more``: changes of its document."""
    lab = {"mode": "counted", "QEMU": "QEMU 0", "seed": "1", "kernel arguments": "quiet"}
    steps = [
        made.step(
            *(number, [], name), role="calibration" if name == "clock-cost" else "measurement"
        )
        for number, name in enumerate(worst)
    ]
    document = dict(made.run(steps, target="lab:x86_64-stock-6.12").document, id=new_run_id())
    words = ["run", "/agent", "run", "timer", "--samples", "3", "--disturb-module", "/m.ko"]
    document["orders"] = [[*words, "--run", document["id"], "--step", "0", "--output", "-"]]
    document["environment"] = {**document["environment"], "lab": lab, "realtime": "voluntary"}
    document.update(more)
    with Store.open(str(tmp_path / "store")) as store:
        with store.create(document) as folder:
            for number, longest in enumerate(worst.values()):
                if longest is None:
                    document["steps"][number].update(
                        state="skipped", reason="there is no core", remedy="use another board"
                    )
                    continue
                with folder.append_stream(number) as file:
                    file.write(stream_of(document["id"], longest))
                folder.seal(number)
            folder.write_document(document)
            store.update(folder)
        return store.get(document["id"])


def stream_of(run: str, worst: int = 900) -> bytes:
    """The stream of its step."""
    writer = StreamWriter()
    records = [writer.header(run=run, measurement="timer", start_ns=500_000)]
    for number, context in ((0, "irq"), (2, "user")):
        records.append(writer.series(number, "latency", context=context, interval_ns=1000))
        records.append(writer.series(number + 1, "dither", interval_ns=1000, companion=number))
        values = np.array([5, worst, 7], np.int32) + number
        records.append(writer.samples(number + 1, 0, 0, np.array([1, 2, 3], np.int32)))
        records.append(writer.samples(number, 0, 0, values))
    tallies = [Tally(number, count=3, last_due_ns=2000) for number in range(4)]
    records.append(writer.trailer(tallies, duration_ns=3000))
    return b"".join(records)


def cause(*segments: Segment, latency_ns: int = 95_000) -> Cause:
    return Cause(0, 2, "user", 1883, 5, latency_ns, segments, 0, "replay", "", Cost(0, "none"))


def segment(kind: str, length_ns: int, function: str, **more: Any) -> Segment:
    return Segment(0, length_ns, kind, "exact", more.pop("task", ORDINARY), function, **more)
