# SPDX-License-Identifier: Apache-2.0
"""Lines from outside over QEMU's device ivshmem-doorbell: its server, of the protocol that QEMU's
``docs/specs/ivshmem-spec`` defines.

There are two peers, the board and the log host that drives its lines. Each has an event descriptor
that the other one rings, and both have the same memory (``kmod/doorbell.h`` has its layout). They
exist before QEMU starts, which asks for them once. Log hosts come and go at a socket, one at a
time.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import selectors
import socket
import struct
import threading
from pathlib import Path
from typing import Final

from rtgauge.lab.lines import Chip

__all__ = ["DOORBELL", "DOORBELL_MODULE", "Doorbell"]

# The board's lines as Linux has them there: the module's own chip.
DOORBELL: Final = Chip("ivshmem-doorbell", "rtgauge-doorbell", lines=8)
DOORBELL_MODULE: Final = "/modules/rtgauge_doorbell.ko"

MEMORY_BYTES: Final = 4096
_HEAD: Final = struct.Struct("<IIII")  # magic, version, lines, peer
_MAGIC: Final = 0x44475452
_VERSION: Final = 1
_BOARD_AT: Final = 16

PROTOCOL: Final = 0
BOARD: Final = 0
OUTSIDE: Final = 1
_MEMORY: Final = -1
_MESSAGE: Final = struct.Struct("<q")
SEND_S: Final = 5.0


class Doorbell:
    """The server of one machine, a thread of its own until ``close``. The log host connects at
    ``path``. Its end is the end of that connection, and so is QEMU's."""

    def __init__(self, path: Path) -> None:
        self._cleaner = contextlib.ExitStack()
        try:
            self._open(path)
        except BaseException:
            self._cleaner.close()
            raise

    def _open(self, path: Path) -> None:
        memory = self._own(os.memfd_create("rtgauge-doorbell", os.MFD_CLOEXEC))
        os.ftruncate(memory, MEMORY_BYTES)
        self._memory = self._cleaner.enter_context(mmap.mmap(memory, MEMORY_BYTES))
        _HEAD.pack_into(self._memory, 0, _MAGIC, _VERSION, DOORBELL.lines, OUTSIDE)
        bells = [self._own(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)) for _ in range(2)]
        # to each peer: the protocol, its number, the memory, the other's bell, its own
        self._messages = {
            own: (
                (PROTOCOL, None), (own, None), (_MEMORY, memory),
                (other, bells[other]), (own, bells[own]),
            )
            for own, other in ((BOARD, OUTSIDE), (OUTSIDE, BOARD))
        }  # fmt: skip
        ours, self._theirs = socket.socketpair()
        self._qemu = self._cleaner.enter_context(ours)
        self._cleaner.enter_context(self._theirs)
        self._listener = self._cleaner.enter_context(socket.socket(socket.AF_UNIX))
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.setblocking(False)
        wake, self._wake = os.pipe()
        self._woken, _ = self._own(wake), self._own(self._wake)
        self._tell(self._qemu, BOARD)
        self._thread = threading.Thread(target=self._serve, name="doorbell", daemon=True)
        self._thread.start()

    def _own(self, descriptor: int) -> int:
        self._cleaner.callback(os.close, descriptor)
        return descriptor

    @property
    def descriptor(self) -> int:
        """QEMU's end, which it inherits."""
        return self._theirs.fileno()

    def arguments(self) -> list[str]:
        """QEMU's arguments for the device."""
        return [
            *("-chardev", f"socket,fd={self.descriptor},id=doorbell"),
            *("-device", "ivshmem-doorbell,vectors=1,chardev=doorbell"),
        ]

    def started(self) -> None:
        """QEMU has its end: from now on it alone, so that its going shows."""
        self._theirs.close()

    @property
    def heard(self) -> bool:
        """Whether the board hears its doorbell."""
        (word,) = struct.unpack_from("<I", self._memory, _BOARD_AT)
        return bool(word == 1)

    def close(self) -> None:
        """End it. More than once does nothing."""
        if self._thread.is_alive():
            os.write(self._wake, b".")
            self._thread.join()
        self._cleaner.close()

    # --- the server's thread ---

    def _tell(self, peer: socket.socket, number: int) -> None:
        for value, descriptor in self._messages[number]:
            given = [] if descriptor is None else [descriptor]
            socket.send_fds(peer, [_MESSAGE.pack(value)], given)

    def _serve(self) -> None:
        guest: socket.socket | None = None
        with selectors.DefaultSelector() as selector:
            for one in (self._woken, self._qemu, self._listener):
                selector.register(one, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if guest in ready and guest is not None and _gone(guest):
                    selector.unregister(guest)
                    guest.close()
                    guest = None
                if self._woken in ready or (self._qemu in ready and _gone(self._qemu)):
                    break
                if self._listener in ready:
                    come = self._accepted()
                    if come is None:
                        continue
                    if guest is not None or not self._greeted(come):
                        come.close()  # before any word: somebody else is there
                        continue
                    guest = come
                    selector.register(guest, selectors.EVENT_READ)
        if guest is not None:
            guest.close()
        self._listener.close()

    def _accepted(self) -> socket.socket | None:
        try:
            come, _ = self._listener.accept()
        except OSError:
            return None
        come.settimeout(SEND_S)
        return come

    def _greeted(self, come: socket.socket) -> bool:
        try:
            self._tell(come, OUTSIDE)
        except OSError:
            return False
        return True


def _gone(peer: socket.socket) -> bool:
    """Whether the other end is; what it says is nothing that a server is to hear."""
    try:
        return not peer.recv(4096, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
