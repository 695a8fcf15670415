# SPDX-License-Identifier: Apache-2.0
"""Boards, packages, kernels, archives and images of the lab: without QEMU and without a network.

The packages come from a made-up apt and a made-up dpkg-deb; archives are read by cpio.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow
import pytest

from conftest import Run
from rtgauge.errors import TargetError, UsageError
from rtgauge.lab import (
    cache,
    images,
    initramfs,
    kernels,
    libraries,
    linked,
    modules,
    own,
    packages,
    programs,
    prune,
)
from rtgauge.lab.boards import BOARDS, MACHINES, SERIES
from rtgauge.lab.registry import board, boards
from rtgauge.target.lab import LabTarget

# --- Boards -------------------------------------------------------------------------------------


def test_every_combination_is_a_board() -> None:
    assert len(BOARDS) == len(MACHINES) * 2 * len(SERIES)
    assert [name for name in boards() if name in BOARDS] == list(BOARDS)


def test_a_short_name_is_the_newest_series() -> None:
    assert board("x86_64-rt") is board("x86_64-rt-6.12")
    assert board("arm64-stock").series == "6.12"
    assert board("x86_64-stock-6.1").flavour == "amd64"
    assert board("arm64-rt-6.1").flavour == "rt-arm64"


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(UsageError) as caught:
        board("x86_64-rtt")
    assert caught.value.remedy == "did you mean 'x86_64-rt'?"


# --- Archives -----------------------------------------------------------------------------------


def read_cpio(archive: bytes, folder: Path) -> None:
    """Unpack with an independent program."""
    subprocess.run(
        ["cpio", "-i", "--quiet", "--no-preserve-owner"],
        input=archive,
        cwd=folder,
        check=True,
        timeout=60,
    )


@pytest.mark.skipif(shutil.which("cpio") is None, reason="there is no cpio to read archives with")
def test_cpio_reads_what_was_written(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5 + b"x"
    archive = initramfs.archive(
        {
            "init": initramfs.file(b"#!/bin/sh\n", 0o755),
            "a/deep/er/file": initramfs.file(content, 0o640),
            "a/empty": initramfs.file(b""),
            "tmp": initramfs.folder(0o1777),
            "a/link": initramfs.link("deep/er"),
        }
    )
    read_cpio(archive, tmp_path)
    assert (tmp_path / "a/link/file").read_bytes() == content
    assert (tmp_path / "a/empty").read_bytes() == b""
    assert stat.S_IMODE((tmp_path / "init").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "a/deep/er/file").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "tmp").stat().st_mode) == 0o1777
    assert os.readlink(tmp_path / "a/link") == "deep/er"
    listed = subprocess.run(
        ["cpio", "-t", "--quiet"], input=archive, capture_output=True, check=True, timeout=60
    ).stdout.decode()
    assert listed.split() == [
        "a", "a/deep", "a/deep/er", "a/deep/er/file", "a/empty", "a/link", "init", "tmp",
    ]  # fmt: skip


def test_equal_content_gives_equal_bytes_in_any_order() -> None:
    entries = {"b": initramfs.file(b"1"), "a/c": initramfs.file(b"2"), "a-": initramfs.link("b")}
    turned = dict(reversed(entries.items()))
    assert initramfs.archive(entries) == initramfs.archive(turned)


def test_an_archive_holds_nothing_of_when_and_by_whom() -> None:
    """Read by the description of the form: owner and time of every entry are 0."""
    archive = initramfs.archive({"a/b": initramfs.file(b"xyz"), "dev/c": initramfs.device(5, 1)})
    found = {}
    at = 0
    while at < len(archive):
        assert archive[at : at + 6] == b"070701"
        numbers = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name = archive[at + 110 : at + 110 + numbers[11] - 1].decode()
        found[name] = numbers
        at += (110 + numbers[11] + 3) // 4 * 4
        at += (numbers[6] + 3) // 4 * 4
    assert list(found) == ["a", "a/b", "dev", "dev/c", "TRAILER!!!"]
    assert all(numbers[2:4] == [0, 0] and numbers[5] == 0 for numbers in found.values())
    assert [numbers[0] for numbers in found.values()] == [1, 2, 3, 4, 0]
    assert found["dev/c"][9:11] == [5, 1]
    assert stat.S_ISCHR(found["dev/c"][1])


@pytest.mark.parametrize("path", ["/etc", "../etc", "a//b", "a/", "", ".", ".."])
def test_paths_outside_the_root_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        initramfs.archive({path: initramfs.file(b"")})


def test_names_below_the_root_may_begin_with_a_dot() -> None:
    entries = {".profile": initramfs.file(b"x"), ".config/a": initramfs.file(b"y")}
    archive = initramfs.archive(entries)
    assert b".profile\0" in archive and b".config/a\0" in archive


def test_a_file_is_no_folder() -> None:
    with pytest.raises(ValueError, match="is not a folder"):
        initramfs.archive({"a": initramfs.file(b""), "a/b": initramfs.file(b"")})


BUSYBOX = b"\x7fELF...\0[\0[[\0ash\0busybox\0ls\0sh\0\0more"


def test_the_commands_of_a_busybox_are_found_in_its_program() -> None:
    assert initramfs.busybox_applets(BUSYBOX) == ("[", "[[", "ash", "busybox", "ls", "sh")
    with pytest.raises(TargetError, match="no table"):
        initramfs.busybox_applets(b"\x7fELF nothing")


@pytest.mark.skipif(shutil.which("busybox") is None, reason="there is no busybox here")
def test_they_are_what_that_busybox_lists() -> None:
    path = shutil.which("busybox")
    assert path is not None
    listed = subprocess.run([path, "--list"], capture_output=True, check=True, timeout=60).stdout
    assert list(initramfs.busybox_applets(Path(path).read_bytes())) == listed.decode().split()


def test_every_command_leads_to_busybox_and_busybox_is_a_program() -> None:
    entries = initramfs.tree(b"init", b"agent", BUSYBOX, {"a.ko": b"1"}, {"00-b.ko": b"2"})
    assert entries["bin/busybox"].content == BUSYBOX
    assert stat.S_ISREG(entries["bin/busybox"].mode)
    assert entries["bin/sh"] == initramfs.link("busybox")
    assert entries["modules/a.ko"].content == b"1"
    assert entries["modules/kernel/00-b.ko"].content == b"2"
    assert entries["init"].mode & 0o111
    assert entries["agent"].mode & 0o111


# --- Names and versions -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "series", "flavour", "version"),
    [
        ("linux-image-6.1.0-56-rt-amd64", "6.1", "rt-amd64", (6, 1, 0, 56)),
        ("linux-image-6.1.0-9-amd64", "6.1", "amd64", (6, 1, 0, 9)),
        ("linux-image-6.12.117+deb12-rt-arm64", "6.12", "rt-arm64", (6, 12, 117, 12)),
        ("linux-image-6.12.9+bpo-amd64", "6.12", "amd64", (6, 12, 9)),
        ("linux-image-6.12.43+deb13-amd64", "6.12", "amd64", (6, 12, 43, 13)),
        ("linux-image-6.12.43+deb13-amd64", "6.1", "amd64", None),
        ("linux-image-6.1.0-56-rt-amd64", "6.1", "amd64", None),
        ("linux-image-6.1.0-56-cloud-amd64", "6.1", "amd64", None),
        ("linux-image-6.1.0-56-amd64-dbg", "6.1", "amd64", None),
        ("linux-image-6.1.0-56-amd64-unsigned", "6.1", "amd64", None),
        ("linux-image-6.12-rt-amd64", "6.12", "rt-amd64", None),
        ("linux-image-rt-amd64", "6.1", "rt-amd64", None),
    ],
)
def test_names_of_kernels(
    name: str, series: str, flavour: str, version: tuple[int, ...] | None
) -> None:
    assert packages.point_version(name, series, flavour) == version


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("W: first\nE: Failed to fetch x  404\nE: more\n", "Failed to fetch x  404"),
        ("W: only this\n", "only this"),
        ("\n", "apt gave no reason"),
    ],
)
def test_of_what_apt_says_the_first_error_is_told(said: str, line: str) -> None:
    assert packages.apt_said(said) == line


def test_a_package_with_a_hostile_version_is_none() -> None:
    text = "Package: some\nVersion: 1; rm -rf x\nArchitecture: all\nSHA256: 0\nSize: 1\n"
    assert packages.parse_package(text, "some") is None
    assert packages.parse_package(text.replace("1; rm -rf x", "1"), "some") is not None
    assert packages.parse_package(text.replace("Size: 1", "Size: x"), "some") is None


# --- A made-up Debian ---------------------------------------------------------------------------

APT = r"""#!{python} -SE
import os, sys  # few modules: it starts often
place = {place!r} + "/"
with open(place + "world") as text:
    world = eval(text.read())
