# SPDX-License-Identifier: Apache-2.0
"""Build what emulated boards run, for each of their processors, into src/rtgauge/agents/.

The static agent, by its own build, and the guest program of lab/guest/; both with zig and its C
library (musl), so that nothing of this machine is in them. Called by ``tools/setup.sh --lab``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from rtgauge.lab.boards import MACHINES, Machine
from rtgauge.lab.programs import STAMP, agent_name, guest_name, sources_digest

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "src" / "rtgauge" / "agents"
BUILDS: Final = ROOT / "build" / "static"
ZIG: Final = (sys.executable, "-m", "ziglang")
TIMEOUT_S: Final = 1800.0
LINK: Final = ("-Os", "-s", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables")


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
    if not sources:
        built.write_text(INTERIM, encoding="ascii")
    else:
        options = ["-std=gnu11", "-static", *LINK, "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]
        run(*compiler(machine), *options, "-I", ROOT / "kmod", *sources, "-o", built)
    keep(built, guest_name(machine.processor))


INTERIM: Final = """#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
for module in /modules/kernel/*.ko /modules/rtgauge.ko; do
	[ -e "$module" ] && insmod "$module"
done
echo "up: $(cat /proc/uptime)"
case "$(cat /proc/cmdline)" in
*rtgauge.once*) poweroff -f ;;
esac
exec setsid cttyhack sh
"""


def main() -> None:
    """Build everything; the stamp comes last, and tells what it was made from."""
    stamp = sources_digest(ROOT)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / STAMP).unlink(missing_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    for machine in MACHINES.values():
        agent(machine)
        guest(machine)
    new = FOLDER / f"{STAMP}.new"
    new.write_text(stamp + "\n", encoding="ascii")
    new.rename(FOLDER / STAMP)


if __name__ == "__main__":
    main()
