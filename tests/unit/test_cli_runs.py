# SPDX-License-Identifier: Apache-2.0
"""The list of runs, their numbers and answers, and ``rtgauge`` without a command."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import click
import pytest

from conftest import Run
from rtgauge.cli import brief
from rtgauge.cli import store as store_list
from rtgauge.cli.main import COMMANDS, _has_store, cli
from rtgauge.cli.words import named_store
from rtgauge.errors import TargetError
from rtgauge.report.document import answer
from rtgauge.report.document.answer import State
from rtgauge.report.results.again import _WITHOUT_STORE, remedy_with_store, with_store
from rtgauge.store import RunRow, Store, numbers
from rtgauge.store.folder import StreamFile
from rtgauge.store.identity import new_run_id
from rtgauge.target.fake import FakeTarget

QUICK = ("--target", "fake", "--for", "1s")


def measure(rtgauge: Run, *words: str) -> None:
    assert rtgauge("run", "timer", *QUICK, *words).code in (0, 3)


def listed(rtgauge: Run, *words: str) -> list[str]:
    """The numbers of the runs in the list."""
    lines = rtgauge("runs", *words).out.splitlines()[1:]
    return [line.split()[0] for line in lines if line.startswith("#")]


@pytest.mark.slow
def test_the_list_says_how_far_it_is(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a dozen runs whose answers are not kept took a minute, in silence."""

    for _ in range(2):
        measure(rtgauge)
    assert rtgauge("runs").err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    cleared = "\r\x1b[K"
    with Store.open(None) as store:
        kept = store.path.parent / "answers"
    assert rtgauge("runs").err == cleared
    for words, shown in (
        ((), [1, 2]),
        (("--limit", "1"), [1]),
        (("--failed",), [1, 2]),
        (("--json",), []),
        (("--json", "--failed"), []),
    ):
        shutil.rmtree(kept, ignore_errors=True)
        total = max(shown, default=0)
        lines = [f"{cleared}reading run {number} of {total} …" for number in shown]
        err = rtgauge("runs", *words).err
        assert err.startswith("".join([*lines, cleared])) if shown else err == ""


@pytest.mark.slow
def test_filters_of_the_list(rtgauge: Run) -> None:
    measure(rtgauge, "--label", "first board")
    measure(rtgauge, "--label", "second", "--budget", "1us")
    rtgauge("run", "timer", "--for", "1s", "--target", "fake:fails")
    assert listed(rtgauge) == ["#3", "#2", "#1"]
    assert listed(rtgauge, "--target", "fake") == ["#2", "#1"]
    assert listed(rtgauge, "--label", "board") == ["#1"]
    assert listed(rtgauge, "--state", "failed") == ["#3"]
    assert listed(rtgauge, "--failed") == ["#3", "#2"]
    assert listed(rtgauge, "--failed", "--limit", "1") == ["#3"]
    # the clock of the fake begins in 2024
    assert listed(rtgauge, "--since", "2023-12-30") == ["#3", "#2", "#1"]
    none = rtgauge("runs", "--since", "2025-01-01")
    assert (none.code, none.err) == (0, "no run in the store matches these options\n")
    assert rtgauge("runs", "--since", "7d").out == ""
    short = rtgauge("runs", "-n", "1")
    assert [line.split()[0] for line in short.out.splitlines()] == ["RUN", "#3"]
    assert short.err == "2 earlier runs are not listed: rtgauge runs --limit 0\n"
    few = rtgauge("runs", "--limit", "1", "--target", "fake")
    one = "1 earlier run is not listed: rtgauge runs --limit 0 --target fake"
    assert few.err == f"{one}\n"
    place = str(Path(os.environ["XDG_DATA_HOME"], "rtgauge"))
    named = rtgauge("runs", "-n", "1", "--store", place)
    assert named.err == f"2 earlier runs are not listed: rtgauge runs --limit 0 --store {place}\n"
    for wrong in (("--since", "soon"), ("--limit", "-1"), ("--state", "good")):
        assert rtgauge("runs", *wrong).code == 2
    numbers_told = [one["number"] for one in rtgauge("runs", "--json").json()["runs"]]
    assert numbers_told == [3, 2, 1]


