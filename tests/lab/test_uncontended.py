# SPDX-License-Identifier: Apache-2.0
"""The batches of mutex-uncontended and sem-uncontended against a counted loop, in instructions.

bench/uncontended.py runs the agent and the loop on one board in counted mode, both with the C
library of this machine. Both do the same instructions, so the means differ at most by the
work of the kernel, and a batch without interruption is a whole number of instructions.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import SOURCES
from lab_boots import NEEDS_X86

PROGRAM = SOURCES.parent / "bench" / "uncontended.py"
BOARD = "x86_64-stock-6.1"
OPERATIONS = 1_000_000
KINDS = [
    *(
        f"mutex-uncontended, {kind}"
        for kind in (
            *("normal", "recursive", "errorcheck", "inherit", "protect", "protect-raise"),
            "robust",
        )
    ),
    "sem-uncontended, private",
]
# The kernel's timer interrupts are 0.06 % of a loop; of one that is in the kernel itself 0.2 %, and
# there each batch is interrupted, too.
KERNEL_SHARE = {"protect-raise": 0.004}
KERNEL_SHARE_ELSE = 0.001
# A single interruption, with what the kernel does after it, in all of a type's batches.
INTERRUPTED = 0.02
# A batch begins and ends with one or two instructions that the cost of a time stamp has not.
BATCH = 500
ENDS = 3


def check(case: dict[str, Any]) -> None:
    """The bounds, of one case as the program writes it."""
    kind = case["name"].rpartition(", ")[2]
    ours, least, loop = case["ours"], case["ours_least_batch"], case["loop"]
    assert case["held"], case
    # half an instruction: one more or less in each operation would be found
    near = 0.5 + KERNEL_SHARE.get(kind, KERNEL_SHARE_ELSE) * loop
    assert abs(least - loop) < near, case
    assert abs(case["loop_of_a_tenth"] - loop) < near, case
    assert 0 <= ours - least < INTERRUPTED * loop, case
    if kind not in KERNEL_SHARE:
        assert least % 1 < ENDS / BATCH, case


@NEEDS_X86
@pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc",
    reason="the board is given this machine's own C library: it has to be glibc for x86_64",
)
def test_batches_are_the_loop_instruction_for_instruction(tmp_path: Path) -> None:
    output = tmp_path / "cases.json"
    words = ["--lab", BOARD, "--library", "glibc", "--operations", str(OPERATIONS)]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *words, "--output", str(output)],
        capture_output=True, text=True, timeout=1800, check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    cases = json.loads(output.read_text(encoding="utf-8"))
    assert [case["name"] for case in cases] == [f"{BOARD}, glibc: {kind}" for kind in KINDS]
    for case in cases:
        check(case)


GOOD = {
    "name": f"{BOARD}, glibc: mutex-uncontended, normal", "held": True, "ours": 65.002,
    "ours_least_batch": 65.002, "loop": 65.04, "loop_of_a_tenth": 65.05,
}  # fmt: skip


def test_what_is_equal_holds() -> None:
    check(GOOD)
    # with an interruption
    check({**GOOD, "ours": 65.9})


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"ours": 66.002, "ours_least_batch": 66.002}, id="one-instruction-more"),
        pytest.param({"ours": 64.002, "ours_least_batch": 64.002}, id="one-instruction-less"),
        pytest.param({"ours": 65.3, "ours_least_batch": 65.3}, id="a-time-stamp-is-in-it"),
        pytest.param({"loop_of_a_tenth": 66.5}, id="the-loop-is-no-constant"),
        pytest.param({"ours": 64.9}, id="less-than-its-least"),
        pytest.param({"ours": 67.0}, id="far-above-its-least"),
        pytest.param({"held": False}, id="not-held"),
    ],
)
def test_what_is_not_fails(wrong: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        check({**GOOD, **wrong})
