# SPDX-License-Identifier: Apache-2.0
"""The store: folders of runs, and what becomes of them when a process dies."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rtgauge
import rtgauge.store.store
import streams
from rtgauge.errors import RtgaugeError, StoreError, UsageError
from rtgauge.store import RunFolder, Store, StreamFile, index, is_run_id, new_run_id
from rtgauge.store.files import FolderLock, write_file
from rtgauge.store.seal import STREAM
from rtgauge.stream import RecordType
from streams import Builder

HERE = Path(__file__).parent


def document(**changes: Any) -> dict[str, Any]:
    return {
        "study": "s",
        "label": "a label",
        "repeat": 0,
        "target": "local",
        "boot_id": "b",
        "started": "2025-11-21T01:02:03Z",
        "duration_s": 0.0,
        "state": "running",
        "reason": "",
        "remedy": "",
        "plan": {},
        "steps": [
            {"step": 0, "measurement": "timer", "role": "measurement", "state": "running"},
            {"step": 1, "measurement": "clock-cost", "role": "calibration", "state": "pending"},
        ],
        **changes,
    }


def values_in(run: Any) -> list[int]:
    return [value for part in run.steps[0].series[0].values() for value in part.tolist()]


def finished(store: Store, **changes: Any) -> str:
    """A run that was carried out in order; its id."""
    with store.create(document(**changes)) as folder:
        with folder.append_stream(0) as stream:
            stream.write(streams.one_of_each().data)
        end = folder.seal(0)
        assert end.complete
        first, second = folder.document["steps"]
        steps = [first | {"state": "complete"}, second | {"state": "skipped"}]
        folder.write_document({**folder.document, "state": "complete", "steps": steps})
        store.update(folder)
    return folder.id


def keep(store: Store, steps: list[dict[str, Any]], *made: Builder) -> None:
    """A run of these steps, and the streams of the first of them."""
    with store.create(document(steps=steps)) as folder:
        for step, one in enumerate(made):
            with folder.append_stream(step) as stream:
                stream.write(one.data)
            folder.seal(step)
        folder.write_document({**folder.document, "state": "complete"})
        store.update(folder)


# --- ids ------------------------------------------------------------------------------------------


def test_run_ids_are_version_7() -> None:
    before = time.time_ns() // 1_000_000
    ids = [new_run_id() for _ in range(5000)]
    after = time.time_ns() // 1_000_000
    assert ids == sorted(set(ids))
    for text in (ids[0], ids[-1]):
        found = uuid.UUID(text)
        assert str(found) == text
        assert found.version == 7
        assert found.variant == uuid.RFC_4122
        assert before <= found.int >> 80 <= after + 1
        assert is_run_id(text)
    assert not is_run_id("../" + ids[0])
    assert not is_run_id(ids[0].upper())


def test_run_ids_rise_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [new_run_id()]
    for back in (0, 1, 10**9):
        now = time.time_ns() - back
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        ids.append(new_run_id())
        monkeypatch.undo()
    assert ids == sorted(set(ids))


def test_time_in_a_run_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of RFC 9562's example (appendix A.6), with its fraction of a millisecond."""
    monkeypatch.setattr(rtgauge.store.identity, "_last_tick", 0)
    monkeypatch.setattr(time, "time_ns", lambda: 0x017F22E279B0 * 1_000_000 + 500_000)
    assert new_run_id().startswith("017f22e2-79b0-7800-")


# --- a run, from its beginning to its end ---------------------------------------------------------


def test_a_run(store: Store) -> None:
    run_id = finished(store)
    (row,) = store.runs()
    assert (row.id, row.label, row.study, row.target) == (run_id, "a label", "s", "local")
    assert (row.state, row.steps, row.started) == ("complete", 2, "2025-11-21T01:02:03Z")
    assert row.headline == "max 13.6\u202fµs (timer)"
    run = store.get(run_id)
    assert run.id == run_id
    assert run.document["format"] == "rtgauge-run"
    assert [step.number for step in run.steps] == [0, 1]
    assert run.steps[0].header is not None
    assert run.steps[1].header is None
    assert len(values_in(run)) == 40


