# SPDX-License-Identifier: Apache-2.0
"""A sink for network traffic on the host: loads of a board send to it, so that their traffic leaves
the board through its network device (docs/reference/loads.md, net).

It listens only on the address under which the target knows this host, and only during a step. It
takes connections from the target alone, if the target's address is known.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Collection
from typing import Final

from rtgauge.catalogue import Catalogue
from rtgauge.errors import TargetError
from rtgauge.plan import PlannedStep
from rtgauge.target import Target
from rtgauge.target.base import Reaching

__all__ = ["HOST", "Sink", "with_sink"]

HOST: Final = "host"
"""The value of a load's option that asks for the sink of the host."""
NOTATION: Final = "SINK"
"""The notation of such an option in the catalogue."""

POLL_S: Final = 0.2
CONNECTIONS: Final = 64
BYTES: Final = 1 << 20


class Sink:
    """Takes TCP connections and discards what comes, until it is closed."""

    def __init__(self, address: str, senders: Collection[str] = ()) -> None:
        """``senders``: the addresses whose connections it takes; all if empty. Raises OSError if
        the address is not one of this machine."""
        self._senders = senders
        self._listening = socket.create_server((address, 0))
        address, port = self._listening.getsockname()
        self.peer = f"{address}/{port}"
        """``ADDRESS/PORT``."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="sink", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close all connections."""
        self._ends.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()

    def _serve(self) -> None:
        buffer = bytearray(BYTES)
        while not self._ends.is_set():
            for key, _ in self._selector.select(POLL_S):
                if not isinstance(key.fileobj, socket.socket):
                    continue
                with contextlib.suppress(OSError):
                    if key.fileobj is self._listening:
                        self._accept()
                    elif not _received(key.fileobj, buffer):
                        self._selector.unregister(key.fileobj)
                        key.fileobj.close()

    def _accept(self) -> None:
        connection, (sender, _) = self._listening.accept()
        stranger = bool(self._senders) and sender not in self._senders
        if stranger or len(self._selector.get_map()) > CONNECTIONS:
            connection.close()
        else:
            self._selector.register(connection, selectors.EVENT_READ)


def _received(connection: socket.socket, buffer: bytearray) -> int:
    try:
        return connection.recv_into(buffer)
    except OSError:
        return 0


def with_sink(
    stack: contextlib.ExitStack, step: PlannedStep, catalogue: Catalogue, target: Target
) -> PlannedStep:
    """The step with the address of a sink in place of ``host``, which ends with ``stack``.

    Raises TargetError if the target cannot reach this host.
    """
    options = {
        f":{option.name}={HOST}"
        for load in catalogue.loads.values()
        for option in load.options
        if option.values == (NOTATION,)
    }
    parts = [f"{part}:" for part in step.load.split(",")]
    asked = [one for one in options if any(f"{one}:" in part for part in parts)]
    if not asked:
        return step
    if not isinstance(target, Reaching):
        raise TargetError(
            f"{target.name} cannot reach this host over a network",
            f"omit '{asked[0][1:]}'",
        )
    address, senders = target.host_address(), target.own_addresses()
    try:
        sink = stack.enter_context(contextlib.closing(Sink(address, senders)))
    except OSError as error:
        raise TargetError(
            f"{target.name} sees this host as {address}, but rtgauge cannot listen there: "
            f"{error.strerror}",
            "start a server that discards what it receives, and pass peer=ADDRESS/PORT",
        ) from None
    for one in asked:
        changed = one.removesuffix(HOST) + sink.peer
        parts = [part.replace(f"{one}:", f"{changed}:") for part in parts]
    load = ",".join(part.removesuffix(":") for part in parts)
    return step.with_option("load", load)
