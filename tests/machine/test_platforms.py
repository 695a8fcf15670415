# SPDX-License-Identifier: Apache-2.0
"""The whole catalogue where it may do less: on one CPU, without rights, in containers.

Everything is measured or skipped; what is skipped says why and what to do, and nothing fails or
hangs. ``$RTGAUGE_AGENT`` names the agent, so that other builds are put through the same.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from agents import NOT_LOADED, Stream, read
from rtgauge.catalogue import Catalogue, Measurement
from rtgauge.stream import Verdict
from rtgauge.target.local import find_agent

NOBODY: Final = 65534
CPUS: Final = sorted(os.sched_getaffinity(0))
CPU: Final = str(CPUS[-1])
ROOT: Final = os.geteuid() == 0
NEED_TWO_CPUS: Final = frozenset({"cpu-migration", "cpu-wakeup"})
# The device of the module. The tests of the module are in tests/lab.
MODULE: Final = Path("/dev/rtgauge")
# What needs somebody outside, on a line that is wired: no part of an evaluation either.
NEED_LINE: Final = frozenset({"log-host", "response"})
NEED_PROCESS: Final = frozenset({"observe"})
# What needs a program that systems without Xenomai lack.
NEED_PROGRAM: Final = frozenset({"smokey"})
# Steps of xeno-test, which an evaluation does not have.
CORE_CHECKS: Final = NEED_PROGRAM | {"clock-warps", "core-switches"}


# What needs a choice of sleep states, and root to limit them.
NEED_STATES: Final = frozenset({"idle-exit"})
STATES: Final = Path(f"/sys/devices/system/cpu/cpu{CPU}/cpuidle/state1")
LIMIT: Final = Path("/dev/cpu_dma_latency")


@dataclass(frozen=True)
class Place:
    """Where an agent runs: the words before its command, and whether it has the rights."""

    name: str
    words: Sequence[str]
    owner: int | None = None  # of the files it writes, where it is not ours
    priority: bool = True
    opens_devices: bool = True  # of root


PLACES: Final = (
    Place("here", ()),
    Place("one CPU", ("taskset", "-c", CPU)),
    # a user's process
    Place(
        "no rights",
        ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
        owner=NOBODY,
        priority=False,
        opens_devices=False,
    ),
    # root in a container that has been given nothing
    Place("no capabilities", ("setpriv", "--bounding-set=-all", "--inh-caps=-all"), priority=False),
    # root in a name space of its own
    Place(
        "user namespace",
        ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"),
        priority=False,
    ),
)


@pytest.fixture(name="folder")
def folder_for_all() -> Iterator[Path]:
    """A folder that every user may read."""
    folder = Path(tempfile.mkdtemp(prefix="rtgauge-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=PLACES, ids=[place.name for place in PLACES], name="place")
def place_that_there_is(request: pytest.FixtureRequest) -> Place:
    """A place; skipped where this machine lacks its kind."""
    place = request.param
    assert isinstance(place, Place)
    if not place.words:
        return place
    try:
        tried = subprocess.run([*place.words, "true"], capture_output=True, check=False, timeout=60)
    except FileNotFoundError:
        pytest.skip(f"there is no program {place.words[0]}")
    if tried.returncode:
        pytest.skip(f"{place.words[0]}: {tried.stderr.decode(errors='replace').strip()}")
    return place


def prepared(place: Place, folder: Path) -> tuple[str, Path]:
    """The agent where the place's user may run it, and a state folder of that user's."""
    agent = folder / "agent"
    shutil.copy(find_agent(), agent)
    agent.chmod(0o755)
    state = folder / "state"
    state.mkdir(0o700)
    if place.owner is not None:
        os.chown(state, place.owner, place.owner)
    return str(agent), state


def described(agent: str) -> Catalogue:
    done = subprocess.run([agent, "describe"], capture_output=True, check=True, timeout=60)
    return Catalogue.from_json(done.stdout)


def small(entry: Measurement) -> list[str]:
    """Options by which a measurement is soon over."""
    words = []
    if entry.has("interval"):
        words += ["--for", "100ms"]
    elif entry.has("for") and entry.option("for").default != "0":
        words += ["--for", "1s"]
    elif entry.has("samples"):
        option = entry.option("samples")
        few = min(100, int(option.default)) or 100
        words += ["--samples", str(max(few, int(option.min or 0)))]
    return words


def measure(agent: str, state: Path, place: Place, words: Sequence[str]) -> tuple[int, Stream]:
    done = subprocess.run(
        [*place.words, agent, "run", *words, "--output", "-"],
        env={**os.environ, "RTGAUGE_STATE": str(state)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=120,
        check=False,
    )
    output = state.parent / "stream.cbor"
    output.write_bytes(done.stdout)
    return done.returncode, read(output)


def expected_to_skip(place: Place, entry: Measurement) -> bool:
    """By what it says that it needs."""
    name = entry.name
    if name in NEED_LINE | NEED_PROCESS:
        return True
    if name in NEED_PROGRAM:
        return shutil.which(name) is None
    if name in NEED_STATES:
        return not (STATES.is_dir() and LIMIT.exists() and place.opens_devices and ROOT)
    if entry.needs == "module":
        return not (MODULE.exists() and place.priority and ROOT)
    if entry.needs == "priorities":
        return not (place.priority and ROOT)
    return name in NEED_TWO_CPUS and (place.name == "one CPU" or len(CPUS) < 2)


def why_skipped(entry: Measurement) -> str:
    """A word of the reason."""
    if entry.name in NEED_LINE:
        return "no line was given"
    if entry.name in NEED_PROCESS:
        return "no process was given"
    if entry.name in NEED_PROGRAM:
        return "is not installed on the target"
    if entry.name in NEED_STATES:
        return "sleep states"
    if entry.needs == "module":
        return str(MODULE) if Path("/proc/modules").exists() else NOT_LOADED
    return "SCHED_FIFO" if entry.needs == "priorities" else "two CPUs"


@pytest.mark.slow
def test_everything_is_measured_or_says_why_not(place: Place, folder: Path) -> None:
    agent, state = prepared(place, folder)
    entries = described(agent).measurements
    wrong: list[tuple[object, ...]] = []
    for entry in entries.values():
        code, stream = measure(agent, state, place, [entry.name, *small(entry)])
        trailer = stream.trailer
        assert stream.complete, entry.name
        found = (entry.name, code, trailer.state, trailer.reason)
        if expected_to_skip(place, entry) != (trailer.state == "skipped"):
            wrong.append(found)
        elif trailer.state == "skipped":
            right = why_skipped(entry)
            if code != 77 or right not in trailer.reason or not trailer.remedy:
                wrong.append(found)
            assert not any(stream.samples.values())
        elif trailer.state != "complete" or code not in (0, 3):
            wrong.append(found)
        elif entry.series and not any(stream.samples.values()):
            wrong.append((*found, "no sample"))
        for verdict in stream.records:
            if isinstance(verdict, Verdict) and verdict.result in ("fail", "skipped"):
                assert verdict.evidence, entry.name
                assert verdict.remedy, entry.name
            elif isinstance(verdict, Verdict) and verdict.result == "pass":
                assert not verdict.remedy, entry.name
    assert wrong == []


def test_priority_0_skips_what_takes_priorities(folder: Path) -> None:
    agent, state = prepared(PLACES[0], folder)
    needy = [
        name for name, one in described(agent).measurements.items() if one.needs == "priorities"
    ]
    for name in needy:
        code, stream = measure(agent, state, PLACES[0], [name, "--priority", "0"])
        assert (name, code, stream.trailer.state) == (name, 77, "skipped")
        assert stream.trailer.reason
        assert stream.trailer.remedy


@pytest.mark.skipif(not ROOT, reason="only root can give rights away")
@pytest.mark.skipif(os.nice(0) > 0, reason="under nice, loads are refused without rights")
@pytest.mark.slow
def test_an_evaluation_without_rights(folder: Path) -> None:
    """Through the host: a skipped step does not stop the others and does not count as a failure.
    With all steps skipped the code is 77."""
    place = PLACES[2]
    agent, state = prepared(place, folder)
    unable = folder / "unable"
    unable.write_text(f'#!/bin/sh\nexec {" ".join(place.words)} {agent} "$@"\n')
    unable.chmod(0o755)
    store = ["--store", f"{folder}/runs.db"]
    variables = {**os.environ, "RTGAUGE_AGENT": str(unable), "RTGAUGE_STATE": str(state)}

    def rtgauge(*words: str) -> tuple[int, dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-m", "rtgauge", *words, "--json", *store],
            env=variables, cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout)["runs"][0]

    code, run = rtgauge("run", "thread-rules")
    steps = run["steps"]
    assert code == 77
    assert steps[0]["state"] == "skipped"
    assert "SCHED_FIFO" in steps[0]["reason"]
    code, run = rtgauge("evaluate", "--for", "100ms", "--samples", "100", "-o", "all.md")
    steps = run["steps"]
    assert code == 77  # also if the machine is too busy for one of the tests
    assert {step["state"] for step in steps} == {"complete", "skipped"}
    entries = described(agent).measurements
    left_out = NEED_LINE | NEED_PROCESS | NEED_STATES | CORE_CHECKS
    assert {step["measurement"] for step in steps} >= set(entries) - left_out
    for step in steps:
        if (entry := entries.get(step["measurement"])) is not None:
            assert (step["state"] == "skipped") == expected_to_skip(place, entry)
    assert (folder / "all.md").stat().st_size > 0