words = sys.argv[1:]
assert words[0] == "-c" and os.path.isfile(words[1]), words
words = [word for word in words[2:] if word != "-q"]
with open(place + "asked", "a") as asked:
    asked.write(" ".join(words) + "\n")
if world.get("down") and words[0] in ("update", "download"):
    sys.exit("W: a warning\nE: no route to the sources")
if words[0] in world.get("complains", {{}}):
    said, code = world["complains"][words[0]]
    print(said, file=sys.stderr)
    sys.exit(code)
if words[0] == "pkgnames":
    print("\n".join(name for name in world["packages"] if name.startswith(words[1])))
elif words[0] == "show":
    name, _, architecture = words[2].partition(":")
    package = world["packages"].get(name)
    if package and package["Architecture"] in (architecture, "all"):
        print("\n".join(key + ": " + value for key, value in package.items()))
    else:
        sys.exit("E: No packages found")
elif words[0] == "download":
    name = words[1].partition("=")[0].partition(":")[0]
    with open(place + name + ".deb", "rb") as package:
        data = package.read()
    with open(name + "_1_x.deb", "wb") as target:
        target.write(data[:-1] + b"?" if world.get("damaged") == name else data)
"""

DPKG = r"""#!{python} -SE
import sys
assert sys.argv[1] == "--fsys-tarfile"
sys.stdout.buffer.write(open(sys.argv[2], "rb").read())
"""

RELEASE = "6.1.0-56-rt-amd64"


def x86_image(payload: bytes) -> bytes:
    """A bzImage whose boot sector tells where the payload is."""
    head = bytearray(1024)
    head[0x1F1] = 1
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", head, 0x248, 64, len(payload))
    return bytes(head) + b"\x90" * 64 + payload + b"rest"


def packed_by_xz(data: bytes) -> bytes:
    return lzma.compress(data, check=lzma.CHECK_CRC32) + struct.pack("<I", len(data))


VMLINUX = b"\x7fELF" + b"code" * 1000 + b"Xen\0"


def tar(files: Mapping[str, bytes | str]) -> bytes:
    """A tar of files; text is the target of a link."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo("./" + name)
            member.mode = 0o755
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


