# SPDX-License-Identifier: Apache-2.0
"""Debian's C libraries for emulated boards, and agents that are linked against them.

The agent of a board is normally static, and its semaphores, mutexes and threads are those of musl.
With ``libc=glibc`` or ``libc=musl`` the board has a dynamic agent instead, and the library and
loader of Debian's packages. The cache keeps both, the agent under a digest of what it was made
from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rtgauge.errors import TargetError
from rtgauge.lab import initramfs
from rtgauge.lab.boards import Machine
from rtgauge.lab.cache import (
    Say,
    digest_of,
    explained,
    locked,
    new_folder,
    read_record,
    text_digest,
    used,
    write_record,
)
from rtgauge.lab.initramfs import Entry
from rtgauge.lab.kernels import members
from rtgauge.lab.linked import Toolchain, elf_of, link, sources_digest
from rtgauge.lab.modules import compiler_version
from rtgauge.lab.packages import Apt

__all__ = [
    "AGENTS",
    "APT",
    "LIBRARIES",
    "LIBRARY_RECORD",
    "LIBRARY_VERSION",
    "ROOTS",
    "Linked",
    "linked",
]

#: The C libraries that a board can have.
LIBRARIES: Final = ("glibc", "musl")
#: Where the roots with a library are, in the cache, and the agents that are linked against them.
ROOTS: Final = "libraries"
AGENTS: Final = "agents"
#: The lock of everything that uses apt: that of the kernels.
APT: Final = "kernels"
LIBRARY_RECORD: Final = "library.json"
LIBRARY_VERSION: Final = 1
# The packages of each: the library itself, its headers, those of the kernel, and what glibc loads
# when a thread ends early.
_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "glibc": ("libc6", "libc6-dev", "linux-libc-dev", "libgcc-s1"),
        "musl": ("musl", "musl-dev", "linux-libc-dev"),
    }
)
# The files that programs load, below the folder of libraries.
_LOADED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"glibc": ("libc.so.6", "libgcc_s.so.1"), "musl": ("libc.so",)}
)
# musl has no __getauxval, which the functions for atomic operations of libgcc call.
_OF_PROCESSOR: Final = MappingProxyType({"aarch64": ("-mno-outline-atomics",)})


@dataclass(frozen=True)
class Linked:
    """A dynamic agent, and what it loads, as in the archive of a board. ``facts`` name the packages
    and the compiler."""

    agent: Path
    files: Mapping[str, Entry] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Root:
    folder: Path
    versions: Mapping[str, str]


def linked(cache: Path, machine: Machine, library: str, compiler: str, say: Say) -> Linked:
    """The agent for a machine, linked against Debian's ``library`` with the named compiler.

    Fetched and made first if need be. Raises TargetError.
    """
    root = _known(cache, machine, library)
    if root is None:
        with locked(cache, (APT, ROOTS), say):
            root = _known(cache, machine, library) or _fetch(cache, machine, library, say)
    version = compiler_version(compiler, machine)
    digest = text_digest(sources_digest(), library, version, *sorted(root.versions.values()))
    folder = cache / AGENTS / f"{machine.architecture}-{library}-{digest[:32]}"
    agent = folder / "agent"
    if _agent(folder) is None:
        with locked(cache, (AGENTS,), say):
            if _agent(folder) is None:
                _link(folder, machine, library, compiler, root, say)
    used(folder / LIBRARY_RECORD, root.folder / LIBRARY_RECORD)
    return Linked(
        agent,
        _files(root.folder, machine, library, agent),
        {
            "libc": library,
            "agent compiler": version,
            **{f"package {name}": version for name, version in root.versions.items()},
        },
    )


def _agent(folder: Path) -> Path | None:
    """The agent there, whole and as it was linked."""
    record = read_record(folder / LIBRARY_RECORD, LIBRARY_VERSION)
    try:
        whole = record is not None and digest_of(folder / "agent") == record.get("sha256")
    except OSError:
        return None
    return folder / "agent" if whole else None


def _known(cache: Path, machine: Machine, library: str) -> _Root | None:
    """The root with a library, if the cache holds it."""
    folder = cache / ROOTS / f"{library}-{machine.debian}"
    record = read_record(folder / LIBRARY_RECORD, LIBRARY_VERSION)
    versions = record.get("versions") if record is not None else None
    if not isinstance(versions, dict):
        return None
    where = folder / "lib" / _triplet(machine, library)
    if not all((where / name).is_file() for name in _LOADED[library]):
        return None
    return _Root(folder, {str(name): str(one) for name, one in versions.items()})


def _triplet(machine: Machine, library: str) -> str:
    gnu = machine.triplet.rstrip("-")
    return gnu if library == "glibc" else gnu.removesuffix("gnu") + "musl"


def _wanted(name: str) -> bool:
    return name.startswith(("lib", "usr/include/", "usr/lib/")) and "/gconv/" not in name


def _fetch(cache: Path, machine: Machine, library: str, say: Say) -> _Root:
    apt = Apt(cache / "apt", say)
    apt.update()
    while True:
        try:
            packages = [apt.need(name, machine.debian) for name in _PACKAGES[library]]
            files = [apt.fetch(package, cache / "packages") for package in packages]
            break
        except TargetError:
            # the lists may name what has been replaced since
            if not apt.refresh_after_failure():
                raise
    final = cache / ROOTS / f"{library}-{machine.debian}"
    say(f"unpacking {library} {packages[0].version}")
    versions = {package.name: package.version for package in packages}
    with explained(cache), new_folder(final) as making:
        for path in files:
            members(path, making, _wanted)
        loader = making / "lib64" / "ld-linux-x86-64.so.2"
        if library == "glibc" and machine.processor == "x86_64" and not loader.exists():
            # the package's link is an absolute one, which would lead out of the root
            loader.parent.mkdir(exist_ok=True)
            loader.symlink_to(f"../lib/{_triplet(machine, library)}/{loader.name}")
        write_record(making / LIBRARY_RECORD, {"version": LIBRARY_VERSION, "versions": versions})
    for path in files:
        path.unlink(missing_ok=True)
    known = _known(cache, machine, library)
    if known is None:
        raise TargetError(
            f"the packages of {library} {packages[0].version} lack the expected files",
            f"remove {final} and start again. If that fails too, report it",
        )
    return known


def _link(
    folder: Path, machine: Machine, library: str, compiler: str, root: _Root, say: Say
) -> None:
    say(f"linking the agent against {library} (once, takes a minute)")
    with explained(folder.parent.parent), new_folder(folder) as making:
        link(_toolchain(root.folder, machine, library, compiler), making / "agent")
        write_record(
            making / LIBRARY_RECORD,
            {"version": LIBRARY_VERSION, "sha256": digest_of(making / "agent")},
        )


def _toolchain(root: Path, machine: Machine, library: str, compiler: str) -> Toolchain:
    remedy = f"install the compiler {compiler} again"
    if library == "glibc":
        return Toolchain((compiler, f"--sysroot={root}"), remedy=remedy)
    # gcc knows Debian's folders of glibc: those of musl are named one by one
    triplet = _triplet(machine, library)
    below = root / "usr" / "lib" / triplet
    gcc = Toolchain((compiler,), remedy=remedy).ask("-print-file-name=include")
    includes = (
        f"{root}/usr/include/{triplet}",
        f"{root}/usr/include",
        f"{root}/usr/include/{machine.triplet.rstrip('-')}",
        gcc,
    )
    return Toolchain(
        (compiler,),
        (
            "-nostdinc",
            *(word for folder in includes for word in ("-isystem", folder)),
            *_OF_PROCESSOR.get(machine.processor, ()),
        ),
        (
            "-nostdlib",
            f"-Wl,-dynamic-linker,/lib/ld-musl-{machine.processor}.so.1",
            f"-L{below}",
            *(str(below / name) for name in ("Scrt1.o", "crti.o")),
            *("-lc", "-lgcc"),
            str(below / "crtn.o"),
        ),
        remedy=remedy,
    )


def _files(root: Path, machine: Machine, library: str, agent: Path) -> dict[str, Entry]:
    """What the agent loads: the library where its loader looks for it, and the loader by the name
    that the agent has for it."""
    elf = elf_of(agent)
    triplet = _triplet(machine, library)
    folder = root / "lib" / triplet
    found = {
        f"lib/{triplet}/{name}": initramfs.file((folder / name).read_bytes(), 0o755)
        for name in _LOADED[library]
    }
    loader = elf.loader.lstrip("/") if elf is not None else ""
    if library == "musl":
        # the loader is the library
        return {loader: initramfs.link(f"{triplet}/libc.so"), **found}
    real = folder / Path(loader).name
    return {loader: initramfs.file(real.read_bytes(), 0o755), **found}
