# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels as if users had built them: boards of ``lab add`` against those of the lab."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from rtgauge.cli import main
from rtgauge.lab import configured, own
from rtgauge.lab.boards import BOARDS, Board, Own
from rtgauge.lab.images import image
from rtgauge.lab.kernels import Unpacked, known_kernel
from rtgauge.lab.registry import add
from rtgauge.stream import Samples, StreamReader
from rtgauge.target.lab import LabTarget

BUILT_IN = "x86_64-rt-6.1"
TIMER = ("/agent", "run", "timer", "--samples", "100", "--context", "irq,kernel,user")


@pytest.fixture(autouse=True)
def own_boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No boards of a user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def kernel_of(name: str) -> Unpacked:
    """What the cache has of a board; fetched first if need be."""
    image(BOARDS[name], say=print)
    unpacked = known_kernel(BOARDS[name])
    assert unpacked is not None
    return unpacked


def packed(elf: bytes) -> bytes:
    """A bzImage with this ELF image, as a build with CONFIG_KERNEL_GZIP makes it."""
    payload = gzip.compress(elf, 1, mtime=0)
    head = bytearray(1024)
    head[0x1F1], head[0x236] = 1, 1
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", head, 0x248, 0, len(payload))
    return bytes(head) + payload


def measured(name: str) -> tuple[list[tuple[object, ...]], dict[str, str]]:
    """All samples of a boot, and the facts of its board."""
    with contextlib.closing(LabTarget(name)) as target:
        done = target.execute([*TIMER, "--output", "-"])
        assert done.code == 0, done.stderr
        return [
            (one.series, one.index, one.due_ns, one.values.tobytes())
            for one in StreamReader().feed(done.stdout)
            if isinstance(one, Samples)
        ], dict(target.facts)


def test_the_same_kernel_as_an_own_board_gives_equal_figures(tmp_path: Path) -> None:
    unpacked = kernel_of(BUILT_IN)
    kernel = tmp_path / "bzImage"
    kernel.write_bytes(packed(unpacked.kernel.read_bytes()))
    add(Board("mine", BOARDS[BUILT_IN].machine, "", False, Own(kernel, unpacked.headers)))
    first, facts = measured("mine")
    assert len(first) >= 3
    again, same = measured("mine")
    built_in, others = measured(BUILT_IN)
    assert first == again == built_in
    assert facts | {"boot": ""} == same | {"boot": ""}
    equal = ("kernel", "kernel digest", "agent digest", "module", "kernel arguments")
    assert {name: facts[name] for name in equal} == {name: others[name] for name in equal}
    assert facts["kernel file digest"] not in ("", facts["kernel digest"])


def test_overlay_module_and_argument_are_on_the_board(tmp_path: Path) -> None:
    unpacked = kernel_of(BUILT_IN)
    overlay = tmp_path / "overlay"
    (overlay / "usr/bin").mkdir(parents=True)
    (overlay / "usr/lib").mkdir()
    program = overlay / "usr/bin/hello"
    program.write_text("#!/bin/sh\ncat /usr/lib/greeting\n")
    program.chmod(0o755)
    (overlay / "usr/lib/greeting").write_text("hello\n")
    (overlay / "hi").symlink_to("usr/bin/hello")
    made = image(BOARDS[BUILT_IN]).facts["modules digest"][:32]
    cache = unpacked.folder.parent.parent
    module = cache / "modules" / made / "rtgauge_doorbell.ko"
    given = Own(unpacked.kernel, None, overlay, (module,), ("mine=1",))
    add(Board("mine", BOARDS[BUILT_IN].machine, "", False, given))
    script = "/hi; lsmod | grep -c doorbell; grep -o mine=. /proc/cmdline"
    with contextlib.closing(LabTarget("mine")) as target:
        assert target.execute(["/bin/sh", "-c", script]).stdout == b"hello\n1\nmine=1\n"
        assert target.facts["module"] == "none"
        assert target.facts["overlay digest"] not in ("", "none")


