# SPDX-License-Identifier: Apache-2.0
"""System calls of a program that this process answers: what the fakes of kernels share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["NEVER", "Call", "Dropped", "Later", "peek", "poke", "text"]

NEVER = 2**63


@dataclass
class Call:
    id: int
    tid: int
    number: int
    arguments: tuple[int, ...]


class Later(Exception):
    """The call is answered when ``due_ns`` has come, by asking again."""

    def __init__(self, due_ns: int, again: Callable[[], int]) -> None:
        super().__init__()
        self.due_ns = due_ns
        self.again = again


class Dropped(Exception):
    """The call gets no answer, as a signal has ended it."""


def peek(tid: int, at: int, size: int) -> bytes:
    with open(f"/proc/{tid}/mem", "rb", buffering=0) as memory:
        return os.pread(memory.fileno(), size, at)


def poke(tid: int, at: int, data: bytes) -> None:
    with open(f"/proc/{tid}/mem", "r+b", buffering=0) as memory:
        os.pwrite(memory.fileno(), data, at)


def text(tid: int, at: int) -> str:
    """A path; it may end at the end of what can be read."""
    data = b""
    while b"\0" not in data and len(data) < 4096:
        part = peek(tid, at + len(data), 256 - (at + len(data)) % 256)
        if not part:
            break
        data += part
    return data.split(b"\0")[0].decode(errors="replace")
