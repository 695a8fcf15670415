# SPDX-License-Identifier: Apache-2.0
"""Which agent is for which target, and the command that says where they are. Nothing is made."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from conftest import Run
from rtgauge.architectures import ARCHITECTURES, architecture, for_target
from rtgauge.errors import TargetError, UsageError
from rtgauge.lab import programs

VFP = 1 << 6
VFPV3 = 1 << 13
VFPV3_D16 = 1 << 14


def auxv(order: str = "<", word: str = "I", features: int = 0, page: int = 4096) -> bytes:
    """As a kernel writes it: the features of the processor come first, the end is zeros."""
    pairs = [(33, 0xFFFF0000), (16, features), (6, page), (17, 100), (25, 0x7EFFFF12), (0, 0)]
    return b"".join(struct.pack(f"{order}2{word}", *pair) for pair in pairs)


@pytest.mark.study(
    38,
    47,
    lacks="the boards themselves, their kernels, and contexts of the kernel before Linux 5.10",
)
@pytest.mark.study(
    46,
    lacks="the boards themselves, their kernels, and contexts of the kernel: no module for PowerPC",
)
@pytest.mark.parametrize(
    ("machine", "told", "name"),
    [
        ("x86_64", auxv("<", "Q"), "x86-64"),
        ("i686", auxv(), "i686"),
        ("armv5tel", auxv(), "armv5te"),
        ("armv5tejl", auxv(), "armv5te"),
        ("armv6l", auxv(features=VFP), "armv5te"),
        ("armv7l", auxv(features=VFP | VFPV3), "armv7hf"),
        ("armv7l", auxv(features=VFP | VFPV3_D16), "armv7hf"),
        ("armv7l", auxv(features=VFP), "armv5te"),
        ("armv7l", b"", "armv7hf"),
        ("armv8l", auxv(features=VFP | VFPV3), "armv7hf"),
        ("aarch64", auxv("<", "Q", page=65536), "arm64"),
        ("riscv64", auxv("<", "Q"), "riscv64"),
        ("ppc", auxv(">"), "powerpc"),
        ("ppc64", auxv(">", "Q", page=65536), "powerpc"),
        ("mips", auxv(">"), "mips"),
        ("mips64", auxv(">", "Q", page=16384), "mips"),
        ("mips", b"", "mips"),
        ("mips", b"no such file", "mips"),
    ],
)
def test_which_agent_a_target_gets(machine: str, told: bytes, name: str) -> None:
    assert for_target(machine, told).name == name


@pytest.mark.parametrize(
    ("machine", "told", "word"),
    [
        ("mips", auxv("<"), "little-endian"),
        ("mips64", auxv("<", "Q"), "little-endian"),
        ("armv7b", b"", "armv7b"),
        ("armv5teb", b"", "armv5teb"),
        ("aarch64_be", b"", "aarch64_be"),
        ("ppc64le", b"", "ppc64le"),
        ("armv4tl", b"", "armv4tl"),
        ("i586", b"", "i586"),
        ("riscv32", b"", "riscv32"),
        ("s390x", b"", "s390x"),
        ("", b"", "''"),
    ],
)
def test_which_targets_get_none(machine: str, told: bytes, word: str) -> None:
    with pytest.raises(TargetError, match=word) as caught:
        for_target(machine, told)
    assert all(name in caught.value.remedy for name in ARCHITECTURES)


def test_this_machine_is_understood() -> None:
    """What the kernel tells is as it is expected here."""
    machine = os.uname().machine
    if machine not in ("x86_64", "aarch64"):
        pytest.skip(f"not on {machine}")
    told = Path("/proc/self/auxv").read_bytes()
    assert for_target(machine, told).processor == machine


def test_names_and_aliases_are_each_of_one_architecture() -> None:
    said: dict[str, str] = {}
    for one in ARCHITECTURES.values():
        for word in {one.name, one.processor, *one.aliases}:
            assert said.setdefault(word, one.name) == one.name
            assert architecture(word.upper()) is one
    assert list(ARCHITECTURES) == [
        "x86-64", "i686", "armv5te", "armv7hf", "arm64", "riscv64", "powerpc", "mips",
    ]  # fmt: skip
    assert len({one.agent for one in ARCHITECTURES.values()}) == len(ARCHITECTURES)


def test_an_unknown_architecture_has_a_remedy() -> None:
    with pytest.raises(UsageError, match="'risc64'") as caught:
        architecture("risc64")
    assert "riscv64" in caught.value.remedy
    with pytest.raises(UsageError) as caught:
        architecture("z80")
    assert all(name in caught.value.remedy for name in ARCHITECTURES)


# --- the command ---


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with the agents for two architectures."""
    folder = tmp_path / "agents"
    folder.mkdir()
    for name in ("arm64", "armv5te"):
        (folder / ARCHITECTURES[name].agent).write_text(name)
    (folder / "rtgauge-guest-aarch64").write_text("guest")
    monkeypatch.setattr(programs, "_folder", lambda: folder)
    monkeypatch.setattr(programs, "_checkout", lambda: None)
    return folder


def test_the_path_of_one(installed: Path, rtgauge: Run) -> None:
    done = rtgauge("agent", "--arch", "armv5")
    assert (done.code, done.out) == (0, f"{installed}/rtgauge-agent-armv5te-musl\n")
    document = rtgauge("agent", "--arch", "aarch64", "--json").json()
    assert (document["format"], document["version"]) == ("rtgauge-agent", 1)
    assert document["arch"] == "arm64"
    assert document["path"] == f"{installed}/rtgauge-agent-aarch64-musl"
    assert document["byte_order"] == "little"


def test_the_list_of_all(installed: Path, rtgauge: Run) -> None:
    document = rtgauge("agent", "--json").json()
    assert (document["format"], document["version"]) == ("rtgauge-agents", 1)
    paths = {entry["arch"]: entry["path"] for entry in document["agents"]}
    assert list(paths) == list(ARCHITECTURES)
    assert {name for name, path in paths.items() if path} == {"arm64", "armv5te"}
    orders = {entry["arch"]: entry["byte_order"] for entry in document["agents"]}
    assert {name for name, order in orders.items() if order == "big"} == {"powerpc", "mips"}
    lines = rtgauge("agent").out.splitlines()
    assert [line.split()[0] for line in lines] == list(ARCHITECTURES)
    assert lines[4] == f"arm64     {installed}/rtgauge-agent-aarch64-musl"


@pytest.mark.usefixtures("installed")
def test_one_that_is_not_there(rtgauge: Run) -> None:
    done = rtgauge("agent", "--arch", "mips")
    assert done.code == 1
    assert "rtgauge-agent-mips-musl" in done.err
    assert "wheel" in done.err
    done = rtgauge("agent", "--arch", "mipz")
    assert done.code == 2
    assert "did you mean 'mips'?" in done.err
