# SPDX-License-Identifier: Apache-2.0
"""The launcher, and the tools behind ``make check``: what they count, find and start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from check import Counts, Stage, StageFailedError, count_junit, count_results
from tree import tree_faults
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from requirements import SECTIONS, locked, requirements
from static_programs import shared_library

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60
LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"

# What meson writes: a suite for each TAP program, a case for each of its lines.
MESON = """<testsuites tests="4" errors="0" failures="1">
<testsuite name="test_a" tests="3"><testcase name="1 - x"/><testcase name="2 - y"><failure/>
</testcase><testcase name="3 - z"><skipped/></testcase></testsuite>
<testsuite name="test_b" tests="1"><testcase name="crashed"><error/></testcase></testsuite>
</testsuites>"""
PYTEST = """<testsuites><testsuite errors="0" failures="0" skipped="0" tests="2">
<testcase classname="tests.a" name="b"><system-out>failure</system-out></testcase>
<testcase classname="tests.a" name="c"/></testsuite></testsuites>"""


def test_results_are_counted_by_case() -> None:
    assert count_junit(MESON) == Counts(passed=1, failed=2, skipped=1)
    assert count_junit(PYTEST) == Counts(passed=2)
    assert str(Counts(12, 3, 4)) == "12 passed, 3 failed, 4 skipped"


def test_a_result_that_cannot_be_read_is_a_failed_test(tmp_path: Path) -> None:
    for name, text in (("a", MESON), ("b", PYTEST), ("c", "no result\n"), ("d", PYTEST[:-20])):
        (tmp_path / f"{name}.xml").write_text(text)
    (tmp_path / "e.xml").write_bytes(b"\xff\xfe")
    assert count_results(tmp_path) == Counts(passed=3, failed=5, skipped=1)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stage whose logs and results are the test's own."""
    monkeypatch.setattr("check.CHECK", tmp_path / "check")
    monkeypatch.setattr("check.RESULTS", tmp_path / "results")
    return Stage("trial")


@pytest.mark.parametrize(
    ("script", "reason", "counts"),
    [
        (f"echo '{PYTEST}' > $0", None, Counts(passed=2)),
        (f"echo '{MESON}' > $0; exit 1", "1 passed, 2 failed, 1 skipped", Counts(1, 2, 1)),
        (f"echo '{MESON}' > $0", "1 passed, 2 failed, 1 skipped", Counts(1, 2, 1)),
        (f"echo '{PYTEST}' > $0; exit 3", "ended with 3", Counts(failed=1)),
        ("echo '<testsuites/>' > $0", "ran no test", Counts(failed=1)),
        ("exit 0", "left no result", Counts(failed=1)),
        ("kill -9 $$", "left no result, ended with -9", Counts(failed=1)),
    ],
)
def test_no_stage_of_tests_holds_unseen(
    stage: Stage, tmp_path: Path, script: str, reason: str | None, counts: Counts
) -> None:
    result = tmp_path / "result.xml"
    result.write_text(PYTEST)  # of an earlier time
    if reason is None:
        stage.tests(["sh", "-c", script, result], result)
    else:
        with pytest.raises(StageFailedError, match=reason):
            stage.tests(["sh", "-c", script, result], result)
    assert count_results(tmp_path / "results") == counts


