# SPDX-License-Identifier: Apache-2.0
"""An agent that is linked against a board's own C library.

Semaphores, mutexes and threads are the library's as much as the kernel's: the static agents measure
those of musl, whatever the board has. Such an agent is compiled with the board's SDK, with a cross
compiler and a copy of the board's root (sysroot), or with zig, which knows the interfaces of glibc
and musl by version.
"""

from __future__ import annotations

import fnmatch
import hashlib
import importlib.util
import os
import shlex
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import BinaryIO, Final

import rtgauge
from rtgauge.architectures import Architecture
from rtgauge.errors import RtgaugeError, TargetError, UsageError

__all__ = [
    "Elf",
    "Toolchain",
    "elf_of",
    "link",
    "of_sdk",
    "of_sysroot",
    "of_zig",
    "sources_digest",
]

#: As agent/meson.build compiles the agent of this machine (a test compares them).
COMPILE: Final = (
    "-std=gnu11", "-O2", "-pthread", "-D_GNU_SOURCE", "-D_TIME_BITS=64", "-D_FILE_OFFSET_BITS=64",
    "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-fPIE", "-fstack-protector-strong",
    "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2",
)  # fmt: skip
LINK: Final = ("-pie", "-pthread", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack", "-s")
COMPILE_S: Final = 300.0
QUERY_S: Final = 60.0
# Names of machines: a file's number for one (ELF, e_machine) → the beginnings of its names in
# triplets and in the output of `uname -m`.
MACHINES: Final[Mapping[int, tuple[str, ...]]] = {
    3: ("i386", "i486", "i586", "i686", "x86-"),
    8: ("mips",),
    20: ("powerpc", "ppc"),
    21: ("powerpc64", "ppc64"),
    40: ("arm", "thumb"),
    62: ("x86_64",),
    183: ("aarch64", "arm64"),
    243: ("riscv",),
}
ON_COBALT: Final = frozenset({(62, 64), (183, 64)})
"""Machines whose agents have tasks of the Cobalt core: some sources are compiled for it a second
time."""
_LIBRARIES: Final = ("libc.so.6", "libc.so.0", "libc.so.1", "libc.so", "ld-musl-*.so.1")
_FOLDERS: Final = ("lib", "lib64", "usr/lib", "usr/lib64", "lib/*-linux-*", "usr/lib/*-linux-*")
_LOADER: Final = 3  # a segment's type: the name of the program that loads the libraries
# The architectures whose glibc zig links against, by its name of the processor, and whether they
# have 32 bits.
_OF_GLIBC: Final[Mapping[str, tuple[str, bool]]] = {
    "x86-64": ("x86_64-linux-", False),
    "i686": ("x86-linux-", True),
    "armv7hf": ("arm-linux-", True),
    "arm64": ("aarch64-linux-", False),
    "riscv64": ("riscv64-linux-", False),
    "mips": ("mips-linux-", True),
}
# The oldest glibc with 64-bit times on 32-bit machines.
_TIMES_64: Final = "2.34"
_OF_SDK: Final = ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "PATH")


@dataclass(frozen=True)
class Elf:
    """What the head of a program's or a library's file says. ``loader``: the program that the
    kernel starts to load it; empty for a static one."""

    machine: int
    bits: int
    big_endian: bool
    loader: str

    def runs_on(self, machine: str) -> bool:
        """Whether it fits a machine, by the output of ``uname -m`` or by a compiler's triplet."""
        names = MACHINES.get(self.machine, ())
        longest = max(
            (name for known in MACHINES.values() for name in known if machine.startswith(name)),
            key=len,
            default="",
        )
        return longest in names

    def __str__(self) -> str:
        names = MACHINES.get(self.machine)
        return names[0] if names else f"machine {self.machine}"


def elf_of(path: Path) -> Elf | None:
    """The head of an ELF file; None for other files. Raises OSError if it cannot be read."""
    if path.exists() and not path.is_file():  # a pipe or a device could be read for ever
        return None
    with path.open("rb") as file:
        try:
            return _elf_in(file)
        except (OSError, OverflowError, ValueError):  # offsets that no file has
            return None


def _elf_in(file: BinaryIO) -> Elf | None:
    head = file.read(64)
    if len(head) < 52 or head[:4] != b"\x7fELF" or head[4] not in (1, 2):
        return None
    wide, order = head[4] == 2, ">" if head[5] == 2 else "<"
    try:
        (machine,) = struct.unpack_from(order + "H", head, 18)
        start, size, count = struct.unpack_from(
            *((order + "32xQ14xHH", head) if wide else (order + "28xI10xHH", head))
        )
    except struct.error:
        return None
    loader = ""
    for number in range(count):
        file.seek(start + number * size)
        entry = file.read(size)
        if len(entry) < (40 if wide else 20):
            break
        kind, offset, length = (
            struct.unpack_from(order + "I4xQ16xQ", entry)
            if wide
            else struct.unpack_from(order + "II8xI", entry)
        )
        if kind == _LOADER and length <= os.pathconf("/", "PC_PATH_MAX"):
            file.seek(offset)
            loader = file.read(length).rstrip(b"\0").decode(errors="replace")
    return Elf(machine, 64 if wide else 32, order == ">", loader)