@pytest.mark.slow
def test_a_run_is_known_by_its_number(rtgauge: Run) -> None:
    for _ in range(3):
        measure(rtgauge)
    ids = [one["id"] for one in rtgauge("runs", "--json").json()["runs"]][::-1]
    for word in ("2", "#2"):
        assert rtgauge("show", word, "--json").json()["runs"][0]["id"] == ids[1]
        assert rtgauge("report", word, "-o", "r.json", "--json").json()["runs"] == [ids[1]]
    assert rtgauge("delete", "3", "--yes").code == 0
    assert rtgauge("show", "3").code == 2
    Path("data").mkdir(exist_ok=True)
    # a number is not given again, and the others keep theirs
    measure(rtgauge)
    assert listed(rtgauge) == ["#4", "#2", "#1"]
    # a label is meant before a number
    measure(rtgauge, "--label", "1")
    assert rtgauge("report", "1", "-o", "r.json", "--json").json()["runs"] != [ids[0]]
    assert rtgauge("report", "#1", "-o", "r.json", "--json").json()["runs"] == [ids[0]]


@pytest.mark.slow
def test_a_number_that_is_also_a_label_deletes_nothing(rtgauge: Run) -> None:
    measure(rtgauge, "--label", "board")
    measure(rtgauge, "--label", "1")
    shown = rtgauge("show", "1", "--json").json()["runs"]
    assert [run["label"] for run in shown] == ["1"]
    refused = rtgauge("delete", "1", "--yes")
    assert refused.code == 2
    assert "'1' is run #1, and also the label of another run" in refused.err
    place = str(Path(os.environ["XDG_DATA_HOME"], "rtgauge"))
    named = rtgauge("delete", "1", "--yes", "--store", place)
    assert f"`rtgauge runs --label 1 --store {place}` lists" in named.err
    assert listed(rtgauge) == ["#2", "#1"]
    measure(rtgauge, "--label", "3")  # the run that the number means has that label itself
    assert rtgauge("delete", "#1", "3", "--yes").code == 0
    assert listed(rtgauge) == ["#2"]


def test_a_date_is_one_in_utc_as_in_the_list(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    measure(rtgauge)  # the clock of the fake begins in 2024
    try:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", "UTC+8")  # to the west
            time.tzset()
            done = rtgauge("runs", "--since", "2024-01-01")
    finally:
        time.tzset()
    head, run = done.out.splitlines()
    assert "STARTED (UTC)" in head and "2024-01-01 00:00" in run


def test_numbers_survive_the_index_and_damage(tmp_path: Path) -> None:
    ids = [new_run_id() for _ in range(4)]
    assert numbers.numbered(tmp_path, ids[:2]) == {ids[0]: 1, ids[1]: 2}
    assert numbers.numbered(tmp_path, ids[1:3])[ids[2]] == 3
    file = tmp_path / numbers.NUMBERS
    file.write_bytes(file.read_bytes()[:-5])  # the last line is cut: that run is new again
    assert numbers.numbered(tmp_path, ids) == dict(zip(ids, (1, 2, 3, 4), strict=True))
    assert numbers.numbered(tmp_path, ids) == dict(zip(ids, (1, 2, 3, 4), strict=True))
    file.write_bytes(b"\xff\x00\n7 no-id\n" + f"9 {ids[3]}\n9 {ids[2]}\n8 {ids[3]}\n".encode())
    assert numbers.numbered(tmp_path, ids[2:]) == {ids[3]: 9, ids[2]: 10}


def test_numbers_of_a_store_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refused)
    ids = [new_run_id(), new_run_id()]
    assert numbers.numbered(tmp_path, ids) == {ids[0]: 1, ids[1]: 2}


@pytest.mark.parametrize(
    ("word", "number"),
    [("12", 12), ("#12", 12), (" #3 ", 3), ("012", None), ("0", None), ("#", None), ("1a", None)],
)
def test_words_that_are_numbers(word: str, number: int | None) -> None:
    assert numbers.run_number(word) == number


