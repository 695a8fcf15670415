# SPDX-License-Identifier: Apache-2.0
"""Which part of the agent may use which: the table of docs/internals/architecture.md, held against
the includes of the sources and against the symbols of the object files of build/native."""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AGENT = ROOT / "agent"
BUILD = ROOT / "build" / "native" / "agent"

#: Folder → the folders that it may use. main.c and catalogue.c lie in no folder and may use all.
ARROWS: Mapping[str, str] = {
    "base": "",
    "stream": "base",
    "system": "base",
    "lines": "base",
    "loads": "base",
    "core": "base",
    "run": "stream system lines loads core base",
    "methods": "run stream system lines loads core base",
    "measurements": "methods run stream system lines loads core base",
}
#: Headers of run/ that only run/, main.c and catalogue.c may include: the runner's private state.
PRIVATE = {"run/drain.h", "run/injection.h", "run/run.h", "run/watch.h"}
TOP = "top"
INCLUDE = re.compile(r'^#include "([\w./]+)"', re.MULTILINE)

Arrows = Mapping[str, Set[str]]


def _part(name: str) -> str:
    """The folder of a file of the agent, given relative to agent/."""
    return name.split("/", 1)[0] if "/" in name else TOP


def _measurement(name: str) -> str:
    """The measurement that a file belongs to: a file, or a folder of several."""
    return Path(name).parts[1].removesuffix(".c").removesuffix(".h")


def _faults(arrows: Arrows) -> Iterator[str]:
    """Arrows from file to file, relative to agent/, that the table does not allow."""
    for source, targets in sorted(arrows.items()):
        part = _part(source)
        if part == TOP:
            continue
        for target in sorted(targets):
            other = _part(target)
            if other == part:
                if part == "measurements" and _measurement(source) != _measurement(target):
                    yield f"{source} uses another measurement: {target}"
            elif other not in ARROWS[part].split():
                yield f"{source} uses {target}, which is above it"
            elif target in PRIVATE:
                yield f"{source} uses {target}, which is private to run/"


def _cycles(arrows: Arrows) -> list[set[str]]:
    """Groups of more than two files that all reach each other."""
    reach: dict[str, set[str]] = {}
    for start in arrows:
        seen: set[str] = set()
        left = [start]
        while left:
            for target in arrows.get(left.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    left.append(target)
        reach[start] = seen
    groups: list[set[str]] = []
    for name in sorted(arrows):
        group = {other for other in reach[name] if name in reach.get(other, ())}
        if len(group) > 2 and group not in groups:
            groups.append(group)
    return groups


def _sources(root: Path) -> list[Path]:
    return sorted(
        path for path in root.rglob("*.[ch]") if path.relative_to(root).parts[0] != "tests"
    )


def _includes(root: Path) -> Arrows:
    """What each source includes of the agent; headers of kmod/ have no folder and are left out."""
    return {
        str(path.relative_to(root)): {
            name
            for name in INCLUDE.findall(path.read_text(encoding="utf-8"))
            if (root / name).exists()
        }
        for path in _sources(root)
    }


def _symbols(objects: Mapping[str, Path]) -> Arrows:
    """Which source uses a symbol that another one defines."""
    used: dict[str, set[str]] = {}
    defined: dict[str, str] = {}
    sources = {str(path): source for source, path in objects.items()}
    listed = subprocess.run(
        ["nm", "--portability", "--print-file-name", *sources],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    for line in listed.splitlines():
        path, symbol, kind = line.split()[:3]
        source = sources[path.removesuffix(":")]
        if kind in "Uwv":
            used.setdefault(source, set()).add(symbol)
        elif kind in "TDRBCVW":
            defined[symbol] = source
    return {
        source: {defined[symbol] for symbol in used.get(source, ()) if symbol in defined}
        for source in objects
    }


def _objects() -> dict[str, Path]:
    """The object file of each source. Skips the test where they are not those of the sources."""
    found = {}
    for path in _sources(AGENT):
        if path.suffix != ".c" or path.name == "main.c":
            continue
        source = str(path.relative_to(AGENT))
        built = list(BUILD.glob(f"lib*.a.p/{source.replace('/', '_')}.o"))
        if not built or any(one.stat().st_mtime < path.stat().st_mtime for one in built):
            pytest.skip(f"build/native has no current object file of {source}: run make build")
        found[source] = built[0]
    return found


def test_every_folder_has_its_arrows() -> None:
    folders = {_part(name) for name in _includes(AGENT)} - {TOP}
    assert folders <= set(ARROWS)


def test_no_include_points_up() -> None:
    arrows = _includes(AGENT)
    assert sum(map(len, arrows.values())) > 300  # the includes were found
    assert list(_faults(arrows)) == []


def test_no_symbol_points_up() -> None:
    arrows = _symbols(_objects())
    assert sum(map(len, arrows.values())) > 300  # the symbols were found
    assert list(_faults(arrows)) == []


def test_no_cycle_has_more_than_two_objects() -> None:
    assert _cycles(_symbols(_objects())) == []


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("base/clock.c", "run/run.h", "base/clock.c uses run/run.h, which is above it"),
        ("stream/series.c", "run/mark.h", "stream/series.c uses run/mark.h, which is above it"),
        ("lines/gpio.c", "run/worker.h", "lines/gpio.c uses run/worker.h, which is above it"),
        ("run/run.c", "methods/grid.h", "run/run.c uses methods/grid.h, which is above it"),
        (
            "measurements/pipe.c", "catalogue.h",
            "measurements/pipe.c uses catalogue.h, which is above it",
        ),
        (
            "measurements/response/log_host.c", "measurements/timer/timer_method.h",
            "measurements/response/log_host.c uses another measurement:"
            " measurements/timer/timer_method.h",
        ),
        ("measurements/timer/timer.c", "measurements/timer/timer_method.h", None),
        ("methods/grid.c", "run/run.h", "methods/grid.c uses run/run.h, which is private to run/"),
        ("methods/grid.c", "run/step.h", None),
        ("measurements/pipe.c", "methods/handover.h", None),
        ("catalogue.c", "run/run.h", None),
    ],
)  # fmt: skip
def test_an_include_that_points_up_is_found(
    tmp_path: Path, source: str, target: str, said: str | None
) -> None:
    for name, text in ((source, f'#include "{target}"\n#include "rtgauge.h"\n'), (target, "")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert list(_faults(_includes(tmp_path))) == ([said] if said else [])


def _compiled(folder: Path, sources: Iterable[tuple[str, str]]) -> dict[str, Path]:
    objects = {}
    for number, (name, text) in enumerate(sources):
        source, objects[name] = folder / f"{number}.c", folder / f"{number}.o"
        source.write_text(text)
        subprocess.run(["cc", "-c", source, "-o", objects[name]], check=True, timeout=60)
    return objects


@pytest.mark.slow
def test_a_symbol_that_points_up_and_a_cycle_are_found(tmp_path: Path) -> None:
    arrows = _symbols(
        _compiled(
            tmp_path,
            [
                ("base/a.c", "void b(void); void a(void) { b(); }"),
                ("run/b.c", "void c(void); __attribute__((weak)) void b(void) { c(); }"),
                ("run/c.c", "void a(void); void d(void); void c(void) { a(); d(); }"),
                ("base/d.c", "int e; void d(void) { }"),
            ],
        )
    )
    assert list(_faults(arrows)) == ["base/a.c uses run/b.c, which is above it"]
    assert _cycles(arrows) == [{"base/a.c", "run/b.c", "run/c.c"}]
    assert _cycles({"a": {"b"}, "b": {"a", "c"}, "c": set()}) == []
