# SPDX-License-Identifier: Apache-2.0
"""Semaphores measured on this machine: counts, labels, order and verdicts, never a time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agents import Stream, rows_of, run_or_skip, shared_library, values_of, verdicts

CPU = str(max(os.sched_getaffinity(0)))


def measure(agent: str, tmp_path: Path, name: str, *words: str) -> tuple[int, Stream]:
    """Run it on one CPU; where it needs a privilege that is missing, the test is skipped."""
    return run_or_skip(agent, tmp_path, name, "--cpu", CPU, *words)


@pytest.mark.study(91)
def test_uncontended_has_every_operation_of_each_kind(agent: str, tmp_path: Path) -> None:
    code, stream = measure(agent, tmp_path, "sem-uncontended", "--samples", "1300")
    assert code == 0
    assert {(info.name, info.labels["shared"]) for info in stream.series} == {
        (name, shared) for name in ("acquire", "release") for shared in ("no", "yes")
    }
    assert [stream.samples[info.series] for info in stream.series] == [1300] * 4
    assert [row[0] for row in rows_of(stream, "batches")] == [
        f"{kind}: {operation}"
        for kind in ("private", "shared")
        for operation in ("acquire", "release", "acquire, release")
    ]
    # whole batches of 500, as many as there are test loops
    assert {row[3] for row in rows_of(stream, "batches")} == {1500}
    assert rows_of(stream, "system calls") == [
        ("private", 0, 0, "none"), ("shared", 0, 0, "none"),
    ]  # fmt: skip
    assert verdicts(stream)["uncontended operations make no system call"].result == "pass"


BEHAVIOUR = {
    "sem-lock": [
        "P blocks only at zero",
        "V increments",
        "V at zero reschedules",
        "the value has a maximum",
    ],
    "sem-order": [
        "highest waiter first, arrival ascending",
        "highest waiter first, arrival descending",
        "highest waiter first, arrival mixed",
        "equal waiters in order of arrival",
    ],
}
BLOCKS, INCREMENTS, RESCHEDULES, MAXIMUM = BEHAVIOUR["sem-lock"]
ASCENDING, DESCENDING, MIXED, EQUAL = BEHAVIOUR["sem-order"]
HIGHEST = "the highest waiter runs at once"

# Semaphores of a C library that has a fault, put in front of those of the real one.
FAULTS = {
    "never blocks": """
        int sem_wait(sem_t *sem) { sem_trywait(sem); return 0; }
    """,
    "blocks at one": """
        int sem_wait(sem_t *sem) {
            int value;
            sem_getvalue(sem, &value);
            if (value == 1) sem_trywait(sem);
            while (sem_trywait(sem)) usleep(100);
            return 0;
        }
    """,
    "loses a V": """
        int sem_post(sem_t *sem) {
            static int posts;
            int value;
            sem_getvalue(sem, &value);
            return value == 2 ? 0 : real_post(sem);
        }
    """,
    "adds two": """
        int sem_post(sem_t *sem) { return real_post(sem) || real_post(sem) ? -1 : 0; }
    """,
    "has no maximum": """
        int sem_post(sem_t *sem) { real_post(sem); return 0; }
    """,
    "is stopped by a V": """
        int sem_post(sem_t *sem) {
            static int posts;
            if (++posts == 6) { kill(getpid(), SIGINT); usleep(600000); }
            return real_post(sem);
        }
    """,
    "is stopped by a V after the first rule": """
        static int after;
        int sem_init(sem_t *sem, int shared, unsigned int start) {
            int (*init)(sem_t *, int, unsigned int) = dlsym(RTLD_NEXT, "sem_init");
            after = start == 0;
            return init(sem, shared, start);
        }
        int sem_post(sem_t *sem) {
            if (after) { after = 0; kill(getpid(), SIGINT); usleep(600000); }
            return real_post(sem);
        }
    """,
    "polls": """
        int sem_wait(sem_t *sem) { while (sem_trywait(sem)) usleep(100); return 0; }
    """,
    "spins": """
        int sem_wait(sem_t *sem) {
            struct timespec from, now;
            clock_gettime(CLOCK_MONOTONIC, &from);
            while (sem_trywait(sem)) {
                clock_gettime(CLOCK_MONOTONIC, &now);
                if ((now.tv_sec - from.tv_sec) * 1000 + now.tv_nsec / 1000000
                    - from.tv_nsec / 1000000 > 300)
                    usleep(100);
            }
            return 0;
        }
    """,
    "releases the last one first": """
        struct place { uint32_t free; struct place *below; };
        static struct place *top;
        static int value;
        int sem_init(sem_t *sem, int shared, unsigned int start) {
            top = NULL;
            value = (int)start;
            return 0;
        }
        int sem_wait(sem_t *sem) {
            struct place mine = { 0, top };
            if (value > 0) { value--; return 0; }
            top = &mine;
            while (!__atomic_load_n(&mine.free, __ATOMIC_ACQUIRE))
                syscall(SYS_futex, &mine.free, 0, 0, NULL, NULL, 0);
            return 0;
        }
        int sem_post(sem_t *sem) {
            struct place *released = top;
            if (!released) { value++; return 0; }
            top = released->below;
            __atomic_store_n(&released->free, 1, __ATOMIC_RELEASE);
            syscall(SYS_futex, &released->free, 1, 1, NULL, NULL, 0);
            return 0;
        }
    """,
}
FAULT_HEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int (*post)(sem_t *);
__attribute__((constructor)) static void find(void) { post = dlsym(RTLD_NEXT, "sem_post"); }
static inline int real_post(sem_t *sem) { return post(sem); }
"""


