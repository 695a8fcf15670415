# SPDX-License-Identifier: Apache-2.0
"""A user's board: its kernel, build folder, overlay and modules, read and checked at each use.

Whatever is wrong with them is a TargetError of one line with its remedy. The kernel is kept in the
cache in the form in which it boots, under the digest of the file that it came from.
"""

from __future__ import annotations

import errno
import hashlib
import lzma
import os
import re
import stat
import struct
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from rtgauge.errors import TargetError
from rtgauge.lab import configured, initramfs
from rtgauge.lab.boards import BOARDS, MACHINES, Board, Machine, Own
from rtgauge.lab.cache import (
    Say,
    explained,
    locked,
    new_folder,
    read_record,
    text_digest,
    write_record,
)
from rtgauge.lab.cache import digest_of as file_digest
from rtgauge.lab.initramfs import Entry
from rtgauge.lab.kernels import (
    KERNEL_RECORD,
    KERNEL_VERSION,
    Unpacked,
    known_kernel,
    unpack_busybox,
    x86_payload,
)
from rtgauge.lab.packages import Apt
from rtgauge.lab.registry import own_names

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = [
    "OWN_KERNELS",
    "Added",
    "Given",
    "busybox",
    "machine_of",
    "read",
    "recognised",
    "unpacked",
]

#: Where the kernels of users' boards are, in the cache.
OWN_KERNELS: Final = "own"
BUSYBOX: Final = "busybox"
KERNEL_MAX: Final = 1024 * 1024 * 1024
# Twice as much has to fit into the memory of the board.
ADDED_MAX: Final = 128 * 1024 * 1024
_X86_64: Final = 62  # e_machine of ELF
_AARCH64: Final = 183
# 64 bytes are the maximum of include/generated/utsrelease.h
_BANNER: Final = re.compile(rb"Linux version (\S{1,64}) \(")
_UTS_RELEASE: Final = re.compile(r'#define UTS_RELEASE "([^"]+)"')
_VERMAGIC: Final = re.compile(rb"(?:^|\0)vermagic=([^ \0]+)")
# What the lab puts into the archive, and cannot do without.
_OURS: Final = ("init", "agent", "modules", "bin/busybox", "dev/console")
# Where a board has files that are not in its archive, and folders that it always has.
_MOUNTED: Final = ("proc", "sys", "dev", "run")
_FOLDERS: Final = ("", "tmp", "var", "var/tmp", "root", "mnt", "etc")


@dataclass(frozen=True)
class Added:
    """What a board has in addition to that of the lab: files of an overlay, and the kernel's own
    modules, both as in its archive. ``facts`` describe them; ``digest`` is that of all."""

    files: Mapping[str, Entry] = field(default_factory=dict)
    modules: Mapping[str, bytes] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True)
class Given:
    """Parts of a user's board, read. ``lacks``: needs that its kernel does not meet."""

    board: Board
    machine: Machine
    release: str
    kernel_file: Path
    kernel: bytes
    """In the form in which it boots."""

    source_digest: str
    config: Mapping[str, str] | None
    """None if the configuration is unknown."""

    headers: Path | None
    build_digest: str
    lacks: tuple[configured.Need, ...]
    added: Added

    @property
    def realtime(self) -> bool:
        """Whether the kernel is a PREEMPT_RT build, as far as its configuration is known."""
        return (self.config or {}).get("PREEMPT_RT") == "y"


class _Trouble:
    """The errors of one board."""

    def __init__(self, name: str) -> None:
        self._name = name

    def error(self, message: str, remedy: str) -> TargetError:
        return TargetError(f"board {self._name}: {message}", remedy)

    def added_anew(self, how: str) -> str:
        """The remedy to add the board in another way: one that the lab has is removed before."""
        if self._name in own_names():
            return f"run 'rtgauge lab remove {self._name}', then add the board again {how}"
        return f"add the board {how}"

    def unread(self, what: str, path: Path, error: OSError) -> TargetError:
        return self.error(
            f"{what} cannot be read: {error.filename or path}: {error.strerror}",
            f"build it or correct its permissions, or {self.added_anew('with another one')}",
        )


