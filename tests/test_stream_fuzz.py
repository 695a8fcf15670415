# SPDX-License-Identifier: Apache-2.0
"""A short run of the fuzzer; `python tests/fuzz_stream.py` runs longer."""

from __future__ import annotations

from pathlib import Path

import fuzz_stream


def test_fuzzing(tmp_path: Path) -> None:
    tally = fuzz_stream.fuzz(20, 0, 4000, tmp_path)
    assert not tally.how, tally.how
    assert tally.executions == 4000
    assert len(tally.outcomes) > 100  # it reaches many places of the reader
