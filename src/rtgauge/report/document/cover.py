# SPDX-License-Identifier: Apache-2.0
"""What the person who asks for a report puts on its first page: a title, facts and a logo.

A logo is a PNG or SVG file that refers to no other file, so that a report fetches nothing.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from xml.etree import ElementTree

from rtgauge.errors import UsageError

__all__ = ["LOGO_BYTES", "NO_COVER", "Cover", "cover"]

LOGO_BYTES: Final = 256 * 1024
"""Maximum size of the file of a logo."""

LOGO_PIXELS: Final = 4096
"""Maximum width and height of a logo in PNG format."""

FACTS: Final = 16
"""Maximum number of facts, author and serial number included."""

TEXT: Final = 200
"""Maximum number of characters of a title, and of the name and value of a fact."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_SVG: Final = "{http://www.w3.org/2000/svg}svg"
_REMEDY: Final = "export the logo as PNG, or as plain SVG without scripts, entities or links"


@dataclass(frozen=True)
class Cover:
    """``title``: replaces the report's own unless it is empty. ``meta``: facts in their order.
    ``logo``: the bytes of a checked PNG or SVG file."""

    title: str = ""
    meta: tuple[tuple[str, str], ...] = ()
    logo: bytes | None = None

    @property
    def logo_format(self) -> Literal["png", "svg"]:
        """The format of the logo."""
        return "png" if self.logo is not None and self.logo.startswith(_PNG) else "svg"

    @property
    def logo_url(self) -> str:
        """The logo as a data URL; empty without one."""
        if self.logo is None:
            return ""
        kind = "png" if self.logo_format == "png" else "svg+xml"
        return f"data:image/{kind};base64,{base64.b64encode(self.logo).decode()}"


NO_COVER: Final = Cover()


def cover(
    title: str = "",
    author: str = "",
    serial: str = "",
    meta: Sequence[str] = (),
    logo: Path | None = None,
) -> Cover:
    """A cover from what the command line takes; ``meta``: texts KEY=VALUE. Author and serial number
    are the first facts. Raises UsageError."""
    facts = [("Author", author), ("Serial number", serial)]
    facts = [(name, text.strip()) for name, text in facts if text.strip()]
    for one in meta:
        name, equals, text = (part.strip() for part in one.partition("="))
        if not (name and equals and text):
            raise UsageError(f"'{one}' is not a fact for a report", "write --meta KEY=VALUE")
        if any(name == known for known, _ in facts):
            raise UsageError(f"the fact '{name}' is given twice", "give each fact once")
        facts.append((name, text))
    if len(facts) > FACTS:
        raise UsageError(f"{len(facts)} facts are too many for a report", f"give at most {FACTS}")
    for text in (title, *(text for fact in facts for text in fact)):
        if len(text) > TEXT:
            raise UsageError(
                f"'{text[:20]}…' has {len(text)} characters, which is too long for a report's head",
                f"use at most {TEXT}",
            )
    return Cover(title.strip(), tuple(facts), None if logo is None else _logo(logo))


def _logo(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LOGO_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read the logo {path}: {error.strerror or error}", "name a PNG or SVG file"
        ) from error
    if len(content) > LOGO_BYTES:
        raise UsageError(
            f"the logo {path} is larger than {LOGO_BYTES // 1024} KiB", "use a smaller file"
        )
    wrong = _png_fault(content) if content.startswith(_PNG) else _svg_fault(content)
    if wrong:
        raise UsageError(f"the logo {path} {wrong}", _REMEDY)
    return content


def _png_fault(content: bytes) -> str:
    """Why a PNG is refused; empty if it is not."""
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    if content[12:16] != b"IHDR" or not (0 < width <= LOGO_PIXELS and 0 < height <= LOGO_PIXELS):
        return f"is not a PNG file of at most {LOGO_PIXELS} x {LOGO_PIXELS} pixels"
    return ""


_BAD_ELEMENTS: Final = {"script", "foreignObject", "iframe", "object", "embed"}
_WITHIN: Final = ("#", "data:image/png;", "data:image/jpeg;")
"""What a link may begin with: it then stays within the file."""


def _svg_fault(content: bytes) -> str:
    """Why an SVG is refused; empty if it is not."""
    if b"<!ENTITY" in content or b"<?xml-stylesheet" in content:
        return "defines entities or names a style sheet"
    try:
        tree = ElementTree.fromstring(content.decode("utf-8"))
    except (ElementTree.ParseError, ValueError):
        return "is neither a PNG nor an SVG file"
    if tree.tag != _SVG:
        return "is neither a PNG nor an SVG file"
    for element in tree.iter():
        name = str(element.tag).rpartition("}")[2]
        if name in _BAD_ELEMENTS:
            return f"contains an element <{name}>"
        texts = [*element.attrib.values(), element.text or ""]
        links = [v for key, v in element.attrib.items() if key.rpartition("}")[2] == "href"]
        inside = [
            found for text in texts for found in re.findall(r"url\(\s*['\"]?([^'\")]*)", text)
        ]
        if any(not link.strip().startswith(_WITHIN) for link in (*links, *inside)):
            return "refers to another file"
        if any("@import" in text for text in texts):
            return "imports a style sheet"
    return ""