def recognised(data: bytes) -> tuple[Machine, bytes, bool] | None:
    """The machine that a kernel is for, the kernel in the form in which it boots soonest, and
    whether QEMU can start that. None for a file that is not a kernel.

    A bzImage becomes the ELF image in it if that has a PVH entry (``kernels.bootable``), and a
    compressed Image a plain one.
    """
    if data[:2] == b"\x1f\x8b":  # Image.gz
        data = _plain(data)
    if data[0x202:0x206] == b"HdrS":
        # Documentation/arch/x86/boot.rst: xloadflags, XLF_KERNEL_64
        if len(data) < 0x250 or not data[0x236] & 1:
            return None
        image = x86_payload(data)
        if image is not None and image[:4] == b"\x7fELF" and b"Xen\0" in image:
            return MACHINES["x86_64"], image, True
        return MACHINES["x86_64"], data, True
    if data[0x38:0x3C] == b"ARM\x64":  # Documentation/arch/arm64/booting.rst
        return MACHINES["arm64"], data, True
    if data[:6] == b"\x7fELF\x02\x01" and _BANNER.search(data):
        (machine,) = struct.unpack_from("<H", data, 18)
        if machine == _X86_64:
            return MACHINES["x86_64"], data, b"Xen\0" in data
        if machine == _AARCH64:
            return MACHINES["arm64"], data, False
    return None


def _plain(data: bytes) -> bytes:
    """Decompresses the formats of kernels and modules. Returns anything else unchanged."""
    try:
        if data[:2] == b"\x1f\x8b":
            return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS).decompress(data, KERNEL_MAX)
        if data[:6] == b"\xfd7zXZ\0":
            return lzma.LZMADecompressor().decompress(data, KERNEL_MAX)
        if data[:4] == b"\x28\xb5\x2f\xfd":
            return zstd.ZstdDecompressor().decompress(data, KERNEL_MAX)
    except (zlib.error, lzma.LZMAError, zstd.ZstdError):
        pass
    return data


def _release(data: bytes) -> str:
    """The release that ``uname -r`` prints, empty if the kernel does not contain it."""
    found = _BANNER.search(data)
    if found is None and data[0x202:0x206] == b"HdrS":
        # the boot sector's pointer to a text that begins with it
        (place,) = struct.unpack_from("<H", data, 0x20E)
        text = data[place + 0x200 : place + 0x300].split(b"\0")[0]
        found = re.match(rb"(\S{1,64})(?!\S)", text)
    return found[1].decode("ascii", "replace") if found else ""


def machine_of(name: str, own: Own) -> Machine:
    """The machine that the kernel of a new board is for. Raises TargetError."""
    trouble = _Trouble(name)
    return _recognised(own.kernel, _kernel_file(own.kernel, trouble), trouble)[0]


def _recognised(path: Path, data: bytes, trouble: _Trouble) -> tuple[Machine, bytes, bool]:
    found = recognised(data)
    if found is None:
        raise trouble.error(
            f"{path} is not a kernel for x86_64 or arm64",
            "name a bzImage (arch/x86/boot/bzImage), a vmlinux of x86_64, or an Image "
            "(arch/arm64/boot/Image)",
        )
    return found


