# SPDX-License-Identifier: Apache-2.0
"""Runs next to each other: rows for several runs, and comparisons."""
