# SPDX-License-Identifier: Apache-2.0
"""Carries out ``make test`` and ``make check``: stages, one line for each, and the count of tests.

``check.py STAGE...`` carries out single ones, e.g. ``check.py ruff agent-tsan``.

A stage is a function that runs commands through ``Stage.run``; their output goes to a log below
build/check/, which is shown when the stage fails. Test programs write JUnit XML, kept in
build/check/results/, from which alone tests are counted: a C test counts once for every build of
the agent that it was run in. All stages are carried out, also after one that failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tree import tracked_files, tree_faults
from static_programs import BUILDS, emulator, own

from rtgauge.architectures import ARCHITECTURES, Architecture
from rtgauge.errors import TargetError
from rtgauge.lab.boards import BOARDS
from rtgauge.lab.kernels import known_kernel
from rtgauge.lab.modules import Recipe, module_sources
from rtgauge.lab.programs import names as static_names

ROOT: Final = Path(__file__).resolve().parents[1]
VENV: Final = ROOT / ".venv" / "bin"
CHECK: Final = ROOT / "build" / "check"
RESULTS: Final = CHECK / "results"
TIMEOUT_S: Final = 1800.0
END_TIMEOUT_S: Final = 10.0
LOG_LINES_SHOWN: Final = 150
PYTHON_FOLDERS: Final = ("src", "tests", "tools", "bench")
# KiB, what each static agent takes and a little: docs/decisions/0067-harden-the-agents.md
STATIC_KIB_MAX: Final[Mapping[str, int]] = {
    "x86-64": 552,
    "i686": 536,
    "armv5te": 552,
    "armv7hf": 404,
    "arm64": 544,
    "riscv64": 508,
    "powerpc": 700,
    "mips": 708,
}
# Tests of the agent that do not ask what an emulation of a program has otherwise than its machine:
# processes and their groups, priorities, the settings in /proc/sys.
EMULATED_TESTS: Final = (
    "cpulist", "disturb", "doorbell", "environment", "grid", "line", "order", "stamp", "stream",
    "sustain", "timerlat",
)  # fmt: skip
# They try so many numbers that one architecture has to do: 32 bits, the other byte order.
EXHAUSTIVE_TESTS: Final = ("option", "series", "tick")
EXHAUSTIVE_ON: Final = "mips"
# Of checkpatch.pl: what an out-of-tree module for several versions cannot do without.
CHECKPATCH_IGNORE: Final = "LINUX_VERSION_CODE,CONSTANT_COMPARISON"


class StageFailedError(Exception):
    """The stage did not hold; the text says why in one line."""


@dataclass(frozen=True)
class Counts:
    """How many tests passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    @property
    def total(self) -> int:
        """All of them."""
        return self.passed + self.failed + self.skipped


def count_junit(text: str) -> Counts:
    """The test cases of a JUnit XML document, whoever wrote it; ParseError if it is none."""
    passed = failed = skipped = 0
    for case in ElementTree.fromstring(text).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return Counts(passed, failed, skipped)


def count_results(folder: Path) -> Counts:
    """The sum over all results in a folder; one that cannot be read is one failed test."""
    total = Counts()
    for path in sorted(folder.glob("*.xml")):
        try:
            total += count_junit(path.read_text(encoding="utf-8"))
        except (ElementTree.ParseError, UnicodeDecodeError):
            total += Counts(failed=1)
    return total


