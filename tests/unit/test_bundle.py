# SPDX-License-Identifier: Apache-2.0
"""Bundles: out, in, again, and everything that somebody who means harm may put into one."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bundles
import fuzz_bundle
import rtgauge.store.bundle
import streams
from bundles import RUN, altered, member, pack, with_json
from conftest import SOURCES, Run
from rtgauge.errors import RtgaugeError, StoreError, UsageError
from rtgauge.store import Store
from rtgauge.store.bundle import Bundle, Entry, export_run, header, import_bundle
from rtgauge.store.folder import DOCUMENT
from rtgauge.store.foreign import KEPT_LIMIT, RUN_SENSORS_LIMIT, _Kept, _load, _TooLarge, _Wrong
from rtgauge.store.parquet import ParquetReader, Thrift
from rtgauge.store.seal import SEAL
from rtgauge.stream import Ambience, Gaps, RecordType, Span, Verdict

Files = dict[str, bytes]
SERIES = "steps/000/series-0.parquet"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "other")) as opened:
        yield opened


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The files of a true run."""
    with Store.open(str(tmp_path_factory.mktemp("true"))) as store:
        bundles.carry_out(store)
        return bundles.files_of(store.path / RUN)


# --- out and in -----------------------------------------------------------------------------------


def test_out_and_in_again(store: Store, other: Store, tmp_path: Path) -> None:
    run = store.get(bundles.carry_out(store))
    bundle = export_run(run, tmp_path / "a.rtgauge")
    assert import_bundle(other, tmp_path / "a.rtgauge") == (bundle, True)
    assert bundles.files_of(other.path / RUN) == bundles.files_of(store.path / RUN)
    (row,) = other.runs()
    assert row == store.runs()[0]
    assert import_bundle(other, tmp_path / "a.rtgauge") == (bundle, False)
    assert import_bundle(store, tmp_path / "a.rtgauge") == (bundle, False)
    assert os.listdir(other.path) == [RUN]


@pytest.mark.parametrize("name", [SERIES, "steps/000/records.cbor", "steps/000/seal.json"])
def test_a_damaged_run_is_not_exported(store: Store, tmp_path: Path, name: str) -> None:
    run = store.get(bundles.carry_out(store))
    (run.path / name).write_bytes((run.path / name).read_bytes()[:-9])
    with pytest.raises(StoreError) as refused:
        export_run(store.get(RUN), tmp_path / "a.rtgauge")
    assert "restore" in refused.value.remedy
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".rtgauge"] == []


def test_a_run_of_a_newer_agent_is_not_called_damaged(
    store: Store, other: Store, files: Files, tmp_path: Path
) -> None:
    run = store.get(bundles.carry_out(store, catalogue={"x": 1}))
    (tmp_path / "x").write_bytes(_json("run.json", catalogue={"x": 1})(files))
    for carry in (
        lambda: export_run(run, tmp_path / "a.rtgauge"),
        lambda: import_bundle(other, tmp_path / "x"),
    ):
        with pytest.raises(StoreError, match=f"^the catalogue of run {RUN} is of a newer") as found:
            carry()
        assert "use the newer rtgauge that wrote it" in found.value.remedy