class World:
    """A made-up Debian with a cache next to it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.state: dict[str, object] = {"packages": {}}
        self.said: list[str] = []
        self.cache = place / "cache"

    def add(self, name: str, files: Mapping[str, bytes | str], depends: str = "") -> None:
        data = tar(files)
        (self.place / f"{name}.deb").write_bytes(data)
        listed = self.state["packages"]
        assert isinstance(listed, dict)
        listed[name] = {
            "Package": name,
            "Version": "6.1.192-2",
            "Architecture": "all" if "common" in name else "amd64",
            "SHA256": hashlib.sha256(data).hexdigest(),
            "Size": str(len(data)),
            "Depends": depends,
        }
        self.write()

    def add_kernel(self, release: str, with_headers: bool = True) -> None:
        stem = release.removesuffix("-rt-amd64")
        self.add(
            f"linux-image-{release}",
            {
                f"boot/vmlinuz-{release}": x86_image(packed_by_xz(VMLINUX + release.encode())),
                "lib/modules/x/a.ko": b"unwanted",
            },
        )
        if with_headers:
            headers = f"usr/src/linux-headers-{release}"
            include = f"include /usr/src/linux-headers-{stem}-common-rt/Makefile\n"
            self.add(
                f"linux-headers-{release}",
                {
                    f"{headers}/Makefile": include.encode(),
                    f"{headers}/.kernelvariables": b"CC = $(CROSS_COMPILE)gcc-12\n",
                    f"{headers}/vmlinux": b"x",
                    f"{headers}/scripts": "../../lib/linux-kbuild-6.1/scripts",
                    f"lib/modules/{release}/build": f"/usr/src/linux-headers-{release}",
                },
                f"linux-headers-{stem}-common-rt (= 6.1.192-2), linux-kbuild-6.1 (>= 6), gcc-12",
            )
            self.add(
                f"linux-headers-{stem}-common-rt",
                {f"usr/src/linux-headers-{stem}-common-rt/Makefile": b"all:\n"},
            )

    def write(self) -> None:
        (self.place / "world").write_text(repr(self.state))

    def change(self, **state: object) -> None:
        self.state |= state
        self.write()

    def asked(self, verb: str) -> list[str]:
        path = self.place / "asked"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(verb)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    place = tmp_path / "debian"
    (place / "bin").mkdir(parents=True)
    for name, text in (("apt-get", APT), ("apt-cache", APT), ("dpkg-deb", DPKG)):
        program = place / "bin" / name
        program.write_text(text.format(python=sys.executable, place=str(place)))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(packages, "host_debian", lambda: "amd64")
    made = World(place)
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(made.cache))
    made.add_kernel(RELEASE)
    made.add("linux-kbuild-6.1", {"usr/lib/linux-kbuild-6.1/scripts/x": b"#!/bin/sh\n"})
    made.add("busybox-static", {"bin/busybox": BUSYBOX})
    agent, guest = place / "agent", place / "guest"
    agent.write_bytes(b"agent")
    guest.write_bytes(b"guest")
    monkeypatch.setattr(images, "programs", lambda *_: programs.Programs(agent, guest))
    monkeypatch.setattr(images, "recipe", lambda *_: None)
    return made


BOARD = board("x86_64-rt-6.1")


@pytest.mark.slow
def test_from_a_board_to_an_image(world: World, tmp_path: Path) -> None:
    made = images.image(BOARD, say=world.said.append)
    assert made.kernel.read_bytes() == VMLINUX + RELEASE.encode()
    assert made.facts["kernel"] == RELEASE
    assert made.facts[f"package linux-image-{RELEASE}"] == "6.1.192-2"
    unpacked = kernels.known_kernel(BOARD)
    assert unpacked is not None
    assert (unpacked.headers / "Makefile").read_text() == (
        "include $(dir $(lastword $(MAKEFILE_LIST)))../linux-headers-6.1.0-56-common-rt/Makefile\n"
    )
    assert not (unpacked.headers / "vmlinux").exists()
    assert (unpacked.headers / "scripts" / "x").is_file()
    assert not list(unpacked.folder.rglob("*.ko"))
    assert not any(path.is_symlink() for path in (unpacked.folder / "lib").rglob("*"))
    assert not list((world.cache / "packages").iterdir())
    if shutil.which("cpio"):
        read = tmp_path / "read"
        read.mkdir()
        archive = made.initramfs.read_bytes().replace(b"dev/console", b"dev/Console")
        entries = dict(initramfs.tree(b"guest", b"agent", BUSYBOX, {}, {}))
        assert initramfs.archive(entries).replace(b"dev/console", b"dev/Console") == archive


@pytest.fixture
def musl(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The world with packages of musl. Returns the agents that are linked."""
    made: list[Path] = []

    def link(_: linked.Toolchain, output: Path) -> None:
        made.append(output)
        # the head of an ELF file for x86-64, whose one segment names the loader
        head = b"\x7fELF\2\1".ljust(18, b"\0") + struct.pack("<H12xQ14xHH", 62, 64, 56, 1)
        loader = b"/lib/ld-musl-x86_64.so.1\0"
        entry = struct.pack("<IIQQQQQQ", 3, 0, 120, 0, 0, len(loader), len(loader), 1)
        output.write_bytes(head.ljust(64, b"\0") + entry + loader)

    monkeypatch.setattr(libraries, "link", link)
    monkeypatch.setattr(libraries, "compiler_version", lambda *_: "gcc version 12")
    monkeypatch.setattr(linked.Toolchain, "ask", lambda *_: "/gcc/include")
    world.add("musl", {"lib/x86_64-linux-musl/libc.so": b"the library"})
    world.add("musl-dev", {"usr/include/x86_64-linux-musl/stdio.h": b""})
    world.add("linux-libc-dev", {"usr/include/linux/futex.h": b""})
    return made


