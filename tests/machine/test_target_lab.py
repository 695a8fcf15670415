# SPDX-License-Identifier: Apache-2.0
"""The target ``lab:BOARD``, with a script in QEMU's place."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from conftest import Run
from rtgauge.catalogue import Catalogue
from rtgauge.engine.run import RunOutcome
from rtgauge.engine.study import execute
from rtgauge.engine.watch import Limits as RunLimits
from rtgauge.errors import TargetError, UsageError
from rtgauge.lab import Board, Image, machine
from rtgauge.lab.machine import MODES, Limits, consoles_folder
from rtgauge.lab.programs import Programs
from rtgauge.plan import Plan, PlannedStep
from rtgauge.report import Source
from rtgauge.store import Store
from rtgauge.target import lab as module
from rtgauge.target import open_target
from rtgauge.target.base import Emulation, pace_of, taken_s
from rtgauge.target.lab import LabTarget
from test_lab_machine import fake_qemu, process_ends

FACTS = {"kernel": "6.1.0-rt", "kernel digest": "00", "initramfs digest": "11"}


@pytest.fixture(autouse=True)
def fake_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No QEMU, no kernel, no agent of this machine."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("qemu-system-x86_64", "qemu-system-aarch64"):
        fake_qemu(programs, name)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    image = Image(Path("kernel"), Path("initramfs"), MappingProxyType(FACTS))
    monkeypatch.setattr(module, "lab_image", lambda board, library, say: image)
    none = Programs(tmp_path / "none", tmp_path / "none")
    monkeypatch.setattr(module, "programs", lambda machine, say: none)


@pytest.fixture
def lab() -> Iterator[Callable[..., LabTarget]]:
    """Opens targets, and closes them."""
    opened: list[LabTarget] = []

    def make(detail: str = "x86_64-rt-6.1", limits: Limits | None = None) -> LabTarget:
        opened.append(LabTarget(detail, limits))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def plan(*commands: str, cpu: str = "", name: str = "trial") -> Plan:
    """A step for each command that goes wrong ('': none does)."""
    parameters = {"for": "1s", **({"cpu": cpu} if cpu else {})}
    return Plan(
        name,
        tuple(
            PlannedStep("timer", MappingProxyType(parameters), {"load-cmd": command})
            for command in commands
        ),
    )


def carried_out(
    one: Plan, *targets: LabTarget, limits: RunLimits | None = None
) -> tuple[list[RunOutcome], dict[str, Any], Source]:
    with Store.open("data") as store:
        outcomes = execute(one, targets, store, limits=limits)
        source = Source([store.get(outcome.id) for outcome in outcomes])
        return outcomes, source.model["runs"][0], source


def test_a_run_on_a_board(lab: Callable[..., LabTarget]) -> None:
    outcomes, run, source = carried_out(plan("", ""), lab())
    assert [outcome.state for outcome in outcomes] == ["complete"]
    asked = [step for step in run["steps"] if step["role"] == "measurement"]
    assert [step["state"] for step in asked] == ["complete", "complete"]
    assert all(one["count"] for one in run["series"])
    made = run["environment"]["lab"]
    assert made["mode"] == "counted"
    assert "the figures are not a board's" in made["meaning"]
    assert made["board"] == "x86_64-rt-6.1"
    assert made["module"] == "loaded"
    assert made["QEMU"] == "QEMU emulator version 0.0 (fake)"
    assert FACTS.items() <= made.items()
    (found,) = (one for one in run["findings"] if one["check"] == "virtualisation")
    assert (found["level"], found["remedy"]) == ("note", "")
    assert "emulated board of the lab, counted mode" in found["found"]
    del source


def test_reports_say_that_it_was_emulated(lab: Callable[..., LabTarget], rtgauge: Run) -> None:
    store = ("--store", "cli")
    done = rtgauge("run", "timer", "--for", "1s", "--target", "lab:x86_64-rt-6.1", *store,
                   "-o", "a.html", "-o", "a.md")  # fmt: skip
    assert done.code == 0, done.err
    words = "Emulated board, counted mode: time is counted in instructions, without caches"
    assert words in " ".join(done.out.split())
    assert words in Path("a.html").read_text()
    assert words in Path("a.md").read_text()
    plain = rtgauge("run", "timer", "--for", "1s", "--target",
                    "lab:x86_64-rt-6.1,mode=plain", *store)  # fmt: skip
    assert "Emulated board, plain mode: real time, " in plain.out
    assert rtgauge("export", "last", "x.rtgauge", *store).code == 0
    assert rtgauge("delete", "last", "--yes", *store).code == 0
    assert rtgauge("import", "x.rtgauge", *store).code == 0


@pytest.mark.parametrize(
    ("command", "state", "message"),
    [("crash", "failed", "ended on its own"), ("exit=1", "failed", "")],
)
def test_steps_that_fail(
    lab: Callable[..., LabTarget], command: str, state: str, message: str
) -> None:
    _, run, _ = carried_out(plan("", command, ""), lab())
    steps = [step for step in run["steps"] if step["role"] == "measurement"]
    assert steps[0]["state"] == "complete"
    assert steps[1]["state"] == state
    assert message in steps[1]["reason"]
    if message:  # the machine is gone
        assert str(consoles_folder()) in steps[1]["remedy"]
        assert steps[2]["state"] == "failed"
    else:
        assert steps[2]["state"] == "complete"


def test_the_next_run_has_a_machine_of_its_own(lab: Callable[..., LabTarget]) -> None:
    target = lab()
    assert carried_out(plan("crash"), target)[1]["state"] == "failed"
    first, again = (carried_out(plan(""), target)[1] for _ in range(2))
    assert first["state"] == again["state"] == "complete"


def test_the_boots_of_counted_runs_are_told_apart(lab: Callable[..., LabTarget]) -> None:
    one, other = lab(), lab()
    runs = [carried_out(plan(""), target)[1] for target in (one, one, other)]
    assert len({run["boot_id"] for run in runs}) == 1  # as counted boots have it
    assert len({run["environment"]["lab"]["boot"] for run in runs}) == 3


@pytest.mark.slow
def test_a_board_that_hangs_is_ended(lab: Callable[..., LabTarget]) -> None:
    # half a second of the 66 that a counted one may take; ten times that, as it computes nothing
    limits = RunLimits(overtime_s=-65.5, stop_s=2.0)
    _, run, _ = carried_out(plan("sleep"), lab(), limits=limits)
    (step,) = (step for step in run["steps"] if step["role"] == "measurement")
    assert step["state"] == "failed"
    assert "did not end in time" in step["reason"]
    assert str(consoles_folder()) in step["remedy"]


def test_time_that_others_had_does_not_count() -> None:
    class Emulated:
        def __init__(self, computed: float) -> None:
            self.computed_s = lambda: computed

    one = Emulated(30.0)
    assert isinstance(one, Emulation) and not isinstance(object(), Emulation)
    assert taken_s(one, 40.0) == 30.0
    assert taken_s(one, 300.0) == 30.0
    assert taken_s(one, 3000.0) == 300.0
    assert taken_s(None, 40.0) == 40.0


def test_silence_is_no_fault(lab: Callable[..., LabTarget]) -> None:
    limits = RunLimits(first_s=0.0, silence_s=0.0)
    assert carried_out(plan(""), lab(), limits=limits)[1]["state"] == "complete"


@pytest.mark.slow
def test_ctrl_c_ends_the_board(lab: Callable[..., LabTarget]) -> None:
    target = lab()
    target.environment()
    timer = threading.Timer(3.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    _, run, _ = carried_out(plan("", "sleep", ""), target)
    timer.join()
    steps = [step for step in run["steps"] if step["role"] == "measurement"]
    assert [step["state"] for step in steps] == ["complete", "interrupted", "skipped"]
    assert "samples are lost" in steps[1]["reason"]
    assert run["state"] == "interrupted"


def test_an_agent_that_is_closed_ends_the_board(lab: Callable[..., LabTarget]) -> None:
    target = lab()
    target.environment()
    agent = target.start(["run", "timer", "--load-cmd", "sleep"])
    pid = target._machine.pid if target._machine else None
    assert agent.read(0.05) is None
    assert agent.wait(0.05) is None
    agent.close()
    assert pid is not None
    assert process_ends(pid)
    with pytest.raises(TargetError, match="it has ended"):
        target.start(["run", "timer"])


def test_any_program_and_any_file(lab: Callable[..., LabTarget]) -> None:
    target = lab()
    assert target.execute(["/bin/echo", "hello"]).stdout == b"hello"
    target.put("/tmp/x", b"content")


def test_describe_comes_from_the_board_where_its_agent_is_none_for_here(
    lab: Callable[..., LabTarget],
) -> None:
    assert "timer" in Catalogue.from_json(lab("arm64-stock-6.1").describe()).measurements


def test_the_mode_is_chosen_by_what_is_asked_for(lab: Callable[..., LabTarget]) -> None:
    target = lab()
    target.settle(0, [])
    assert target.facts["mode"] == "counted"
    sides = [pace_of(target).independent]
    assert (pace_of(target).speaks, pace_of(target).scale > 10) == (False, True)
    target.settle(2, [])
    assert target.facts["mode"] == "plain"
    assert target.setup().cpus == 3
    assert [*sides, pace_of(target).independent] == [True, False]
    assert "-icount" not in target.setup().mode.arguments
    assert lab("x86_64-rt,cpus=4").setup().mode.name == "plain"
    assert lab("x86_64-rt,cpus=4").setup().one_thread
    assert not lab("arm64-rt,cpus=4").setup().one_thread
    named = lab("x86_64-rt,mode=counted")
    with pytest.raises(UsageError, match="only CPU 0"):
        named.settle(1, [])
    with pytest.raises(UsageError, match="CPU 8"):
        lab().settle(8, [])


@pytest.mark.parametrize("detail", ["x86_64-rt-6.1,mode=plain", "x86_64-rt-6.1"])
def test_kernels_are_not_compared_in_plain_mode(lab: Callable[..., LabTarget], detail: str) -> None:
    cpu = "" if "plain" in detail else "1"
    with pytest.raises(UsageError, match="plain mode") as caught:
        carried_out(plan("", cpu=cpu), lab(detail), lab("x86_64-stock-6.1"))
    assert "without mode=plain and cpus" in caught.value.remedy


def test_boards_with_lines_outside_are_compared_one_after_the_other(
    lab: Callable[..., LabTarget],
) -> None:
    """Counted mode is not an alternative for them."""
    with pytest.raises(UsageError, match="plain mode") as caught:
        carried_out(plan(""), lab("arm64-rt-6.1,lines=outside"), lab("arm64-stock-6.1"))
    assert "counted" not in caught.value.remedy and "by itself" in caught.value.remedy


def test_counted_boards_of_a_study_run(lab: Callable[..., LabTarget]) -> None:
    outcomes, _, _ = carried_out(plan(""), lab(), lab("x86_64-stock-6.1,preempt=full"))
    assert [(one.target, one.state) for one in outcomes] == [
        ("lab:x86_64-rt-6.1", "complete"),
        ("lab:x86_64-stock-6.1,preempt=full", "complete"),
    ]


def test_without_qemu_nothing_is_fetched(
    lab: Callable[..., LabTarget], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> Image:
        raise AssertionError("an image is made that nothing can boot")

    monkeypatch.setattr(module, "lab_image", never)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TargetError, match="qemu-system-x86_64, which is not"):
        lab().environment()


def test_the_firmware_that_starts_sooner_is_taken_where_qemu_has_it(
    lab: Callable[..., LabTarget], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "FIRMWARE_FOLDERS", (tmp_path / "data",))
    target = lab()
    assert "-bios" not in target.setup().devices
    assert target.facts["firmware"] == "QEMU's own"
    firmware = tmp_path / "data" / "qboot.rom"
    firmware.parent.mkdir()
    firmware.touch()
    assert target.setup().devices[-2:] == ("-bios", str(firmware))
    assert target.facts["firmware"] == "qboot.rom"
    assert "-bios" not in lab("arm64-stock-6.1").setup().devices
    assert "-bios" not in lab("x86_64-rt-6.1,mode=plain").setup().devices


def test_kernel_arguments(lab: Callable[..., LabTarget]) -> None:
    setup = lab("x86_64-stock-6.1,preempt=full,isolcpus=1,memory=1024,mem=1G,maxcpus=1").setup()
    words = setup.arguments.split()
    assert words[0] == "console=ttyS0"
    assert words[-4:] == ["preempt=full", "isolcpus=1", "mem=1G", "maxcpus=1"]
    assert setup.memory_mib == 1024


def test_each_repeat_of_a_study_has_a_boot_and_a_seed_of_its_own(
    lab: Callable[..., LabTarget],
) -> None:
    target = lab()
    boots = []
    for repeat in range(3):
        target.begin_repeat(repeat)
        target.environment()
        target.environment()
        assert target.facts["seed"] == str(repeat + 1)
        boots.append(target.facts["boot"])
        assert target.setup().seed == repeat + 1
    assert len(set(boots)) == 3
    named = lab("x86_64-rt-6.1,seed=7")
    named.begin_repeat(2)
    assert named.setup().seed == 7
    assert named.facts["seed"] == "7"
    with pytest.raises(UsageError, match="a seed needs counted mode"):
        named.settle(1, [])
    plain = lab("x86_64-rt-6.1,mode=plain")
    plain.begin_repeat(2)
    assert "seed" not in plain.facts


@pytest.mark.slow
def test_each_run_of_a_tune_has_a_boot_of_its_own(lab: Callable[..., LabTarget]) -> None:
    """With the seed of its block, also if a run of an earlier block is repeated."""
    target = lab()
    boots, seeds = [], []
    for block in (0, 0, 1, 0):
        target.begin_repeat(block)
        target.environment()
        boots.append(target.facts["boot"])
        seeds.append(target.facts["seed"])
        target.start(["run", "timer"]).wait(10.0)
    assert len(set(boots)) == 4
    assert seeds == ["1", "1", "2", "1"]
    for block, seed in ((1, "2"), (0, "1")):  # without a measurement in between
        target.begin_repeat(block)
        target.environment()
        assert target.facts["seed"] == seed


def test_wired_lines(lab: Callable[..., LabTarget]) -> None:
    target = lab("arm64-rt-6.1,lines=0:1+5:2")
    setup = target.setup()
    assert [(wire.output, wire.input) for wire in setup.wires] == [(0, 1), (5, 2)]
    assert target.facts["lines"] == "9030000.pl061:0:1, 9030000.pl061:5:2"
    with pytest.raises(UsageError, match="shell of a board does not support lines"):
        target.shell_words()
    bare = lab("arm64-rt-6.1")
    assert bare.setup().wires == ()
    assert "lines" not in bare.facts
    assert bare.shell_words()


def test_lines_from_outside(lab: Callable[..., LabTarget]) -> None:
    target = lab("arm64-rt-6.1,lines=outside")
    setup = target.setup()
    assert setup.outside
    assert setup.wires == ()
    assert setup.mode is MODES["plain"]
    assert target.facts["lines"] == "outside"
    assert pace_of(target).speaks
    assert not setup.doorbell
    assert not lab("arm64-rt-6.1,lines=0:1").setup().outside


@pytest.mark.parametrize("name", ["x86_64-rt-6.1,lines=outside", "arm64-rt-6.1,lines=doorbell"])
def test_lines_by_doorbell(lab: Callable[..., LabTarget], name: str) -> None:
    target = lab(name)
    setup = target.setup()
    assert setup.outside
    assert setup.doorbell
    assert setup.mode is MODES["plain"]
    assert target.facts["lines"] == "outside, by doorbell"
    assert target.log_host == "local"
    assert target.answer_line == "gpio:rtgauge-doorbell:1:2"


def test_a_board_that_does_not_hear_its_doorbell(lab: Callable[..., LabTarget]) -> None:
    """The script in QEMU's place has no such device."""
    target = lab("x86_64-rt-6.1,lines=outside")
    with pytest.raises(TargetError, match="does not receive its doorbell") as caught:
        target.environment()
    assert "does not find the device" in caught.value.message
    assert caught.value.remedy
    assert target._machine is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lab:x86_64-rt,lines=outside,mode=counted", "lines=outside needs plain mode"),
        ("lab:arm64-rt,lines=doorbell,mode=counted", "lines=doorbell needs plain mode"),
        ("lab", "does not name a board"),
        ("lab:", "does not name a board"),
        ("lab:x86-rt", "x86-rt"),
        ("lab:x86_64-rt,mode=fast", "no mode 'fast'"),
        ("lab:x86_64-rt,cpus=0", "cpus=0"),
        ("lab:x86_64-rt,cpus=9", "cpus=9"),
        ("lab:x86_64-rt,cpus=two", "cpus=two"),
        ("lab:x86_64-rt,memory=1", "memory=1"),
        ("lab:x86_64-rt,seed=0", "seed=0"),
        ("lab:x86_64-rt,seed=2,mode=plain", "seed needs counted mode"),
        ("lab:x86_64-rt,seed=2,cpus=2", "seed needs counted mode"),
        ("lab:x86_64-rt,mode=counted,cpus=2", "one processor"),
        ("lab:x86_64-rt,", "not a kernel argument"),
        ("lab:x86_64-rt,a b", "not a kernel argument"),
        ('lab:x86_64-rt,a="b"', "not a kernel argument"),
        ("lab:x86_64-rt,lines=0:1", "has no GPIO lines"),
        ("lab:arm64-rt,lines=0", "contains no wires"),
        ("lab:arm64-rt,lines=0:8", "no line 8"),
        ("lab:x86_64-rt,-x", "not a kernel argument"),
        ("lab:x86_64-rt,cpu=2", "too similar"),
        ("lab:x86_64-rt,mode", "too similar"),
        ("lab:x86_64-rt,memroy=1024", "too similar"),
    ],
)
def test_names_that_are_none(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_target(name)


def test_lab_list(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").absolute()))
    listed = rtgauge("lab", "list")
    assert listed.code == 0
    assert max(map(len, listed.out.splitlines())) <= 80, listed.out
    document = rtgauge("lab", "list", "--json").json()
    assert document["format"] == "rtgauge-lab"
    names = [board["name"] for board in document["boards"]]
    assert "x86_64-rt-6.1" in names
    assert all(name in listed.out for name in names)
    monkeypatch.setenv("PATH", "/nowhere")
    assert "qemu-system-x86" in rtgauge("lab", "list").out


def test_lab_shell_needs_a_terminal(rtgauge: Run) -> None:
    asked = rtgauge("lab", "shell", "x86_64-rt")
    assert asked.code == 2
    assert "terminal" in asked.err


def test_lab_run_is_for_boards(rtgauge: Run) -> None:
    store = ("--store", "cli")
    asked = rtgauge("lab", "run", "timer", "--target", "fake", *store)
    assert asked.code == 2
    assert "not a board of the lab" in asked.err
    asked = rtgauge("lab", "run", "rt-vs-stok", *store)
    assert asked.code == 2
    assert "unknown measurement or plan 'rt-vs-stok'" in asked.err
    assert "did you mean 'rt-vs-stock'?" in asked.err
    Path("study.toml").write_text(
        """
        [plan]
        targets = ["lab:x86_64-rt-6.1", "lab:x86_64-stock-6.1"]
        [[step]]
        measurement = "timer"
        for = "1s"
        """
    )
    done = rtgauge("lab", "run", "study.toml", "--json", "-o", "study.html", *store)
    assert done.code == 0, done.err
    first = Path("study.html").read_text().partition(">Verdicts<")[0]
    assert "Emulated board, counted mode: time is counted in instructions" in first
    assert [run["target"] for run in done.json()["runs"]] == [
        "lab:x86_64-rt-6.1",
        "lab:x86_64-stock-6.1",
    ]


def test_lab_run_fetches_newer_kernels_for_the_boards_that_it_takes(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []

    def renewed(board: Board, *, newest: bool, say: object) -> None:
        asked.append((board.name, newest))

    monkeypatch.setattr("rtgauge.lab.image", renewed)
    words = ("lab", "run", "timer", "--for", "1s", "--target", "lab:x86_64-rt-6.1,preempt=full",
             "--store", "cli")  # fmt: skip
    assert rtgauge(*words).code == 0
    assert asked == []
    assert rtgauge(*words, "--newest").code == 0
    assert asked == [("x86_64-rt-6.1", True)]


def test_lab_commands_that_are_none(rtgauge: Run) -> None:
    asked = rtgauge("lab", "rum")
    assert asked.code == 2
    assert "run" in asked.err
