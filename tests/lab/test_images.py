# SPDX-License-Identifier: Apache-2.0
"""Images of boards out of Debian's real packages: fetched once, then from the cache."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from rtgauge.lab import BOARDS, board, image
from rtgauge.lab.cache import cache_folder, remove
from rtgauge.lab.kernels import known_kernel
from rtgauge.lab.modules import recipe

pytestmark = pytest.mark.skipif(
    shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None,
    reason="this system is not based on Debian",
)
HOME = Path(os.environ["HOME"])  # before the tests have one of their own


@pytest.fixture(autouse=True)
def shared_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are fetched once, not by each test."""
    if "XDG_CACHE_HOME" not in os.environ or "pytest" in os.environ["XDG_CACHE_HOME"]:
        monkeypatch.setenv("XDG_CACHE_HOME", str(HOME / ".cache"))


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_has_an_image(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = image(board(name))
    assert made.kernel.is_file()
    assert made.initramfs.read_bytes()[:6] == b"070701"
    assert (
        made.facts["modules"]
        == "rtgauge.ko rtgauge_disturb.ko rtgauge_doorbell.ko rtgauge_parport.ko"
    )
    machine = board(name).machine
    if machine.architecture == "x86_64":
        # with an entry that needs no decompression
        assert made.kernel.read_bytes()[:4] == b"\x7fELF"
    unpacked = known_kernel(board(name))
    assert unpacked is not None
    assert unpacked.release == made.facts["kernel"]
    assert re.search(rf"-{board(name).flavour}$", unpacked.release)
    build = recipe(machine, unpacked)
    assert build is not None
    modules = build.folder(cache_folder())
    for module in sorted(modules.glob("*.ko")):
        data = module.read_bytes()
        assert f"vermagic={unpacked.release} ".encode() in data
        # nothing tells where it was built
        assert str(cache_folder()).encode() not in data
        assert str(HOME).encode() + b"/" not in data
    assert "warning:" not in (modules / "build.log").read_text()
    # a second time takes no program of Debian's, so no network either
    monkeypatch.setattr("rtgauge.lab.packages.Apt.update", None)
    assert image(board(name)) == made


def test_what_is_made_again_is_the_same() -> None:
    """Modules and archive, rebuilt from the same files, have the same bytes. For a moment the cache
    is without them: no test that may run at the same time boots this board."""
    chosen = board("arm64-rt-6.12")
    first = image(chosen)
    before = first.initramfs.read_bytes()
    unpacked = known_kernel(chosen)
    assert unpacked is not None
    build = recipe(chosen.machine, unpacked)
    assert build is not None
    kept = build.folder(cache_folder())
    aside = kept.with_name(kept.name + ".aside")
    kept.rename(aside)
    remove(first.initramfs.parent)
    try:
        again = image(chosen)
        assert again.facts == first.facts
        assert again.initramfs.read_bytes() == before
        for module in sorted(aside.glob("*.ko")):
            assert (kept / module.name).read_bytes() == module.read_bytes()
    finally:
        remove(aside)