def test_a_command_of_a_stage_is_logged_and_its_failure_seen(stage: Stage) -> None:
    stage.run(["sh", "-c", "echo out; echo err >&2"])
    with pytest.raises(StageFailedError, match="sh ended with 7"):
        stage.run(["sh", "-c", "exit 7"])
    lines = stage.log.read_text().splitlines()
    assert [line for line in lines if not line.startswith("+")] == ["out", "err"]


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.py", LICENCE + "x = 1\n", None),
        ("a.py", "x = 1\n", "a.py:1: does not begin with"),
        ("a.py", "\n\n\n" + LICENCE, "a.py:1: does not begin with"),
        ("a.txt", "# Text\n", None),
        ("a.md", "# Text\n", "a.md:1: does not begin with"),
        ("a.txt", "text \n", "a.txt:1: white space at the end"),
        ("a.txt", "text", "a.txt: no line end"),
        ("a.txt", "x\nsee /ro" + "ot/notes\n", "a.txt:2: names a folder of one machine"),
        (
            "a.txt",
            "pip install --in" + "dex-url https://host.example/\n",
            "a.txt:1: names an index of packages: whoever installs chooses it",
        ),
        ("a.txt", "<" * 7 + " HEAD\n", "a.txt:1: names a conflict"),
        ("agent/new.c", "/" + LICENCE[1:], "agent/new.c: is not named in agent/meson.build"),
        ("agent/old.c", "/" + LICENCE[1:], None),
        ("agent/tests/test_old.c", "/" + LICENCE[1:], None),
    ],
)
def test_faults_of_the_tree(tmp_path: Path, name: str, text: str, fault: str | None) -> None:
    for path, content in (
        ("agent/meson.build", LICENCE + "x = ['old.c', 'tests/test_old.c']\n"),
        (name, text),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    faults = tree_faults(tmp_path, ["agent/meson.build", name])
    assert len(faults) == (fault is not None)
    assert not faults or faults[0].startswith(fault or "")


# --- the cross compiler ---


@pytest.fixture
def checkouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two checkouts' zig, version 1.2, and a folder for caches."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    packages = (tmp_path / "a" / "ziglang", tmp_path / "b" / "ziglang")
    for package in packages:
        (package / "lib").mkdir(parents=True)
        (package.parent / "ziglang-1.2.dist-info").mkdir()
    return packages


def test_checkouts_have_one_name_for_what_the_compiler_comes_with(
    checkouts: tuple[Path, Path], tmp_path: Path
) -> None:
    first, second = checkouts
    link = shared_library(first, "1.2")
    assert link is not None
    assert link.is_relative_to(tmp_path / "cache")
    assert link.resolve() == first / "lib"
    assert shared_library(second, "1.2") == link
    assert link.resolve() == first / "lib"
    assert shared_library(second, "1.3") != link


@pytest.mark.parametrize("gone", ["a/ziglang/lib", "a/ziglang-1.2.dist-info"])
def test_a_checkout_that_is_gone_or_has_another_compiler_is_replaced(
    checkouts: tuple[Path, Path], tmp_path: Path, gone: str
) -> None:
    first, second = checkouts
    link = shared_library(first, "1.2")
    (tmp_path / gone).rmdir()
    assert shared_library(second, "1.2") == link
    assert link is not None
    assert link.resolve() == second / "lib"
    assert [entry.name for entry in link.parent.iterdir()] == ["zig-1.2"]


def test_without_a_folder_for_caches_the_compiler_has_its_own(
    checkouts: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file")
    assert shared_library(checkouts[0], "1.2") is None


def test_requirements_are_those_of_the_project() -> None:
    needed = requirements(ROOT, [])
    assert any(line.startswith("numpy") for line in needed)
    assert any(line.startswith("meson-python") for line in needed)
    assert not any(line.startswith("pytest") for line in needed)
    assert any(line.startswith("pytest") for line in requirements(ROOT, ["test"]))


def pins(extras: list[str]) -> dict[str, str]:
    """Name -> version of what the lock file installs."""
    entries = re.split(r"^(?=[A-Za-z0-9])", locked(ROOT, extras), flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)
    found = [re.match(r"([a-z0-9-]+)==([^ ;\\]+)", entry) for entry in entries]
    assert all(found)
    return {one[1]: one[2] for one in found if one}


@pytest.mark.parametrize("extras", [[], ["lab"], ["test"], list(SECTIONS[1:])])
def test_every_package_is_pinned_to_a_version_that_is_asked_for(extras: list[str]) -> None:
    """`pip install --require-hashes` ends where one is missing."""
    installed = pins(extras)
    for text in requirements(ROOT, extras):
        wanted = Requirement(text)
        assert wanted.specifier.contains(installed[canonicalize_name(wanted.name)]), text


def test_the_environment_of_the_tests_is_what_the_lock_file_says() -> None:
    """Also what packages need in turn."""
    for name, version in pins(["test"]).items():
        if name != "typst":  # not for every machine
            assert metadata.version(name) == version
        for text in metadata.requires(name) or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert canonicalize_name(needed.name) in pins(["lab", "test"]), f"{name}: {text}"


def test_the_lock_file_names_no_place() -> None:
    assert "://" not in locked(ROOT, list(SECTIONS[1:]))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the real launcher and a set-up that only notes that it was called."""
    folder = tmp_path / "a check out"
    for name in ("rtgauge", "tools/stamp.sh"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    empty = ("pyproject.toml", "meson.build", "meson.options", "agent/meson.build")
    for name in (*empty, "tools/requirements.lock"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    (folder / "src/rtgauge").mkdir(parents=True)
    (folder / "src/rtgauge/__init__.py").write_text("")
    (folder / "agent/loads").mkdir()
    (folder / "agent/loads/cpu.c").write_text("one")
    setup = folder / "tools/setup.sh"
    setup.write_text(
        "#!/bin/sh\nset -eu\n"
        'cd -- "$(dirname -- "$0")/.."\n'
        "! [ -e broken ] || exit 1\n"
        "echo called >>calls\nmkdir -p .venv/bin\n"
        'printf \'#!/bin/sh\\npwd\\nprintf "<%%s>" "$@"\\nexit 3\\n\' >.venv/bin/rtgauge\n'
        "cp .venv/bin/rtgauge .venv/bin/python\nchmod +x .venv/bin/*\n"
        ". tools/stamp.sh\nstamp_all >.venv/rtgauge-stamp\n"
    )
    setup.chmod(0o755)
    return folder


Launch = Callable[..., tuple[int, str]]


@pytest.fixture
def launch(tmp_path: Path, checkout: Path) -> Launch:
    """Starts the launcher through two symbolic links, from another folder."""
    (tmp_path / "one").symlink_to(checkout / "rtgauge")
    (tmp_path / "two").symlink_to("one")

    def start(*words: str) -> tuple[int, str]:
        ended = subprocess.run(
            [tmp_path / "two", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return ended.returncode, ended.stdout

    return start


def test_the_launcher_sets_up_once_and_passes_everything_on(
    tmp_path: Path, checkout: Path, launch: Launch
) -> None:
    for _ in range(2):
        assert launch("run", "", "a b") == (3, f"{tmp_path}\n<run><><a b>")
    assert (checkout / "calls").read_text() == "called\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "agent/loads/cpu.c").write_text("two"),
        lambda folder: (folder / "agent/new.h").write_text("new"),
        lambda folder: (folder / "pyproject.toml").write_text("[project]"),
        lambda folder: (folder / "tools/setup.sh").write_text(
            (folder / "tools/setup.sh").read_text() + "\n"
        ),
        lambda folder: (folder / ".venv/bin/python").unlink(),
        lambda folder: (folder / ".venv/rtgauge-stamp").unlink(),
    ],
)
def test_the_launcher_sets_up_anew_after_a_change(
    checkout: Path, launch: Launch, change: Callable[[Path], object]
) -> None:
    assert launch()[0] == 3
    change(checkout)
    assert launch()[0] == 3
    assert launch()[0] == 3
    assert (checkout / "calls").read_text() == "called\n" * 2


def test_a_checkout_that_was_moved_is_set_up_anew(
    tmp_path: Path, checkout: Path, launch: Launch
) -> None:
    assert launch()[0] == 3
    moved = tmp_path / "moved"
    os.rename(checkout, moved)
    (tmp_path / "one").unlink()
    (tmp_path / "one").symlink_to(moved / "rtgauge")
    assert launch()[0] == 3
    assert (moved / "calls").read_text() == "called\n" * 2


def test_a_set_up_that_failed_starts_nothing(checkout: Path, launch: Launch) -> None:
    (checkout / "broken").write_text("")
    assert launch() == (1, "")
