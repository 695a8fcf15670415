# SPDX-License-Identifier: Apache-2.0
"""Rewrite tools/requirements.lock: the version and the hashes of every Python package in .venv.

``make lock``. Takes the newest versions that pyproject.toml allows, for Python 3.11 and newer. Runs
pip-compile (pip-tools) in an environment of its own, which is removed afterwards.
"""

import re
import subprocess
import tempfile
import venv
from pathlib import Path

from requirements import LOCK, SECTIONS, requirements

ROOT = Path(__file__).parents[1]
COMPILE = ("--quiet", "--allow-unsafe", "--strip-extras", "--no-header", "--no-annotate")
HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Written by `make lock`. Each section adds to those before it; tools/requirements.py reads it.
"""


def blocks(text: str) -> dict[str, str]:
    """Name -> entry of a requirements file: the pinned version and its hashes. The text
    before the first one, which may name a package index, is left out."""
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    return {entry.partition("==")[0]: entry for entry in entries}


def unhashed(entry: str) -> str:
    """The entry's first line alone."""
    return entry.partition("\n")[0].rstrip("\\ ") + "\n"


def main() -> None:
    """Write the lock file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        programs = folder / "venv" / "bin"
        subprocess.run([programs / "pip", "install", "--quiet", "pip-tools"], check=True)

        def compiled(extras: list[str], *more: str) -> dict[str, str]:
            wanted, found = folder / "wanted.in", folder / "found.txt"
            wanted.write_text("\n".join(requirements(ROOT, extras)) + "\n", encoding="utf-8")
            found.unlink(missing_ok=True)
            subprocess.run(
                [programs / "pip-compile", *COMPILE, *more, "--output-file", found, wanted],
                check=True,
                cwd=folder,
            )
            return blocks(found.read_text(encoding="utf-8"))

        everything = compiled([*SECTIONS[1:]], "--generate-hashes")
        pins = folder / "pins.txt"
        pins.write_text("".join(map(unhashed, everything.values())), encoding="utf-8")
        text, written = HEAD, set[str]()
        for at, section in enumerate(SECTIONS):
            extras = list(SECTIONS[1 : at + 1])
            names = compiled(extras, "--constraint", str(pins))
            text += f"\n# {section}\n"
            text += "".join(everything[one] for one in names if one not in written)
            written |= names.keys()
    (ROOT / LOCK).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
