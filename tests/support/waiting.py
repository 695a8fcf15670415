# SPDX-License-Identifier: Apache-2.0
"""Waits for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

__all__ = ["until"]


def until(happened: Callable[[], Any], patience_s: float = 60.0) -> Any:
    """Wait until ``happened`` gives something, and return it."""
    deadline = time.monotonic() + patience_s
    while not (found := happened()):
        assert time.monotonic() < deadline, f"it did not happen in {patience_s:g} s"
        time.sleep(0.02)
    return found