@pytest.mark.parametrize("name", BOARDS)
def test_debian_s_kernels_have_all_that_is_asked_of_others(name: str) -> None:
    unpacked = kernel_of(name)
    text = (unpacked.folder / "boot" / f"config-{unpacked.release}").read_text()
    found = configured.lacking(configured.parse(text), BOARDS[name].machine, unpacked.release)
    assert found == []
    given = own.read(
        Board("x", BOARDS[name].machine, "", False, Own(unpacked.kernel, unpacked.headers))
    )
    assert (given.release, given.realtime) == (unpacked.release, BOARDS[name].realtime)
    assert given.kernel == unpacked.kernel.read_bytes()


# --- Bisecting ---

PVH_ENTRY = b"\x04\0\0\0\x08\0\0\0\x12\0\0\0Xen\0"  # an ELF note: XEN_ELFNOTE_PHYS32_ENTRY
# The messages of this load hold threads of a stock kernel up, as in test_lab.py.
LOAD = "sched:groups=2:size=64KiB"
BUDGET = "60us"
FIRST_BAD = 6
BROKEN = 4


def broken(elf: bytes) -> bytes:
    """The same kernel with an undefined first instruction."""
    place = elf.index(PVH_ENTRY) + len(PVH_ENTRY)
    (entry,) = struct.unpack_from("<Q", elf, place)
    offset, size, count = (
        struct.unpack_from("<Q", elf, 32)[0],
        *struct.unpack_from("<HH", elf, 54),
    )
    for number in range(count):
        kind, _, start, _, physical, length = struct.unpack_from(
            "<IIQQQQ", elf, offset + number * size
        )
        if kind == 1 and physical <= entry < physical + length:
            here = start + entry - physical
            return elf[:here] + b"\x0f\x0b" + elf[here + 2 :]
    raise AssertionError("no segment holds the entry")


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=me", "-c", "user.email=me@here", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", *names, *words], cwd=folder, capture_output=True, text=True, check=True, timeout=500
    )
    return done.stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_git_bisect_names_the_commit_that_brought_the_other_kernel(tmp_path: Path) -> None:
    """Eight commits: the RT kernel, one that does not start, and from the sixth the stock one."""
    good = kernel_of("x86_64-rt-6.1").kernel
    bad = kernel_of("x86_64-stock-6.1").kernel
    unbootable = tmp_path / "unbootable"
    unbootable.write_bytes(broken(good.read_bytes()))
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    for number in range(1, 9):
        kernel = unbootable if number == BROKEN else good if number < FIRST_BAD else bad
        (repository / "kernel").write_text(f"{kernel}\n")
        (repository / "number").write_text(f"{number}\n")
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", f"commit {number}")
    built = tmp_path / "vmlinux"
    built.write_bytes(good.read_bytes())
    add(Board("mine", BOARDS[BUILT_IN].machine, "", False, Own(built)))
    rtgauge = f"{sys.executable} -m rtgauge"
    script = (
        f'cp "$(cat kernel)" {built} || exit 125; {rtgauge} run timer --target lab:mine '
        f"--samples 300 --load {LOAD} --budget {BUDGET} --store {tmp_path / 'store'} -q "
        "--exit bisect"
    )
    git(repository, "bisect", "start", "HEAD", "HEAD~7")
    said = git(repository, "bisect", "run", "sh", "-c", script)
    log = git(repository, "bisect", "log")
    (first,) = [line for line in log.splitlines() if line.startswith("# first bad commit")]
    assert first.endswith(f"commit {FIRST_BAD}"), said
    skipped = [line for line in log.splitlines() if line.startswith("# skip")]
    assert [line.rpartition("] ")[2] for line in skipped] == [f"commit {BROKEN}"], log


def test_a_kernel_that_does_not_boot_cannot_be_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "vmlinux"
    kernel.write_bytes(broken(kernel_of(BUILT_IN).kernel.read_bytes()))
    add(Board("mine", BOARDS[BUILT_IN].machine, "", False, Own(kernel)))
    words = ["run", "timer", "--samples", "10", "--target", "lab:mine", "--budget", BUDGET]
    words += ["--store", str(tmp_path / "store")]
    assert main([*words, "--exit", "bisect"]) == 125
    assert main(words) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "bisect: this commit cannot be judged (exit code 125)" in said
    assert "it ended on its own" in said
    assert "'rtgauge lab config x86_64' lists what a kernel needs" in said
