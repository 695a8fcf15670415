# SPDX-License-Identifier: Apache-2.0
"""docs/internals/adding-a-measurement.md, followed to the letter in a clean clone: what it adds
runs, is stored and is reported, without a change to the host."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "adding-a-measurement.md"
TABLE = "#define MEASUREMENTS(ROW, BOTH) \\\n"
NAME = "yield-cost"
PLACES = {
    "agent/catalogue.c",
    "agent/measurements/yield_cost.c",
    "docs/measurements/README.md",
    "docs/measurements/yield-cost.md",
}
TOOLS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
QUICK = ("-Dtests=false", "-Doptimization=0")
TIMEOUT_S = 600


def git(folder: Path, *words: str, said: bytes | None = None) -> bytes:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(
        command, input=said, stdout=subprocess.PIPE, check=True, timeout=TIMEOUT_S
    ).stdout


@dataclass(frozen=True)
class Clone:
    """A clone of this repository, with the changes that are not committed here."""

    folder: Path

    def changed(self) -> set[str]:
        """Files that differ from the last commit, and new ones."""
        said = git(self.folder, "status", "--porcelain", "--untracked-files=all").decode()
        return {line[3:] for line in said.splitlines()}

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a module of Python with the clone's sources."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src")}
        return subprocess.run(
            [sys.executable, "-m", *words], env=environment, capture_output=True, text=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip

    def rtgauge(self, *words: str) -> str:
        done = self.python("rtgauge", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session", name="clone")
def clean_clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone in which the page was followed, and its agent built."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("these sources are not a git repository, or git is not installed")
    meson, ninja = (shutil.which(name, path=TOOLS) for name in ("meson", "ninja"))
    if meson is None or ninja is None:
        pytest.skip("meson or ninja is missing: run tools/setup.sh")
    folder = tmp_path_factory.mktemp("clean") / "rtgauge"
    git(ROOT, "clone", "--quiet", str(ROOT), str(folder))
    if difference := git(ROOT, "diff", "--binary", "HEAD"):
        git(folder, "apply", said=difference)
    clone = Clone(folder)
    before = clone.changed()
    follow_page(folder)
    assert clone.changed() - before == PLACES - before
    for words in ([meson, "setup", "build/native", *QUICK], [ninja, "-C", "build/native"]):
        subprocess.run(words, cwd=folder, check=True, timeout=TIMEOUT_S, capture_output=True)
    agents = folder / "src" / "rtgauge" / "agents"
    agents.mkdir()
    built = (folder / "build" / "native" / "agent").glob("rtgauge-agent-*")
    (agent,) = (one for one in built if one.is_file())
    shutil.copy(agent, agents)
    assert clone.changed() - before == PLACES - before
    return clone


def follow_page(folder: Path) -> None:
    """Put the two pieces of C where the page says, and add a page to the index."""
    page = PAGE.read_text()
    file, row = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (name,) = re.findall(r"^`(agent/measurements/\w+\.c)`:$", page, re.MULTILINE)
    assert not (folder / name).exists()
    (folder / name).write_text(file)
    catalogue = folder / "agent" / "catalogue.c"
    text = catalogue.read_text()
    assert text.count(TABLE) == 1
    catalogue.write_text(text.replace(TABLE, TABLE + row))
    measurements = folder / "docs" / "measurements"
    (measurements / f"{NAME}.md").write_text(f"# {NAME}\n")
    with (measurements / "README.md").open("a") as index:
        index.write(f"[{NAME}]({NAME}.md)\n")


def test_the_host_has_never_heard_of_it() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        assert NAME not in path.read_text()


@pytest.mark.slow
def test_it_is_described_run_stored_and_reported(clone: Clone) -> None:
    assert NAME in clone.rtgauge("describe")
    done = clone.rtgauge("run", NAME, "--samples", "1000", "--cpu", "0", "--json")
    shown = json.loads(clone.rtgauge("show", "last", "--json"))
    assert shown == json.loads(done)
    (run,) = shown["runs"]
    (series,) = [one for one in run["series"] if one["measurement"] == NAME]
    assert series["count"] == 1000
    assert series["unit"] == "ns"
    assert series["min"] > 0
    assert NAME in clone.rtgauge("runs")

    clone.rtgauge("report", "last", "-o", "yield-cost.html")
    html = Path("yield-cost.html").read_text()
    assert NAME in html
    assert "time of a sched_yield() when no other thread is ready" in html.replace("Time", "time")
    clone.rtgauge("report", "last", "-o", "yield-cost.json")
    assert json.loads(Path("yield-cost.json").read_text()) == shown


@pytest.mark.slow
def test_its_page_is_where_the_tests_want_it(clone: Clone) -> None:
    file = clone.folder / "tests" / "unit" / "test_docs.py"
    test = f"{file}::test_every_measurement_and_load_has_its_page"
    done = clone.python("pytest", "-q", "--rootdir", str(clone.folder), test)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_its_limits_are_kept_by_the_host(clone: Clone) -> None:
    done = clone.python("rtgauge", "run", NAME, "--samples", "100001")
    assert done.returncode == 2
    assert "100000" in done.stderr