def read(board: Board) -> Given:
    """Read and check the files of a user's board.

    Raises TargetError for each that is missing, is not what it should be, or does not fit the
    others.
    """
    assert board.own is not None
    own, trouble = board.own, _Trouble(board.name)
    data = _kernel_file(own.kernel, trouble)
    machine, kernel, starts = _recognised(own.kernel, data, trouble)
    if machine != board.machine:
        raise trouble.error(
            f"{own.kernel} is a kernel for {machine.architecture}, and the machine is "
            f"{board.machine.architecture}",
            trouble.added_anew(f"with --machine {machine.architecture}"),
        )
    if not starts:
        raise trouble.error(
            f"QEMU cannot start the kernel {own.kernel}",
            "use the bzImage, or build it with CONFIG_PVH=y"
            if machine.architecture == "x86_64"
            else "use arch/arm64/boot/Image",
        )
    release = _release(kernel)
    if not release:
        raise trouble.error(
            f"{own.kernel} does not contain its release",
            "use a kernel that is not stripped or packed",
        )
    build = own.build
    if build:
        text: str | None = _build_config(build, release, trouble)
    else:
        text = configured.embedded(kernel) or _config_next_to(own.kernel, release)
    config = configured.parse(text) if text is not None else None
    lacks = () if config is None else tuple(configured.lacking(config, machine, release))
    must = [need for need in lacks if need.must]
    if must:
        raise trouble.error(
            f"its kernel lacks {must[0].words}",
            f"set CONFIG_{must[0].symbol}=y and rebuild it. rtgauge lab config "
            f"{machine.architecture} prints all options that a kernel needs",
        )
    modular = config is not None and config.get("MODULES") == "y"
    # modules.py builds no modules for a kernel that clang built
    headers = build if modular and (config or {}).get("CC_IS_CLANG") != "y" else None
    if own.modules and config is not None and not modular:
        raise trouble.error(
            "its kernel does not load modules, but the board has --module",
            "set CONFIG_MODULES=y and rebuild the kernel, or "
            + trouble.added_anew("without --module"),
        )
    return Given(
        board,
        machine,
        release,
        own.kernel,
        kernel,
        _digest(data),
        config,
        headers,
        _build_digest(headers, trouble) if headers else "",
        lacks,
        _added(board, release, text, trouble),
    )


def _kernel_file(path: Path, trouble: _Trouble) -> bytes:
    data = _content(path, KERNEL_MAX, "its kernel", trouble)
    if len(data) > KERNEL_MAX:
        raise trouble.error(
            f"{path} is larger than {KERNEL_MAX >> 20} MiB",
            "use the bzImage or Image, or strip the vmlinux: strip --strip-debug",
        )
    return data


def _content(path: Path, most: int, what: str, trouble: _Trouble) -> bytes:
    """The first ``most`` + 1 bytes of a file."""
    try:
        if not _readable(path):
            raise trouble.error(f"{path} is not a regular file", "name a regular file")
        return _begin(path, most + 1)
    except OSError as error:
        raise trouble.unread(what, path, error) from None


def _readable(path: Path) -> bool:
    """Whether a file has an end, and opening it does not block. Raises OSError."""
    mode = path.stat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _begin(path: Path, most: int) -> bytes:
    """The first bytes of a file. Raises OSError, also for FIFOs and devices."""
    if not _readable(path):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with path.open("rb") as file:
        return file.read(most)


def _text(path: Path) -> str:
    return _begin(path, configured.CONFIG_MAX).decode("utf-8", "replace")


def _config_next_to(kernel: Path, release: str) -> str | None:
    """The configuration that distributions put next to a kernel, in /boot."""
    try:
        return _text(kernel.parent / f"config-{release}")
    except OSError:
        return None


# --- The build folder ---


def _build_config(build: Path, release: str, trouble: _Trouble) -> str:
    """The configuration of the build folder, checked to be that of this kernel."""
    path = build / "include" / "generated" / "utsrelease.h"
    try:
        built = _UTS_RELEASE.search(_text(path))
        config = _text(build / ".config")
    except OSError as error:
        raise trouble.error(
            f"{build} is not a folder in which a kernel was built: {error.filename}: "
            f"{error.strerror}",
            "name the folder in which 'make' was called, or the folder of its option O=",
        ) from None
    if built is None or built[1] != release:
        raise trouble.error(
            f"the kernel is Linux {release}, but {build} was built for "
            f"{built[1] if built else 'an unknown release'}",
            "build kernel and modules together: make bzImage modules (or Image modules)",
        )
    return config


def _build_digest(build: Path, trouble: _Trouble) -> str:
    """Dependencies of modules: the symbols, the configuration and the release."""
    names = ("Module.symvers", ".config", "include/generated/utsrelease.h")
    try:
        for name in names:
            _begin(build / name, 0)
        return text_digest(*(file_digest(build / name) for name in names))
    except OSError as error:
        raise trouble.error(
            f"rtgauge's modules cannot be built in {build}: {error.filename}: {error.strerror}",
            "build the kernel's modules: make modules. Without --build, the board has no modules",
        ) from None


# --- The overlay and the modules ---


