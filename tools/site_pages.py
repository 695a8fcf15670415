#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the documentation as a site in build/site (``make docs``). Warnings are errors.

The pages are those of the checkout: README, CONTRIBUTING, CHANGELOG, and docs with its folders.
Their order is that of docs/README.md. Links to sources, which are not part of the site, become
plain text. The names of headings are those of GitHub, so links to them work in both places.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from language import heading_name, prose_lines

__all__ = ["build", "copied", "navigation"]

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = ROOT / "build" / "site-pages"
SITE: Final = ROOT / "build" / "site"
NAMES: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md")
LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def sources() -> Iterator[Path]:
    """The pages and pictures of the site, relative to the checkout."""
    yield from map(Path, NAMES)
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.suffix in (".md", ".png", ".svg"):
            yield path.relative_to(ROOT)


def copied(page: Path, text: str, known: frozenset[Path]) -> str:
    """The page's text for the site. Links lead to pages of the site, or are plain text."""

    def link(found: re.Match[str]) -> str:
        target, mark, anchor = found[3].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        path = (ROOT / page.parent / target).resolve().relative_to(ROOT)
        if path in known:
            return found[0]
        if path / "README.md" in known:
            return f"[{found[2]}]({target.rstrip('/')}/README.md{mark}{anchor})"
        if not (ROOT / path).exists():
            raise SystemExit(f"{page}: there is no {target}")
        return found[2]

    prose = prose_lines(text).split("\n")
    at = 0
    pieces = []
    for found in LINK.finditer(text):
        if prose[text.count("\n", 0, found.start())]:  # not within a fenced block
            pieces += [text[at : found.start()], link(found)]
            at = found.end()
    return "".join([*pieces, text[at:]])


def title(path: Path) -> str:
    """The first heading of a page."""
    found = re.search(r"^# (.*)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
    assert found is not None, path
    return found[1].replace("`", "")


def _listed(path: Path) -> list[Path]:
    """The pages of its folder that an index links to, in its order."""
    links = re.findall(r"\]\(([^)#\s]+\.md)\)", (ROOT / path).read_text("utf-8"))
    pages = [path.parent / link for link in dict.fromkeys(links) if "/" not in link]
    return [path, *(page for page in pages if (ROOT / page).exists())]


def navigation() -> list[dict[str, Any]]:
    """The tree of the pages, in the order of docs/README.md."""
    tree: list[dict[str, Any]] = [{"rtgauge": "README.md"}, {"Documentation": "docs/README.md"}]
    text = (ROOT / "docs" / "README.md").read_text("utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        entries: list[dict[str, Any]] = []
        for name, link in re.findall(r"^- \[([^\]]*)\]\(([^)]+)\)", section, re.MULTILINE):
            path = (ROOT / "docs" / link).resolve().relative_to(ROOT)
            if path.name == "README.md" and path.parts[0] == "docs":
                below = [{title(page): str(page)} for page in _listed(path)]
                entries.append({name: below})
            else:
                entries.append({name: str(path)})
        tree.append({section.partition("\n")[0]: entries})
    tree.append({"Changes": "CHANGELOG.md"})
    return tree


def _slug(text: str, _separator: str) -> str:
    return heading_name(re.sub(r"<[^>]*>", "", text))


def _settings() -> Mapping[str, Any]:
    return {
        "site_name": "rtgauge",
        "docs_dir": str(PAGES),
        "site_dir": str(SITE),
        "strict": True,
        "use_directory_urls": False,  # so that it can be read from a folder
        "nav": navigation(),
        "theme": {
            "name": "material",
            "font": False,  # nothing is fetched from elsewhere
            "features": ["navigation.top", "toc.follow", "content.code.copy"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
            ],
        },
        "plugins": ["search"],
        "markdown_extensions": ["tables", "pymdownx.superfences", "pymdownx.highlight"],
        "validation": {
            "nav": {"omitted_files": "warn", "not_found": "warn"},
            "links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"},
        },
    }


def build() -> None:
    """Write the site. Ends the program with code 1 for a warning."""
    from mkdocs.commands.build import build as build_site  # noqa: PLC0415
    from mkdocs.config import load_config  # noqa: PLC0415

    shutil.rmtree(PAGES, ignore_errors=True)
    known = frozenset(sources())
    for path in known:
        target = PAGES / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(copied(path, (ROOT / path).read_text("utf-8"), known), "utf-8")
        else:
            shutil.copy(ROOT / path, target)
    settings = PAGES.with_suffix(".yml")
    settings.write_text(json.dumps(_settings()), "utf-8")  # JSON is YAML
    config = load_config(str(settings))
    config.mdx_configs["toc"] = {"slugify": _slug, "permalink": True}
    build_site(config)


if __name__ == "__main__":
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    build()
    print(SITE.relative_to(ROOT) / "index.html")
