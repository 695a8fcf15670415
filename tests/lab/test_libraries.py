# SPDX-License-Identifier: Apache-2.0
"""Boards with a C library of Debian: the agent is linked against it, and measures it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab_boots import Boot, Booted, Step
from rtgauge.cli import main
from rtgauge.stream import Header, Samples, Verdict

BOARD = "x86_64-rt-6.1"
LIBRARIES = ("glibc", "musl")
ORDERS = (
    ("semaphores", ("run", "sem-contended", "--samples", "200")),
    ("order", ("run", "sem-order")),
    ("mutexes", ("run", "mutex-uncontended", "--samples", "200")),
    ("inversion", ("run", "mutex-inversion", "--protocol", "inherit")),
    ("threads", ("run", "thread-lifecycle", "--samples", "200")),
    ("loader", ("/bin/busybox", "sh", "-c", "ls /lib /lib64; ls /lib/*-linux-*")),
)
MEASURED = ("semaphores", "order", "mutexes", "inversion", "threads")
GLIBC, MUSL = (Boot(f"{BOARD},libc={library}", ORDERS) for library in LIBRARIES)
AGAIN = tuple(Boot(f"{BOARD},libc={library}", ORDERS, turn=2) for library in LIBRARIES)
ARM64 = tuple(
    Boot(f"arm64-rt-6.1,libc={library}", (ORDERS[0], ORDERS[1], ORDERS[4])) for library in LIBRARIES
)


def head(step: Step) -> Header:
    (found,) = [one for one in step.records if isinstance(one, Header)]
    return found


def complete(step: Step) -> bool:
    return step.code == 0 and step.trailer.state == "complete"


def samples(step: Step) -> list[bytes]:
    return [one.values.tobytes() for one in step.records if isinstance(one, Samples)]


@pytest.mark.study(59)
@pytest.mark.boots(GLIBC, MUSL)
def test_semaphores_mutexes_and_threads_are_those_of_the_board(booted: list[Booted]) -> None:
    for found, library in zip(booted, LIBRARIES, strict=True):
        for name in MEASURED:
            step = found.steps[name]
            assert complete(step), step.said
            assert head(step).libc.split()[0] == library
            assert head(step).compiler.startswith("gcc ")
            verdicts = [one for one in step.records if isinstance(one, Verdict)]
            assert all(one.result == "pass" for one in verdicts if one.result != "skipped")
    glibc, musl = (found.steps["loader"].stream.decode() for found in booted)
    assert "ld-linux-x86-64.so.2" in glibc and "libc.so.6" in glibc and "musl" not in glibc
    assert "ld-musl-x86_64.so.1" in musl and "libc.so.6" not in musl


@pytest.mark.study(127)
@pytest.mark.boots(GLIBC, MUSL)
def test_two_libraries_on_one_kernel_have_figures_of_their_own(booted: list[Booted]) -> None:
    """The kernel is the same: what differs is the library, in counted instructions."""
    glibc, musl = (found.steps for found in booted)
    for name in ("semaphores", "mutexes", "threads"):
        assert samples(glibc[name]) != samples(musl[name])


@pytest.mark.boots(GLIBC, MUSL, *AGAIN)
def test_a_board_with_a_library_is_repeatable(booted: list[Booted]) -> None:
    first, again = booted[:2], booted[2:]
    for one, other in zip(first, again, strict=True):
        for name in MEASURED:
            assert one.steps[name].measured() == other.steps[name].measured()


@pytest.mark.boots(*ARM64)
def test_the_other_architecture(booted: list[Booted]) -> None:
    for found, library in zip(booted, LIBRARIES, strict=True):
        for step in found.steps.values():
            assert complete(step), step.said
            assert head(step).libc.split()[0] == library


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_report_names_library_and_compiler(
    library: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ("--store", str(tmp_path / "store"))
    words = [
        "run",
        "sem-uncontended",
        "--samples",
        "100",
        "--target",
        f"lab:{BOARD},libc={library}",
    ]
    assert main([*words, *store, "-q", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["environment"]["libc"].split()[0] == library
    assert run["environment"]["compiler"].startswith("gcc ")
    facts = run["environment"]["lab"]
    assert facts["libc"] == library
    assert facts["package libc6" if library == "glibc" else "package musl"]
    page = tmp_path / "report.html"
    assert main(["report", *store, "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "C library" in text
    assert f"{run['environment']['libc']}" in text and run["environment"]["compiler"] in text
