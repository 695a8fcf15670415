# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels unpacked into the cache: what boots, and what modules are built with.

Only the kernel, its configuration and the modules that a machine needs are taken from the image
package, and everything from the others. Headers name each other by their installed paths, which are
corrected.
"""

from __future__ import annotations

import lzma
import shutil
import struct
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from rtgauge.errors import TargetError
from rtgauge.lab.boards import Board
from rtgauge.lab.cache import (
    Say,
    cache_folder,
    digest_of,
    explained,
    new_file,
    new_folder,
    read_record,
    remove,
    write_record,
)
from rtgauge.lab.packages import Apt, Kernel, Package, newest_kernel

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = [
    "KERNEL_RECORD",
    "KERNEL_VERSION",
    "Unpacked",
    "bootable",
    "kernel_for",
    "known_kernel",
    "members",
    "unpack_busybox",
    "x86_payload",
]

KERNEL_RECORD: Final = "kernel.json"
KERNEL_VERSION: Final = 1
UNPACK_TIMEOUT_S: Final = 1800.0
UNPACKED_MAX: Final = 512 * 1024 * 1024
_MODULE_ENDS: Final = (".ko", ".ko.xz")


@dataclass(frozen=True)
class Unpacked:
    """A kernel in the cache."""

    folder: Path
    release: str
    kernel: Path
    sha256: str
    """Digest of the kernel."""

    headers: Path
    """Folder against which a module is built (``make -C``)."""

    busybox: Path
    modules: tuple[Path, ...]
    versions: dict[str, str]
    """Name and version of the packages that all this came from."""

    build: str = ""
    """Digest of what modules for a user's kernel depend on in the folder where it was built."""

    modular: bool = True
    """Whether rtgauge's modules are built for it. Without them, ``headers`` may be missing."""


def known_kernel(board: Board) -> Unpacked | None:
    """The kernel that the cache holds for a board; None if there is none, or not the whole."""
    folder = cache_folder()
    chosen = read_record(folder / "boards" / f"{board.name}.json", KERNEL_VERSION)
    if chosen is None or not isinstance(chosen.get("kernel"), str):
        return None
    return _read(folder / "kernels" / PurePosixPath(chosen["kernel"]).name)


def _read(folder: Path) -> Unpacked | None:
    record = read_record(folder / KERNEL_RECORD, KERNEL_VERSION)
    if record is None:
        return None
    try:
        unpacked = Unpacked(
            folder,
            str(record["release"]),
            folder / record["kernel"],
            str(record["sha256"]),
            folder / record["headers"],
            folder / "bin" / "busybox",
            tuple(folder / name for name in record["modules"]),
            {str(name): str(version) for name, version in record["versions"].items()},
        )
    except (KeyError, TypeError, AttributeError):
        return None
    files = (unpacked.kernel, unpacked.busybox, *unpacked.modules)
    whole = unpacked.headers.is_dir() and all(path.is_file() for path in files)
    return unpacked if whole else None


def kernel_for(board: Board, newest: bool, say: Say) -> Unpacked:
    """The kernel for a board: from the cache, else fetched. The caller holds the lock.

    With ``newest`` the lists of packages are updated if they are a day old.
    Raises TargetError.
    """
    known = known_kernel(board)
    if known is not None and not newest:
        return known
    folder = cache_folder()
    apt = Apt(folder / "apt", say)
    if not apt.update(refresh=newest) and known is not None:
        return known
    while True:
        try:
            unpacked = _fetch(board, apt, folder, say)
            break
        except TargetError:
            # the lists may name what has been replaced since
            if not apt.refresh_after_failure():
                raise
    write_record(
        folder / "boards" / f"{board.name}.json",
        {"version": KERNEL_VERSION, "kernel": unpacked.folder.name},
    )
    return unpacked


def _fetch(board: Board, apt: Apt, folder: Path, say: Say) -> Unpacked:
    kernel = newest_kernel(apt, board)
    final = folder / "kernels" / f"{kernel.release}_{kernel.image.version}"
    there = _read(final)
    if there is not None:
        return there
    busybox = apt.need("busybox-static", board.machine.debian)
    packages = folder / "packages"
    files = {package: apt.fetch(package, packages) for package in (*kernel.packages, busybox)}
    say(f"unpacking Linux {kernel.release}")
    with explained(folder), new_folder(final) as making:
        _unpack(board, kernel, busybox, files, making)
    for path in files.values():
        remove(path)
    made = _read(final)
    if made is None:
        raise TargetError(
            f"the packages of Linux {kernel.release} lack the expected files",
            f"remove {final} and start again. If that fails too, report it",
        )
    return made


