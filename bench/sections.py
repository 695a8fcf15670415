# SPDX-License-Identifier: Apache-2.0
"""The command line of the simulations: sections of cases, each with figures and a limit."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pairs import write_results

__all__ = ["SLACK", "Case", "limited", "main"]

Case = dict[str, Any]

SLACK: Final = 3.0
"""Standard errors of the simulation by which a rate may miss its limit."""


def limited(rate: float, most: float, repetitions: int) -> bool:
    """Whether a rate keeps its limit, apart from the scatter of the simulation."""
    return rate <= most + SLACK * math.sqrt(most * (1 - most) / repetitions)


def main(
    name: str,
    purpose: str,
    sections: Mapping[str, Callable[[int], list[Case]]],
    facts: Mapping[str, object],
    repetitions: int,
) -> int:
    """Run the sections that the command line names, else all, and write the results file of all.
    ``repetitions``: the default of ``--repetitions``, which each section takes. Returns 1 if a case
    does not hold."""
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--repetitions", type=int, default=repetitions)
    parser.add_argument("--section", choices=sections, action="append")
    arguments = parser.parse_args()
    cases = []
    for section in arguments.section or sections:
        begun = time.monotonic()
        for case in sections[section](arguments.repetitions):
            figures = {key: value for key, value in case.items() if isinstance(value, float)}
            words = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
            held = {None: "", True: ": held", False: ": MISSED"}[case["held"]]
            reasons = f" {case['reasons']}" if "reasons" in case else ""
            print(f"{section}: {case['case']}: {words}{held}{reasons}", flush=True)
            cases.append({"section": section, **case})
        print(f"{section}: {time.monotonic() - begun:.0f} s", flush=True)
    if not arguments.section:
        print(write_results(name, facts, cases).name)
    return 1 if any(case["held"] is False for case in cases) else 0
