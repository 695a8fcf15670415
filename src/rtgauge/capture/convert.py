# SPDX-License-Identifier: Apache-2.0
"""Converts files that libsigrok reads (such as .vcd) to sessions with sigrok-cli, within limits."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import IO, Final

from rtgauge.capture.recording import HEAD, ROOM, one_line, refuse
from rtgauge.errors import RtgaugeError

__all__ = ["converted"]

CONVERT_S: Final = 600.0
CONVERT_SAMPLES: Final = 1_000_000_000
"""Maximum number of samples of a VCD file for sigrok. A longer file is sampled more coarsely."""
PACKAGE: Final = "install it (Debian: apt install sigrok-cli), or save the capture as .sr or .csv"

_SCALES: Final = {"s": 0, "ms": -3, "us": -6, "ns": -9, "ps": -12, "fs": -15}


def _downsample(file: IO[bytes], head: bytes) -> tuple[int, str]:
    """Factor by which a VCD file has to be sampled more coarsely than in its time unit, and the
    note on it."""
    begin = re.search(rb"^#(\d{1,18})", head, re.MULTILINE)
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - HEAD, 0))
    ends = re.findall(rb"^#(\d{1,18})\b", file.read(HEAD), re.MULTILINE)
    scale = re.search(rb"\$timescale\s+(\d{1,3})\s*([munpf]?s)\s+\$end", head)
    if not begin or not ends or not scale:
        return 1, ""
    span = int(ends[-1]) - int(begin[1])
    factor = max(1, -(-span // CONVERT_SAMPLES))
    if factor == 1:
        return 1, ""
    unit = Fraction(int(scale[1])) * Fraction(10) ** _SCALES[scale[2].decode()]
    return factor, (
        f"read in steps of {float(unit * factor * 10**9):g} ns, "
        "because it is too long for its own time unit"
    )


def converted(
    path: Path, file: IO[bytes], head: bytes, kind: str, folder: Path
) -> tuple[Path, str]:
    """The capture as a session, made by sigrok-cli."""
    program = shutil.which("sigrok-cli")
    if program is None:
        raise RtgaugeError(f"reading {path.name} needs sigrok-cli, which is not installed", PACKAGE)
    made, note = folder / "converted.sr", ""
    words = [program, "-i", str(path.absolute()), "-O", "srzip", "-o", str(made)]
    if kind == "vcd":
        factor, note = _downsample(file, head)
        words[3:3] = ["-I", f"vcd:downsample={factor}" if factor > 1 else "vcd"]
    free = os.statvfs(folder)
    room = max(min(free.f_bavail * free.f_frsize - ROOM, 1 << 33), 1 << 20)

    def limited() -> None:
        for which, most in (
            (resource.RLIMIT_FSIZE, room),
            (resource.RLIMIT_AS, 1 << 32),
            (resource.RLIMIT_CPU, int(CONVERT_S)),
        ):
            _, hard = resource.getrlimit(which)
            limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (limit, limit))

    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            timeout=CONVERT_S,
            check=False,
            preexec_fn=limited,
        )
    except subprocess.TimeoutExpired:
        refuse(f"sigrok-cli did not read it within {CONVERT_S:.0f} s", "save a part of it")
    said = [line for line in done.stderr[:4096].decode("utf-8", "replace").splitlines() if line]
    if done.returncode != 0 or not made.is_file():
        refuse(f"sigrok-cli cannot read it: {one_line(said[-1] if said else 'no reason given')}")
    return made, note
