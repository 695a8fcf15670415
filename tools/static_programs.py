# SPDX-License-Identifier: Apache-2.0
"""Build the static agents, for the architectures named or for all, into src/rtgauge/agents/.

Each by the agent's own build; for emulated boards the guest program of lab/guest/, too. All with
zig and its C library (musl), so that nothing of this machine is in them. tools/setup.sh calls it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.metadata
import os
import platform
import pwd
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

from rtgauge.architectures import ARCHITECTURES, Architecture, architecture
from rtgauge.lab.programs import guest_name, machine_of, names, sources_digest, stamp_name

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "src" / "rtgauge" / "agents"
BUILDS: Final = ROOT / "build" / "static"
TIMEOUT_S: Final = 1800.0
# In the head of an ELF file.
ELF_64: Final = 2
ELF_LITTLE: Final = 1
LINK: Final = ("-Os", "-s", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables")
# Hardened as the agent's own build is (agent/meson.build).
HARDEN: Final = ("-pie", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack")
# What the agent's own build adds. zig makes its C library once for all that is linked alike: so
# meson's trial of the compiler has these, too, and the guest program is compiled and linked in two
# steps.
ALIKE: Final = ("-static", *HARDEN, "-Wl,--gc-sections", "-fomit-frame-pointer", "-pthread")
COMPILE: Final = (
    "-std=gnu11",
    "-Os",
    "-fPIE",
    "-fstack-protector-strong",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-D_GNU_SOURCE",
)


@functools.cache
def zig() -> tuple[str, ...]:
    """The words that start zig, whose own files have a name that all checkouts of a user share."""
    distribution = importlib.metadata.distribution("ziglang")
    package = Path(str(distribution.locate_file("ziglang")))
    program = str(package / "zig")
    library = shared_library(package, distribution.version)
    return ("env", f"ZIG_LIB_DIR={library}", program) if library else (program,)


def shared_library(package: Path, version: str) -> Path | None:
    """A link in the user's cache folder to the sources that zig comes with. None if the link
    cannot be created.

    zig keeps the C libraries that it has compiled in that folder, but knows them by the names of
    their sources, too: without the link each checkout, with its own .venv, would compile them.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:  # $HOME may be a test's own folder, and the folder of a build keeps this name
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        home = Path.home()
    above = Path(base) if base.startswith("/") else home / ".cache"
    link = above / "rtgauge" / f"zig-{version}"
    there = link.resolve()
    # the checkout that it leads to may be gone by now, or have another version
    if there.is_dir() and (there.parent.parent / f"ziglang-{version}.dist-info").is_dir():
        return link
    new = link.with_name(f"{link.name}.{os.getpid()}")
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        new.symlink_to(package.resolve() / "lib")
        new.replace(link)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        return None
    return link


def compiler(wanted: Architecture) -> list[str]:
    """The words of the C compiler for an architecture."""
    return [*zig(), "cc", "-target", wanted.target, f"-mcpu={wanted.cpu}"]


def run(*words: str | Path) -> None:
    """Run a command that has to succeed."""
    subprocess.run([str(word) for word in words], cwd=ROOT, timeout=TIMEOUT_S, check=True)


def loaded(program: bytes) -> bytes:
    """What of a program's file the kernel takes into memory, and nothing behind it.

    zig's own stripping leaves the table of sections, and of MIPS a tenth that is for debuggers.
    """
    wide, order = program[4] == ELF_64, "<" if program[5] == ELF_LITTLE else ">"
    head = struct.Struct(order + ("16s2HI3QI6H" if wide else "16s2HI3II6H"))
    part = struct.Struct(order + ("2I6Q" if wide else "8I"))
    fields = list(head.unpack_from(program))
    first, size, number = fields[5], fields[9], fields[10]
    end = first + number * size
    for index in range(number):
        found = part.unpack_from(program, first + index * size)
        offset, length = (found[2], found[5]) if wide else (found[1], found[4])
        end = max(end, offset + length)
    fields[6] = fields[12] = fields[13] = 0  # there are no sections
    return head.pack(*fields) + program[head.size : end]


