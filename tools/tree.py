# SPDX-License-Identifier: Apache-2.0
"""What must hold for the files of the repository, whatever is in them.

Every source begins with its licence. No file names a folder of one machine or the host of a package
index. Text is clean. The agent's build names every C source
but the measurements, which it finds.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

__all__ = ["tracked_files", "tree_faults"]

LICENCE: Final = "SPDX-License-Identifier: Apache-2.0"
# The kernel's own code: what is linked into it is under its licence.
KERNEL_FOLDER: Final = "kmod/"
KERNEL_LICENCE: Final = "SPDX-License-Identifier: GPL-2.0-only"
# A plugin is loaded into QEMU, which is under this licence.
PLUGIN_FOLDER: Final = "qemu/"
PLUGIN_LICENCE: Final = "SPDX-License-Identifier: GPL-2.0-or-later"
# Folders of others' files, kept as they came; each holds its own LICENSE.
FOREIGN: Final = ("src/rtgauge/report/render/static/uplot/",)
# LICENSE covers data and pictures, which need no line of their own.
WITHOUT_LICENCE: Final = frozenset({".json", ".csv", ".svg", ".png", ".txt", ".typed"})
LICENCE_LINES: Final = 3
# Written so that this file does not find itself.
FORBIDDEN: Final = tuple(
    (re.compile(pattern), meaning)
    for pattern, meaning in (
        (rb"/[r]oot/", "a folder of one machine"),
        (rb"/[h]ome/[a-z]", "a folder of one machine"),
        (rb"/[w]ork/[a-z]", "a folder of one machine"),
        (rb"[i]ndex-url|--[i]ndex\b", "an index of packages: the user chooses it"),
        (rb"(?m)^(?:<{7} |>{7} |={7}$)", "a conflict that was not solved"),
    )
)


def tracked_files(root: Path) -> list[str]:
    """The files of the repository, also those not yet added to it, without ignored ones."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout.decode()
    return sorted(name for name in set(listed.split("\0")) - {""} if (root / name).is_file())


def _licence_faults(name: str, lines: Sequence[str]) -> Iterator[str]:
    path = Path(name)
    if path.suffix in WITHOUT_LICENCE or path.name == "LICENSE":
        return
    licence = LICENCE
    if name.startswith(KERNEL_FOLDER):
        licence = KERNEL_LICENCE
    if name.startswith(PLUGIN_FOLDER):
        licence = PLUGIN_LICENCE
    if licence not in " ".join(lines[:LICENCE_LINES]):
        yield f"{name}:1: does not begin with the line '{licence}'"


def _text_faults(name: str, data: bytes) -> Iterator[str]:
    for pattern, meaning in FORBIDDEN:
        for match in pattern.finditer(data):
            line = data.count(b"\n", 0, match.start()) + 1
            yield f"{name}:{line}: names {meaning}: {match.group().decode()!r}"
    if b"\0" in data:
        return
    for number, text in enumerate(data.split(b"\n"), 1):
        if text != text.rstrip():
            yield f"{name}:{number}: white space at the end of the line"
    if data and not data.endswith(b"\n"):
        yield f"{name}: no line end at its end"


def _source_faults(root: Path, files: Sequence[str]) -> Iterator[str]:
    build = root / "agent" / "meson.build"
    named = set(re.findall(r"'([\w./-]+)\.c'", build.read_text(encoding="utf-8")))
    for name in files:
        # the build finds the measurements itself, after a change of the catalogue
        if re.fullmatch(r"agent/(?!measurements/).*\.c", name):
            source = name.removeprefix("agent/").removesuffix(".c")
            if source not in named:
                yield f"{name}: is not named in agent/meson.build"


def tree_faults(root: Path, files: Sequence[str]) -> list[str]:
    """One line for each fault of these files: where, and what."""
    faults = list(_source_faults(root, files))
    for name in files:
        if name.startswith(FOREIGN):
            continue
        data = (root / name).read_bytes()
        faults += _text_faults(name, data)
        try:
            faults += _licence_faults(name, data.decode().splitlines())
        except UnicodeDecodeError:
            if Path(name).suffix not in WITHOUT_LICENCE:
                faults.append(f"{name}: is not UTF-8 text")
    return faults


if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[1]
    found = tree_faults(ROOT, tracked_files(ROOT))
    print("\n".join(found) or "no fault")
    sys.exit(bool(found))
