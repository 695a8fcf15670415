# SPDX-License-Identifier: Apache-2.0
"""Build the wheel, compare its files with the sources, install it elsewhere and start it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

from tree import tracked_files

from rtgauge.architectures import ARCHITECTURES
from rtgauge.lab.modules import module_sources
from rtgauge.lab.programs import names as static_names

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "build" / "check" / "wheel"
PYTHON: Final = str(ROOT / ".venv" / "bin" / "python")
PIP: Final = (PYTHON, "-m", "pip", "--disable-pip-version-check")
TIMEOUT_S: Final = 900.0


def run(*words: str | Path) -> None:
    """Run a command away from the checkout. Raises CalledProcessError."""
    subprocess.run([str(word) for word in words], cwd=FOLDER, check=True, timeout=TIMEOUT_S)


def wanted_files() -> set[str]:
    """What the wheel has to contain, but for its metadata."""
    native = (ROOT / "build" / "native" / "agent").glob("rtgauge-agent-*")
    wanted = {f"rtgauge/agents/{path.name}" for path in native if path.is_file()}
    for architecture in ARCHITECTURES.values():
        wanted |= {f"rtgauge/agents/{name}" for name in static_names(architecture)}
    wanted |= {f"rtgauge/kmod/{name}" for name in (*module_sources(), "dkms.conf")}
    for name in tracked_files(ROOT):
        if name.startswith("src/rtgauge/"):
            wanted.add(name.removeprefix("src/"))
        elif name.startswith("plans/") and name.endswith(".toml"):
            wanted.add(f"rtgauge/{name}")
    return wanted


def main() -> str | None:
    """Check the wheel. Returns what is wrong with its files; raises CalledProcessError."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    run(*PIP, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", FOLDER, ROOT)
    (built,) = FOLDER.glob("*.whl")
    held = {name for name in zipfile.ZipFile(built).namelist() if ".dist-info/" not in name}
    wanted = wanted_files()
    if held != wanted:
        return f"missing in the wheel: {sorted(wanted - held)}, not wanted: {sorted(held - wanted)}"
    away = FOLDER / "venv"
    run(PYTHON, "-m", "venv", "--without-pip", away)
    run(*PIP, "--python", away / "bin/python", "install", "--no-deps", "--no-index", built)
    # its dependencies are those of .venv; a path file of this checkout there is not read
    (packages,) = (ROOT / ".venv" / "lib").glob("python3.*/site-packages")
    (there,) = (away / "lib").glob("python3.*/site-packages")
    (there / "needed.pth").write_text(f"{packages}\n", encoding="utf-8")
    run(away / "bin" / "rtgauge", "--version")
    run(away / "bin" / "rtgauge", "describe", "--json")
    print(f"{built.name}, {built.stat().st_size / 1024:.0f} KiB")
    return None


if __name__ == "__main__":
    sys.exit(main())
