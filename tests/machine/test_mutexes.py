# SPDX-License-Identifier: Apache-2.0
"""The chapter Mutexes on this machine: orders, counts and verdicts; never a time."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agents import Stream, messages_of, results, rows_of, run, shared_library, values_of, verdicts
from rtgauge.stream import Verdict
from rtgauge.target.local import find_agent

CPU = str(max(os.sched_getaffinity(0)))
GLIBC = "glibc" in str(find_agent())
NO_SYSTEM_CALL = "uncontended operations make no system call"
PROTOCOLS = ["none", "inherit", "protect"]

needs_realtime = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can be sure of real-time priorities"
)


def measure(agent: str, tmp_path: Path, name: str, *words: str) -> tuple[int, Stream]:
    return run(agent, tmp_path, name, "--cpu", CPU, *words)


def samples(stream: Stream) -> list[list[int]]:
    """The samples of each series."""
    return [values_of(stream, info.series) for info in stream.series]


# --- mutex-uncontended ---


@pytest.mark.study(102)
def test_uncontended_has_every_operation_of_each_type(agent: str, tmp_path: Path) -> None:
    code, stream = measure(
        agent, tmp_path, "mutex-uncontended", "--samples", "1300", "--priority", "0"
    )
    types = ["normal", "recursive", "errorcheck", "inherit", "robust"]
    assert code == 0
    # the ceiling of a mutex is a real-time priority, which no task has here
    *skipped, calls = [record for record in stream.records if isinstance(record, Verdict)]
    assert (calls.rule, calls.result) == (NO_SYSTEM_CALL, "pass")
    assert rows_of(stream, "system calls") == [(kind, 0, 0, "none") for kind in types]
    assert [verdict.result for verdict in skipped] == ["skipped"] * 2
    assert ["protect" in verdict.evidence for verdict in skipped] == [True] * 2
    assert {(info.name, info.labels["type"]) for info in stream.series} == {
        (name, kind) for name in ("acquire", "release") for kind in types
    }
    assert set(stream.samples.values()) == {1300}
    assert [row[0] for row in rows_of(stream, "batches")] == [
        f"{kind}: {operation}"
        for kind in types
        for operation in ("acquire", "release", "acquire, release")
    ]
    # whole batches, one of each operation for each of the three test loops
    assert {row[3] for row in rows_of(stream, "batches")} == {3 * 64, 3 * 500}


@needs_realtime
def test_uncontended_has_the_ceiling_where_the_library_has_it(agent: str, tmp_path: Path) -> None:
    code, stream = measure(agent, tmp_path, "mutex-uncontended", "--samples", "500")
    types = {info.labels["type"] for info in stream.series}
    assert code == 0
    assert len(types) == (7 if GLIBC else 5)
    assert ({"protect", "protect-raise"} <= types) == GLIBC
    *skipped, calls = [record for record in stream.records if isinstance(record, Verdict)]
    assert (not skipped) == GLIBC
    # glibc raises the thread in each lock, and lowers it in each unlock
    assert calls.result == "pass"
    made = [row for row in rows_of(stream, "system calls") if any(row[1:3])]
    assert made == ([("protect-raise", 100, 100, "sched_setscheduler")] if GLIBC else [])
    # with several mutexes the first one raises the thread for all of them
    operations = [row[0] for row in rows_of(stream, "batches")]
    assert ("protect-raise: acquire, release" in operations) == GLIBC
    assert "protect-raise: acquire" not in operations


@needs_realtime
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not there")
def test_no_ceiling_where_its_priority_may_not_be_had(agent: str, tmp_path: Path) -> None:
    """Each lock would be refused: the time of a refusal is not a sample."""
    without = ["prlimit", "--rtprio=0:0", "setpriv", "--bounding-set=-sys_nice"]
    without += ["--inh-caps=-sys_nice"]
    words = ("mutex-uncontended", "--cpu", CPU, "--samples", "100")
    code, stream = run(agent, tmp_path, *words, by=without)
    assert code == 0
    types = {info.labels["type"] for info in stream.series}
    assert types == {"normal", "recursive", "errorcheck", "inherit", "robust"}
    *skipped, calls = [record for record in stream.records if isinstance(record, Verdict)]
    assert [verdict.result for verdict in skipped] == ["skipped"] * 2
    assert calls.result == "pass"


# What a library for CPUs without atomic operations does; and a place where nothing can be counted.
SYSTEM_CALLS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static int (*unlock)(pthread_mutex_t *);
    if (!unlock)
        unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    syscall(SYS_futex, 0, 1, 0, 0, 0, 0);
    syscall(SYS_getppid);
    return unlock(mutex);
}
"""
NO_SECCOMP = """
#include <errno.h>
int prctl(int option, ...) { return option == 38 ? (errno = EPERM, -1) : 0; }
"""


