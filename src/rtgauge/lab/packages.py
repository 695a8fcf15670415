# SPDX-License-Identifier: Apache-2.0
"""Debian's packages without touching the host: an apt with a root of its own, in the cache.

It has its own lists and downloads, and takes from the host only where packages come from, which
keys sign them and how to get through a proxy. Nothing is installed, and no privilege is needed.
apt checks signatures and digests; the digest is checked once more when a package is unpacked.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rtgauge.errors import TargetError
from rtgauge.lab.boards import MACHINES, Board
from rtgauge.lab.cache import Say, digest_of, disk_full, explained, new_file

__all__ = ["SOURCES_VARIABLE", "Apt", "Kernel", "Package", "host_debian", "newest_kernel"]

SOURCES_VARIABLE: Final = "RTGAUGE_LAB_SOURCES"
UPDATE_TIMEOUT_S: Final = 900.0
DOWNLOAD_TIMEOUT_S: Final = 3600.0
QUERY_TIMEOUT_S: Final = 120.0
LISTS_AGE_S: Final = 24 * 3600.0
# Space that has to be free in addition to a package while it is unpacked.
SPARE_BYTES: Final = 64 * 1024 * 1024
_HEADERS: Final = re.compile(r"linux-headers-[a-z0-9.+~-]+-common(?:-rt)?")
_KBUILD: Final = re.compile(r"linux-kbuild-[a-z0-9.+~-]+")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.+-]+")
_VERSION: Final = re.compile(r"[A-Za-z0-9.+~:-]+")


@dataclass(frozen=True)
class Package:
    """One version of a package, as the lists describe it."""

    name: str
    version: str
    architecture: str
    sha256: str
    size: int
    installed_size: int
    depends: tuple[str, ...]

    @property
    def wanted(self) -> str:
        """How apt is asked for exactly this one."""
        suffix = "" if self.architecture == "all" else f":{self.architecture}"
        return f"{self.name}{suffix}={self.version}"


@dataclass(frozen=True)
class Kernel:
    """A kernel and what modules for it are built with."""

    release: str
    """As ``uname -r`` will say."""

    image: Package
    headers: Package
    common: Package
    kbuild: Package

    @property
    def packages(self) -> tuple[Package, ...]:
        """All four."""
        return (self.image, self.headers, self.common, self.kbuild)


def host_debian() -> str:
    """Debian's name of the architecture of this machine. TargetError if it is unsupported."""
    processor = os.uname().machine
    for machine in MACHINES.values():
        if machine.processor == processor:
            return machine.debian
    raise TargetError(
        f"the lab's modules cannot be built on this machine ({processor})",
        "use one of " + ", ".join(machine.processor for machine in MACHINES.values()),
    )


