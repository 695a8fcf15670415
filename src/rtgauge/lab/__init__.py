# SPDX-License-Identifier: Apache-2.0
"""The lab: emulated boards that run Debian's own kernels, or kernels that users built.

From a board's name to what QEMU boots:

    boards.py      the recipes: machine, kernel series, architecture
    registry.py    boards by their names, with those that users added
    packages.py    the newest of Debian's packages, through an apt of the lab's own, checked
    kernels.py     those packages unpacked into the cache
    configured.py  what a kernel's configuration has to have for the lab
    own.py         a user's kernel, build folder, overlay and modules, read and checked
    programs.py    the static agent and the guest program
    modules.py     kmod/ built against the unpacked headers
    initramfs.py   all of that in one archive, always the same for the same content
    images.py      the steps in order, and what is kept of them
    recorder.py    QEMU's plugin that records a replay
    names.py       the names of a guest's kernel
    cache.py       the folder where everything is kept
    prune.py       removes from it what is no longer used
"""

from __future__ import annotations

from rtgauge.lab.boards import BOARDS, Board, Machine
from rtgauge.lab.images import Image, image, stored_image
from rtgauge.lab.registry import board, boards

__all__ = ["BOARDS", "Board", "Image", "Machine", "board", "boards", "image", "stored_image"]
