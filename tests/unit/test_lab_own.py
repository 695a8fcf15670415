# SPDX-License-Identifier: Apache-2.0
"""Boards with kernels that users built: their files, made up here, without QEMU."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from conftest import Run
from rtgauge.cli.completion import complete
from rtgauge.cli.main import cli
from rtgauge.errors import RtgaugeError, TargetError
from rtgauge.lab import cache, configured, images, modules, own, programs, prune, registry
from rtgauge.lab.boards import MACHINES, Board, Own
from rtgauge.lab.kernels import KERNEL_RECORD, KERNEL_VERSION, Unpacked
from rtgauge.lab.machine import Machine
from rtgauge.target.lab import LabTarget

RELEASE = "6.6.30-mine"
X86_64, AARCH64 = 62, 183
BUSYBOX = b"\x7fELF busybox\0[\0[[\0cat\0ls\0sh\0\0"


def elf(machine: int = X86_64, release: str = RELEASE, more: bytes = b"Xen\0") -> bytes:
    """A vmlinux as far as it is looked at, by default with a PVH entry."""
    head = b"\x7fELF\x02\x01".ljust(18, b"\0") + struct.pack("<H", machine)
    return head + f"Linux version {release} (me@here) (gcc-12) #1\n\0".encode() + more


def image(release: str = RELEASE) -> bytes:
    """An Image for arm64."""
    return bytes(0x38) + b"ARM\x64" + f"Linux version {release} (me@here) #1\0".encode()


def bz_image(payload: bytes, release: str = RELEASE, flags: int = 1) -> bytes:
    """A bzImage with this payload, and its release in the boot sector."""
    head = bytearray(1024)
    head[0x1F1] = 1
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x280 - 0x200 + 0x100)
    text = f"{release} (me@here) #1\0".encode()
    head[0x380 : 0x380 + len(text)] = text
    head[0x236] = flags
    struct.pack_into("<II", head, 0x248, 64, len(payload))
    return bytes(head) + b"\x90" * 64 + payload + b"rest"


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def xz(data: bytes) -> bytes:
    return lzma.compress(data, check=lzma.CHECK_CRC32) + struct.pack("<I", len(data))


def module(release: str = RELEASE) -> bytes:
    return b"\x7fELF\0license=GPL\0vermagic=" + f"{release} SMP preempt mod_unload \0".encode()


CONFIG = "".join(f"CONFIG_{need.symbol}=y\n" for need in configured.needs(MACHINES["x86_64"]))


class Files:
    """The files of a user."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.kernel = self.write("linux/bzImage", bz_image(gzipped(elf())))
        self.build = place / "linux"
        self.config()
        self.write("linux/Module.symvers", b"0x1\tprintk\tvmlinux\tEXPORT_SYMBOL\n")
        self.write("linux/include/generated/utsrelease.h", f'#define UTS_RELEASE "{RELEASE}"\n')
        self.module = self.write("dummy.ko", module())
        self.overlay = place / "overlay"
        self.write("overlay/etc/greeting", b"hello")

    def write(self, name: str, content: bytes | str) -> Path:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def config(self, text: str = CONFIG) -> None:
        self.write("linux/.config", text)

    def words(self) -> list[str]:
        return [
            "lab", "add", "mine", f"--kernel={self.kernel}", f"--build={self.build}",
            f"--overlay={self.overlay}", f"--module={self.module}", "--argument=isolcpus=1",
        ]  # fmt: skip


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """A user's files, a cache that has a busybox, and programs; modules are not built."""
    place = tmp_path / "cache"
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(place))
    for debian in ("amd64", "arm64"):
        folder = place / own.BUSYBOX / debian
        folder.mkdir(parents=True)
        (folder / "busybox").write_bytes(BUSYBOX)
        record = {"version": KERNEL_VERSION, "busybox": "1:1.35"}
        cache.write_record(folder / KERNEL_RECORD, record)
    agent, guest = place / "agent", place / "guest"
    agent.write_bytes(b"agent")
    guest.write_bytes(b"guest")
    monkeypatch.setattr(images, "programs", lambda *_: programs.Programs(agent, guest))
    monkeypatch.setattr(images, "recipe", lambda *_: None)
    return Files(tmp_path / "user")


# --- What a kernel is ---


