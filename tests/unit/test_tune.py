# SPDX-License-Identifier: Apache-2.0
"""Tunes on the fake target, which boots with the arguments it is given: the loop, what becomes of
configurations that do not boot, interruptions, and what is printed."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from conftest import Run
from rtgauge import target as targets
from rtgauge.cli import tune as rtgauge_tune
from rtgauge.engine import tune as engine
from rtgauge.engine.tune import blamed, screening
from rtgauge.errors import TargetError
from rtgauge.report.sets.tuned import validate
from rtgauge.stats import designs
from rtgauge.store import Store
from rtgauge.target.fake import FakeAgent, FakeTarget
from streams import booted

LATE = {"late": ""}


class Board(FakeTarget):
    """A fake whose samples are late unless ``fast=1``, that hangs with ``idle=poll``, and does not
    know ``foo=1``."""

    obstacle = ""
    boots: ClassVar[list[list[str]]] = []
    seeds: ClassVar[list[int]] = []
    ends_at: ClassVar[int] = 0
    fails_at: ClassVar[int] = 0

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail)
        self.arguments: list[str] = []

    def boot_with(self, arguments: Sequence[str]) -> None:
        self.arguments = list(arguments)
        Board.boots.append(self.arguments)
        assert len(Board.seeds) == len(Board.boots)  # the seed is that of the boot
        if len(Board.boots) == Board.fails_at:
            raise TargetError("connection lost", "check the network")
        if len(Board.boots) == Board.ends_at:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)  # until the main thread knows

    def begin_repeat(self, repeat: int) -> None:
        Board.seeds.append(repeat)

    def environment(self) -> bytes:
        if "idle=poll" in self.arguments:
            raise TargetError("the emulated board did not start", "see its console")
        return super().environment()

    def start(self, arguments: Sequence[str]) -> FakeAgent:
        self._faults = {} if "fast=1" in self.arguments else dict(LATE)
        return super().start(arguments)

    def _facts(self) -> dict[str, str | int | None]:
        unknown = " ".join(one for one in self.arguments if one == "foo=1")
        return {
            **super()._facts(),
            "/proc/cmdline": " ".join(["quiet", *self.arguments]),
            "agent.unknown_parameters": unknown,
        }


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> type[Board]:
    def opened(name: str, _agent: object = None) -> Board:
        return Board(name.partition(":")[2])

    monkeypatch.setattr(targets, "open_target", opened)
    monkeypatch.setattr(Board, "boots", [])
    monkeypatch.setattr(Board, "seeds", [])
    monkeypatch.setattr(Board, "ends_at", 0)
    monkeypatch.setattr(Board, "fails_at", 0)
    monkeypatch.setattr(designs, "FULL_RUNS", 8)  # two blocks of two factors
    return Board


class Remote(FakeTarget):
    """A fake that a command boots: its boot id and arguments are those in a file."""

    state: ClassVar[Path]

    def environment(self) -> bytes:
        return booted(self.state.stat().st_mtime_ns, self.state.read_text())

    def _facts(self) -> dict[str, str | int | None]:
        return {**super()._facts(), "/proc/cmdline": f"quiet {self.state.read_text()}".strip()}


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file with the arguments of the target, which is a ``Remote``."""
    path = tmp_path / "state"
    path.write_text("")
    monkeypatch.setattr(Remote, "state", path, raising=False)
    monkeypatch.setattr(targets, "open_target", lambda _name, _agent=None: Remote())
    monkeypatch.setattr(designs, "FULL_RUNS", 8)
    monkeypatch.setattr("rtgauge.engine.boot.RETRY_S", 0.01)
    return path


def words(*tried: str) -> list[str]:
    found = ["tune", "timer", "--target", "fake", "--for", "1s", "--order-seed", "1"]
    found += ["--blocks", "6"]
    return [*found, *(word for one in tried for word in ("--try", one))]


def tuned(rtgauge: Run, *tried: str, code: int = 0) -> dict[str, Any]:
    result = rtgauge(*words(*tried), "--json")
    assert result.code == code, result.err
    document: dict[str, Any] = result.json()
    validate(document)
    return document


def interrupted(rtgauge: Run, board: type[Board], boot: int, *tried: str) -> dict[str, Any]:
    """A tune that Ctrl-C ended at this boot."""
    board.ends_at = boot
    found = tuned(rtgauge, *tried, code=4)
    board.ends_at = 0
    return found


def record_of(study: str) -> Path:
    with Store.open() as store:
        return store.path.parent / "tunes" / study / "tune.json"


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["verdict"] for one in document["factors"]}