class Stage:
    """One stage under way: its log, and what it wants to say in its line."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.note = ""
        self.log = CHECK / f"{name}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_text("")

    def write(self, text: str) -> None:
        """Add a line to the log."""
        with self.log.open("a", encoding="utf-8") as log:
            log.write(text + "\n")

    def status(
        self,
        words: Sequence[str | Path],
        variables: Mapping[str, str] | None = None,
        folder: Path = ROOT,
    ) -> int:
        """Run a command, its output to the log; its exit status."""
        line = " ".join(map(str, words))
        self.write(f"+ {line}")
        process = subprocess.Popen(
            [str(word) for word in words],
            cwd=folder,
            env={**environment(), **(variables or {})},
            stdin=subprocess.DEVNULL,
            # not the log itself: tests that limit the size of files would meet it there
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        reader = threading.Thread(target=self._keep_output, args=[process], daemon=True)
        reader.start()
        try:
            return process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            end(process)
            raise StageFailedError(f"took more than {TIMEOUT_S:.0f} s: {line}") from None
        except BaseException:
            end(process)
            raise
        finally:
            # something that it left behind may hold the pipe open
            reader.join(END_TIMEOUT_S)

    def _keep_output(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with self.log.open("ab") as log, process.stdout as output:
            while data := os.read(output.fileno(), 65536):
                log.write(data)
                log.flush()

    def run(
        self,
        words: Sequence[str | Path],
        variables: Mapping[str, str] | None = None,
        folder: Path = ROOT,
    ) -> None:
        """The same, for a command that has to succeed."""
        status = self.status(words, variables, folder)
        if status:
            raise StageFailedError(f"{Path(str(words[0])).name} ended with {status}")

    def tests(
        self,
        words: Sequence[str | Path],
        result: Path,
        variables: Mapping[str, str] | None = None,
        part: str = "",
    ) -> None:
        """Run a test program that writes JUnit XML to ``result``, and keep that for the count.

        It has failed as well if it ran no test, or ended with an error that no test explains;
        that counts as one failed test. A second program of a stage is a ``part`` of its own.
        """
        kept = RESULTS / f"{self.name}{part and '-'}{part}.xml"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("no result\n")
        result.unlink(missing_ok=True)
        status = self.status(words, variables)
        try:
            text = result.read_text(encoding="utf-8")
            counts = count_junit(text)
        except (OSError, UnicodeDecodeError, ElementTree.ParseError):
            raise StageFailedError(f"left no result, ended with {status}") from None
        if counts.total == 0:
            raise StageFailedError("ran no test")
        if status and not counts.failed:
            raise StageFailedError(f"ended with {status}, which no test explains")
        kept.write_text(text, encoding="utf-8")
        self.note += f"{'; ' if self.note else ''}{counts}"
        if counts.failed:
            raise StageFailedError(self.note)


def environment() -> dict[str, str]:
    """The variables for commands: tools of .venv first, and nothing of a make above us."""
    variables = dict(os.environ)
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"):
        variables.pop(name, None)
    variables["PATH"] = f"{VENV}:{variables.get('PATH', os.defpath)}"
    return variables


def end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it started: first asked, so that settings can be put back."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_TIMEOUT_S)


# --- Lint ---------------------------------------------------------------------------------------


def tree(stage: Stage) -> None:
    """Licence lines, texts that must not be in the repository, sources that no build names."""
    files = tracked_files(ROOT)
    faults = tree_faults(ROOT, files)
    for fault in faults:
        stage.write(fault)
    if faults:
        raise StageFailedError(f"{len(faults)} faults")
    stage.note = f"{len(files)} files"


def ruff(stage: Stage) -> None:
    """Lint and form of everything written in Python."""
    stage.run([VENV / "ruff", "check", "--quiet", "."])
    stage.run([VENV / "ruff", "format", "--quiet", "--diff", *PYTHON_FOLDERS])


def mypy(stage: Stage) -> None:
    """Types of everything written in Python."""
    folders = [name for name in PYTHON_FOLDERS if any((ROOT / name).rglob("*.py"))]
    stage.run([VENV / "mypy", *folders])


def clang_format(stage: Stage) -> None:
    """The form of everything written in C."""
    sources = [name for name in tracked_files(ROOT) if name.endswith((".c", ".h"))]
    stage.run(["clang-format", "--dry-run", "-Werror", *sources])


def shellcheck(stage: Stage) -> None:
    """Lint of what is written in shell."""
    stage.run(["shellcheck", "--external-sources", "rtgauge", "tools/setup.sh", ".ci/run"])


# --- The agent ----------------------------------------------------------------------------------


def configure(stage: Stage, folder: Path, compiler: str, options: Sequence[str]) -> None:
    """Set up a build folder of the agent; from the beginning when what was asked for changed."""
    asked = json.dumps([compiler, *options])
    mark = folder / "asked-for.json"
    if not mark.exists() or mark.read_text() != asked:
        shutil.rmtree(folder, ignore_errors=True)
        variables = {"CC": compiler} if compiler.partition(" ")[0] in ("gcc", "clang") else {}
        stage.run([VENV / "meson", "setup", folder, *options], variables)
        mark.write_text(asked)


def test_agent(
    stage: Stage,
    folder: Path,
    variables: Mapping[str, str] | None = None,
    wrapper: str = "",
) -> None:
    """Build everything in a build folder and run the C tests."""
    stage.run([VENV / "ninja", "-C", folder])
    words: list[str | Path] = [VENV / "meson", "test", "-C", folder, "--no-rebuild"]
    words += ["--print-errorlogs", "--timeout-multiplier", "4"]
    words += ["--wrapper", wrapper] if wrapper else []
    stage.tests(words, folder / "meson-logs" / "testlog.junit.xml", variables)


def agent(stage: Stage) -> None:
    """The build that runs from this checkout."""
    test_agent(stage, ROOT / "build" / "native")


def agent_gcc(stage: Stage) -> None:
    """No warning from gcc."""
    configure(stage, CHECK / "gcc", "gcc", ["-Dwerror=true"])
    test_agent(stage, CHECK / "gcc")


def agent_clang(stage: Stage) -> None:
    """No warning from clang."""
    configure(stage, CHECK / "clang", "clang", ["-Dwerror=true"])
    test_agent(stage, CHECK / "clang")


def agent_asan(stage: Stage) -> None:
    """Memory errors and undefined behaviour."""
    configure(stage, CHECK / "asan", "gcc", ["-Db_sanitize=address,undefined"])
    variables = {"ASAN_OPTIONS": "abort_on_error=1", "UBSAN_OPTIONS": "halt_on_error=1"}
    test_agent(stage, CHECK / "asan", variables)


def agent_tsan(stage: Stage) -> None:
    """Data races."""
    configure(stage, CHECK / "tsan", "gcc", ["-Db_sanitize=thread"])
    source, trial = CHECK / "tsan" / "trial.c", CHECK / "tsan" / "trial"
    source.write_text("int main(void) { return 0; }\n")
    stage.run(["gcc", "-fsanitize=thread", source, "-o", trial])
    # where the kernel spreads addresses more widely than this run-time knows, it ends at once
    wrapper = "" if stage.status([trial]) == 0 else "setarch -R"
    test_agent(stage, CHECK / "tsan", {"TSAN_OPTIONS": "halt_on_error=1"}, wrapper)


def agent_musl(stage: Stage) -> None:
    """The static agent for machines like this one, as it goes to targets, and its size."""
    mine = next(filter(own, ARCHITECTURES.values()), None)
    if mine is None:
        stage.note = f"skipped: no agent is made for {platform.machine()}"
        return
    stage.run([VENV / "python", "tools/static_programs.py", mine.name])
    test_agent(stage, BUILDS / mine.processor)
    stage.note += f"; {static_size(mine)}"


def agent_cross(stage: Stage) -> None:
    """The static agents for all other machines, their sizes, and their tests in an emulation."""
    stage.run([VENV / "python", "tools/static_programs.py"])
    others = [one for one in ARCHITECTURES.values() if not own(one)]
    sizes = [static_size(one) for one in others]
    for architecture in others:
        if emulator(architecture) is None:
            sizes.append(f"{architecture.name} not tested: there is no qemu-{architecture.qemu}")
            continue
        folder = BUILDS / architecture.processor
        more = EXHAUSTIVE_TESTS if architecture.name == EXHAUSTIVE_ON else ()
        names = [f"test_{name}" for name in (*EMULATED_TESTS, *more)]
        stage.run([VENV / "ninja", "-C", folder, *(f"agent/{name}" for name in names)])
        words: list[str | Path] = [VENV / "meson", "test", "-C", folder, "--no-rebuild"]
        words += ["--print-errorlogs", "--timeout-multiplier", "10", *names]
        result = folder / "meson-logs" / "testlog.junit.xml"
        stage.tests(words, result, part=architecture.name)
    result = CHECK / "cross.xml"
    words = [VENV / "pytest", "-q", "--tb=short", "--junit-xml", result, "tests/cross"]
    stage.tests(words, result, part="host")
    stage.note += f"; {', '.join(sizes)}"


def static_size(architecture: Architecture) -> str:
    """The size of a static agent in words. StageFailedError if it is too large."""
    size = (ROOT / "src" / "rtgauge" / "agents" / architecture.agent).stat().st_size
    most = STATIC_KIB_MAX[architecture.name]
    if size > most * 1024:
        raise StageFailedError(
            f"the agent for {architecture.name} has {size} bytes; {most * 1024} are allowed"
        )
    return f"{architecture.name} {size / 1024:.1f} of {most} KiB"


def agent_i686(stage: Stage) -> None:
    """The agent for machines of 32 bits: no warning, and the whole catalogue once."""
    if platform.machine() != "x86_64":
        stage.note = f"not on {platform.machine()}"
        return
    folder = CHECK / "i686"
    # Debian's link to these headers comes with a package that excludes cross compilers
    compiler = "gcc -m32 -idirafter /usr/include/x86_64-linux-gnu"
    configure(stage, folder, compiler, ["-Dwerror=true"])
    test_agent(stage, folder)
    built = folder / "agent" / "rtgauge-agent-i686-glibc"
    result = CHECK / "i686-platforms.xml"
    words: list[str | Path] = [VENV / "pytest", "-q", "--tb=short", "--junit-xml", result]
    words.append("tests/machine/test_platforms.py")
    stage.tests(words, result, {"RTGAUGE_AGENT": str(built)}, "platforms")


# --- The host -----------------------------------------------------------------------------------


def host(stage: Stage) -> None:
    """The tests in Python."""
    result = CHECK / "pytest.xml"
    words: list[str | Path] = [VENV / "pytest", "-q", "--tb=short", "--junit-xml", result]
    stage.tests([*words, "tests/unit", "tests/machine"], result)


def lab(stage: Stage) -> None:
    """The instrument itself, on emulated boards: what was put there is to be found."""
    result = CHECK / "lab.xml"
    words: list[str | Path] = [VENV / "pytest", "-q", "--tb=short", "--junit-xml", result]
    stage.tests([*words, "tests/lab"], result)


def kmod(stage: Stage) -> None:
    """No warning of the compiler (W=1), of sparse and of checkpatch.pl in the kernel modules."""
    built = [name for name in sorted(BOARDS) if kmod_build(stage, name)]
    if not built:
        stage.note = "skipped: the lab's cache holds no kernel (the stage 'lab' fetches them)"
        return
    stage.note = f"{len(built)} kernels"
    script = checkpatch()
    if script is None:
        stage.note += "; without checkpatch.pl: Debian has it in linux-source alone; put it on PATH"
        return
    sources = [name for name in tracked_files(ROOT) if re.fullmatch(r"kmod/[^/]+\.[ch]", name)]
    words: list[str | Path] = ["perl", script, "--strict", "--no-tree", "--terse"]
    stage.run([*words, f"--ignore={CHECKPATCH_IGNORE}", "--file", *sources])


def kmod_build(stage: Stage, name: str) -> bool:
    """Build the modules for a board's kernel, if the cache has it and a compiler is here."""
    unpacked = known_kernel(BOARDS[name])
    if unpacked is None:
        return False
    machine = BOARDS[name].machine
    try:
        recipe = Recipe(machine, unpacked, module_sources())
    except TargetError as error:
        stage.write(f"{name}: {error}")
        return False
    folder = CHECK / "kmod" / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "kmod", folder, ignore=shutil.ignore_patterns("*.o", "*.ko", ".*"))
    words: list[str | Path] = ["make", "-C", unpacked.headers, f"M={folder}"]
    words += [f"-j{len(os.sched_getaffinity(0))}", "W=1", "C=2", "modules"]
    words += [f"ARCH={machine.architecture}", f"CROSS_COMPILE={machine.triplet}"]
    words.append(f"CC={recipe.compiler}")
    before = len(stage.log.read_text(encoding="utf-8").splitlines())
    stage.run(words)
    said = stage.log.read_text(encoding="utf-8", errors="replace").splitlines()[before:]
    # neither kind of warning ends the build
    if any(re.search(r"\b(?:warning|error):", line) for line in said):
        raise StageFailedError(f"warnings for {unpacked.release}")
    return True


