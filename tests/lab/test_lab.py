# SPDX-License-Identifier: Apache-2.0
"""The instrument's own tests, on emulated boards in counted mode.

A board of each kernel carries out the whole list of orders below, with both CPUs of the host busy;
then once more on an idle host: all that was measured is to be equal bit for bit. Disturbances put
in on purpose are to be found where theory says that they show, at their size, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from lab_boots import Boot, Booted, Step
from rtgauge.plan.disturb import KINDS
from rtgauge.stream import StreamReader, Table, Trace, Trailer

BOARDS = ("x86_64-rt-6.1", "x86_64-stock-6.1", "x86_64-rt-6.12", "x86_64-stock-6.12")
CONTEXTS = ("irq", "kernel", "user")
VERSIONS = ("6.1", "6.12")

LENGTH_NS = 200_000
# At an interval of 1 ms it begins at a thousand phases, not at ten as 7.3 ms does.
PERIOD_NS = 7_301_000
INTERVAL_NS = 1_000_000
HITS_MIN = 30
# What a disturbance that cannot be seen may add at most.
UNSEEN_NS = 30_000
# Stock's largest thread latency under the load, at least this multiple of the one of RT.
RATIO = 3
# The agent's exit code for what cannot be measured here.
SKIPPED = 77

TIMER = ("run", "timer", "--context", "irq,kernel,user", "--interval", "1ms", "--dither", "no")
UNLOADED = (*TIMER, "--for", "2s")


def _disturbed(kind: str) -> tuple[str, ...]:
    return (*UNLOADED, "--disturb", f"{kind}:{LENGTH_NS // 1000}us:{PERIOD_NS // 1000}us")


# Messages of 64 KiB: what copies them in the kernel keeps the CPU on stock, and is preempted on RT.
# (Small ones tell the kernels apart by less than twice: no system call of theirs takes long.)
# In each quarter second of 2 s, the max latencies of the kernels differed by a factor of 8 or more.
SCHED = "sched:groups=2:size=64KiB"

ORDERS = (
    ("undisturbed", UNLOADED),
    *((kind, _disturbed(kind)) for kind in KINDS),
    ("sched", (*TIMER, "--for", "500ms", "--load", SCHED)),
)
# On one kernel: the search for the shortest period, as exact as everything else.
SUSTAINED = (("sustained", ("run", "irq-sustained", "--interrupts", "1000")),)

# What is left of a disturbance when its agent is killed, and when its guardian is killed with it.
KILLS = """
MODULE=/modules/rtgauge_disturb.ko
is_there() {
    if [ -e /sys/module/rtgauge_disturb ]; then echo "$1: there"; else echo "$1: gone"; fi
}
guardian() {
    for one in /proc/[0-9]*; do grep -q rtgauge-guard $one/comm && echo ${one#/proc/}; done
}
begin() {
    /agent run timer --for 60s --disturb kthread:200us:7.301ms --disturb-module $MODULE \\
        --output /tmp/killed & agent=$!
    sleep 1
}
begin; is_there first; kill -9 $agent; sleep 1; is_there "agent killed"
begin; is_there second; kill -9 $(guardian) $agent; sleep 1; is_there "both killed"
/agent restore; is_there "restored"
/agent run timer --samples 10 --disturb kthread:200us:7.301ms --disturb-module $MODULE
is_there ended
"""
KILLED = (("killed", ("/bin/busybox", "sh", "-c", KILLS)),)


def _boot(board: str) -> Boot:
    orders = ORDERS if board != "x86_64-rt-6.12" else (*ORDERS, *SUSTAINED)
    return Boot(board, orders, "busy")


KILLING = Boot("x86_64-rt-6.12", KILLED, "busy", turn=3)
# A PID namespace of its own, as containers have them.
NAMESPACE = ("/bin/busybox", "unshare", "-f", "-p", "/agent", "run", "timer", "--samples", "10")
PROGRAMS = (("/interface", "kmod/tests/interface.c"), ("/trace", "kmod/tests/trace.c"))
# The module's interface, by its own programs: what it must take, what it must refuse, and noise.
INTERFACE = Boot(
    "x86_64-rt-6.1",
    (
        ("calls", ("/interface", "calls")),
        ("fuzz", ("/interface", "fuzz", "1", "20000")),
        ("killed", ("/interface", "killed", "20")),
        ("trace", ("/trace",)),
        ("namespace", (*NAMESPACE, "--context", "irq,kernel")),
    ),
    "busy",
    turn=4,
    programs=PROGRAMS,
)

SHELL = ("/bin/busybox", "sh", "-c")
# The measured CPU goes offline, with a trace and without one.
WAYS = ("without", "module", "tracefs")
OFFLINE = """
offline() {
    name=$1; shift
    /agent run timer --cpu 1 --for 60s --output /offline-$name $@ >/dev/null 2>&1 & agent=$!
    n=0; while [ ! -s /offline-$name ] && [ $n -lt 3000 ]; do n=$((n + 1)); usleep 20000; done
    sleep 1
    held="$(ls /sys/kernel/tracing/instances | wc -l) $(ls -l /proc/$agent/fd | grep -c trace)"
    echo 0 >/sys/devices/system/cpu/cpu1/online
    wait $agent; code=$?
    echo 1 >/sys/devices/system/cpu/cpu1/online
    left="$(ls /sys/kernel/tracing/instances | wc -l) $(cat /sys/module/rtgauge/refcnt)"
    echo "$name: $code, held $held, left $left"
}
offline without
offline module --explain
mv /dev/rtgauge_trace /hidden
offline tracefs --explain
mv /hidden /dev/rtgauge_trace
"""
# The module is removed while it traces: Debian's kernels permit that by force.
FORCED = """
/agent run timer --for 60s --explain --output /forced.cbor >/dev/null 2>&1 & agent=$!
n=0; while [ ! -s /forced.cbor ] && [ $n -lt 3000 ]; do n=$((n + 1)); usleep 20000; done
rmmod rtgauge 2>/dev/null || echo refused
rmmod -f rtgauge & removal=$!
sleep 1
kill -0 $removal && echo waits
kill -INT $agent
wait $agent
wait $removal && echo removed
insmod /modules/rtgauge.ko && [ -c /dev/rtgauge_trace ] && echo back
"""
# Nothing but a boot ends it, and it lets no module in.
LOCK = "mount -t securityfs none {0}; echo {1} >{0}/lockdown && cat {0}/lockdown"
LOCKED = tuple(
    order
    for level in ("integrity", "confidentiality")
    for order in (
        (f"lock-{level}", (*SHELL, LOCK.format("/sys/kernel/security", level))),
        (level, ("run", "timer", "--samples", "10", "--explain")),
    )
)

# With several CPUs what is done at the same time really is: and CPUs that go away, and the module.
TOGETHER = Boot(
    "x86_64-rt-6.1,mode=plain,cpus=2",
    (
        ("explain-offline", (*SHELL, OFFLINE)),
        *((f"offline-{way}", ("/bin/busybox", "cat", f"/offline-{way}")) for way in WAYS),
        ("calls", ("/interface", "calls")),
        ("killed", ("/interface", "killed", "20")),
        ("trace", ("/trace",)),
        ("forced", (*SHELL, FORCED)),
        ("offline", ("/interface", "offline", "1")),
        ("removed", ("/bin/busybox", "rmmod", "rtgauge")),
        ("reload", ("/interface", "reload", "/modules/rtgauge.ko", "20")),
        *LOCKED,
        ("instances", ("/bin/busybox", "ls", "/sys/kernel/tracing/instances")),
    ),
    "busy",
    turn=5,
    programs=PROGRAMS,
)


BUSY = {board: _boot(board) for board in BOARDS}
# The same orders on an idle host. The others run next to each other once more.
AGAIN = {
    board: Boot(board, BUSY[board].orders, "idle", turn=2)
    for board in ("x86_64-rt-6.12", "x86_64-stock-6.1")
}


# For `make test`: a board of each kind, and one disturbance.
SMOKE_KIND = "preempt_disable"
SMOKE = {
    board: Boot(
        board, tuple(one for one in ORDERS if one[0] in ("undisturbed", SMOKE_KIND)), turn=6
    )
    for board in ("x86_64-rt-6.12", "x86_64-stock-6.12")
}


def _shows(kind: str, context: str, board: str) -> bool:
    """What theory says of a kind of disturbance, in a context, on a kernel."""
    if kind in ("local_irq_save", "raw_spin_lock_irqsave"):
        return True
    if context == "irq":
        return False
    return kind == "preempt_disable" or "stock" in board


def _complete(step: Step) -> Step:
    assert step.trailer.state == "complete", f"{step.trailer.reason} {step.said}"
    assert step.code == 0, step.said
    return step


@pytest.mark.parametrize(
    ("board", "name"),
    [
        pytest.param(board, name, marks=pytest.mark.boots(BUSY[board], AGAIN[board]))
        for board in AGAIN
        for name, _ in BUSY[board].orders
    ],
)
def test_two_runs_are_equal_bit_for_bit(booted: list[Booted], board: str, name: str) -> None:
    busy, idle = (_complete(one.steps[name]) for one in booted)
    found = busy.measured()
    assert len(found) > 1, f"nothing was measured on {board}"
    assert found == idle.measured()


@pytest.mark.parametrize(
    ("board", "kind", "context"),
    [
        pytest.param(board, kind, context, marks=pytest.mark.boots(BUSY[board]))
        for board in BOARDS
        for kind in KINDS
        for context in CONTEXTS
    ],
)
def test_a_disturbance_is_found_where_it_shows_and_nowhere_else(
    booted: list[Booted], board: str, kind: str, context: str
) -> None:
    _is_found(booted[0].steps, board, kind, context)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("board", "context"),
    [
        pytest.param(board, context, marks=pytest.mark.boots(boot))
        for board, boot in SMOKE.items()
        for context in CONTEXTS
    ],
)
def test_smoke(booted: list[Booted], board: str, context: str) -> None:
    _is_found(booted[0].steps, board, SMOKE_KIND, context)


def _is_found(steps: Mapping[str, Step], board: str, kind: str, context: str) -> None:
    still, disturbed = (_complete(steps[name]) for name in ("undisturbed", kind))
    done = re.search(rf"injected disturbances \({kind}\): (\d+) ", "\n".join(disturbed.texts()))
    assert done, disturbed.texts()
    hits = int(done[1]) * LENGTH_NS / INTERVAL_NS
    assert hits >= HITS_MIN
    before, found = (int(step.samples(context).max()) for step in (still, disturbed))
    if _shows(kind, context, board):
        expected = LENGTH_NS + before
        assert abs(found - expected) <= 0.1 * expected, f"{found} ns, not {expected} ns"
    else:
        assert found < UNSEEN_NS, f"{found} ns, where theory says that nothing shows"


@pytest.mark.study(1, 25, 115)
@pytest.mark.parametrize(
    ("version", "context"),
    [
        pytest.param(
            version,
            context,
            marks=pytest.mark.boots(BUSY[f"x86_64-rt-{version}"], BUSY[f"x86_64-stock-{version}"]),
        )
        for version in VERSIONS
        for context in ("kernel", "user")
    ],
)
def test_rt_is_better_than_stock_under_load(
    booted: list[Booted], version: str, context: str
) -> None:
    realtime, stock = (int(_complete(one.steps["sched"]).samples(context).max()) for one in booted)
    assert stock >= RATIO * realtime, f"{version}: stock {stock} ns, RT {realtime} ns"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.boots(boot), id=f"{boot.turn}-{name}")
        for boot in (INTERFACE, TOGETHER)
        for name, words in boot.orders
        if words[0] in dict(PROGRAMS)
    ],
)
def test_the_module_takes_what_it_may_and_refuses_the_rest(booted: list[Booted], name: str) -> None:
    step = booted[0].steps[name]
    said = step.stream.decode(errors="replace")
    assert step.code == 0, f"{said} {step.said}"
    assert re.search(r"^ok \d+ ", said, re.M)
    assert "not ok" not in said


@pytest.mark.boots(INTERFACE)
def test_a_thread_of_the_kernel_that_cannot_be_named_is_not_measured(booted: list[Booted]) -> None:
    step = booted[0].steps["namespace"]
    assert "the kernel thread has no ID in this PID namespace" in step.said
    assert step.code == SKIPPED, step.said


@pytest.mark.boots(TOGETHER)
@pytest.mark.parametrize("way", WAYS)
def test_a_step_fails_when_its_cpu_goes_offline(booted: list[Booted], way: str) -> None:
    """With a trace as without one, and of the trace nothing is left."""
    (trailer,) = StreamReader().feed(booted[0].steps[f"offline-{way}"].stream)[-1:]
    assert isinstance(trailer, Trailer)
    assert trailer.state == "failed"
    assert trailer.reason == "CPU 1 went offline during the step"
    assert trailer.remedy == "run again, and leave the CPUs and the affinity of threads unchanged"
    held = {"without": "0 0", "module": "0 1", "tracefs": "1 1"}[way]
    said = booted[0].steps["explain-offline"].stream.decode().splitlines()
    assert f"{way}: 1, held {held}, left 0 0" in said


@pytest.mark.boots(TOGETHER)
def test_the_module_can_be_removed_by_force_while_it_traces(booted: list[Booted]) -> None:
    """Without force it stays. With it the removal waits until the device is closed."""
    said = booted[0].steps["forced"].stream.decode().split()
    assert said == ["refused", "waits", "removed", "back"]


@pytest.mark.boots(TOGETHER)
def test_a_kernel_that_is_locked_down_is_named(booted: list[Booted]) -> None:
    """The run is complete without a trace, and the remedy is one."""
    steps = booted[0].steps
    traces = {
        level: [one for one in _complete(steps[level]).records if isinstance(one, Trace)]
        for level in ("integrity", "confidentiality")
        if f"[{level}]" in steps[f"lock-{level}"].stream.decode()
    }
    (lost,) = traces["confidentiality"]
    assert lost.fields["reason"] == (
        "cannot make a trace instance: the kernel is locked down (confidentiality)"
    )
    assert "lockdown=integrity" in str(lost.fields["remedy"])
    parts = {one.part for one in traces["integrity"]}
    assert "lost" not in parts
    assert parts >= {"cost", "format", "sample", "page"}
    assert booted[0].steps["instances"].stream == b""


@pytest.mark.parametrize(
    "boot",
    [
        pytest.param(boot, marks=pytest.mark.boots(boot), id=f"{boot.board}-{boot.turn}")
        for boot in (*BUSY.values(), KILLING, INTERFACE, TOGETHER)
    ],
)
def test_the_kernel_has_nothing_to_complain_of(booted: list[Booted], boot: Boot) -> None:
    log = booted[0].log
    assert "rtgauge" in log, f"the log of {boot.board} is not that of a kernel with the module"
    faults = re.findall(
        r".*(?:WARNING:|BUG:|Oops|Call Trace|rcu:.*stall|soft lockup|scheduling while atomic).*",
        log,
    )
    assert not faults


@pytest.mark.boots(KILLING)
def test_a_disturbance_ends_with_its_agent_whatever_becomes_of_that(booted: list[Booted]) -> None:
    found = re.findall(r"^(.+): (there|gone)$", booted[0].steps["killed"].stream.decode(), re.M)
    assert found == [
        ("first", "there"), ("agent killed", "gone"), ("second", "there"),
        ("both killed", "there"), ("restored", "gone"), ("ended", "gone"),
    ]  # fmt: skip


@pytest.mark.boots(BUSY["x86_64-rt-6.12"], AGAIN["x86_64-rt-6.12"])
def test_the_shortest_interrupt_period_is_the_same_twice(booted: list[Booted]) -> None:
    first, second = (
        [one.rows for one in _complete(boot.steps["sustained"]).records if isinstance(one, Table)]
        for boot in booted
    )
    assert first
    assert any(first)
    assert first == second
