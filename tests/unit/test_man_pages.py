# SPDX-License-Identifier: Apache-2.0
"""The man pages: one for each command, with each of its options, and clean for groff."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import man_pages
import pytest

from rtgauge.catalogue import Catalogue
from rtgauge.cli.main import COMMANDS
from rtgauge.cli.run import command_for
from rtgauge.target.local import LocalTarget

KNOWN = Catalogue.from_json(LocalTarget().describe())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages."""
    made = tmp_path_factory.mktemp("man")
    assert man_pages.main([str(made)]) == 0
    return made


@pytest.mark.slow
def test_there_is_a_page_for_each_command(folder: Path) -> None:
    names = {f"rtgauge-{name}.1" for name in COMMANDS} | {"rtgauge.1"}
    assert {path.name for path in folder.iterdir()} == names
    whole = (folder / "rtgauge.1").read_text()
    for name in COMMANDS:
        assert f".BR rtgauge\\-{man_pages.roff(name)} (1)" in whole
    for code in ("0", "1", "2", "3", "4", "77"):
        assert f"\\fB{code}\\fR" in whole


def test_the_pages_name_every_option_and_measurement(folder: Path) -> None:
    text = (folder / "rtgauge-run.1").read_text()
    for name in KNOWN.measurements:
        section = re.search(
            rf'^\.SS "{re.escape(man_pages.roff(name))}"$(.*?)(^\.S|\Z)', text, re.M | re.S
        )
        assert section is not None, name
        made, _ = command_for([name], KNOWN, [], "rtgauge run")
        for option in next(iter(made.groups.values())):
            assert f"\\fB{man_pages.roff('--' + option)}" in section[1], (name, option)
    for option in ("--resume", "--dry-run", "--logo", "--store"):
        assert f"\\fB{man_pages.roff(option)}" in (folder / "rtgauge-evaluate.1").read_text()
    assert man_pages.roff("--hysteresis") in (folder / "rtgauge-import.1").read_text()


def test_equal_sources_give_equal_pages(folder: Path, tmp_path: Path) -> None:
    assert man_pages.main([str(tmp_path)]) == 0
    for path in folder.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    assert man_pages.main([]) == 2


@pytest.mark.slow
def test_groff_has_nothing_to_warn_of(folder: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    for path in sorted(folder.iterdir()):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-z", path],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert done.stderr == "", path.name


@pytest.mark.parametrize(
    ("text", "escaped"),
    [(".so /etc/passwd", "\\&.so /etc/passwd"), ("a\\b", "a\\eb"), ("--x", "\\-\\-x"),
     ("'quoted'", "\\(aqquoted\\(aq"), ("a\n.b", "a\n\\&.b")],
)  # fmt: skip
def test_text_is_never_a_request_of_groff(text: str, escaped: str) -> None:
    assert man_pages.roff(text) == escaped
