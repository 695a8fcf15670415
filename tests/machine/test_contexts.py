# SPDX-License-Identifier: Apache-2.0
"""Contexts of the kernel and the interrupt measurements on a machine without the module: described,
skipped with reason and remedy, never measured as something else. With it: tests/lab."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from agents import Stream, run
from rtgauge.catalogue import Catalogue
from rtgauge.report.document.steps import _stages
from rtgauge.stream import Trailer, Verdict

CPU = str(min(os.sched_getaffinity(0)))
IRQ = ["irq-latency", "irq-dispatch", "irq-to-thread", "irq-sustained"]
TRACERS = [Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing")]


def no_module() -> bool:
    return not Path("/dev/rtgauge").exists()


def no_tracer() -> bool:
    for folder in TRACERS:
        try:
            if "timerlat" in (folder / "available_tracers").read_text().split():
                return False
        except OSError:
            continue
    return True


pytestmark = pytest.mark.skipif(not no_module(), reason="the kernel module is loaded here")
without_tracer = pytest.mark.skipif(not no_tracer(), reason="the timerlat tracer is here")


@pytest.fixture(name="described")
def catalogue(agent: str) -> Catalogue:
    said = subprocess.run([agent, "describe"], capture_output=True, timeout=60, check=True)
    return Catalogue.from_json(said.stdout.decode())


def skipped(stream: Stream) -> str:
    """It measured nothing, says why, and what to do about it."""
    assert stream.trailer.state == "skipped"
    assert stream.trailer.remedy
    assert not any(total.count for total in stream.trailer.series)
    return stream.trailer.reason


def loads_the_module(told: Trailer | Verdict) -> None:
    """The remedy ends with the command that loads it, where the kernel has modules."""
    if Path("/proc/modules").exists():
        assert told.command == "rtgauge module load"
        assert told.remedy.endswith(f": {told.command}")
    else:
        assert told.command == ""
        assert "CONFIG_MODULES" in told.remedy


def effective(stream: Stream, option: str) -> str:
    assert stream.header is not None
    return stream.header.parameters[option].effective


def test_the_catalogue_has_the_contexts_and_their_stages(described: Catalogue) -> None:
    timer = described.measurement("timer")
    assert timer.contexts == ("irq", "kernel", "user")
    assert timer.option("context").type == "enums"
    latency = timer.series[0]
    assert latency.stages[: len(latency.stages_in["irq"])] == latency.stages_in["irq"]
    assert latency.stages[: len(latency.stages_in["kernel"])] == latency.stages_in["kernel"]
    assert len(latency.stages_in["irq"]) < len(latency.stages_in["kernel"]) < len(latency.stages)


@pytest.mark.study(7)
def test_the_report_shows_the_stages_of_the_context() -> None:
    described = {"stages": ["a", "b", "c"], "stages_in": {"irq": ["a"]}}
    assert _stages(described, "irq") == ["a"]
    assert _stages(described, "user") == ["a", "b", "c"]
    assert _stages({"stages": ["a"]}, "irq") == ["a"]


@pytest.mark.parametrize("name", IRQ)
def test_interrupt_measurements_are_in_the_evaluation(described: Catalogue, name: str) -> None:
    entry = described.measurement(name)
    assert entry.chapter == "Interrupts"
    assert entry.code.startswith("IRQ-")
    assert entry.evaluate
    assert entry.option("source").values == ("auto", "hpet", "gpio", "pci", "hrtimer")


@pytest.mark.parametrize("name", IRQ)
def test_without_the_module_they_are_skipped(agent: str, tmp_path: Path, name: str) -> None:
    code, stream = run(agent, tmp_path, name, "--cpu", CPU)
    assert code == 77
    assert "rtgauge" in skipped(stream)
    loads_the_module(stream.trailer)


@pytest.mark.parametrize("lines", ["chip", "chip:1", "chip:1:1", "chip:1:2:2", "chip:1:2:", ":1:2"])
def test_lines_of_a_chip_are_two(agent: str, tmp_path: Path, lines: str) -> None:
    code, stream = run(agent, tmp_path, "irq-latency", "--source", "gpio", "--gpio", lines)
    assert code == 2
    assert lines in stream.trailer.reason


def test_a_chip_may_have_colons_in_its_name(agent: str, tmp_path: Path) -> None:
    words = ("irq-latency", "--source", "gpio", "--gpio", "INTC1057:00:1:2", "--cpu", CPU)
    code, _ = run(agent, tmp_path, *words)
    assert code == 77


@without_tracer
@pytest.mark.parametrize("contexts", ["irq", "kernel", "irq,kernel"])
def test_contexts_of_the_kernel_alone_are_skipped(
    agent: str, tmp_path: Path, contexts: str
) -> None:
    code, stream = run(agent, tmp_path, "timer", "--context", contexts, "--cpu", CPU)
    assert code == 77
    reason = skipped(stream)
    assert "module" in reason
    assert "tracer" in reason


@without_tracer
def test_beside_the_user_they_are_a_verdict(agent: str, tmp_path: Path) -> None:
    words = ["--context", "user,irq", "--cpu", CPU, "--samples", "20", "--priority", "0"]
    code, stream = run(agent, tmp_path, "timer", *words)
    assert code == 0
    verdicts = [record for record in stream.records if isinstance(record, Verdict)]
    assert [verdict.result for verdict in verdicts] == ["skipped"]
    assert "context" in verdicts[0].rule
    loads_the_module(verdicts[0])
    assert effective(stream, "context") == "user"
    assert effective(stream, "method") == "clock_nanosleep"
    assert [series.context for series in stream.series] == ["user"]


@pytest.mark.parametrize("words", [("--method", "timerfd"), ("--threads", "2")])
def test_what_has_no_meaning_in_the_kernel_is_refused(
    agent: str, tmp_path: Path, words: tuple[str, str]
) -> None:
    code, stream = run(agent, tmp_path, "timer", "--context", "irq,user", "--cpu", CPU, *words)
    assert code == 2
    assert words[0] in stream.trailer.reason + stream.trailer.remedy


def test_the_user_alone_is_measured_as_ever(agent: str, tmp_path: Path) -> None:
    words = ["--context", "user", "--method", "nanosleep", "--cpu", CPU, "--samples", "5"]
    code, stream = run(agent, tmp_path, "timer", *words, "--priority", "0")
    assert code == 0
    assert effective(stream, "method") == "nanosleep"


def test_the_description_is_json_of_version_1(agent: str) -> None:
    said = subprocess.run([agent, "describe"], capture_output=True, timeout=60, check=True)
    timer = json.loads(said.stdout)["measurements"][0]
    assert timer["series"][0]["stages_in"].keys() == {"irq", "kernel"}
    assert timer["series"][1]["stages_in"] == {}
