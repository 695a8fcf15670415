# SPDX-License-Identifier: Apache-2.0
"""Results that Xenomai's own programs printed, as runs of the store.

``lines`` reads the text within limits, ``read`` finds the results in it, ``latency`` makes buckets
of a histogram, and ``run`` makes a run of that, with a step for each result.
"""

from __future__ import annotations

from rtgauge.printed.lines import read_head
from rtgauge.printed.read import is_printed
from rtgauge.printed.run import Imported, Told, import_printed

__all__ = ["Imported", "Told", "import_printed", "is_printed", "read_head"]