@pytest.mark.parametrize(
    ("data", "machine", "boots"),
    [
        (bz_image(gzipped(elf())), "x86_64", elf()),
        (bz_image(xz(elf())), "x86_64", elf()),
        (bz_image(b"lz4 or so"), "x86_64", bz_image(b"lz4 or so")),
        (bz_image(gzipped(elf(more=b""))), "x86_64", bz_image(gzipped(elf(more=b"")))),
        (elf(), "x86_64", elf()),
        (image(), "arm64", image()),
        (gzipped(image()), "arm64", image()),
    ],
)
def test_kernels_are_recognised_and_boot_in_their_soonest_form(
    tmp_path: Path, data: bytes, machine: str, boots: bytes
) -> None:
    path = tmp_path / "kernel"
    path.write_bytes(data)
    given = own.read(Board("x", MACHINES[machine], "", False, Own(path)))
    assert (given.machine.architecture, given.kernel, given.release) == (machine, boots, RELEASE)
    assert given.config is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#!/bin/sh\n",
        b"\x7fELF",
        bz_image(b"", flags=0),
        bz_image(b"")[:0x240],
        os.urandom(2000),
        b"\x1f\x8b",
    ],
)
def test_anything_else_is_not_a_kernel(data: bytes) -> None:
    assert own.recognised(data) is None


def test_a_kernel_tells_its_configuration(tmp_path: Path) -> None:
    inside = b"IKCFG_ST" + gzipped(CONFIG.encode()) + b"IKCFG_ED"
    path = tmp_path / "vmlinux"
    path.write_bytes(elf(more=b"Xen\0" + inside))
    board = Board("x", MACHINES["x86_64"], "", False, Own(path))
    assert own.read(board).config == configured.parse(CONFIG)
    path.write_bytes(elf(more=b"Xen\0IKCFG_ST\x1f\x8bdamaged"))
    assert own.read(board).config is None
    (tmp_path / f"config-{RELEASE}").write_text(CONFIG + "CONFIG_PREEMPT_RT=y\n")
    assert own.read(board).realtime


# --- What a configuration has to have ---


@pytest.mark.parametrize("name", MACHINES)
def test_the_fragment_has_all_that_a_kernel_needs(name: str, rtgauge: Run) -> None:
    told = rtgauge("lab", "config", name)
    config = configured.parse(told.out)
    needs = configured.needs(MACHINES[name])
    symbols = {symbol for need in needs for symbol in (need.symbol, need.by) if symbol}
    assert config == dict.fromkeys(symbols, "y")
    assert configured.lacking(config, MACHINES[name], RELEASE) == []
    # it has no prompt: a driver selects it
    selects = {"x86_64": "GPIO_PCI_IDIO_16", "arm64": "GPIO_PL061"}
    assert config[selects[name]] == config["GPIOLIB_IRQCHIP"] == config["SMP"] == "y"
    for need in needs:
        less = {symbol: "y" for symbol in config if symbol != need.symbol}
        assert configured.lacking(less, MACHINES[name], RELEASE) == [need]
        assert configured.lacking({**less, need.symbol: "m"}, MACHINES[name], RELEASE) == [need]
    assert all(line.startswith(("#", "CONFIG_")) or not line for line in told.out.splitlines())


def test_older_kernels_do_without_newer_symbols() -> None:
    machine = MACHINES["x86_64"]
    config = configured.parse(CONFIG)
    del config["X86_IOPL_IOPERM"]
    assert configured.lacking(config, machine, "5.4.9-rt") == []
    assert [need.symbol for need in configured.lacking(config, machine, "5.5.0")] == [
        "X86_IOPL_IOPERM"
    ]


def test_texts_of_a_configuration_are_without_quotes() -> None:
    text = '# CONFIG_A is not set\nCONFIG_B="x y"\nCONFIG_C=m\nCONFIG_HZ=250\n'
    assert configured.parse(text) == {"B": "x y", "C": "m", "HZ": "250"}


# --- Adding and removing ---


