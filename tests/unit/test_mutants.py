# SPDX-License-Identifier: Apache-2.0
"""The list of equivalent mutants: its form, and that the sources have each of them."""

from __future__ import annotations

from pathlib import Path

import mutants
import pytest

MODULE = "stats/effective.py"
FUNCTION = "effective_sizes"


@pytest.mark.slow
def test_the_sources_have_each_mutant_that_is_listed() -> None:
    assert mutants.listed().stale == 0


def entry(reason: str, *keys: tuple[str, str, str, str]) -> str:
    lines = [f"{text!r} = [{change!r}]" for _, _, text, change in keys]
    head = f'[[equivalent."{MODULE}".{keys[0][1]}]]'
    return "\n".join((head, f"reason = {reason!r}", *lines, ""))


def test_a_reason_is_that_of_each_line_of_its_entry(tmp_path: Path) -> None:
    every = [one.key for one in mutants.mutants_of(MODULE) if one.function == FUNCTION]
    keys = list({key[2]: key for key in every if "'" not in key[2]}.values())[:3]
    file = tmp_path / "list.toml"
    tests = f"[modules]\n'{MODULE}' = ['a.py']\n"
    file.write_text(tests + entry("one", *keys[:2]) + entry("two", keys[2]))
    found = mutants.listed(file)
    assert found.equivalent == dict(zip(keys, ("one", "one", "two"), strict=True))
    assert found.stale == 0 and found.tests == {MODULE: ("a.py",)}
    file.write_text(tests + entry("one", ("", FUNCTION, "x = 0", "0 -> 1")))
    assert mutants.listed(file).stale == 1
    for wrong in (entry(" ", keys[0]), entry("one", keys[0]) + entry("two", keys[0])):
        file.write_text(tests + wrong)
        with pytest.raises(SystemExit, match="is listed twice, or without a reason"):
            mutants.listed(file)