@pytest.mark.slow
def test_the_answer_of_a_run_is_kept(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    measure(rtgauge, "--budget", "1us")
    with Store.open() as store:
        (row,) = store.runs()
        found = brief.brief_of(store, row)
        assert (found.verdict, found.failed) == ("not fit", True)
        assert found.title.startswith("Not fit: ") and "µs" in found.worst
        assert found.measured == "timer"
        with monkeypatch.context() as patched:  # it is kept
            patched.setattr(answer, "answer_of", None)
            assert brief.brief_of(store, row) == found
        kept = store.path.parent / "answers" / f"{row.id}.json"
        for damage in ("", "[]", "{}", json.dumps({"key": "of another program"})):
            kept.write_text(damage)
            assert brief.brief_of(store, row) == found
        assert json.loads(kept.read_text())["verdict"] == "not fit"
    kept.with_name(f".{kept.name}").write_text("{")  # of a process that was killed
    assert rtgauge("delete", "last", "--yes").code == 0
    assert list(kept.parent.iterdir()) == []


@pytest.mark.slow
def test_the_last_run_is_meant_by_default(rtgauge: Run) -> None:
    measure(rtgauge, "--label", "old")
    measure(rtgauge)
    newest = rtgauge("runs", "--json").json()["runs"][0]["id"]
    assert rtgauge("show", "--json").json()["runs"][0]["id"] == newest
    told = rtgauge("report", "--json").json()
    assert told["runs"] == [newest]
    assert told["path"] == "rtgauge-report-fake-2024-01-01.html" and Path(told["path"]).exists()
    assert rtgauge("report", "--json").json()["path"] == "rtgauge-report-fake-2024-01-01-2.html"
    with Store.open() as store:  # a run of another machine is not named after this one
        path = store.path / store.runs()[0].id / "run.json"
    document = json.loads(path.read_text())
    document["target"] = "local"
    document["environment"]["host"] = "board-7"
    path.write_text(json.dumps(document))
    assert rtgauge("report", "--json").json()["path"] == "rtgauge-report-board-7-2024-01-01.html"
    told = rtgauge("export", "--json").json()
    assert (told["run"], told["path"]) == (newest, f"rtgauge-{newest[:13]}.rtgauge")
    assert rtgauge("export", "mine.rtgauge", "--json").json()["run"] == newest
    assert rtgauge("export", "1", "--json").json()["run"] != newest
    assert rtgauge("export", "1", "a.rtgauge", "surplus").code == 2


def test_without_a_command(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of things: nothing is measured, and the next command is the first in the list."""
    monkeypatch.setattr("rtgauge.cli.status._machine", lambda: "PREEMPT_RT; ready")
    done = rtgauge()
    assert (done.code, done.err) == (0, "")
    assert "Store     0 runs in" in done.out and "Machine   PREEMPT_RT; ready" in done.out
    assert done.out.partition("Next:\n  ")[2].startswith("rtgauge check ")
    measure(rtgauge, "--budget", "1us", "--label", "mine")
    done = rtgauge()
    assert "Last run  #1 on fake (mine), 2024-01-01 00:00 UTC: not fit" in done.out
    assert "Not fit: the budget of 1 µs was exceeded" in done.out
    assert "observed maximum " in done.out and "Store     1 run in" in done.out
    after = done.out.partition("Next:\n")[2]
    assert "rtgauge show " in after and "rtgauge report " in after
    assert max(len(line) for line in after.splitlines() if "rtgauge run" not in line) <= 80
    assert "\x1b" not in done.out
    after = rtgauge("--store", "a_longer_name").out.partition("Next:\n")[2]
    assert max(map(len, after.splitlines())) <= 80
    with Store.open() as store:
        (row,) = store.runs()
        (store.path / row.id / "run.json").write_text("")
    assert "Last run  #1: unreadable\n" in rtgauge().out


@pytest.mark.slow
def test_a_running_run_is_not_shown_as_ended(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown: list[str] = []
    report = tmp_path / "report.md"
    write = StreamFile.write

    def watch(stream: StreamFile, data: bytes) -> None:
        write(stream, data)
        if not shown and "max" in (out := rtgauge("show").out):
            shown.append(out)
            rtgauge("report", "-o", str(report))

    monkeypatch.setattr(StreamFile, "write", watch)
    rtgauge("evaluate", "--target", "fake", "--for", "3s", "--only", "timer", "-o", "x.md")
    (out,) = shown
    assert "running" in out.splitlines()[0] and " 0 s" not in out.splitlines()[0]
    assert "the run has not reached this step" in " ".join(out.split())
    assert "ended before" not in out and "ends early" not in out
    text = report.read_text(encoding="utf-8")
    assert "- Length: not ended" in text and "in a run" not in text
    assert "damaged" not in text and "not complete" not in text


@pytest.mark.slow
def test_without_a_command_during_a_run(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtgauge.cli.status._machine", lambda: "PREEMPT_RT; ready")
    measure(rtgauge, "--budget", "1us")
    with Store.open() as store:
        (row,) = store.runs()
        monkeypatch.setattr(Store, "runs", lambda _: [replace(row, state="running")])
        out = rtgauge().out
    assert "UTC: running\n          over 1 µs: max " in out
    headline = row.headline.replace("\u202f", " ")
    assert out.count(headline) == 1 and "observed maximum" not in out


@pytest.mark.slow
def test_without_a_command_for_another_store(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("rtgauge.cli.status._machine", lambda: "PREEMPT_RT; ready")
    place = str(tmp_path / "other store")
    measure(rtgauge, "--label", "here")
    measure(rtgauge, "--label", "there", "--store", place)
    done = rtgauge("--store", place)
    assert done.code == 0
    assert "Last run  #1 on fake (there)" in done.out and "1 run in" in done.out
    after = done.out.partition("Next:\n")[2].splitlines()
    of_rtgauge = [one for one in after if "rtgauge " in one and "--help" not in one]
    assert len(of_rtgauge) == 3
    for one in of_rtgauge:
        assert f" --store '{place}'" in one
    assert "(here)" in rtgauge().out
    for command in ("runs", "evaluate"):
        before = rtgauge("--store", place, command)
        assert before.code == 2
        remedy = f"put it after the command: rtgauge {command} --store '{place}'"
        assert remedy in " ".join(before.err.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["runs"], ["show"], ["delete", "last", "--yes"], ["export"], ["report"],
        ["compare", "1", "2"], ["trend", "label"], ["explain"],
        ["evaluate", "--target", "fake", "--resume"], ["tune", "--resume"],
        ["import", "file", "--mark", "D0", "--of", "last"],
    ],
)  # fmt: skip
def test_a_missing_store_is_not_created_to_read_it(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    Path("file").touch()
    before = sorted(Path.cwd().iterdir())
    for place in ("nosuch", "nosuch.db", "sqlite:///nosuch.db", "postgresql://h/d?data=nosuch"):
        done = rtgauge(*words, "--store", place)
        assert done.code == 2
        assert f"rtgauge: there is no store at {Path('nosuch').absolute()}" in done.err
    monkeypatch.setenv("RTGAUGE_STORE", "nosuch")
    done = rtgauge(*words)
    assert (done.code, done.out) == (2, "")
    assert f"there is no store at {Path('nosuch').absolute()}\n" in done.err
    assert "Store     there is no store at" in rtgauge("--store", "nosuch").out
    assert sorted(Path.cwd().iterdir()) == before


def test_a_store_out_of_reach_is_reported_with_a_remedy(rtgauge: Run) -> None:
    """Also a folder below one without permission, such as the store of root."""
    place = Path("x" * 300).absolute()
    done = rtgauge("runs", "--store", place.name)
    assert (done.code, done.out) == (1, "")
    message, remedy = done.err.split("\n", 1)
    assert message == f"rtgauge: cannot open the store {place}: File name too long"
    assert "keep the runs elsewhere with --store" in remedy


@pytest.mark.slow
def test_a_step_that_will_be_skipped_is_not_announced(rtgauge: Run) -> None:
    done = rtgauge("run", "telescope", "--for", "1h", "--target", "fake")
    steps = [line for line in done.err.splitlines() if line.startswith("[1/1]")]
    assert done.code == 77 and steps == ["[1/1] telescope --for 1h, idle: skipped"]


@pytest.mark.parametrize("command", ["check", "describe", "lab"])
def test_a_command_without_a_store_is_not_given_one(rtgauge: Run, command: str) -> None:
    refused = rtgauge("--store", "other", command)
    assert refused.code == 2
    assert f"the command {command} has no option --store" in refused.err
    assert f"rtgauge {command} --store" not in refused.err


def test_a_machine_that_cannot_be_looked_at(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from rtgauge.errors import TargetError  # noqa: PLC0415

    def fails(name: str) -> None:
        raise TargetError(f"there is no agent for {name}")

    monkeypatch.setattr("rtgauge.target.open_target", fails)
    done = rtgauge()
    assert done.code == 0
    assert "Machine   not known (there is no agent for local)" in done.out


@pytest.mark.slow
def test_quiet_prints_the_answer_alone(rtgauge: Run) -> None:
    done = rtgauge("run", "timer", *QUICK, "--budget", "1us", "-q")
    assert (done.code, done.err) == (3, "")
    lines = done.out.strip().splitlines()
    assert set(lines[0]) == {"─"} and lines[1] == "Not fit: the budget of 1 µs was exceeded"
    assert "median" not in done.out
    failed = rtgauge("run", "timer", "--for", "1s", "--target", "fake:fails", "--quiet")
    assert failed.code == 1 and failed.err.startswith("[1/1] timer --for 1s, idle: failed")
    plain = rtgauge("run", "timer", *QUICK, "--no-progress")
    assert "[1/1] timer --for 1s, idle: complete" in plain.err and "median" in plain.out


@pytest.mark.study(53)
@pytest.mark.slow
def test_a_run_of_an_hour_and_a_half(rtgauge: Run) -> None:
    """The clock of the fake target makes it take no time."""
    words = ("--for", "90m", "--interval", "1s", "--target", "fake", "--json")
    run = rtgauge("run", "timer", *words).json()["runs"][0]
    counts = {(one["count"], one["missed"]) for one in run["series"] if one["name"] == "latency"}
    assert {count + missed for count, missed in counts} == {5400}


@pytest.mark.slow
@pytest.mark.parametrize("words", [("run", "timer"), ("evaluate", "--only", "timer"), ("show",)])
def test_what_to_do_next_is_in_the_same_store(rtgauge: Run, words: tuple[str, ...]) -> None:
    measure(rtgauge)
    measure(rtgauge, "--store", "other place")
    given = () if words == ("show",) else (*QUICK, "-o", "r.json")
    done = rtgauge(*words, *given, "--store", "other place")
    after = done.out.partition("What to do next")[2].splitlines()
    commands = [one for one in after if re.match(r" *rtgauge (run|evaluate|explain) ", one)]
    assert commands and "--store 'other place'" in " ".join(after)
    assert done.out.count("--store 'other place'") >= len(commands)
    usual = rtgauge(*words, *given)
    assert "What to do next" in usual.out and "--store" not in usual.out


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("rtgauge show", "rtgauge show --store 'a b'"),
        ("rtgauge runs # its progress", "rtgauge runs --store 'a b' # its progress"),
        (
            "rtgauge run timer --load-cmd 'x # y'",
            "rtgauge run timer --load-cmd 'x # y' --store 'a b'",
        ),
        (
            "rtgauge run timer --load-cmd 'x & y'",
            "rtgauge run timer --load-cmd 'x & y' --store 'a b'",
        ),
        (
            'sudo "$(command -v rtgauge)" evaluate',
            "sudo \"$(command -v rtgauge)\" evaluate --store 'a b'",
        ),
        ("rtgauge show --store x", None),
        ("rtgauge check", None),
        ("rtgauge", None),
        ("rtgauge --help", None),
        ("rtgauge tune --help", None),
        ("rtgauge log-host", "rtgauge log-host --store 'a b'"),
        ("rtgauge run 'timer", None),
        ("rtgauge module load", None),
        ("apt install rtgauge", None),
        ("rtgauge run timer && reboot", None),
        ("", None),
    ],
)
def test_commands_for_a_store(command: str, changed: str | None) -> None:
    assert with_store(command, "a b") == (command if changed is None else changed)
    assert with_store(command, "") == command


@pytest.mark.parametrize(
    ("remedy", "changed"),
    [
        ("'rtgauge runs' lists what was kept", "'rtgauge runs --store x' lists what was kept"),
        (
            "`rtgauge show 1` or `rtgauge runs`",
            "`rtgauge show 1 --store x` or `rtgauge runs --store x`",
        ),
        (
            "see why. Reported by: rtgauge report 12",
            "see why. Reported by: rtgauge report 12 --store x",
        ),
        (
            "repeat it: rtgauge show. The run is kept",
            "repeat it: rtgauge show --store x. The run is kept",
        ),
        (
            "find out why (rtgauge show 1), or wait",
            "find out why (rtgauge show 1 --store x), or wait",
        ),
        ("list it: rtgauge runs --label 'a. B'", "list it: rtgauge runs --label 'a. B' --store x"),
        ("repeat 'rtgauge lab add' with --build", None),
        ("give the study that rtgauge tune printed", None),
        ("choose another name", None),
        ("", None),
    ],
)
def test_the_commands_of_a_remedy_for_a_store(remedy: str, changed: str | None) -> None:
    assert remedy_with_store(remedy, "x") == (remedy if changed is None else changed)
    assert remedy_with_store(remedy, "") == remedy


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("compare", "last"), "rtgauge run timer --for 10s"),
        (("show", "last"), "rtgauge run timer --for 10s"),
        (("report",), "rtgauge run timer --for 10s"),
        (("compare", "nothing"), "rtgauge run timer --for 10s"),
        (("run", "timer", *QUICK, "--repeat", "2", "--quiet"), "rtgauge report STUDY"),
        (("evaluate", "--target", "fake", "--target", "fake:late"), "rtgauge compare"),
        (("evaluate", "--load", "idle"), "rtgauge run timer --load idle"),
    ],
)
def test_the_remedy_of_an_error_is_in_the_same_store(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], command: str
) -> None:
    started: list[str] = []

    def leaves(target: FakeTarget) -> bytes:
        started.append(target.name)
        if len(started) % 2 == 0:
            raise TargetError("the board went away", "look for it")
        return environment(target)

    environment = FakeTarget.environment
    if command.endswith("STUDY"):
        monkeypatch.setattr(FakeTarget, "environment", leaves)
    named = rtgauge(*words, "--store", "other place")
    usual = rtgauge(*words)
    command = command.replace("STUDY", "[0-9a-f-]{18}")
    assert named.code and re.search(f"{command} --store 'other place'", named.err)
    assert usual.code and re.search(command, usual.err) and "--store" not in usual.err


def test_commands_without_a_store_are_known() -> None:
    assert all(one in COMMANDS for one in _WITHOUT_STORE)
    context = click.Context(cli)
    for name in COMMANDS:
        assert _has_store(context, name) == (name not in _WITHOUT_STORE)


@pytest.mark.slow
def test_a_study_that_loses_a_target_is_reported_and_fails(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = FakeTarget.environment
    answered: list[str] = []

    def once(self: FakeTarget) -> bytes:
        if self.name in answered:
            raise TargetError("the board went away", "look for it")
        answered.extend([self.name] if self.name != "fake" else [])
        return environment(self)

    monkeypatch.setattr(FakeTarget, "environment", once)
    words = ("run", "timer", "--for", "1s", "--repeat", "3", "--target", "fake")
    done = rtgauge(*words, "--target", "fake:late", "-o", "x.html", "-o", "x.md", "-o", "x.xml")
    assert done.code == 1, done.err
    assert "fake:late: the board went away. The study continues without this target" in done.err
    assert "failed: the board went away\n" in done.err and "look for it" in done.err
    # its environment is not known, and does not count
    assert "6.12.0-fake-rt, PREEMPT_RT; 2 runs, 1 boot; failed" in done.out
    assert "environments differ" not in done.out
    for name in ("x.html", "x.md", "x.xml"):
        assert "the board went away" in Path(name).read_text()
    states = [run["state"] for run in rtgauge("runs", "--json").json()["runs"]]
    assert sorted(states) == ["complete"] * 4 + ["failed"]


@pytest.mark.slow
def test_a_target_that_was_never_reached_is_not_a_system_of_its_own(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its unknown environment differed in 32 facts, and the advice was the same command again."""
    environment = FakeTarget.environment

    def gone(self: FakeTarget) -> bytes:
        if self.name != "fake":
            raise TargetError("the board went away", "look for it")
        return environment(self)

    monkeypatch.setattr(FakeTarget, "environment", gone)
    words = ("run", "timer", "--for", "1s", "--target", "fake", "--target", "fake:late")
    done = rtgauge(*words, "-o", "x.html", "-o", "x.md")
    assert done.code == 1, done.err
    assert "Nothing can be compared: the target of B could not be reached." in done.out
    assert f"the target could not be reached{'; '}1 run" in done.out
    assert "Measure B again when the target can be reached." in done.out
    assert "unknown" not in done.out and "same command" not in done.out
    ids = [run["id"] for run in rtgauge("runs", "--json").json()["runs"]]
    found = rtgauge("compare", *sorted(ids, reverse=True), "--json").json()
    assert found["differences"] == []
    assert sorted(one["boots"] for one in found["sets"]) == [0, 1]
    assert "each 0 s" not in Path("x.md").read_text()


def test_the_last_store_on_the_command_line_counts() -> None:
    """In both notations, as for the command itself."""
    for words, store in (
        ("runs --store a --store=b", "b"),
        ("runs --store=a --store b", "b"),
        ("runs --store a", "a"),
        ("runs --store", ""),
        ("runs", ""),
    ):
        assert named_store(words.split()) == store


def test_failed_lists_what_is_red() -> None:
    """It left out *too late*."""
    red = {verdict for verdict, color in store_list._COLORS.items() if color == "red"}
    verdicts = {*store_list._COLORS, *map(str, State)}
    failed = {verdict for verdict in verdicts if brief.Brief(verdict, "", "").failed}
    assert failed == red - {"unreadable"} and "too late" in failed


def test_the_list_fits_whatever_occurs_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long verdicts, labels and targets made lines of 85 letters, and the terminal broke figures.
    A message filled seven lines, and a target lost its kind."""
    monkeypatch.setenv("COLUMNS", "80")
    gap, broken = "\u202f", "step 1 (timer): load command: ended by itself\nwith exit status 127"
    runs = [
        ("lab:x86_64-rt-6.1", "complete", "", "not measured properly", f"≥{gap}300{gap}000{gap}µs"),
        ("lab:x86_64-stock-6.1", "complete", f"max 9{gap}962{gap}µs (noise)", "not proven", ""),
        ("local", "failed", broken, "failed", ""),
    ]
    began, label = "2026-11-30T21:31:00Z", "a_label_of_a_run"
    rows = [
        RunRow("", label, "", target, state, began, 1.0, 1, headline, number)
        for number, (target, state, headline, _, _) in enumerate(runs, 100)
    ]
    store_list._print_runs(rows, [brief.Brief(verdict, "", worst) for *_, verdict, worst in runs])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(rows) and max(map(len, lines)) <= 80
    ends = ["≥ 300 000 µs", "  9 962 µs", "…"]
    assert all(line.endswith(end) for line, end in zip(lines[1:], ends, strict=True))
    assert [line.split()[3][:5] for line in lines[1:]] == ["lab:…", "lab:…", "local"]


def test_the_list_names_what_was_measured_where_it_has_the_room(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took the name from the headline wherever that had the same figure."""
    monkeypatch.setenv("COLUMNS", "80")
    began = "2026-11-30T21:31:00Z"
    row = RunRow("", "", "", "local", "complete", began, 1.0, 1, "max 2.73 µs (yield-cost)", 1)
    for worst, measured, end in (
        ("2.73 µs (CPU 0, idle). The samples have no due times.", "yield-cost", "µs (yield-cost)"),
        ("2.73 µs (CPU 0, load sched)", "timer, sched", "  2.73 µs (timer, sched)"),
        ("1.50 µs (CPU 0, idle)", "timer", "  1.50 µs (timer)"),
    ):
        store_list._print_runs([row], [brief.Brief("not proven", "", worst, "", measured)])
        assert capsys.readouterr().out.splitlines()[1].endswith(end)


def test_a_measurement_that_is_left_out_shortens_no_label(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    began, label = "2026-11-30T21:31:00Z", "twelve_chars"
    headline = "max 2.73 µs (signal-handler-latency)"
    row = RunRow("", label, "", "lab:x86_64-stock-6.1", "complete", began, 1.0, 1, headline, 1)
    store_list._print_runs([row], [brief.Brief("not proven", "", "")])
    line = capsys.readouterr().out.splitlines()[1]
    assert f" {label} " in line and line.endswith("  2.73 µs")
