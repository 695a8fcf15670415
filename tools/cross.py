# SPDX-License-Identifier: Apache-2.0
"""Run the C tests of the static agents of other architectures in QEMU's user-mode emulation.

Only tests that do not depend on what the emulation does differently from a machine (the Meson suite
``pure``). The exhaustive ones run on one architecture: 32 bits and the other byte order.
"""

from __future__ import annotations

import subprocess
from typing import Final

from static_programs import BUILDS, emulator, own

from rtgauge.architectures import ARCHITECTURES

EXHAUSTIVE_ON: Final = "mips"
TIMEOUT_S: Final = 900.0


def main() -> None:
    """Test every architecture whose emulator is installed. Raises CalledProcessError."""
    untested = []
    for one in ARCHITECTURES.values():
        if own(one):
            continue
        if emulator(one) is None:
            untested.append(f"qemu-{one.qemu}")
            continue
        folder = BUILDS / one.processor
        suites = ["--suite", "pure"]
        suites += ["--suite", "exhaustive"] if one.name == EXHAUSTIVE_ON else []
        words = ["meson", "test", "-C", str(folder), "--print-errorlogs", *suites]
        words += ["--timeout-multiplier", "10"]
        subprocess.run(words, check=True, timeout=TIMEOUT_S)
    print(f"not tested, not installed: {', '.join(untested)}" if untested else "")


if __name__ == "__main__":
    main()