@pytest.mark.slow
def test_a_board_with_a_c_library_of_debian(world: World, musl: list[Path], tmp_path: Path) -> None:
    plain = images.image(BOARD)
    made = images.image(BOARD, library="musl", say=world.said.append)
    assert made.initramfs != plain.initramfs
    assert made.facts["libc"] == "musl"
    assert made.facts["package musl"] == "6.1.192-2"
    assert made.facts["agent compiler"] == "gcc version 12"
    assert "libc" not in plain.facts
    archive = made.initramfs.read_bytes()
    assert b"the library" in archive
    assert b"lib/ld-musl-x86_64.so.1\0" in archive
    assert not list((world.cache / "packages").iterdir())
    world.change(down=True)
    asked = len(world.asked(""))
    assert images.image(BOARD, library="musl") == made
    assert (len(world.asked("")), len(musl)) == (asked, 1)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["agent", "record", "library"])
def test_a_damaged_library_or_agent_is_made_anew(
    world: World, musl: list[Path], damage: str
) -> None:
    images.image(BOARD, library="musl")
    (agent,) = (world.cache / libraries.AGENTS).iterdir()
    (root,) = (world.cache / libraries.ROOTS).iterdir()
    if damage == "agent":
        (agent / "agent").write_bytes(b"")
    elif damage == "record":
        (root / libraries.LIBRARY_RECORD).write_bytes(b"[")
    else:
        (root / "lib/x86_64-linux-musl/libc.so").unlink()
    downloads = len(world.asked("download"))
    made = images.image(BOARD, library="musl")
    assert b"the library" in made.initramfs.read_bytes()
    if damage == "agent":
        assert (len(musl), len(world.asked("download"))) == (2, downloads)
    else:
        assert (len(musl), len(world.asked("download"))) == (1, downloads + 3)


@pytest.mark.slow
def test_a_library_is_fetched_after_a_kernel(world: World, musl: list[Path]) -> None:
    """Both use apt, which has one set of lists in the cache."""
    images.image(BOARD)
    asked, said = len(world.asked("")), list[str]()
    with cache.locked(world.cache, ("kernels",), said.append):
        words = {"library": "musl", "say": said.append}
        waiting = threading.Thread(target=images.image, args=(BOARD,), kwargs=words)
        waiting.start()
        while not said:
            time.sleep(0.01)
        assert "waiting" in said[0]
        assert len(world.asked("")) == asked
    waiting.join(60)
    assert len(musl) == 1


@pytest.mark.slow
def test_libraries_are_pruned_with_their_agents(world: World, musl: list[Path]) -> None:
    images.image(BOARD, library="musl")
    records = [
        next((world.cache / name).iterdir()) / libraries.LIBRARY_RECORD
        for name in (libraries.ROOTS, libraries.AGENTS)
    ]
    assert pruned(14) == []
    long_ago(*records)
    assert len(pruned(14)) == 2
    assert not any(record.exists() for record in records)


@pytest.mark.slow
def test_a_source_without_the_library(world: World) -> None:
    with pytest.raises(TargetError, match=r"package sources have no musl \(amd64\)"):
        images.image(BOARD, library="musl")
    assert not list(world.cache.glob(f"{libraries.ROOTS}/*"))


def test_an_unknown_library_gets_the_nearest_one() -> None:
    with pytest.raises(UsageError) as error:
        LabTarget("x86_64-rt-6.1,libc=muls")
    assert "the lab has no C library 'muls'" in str(error.value)
    assert "musl" in error.value.remedy


@pytest.mark.slow
def test_a_second_time_asks_nobody_and_needs_no_network(world: World) -> None:
    first = images.image(BOARD)
    asked = len(world.asked(""))
    world.change(down=True)
    (world.place / "bin" / "apt-get").unlink()
    assert images.image(BOARD) == first
    assert len(world.asked("")) == asked


