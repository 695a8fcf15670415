# SPDX-License-Identifier: Apache-2.0
"""The list of equivalent mutants: the sources have each of them."""

from __future__ import annotations

import mutants
import pytest


@pytest.mark.slow
def test_the_sources_have_each_mutant_that_is_listed() -> None:
    assert mutants.listed().stale == 0
