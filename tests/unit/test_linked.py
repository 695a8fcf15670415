# SPDX-License-Identifier: Apache-2.0
"""An agent that is linked against a board's C library: heads of ELF files, and what names the
compiler. tests/cross/test_linked_agents.py links and starts some."""

from __future__ import annotations

import json
import os
import shlex
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from rtgauge.architectures import ARCHITECTURES
from rtgauge.cli.agent import _toolchain
from rtgauge.errors import TargetError, UsageError
from rtgauge.lab.linked import COMPILE, LINK, Elf, Toolchain, elf_of, of_sdk, of_sysroot, of_zig

LOADER = b"/lib/ld-own.so.1\0"


def elf(*, machine: int, wide: bool, big: bool, loader: bytes = LOADER) -> bytes:
    """A file with the head of a program and the name of its loader."""
    order = ">" if big else "<"
    ident = b"\x7fELF" + bytes([2 if wide else 1, 2 if big else 1, 1]) + bytes(9)
    head, entry = (64, 56) if wide else (52, 32)
    at = head + 2 * entry
    if wide:
        data = ident + struct.pack(
            order + "HHIQQQIHHHHHH", 3, machine, 1, 0, head, 0, 0, head, entry, 2, 0, 0, 0
        )
        data += struct.pack(order + "II6Q", 1, 0, 0, 0, 0, 0, 0, 0)
        data += struct.pack(order + "II6Q", 3, 0, at, 0, 0, len(loader), 0, 0)
    else:
        data = ident + struct.pack(
            order + "HHIIIIIHHHHHH", 3, machine, 1, 0, head, 0, 0, head, entry, 2, 0, 0, 0
        )
        data += struct.pack(order + "8I", 1, 0, 0, 0, 0, 0, 0, 0)
        data += struct.pack(order + "8I", 3, at, 0, 0, len(loader), 0, 0, 0)
    return data + loader


def test_the_remedy_is_one_of_the_way_that_was_chosen(tmp_path: Path) -> None:
    """Only --sysroot permits --cc."""
    chain = Toolchain((str(tmp_path / "gcc"),))
    for remedy in (chain.remedy, "install the compiler again"):
        with pytest.raises(TargetError, match="cannot be started") as caught:
            replace(chain, remedy=remedy).ask("-dumpmachine")
        assert caught.value.remedy == remedy
    assert "--cc" in chain.remedy
    script = tmp_path / "environment-setup"
    script.write_text("export CC=gcc\n")
    assert "--cc" not in of_sdk(script).remedy


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("big", [False, True])
def test_the_head_of_a_program(tmp_path: Path, wide: bool, big: bool) -> None:
    path = tmp_path / "program"
    path.write_bytes(elf(machine=20, wide=wide, big=big))
    assert elf_of(path) == Elf(20, 64 if wide else 32, big, "/lib/ld-own.so.1")


@pytest.mark.parametrize("length", [0, 3, 40, 51, 60, 100, 130])
def test_a_damaged_head_names_no_loader(tmp_path: Path, length: int) -> None:
    path = tmp_path / "program"
    path.write_bytes(elf(machine=62, wide=True, big=False)[:length])
    found = elf_of(path)
    assert found is None or found.loader == ""
    path.write_text("#!/bin/sh\n" + "x" * 100, encoding="utf-8")
    assert elf_of(path) is None


@pytest.mark.parametrize("start", [1 << 63, (1 << 64) - 1, (1 << 63) - 1])
def test_a_head_with_offsets_that_no_file_has(tmp_path: Path, start: int) -> None:
    path = tmp_path / "program"
    whole = bytearray(elf(machine=62, wide=True, big=False))
    struct.pack_into("<Q", whole, 32, start)  # where the segments begin
    path.write_bytes(whole)
    found = elf_of(path)
    assert found is None or found.loader == ""
    whole = bytearray(elf(machine=62, wide=True, big=False))
    struct.pack_into("<Q", whole, 64 + 56 + 8, start)  # where the loader's name begins
    path.write_bytes(whole)
    found = elf_of(path)
    assert found is None or found.loader == ""
    with pytest.raises(OSError, match="No such file"):
        elf_of(tmp_path / "missing")


def test_a_pipe_in_place_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    os.mkfifo(tmp_path / "lib/libc.so.6")
    assert elf_of(tmp_path / "lib/libc.so.6") is None
    with pytest.raises(UsageError, match="no C library below"):
        of_sysroot(tmp_path, ["cc"])


def test_quotes_that_do_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "environment-setup"
    script.write_text("export CC=cc CFLAGS='-DNAME=\"x'\n", encoding="utf-8")
    with pytest.raises(TargetError, match="cannot be split into words: No closing") as raised:
        of_sdk(script)
    assert "CFLAGS" in raised.value.remedy
    with pytest.raises(UsageError, match="--cc cannot be split into words"):
        _toolchain(None, None, None, tmp_path, "cc '-O2")
    monkeypatch.setenv("CC", 'cc "')
    with pytest.raises(UsageError, match=r"^CC cannot be split into words"):
        _toolchain(None, None, None, tmp_path, None)


