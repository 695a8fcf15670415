# SPDX-License-Identifier: Apache-2.0
"""``rtgauge module``: what it runs on this machine, with programs in place of the real ones,
and what it says where something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Run
from rtgauge.cli import module
from waiting import until

PROGRAMS = {
    "uname": "echo 6.1.0-test",
    "id": "echo ${FAKE_UID:-0}",
    "gcc": "exit 0",
    "make": "for word; do case $word in M=*) folder=${word#M=};; esac; done\n"
    'test -f "$folder/Kbuild" || exit 3\n'
    'test -z "$FAKE_BUILD" || { echo "CC main.o"; echo "main.c:7: error: $FAKE_BUILD"; exit 2; }\n'
    'echo made > "$folder/rtgauge.ko"; echo made > "$folder/rtgauge_parport.ko"',
    "insmod": 'case $1 in *$FAKE_INSMOD_OF.ko) test -z "$FAKE_INSMOD" ||\n'
    '{ echo "insmod: ERROR: $FAKE_INSMOD" >&2; exit 1; } ;; esac\n'
    'test -f "$1" && echo "$(basename "$1" .ko) 16384 0" >> "$FAKE_LOADED"',
    "rmmod": 'sed -i "/^$1 /d" "$FAKE_LOADED"',
    "sudo": 'shift; echo "$@" >> "$FAKE_LOADED.sudo"; exec "$@"',
    "grep": 'case $* in *modules) exec /bin/grep "$1" "$2" "$FAKE_LOADED" ;; esac\n'
    'exec /bin/grep "$@"',
    "ls": 'case $* in /sys/bus/parport) test -n "$FAKE_PARPORT" ;;\n'
    '/proc/modules) test -z "$FAKE_BUILT_IN" ;; *) exec /bin/ls "$@" ;; esac',
}


@pytest.fixture
def headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for --headers, and programs in place of those of a target."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_LOADED", str(tmp_path / "loaded"))
    found = tmp_path / "headers"
    found.mkdir()
    return found


def test_the_module_is_built_once_loaded_and_unloaded(rtgauge: Run, headers: Path) -> None:
    given = ("--headers", str(headers))
    built = rtgauge("module", "build", "--json", *given).json()
    assert (built["format"], built["changed"], built["release"]) == (
        "rtgauge-module", True, "6.1.0-test",
    )  # fmt: skip
    assert (Path(built["folder"]) / "rtgauge.ko").is_file()
    assert (Path(built["folder"]) / "main.c").is_file()
    # as readable as the folder above: on NFS, root may have no rights to the user's files
    modes = [
        one.stat().st_mode & 0o555 for one in (Path(built["folder"]), headers.parent / "cache")
    ]
    assert modes[0] == modes[1]
    assert "built already" in rtgauge("module", "build", *given).err
    assert "not loaded" in rtgauge("module", "unload").err
    assert rtgauge("module", "load", *given).err == "local: the module rtgauge is loaded\n"
    assert "loaded already" in rtgauge("module", "load", *given).err
    assert rtgauge("module", "unload").err == "local: the module rtgauge is unloaded\n"


@pytest.mark.slow
@pytest.mark.parametrize(("action", "program"), [("build", "make"), ("unload", "rmmod")])
def test_a_program_that_does_not_end_is_ended(
    rtgauge: Run, headers: Path, monkeypatch: pytest.MonkeyPatch, action: str, program: str
) -> None:
    """With its children, which kept the output open. Unloading had the time limit of a build."""
    assert module.TIMEOUTS_S["unload"] < module.TIMEOUTS_S["build"]
    monkeypatch.setitem(module.TIMEOUTS_S, action, 3.0)
    given = ("--headers", str(headers)) if action == "build" else ()
    if action == "unload":
        assert rtgauge("module", "load", "--headers", str(headers)).code == 0
    (headers.parent / "programs" / program).write_text(
        f"#!/bin/sh\necho $$ > {headers}/pid\nsleep 600\n"
    )
    done = rtgauge("module", action, *given)
    assert done.code == 1
    assert f"'module {action}' did not end within 3 s" in done.err
    state = Path(f"/proc/{int((headers / 'pid').read_text())}/stat")
    until(lambda: not state.exists() or ") Z " in state.read_text(), 10)


def test_a_half_built_module_is_built_anew(
    rtgauge: Run, headers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("--headers", str(headers))
    monkeypatch.setenv("FAKE_BUILD", "no space left")
    assert rtgauge("module", "build", *given).code == 1
    monkeypatch.delenv("FAKE_BUILD")
    (folder,) = (headers.parent / "cache" / "rtgauge" / "module").iterdir()
    (folder / "rtgauge.ko").write_text("ha")
    (folder / "main.o").write_text("ha")  # make takes it for a newer one than main.c
    built = rtgauge("module", "build", "--json", *given).json()
    assert built["changed"] and (folder / "rtgauge.ko").read_text() == "made\n"
    assert not (folder / "main.o").exists()


@pytest.mark.parametrize("program", ["make", "mv", "tar"])
def test_a_build_next_to_another_leaves_nothing(rtgauge: Run, headers: Path, program: str) -> None:
    """The other build ends while this one calls that program, or the disk is full (tar)."""
    folder = f"{headers.parent}/cache/rtgauge/module/*-*"
    text = PROGRAMS.get(program, f'exec /bin/{program} "$@"')
    other = (
        f'at=$(echo {folder}.*); at=${{at%.*}}; mkdir -p "$at"\n'
        'echo other > "$at/rtgauge.ko"; : > "$at/built"\n'
    )
    path = headers.parent / "programs" / program
    path.write_text(f"#!/bin/sh\n{'exit 2' if program == 'tar' else other + text}\n")
    path.chmod(0o755)
    done = rtgauge("module", "build", "--headers", str(headers))
    assert done.code == (program == "tar"), done.err
    left = list((headers.parent / "cache" / "rtgauge" / "module").rglob("*"))
    assert not [one for one in left if one.is_dir() and one.name.count(".") > 2]
    made = [one.read_text() for one in left if one.name == "rtgauge.ko"]
    assert made == {"make": ["other\n"], "mv": ["other\n"], "tar": []}[program]


def test_parallel_ports_have_a_module_of_their_own(
    rtgauge: Run, headers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is loaded where the kernel has the ports, also later than the first module."""
    given = ("--headers", str(headers))
    loaded = tmp_path / "loaded"
    assert rtgauge("module", "load", *given).code == 0
    assert loaded.read_text() == "rtgauge 16384 0\n"
    monkeypatch.setenv("FAKE_PARPORT", "yes")
    assert rtgauge("module", "load", *given).err == "local: the module rtgauge is loaded\n"
    assert loaded.read_text() == "rtgauge 16384 0\nrtgauge_parport 16384 0\n"
    assert "loaded already" in rtgauge("module", "load", *given).err
    assert rtgauge("module", "unload").code == 0
    assert loaded.read_text() == ""


