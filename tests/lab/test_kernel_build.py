# SPDX-License-Identifier: Apache-2.0
"""docs/how-to/rt-kernel.md, executed: from the sources of the kernel to the first figures of a
PREEMPT_RT kernel that was built, packed and installed here, with the page's small configuration."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from conftest import Run
from examples import ROOT, examples
from rtgauge.lab.boards import MACHINES
from rtgauge.lab.cache import cache_folder
from rtgauge.lab.own import busybox
from rtgauge.target.lab import LabTarget

PAGE: Final = "docs/how-to/rt-kernel.md"
SOURCES: Final = Path("/usr/src/linux-source-6.12.tar.xz")
#: Beginnings of commands of the page that are left out, and why.
LEFT_OUT: Final = {
    "apt install": "tools/setup.sh --nightly installs the packages",
    "cp /boot/config-": "the small configuration takes its place",
    "sudo reboot": "the lab boots the kernel",
    "uname -v": "is for the board after the installation, as all that follow",
    "rtgauge check  ": "the same",
    "rtgauge module load": "the same",
    "rtgauge evaluate": "the same",
}
# For a module to install. On the board it shows the configuration of the running kernel.
CONFIGS: Final = "scripts/config --module IKCONFIG --enable IKCONFIG_PROC"
BUILD_S: Final = 10800
MODULE_S: Final = 600
SAMPLES: Final = 300


def commands_of_page(root: Path) -> str:
    """A script of the commands of the page, which installs the packages below ``root``."""
    lines = [
        line
        for example in examples()
        if example.page == PAGE
        for line in example.text.splitlines()
        if not line.startswith(tuple(LEFT_OUT))
    ]
    small = next(number for number, line in enumerate(lines) if "allnoconfig" in line)
    lines.insert(small + 1, CONFIGS)
    return "\n".join(lines).replace("sudo dpkg -i", f"dpkg --root={root} -i")


def prepare(root: Path) -> None:
    """What dpkg and the scripts of the packages need of a system, and a hook like that of GRUB."""
    for name in ("bin", "etc/kernel/postinst.d", "var/lib/dpkg/info", "var/lib/dpkg/updates"):
        (root / name).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    program, _ = busybox(cache_folder(), MACHINES["x86_64"], print)
    shutil.copy(program, root / "bin/busybox")
    (root / "bin/busybox").chmod(0o755)
    for name in ("sh", "run-parts"):
        (root / "bin" / name).symlink_to("busybox")
    hook = root / "etc/kernel/postinst.d/note"
    hook.write_text('#!/bin/sh\necho "$@" >/noted\n')
    hook.chmod(0o755)


@pytest.mark.nightly
@pytest.mark.study(9)
def test_the_page_from_the_sources_to_the_first_figures(
    rtgauge: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not SOURCES.is_file():
        pytest.skip(f"no {SOURCES} (Debian's package linux-source-6.12)")
    if os.getuid() != 0:
        pytest.skip("only root can install packages")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RTGAUGE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    root, tree = tmp_path / "root", tmp_path / SOURCES.name.removesuffix(".tar.xz")
    prepare(root)
    script = commands_of_page(root)
    subprocess.run(["sh", "-exc", script], cwd=tmp_path, check=True, timeout=BUILD_S)

    # the configuration has what the fragment asks for
    config, fragment = (tree / ".config").read_text(), (tree / "rt.config").read_text()
    asked = [line for line in fragment.splitlines() if "CONFIG_" in line and line[:2] != "#?"]
    assert "CONFIG_PREEMPT_RT=y" in asked
    assert set(asked) <= set(config.splitlines())

    # the packages are installed, and the hooks of the system know of the kernel
    (kernel,) = root.glob("boot/vmlinuz-*")
    release = kernel.name.removeprefix("vmlinuz-")
    assert release.endswith("-rt")
    assert (root / "noted").read_text() == f"{release} /boot/{kernel.name}\n"
    assert kernel.read_bytes() == (tree / "arch/x86/boot/bzImage").read_bytes()
    assert "/configs.ko:" in (root / "lib/modules" / release / "modules.dep").read_text()

    # the module is built against the installed headers
    module, headers = tmp_path / "kmod", root / "usr/src" / f"linux-headers-{release}"
    shutil.copytree(ROOT / "kmod", module)
    subprocess.run(["make", "-C", module, f"KDIR={headers}"], check=True, timeout=MODULE_S)
    assert f"vermagic={release} ".encode() in (module / "rtgauge.ko").read_bytes()

    # the board runs it, and loads its modules
    with contextlib.closing(LabTarget("mine")) as board:
        script = "uname -rv && modprobe configs && cat /proc/config.gz"
        named, _, packed = board.execute(["/bin/sh", "-c", script]).stdout.partition(b"\n")
        assert named.startswith(f"{release} ".encode()) and b" PREEMPT_RT " in named
        assert gzip.decompress(packed).decode() == config

    checked = rtgauge("check", "--target", "lab:mine", "--json").json()
    assert checked["realtime"] == "preempt_rt"
    levels = {one["check"]: one["level"] for one in checked["findings"]}
    assert {levels[name] for name in ("preemption", "debugging", "timers", "tick")} == {"ok"}
    assert "error" not in levels.values()

    (run,) = rtgauge("show", "last", "--json").json()["runs"]
    environment, lab = run["environment"], run["environment"]["lab"]
    assert (run["state"], environment["realtime"]) == ("complete", "preempt_rt")
    assert (lab["kernel"], lab["lacks"], lab["module"]) == (release, "nothing", "loaded")
    assert lab["kernel file digest"] == hashlib.sha256(kernel.read_bytes()).hexdigest()
    measured = [one for one in run["series"] if one["measurement"] == "timer"]
    assert [one["context"] for one in measured] == ["irq", "kernel", "user"]
    for one in measured:
        assert (one["count"], one["missed"], one["lost"]) == (SAMPLES, 0, 0)
