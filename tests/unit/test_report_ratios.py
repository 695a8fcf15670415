# SPDX-License-Identifier: Apache-2.0
"""The picture of ratios: where lines, diamonds and dots are, and what is left out."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import test_decide as made
from rtgauge.report.document.conclusion import ratios_figure
from rtgauge.report.pictures import scales
from rtgauge.report.pictures.distribution import Curve, distribution
from rtgauge.report.pictures.drawing import COLOURS, FAIL, INK, Plot, label_width
from rtgauge.report.pictures.ratios import ROWS, Ratio, ratios
from rtgauge.stats import Counts

ROW = Ratio("B/A user, 99 %", "worse", "B is worse", 2.0, 1.5, 3.0, (1.5, 2.0, 3.0))


def places(svg: str, colour: str) -> list[float]:
    """Where the line of an interval of this colour begins and ends."""
    (found,) = re.findall(rf'd="M([\d.]+) [\d.]+H([\d.]+)M[^"]*"[^>]* stroke="{colour}"', svg)
    return [float(one) for one in found]


def test_an_interval_is_where_its_logarithms_are() -> None:
    svg = ratios([ROW], 0.1, "ratio")
    low, high = places(svg, FAIL)
    diamond = float(re.findall(rf'd="M([\d.]+) [^"]*z"[^>]* fill="{FAIL}"', svg)[0])
    share = (math.log(2) - math.log(1.5)) / (math.log(3) - math.log(1.5))
    assert (diamond - low) / (high - low) == pytest.approx(share, abs=0.01)
    assert "margin ±10\u202f%" in svg
    assert svg.count("a1.3 1.3") == 2 * 3  # a dot has two arcs
    better = ratios([Ratio("x", "better", "y", 0.5, 0.4, 0.6)], 0.1, "ratio")
    assert places(better, COLOURS[2])[1] < places(svg, FAIL)[0]
    assert "a1.3" not in better


def test_no_rows_and_too_many() -> None:
    assert ratios([], 0.1, "ratio") == ""
    svg = ratios([ROW] * (ROWS + 3), 0.1, "ratio")
    assert svg.count("B is worse") == ROWS
    assert 'fill="#' in svg and 'class="' in svg


def test_a_name_cannot_break_the_drawing() -> None:
    svg = ratios([Ratio("<b>&" * 40, "worse", "<i>", 1.0, 1.0, 1.0)], 0.1, "ratio")
    assert "<b>" not in svg and "&lt;i&gt;" in svg


def labels(svg: str) -> list[tuple[float, str]]:
    found = re.findall(r'<text[^>]* x="([\d.]+)"[^>]*font-weight="600"[^>]*>([^<]*)<', svg)
    return [(float(x), text) for x, text in found]


def test_long_labels_are_cut_at_their_bold_width() -> None:
    """The name of a row was on its verdict, and that of a line beyond the picture."""
    long = "a name with many words " * 9
    svg = ratios([Ratio(long, "worse", "no difference is proven", 1.0, 1.0, 1.0)], 0.1, "ratio")
    (right, said), (left, name) = labels(svg)
    assert name.endswith("…") and left + label_width(name) < right - label_width(said)
    plot = Plot(330.0, 150.0, scales.linear(0, 1), scales.linear(0, 1))
    plot.upright(0.5, long, INK, "4 2")
    counts = Counts.from_arrays([np.arange(1000, 2000)])
    for svg in (plot.svg(), distribution([Curve(long, counts)] * 2, "ns", "x", width=330.0)):
        x, text = next(one for one in labels(svg) if one[1].startswith("a name"))
        assert text.endswith("…") and x + label_width(text) <= 330


def test_the_figure_of_a_comparison() -> None:
    later = [2 * value for value in made.BLOCKS]
    found = ratios_figure(made.of(*made.study([made.BLOCKS, later])))
    assert found is not None
    assert "B is worse<" in found.svg
    assert "Each dot is the ratio in one repeat" in found.caption
    assert ratios_figure(made.of(*made.study([made.BLOCKS[:3], later[:3]]))) is None