@pytest.fixture(name="fault")
def library_with_a_fault(
    request: pytest.FixtureRequest, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    name = str(request.param)
    monkeypatch.setenv("LD_PRELOAD", shared_library(tmp_path, FAULT_HEAD + FAULTS[name]))
    return name


def failed(stream: Stream) -> set[str]:
    return {rule for rule, verdict in verdicts(stream).items() if verdict.result == "fail"}


@pytest.mark.study(87, 88)
@pytest.mark.parametrize("name", BEHAVIOUR)
@pytest.mark.parametrize("policy", ["fifo", "rr"])
@pytest.mark.parametrize("shared", ["no", "yes"])
def test_rules_hold_with_priorities(
    agent: str, tmp_path: Path, name: str, policy: str, shared: str
) -> None:
    code, stream = measure(agent, tmp_path, name, "--policy", policy, "--shared", shared)
    assert code == 0
    assert list(verdicts(stream)) == BEHAVIOUR[name]
    assert {verdict.result for verdict in verdicts(stream).values()} == {"pass"}
    for row in rows_of(stream, "order"):
        assert row[0] in BEHAVIOUR[name]
    judged = [rule for rule in BEHAVIOUR[name] if rule not in (INCREMENTS, MAXIMUM)]
    assert all("in 10 rounds, the last: " in verdicts(stream)[rule].evidence for rule in judged)


@pytest.mark.parametrize(
    ("name", "words", "rules"),
    [
        ("sem-lock", (), {RESCHEDULES}),
        ("sem-order", (), {ASCENDING, MIXED}),
        ("sem-order", ("--waiters", "3"), {ASCENDING, MIXED}),
        ("sem-order", ("--waiters", "6"), {ASCENDING, MIXED}),
    ],
)
def test_without_priorities_rules_fail(
    agent: str, tmp_path: Path, name: str, words: tuple[str, ...], rules: set[str]
) -> None:
    code, stream = measure(agent, tmp_path, name, "--policy", "other", *words)
    assert code == 3
    assert failed(stream) == rules
    assert all(verdict.remedy for verdict in verdicts(stream).values() if verdict.result == "fail")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fault", "rules"),
    [
        ("sem-lock", "never blocks", {BLOCKS, RESCHEDULES}),
        ("sem-lock", "blocks at one", {BLOCKS, RESCHEDULES}),
        ("sem-lock", "loses a V", {INCREMENTS}),
        ("sem-lock", "adds two", {INCREMENTS, MAXIMUM}),
        ("sem-lock", "has no maximum", {MAXIMUM}),
        ("sem-lock", "polls", {RESCHEDULES}),
        ("sem-lock", "spins", {RESCHEDULES}),
        ("sem-order", "releases the last one first", {DESCENDING, MIXED, EQUAL}),
        ("sem-order", "adds two", {ASCENDING, DESCENDING, MIXED, EQUAL}),
        ("sem-order", "never blocks", {ASCENDING, DESCENDING, MIXED, EQUAL}),
        ("sem-contended --waiters 5", "releases the last one first", {HIGHEST}),
        ("sem-contended --waiters 5", "polls", {HIGHEST}),
        ("sem-contended --waiters 5", "never blocks", {HIGHEST}),
    ],
    indirect=["fault"],
)
def test_a_faulty_library_does_not_hold_the_rules(
    agent: str, tmp_path: Path, name: str, fault: str, rules: set[str]
) -> None:
    code, stream = measure(agent, tmp_path, *name.split())
    assert code == 3
    assert failed(stream) == rules


