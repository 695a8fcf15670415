# SPDX-License-Identifier: Apache-2.0
"""Work as a count, which no other load of the machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["lines_of"]


def lines_of(call: Callable[[], object]) -> int:
    """Number of lines of Python that a call executes. A search counts one for each place."""
    count = 0

    def line(_frame: object, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