def checkpatch() -> Path | None:
    """The kernel's checker of style, from PATH or from kernel sources that are unpacked here."""
    found = shutil.which("checkpatch.pl")
    if found:
        return Path(found)
    return next(iter(sorted(Path("/usr/src").glob("linux*/scripts/checkpatch.pl"))), None)


def wheel(stage: Stage) -> None:
    """The wheel holds all that the sources hold, and works away from them."""
    folder = CHECK / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    pip: list[str | Path] = [VENV / "python", "-m", "pip", "--disable-pip-version-check"]
    stage.run([VENV / "python", "tools/static_programs.py"])
    stage.run([*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, "."])
    (built,) = folder.glob("*.whl")
    held = set(zipfile.ZipFile(built).namelist())
    wanted = {f"rtgauge/agents/{agent_name()}"}
    for architecture in ARCHITECTURES.values():
        wanted |= {f"rtgauge/agents/{name}" for name in static_names(architecture)}
    wanted |= {f"rtgauge/kmod/{name}" for name in (*module_sources(), "dkms.conf")}
    for name in tracked_files(ROOT):
        if name.startswith("src/rtgauge/"):
            wanted.add(name.removeprefix("src/"))
        elif name.startswith("plans/") and name.endswith(".toml"):
            wanted.add(f"rtgauge/{name}")
    missing = sorted(wanted - held)
    if missing:
        raise StageFailedError(f"the wheel lacks {', '.join(missing)}")
    unwanted = sorted(name for name in held - wanted if ".dist-info/" not in name)
    if unwanted:
        raise StageFailedError(f"the wheel should not hold {', '.join(unwanted)}")
    away = folder / "venv"
    stage.run([VENV / "python", "-m", "venv", "--without-pip", away])
    stage.run(
        [*pip, "--python", away / "bin" / "python", "install", "--no-deps", "--no-index", built]
    )
    # the packages it needs are those of .venv; a path file of this checkout there is not read
    (packages,) = (ROOT / ".venv" / "lib").glob("python3.*/site-packages")
    (there,) = (away / "lib").glob("python3.*/site-packages")
    (there / "needed.pth").write_text(f"{packages}\n")
    for words in (["--version"], ["describe", "--json"]):
        stage.run([away / "bin" / "rtgauge", *words], folder=folder)
    stage.note = f"{built.name}, {built.stat().st_size / 1024:.0f} KiB"