@pytest.mark.slow
def test_the_module_is_of_use_without_that_for_parallel_ports(
    rtgauge: Run, headers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such as next to one that was loaded before an update, or without headers."""
    given = ("--headers", str(headers))
    assert rtgauge("module", "load", *given).code == 0
    monkeypatch.setenv("FAKE_PARPORT", "yes")
    monkeypatch.setenv("FAKE_INSMOD", "Unknown symbol in module")
    done = rtgauge("module", "load", *given)
    assert done.code == 0
    said = done.err.splitlines()
    assert said[0] == "local: the module rtgauge is loaded already"
    assert "cannot answer on parallel ports: insmod: ERROR: Unknown symbol in module" in said[1]
    assert "unload the module" in said[2]
    monkeypatch.setenv("FAKE_INSMOD", "Key was rejected by service")
    said = rtgauge("module", "load", *given).err.splitlines()
    assert "Key was rejected" in said[1] and "signed" in said[2] and "unload" not in said[2]
    monkeypatch.setenv("FAKE_INSMOD", "Unknown symbol in module")
    told = rtgauge("module", "load", "--json", *given).json()
    assert (told["changed"], told["parallel_ports"]) == (False, False)
    missing = rtgauge("module", "load", "--headers", str(tmp_path / "none"))
    assert missing.code == 0
    assert "loaded already" in missing.err
    assert "local has no headers of its kernel, Linux 6.1.0-test" in missing.err
    assert "install the package linux-headers-6.1.0-test" in missing.err
    assert "unload the module" not in missing.err
    assert rtgauge("module", "unload").code == 0
    monkeypatch.setenv("FAKE_INSMOD_OF", "_parport")
    said = rtgauge("module", "load", *given).err.splitlines()
    assert said[0] == "local: the module rtgauge is loaded"
    assert "Unknown symbol in module" in said[1]
    assert "dmesg" in said[2] and "signed" not in said[2]


def test_load_builds_and_is_raised_with_sudo(
    rtgauge: Run, headers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_UID", "1000")
    assert rtgauge("module", "load", "--headers", str(headers)).code == 0
    assert (tmp_path / "loaded").exists()
    assert "insmod" in (tmp_path / "loaded.sudo").read_text()


@pytest.mark.parametrize(
    ("variable", "value", "message", "remedy"),
    [
        ("FAKE_BUILD", "no member", "built for Linux 6.1.0-test on local: main.c:7: error: no "
         "member", "build.log"),
        ("FAKE_INSMOD", "Key was rejected by service", "Key was rejected by service", "signed"),
        ("FAKE_BUILT_IN", "yes", "Linux 6.1.0-test on local does not support loadable modules",
         "CONFIG_MODULES=y"),
    ],
)  # fmt: skip
def test_what_fails_is_told_with_its_remedy(
    rtgauge: Run, headers: Path, monkeypatch: pytest.MonkeyPatch,
    variable: str, value: str, message: str, remedy: str,
) -> None:  # fmt: skip
    monkeypatch.setenv(variable, value)
    done = rtgauge("module", "load", "--headers", str(headers))
    assert done.code == 1
    first, second = done.err.splitlines()
    assert message in first and remedy in second


@pytest.mark.usefixtures("headers")
def test_what_is_missing_is_named(rtgauge: Run) -> None:
    done = rtgauge("module", "build")
    assert done.code == 1
    assert "local has no headers of its kernel, Linux 6.1.0-test" in done.err
    assert "linux-headers-6.1.0-test" in done.err and "--headers" in done.err


def test_targets_without_the_module(rtgauge: Run) -> None:
    for target in ("fake", "lab:x86_64-rt"):
        done = rtgauge("module", "load", "--target", target)
        assert done.code == 2 and "Boards of the lab already have the module" in done.err
    done = rtgauge("module", "laod")
    assert done.code == 2 and "'load'" in done.err
