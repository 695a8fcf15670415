# SPDX-License-Identifier: Apache-2.0
"""The examples of README and docs: fenced blocks, what each is, and the commands in it.

The word behind the fence says what a block is. Commands are in ``sh`` blocks, or in ``console``
blocks behind ``$``, with their output. What is not tried has a reason in ``UNTRIED``.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rtgauge.clock import Clock
from rtgauge.target import Target
from rtgauge.target.fake import FakeTarget
from rtgauge.target.lab import LabTarget
from rtgauge.target.local import LocalTarget

__all__ = ["LANGUAGES", "UNTRIED", "Command", "Example", "commands", "examples", "pretended"]

ROOT: Final = Path(__file__).resolve().parents[2]
FENCE: Final = re.compile(r"(?P<indent>\s*)(?P<mark>```+)(?P<language>\S*)\s*")

#: The words behind a fence: what such a block is, and what tries it.
LANGUAGES: Final[Mapping[str, str]] = {
    "sh": "commands: tests/unit/test_examples.py, tests/machine/test_examples_measured.py",
    "console": "commands behind '$' and what they print: the same tests try the commands",
    "toml": "a plan or a project's rtgauge.toml: read as such",
    "python": "executed, with a store",
    "json": "the parts of a format, with names in place of values: tests of the format",
    "c": "the agent of tests/machine/test_adding_a_measurement.py is built with it",
    "text": "a drawing, a list of files, or output alone",
}

#: Beginnings of commands that no test executes or parses, and why. None may be without use.
UNTRIED: Final[Mapping[str, str]] = {
    "./rtgauge describe yield-cost": "tests/machine/test_adding_a_measurement.py executes it",
    "./rtgauge run yield-cost": "tests/machine/test_adding_a_measurement.py executes it",
    ".venv/bin/": "the stages of tools/stages.toml call the same programs",
    "pipx ": "tools/try_packages.sh installs the wheel with pipx in a fresh Debian",
    "sudo apt-get install ./dist/": "tools/try_packages.sh installs the package in a fresh Debian",
    "pip download": "needs a wheel and a package index",
    "python3 -m venv ~/rtgauge": "needs a wheel and a package index for the next command",
    "~/rtgauge/bin/": "needs a wheel and a package index",
    "sigrok-cli": "needs a logic analyser",
    "scripts/kconfig/merge_config.sh": "tests/lab/test_kernel_build.py executes it",
    "git bisect": "needs a history of kernels: tests/lab/test_own.py bisects one",
    "cd linux": "needs the sources of a kernel",
    "make defconfig": "needs the sources of a kernel",
    "make -j4 bzImage": "needs the sources of a kernel",
    "mkdir -p ~/.local/share": "makes a folder for the next command",
    "rtgauge evaluate --resume": "needs an interrupted evaluation: tests/unit/test_cli_evaluate.py",
    'line="GRUB_CMDLINE_LINUX': "a line of a script for a board's boot loader",
    'echo "$line"': "a line of a script for a board's boot loader",
    'ssh root@board "update-grub': "restarts a board",
    "echo $?": "shows the exit code of the command before it",
    "apt install build-essential": "installs packages",
    "apt install linux-source": "installs packages",
    "tar -xf /usr/src/linux-source": "tests/lab/test_kernel_build.py executes it",
    "cp /boot/config-": "tests/lab/test_kernel_config.py takes the configuration of a board",
    "make olddefconfig": "tests/lab/test_kernel_build.py executes it",
    "KCONFIG_ALLCONFIG=board.config": "tests/lab/test_kernel_build.py executes it",
    "rtgauge check --config .config --strict": "tests/lab/test_kernel_build.py executes it",
    "scripts/config ": "tests/lab/test_kernel_build.py executes it",
    "make -j$(nproc) bindeb-pkg": "tests/lab/test_kernel_build.py executes it",
    "rm -f ../linux-": "tests/lab/test_kernel_build.py executes it",
    "dpkg -x ../linux-": "tests/lab/test_kernel_build.py executes it",
    "sudo dpkg -i ../linux-image": "tests/lab/test_kernel_build.py executes it below a root",
    "sudo reboot": "restarts the machine",
    "uname -v": "shows the running kernel",
    "cp -a xenomai": "needs the sources of Xenomai",
    "xenomai/scripts/prepare-kernel.sh": "needs the sources of Xenomai",
    "KCONFIG_ALLCONFIG": "needs the sources of a kernel",
    "make -C linux": "needs the sources of a kernel",
    "(cd xenomai-user": "needs the sources of Xenomai",
    "mkdir programs": "makes a folder for the next command",
    "cd programs": "needs the sources of Xenomai",
    "../xenomai-user/configure": "needs the sources of Xenomai",
    "make -j2": "needs the sources of Xenomai",
    "make DESTDIR": "needs the sources of Xenomai",
    "cd ..": "needs the sources of Xenomai",
    "mkdir -p overlay": "makes a folder for the next command",
    "cp -a programs/installed": "needs Xenomai's programs",
    "cp -L ": "needs Xenomai's programs",
    "mkdir -p /dev/shm": "changes a board",
    "mount -t tmpfs": "changes a board",
    "export LD_LIBRARY_PATH": "is for the next command",
    "echo '0i 0k 0u'": "needs a Cobalt kernel",
    "/usr/xenomai/bin/latency": "needs a Cobalt kernel",
    "latency -t1": "needs a Cobalt kernel",
    "insmod": "loads a module into the running kernel",
    "cp -r kmod": "needs DKMS and writes into /usr/src",
}


@dataclass(frozen=True)
class Example:
    """A fenced block: its page, the line of its fence (from 1), its language and its text."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Page and line, as error messages name it."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of an example, as it is copied, and its words."""

    example: Example
    text: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.example.page}: {' '.join(self.words)}"

    @property
    def untried(self) -> str:
        """Why no test tries it, if none does."""
        found = [why for start, why in UNTRIED.items() if self.text.startswith(start)]
        return found[0] if found else ""

    @property
    def is_rtgauge(self) -> bool:
        """Whether it calls rtgauge, of a clone or on the path."""
        return self.words[0] in ("rtgauge", "./rtgauge")


def pages() -> Iterator[Path]:
    """README, CONTRIBUTING and the pages of docs, but for decisions, which are not rewritten."""
    yield ROOT / "README.md"
    yield ROOT / "CONTRIBUTING.md"
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if "decisions" not in path.parts:
            yield path


def examples() -> Iterator[Example]:
    """Every fenced block of the pages."""
    for path in pages():
        page, block, fence = str(path.relative_to(ROOT)), list[str](), ""
        start, language, indent = 0, "", 0
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            if fence:
                if line.strip() == fence:
                    yield Example(page, start, language, "\n".join(block) + "\n")
                    fence, block = "", []
                else:
                    block.append(line[indent:])
            elif found := FENCE.match(re.sub(r"^(\s*)(?:[-*]|\d+\.)(?= +```)", r"\1 ", line)):
                fence, language = found["mark"], found["language"]
                start, indent = number, len(found["indent"])
        assert not fence, f"{page}:{start}: the block has no end"


def commands() -> list[Command]:
    """The commands of all examples."""
    found = []
    for example in examples():
        text = example.text.replace("\\\n", " ")
        if example.language == "console":
            lines = [line[2:] for line in text.split("\n") if line.startswith("$ ")]
            assert lines, f"{example.place}: no line begins with '$ '"
        elif example.language == "sh":
            lines = text.split("\n")
        else:
            continue
        for line in lines:
            words = shlex.split(line, comments=True)
            words = words[: words.index(">")] if ">" in words else words
            if words:
                found.append(Command(example, line.strip(), tuple(words)))
    return found


@functools.cache
def _described() -> str:
    return LocalTarget().describe()


class _Pretended(FakeTarget):
    """A target with the catalogue of the real agent and eight CPUs, of which nothing is started."""

    def __init__(self, name: str, catalogue: Mapping[str, Any], clock: Clock | None = None) -> None:
        super().__init__("cpus=8", catalogue=catalogue, clock=clock)
        self.name = name


def pretended(name: str, _agent: Path | None = None) -> Target:
    """A target of that name with the real catalogue. UsageError for a wrong name."""
    kind, _, detail = name.partition(":")
    if kind == "lab":
        LabTarget(detail).close()
    elif kind == "ssh":
        assert re.fullmatch(r"//(\w+@)?[\w.-]+(:\d+)?", detail), name
    elif kind == "fake":
        return FakeTarget(detail)
    else:
        assert name == "local", name
    return _Pretended(name, json.loads(_described()))
