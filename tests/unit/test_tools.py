# SPDX-License-Identifier: Apache-2.0
"""The launcher, and the tools behind ``make check``: what they count, skip, find and start."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import kmod
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from requirements import SECTIONS, locked, requirements
from run_stages import (
    LANES,
    Counts,
    Outcome,
    Runner,
    Stage,
    count_junit,
    failures_of,
    read_stages,
    run_all,
    show_failures,
)
from sizes import faults as size_faults
from static_programs import shared_library
from tree import tree_faults

from rtgauge.errors import TargetError
from rtgauge.lab.boards import BOARDS, Board
from rtgauge.lab.kernels import Unpacked

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


def test_failed_tests_are_named_after_all_stages(
    runner: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the first line of the message: of a long log, CI may keep its last lines only."""
    assert failures_of(MESON) == [("2 - y", ""), ("crashed", "")]
    assert failures_of(PYTEST) == []
    case = '<testcase classname="tests.a" name="b%d"><failure message="assert 1 == 2&#10; + x"/>'
    many = "".join(f"{case % number}</testcase>" for number in range(12))
    (runner.root / "r.xml").write_text(f"<testsuites>{many}</testsuites>")
    (runner.root / "cut.xml").write_text("<testsuites>")
    show_failures(runner, stage(results=("r.xml", "cut.xml", "none.xml"), name="lab"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "  lab: tests.a.b0: assert 1 == 2"
    assert lines[9:] == ["  lab: tests.a.b9: assert 1 == 2", "  lab: and 2 more"]


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A runner in a repository of its own that contains one file, ``in/a``."""
    root = tmp_path / "tree"
    (root / "in").mkdir(parents=True)
    (root / "in" / "a").write_text("one")
    subprocess.run(["git", "init", "-q", root], check=True, timeout=PATIENCE_S)
    return Runner(root, tmp_path / "records")


def stage(*commands: str, name: str = "trial", **more: object) -> Stage:
    """A stage of no lane."""
    return Stage(**{"name": name, "about": "", "lanes": (), "commands": commands, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (f"echo '{PYTEST}' > r.xml", Outcome("ok", str(Counts(2)), Counts(2))),
        (
            f"echo '{MESON}' > r.xml; exit 1",
            Outcome("FAILED", str(Counts(1, 2, 1)), Counts(1, 2, 1)),
        ),
        (f"echo '{MESON}' > r.xml", Outcome("FAILED", str(Counts(1, 2, 1)), Counts(1, 2, 1))),
        (
            f"echo '{PYTEST}' > r.xml; exit 3",
            Outcome("FAILED", "'echo' exited with 3", Counts(2, 1)),
        ),
        ("echo '<testsuites/>' > r.xml", Outcome("FAILED", "ran no test", Counts(0, 1))),
        ("true", Outcome("FAILED", "no r.xml", Counts(0, 1))),
        ("kill -9 $$", Outcome("FAILED", "'kill' exited with -9: no r.xml", Counts(0, 1))),
        (
            "echo no r.xml > r.xml",
            Outcome("FAILED", "r.xml: syntax error: line 1, column 0", Counts(0, 1)),
        ),
        ("echo there is no qemu; exit 77", Outcome("skipped", "there is no qemu")),
        (
            f"echo '{MESON}' > r.xml; exit 77",
            Outcome("FAILED", str(Counts(1, 2, 1)), Counts(1, 2, 1)),
        ),
    ],
)
def test_a_stage_of_tests_cannot_pass_without_results(
    runner: Runner, command: str, outcome: Outcome
) -> None:
    (runner.root / "r.xml").write_text(PYTEST)  # of an earlier run
    assert runner.carry_out(stage(command, results=("r.xml",))) == outcome


def test_the_output_of_a_stage_is_logged_and_its_last_line_shown(runner: Runner) -> None:
    assert runner.carry_out(stage("echo out", "echo err >&2")) == Outcome("ok", "err")
    assert runner.carry_out(stage("false", "echo never")) == Outcome(
        "FAILED", "'false' exited with 1"
    )
    runner.carry_out(stage("echo out; echo err >&2", "exit 7"))
    assert (
        runner.logs / "trial.log"
    ).read_text() == "+ echo out; echo err >&2\nout\nerr\n+ exit 7\n"


@pytest.mark.slow
def test_a_stage_is_repeated_when_something_it_depends_on_changes(runner: Runner) -> None:
    """And only then; what another checkout has found with equal inputs holds here too."""
    one = stage("cat in/*", inputs=("in",), versions=("cat version",))
    (runner.root / "version").write_text("1")

    def unchanged(which: Stage = one) -> bool:
        return runner.carry_out(which).unchanged

    assert not unchanged()
    assert unchanged()
    (runner.root / "out").write_text("no input")
    assert unchanged()
    for path, text in (("in/a", "two"), ("in/b", ""), ("version", "2")):
        (runner.root / path).write_text(text)
        assert not unchanged()
        assert unchanged()
    (runner.root / "in" / "b").chmod(0o755)
    assert not unchanged()
    (runner.root / "in" / "b").rename(runner.root / "in" / "c")
    assert not unchanged()
    assert not unchanged(stage("cat in/* ", inputs=("in",), versions=("cat version",)))
    assert not unchanged(stage("true")), "a stage without inputs is always run"
    assert not unchanged(stage("true"))


def test_what_failed_was_skipped_or_changed_meanwhile_is_not_recorded(runner: Runner) -> None:
    for command in ("false", "exit 77", "date +%s%N > in/a"):
        for _ in range(2):
            assert not runner.carry_out(stage(command, inputs=("in",))).unchanged


def test_counts_of_unchanged_stages_are_kept_for_a_week(runner: Runner, tmp_path: Path) -> None:
    one = stage(f"echo '{PYTEST}' > r.xml", inputs=("in",), results=("r.xml",))
    assert not runner.carry_out(one).unchanged
    assert runner.carry_out(one) == Outcome("ok", f"(unchanged) {Counts(2)}", Counts(2), True)
    (record,) = (tmp_path / "records").iterdir()
    week_ago = record.stat().st_mtime - 7 * 86400
    os.utime(record, (week_ago, week_ago))
    assert not runner.carry_out(one).unchanged
    assert not Runner(runner.root, tmp_path / "records", use_records=False).carry_out(one).unchanged


def test_stages_run_side_by_side_unless_alone_and_after_what_they_need(
    runner: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stages a and b wait for each other, so they have to overlap."""
    meet = "test ! -e lock; touch {0}; while [ ! -e {1} ]; do sleep 0.01; done"
    stages = [
        stage("touch lock && sleep 0.2 && test ! -e x && rm lock", name="alone", alone=True),
        stage(meet.format("x", "y"), name="a"),
        stage(meet.format("y", "x"), name="b"),
        stage("test ! -e x; test ! -e y", name="alone too", alone=True),
        stage("test -e x; false", name="c", after=("a",)),
        stage("echo", name="d", after=("c",)),
    ]
    done = run_all(runner, stages, 2, fail_fast=False)
    assert {name: one.state for name, one in done.items()} == {
        "alone": "ok", "a": "ok", "b": "ok", "alone too": "FAILED", "c": "FAILED", "d": "skipped",
    }  # fmt: skip
    assert done["d"].note == "c failed"
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert shown.index("c") < shown.index("d")


@pytest.mark.slow
def test_next_to_a_stage_that_is_alone_runs_only_what_may(runner: Runner) -> None:
    """The stages board and alone wait for each other. The last one has a free place from the
    start, but those that are alone come first."""
    meet = "touch {0}; while [ ! -e {1} ]; do sleep 0.01; done"
    stages = [
        stage("touch z; sleep 0.2; rm z", name="other"),
        stage(
            f"test ! -e z; {meet.format('y', 'x')}", name="alone", alone=True, limit_s=PATIENCE_S
        ),
        stage(meet.format("x", "y"), name="board", with_alone=True, limit_s=PATIENCE_S),
        stage("test ! -e last; test ! -e z", name="alone too", alone=True),
        stage("touch last", name="last"),
    ]
    done = run_all(runner, stages, 3, fail_fast=False)
    assert {name: one.state for name, one in done.items()} == dict.fromkeys(
        ("other", "alone", "board", "alone too", "last"), "ok"
    )


@pytest.mark.slow
def test_a_spare_stage_has_less_priority_and_takes_no_place(runner: Runner) -> None:
    """The three stages that are alone, spare and with_alone wait for each other, although only two
    may run at a time. A second spare stage waits for the first."""
    own = os.nice(0)
    meet = "touch {0}; for other in {1}; do while [ ! -e $other ]; do sleep 0.01; done; done"
    stages = [
        stage(meet.format("x", "y z"), name="alone", alone=True, limit_s=PATIENCE_S),
        stage(meet.format("y", "x z"), name="board", with_alone=True, limit_s=PATIENCE_S),
        stage(
            f"{meet.format('z', 'x y')}; test $(nice) = {min(own + 10, 19)}; sleep 0.2; touch end",
            name="spare", spare=True, limit_s=PATIENCE_S,
        ),
        stage("test -e end", name="spare too", spare=True),
        stage(f"test $(nice) = {own}", name="last"),
    ]  # fmt: skip
    done = run_all(runner, stages, 2, fail_fast=False)
    assert {name: one.state for name, one in done.items()} == dict.fromkeys(
        ("alone", "board", "spare", "spare too", "last"), "ok"
    )


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists(), reason="the scheduler has no group for a session"
)
def test_the_session_of_a_spare_stage_has_less_priority(runner: Runner) -> None:
    grep = "grep -q 'nice {0}$' /proc/self/autogroup"
    assert runner.carry_out(stage(f"sleep 0.2; {grep.format(10)}", spare=True)).state == "ok"
    assert runner.carry_out(stage(f"sleep 0.2; {grep.format(0)}")).state == "ok"


def test_on_request_the_first_failure_ends_the_others(runner: Runner) -> None:
    stages = [stage("sleep 600", name="a"), stage("false", name="b"), stage("true", name="c")]
    done = run_all(runner, stages, 2, fail_fast=True)
    assert {name: one.note for name, one in done.items()} == {
        "a": "stopped", "b": "'false' exited with 1",
    }  # fmt: skip


@pytest.mark.slow
def test_a_stage_that_is_stopped_still_says_what_failed(runner: Runner, tmp_path: Path) -> None:
    test, begun = tmp_path / "test_long.py", tmp_path / "begun"
    test.write_text(
        "import pathlib, time\n"
        "def test_wrong():\n    assert 'cause' == 'found'\n"
        f"def test_long():\n    pathlib.Path({str(begun)!r}).touch()\n    time.sleep(600)\n"
    )

    def stop() -> None:
        while not begun.exists():
            time.sleep(0.05)
        runner.stopped.set()

    threading.Thread(target=stop, daemon=True).start()
    command = f"{sys.executable} -m pytest -q -p no:cacheprovider -c /dev/null {test}"
    done = runner.carry_out(stage(command))
    assert (done.state, done.note) == ("FAILED", "stopped")
    assert "assert 'cause' == 'found'" in (runner.logs / "trial.log").read_text("utf-8")


def test_kernels_that_the_cache_does_not_contain_are_fetched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stage `kmod` waits for no other stage. Without a kernel it is skipped, not green."""
    asked = []

    def unreachable(board: Board, newest: bool, say: object) -> Unpacked:
        asked.append((board.name, newest))
        raise TargetError("no network", "check the connection")

    monkeypatch.setattr(kmod, "kernel_for", unreachable)
    monkeypatch.setattr(kmod, "checkpatch", lambda: None)
    assert kmod.main() == 77
    assert asked == [(name, False) for name in sorted(BOARDS)]
    said = capsys.readouterr().out
    assert "x86_64-rt-6.12: no network" in said and "not built for arm64-rt-6.1, " in said


@pytest.mark.slow
def test_the_list_of_stages_is_sound() -> None:
    stages = read_stages(ROOT / "tools" / "stages.toml")
    lanes = {lane: {one.name for one in stages.values() if lane in one.lanes} for lane in LANES}
    assert lanes["quick"] < lanes["test"]
    assert lanes["test"] - {"lab-smoke"} < lanes["check"], "the stage lab boots the same boards"
    for one in stages.values():
        for pathspec in one.inputs:
            listed = subprocess.run(
                ["git", "ls-files", "--", pathspec.removeprefix(":!")],
                cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE_S,
            )  # fmt: skip
            assert listed.stdout, f"{one.name}: no file matches the input '{pathspec}'"


def test_stages_depend_on_the_tools_that_their_programs_import() -> None:
    for one in read_stages(ROOT / "tools" / "stages.toml").values():
        for program in (ROOT / name for name in one.inputs if re.fullmatch(r"tools/\w+\.py", name)):
            names = re.findall(r"(?m)^from (\w+) import", program.read_text(encoding="utf-8"))
            needed = {f"tools/{name}.py" for name in names} & {
                f"tools/{path.name}" for path in (ROOT / "tools").glob("*.py")
            }
            assert needed <= set(one.inputs), one.name


@pytest.mark.parametrize("folder", ["machine", "lab", "cross", "unit"])
def test_stages_depend_on_the_folders_that_their_tests_read(folder: str) -> None:
    sources = [one.read_text(encoding="utf-8") for one in (ROOT / "tests" / folder).glob("*.py")]
    read = {name for name in ("bench", "docs") if any(f'/ "{name}"' in text for text in sources)}
    for one in read_stages(ROOT / "tools" / "stages.toml").values():
        if f"tests/{folder}" in one.inputs and one.name != "lab-smoke":
            assert read <= {name.partition("/")[0] for name in one.inputs}, one.name


@pytest.mark.parametrize(
    "text",
    [
        'name = "a"\nlanes = ["slow"]',
        'name = "a"\nlanes = []\nafter = ["b"]',
        'name = "a"\nlanes = []\ninputs = ["@b"]',
    ],
)
def test_a_list_of_stages_with_an_unknown_name_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "stages.toml"
    path.write_text(f'[[stage]]\nabout = ""\ncommands = []\n{text}\n')
    with pytest.raises(ValueError, match="'a'"):
        read_stages(path)


def test_a_size_that_changes_by_more_than_2_percent_has_to_be_recorded() -> None:
    assert not size_faults({"a": 1000, "b": 1000}, {"a": 1020, "b": 980})
    assert size_faults(
        {"a": 1000, "b": 1000, "c": 1000, "e": 1}, {"a": 1021, "b": 979, "d": 1, "e": 1}
    ) == [
        "a: 1021 bytes, +2.1% from the recorded 1000",
        "b: 979 bytes, -2.1% from the recorded 1000",
        "c: is recorded but was not built",
        "d: 1 bytes, not recorded",
    ]


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.py", LICENCE + "x = 1\n", None),
        ("a.py", "x = 1\n", "a.py:1: does not begin with"),
        ("a.py", "\n\n\n" + LICENCE, "a.py:1: does not begin with"),
        ("a.txt", "# Text\n", None),
        ("a.md", "# Text\n", "a.md:1: does not begin with"),
        ("data/index.db", "a store\n", "data/index.db:1: does not begin with"),
        ("a.txt", "text \n", "a.txt:1: white space at the end"),
        ("a.txt", "text", "a.txt: no line end"),
        ("a.txt", "x\nsee /ro" + "ot/notes\n", "a.txt:2: names a folder of one machine"),
        (
            "a.txt",
            "pip install --in" + "dex-url https://host.example/\n",
            "a.txt:1: names an index of packages: the user chooses it",
        ),
        ("a.txt", "<" * 7 + " HEAD\n", "a.txt:1: names a conflict"),
        (
            "agent/tests/new.c",
            "/" + LICENCE[1:],
            "agent/tests/new.c: is not named in agent/meson.build",
        ),
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


def test_the_compiler_is_not_kept_in_a_home_that_a_test_made(
    checkouts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = pwd.getpwuid(os.getuid())
    home = (tmp_path / "real").as_posix()
    real = pwd.struct_passwd((*user[:5], home, user[6]))
    monkeypatch.setattr(pwd, "getpwuid", {os.getuid(): real}.__getitem__)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "test"))
    link = shared_library(checkouts[0], "1.2")
    assert link == tmp_path / "real/.cache/rtgauge/zig-1.2"


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


@pytest.mark.slow
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


@pytest.mark.parametrize(("lane", "folders"), [("quick", ["unit"]), ("test", ["unit", "machine"])])
def test_the_set_up_of_a_lane_installs_what_its_tests_require(
    lane: str, folders: list[str]
) -> None:
    """A test that fails without a Debian package names it."""
    setup = (ROOT / "tools/setup.sh").read_text()
    lists = dict(re.findall(r'^(\w+)_tools="([^"]*)"', setup, re.M))
    installed = lists[lane].replace("$quick_tools", lists["quick"]).split()
    sources = [path for name in folders for path in (ROOT / "tests" / name).glob("*.py")]
    phrase = "install the Debian package " + r"([\w-]+)"
    required = {name for path in sources for name in re.findall(phrase, path.read_text())}
    assert "poppler-utils" in required
    assert required <= set(installed)


def test_the_set_up_of_the_nightly_lane_installs_the_packages_of_the_page() -> None:
    setup = (ROOT / "tools/setup.sh").read_text()
    lists = dict(re.findall(r'^(\w+)_tools="([^"]*)"', setup, re.M))
    listed = lists["nightly"].replace("$test_tools", lists["test"]).splitlines()
    sources = re.findall(r"^sources=(\S+)$", setup, re.M)
    installed = {line.split()[1] for line in listed if not line.startswith("$")} | set(sources)
    page = (ROOT / "docs/how-to/rt-kernel.md").read_text()
    required = set(" ".join(re.findall(r"^apt install (.*)$", page, re.M)).split())
    assert "flex" in required
    assert required <= installed


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