@pytest.mark.slow
def test_the_newest_of_which_all_is_there_is_taken(world: World) -> None:
    world.add_kernel("6.1.0-100-rt-amd64")
    world.add_kernel("6.1.0-101-rt-amd64", with_headers=False)
    assert images.image(BOARD).facts["kernel"] == "6.1.0-100-rt-amd64"


@pytest.mark.slow
def test_a_newer_one_comes_only_when_asked_for_and_once_a_day(world: World) -> None:
    assert images.image(BOARD).facts["kernel"] == RELEASE
    world.add_kernel("6.1.0-57-rt-amd64")
    assert images.image(BOARD).facts["kernel"] == RELEASE
    assert images.image(BOARD, newest=True).facts["kernel"] == RELEASE
    assert len(world.asked("update")) == 1
    old = time.time() - 25 * 3600
    os.utime(world.cache / "apt" / "lists-made", (old, old))
    assert images.image(BOARD, newest=True).facts["kernel"] == "6.1.0-57-rt-amd64"
    assert len(world.asked("update")) == 2
    assert images.image(BOARD).facts["kernel"] == "6.1.0-57-rt-amd64"


@pytest.mark.slow
def test_newest_without_a_network_is_what_there_is(world: World) -> None:
    images.image(BOARD)
    old = time.time() - 25 * 3600
    os.utime(world.cache / "apt" / "lists-made", (old, old))
    world.change(down=True)
    assert images.image(BOARD, newest=True).facts["kernel"] == RELEASE


@pytest.mark.slow
def test_lists_that_name_what_is_gone_are_fetched_again(world: World) -> None:
    images.image(BOARD)
    cache.remove(world.cache / "kernels")
    gone = world.place / f"linux-image-{RELEASE}.deb"
    data = gone.read_bytes()
    gone.unlink()
    with pytest.raises(TargetError, match="could not be fetched"):
        images.image(BOARD)
    assert len(world.asked("update")) == 2
    gone.write_bytes(data)
    images.image(BOARD)


def test_without_a_network_and_a_cache(world: World) -> None:
    world.change(down=True)
    with pytest.raises(TargetError) as caught:
        images.image(BOARD)
    assert "no route to the sources" in caught.value.message
    assert "connection" in caught.value.remedy


def test_without_apt(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(world.place / "nothing"))
    with pytest.raises(TargetError, match="has no apt-get"):
        images.image(BOARD)


def test_without_such_a_kernel(world: World) -> None:
    with pytest.raises(TargetError) as caught:
        images.image(board("x86_64-rt-6.12"))
    assert "no complete Linux 6.12" in caught.value.message
    assert packages.SOURCES_VARIABLE in caught.value.remedy


@pytest.mark.slow
def test_sources_that_are_not_reached_are_no_sources_without_it(world: World) -> None:
    said = "W: Failed to fetch http://mirror/InRelease  Could not resolve 'mirror'"
    world.change(complains={"update": [said, 0]}, packages={})
    with pytest.raises(TargetError) as caught:
        images.image(BOARD)
    assert "Failed to fetch http://mirror/InRelease" in caught.value.message
    assert "connection" in caught.value.remedy
    world.add_kernel(RELEASE)
    world.add("linux-kbuild-6.1", {"usr/lib/linux-kbuild-6.1/scripts/x": b"#!/bin/sh\n"})
    world.add("busybox-static", {"bin/busybox": BUSYBOX})
    # one source of several does not matter where the others have it all
    assert images.image(BOARD).facts["kernel"] == RELEASE
    world.change(complains={})
    images.image(board("x86_64-rt-6.1"), newest=True)
    assert len(world.asked("update")) == 3, "lists that did not come are asked for again"


@pytest.mark.parametrize("verb", ["update", "download"])
def test_a_disk_that_apt_finds_full(world: World, verb: str) -> None:
    said = "E: Write error - write (28: No space left on device)"
    world.change(complains={verb: [said, 100]})
    with pytest.raises(TargetError, match="cache is full") as caught:
        images.image(BOARD)
    assert "make room" in caught.value.remedy


def test_a_name_that_make_would_split_is_refused_before_anything_is_fetched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(world.place / "a cache"))
    with pytest.raises(TargetError, match="a cache"):
        images.image(BOARD)
    assert world.asked("") == []


@pytest.mark.slow
def test_a_damaged_download_is_refused_and_not_kept(world: World) -> None:
    world.change(damaged="linux-kbuild-6.1")
    with pytest.raises(TargetError, match=r"linux-kbuild-6\.1 6\.1\.192-2 could not be fetched"):
        images.image(BOARD)
    held = [path.name for path in (world.cache / "packages").iterdir()]
    assert not any(name.startswith("linux-kbuild") for name in held)
    # those that came are not fetched again
    before = len(world.asked("download linux-image"))
    world.change(damaged="")
    images.image(BOARD)
    assert len(world.asked("download linux-image")) == before


