# SPDX-License-Identifier: Apache-2.0
"""Reading the facts that an agent collected (docs/formats/environment.md).

Facts come from a target, and a target may be anything: every reader here gives ``None`` for what is
missing or not as expected, never an error, and its work is bounded whatever the facts hold.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from rtgauge.units import CPU_MAX, read_cpus, read_integer

__all__ = [
    "CLOCK",
    "CPU",
    "Fact",
    "Facts",
    "one_line",
]

Fact: TypeAlias = str | int | bytes | None

CPU = "/sys/devices/system/cpu/"
CLOCK = "/sys/devices/system/clocksource/clocksource0/"
_CONFIG_MAX = 2 << 20  # a whole configuration is about 300 kB
_OPTION = re.compile(r"CONFIG_(\w{1,100})=([^\n]*)")
_WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')


def one_line(value: str, limit: int = 160) -> str:
    """The text without line ends and control characters, cut at ``limit`` characters."""
    text = " ".join("".join(c if c.isprintable() else " " for c in value[: 8 * limit]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """The text with a mark in place of whatever a terminal would obey, line ends excepted: what
    comes from a target, or from someone else's store, may mean harm."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs") and c != "\n" else c
        for c in text.replace("\t", " ")
    )


class Facts:
    """The facts of one target, by type."""

    def __init__(self, facts: Mapping[str, Fact]) -> None:
        self._facts = {name: value for name, value in facts.items() if isinstance(name, str)}
        self._config: dict[str, str] | None = None
        self._config_read = False

    def __contains__(self, name: str) -> bool:
        return name in self._facts

    def text(self, name: str) -> str | None:
        value = self._facts.get(name)
        if isinstance(value, str):
            return value.strip()
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace").strip()
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64:
            return str(value)
        return None

    def integer(self, name: str) -> int | None:
        return read_integer(self.text(name))

    def cpus(self, name: str) -> frozenset[int] | None:
        text = self.text(name)
        return None if text is None else read_cpus(text)

    def absent(self, name: str) -> bool:
        """Whether the target is known not to have this file (rather than not to show it)."""
        return (
            name in self._facts and self._facts[name] is None and f"{name}.error" not in self._facts
        )

    def error(self, name: str) -> str:
        """Why a file that is there could not be read; empty if that is not known."""
        return self.text(f"{name}.error") or ""

    def names(self, pattern: str) -> list[str]:
        """Names of the facts that match a pattern with one ``*``, without their ``.error``."""
        before, _, after = pattern.partition("*")
        size = len(before) + len(after)
        return [
            name
            for name in self._facts
            if name.startswith(before)
            and name.endswith(after)
            and len(name) >= size
            and "*" not in name
            and not name.endswith((".error", ".cut"))
        ]

    def per_cpu(self, pattern: str) -> dict[int, str]:
        """Content of a file of each CPU, by CPU; ``#`` in the pattern is the CPU's number.

        CPUs whose file could not be read are not in it. One fact can hold for several CPUs:
        ``cpu{0-3,8}``.
        """
        values: dict[int, str] = {}
        for name, cpus in self._cpu_names(pattern):
            text = self.text(name)
            if text is not None:
                values.update(dict.fromkeys(cpus, text))
        return values

    def per_cpu_absent(self, pattern: str) -> bool:
        """Whether no CPU is known to have such a file, and it was looked for."""
        names = [name for name, _ in self._cpu_names(pattern)]
        return bool(names) and all(self.absent(name) for name in names)

    def per_cpu_error(self, pattern: str) -> str:
        """Why some CPU's file could not be read; empty if that is not known."""
        return next(filter(None, (self.error(n) for n, _ in self._cpu_names(pattern))), "")

    def _cpu_names(self, pattern: str) -> list[tuple[str, frozenset[int]]]:
        before, _, after = pattern.partition("#")
        found: list[tuple[str, frozenset[int]]] = []
        room = 2 * CPU_MAX
        for name in self._facts:
            if not (name.startswith(before) and name.endswith(after)):
                continue
            middle = name[len(before) : len(name) - len(after)]
            if middle.startswith("{") and middle.endswith("}"):
                middle = middle[1:-1]
            elif not middle.isdecimal():
                continue
            cpus = read_cpus(middle)
            room -= len(cpus or ())
            if room < 0:  # each CPU has a file once
                break
            if cpus:
                found.append((name, cpus))
        return found

    def lines(self, name: str, separator: str = ":") -> dict[str, str]:
        """A text of lines ``key: value`` (the first of each key counts)."""
        values: dict[str, str] = {}
        for line in (self.text(name) or "").splitlines():
            key, found, value = line.partition(separator)
            if found:
                values.setdefault(key.strip(), value.strip())
        return values

    # --- the kernel ----------------------------------------------------------------------------

    @property
    def release(self) -> tuple[int, int] | None:
        """The first two numbers of the kernel's release."""
        match = re.match(r"(\d{1,4})\.(\d{1,4})", self.text("uname.release") or "")
        return None if match is None else (int(match[1]), int(match[2]))

    @property
    def version(self) -> str | None:
        """``uname -v``, or where that is missing the text of /proc/version, which contains it."""
        return self.text("uname.version") or self.text("/proc/version") or None

    @property
    def machine(self) -> str:
        return self.text("uname.machine") or ""

    @property
    def is_x86(self) -> bool:
        return self.machine == "x86_64" or re.fullmatch(r"i[3-6]86", self.machine) is not None

    def parameters(self, name: str) -> list[str] | None:
        """The values of a kernel parameter in their order; None if the command line is not known.

        What follows ``--`` is init's. A parameter without a value counts as ``""``.
        """
        line = self.text("/proc/cmdline")
        if line is None:
            return None
        values: list[str] = []
        for word in _WORD.findall(line):
            if word == "--":
                break
            key, _, value = word.replace('"', "").partition("=")
            # the kernel takes - and _ in names for the same
            if key.replace("-", "_") == name.replace("-", "_"):
                values.append(value)
        return values

    def parameter(self, name: str) -> str | None:
        """The last value of a kernel parameter, None if it is not given or not known."""
        values = self.parameters(name)
        return values[-1] if values else None

    def cpu_list(self, name: str) -> str | None:
        """The value that counts of ``isolcpus`` or ``nohz_full``: kernel/sched/isolation.c (since
        4.15) refuses lists after the first. None if it is not given or not known."""
        values = self.parameters(name)
        if not values:
            return None
        return values[-1 if self.release is not None and self.release < (4, 15) else 0]

    def config(self, option: str) -> str | None:
        """An option of the kernel's configuration, ``n`` if it is off, None if not known."""
        if not self._config_read:
            self._config = self._read_config()
            self._config_read = True
        if self._config is None:
            return None
        return self._config.get(option, None if "" in self._config else "n")

    @property
    def options(self) -> Mapping[str, str] | None:
        """The options of the kernel's configuration that are on; None if not known in full."""
        if self.config("") is None or self._config is None or "" in self._config:
            return None
        return self._config

    def _read_config(self) -> dict[str, str] | None:
        """The options that are on; the key ``""`` stands for a part that is missing."""
        names: Sequence[str] = (
            "/proc/config.gz",
            *self.names("/boot/config-*"),
            *self.names("/lib/modules/*/config"),
        )
        for name in names:
            value = self._facts.get(name)
            whole = f"{name}.cut" not in self._facts
            if isinstance(value, bytes) and value[:2] == b"\x1f\x8b":
                text, unpacked = _unpack(value)
                whole = whole and unpacked
            else:
                text = self.text(name) or ""
            options = {match[1]: match[2].strip().strip('"') for match in _OPTION.finditer(text)}
            if options:
                return options if whole else options | {"": ""}
        return None


def _unpack(data: bytes) -> tuple[str, bool]:
    """The text of a gzip stream, never more than a limit, and whether that is all of it."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(data, _CONFIG_MAX)
    except zlib.error:
        return "", False
    return unpacked.decode("utf-8", "replace"), unpacker.eof
