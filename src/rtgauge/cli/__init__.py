# SPDX-License-Identifier: Apache-2.0
"""The command line: one file for each group of commands, and what they share."""

import os
import signal

try:
    from rtgauge.cli.main import main
except KeyboardInterrupt:  # nothing has begun, and a traceback would look like a bug
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)

__all__ = ["main"]