def test_a_full_disk_is_told_before_anything_is_fetched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil._ntuple_diskusage(10, 10, 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(TargetError) as caught:
        images.image(BOARD)
    assert "too little space" in caught.value.message
    assert cache.CACHE_VARIABLE in caught.value.remedy
    assert not world.asked("download")


def test_a_disk_that_fills_up_meanwhile(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="is full"), cache.explained(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")


def pruned(days: float) -> list[str]:
    return [one.path for one in prune.prune(days)]


def long_ago(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (1e9, 1e9))


@pytest.mark.slow
def test_what_a_newer_kernel_has_replaced_goes_once_nobody_has_used_it(world: World) -> None:
    first = images.image(BOARD)
    (old,) = (world.cache / "kernels").iterdir()
    world.add_kernel("6.1.0-57-rt-amd64")
    long_ago(world.cache / "apt" / "lists-made")
    second = images.image(BOARD, newest=True)
    assert pruned(1) == []
    long_ago(old / "kernel.json", first.initramfs.parent / "image.json")
    kept = {path for path in world.cache.rglob("*") if path.is_file()}
    assert pruned(1) == [
        f"kernels/{old.name}", f"images/{first.initramfs.parent.name}"
    ]  # fmt: skip
    assert pruned(0) == [f"images/{second.initramfs.parent.name}"], "the board's kernel stays"
    gone = {path for path in kept if not path.exists()}
    assert gone == {
        path for path in kept if path.is_relative_to(old) or path.parts[-3] == "images"
        or path.parts[-2] in (first.initramfs.parent.name, second.initramfs.parent.name)
    }  # fmt: skip
    asked = len(world.asked(""))
    assert images.image(BOARD) == second, "rebuilt"
    assert len(world.asked("")) == asked


@pytest.mark.slow
def test_what_is_used_is_not_pruned(world: World) -> None:
    made = images.image(BOARD)
    long_ago(made.initramfs.parent / "image.json")
    images.image(BOARD)
    assert pruned(1) == []
    assert images.image(BOARD) == made


@pytest.mark.slow
def test_nothing_is_pruned_that_the_lab_has_not_made(world: World, tmp_path: Path) -> None:
    images.image(BOARD)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kernel.json").write_text('{"version": 1}')
    ours = [world.cache / name for name in ("kernels", "images", "modules")]
    strangers = []
    for folder in ours:
        folder.mkdir(exist_ok=True)
        (folder / "mine").mkdir()
        (folder / "mine" / "notes.txt").write_text("mine")
        (folder / "link").symlink_to(elsewhere)
        (folder / ("f" * 32)).symlink_to(elsewhere)
        strangers += [folder / "mine" / "notes.txt", folder / "link", folder / ("f" * 32)]
    (world.cache / "modules" / "my.log").write_text("mine")
    strangers += [world.cache / "modules" / "my.log", elsewhere / "kernel.json"]
    own = [ours[2] / ("0" * 32), ours[2] / f"{'0' * 16}.log", world.cache / "packages" / "x_1.deb"]
    own[0].mkdir()
    for path in own[1:]:
        path.write_text("x")
    for path in (*strangers, *own):
        os.utime(path, (1e9, 1e9), follow_symlinks=False)
    assert pruned(1) == ["packages/x_1.deb", f"modules/{'0' * 32}", f"modules/{'0' * 16}.log"]
    assert all(path.is_symlink() or path.exists() for path in strangers)


@pytest.mark.slow
def test_pruning_waits_for_who_prepares_a_board(world: World) -> None:
    images.image(BOARD)
    said: list[str] = []
    with cache.locked(world.cache, ("images", "modules"), said.append):
        waiting = threading.Thread(target=prune.prune, args=(0,), kwargs={"say": said.append})
        waiting.start()
        while not said:
            time.sleep(0.01)
        assert list((world.cache / "images").iterdir())
    waiting.join(60)
    assert "waiting" in said[0]
    assert not list((world.cache / "images").iterdir())


@pytest.mark.slow
def test_lab_prune_says_what_it_removed(world: World, rtgauge: Run) -> None:
    made = images.image(BOARD)
    name = f"images/{made.initramfs.parent.name}"
    assert "Nothing" in rtgauge("lab", "prune").out
    told = rtgauge("lab", "prune", "--days", "0")
    assert (told.code, name in told.out, "MB freed" in told.out) == (0, True, True)
    assert rtgauge("lab", "prune", "--days", "0", "--json").json()["removed"] == []


@pytest.mark.slow
def test_lab_list_fetches_newer_kernels_of_the_boards_that_there_are(
    world: World, rtgauge: Run
) -> None:
    images.image(BOARD)
    world.add_kernel("6.1.0-57-rt-amd64")
    long_ago(world.cache / "apt" / "lists-made")
    assert RELEASE in rtgauge("lab", "list").out
    listed = rtgauge("lab", "list", "--newest")
    assert listed.code == 0, listed.err
    assert "6.1.0-57-rt-amd64" in listed.out
    assert listed.out.count("not fetched yet") == len(BOARDS) - 1
    assert max(map(len, listed.out.splitlines())) <= 80


@pytest.mark.slow
@pytest.mark.parametrize("cached", [True, False])
def test_the_busybox_of_users_boards_is_taken_once(world: World, cached: bool) -> None:
    if cached:
        images.image(BOARD)
    machine = MACHINES["x86_64"]
    folder = cache.cache_folder()
    path, version = own.busybox(folder, machine, world.said.append)
    assert (path.read_bytes(), version) == (BUSYBOX, "6.1.192-2")
    assert not list((world.cache / "packages").glob("*.deb"))
    asked = len(world.asked("download"))
    assert own.busybox(folder, machine, world.said.append) == (path, version)
    assert len(world.asked("download")) == asked
    record = path.parent / kernels.KERNEL_RECORD
    record.write_bytes(b"damaged")
    assert own.busybox(folder, machine, world.said.append) == (path, version)


@pytest.mark.slow
def test_a_damaged_kernel_is_fetched_anew(world: World) -> None:
    made = images.image(BOARD, say=world.said.append)
    made.kernel.write_bytes(b"\0" + made.kernel.read_bytes()[1:])
    again = images.image(BOARD, say=world.said.append)
    assert again == made
    assert again.kernel.read_bytes().startswith(b"\x7fELF")
    assert any("damaged" in text for text in world.said)


@pytest.mark.slow
def test_a_damaged_archive_is_made_anew(world: World) -> None:
    made = images.image(BOARD)
    before = made.initramfs.read_bytes()
    made.initramfs.write_bytes(before[:-4] + b"\0\0\0!")
    assert images.image(BOARD).initramfs.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"version": 1}', b"[" * 9999]
)
def test_damaged_records_are_as_if_there_were_none(world: World, damage: bytes) -> None:
    made = images.image(BOARD)
    for record in (*world.cache.glob("*/*.json"), *world.cache.glob("*/*/*.json")):
        record.write_bytes(damage)
    assert images.image(BOARD).facts == made.facts


