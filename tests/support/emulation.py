# SPDX-License-Identifier: Apache-2.0
"""QEMU's emulation of single programs of other architectures, for tests."""

from __future__ import annotations

import shutil

import pytest

from rtgauge.architectures import Architecture


def emulator(arch: Architecture) -> str:
    """The emulator's program; the test is skipped where there is none."""
    names = (f"qemu-{arch.qemu}-static", f"qemu-{arch.qemu}")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"there is no {names[0]} (Debian: qemu-user)")
    return found
