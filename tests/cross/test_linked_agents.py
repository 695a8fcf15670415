# SPDX-License-Identifier: Apache-2.0
"""An agent linked against this machine's own C library: by its SDK, by its root, by zig's interface
of an older glibc."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from conftest import Run


@pytest.mark.parametrize("way", ["--sdk", "--sysroot"])
def test_an_agent_of_this_machines_c_library(rtgauge: Run, way: str) -> None:
    Path("environment-setup").write_text("export CC=cc CFLAGS=-O1\n", encoding="utf-8")
    given = {"--sdk": "environment-setup", "--sysroot": "/"}[way]
    done = rtgauge("agent", way, given, "-o", "agent", "--json")
    assert done.code == 0, done.err
    assert os.access(done.json()["loader"], os.X_OK)
    done = rtgauge("run", "sem-uncontended", "--samples", "1000", "--json", "--agent", "agent")
    assert done.code == 0, done.err
    (run,) = done.json()["runs"]
    assert run["environment"]["libc"].split() == list(platform.libc_ver())
    assert run["environment"]["compiler"]
    assert run["steps"][0]["state"] == "complete"


@pytest.mark.study(127)
def test_options_of_the_compiler_are_named(rtgauge: Run) -> None:
    """Agents of one C library that differ in an option: reports tell them apart."""
    compilers = []
    for cflags in ("-O3 -DNAME='a \"b\"'", "-O1"):
        done = rtgauge("agent", "--sysroot", "/", "--cflags", cflags, "-o", "agent", "--json")
        assert done.code == 0, done.err
        done = rtgauge("run", "clock-cost", "--json", "--agent=agent")
        assert done.code == 0, done.err
        compilers.append(done.json()["runs"][0]["environment"]["compiler"])
    assert compilers[0].endswith(""" -O3 '-DNAME=a "b"'""")
    assert compilers[1].endswith(" -O1")


def test_an_agent_for_an_older_glibc(rtgauge: Run) -> None:
    done = rtgauge("agent", "--libc", "glibc:2.31", "-o", "agent", "--json")
    assert done.code == 0, done.err
    done = rtgauge("run", "clock-cost", "--json", "--agent=agent")
    assert done.code == 0, done.err
    # the interface is the older one's, the library this machine's
    assert done.json()["runs"][0]["environment"]["libc"].split() == list(platform.libc_ver())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--libc", "musl", "--sdk", "x"), "--libc and --sdk cannot be combined"),
        (("--cc", "cc"), "--cc applies only with --sysroot"),
        (("-o", "agent"), "-o applies only to a linked agent"),
        (("--cflags=-O3",), "--cflags applies only to a linked agent"),
        (("--sysroot", "/", "--cflags", "'"), "--cflags cannot be split into words"),
        (("--sysroot", "/", "--arch", "arm64"), "--arch cannot be combined with"),
    ],
)
def test_wrong_usage(rtgauge: Run, words: tuple[str, ...], said: str) -> None:
    done = rtgauge("agent", *words)
    assert done.code == 2
    assert said in done.err


def test_what_is_no_agent_for_this_machine(rtgauge: Run) -> None:
    Path("text").write_text("no program\n", encoding="utf-8")
    for name, said in (("text", "is not a program for Linux"), ("none", "cannot be read")):
        done = rtgauge("run", "timer", "--for", "1s", "--agent", name)
        assert done.code == 2
        assert said in done.err
    done = rtgauge("run", "timer", "--for", "1s", "--agent", "text", "--target", "lab:x86_64-rt")
    assert done.code == 2
    assert "has an agent of its own" in done.err


def test_a_machine_without_the_loader(rtgauge: Run) -> None:
    link = "-Wl,--dynamic-linker=/lib/none.so.1"
    Path("environment-setup").write_text(f"CC=cc LDFLAGS={link}\nexport CC LDFLAGS\n")
    assert rtgauge("agent", "--sdk", "environment-setup", "-o", "agent").code == 0
    done = rtgauge("run", "timer", "--for", "1s", "--agent", "agent")
    assert done.code == 1
    assert "this machine has no /lib/none.so.1" in done.err


def test_a_compiler_that_fails(rtgauge: Run) -> None:
    Path("environment-setup").write_text("export CC='cc -include none.h'\n", encoding="utf-8")
    done = rtgauge("agent", "--sdk", "environment-setup", "-o", "agent")
    assert done.code == 1
    assert "could not be compiled with cc" in done.err
    assert "none.h" in done.err
    assert not Path("agent").exists()
