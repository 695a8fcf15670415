# SPDX-License-Identifier: Apache-2.0
"""Compare the sizes of the static agents with the recorded ones in tools/sizes.toml.

A size that differs from its record by more than 2 % has to be recorded in the commit that changes
it (``sizes.py --record``), so that the change is visible there, and the message of that commit
gives the reason. Smaller changes need no record; they add up until their sum is above 2 %.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
RECORD: Final = ROOT / "tools" / "sizes.toml"
CHANGE_MAX: Final = 0.02
HEAD: Final = """\
# SPDX-License-Identifier: Apache-2.0
# Bytes of each static agent. Written by `tools/sizes.py --record`.
"""


def faults(recorded: Mapping[str, int], found: Mapping[str, int]) -> list[str]:
    """One line for each agent that is not recorded, is missing, or has changed by more than 2 %."""
    lines = []
    for name in sorted({*recorded, *found}):
        if name not in found:
            lines.append(f"{name}: is recorded but was not built")
        elif name not in recorded:
            lines.append(f"{name}: {found[name]} bytes, not recorded")
        elif abs(found[name] - recorded[name]) > CHANGE_MAX * recorded[name]:
            change = found[name] / recorded[name] - 1
            lines.append(
                f"{name}: {found[name]} bytes, {change:+.1%} from the recorded {recorded[name]}"
            )
    return lines


def main() -> int:
    """Compare, or record with ``--record``. Returns 0 if no size has to be recorded."""
    # imported here: the rest needs nothing of the product
    from rtgauge.architectures import ARCHITECTURES  # noqa: PLC0415

    agents = ROOT / "src" / "rtgauge" / "agents"
    built = {name: agents / one.agent for name, one in ARCHITECTURES.items()}
    found = {name: path.stat().st_size for name, path in built.items() if path.exists()}
    if sys.argv[1:] == ["--record"]:
        text = "".join(f"{name} = {size}\n" for name, size in sorted(found.items()))
        RECORD.write_text(HEAD + text, encoding="utf-8")
    lines = faults(tomllib.loads(RECORD.read_text(encoding="utf-8")), found)
    for line in lines:
        print(line)
    if lines:
        print(
            "Run `.venv/bin/python tools/sizes.py --record`, commit tools/sizes.toml with the"
            " change that caused it,\nand give the reason in the message of that commit."
        )
        return 1
    print(", ".join(f"{name} {size / 1024:.0f} KiB" for name, size in sorted(found.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