def _added(board: Board, release: str, config: str | None, trouble: _Trouble) -> Added:
    own = board.own
    assert own is not None
    files = _overlay(own.overlay, trouble) if own.overlay else {}
    modules = [(path.name, _module(path, release, trouble)) for path in own.modules]
    named = initramfs.numbered(modules)
    parts = [
        f"{name}\0{entry.mode}\0{_digest(entry.content)}" for name, entry in sorted(files.items())
    ]
    of_modules = [f"{name}\0{_digest(content)}" for name, content in named.items()]
    facts = {
        "configuration digest": _digest(config.encode()) if config is not None else "unknown",
        "overlay digest": text_digest(*parts) if own.overlay else "none",
        **{f"module {name}": _digest(content) for name, content in named.items()},
    }
    return Added(files, named, facts, text_digest(*parts, *of_modules, *facts.values()))


def _module(path: Path, release: str, trouble: _Trouble) -> bytes:
    content = _content(path, ADDED_MAX, "its module", trouble)
    if len(content) > ADDED_MAX:
        raise trouble.error(
            f"the module {path} is larger than {ADDED_MAX >> 20} MiB",
            "strip it: strip --strip-debug",
        )
    content = _plain(content)
    magic = _VERMAGIC.search(content) if content[:4] == b"\x7fELF" else None
    if magic is None:
        raise trouble.error(f"{path} is not a kernel module", "name a .ko file with --module")
    built = magic[1].decode("ascii", "replace")
    if built != release:
        raise trouble.error(
            f"the module {path} was built for Linux {built}, and the kernel is {release}",
            "build it for this kernel: make modules",
        )
    return content


def _overlay(root: Path, trouble: _Trouble) -> dict[str, Entry]:
    """The files of an overlay by their paths in the board. Links are copied, not followed."""
    found: dict[str, Entry] = {}
    links: list[tuple[str, str]] = []
    size = 0
    if not root.is_dir():
        raise trouble.error(
            f"its overlay {root} is not a folder",
            "name a folder. The board gets its files below the root",
        )

    def failed(error: OSError) -> None:
        raise trouble.unread("its overlay", root, error) from None

    for above, folders, names in os.walk(root, onerror=failed):
        folders.sort()
        for name in sorted((*folders, *names)):
            path = Path(above, name)
            whole = path.relative_to(root).as_posix()
            place = initramfs.place(whole)
            try:
                entry = _entry(path, whole, root, ADDED_MAX - size, trouble)
            except OSError as error:
                raise trouble.unread("its overlay", path, error) from None
            if place in initramfs.PROGRAMS:
                continue  # a folder that the board has, or a link to it
            if stat.S_ISLNK(entry.mode):
                target = os.fsdecode(entry.content)
                links.append((whole, target))
                entry = Entry(entry.mode, os.fsencode(_moved(whole, place, target)))
            if found.setdefault(place, entry) != entry:
                raise trouble.error(
                    f"the overlay {root} has two different files for /{place} of the board",
                    f"remove {path}, or the other one in {', '.join(initramfs.PROGRAMS)}",
                )
            size += len(entry.content)
            if size > ADDED_MAX:
                raise trouble.error(
                    f"the overlay {root} has more than {ADDED_MAX >> 20} MiB",
                    "copy only what the measurement needs into a folder of its own",
                )
            if place in _OURS or place.startswith("modules/"):
                raise trouble.error(
                    f"the overlay replaces /{place}, which the lab needs", f"remove {path}"
                )
    for whole, target in links:
        _check_link(root, whole, target, found, trouble)
    return found


def _moved(whole: str, place: str, target: str) -> str:
    """The target of a link of the overlay from where the board has it."""
    if whole == place or target.startswith("/"):
        return target
    return os.path.normpath(f"/{os.path.dirname(whole)}/{target}")