def test_headline_is_the_largest_value(store: Store) -> None:
    run_id = finished(store)
    highest = max(streams.latencies(40).tolist())
    assert store.get(run_id).steps[0].series[0].histogram is not None
    assert store.runs()[0].headline == f"max {highest / 1000:.1f}\u202fµs (timer)"


def test_headline_covers_all_that_was_asked_for(store: Store) -> None:
    """Two steps of the same values: the budget of the second is exceeded; a companion with larger
    values than any, and a calibration, do not count."""
    steps = [
        {"step": 0, "measurement": "timer", "role": "measurement", "budget_ns": 10**9},
        {"step": 1, "measurement": "pendulum", "load": "sched", "budget_ns": 13_000},
        {"step": 2, "measurement": "clock-cost", "role": "calibration"},
    ]
    made = []
    for most in (13_000, 13_500, 99_000):
        one = Builder().series(0, scale=1).series(1, companion=0, scale=1)
        made.append(one.samples(0, 0, [5000, most]).samples(1, 0, [900_000, 1]).trailer())
    keep(store, steps, *made)
    assert store.runs()[0].headline == "over 13\u202fµs: max 13.5\u202fµs (pendulum, sched)"
    few = [[5000, most] for most in (13_000, 13_001)]
    keep(
        store,
        steps[:2],
        *(Builder().series(0, scale=1).samples(0, 0, two).trailer() for two in few),
    )
    assert "over 13\u202fµs: max 13.001\u202fµs (pendulum, sched)" in [
        one.headline for one in store.runs()
    ]


def test_headline_of_values_below_0(store: Store) -> None:
    made = Builder().series(0, scale=1).samples(0, 0, [-9000, -1200]).trailer()
    keep(store, [{"step": 0, "measurement": "timer"}], made)
    assert store.runs()[0].headline == "max −1.20\u202fµs (timer)"


@pytest.mark.parametrize(
    ("timeout", "budget", "headline"),
    [
        (None, None, "max ≥\u202f1\u202f000\u202fµs (log-host)"),
        ("400us", 399_999, "over 399.999\u202fµs: max ≥\u202f400\u202fµs (log-host)"),
        ("400us", 400_000, "over 400\u202fµs: max ≥\u202f400\u202fµs (log-host)"),
        ("400us", 400_001, "max ≥\u202f400\u202fµs (log-host)"),
        ("10ms", 10**7, "over 10\u202f000\u202fµs: max ≥\u202f10\u202f000\u202fµs (log-host)"),
        ("nonsense", None, "max ≥\u202f1\u202f000\u202fµs (log-host)"),
    ],
)
def test_headline_of_an_event_without_an_answer(
    store: Store, timeout: str | None, budget: int | None, headline: str
) -> None:
    step: dict[str, Any] = {"step": 0, "measurement": "log-host", "budget_ns": budget}
    told = {} if timeout is None else {"timeout": {"asked": None, "effective": timeout}}
    made = Builder(parameters=told).series(0, name="response", interval_ns=1_000_000)
    made.samples(0, 0, [13_000, 12_000])
    missed = {"event": "missed", "time_ns": 0, "series": 0, "index": 1, "count": 2}
    made.add(RecordType.EVENT, missed)
    keep(store, [step], made.samples(0, 4, [9000]).trailer())
    assert store.runs()[0].headline == headline


def test_the_headlines_of_an_older_index_are_read_again(tmp_path: Path) -> None:
    with Store.open(str(tmp_path)) as store:
        run_id = finished(store)
        headline = store.runs()[0].headline
    database = sqlite3.connect(tmp_path / "index.db")
    database.execute("UPDATE runs SET headline = 'max 1 us'")
    database.execute("UPDATE alembic_version SET version_num = '0001'")
    database.commit()
    database.close()
    with Store.open(str(tmp_path)) as store:
        assert [(row.id, row.headline) for row in store.runs()] == [(run_id, headline)]


def test_headline_without_samples_counts_verdicts(store: Store) -> None:
    steps = [{"step": 0, "measurement": "thread-rules", "role": "measurement"}]
    made = Builder()
    for result in ("pass", "fail", "pass"):
        body = {"rule": "r", "result": result, "evidence": "seen", "remedy": ""}
        made.add(RecordType.VERDICT, body)
    keep(store, steps, made.trailer())
    assert store.runs()[0].headline == "1 fail, 2 pass"


