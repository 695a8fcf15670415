# SPDX-License-Identifier: Apache-2.0
"""Build the kernel modules for the kernel of each board of the lab, and check their style.

Kernels that the lab's cache does not contain are fetched. Fails on a warning of the compiler (W=1),
of sparse (C=2) or of checkpatch.pl. Exits with 77 if a kernel or its compiler is missing, after the
check of the others: a stage that was skipped is not green, so that the next run tries again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tree import tracked_files

from rtgauge.errors import TargetError
from rtgauge.lab.boards import BOARDS
from rtgauge.lab.cache import cache_folder, locked
from rtgauge.lab.kernels import kernel_for
from rtgauge.lab.modules import Recipe, module_sources

ROOT: Final = Path(__file__).resolve().parents[1]
BUILDS: Final = ROOT / "build" / "check" / "kmod"
SKIPPED: Final = 77
TIMEOUT_S: Final = 900.0
# What an out-of-tree module for several kernel versions cannot avoid.
CHECKPATCH_IGNORE: Final = "LINUX_VERSION_CODE,CONSTANT_COMPARISON"


def build(name: str) -> bool:
    """Build the modules for a board's kernel. False if the kernel or its compiler is missing.

    Raises CalledProcessError, and ValueError for warnings: make succeeds in spite of them.
    """
    machine = BOARDS[name].machine
    try:
        with locked(cache_folder(), ("kernels", "boards"), print):
            unpacked = kernel_for(BOARDS[name], newest=False, say=print)
        recipe = Recipe(machine, unpacked, module_sources())
    except TargetError as error:
        print(f"{name}: {error}")
        return False
    folder = BUILDS / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "kmod", folder, ignore=shutil.ignore_patterns("*.o", "*.ko", ".*"))
    words = ["make", "-C", str(unpacked.headers), f"M={folder}", "W=1", "C=2", "modules"]
    words += [f"-j{len(os.sched_getaffinity(0))}", f"ARCH={machine.architecture}"]
    words += [f"CROSS_COMPILE={machine.triplet}", f"CC={recipe.compiler}"]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=TIMEOUT_S
    )
    said = done.stdout.decode(errors="replace")
    print(said, flush=True)
    done.check_returncode()
    if re.search(r"\b(?:warning|error):", said):
        raise ValueError(f"warnings for {unpacked.release}")
    return True


def checkpatch() -> Path | None:
    """The kernel's style checker, from PATH or from kernel sources in /usr/src."""
    found = shutil.which("checkpatch.pl")
    if found:
        return Path(found)
    return next(iter(sorted(Path("/usr/src").glob("linux*/scripts/checkpatch.pl"))), None)


def main() -> int:
    """Build and check. Raises what ``build`` raises."""
    missing = [name for name in sorted(BOARDS) if not build(name)]
    built = len(BOARDS) - len(missing)
    if missing:
        print(f"not built for {', '.join(missing)}")
    script = checkpatch()
    if script is None:
        print(f"{built} kernels. Without checkpatch.pl (Debian's package linux-source)")
        return SKIPPED if missing else 0
    sources = [name for name in tracked_files(ROOT) if re.fullmatch(r"kmod/[^/]+\.[ch]", name)]
    words = ["perl", str(script), "--strict", "--no-tree", "--terse"]
    words += [f"--ignore={CHECKPATCH_IGNORE}", "--file", *sources]
    subprocess.run(words, check=True, cwd=ROOT, timeout=TIMEOUT_S)
    print(f"{built} kernels, {len(missing)} missing")
    return SKIPPED if missing else 0


if __name__ == "__main__":
    sys.exit(main())