def test_a_board_is_added_listed_and_removed(files: Files, rtgauge: Run) -> None:
    added = rtgauge(*files.words())
    assert (added.code, added.err) == (0, "")
    assert added.out == f"Added lab:mine: Linux {RELEASE} on x86_64.\n"
    board = registry.board("mine")
    assert board.own == Own(
        files.kernel, files.build, files.overlay, (files.module,), ("isolcpus=1",)
    )
    (entry,) = [one for one in rtgauge("lab", "list", "--json").json()["boards"] if "own" in one]
    assert entry == {
        "name": "mine", "machine": "q35", "architecture": "x86_64", "series": "",
        "realtime": False, "kernel": RELEASE, "packages": {}, "missing": entry["missing"],
        "own": {
            "kernel": str(files.kernel), "build": str(files.build), "overlay": str(files.overlay),
            "modules": [str(files.module)], "arguments": ["isolcpus=1"],
        },
    }  # fmt: skip
    listed = rtgauge("lab", "list").out
    assert f"mine               own     {RELEASE}" in listed
    assert max(map(len, listed.splitlines())) <= 80
    removed = rtgauge("lab", "remove", "mine")
    assert (removed.code, removed.out) == (0, "Removed lab:mine. Your files stay.\n")
    assert registry.own_names() == []
    assert files.kernel.is_file()


def test_a_kernel_with_cobalt_is_added_with_the_commands_for_both_cores(
    files: Files, rtgauge: Run
) -> None:
    files.config(CONFIG + "CONFIG_XENOMAI=y\n")
    added = " ".join(rtgauge(*files.words()).out.split())
    for core in ("cobalt", "linux"):
        assert f"rtgauge run timer --target lab:mine --core {core}" in added


