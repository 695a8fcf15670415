# SPDX-License-Identifier: Apache-2.0
"""Texts from outside: what cannot be encoded ends no command, and what a terminal would obey does
not reach one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import streams
from conftest import Run
from rtgauge.report.render import console, terminal
from rtgauge.report.results import model
from rtgauge.store import Store
from rtgauge.stream import RecordType
from test_store import document, finished

QUICK = ("run", "timer", "--target", "fake", "--for", "1s")
LATIN = "Pr\udcfcfstand"  # what Python makes of a Latin-1 word on the command line

# An OSC, a CSI, a C1, a bidi override and an invisible character.
HARM = "a\x1b]0;owned\x07\x1b[2J\x9b2J\u202eb\u2066\u200bc\r\x08"
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


# --- bytes that are not UTF-8 ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("--label", LATIN), "'label'"),
        (("--load-cmd", f"exec sleep 60 # {LATIN}"), "'load-command'"),
        (("--mark", f"gpio:{LATIN}:1"), "'mark'"),
    ],
)
def test_texts_that_are_not_utf_8_are_refused(
    rtgauge: Run, words: tuple[str, ...], where: str
) -> None:
    result = rtgauge(*QUICK, *words)
    assert result.code == 2, result.err
    assert f"rtgauge: {where} is not UTF-8 text" in result.err
    assert len(result.err.splitlines()) == 2
    with Store.open() as store:
        assert store.runs() == []


def test_a_plan_whose_texts_are_not_utf_8_is_refused(rtgauge: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[[step]]\nmeasurement = "timer"\nfor = "1s"\n')
    named = tmp_path / os.fsdecode(b"Pr\xfcf.toml")
    named.write_text(plan.read_text())
    assert rtgauge("run", str(plan), "--target", "fake", "--label", LATIN).code == 2
    result = rtgauge("run", str(named), "--target", "fake")
    assert (result.code, "'name' is not UTF-8 text" in result.err) == (2, True)


def test_a_capture_whose_file_name_is_not_utf_8(rtgauge: Run, tmp_path: Path) -> None:
    capture = tmp_path / os.fsdecode(b"Pr\xfcf.csv")
    rows = [f"{i * 0.001 + j * 0.00005:.6f},{1 - j % 2 if j < 2 else 0},{int(j == 1)}"
            for i in range(200) for j in range(3)]  # fmt: skip
    capture.write_text("Time [s],event,answer\n" + "\n".join(rows) + "\n")
    result = rtgauge("import", str(capture), "--event", "event", "--answer", "answer")
    assert result.code == 0, result.err
    assert rtgauge("runs").code == 0
    assert "\ufffd" in rtgauge("runs", "--json").json()["runs"][0]["target"]


def test_a_store_whose_name_is_not_utf_8(rtgauge: Run) -> None:
    result = rtgauge("runs", "--store", LATIN)
    assert result.code == 2
    assert "has a name that is not UTF-8" in result.err


def spoiled(store: Store) -> str:
    """A run as rtgauge 0.1 stored it with such a label and load command; its id."""
    run_id = finished(store)
    path = store.path / run_id / "run.json"
    changed = json.loads(path.read_text())
    changed |= {"label": LATIN, "target": LATIN, "plan": {"name": LATIN, "steps": []}}
    changed["steps"][0]["load_command"] = f"sleep {LATIN}"
    changed["steps"][0]["load"] = "command"
    path.write_text(json.dumps(changed))
    assert "\\udcfc" in path.read_text()
    return run_id


@pytest.mark.slow
def test_a_stored_run_with_such_texts_leaves_the_store_usable(rtgauge: Run) -> None:
    with Store.open() as store:
        good, bad = finished(store), spoiled(store)
    shown = rtgauge("runs")
    assert (shown.code, "#1 " in shown.out, "#2 " in shown.out) == (0, True, True)
    assert rtgauge("show", bad).code == 0
    assert "Pr\ufffdfstand" in rtgauge("show", bad, "--json").json()["runs"][0]["label"]
    assert rtgauge(*QUICK).code == 0
    suffixes = ("html", "tap", "xml", "md", "json", "pdf")
    files = [word for suffix in suffixes for word in ("-o", f"report.{suffix}")]
    result = rtgauge("report", bad, *files)
    assert result.code == 0, result.err
    for suffix in suffixes[:-1]:
        assert "fstand" in Path(f"report.{suffix}").read_text(encoding="utf-8")
    assert rtgauge("compare", good, bad).code in (0, 2)
    refused = rtgauge("export", bad, "run.rtgauge")
    assert refused.code == 1 and "run.json contains text that is not UTF-8" in refused.err
    assert rtgauge("delete", bad, "--yes").code == 0
    with Store.open() as store:
        assert bad not in [row.id for row in store.runs()]


def test_a_document_that_this_program_writes_can_be_encoded(tmp_path: Path) -> None:
    with (
        Store.open(str(tmp_path / "store")) as store,
        store.create(document(label=LATIN, reason="\ud83d and \udcff")) as folder,
    ):
        text = (folder.path / "run.json").read_bytes().decode("utf-8")
        assert json.loads(text)["label"] == "Pr\ufffdfstand"


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"duration_s": 10**400},
        {"duration_s": float("inf")},
        {"label": "a\0b"},
        {"label": 5, "started": None, "state": []},
        {"steps": [{"step": 0, "role": [], "load": 5, "state": "complete", "budget_ns": "x"}]},
        {"steps": [{"step": 0, "load": {"a": 1}, "measurement": None, "disturb": 1}]},
        {"steps": [{"step": 10**4000}]},
    ],
)
def test_no_run_ends_the_list_of_runs(rtgauge: Run, changes: dict[str, Any]) -> None:
    with Store.open() as store:
        good, bad = finished(store), finished(store)
        path = store.path / bad / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        rows = {row.id: row for row in store.runs()}
    assert rows[good].state == "complete"
    assert bad in rows
    assert rtgauge("runs").code == 0
    assert rtgauge("runs", "--json").code == 0


def test_a_run_that_cannot_be_read_can_be_deleted(rtgauge: Run) -> None:
    with Store.open() as store:
        bad = finished(store)
        (store.path / bad / "run.json").write_text("{")
    result = rtgauge("show", bad)
    assert (result.code, "or delete the run" in result.err) == (1, True)
    assert rtgauge("delete", bad, "--yes").code == 0
    assert "no runs" in rtgauge("runs").err


# --- an index that others wrote -------------------------------------------------------------------

_COLUMNS = (
    "id text, label text, study text, target text, state text, started text, duration_s real, "
    "steps int, headline text, changed_ns int, size int"
)
_VERSION = ("CREATE TABLE alembic_version (version_num text)",
            "INSERT INTO alembic_version VALUES ('0001')")  # fmt: skip
_STAYS = (
    "CREATE TRIGGER stays AFTER DELETE ON runs BEGIN INSERT INTO runs VALUES (old.id, old.label, "
    "old.study, old.target, old.state, old.started, old.duration_s, old.steps, old.headline, "
    "old.changed_ns, old.size); END"
)
_BLOBS = "x'ff', x'ff', x'ff', x'ff', x'ff', x'ff', 'abc', 'def', x'ff', 1e300, x'00'"
_HARMFUL = "'x' || char(27) || ']0;PWN' || char(7)"


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        "NULL" + ", NULL" * 10,
        "'x'" + ", NULL" * 10,
        _BLOBS,
        f"{_HARMFUL}, {_HARMFUL}, '', {_HARMFUL}, 'complete', '2020', 1, 1, {_HARMFUL}, 1, 1",
    ],
)
def test_rows_of_an_index_that_others_wrote_are_not_shown(
    rtgauge: Run, tmp_path: Path, values: str
) -> None:
    """They come back after they were deleted, by a trigger."""
    file = tmp_path / "hostile.db"
    words = (f"CREATE TABLE runs ({_COLUMNS})", f"INSERT INTO runs VALUES ({values})", _STAYS)
    with contextlib.closing(sqlite3.connect(file)) as database:
        for one in (*_VERSION, *words):
            database.execute(one)
        database.commit()
    store = ("--store", f"sqlite:///{file}?data={tmp_path}/data")
    for command, code in ((("runs",), 0), (("show", "last"), 2), (QUICK, 0), (("runs",), 0)):
        result = rtgauge(*command, *store)
        assert result.code == code, result.err
        assert not OBEYED.search(result.out + result.err)
    rows = rtgauge("runs", "--json", *store).json()["runs"]
    assert [row["target"] for row in rows] == ["fake"]


def test_a_file_of_the_system_is_not_an_index_to_delete(rtgauge: Run) -> None:
    before = Path("/etc/passwd").read_bytes()
    result = rtgauge("runs", "--store", "sqlite:////etc/passwd")
    assert result.code != 0
    assert "/etc/passwd is not an rtgauge index" in result.err
    assert "delete" not in result.err
    assert Path("/etc/passwd").read_bytes() == before


# --- what a terminal obeys ------------------------------------------------------------------------


def hostile_stream() -> streams.Builder:
    """A stream with such a text wherever one may be."""
    builder = streams.Builder(
        agent=HARM,
        libc=HARM,
        compiler=HARM,
        machine=HARM,
        boot_id=HARM,
        load=HARM,
        load_command=HARM,
        disturb=f"{HARM}:200us:7ms",
        parameters={HARM: {"asked": HARM, "effective": HARM}},
        counter={"name": HARM, "hz": 1},
    )
    values = list(range(1000, 2000))
    for number, name in enumerate(("latency", HARM)):
        builder.series(number, name=name, labels={HARM: HARM, "method": HARM}, policy=HARM,
                       unit=HARM)  # fmt: skip
        builder.samples(number, 0, values)
        builder.histogram(number, values)
    builder.add(
        RecordType.SETTING,
        {"name": HARM, "asked": HARM, "before": HARM, "effective": HARM, "reason": HARM},
    )
    builder.event("message", 5, text=HARM)
    builder.event("setting", 6, name=HARM, expected=HARM, found=HARM)
    builder.add(
        RecordType.WORK, {"load": HARM, "unit": HARM, "count": 5, "from_ns": 0, "to_ns": 10**9}
    )
    columns = [{"name": HARM, "unit": HARM}, {"name": "x", "unit": ""}]
    builder.add(
        RecordType.TABLE, {"name": HARM, "columns": columns, "rows": [[HARM, HARM], [HARM, 5]]}
    )
    builder.add(
        RecordType.VERDICT, {"rule": HARM, "result": "fail", "evidence": HARM, "remedy": HARM}
    )
    builder.add(RecordType.AMBIENCE, streams.ambience_body(temperature_mc={HARM: 45_000}))
    builder.trailer(
        "failed",
        reason=HARM,
        remedy=HARM,
        series=[streams.totals(number, count=1000, last_due_ns=999 * 10**6) for number in range(2)],
    )
    return builder


def hostile_run(store: Store) -> str:
    step = {
        "step": 0,
        "measurement": HARM,
        "role": "measurement",
        "state": "failed",
        "reason": HARM,
        "remedy": HARM,
        "load": HARM,
        "load_command": HARM,
        "disturb": f"{HARM}:200us:7ms",
        "parameters": {HARM: HARM, "for": HARM},
    }
    texts = dict.fromkeys(("label", "target", "boot_id", "started", "reason", "remedy"), HARM)
    changes = {**texts, "state": "failed", "plan": {"name": HARM}, "steps": [step]}
    with store.create(document(**changes)) as folder:
        with folder.append_stream(0) as stream:
            stream.write(hostile_stream().data)
        assert folder.seal(0).complete
        store.update(folder)
    return folder.id


@pytest.mark.slow
def test_no_text_of_a_stored_run_reaches_a_terminal_raw(rtgauge: Run) -> None:
    with Store.open() as store:
        first, second = hostile_run(store), hostile_run(store)
    for words in (
        ("runs",),
        ("runs", "--json"),
        ("show", first),
        ("show", first, "--json"),
        ("compare", first, second),
        ("compare", first, second, "--json"),
        ("report", HARM, "-o", "x.html"),
        ("export", first, f"{HARM}.rtgauge"),
        ("delete", first, "--yes"),
    ):
        result = rtgauge(*words)
        assert result.code in (0, 1, 2), (words, result.err)
        assert not OBEYED.findall(result.out + result.err), words


def test_colour_adds_no_other_control_character_than_its_own(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "store")) as store:
        found = model.build([store.get(hostile_run(store))])
    text = terminal.text(found, color=True)
    assert "\x1b[" in text
    assert not OBEYED.findall(re.sub(r"\x1b\[[0-9;]*m", "", text))


def test_a_field_that_nobody_cleaned_is_cleaned_when_it_is_printed() -> None:
    """The units of series came through where each field was cleaned on its own."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(HARM)
    table.add_row(Text(HARM, "bold"))
    for color in (False, True):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", console.printed(table, color=color))
        assert not OBEYED.findall(shown)
        assert "owned" in shown
