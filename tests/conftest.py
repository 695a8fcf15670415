# SPDX-License-Identifier: Apache-2.0
"""What all tests of the host share: repeatable hypothesis, a store of their own, and ways to run
the command line in this process or in one of its own."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from rtgauge.store import Store

hypothesis.settings.register_profile("rtgauge", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("rtgauge")

# A shell that starts the tests in the background lets them ignore Ctrl-C, and all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SOURCES = Path(__file__).resolve().parent.parent / "src"
UNIT = Path(__file__).resolve().parent / "unit"
MEMORY = Path("/dev/shm")
MEMORY_LEAST = 2 << 30  # bytes free
RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")


def pytest_configure(config: pytest.Config) -> None:
    """Puts the temporary folders of tests/unit in memory if enough of it is free. The store
    waits for the disk (fsync) at each file, which took half the time of these tests."""
    places = [config.invocation_params.dir / word.partition("::")[0] for word in config.args]
    if not all(place.is_relative_to(UNIT) for place in places):
        return  # agents and emulated boards work on the disk
    if not os.access(MEMORY, os.W_OK | os.X_OK):
        return
    room = os.statvfs(MEMORY)
    if not room.f_flag & os.ST_NOEXEC and room.f_bavail * room.f_frsize >= MEMORY_LEAST:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files, and the tests of each file, in the order of a seed (tools/repeat.py)."""
    if seed := os.environ.get("RTGAUGE_TEST_SEED"):
        drawn = random.Random(seed)
        order = {path: drawn.random() for path in dict.fromkeys(item.path for item in items)}
        items.sort(key=lambda item: (order[item.path], drawn.random()))


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Its standard output, which has to be one JSON document."""
        return json.loads(self.out)


Run = Callable[..., Result]
"""The fixture ``rtgauge``: runs a command line, and gives its result."""


@pytest.fixture(autouse=True)
def own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data folder and a current folder of the test's own, and no agent named. Journals of the
    test's own, so that its agents do not wait for others."""
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "HOME"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("RTGAUGE_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("RTGAUGE_AGENT", raising=False)
    monkeypatch.delenv("RTGAUGE_STORE", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)  # boards that a developer added


@pytest.fixture(name="agent")
def agent_path() -> str:
    """The agent of this machine, where a build has made it."""
    from rtgauge.target.local import find_agent  # noqa: PLC0415

    return str(find_agent())


@pytest.fixture
def rtgauge(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``rtgauge WORDS…`` in this process."""

    def run(*words: str) -> Result:
        from rtgauge.cli import main  # noqa: PLC0415

        capsys.readouterr()
        code = main([str(word) for word in words])
        written = capsys.readouterr()
        return Result(code, written.out, written.err)

    return run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    from rtgauge.store import Store  # noqa: PLC0415

    with Store.open(str(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """No file may grow beyond so many bytes: the system then refuses, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def spawn() -> Callable[..., subprocess.Popen[str]]:
    """Starts ``rtgauge WORDS…`` as a process of its own, its output in pipes."""

    def start(*words: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONWARNINGS": "error"}
        return subprocess.Popen(
            [sys.executable, "-m", "rtgauge", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    return start


@pytest.fixture(scope="session")
def limited_real_time() -> Iterator[None]:
    """Tests wait until a run has lifted the kernel's limit for real-time tasks. A killed run, or
    the user, may have lifted it before."""
    lifted = False
    with suppress(OSError):
        lifted = RT_RUNTIME.read_text() == "-1\n"
        if lifted:
            RT_RUNTIME.write_text("950000")
    yield
    with suppress(OSError):
        if lifted:
            RT_RUNTIME.write_text("-1")
