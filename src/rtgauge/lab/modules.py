# SPDX-License-Identifier: Apache-2.0
"""rtgauge's kernel modules, built for a board from kmod/ against Debian's headers, or in the
folder where a user built a kernel.

The result is kept under the digest of all that it depends on. Nothing in it names a folder of the
machine that built it, so that equal sources give equal modules anywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from rtgauge.errors import TargetError
from rtgauge.lab.boards import Machine
from rtgauge.lab.cache import Say, check_name, explained, new_folder, text_digest, used
from rtgauge.lab.kernels import Unpacked

__all__ = ["Recipe", "compiler_of", "compiler_version", "module_sources", "recipe"]

BUILD_TIMEOUT_S: Final = 1800.0
QUERY_TIMEOUT_S: Final = 60.0
LOG: Final = "build.log"
_SOURCE_ENDS: Final = (".c", ".h")
_SOURCE_NAMES: Final = ("Kbuild", "Makefile")


def module_sources() -> dict[str, bytes]:
    """The modules' source files by name: of this checkout, else those that the package holds."""
    checkout = Path(__file__).resolve().parents[3] / "kmod"
    shipped = Path(str(resources.files("rtgauge") / "kmod"))
    for folder in (checkout, shipped):
        found = {
            path.name: path.read_bytes()
            for path in sorted(folder.glob("*"))
            if (path.suffix in _SOURCE_ENDS or path.name in _SOURCE_NAMES)
            and not path.name.endswith(".mod.c")
        }
        if "Kbuild" in found or "Makefile" in found:
            return found
    return {}


class Recipe:
    """How modules are built for one kernel, and where the result is kept."""

    def __init__(self, machine: Machine, unpacked: Unpacked, sources: Mapping[str, bytes]) -> None:
        self.machine = machine
        self.unpacked = unpacked
        self.sources = sources
        self.compiler = machine.triplet + compiler_of(unpacked.headers)
        self.digest = text_digest(
            unpacked.folder.name,
            machine.architecture,
            compiler_version(self.compiler, machine),
            *([unpacked.build] if unpacked.build else []),
            *(f"{name}\0{sources[name].decode('latin-1')}" for name in sorted(sources)),
        )

    def build(self, cache: Path, say: Say) -> Path:
        """The folder with the modules, built now if they are not there; needs the cache's lock.

        Raises TargetError.
        """
        final = self.folder(cache)
        if not final.is_dir():
            self._check(cache)
            say(f"building the modules for Linux {self.unpacked.release}")
            with explained(cache), new_folder(final) as making:
                self._build(making, final.parent / f"{self.digest[:16]}.log")
        used(final)
        return final

    def folder(self, cache: Path) -> Path:
        """Where the modules are or will be."""
        return cache / "modules" / self.digest[:32]

    def _build(self, making: Path, log: Path) -> None:
        work = making / "build"
        for name, content in self.sources.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        flags = f"-ffile-prefix-map={work}=kmod -ffile-prefix-map={self._sources()}=linux"
        words = [
            "make",
            "-C",
            str(self.unpacked.headers),
            f"M={work}",
            f"ARCH={self.machine.architecture}",
            f"CROSS_COMPILE={self.machine.triplet}",
            f"CC={self.compiler}",
            f"KCFLAGS={flags}",
            f"-j{len(os.sched_getaffinity(0))}",
            "modules",
        ]
        done = _run(words, BUILD_TIMEOUT_S)
        (making / LOG).write_text(done.stdout, encoding="utf-8")
        built = sorted(work.glob("*.ko"))
        if done.returncode or not built:
            shutil.copyfile(making / LOG, log)
            raise TargetError(
                f"the modules for Linux {self.unpacked.release} could not be built: "
                f"{_complaint(done.stdout)}",
                f"the output of make is in {log}",
            )
        for path in built:
            kept = making / path.name
            stripped = _run(
                [f"{self.machine.triplet}strip", "--strip-debug", "-o", str(kept), str(path)],
                QUERY_TIMEOUT_S,
            )
            if stripped.returncode:
                raise TargetError(
                    f"{path.name} could not be stripped: {_complaint(stripped.stdout)}",
                    "install the package binutils"
                    + ("" if self.machine.triplet.startswith("x86") else "-aarch64-linux-gnu"),
                )
        shutil.rmtree(work)

    def _sources(self) -> Path:
        """Where all headers are, without what is found there through links."""
        return self.unpacked.headers.parent

    def _check(self, cache: Path) -> None:
        if shutil.which("make") is None:
            raise TargetError(
                "modules cannot be built: make is missing on this machine", _install("make")
            )
        if self.unpacked.headers.is_relative_to(cache):
            check_name(self.unpacked.headers)
        else:  # of a user's board
            check_name(
                self.unpacked.headers,
                "rename the folder in which the kernel was built. Then remove the board, and add "
                "it again",
            )


