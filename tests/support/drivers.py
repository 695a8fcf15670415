# SPDX-License-Identifier: Apache-2.0
"""Small C programs, mostly around parts of the agent, for tests that are written in Python."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
AGENT: Final = ROOT / "agent"
TIMEOUT_S: Final = 60


def compiled(program: Path, *words: str) -> Path:
    """The program that the C compiler makes of these words."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc)")
    subprocess.run([compiler, *words, "-o", program], check=True, timeout=TIMEOUT_S)
    return program


def compile_driver(
    folder: Path, name: str, sources: Sequence[str], wrapped: Sequence[str] = ()
) -> Path:
    """The program of ``agent/tests/NAME.c`` with these parts of the agent; calls that it puts its
    own in place of are ``wrapped``. What C leaves undefined ends it."""
    return compiled(
        folder / name,
        *("-std=gnu11", "-D_GNU_SOURCE", '-DRTGAUGE_VERSION="0"', "-O1", "-g"),
        *("-Wall", "-Wextra", "-Werror", "-pthread"),
        *("-fsanitize=undefined", "-fno-sanitize-recover=all"),
        *(f"-Wl,--wrap={call}" for call in wrapped),
        *(f"-I{AGENT}", f"-I{ROOT / 'kmod'}"),
        str(AGENT / "tests" / f"{name}.c"),
        *(str(AGENT / f"{source}.c") for source in sources),
    )
