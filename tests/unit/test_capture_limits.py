# SPDX-License-Identifier: Apache-2.0
"""Captures with numbers that no instrument has: one line and a remedy, in bounded memory."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import captures
from rtgauge.capture import table as captured
from rtgauge.capture.analogue import Floats, levels_of
from rtgauge.capture.files import open_recording
from rtgauge.capture.recording import Levels
from rtgauge.errors import UsageError
from rtgauge.store import Store

LINES = ("--event", "A", "--answer", "B")


def rows(form: str, number: int = 1000, head: str = "time,A,B") -> str:
    return f"{head}\n" + "".join(form.format(i, i % 2, i // 2 % 2) + "\n" for i in range(number))


def digital(samplerate: str) -> str:
    return (
        "[global]\nsigrok version=0.5.2\n\n[device 1]\ncapturefile=logic-1\ntotal probes=2\n"
        f"samplerate={samplerate}\nprobe1=A\nprobe2=B\nunitsize=1\n"
    )


TABLES = {
    "rate": ("sample rate,3e14\n" + rows("{1},{1}", head="A,B"), "1 mHz to 1 THz"),
    "interval": ("sample interval,1e-14\n" + rows("{1},{2}", head="A,B"), "1 mHz to 1 THz"),
    "slow": ("sample interval,1e6\n" + rows("{1},{2}", head="A,B"), "1 mHz to 1 THz"),
    "late": (rows("{0}e12,{1},{2}"), "its times span"),
    "tiny": (rows("{0}e-300,{1},{2}"), "its times span"),
    "subnormal": (rows("{0}e-318,{1},{2}"), "its times span"),
    "volts": (rows("{0}e-6,{1}e30,{2}"), "a line reaches"),
}
SESSIONS = ("0.000001", "0.000000000000001", "10 THz", "999999999999999 THz")


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 3
    return done.stderr


def in_little_memory(
    program: str, words: list[str], memory: int
) -> subprocess.CompletedProcess[str]:
    """A program in a process that may use ``memory`` more bytes than one that only starts."""
    begin = (
        "import resource, sys; from pathlib import Path\n"
        "import numpy, sqlalchemy, rtgauge.capture, rtgauge.stats\n"
        "from rtgauge.cli import main\n"
        "size = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (size + {memory},) * 2)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", begin + program, *words],
        capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


def words_of(path: Path, *more: str) -> list[str]:
    return ["import", str(path), *more, "--store", str(path.parent / "store")]


def imported(path: Path, *more: str, memory: int = 1 << 30) -> subprocess.CompletedProcess[str]:
    """An import in a process of its own with little memory."""
    program = "sys.argv[0] = 'rtgauge'; sys.exit(main())"
    return in_little_memory(program, words_of(path, *more), memory)


#: Imports all files that its arguments name, and prints their codes and messages.
ALL = """
import contextlib, io, json
found = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    found.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, subprocess.CompletedProcess[str]]:
    """The imports of all tables and sessions that cannot be, one after the other in one process."""
    folder = tmp_path_factory.mktemp("refused")
    paths = {}
    for name, (text, _) in TABLES.items():
        paths[name] = folder / f"{name}.csv"
        paths[name].write_text(text)
    logic = captures.regular(50, 1000)
    for number, rate in enumerate(SESSIONS):
        paths[rate] = captures.session(folder / f"{number}.sr", logic, metadata=digital(rate))
    words = json.dumps([words_of(path, *LINES) for path in paths.values()])
    done = in_little_memory(ALL, [words], 1 << 30)
    assert done.returncode == 0, done.stderr
    each = json.loads(done.stdout)
    return {
        name: subprocess.CompletedProcess(["import"], *one)
        for name, one in zip(paths, each, strict=True)
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_tables_that_cannot_be(
    refused: dict[str, subprocess.CompletedProcess[str]], name: str
) -> None:
    _, reason = TABLES[name]
    assert reason in said(refused[name])


@pytest.mark.slow
@pytest.mark.parametrize("samplerate", SESSIONS)
def test_sessions_that_cannot_be(
    refused: dict[str, subprocess.CompletedProcess[str]], samplerate: str
) -> None:
    assert "its description is wrong" in said(refused[samplerate])


@pytest.mark.slow
def test_an_interval_that_cannot_be(tmp_path: Path) -> None:
    path = captures.session(tmp_path / "a.sr", captures.regular(50, 1000))
    lines = ("--event", "D0", "--answer", "D1")
    found = said(imported(path, *lines, "--interval", "9000000000s"))
    assert "--interval" in found


@pytest.mark.slow
def test_waveforms_of_millions_of_samples_need_little_memory(tmp_path: Path) -> None:
    """A delay of four million samples, of which few points are looked at."""
    wave = np.zeros(12_000_000, np.float32)
    wave[1_000_000:7_000_000] = 3
    path = captures.analogue(tmp_path / "a.sr", wave, np.roll(wave, 4_000_000))
    done = imported(path, "--event", "A0", "--answer", "A1", memory=768 << 20)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_size < 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize("mtime", [-1e9, 1e10])
def test_a_file_from_any_time(tmp_path: Path, mtime: float) -> None:
    path = captures.session(tmp_path / "a.sr", captures.regular(50, 1000))
    os.utime(path, (mtime, mtime))
    done = imported(path, "--event", "D0", "--answer", "D1")
    assert done.returncode == 0, done.stderr
    with Store.open(str(tmp_path / "store")) as store:
        (row,) = store.runs()
        assert store.get(row.id).steps[0].series[0].count == 50


@pytest.mark.slow
def test_samples_that_are_no_numbers_are_left_out_of_the_waveforms(tmp_path: Path) -> None:
    wave = np.tile(np.repeat(np.array([0.0, 3.0], np.float32), 500), 20)
    wave[7], wave[9], wave[11] = np.inf, -np.inf, np.nan
    path = captures.analogue(tmp_path / "a.sr", wave, np.roll(wave, 20))
    done = imported(path, "--event", "A0", "--answer", "A1")
    assert done.returncode == 0, done.stderr
    with pytest.raises(UsageError, match="a line reaches"):
        levels_of(np.array([0, 1e30], np.float32), Levels())


@pytest.mark.slow
def test_a_clock_that_packs_too_well_is_refused(tmp_path: Path) -> None:
    """Three million edges in few bytes: reading them would take 100 times the file and more."""
    path = captures.session(tmp_path / "a.sr", np.tile(np.array([0, 3], np.uint8), 1_500_000))
    assert path.stat().st_size < 1 << 16
    found = said(imported(path, "--event", "D0", "--answer", "D1"))
    assert "more than 1048576 edges" in found


def long_directory(path: Path, members: int, wide: Callable[[bytes, bytes], bytes]) -> None:
    """An archive whose directory continues with empty entries. ``wide`` makes its end."""
    data = path.read_bytes()
    end = data.rfind(b"PK\5\6")
    start = struct.unpack_from("<I", data, end + 16)[0]
    one = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 8, *[0] * 6)
    more = b"".join(one + b"%08d" % number for number in range(members))
    path.write_bytes(data[:end] + more + wide(data[start:end] + more, data[end:]))


