# SPDX-License-Identifier: Apache-2.0
"""Write the table of results in bench/README.md: the newest result of each program.

Reads bench/results/*.json. The last step of `make bench`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

BENCH: Final = Path(__file__).resolve().parent
BEGIN: Final = "<!-- Written by bench/table.py -->\n"
END: Final = "<!-- End of the table -->\n"
HEAD: Final = (
    "| program | date | measured against | cases | within the limits | load average |\n"
    "| --- | --- | --- | --- | --- | --- |\n"
)


def row(name: str, document: dict[str, Any]) -> str:
    """The row of a result. KeyError if it is not one."""
    held = [case.get("held") for case in document["cases"]]
    judged = [one for one in held if one is not None]
    within = f"{sum(judged)} of {len(judged)}" if judged else "no limit"
    peer = str(document.get("peer", "")).partition(",")[0]
    load = document["machine"]["load_average"][0]
    return (
        f"| [{name}](results/{name}.json) | {document['date'][:10]} | {peer} | {len(held)} "
        f"| {within} | {load:.1f} |\n"
    )


def table(results: Path) -> str:
    """The table of all results in a folder, sorted by name."""
    paths = sorted(results.glob("*.json"))
    return HEAD + "".join(
        row(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in paths
    )


def updated(page: str, new: str) -> str:
    """A page with its table replaced. ValueError if the page has no place for it."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks '{BEGIN.strip()}' or '{END.strip()}'")
    return f"{before}{begin}\n{new}\n{end}{after}"


if __name__ == "__main__":
    readme = BENCH / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(updated(text, table(BENCH / "results")), encoding="utf-8")
