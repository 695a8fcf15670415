# SPDX-License-Identifier: Apache-2.0
"""What the lab's tests share: boards that are booted side by side, ahead of the tests' turns."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from lab_boots import Boot, Booted, Lab

QEMU = "qemu-system-x86_64"


@pytest.fixture(autouse=True)
def own_world() -> None:
    """Kernels and modules stay in the user's cache: they take minutes to make."""


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The lab, at work already on all that the tests chosen will ask for."""
    if shutil.which(QEMU) is None:
        pytest.skip(f"there is no {QEMU}: install Debian's package qemu-system-x86")
    lab = Lab()
    wanted = [
        boot
        for item in request.session.items
        for marker in item.iter_markers("boots")
        for boot in marker.args
    ]
    lab.ask(wanted)
    yield lab
    lab.close()


@pytest.fixture
def booted(lab: Lab, request: pytest.FixtureRequest) -> list[Booted]:
    """What came of the boots that the test named."""
    marker = request.node.get_closest_marker("boots")
    assert marker is not None
    return [lab.result(boot) for boot in marker.args if isinstance(boot, Boot)]