def test_headline_of_a_failed_run_is_its_reason(store: Store) -> None:
    finished(store)
    with store.create(document(state="failed", reason="step 1 (timer): gone")):
        pass
    assert "step 1 (timer): gone" in {row.headline for row in store.runs()}


def test_environment_and_document_are_kept(store: Store) -> None:
    with store.create(document()) as folder:
        folder.save_environment(b"abc")
        folder.write_document({**folder.document, "label": "new \udc80 µ", "id": "other"})
        assert (folder.path / "environment.cbor").read_bytes() == b"abc"
        found = json.loads((folder.path / "run.json").read_text())
        assert (found["id"], found["label"]) == (folder.id, "new \ufffd µ")
        assert {path.name for path in folder.path.iterdir()} == {
            "environment.cbor",
            "run.json",
            "steps",
        }


def test_streams_may_be_gone_on_with(store: Store) -> None:
    with store.create(document()) as folder:
        data = streams.one_of_each().data
        for part in (data[:1000], data[1000:]):
            with folder.append_stream(0) as stream:
                stream.write(part)
        assert (folder.step_folder(0) / STREAM).read_bytes() == data
        folder.seal(0)
        with pytest.raises(ValueError, match="sealed"):
            folder.append_stream(0)
        with pytest.raises(ValueError, match="closed"):
            stream.write(b"x")


def test_a_running_run_can_be_read(store: Store) -> None:
    with store.create(document()) as folder, folder.append_stream(0) as stream:
        data = Builder().series(0).samples(0, 0, [1, 2]).data
        stream.write(data + b"\x84\x04")
        run = store.get(folder.id)
        assert values_in(run) == [1, 2]
        assert run.document["state"] == "running"
        assert store.runs()[0].state == "running"
        assert not run.steps[0].sealed
        with pytest.raises(StoreError, match="is being carried out"):
            store.delete(folder.id)


def test_stream_is_synced_while_nothing_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtgauge.store.folder.SYNC_INTERVAL_S", 0.001)
    synced = threading.Event()
    sync = os.fdatasync

    def counted(file: int) -> None:
        sync(file)
        synced.set()

    monkeypatch.setattr(os, "fdatasync", counted)
    with StreamFile(tmp_path / "s") as stream:
        stream.write(b"a")
        assert synced.wait(60)
        synced.clear()
        stream.write(b"b")
        assert synced.wait(60)
    assert (tmp_path / "s").read_bytes() == b"ab"


