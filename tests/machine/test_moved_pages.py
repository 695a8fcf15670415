# SPDX-License-Identifier: Apache-2.0
"""A thread that waits for a page that the kernel moves lets others run out of their order. That is
not a fault of the scheduler. Here a library causes a page fault and a sleep in a certain call."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents import run_or_skip, shared_library, verdicts
from rtgauge.stream import Verdict
from rtgauge.target.local import find_agent

CPU = str(max(os.sched_getaffinity(0)))

LIBRARY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void fault(void)
{
    volatile char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    munlock((void *)page, 4096);
    madvise((void *)page, 4096, MADV_DONTNEED);
    *page = 1;
}

/* One of the calls makes the thread sleep. With FAULTS it looks as if the kernel moved a page. */
static void wait_for_page(const char *name)
{
    static int calls;

    if (strcmp(name, getenv("NAME")) ||
        __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) != atoi(getenv("CALL")))
        return;
    if (getenv("FAULTS"))
        fault();
    usleep(1000 * atoi(getenv("SLEEP_MS")));
}

int sem_wait(sem_t *sem)
{
    static int (*real)(sem_t *);

    real = real ? real : dlsym(RTLD_NEXT, "sem_wait");
    wait_for_page("before sem_wait");
    return real(sem);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *);

    real = real ? real : dlsym(RTLD_NEXT, "pthread_mutex_lock");
    wait_for_page("before pthread_mutex_lock");
    return real(mutex);
}

struct begun {
    void *(*main)(void *);
    void *arg;
};

static void *begin(void *arg)
{
    struct begun begun = *(struct begun *)arg;

    wait_for_page("in a thread");
    return begun.main(begun.arg);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    static struct begun all[4096];
    static int next;
    struct begun *begun = &all[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % 4096];
    int err;

    real = real ? real : dlsym(RTLD_NEXT, "pthread_create");
    *begun = (struct begun){ main, arg };
    if (getenv("STACKS"))
        fault();
    err = real(thread, attr, begin, begun);
    wait_for_page("after pthread_create");
    return err;
}
"""


@pytest.fixture(name="library", scope="module")
def library_that_waits(tmp_path_factory: pytest.TempPathFactory) -> str:
    return shared_library(tmp_path_factory.mktemp("library"), LIBRARY)


@pytest.fixture(name="judged")
def judged_with_a_wait(
    request: pytest.FixtureRequest,
    agent: str,
    library: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Verdict:
    """The only verdict of a measurement in which that call waits."""
    words, name, call, faults = request.param
    monkeypatch.setenv("LD_PRELOAD", library)
    monkeypatch.setenv("NAME", name)
    monkeypatch.setenv("CALL", str(call))
    monkeypatch.setenv("SLEEP_MS", "3")
    if faults:
        monkeypatch.setenv("FAULTS", "yes")
    _, stream = run_or_skip(agent, tmp_path, *words.split(), "--cpu", CPU)
    (verdict,) = verdicts(stream).values()
    return verdict


@pytest.mark.parametrize(
    ("judged", "result", "evidence"),
    [
        ((*where, faults), result, evidence)
        for where, *expected in (
            (
                ("mutex-contended --samples 300", "before pthread_mutex_lock", 100),
                ("inconclusive", "ran 1 time before the high one had the mutex"),
                ("fail", "ran 1 time before the high one had the mutex"),
            ),
            (
                ("mutex-chain --samples 300 --depth 2", "before pthread_mutex_lock", 100),
                ("inconclusive", "ran 1 time before the high one had the mutex"),
                ("fail", "ran 1 time before the high one had the mutex"),
            ),
            (
                ("sem-contended --samples 20 --waiters 5", "before sem_wait", 48),
                ("inconclusive", " round 10, "),
                ("fail", " round 10, "),
            ),
            (
                ("thread-lifecycle --samples 50", "after pthread_create", 20),
                ("pass", "; 1 not judged: a thread slept"),
                ("fail", "never-run: 50 threads, 1 at the wrong time"),
            ),
            (
                ("thread-lifecycle --samples 50", "in a thread", 80),
                ("pass", "; 1 not judged: a thread slept"),
                ("fail", "terminated: 50 threads, 1 at the wrong time"),
            ),
        )
        for faults, (result, evidence) in zip((True, False), expected, strict=True)
    ],
    indirect=["judged"],
)
def test_a_wait_for_a_page_is_not_judged(judged: Verdict, result: str, evidence: str) -> None:
    """The same sleep without a page fault is judged."""
    assert judged.result == result
    assert evidence in judged.evidence


def test_page_faults_without_a_sleep_excuse_no_thread(
    agent: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some C libraries cause one for each stack."""
    monkeypatch.setenv("LD_PRELOAD", library)
    monkeypatch.setenv("NAME", "none")
    monkeypatch.setenv("STACKS", "yes")
    words = ("thread-lifecycle", "--samples", "300", "--policy", "other", "--cpu", CPU)
    _, stream = run_or_skip(agent, tmp_path, *words)
    (verdict,) = verdicts(stream).values()
    assert verdict.result == "fail"


@pytest.mark.parametrize("faults", [True, False])
@pytest.mark.parametrize(
    ("words", "name", "call", "rule"),
    [
        ("sem-lock", "before sem_wait", "45", "V at zero reschedules"),
        ("mutex-inversion", "before pthread_mutex_lock", "6",
         "priority inversion is avoided (inherit)"),
    ],
)  # fmt: skip
def test_a_wait_for_a_page_in_place_of_another_is_not_judged(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: str, name: str, call: str, rule: str, faults: bool,
) -> None:  # fmt: skip
    """The semaphore or mutex is free after it, so the thread sleeps as often as otherwise."""
    monkeypatch.setenv("LD_PRELOAD", library)
    monkeypatch.setenv("NAME", name)
    monkeypatch.setenv("CALL", call)
    monkeypatch.setenv("SLEEP_MS", "50")
    if faults:
        monkeypatch.setenv("FAULTS", "yes")
    _, stream = run_or_skip(str(find_agent()), tmp_path, words, "--cpu", CPU)
    judged = verdicts(stream)[rule]
    assert judged.result == ("pass" if faults else "fail"), judged.evidence
    assert ("1 disturbed and repeated" in judged.evidence) == faults