@pytest.mark.study(131, lacks="the board, and options for which a kernel has to be built")
@pytest.mark.study(
    132, lacks="the board: no emulated one has hyper-threading, and counted ones have one CPU"
)
@pytest.mark.study(134, lacks="the board")
@pytest.mark.slow
def test_the_argument_that_helps_comes_first_and_is_confirmed(
    rtgauge: Run, board: type[Board]
) -> None:
    found = tuned(rtgauge, "a=1", "b=1", "fast=1", "stat_interval")
    assert found["state"] == "complete" and found["design"]["kind"] == "plackett-burman"
    first = found["factors"][0]
    assert (first["name"], first["verdict"]) == ("fast=1", "helps")
    assert first["ratio"] < 0.01
    assert verdicts(found) == {
        "fast=1": "helps", "a=1": "equivalent", "b=1": "equivalent", "stat_interval": "ignored"
    }  # fmt: skip
    assert found["confirmation"]["verdict"] == "better"
    assert found["confirmation"]["on"] == ["fast=1"]
    assert found["confirmation"]["blocks"] == 6
    # blocks of the confirmation have seeds that the design had not
    screened = {row["block"] for row in found["configurations"] if row["phase"] == "screen"}
    confirmed = {row["block"] for row in found["configurations"] if row["phase"] == "confirm"}
    assert screened == set(range(12)) and confirmed == set(range(12, 18))
    assert sorted(board.seeds) == sorted([*range(18), *range(18)])
    assert first["permanent"] == [
        "echo 'GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT fast=1\"' "
        ">> /etc/default/grub.d/rtgauge.cfg"
    ]


@pytest.mark.slow
def test_all_combinations_of_two_factors(rtgauge: Run, board: type[Board]) -> None:
    found = tuned(rtgauge, "fast=1", "priority=95")
    assert found["design"]["kind"] == "full"
    assert verdicts(found) == {"fast=1": "helps", "priority=95": "equivalent"}
    # each configuration was booted, in the order of the design
    on = [[0 in row["on"], 1 in row["on"]] for row in found["configurations"]]
    assert [(["fast=1"] if kernel else []) for kernel, _ in on] == board.boots


@pytest.mark.slow
def test_settings_and_priority_reach_the_agent(rtgauge: Run, board: type[Board]) -> None:
    found = tuned(rtgauge, "stat_interval", "governor=performance", "priority=95")
    assert not board.boots
    with Store.open() as store:
        for row in found["configurations"]:
            step = store.get(row["run"]).document["steps"][0]
            names = {place: found["tried"][place]["values"][0] for place in row["on"]}
            items = ",".join(names[place] for place in (0, 1) if place in names)
            assert step["run_options"].get("prepare-only", "") == items
            assert step["parameters"].get("priority") == ("95" if 2 in names else None)


