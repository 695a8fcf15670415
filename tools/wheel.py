# SPDX-License-Identifier: Apache-2.0
"""Build the wheel, compare its files with the sources, install it elsewhere and start it.

With a folder as an argument, the wheel is left there. The same sources give the same bytes.
"""

from __future__ import annotations

import os
import re
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
SHARE: Final = ROOT / "build" / "share"
COMPLETIONS: Final = {
    "bash": "bash-completion/completions/rtgauge",
    "zsh": "zsh/site-functions/_rtgauge",
    "fish": "fish/vendor_completions.d/rtgauge.fish",
}
TIMEOUT_S: Final = 900.0


def run(*words: str | Path, **environment: str) -> None:
    """Run a command away from the checkout. Raises CalledProcessError."""
    subprocess.run(
        [str(word) for word in words],
        cwd=FOLDER,
        check=True,
        timeout=TIMEOUT_S,
        env=os.environ | environment,
    )


def build(folder: Path) -> Path:
    """Build the wheel into a folder, dated as the last commit. Returns its path."""
    time = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    path = f"{Path(PYTHON).parent}:{os.environ.get('PATH', os.defpath)}"
    words = ("wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, ROOT)
    run(*PIP, *words, SOURCE_DATE_EPOCH=time.stdout.strip(), PATH=path)
    (built,) = folder.glob("*.whl")
    return built


def make_share() -> set[str]:
    """Make the man pages and what shells complete with. Returns their names in the wheel."""
    shutil.rmtree(SHARE, ignore_errors=True)
    run(PYTHON, ROOT / "tools" / "man_pages.py", SHARE / "man" / "man1")
    for shell, name in COMPLETIONS.items():
        words = (str(ROOT / ".venv" / "bin" / "rtgauge"), "completion", shell)
        script = subprocess.run(words, capture_output=True, check=True, timeout=TIMEOUT_S).stdout
        (SHARE / name).parent.mkdir(parents=True)
        (SHARE / name).write_bytes(script)
    files = (path for path in SHARE.rglob("*") if path.is_file())
    return {f"share/{path.relative_to(SHARE)}" for path in files}


def wanted_files() -> set[str]:
    """What the wheel has to contain in its package."""
    native = (ROOT / "build" / "native" / "agent").glob("rtgauge-agent-*")
    wanted = {f"rtgauge/agents/{path.name}" for path in native if path.is_file()}
    for architecture in ARCHITECTURES.values():
        wanted |= {f"rtgauge/agents/{name}" for name in static_names(architecture)}
    wanted |= {f"rtgauge/kmod/{name}" for name in (*module_sources(), "dkms.conf")}
    wanted.add("rtgauge/qemu/recorder.c")
    for name in tracked_files(ROOT):
        if name.startswith("src/rtgauge/"):
            wanted.add(name.removeprefix("src/"))
        elif re.fullmatch(r"agent/(?!tests/).*(\.[ch]|/on_cobalt\.txt)", name):
            wanted.add(f"rtgauge/sources/{name}")
        elif name.startswith("plans/") and name.endswith(".toml"):
            wanted.add(f"rtgauge/{name}")
    return wanted


def main() -> str | None:
    """Check the wheel. Returns what is wrong with its files; raises CalledProcessError."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    wanted = wanted_files() | make_share()
    built = build(FOLDER)
    held = {name for name in zipfile.ZipFile(built).namelist() if ".dist-info/" not in name}
    held = {name.partition(".data/data/")[2] or name for name in held}
    if held != wanted:
        return f"missing in the wheel: {sorted(wanted - held)}, not wanted: {sorted(held - wanted)}"
    if built.read_bytes() != build(FOLDER / "again").read_bytes():
        return "a second build of the wheel has other bytes"
    away = FOLDER / "venv"
    run(PYTHON, "-m", "venv", "--without-pip", away)
    run(*PIP, "--python", away / "bin/python", "install", "--no-deps", "--no-index", built)
    # its dependencies are those of .venv; a path file of this checkout there is not read
    (packages,) = (ROOT / ".venv" / "lib").glob("python3.*/site-packages")
    (there,) = (away / "lib").glob("python3.*/site-packages")
    (there / "needed.pth").write_text(f"{packages}\n", encoding="utf-8")
    run(away / "bin" / "rtgauge", "--version")
    run(away / "bin" / "rtgauge", "describe", "--json")
    for folder in sys.argv[1:]:
        Path(folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(built, folder)
    print(f"{built.name}, {built.stat().st_size / 1024:.0f} KiB")
    return None


if __name__ == "__main__":
    sys.exit(main())
