# SPDX-License-Identifier: Apache-2.0
"""Print the packages that pyproject.toml asks for, one per line.

``requirements.py [EXTRA]...``: those needed to build and to run, and those of the extras named.
"""

import sys
import tomllib
from pathlib import Path


def requirements(project: Path, extras: list[str]) -> list[str]:
    """Requirements in the notation of pip; an extra that is not defined is a KeyError."""
    document = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[str] = list(document["build-system"]["requires"])
    found += document["project"]["dependencies"]
    for extra in extras:
        found += document["project"]["optional-dependencies"][extra]
    return found


if __name__ == "__main__":
    print("\n".join(requirements(Path(__file__).parents[1], sys.argv[1:])))
