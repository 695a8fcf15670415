# SPDX-License-Identifier: Apache-2.0
"""What the lab's tests share: boards that are booted side by side, ahead of the tests' turns."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab_boots import Boot, Booted, Lab, program, shift_phase
from rtgauge.lab.boards import BOARDS as LAB
from rtgauge.lab.boards import Board, Own
from rtgauge.lab.images import image
from rtgauge.lab.kernels import known_kernel
from rtgauge.lab.registry import add

QEMU = "qemu-system-x86_64"


@pytest.fixture(autouse=True)
def own_world() -> None:
    """Kernels and modules stay in the user's cache: they take minutes to make."""


@pytest.fixture(scope="session", autouse=True)
def phase() -> Iterator[None]:
    """Boards of the phase that the seed of the tests says (tools/repeat.py)."""
    with pytest.MonkeyPatch.context() as patch:
        if seed := os.environ.get("RTGAUGE_TEST_SEED"):
            shift_phase(patch, seed)
        yield


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


@pytest.fixture
def with_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A board of the lab as a board with the tasks of board_tasks.c."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def add_to(name: str) -> str:
        board = LAB[name]
        image(board, say=print)
        kernel = known_kernel(board)
        assert kernel is not None
        overlay = tmp_path / "overlay"
        overlay.mkdir()
        (overlay / "tasks").write_bytes(program("tests/support/board_tasks.c", board.machine))
        (overlay / "tasks").chmod(0o755)
        own = Own(kernel.kernel, kernel.headers, overlay)
        add(Board("with-tasks", board.machine, "", False, own))
        return "lab:with-tasks"

    return add_to