def agent_name() -> str:
    """The file name of the agent that the build for this machine makes."""
    (built,) = (
        path
        for path in (ROOT / "build" / "native" / "agent").glob("rtgauge-agent-*")
        if path.is_file()
    )
    return built.name


# --- Carrying out -------------------------------------------------------------------------------

TESTS: Final[Sequence[Callable[[Stage], None]]] = (agent, host)
CHECKS: Final[Sequence[Callable[[Stage], None]]] = (
    tree,
    ruff,
    mypy,
    clang_format,
    shellcheck,
    agent_gcc,
    agent_clang,
    agent_asan,
    agent_tsan,
    agent_musl,
    agent_i686,
    agent_cross,
    wheel,
    lab,
    kmod,
)


def stage_name(function: Callable[[Stage], None]) -> str:
    """What a stage is called on the command line, in its line, and by its log."""
    return function.__name__.replace("_", "-")


def carry_out(function: Callable[[Stage], None]) -> bool:
    """Carry out one stage, and print its line; when it failed, its log too. True if it held."""
    stage = Stage(stage_name(function))
    print(f"{stage.name:<14}", end="", flush=True)
    started = time.monotonic()
    try:
        function(stage)
        reason = ""
    except StageFailedError as error:
        reason = str(error)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = f"{type(error).__name__}: {error}"
    took = time.monotonic() - started
    print(f"{'FAILED' if reason else 'ok':<6} {took:6.1f} s  {reason or stage.note}", flush=True)
    if reason:
        lines = stage.log.read_text(encoding="utf-8", errors="replace").splitlines()
        if len(lines) > LOG_LINES_SHOWN:
            print(f"  | … (all of it in {stage.log.relative_to(ROOT)})")
        for line in lines[-LOG_LINES_SHOWN:]:
            print(f"  | {line}")
    return not reason


def main() -> int:
    """Carry out what is named; 0 if all stages held."""
    stages = {stage_name(function): [function] for function in (*TESTS, *CHECKS)}
    named = {"test": [*TESTS], "check": [*CHECKS], **stages}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="+", choices=named)
    parser.add_argument(
        "--within-check", action="store_true", help="add to the results, and leave the count to it"
    )
    arguments = parser.parse_args()
    if not arguments.within_check:
        shutil.rmtree(RESULTS, ignore_errors=True)
    held = [carry_out(function) for what in arguments.what for function in named[what]]
    if "check" in arguments.what:
        # the very command of the README, so that what it says stays true
        words = ["make", "--no-print-directory", "test", "TEST_OPTIONS=--within-check"]
        held.append(subprocess.run(words, cwd=ROOT, env=environment(), check=False).returncode == 0)
    if not arguments.within_check:
        if not all(held):
            print("not all stages held: see FAILED above")
        counts = count_results(RESULTS)
        if counts.total or {"test", "check"} & set(arguments.what):
            print(counts)
    return 0 if all(held) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\ninterrupted")
