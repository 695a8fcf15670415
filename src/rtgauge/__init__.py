# SPDX-License-Identifier: Apache-2.0
"""rtgauge: an evaluation suite for the real-time behaviour of Linux systems (the host)."""

__version__ = "0.1.0"
