# SPDX-License-Identifier: Apache-2.0
"""Sessions of sigrok (.sr): a zip archive of an INI file and raw samples, which Python's own
readers take."""

from __future__ import annotations

import configparser
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.capture.analogue import Floats, of_voltages
from rtgauge.capture.edges import logic_edges
from rtgauge.capture.recording import (
    HEAD,
    RATE_MAX,
    RATE_MIN,
    SAMPLE_LIMIT,
    Levels,
    Lines,
    Recording,
    one_line,
    refuse,
)

__all__ = ["parse_rate", "read_session"]

MEMBER_LIMIT: Final = 65_000
DIRECTORY_LIMIT: Final = 1 << 24
INI_LIMIT: Final = 1 << 16
CHANNEL_LIMIT: Final = 1024
NAME_LIMIT: Final = 200
CHUNK: Final = 1 << 20

UNKNOWN: Final = "0 Hz"
"""What sigrok-cli writes if it does not know the sample rate."""

_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def parse_rate(text: str) -> Fraction:
    """Samples in a second, from text as '24 MHz' or '1000000'; ValueError."""
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([kmgt]?)(?:hz)?\s*", text, re.IGNORECASE)
    rate = Fraction(found[1]) * _UNITS[found[2].lower()] if found else Fraction(0)
    if not RATE_MIN <= rate <= RATE_MAX:
        raise ValueError(text)
    return rate