class Apt:
    """The lab's own apt, below ``folder``."""

    def __init__(self, folder: Path, say: Say) -> None:
        self.folder = folder
        self.say = say
        self._lists = folder / "lists-made"
        self._configuration = folder / "apt.conf"
        self._updated = False
        self.trouble = ""
        """Lists that could not be fetched, which apt reports as warnings."""

    def _configure(self) -> None:
        for program in ("apt-get", "apt-cache", "dpkg-deb"):
            if shutil.which(program) is None:
                raise TargetError(
                    f"this system has no {program}: the lab's kernels are Debian's packages",
                    "use the lab on Debian or Ubuntu, or in a container of one of them",
                )
        with explained(self.folder):
            for name in ("state/lists/partial", "cache/archives/partial"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            (self.folder / "status").touch()
            with new_file(self._configuration) as making:
                making.write_text(self._settings(), encoding="utf-8")

    def _settings(self) -> str:
        folder = self.folder
        if '"' in str(folder) or "\n" in str(folder):
            raise TargetError(
                f"apt cannot use a folder with this name: {str(folder)!r}",
                "name another one in the environment variable RTGAUGE_LAB_CACHE",
            )
        architectures = [host_debian(), *(machine.debian for machine in MACHINES.values())]
        lines = [
            f'Dir::State "{folder}/state";',
            f'Dir::State::status "{folder}/status";',
            f'Dir::Cache "{folder}/cache";',
            # images for containers switch these off; without them every question takes seconds
            'Dir::Cache::pkgcache "pkgcache.bin";',
            'Dir::Cache::srcpkgcache "srcpkgcache.bin";',
            f'APT::Architecture "{architectures[0]}";',
            "#clear APT::Architectures;",
            *(f'APT::Architectures:: "{name}";' for name in dict.fromkeys(architectures)),
            'Acquire::Languages "none";',
            'Acquire::Retries "3";',
            'Acquire::http::Timeout "60";',
            'Acquire::https::Timeout "60";',
            # what the host's administrator has run after its own updates
            *(
                f"#clear {name};"
                for name in (
                    "APT::Update::Pre-Invoke",
                    "APT::Update::Post-Invoke",
                    "APT::Update::Post-Invoke-Success",
                    "Acquire::IndexTargets::deb::DEP-11",
                    "Acquire::IndexTargets::deb::DEP-11-icons",
                    "Acquire::IndexTargets::deb::Contents-deb",
                    "Acquire::IndexTargets::deb::CNF",
                )
            ),
        ]
        if os.geteuid() == 0:
            # the user that apt would become cannot read a folder of root's
            lines.append('APT::Sandbox::User "root";')
        given = os.environ.get(SOURCES_VARIABLE)
        if given:
            path = Path(given).absolute()
            if not path.is_file():
                raise TargetError(
                    f"there is no list of package sources at {given}",
                    f"correct the environment variable {SOURCES_VARIABLE}",
                )
            lines += [f'Dir::Etc::sourcelist "{path}";', 'Dir::Etc::sourceparts "-";']
        return "\n".join(lines) + "\n"

    def _run(
        self, words: Sequence[str], timeout: float, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        self._configure()
        command = [words[0], "-c", str(self._configuration), *words[1:]]
        try:
            return subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TargetError(
                f"'{' '.join(words)}' did not end within {timeout:.0f} s",
                "check the connection to the package sources, and start again",
            ) from None

    def update(self, refresh: bool = False) -> bool:
        """Fetch the lists if there are none, or, to ``refresh`` them, those of a day ago.

        False if they were left as they are. Raises TargetError if there are none and none come.
        """
        try:
            age = time.time() - self._lists.stat().st_mtime
        except OSError:
            age = None
        if age is not None and (not refresh or self._updated or 0 <= age < LISTS_AGE_S):
            return False
        self.say("fetching the lists of Debian's packages")
        done = self._run(["apt-get", "-q", "update"], UPDATE_TIMEOUT_S)
        if done.returncode:
            if age is not None:
                return False
            raise self._no_lists(apt_said(done.stderr))
        self.trouble = not_fetched(done.stderr)
        if not self.trouble:
            with explained(self.folder):
                self._lists.touch()
        self._updated = True
        return True

    def _no_lists(self, said: str) -> TargetError:
        return _full(self.folder, said) or TargetError(
            f"the lists of Debian's packages could not be fetched: {said}",
            "check the connection to the package sources, and start again",
        )

    def lacking(self, what: str) -> TargetError:
        """The error where the sources do not have something; where their lists did not come, that
        is the reason."""
        if self.trouble:
            return self._no_lists(self.trouble)
        return TargetError(
            f"this system's package sources have no {what}",
            "add Debian's sources to them, or name a file of sources in the environment "
            f"variable {SOURCES_VARIABLE}",
        )

    def refresh_after_failure(self) -> bool:
        """Fetch the lists however old they are, once: what they name may be gone by now."""
        if self._updated:
            return False
        with explained(self.folder):
            self._lists.unlink(missing_ok=True)
        return self.update()

    def names(self, stem: str) -> list[str]:
        """The names of all packages that begin so."""
        done = self._run(["apt-cache", "pkgnames", stem], QUERY_TIMEOUT_S)
        return sorted(set(done.stdout.split()))

    def find(self, name: str, architecture: str) -> Package | None:
        """The newest version of a package; None if there is none."""
        words = ["apt-cache", "show", "--no-all-versions", f"{name}:{architecture}"]
        return parse_package(self._run(words, QUERY_TIMEOUT_S).stdout, name)

    def need(self, name: str, architecture: str) -> Package:
        """The same, for one that has to be there; TargetError if it is not."""
        found = self.find(name, architecture)
        if found is None:
            raise self.lacking(f"{name} ({architecture})")
        return found

    def fetch(self, package: Package, folder: Path) -> Path:
        """The package as a file in ``folder``, with the digest that the lists give.

        One that is there already is used. Raises TargetError if it does not come.
        """
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.glob(f"{package.name}_*.deb"):
                if path.stat().st_size == package.size and digest_of(path) == package.sha256:
                    return path
                path.unlink()
            needed = package.size + package.installed_size + SPARE_BYTES
            free = shutil.disk_usage(folder).free
        if free < needed:
            raise TargetError(
                f"too little space for the lab's cache: {package.name} needs {needed >> 20} MiB, "
                f"but {free >> 20} MiB are free ({folder})",
                "make room, or name another folder in the environment variable RTGAUGE_LAB_CACHE",
            )
        self.say(f"fetching {package.name} {package.version}, {package.size / 1e6:.1f} MB")
        done = self._run(["apt-get", "-q", "download", package.wanted], DOWNLOAD_TIMEOUT_S, folder)
        with explained(folder):
            for path in folder.glob(f"{package.name}_*.deb"):
                if path.stat().st_size == package.size and digest_of(path) == package.sha256:
                    return path
                path.unlink()
        said = apt_said(done.stderr)
        raise _full(folder, said) or TargetError(
            f"the package {package.name} {package.version} could not be fetched: {said}",
            "check the connection to the package sources, and start again",
        )


def apt_said(text: str) -> str:
    """apt's message in one line: its first error, else its first warning."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for mark in ("E: ", "W: ", ""):
        for line in lines:
            if line.startswith(mark):
                return line.removeprefix(mark)
    return "apt gave no reason"


def not_fetched(text: str) -> str:
    """Failed downloads that apt did not report as errors, in one line. Empty without any."""
    lines = [line.strip() for line in text.splitlines()]
    return next((line.removeprefix("W: ") for line in lines if "Failed to fetch" in line), "")


def _full(folder: Path, said: str) -> TargetError | None:
    """The error of a full disk, if that is what apt complained about."""
    numbers = (errno.ENOSPC, errno.EDQUOT)
    if not any(os.strerror(number) in said for number in numbers):
        return None
    return disk_full(folder)


def parse_package(text: str, name: str) -> Package | None:
    """The first package of that name in the notation of Debian's lists; None if there is none."""
    for paragraph in re.split(r"\n\s*\n", text):
        fields = _fields(paragraph)
        if fields.get("Package") != name:
            continue
        try:
            package = Package(
                name,
                fields["Version"],
                fields["Architecture"],
                fields["SHA256"],
                int(fields["Size"]),
                int(fields.get("Installed-Size", "0")) * 1024,
                tuple(re.split(r"[,|]\s*", fields.get("Depends", ""))),
            )
        except (KeyError, ValueError):
            continue
        # these become words of commands and names of files
        if _NAME.fullmatch(name) and _VERSION.fullmatch(package.version):
            return package
    return None


def _fields(paragraph: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    last = ""
    for line in paragraph.splitlines():
        if line[:1] in (" ", "\t"):
            if last:
                found[last] += "\n" + line.strip()
            continue
        last, _, value = line.partition(":")
        found[last] = value.strip()
    return found


def point_version(name: str, series: str, flavour: str) -> tuple[int, ...] | None:
    """The point version in the name of an image package, to be compared; None for another kernel.

    ``linux-image-6.1.0-56-rt-amd64`` and ``linux-image-6.12.117+deb12-rt-amd64`` are what Debian
    calls them; variants (cloud, dbg, unsigned) and those that only point to the newest are not
    meant.
    """
    pattern = rf"linux-image-({re.escape(series)}\.\d+(?:[-+.~](?:deb|bpo)?\d*)*)-{flavour}"
    match = re.fullmatch(pattern, name)
    return tuple(int(number) for number in re.findall(r"\d+", match.group(1))) if match else None


def newest_kernel(apt: Apt, board: Board) -> Kernel:
    """The newest point version of a board's series of which everything is there.

    Raises TargetError if there is none.
    """
    machine = board.machine
    versions = {
        name: version
        for name in apt.names(f"linux-image-{board.series}.")
        if (version := point_version(name, board.series, board.flavour))
    }
    for name in sorted(versions, key=lambda name: versions[name], reverse=True):
        kernel = _complete(apt, name, machine.debian)
        if kernel is not None:
            return kernel
    raise apt.lacking(
        f"complete Linux {board.series} for {board.flavour} (image, headers and kbuild)"
    )


def _complete(apt: Apt, name: str, debian: str) -> Kernel | None:
    release = name.removeprefix("linux-image-")
    image = apt.find(name, debian) or apt.find(f"{name}-unsigned", debian)
    headers = apt.find(f"linux-headers-{release}", debian)
    if image is None or headers is None:
        return None
    # for all architectures, which apt files under the host's; and programs that run on the host
    common = _needed(apt.find, headers.depends, _HEADERS, host_debian())
    kbuild = _needed(apt.find, headers.depends, _KBUILD, host_debian())
    if common is None or kbuild is None:
        return None
    return Kernel(release, image, headers, common, kbuild)


def _needed(
    find: Callable[[str, str], Package | None],
    depends: Iterable[str],
    pattern: re.Pattern[str],
    architecture: str,
) -> Package | None:
    for entry in depends:
        match = pattern.match(entry)
        if match and match.group() == entry.split(" ")[0]:
            return find(match.group(), architecture)
    return None
