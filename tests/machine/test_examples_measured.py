# SPDX-License-Identifier: Apache-2.0
"""The examples of README and docs that measure this machine, executed with a shorter length.

tests/unit/test_examples.py parses all of them, and executes those on stored runs.
"""

from __future__ import annotations

import pytest

from conftest import Run
from examples import ROOT, Command, commands

#: What shortens each command. The last one counts if an option is given twice.
SHORTER = {"evaluate": ["--for", "100ms", "--samples", "50"], "run": ["--for", "300ms"]}
#: Measurements that end with their samples.
BY_SAMPLES = ("sem-contended", "sem-uncontended")

#: Parts of commands that are parsed and not executed here, and why. None may be without use.
NOT_HERE = {
    "--target ": "another system: tests/lab and tests/machine/test_run_ssh.py measure there",
    "gpio": "needs wired GPIO lines: tests/lab/test_gpio.py and test_lines.py have emulated ones",
    "rtgauge lab ": "boots emulated boards: tests/lab",
    "timer-study": "has a share of hours; --hours and --for cannot be combined",
    "evaluation-2.9": "a sequence of some 40 steps: test_platforms.py measures each of them once",
    "stress-ng": "a program that the machine may lack: test_load_command.py has others",
    "--load doload": "needs the network and the disk for a while: test_loads.py",
    "walk": "needs the disk for a while: test_loads.py",
}


def why_not(command: Command) -> str:
    return next((why for part, why in NOT_HERE.items() if part in f"{command.text} "), "")


MEASURING = [
    one for one in commands()
    if one.is_rtgauge and one.words[1] in ("run", "evaluate", "log-host", "lab")
    and not one.untried and one.words[1:3] not in (("lab", "list"), ("lab", "prune"))
]  # fmt: skip
# A command of several pages is executed once.
HERE = list({one.words[1:]: one for one in MEASURING if not why_not(one)}.values())


def test_each_reason_is_needed() -> None:
    for part in NOT_HERE:
        assert any(part in f"{one.text} " for one in MEASURING), part


def test_the_readme_counts_the_measurements(rtgauge: Run) -> None:
    known = rtgauge("describe", "--json").json()["measurements"]
    assert f"| {len(known)} measurements: " in (ROOT / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("command", HERE, ids=lambda one: one.text[:60])
def test_it_measures_this_machine(command: Command, rtgauge: Run) -> None:
    kind = command.words[1]
    more = SHORTER[kind]
    if command.words[2:3] and command.words[2] in BY_SAMPLES:
        more = ["--samples", "100"]
    done = rtgauge(*command.words[1:], *more)
    assert done.code in (0, 3, 77), f"{command}\n{done.err}"  # 3: a verdict failed, 77: skipped
    if done.code == 77:
        pytest.skip(done.err.strip().splitlines()[-1])
    assert done.out
