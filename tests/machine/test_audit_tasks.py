# SPDX-License-Identifier: Apache-2.0
"""Threads of other processes that run in real time, as the agent of this machine sees them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtgauge.audit import audit
from rtgauge.engine.environment import read_facts
from rtgauge.target.local import find_agent

SECOND = """
import os, threading
cpu = max(os.sched_getaffinity(0))
def urgent():
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(95))
    except PermissionError:
        print("refused", flush=True)
    os.sched_setaffinity(0, {cpu})
    print(threading.get_native_id(), cpu, flush=True)
    threading.Event().wait()
threading.Thread(target=urgent, daemon=True).start()
input()
"""


@pytest.fixture
def second() -> Iterator[tuple[int, int]]:
    """A process whose second thread has FIFO 95: the thread's id and CPU."""
    with subprocess.Popen(
        [sys.executable, "-c", SECOND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if line == "refused\n":
                pytest.skip("SCHED_FIFO is not permitted here")
            thread, cpu = map(int, line.split())
            assert thread != process.pid
            yield thread, cpu
        finally:
            process.kill()


def test_a_second_thread_of_a_process_is_found(second: tuple[int, int]) -> None:
    thread, cpu = second
    name = Path(f"/proc/{thread}/comm").read_text("utf-8").strip()
    assert os.sched_getscheduler(thread) == os.SCHED_FIFO
    stream = subprocess.run(
        [find_agent(), "environment"], check=True, capture_output=True, timeout=30
    ).stdout
    _, facts, _ = read_facts(stream)
    found = next(one for one in audit(facts) if one.check == "real-time-tasks")
    assert found.level == "warning"
    assert f"{name} (95) on CPU {cpu}" in found.found
