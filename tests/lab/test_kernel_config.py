# SPDX-License-Identifier: Apache-2.0
"""From the configuration of a stock kernel to one that `rtgauge check` passes, as
docs/how-to/rt-kernel.md does it: with Debian's configurations, and with the kernel's own Kconfig
where its sources are on this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from conftest import Run
from rtgauge.lab.boards import BOARDS
from rtgauge.lab.images import image
from rtgauge.lab.kernels import known_kernel

BOARD: Final = "x86_64-stock-6.12"
SOURCES: Final = Path("/usr/src/linux-source-6.12.tar.xz")
# What Kconfig needs of the sources, which is a hundredth of them.
KCONFIG: Final = ("*/Kconfig*", "*/Makefile*", "*/Kbuild", "*/scripts/*")
TOOLS: Final = ("make", "gcc", "flex", "bison")
MAKE_S: Final = 300


def stock_config() -> str:
    """The configuration of Debian's kernel, from its package."""
    image(BOARDS[BOARD], say=print)
    unpacked = known_kernel(BOARDS[BOARD])
    assert unpacked is not None
    return (unpacked.folder / "boot" / f"config-{unpacked.release}").read_text()


def passes(rtgauge: Run, config: Path) -> None:
    done = rtgauge("check", "--config", str(config), "--strict", "--json")
    assert done.code == 0, done.err
    assert done.json()["realtime"] == "preempt_rt"


def test_the_fragment_makes_a_stock_configuration_pass(rtgauge: Run, tmp_path: Path) -> None:
    config, fragment = tmp_path / ".config", tmp_path / "rt.config"
    config.write_text(stock_config())
    found = rtgauge("check", "--config", str(config), "-o", str(fragment), "--strict")
    assert found.code == 3, found.err
    # the last line about an option decides, in Kconfig too
    config.write_text(config.read_text() + fragment.read_text())
    passes(rtgauge, config)


@pytest.mark.nightly
@pytest.mark.study(9, lacks="building and installing the kernel")
def test_kconfig_accepts_what_the_fragment_asks_for(rtgauge: Run, tmp_path: Path) -> None:
    if not SOURCES.is_file():
        pytest.skip(f"no {SOURCES} (Debian's package linux-source-6.12)")
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"Kconfig needs {' and '.join(missing)}")
    carry_out(tmp_path, "tar", "-xf", str(SOURCES), "--wildcards", *KCONFIG)
    tree = tmp_path / SOURCES.name.removesuffix(".tar.xz")
    config, fragment = tree / ".config", tree / "rt.config"
    config.write_text(stock_config())
    carry_out(tree, "make", "olddefconfig")
    assert rtgauge("check", "--config", str(config), "-o", str(fragment)).code == 0
    carry_out(tree, "scripts/kconfig/merge_config.sh", "-m", ".config", "rt.config")
    carry_out(tree, "make", "olddefconfig")
    passes(rtgauge, config)


def carry_out(tree: Path, *words: str) -> None:
    subprocess.run(words, cwd=tree, check=True, timeout=MAKE_S)