def _directory(file: IO[bytes]) -> None:
    """Look at how much the archive lists before Python's reader keeps all of it."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - HEAD - 22, 0))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 22:
        refuse("it is truncated: the archive has no end", "save it again")
    members = int.from_bytes(tail[at + 10 : at + 12], "little")
    listed = int.from_bytes(tail[at + 12 : at + 16], "little")
    if tail[max(at - 20, 0) : at].startswith(b"PK\x06\x07"):  # preceded by 64-bit numbers
        more = tail[max(at - 76, 0) : at - 20]
        if len(more) < 56 or not more.startswith(b"PK\x06\x06"):
            refuse("its end is damaged", "save it again")
        members = max(members, int.from_bytes(more[32:40], "little"))
        listed = int.from_bytes(more[40:48], "little")
    if members > MEMBER_LIMIT or listed > DIRECTORY_LIMIT:
        refuse(f"it lists {members} parts in {listed} bytes")
    file.seek(0)


def read_session(
    file: IO[bytes],
    folder: Path,
    samplerate: Fraction | None,
    kind: str,
    most: int,
    note: str = "",
    times: bool = False,
) -> Recording:
    """A session of sigrok. ``samplerate``: replaces that of the file. ``times``: it was made of
    times, and their unit is the rate of the file. OverflowError when its lines have more than
    ``most`` edges."""
    _directory(file)
    archive = zipfile.ZipFile(file)
    names = set(archive.namelist())
    if len(archive.namelist()) > MEMBER_LIMIT:  # the end record may claim fewer
        refuse(f"it lists {len(archive.namelist())} parts, more than {MEMBER_LIMIT}")
    if not {"version", "metadata"} <= names:
        refuse("it is an archive, but not a session of sigrok")
    version = _member(archive, "version", 64).strip()
    if version not in (b"1", b"2"):
        refuse(f"it is of session format {version[:20].decode('ascii', 'replace')!r}, not 1 or 2")
    ini = configparser.ConfigParser(interpolation=None, strict=False)
    ini.read_string(_member(archive, "metadata", INI_LIMIT).decode("utf-8"))
    devices = [name for name in ini.sections() if name.startswith("device ")]
    if not devices:
        refuse("it names no instrument")
    if len(devices) > 1:
        refuse(f"it contains the lines of {len(devices)} instruments", "save each in its own file")
    device = ini[devices[0]]
    version_text = ini.get("global", "sigrok version", fallback="")
    try:
        stated = device.get("samplerate", UNKNOWN)
        rate = None if stated.strip() == UNKNOWN else parse_rate(stated)
        unit = int(device.get("unitsize", "1"))
        logic: dict[str, int] = {}
        analogue: dict[str, int] = {}
        for key, value in device.items():
            if found := re.fullmatch(r"(probe|analog)(\d{1,4})", key):
                (logic if found[1] == "probe" else analogue)[value] = int(found[2])
    except ValueError as error:
        refuse(f"its description is wrong: {one_line(error)}", "save it again")
    if not 1 <= unit <= 128 or len(logic) + len(analogue) > CHANNEL_LIMIT:
        refuse("its description is wrong: more channels than possible")
    if any(len(name) > NAME_LIMIT for name in (*logic, *analogue)):
        refuse("its description is wrong: a channel has too long a name")
    if any(not 1 <= bit <= 8 * unit for bit in logic.values()):
        refuse("its description is wrong: a channel lies outside of the samples")
    rate = rate if times else samplerate or rate
    source = _Session(archive, device.get("capturefile", "logic-1"), unit, logic, analogue, folder)

    def lines(event: str, answer: str, levels: Levels) -> Lines:
        if rate is None:
            refuse("it does not contain a sample rate", "add --samplerate, such as 24MHz")
        if event in logic and answer in logic:
            first, second, length = logic_edges(source.logic(event, answer), most)
            found = Lines(first, second, rate, length, 1.0, rate)
        else:
            waves = [source.wave(one) for one in (event, answer)]
            found = of_voltages(waves, rate, levels, most)
        if times:
            coarse = max(float(rate / samplerate), 1.0) if samplerate else 1.0
            found = replace(found, samplerate=samplerate, error=found.error * coarse)
        return found

    instrument = f"sigrok {version_text}".strip()
    return Recording(kind, instrument, (*logic, *analogue), rate, note, lines)


def _opened(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    info = archive.getinfo(name)
    if info.flag_bits & 1:
        refuse("its parts are encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        refuse("its parts are compressed by a method that sigrok does not use", "save it again")
    return archive.open(info)


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    with _opened(archive, name) as member:
        data = member.read(most + 1)
    if len(data) > most:
        refuse(f"its part '{name}' is too large")
    return data


class _Session:
    """The samples of a session, as they lie in the archive."""

    def __init__(
        self,
        archive: zipfile.ZipFile,
        base: str,
        unit: int,
        logic: dict[str, int],
        analogue: dict[str, int],
        folder: Path,
    ) -> None:
        self._archive, self._base, self._unit = archive, base, unit
        self._logic, self.of_voltages, self._folder = logic, analogue, folder
        self._left = SAMPLE_LIMIT

    def _parts(self, base: str) -> Iterator[bytes]:
        """The bytes of the parts that begin so, in their order."""
        names = self._archive.namelist()
        numbered = {}
        for name in names:
            if found := re.fullmatch(re.escape(base) + r"(?:-(\d{1,9}))?", name):
                numbered[int(found[1] or 0)] = name
        # Parts have the numbers from 1 on, and none if there is only one.
        in_order = range(1, max(len(numbered), 1) + 1)
        gap = next((k for k in in_order if k not in numbered), 0)
        if gap and 0 not in numbered:
            refuse(f"its part '{base}-{gap}' is missing", "save it again")
        for _, name in sorted(numbered.items()):
            with _opened(self._archive, name) as member:
                while data := member.read(CHUNK):
                    yield data

    def _whole(self, base: str, size: int) -> Iterator[bytes]:
        """The same in pieces of whole samples of ``size`` bytes."""
        rest = b""
        for part in self._parts(base):
            data = rest + part if rest else part
            kept = len(data) - len(data) % size
            rest = data[kept:]
            self._left -= kept // size
            if self._left < 0:
                refuse(f"it has more than {SAMPLE_LIMIT} samples", "save a part of it")
            yield data[:kept]

    def logic(self, event: str, answer: str) -> Iterator[NDArray[np.uint8]]:
        """Bit 0 of each sample: the event's line, bit 1: the answer's."""
        bits = [self._logic[name] - 1 for name in (event, answer)]
        places = [(bit // 8, np.uint8(1 << bit % 8)) for bit in bits]
        for data in self._whole(self._base, self._unit):
            raw = np.frombuffer(data, np.uint8)
            if self._unit == 1 and bits == [0, 1]:
                yield raw & np.uint8(3)
                continue
            first, second = ((raw[byte :: self._unit] & mask) != 0 for byte, mask in places)
            yield first.view(np.uint8) | (second.view(np.uint8) << np.uint8(1))

    def wave(self, name: str) -> NDArray[np.float32]:
        """A channel's samples in V (a digital one's as 0 and 1), in a file of their own."""
        store = Floats(self._folder)
        if name in self.of_voltages:
            for data in self._whole(f"analog-1-{self.of_voltages[name]}", 4):
                store.add(np.frombuffer(data, "<f4"))
        else:
            for lines in self.logic(name, name):
                store.add((lines & np.uint8(1)).astype(np.float32))
        return store.array()
