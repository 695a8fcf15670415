# SPDX-License-Identifier: Apache-2.0
"""Build what emulated boards run, for the processors named or for all, into src/rtgauge/agents/.

The static agent, by its own build, and the guest program of lab/guest/; both with zig and its C
library (musl), so that nothing of this machine is in them. Called by ``tools/setup.sh --lab``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from rtgauge.lab.boards import MACHINES, Machine
from rtgauge.lab.programs import agent_name, guest_name, sources_digest, stamp_name

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "src" / "rtgauge" / "agents"
BUILDS: Final = ROOT / "build" / "static"
ZIG: Final = (sys.executable, "-m", "ziglang")
TIMEOUT_S: Final = 1800.0
LINK: Final = ("-Os", "-s", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables")
# What the agent's own build adds. zig makes its C library once for all that is linked alike,
# so the guest program is compiled and linked in two steps, too.
ALIKE: Final = ("-static", "-Wl,--gc-sections", "-fomit-frame-pointer", "-pthread")
COMPILE: Final = ("-std=gnu11", "-Os", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE")


def compiler(machine: Machine) -> list[str]:
    """The words of the C compiler for a machine."""
    return [*ZIG, "cc", "-target", f"{machine.processor}-linux-musl"]


def run(*words: str | Path) -> None:
    """Run a command that has to succeed."""
    subprocess.run([str(word) for word in words], cwd=ROOT, timeout=TIMEOUT_S, check=True)


def keep(built: Path, name: str) -> None:
    """Put a program where the package has its programs; one that is in use there stays whole."""
    new = FOLDER / f"{name}.new"
    new.write_bytes(built.read_bytes())
    new.chmod(0o755)
    new.rename(FOLDER / name)


def agent(machine: Machine) -> None:
    """The static agent, as tools/check.py makes it."""
    folder = BUILDS / machine.processor
    described = BUILDS / f"{machine.processor}.ini"
    text = (
        f"[binaries]\nc = {compiler(machine)!r}\nar = {[*ZIG, 'ar']!r}\n"
        f"[built-in options]\nc_link_args = {list(LINK)!r}\n"
        "[host_machine]\nsystem = 'linux'\nendian = 'little'\n"
        f"cpu_family = '{machine.processor}'\ncpu = '{machine.processor}'\n"
    )
    same = described.exists() and described.read_text(encoding="utf-8") == text
    if not (folder / "build.ninja").exists() or not same:
        BUILDS.mkdir(parents=True, exist_ok=True)
        described.write_text(text, encoding="utf-8")
        options = ["-Dstatic=true", "-Doptimization=s", "-Ddebug=false", "-Dtests=false"]
        wipe = ["--wipe"] if (folder / "build.ninja").exists() else []
        run("meson", "setup", *wipe, "--cross-file", described, *options, folder)
    run("ninja", "-C", folder, "agent")
    name = agent_name(machine.processor)
    keep(folder / "agent" / name, name)


def guest(machine: Machine) -> None:
    """The guest program: every source of lab/guest/ in one."""
    sources = sorted((ROOT / "lab" / "guest").glob("*.c"))
    built = BUILDS / guest_name(machine.processor)
    objects = []
    for source in sources:
        objects.append(BUILDS / f"{source.stem}-{machine.processor}.o")
        run(*compiler(machine), *COMPILE, "-c", source, "-o", objects[-1])
    run(*compiler(machine), *objects, *LINK, *ALIKE, "-o", built)
    keep(built, guest_name(machine.processor))


def main() -> None:
    """Build what is not up to date; the stamp comes last, and tells what it was made from."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    processors = [machine.processor for machine in MACHINES.values()]
    parser.add_argument("processor", nargs="*", default=processors)
    named = parser.parse_args().processor
    digest = sources_digest(ROOT)
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    for machine in MACHINES.values():
        stamp = FOLDER / stamp_name(machine.processor)
        there = stamp.exists() and stamp.read_text(encoding="ascii").strip() == digest
        if machine.processor not in named or there:
            continue
        stamp.unlink(missing_ok=True)
        agent(machine)
        guest(machine)
        stamp.write_text(digest + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