def recipe(machine: Machine, unpacked: Unpacked) -> Recipe | None:
    """How to build this version's modules for a kernel; None if there are no sources, or the kernel
    does not load modules.

    Raises TargetError if there is no compiler.
    """
    sources = module_sources()
    return Recipe(machine, unpacked, sources) if sources and unpacked.modular else None


def compiler_of(headers: Path) -> str:
    """The name of the compiler that a kernel was built with, e.g. ``gcc-12``: as Debian's packages
    tell it, or the configuration. Raises TargetError for another one than gcc."""
    debian = _search(headers / ".kernelvariables", r"^CC\s*[:?]?=.*\b(gcc-\d+)\s*$")
    if debian:
        return debian
    text = _search(headers / ".config", r'^CONFIG_CC_VERSION_TEXT="([^"]*)"')
    if "clang" in text:
        raise TargetError(
            f"rtgauge's modules cannot be built in {headers}: the kernel was built with clang",
            "build the kernel with gcc, or remove the board and add it without --build",
        )
    found = re.search(r"\b(gcc-\d+)\b", text.split(" ")[0])
    return found[1] if found else "gcc"


def _search(path: Path, pattern: str) -> str:
    """Match of a pattern's group in a file; empty without a match, or without the file."""
    try:
        match = re.search(pattern, path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        return ""
    return match.group(1) if match else ""


def compiler_version(compiler: str, machine: Machine) -> str:
    """The line in which a compiler names its version. Raises TargetError if it does not work."""
    package = machine.compiler_package.format(version=compiler.rpartition("gcc-")[2])
    if shutil.which(compiler) is None:
        raise TargetError(
            f"modules for {machine.architecture} cannot be built: {compiler} is missing on "
            "this machine",
            _install(package),
        )
    done = _run([compiler, "-v"], QUERY_TIMEOUT_S)
    if done.returncode:
        raise TargetError(
            f"the compiler {compiler} does not work: {_complaint(done.stdout)}", _install(package)
        )
    return done.stdout.strip().splitlines()[-1]


def _install(package: str) -> str:
    return f"install it: sudo apt-get install {package}"


def _run(words: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "KBUILD", "KCFLAGS", "DEB_"))
        and name not in ("ARCH", "CROSS_COMPILE", "CC", "LD", "W", "V", "C", "M", "O")
    }
    variables |= {"LC_ALL": "C", "KBUILD_BUILD_TIMESTAMP": "@0", "SOURCE_DATE_EPOCH": "0"}
    try:
        return subprocess.run(
            words,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, 127, f"there is no {words[0]}\n")
    except subprocess.TimeoutExpired:
        raise TargetError(
            f"'{words[0]}' did not end within {timeout:.0f} s",
            "repeat it on a less busy machine",
        ) from None


def _complaint(text: str) -> str:
    """The line of a build that says most: its first error, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if re.search(r"\b(?:error|undefined)[:!]|\bERROR\b", line):
            return line
    return lines[-1] if lines else "no reason was given"