@pytest.mark.parametrize("fault", ["is stopped by a V"], indirect=True)
@pytest.mark.parametrize("name", BEHAVIOUR)
def test_a_stop_within_a_round_is_no_fault(
    agent: str, tmp_path: Path, fault: str, name: str
) -> None:
    """A stop releases the threads, whatever they wait for, and the round is not judged."""
    code, stream = measure(agent, tmp_path, name)
    assert code == 4
    assert list(verdicts(stream)) == BEHAVIOUR[name]
    assert {verdict.result for verdict in verdicts(stream).values()} == {"inconclusive"}


@pytest.mark.parametrize("fault", ["is stopped by a V after the first rule"], indirect=True)
def test_a_rule_that_held_before_a_stop_passes(agent: str, tmp_path: Path, fault: str) -> None:
    code, stream = measure(agent, tmp_path, "sem-lock")
    assert code == 4
    results = {rule: verdict.result for rule, verdict in verdicts(stream).items()}
    undecided = dict.fromkeys((INCREMENTS, RESCHEDULES, MAXIMUM), "inconclusive")
    assert results == {BLOCKS: "pass", **undecided}


def test_order_says_who_came_and_who_was_released(agent: str, tmp_path: Path) -> None:
    _, stream = measure(agent, tmp_path, "sem-order", "--waiters", "4")
    for rule, arrived, released in (
        (ASCENDING, "1 2 3 4", "4 3 2 1"),
        (DESCENDING, "4 3 2 1", "4 3 2 1"),
        (MIXED, None, "4 3 2 1"),
    ):
        rows = [row for row in rows_of(stream, "order") if row[0] == rule]
        assert len(rows) == 8
        waits = " ".join(str(row[2]).split()[1] for row in rows if row[3] == "waits")
        has = " ".join(str(row[2]).split()[1] for row in rows if row[3] == "has it")
        assert arrived in (None, waits)
        assert has == released
        assert verdicts(stream)[rule].evidence.startswith(
            f"arrived {waits}, released {released} in 10 rounds, the last: "
        )


@pytest.mark.study(89)
def test_lifecycle_has_every_kind_used_and_not(agent: str, tmp_path: Path) -> None:
    before = set(Path("/dev/shm").glob("sem.rtgauge*"))
    code, stream = measure(agent, tmp_path, "sem-lifecycle", "--samples", "250")
    assert code == 0
    kinds = ["private", "shared"]
    if os.access("/dev/shm", os.R_OK | os.W_OK | os.X_OK):
        kinds.append("named")
    else:
        assert verdicts(stream)["every kind of semaphore is measured"].result == "skipped"
    assert {(info.name, info.labels["kind"], info.labels["used"]) for info in stream.series} == {
        (name, kind, used)
        for name in ("create", "delete")
        for kind in kinds
        for used in ("no", "yes")
    }
    assert {stream.samples[info.series] for info in stream.series} == {250}
    assert {row[3] for row in rows_of(stream, "batches")} == {3 * 8 * 64}
    # named ones are gone again
    assert set(Path("/dev/shm").glob("sem.rtgauge*")) == before


