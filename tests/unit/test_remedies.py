# SPDX-License-Identifier: Apache-2.0
"""Every error that a user can meet says what to do about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtgauge.errors

SOURCES = Path(rtgauge.errors.__file__).parent
ERRORS = {
    name
    for name, kind in vars(rtgauge.errors).items()
    if isinstance(kind, type) and issubclass(kind, rtgauge.errors.RtgaugeError)
}
# Ctrl-C, and what the kernel says of a file that nothing else looks at.
WITHOUT = {("cli/main.py", "_main"): 2}


def without_remedy(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Function and line of each error with a message alone."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ERRORS:
                starred = any(isinstance(one, ast.Starred) for one in node.args)
                if len(node.args) + len(node.keywords) < 2 and not starred:
                    yield function.name, node.lineno


@pytest.mark.slow
def test_every_error_has_a_remedy() -> None:
    assert list(without_remedy(ast.parse("def f():\n  raise StoreError('x')"))) == [("f", 2)]
    found: dict[tuple[str, str], list[int]] = {}
    for path in SOURCES.rglob("*.py"):
        for function, line in without_remedy(ast.parse(path.read_text())):
            found.setdefault((str(path.relative_to(SOURCES)), function), []).append(line)
    assert {place: len(lines) for place, lines in found.items()} == WITHOUT, found
