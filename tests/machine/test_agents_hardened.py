# SPDX-License-Identifier: Apache-2.0
"""The agent runs as root: what its file promises the kernel and the loader (elf(5))."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import pytest

from rtgauge.target.local import find_agent

AGENTS = sorted(Path(find_agent()).parent.glob("rtgauge-agent-*"))
SHARED = 3  # ET_DYN: position-independent
DYNAMIC, INTERPRETER = 2, 3
STACK, RELRO = 0x6474E551, 0x6474E552
EXECUTE, WRITE = 1, 2
FLAGS, FLAGS_1 = 30, 0x6FFFFFFB
BIND_NOW, NOW, PIE = 0x8, 0x1, 0x08000000
# mov %fs:0x28,%reg: the stack protector's word on x86-64
CANARIES = [bytes([0x64, rex, 0x8B, reg, 0x25, 0x28, 0, 0, 0])
            for rex in (0x48, 0x4C) for reg in range(4, 64, 8)]  # fmt: skip


@dataclass(frozen=True)
class Part:
    kind: int
    flags: int
    offset: int
    size: int


@dataclass(frozen=True)
class Elf:
    kind: int
    machine: int
    parts: list[Part]
    dynamic: dict[int, int]
    content: bytes

    def of(self, kind: int) -> list[Part]:
        return [part for part in self.parts if part.kind == kind]


def read_elf(path: Path) -> Elf:
    content = path.read_bytes()
    assert content[:4] == b"\x7fELF"
    wide, order = content[4] == 2, "<" if content[5] == 1 else ">"
    head = struct.unpack_from(order + ("16s2HI3QI6H" if wide else "16s2HI3II6H"), content)
    parts = []
    for number in range(head[10]):
        at = head[5] + number * head[9]
        fields = struct.unpack_from(order + ("2I6Q" if wide else "8I"), content, at)
        kind, flags, offset, size = (
            (fields[0], fields[1], fields[2], fields[5])
            if wide
            else (fields[0], fields[6], fields[1], fields[4])
        )
        parts.append(Part(kind, flags, offset, size))
    dynamic: dict[int, int] = {}
    for part in parts:
        if part.kind == DYNAMIC:
            entry = struct.Struct(order + ("2Q" if wide else "2I"))
            table = content[part.offset : part.offset + part.size]
            dynamic.update(entry.iter_unpack(table[: len(table) // entry.size * entry.size]))
    return Elf(head[1], head[2], parts, dynamic, content)


@pytest.fixture(name="elf", params=AGENTS, ids=lambda path: path.name)
def every_agent(request: pytest.FixtureRequest) -> Elf:
    return read_elf(request.param)


def test_there_is_an_agent_to_look_at() -> None:
    assert AGENTS


def test_its_addresses_are_random(elf: Elf) -> None:
    assert elf.kind == SHARED
    assert elf.dynamic[FLAGS_1] & PIE


def test_nothing_is_bound_later(elf: Elf) -> None:
    """So that the tables of addresses are read-only from the start of main()."""
    assert elf.of(RELRO)
    assert elf.dynamic.get(FLAGS, 0) & BIND_NOW
    assert elf.dynamic[FLAGS_1] & NOW


def test_no_memory_can_be_written_and_executed(elf: Elf) -> None:
    (stack,) = elf.of(STACK)
    assert not stack.flags & EXECUTE
    assert not [part for part in elf.parts if part.flags & WRITE and part.flags & EXECUTE]


@pytest.mark.parametrize(
    "path", [path for path in AGENTS if "x86_64" in path.name], ids=lambda path: path.name
)
def test_functions_with_arrays_check_their_stack(path: Path) -> None:
    """By the code itself: a static agent has no names."""
    content = read_elf(path).content
    assert sum(content.count(canary) for canary in CANARIES) > 100


@pytest.mark.parametrize(
    "path", [path for path in AGENTS if "glibc" in path.name], ids=lambda path: path.name
)
def test_lengths_are_checked_by_the_c_library(path: Path) -> None:
    """musl has no such functions."""
    assert b"__snprintf_chk\0" in read_elf(path).content


def test_a_static_agent_needs_no_loader() -> None:
    for path in AGENTS:
        if "musl" in path.name:
            assert not read_elf(path).of(INTERPRETER)
