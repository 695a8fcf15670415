# SPDX-License-Identifier: Apache-2.0
"""The pages: files on the path of a sample say their step, and everything has its page. Links are
checked by ``tools/language.py``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import site_pages as site
from language import READERS

ROOT = Path(__file__).resolve().parents[2]
HEAD = 1200
# Messages of the shell and of ssh.
OTHERS = ("rtgauge: command not found", "Permission denied")


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


def test_the_readme_says_of_counted_figures_what_the_page_of_the_lab_says() -> None:
    """Instructions, and which paths can be preempted: no times of a board, no ranked maxima."""
    pages = ((ROOT / name).read_text() for name in ("README.md", "docs/reference/lab.md"))
    readme, page = (re.sub(r"```.*?```", "", text, flags=re.DOTALL) for text in pages)
    said = next(text for text in readme.split("\n\n") if "The lab]" in text)
    counted = page.partition("## Two modes")[2].partition("\n## ")[0]
    for text in (" ".join(said.split()), " ".join(counted.split())):
        assert "the number of instructions executed" in text
        assert "show which paths of a kernel can be preempted and how much code runs" in text
        assert "single maximum" in text and "rank" in text
    assert "not how long that takes on a board" in " ".join(said.split())
    # no figures of boards in one line with the lab
    lines = [line for line in readme.splitlines() if re.search(r"\d\s?[nµum]s\b", line)]
    assert not [line for line in lines if re.search(r"emulat|counted|\blab\b|stock", line)]


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


@pytest.mark.slow
def test_messages_of_the_troubleshooting_page_exist() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    found = re.findall(r"^\| `(.*?)`", page, re.MULTILINE)
    assert len(found) > 15
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "agent").rglob("*.[ch]")]
    texts = "\n".join(
        " ".join(piece.text.split())
        for source in sources
        for piece in READERS[source.suffix](source.read_text())
    )
    for message in found:
        for part in message.split("…"):
            assert len(part) < 4 or part in OTHERS or part.strip(" '") in texts, message


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        name = str(page.relative_to(ROOT / "docs"))
        if not name.startswith(("decisions/", "measurements/")):
            assert name == "README.md" or f"]({name})" in index, name


def test_the_site_has_every_page_in_its_navigation() -> None:
    def pages(entries: list[dict[str, Any]]) -> Iterator[str]:
        for entry in entries:
            for below in entry.values():
                yield from [below] if isinstance(below, str) else pages(below)

    found = list(pages(site.navigation()))
    assert len(found) == len(set(found))
    wanted = {str(path) for path in site.sources() if path.suffix == ".md"}
    assert set(found) == wanted


def test_links_to_sources_are_plain_text_in_the_site() -> None:
    text = "[a](../README.md) [`b`](../../agent/main.c) [c](../measurements/)\n```\n[d](x)\n```\n"
    known = frozenset(site.sources())
    assert site.copied(Path("docs/reference/x.md"), text, known) == (
        "[a](../README.md) `b` [c](../measurements/README.md)\n```\n[d](x)\n```\n"
    )
    with pytest.raises(SystemExit, match="there is no"):
        site.copied(Path("docs/reference/x.md"), "[a](missing.md)", known)