@pytest.mark.slow
def test_a_factor_that_does_not_boot_is_a_row_and_the_others_are_found(
    rtgauge: Run, board: type[Board]
) -> None:
    found = tuned(rtgauge, "a=1", "b=1", "fast=1", "idle=poll", "c=1")
    said = verdicts(found)
    assert said["fast=1"] == "helps" and said["idle=poll"] == "fails"
    assert said["a=1"] == said["b=1"] == said["c=1"] == "equivalent"
    row = next(one for one in found["factors"] if one["name"] == "idle=poll")
    assert "did not start" in row["reason"] and row["ratio"] is None
    failed = [one for one in found["configurations"] if one["state"] == "failed"]
    assert 3 <= len(failed) <= 8
    # what failed was measured again without it, so the design for the others is whole
    complete = [one for one in found["configurations"] if one["state"] == "complete"]
    assert len([one for one in complete if one["phase"] == "screen"]) == 24
    assert not any(3 in one["on"] for one in complete)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_a_run_that_fails_by_chance_is_measured_once_more(
    rtgauge: Run, board: type[Board], monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """At the end of its block, so the design is whole. If it fails again, nothing is decided."""
    alive = board.environment
    lost: list[list[str]] = []

    def environment(self: Board) -> bytes:
        if self.arguments == ["b=1"] and len(lost) < times:
            lost.append(self.arguments)
            raise TargetError("connection lost", "check the network")
        return alive(self)

    monkeypatch.setattr(board, "environment", environment)
    found = tuned(rtgauge, "fast=1", "b=1")
    assert found["dropped"] == {}
    rows = [one for one in found["configurations"] if one["phase"] == "screen"]
    first = next(one for one in rows if one["state"] == "failed")
    (retry,) = [one for one in rows if one["retry"]]
    assert first["again"] and first["reason"] == "connection lost"
    assert (retry["on"], retry["block"], retry["again"]) == (first["on"], first["block"], False)
    assert retry["state"] == ("complete" if times == 1 else "failed")
    assert len(rows) == 9
    # the retry was booted last in its block
    mine = [one for one in rows if one["block"] == first["block"]]
    places = [place for place, one in enumerate(board.boots) if one == ["b=1"]]
    assert places[1] == len(mine) * (first["block"] + 1) - 1
    said = verdicts(found)
    if times == 1:
        assert said == {"fast=1": "helps", "b=1": "equivalent"}
        assert found["confirmation"]["verdict"] == "better"
    else:
        assert said == {"fast=1": "not decided", "b=1": "not decided"}


@pytest.mark.slow
def test_the_result_says_what_was_measured_again(
    rtgauge: Run, board: type[Board], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board, "fails_at", 6)
    result = rtgauge(*words("a=1", "b=1"))
    assert "failed: connection lost (to be measured again)" in result.err
    assert "connection lost (measured again)" in " ".join(result.out.split())


def drops(rule: Callable[[list[set[int]], list[set[int]]], set[int]], chance: float) -> float:
    """The share of 3000 designs of six factors without any effect that lose a factor because
    each run fails with that chance. A run that failed is repeated at the end of its block."""
    source = random.Random(11)
    lost = 0
    for seed in range(3000):
        _, rows = screening(6, seed)
        failed: list[set[int]] = []
        good: list[set[int]] = []
        dropped: set[int] = set()
        for _, block in itertools.groupby(rows, lambda row: row["block"]):
            again = []
            for row in block:
                fails = source.random() < chance
                (failed if fails else good).append(set(row["on"]))
                again += [row] * fails
                dropped |= rule(failed, good)
            for row in again:
                (failed if source.random() < chance else good).append(set(row["on"]))
                dropped |= rule(failed, good)
        lost += bool(dropped)
    return lost / 3000


@pytest.mark.slow
def test_failures_by_chance_hardly_ever_drop_a_factor() -> None:
    """An inert factor is dropped if the first three runs with it fail: 6 factors, 1 failure in 20
    runs, at most 6 / 8000. With a rule of two failures, more would be."""

    def two(failed: list[set[int]], good: list[set[int]]) -> set[int]:
        found = set.intersection(*failed) - set().union(*good) if failed else set()
        return found if len(found) == 1 and len(failed) >= 2 else set()

    assert drops(blamed, 0.05) <= 0.001
    assert drops(blamed, 0.2) < drops(two, 0.2) / 2


@pytest.mark.parametrize(
    ("failed", "good", "found"),
    [
        ([{0}, {0}, {0}], [{1}, set()], {0}),
        ([{0}, {0}, {0}], [{1}], set()),  # one good run without it
        ([{0}, {0}], [{1}, set()], set()),  # two failures
        ([{0}, {0}, {0}], [{1}, {0}], set()),  # it was on in a good run
        ([{0, 2}, {0, 2}, {0, 2}], [{1}, set()], set()),  # 2 explains them, too
        ([{0, 2}, {0, 1}, {0, 1}, {0, 1}], [{1}, set()], {0}),
        ([{0}, {0}, {0}, {1}, {2}, {2}, {2}], [{1}, set()], {0, 2}),  # two that fail
    ],
)
def test_the_factor_to_blame(failed: list[set[int]], good: list[set[int]], found: set[int]) -> None:
    assert blamed(failed, good) == found


@pytest.mark.slow
def test_two_arguments_that_do_not_boot_are_both_found(
    rtgauge: Run, board: type[Board], monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = board.environment

    def environment(self: Board) -> bytes:
        if "bad=1" in self.arguments:
            raise TargetError("kernel panic", "")
        return alive(self)

    monkeypatch.setattr(board, "environment", environment)
    found = tuned(rtgauge, "fast=1", "idle=poll", "bad=1", "a=1")
    assert verdicts(found) == {
        "fast=1": "helps", "a=1": "equivalent", "idle=poll": "fails", "bad=1": "fails",
    }  # fmt: skip
    assert "kernel panic" in found["dropped"]["bad=1"]


@pytest.mark.slow
def test_an_argument_that_the_kernel_ignores_is_said(rtgauge: Run, board: type[Board]) -> None:
    found = tuned(rtgauge, "fast=1", "foo=1")
    row = next(one for one in found["factors"] if one["name"] == "foo=1")
    assert row["verdict"] == "ignored" and "foo=1" in row["reason"]


@pytest.mark.slow
def test_what_was_not_in_effect_is_said(rtgauge: Run, board: type[Board]) -> None:
    """The fake has no settings."""
    found = tuned(rtgauge, "stat_interval", "priority=90")
    assert verdicts(found) == {"stat_interval": "ignored", "priority=90": "equivalent"}
    row = next(one for one in found["factors"] if one["name"] == "stat_interval")
    assert row["reason"] == "the target has no such setting, or already has this value"


@pytest.mark.slow
def test_where_nothing_helps_nothing_is_confirmed(rtgauge: Run, board: type[Board]) -> None:
    found = tuned(rtgauge, "a=1")
    assert verdicts(found) == {"a=1": "equivalent"}
    assert found["confirmation"] is None
    assert len(board.boots) == 8


def test_a_plan_that_disturbs_is_refused_outside_the_lab(rtgauge: Run, board: type[Board]) -> None:
    step = "[[step]]\nmeasurement = 'timer'\nfor = '1s'\ndisturb = 'kthread:1ms:9ms'\n"
    Path("plan.toml").write_text(step)
    result = rtgauge("tune", "plan.toml", "--target", "fake", "--try", "a=1")
    assert result.code == 2
    assert "rtgauge tune does not disturb it" in result.err
    assert "leave disturb out of the plan" in result.err
    assert "--allow-disturb" not in result.err
    assert board.boots == []


def test_a_target_that_never_works_ends_the_tune(rtgauge: Run, board: type[Board]) -> None:
    alive, asked = board.environment, [0]

    def dead(self: Board) -> bytes:
        asked[0] += 1
        if asked[0] == 1:  # the state that it is found in
            return alive(self)
        raise TargetError("no power", "plug it in")

    board.environment = dead  # type: ignore[method-assign]
    try:
        result = rtgauge(*words("a=1", "b=1"))
    finally:
        del board.environment
    assert result.code == 1
    assert "configurations failed, and none worked: no power" in result.err
    assert len(board.boots) < 10


@pytest.mark.slow
def test_a_target_that_dies_ends_the_tune(
    rtgauge: Run, board: type[Board], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other runs failed, and the tune was complete, with the exit code 0."""
    alive = board.environment

    def dying(self: Board) -> bytes:
        if len(board.boots) > 4:
            raise TargetError("no power", "plug it in")
        return alive(self)

    with monkeypatch.context() as dead:
        dead.setattr(board, "environment", dying)
        result = rtgauge(*words("a=1", "b=1"))
    assert result.code == 1
    assert "configurations failed in a row, among them the present one: no power" in result.err
    assert len(board.boots) < 20
    document = rtgauge("tune", "--resume", "--json").json()
    assert document["state"] == "complete"
    assert verdicts(document).keys() == {"a=1", "b=1"}


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ("complete", "[2/3] present: latency max 9 µs"),
        ("waiting", "[2/3] present: interrupted"),
        ("failed", "[2/3] present: failed: no power"),
    ],
)
def test_an_interrupted_configuration_has_its_own_number_and_no_figure(
    state: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"number": 1, "state": state, "on": [], "again": False, "reason": "no power"}
    row["duration_s"] = 1.0
    other = {"state": "complete", "duration_s": 1.0}
    record = {"configurations": [other, row, {"state": "waiting"}]}
    unused: Any = None
    progress = rtgauge_tune._Tune(unused, FakeTarget(""), [], unused, unused, unused, record)
    progress.begins(row).figure = "latency max 9 µs"
    progress.ended(row)
    assert capsys.readouterr().err.startswith(line)


@pytest.mark.slow
def test_ctrl_c_and_resume(rtgauge: Run, board: type[Board]) -> None:
    found = interrupted(rtgauge, board, 5, "fast=1", "b=1")
    assert found["state"] == "interrupted"
    states = [row["state"] for row in found["configurations"]]
    assert states.count("waiting") >= 3 and states.count("complete") <= 5
    result = rtgauge("tune", "--resume", "--json")
    assert result.code == 0, result.err
    again = result.json()
    assert again["study"] == found["study"] and again["state"] == "complete"
    assert again["design"] == found["design"]
    kept = [row["run"] for row in found["configurations"] if row["state"] == "complete"]
    assert [row["run"] for row in again["configurations"]][: len(kept)] == kept
    assert verdicts(again)["fast=1"] == "helps"
    assert rtgauge("tune", "--resume").code == 2
    assert rtgauge("tune", "--resume", again["study"][:18]).code == 2


@pytest.mark.slow
def test_a_tune_that_another_process_continued_is_not_overwritten(
    rtgauge: Run, board: type[Board], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record_of(interrupted(rtgauge, board, 3, "fast=1", "b=1")["study"])
    announce, record = rtgauge_tune._announce, path.read_text()
    states: list[str] = []

    def meanwhile(*given: Any) -> None:
        announce(*given)
        found = json.loads(path.read_text())
        found["configurations"][-1]["state"] = "complete"
        path.write_text(json.dumps(found))

    monkeypatch.setattr(rtgauge_tune, "_announce", meanwhile)
    result = rtgauge("tune", "--resume")
    assert result.code == 1 and "another process has continued" in result.err
    assert json.loads(path.read_text())["configurations"][-1]["state"] == "complete"

    path.write_text(record)
    monkeypatch.setattr(rtgauge_tune, "_announce", announce)
    boot = board.boot_with

    def noted(one: Board, arguments: Sequence[str]) -> None:
        states.append(json.loads(path.read_text())["state"])
        boot(one, arguments)

    monkeypatch.setattr(board, "boot_with", noted)
    rtgauge("tune", "--resume")
    assert set(states) == {"running"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--try", "c=1"], "--try"),
        (["--order-seed", "2"], "--order-seed"),
        (["--for", "3s"], "plan"),
        (["--blocks", "7"], "--blocks"),
        (["--label", "other"], "label"),
    ],
)
def test_a_tune_is_not_resumed_with_other_runs(
    rtgauge: Run, board: type[Board], more: list[str], named: str
) -> None:
    interrupted(rtgauge, board, 3, "fast=1", "b=1")
    boots = len(board.boots)
    result = rtgauge("tune", "--resume", *more)
    assert result.code == 2
    assert f"began with other values of {named}" in result.err
    assert len(board.boots) == boots


@pytest.mark.slow
def test_a_tune_is_not_resumed_on_another_target(
    rtgauge: Run, board: type[Board], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(rtgauge, board, 3, "fast=1")
    monkeypatch.setattr(targets, "open_target", lambda _name, _agent=None: Board("skipped"))
    result = rtgauge("tune", "--resume")
    assert result.code == 2 and "began with other values of target" in result.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "other"),
    [
        ({"release": "5.10.0-other"}, True),
        ({"version": "#2 SMP PREEMPT_DYNAMIC"}, True),
        ({"cmdline": "isolcpus=1"}, False),
    ],
)
def test_a_tune_is_not_resumed_with_another_kernel(
    rtgauge: Run, board: type[Board], changes: dict[str, str], other: bool
) -> None:
    found = interrupted(rtgauge, board, 3, "fast=1")
    with Store.open() as store:
        for row in found["configurations"]:
            if row["state"] == "complete":
                path = store.path / row["run"] / "run.json"
                document = json.loads(path.read_text())
                document["environment"]["kernel"].update(changes)
                path.write_text(json.dumps(document))
    result = rtgauge("tune", "--resume")
    assert result.code == (2 if other else 0), result.err
    assert ("was measured on another system (fake, " in result.err) == other


def test_a_new_tune_does_not_list_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Store, "runs")
    record = {"configurations": [{"state": "waiting", "run": ""}]}
    with Store.open() as store:
        rtgauge_tune._check_system(store, record, FakeTarget(""))


@pytest.mark.slow
def test_a_resumed_tune_runs_no_program_without_consent(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, remote: Path, tmp_path: Path
) -> None:
    """Somebody else may have written the record, including its consent."""
    ran = tmp_path / "ran"
    boot = f"f() {{ printf '%s' \"$*\" >{remote}; touch {ran}; }}; f"
    with monkeypatch.context() as patch:
        patch.setattr(engine.Tuner, "carry_out", lambda _: False)
        more = ["--boot-cmd", boot, "--load-cmd", "stress", "--allow-load-cmd"]
        begun = rtgauge(*words("a=1"), *more)
    assert begun.code == 4 and " --allow-load-cmd continues it" in begun.err
    asked = rtgauge("tune", "--resume")
    who = "the resumed tune would run 'stress' on fake as the user of the connection, which needs"
    assert asked.code == 2 and who in asked.err
    assert "--dry-run --json), then add --allow-load-cmd" in asked.err
    asked = rtgauge("tune", "--resume", "--load-cmd", "stress")
    assert asked.code == 2 and "on this machine as " in asked.err and "would run 'f()" in asked.err
    assert not ran.exists()
    shown = rtgauge("tune", "--resume", "--dry-run", "--json")
    assert shown.code == 0 and shown.json()["boot_command"] == boot
    done = rtgauge("tune", "--resume", "--allow-load-cmd", "--json")
    assert done.code == 0 and ran.exists(), done.err
    assert "the resumed tune runs 'stress' on fake" in done.err


@pytest.mark.slow
def test_what_the_user_names_on_resuming_a_tune_needs_no_consent(
    rtgauge: Run, board: type[Board], tmp_path: Path
) -> None:
    agent = tmp_path / "agent"
    agent.touch()
    board.ends_at = 2
    assert rtgauge(*words("a=1"), "--agent", str(agent)).code == 4
    board.ends_at = 0
    asked = rtgauge("tune", "--resume", "--dry-run")
    assert asked.code == 2 and f"would run the agent '{agent}', which needs" in asked.err
    for more in (["--agent", str(agent)], ["--allow-load-cmd"]):
        assert rtgauge("tune", "--resume", "--dry-run", *more).code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("board")
def test_a_command_that_is_not_called_needs_no_consent(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An emulated board boots itself. A message said to run the command by hand."""
    command = f"touch {tmp_path / 'ran'}"
    with monkeypatch.context() as patch:
        patch.setattr(engine.Tuner, "carry_out", lambda _: False)
        assert rtgauge(*words("a=1"), "--boot-cmd", command).code == 4
    found = rtgauge("tune", "--resume", "--json")
    assert found.code == 0 and not (tmp_path / "ran").exists(), found.err
    assert (found.json()["boot_command"], found.json()["booted"]) == ("", [])


@pytest.mark.slow
def test_a_tune_without_arguments_for_the_kernel_records_no_command_that_boots(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine.Tuner, "carry_out", lambda _: False)
        assert rtgauge(*words("stat_interval"), "--boot-cmd", "reboot").code == 4
    shown = rtgauge("tune", "--resume", "--dry-run", "--json")
    assert shown.code == 0 and shown.json()["boot_command"] == "", shown.err


@pytest.mark.slow
def test_a_tune_of_another_store_is_resumed(
    rtgauge: Run, board: type[Board], tmp_path: Path
) -> None:
    store = f"--store={tmp_path / 'other' / 'runs'}"
    board.ends_at = 3
    found = rtgauge(*words("fast=1"), store, "--json")
    assert found.code == 4
    board.ends_at = 0
    assert rtgauge("tune", "--resume").code == 2
    study = found.json()["study"]
    result = rtgauge("tune", f"--resume={study}", store, "--blocks=6", "--json")
    assert result.code == 0 and result.json()["study"] == study


@pytest.mark.slow
def test_a_killed_tune_goes_on_with_what_was_running(rtgauge: Run, board: type[Board]) -> None:
    study = interrupted(rtgauge, board, 5, "fast=1", "b=1")["study"]
    path = record_of(study)
    document = json.loads(path.read_text())
    document["state"] = "running"
    row = next(one for one in document["configurations"] if one["state"] == "waiting")
    row["state"] = "running"
    path.write_text(json.dumps(document))
    result = rtgauge("tune", "--resume", study[:18], "--json")
    assert result.code == 0, result.err
    rows = result.json()["configurations"]
    assert {(row["state"], row["reason"]) for row in rows} == {("complete", "")}


@pytest.mark.slow
def test_a_record_from_before_retries_is_resumed(rtgauge: Run, board: type[Board]) -> None:
    path = record_of(interrupted(rtgauge, board, 3, "fast=1", "b=1")["study"])
    document = json.loads(path.read_text())
    for row in document["configurations"]:
        del row["retry"]
    path.write_text(json.dumps(document))
    board.fails_at = len(board.boots) + 1
    result = rtgauge("tune", "--resume", "--json")
    assert result.code == 0, result.err
    states = [row["state"] for row in result.json()["configurations"]]
    assert states.count("failed") == 1 and set(states) == {"complete", "failed"}
    rows = result.json()["configurations"]
    assert sum(row.get("retry", False) for row in rows) == 1


def test_a_damaged_record_can_be_deleted(rtgauge: Run, board: type[Board]) -> None:
    folder = record_of("one").parent
    folder.mkdir(parents=True)
    head = {"format": "rtgauge-tune", "version": 1, "study": "one", "state": "failed"}
    for text in ("{", json.dumps(head), json.dumps({**head, "words": ["timer"]})):
        (folder / "tune.json").write_text(text)
        result = rtgauge("tune", "--resume")
        assert result.code != 0
        assert "tune one is damaged" in result.err and f"delete {folder}" in result.err
    shutil.rmtree(folder)
    assert "damaged" not in rtgauge("tune", "--resume").err


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"study": "../../elsewhere"},  # the record is written there
        {"words": [1]},
        {"booted": [None]},
        {"design": {"seed": 1}},
        {"configurations": [{}]},
        {"tried": []},
    ],
)
def test_a_record_of_another_form_is_damaged(
    rtgauge: Run, board: type[Board], change: dict[str, Any]
) -> None:
    study = interrupted(rtgauge, board, 2, "a=1")["study"]
    path = record_of(study)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    result = rtgauge("tune", "--resume", study)
    assert result.code != 0 and f"tune {study} is damaged" in result.err, result.err


