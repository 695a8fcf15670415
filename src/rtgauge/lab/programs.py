# SPDX-License-Identifier: Apache-2.0
"""The programs that are made for other machines: the static agents, and the guest programs of
emulated boards.

A wheel holds them. A checkout makes them when one is first asked for there, and again when their
sources change: that needs the cross compiler, which tools/setup.sh fetches into .venv.
"""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from rtgauge.architectures import Architecture, architecture
from rtgauge.errors import TargetError
from rtgauge.lab.boards import MACHINES, Machine
from rtgauge.lab.cache import Say

__all__ = [
    "Programs",
    "guest_name",
    "machine_of",
    "names",
    "present",
    "programs",
    "sources_digest",
    "stamp_name",
    "static_agent",
]

SETUP: Final = "tools/setup.sh"
# What the programs are made from, in a checkout.
SOURCES: Final = (
    "meson.build",
    "meson.options",
    "src/rtgauge/__init__.py",
    "src/rtgauge/architectures.py",
    "tools/static_programs.py",
    "kmod/doorbell.h",
    "kmod/rtgauge.h",
    "agent/**/*.[ch]",
    "agent/meson.build",
    "lab/guest/*.[ch]",
)
SETUP_TIMEOUT_S: Final = 3600.0


@dataclass(frozen=True)
class Programs:
    """The programs for one emulated board."""

    agent: Path
    guest: Path


def guest_name(processor: str) -> str:
    """The file name of the guest program for a processor."""
    return f"rtgauge-guest-{processor}"


def machine_of(wanted: Architecture) -> Machine | None:
    """The machine of the lab that has this architecture, if one has."""
    return next((one for one in MACHINES.values() if one.processor == wanted.processor), None)


def names(wanted: Architecture) -> list[str]:
    """The file names of all programs for an architecture, the agent first."""
    guest = [guest_name(wanted.processor)] if machine_of(wanted) else []
    return [wanted.agent, *guest]


def stamp_name(processor: str) -> str:
    """The file that tells what the programs for a processor were made from."""
    return f"static-{processor}.stamp"


def sources_digest(checkout: Path) -> str:
    """The present sources of the programs."""
    total = hashlib.sha256()
    for pattern in SOURCES:
        for path in sorted(checkout.glob(pattern)):
            name = path.relative_to(checkout).as_posix()
            total.update(f"{name}\0{path.stat().st_size}\0".encode())
            total.update(path.read_bytes())
    return total.hexdigest()


def programs(machine: Machine, say: Say) -> Programs:
    """The programs for a machine of the lab, made first if this is a checkout that lacks them.

    Raises TargetError if there are none.
    """
    agent, guest = _found(architecture(machine.processor), say)
    return Programs(agent, guest)


def static_agent(wanted: Architecture, say: Say) -> Path:
    """The static agent for an architecture, made first if this is a checkout that lacks it.

    Raises TargetError if there is none.
    """
    return _found(wanted, say)[0]


def present(wanted: Architecture) -> Path | None:
    """The static agent for an architecture if it is there and up to date; nothing is made."""
    found = _folder() / wanted.agent
    checkout = _checkout()
    if checkout and not _made(checkout, _folder() / stamp_name(wanted.processor), [found]):
        return None
    return found if found.is_file() else None


def _folder() -> Path:
    return Path(str(resources.files("rtgauge") / "agents"))


def _checkout() -> Path | None:
    """The folder of the sources, or None in an installation."""
    checkout = Path(__file__).resolve().parents[3]
    return checkout if (checkout / SETUP).is_file() else None


def _found(wanted: Architecture, say: Say) -> list[Path]:
    folder = _folder()
    found = [folder / name for name in names(wanted)]
    checkout = _checkout()
    if checkout:
        _make(checkout, folder / stamp_name(wanted.processor), found, wanted, say)
    for path in found:
        if not path.is_file():
            raise TargetError(
                f"this installation has no {path.name}",
                "install rtgauge from its wheel, or run it from a clone with ./rtgauge",
            )
    return found


def _made(checkout: Path, stamp: Path, found: list[Path]) -> bool:
    try:
        digest = stamp.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return False
    return all(path.is_file() for path in found) and digest == sources_digest(checkout)


def _make(checkout: Path, stamp: Path, found: list[Path], wanted: Architecture, say: Say) -> None:
    if _made(checkout, stamp, found):
        return
    say(f"building the programs for {wanted.name} (once, takes a few minutes)")
    try:
        done = subprocess.run(
            [checkout / SETUP, "--lab", wanted.processor],
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
            f"{SETUP} --lab did not end within {SETUP_TIMEOUT_S:.0f} s",
            f"run it in {checkout} to see why",
        ) from None
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        last = lines[-1] if lines else f"the build ended with code {done.returncode}"
        raise TargetError(
            f"the programs for {wanted.name} could not be built: {last}",
            f"run '{SETUP} --lab {wanted.processor}' in {checkout} to see why",
        )
