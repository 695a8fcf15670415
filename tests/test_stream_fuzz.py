# SPDX-License-Identifier: Apache-2.0
"""A short run of the fuzzer; `python tests/fuzz_stream.py` runs longer."""

from __future__ import annotations

import fuzz_stream


def test_fuzzing() -> None:
    outcomes, failed, how = fuzz_stream.fuzz(4000, seed=20)
    assert failed is None, how
    assert outcomes > 100  # it reaches many places of the reader