def test_dry_run_prints_the_configurations_and_boots_nothing(
    rtgauge: Run, board: type[Board]
) -> None:
    result = rtgauge(*words("fast=1", "b=1"), "--dry-run")
    assert result.code == 0
    assert "8 runs, and 12 for the confirmation, about" in result.err
    assert result.out.count("fast=1 + b=1") == 2
    assert "\npresent: the target as it is, without a value that is tried." in result.out
    assert not board.boots
    assert max(map(len, result.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("tried", "message"),
    [
        (["preempt=full", "preempt=none"], "cannot be combined: both set preempt"),
        (["skew-tick=0", "skew_tick=1"], "cannot be combined: both set skew_tick"),
        (["priority=90", "priority=91"], "cannot be combined: both set priority"),
        (["a=1", "a=1"], "is given twice"),
        (["governor", "governor=performance"], "is given twice"),
        (["governor=powersave"], "the only governor that a run sets is performance"),
        (["stat_intervall"], "not a setting of tune"),
        (["governer=performance"], "did you mean 'governor=performance'?"),
        (["prioritiy=90"], "did you mean 'priority=90'?"),
        (["priority=200"], "too large"),
        (["it's"], "is not an argument for the kernel"),
        ([""], "is not an argument for the kernel"),
        ([], "nothing to try"),
        ([f"a{number}=1" for number in range(20)], "20 factors are too many"),
    ],
)
def test_factors_that_cannot_be_tried_are_refused(
    rtgauge: Run, board: type[Board], tried: list[str], message: str
) -> None:
    result = rtgauge(*words(*tried))
    assert result.code == 2
    assert message in result.err
    assert not board.boots


@pytest.mark.parametrize("option", ["--boot-timeout", "--reconnect"])
def test_a_wrong_time_is_refused_before_anything_is_recorded(
    rtgauge: Run, board: type[Board], option: str
) -> None:
    result = rtgauge(*words("a=1"), option, "soon")
    assert result.code == 2 and f"{option}: 'soon' is not a number with a unit" in result.err
    assert "no tune was interrupted" in rtgauge("tune", "--resume").err
    assert not board.boots


def test_settings_that_every_run_has_are_not_tried(rtgauge: Run, board: type[Board]) -> None:
    for option in ("--prepare", "--keep-settings"):
        result = rtgauge(*words("governor"), option)
        assert result.code == 2 and f"cannot be tried with {option}" in result.err
        assert ("rtgauge.toml" in result.err) is (option == "--prepare")
    result = rtgauge(*words("priority=95"), "--priority", "95")
    assert result.code == 2 and "is already the setting of 'timer' in every run" in result.err


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_governor_that_the_kernel_does_not_have_is_not_tried(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    from rtgauge.engine import environment  # noqa: PLC0415

    def read_facts(data: bytes) -> tuple[Any, dict[str, Any], list[Any]]:
        header, facts, settings = read(data)
        absent = {name: None for name in facts if name.endswith("/scaling_governor")}
        assert absent
        return header, facts | absent, settings

    tried = ("tune", "timer", "--target", "fake", "--for", "1s", "--try", "governor")
    assert rtgauge(*tried, "--dry-run").code == 0
    read = environment.read_facts
    monkeypatch.setattr(environment, "read_facts", read_facts)
    refused = rtgauge(*tried, *more)
    assert (refused.code, refused.out) == (2, "")
    assert "the kernel of fake does not control the frequency of its CPUs" in refused.err
    for helped in (("tune", "--help"), ("tune", "timer", "--help")):  # examples work there, too
        examples = re.findall(r"rtgauge (tune timer .*--try .*)", rtgauge(*helped).out)
        examples = [one for one in examples if "lab:" not in one]
        assert examples
        for example in examples:
            assert rtgauge(*example.split(), "--target", "fake", "--dry-run").code == 0


def test_an_argument_that_the_kernel_has_is_not_tried(rtgauge: Run, board: type[Board]) -> None:
    result = rtgauge(*words("quiet"))
    assert result.code == 2 and "already has 'quiet'" in result.err
    assert not board.boots


@pytest.mark.slow
def test_connections_of_a_tune_are_retried_as_long_as_the_user_says(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience: dict[str, float] = {}

    class Connected(FakeTarget):
        reconnect_s = 600.0
        lost = ""

        def regain(self, _stop: Callable[[], bool]) -> str:
            return ""

        def start(self, arguments: Sequence[str]) -> FakeAgent:
            patience[arguments[1]] = self.reconnect_s
            return super().start(arguments)

    monkeypatch.setattr(targets, "open_target", lambda _name, _agent=None: Connected())
    monkeypatch.setattr(engine, "open_target", lambda _name: Connected())
    given = "tune response --target fake --try stat_interval --for 1s --blocks 6 --order-seed 1"
    lines = "--line gpio:a:1:2 --log-host fake --log-line gpio:b:3:4 --reconnect 5s"
    rtgauge(*given.split(), *lines.split())
    assert {"response", "log-host"} <= set(patience) and set(patience.values()) == {5.0}


def test_a_load_command_keeps_the_rights_that_it_was_given(
    rtgauge: Run, board: type[Board]
) -> None:
    result = rtgauge(*words("stat_interval"), "--load-cmd", "true", "--load-cmd-root", "--dry-run",
                     "--json")  # fmt: skip
    (step,) = result.json()["plan"]["steps"]
    assert step["load_command_root"] is True


def test_kernel_arguments_need_a_way_to_boot(rtgauge: Run) -> None:
    result = rtgauge("tune", "timer", "--target", "fake", "--try", "a=1")
    assert result.code == 2 and "--boot-cmd" in result.err


@pytest.mark.slow
def test_a_command_boots_the_target_and_it_is_put_back(
    rtgauge: Run, remote: Path, tmp_path: Path
) -> None:
    script = tmp_path / "boot"
    script.write_text(f'#!/bin/sh\nprintf "%s" "$*" >{remote}\necho "$*" >>{tmp_path}/boots\n')
    script.chmod(0o755)
    found = rtgauge(*words("a=1 b=2"), "--boot-cmd", str(script), "--json").json()
    validate(found)
    assert found["booted"] == [] and remote.read_text() == ""
    boots = (tmp_path / "boots").read_text().splitlines()
    wanted = ["a=1 b=2" if row["on"] else "" for row in found["configurations"]]
    # the present configuration is booted again at the end, if it is not the last one
    assert boots == wanted + [""] * bool(wanted[-1])
    # a command that ignores its arguments
    script.write_text(f"#!/bin/sh\necho >{remote}\n")
    result = rtgauge(*words("a=1"), "--boot-cmd", str(script))
    assert "the target booted without 'a=1' in /proc/cmdline" in result.err


@pytest.mark.slow
def test_a_target_is_put_back_if_nobody_reads_the_messages(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, remote: Path
) -> None:
    """The terminal is closed while the target has an argument that is tried."""

    class Closed(io.StringIO):
        closed_at = ""

        def write(self, text: str) -> int:
            self.closed_at = self.closed_at or remote.read_text()
            if self.closed_at:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().write(text)

    monkeypatch.setattr("sys.stderr", Closed())
    command = f"f() {{ printf '%s' \"$*\" >{remote}; }}; f"
    assert rtgauge(*words("a=1"), "--boot-cmd", command, "--json").json()["booted"] == []
    assert remote.read_text() == ""


@pytest.mark.slow
@pytest.mark.parametrize("without", ["exit 1", "touch {state}; exit 0"])
def test_a_target_that_keeps_its_arguments_is_said_and_recorded(
    rtgauge: Run, remote: Path, tmp_path: Path, without: str
) -> None:
    script = tmp_path / "boot"
    nothing = without.format(state=remote)
    script.write_text(
        f'#!/bin/sh\n[ $# -gt 0 ] || {{ {nothing}; }}\nprintf "%s" "$*" >{remote}\n'
        f'echo "$*" >>{tmp_path}/boots\n'
    )
    script.chmod(0o755)
    result = rtgauge(*words("a=1"), "--boot-cmd", str(script), "--json")
    found = result.json()
    # the last configuration is the present one, which the target could not be booted with
    last = found["configurations"][-1]
    assert last["on"] == [] and last["state"] == "failed"
    assert remote.read_text() == "a=1"
    assert found["booted"] == ["a=1"]
    assert "booting the present configuration again" in result.err
    assert "the target may still boot with a=1" in result.err
    assert f"Run by hand: {script}" in result.err


@pytest.mark.slow
def test_reports(rtgauge: Run, board: type[Board], tmp_path: Path) -> None:
    paths = [tmp_path / f"tune{suffix}" for suffix in (".html", ".md", ".json")]
    result = rtgauge(*words("fast=1", "b=1"), *(w for path in paths for w in ("-o", str(path))))
    assert result.code == 0
    # a command is one line, however long
    told = [line for line in result.out.splitlines() if not line.startswith(("echo", "Report"))]
    assert max(map(len, told)) <= 80
    page, text, document = (path.read_text() for path in paths)
    for made in (page, text):
        assert "confirmed in 6 fresh blocks" in made and "update-grub" in made
    assert "<script" not in page
    validate(json.loads(document))
    assert rtgauge(*words("a=1"), "-o", str(tmp_path / "tune.pdf")).code == 2
