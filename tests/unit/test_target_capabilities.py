# SPDX-License-Identifier: Apache-2.0
"""The optional capabilities of targets and agents: each an interface that the type checker and
``isinstance`` know alike, none a name looked up in an object."""

import ast
import inspect
import tokenize
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rtgauge
from rtgauge.errors import UsageError
from rtgauge.target import base
from rtgauge.target.base import (
    Adaptable,
    Bootable,
    Detached,
    Disturbable,
    Emulated,
    Emulation,
    LabWired,
    Linked,
    Pace,
    Paced,
    Previewable,
    Reaching,
    Reconnecting,
    Repeating,
    Replayable,
    Restoring,
    RunningAgent,
    Target,
    Wired,
)
from rtgauge.target.fake import FakeAgent, FakeTarget
from rtgauge.target.lab import LabAgent, LabTarget
from rtgauge.target.local import LocalAgent, LocalTarget
from rtgauge.target.ssh import SshAgent, SshTarget

SOURCES = Path(rtgauge.__file__).parent

INTERFACES = {
    name: one
    for name, one in vars(base).items()
    if name in base.__all__ and inspect.isclass(one) and "_is_protocol" in vars(one)
}
CAPABILITIES: dict[str, Any] = {
    name: one for name, one in INTERFACES.items() if one not in (Target, RunningAgent)
}

#: Attributes that are looked up by name for a reason other than a capability: file → (number, why).
LOOKED_UP = {
    "cli/main.py": (4, "commands imported when called, streams, errors of click"),
    "cli/progress.py": (1, "a text stream of another program may name no encoding"),
    "cli/store.py": (1, "columns of a row, by the keys of the JSON"),
    "report/render/pdf.py": (1, "fields of a dataclass, by name"),
    "report/render/pdf_full.py": (1, "fields of a dataclass, by name"),
    "store/index.py": (1, "sqlite3 sets the code on some of its errors"),
    "store/seal.py": (3, "fields of a dataclass, columns of a table, by name"),
}
#: Lines that the type checker ignores: file → (number, why).
IGNORED = {
    "plan/lengths.py": (1, "the type is compared exactly, as bool is an int"),
    "reference/__init__.py": (1, "a row of a CSV file becomes a dataclass"),
    "stats/counts.py": (1, "the documented way to make a class unhashable"),
}


def typed(local: LocalTarget, lab: LabTarget, ssh: SshTarget, fake: FakeTarget) -> None:
    """Never called: the type checker holds members and signatures against the interfaces."""
    _targets: tuple[Target, ...] = (local, lab, ssh, fake)
    _restoring: tuple[Restoring, ...] = (local, ssh)
    _linked: Linked = ssh
    _reaching: tuple[Reaching, ...] = (local, ssh)
    _reconnecting: Reconnecting = ssh
    _paced: Paced = lab
    _emulated: Emulated = lab
    _previewable: Previewable = lab
    _adaptable: Adaptable = lab
    _bootable: Bootable = lab
    _repeating: tuple[Repeating, ...] = (lab, ssh)
    _replayable: Replayable = lab
    _disturbable: Disturbable = lab
    _lab_wired: LabWired = lab
    _wired: tuple[Wired, ...] = (local, ssh)


def typed_agents(local: LocalAgent, lab: LabAgent, ssh: SshAgent, fake: FakeAgent) -> None:
    """As ``typed``, of agents."""
    _agents: tuple[RunningAgent, ...] = (local, lab, ssh, fake)
    _emulation: Emulation = lab
    _detached: Detached = ssh


def test_every_interface_has_at_most_six_members_and_its_place_in_the_table() -> None:
    page = (SOURCES.parents[1] / "docs" / "reference" / "targets.md").read_text(encoding="utf-8")
    assert len(INTERFACES) == 18
    for name, one in INTERFACES.items():
        own = {*vars(one), *vars(one).get("__annotations__", {})}
        members = {member for member in own if not member.startswith("_")}
        assert 1 <= len(members) <= 6, (name, members)
        assert f"`{name}`" in page, f"docs/reference/targets.md does not describe {name}"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (FakeTarget(), set()),
        (
            LabTarget("x86_64-rt-6.1"),
            {
                *("Adaptable", "Bootable", "Disturbable", "Emulated", "LabWired", "Paced"),
                *("Previewable", "Repeating", "Replayable"),
            },
        ),
    ],
)
def test_a_target_has_the_capabilities_whose_members_it_has(
    target: Target, expected: set[str]
) -> None:
    assert {name for name, one in CAPABILITIES.items() if isinstance(target, one)} == expected


@pytest.mark.parametrize(("mode", "more"), [("", ""), (",mode=counted", " without mode=counted")])
def test_a_board_of_the_lab_is_not_offered_more_cpus_than_it_may_have(mode: str, more: str) -> None:
    with pytest.raises(UsageError, match="cannot have a CPU 8") as caught:
        LabTarget(f"x86_64-rt-6.1{mode}").settle(8, [])
    assert caught.value.remedy == f"name CPUs up to 7{more}"


def test_what_the_engine_asks_of_a_target_without_capabilities() -> None:
    assert base.pace_of(FakeTarget()) == Pace(scale=1.0, speaks=True, independent=False)
    assert base.lost_of(FakeTarget()) == ""


@pytest.mark.slow
def test_no_source_looks_for_a_capability_by_name() -> None:
    found: Counter[str] = Counter()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and node.id in ("getattr", "hasattr", "setattr"):
                found[str(path.relative_to(SOURCES))] += 1
    assert dict(found) == {name: number for name, (number, _) in LOOKED_UP.items()}


@pytest.mark.slow
def test_no_source_silences_the_type_checker_without_a_reason() -> None:
    found: Counter[str] = Counter()
    for path in SOURCES.rglob("*.py"):
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type == tokenize.COMMENT and "type: ignore" in token.string:
                    found[str(path.relative_to(SOURCES))] += 1
    assert dict(found) == {name: number for name, (number, _) in IGNORED.items()}
