# SPDX-License-Identifier: Apache-2.0
"""Title, facts and logo of a report, and what is refused as a logo."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rtgauge.errors import UsageError
from rtgauge.report.document import cover as covers

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 40, 20) + bytes(9)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 2"><path d="M0 0h4v2z"/></svg>'


def svg(inside: str) -> bytes:
    return SVG.replace(b"<path", inside.encode() + b"<path")


def test_author_and_serial_number_are_the_first_facts() -> None:
    made = covers.cover(" Board 7 ", "A. Author", "SN 1", ["Customer = C", "Order=a=b"])
    assert made.title == "Board 7"
    assert made.meta == (
        ("Author", "A. Author"), ("Serial number", "SN 1"), ("Customer", "C"), ("Order", "a=b"),
    )  # fmt: skip
    assert covers.cover() == covers.NO_COVER
    assert covers.NO_COVER.logo_url == ""


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        (["x"], "is not a fact"),
        (["=x"], "is not a fact"),
        (["x="], "is not a fact"),
        (["a=1", "a=2"], "given twice"),
        (["Author=B"], "given twice"),
        ([f"{at}=1" for at in range(20)], "too many"),
        (["a=" + "x" * 201], "too long"),
    ],
)
def test_wrong_facts_are_refused(meta: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        covers.cover(author="A", meta=meta)


@pytest.mark.parametrize(
    ("content", "kind", "url"),
    [
        (PNG, "png", "data:image/png;base64,iVBOR"),
        (SVG, "svg", "data:image/svg+xml;base64,PHN2"),
        (
            svg('<defs><linearGradient id="g"/></defs><use href="#g"/><g fill="url(#g)"/>'),
            "svg",
            "data:image/svg+xml",
        ),
        (
            b'<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/x.dtd">' + SVG,
            "svg",
            "data:image/svg+xml",
        ),
    ],
)
def test_a_logo_is_kept_as_it_is(tmp_path: Path, content: bytes, kind: str, url: str) -> None:
    path = tmp_path / "logo"
    path.write_bytes(content)
    made = covers.cover(logo=path)
    assert (made.logo, made.logo_format) == (content, kind)
    assert made.logo_url.startswith(url)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "neither a PNG nor an SVG"),
        (b"GIF89a", "neither a PNG nor an SVG"),
        (b"<html/>", "neither a PNG nor an SVG"),
        (SVG.decode().encode("utf-16"), "neither a PNG nor an SVG"),
        (PNG[:20], "is not a PNG"),
        (PNG.replace(struct.pack(">I", 40), struct.pack(">I", 40_000)), "4096 x 4096"),
        (PNG + bytes(covers.LOGO_BYTES), "larger than 256 KiB"),
        (b'<!DOCTYPE svg [<!ENTITY a "b">]>' + SVG, "entities"),
        (b'<?xml-stylesheet href="http://x/y.css"?>' + SVG, "style sheet"),
        (svg("<script>1</script>"), "<script>"),
        (svg("<foreignObject/>"), "<foreignObject>"),
        (svg('<image href="http://x/y.png"/>'), "another file"),
        (svg('<image xmlns:l="http://www.w3.org/1999/xlink" l:href="y.png"/>'), "another file"),
        (svg('<image href="data:image/svg+xml;base64,AA"/>'), "another file"),
        (svg("<g fill=\"url( 'y.svg#a')\"/>"), "another file"),
        (svg("<style>a{b:url(y)}</style>"), "another file"),
        (svg("<style>@import 'x';</style>"), "imports"),
    ],
)
def test_other_logos_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "logo"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        covers.cover(logo=path)


def test_a_missing_logo_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the logo"):
        covers.cover(logo=tmp_path / "none.png")
