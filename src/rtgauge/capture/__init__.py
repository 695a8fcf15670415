# SPDX-License-Identifier: Apache-2.0
"""Captures: what a logic analyser or an oscilloscope recorded of an event and its answer.

``recording`` reads the files, ``edges`` finds the edges and says which answers which event, and
``run`` makes a run of that, with the series and tables that the measurement ``log-host`` has, so
that store, seal and report know no difference. ``marks`` makes one of the line of ``--mark``
and the samples of the run that was marked.
"""

from __future__ import annotations

from rtgauge.capture.edges import Edges
from rtgauge.capture.files import is_capture, open_recording
from rtgauge.capture.marks import Marked, import_marks
from rtgauge.capture.pairing import Answers, pair
from rtgauge.capture.recording import Recording
from rtgauge.capture.run import Wanted, import_capture

__all__ = [
    "Answers",
    "Edges",
    "Marked",
    "Recording",
    "Wanted",
    "import_capture",
    "import_marks",
    "is_capture",
    "open_recording",
    "pair",
]
