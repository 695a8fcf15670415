# SPDX-License-Identifier: Apache-2.0
"""The notation of values: durations, sizes, rates, integers and lists of CPUs, read and printed.

``parse_*`` read what people and plans write. They raise ValueError with a text for the user.
``read_*`` read what the kernel writes. They return None for anything else, and their work is
bounded, because the text comes from a target. ``format_*`` print what ``parse_*`` read, exactly.
Text for people is made in ``rtgauge.text``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

__all__ = [
    "CPU_MAX",
    "INT64_MAX",
    "INTERRUPT_MAX",
    "format_cpus",
    "format_duration",
    "format_size",
    "parse_cpus",
    "parse_duration",
    "parse_integer",
    "parse_rate",
    "parse_size",
    "read_cpus",
    "read_integer",
    "read_interrupts",
    "read_mask",
]

CPU_MAX: Final = 4096
INTERRUPT_MAX: Final = 1 << 14
INT64_MAX: Final = 2**63 - 1

_DURATIONS: Final = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
_SIZES: Final = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def _number(text: str, units: Mapping[str, int], example: str) -> int:
    """A number with a unit as a multiple of the smallest unit. Raises ValueError."""
    match = re.fullmatch(r"([0-9]{1,19})(?:\.([0-9]{1,18}))?\s*([A-Za-zµ]*)", text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a number with a unit, such as {example}")
    whole, decimals, unit = match[1], match[2] or "", match[3].replace("µ", "u")
    if unit not in units:
        if not unit and not (whole + decimals).strip("0"):
            return 0
        known = ", ".join(name for name in units if name)
        problem = f"has the unknown unit '{unit}'" if unit else "has no unit"
        raise ValueError(f"'{text}' {problem}. Units: {known}")
    value = Fraction(int(whole + decimals), 10 ** len(decimals)) * units[unit]
    if value.denominator != 1:
        raise ValueError(f"'{text}' is finer than the smallest unit")
    if value > INT64_MAX:
        raise ValueError(f"'{text}' is too large")
    return int(value)


def parse_duration(text: str) -> int:
    """Nanoseconds of ``250us``, ``1.5ms``, ``10m``, ``3d``. A bare ``0`` needs no unit."""
    return _number(text, _DURATIONS, "250us, 1ms or 10m")


def format_duration(ns: int) -> str:
    """A duration >= 0 exactly, in the largest unit of which it is one or more: ``200us``,
    ``7.301ms``, ``90s``."""
    for unit, size in reversed(_DURATIONS.items()):
        whole, rest = divmod(ns, size)
        places = len(str(size)) - 1
        if not whole or (rest and 10**places != size):  # minutes may have an infinite fraction
            continue
        digits = "." + str(rest).rjust(places, "0").rstrip("0") if rest else ""
        return f"{whole}{digits}{unit}"
    return "0"


def parse_size(text: str) -> int:
    """Bytes of ``4096``, ``64KiB``, ``1.5GiB``."""
    return _number(text, _SIZES, "4096, 64KiB or 1GiB")


def format_size(size: int) -> str:
    """A number of bytes in the largest unit that holds it without a fraction."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _SIZES[unit] == 0:
            return f"{size // _SIZES[unit]}{unit}"
    return str(size)


def parse_integer(text: str) -> int:
    """A decimal integer of 64 bits."""
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text.strip()) is None:
        raise ValueError(f"'{text}' is not a whole number")
    value = int(text)
    if abs(value) > INT64_MAX:
        raise ValueError(f"'{text}' is too large")
    return value


def read_integer(text: str | None) -> int | None:
    """A decimal integer of 64 bits; None for anything else."""
    try:
        return None if text is None else parse_integer(text)
    except ValueError:
        return None


def parse_cpus(text: str, most: int = CPU_MAX) -> frozenset[int] | None:
    """The CPUs of ``0-3,8``, at most ``most``; None for ``all``."""
    if text.strip() == "all":
        return None
    cpus: set[int] = set()
    room = most  # bounds the work on a list that repeats CPUs
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,6})(?:-([0-9]{1,6}))?\s*", part)
        if match is None:
            raise ValueError(f"'{text}' is not a list of CPUs, such as 0-3,8 or all")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"'{text}' is not a list of CPUs: {first}-{last} runs backwards")
        if last >= most:
            raise ValueError(f"'{text}' names CPU {last}; the highest possible is {most - 1}")
        room -= last + 1 - first
        if room < 0:
            raise ValueError(f"'{text[:20]}…' names CPUs several times")
        cpus.update(range(first, last + 1))
    return frozenset(cpus)


def read_cpus(text: str) -> frozenset[int] | None:
    """The CPUs of a list as the kernel writes it, ``0-3,8``; empty for an empty list."""
    if text.strip() in ("", "(null)"):  # nohz_full of older kernels where it was not asked for
        return frozenset()
    try:
        return parse_cpus(text)
    except ValueError:
        return None


def read_interrupts(text: str) -> frozenset[int] | None:
    """The numbers of interrupts, which a run lists as CPUs are; None for anything else."""
    try:
        return parse_cpus(text, INTERRUPT_MAX)
    except ValueError:
        return None


def read_mask(text: str) -> frozenset[int] | None:
    """The CPUs of a mask as the kernel writes it: 32 bits a group, ``f,ffffffff``."""
    groups = text.strip().split(",")
    if len(groups) > CPU_MAX // 32 or not all(re.fullmatch(r"[0-9a-fA-F]{1,8}", g) for g in groups):
        return None
    mask = int("".join(group.zfill(8) for group in groups), 16)
    return frozenset(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)


def format_cpus(cpus: Iterable[int]) -> str:
    """The shortest list of these CPUs: ``0-3,8``."""
    items: list[str] = []
    ordered = sorted(set(cpus))
    start = 0
    for place, cpu in enumerate(ordered):
        if place + 1 == len(ordered) or ordered[place + 1] != cpu + 1:
            first = ordered[start]
            items.append(str(cpu) if first == cpu else f"{first}-{cpu}")
            start = place + 1
    return ",".join(items)


def parse_rate(text: str) -> float:
    """Events per hour of ``1/h``, ``0.5/day``, ``2/10m``. A bare ``0`` is never."""
    match = re.fullmatch(r"\s*([0-9]{1,19}(?:\.[0-9]{1,18})?)\s*(?:/\s*(\S+))?\s*", text)
    if match is None:
        raise ValueError(f"'{text}' is not a rate, such as 1/h or 2/d")
    count, per = Fraction(match[1]), match[2]
    if per is None:
        if count:
            raise ValueError(f"'{text}' has no time unit: write {match[1]}/h")
        return 0.0
    words = {"hour": "h", "day": "d", "minute": "m", "min": "m"}
    per = words.get(per, per)
    ns = parse_duration(per if per[0].isdigit() else "1" + per)
    if ns == 0:
        raise ValueError(f"'{text}' divides by zero")
    return float(count * 3600 * 10**9 / ns)
