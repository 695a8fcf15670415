# SPDX-License-Identifier: Apache-2.0
"""Causes by the kernel's own trace, which ``run --explain`` keeps around the largest samples.

pages.py       formats and ring-buffer pages of the kernel -> events
segments.py    events around a sample -> segments
kept.py        the records of a step -> causes
"""

from __future__ import annotations

from rtgauge.causes.tracefs.kept import Kept, Lost, kept_of

__all__ = ["Kept", "Lost", "kept_of"]