@pytest.mark.slow
def test_a_record_cannot_lead_out_of_the_cache(world: World) -> None:
    images.image(BOARD)
    record = {"version": 1, "kernel": "../../../etc"}
    (world.cache / "boards" / f"{BOARD.name}.json").write_text(json.dumps(record))
    assert kernels.known_kernel(BOARD) is None


@pytest.mark.slow
def test_leftovers_of_a_killed_process_are_removed(world: World) -> None:
    left = world.cache / "kernels" / f"{RELEASE}_6.1.192-2.unfinished"
    left.mkdir(parents=True)
    (left / "half").write_text("half")
    images.image(BOARD)
    assert not list(world.cache.rglob("*.unfinished"))


@pytest.mark.slow
def test_a_package_cannot_write_outside_the_cache(world: World) -> None:
    world.add("busybox-static", {"bin/busybox": BUSYBOX, "bin/../../../out": b"hostile"})
    images.image(BOARD)
    assert not list(world.place.rglob("out"))
    hostile = f"usr/src/linux-headers-{RELEASE}/../../../../../out"
    world.add("linux-kbuild-6.1", {hostile: b"hostile"})
    cache.remove(world.cache)
    with pytest.raises(TargetError, match="unsafe name"):
        images.image(BOARD)
    assert not list(world.place.rglob("out"))


@pytest.mark.parametrize(
    ("links", "name"),
    [
        ({"lib/a": "../../out"}, "lib/a/file"),
        ({"lib/a": "../../out/file"}, "lib/a"),
        ({"lib/a": "b/../../out", "lib/b": "."}, "lib/a/file"),
        ({"lib/c": "../lib/d", "lib/d": "../../out"}, "lib/c/file"),
    ],
)
def test_a_package_cannot_write_through_its_links(
    tmp_path: Path, links: dict[str, str], name: str
) -> None:
    out, root = tmp_path / "out", tmp_path / "root"
    out.mkdir()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for place, target in {**links, "usr/src/scripts": "../lib/scripts"}.items():
            entry = tarfile.TarInfo(place)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    packed.seek(0)
    with (
        tarfile.open(fileobj=packed, mode="r|") as archive,
        contextlib.suppress(OSError),
    ):
        for member in archive:
            kernels._extract(archive, member, member.name, root)
    assert not list(out.iterdir())
    assert (root / "usr/src/scripts").readlink() == Path("../lib/scripts")


@pytest.mark.parametrize(("many", "first"), [(2, "00-m0"), (100, "00-m0"), (101, "000-m0")])
def test_modules_are_loaded_in_their_order(many: int, first: str) -> None:
    """The guest program loads them in the order of their names."""
    named = initramfs.numbered([(f"m{number}", b"") for number in range(many)])
    assert list(named) == sorted(named) and first in named


def test_of_two_at_once_one_waits(tmp_path: Path) -> None:
    said: list[str] = []
    order: list[str] = []
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with cache.locked(tmp_path, ["kernels"], said.append):
            inside.set()
            leave.wait(60)
            order.append("first")

    def second() -> None:
        def say(text: str) -> None:
            said.append(text)
            leave.set()

        with cache.locked(tmp_path, ["kernels"], say):
            order.append("second")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert inside.wait(60)
    # another folder's lock is free at that time
    with cache.locked(tmp_path, ["images"], said.append):
        assert said == []
    threads[1].start()
    for thread in threads:
        thread.join(60)
    assert order == ["first", "second"]
    assert said == ["waiting for another process that prepares boards of the lab"]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "place"
    with pytest.raises(RuntimeError), cache.new_folder(place / "a") as making:
        (making / "x").write_text("x")
        raise RuntimeError
    with pytest.raises(RuntimeError), cache.new_file(place / "b") as making:
        making.write_text("x")
        raise RuntimeError
    assert list(place.iterdir()) == []