def test_named_semaphores_that_are_refused_are_said(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = shared_library(
        tmp_path,
        "#include <errno.h>\n#include <semaphore.h>\n"
        "sem_t *sem_open(const char *name, int flags, ...) { errno = ENOSYS; return SEM_FAILED; }",
    )
    monkeypatch.setenv("LD_PRELOAD", library)
    code, stream = measure(agent, tmp_path, "sem-lifecycle", "--samples", "100")
    assert code == 0
    verdict = verdicts(stream)["every kind of semaphore is measured"]
    assert verdict.result == "skipped"
    assert "Function not implemented" in verdict.evidence
    for info in stream.series:
        assert stream.samples[info.series] == (0 if info.labels["kind"] == "named" else 100)


@pytest.mark.parametrize("arrival", ["inward", "descending", "ascending"])
def test_contended_has_a_sample_of_each_round_and_number(
    agent: str, tmp_path: Path, arrival: str
) -> None:
    words = ["--samples", "30", "--waiters", "30", "--arrival", arrival]
    code, stream = measure(agent, tmp_path, "sem-contended", *words)
    assert code == 0
    assert [(info.name, info.labels.get("waiters")) for info in stream.series] == [
        (name, str(waiters)) for waiters in (1, 2, 5, 10, 20, 30) for name in ("acquire", "release")
    ] + [("acquire-all", None), ("release-all", None)]
    rows = rows_of(stream, "waiters")
    assert [row[0] for row in rows] == list(range(1, 31))
    values = {info.series: values_of(stream, info.series) for info in stream.series}
    *numbered, acquire_all, release_all = stream.series
    # the table counts the same samples as the series
    for info in numbered:
        found = values[info.series]
        waiters = int(info.labels["waiters"])
        row = rows[waiters - 1]
        figures = row[1:4] if info.name == "acquire" else row[4:7]
        assert len(found) == 30
        assert figures == (sum(found) // 30, min(found), max(found))
        # and so do those of all operations, in the order of the rounds
        everything = acquire_all if info.name == "acquire" else release_all
        at = waiters - 1 if info.name == "acquire" else 30 - waiters
        assert values[everything.series][at::30] == found
    assert {len(values[one.series]) for one in (acquire_all, release_all)} == {30 * 30}
    # the last test loop, in the order of its operations
    assert rows_of(stream, "loop") == [
        (1 + k, values[acquire_all.series][-30 + k], values[release_all.series][-30 + k])
        for k in range(30)
    ]
    assert verdicts(stream)[HIGHEST].result == "pass"


@pytest.mark.study(94)
def test_contended_takes_exactly_the_operations_asked_for(agent: str, tmp_path: Path) -> None:
    """As many as a published series has, which are not a whole number of rounds."""
    words = ["--operations", "100", "--waiters", "30", "--samples", "10"]
    code, stream = measure(agent, tmp_path, "sem-contended", *words)
    assert code == 0
    *numbered, acquire_all, release_all = (stream.samples[one.series] for one in stream.series)
    assert (set(numbered), acquire_all, release_all) == ({4}, 100, 100)


@pytest.mark.study(93)
def test_contended_takes_the_highest_waiter_and_no_other(agent: str, tmp_path: Path) -> None:
    code, stream = measure(agent, tmp_path, "sem-contended", "--policy", "other")
    assert code == 3
    assert failed(stream) == {HIGHEST}
    assert not any(stream.samples.values())


def test_contended_needs_priorities_for_all(agent: str, tmp_path: Path) -> None:
    output = tmp_path / "stream.cbor"
    done = subprocess.run(
        [agent, "run", "sem-contended", "--priority", "91", "--cpu", CPU, "--output", str(output)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "give a priority above 91" in done.stderr
