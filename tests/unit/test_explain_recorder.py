# SPDX-License-Identifier: Apache-2.0
"""The recorder in QEMU, and what it writes: built, bounded, read once."""

import os
import shutil
import struct
import subprocess
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explained import BASE, KALLSYMS, LOW, SETUP, recorded, stored_run
from rtgauge.causes.replay import _start, replayed
from rtgauge.errors import TargetError
from rtgauge.lab import recorder
from rtgauge.lab.machine import Output
from rtgauge.lab.names import names
from rtgauge.lab.prune import prune
from rtgauge.lab.recorder import (
    ANCHOR,
    BLOCK,
    CALL,
    RECORD,
    TASK,
    TASK_BYTES,
    TO,
    Recording,
)
from rtgauge.store import StoredRun
from rtgauge.target.lab import LabTarget


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    return stored_run(tmp_path, {"timer": 900})


@pytest.mark.slow
def test_the_recorder_builds_without_warnings_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc on this machine")
    monkeypatch.setenv("RTGAUGE_LAB_CACHE", str(tmp_path))
    built = recorder.plugin(lambda _: None)
    before = built.stat().st_mtime_ns
    assert recorder.plugin(lambda _: None) == built
    assert b"qemu_plugin_install" in built.read_bytes()
    assert built.stat().st_mtime_ns >= before
    assert [path.name for path in (tmp_path / "recorder").iterdir()] == [built.name]
    monkeypatch.setenv("PATH", str(tmp_path))  # without a compiler
    assert recorder.plugin(lambda _: None) == built