@pytest.mark.study(103)
@needs_realtime
@pytest.mark.skipif(not GLIBC, reason="a static agent takes no preloaded library")
@pytest.mark.parametrize("source", [SYSTEM_CALLS, NO_SECCOMP], ids=["made", "not counted"])
def test_system_calls_of_a_lock_are_counted(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("LD_PRELOAD", shared_library(tmp_path, source))
    code, stream = measure(agent, tmp_path, "mutex-uncontended", "--samples", "100")
    calls = verdicts(stream)[NO_SYSTEM_CALL]
    if source is NO_SECCOMP:
        assert (code, calls.result) == (0, "skipped")
        assert "Operation not permitted" in calls.evidence
        return
    assert (code, calls.result) == (3, "fail")
    said = "normal: system calls of 100 acquisitions and as many releases (futex): 0 and 200"
    assert said in calls.evidence
    assert rows_of(stream, "system calls")[0] == ("normal", 0, 200, "futex")


# --- mutex-inversion ---


def avoided(protocol: str, *, across: bool = False) -> str:
    return f"priority inversion is avoided ({protocol}{ACROSS if across else ''})"


def results_here(stream: Stream) -> dict[str, str]:
    """The verdicts on one CPU, without those of an owner on another one."""
    return {rule: result for rule, result in results(stream).items() if ACROSS not in rule}


def order_of(stream: Stream, protocol: str, *, across: bool = False) -> list[tuple[object, object]]:
    """Thread and event, in the order of the table, whose times never go back."""
    rule = avoided(protocol, across=across)
    found = [row for row in rows_of(stream, "order") if row[0] == rule]
    times = [row[1] for row in found]
    assert times == sorted(times)
    return [(row[2], row[3]) for row in found]


ACROSS = ", owner on another CPU"
INVERTED = [
    ("low", "has the mutex"),
    ("conductor", "lets all go"),
    ("high", "wants the mutex"),
    ("middle", "runs"),
    ("middle", "ends"),
    ("low", "runs"),
    ("low", "releases it"),
    ("high", "has the mutex"),
]
AVOIDED = [*INVERTED[:3], *INVERTED[5:], *INVERTED[3:5]]
needs_two_cpus = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="the owner needs a CPU of its own"
)


@pytest.mark.study(98)
@needs_realtime
def test_inversion_is_avoided_by_a_protocol_and_not_without_one(agent: str, tmp_path: Path) -> None:
    code, stream = measure(agent, tmp_path, "mutex-inversion", "--protocol", ",".join(PROTOCOLS))
    assert code == 3
    assert results_here(stream) == {
        "priority inversion is avoided (none)": "fail",
        "priority inversion is avoided (inherit)": "pass",
        "priority inversion is avoided (protect)": "pass" if GLIBC else "skipped",
    }
    assert order_of(stream, "none") == INVERTED
    assert order_of(stream, "inherit") == AVOIDED
    assert order_of(stream, "protect") == (AVOIDED if GLIBC else [])
    failed = verdicts(stream)["priority inversion is avoided (none)"]
    assert "middle runs at" in failed.evidence
    assert "in round 1: " in failed.evidence
    assert "PTHREAD_PRIO_INHERIT" in failed.remedy
    code, stream = measure(agent, tmp_path, "mutex-inversion")
    assert code == 0
    assert results_here(stream) == {"priority inversion is avoided (inherit)": "pass"}
    evidence = verdicts(stream)[avoided("inherit")].evidence
    assert "in 10 rounds, the last: " in evidence


