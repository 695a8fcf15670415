# SPDX-License-Identifier: Apache-2.0
"""The host knows no measurement by its name: nothing but capabilities and data tell them apart."""

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

import fuzz_plan
import rtgauge
from rtgauge.catalogue import Catalogue
from rtgauge.options import foreign_options
from rtgauge.target.fake import CATALOGUE
from rtgauge.target.local import LocalTarget

SOURCES = Path(rtgauge.__file__).parent
SUPPORT = Path(fuzz_plan.__file__).parent

#: Literals that are the names of measurements: file → names, and why they may be there.
ALLOWED: Mapping[str, tuple[str, str]] = {
    "printed/run.py": ("log-host timer", "imported results describe themselves, as agents do"),
    "capture/run.py": ("log-host response", "an imported capture describes itself, as agents do"),
    "cli/bisect.py": ("log-host", "the command 'rtgauge log-host'"),
    "cli/main.py": ("log-host", "the command 'rtgauge log-host'"),
    "options.py": ("log-host", "the option --log-host"),
    "plan/options.py": ("log-host", "the option --log-host"),
    "plan/plan.py": ("log-host", "the option --log-host"),
    "report/results/again.py": ("log-host", "the option --log-host"),
    "stream/answers.py": ("response", "the name of a series, which docs/formats/stream.md defines"),
    "target/fake.py": ("timer clock-cost response log-host pipe", "the fake describes itself"),
}


def _literals(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {node.value for node in nodes if isinstance(node.value, str)}


@pytest.mark.slow
def test_no_measurement_is_known_by_its_name() -> None:
    names = set(Catalogue.from_json(LocalTarget().describe()).measurements)
    found = {}
    for path in SOURCES.rglob("*.py"):
        known = _literals(path) & names
        if known:
            found[str(path.relative_to(SOURCES))] = known
    assert found == {file: set(words.split()) for file, (words, _) in ALLOWED.items()}


#: Collections with the names of several options of the run: file → names, and why.
LISTS: Mapping[str, tuple[str, str]] = {
    "cli/evaluate.py": ("core load load-cpu prepare", "what an evaluation offers"),
    "cli/project.py": ("load prepare", "what the file of a project may give"),
    "cli/run.py": ("keep-settings load prepare", "what the general help shows, and what replaces "
                   "each other"),
    "cli/tune.py": ("allow-disturb disturb", "what a tune does not offer"),
    "engine/run.py": ("disturb load", "keys of a step in run.json"),
    "fuzz_bundle.py": ("load prepare", "a step in run.json"),
    "options.py": ("allow-disturb core load load-cmd-root load-cpu prepare", "what decides an "
                   "evaluation, and consents"),
    "plan/factors.py": ("keep-settings prepare", "what a tune must not set in every run"),
    "plan/options.py": ("disturb load-cmd load-cpu mark", "notations and remedies of their own"),
    "plan/plan.py": ("load-cmd load-cmd-root", "keys of run.json that have other names"),
    "reader_from_page.py": ("core disturb", "keys of a stream's header"),
    "report/document/answer/actions.py": ("explain explain-above load load-cmd load-cpu",
                                           "the command without load and trace"),
    "report/results/model.py": ("core disturb irq-priority load load-cmd mark prepare "
                                "prepare-only", "runs of older versions, and keys of the results"),
    "store/foreign.py": ("disturb load", "keys of a step in run.json"),
    "store/made.py": ("disturb load", "keys of a step in run.json"),
}  # fmt: skip


def _names(node: ast.AST) -> set[str]:
    """The texts of a collection, or the keys of a map."""
    elements: list[ast.expr | None] = []
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        elements = [*node.elts]
    elif isinstance(node, ast.Dict):
        elements = node.keys
    found = (one.value for one in elements if isinstance(one, ast.Constant))
    return {value for value in found if isinstance(value, str)}


@pytest.mark.slow
def test_no_list_repeats_the_options_of_the_run() -> None:
    """So that a new option needs nothing but its row in the table, and its use."""
    catalogue = Catalogue.from_document(dict(CATALOGUE))
    names = {option.name for option in catalogue.run_options if option.applies != "host"}
    found: dict[str, set[str]] = {}
    for folder in (SOURCES, SUPPORT):
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if len(listed := _names(node) & names) > 1:
                    found.setdefault(str(path.relative_to(folder)), set()).update(listed)
    assert found == {file: set(words.split()) for file, (words, _) in LISTS.items()}


def test_every_consent_is_left_out_of_commands_of_others() -> None:
    catalogue = Catalogue.from_document(dict(CATALOGUE))
    consents = {option.name for option in catalogue.run_options if option.applies == "command"}
    assert foreign_options(dict.fromkeys(consents, True)) == consents


def test_the_fake_has_the_options_of_every_run_that_the_agent_has() -> None:
    real = Catalogue.from_json(LocalTarget().describe())
    fake = Catalogue.from_document(dict(CATALOGUE))
    assert real.run_options == fake.run_options, "record them: python tools/run_options.py"
    for name in ("response", "log-host"):
        assert real.measurement(name).answers == fake.measurement(name).answers
        assert real.measurement(name).times == fake.measurement(name).times
