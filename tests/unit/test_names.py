# SPDX-License-Identifier: Apache-2.0
"""The host knows no measurement by its name: nothing but capabilities and data tell them apart."""

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

import rtgauge
from rtgauge.catalogue import Catalogue
from rtgauge.target.fake import CATALOGUE
from rtgauge.target.local import LocalTarget

SOURCES = Path(rtgauge.__file__).parent

#: Literals that are the names of measurements: file → names, and why they may be there.
ALLOWED: Mapping[str, tuple[str, str]] = {
    "printed/run.py": ("log-host timer", "imported results describe themselves, as agents do"),
    "capture/run.py": ("log-host response", "an imported capture describes itself, as agents do"),
    "cli/bisect.py": ("log-host", "the command 'rtgauge log-host'"),
    "cli/generated.py": ("log-host", "the option --log-host, in its group of the help text"),
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


def test_the_fake_has_the_options_of_every_run_that_the_agent_has() -> None:
    real = Catalogue.from_json(LocalTarget().describe())
    fake = Catalogue.from_document(dict(CATALOGUE))

    def told(catalogue: Catalogue) -> set[tuple[object, ...]]:
        return {
            (option.name, option.type, option.default, option.values, option.applies)
            for option in catalogue.run_options
        }

    assert told(real) == told(fake)
    for name in ("response", "log-host"):
        assert real.measurement(name).answers == fake.measurement(name).answers
        assert real.measurement(name).times == fake.measurement(name).times