@needs_realtime
@needs_two_cpus
def test_inversion_across_cpus(agent: str, tmp_path: Path) -> None:
    """The owner and the middle thread are on another CPU than the thread that waits."""
    _, stream = run(agent, tmp_path, "mutex-inversion", "--protocol", ",".join(PROTOCOLS))
    found = {protocol: results(stream)[avoided(protocol, across=True)] for protocol in PROTOCOLS}
    assert found == {
        "none": "fail", "inherit": "pass", "protect": "pass" if GLIBC else "skipped",
    }  # fmt: skip
    for protocol, result in found.items():
        order = order_of(stream, protocol, across=True)
        if result == "skipped":
            continue
        waits, runs = order.index(("conductor", "sees it wait")), order.index(("middle", "runs"))
        released = order.index(("low", "releases it"))
        assert waits < min(runs, released)
        assert (runs > released) == (result == "pass")
    assert "in 10 rounds" in verdicts(stream)[avoided("inherit", across=True)].evidence


@needs_realtime
def test_inversion_across_cpus_needs_two(agent: str, tmp_path: Path) -> None:
    code, stream = measure(agent, tmp_path, "mutex-inversion")
    assert code == 0
    assert results(stream) == {
        avoided("inherit"): "pass",
        avoided("inherit", across=True): "skipped",
    }
    skipped = verdicts(stream)[avoided("inherit", across=True)]
    assert "second CPU" in skipped.evidence
    assert "--cpu 0,1" in skipped.remedy


@needs_realtime
def test_without_priorities_there_is_nothing_to_inherit(agent: str, tmp_path: Path) -> None:
    code, stream = measure(
        agent, tmp_path, "mutex-inversion", "--policy", "other", "--protocol", "inherit,protect"
    )
    assert results_here(stream) == {
        "priority inversion is avoided (inherit)": "fail",
        "priority inversion is avoided (protect)": "skipped",
    }
    assert code == 3
    # between the request and the grant, wherever
    between = order_of(stream, "inherit")
    assert between.index(("high", "wants the mutex")) < between.index(("middle", "runs"))
    assert between.index(("middle", "runs")) < between.index(("high", "has the mutex"))