# --- Kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"MZ" + b"\0" * 2000,
        x86_image(packed_by_xz(b"no program")),
        x86_image(b"\xfd7zXZ\0 damaged" + b"\0" * 20),
        x86_image(b"unknown packing"),
        x86_image(packed_by_xz(VMLINUX)[:50]),
        gzip.compress(VMLINUX, mtime=0),
        b"",
    ],
)
def test_a_kernel_that_is_not_understood_stays_as_it_is(tmp_path: Path, data: bytes) -> None:
    packed = tmp_path / "vmlinuz"
    packed.write_bytes(data)
    assert kernels.bootable(packed, tmp_path / "kernel").read_bytes() == data


def test_a_kernel_packed_by_zstd(tmp_path: Path) -> None:
    payload = bytes(pyarrow.compress(VMLINUX, codec="zstd", asbytes=True))
    packed = tmp_path / "vmlinuz"
    packed.write_bytes(x86_image(payload + struct.pack("<I", len(VMLINUX))))
    assert kernels.bootable(packed, tmp_path / "kernel").read_bytes() == VMLINUX


# --- Modules ------------------------------------------------------------------------------------


def unpacked_at(folder: Path) -> kernels.Unpacked:
    headers = folder / "usr" / "src" / "linux-headers-x"
    headers.mkdir(parents=True)
    (headers / ".kernelvariables").write_text("CC = $(CROSS_COMPILE)gcc-12\n")
    return kernels.Unpacked(folder, "x", folder / "k", "", headers, folder / "b", (), {})


# Stands for the kernel's build: copies the source, as often as there is one.
MAKEFILE = """modules:
	test "$(CROSS_COMPILE)" = "TRIPLET"
	cp $(M)/main.c $(M)/rtgauge.ko
"""


def test_modules_are_built_once_for_what_they_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    place = tmp_path / "bin"
    place.mkdir()
    tools = {"gcc-12": "echo version 12 >&2", "strip": 'cp "$4" "$3"'}
    for name, text in tools.items():
        for machine in MACHINES.values():
            tool = place / f"{machine.triplet}{name}"
            tool.write_text(f"#!/bin/sh\n{text}\n")
            tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    machine = MACHINES["arm64"]
    unpacked = unpacked_at(tmp_path / "kernel")
    makefile = unpacked.headers / "Makefile"
    makefile.write_text(MAKEFILE.replace("TRIPLET", machine.triplet))
    said: list[str] = []
    recipe = modules.Recipe(machine, unpacked, {"main.c": b"int x;", "Kbuild": b""})
    folder = recipe.build(tmp_path / "cache", said.append)
    assert (folder / "rtgauge.ko").read_bytes() == b"int x;"
    assert not (folder / "build").exists()
    again = modules.Recipe(machine, unpacked, {"main.c": b"int x;", "Kbuild": b""})
    assert again.build(tmp_path / "cache", said.append) == folder
    assert len(said) == 1
    other = modules.Recipe(machine, unpacked, {"main.c": b"int y;", "Kbuild": b""})
    assert other.digest != recipe.digest
    assert modules.Recipe(MACHINES["x86_64"], unpacked, recipe.sources).digest != recipe.digest
    makefile.write_text("modules:\n\t@echo 'main.c:1: error: no such thing'; false\n")
    with pytest.raises(TargetError) as caught:
        other.build(tmp_path / "cache", said.append)
    assert "main.c:1: error: no such thing" in caught.value.message
    assert Path(caught.value.remedy.rpartition(" ")[2]).is_file()


def test_a_missing_compiler_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, package in (("x86_64", "gcc-12"), ("arm64", "gcc-12-aarch64-linux-gnu")):
        with pytest.raises(TargetError) as caught:
            modules.Recipe(MACHINES[name], unpacked_at(tmp_path / name), {"Kbuild": b""})
        assert caught.value.remedy == f"install it: sudo apt-get install {package}"


def test_the_sources_of_the_modules_are_found() -> None:
    found = modules.module_sources()
    assert {"Kbuild", "main.c", "rtgauge.h", "disturb.c"} <= set(found)
    assert not any("/" in name or name.endswith((".o", ".mod.c")) for name in found)


# --- Programs -----------------------------------------------------------------------------------


def test_the_digest_of_the_programs_sources_tells_every_change(tmp_path: Path) -> None:
    (tmp_path / "agent" / "loads").mkdir(parents=True)
    source = tmp_path / "agent" / "loads" / "a.c"
    source.write_text("1")
    first = programs.sources_digest(tmp_path)
    source.write_text("2")
    second = programs.sources_digest(tmp_path)
    source.rename(source.with_name("b.c"))
    assert len({first, second, programs.sources_digest(tmp_path)}) == 3