@dataclass(frozen=True)
class Toolchain:
    """A compiler with the options that make it one for the board. ``options``: further ones of the
    user, which reports name with the compiler."""

    compiler: tuple[str, ...]
    compile: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    remedy: str = "name another compiler with --cc"
    """What helps against a compiler that does not work."""

    @property
    def name(self) -> str:
        """What people call it."""
        return "zig" if "ziglang" in self.compiler else self.compiler[0]

    def ask(self, *words: str) -> str:
        """Answer of the compiler to an option. Raises TargetError if it cannot be started."""
        try:
            return self.run(words, QUERY_S).stdout.strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TargetError(
                f"the compiler {self.name} cannot be started: {error}",
                self.remedy,
            ) from None

    def run(self, words: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
        """Run the compiler with these words. Raises OSError, subprocess.TimeoutExpired."""
        return subprocess.run(
            [*self.compiler, *words],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )


def of_sdk(script: Path) -> Toolchain:
    """The compiler that an SDK's environment script names (Yocto's ``environment-setup-…``,
    Buildroot's ``environment-setup``): it is read by a shell. Raises UsageError, TargetError."""
    if not script.is_file():
        raise UsageError(f"--sdk: there is no file {script}", "name the SDK's environment script")
    bare = {name: value for name, value in os.environ.items() if name not in _OF_SDK[:-1]}
    bare.pop("LD_LIBRARY_PATH", None)  # Yocto's scripts refuse to work with it
    try:
        done = subprocess.run(
            ["sh", "-c", '. "$0" >&2 && exec env -0', str(script.absolute())],
            env=bare,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=QUERY_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TargetError(
            f"{script} did not end within {QUERY_S:.0f} s",
            "name the environment script of the SDK. It must not ask for input",
        ) from None
    pairs = (line.partition("=") for line in done.stdout.decode(errors="replace").split("\0"))
    found = {name: value for name, _, value in pairs if name in _OF_SDK}
    if done.returncode or not found.get("CC", "").strip():
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise TargetError(
            f"{script} does not set a compiler (CC)" + (f": {last[0]}" if last else ""),
            "name the environment script of the SDK, which sets CC",
        )
    try:
        words = {name: tuple(shlex.split(found.get(name, ""))) for name in _OF_SDK[:-1]}
    except ValueError as error:
        raise TargetError(
            f"{script} sets compiler options that cannot be split into words: {error}",
            f"check the quotes in its {', '.join(_OF_SDK[:-1])}",
        ) from None
    return Toolchain(
        words["CC"],
        (*words["CPPFLAGS"], *words["CFLAGS"]),
        words["LDFLAGS"],
        {"PATH": found.get("PATH", "")},
        remedy="name the environment script of an SDK for Linux",
    )


def of_sysroot(folder: Path, compiler: Sequence[str]) -> Toolchain:
    """A compiler that takes headers and libraries from a copy of the board's root. Raises
    UsageError if there is no C library in it, or one of another architecture."""
    libraries = [
        path
        for below in _FOLDERS
        for where in sorted(folder.glob(below))
        if where.is_dir()
        for path in sorted(where.iterdir())  # links of the board may lead nowhere here
        if any(fnmatch.fnmatch(path.name, name) for name in _LIBRARIES)
    ]
    found = next((elf for path in libraries if (elf := _elf_below(folder, path))), None)
    if found is None:
        raise UsageError(
            f"--sysroot: there is no C library below {folder}",
            "name a copy of the board's root with its headers, such as an SDK's sysroot",
        )
    chain = Toolchain((*compiler, f"--sysroot={folder.absolute()}"))
    target = chain.ask("-dumpmachine")
    if not found.runs_on(target):
        raise UsageError(
            f"the C library below {folder} is for {found}, but {chain.name} compiles for "
            f"{target or 'an unknown machine'}",
            f"name a compiler for {found} with --cc",
        )
    return chain


def _elf_below(root: Path, path: Path) -> Elf | None:
    """The head of a library. Its absolute links start at the sysroot."""
    for _ in range(8):
        if not path.is_symlink():
            break
        leads = path.readlink()
        path = root / leads.relative_to("/") if leads.is_absolute() else path.parent / leads
    try:
        return elf_of(path)
    except OSError:
        return None


def of_zig(wanted: Architecture, library: str) -> Toolchain:
    """zig, for the interface of a C library: ``musl``, ``glibc``, or of an older one such as
    ``glibc:2.28``. Raises UsageError, TargetError if zig is not installed."""
    name, _, version = library.partition(":")
    if name not in ("glibc", "musl") or (version and name == "musl"):
        raise UsageError(
            f"--libc: zig cannot link against '{library}'",
            "use glibc, glibc:2.28 (an older version) or musl. Others need --sysroot or --sdk",
        )
    if importlib.util.find_spec("ziglang") is None:
        raise TargetError(
            "--libc needs the compiler zig, which is not installed with rtgauge",
            "use --sysroot or --sdk with the board's own compiler, or install it: "
            "python -m pip install ziglang",
        )
    system, _, kind = wanted.target.rpartition("musl")
    abi = f"musl{kind}"
    weak: tuple[str, ...] = ()
    if name == "glibc":
        if wanted.name not in _OF_GLIBC:
            raise UsageError(
                f"--libc: zig cannot link against glibc for {wanted.name}",
                "use --sysroot or --sdk with the board's own compiler",
            )
        system, narrow = _OF_GLIBC[wanted.name]
        version = version or (_TIMES_64 if narrow else "")
        abi = f"gnu{kind}" + (f".{version}" if version else "")
        # the checked calls with 64-bit times are newer than the others
        weak = ("-U_FORTIFY_SOURCE",) if narrow else ()
    words = (sys.executable, "-m", "ziglang", "cc", "-target", system + abi)
    return Toolchain(
        (*words, f"-mcpu={wanted.cpu}"),
        weak,
        ("-O2", "-dynamic"),  # zig compiles its runtime library when it links
        remedy="install it again: python -m pip install --force-reinstall ziglang",
    )


def _sources() -> tuple[Path, Path]:
    """The folders of the agent's sources and of the module's interface."""
    checkout = Path(__file__).resolve().parents[3]
    package = Path(str(resources.files("rtgauge")))
    for agent, interface in (
        (checkout / "agent", checkout / "kmod"),
        (package / "sources" / "agent", package / "kmod"),
    ):
        if (agent / "main.c").is_file():
            return agent, interface
    raise TargetError(
        "this installation has no sources of the agent",
        "install rtgauge from its wheel, or run it from a clone with ./rtgauge",
    )


def sources_digest() -> str:
    """A digest of the sources and options of an agent. Raises TargetError without sources."""
    total = hashlib.sha256(repr((rtgauge.__version__, COMPILE, LINK)).encode())
    for folder in _sources():
        for path in sorted(folder.rglob("*.[ch]")):
            if path.parent.name != "tests" and not path.name.endswith(".mod.c"):
                name = path.relative_to(folder).as_posix()
                total.update(f"{name}\0{path.stat().st_size}\0".encode())
                total.update(path.read_bytes())
    return total.hexdigest()


def link(chain: Toolchain, output: Path) -> Elf:
    """Compile the agent and link it into ``output``. Returns what it became.

    Raises TargetError with the compiler's first complaint, RtgaugeError if the file cannot be
    written.
    """
    agent, interface = _sources()
    sources = [path for path in sorted(agent.rglob("*.c")) if path.parent.name != "tests"]
    # of C, in which an octal number begins any byte
    named = "".join(f"\\{byte:03o}" for byte in shlex.join(chain.options).encode())
    version = (
        f'-DRTGAUGE_VERSION="{rtgauge.__version__}"',
        f'-DRTGAUGE_CFLAGS="{" " if named else ""}{named}"',
    )
    with tempfile.TemporaryDirectory(prefix="rtgauge-link-") as folder:

        def compiled(source: Path, *more: str) -> str:
            name = "-".join((*source.relative_to(agent).parts, f"{len(more)}.o"))
            made = f"{folder}/{name}"
            flags = (*COMPILE, *version, f"-I{agent}", f"-I{interface}", *more)
            given = (*chain.compile, *chain.options)
            _run(chain, [*flags, *given, "-c", str(source), "-o", made])
            return made

        with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
            objects = [*pool.map(compiled, sources)]
            one = elf_of(Path(objects[0]))
            if one is not None and (one.machine, one.bits) in ON_COBALT:
                lines = (agent / "core" / "on_cobalt.txt").read_text().splitlines()
                names = [line for line in lines if not line.startswith("#")]
                more = ("-DON_COBALT", "-include", "core/on_cobalt.h")
                objects += pool.map(lambda name: compiled(agent / name, *more), names)
        made = Path(folder) / "agent"
        _run(chain, [*chain.compile, *chain.options, *objects, *LINK, *chain.link, "-o", str(made)])
        found = elf_of(made)
        if found is None:
            raise TargetError(f"{chain.name} did not produce a program for Linux", chain.remedy)
        try:
            output.unlink(missing_ok=True)
            output.write_bytes(made.read_bytes())
            output.chmod(0o755)
        except OSError as error:
            raise RtgaugeError(
                f"{output} cannot be written: {error.strerror}", "name another file with -o"
            ) from None
    return found


def _run(chain: Toolchain, words: Sequence[str]) -> None:
    try:
        done = chain.run(words, COMPILE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(
            f"the compiler {chain.name} failed: {error}",
            f"{chain.remedy}, or run the same command on an idle machine",
        ) from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if "error" in line.lower()]
        first = lines[0] if lines else done.stderr.strip()[-200:] or f"code {done.returncode}"
        raise TargetError(
            f"the agent could not be compiled with {chain.name}: {first}",
            "check that the compiler, its sysroot and the headers of the C library fit together",
        )
