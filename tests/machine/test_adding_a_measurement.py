# SPDX-License-Identifier: Apache-2.0
"""docs/internals/adding-a-measurement.md, followed to the letter: what it adds to the agent alone
runs, is stored and is reported, without a change to the host."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Result

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "adding-a-measurement.md"
TABLE = "#define MEASUREMENTS(ROW) \\\n"


@pytest.fixture(scope="session", name="taught_agent")
def build_agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent's sources with the page's two pieces of C put where it says."""
    folder = tmp_path_factory.mktemp("taught")
    sources = folder / "agent"
    shutil.copytree(ROOT / "agent", sources)
    page = PAGE.read_text()
    file, row = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (name,) = re.findall(r"^`agent/(measurements/\w+\.c)`:$", page, re.MULTILINE)
    assert not (sources / name).exists()
    (sources / name).write_text(file)
    catalogue = (sources / "catalogue.c").read_text()
    assert catalogue.count(TABLE) == 1
    (sources / "catalogue.c").write_text(catalogue.replace(TABLE, TABLE + row))
    agent = folder / "rtgauge-agent"
    files = [path for path in sources.rglob("*.c") if path.parent.name != "tests"]
    words = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread",
             f"-I{sources}", f"-I{ROOT / 'kmod'}"]  # fmt: skip
    if platform.machine() in ("x86_64", "aarch64"):
        # those that tasks of the Cobalt core also run
        lines = (sources / "core" / "on_cobalt.txt").read_text().splitlines()
        for source in (line for line in lines if not line.startswith("#")):
            made = (folder / source.replace("/", "-")).with_suffix(".o")
            again = ["-DON_COBALT", "-include", "core/on_cobalt.h", "-c", f"{sources / source}"]
            subprocess.run([*words, *again, "-o", made], check=True, timeout=120)
            files.append(made)
    subprocess.run([*words, "-o", agent, *files], check=True, timeout=120)
    return agent


def test_the_host_has_never_heard_of_it() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        assert "yield-cost" not in path.read_text()


@pytest.mark.slow
def test_it_is_described_run_stored_and_reported(
    taught_agent: Path, rtgauge: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTGAUGE_AGENT", str(taught_agent))
    monkeypatch.setenv("RTGAUGE_STATE", str(Path.cwd() / "state"))

    assert "yield-cost" in rtgauge("describe").out
    done = rtgauge("run", "yield-cost", "--samples", "1000", "--cpu", "0", "--json")
    assert done.code == 0
    shown = rtgauge("show", "last", "--json").json()
    assert shown == done.json()
    (run,) = shown["runs"]
    (series,) = [one for one in run["series"] if one["measurement"] == "yield-cost"]
    assert series["count"] == 1000
    assert series["unit"] == "ns"
    assert series["min"] > 0
    assert "yield-cost" in rtgauge("runs").out

    assert rtgauge("report", "last", "-o", "yield-cost.html").code == 0
    html = Path("yield-cost.html").read_text()
    assert "yield-cost" in html
    assert "time of a sched_yield() when no other thread is ready" in html.replace("Time", "time")
    assert rtgauge("report", "last", "-o", "yield-cost.json").code == 0
    assert json.loads(Path("yield-cost.json").read_text()) == shown


def test_its_limits_are_kept_by_the_host(
    taught_agent: Path, rtgauge: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTGAUGE_AGENT", str(taught_agent))
    done = rtgauge("run", "yield-cost", "--samples", "100001")
    assert done.code == 2
    assert "100000" in done.err
