# SPDX-License-Identifier: Apache-2.0
"""Every load of the catalogue under the real agent: it works, is counted, and leaves nothing.

A load added to the catalogue is tested here without being named. Loads that say that they cannot
run on this machine are skipped with what they say.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from rtgauge.stream import Trailer, Work, read_stream
from rtgauge.target.local import find_agent
from waiting import until

AGENT = str(find_agent())
DESCRIBED = json.loads(
    subprocess.run([AGENT, "describe"], check=True, timeout=60, stdout=subprocess.PIPE).stdout
)
LOADS = {load["name"]: load for load in DESCRIBED["loads"]}
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "loads.md").read_text(encoding="utf-8")
# what a machine may lack
CANNOT_HERE = re.compile(
    r"lies in memory|need at least two CPUs|does not support membarrier|/var/tmp"
)


def processes_with(mark: str) -> list[int]:
    """Processes whose environment holds ``mark``, which all that a test started inherits."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_until_none(mark: str) -> None:
    """Return when no process holds ``mark`` any more; one that stays meets the time limit."""
    until(lambda: not processes_with(mark))


def run_words(load: str, output: Path, seconds: str) -> list[str]:
    return [AGENT, "run", "timer", "--for", seconds, "--load", load, "--output", str(output)]


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.slow
def test_load_works_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    state = f"RTGAUGE_STATE={tmp_path / 'state'}"
    output = tmp_path / "stream.cbor"
    before = set(os.listdir("/var/tmp")) if os.path.isdir("/var/tmp") else set()
    done = subprocess.run(
        run_words(name, output, "1s"),
        timeout=120,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode and CANNOT_HERE.search(done.stderr):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    records = list(read_stream(output))
    work = [record for record in records if isinstance(record, Work)]
    assert work
    assert all(record.load == name and record.unit == LOADS[name]["unit"] for record in work)
    assert sum(record.count for record in work) > 0
    assert isinstance(records[-1], Trailer)
    wait_until_none(state)
    assert not [left for left in set(os.listdir("/var/tmp")) - before if "rtgauge" in left]


@pytest.mark.parametrize("name", LOADS)
def test_load_dies_with_a_killed_agent(name: str, tmp_path: Path) -> None:
    state = f"RTGAUGE_STATE={tmp_path / 'state'}"
    output = tmp_path / "stream.cbor"
    process = subprocess.Popen(
        run_words(name, output, "1h"),
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        # the stream grows once the load is ready and samples come
        until(
            lambda: process.poll() is not None or (output.exists() and output.stat().st_size > 8192)
        )
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        wait_until_none(state)
        assert process.stderr is not None
        said = process.stderr.read()
    if process.returncode != -signal.SIGKILL and CANNOT_HERE.search(said):
        pytest.skip(said.strip())
    assert process.returncode == -signal.SIGKILL, said


@pytest.mark.slow
def test_a_load_that_is_never_ready_before_its_restart_ends_the_step(tmp_path: Path) -> None:
    """40 processes cannot be started in a microsecond."""
    output = tmp_path / "stream.cbor"
    words = run_words("sched:restart=1us", output, "0")
    done = subprocess.run(words, timeout=120, check=False, capture_output=True)
    *_, trailer = read_stream(output)
    assert isinstance(trailer, Trailer)
    assert (done.returncode, trailer.state) == (1, "failed")
    assert "10 phases in a row ended before it was ready" in trailer.reason
    assert trailer.remedy == "give it longer phases"


@pytest.mark.parametrize("name", LOADS)
def test_page_has_each_load_with_its_options_and_defaults(name: str) -> None:
    section = re.search(rf"^## {name}\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert section
    rows = dict(re.findall(r"^\| `([\w-]+)` \| `?([^|`]+?)`? \|", section.group(1), re.MULTILINE))
    options = LOADS[name]["options"]
    assert rows == {option["name"]: option["default"] or "none" for option in options}
    assert f"**{LOADS[name]['unit']}**" in section.group(1)
    assert re.search(rf"^\| `{name}` \| {LOADS[name]['unit']} \|", PAGE, re.MULTILINE)