def ends_of_64_bits(directory: bytes, end: bytes, *, lie: bool = False) -> bytes:
    members, _, start = struct.unpack_from("<H2L", end, 10)
    count = members if lie else len(directory) // 54
    more = struct.pack(
        "<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(directory), start
    )
    return more + struct.pack("<4sLQL", b"PK\6\7", 0, start + len(directory), 1) + end


@pytest.mark.slow
def test_the_directory_of_an_archive_is_limited_however_it_is_told(tmp_path: Path) -> None:
    lines = ("--event", "D0", "--answer", "D1")

    def archive() -> Path:
        return captures.session(tmp_path / "a.sr", captures.regular(50, 1000))

    def lying(directory: bytes, end: bytes) -> bytes:
        return ends_of_64_bits(directory, end, lie=True)

    long_directory(archive(), 300_000, ends_of_64_bits)
    assert "it lists 3" in said(imported(tmp_path / "a.sr", *lines))
    long_directory(archive(), 100_000, lying)
    assert "parts, more than 65000" in said(imported(tmp_path / "a.sr", *lines))
    long_directory(archive(), 1_000_000, lying)
    assert "it lists" in said(imported(tmp_path / "a.sr", *lines))
    long_directory(archive(), 10, ends_of_64_bits)
    assert imported(tmp_path / "a.sr", *lines).returncode == 0


@pytest.mark.slow
def test_a_lower_limit_of_memory_does_not_end_the_conversion(tmp_path: Path) -> None:
    """The limits for sigrok-cli are not above those that this process has itself."""
    (tmp_path / "a.vcd").write_text("$timescale 1 us $end\n$enddefinitions $end\n#0\n")
    (tmp_path / "sigrok-cli").write_text("#!/bin/sh\necho no capture >&2\nexit 1\n")
    (tmp_path / "sigrok-cli").chmod(0o755)
    path = os.environ["PATH"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:{path}")
        done = imported(tmp_path / "a.vcd", *LINES)
    assert "sigrok-cli cannot read it: no capture" in said(done)


def test_analogue_lines_leave_half_of_the_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = np.zeros(1 << 21, np.float32)
    store = Floats(tmp_path)
    store.add(piece)
    free = os.statvfs(tmp_path)
    left = SimpleNamespace(f_bavail=free.f_bavail // 2 - (64 << 20) // free.f_frsize,
                           f_frsize=free.f_frsize)  # fmt: skip
    monkeypatch.setattr(os, "statvfs", lambda _: left)
    with pytest.raises(OSError, match="more than half of the space"):
        store.add(piece)


def test_a_head_that_names_the_interval_thousands_of_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fields behind each name that are looked at are few."""
    looked: list[str] = []
    monkeypatch.setattr(captured, "_quantity", lambda text, *_: looked.append(text))
    path = tmp_path / "a.csv"
    path.write_text("tinc," * 10_000 + "\n1,0\n2,0\n")
    with open_recording(path):
        pass
    assert 0 < len(looked) <= 10_000 * captured.BESIDE + 1


@pytest.mark.slow
def test_the_channels_of_a_wide_table_are_not_all_listed(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(("0," * 30000 + "0\n") * 2)
    assert len(said(imported(path, *LINES))) < 500
