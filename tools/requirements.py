# SPDX-License-Identifier: Apache-2.0
"""Print the Python packages that .venv gets, pinned and with their hashes, as pip reads them.

``requirements.py [EXTRA]...``: those needed to build and to run, and those of the extras named.
pyproject.toml says which packages in which versions are fit; tools/requirements.lock, which
`make lock` makes from it, which are installed.
"""

import sys
import tomllib
from pathlib import Path
from typing import Final

LOCK: Final = "tools/requirements.lock"
SECTIONS: Final = ("run", "lab", "test", "dev", "site")
"""Sections of the lock file. The first is not an extra. Each adds to those before it."""


def requirements(project: Path, extras: list[str]) -> list[str]:
    """What pyproject.toml asks for, in the notation of pip; KeyError for an undefined extra.

    A checkout always has the extra ``pdf``.
    """
    document = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[str] = list(document["build-system"]["requires"])
    found += document["project"]["dependencies"]
    for extra in ("pdf", *extras):
        found += document["project"]["optional-dependencies"][extra]
    return found


def locked(project: Path, extras: list[str]) -> str:
    """The sections of the lock file for these extras; KeyError for an undefined extra."""
    text = (project / LOCK).read_text(encoding="utf-8")
    parts = {part.partition("\n")[0]: part for part in text.split("\n# ")}
    return "\n".join(parts[name].partition("\n")[2] for name in ("run", *extras))


if __name__ == "__main__":
    print(locked(Path(__file__).parents[1], sys.argv[1:]))