def test_a_machine_without_a_compiler_gets_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTGAUGE_LAB_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetError, match="no C compiler") as error:
        recorder.plugin(lambda _: None)
    assert "apt-get install gcc" in error.value.remedy
    broken = tmp_path / "gcc"
    broken.write_text("#!/bin/sh\necho 'x.c:1: error: no header' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(TargetError, match="error: no header"):
        recorder.plugin(lambda _: None)


def test_a_qemu_without_plugins_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "qemu"
    program.write_text("#!/bin/sh\nprintf 'usage\\n-plugin [file=]<file>\\n'\n")
    program.chmod(0o755)
    recorder.require_plugins(str(program))
    program.write_text("#!/bin/sh\necho usage\n")
    with pytest.raises(TargetError, match="does not load plugins") as error:
        recorder.require_plugins(str(program))
    assert "--enable-plugins, and measure again" in error.value.remedy


LOADER = """
#include <dlfcn.h>
int main(int argc, char **argv)
{
	struct { const char *target; int oldest, newest; _Bool system; } info = { "x", 1, 1, 1 };
	void *plugin = dlopen(argv[1], RTLD_LAZY);
	int (*install)(unsigned long, const void *, int, char **);

	if (!plugin)
		return 9;
	*(void **)&install = dlsym(plugin, "qemu_plugin_install");
	return install(1, &info, argc - 2, argv + 2);
}
"""


@pytest.mark.slow
def test_a_qemu_that_lacks_what_the_recorder_needs_gets_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program without QEMU's symbols loads the plugin, which refuses."""
    monkeypatch.setenv("RTGAUGE_LAB_CACHE", str(tmp_path / "cache"))
    built = recorder.plugin(print)
    loader = tmp_path / "loader"
    words = ["gcc", "-x", "c", "-", "-o", str(loader), "-ldl"]
    subprocess.run(words, input=LOADER.encode(), check=True)
    with Recording(tmp_path, built) as recording:
        done = subprocess.run(
            [loader, *recording.plugin.split(",")], capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (
            1,
            b"recorder: this QEMU does not export what it needs\n",
        )
        assert not recording.loaded

        def start() -> None:
            raise TargetError("the emulated board x: it ended on its own")

        machine: Any = types.SimpleNamespace(start=start, setup=types.SimpleNamespace(**SETUP))
        with pytest.raises(TargetError, match="qemu does not load the recorder") as error:
            _start(machine, recording)
        assert "Debian's QEMU 7.2, and measure again" in error.value.remedy
        # one that was loaded is not to blame
        struct.pack_into("<Q", recording._control, 32, 1)
        with pytest.raises(TargetError, match=r"^the emulated board x"):
            _start(machine, recording)


def test_the_folder_of_a_replay_that_was_killed_goes_with_the_next(
    stored: StoredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records may be gigabytes. That of a replay that runs stays."""

    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stop

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("found_program", "require_plugins", "plugin"):
        monkeypatch.setattr(f"rtgauge.causes.replay.{name}", lambda *_: "")
    monkeypatch.setattr(LabTarget, "setup_again", lambda *_: types.SimpleNamespace(**SETUP))
    monkeypatch.setattr("rtgauge.causes.replay.Recording", stop)
    with subprocess.Popen(["true"]) as ended:
        pass
    killed, running = (
        tmp_path / f"rtgauge-explain-{number}-x" for number in (ended.pid, os.getpid())
    )
    for folder in (killed, running):
        folder.mkdir()
        (folder / "record").write_bytes(b"records")
    with pytest.raises(Stop), replayed(stored, [], print):
        pass
    assert [path.name for path in tmp_path.glob("rtgauge-explain-*")] == [running.name]


def test_a_comma_in_a_path_does_not_end_the_plugins_option(tmp_path: Path) -> None:
    folder = tmp_path / "a,b"
    folder.mkdir()
    with Recording(folder, tmp_path / "c,d.so") as recording:
        words = recording.plugin.replace(",,", "\0").split(",")
    paths = [tmp_path / "c,d.so", f"record={folder / 'record'}", f"control={folder / 'control'}"]
    assert [word.replace("\0", ",") for word in words] == [str(path) for path in paths]


def write(recording: Recording, folder: Path, data: bytes) -> None:
    """What the plugin has recorded so far."""
    (folder / "record").write_bytes(data)
    struct.pack_into("<Q", recording._control, 16, len(data))


def test_records_and_the_bytes_of_tasks_are_read_apart(tmp_path: Path) -> None:
    rows = [(1, 2, 0, 0, TO, 0, 0), (1, 2, 0, 64, TASK, 0, 0)]
    later = [(5, 6, 7, 8, BLOCK, CALL, 1 << 31)]
    payload = recorded([(9, 9, 9, 9, TASK, 0)] * (TASK_BYTES // RECORD.itemsize)).tobytes()
    data = recorded(rows).tobytes() + payload + recorded(later).tobytes()
    with Recording(tmp_path, Path("plugin.so")) as recording:
        assert "control=" in recording.plugin
        recording.ask([(1, 1), (2, 20)])
        recording.ask([(30, 40)])
        assert recording.windows() == [(1, 1), (2, 20), (30, 40)]
        write(recording, tmp_path, data)
        assert recording.anchors().tolist() == []
        found = [list(recording.window(number)) for number in range(3)]
        assert [[tuple(one) for one in piece.records.tolist()] for piece in found[0]] == [rows]
        assert found[0][0].tasks == {2: payload[:64]}
        assert [[tuple(one) for one in piece.records.tolist()] for piece in found[1]] == [later]
        assert found[2] == []
        assert recording.lost == 0


@pytest.mark.slow
@pytest.mark.parametrize("piece", [TASK_BYTES + 32, TASK_BYTES + 3 * 32, 1 << 20])
def test_each_record_is_read_once_as_it_is_new_and_once_with_its_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    """Several hundred windows, however many orders they are spread over, and never more than a
    piece at once."""
    read: list[int] = []
    pread = os.pread

    def counted(file: int, length: int, at: int) -> bytes:
        read.append(length)
        return pread(file, length, at)

    monkeypatch.setattr(recorder, "PIECE", piece)
    monkeypatch.setattr("rtgauge.lab.recorder.os.pread", counted)
    random, data = np.random.default_rng(20), b""
    anchors: list[int] = []
    windows: list[tuple[int, int]] = []
    contents: list[list[tuple[int, ...]]] = []
    tasks: list[dict[int, bytes]] = []
    with Recording(tmp_path, Path("plugin.so")) as recording:
        for order in range(8):
            recording.ask(
                [(at, at + 400) for at in range(order * 50_000 + 500, (order + 1) * 50_000, 1000)]
            )
            for begin, end in recording.windows()[len(windows) :]:
                outside = [(begin - 100, 0x7F00, 0, 0, ANCHOR, 0)]
                anchors += [begin - 100, begin + 7]
                task = random.bytes(TASK_BYTES)
                first = [(begin, LOW, 0, 0, TO, 0), (begin, LOW, 0, 64, TASK, 0)]
                more = [
                    (begin + 5, BASE, 0, 3, BLOCK, 0),
                    (begin + 7, 0x7F00, 0, 0, ANCHOR, 0),
                    *((begin + 8 + at, BASE, 0, 3, BLOCK, 0) for at in range(order)),
                    (end, BASE, 0, 3, BLOCK, 0),
                ]
                data += recorded(outside + first).tobytes() + task
                data += recorded(more).tobytes()
                windows.append((begin, end))
                contents.append([(*row, 0) for row in first + more])
                tasks.append({LOW: task[:64]})
            write(recording, tmp_path, data)
            assert recording.anchors().tolist() == anchors
            anchors = []
        assert len(windows) == 400
        # a task that a piece would cut begins the next one
        assert sum(read) <= len(data) + (len(read) - 8) * (TASK_BYTES + RECORD.itemsize)
        assert max(read) <= piece
        assert piece < len(data) / 8 or sum(read) == len(data)
        read.clear()
        for number in range(400):
            pieces = list(recording.window(number))
            rows = [tuple(row) for each in pieces for row in each.records.tolist()]
            assert rows == contents[number]
            assert {key: one for each in pieces for key, one in each.tasks.items()} == tasks[number]
        assert piece < len(data) / 8 or sum(read) == len(data) - 400 * RECORD.itemsize


def test_records_that_are_cut_are_no_endless_loop(tmp_path: Path) -> None:
    with Recording(tmp_path, Path("plugin.so")) as recording:
        write(recording, tmp_path, recorded([(1, LOW, 0, 64, TASK, 0)]).tobytes())
        with pytest.raises(TargetError, match="are truncated"):
            recording.anchors()


class NamesBoard:
    """A board whose kernel has names, which it lists on request."""

    def __init__(self) -> None:
        self.files = {
            "/proc/kallsyms": KALLSYMS,
            "/proc/modules": b"disturb 16384 0 - Live 0xffffffffc0200000\n",
            "/sys/kernel/btf/vmlinux": b"types",
        }
        self.text = b"ffffffff81000000 T _text\n"
        self.read: list[str] = []

    def execute(self, words: list[str]) -> Output:
        path = words[-1]
        if words[1] == "grep":
            return Output(0, self.text, b"", 1)
        self.read.append(path)
        known = path in self.files
        return Output(0 if known else 1, self.files.get(path, b""), b"", 1)


def test_names_of_a_kernel_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read again for another kernel, another initramfs, and at other addresses."""
    monkeypatch.setenv("RTGAUGE_LAB_CACHE", str(tmp_path))
    board, facts = NamesBoard(), {"kernel digest": "aa", "initramfs digest": "bb"}

    def get() -> bool:
        """Whether the names came from the board, as they are now in either case."""
        board.read.clear()
        found = names(board, facts, print)  # type: ignore[arg-type]
        assert found == (board.files["/proc/kallsyms"], board.files["/sys/kernel/btf/vmlinux"])
        return "/proc/kallsyms" in board.read

    assert get() and not get()
    board.files["/proc/modules"] = b"disturb 16384 2 user, Live 0xffffffffc0200000\n"
    assert not get()  # the same module, in use
    changes: tuple[Callable[[], None], ...] = (
        lambda: facts.update({"kernel digest": "cc"}),
        lambda: facts.update({"initramfs digest": "dd"}),
        lambda: board.files.update({"/proc/modules": b"disturb 20480 0 - Live 0xffffffffc0200000"}),
        lambda: board.files.update({"/proc/modules": b"disturb 20480 0 - Live 0xffffffffc0300000"}),
        lambda: board.files.update({"/proc/modules": b""}),
        lambda: setattr(board, "text", b"ffffffff92000000 T _text\n"),
    )
    for change in changes:
        change()
        board.files["/proc/kallsyms"] += b"ffffffff81fff000 t another\n"
        assert get() and not get()
    kept = sorted((tmp_path / "names").iterdir())
    assert len(kept) == 7
    for path in kept:  # cut by a fault of the disk
        path.write_bytes(path.read_bytes()[:-3])
    assert get() and not get()
    facts.clear()  # nothing to know them by
    assert get() and get()
    assert {path.parent.name for path in map(Path, (one.path for one in prune(-1)))} == {"names"}
    assert not list((tmp_path / "names").iterdir())


def test_a_cache_without_room_does_not_spoil_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTGAUGE_LAB_CACHE", str(tmp_path))
    (tmp_path / "names").write_bytes(b"not a folder")
    facts = {"kernel digest": "aa", "initramfs digest": "bb"}
    assert names(NamesBoard(), facts, print) == (KALLSYMS, b"types")  # type: ignore[arg-type]
