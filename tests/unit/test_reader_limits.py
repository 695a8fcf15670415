# SPDX-License-Identifier: Apache-2.0
"""What a board, a bundle or an agent can make a reader keep is limited: n bytes cost at most 100 n
bytes of memory and a constant, from the stream to the reports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bundles
import rtgauge.stream.bodies
import streams
from rtgauge.errors import StoreError, TargetError
from rtgauge.report.results.labels import series_labels
from rtgauge.store import Store, StreamFile
from rtgauge.store.bundle import import_bundle
from rtgauge.store.folder import FLOOR
from rtgauge.stream import RecordType, StreamReader
from rtgauge.target.ssh import SshTarget
from rtgauge.target.ssh.connection import MESSAGES_MAX, Messages
from streams import Builder

CONSTANT = 48 << 20
"""Bytes for tables of fixed size and what the allocator keeps: at most 38 MiB were seen
(``tables``)."""
FACTOR = 100


def table(rows: int, columns: int = 1, **changes: Any) -> dict[str, Any]:
    names = [{"name": str(number), "unit": ""} for number in range(columns)]
    return {"name": "t", "columns": names, "rows": [[0] * columns] * rows} | changes


def ended(stream: Builder) -> str:
    reader = StreamReader()
    reader.feed(stream.data)
    return reader.finish().reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        (RecordType.TABLE, table(65_000, 0), "a table has 0 columns, not 1 to 64"),
        (RecordType.TABLE, table(0, 0), "a table has 0 columns, not 1 to 64"),
        (RecordType.TABLE, table(1, 65), "a table has 65 columns, not 1 to 64"),
        (RecordType.TABLE, table(10_001), "a table has more than 10000 rows"),
        (RecordType.TABLE, table(1, name="x" * 1001), "'name' has 1001 characters"),
        (RecordType.SERIES, streams.series_body(name="x" * 1001), "'name' has 1001 characters"),
        (RecordType.SERIES, streams.series_body(unit="x" * 1001), "'unit' has 1001 characters"),
        (RecordType.SERIES, streams.series_body(labels={"a": "x" * 1001}), "1000 characters in"),
        (
            RecordType.SERIES,
            streams.series_body(labels=dict.fromkeys(map(str, range(33)), "")),
            "there are more than 32 labels",
        ),
    ],
)
def test_records_that_are_too_large(kind: int, body: dict[str, Any], reason: str) -> None:
    assert reason in ended(Builder().add(kind, body))


def test_a_column_with_a_unit_may_have_text() -> None:
    """As the agent writes it: a thread without wake-ups in observe, stolen time in noise."""
    columns = [{"name": "thread", "unit": ""}, {"name": "stolen", "unit": "ns"}]
    rows = [[1, 500], [2, "none"], [3, "not known"], [4, ""]]
    body = {"name": "made up", "columns": columns, "rows": rows}
    assert ended(Builder().add(RecordType.TABLE, body).trailer()) == ""


def test_records_at_the_limits() -> None:
    stream = Builder().add(RecordType.TABLE, table(10_000)).add(RecordType.TABLE, table(1, 64))
    texts = {"name": "x" * 1000, "unit": "x" * 1000, "policy": "é" * 1000}
    stream.series(0, labels=dict.fromkeys(map(str, range(32)), "x" * 1000), **texts)
    assert ended(stream.trailer()) == ""


@pytest.mark.parametrize(
    ("name", "most", "kind", "body", "reason"),
    [
        ("CELLS_LIMIT", 50, RecordType.TABLE, table(10), "more than 50 values in its tables"),
        ("TABLES_LIMIT", 5, RecordType.TABLE, table(1), "more than 5 tables"),
        (
            "VERDICTS_LIMIT", 5, RecordType.VERDICT,
            {"rule": "", "result": "pass", "evidence": "", "remedy": ""}, "more than 5 tests",
        ),
        ("KEPT_LIMIT", 100, RecordType.ENVIRONMENT, {"facts": {}}, "more than 100 bytes of facts"),
    ],
)  # fmt: skip
def test_what_a_stream_makes_a_reader_keep(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int, kind: int, body: Any, reason: str
) -> None:
    monkeypatch.setattr(rtgauge.stream.bodies, name, most)
    stream = Builder()
    for _ in range(5):
        stream.add(kind, body)
    assert "no trailer" in ended(stream)
    for _ in range(5):
        stream.add(kind, body)
    assert reason in ended(stream)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("most", "names", "reason"),
    [
        (256, lambda one: {"temperature_mc": {str(one): 1}}, "256 temperature sensors"),
        (4096, lambda one: {"cpus": [one]}, "4096 CPUs"),
    ],
)
def test_what_is_watched_beside_is_limited(most: int, names: Any, reason: str) -> None:
    """Reports have an entry for each, however short the names are."""
    stream = Builder()
    for one in range(most):
        stream.add(RecordType.AMBIENCE, streams.ambience_body(**names(one)))
        stream.add(RecordType.AMBIENCE, streams.ambience_body(**names(0)))
    assert "no trailer" in ended(stream)
    stream.add(RecordType.AMBIENCE, streams.ambience_body(**names(most)))
    assert f"the stream has more than {reason}" in ended(stream)


def test_sensors_of_all_steps_of_a_bundle_are_limited(tmp_path: Path) -> None:
    """Each step within the limit of a stream, with other names."""
    with Store.open(str(tmp_path / "one")) as store:
        data = Builder().series(0).trailer().data
        files = bundles.files_of(store.path / bundles.carry_out(store, data=data))

    def five_steps(document: dict[str, Any]) -> None:
        first = document["steps"][0]
        document["steps"] = [first | {"step": n, "folder": f"steps/{n:03}"} for n in range(5)]

    files = bundles.with_json(files, "run.json", five_steps)
    for step in range(5):
        names = {str(one): 1 for one in range(256 * step, 256 * step + 256)}
        stream = Builder().series(0)
        stream.add(RecordType.AMBIENCE, streams.ambience_body(temperature_mc=names))
        files[f"steps/{step:03}/records.cbor"] = stream.trailer().data
        files[f"steps/{step:03}/seal.json"] = files["steps/000/seal.json"]
    (tmp_path / "b.rtgauge").write_bytes(bundles.pack(files))
    with Store.open(str(tmp_path / "two")) as store, pytest.raises(StoreError, match="1024 temp"):
        import_bundle(store, tmp_path / "b.rtgauge")


@pytest.mark.slow
def test_a_bundle_with_tables_without_columns_is_refused(tmp_path: Path) -> None:
    stream = Builder().series(0)
    with Store.open(str(tmp_path / "one")) as store:
        files = bundles.files_of(store.path / bundles.carry_out(store, data=stream.data))
    for _ in range(16):
        stream.add(RecordType.TABLE, table(65_000, 0))
    files["steps/000/records.cbor"] = stream.data
    (tmp_path / "b.rtgauge").write_bytes(bundles.pack(files))
    with Store.open(str(tmp_path / "two")) as store, pytest.raises(StoreError, match="0 columns"):
        import_bundle(store, tmp_path / "b.rtgauge")


def many(kind: str) -> Builder:
    """As many small records as fit the limits, or some hundred thousand bytes."""
    stream = Builder().series(0)
    for number in range(10_000):
        match kind:
            case "tables" if number < 10:
                stream.add(RecordType.TABLE, table(10_000))
            case "empty tables" if number < 1000:
                stream.add(RecordType.TABLE, table(0))
            case "rules":
                rule = {"rule": "", "result": "pass", "evidence": "", "remedy": ""}
                stream.add(RecordType.VERDICT, rule)
            case "facts" if number < 200:
                names = (f"{one:x}" for one in range(number * 1000, (number + 1) * 1000))
                stream.add(RecordType.ENVIRONMENT, {"facts": dict.fromkeys(names)})
            case "settings":
                one = dict.fromkeys(("name", "asked", "reason"), "")
                stream.add(RecordType.SETTING, one | {"before": None, "effective": None})
            case "series" if 0 < number < 4000:
                stream.series(number, labels={})
            case "events":
                stream.event(f"{number % 500:x}", 0)
            case "messages":
                stream.event("message", 0, **{f"{one:x}": 0 for one in range(100)}, text="")
    return stream.trailer()


@pytest.mark.parametrize(
    "kind",
    ["tables", "empty tables", "rules", "facts", "settings", "series", "events", "messages"],
)
@pytest.mark.slow
def test_n_bytes_cost_at_most_100_n_of_memory(tmp_path: Path, kind: str) -> None:
    """All formats but PDF, which another program makes. The peak of the process is compared with
    its memory after the reports of a small stream."""
    data = many(kind).data
    small = Builder().series(0).samples(0, 0, [1] * 500).trailer().data
    (tmp_path / "small").write_bytes(small)
    (tmp_path / "stream").write_bytes(data)
    program = (
        "import re, resource; from pathlib import Path\n"
        "import bundles, extremes\n"
        "from rtgauge import report\n"
        "from rtgauge.store import Store\n"
        "formats = [one for one in report.FORMATS if one != '.pdf']\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30,) * 2)\n"
        "def resident(name):\n"
        "    status = Path('/proc/self/status').read_text()\n"
        "    return int(re.search(rf'{name}:\\s+(\\d+) kB', status)[1]) * 1024\n"
        "for name in 'small', 'stream':\n"
        "    Path('/proc/self/clear_refs').write_text('5')\n"  # the peak begins here
        "    before = resident('VmRSS')\n"
        "    with Store.open(f'store-{name}') as store:\n"
        "        run = bundles.carry_out(store, data=Path(name).read_bytes())\n"
        "        assert store.get(run).steps[0].end.complete, store.get(run).steps[0].end\n"
        "        extremes.follow(store.get(run), formats)\n"
        "print(resident('VmHWM') - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=500, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) <= CONSTANT + FACTOR * len(data)


def test_labels_of_many_series_are_found_in_one_pass() -> None:
    """The CPU of each series is looked at so often, however many there are."""
    looks = 0

    class Cpu(int):
        def __hash__(self) -> int:
            nonlocal looks
            looks += 1
            return super().__hash__()

    series = [{"cpu": Cpu(at), "labels": {}, "name": "x", "thread": -1} for at in range(3000)]
    assert series_labels(series) == [f"CPU {at}" for at in range(3000)]
    assert looks <= 4 * len(series)


def test_a_stream_leaves_space_on_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with a reason and its remedy; what was written before stays."""
    free = FLOOR + 100
    true = os.fstatvfs

    def shrinking(file: int) -> os.statvfs_result:
        size = os.fstat(file).st_size
        fields = list(true(file)[:10])
        fields[1], fields[4] = 1, free - size  # f_frsize, f_bavail
        return os.statvfs_result(fields)

    monkeypatch.setattr(os, "fstatvfs", shrinking)
    with StreamFile(tmp_path / "stream") as stream:
        stream.write(b"x" * 60)
        with pytest.raises(StoreError, match="less than 64 MiB would remain free") as found:
            stream.write(b"x" * 60)
        assert "free some space there" in found.value.remedy
        stream.write(b"x" * 40)
    assert (tmp_path / "stream").read_bytes() == b"x" * 100


def test_what_ssh_writes_is_kept_at_its_ends_alone() -> None:
    messages = Messages()
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os\nos.write(2, b'first\\n')\nfor _ in range(3000): os.write(2, b'x' * 10000)\n"
            "os.write(2, b'\\nlast\\n')",
        ],
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stderr is not None
    messages.follow(process.stderr)
    assert process.wait(60) == 0
    messages.wait(60)
    text = messages.text()
    assert text.startswith("first\nxxx")
    assert text.endswith("xxx\nlast\n")
    assert f"({30_000_012 - 2 * MESSAGES_MAX} bytes left out)" in text
    assert len(text) < 2 * MESSAGES_MAX + 100


def test_what_an_error_repeats_of_ssh_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nprintf '%030000d' 0 >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(TargetError, match="cannot be reached: 000") as caught:
        SshTarget("//board")
    assert len(caught.value.message) < 600