def test_a_run_beyond_the_limits_is_not_called_damaged(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.get(bundles.carry_out(store))
    monkeypatch.setattr("rtgauge.store.foreign.STEP_LIMIT", 1)
    said = f"^run {RUN} cannot be exported: it has 2 steps, more than 1$"
    with pytest.raises(StoreError, match=said) as found:
        export_run(run, tmp_path / "a.rtgauge")
    assert "several runs" in found.value.remedy
    monkeypatch.undo()
    for limit, said in (
        ("foreign.JSON_LIMIT", "its run.json is too large"),
        ("bundle.FILES_LIMIT", "it has [0-9]+ files, too many for a bundle"),
        ("bundle.MANIFEST_LIMIT", "it has [0-9]+ files, too many for a bundle"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"rtgauge.store.{limit}", 1)
            with pytest.raises(StoreError, match=f"^run {RUN} cannot be exported: {said}$"):
                export_run(run, tmp_path / "a.rtgauge")


@pytest.mark.parametrize(("name", "remedy"), [(DOCUMENT, "several runs"), (SEAL, "in this store")])
def test_the_remedy_for_a_large_file_makes_it_smaller_or_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, remedy: str
) -> None:
    """A step has one seal, however many steps there are."""
    monkeypatch.setattr("rtgauge.store.foreign.JSON_LIMIT", 1)
    (tmp_path / name).write_text("{}")
    with pytest.raises(_TooLarge, match=f"its {name} is too large") as found:
        _load(tmp_path / name)
    assert remedy in found.value.remedy


def test_a_file_of_the_run_that_cannot_be_read_is_not_the_bundle(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.get(bundles.carry_out(store))
    inventory = rtgauge.store.bundle._inventory

    def gone(path: Path, *words: Any) -> Any:
        found = inventory(path, *words)
        (path / SERIES).unlink()
        return found

    monkeypatch.setattr("rtgauge.store.bundle._inventory", gone)
    with pytest.raises(StoreError, match=f"cannot read .*{SERIES}") as caught:
        export_run(run, tmp_path / "a.rtgauge")
    assert "rtgauge export" not in caught.value.remedy
    assert not (tmp_path / "a.rtgauge").exists()


def test_its_bytes_depend_on_the_run_alone(store: Store, other: Store, tmp_path: Path) -> None:
    run = store.get(bundles.carry_out(store))
    export_run(run, tmp_path / "a.rtgauge")
    for at, path in enumerate(sorted(run.path.rglob("*"))):
        os.utime(path, (at, at))
        path.chmod(0o700)
    (run.path / "steps" / "000" / "series-9.parquet.tmp").write_bytes(b"left behind")
    (run.path / "notes.txt").write_text("mine")
    export_run(run, tmp_path / "b.rtgauge")
    import_bundle(other, tmp_path / "a.rtgauge")
    export_run(other.get(RUN), tmp_path / "c.rtgauge")
    data = (tmp_path / "a.rtgauge").read_bytes()
    assert (tmp_path / "b.rtgauge").read_bytes() == data
    assert (tmp_path / "c.rtgauge").read_bytes() == data
    assert data == pack(bundles.files_of(other.path / RUN))


def test_it_is_as_readable_as_the_umask_allows(store: Store, tmp_path: Path) -> None:
    run = store.get(bundles.carry_out(store))
    before = os.umask(0o077)
    try:
        export_run(run, tmp_path / "a.rtgauge")
    finally:
        os.umask(before)
    assert (tmp_path / "a.rtgauge").stat().st_mode & 0o777 == 0o600


def test_other_programs_read_it(store: Store, tmp_path: Path) -> None:
    """Python's tarfile and the manifest's recipe, as docs/formats/bundles.md has them."""
    run = store.get(bundles.carry_out(store))
    bundle = export_run(run, tmp_path / "a.rtgauge")
    with tarfile.open(tmp_path / "a.rtgauge", "r:") as tar:
        members = tar.getmembers()
        assert all(one.isreg() and one.mtime == 0 and one.mode == 0o644 for one in members)
        found = {one.name: tar.extractfile(one).read() for one in members}  # type: ignore[union-attr]
    manifest = json.loads(found.pop(f"{RUN}/manifest.json"))
    assert {name.removeprefix(f"{RUN}/"): data for name, data in found.items()} == (
        bundles.files_of(run.path)
    )
    listing = "".join(
        f"{sha256(data).hexdigest()} {len(data)} {name.removeprefix(f'{RUN}/')}\n"
        for name, data in sorted(found.items())
    )
    assert manifest["digest"] == bundle.digest
    assert manifest["digest"] == "sha256:" + sha256(listing.encode()).hexdigest()


@pytest.mark.slow
@given(size=st.one_of(st.integers(0, 2**42), st.sampled_from([8**11 - 1, 8**11])))
@settings(max_examples=50)
def test_headers_are_as_tarfile_reads_them(size: int) -> None:
    info = tarfile.TarInfo.frombuf(header("a/b", size), "utf-8", "strict")
    assert (info.name, info.size, info.mtime, info.uid, info.isreg()) == ("a/b", size, 0, 0, True)


@given(
    values=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=60),
    label=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
    cut=st.integers(0, 400),
)
@settings(max_examples=25)
@pytest.mark.slow
def test_any_run(
    tmp_path_factory: pytest.TempPathFactory, values: list[int], label: str, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    builder = streams.Builder().series(0)
    if values:
        builder.samples(0, 0, values)
    data = builder.event("missed", 1, series=0, index=len(values), count=2).data
    with Store.open(str(folder / "a")) as one, Store.open(str(folder / "b")) as two:
        bundles.carry_out(one, data=data[: len(data) - cut], label=label)
        bundle = export_run(one.get(RUN), folder / "x")
        assert import_bundle(two, folder / "x") == (bundle, True)
        assert bundles.files_of(one.path / RUN) == bundles.files_of(two.path / RUN)


def test_an_interrupted_run_is_sealed_first(store: Store, other: Store, tmp_path: Path) -> None:
    with store.create({"state": "running", "target": "local", "steps": [{"step": 0}]}) as folder:
        with folder.append_stream(0) as stream:
            stream.write(streams.one_of_each().data)
        with pytest.raises(StoreError, match="is being carried out"):
            export_run(store.get(folder.id), tmp_path / "x")
    assert not (tmp_path / "x").exists()
    export_run(store.get(folder.id), tmp_path / "x")
    import_bundle(other, tmp_path / "x")
    assert other.runs()[0].state == store.runs()[0].state != "running"
    assert len(next(iter(other.get(folder.id).steps[0].series[0].values()))) == 40


def test_another_run_of_the_same_id(store: Store, other: Store, tmp_path: Path) -> None:
    bundles.carry_out(store)
    bundles.carry_out(other, label="another label")
    export_run(store.get(RUN), tmp_path / "x")
    before = bundles.files_of(other.path)
    with pytest.raises(StoreError, match=r"another run .* contents differ") as caught:
        import_bundle(other, tmp_path / "x")
    assert "delete" in caught.value.remedy
    assert bundles.files_of(other.path) == before


def test_a_file_that_cannot_be_written(store: Store, tmp_path: Path) -> None:
    run = store.get(bundles.carry_out(store))
    with pytest.raises(StoreError, match="cannot write") as caught:
        export_run(run, tmp_path / "none" / "x")
    assert caught.value.remedy == "name a file elsewhere: rtgauge export RUN FILE"
    (run.path / SERIES).chmod(0)
    if os.geteuid() != 0:
        with pytest.raises(StoreError, match="cannot read"):
            export_run(run, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_bundle_whose_disk_fails(
    store: Store, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(io.BytesIO):
        def read(self, _size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    (tmp_path / "x").write_bytes(pack(files))
    monkeypatch.setattr("rtgauge.store.bundle.open", lambda *_, **__: Failing(), raising=False)
    with pytest.raises(StoreError, match=r"cannot read .*x: Input/output error") as caught:
        import_bundle(store, tmp_path / "x")
    assert caught.value.remedy == "check the disk and the path"


@pytest.mark.parametrize("size", [10, 35, 60, 400, 511, 512, 4000])
def test_a_short_text_is_not_called_truncated(store: Store, tmp_path: Path, size: int) -> None:
    """Such as a histogram of cyclictest."""
    text = "".join(f"{at:06} {3 * at:06}\n" for at in range(400))
    (tmp_path / "x").write_text(text[:size])
    with pytest.raises(StoreError, match="not a bundle of a run") as caught:
        import_bundle(store, tmp_path / "x")
    assert "rtgauge export" in caught.value.remedy


def test_what_is_no_bundle(store: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", "pipe", ""):
        with pytest.raises(UsageError) as caught:
            import_bundle(store, tmp_path / name)
        assert "rtgauge export" in caught.value.remedy
    for data in (b"", b"x" * 100, b"PK\x03\x04" + bytes(600), bytes(2048), os.urandom(4096)):
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(StoreError, match=r"not a bundle of a run|it is truncated"):
            import_bundle(store, tmp_path / "x")


def test_a_file_of_another_kind_is_told_the_kinds(rtgauge: Run) -> None:
    """Import also reads captures and results of Xenomai's programs."""
    Path("max.txt").write_text(
        "T: 0 ( 4711) P:80 I:1000 C: 2000 Min: 3 Act: 5 Avg: 6 Max: 91\n" * 20
    )
    other = rtgauge("import", "max.txt")
    assert other.code == 1 and "it is not a bundle of a run" in other.err
    assert "rtgauge export" in other.err and "capture" in other.err and "Xenomai" in other.err
    missing = rtgauge("import", "night.sr")
    assert missing.code == 2 and "check the path" in missing.err
    assert "output of the program" not in missing.err


def test_no_room(
    store: Store, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(pack(files))
    monkeypatch.setattr(rtgauge.store.bundle, "RESERVE", 2**60)
    with pytest.raises(StoreError, match=r"needs 0 MiB, but .* has only 0 MiB of free space"):
        import_bundle(store, tmp_path / "x")
    assert not store.path.exists() or not os.listdir(store.path)


KILLED = """
import os, sys
from pathlib import Path
from rtgauge.store import Store, bundle
where, left = sys.argv[3], [int(sys.argv[4])]
module = os if where == "fsync" else bundle
true = getattr(module, where)
def kill(*arguments):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), 9)
    return true(*arguments)
setattr(module, where, kill)
with Store.open(sys.argv[1]) as store:
    store.path.mkdir()
    bundle.import_bundle(store, Path(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("where", "when"), [("fsync", 3), ("check_run", 1)])
def test_killed_while_importing(tmp_path: Path, files: Files, where: str, when: int) -> None:
    (tmp_path / "x").write_bytes(pack(files))
    folder = str(tmp_path / "store")
    words = [sys.executable, "-c", KILLED, folder, str(tmp_path / "x"), where, str(when)]
    done = subprocess.run(words, check=False, env={"PYTHONPATH": str(SOURCES)}, timeout=60)
    assert done.returncode == -9
    assert os.listdir(tmp_path / "store" / "runs") == [f".{RUN}.new"]
    with Store.open(folder) as store:
        assert import_bundle(store, tmp_path / "x")[1]  # over what is left
        store.delete(RUN)
        (store.path / f".{RUN}.new").mkdir()
        assert store.runs() == []
        assert os.listdir(store.path) == []


def test_given_up_while_importing(
    store: Store, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    (tmp_path / "x").write_bytes(pack(files))
    monkeypatch.setattr(rtgauge.store.bundle, "check_run", stop)
    with pytest.raises(KeyboardInterrupt):
        import_bundle(store, tmp_path / "x")
    assert os.listdir(store.path) == []


def test_the_folder_of_another_import_stays(
    other: Store, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can begin as soon as the run is in its place."""
    new = other.path / f".{RUN}.new"
    sync = rtgauge.store.files.sync_folder

    def sync_late(folder: Path) -> None:
        sync(folder)
        if folder == other.path:
            new.mkdir()
            (new / "file").touch()

    (tmp_path / "x").write_bytes(pack(files))
    monkeypatch.setattr(rtgauge.store.bundle, "sync_folder", sync_late)
    import_bundle(other, tmp_path / "x")
    assert (new / "file").exists()


# --- hostile --------------------------------------------------------------------------------------


def _manifest(**changes: Any) -> Callable[[Files], bytes]:
    def make(files: Files) -> bytes:
        document = json.loads(bundles.bundle_of(files).manifest) | changes
        return pack(files, manifest=json.dumps(document, indent=1).encode() + b"\n")

    return make


def _entry(at: int, **changes: Any) -> Callable[[Files], bytes]:
    def make(files: Files) -> bytes:
        document = json.loads(bundles.bundle_of(files).manifest)
        document["files"][at] |= changes
        return pack(files, manifest=json.dumps(document, indent=1).encode() + b"\n")

    return make


def _named(name: str) -> Callable[[Files], bytes]:
    """An additional file, true in the manifest."""
    return lambda files: pack({**files, name: b"x"})


def _first(at: int, data: bytes) -> Callable[[Files], bytes]:
    """Other bytes in the header of the first file, its checksum true."""

    def make(files: Files) -> bytes:
        name = sorted(files)[0]
        whole = pack(files)
        place = whole.index(f"{RUN}/{name}".encode())
        head = altered(whole[place : place + 512], at, data)
        return whole[:place] + head + whole[place + 512 :]

    return make


def _json(
    name: str, at: Callable[[Any], Any] = lambda document: document, /, **changes: Any
) -> Callable[[Files], bytes]:
    """A document with changes in the part that ``at`` gives."""
    return lambda files: pack(with_json(files, name, lambda found: at(found).update(changes)))


_step = partial(_json, "run.json", lambda document: document["steps"][0])
_sealed = partial(_json, "steps/000/seal.json", lambda document: document["series"][0])
_totals = partial(_json, "steps/000/seal.json", lambda document: document["series"][0]["totals"])


def _parquet(**options: Any) -> Callable[[Files], bytes]:
    """The samples of a series, written otherwise than sealing writes them."""

    def make(files: Files) -> bytes:
        table = pq.read_table(io.BytesIO(files[SERIES]))
        change = options.get("change", lambda table: table)
        sink = io.BytesIO()
        pq.write_table(change(table), sink, **{k: v for k, v in options.items() if k != "change"})
        return pack({**files, SERIES: sink.getvalue()})

    return make


def _backwards(table: pa.Table) -> pa.Table:
    schema = table.schema
    return pa.table([table.column(0)[::-1], table.column(1), table.column(2)], schema=schema)


def _dropped(name: str) -> Callable[[Files], bytes]:
    return lambda files: pack({key: data for key, data in files.items() if key != name})


def _cut(by: int) -> Callable[[Files], bytes]:
    return lambda files: pack(files)[:-by]


def _flip(name: str) -> Callable[[Files], bytes]:
    """A file of the same size that is not what the manifest says."""

    def make(files: Files) -> bytes:
        manifest = bundles.bundle_of(files).manifest
        data = files[name]
        return pack({**files, name: data[:-1] + bytes([data[-1] ^ 1])}, manifest=manifest)

    return make


def _varint(number: int) -> bytes:
    """A whole number above 0 as Thrift's compact protocol has it."""
    number *= 2
    data = b""
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])


def _bomb(files: Files) -> bytes:
    """A page that claims to unpack to 2 GiB."""
    data = files[SERIES]
    at = pq.read_metadata(io.BytesIO(data)).row_group(0).column(2).data_page_offset
    thrift = Thrift(data[at:])
    numbers = thrift.struct()
    length = thrift.at
    old = data[at : at + length]
    before = b"\x15\x00\x15" + _varint(numbers[2]) + b"\x15" + _varint(numbers[3])
    assert old.startswith(before)
    # The larger number takes more bytes; the page's own become as many less.
    more = 5 - len(_varint(numbers[2]))
    huge = b"\x15\x00\x15" + _varint(2**31 - 1) + b"\x15" + _varint(numbers[3] - more)
    huge += old[len(before) :]
    assert len(huge) == length + more and Thrift(huge).struct()[2] == 2**31 - 1
    return pack({**files, SERIES: data[:at] + huge + data[at + length + more :]})


def _in_between(files: Files) -> bytes:
    manifest = bundles.bundle_of(files).manifest
    data = member("manifest.json", manifest)
    assert data[-1] == 0 and len(manifest) % 512
    return data[:-1] + b"x" + pack(files)[len(data) :]


def _twice(files: Files) -> bytes:
    document = json.loads(bundles.bundle_of(files).manifest)
    document["files"].insert(0, document["files"][0])
    return pack(files, manifest=json.dumps(document, indent=1).encode() + b"\n")


HOSTILE: Mapping[str, tuple[Callable[[Files], bytes], str]] = {
    # names
    "a path upwards": (_named("../evil"), "'../evil', which is not a file of a run"),
    "a path upwards inside": (_named("steps/000/../../../evil"), "is not a file of a run"),
    "an absolute name": (_named("/etc/passwd"), "'/etc/passwd', which is not a file of a run"),
    "a foreign name": (_named("steps/000/setup.py"), "is not a file of a run"),
    "a stream": (_named("steps/000/stream.cbor"), "is not a file of a run"),
    "a second name of a step": (_named("steps/0000/seal.json"), "is not a file of a run"),
    "a line in a name": (_named("run.json\n"), "not JSON"),
    "digits of another script": (_entry(0, name="steps/٠٠٠/seal.json"), "is not a file of a run"),
    "a terminal's command": (_entry(0, name="\x1b]0;evil\x07"), r"'\\x1b]0;evil\\x07'"),
    "no name": (_entry(0, name=None), "None, which is not a file of a run"),
    "a name twice": (_twice, "names a file twice"),
    "another order": (
        lambda files: pack(
            files,
            manifest=Bundle(RUN, bundles.bundle_of(files).entries[::-1]).manifest,
        ),
        "not in order",
    ),
    "a step that run.json has not": (
        lambda files: pack(
            {**files, **{n.replace("000", "007"): d for n, d in files.items() if "000" in n}}
        ),
        r"a step that is missing from its run\.json$",
    ),
    # headers
    "a symbolic link": (_first(156, b"2" + b"/etc/passwd"), "environment.cbor is a link"),
    "a hard link": (_first(156, b"1" + b"run.json"), "is a link in it"),
    "a device": (_first(156, b"4"), "is a device in it"),
    "a folder": (_first(156, b"5"), "is a folder in it"),
    "a sparse file": (_first(156, b"S"), "the header of environment.cbor"),
    "another name in the header": (_first(0, b"../" + b"x" * 60), "where environment.cbor should"),
    "a prefix in the header": (_first(345, b"/etc"), "'/etc0192"),
    "another size in the header": (_first(124, b"77777777777"), "the header of"),
    "set-user-id": (_first(100, b"0004755"), "the header of"),
    # the manifest
    "a newer version": (_manifest(version=2), "has version 2, but this rtgauge reads up to 1"),
    "no version": (_manifest(version=True), "does not have a valid version"),
    "another format": (_manifest(format="rtgauge-run"), "not a bundle of a run"),
    "another run": (_manifest(run=RUN[:-1] + "2"), "belongs to another run"),
    "a foreign digest": (_manifest(digest="sha256:" + "0" * 64), "has a wrong digest"),
    "more in it": (_manifest(more=1), "not have the form that rtgauge writes"),
    "no files": (_manifest(files={}), "has no list of files"),
    "invalid files": (_manifest(files=[1]), "manifest is damaged"),
    "too many files": (_manifest(files=[{}] * 70_000), "more than 65536"),
    "a size below 0": (_entry(0, size=-1), "impossible size"),
    "a size beyond all": (_entry(0, size=2**60), "impossible size"),
    "a large document": (_entry(1, size=2**40), "more than 33554432"),
    "a larger size": (_entry(4, size=2**40), "has a wrong digest"),
    "no digest of a file": (_entry(0, sha256="0" * 63), "no valid SHA-256"),
    "a huge manifest": (
        lambda files: altered(header(f"{RUN}/manifest.json", 2**30), 0, b"") + pack(files)[512:],
        "has 1073741824 bytes",
    ),
    "no JSON": (lambda files: pack(files, manifest=b"{" * 100_000), "manifest is not JSON"),
    "no run.json": (_dropped("run.json"), "it has no run.json"),
    # the bytes
    "cut": (_cut(1), "it is truncated"),
    "cut in the middle": (_cut(3000), "it is truncated"),
    "longer": (lambda files: pack(files) + b"\0" * 512, "longer than its content"),
    "another end": (lambda files: pack(files)[:-1] + b"x", "its end is damaged"),
    "something in between": (_in_between, "data between its files"),
    "other samples": (_flip(SERIES), "differs from its manifest"),
    "another run.json": (_flip("run.json"), "differs from its manifest"),
    # run.json
    "the run.json of another run": (_json("run.json", id=RUN[:-1] + "2"), "belongs to another run"),
    "a newer run": (_json("run.json", version=2), "version 2, but this rtgauge reads up to 1"),
    "no run": (_json("run.json", format="x"), "not of the format"),
    "a run without an end": (_json("run.json", state="running"), "has not ended"),
    "an invalid state": (_json("run.json", state=["complete"]), "'state' of run.json"),
    "an invalid label": (_json("run.json", label={}), "'label' of run.json"),
    "a label with NUL": (_json("run.json", label="a\0b"), "contains a NUL"),
    "half a character": (_json("run.json", label="\ud800"), "contains text that is not UTF-8"),
    "no number": (_json("run.json", duration_s=float("nan")), "a number that is not finite"),
    "a number without end": (_json("run.json", plan={"x": 10**30}), "more than 64 bits"),
    "a length below 0": (_json("run.json", duration_s=-1), "is below 0"),
    "too deep": (
        lambda files: pack({**files, "run.json": b'{"a":' * 60 + b"1" + b"}" * 60}),
        "nested too deep",
    ),
    "a name twice in run.json": (
        lambda files: pack({**files, "run.json": b'{"a":1,' + files["run.json"][1:] + b'{"a":2}'}),
        "is not JSON",
    ),
    "an invalid environment": (_json("run.json", environment=[]), "'environment'"),
    "an invalid setting": (
        _json("run.json", environment={"settings": {"x": 1}}),
        "a setting is not a map",
    ),
    "invalid findings": (_json("run.json", findings=[{"level": "bad"}]), "unknown level"),
    "an invalid catalogue": (_json("run.json", catalogue={"x": 1}), "newer agent, or damaged"),
    "invalid steps": (_json("run.json", steps={}), "'steps'"),
    "a step twice": (_json("run.json", steps=[{"step": 0}] * 2), "step 1 occurs twice"),
    "a step below 0": (_step(step=-1), "is below 0"),
    "a step beyond all": (_step(step=10**12), r"a step that is missing from its run\.json$"),
    "an invalid parameter": (_step(parameters={"a": 1}), "is not text"),
    "a parameter that is a command": (_step(parameters={"a; reboot": "1"}), "proper name"),
    "an option that is two": (_step(run_options={"load --load-cmd": "x"}), "proper name"),
    "a measurement that is an option": (_step(measurement="--help"), "proper name"),
    "an invalid budget": (_step(budget_ns="1ms"), "'budget_ns'"),
    "an injection without a length": (_step(disturb="kthread"), "the injection of a step"),
    "an injection of no length": (_step(disturb="kthread:0:7ms"), "the injection of a step"),
    "an injection of any length": (_step(disturb="kthread:x:7ms"), "the injection of a step"),
    # seals and records
    "a newer seal": (_json("steps/000/seal.json", version=2), "reads up to 1"),
    "an invalid seal": (_json("steps/000/seal.json", series=[1]), "the seal of step 1"),
    "more samples than there are": (_sealed(rows=41), "it has 40 samples, but 41 were sealed"),
    "samples out of nothing": (_sealed(rows=2**40), "bytes cannot contain"),
    "text for a number": (_sealed(rows="40"), "'rows'"),
    "a name of another series": (_sealed(name="x"), "do not agree on series 0"),
    "another series": (_sealed(series=9), "different series"),
    "another maximum": (_sealed(max=1), "another maximum of series 0"),
    "no maximum": (_sealed(max=None), "another maximum of series 0"),
    "a series that serves another": (_sealed(companion=0), "do not agree on series 0"),
    "a longer time": (_totals(last_due_ns=10**15), "other times of series 0"),
    "another state at the end": (
        _json("steps/000/seal.json", trailer={"state": "failed", "reason": "", "remedy": ""}),
        "do not agree",
    ),
    "no seal": (_dropped("steps/000/seal.json"), "step 1 is not sealed"),
    "no records": (_dropped("steps/000/records.cbor"), "step 1 is not sealed"),
    "a complete step without data": (
        lambda files: pack({"run.json": files["run.json"]}),
        "step 1 is complete, but its data are missing",
    ),
    "no samples": (_dropped(SERIES), "are missing"),
    "samples of no series": (_named("steps/000/series-9.parquet"), "or do not belong there"),
    "damaged records": (
        lambda files: pack({**files, "steps/000/records.cbor": b"\x84" * 99}),
        "the records of step 1 are damaged",
    ),
    "records with samples": (
        lambda files: pack({**files, "steps/000/records.cbor": streams.one_of_each().data}),
        "records",
    ),
    # Parquet
    "no Parquet": (lambda files: pack({**files, SERIES: b"PAR1" * 9}), "not a Parquet file"),
    "a cut Parquet": (lambda files: pack({**files, SERIES: files[SERIES][:-9]}), "not a Parquet"),
    "a page that becomes 2 GiB": (_bomb, "claims to unpack to 2147483647"),
    "another compression": (_parquet(compression="gzip"), "the encoding of sealed"),
    "a dictionary": (_parquet(compression="zstd", use_dictionary=True), "the encoding of sealed"),
    "other columns": (
        _parquet(change=lambda table: table.select(["index", "value"])),
        "columns are not",
    ),
    "columns of text": (
        _parquet(change=lambda table: table.cast(
            pa.schema([pa.field(name, pa.string(), nullable=False) for name in table.column_names])
        )),
        "not whole numbers",
    ),
    "samples backwards": (
        _parquet(change=_backwards, compression="zstd", use_dictionary=False),
        "not in order",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bundles_are_refused(store: Store, files: Files, tmp_path: Path, name: str) -> None:
    make, why = HOSTILE[name]
    (tmp_path / "x").write_bytes(make(files))
    before = sorted(path for path in tmp_path.rglob("*") if path.suffix != ".db")
    with pytest.raises(StoreError, match=why) as caught:
        import_bundle(store, tmp_path / "x")
    assert caught.value.message.isprintable()
    assert caught.value.remedy
    assert store.runs() == []
    after = sorted(path for path in tmp_path.rglob("*") if path.suffix != ".db")
    assert [path for path in after if path not in before and path != store.path] == []


def test_the_true_bundle_is_not_refused(store: Store, files: Files, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(pack(files))
    assert import_bundle(store, tmp_path / "x")[1]


def test_limits_leave_room_for_long_runs() -> None:
    """54 h at 20 us on 64 CPUs, 2 bytes a sample; a hundred steps with as many series each."""
    samples = 54 * 3600 * 50_000 * 64
    assert 2 * samples < rtgauge.store.bundle.SIZE_LIMIT
    assert rtgauge.store.bundle.FILES_LIMIT > 100 * (64 * 2 + 2)
    entry = Entry("steps/000/series-100.parquet", 2**40, "0" * 64)
    bundle = Bundle(RUN, (entry,) * rtgauge.store.bundle.FILES_LIMIT)
    assert len(bundle.manifest) < rtgauge.store.bundle.MANIFEST_LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 1 << 17, (1 << 20) + 5])
@pytest.mark.parametrize("kind", ["alike", "random", "wide"])
def test_what_is_sealed_may_be_read(tmp_path: Path, rows: int, kind: str) -> None:
    random = np.random.default_rng(1)
    values = {
        "alike": np.zeros(rows, np.int32),
        "random": random.integers(-(2**31), 2**31, rows, dtype=np.int32),
        "wide": random.integers(-(2**31), 2**31, rows, dtype=np.int32),
    }[kind]
    stream = streams.Builder().series(0)
    for first in range(0, rows, 16000):
        stream.samples(0, first, values[first : first + 16000])
    if kind == "wide":
        stream.event("wide", 1, series=0, index=0, value=2**40)
    with Store.open(str(tmp_path / "s")) as store:
        bundles.carry_out(store, data=stream.data)
        path = store.path / RUN / SERIES
        with ParquetReader(path, rows) as reader:
            reader.check_pages()
        with pytest.raises(ValueError):
            ParquetReader(path, rows + 1)


@pytest.mark.slow
def test_no_byte_of_a_footer_causes_another_error(tmp_path: Path) -> None:
    """Whatever a damaged footer says is a ValueError, or does not matter."""
    stream = streams.Builder().series(0).samples(0, 0, streams.latencies(2000))
    with Store.open(str(tmp_path / "s")) as store:
        bundles.carry_out(store, data=stream.data)
        path = store.path / RUN / SERIES
        script = """
import sys
from pathlib import Path
from rtgauge.store.parquet import ParquetReader
path, copy = Path(sys.argv[1]), Path(sys.argv[1] + ".damaged")
data = bytearray(path.read_bytes())
refused = 0
footer = int.from_bytes(data[-8:-4], "little")
for at in range(len(data) - 8 - footer, len(data) - 8):
    true = data[at]
    for value in (0, 13, 14, 255, true ^ 1, true ^ 128, (true + 2) % 256):
        data[at] = value
        copy.write_bytes(data)
        try:
            with ParquetReader(copy, 2000) as reader:
                reader.check_pages()
        except ValueError:
            refused += 1
    data[at] = true
print(refused)
"""
        done = subprocess.run(
            [sys.executable, "-c", script, str(path)],
            capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) > 500


@pytest.mark.slow
def test_a_short_run_of_the_fuzzer(tmp_path: Path, files: Files) -> None:
    assert fuzz_bundle.pack_quickly(files) == pack(files)
    tally = fuzz_bundle.fuzz(7, 0, 1000, tmp_path, fuzz_bundle.FOLLOW)
    assert not tally.how, tally.how
    assert tally.executions == tally.outcomes.total() == 1000
    assert tally.thorough > 0 and tally.outcomes["accepted in place"] > 10
    assert len(tally.outcomes) > 50  # it reaches many places of the import


# --- the command line -----------------------------------------------------------------------------


@pytest.mark.slow
def test_on_the_command_line(rtgauge: Run) -> None:
    assert rtgauge("run", "timer", "--target", "fake", "--for", "1s").code == 0
    run = rtgauge("runs", "--json").json()["runs"][0]["id"]
    done = rtgauge("export", "last", "x.rtgauge")
    assert (done.code, done.out) == (0, "") and run[:13] in done.err
    out = rtgauge("export", run, "y.rtgauge", "--json").json()
    assert Path("x.rtgauge").read_bytes() == Path("y.rtgauge").read_bytes()
    assert (out["format"], out["run"], out["path"]) == ("rtgauge-exported", run, "y.rtgauge")
    Path("y.rtgauge").write_text("mine")
    done = rtgauge("export", run, "y.rtgauge")
    assert done.code == 2 and "already exists" in done.err and "--force" in done.err
    assert Path("y.rtgauge").read_text() == "mine"
    assert rtgauge("export", run, "y.rtgauge", "--force").code == 0
    assert Path("x.rtgauge").read_bytes() == Path("y.rtgauge").read_bytes()
    done = rtgauge("import", "x.rtgauge", "--json")
    assert done.json() == {**out, "format": "rtgauge-imported", "path": "x.rtgauge", "new": False}
    done = rtgauge("import", "x.rtgauge")
    assert done.code == 0 and "which is unchanged" in done.err
    done = rtgauge("import", "x.rtgauge", "--label", "mine", "--store", "other")
    assert done.code == 2 and "--label does not apply to x.rtgauge" in done.err
    assert "omit --label. It is for a recording of marks" in done.err
    shown = rtgauge("show", run, "--json").json()
    assert rtgauge("import", "x.rtgauge", "--store", "other", "--json").json()["new"]
    assert not shown["runs"][0]["imported"]
    shown["runs"][0]["imported"] = True
    assert rtgauge("show", run, "--store", "other", "--json").json() == shown


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["import", "none"], 2, "cannot read none"),
        (["import", "."], 2, "directory"),
        (["import", "bad"], 1, "bad cannot be imported: it is not a bundle of a run"),
        (["export", "last"], 2, "no runs in the store"),
        (["export", "last", "x"], 2, "no runs in the store"),
        (["export", "0000", "no/x"], 2, "there is no run '0000'"),
    ],
)
def test_errors_are_one_line_and_a_remedy(
    rtgauge: Run, words: list[str], code: int, message: str
) -> None:
    Path("bad").write_bytes(b"x")
    done = rtgauge(*words)
    assert (done.code, done.out) == (code, "")
    lines = done.err.splitlines()
    assert len(lines) == 2 and message in lines[0].lower() and lines[1].startswith("  ")


def test_errors_are_ours(store: Store) -> None:
    assert issubclass(StoreError, RtgaugeError)
    with pytest.raises(RtgaugeError):
        import_bundle(store, Path("none"))


def test_what_comes_every_second_is_no_reason_to_refuse() -> None:
    """Weeks have more such bytes than may be kept, so they are not kept."""
    kept = _Kept()
    record = Ambience(1, 0, (), (), (), (), None, {})
    kept(Span(record, RecordType.AMBIENCE, 1, 0, KEPT_LIMIT + 1))
    gaps = Gaps(1, 0, 0, np.ones((1, 2), np.int32))
    kept(Span(gaps, RecordType.GAPS, 1, 0, KEPT_LIMIT + 1))
    verdict = Verdict(1, "", "pass", "", "")
    with pytest.raises(_Wrong, match="too many"):
        kept(Span(verdict, RecordType.VERDICT, 1, 0, KEPT_LIMIT + 1))


def test_fewer_steps_do_not_have_fewer_sensors() -> None:
    sensors = {str(number): 0 for number in range(RUN_SENSORS_LIMIT + 1)}
    record = Ambience(1, 0, (), (), (), (), None, sensors)
    with pytest.raises(_TooLarge, match="temperature sensors") as found:
        _Kept()(Span(record, RecordType.AMBIENCE, 1, 0, 9))
    assert "steps" not in found.value.remedy
