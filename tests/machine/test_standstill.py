# SPDX-License-Identifier: Apache-2.0
"""A process or a machine that stands still for longer than the agent waits is not a fault of the
scheduler or of a library."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from agents import read, shared_library, verdicts

CPU = str(max(os.sched_getaffinity(0)))
STOPPED_S = 1.3
"""Longer than the patience of the agent, which is a second."""

LIBRARY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The process is stopped in one of the calls. */
static void stop(const char *name)
{
    static int calls;

    if (!strcmp(name, getenv("NAME")) &&
        __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == atoi(getenv("CALL")))
        kill(getpid(), SIGSTOP);
}

int sem_post(sem_t *sem)
{
    static int (*real)(sem_t *);

    real = real ? real : dlsym(RTLD_NEXT, "sem_post");
    stop("sem_post");
    return real(sem);
}

int sched_yield(void)
{
    static int (*real)(void);

    real = real ? real : dlsym(RTLD_NEXT, "sched_yield");
    stop("sched_yield");
    return real();
}
"""


@pytest.fixture(name="library", scope="module")
def library_that_stops(tmp_path_factory: pytest.TempPathFactory) -> str:
    return shared_library(tmp_path_factory.mktemp("library"), LIBRARY)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be sure of real-time priorities")
@pytest.mark.parametrize(
    ("words", "name", "call"),
    [
        ("sem-lock", "sem_post", 15),
        ("sem-order --waiters 40", "sem_post", 1205),
        ("thread-switch --threads 10", "sched_yield", 305),
    ],
)
def test_a_standstill_is_not_judged(
    agent: str, library: str, tmp_path: Path, words: str, name: str, call: int
) -> None:
    output = tmp_path / "stream.cbor"
    process = subprocess.Popen(
        [agent, "run", *words.split(), "--cpu", CPU, "--output", str(output)],
        env={**os.environ, "LD_PRELOAD": library, "NAME": name, "CALL": str(call)},
    )
    stopped = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert stopped is not None
    assert stopped.si_code == os.CLD_STOPPED
    time.sleep(STOPPED_S)
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0
    assert {verdict.result for verdict in verdicts(read(output)).values()} == {"pass"}