@pytest.mark.parametrize(
    ("machine", "names", "others"),
    [
        (183, ["aarch64", "aarch64-linux-gnu"], ["armv7l", "arm-linux-gnueabihf", "x86_64"]),
        (40, ["armv5tejl", "armv7l", "arm-none-linux"], ["aarch64", "riscv64"]),
        (62, ["x86_64", "x86_64-linux-gnu"], ["i686", "aarch64"]),
        (3, ["i686", "i386", "x86-linux-gnu"], ["x86_64"]),
        (20, ["ppc", "powerpc-linux-gnu"], ["ppc64", "powerpc64le-linux-gnu"]),
        (8, ["mips", "mipsel-linux-gnu"], ["ppc", ""]),
    ],
)
def test_the_machine_of_a_program(machine: int, names: list[str], others: list[str]) -> None:
    program = Elf(machine, 32, False, "")
    assert all(program.runs_on(name) for name in names)
    assert not any(program.runs_on(name) for name in others)


def test_it_is_compiled_as_the_agent_of_this_machine() -> None:
    commands = Path(__file__).resolve().parents[2] / "build/native/compile_commands.json"
    entries = json.loads(commands.read_text(encoding="utf-8"))
    (words,) = (
        shlex.split(entry["command"]) for entry in entries if entry["file"].endswith("agent/main.c")
    )
    assert set(COMPILE) <= set(words)
    left = {word for word in words if word.startswith(("-D", "-U", "-f", "-std", "-O", "-p"))}
    left -= {*COMPILE, "-fdiagnostics-color=always", "-fPIC"}
    assert all(word.startswith("-DRTGAUGE_VERSION=") for word in left), left
    assert {"-pie", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"} <= set(LINK)


def test_the_compiler_of_an_sdk(tmp_path: Path) -> None:
    script = tmp_path / "environment-setup"
    script.write_text(
        "echo words of the SDK\n"
        'export CC="board-gcc --sysroot=/opt/board -mcpu=x" CFLAGS="-O1 -g" LDFLAGS="-Wl,-O1"\n'
        'export PATH="/opt/board/bin:$PATH"\n',
        encoding="utf-8",
    )
    chain = of_sdk(script)
    assert chain.compiler == ("board-gcc", "--sysroot=/opt/board", "-mcpu=x")
    assert (chain.compile, chain.link) == (("-O1", "-g"), ("-Wl,-O1",))
    assert chain.environment["PATH"].startswith("/opt/board/bin:")


@pytest.mark.parametrize("text", ["", "exit 3", "CC=", "echo 'no such board' >&2; false"])
def test_an_sdk_without_a_compiler(tmp_path: Path, text: str) -> None:
    script = tmp_path / "environment-setup"
    script.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(TargetError, match="does not set a compiler"):
        of_sdk(script)
    with pytest.raises(UsageError, match="no file"):
        of_sdk(tmp_path / "missing")


def compiler(tmp_path: Path, triplet: str) -> str:
    """A program that answers as a compiler for that machine."""
    path = tmp_path / "cc"
    path.write_text(f"#!/bin/sh\necho {triplet}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_a_sysroot_of_another_architecture(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "usr/lib/arm-linux-gnueabi").mkdir(parents=True)
    with pytest.raises(UsageError, match="no C library below"):
        of_sysroot(root, ["cc"])
    # a link of the board's, absolute there
    (root / "usr/lib/libc-own.so").write_bytes(elf(machine=40, wide=False, big=False))
    (root / "usr/lib/arm-linux-gnueabi/libc.so.6").symlink_to("/usr/lib/libc-own.so")
    with pytest.raises(UsageError, match=r"is for arm, but .* compiles for x86_64-linux-gnu"):
        of_sysroot(root, [compiler(tmp_path, "x86_64-linux-gnu")])
    chain = of_sysroot(root, [compiler(tmp_path, "arm-linux-gnueabi")])
    assert chain.compiler[1] == f"--sysroot={root}"
    with pytest.raises(TargetError, match="cannot be started"):
        of_sysroot(root, [str(tmp_path / "missing")])


def test_what_zig_can_link_against() -> None:
    arm64 = ARCHITECTURES["arm64"]
    assert "aarch64-linux-gnu.2.28" in of_zig(arm64, "glibc:2.28").compiler
    assert "aarch64-linux-gnu" in of_zig(arm64, "glibc").compiler
    assert "aarch64-linux-musl" in of_zig(arm64, "musl").compiler
    assert "arm-linux-gnueabihf.2.34" in of_zig(ARCHITECTURES["armv7hf"], "glibc").compiler
    assert of_zig(arm64, "musl").name == "zig"
    assert "-O2" in of_zig(arm64, "musl").link
    for library in ("uclibc", "musl:1.2", ""):
        with pytest.raises(UsageError, match="zig cannot link against"):
            of_zig(arm64, library)
    with pytest.raises(UsageError, match="zig cannot link against glibc for powerpc"):
        of_zig(ARCHITECTURES["powerpc"], "glibc")


def test_without_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(TargetError, match="needs the compiler zig"):
        of_zig(ARCHITECTURES["arm64"], "glibc")