def test_a_sync_that_fails_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtgauge.store.folder.SYNC_INTERVAL_S", 0.001)

    def failing(_file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", failing)
    stream = StreamFile(tmp_path / "s")
    stream.write(b"a")
    with pytest.raises(StoreError, match="Input/output error"):
        while True:
            stream.write(b"b")
            time.sleep(0.001)
    with pytest.raises(StoreError, match="Input/output error"):
        stream.close()
    stream.close()


# --- processes that die ---------------------------------------------------------------------------

WRITER = """
import sys
import streams
from rtgauge.store import Store
from test_store import document

with Store.open(sys.argv[1]) as store, store.create(document()) as folder:
    print(folder.id, flush=True)
    with folder.append_stream(0) as stream:
        stream.write(streams.Builder().series(0).data)
        part = streams.Builder().series(0)
        for at in range(10_000_000):
            part.parts.clear()
            part.samples(0, at * 10, range(at * 10, at * 10 + 10))
            stream.write(part.data)
            print(at, flush=True)
"""


def child(*arguments: str) -> subprocess.Popen[str]:
    paths = [str(HERE.parents[1] / "src"), str(HERE.parent / "support"), str(HERE)]
    return subprocess.Popen(
        [sys.executable, "-c", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


@pytest.mark.slow
def test_kill_loses_nothing_that_was_written(store: Store) -> None:
    with child(WRITER, str(store.path.parent)) as process:
        assert process.stdout
        run_id = process.stdout.readline().strip()
        seen = -1
        while seen < 300:
            seen = int(process.stdout.readline())
        assert store.runs()[0].state == "running"
        process.send_signal(signal.SIGKILL)
        seen = max([seen, *map(int, process.stdout.read().split("\n")[:-1])])
    assert store.runs()[0].state == "interrupted"  # before anything was put right
    run = store.get(run_id)
    assert run.document["state"] == "interrupted"
    assert [step.document["state"] for step in run.steps] == ["interrupted", "skipped"]
    assert run.document["remedy"]
    assert run.steps[0].sealed
    assert not run.steps[0].end.complete
    values = values_in(run)
    assert len(values) in ((seen + 1) * 10, (seen + 2) * 10)
    assert values == list(range(len(values)))
    assert json.loads((run.path / "run.json").read_text()) == run.document
    assert not list(run.path.rglob("*.tmp"))


def interrupted(store: Store, data: bytes, **changes: Any) -> str:
    """A run whose process has ended with a step in its stream; its id."""
    with store.create(document(**changes)) as folder, folder.append_stream(0) as stream:
        stream.write(data)
    return folder.id


def test_a_step_that_had_ended_is_complete(store: Store) -> None:
    run = store.get(interrupted(store, Builder().trailer().data))
    assert run.document["state"] == "interrupted"
    assert [step.document["state"] for step in run.steps] == ["complete", "skipped"]
    skipped = Builder().trailer("skipped", reason="no right", remedy="sudo").data
    run = store.get(interrupted(store, skipped))
    assert run.steps[0].document["reason"] == "no right"


def test_a_run_whose_writer_was_killed_lasted_as_long_as_its_streams(store: Store) -> None:
    trailer = store.get(interrupted(store, Builder().trailer(duration_ns=7_000_000_000).data))
    assert [step.document.get("duration_s") for step in trailer.steps] == [7.0, None]
    assert trailer.document["duration_s"] == 7.0
    span = {"load": "sched", "unit": "x", "count": 1, "from_ns": 0, "to_ns": 5_250_000_000}
    work = Builder().add(RecordType.WORK, span).data
    assert store.get(interrupted(store, work)).document["duration_s"] == 5.25


def test_a_step_whose_load_died_has_failed_after_a_kill_too(store: Store) -> None:
    event: dict[str, Any] = {"load": "sched", "message": "killed by signal 9"}
    run = store.get(interrupted(store, Builder().event("load", **event).data))
    assert [step.document["state"] for step in run.steps] == ["failed", "skipped"]
    assert run.document["state"] == "failed"
    assert "load sched stopped working: killed" in run.document["reason"]


def test_steps_that_run_json_does_not_name(store: Store) -> None:
    run = store.get(interrupted(store, streams.one_of_each().data, steps=[]))
    assert [step.number for step in run.steps] == [0]
    assert len(values_in(run)) == 40


def test_a_finished_run_that_was_not_sealed(store: Store) -> None:
    run_id = interrupted(store, streams.one_of_each().data, state="failed", reason="why")
    run = store.get(run_id)
    assert (run.document["state"], run.document["reason"]) == ("failed", "why")
    assert run.steps[0].sealed


def test_a_run_that_cannot_be_put_right_can_be_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a read-only disk, say."""
    run_id = interrupted(store, streams.one_of_each().data)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "replace", refuse)
    run = store.get(run_id)
    assert run.document["state"] == "interrupted"
    assert not run.steps[0].sealed
    assert len(values_in(run)) == 40
    monkeypatch.undo()
    assert store.get(run_id).steps[0].sealed


def test_folders_without_locks_are_left_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it cannot be known whether the writer lives, nothing is changed."""
    run_id = interrupted(store, streams.one_of_each().data)
    monkeypatch.setattr(FolderLock, "take", lambda _path: None)
    run = store.get(run_id)
    assert not run.steps[0].sealed
    assert len(values_in(run)) == 40


# --- no room, no right ----------------------------------------------------------------------------


def test_full_disk_while_a_step_runs(store: Store, full_disk: Callable[[int], None]) -> None:
    data = Builder().series(0)
    for at in range(100):
        data.samples(0, at * 100, range(at * 100, at * 100 + 100))
    with store.create(document()) as folder:
        with pytest.raises(StoreError, match="cannot write") as caught:  # noqa: SIM117
            with folder.append_stream(0) as stream:
                full_disk(20_000)
                for part in data.parts:
                    stream.write(part)
        assert "free some space" in caught.value.remedy
        assert "\n" not in caught.value.message
        full_disk(resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        assert (folder.path / "steps/000" / STREAM).stat().st_size == 20_000
        folder.seal(0)
    values = values_in(store.get(folder.id))
    assert len(values) == sum(end <= 20_000 for end in ends(data.parts)[2:]) * 100
    assert values == list(range(len(values)))


def ends(parts: list[bytes]) -> list[int]:
    at = 0
    return [at := at + len(part) for part in parts]


def test_whole_files_survive_a_full_disk(tmp_path: Path, full_disk: Callable[[int], None]) -> None:
    path = tmp_path / "folder" / "f"
    path.parent.mkdir()
    write_file(path, b"before")
    full_disk(1000)
    with pytest.raises(StoreError, match="cannot write"):
        write_file(path, b"x" * 2000)
    assert path.read_bytes() == b"before"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EMFILE, errno.EIO]
)
def test_errors_are_one_line_with_a_remedy(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    with store.create(document()) as folder:
        monkeypatch.setattr(os, "replace", refuse)
        with pytest.raises(StoreError, match=os.strerror(number)) as caught:
            folder.write_document(folder.document)
        assert caught.value.remedy
        assert "\n" not in caught.value.message
        monkeypatch.undo()
        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(StoreError, match=os.strerror(number)):
            folder.append_stream(0)
        monkeypatch.undo()
        monkeypatch.setattr(os, "rename", refuse)
        with pytest.raises(StoreError, match=os.strerror(number)):
            store.create(document())
    monkeypatch.undo()
    assert [path.name for path in store.path.iterdir()] == [folder.id]


def test_a_store_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot make the folder"):
        Store.open(str(tmp_path / "file" / "store"))


def test_a_read_only_store_can_be_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index cannot be written then: one in memory takes its place."""
    run_id = finished(store)
    (store.path.parent / "index.db").unlink()
    (store.path.parent / "index.db").mkdir()  # even root cannot write that
    monkeypatch.setattr(index, "_writable", lambda _file: False)
    with Store.open(str(store.path.parent)) as again:
        assert [row.id for row in again.runs()] == [run_id]
        assert len(values_in(again.get(run_id))) == 40
    monkeypatch.undo()
    with pytest.raises(StoreError, match=r"cannot use the index .*index\.db"):
        Store.open(str(store.path.parent))


# --- finding and removing runs --------------------------------------------------------------------


def test_runs_are_found_by_the_beginning_of_their_id(store: Store) -> None:
    first, second = finished(store), finished(store, started="2026-01-01T00:00:00Z")
    assert [row.id for row in store.runs()] == [second, first]
    assert store.get(first).id == first
    common = next(n for n in range(36) if first[n] != second[n])
    assert store.get(first[: common + 1].upper()).id == first
    with pytest.raises(UsageError, match="2 runs begin with '0'") as caught:
        store.get("0")
    assert first in caught.value.remedy
    wrong = first[:-1] + ("0" if first[-1] != "0" else "1")
    with pytest.raises(UsageError, match="no run") as caught:
        store.get(wrong)
    assert first in caught.value.remedy
    for text in ("", "  ", "../..", "zzz"):
        with pytest.raises(UsageError):
            store.get(text)


def test_an_empty_store(store: Store) -> None:
    assert store.runs() == []
    with pytest.raises(UsageError, match="no run 'x'"):
        store.get("x")


def test_delete(store: Store) -> None:
    first, second = finished(store), finished(store)
    store.delete(first)
    assert [row.id for row in store.runs()] == [second]
    assert [path.name for path in store.path.iterdir()] == [second]
    with pytest.raises(UsageError):
        store.delete(first)


def test_what_dead_processes_left_is_removed(store: Store) -> None:
    run_id = finished(store)
    other = new_run_id()
    for name in (f".{other}.new", f".{other}.deleted", f".{'0f' * 32}.import"):
        (store.path / name).mkdir()
    for name in ("notes", ".hidden.new", ".hidden.import", f".{other}.new.old"):
        (store.path / name).mkdir()
    assert [row.id for row in store.runs()] == [run_id]
    assert {path.name for path in store.path.iterdir()} == {
        run_id,
        "notes",
        ".hidden.new",
        ".hidden.import",
        f".{other}.new.old",
    }


def test_what_is_removed_stays_locked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a process that has just made the folder could lock it, and lose it all the same."""
    new = store.path / f".{new_run_id()}.new"
    new.parent.mkdir(exist_ok=True)
    new.mkdir()
    locks = []
    remove = shutil.rmtree

    def rmtree(path: Path, **options: Any) -> None:
        locks.append(FolderLock.take(path))
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    store.runs()
    assert locks == [None]
    assert not new.exists()


@pytest.mark.parametrize("held", [False, True])
def test_a_folder_that_is_taken_for_left_behind_is_made_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """Between its making and its locking another process may remove it."""
    take, taken = FolderLock.take, []

    def slow(path: Path) -> FolderLock | None:
        taken.append(path)
        if len(taken) > 1:
            return take(path)
        other = take(path)
        assert other is not None
        found = take(path) if held else None
        path.rmdir()
        other.release()
        return found if held else take(path)

    monkeypatch.setattr(FolderLock, "take", slow)
    with store.create(document()) as folder:
        assert folder.path.is_dir()
        assert len(set(taken)) == 1
        assert [row.state for row in store.runs()] == ["running"]


MAKER = """
import sys
from rtgauge.store import Store
from test_store import document

with Store.open(sys.argv[1]) as store:
    for _ in range(40):
        store.create(document(state="complete", steps=[])).close()
        store.runs()
"""


@pytest.mark.slow
def test_nobody_removes_what_others_make(tmp_path: Path) -> None:
    """Six processes make runs and look for what was left behind, all at once."""
    path = str(tmp_path / "store")
    processes = [child(MAKER, path) for _ in range(6)]
    for process in processes:
        with process:
            process.communicate(timeout=300)
    assert [process.returncode for process in processes] == [0] * 6
    with Store.open(path) as store:
        assert len(store.runs()) == 240


def test_an_id_that_is_taken_or_none(store: Store) -> None:
    run_id = finished(store)
    with pytest.raises(StoreError, match="a run with this id already"):
        store.create(document(id=run_id))
    with pytest.raises(StoreError, match="is not the id of a run"):
        store.create(document(id="../../etc"))


# --- run.json -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"format": "rtgauge-run", "version": 2}', "has version 2"),
        ('{"format": "rtgauge-run"', "damaged"),
        ("[]", "damaged"),
        ("[" * 100_000, "damaged"),
        ("\x00\xff", "damaged"),
        ('{"format": "other", "version": 1}', "damaged"),
        ('{"format": "rtgauge-run", "version": 1, "id": "x"}', "damaged"),
        ('{"format": "rtgauge-run", "version": 1, "id": "ID", "steps": 5}', "damaged"),
        ('{"format": "rtgauge-run", "version": 1, "id": "ID", "steps": [{}]}', "damaged"),
        ('{"format": "rtgauge-run", "version": 1, "id": "ID", "steps": [{"step": -1}]}', "damaged"),
    ],
)
def test_run_json_that_cannot_be_read(store: Store, text: str, reason: str) -> None:
    good, bad = finished(store), finished(store)
    (store.path / bad / "run.json").write_text(text.replace("ID", bad))
    rows = {row.id: row for row in store.runs()}
    assert rows[good].state == "complete"
    assert rows[bad].state == "unreadable"
    assert reason in rows[bad].headline
    with pytest.raises(StoreError, match=reason) as caught:
        store.get(bad)
    assert bad in caught.value.message
    assert caught.value.remedy
    store.delete(bad)
    assert [row.id for row in store.runs()] == [good]


@pytest.mark.parametrize("known", [True, False])
def test_a_run_whose_folder_cannot_be_read_is_listed(store: Store, known: bool) -> None:
    """Another user's umask may forbid it. The store said that it had no runs."""
    run_id = finished(store)
    assert not known or store.runs()
    (store.path / run_id).rename(store.path.parent / "moved")
    (store.path / run_id).symlink_to(run_id)  # root can read any other folder
    if not known:
        (store.path.parent / "index.db").unlink()
    (row,) = store.runs()
    assert (row.id, row.state) == (run_id, "unreadable")
    with pytest.raises(StoreError, match="cannot read run"):
        store.get(run_id)
    (store.path / run_id).unlink()
    (store.path.parent / "moved").rename(store.path / run_id)
    assert [row.state for row in store.runs()] == ["complete"]


def test_a_step_cannot_lead_out_of_its_run(store: Store) -> None:
    run_id = finished(store)
    path = store.path / run_id / "run.json"
    changed = json.loads(path.read_text())
    changed["steps"][0]["folder"] = "../../../etc"
    path.write_text(json.dumps(changed))
    assert store.get(run_id).steps[0].folder == store.path / run_id / "steps" / "000"


# --- where the store is ---------------------------------------------------------------------------


def test_where_the_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RTGAUGE_STORE", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)

    def place(given: str | None = None) -> tuple[Path, bool]:
        with Store.open(given) as store:
            return store.path, (store.path.parent / "index.db").exists()

    assert place() == (tmp_path / "home/.local/share/rtgauge/runs", True)
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    assert place() == (tmp_path / "home/.local/share/rtgauge/runs", True)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert place() == (tmp_path / "xdg/rtgauge/runs", True)
    monkeypatch.setenv("RTGAUGE_STORE", str(tmp_path / "variable %41"))
    assert place() == (tmp_path / "variable %41/runs", True)
    assert place(str(tmp_path / "argument")) == (tmp_path / "argument/runs", True)
    url = f"sqlite:///{tmp_path}/url/index.db"
    assert place(url) == (tmp_path / "url/runs", True)
    assert place(f"{url}?data={tmp_path}/data") == (tmp_path / "data/runs", False)
    assert place(f"sqlite://?data={tmp_path}/memory") == (tmp_path / "memory/runs", False)


@pytest.mark.parametrize("name", ["x.db", "x.sqlite", "x.sqlite3"])
def test_a_path_with_the_suffix_of_a_database_is_its_file(tmp_path: Path, name: str) -> None:
    with Store.open(str(tmp_path / "new" / name)) as store:
        assert store.path == tmp_path / "new" / "runs"
        assert store.runs() == []
    assert (tmp_path / "new" / name).is_file()
    (tmp_path / "folder.db").mkdir()
    with Store.open(str(tmp_path / "folder.db")) as store:
        assert store.path == tmp_path / "folder.db" / "runs"


def test_a_path_of_an_existing_file_is_never_taken_for_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_text("some words of a user, longer than nothing")
    with pytest.raises(StoreError, match="is not an rtgauge index"):
        Store.open(str(file))
    assert file.read_text().startswith("some words")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://x/y", "cannot be kept in 'mysql'"),
        ("nonsense://x", "cannot be kept in 'nonsense'"),
        ("://", "not the URL of a store"),
        ("postgresql://u:secret@h/d", "needs a folder"),
        ("sqlite://", "needs a folder"),
        ("sqlite:///x.db?data=a&data=b", "several folders"),
    ],
)
def test_urls_that_cannot_be_used(url: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        Store.open(url)
    assert "secret" not in caught.value.message
    assert caught.value.remedy


def test_postgresql_that_is_not_there(tmp_path: Path) -> None:
    """Without the driver, or without a server: an error of one line either way."""
    with pytest.raises(StoreError, match="cannot use the") as caught:
        Store.open(f"postgresql://u:secret@127.0.0.1:1/d?data={tmp_path}")
    assert isinstance(caught.value, RtgaugeError)
    assert "secret" not in caught.value.message
    assert "\n" not in caught.value.message


def test_a_folder_is_written_by_one_process_at_a_time(store: Store) -> None:
    with store.create(document()) as folder:
        assert RunFolder.open(folder.path) is None
    again = RunFolder.open(folder.path)
    assert again is not None
    again.close()
