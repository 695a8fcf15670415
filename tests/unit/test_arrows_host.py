# SPDX-License-Identifier: Apache-2.0
"""Which part of the host may import which: the table of docs/internals/architecture.md, held
against the sources. Imports for types alone and those inside functions count, too."""

import ast
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import rtgauge

SOURCES = Path(rtgauge.__file__).parent

#: Part → the parts that it may import. A part that has no row of its own belongs to the row of the
#: package around it. Every part may import ``rtgauge`` itself, which holds the version.
ARROWS: Mapping[str, str] = {
    "errors": "",
    "home": "errors",
    "clock": "",
    "signals": "",
    "units": "",
    "text": "units",
    "architectures": "errors",
    "stats": "units text",
    "reference": "",
    "stream": "errors",
    "facts": "errors units",
    "options": "errors units",
    "catalogue": "errors facts options units",
    "plan": "errors catalogue options units",
    "lab": "errors home architectures units",
    "target": "target.fake errors clock architectures facts units text lab",
    # The fake has no agent, so it interprets the options and writes the stream itself.
    "target.fake": "errors clock catalogue stream units",
    "audit": "errors facts units text",
    "store": "errors home stream catalogue units text",
    # Reports also read the model, the blame and the advice. The rest finds causes.
    "causes.model": "",
    "causes.blame": "causes.model text",
    "causes.beginnings": "stream",
    "causes.orders": "",
    "causes.symbols": "causes.model",
    "causes.remedies": "causes.model causes.symbols",
    "causes.advice": "causes.model causes.blame causes.orders causes.remedies options store",
    "causes.tracefs": "causes.model causes.blame causes.beginnings errors facts store stream text"
    " units",
    "causes": "causes.model causes.blame causes.beginnings causes.orders causes.symbols"
    " causes.remedies causes.advice causes.tracefs errors clock lab options stream store target"
    " units text",
    "engine": "errors signals facts catalogue plan target store stream stats audit units text",
    "report.results": "causes.model causes.advice causes.tracefs errors facts options stats store"
    " stream catalogue reference units text",
    "report.pictures": "report.results causes.model errors stats store stream units text",
    "report.sets": "report.pictures report.results errors facts stats units text",
    "report.document": "report.sets report.pictures report.results causes.model causes.blame errors"
    " options stats units text",
    "report.render": "report.document report.sets report.pictures report.results causes.model"
    " causes.blame errors facts stats units text",
    "report": "report.render report.document report.sets report.pictures report.results errors"
    " store units text",
    "capture": "errors catalogue stream stats store units text",
    "printed": "errors stream stats store units text",
    "cli": "errors signals home clock architectures units text facts options catalogue plan lab"
    " target audit causes causes.model store stats stream engine report report.render"
    " report.document report.sets report.pictures report.results capture printed",
    "__main__": "cli",
}


def _modules() -> dict[str, Path]:
    """Every module of the host by its dotted name."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        words = ("rtgauge", *path.relative_to(SOURCES).with_suffix("").parts)
        found[".".join(words).removesuffix(".__init__")] = path
    return found


MODULES = _modules()


def _imported(name: str, path: Path) -> Iterator[str]:
    """The modules of the host that a module imports, anywhere in it."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(package.split(".")[: len(package.split(".")) + 1 - node.level])
            source = ".".join(filter(None, [above if node.level else "", node.module or ""]))
            for one in node.names:
                whole = f"{source}.{one.name}"
                if whole in MODULES or source in MODULES:
                    yield whole if whole in MODULES else source


GRAPH: Mapping[str, Set[str]] = {
    name: {other for other in _imported(name, path) if other != name}
    for name, path in MODULES.items()
}


def _part(module: str) -> str:
    """The row of a module: the longest one that its name begins with; empty if there is none."""
    words = module.split(".")[1:]
    rows = (".".join(words[:end]) for end in range(len(words), 0, -1))
    return next((row for row in rows if row in ARROWS), "")


def _cycles(graph: Mapping[str, Set[str]]) -> list[str]:
    """The nodes of cycles, and those between two cycles; empty for a graph without any."""
    left = {name: set(others) & set(graph) for name, others in graph.items()}
    while True:
        wanted = set().union(*left.values()) if left else set()
        rest = {name: others & set(left) for name, others in left.items() if others}
        rest = {name: others for name, others in rest.items() if name in wanted}
        if rest == left:
            return sorted(left)
        left = rest


def test_every_module_belongs_to_a_part_of_the_table() -> None:
    missing = [name for name in MODULES if name != "rtgauge" and not _part(name)]
    assert not missing, f"the table of arrows has no row for {missing}"


def test_no_import_points_against_the_table_of_arrows() -> None:
    wrong = {
        (name, other)
        for name, others in GRAPH.items()
        for other in others
        if _part(other) and _part(other) not in (_part(name), *ARROWS[_part(name)].split())
    }
    assert not wrong, f"imports that the table of arrows forbids: {sorted(wrong)}"


def test_the_table_of_arrows_has_no_cycle_and_names_only_its_own_rows() -> None:
    table = {part: set(others.split()) for part, others in ARROWS.items()}
    assert set().union(*table.values()) <= set(table)
    assert not _cycles(table)


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert not _cycles(GRAPH)


def test_a_cycle_and_a_relative_import_are_found() -> None:
    assert _cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]
    assert _cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert "rtgauge.stats.counts" in GRAPH["rtgauge.stats.plots"]
    assert "rtgauge.catalogue" in GRAPH["rtgauge.target.fake"]