def _unpack(
    board: Board, kernel: Kernel, busybox: Package, files: dict[Package, Path], root: Path
) -> None:
    found = unpack_busybox(files[busybox], root)
    if found != root / "bin" / "busybox":
        (root / "bin").mkdir(exist_ok=True)
        found.rename(root / "bin" / "busybox")
    wanted = {
        name: board.machine.kernel_modules.index(name) for name in board.machine.kernel_modules
    }

    def of_image(name: str) -> bool:
        stem = PurePosixPath(name).name.partition(".ko")[0].replace("-", "_")
        return name.startswith("boot/") or (name.endswith(_MODULE_ENDS) and stem in wanted)

    members(files[kernel.image], root, of_image)
    for package in (kernel.headers, kernel.common, kernel.kbuild):
        members(files[package], root, lambda name: not name.startswith("usr/share/"))
    headers = root / "usr" / "src" / f"linux-headers-{kernel.release}"
    _relocate(headers)
    boot = bootable(root / "boot" / f"vmlinuz-{kernel.release}", root / "boot" / "kernel")
    modules = sorted(
        (_plain_module(path) for end in _MODULE_ENDS for path in root.glob(f"**/*{end}")),
        key=lambda path: wanted.get(path.name.removesuffix(".ko").replace("-", "_"), -1),
    )
    write_record(
        root / KERNEL_RECORD,
        {
            "version": KERNEL_VERSION,
            "release": kernel.release,
            "kernel": str(boot.relative_to(root)),
            "sha256": digest_of(boot),
            "headers": str(headers.relative_to(root)),
            "modules": [str(path.relative_to(root)) for path in modules],
            "versions": {package.name: package.version for package in files},
            "digests": {package.name: package.sha256 for package in files},
        },
    )


def unpack_busybox(package: Path, root: Path) -> Path:
    """The busybox of its package, below ``root``."""
    names = ("bin/busybox", "usr/bin/busybox")
    members(package, root, lambda name: name in names)
    return next((root / name for name in names if (root / name).is_file()), root / names[0])


def members(package: Path, root: Path, wanted: Callable[[str], bool]) -> None:
    """Unpack those files of a package whose names are wanted."""
    process = subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if wanted(name):
                    _extract(archive, member, name, root)
        said = process.stderr.read().decode(errors="replace").strip()
        status = process.wait(UNPACK_TIMEOUT_S)
    except tarfile.TarError as error:
        said, status = str(error), 1
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
    if status:
        last = said.splitlines()[-1] if said else f"dpkg-deb ended with code {status}"
        raise TargetError(
            f"the package {package.name} could not be unpacked: {last}",
            f"start again. If that fails too, try it by hand: dpkg-deb --contents {package}",
        )


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, name: str, root: Path) -> None:
    """One file or relative link, never outside ``root``; what is neither is left out."""
    path = root / name
    if ".." in PurePosixPath(name).parts or name.startswith("/"):
        raise TargetError(f"a package contains a file with an unsafe name: {name!r}", "report it")
    content = archive.extractfile(member) if member.isreg() else None
    if content is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            shutil.copyfileobj(content, file)
        path.chmod(member.mode & 0o755)
    elif member.issym() and _stays(member.linkname, path.parent, root):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(member.linkname)


def _stays(link: str, folder: Path, root: Path) -> bool:
    """Whether a link in this folder leads below ``root``, where all links do."""
    parts = PurePosixPath(link).parts
    above = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    depth = len(folder.resolve().relative_to(root.resolve()).parts)
    return not link.startswith("/") and ".." not in parts[above:] and above <= depth


def _relocate(headers: Path) -> None:
    """Let the headers find what they would find below /usr, by paths relative to themselves."""
    makefile = headers / "Makefile"
    text = makefile.read_text(encoding="utf-8")
    here = "$(dir $(lastword $(MAKEFILE_LIST)))../"
    makefile.write_text(text.replace("/usr/src/", here), encoding="utf-8")
    # with it, the build would add BTF, with a program (pahole) that need not be there
    (headers / "vmlinux").unlink(missing_ok=True)


def _plain_module(path: Path) -> Path:
    if path.suffix != ".xz":
        return path
    plain = path.with_suffix("")
    with lzma.open(path) as packed:
        plain.write_bytes(packed.read(UNPACKED_MAX))
    path.unlink()
    return plain


def bootable(packed: Path, final: Path) -> Path:
    """The kernel in the form that starts soonest in an emulator.

    On x86 that is the ELF image from within the compressed one, which QEMU starts by its PVH entry
    (Documentation/arch/x86/boot.rst, "payload_offset"): to decompress it takes an emulated
    processor longer than all else of the boot. Anything that is not understood stays as it is.
    """
    data = packed.read_bytes()
    image = None
    if data[0x202:0x206] == b"HdrS":
        image = x86_payload(data)
    if image is None or image[:4] != b"\x7fELF" or b"Xen\0" not in image:
        packed.rename(final)
        return final
    with new_file(final) as making:
        making.write_bytes(image)
    packed.unlink()
    return final


def x86_payload(data: bytes) -> bytes | None:
    """The ELF image in a bzImage; None if it is packed in a way that is not known here."""
    sectors = data[0x1F1] or 4
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = (sectors + 1) * 512 + offset
    payload = data[start : start + length]
    if len(payload) != length or length < 8:
        return None
    (size,) = struct.unpack("<I", payload[-4:])
    if size > UNPACKED_MAX:
        return None
    try:
        if payload.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS).decompress(payload, size)
        if payload.startswith(b"\xfd7zXZ\0"):
            return lzma.LZMADecompressor().decompress(payload, size)
        if payload.startswith(b"\x28\xb5\x2f\xfd"):
            return zstd.ZstdDecompressor().decompress(payload[:-4], size)
    except (zlib.error, lzma.LZMAError, zstd.ZstdError, OSError, ValueError):
        return None
    return None
