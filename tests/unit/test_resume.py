# SPDX-License-Identifier: Apache-2.0
"""What ``evaluate --resume`` takes from runs that somebody else may have made."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bundles
from conftest import Run
from rtgauge.catalogue import Catalogue
from rtgauge.cli.consent import outside
from rtgauge.engine.run import Run as Run_
from rtgauge.engine.watch import Ended
from rtgauge.errors import UsageError
from rtgauge.plan import PlannedStep
from rtgauge.plan.choice import remaining
from rtgauge.store import RunFolder, Store
from rtgauge.target.fake import CATALOGUE, FakeTarget

SERIAL = "/proc/device-tree/serial-number"


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue.from_document(dict(CATALOGUE))


def _interrupt(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> str:
    """Interrupt an evaluation of the fake target at its second step; its id."""
    carried_out = Run_._step

    def step(self: Run_, index: int, planned: PlannedStep, interruption: Any) -> Ended:
        interruption.count = int(index == 1)
        return carried_out(self, index, planned, interruption)

    with monkeypatch.context() as patch:
        patch.setattr(Run_, "_step", step)
        words = ("--target", "fake", "--for", "1s", "--only", "timer,pendulum", "-o", "one.json")
        assert rtgauge("evaluate", *words).code == 4
    return str(json.loads(Path("one.json").read_text())["runs"][0]["id"])


@pytest.fixture
def import_changed(rtgauge: Run) -> Callable[..., None]:
    """Replaces a run of the store by an import of it whose run.json was changed."""

    def replace(run: str, change: Callable[[dict[str, Any]], None]) -> None:
        with Store.open() as store:
            files = bundles.files_of(store.path / run)
            store.delete(run)
        document = json.loads(files["run.json"])
        change(document)
        files["run.json"] = json.dumps(document).encode()
        Path("other.rtgauge").write_bytes(bundles.pack(files, run))
        assert rtgauge("import", "other.rtgauge").code == 0

    return replace


@pytest.mark.slow
def test_a_resumed_evaluation_runs_no_program_without_consent(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, import_changed: Callable[..., None]
) -> None:
    def change(document: dict[str, Any]) -> None:
        for planned in document["plan"]["steps"]:
            if planned["measurement"] == "pendulum":
                planned["load_command"] = "touch x"

    run = _interrupt(rtgauge, monkeypatch)
    import_changed(run, change)
    words = ("evaluate", "--target", "fake", "-o", "two.json", "--resume")
    by_itself = rtgauge(*words)
    assert (
        by_itself.code == 2
        and "on its machine with its kernel and parameters (imported ones are not considered)"
        in by_itself.err
    )
    dry = rtgauge(*words, run, "--dry-run")
    assert dry.code == 0 and ", load command (command: 'touch x')" in dry.out
    refused = rtgauge(*words, run)
    assert refused.code == 2
    what = "the resumed evaluation would run 'touch x' on fake as the user of the connection, which"
    assert what in refused.err and "--allow-load-cmd" in refused.err
    assert len(rtgauge("runs", "--json").json()["runs"]) == 1
    allowed = rtgauge(*words, run, "--allow-load-cmd")
    assert allowed.code == 0, allowed.err
    assert "the resumed evaluation runs 'touch x' on fake as" in allowed.err


@pytest.mark.parametrize("load", ["list:program=/x", "churn:program=/x"])
def test_the_program_of_a_load_or_profile_needs_consent(load: str) -> None:
    [found] = outside(PlannedStep("timer", run={"load": f"cpu,{load}"}))
    assert (found.verb, found.text) == ("run", "'/x'")


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run["plan"].pop("steps"),
        lambda run: run["plan"].update(steps="timer"),
        lambda run: run["plan"].update(steps=[5]),
        lambda run: run["plan"].update(options=["for"]),
        lambda run: run["plan"]["steps"][1].pop("measurement"),
        lambda run: run["plan"]["steps"][1].update(measurement=["timer"]),
        lambda run: run["plan"]["steps"][1].pop("parameters"),
        lambda run: run["plan"]["steps"][1].update(parameters={"for": 5}),
        lambda run: run["plan"]["steps"][1].update(budget_ns=-5),
        lambda run: run["plan"]["steps"][1].update(budget_ns="5"),
        lambda run: run["plan"]["steps"][1].update(budget_ns=None, rate_per_hour=1.0),
    ],
)
def test_a_plan_of_another_shape_is_refused(
    change: Callable[[dict[str, Any]], None], catalogue: Catalogue
) -> None:
    run = interrupted()
    assert len(remaining(catalogue, [run]).steps) == 1
    change(run)
    with pytest.raises(UsageError, match="the plan of run 0199 is damaged"):
        remaining(catalogue, [run])


def test_options_that_an_older_version_did_not_have(catalogue: Catalogue) -> None:
    first, second = interrupted(), interrupted()
    second["plan"]["steps"] = [{**one, "new_option": ""} for one in second["plan"]["steps"][1:]]
    second["steps"] = [{"state": "complete"}]
    with pytest.raises(UsageError, match="no step left"):
        remaining(catalogue, [first, second])


def test_a_plan_cannot_name_a_log_host(catalogue: Catalogue) -> None:
    run = interrupted()
    run["plan"]["steps"][1]["parameters"]["log-host"] = "ssh://elsewhere"
    with pytest.raises(UsageError, match="log-host"):
        remaining(catalogue, [run])


def interrupted() -> dict[str, Any]:
    """The document of a run whose second step is missing, without what it may lack."""
    planned = [
        {"measurement": "timer", "parameters": {"for": length}, "budget_ns": 1000}
        for length in ("1s", "2s")
    ]
    plan = {"name": "evaluate", "steps": planned}
    return {"id": "0199", "plan": plan, "steps": [{"state": "complete"}, {}]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"host": "elsewhere"},
            "was measured on another machine (elsewhere, Fake Processor, x86_64). Target 'fake' is",
        ),
        (
            {"kernel": {"release": "5.10.0-other"}},
            "was measured with another kernel (5.10.0-other, #1 SMP PREEMPT_RT Fake). Target "
            "'fake' has 6.12.0-fake-rt, #1 SMP PREEMPT_RT Fake",
        ),
        ({"kernel": {"version": "#2 SMP PREEMPT_DYNAMIC"}}, "was measured with another kernel"),
        (
            {"kernel": {"cmdline": "quiet preempt=none"}},
            "with other kernel parameters (quiet preempt=none). Target 'fake' has quiet",
        ),
    ],
)
def test_an_evaluation_of_another_system_is_not_resumed(
    rtgauge: Run,
    monkeypatch: pytest.MonkeyPatch,
    import_changed: Callable[..., None],
    changes: dict[str, Any],
    why: str,
) -> None:
    def change(document: dict[str, Any]) -> None:
        environment = document["environment"]
        for name, value in changes.items():
            old = environment[name]
            environment[name] = {**old, **value} if isinstance(value, dict) else value

    run = _interrupt(rtgauge, monkeypatch)
    with Store.open() as store:
        path = store.path / run / "run.json"
    own = path.read_bytes()
    document = json.loads(own)
    change(document)
    path.write_text(json.dumps(document))
    words = ("evaluate", "--target", "fake", "-o", "two.json", "--resume")
    assert (
        "on its machine with its kernel and parameters (imported ones are not considered)"
        in rtgauge(*words).err
    )
    path.write_bytes(own)
    import_changed(run, change)
    refused = rtgauge(*words, run)
    assert refused.code == 2
    assert why in refused.err


@pytest.mark.slow
@pytest.mark.parametrize("line", ["BOOT_IMAGE=/boot/vmlinuz quiet initrd=/initrd.img", ""])
def test_the_names_of_booted_files_and_unknown_parameters_are_no_difference(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, import_changed: Callable[..., None], line: str
) -> None:
    run = _interrupt(rtgauge, monkeypatch)
    import_changed(run, lambda document: document["environment"]["kernel"].update(cmdline=line))
    words = ("evaluate", "--target", "fake", "-o", "two.json", "--dry-run", "--resume", run)
    assert rtgauge(*words).code == 0


@pytest.mark.slow
def test_boards_of_one_image_are_told_apart_by_their_serial_number(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = FakeTarget._facts

    def is_board(serial: str | None) -> None:
        monkeypatch.setattr(FakeTarget, "_facts", lambda self: {**facts(self), SERIAL: serial})

    is_board("1000aaaa")
    run = _interrupt(rtgauge, monkeypatch)
    words = ("evaluate", "--target", "fake", "-o", "two.json", "--dry-run", "--resume")
    with Store.open() as store:
        assert "1000aaaa" not in (store.path / run / "run.json").read_text()
    assert rtgauge(*words).code == 0
    is_board(None)  # such as an agent of an earlier version
    assert rtgauge(*words).code == 0
    is_board("1000bbbb")
    assert (
        "on its machine with its kernel and parameters (imported ones are not considered)"
        in rtgauge(*words).err
    )
    refused = rtgauge(*words, run)
    assert refused.code == 2
    assert (
        "on another machine (fake, Fake Processor, x86_64, serial number 1000aaaa). Target 'fake' "
        "is fake, Fake Processor, x86_64, serial number 1000bbbb" in refused.err
    )
    with Store.open() as store:
        (store.path / run / "environment.cbor").write_bytes(b"damaged")
    assert rtgauge(*words).code == 0


@pytest.mark.slow
def test_imported_runs_do_not_complete_a_study(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, import_changed: Callable[..., None]
) -> None:
    run = _interrupt(rtgauge, monkeypatch)
    words = ("evaluate", "--target", "fake", "-o", "two.json", "--resume")
    assert rtgauge(*words).code == 0
    second = json.loads(Path("two.json").read_text())["runs"][1]["id"]
    import_changed(second, lambda _: None)
    assert rtgauge(*words).code == 0
    third = json.loads(Path("two.json").read_text())["runs"]
    assert third[1]["plan"]["options"] == {"for": "1s", "only": "timer,pendulum"}
    assert [one["id"] == run for one in third] == [True, False] and second != third[1]["id"]


def test_a_run_that_is_carried_out_is_not_resumed(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _interrupt(rtgauge, monkeypatch)
    with Store.open() as store:
        folder = RunFolder.open(store.path / run)
        assert folder is not None
        with folder:
            folder.write_document({**store.get(run).document, "state": "running"})
            for named in ((), (run,)):
                asked = rtgauge("evaluate", "--target", "fake", "--resume", *named)
                assert asked.code == 2 and "it is being carried out" in asked.err


def test_a_run_that_is_not_there_is_not_resumed(rtgauge: Run) -> None:
    asked = rtgauge("evaluate", "--target", "fake", "--resume", "0199")
    assert asked.code == 2 and "there is no run '0199'" in asked.err