@needs_realtime
def test_three_priorities_are_needed(agent: str, tmp_path: Path) -> None:
    code, _ = measure(agent, tmp_path, "mutex-inversion", "--priority", "4")
    assert code == 0
    done = subprocess.run(
        [agent, "run", "mutex-inversion", "--priority", "3"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "above 3" in done.stderr


# --- mutex-contended ---


def contended(protocol: str) -> str:
    return f"the middle thread does not run in between ({protocol})"


@pytest.mark.study(99)
@needs_realtime
def test_contended_lets_no_middle_thread_in_but_without_a_protocol(
    agent: str, tmp_path: Path
) -> None:
    code, stream = measure(
        agent, tmp_path, "mutex-contended", "--protocol", ",".join(PROTOCOLS), "--samples", "450"
    )
    assert code == 3
    assert results(stream) == {
        contended("none"): "fail",
        contended("inherit"): "pass",
        contended("protect"): "pass" if GLIBC else "skipped",
    }
    found = {rule: verdict.evidence for rule, verdict in verdicts(stream).items()}
    assert "the middle thread was ready 450 times and ran 450" in found[contended("none")]
    assert "the middle thread was ready 450 times and ran 0" in found[contended("inherit")]
    measured = [protocol for protocol in PROTOCOLS if GLIBC or protocol != "protect"]
    assert [(info.labels["protocol"], info.name) for info in stream.series] == [
        (protocol, name) for protocol in measured for name in ("acquire", "release")
    ]
    assert set(stream.samples.values()) == {450}
    assert len(stream.samples) == 2 * len(measured)
    # from one thread to the other: never before it
    assert all(min(values) > 0 for values in samples(stream))


# What a lock within the kernel's release does on some kernels: the thread that the release wakes
# waits for it, and the releasing thread has to run once more.
TWICE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
static int (*lock)(pthread_mutex_t *), (*unlock)(pthread_mutex_t *);
static pthread_mutex_t guard;
static __attribute__((constructor)) void find(void)
{
    pthread_mutexattr_t attr;
    lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&guard, &attr);
}
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int error = lock(mutex);
    lock(&guard);
    unlock(&guard);
    return error;
}
int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    int error;
    lock(&guard);
    error = unlock(mutex);
    unlock(&guard);
    return error;
}
"""


@pytest.mark.study(100)
@needs_realtime
@pytest.mark.skipif(not GLIBC, reason="a static agent takes no preloaded library")
def test_a_release_that_switches_twice_is_remarked(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = shared_library(tmp_path, TWICE)
    _, stream = measure(agent, tmp_path, "mutex-contended", "--samples", "500")
    assert not [text for text in messages_of(stream) if "high thread twice" in text]
    monkeypatch.setenv("LD_PRELOAD", library)
    code, stream = measure(agent, tmp_path, "mutex-contended", "--samples", "500")
    assert code == 0
    (message,) = (text for text in messages_of(stream) if "high thread twice" in text)
    assert "(inherit): in 1000 of every 1000 rounds" in message


@needs_realtime
def test_contended_ends_when_it_is_told_to(agent: str, tmp_path: Path) -> None:
    code, stream = measure(
        agent, tmp_path, "mutex-contended", "--samples", "10000000", "--for", "300ms"
    )
    assert code == 0
    assert results(stream) == {contended("inherit"): "pass"}
    (acquired, released) = (stream.samples[info.series] for info in stream.series)
    assert 0 < acquired < 10_000_000
    assert acquired == released


# --- mutex-chain ---

CHAIN = "priority is inherited through the whole chain"


@needs_realtime
def test_a_chain_of_each_depth_is_inherited_through(agent: str, tmp_path: Path) -> None:
    code, stream = measure(agent, tmp_path, "mutex-chain", "--samples", "30", "--depth", "20")
    depths = [1, 2, 4, 8, 16, 20]
    assert code == 0
    assert results(stream) == {CHAIN: "pass"}
    assert f"was ready {30 * len(depths)} times" in verdicts(stream)[CHAIN].evidence
    assert [(info.labels["depth"], info.name) for info in stream.series] == [
        (str(depth), name) for depth in depths for name in ("acquire", "release")
    ]
    assert set(stream.samples.values()) == {30}
    table = rows_of(stream, "chain")
    assert [row[0] for row in table] == depths
    assert {(row[5], row[6]) for row in table} == {(30, 0)}
    # its means, rounded down, and its minimum values are those of the series
    series = samples(stream)
    for row, acquire, release in zip(table, series[::2], series[1::2], strict=True):
        assert row[1:5] == (
            sum(acquire) // 30, min(acquire), sum(release) // 30, min(release)
        )  # fmt: skip
        assert min(acquire) > 0
        assert min(release) > 0


@needs_realtime
def test_a_chain_without_inheritance_fails(agent: str, tmp_path: Path) -> None:
    code, stream = measure(
        agent, tmp_path, "mutex-chain", "--samples", "10", "--depth", "4", "--protocol", "none"
    )
    assert code == 3
    assert results(stream) == {CHAIN: "fail"}
    assert "first in a chain of 1, and the owner ran 0 times" in verdicts(stream)[CHAIN].evidence
    assert [row[6] for row in rows_of(stream, "chain")] == [10, 10, 10]