def test_newer_kernels_are_fetched_for_the_lab_s_boards_alone(
    files: Files, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rtgauge(*files.words()).code == 0
    renewed: list[str] = []
    monkeypatch.setattr("rtgauge.lab.image", lambda board, **_: renewed.append(board.name))
    assert rtgauge("lab", "list", "--newest").code == 0
    assert renewed == []
    files.kernel.unlink()
    assert rtgauge("lab", "list", "--newest").code == 0


def test_paths_are_kept_whole_and_odd_characters_survive(files: Files, rtgauge: Run) -> None:
    name = 'a "b"\\c\n\x7fé'
    files.write(f"{name}/kernel", elf())
    os.chdir(files.place)
    assert rtgauge("lab", "add", "odd", "--kernel", f"{name}/kernel").code == 0
    board = registry.board("odd")
    assert board.own is not None
    assert board.own.kernel == files.place / name / "kernel"


def test_a_shell_completes_the_names(
    files: Files, rtgauge: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rtgauge(*files.words()).code == 0
    for line, expected in (
        ("rtgauge lab remove m", "plain,mine"),
        ("rtgauge lab config ar", "plain,arm64"),
        ("rtgauge check --target lab:mi", "plain,lab:mine"),
        ("rtgauge lab shell mi", "plain,mine"),
        ("rtgauge lab shell arm64-rt-6.1", "plain,arm64-rt-6.1"),
    ):
        monkeypatch.setenv("COMP_WORDS", line)
        capsys.readouterr()
        complete(cli, "bash_complete")
        assert expected in capsys.readouterr().out.splitlines(), line


# --- Files are read at each use ---


def facts() -> dict[str, str]:
    return dict(images.image(registry.board("mine")).facts)


def test_the_facts_have_the_digests_of_all_that_was_given(files: Files, rtgauge: Run) -> None:
    assert rtgauge(*files.words()).code == 0
    first = facts()
    assert first["kernel"] == RELEASE
    assert first["kernel file"] == str(files.kernel)
    assert first["kernel file digest"] == cache.digest_of(files.kernel)
    assert first["configuration digest"] == cache.digest_of(files.build / ".config")
    assert first["module 00-dummy.ko"] == cache.digest_of(files.module)
    assert first["lacks"] == "nothing"
    assert facts() == first

    def changed(*expected: str) -> None:
        nonlocal first
        last, first = first, facts()
        names = {name for name in first if first[name] != last.get(name)}
        assert names == set(expected)

    files.write("overlay/etc/greeting", b"other")
    changed("overlay digest", "initramfs digest")
    (files.overlay / "etc" / "greeting").chmod(0o600)
    changed("overlay digest", "initramfs digest")
    files.module.write_bytes(module() + b"more")
    changed("module 00-dummy.ko", "initramfs digest")
    files.config(CONFIG.replace("CONFIG_HPET_TIMER=y\n", ""))
    changed("configuration digest", "lacks")
    assert first["lacks"] == "CONFIG_HPET_TIMER"
    files.kernel.write_bytes(bz_image(gzipped(elf(more=b"Xen\0more"))))
    changed("kernel file digest", "kernel digest")


@pytest.mark.skipif(shutil.which("cpio") is None, reason="there is no cpio to read archives with")
def test_the_overlay_is_in_the_board(files: Files, rtgauge: Run, tmp_path: Path) -> None:
    files.write("overlay/usr/bin/hello", b"#!/bin/sh\n").chmod(0o755)
    files.write("overlay/usr/lib/libx.so.1", b"lib")
    (files.overlay / "usr/lib/libx.so").symlink_to("libx.so.1")
    (files.overlay / "opt").symlink_to("/usr/lib")
    (files.overlay / "bin").symlink_to("usr/bin")
    (files.overlay / "etc/mtab").symlink_to("../proc/mounts")
    (files.overlay / "scratch").symlink_to("/tmp")
    (files.overlay / "nowhere").symlink_to("/no/such/file/anywhere")
    (files.overlay / "etc/passwd").write_bytes(b"root::0:0::/:/bin/sh\nme::1:1::/:/bin/sh\n")
    assert rtgauge(*files.words()).code == 0
    made = images.image(registry.board("mine"))
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(
        ["cpio", "-i", "--quiet", "--no-preserve-owner", "--nonmatching", "dev/*"],
        input=made.initramfs.read_bytes(),
        cwd=root,
        check=True,
        timeout=60,
    )
    assert (root / "bin/hello").stat().st_mode & 0o777 == 0o755
    assert (root / "bin").is_dir() and not (root / "bin").is_symlink()
    assert (root / "usr/bin").readlink() == Path("../bin")
    assert (root / "usr/lib/libx.so").read_bytes() == b"lib"
    assert (root / "opt").readlink() == Path("/usr/lib")
    assert b"me:" in (root / "etc/passwd").read_bytes()
    assert (root / "etc/group").is_file()
    assert (root / "modules/kernel/00-dummy.ko").read_bytes() == module()


def test_modules_are_loaded_in_the_order_given_and_unpacked(files: Files) -> None:
    files.write("z.ko.xz", lzma.compress(module() + b"z"))
    files.write("a.ko.gz", gzipped(module() + b"a"))
    given = Own(
        files.kernel, modules=(files.place / "z.ko.xz", files.place / "a.ko.gz", files.module)
    )
    added = own.read(Board("x", MACHINES["x86_64"], "", False, given)).added
    assert {name: content[-1:] for name, content in added.modules.items()} == {
        "00-z.ko.xz": b"z", "01-a.ko.gz": b"a", "02-dummy.ko": b"\0",
    }  # fmt: skip


def test_a_damaged_copy_is_made_again(files: Files, rtgauge: Run) -> None:
    assert rtgauge(*files.words()).code == 0
    made = images.image(registry.board("mine"))
    made.kernel.write_bytes(b"damaged")
    assert images.image(registry.board("mine")).kernel.read_bytes() == elf()


def test_an_image_that_another_process_made_is_taken(
    files: Files, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may boot it, so a second one must not take its place."""
    assert rtgauge(*files.words()).code == 0
    made = images.image(registry.board("mine"))
    known, looks = images._known, iter([True])
    monkeypatch.setattr(images, "_known", lambda *_: None if next(looks, False) else known(*_))
    monkeypatch.setattr(images, "_make", None)
    assert images.image(registry.board("mine")) == made


def test_prune_removes_copies_of_kernels_that_nobody_used(files: Files, rtgauge: Run) -> None:
    assert rtgauge(*files.words()).code == 0
    made = images.image(registry.board("mine"))
    assert prune.prune(1) == []
    record = made.kernel.parent / KERNEL_RECORD
    os.utime(record, (0, 0))
    images.image(registry.board("mine"))
    assert prune.prune(1) == []  # it was used
    os.utime(record, (0, 0))
    assert [one.path for one in prune.prune(1)] == [f"own/{made.kernel.parent.name}"]
    assert images.image(registry.board("mine")).kernel.read_bytes() == elf()
    assert (cache.cache_folder() / own.BUSYBOX / "amd64" / "busybox").is_file()


# --- Bad input ---


def test_links_of_programs_lead_where_they_led_in_the_overlay(files: Files, rtgauge: Run) -> None:
    files.write("overlay/bin/tool", b"tool")
    files.write("overlay/usr/lib/program", b"program")
    (files.overlay / "usr/bin").mkdir(parents=True)
    (files.overlay / "usr/bin/vi").symlink_to("../../bin/tool")
    (files.overlay / "usr/bin/program").symlink_to("../lib/program")
    (files.overlay / "usr/bin/out").symlink_to("../../etc/group")
    assert rtgauge(*files.words()).code == 0
    found = own.read(registry.board("mine")).added.files
    assert found["bin/vi"].content == b"/bin/tool"
    assert found["bin/program"].content == b"/usr/lib/program"
    (files.overlay / "usr/bin/out").unlink()
    (files.overlay / "usr/bin/out").symlink_to("../../../etc/group")
    with pytest.raises(TargetError, match=r"overlay/usr/bin/out in the overlay leads outside it"):
        own.read(registry.board("mine"))


def test_of_a_kernel_that_clang_built_there_are_no_modules_of_ours(
    files: Files, rtgauge: Run
) -> None:
    files.config(CONFIG + "CONFIG_CC_IS_CLANG=y\n")
    added = rtgauge(*files.words())
    assert (added.code, "no rtgauge module" in added.out) == (0, True)
    assert "build the kernel with gcc" in added.out
    given = own.read(registry.board("mine"))
    assert given.headers is None
    assert list(given.added.modules) == ["00-dummy.ko"]


def test_a_sparse_overlay_is_not_read_whole(files: Files, rtgauge: Run) -> None:
    with files.write("overlay/large", b"").open("r+b") as file:
        file.truncate(1 << 42)
    told = rtgauge(*files.words())
    assert (told.code, "has more than 128 MiB" in told.err) == (1, True), told.err


def test_a_kernel_that_another_process_put_into_the_cache_stays(
    files: Files, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one may boot it at this moment."""
    assert rtgauge(*files.words()).code == 0
    given = own.read(registry.board("mine"))
    folder, place = cache.cache_folder(), "rtgauge.lab.own.locked"
    inodes: list[int] = []
    said: list[str] = []

    @contextlib.contextmanager
    def later(*words: Any) -> Iterator[None]:
        monkeypatch.setattr(place, cache.locked)
        inodes.append(own.unpacked(folder, given, said.append).kernel.stat().st_ino)
        with cache.locked(*words):
            yield

    monkeypatch.setattr(place, later)
    assert own.unpacked(folder, given, said.append).kernel.stat().st_ino == inodes[0]


def without(symbol: str) -> Callable[[Files], None]:
    return lambda files: files.config(CONFIG.replace(f"CONFIG_{symbol}=y\n", ""))


def wrong_build(files: Files) -> None:
    files.write("linux/include/generated/utsrelease.h", '#define UTS_RELEASE "6.7.0"\n')


OUTSIDE = str(Path(__file__).parent)  # not below /dev, which the board has


def link(name: str, target: str) -> Callable[[Files], None]:
    return lambda files: (files.overlay / name).symlink_to(target.format(here=files.place))


def a_folder(files: Files) -> None:
    files.kernel.unlink()
    files.kernel.mkdir()


def pipe(files: Files) -> None:
    os.mkfifo(files.overlay / "pipe")


def pipe_as_module(files: Files) -> None:
    files.module.unlink()
    os.mkfifo(files.module)


def pipe_in_build(name: str) -> Callable[[Files], None]:
    def damage(files: Files) -> None:
        (files.kernel.parent / name).unlink()
        os.mkfifo(files.kernel.parent / name)

    return damage


def a_long_release(files: Files) -> None:
    files.kernel.write_bytes(bz_image(gzipped(elf(release="9" * 5000))))


def a_device(files: Files) -> None:
    files.kernel.unlink()
    files.kernel.symlink_to("/dev/zero")


def two_of_one_name(files: Files) -> None:
    files.write("overlay/sbin/tool", b"one")
    files.write("overlay/usr/bin/tool", b"two")


BAD: dict[str, tuple[Callable[[Files], object], str, str]] = {
    "no kernel": (
        lambda files: files.kernel.unlink(),
        "its kernel cannot be read: {here}/linux/bzImage: No such file or directory",
        "build it or correct its permissions, or run 'rtgauge lab remove mine', then add the board "
        "again with another one",
    ),
    "a folder": (
        a_folder,
        "its kernel cannot be read: {here}/linux/bzImage: Is a directory",
        "build it",
    ),
    "not a kernel": (
        lambda files: files.kernel.write_bytes(b"text"),
        "{here}/linux/bzImage is not a kernel for x86_64 or arm64",
        "name a bzImage (arch/x86/boot/bzImage)",
    ),
    "wrong machine": (
        lambda files: files.kernel.write_bytes(image()),
        "{here}/linux/bzImage is a kernel for arm64, and the machine is x86_64",
        "run 'rtgauge lab remove mine', then add the board again with --machine arm64",
    ),
    "vmlinux without PVH": (
        lambda files: files.kernel.write_bytes(elf(more=b"")),
        "QEMU cannot start the kernel {here}/linux/bzImage",
        "use the bzImage, or build it with CONFIG_PVH=y",
    ),
    "no release": (
        lambda files: files.kernel.write_bytes(bz_image(b"", release="")),
        "{here}/linux/bzImage does not contain its release",
        "not stripped",
    ),
    "no build folder": (
        lambda files: shutil.rmtree(files.build / "include"),
        "{here}/linux is not a folder in which a kernel was built",
        "name the folder in which 'make' was called",
    ),
    "build of another release": (
        wrong_build,
        f"the kernel is Linux {RELEASE}, but {{here}}/linux was built for 6.7.0",
        "build kernel and modules together",
    ),
    "no modules built": (
        lambda files: (files.build / "Module.symvers").unlink(),
        "rtgauge's modules cannot be built in {here}/linux",
        "make modules",
    ),
    "no PCI": (
        without("PCI"),
        "its kernel lacks CONFIG_PCI (finds the device for the exchange with the host)",
        "set CONFIG_PCI=y",
    ),
    "no support for modules": (
        without("MODULES"),
        "its kernel does not load modules, but the board has --module",
        "or run 'rtgauge lab remove mine', then add the board again without --module",
    ),
    "no module": (
        lambda files: files.module.unlink(),
        "its module cannot be read: {here}/dummy.ko: No such file or directory",
        "build it",
    ),
    "not a module": (
        lambda files: files.module.write_bytes(b"\x7fELF"),
        "{here}/dummy.ko is not a kernel module",
        "name a .ko file",
    ),
    "module of another release": (
        lambda files: files.module.write_bytes(module("6.7.0")),
        f"the module {{here}}/dummy.ko was built for Linux 6.7.0, and the kernel is {RELEASE}",
        "make modules",
    ),
    "no overlay": (
        lambda files: shutil.rmtree(files.overlay),
        "its overlay {here}/overlay is not a folder",
        "name a folder",
    ),
    "a link above the root": (
        link("etc/up", "../../secret"),
        "the link {here}/overlay/etc/up in the overlay leads outside it, to ../../secret",
        "make it a relative link",
    ),
    "a link to this machine": (
        link("lib", OUTSIDE),
        f"the link {{here}}/overlay/lib in the overlay leads outside it, to {OUTSIDE}",
        "copy the file",
    ),
    "a pipe": (
        pipe,
        "{here}/overlay/pipe in the overlay is not a file, a folder or a link",
        "remove it",
    ),
    "a pipe as module": (
        pipe_as_module,
        "{here}/dummy.ko is not a regular file",
        "name a regular file",
    ),
    "a pipe as configuration": (
        pipe_in_build(".config"),
        "{here}/linux/.config: not a regular file",
        "name the folder",
    ),
    "a pipe as symbols": (
        pipe_in_build("Module.symvers"),
        "{here}/linux/Module.symvers: not a regular file",
        "make modules",
    ),
    "a release without end": (
        a_long_release,
        "{here}/linux/bzImage does not contain its release",
        "use a kernel that is not stripped",
    ),
    "a device as kernel": (
        a_device,
        "{here}/linux/bzImage is not a regular file",
        "name a regular file",
    ),
    "two programs of one name": (
        two_of_one_name,
        "the overlay {here}/overlay has two different files for /bin/tool of the board",
        "remove {here}/overlay/usr/bin/tool",
    ),
    "our own file": (
        lambda files: files.write("overlay/usr/bin/busybox", b""),
        "the overlay replaces /bin/busybox, which the lab needs",
        "remove {here}/overlay/usr/bin/busybox",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_each_bad_input_is_one_line_with_its_remedy(files: Files, rtgauge: Run, name: str) -> None:
    damage, message, remedy = BAD[name]
    words = [*files.words(), "--machine", "x86_64"]
    assert rtgauge(*words).code == 0
    damage(files)
    with pytest.raises(TargetError) as caught:
        images.image(registry.board("mine"))
    assert message.format(here=files.place) in caught.value.message
    assert remedy.format(here=files.place) in caught.value.remedy
    listed = rtgauge("lab", "list", "--json").json()["boards"][-1]
    assert caught.value.message in listed["missing"]
    assert rtgauge("lab", "remove", "mine").code == 0
    again = rtgauge(*words)
    assert again.code == 1
    assert registry.own_names() == []
    assert len(again.err.splitlines()) >= 2
    assert "Traceback" not in again.err


def test_a_build_folder_that_make_would_split_is_to_be_renamed(files: Files) -> None:
    """The cache's variable does not move it."""
    build = files.build.with_name("linux-6.1#2")
    files.build.rename(build)
    unpacked = Unpacked(build, RELEASE, build, "", build, build, (), {})
    made = modules.Recipe(MACHINES["x86_64"], unpacked, {})
    with pytest.raises(TargetError, match="in a folder with this name") as caught:
        made.build(cache.cache_folder(), print)
    assert "rename the folder in which the kernel was built" in caught.value.remedy


def test_an_overlay_that_does_not_fit_or_is_too_large(
    files: Files, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rtgauge(*files.words()).code == 0
    (files.overlay / "var").write_bytes(b"a file")
    with pytest.raises(TargetError, match="does not fit the board: 'var' contains 'var/tmp'"):
        images.image(registry.board("mine"))
    monkeypatch.setattr(own, "ADDED_MAX", 4)
    with pytest.raises(TargetError, match="has more than 0 MiB"):
        images.image(registry.board("mine"))


def test_without_hpet_a_board_says_so_and_runs(files: Files, rtgauge: Run) -> None:
    files.config(CONFIG.replace("CONFIG_HPET_TIMER=y\n", ""))
    added = rtgauge(*files.words())
    assert added.code == 0
    assert "The kernel lacks CONFIG_HPET_TIMER (the interrupt source hpet" in added.out
    assert "Lines for its .config: rtgauge lab config x86_64" in added.out
    said: list[str] = []
    images.image(registry.board("mine"), say=said.append)
    assert any(
        "lacks CONFIG_HPET_TIMER. What each is for: rtgauge lab config x86_64" in s for s in said
    )
    listed = rtgauge("lab", "list")
    assert "CONFIG_HPET_TIMER" in listed.out


def test_without_a_build_folder_or_modules_there_are_none_of_ours(
    files: Files, rtgauge: Run
) -> None:
    added = rtgauge("lab", "add", "bare", "--kernel", str(files.kernel))
    assert added.code == 0
    assert "The kernel's configuration is unknown" in added.out
    assert "no rtgauge module" in added.out
    assert "add the board again with --build" in " ".join(added.out.split())
    assert own.read(registry.board("bare")).headers is None
    without = CONFIG.replace("CONFIG_MODULES=y\n", "")
    files.config(without)
    words = ["--kernel", str(files.kernel), "--build", str(files.build)]
    said = rtgauge("lab", "add", "built", *words).out
    assert "so it has no interrupt and no kernel context" in said
    assert "set CONFIG_MODULES=y and rebuild the kernel" in said
    assert "again with --build" not in " ".join(said.split())
    files.config(without + "CONFIG_XENOMAI=y\nCONFIG_XENO_DRIVERS_TIMERBENCH=y\n")
    said = rtgauge("lab", "add", "core", *words).out
    assert "timerbench measures the interrupt and kernel contexts" in said
    files.config(without)
    bare = replace(registry.board("bare"), own=Own(files.kernel, files.build))
    assert own.read(bare).headers is None


def test_of_two_that_add_a_board_at_the_same_time_one_is_refused(
    files: Files, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rtgauge(*files.words()).code == 0
    before = registry.board("mine")
    monkeypatch.setattr(registry, "check_name", lambda _: None)  # as if the other came after it
    told = rtgauge("lab", "add", "mine", "--kernel", str(files.kernel))
    assert (told.code, "has a board 'mine' already" in told.err) == (2, True), told.err
    assert registry.board("mine") == before
    assert [path.name for path in registry._folder().iterdir()] == ["mine.toml"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x86_64-rt", "'x86_64-rt' is one of the lab's own boards"),
        ("arm64-stock-6.1", "'arm64-stock-6.1' is one of the lab's own boards"),
        ("../up", "a board cannot be named '../up'"),
        ("a,b", "a board cannot be named 'a,b'"),
        ("", "a board cannot be named ''"),
        (".hidden", "a board cannot be named '.hidden'"),
        ("mine", "the lab has a board 'mine' already"),
    ],
)
def test_names_that_are_taken_or_invalid(
    files: Files, rtgauge: Run, name: str, message: str
) -> None:
    assert rtgauge(*files.words()).code == 0
    told = rtgauge("lab", "add", name, "--kernel", str(files.kernel))
    assert told.code == 2
    assert message in told.err
    assert registry.own_names() == ["mine"]


@pytest.mark.parametrize(
    ("words", "message", "remedy"),
    [
        (["remove", "mime"], "you have no board 'mime'", "did you mean 'mine'?"),
        (
            ["remove", "arm64-rt"],
            "is one of the lab's own boards, which cannot be removed",
            "lab prune",
        ),
        (["config", "x86"], "the lab has no machine 'x86'", "did you mean 'x86_64'?"),
        (["add", "b", "--kernel", "k", "--machine", "arm"], "no machine 'arm'", "arm64"),
        (["add", "b", "--kernel", "k", "--argument", "a b"], "'a b' is not a kernel arg", "Repeat"),
        (["add", "b"], "missing option '--kernel'", "rtgauge lab add --help"),
    ],
)
def test_wrong_words(
    files: Files, rtgauge: Run, words: list[str], message: str, remedy: str
) -> None:
    assert rtgauge(*files.words()).code == 0
    told = rtgauge("lab", *words)
    assert (told.code, message in told.err, remedy in told.err) == (2, True, True), told.err


@pytest.mark.parametrize(
    "text",
    [
        "machine =",
        'machine = "vax"\nkernel = "/k"',
        'machine = "arm64"\nkernel = "k"',
        'machine = "arm64"',
        'machine = "arm64"\nkernel = "/k"\nkernels = "/k"',
        'machine = "arm64"\nkernel = 3',
        'machine = "arm64"\nkernel = "/k"\narguments = ["a b"]',
        'machine = "arm64"\nkernel = "/k"\nmodules = "/m"',
        "\udcff",
        "kernel = " + "[" * 5000,
    ],
)
def test_a_damaged_description_names_its_file(files: Files, rtgauge: Run, text: str) -> None:
    assert rtgauge(*files.words()).code == 0
    path = Path(os.environ["HOME"]) / ".config/rtgauge/boards/mine.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RtgaugeError) as caught:
        registry.board("mine")
    assert str(path) in caught.value.message
    assert "rtgauge lab remove mine" in caught.value.remedy
    assert str(path) in rtgauge("lab", "list", "--json").json()["boards"][-1]["missing"][0]
    assert rtgauge("lab", "remove", "mine").code == 0


@pytest.mark.parametrize(
    ("status", "log", "console", "booting"),
    [
        (0, "", "", True),
        (0, "qemu: warning: no such feature", "", True),  # a reset before its console
        (1, "qemu: no such device", "", False),
        (-6, "", "", False),
        (1, "qemu: terminated", "Linux", True),
        (None, "", "", True),
    ],
)
def test_a_failure_of_qemu_is_not_one_of_the_kernel(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int | None,
    log: str,
    console: str,
    booting: bool,
) -> None:
    machine = Machine(SimpleNamespace(name="mine"))  # type: ignore[arg-type]
    for name, text in (("qemu.log", log), ("console", console)):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(machine, "_folder", tmp_path, raising=False)
    monkeypatch.setattr(machine, "_selector_says", lambda _: None)
    process = SimpleNamespace(poll=lambda: status, kill=lambda: None, wait=lambda _: None)
    monkeypatch.setattr(machine, "_process", process)
    monkeypatch.setattr(machine, "_keep_console", lambda: tmp_path / "kept")
    machine.booting = True
    with pytest.raises(TargetError, match="it ended on its own"):
        machine.answer(0)
    assert machine.booting is booting


@pytest.mark.parametrize("booting", [True, False])
@pytest.mark.parametrize("remedy", ["see the console", ""])
def test_what_a_kernel_needs_is_named_where_it_did_not_boot(
    files: Files, rtgauge: Run, remedy: str, booting: bool
) -> None:
    assert rtgauge(*files.words()).code == 0
    target = LabTarget("mine")
    machine = SimpleNamespace(booting=booting)
    machine.start = Mock(side_effect=TargetError("it ended on its own", remedy))
    with pytest.raises(TargetError) as caught:
        target._boot(machine)  # type: ignore[arg-type]
    needs = "'rtgauge lab config x86_64' lists what a kernel needs"
    expected = [remedy, needs] if booting else [remedy]
    assert caught.value.remedy == ". ".join(word for word in expected if word)
