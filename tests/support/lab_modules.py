# SPDX-License-Identifier: Apache-2.0
"""Further modules of a Debian kernel for a board of the lab, in the order in which they load."""

from __future__ import annotations

import io
import lzma
import re
import subprocess
import tarfile
from pathlib import PurePosixPath
from typing import Final

from rtgauge.lab.boards import Board
from rtgauge.lab.cache import cache_folder, locked, new_file, remove
from rtgauge.lab.images import image
from rtgauge.lab.kernels import known_kernel
from rtgauge.lab.packages import Apt

__all__ = ["modules_of"]

_DEPENDS: Final = re.compile(rb"\0depends=([^\0]*)\0")
_ENDS: Final = (".ko", ".ko.xz")


def modules_of(board: Board, names: tuple[str, ...]) -> dict[str, bytes]:
    """The named modules with those that they need. Kept with the kernel, and removed with it."""
    image(board, say=print)
    kernel = known_kernel(board)
    assert kernel is not None
    final = kernel.folder / f"{'-'.join(names)}.tar"
    if not final.is_file():
        with locked(cache_folder(), ("kernels", "boards"), print):
            apt = Apt(cache_folder() / "apt", print)
            apt.update()
            name = next(one for one in kernel.versions if one.startswith("linux-image-"))
            package = apt.fetch(apt.need(name, board.machine.debian), cache_folder() / "packages")
            with new_file(final) as making:
                _take(str(package), names, str(making))
            remove(package)
    with tarfile.open(final) as archive:
        found = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in found.items() if file is not None}


def _take(package: str, names: tuple[str, ...], final: str) -> None:
    words = ["dpkg-deb", "--fsys-tarfile", package]
    there: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as archive,
    ):
        for member in archive:
            if member.isreg() and member.name.endswith(_ENDS):
                file = archive.extractfile(member)
                assert file is not None
                name = PurePosixPath(member.name).name.partition(".ko")[0].replace("-", "_")
                there[name] = member, file.read()
    order: dict[str, tuple[tarfile.TarInfo, bytes]] = {}

    def add(name: str) -> None:
        if name in order:
            return
        member, content = there[name]
        if member.name.endswith(".xz"):
            content = lzma.decompress(content)
        match = _DEPENDS.search(content)
        assert match is not None, name
        for needed in filter(None, match[1].decode().split(",")):
            add(needed.replace("-", "_"))
        order[name] = member, content

    for name in names:
        add(name)
    with tarfile.open(final, "w") as archive:
        for name, (member, content) in order.items():
            member.name, member.size = f"{name}.ko", len(content)
            archive.addfile(member, io.BytesIO(content))
