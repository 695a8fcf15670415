#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of docs/gallery.md, from runs of emulated boards.

    tools/gallery.py            measure in the lab (a few minutes), and draw
    tools/gallery.py STORE      draw from a store that an earlier call left in build/gallery

The boards count instructions, so two calls with the same kernels draw the same pictures.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rtgauge.report import Source, write
from rtgauge.report.document.answer import answer_figure
from rtgauge.report.document.blocks import Figure
from rtgauge.report.document.conclusion import comparison_section
from rtgauge.report.document.views import views
from rtgauge.report.pictures import figures
from rtgauge.store import Store

ROOT: Final = Path(__file__).resolve().parents[1]
IMAGES: Final = ROOT / "docs" / "images"
STORE: Final = ROOT / "build" / "gallery"
SCALE: Final = 1.6
LOAD: Final = "sched:groups=2:size=64KiB"
RT: Final = ("--target", "lab:x86_64-rt")
STOCK: Final = ("--target", "lab:x86_64-stock")

PLAN: Final = f"""\
[[step]]
measurement = "timer"
samples = 5000
budget = "20us"

[[step]]
measurement = "timer"
samples = 5000
load = "{LOAD}"
budget = "20us"
"""

#: Label -> what is measured for it.
RUNS: Final[Mapping[str, tuple[str, ...]]] = {
    "evaluation": ("evaluate", "--budget", "20us", "--rate", "600/h", *RT),
    "answer": ("run", "PLAN", *RT),
    "disturbed": ("run", "timer", "--samples", "10000", "--dither", "yes",
                  "--disturb", "preempt_disable:200us:7.301ms", *RT),
    "waiters": ("run", "sem-contended", "--samples", "200", *RT),
    "kernels": ("run", "timer", "--samples", "5000", "--load", LOAD, *RT, *STOCK),
}  # fmt: skip

#: Name of a picture -> label of the run, and the kind of the figure.
PICTURES: Final[Mapping[str, tuple[str, str]]] = {
    "histogram": ("disturbed", "histogram"),
    "ccdf": ("disturbed", "ccdf"),
    "time": ("disturbed", "time"),
    "heat": ("disturbed", "heat"),
    "around": ("disturbed", "around"),
    "waiters": ("waiters", "against"),
}


def measure() -> None:
    """Carry out the runs, into the store."""
    STORE.mkdir(parents=True, exist_ok=True)
    plan = STORE / "answer.toml"
    plan.write_text(PLAN, encoding="utf-8")
    for label, words in RUNS.items():
        named = [str(plan) if word == "PLAN" else word for word in words]
        command = [sys.executable, "-m", "rtgauge", *named]
        done = subprocess.run(
            [*command, "--label", label, "--store", str(STORE)], check=False, timeout=1200
        )
        if done.returncode not in (0, 3):
            sys.exit(f"{label} ended with code {done.returncode}")


def source(store: Store, label: str) -> Source:
    """The newest runs with the label: one, or those of a study."""
    rows = [row for row in store.runs() if row.label == label]
    same = [row for row in rows if row.study == rows[0].study]
    return Source([store.get(row.id) for row in reversed(same)])


def of_kind(found: Source, kind: str) -> str:
    """The first figure of that kind in the complete report."""
    shown = views(found.analysis)
    groups = [group for run in shown.runs for step in run["steps"] for group in step["groups"]]
    for group in groups:
        for view in group["figures"]:
            if view["kind"] == kind:
                drawn = figures.draw(shown.shared.data[group["id"]], view, iter(()))
                if drawn is not None:
                    return drawn.svg
    raise LookupError(kind)


def save(name: str, svg: str) -> None:
    """Write a picture, on white: its colours are those of paper."""
    wide, high = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    size = f' width="{wide * SCALE:.0f}" height="{high * SCALE:.0f}"'
    opening, mark, rest = svg.partition(">")
    paper = '<rect width="100%" height="100%" fill="#ffffff"/>'
    path = IMAGES / f"gallery-{name}.svg"
    path.write_text(f"{opening}{size}{mark}{paper}{rest}\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.1f} kB")


def photograph(found: Source) -> None:
    """Write the first screen of the HTML report as docs/images/report.png."""
    report = STORE / "report.html"
    write(found, report)
    subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1280,770",
         f"--screenshot={IMAGES / 'report.png'}", f"file://{report}?theme=light"],
        check=True, timeout=120, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def main() -> None:
    """Measure, unless a store is named, and draw."""
    if not sys.argv[1:]:
        measure()
    with Store.open(sys.argv[1] if sys.argv[1:] else str(STORE)) as store:
        photograph(source(store, "evaluation"))
        answer = answer_figure(source(store, "answer").analysis, 0)
        assert answer is not None
        save("answer", answer.svg)
        for name, (label, kind) in PICTURES.items():
            save(name, of_kind(source(store, label), kind))
        both = source(store, "kernels")
        assert both.comparison is not None
        section = comparison_section(both.comparison, both.analysis)
        drawn = [block for block in section.blocks if isinstance(block, Figure)]
        save("kernels", drawn[0].svg)


if __name__ == "__main__":
    main()