def _entry(path: Path, place: str, root: Path, most: int, trouble: _Trouble) -> Entry:
    status = path.lstat()
    try:
        place.encode()
    except UnicodeEncodeError:
        raise trouble.error(
            f"the overlay {root} has a file whose name is not valid UTF-8", "rename it"
        ) from None
    if stat.S_ISLNK(status.st_mode):
        return Entry(stat.S_IFLNK | 0o777, os.fsencode(path.readlink()))
    if stat.S_ISDIR(status.st_mode):
        return initramfs.folder(stat.S_IMODE(status.st_mode))
    if stat.S_ISREG(status.st_mode):
        content = _content(path, most, "its overlay", trouble)
        return initramfs.file(content, stat.S_IMODE(status.st_mode))
    raise trouble.error(
        f"{path} in the overlay is not a file, a folder or a link", "remove it from the overlay"
    )


def _check_link(
    root: Path, link: str, target: str, found: Mapping[str, Entry], trouble: _Trouble
) -> None:
    """TargetError for a link that leads out of the board: above its root, or to a file that this
    machine has and the board does not."""
    depth = 0 if target.startswith("/") else link.count("/")
    for part in PurePosixPath(target).parts:
        depth += -1 if part == ".." else part != "/"
        if depth < 0:
            break
    whole = initramfs.place(os.path.normpath(target).lstrip("/"))
    here = (
        whole in found
        or whole in _FOLDERS
        or whole.split("/")[0] in (*_MOUNTED, *initramfs.PROGRAMS)
    )
    outside = target.startswith("/") and not here and os.path.lexists(target)
    if depth < 0 or outside:
        raise trouble.error(
            f"the link {root / link} in the overlay leads outside it, to {target}",
            "make it a relative link within the overlay, or copy the file",
        )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- Into the cache ---


def unpacked(cache: Path, given: Given, say: Say) -> Unpacked:
    """The kernel of a user's board in the cache, put there if it is missing. Raises TargetError."""
    folder = cache / OWN_KERNELS / given.source_digest[:32]
    program, version = busybox(cache, given.machine, say)
    digest = _digest(given.kernel)
    if not _kept(folder, digest):
        with locked(cache, ("kernels", OWN_KERNELS), say), explained(cache):
            if not _kept(folder, digest):  # else another process put it there, and may boot it
                with new_folder(folder) as making:
                    (making / "kernel").write_bytes(given.kernel)
                    record = {"version": KERNEL_VERSION, "release": given.release, "sha256": digest}
                    write_record(making / KERNEL_RECORD, record)
    return Unpacked(
        folder,
        given.release,
        folder / "kernel",
        digest,
        given.headers or folder,
        program,
        (),
        {"busybox-static": version},
        given.build_digest,
        modular=given.headers is not None,
    )


def _kept(folder: Path, digest: str) -> bool:
    """Whether the cache has a kernel in its form to boot."""
    kernel = folder / "kernel"
    record = read_record(folder / KERNEL_RECORD, KERNEL_VERSION)
    return record is not None and kernel.is_file() and file_digest(kernel) == digest


def busybox(cache: Path, machine: Machine, say: Say) -> tuple[Path, str]:
    """The busybox of users' boards, which stays the same: the first that the cache had, else that
    of Debian's package, and its version. Raises TargetError."""
    folder = cache / BUSYBOX / machine.debian
    there = _known_busybox(folder)
    if there is not None:
        return there
    with locked(cache, ("kernels", BUSYBOX), say):
        there = _known_busybox(folder)
        if there is not None:
            return there
        known = [known_kernel(one) for one in BOARDS.values() if one.machine == machine]
        with explained(cache), new_folder(folder) as making:
            path = making / "busybox"
            here = next((one for one in known if one is not None), None)
            if here is not None:
                path.write_bytes(here.busybox.read_bytes())
                version = here.versions.get("busybox-static", "unknown")
            else:
                apt = Apt(cache / "apt", say)
                apt.update()
                package = apt.need("busybox-static", machine.debian)
                fetched = apt.fetch(package, cache / "packages")
                unpack_busybox(fetched, making).rename(path)
                fetched.unlink()
                version = package.version
            write_record(making / KERNEL_RECORD, {"version": KERNEL_VERSION, "busybox": version})
    return folder / "busybox", version


def _known_busybox(folder: Path) -> tuple[Path, str] | None:
    record = read_record(folder / KERNEL_RECORD, KERNEL_VERSION)
    path = folder / "busybox"
    return (path, str(record.get("busybox"))) if record is not None and path.is_file() else None
