# SPDX-License-Identifier: Apache-2.0
"""The pages: files on the path of a sample say their step, and everything has its page. Links are
checked by ``tools/language.py``."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAD = 1200


def test_files_on_the_path_of_a_sample_say_their_step() -> None:
    page = (ROOT / "docs" / "internals" / "sample-path.md").read_text()
    steps = re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |\Z)", page, re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    helpers = {"worker.c", "settings.c", "load.c"}
    for number, text in steps:
        files = [link for link in re.findall(r"\]\(\.\./\.\./([^)]+)\)", text)]
        assert files
        for file in files:
            if Path(file).name in helpers:
                continue
            head = " ".join((ROOT / file).read_text()[:HEAD].replace("*", " ").split())
            named = [
                (int(first), int(last or first))
                for first, last in re.findall(r"[Ss]teps? (\d+)(?: (?:and|to) (\d+))?", head)
            ]
            assert any(first <= int(number) <= last for first, last in named), (file, number)


def test_every_measurement_and_load_has_its_page() -> None:
    catalogue = (ROOT / "agent" / "catalogue.c").read_text()
    names = re.findall(r"^\tROW\((\w+)\)", catalogue, re.MULTILINE)
    assert names
    pages = ROOT / "docs" / "measurements"
    for page in (f"{name.replace('_', '-')}.md" for name in names):
        assert (pages / page).exists()
        assert f"]({page})" in (pages / "README.md").read_text(), page
    loads = (ROOT / "docs" / "reference" / "loads.md").read_text()
    for name in re.findall(r"&load_([a-z]+)\w*,", catalogue):
        assert re.search(rf"^## .*\b{name}\b", loads, re.MULTILINE)
