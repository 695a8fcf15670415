# SPDX-License-Identifier: Apache-2.0
"""What the tests of other architectures share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HOME = Path.home()  # before a test has its own


@pytest.fixture(autouse=True)
def lasting_cache(own_world: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that a test builds stay: build/static names zig's files in the user's cache."""
    if "XDG_CACHE_HOME" not in os.environ:
        monkeypatch.setenv("XDG_CACHE_HOME", str(HOME / ".cache"))
