# SPDX-License-Identifier: Apache-2.0
"""Signals that end a command early: Ctrl-C, SIGTERM, and SIGHUP when its terminal is closed."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType

__all__ = ["caught"]


@contextlib.contextmanager
def caught(numbers: Iterable[signal.Signals], react: Callable[[], None]) -> Iterator[None]:
    """Call ``react`` for each of these signals (in the main thread only). SIGHUP stays ignored if
    it was, as by nohup, and it is ignored from the first signal on: the shell and the kernel each
    send one for a terminal that is closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGHUP) == handle:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        react()

    before = {
        number: signal.signal(number, handle)
        for number in numbers
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
