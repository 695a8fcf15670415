# SPDX-License-Identifier: Apache-2.0
"""The programs that run in an emulated board: the static agent and the guest program.

A wheel holds them. A checkout makes them when the lab is first used there, and again when their
sources change: that needs the cross compiler, which tools/setup.sh fetches into .venv.
"""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from rtgauge.errors import TargetError
from rtgauge.lab.boards import Machine
from rtgauge.lab.cache import Say

__all__ = ["Programs", "agent_name", "guest_name", "programs", "sources_digest", "stamp_name"]

SETUP: Final = "tools/setup.sh"
# What the programs are made from, in a checkout.
SOURCES: Final = (
    "meson.build",
    "meson.options",
    "src/rtgauge/__init__.py",
    "tools/static_programs.py",
    "kmod/rtgauge.h",
    "agent/**/*.[ch]",
    "agent/meson.build",
    "lab/guest/*.[ch]",
)
SETUP_TIMEOUT_S: Final = 3600.0


@dataclass(frozen=True)
class Programs:
    """The programs for one architecture."""

    agent: Path
    guest: Path


def agent_name(processor: str) -> str:
    """The file name of the static agent for a processor."""
    return f"rtgauge-agent-{processor}-musl"


def guest_name(processor: str) -> str:
    """The file name of the guest program for a processor."""
    return f"rtgauge-guest-{processor}"


def stamp_name(processor: str) -> str:
    """The file that tells what the programs for a processor were made from."""
    return f"static-{processor}.stamp"


def sources_digest(checkout: Path) -> str:
    """What the programs would be made from now."""
    total = hashlib.sha256()
    for pattern in SOURCES:
        for path in sorted(checkout.glob(pattern)):
            name = path.relative_to(checkout).as_posix()
            total.update(f"{name}\0{path.stat().st_size}\0".encode())
            total.update(path.read_bytes())
    return total.hexdigest()


def programs(machine: Machine, say: Say) -> Programs:
    """The programs for a machine, made first if this is a checkout that lacks them.

    Raises TargetError if there are none.
    """
    folder = Path(str(resources.files("rtgauge") / "agents"))
    found = Programs(folder / agent_name(machine.processor), folder / guest_name(machine.processor))
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / SETUP).is_file():
        _make(checkout, folder / stamp_name(machine.processor), found, machine, say)
    for path in (found.agent, found.guest):
        if not path.is_file():
            raise TargetError(
                f"this installation holds no {path.name}, which an emulated board needs",
                "install rtgauge from its wheel, or run it from a clone with ./rtgauge",
            )
    return found


def _made(checkout: Path, stamp: Path, found: Programs) -> bool:
    try:
        digest = stamp.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return False
    whole = found.agent.is_file() and found.guest.is_file()
    return whole and digest == sources_digest(checkout)


def _make(checkout: Path, stamp: Path, found: Programs, machine: Machine, say: Say) -> None:
    if _made(checkout, stamp, found):
        return
    say("the programs for emulated boards, from their sources (once, some minutes)")
    try:
        done = subprocess.run(
            [checkout / SETUP, "--lab", machine.processor],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SETUP_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TargetError(
            f"{SETUP} --lab was not done after {SETUP_TIMEOUT_S:.0f} s",
            f"run it in {checkout} to see why",
        ) from None
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        last = lines[-1] if lines else f"it ended with {done.returncode}"
        raise TargetError(
            f"the programs for emulated boards could not be made: {last}",
            f"run '{SETUP} --lab' in {checkout} to see why",
        )