def keep(built: Path, name: str) -> None:
    """Put a program where the package has its programs; one that is in use there stays whole."""
    new = FOLDER / f"{name}.new"
    new.write_bytes(loaded(built.read_bytes()))
    new.chmod(0o755)
    new.rename(FOLDER / name)


def own(wanted: Architecture) -> bool:
    """Whether it is the architecture of this machine."""
    return wanted.processor == platform.machine()


def emulator(wanted: Architecture) -> str | None:
    """QEMU's emulator of a program for an architecture, if it is here."""
    return shutil.which(f"qemu-{wanted.qemu}-static") or shutil.which(f"qemu-{wanted.qemu}")


def configure(wanted: Architecture) -> Path:
    """The folder of the agent's own build; with the emulator for its tests, if that is here."""
    folder = BUILDS / wanted.processor
    described = BUILDS / f"{wanted.processor}.ini"
    qemu = None if own(wanted) else emulator(wanted)
    text = (
        f"[binaries]\nc = {compiler(wanted)!r}\nar = {[zig()[-1], 'ar']!r}\n"
        + (f"exe_wrapper = {qemu!r}\n" if qemu else "")
        + f"[properties]\nneeds_exe_wrapper = {str(not own(wanted)).lower()}\n"
        f"[built-in options]\nc_link_args = {[*LINK, *ALIKE]!r}\n"
        f"[host_machine]\nsystem = 'linux'\nendian = '{'big' if wanted.big_endian else 'little'}'\n"
        f"cpu_family = '{wanted.family}'\ncpu = '{wanted.processor}'\n"
    )
    same = described.exists() and described.read_text(encoding="utf-8") == text
    if not (folder / "build.ninja").exists() or not same:
        BUILDS.mkdir(parents=True, exist_ok=True)
        described.write_text(text, encoding="utf-8")
        options = ["-Dstatic=true", "-Doptimization=s", "-Ddebug=false", "-Dwerror=true"]
        # meson's own --wipe would keep options of before
        shutil.rmtree(folder, ignore_errors=True)
        run("meson", "setup", "--cross-file", described, *options, folder)
    return folder


def agent(wanted: Architecture) -> None:
    """The static agent."""
    folder = configure(wanted)
    run("ninja", "-C", folder, "agent")
    keep(folder / "agent" / wanted.agent, wanted.agent)


def guest(wanted: Architecture) -> None:
    """The guest program: every source of lab/guest/ in one."""
    sources = sorted((ROOT / "lab" / "guest").glob("*.c"))
    built = BUILDS / guest_name(wanted.processor)
    objects = []
    for source in sources:
        objects.append(BUILDS / f"{source.stem}-{wanted.processor}.o")
        run(*compiler(wanted), *COMPILE, "-c", source, "-o", objects[-1])
    run(*compiler(wanted), *objects, *LINK, *ALIKE, "-o", built)
    keep(built, guest_name(wanted.processor))


def main() -> None:
    """Build what is not up to date; the stamp comes last, and tells what it was made from."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "name", nargs="*", default=["all"], help="architectures; 'lab': those of emulated boards"
    )
    given = parser.parse_args()
    wanted: list[Architecture] = []
    for name in given.name:
        if name == "all":
            wanted += ARCHITECTURES.values()
        elif name == "lab":
            wanted += [one for one in ARCHITECTURES.values() if machine_of(one)]
        else:
            wanted.append(architecture(name))
    digest = sources_digest(ROOT)
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    for one in dict.fromkeys(wanted):
        stamp = FOLDER / stamp_name(one.processor)
        there = stamp.exists() and stamp.read_text(encoding="ascii").strip() == digest
        if not there or not all((FOLDER / name).is_file() for name in names(one)):
            stamp.unlink(missing_ok=True)
            agent(one)
            if machine_of(one):
                guest(one)
            stamp.write_text(digest + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
