# SPDX-License-Identifier: Apache-2.0
"""The command line: one file for each group of commands, and what they share."""

from rtgauge.cli.main import main

__all__ = ["main"]
