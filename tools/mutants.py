# SPDX-License-Identifier: Apache-2.0
"""Mutation testing: changes the sources one place at a time and counts the tests that notice.

    .venv/bin/python tools/mutants.py                       every mutant of every module listed
    .venv/bin/python tools/mutants.py --sample 300 --seed 7 a random sample, with its interval
    .venv/bin/python tools/mutants.py stats/counts.py       one module
    .venv/bin/python tools/mutants.py --list stats/counts.py
    .venv/bin/python tools/mutants.py stats/counts.py --survivors build/mutants.json

``tests/mutants.toml`` lists the modules with the test files of each, and the equivalent mutants,
each with the reason why no test can notice it. An entry that matches no mutant makes the run fail.

A mutant is killed when a test fails, or when its tests exceed their time or memory. Mutations:
comparisons (bound moved, negated), arithmetic and bit operators, ``and``/``or``, negated
conditions, whole numbers plus and minus 1, other numbers doubled and halved, ``True``/``False``,
``min``/``max``, ``any``/``all``, ``floor``/``ceil``, ``left``/``right``, ``break``/``continue``,
calls and ``raise`` removed. Text for people is left alone.

Two processes serve each module. The first runs its tests once and records the lines that each test
executes. The second collects the tests and forks for each mutant: the fork replaces the code of the
mutated function and runs the tests that execute the line, the shortest first. Imports and
collection are thus paid once for each module; only a mutant of code that runs at import loads
everything again, in a fork of the first process, which has imported the libraries.

The result is a JSON document; the exit status is 1 where fewer than 95 % of the mutants tried were
killed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import os
import pickle
import random
import resource
import select
import signal
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

import hypothesis
import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ROOT / "src" / "rtgauge"
TESTS: Final = ROOT / "tests"
LISTED: Final = TESTS / "mutants.toml"
PATHS: Final = ("src", "tests", "tests/support", "tests/unit", "tests/machine", "tools")
LEAST: Final = 0.95
MEMORY: Final = 4 << 30
BROKEN: Final = 70  # a mutant that could not be tried
LIBRARIES: Final = ("hypothesis", "numpy", "pyarrow.parquet", "scipy.signal", "scipy.stats")

PHASES: Final = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # a failure is enough

COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
NAMES: Final = {
    a: b
    for pair in (
        ("min", "max"),
        ("minimum", "maximum"),
        ("argmin", "argmax"),
        ("any", "all"),
        ("floor", "ceil"),
        ("left", "right"),
    )
    for a, b in (pair, pair[::-1])
}


# --- the mutants of a source -------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """One change: ``number`` among those of the module, ``lines`` of the statement it is in."""

    module: str
    function: str  # the outermost function around it, "" at the level of a module or class
    line: int
    text: str
    change: str
    number: int
    lines: tuple[int, int]

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names it in the list of equivalents: it does not move with the line numbers."""
        return self.module, self.function, self.text, self.change


@dataclass(frozen=True)
class _Place:
    node: ast.AST
    change: str
    apply: Callable[[], None]
    function: str
    lines: tuple[int, int]


def _setter(owner: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(owner, name, value)


def _putter(items: list[Any], at: int, value: Any) -> Callable[[], None]:
    return lambda: items.__setitem__(at, value)


def _sign(kind: type[ast.AST]) -> str:
    return kind.__name__


def _negated(node: ast.expr) -> ast.expr:
    return ast.copy_location(ast.UnaryOp(ast.Not(), node), node)


def _constants(node: ast.Constant) -> Iterator[tuple[str, Callable[[], None]]]:
    value = node.value
    others: list[Any] = []
    if isinstance(value, bool):
        others = [not value]
    elif isinstance(value, int):
        others = [value + 1, value - 1]
    elif isinstance(value, float):
        others = [value * 2, value / 2] if value else [1.0]
    elif value in ("left", "right"):
        others = [NAMES[value]]
    for other in others:
        yield f"{value!r} -> {other!r}", _setter(node, "value", other)


def _of(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """The changes of one node, each with what carries it out."""
    match node:
        case ast.Compare():
            for at, sign in enumerate(node.ops):
                for other in COMPARISONS[type(sign)]:
                    change = f"{_sign(type(sign))} -> {_sign(other)}"
                    yield change, _putter(node.ops, at, other())
        case ast.BinOp() | ast.AugAssign():
            if type(node.op) in OPERATORS:
                other_sign = OPERATORS[type(node.op)]
                change = f"{_sign(type(node.op))} -> {_sign(other_sign)}"
                yield change, _setter(node, "op", other_sign())
        case ast.BoolOp():
            swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            change = f"{_sign(type(node.op))} -> {_sign(type(swapped))}"
            yield change, _setter(node, "op", swapped)
        case ast.UnaryOp(op=ast.USub()):
            yield "- -> +", _setter(node, "op", ast.UAdd())
        case ast.UnaryOp(op=ast.Not()):
            yield "not removed", _setter(node, "operand", _negated(node.operand))
        case ast.Constant():
            yield from _constants(node)
        case ast.Name(id=name) if name in NAMES:
            yield f"{name} -> {NAMES[name]}", _setter(node, "id", NAMES[name])
        case ast.Attribute(attr=name) if name in NAMES:
            yield f"{name} -> {NAMES[name]}", _setter(node, "attr", NAMES[name])
        case ast.Expr(value=ast.Call() | ast.Await()):
            nothing = ast.copy_location(ast.Constant(None), node)
            yield "call removed", _setter(node, "value", nothing)
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not (
        isinstance(node.test, ast.Compare)
        or (isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not))
    ):
        yield "condition negated", _setter(node, "test", _negated(node.test))


def _replaced(node: ast.stmt) -> tuple[str, ast.stmt] | None:
    """The statement in place of one of those that end a block."""
    match node:
        case ast.Break():
            return "break -> continue", ast.copy_location(ast.Continue(), node)
        case ast.Continue():
            return "continue -> break", ast.copy_location(ast.Break(), node)
        case ast.Raise():
            return "raise removed", ast.copy_location(ast.Pass(), node)
    return None


def _is_left_out(node: ast.AST) -> bool:
    """What no test of behaviour sees: what a module exports, and asserts for the type checker."""
    if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Assign):
        return any(isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets)
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _header(node: ast.stmt) -> tuple[int, int]:
    """The lines of a statement, without those of the statements in it."""
    inside = [one.lineno for one in ast.walk(node) if isinstance(one, ast.stmt) and one is not node]
    stop = node.end_lineno or node.lineno
    return node.lineno, max(node.lineno, min(inside) - 1) if inside else stop


def _places(
    node: ast.AST, function: str, scope: tuple[str, ...], lines: tuple[int, int]
) -> Iterator[_Place]:
    if _is_left_out(node):
        return
    if isinstance(node, ast.stmt):
        lines = _header(node)
    for change, apply in _of(node):
        yield _Place(node, change, apply, function, lines)
    inner = scope
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        inner = (*scope, node.name)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "op", "ops", "ctx"):
            continue
        within = function
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and name == "body":
            within = function or ".".join(inner)
        for at, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.stmt) and (other := _replaced(child)) is not None:
                put = _putter(value, at, other[1])
                yield _Place(child, other[0], put, within, _header(child))
            yield from _places(child, within, inner, lines)


def _parsed(module: str) -> tuple[ast.Module, list[_Place], list[str]]:
    text = (SOURCES / module).read_text()
    tree = ast.parse(text)
    return tree, list(_places(tree, "", (), (1, 1))), text.splitlines()


def mutants_of(module: str) -> list[Mutant]:
    """Every mutant of a module below src/rtgauge, in the order of its source."""
    _, places, text = _parsed(module)
    found = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for number, place in enumerate(places):
        first = getattr(place.node, "lineno", place.lines[0])
        stripped = text[first - 1].strip()
        key = (place.function, stripped, place.change)
        seen[key] += 1
        change = place.change if seen[key] == 1 else f"{place.change} ({seen[key]})"
        found.append(Mutant(module, place.function, first, stripped, change, number, place.lines))
    return found


def compiled(mutant: Mutant) -> CodeType:
    """The code of the module with this one change."""
    tree, places, _ = _parsed(mutant.module)
    places[mutant.number].apply()
    return compile(ast.fix_missing_locations(tree), str(SOURCES / mutant.module), "exec")


# --- what is listed ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Listed:
    """tests/mutants.toml: the test files of each module, and the reasons of the equivalents."""

    tests: dict[str, tuple[str, ...]]
    equivalent: dict[tuple[str, str, str, str], str]
    stale: int


def listed(path: Path = LISTED) -> Listed:
    """Reads the list; prints and counts its entries that the sources do not have any more."""
    data = tomllib.loads(path.read_text())
    equivalent: dict[tuple[str, str, str, str], str] = {}
    for module, functions in data.get("equivalent", {}).items():
        for function, entry in ((name, one) for name, ones in functions.items() for one in ones):
            reason = entry.pop("reason")
            for text, change in ((text, one) for text, ones in entry.items() for one in ones):
                key = (module, function, text, change)
                if key in equivalent or not reason.strip():
                    raise SystemExit(f"{path.name}: {key} is listed twice, or without a reason")
                equivalent[key] = reason
    known = {one.key for module in {key[0] for key in equivalent} for one in mutants_of(module)}
    if stale := sorted(set(equivalent) - known):
        print(
            f"{path.name} lists {len(stale)} mutants that the sources do not have: remove them, "
            "or name them as --list does:\n" + "\n".join(map(str, stale)),
            file=sys.stderr,
        )
    tests = {name: tuple(files) for name, files in data["modules"].items()}
    return Listed(tests, equivalent, len(stale))


# --- the run of one mutant ---------------------------------------------------------------------


@dataclass
class Recorded:
    """Duration of each test and the lines of the module that it executes, with the functions
    that run when the module is imported."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    imported: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that execute a line of the statement, the shortest first; at import: all."""
        chosen = self.seconds
        if mutant.function:
            span = set(range(mutant.lines[0], mutant.lines[1] + 1))
            chosen = {name: s for name, s in self.seconds.items() if self.lines[name] & span}
        return sorted(chosen, key=lambda name: self.seconds[name])

    def at_import(self, mutant: Mutant) -> bool:
        """Whether replacing the function would come too late."""
        return not mutant.function or mutant.function in self.imported


class _Recorder:
    """A plugin of pytest: runs the tests under trace."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.found = Recorded()
        self.current = ""

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != self.path:
            return None
        if not self.current:
            name = frame.f_code.co_qualname
            self.found.imported.add(name.split(".<locals>")[0])
            return None
        self.found.lines[self.current].add(frame.f_lineno)
        return self.line

    def line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.found.lines[self.current].add(frame.f_lineno)
        return self.line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.current = item.nodeid
        sys.settrace(self.trace)
        threading.settrace(self.trace)
        start = time.process_time()
        result = yield
        self.found.seconds[item.nodeid] = time.process_time() - start
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.found.failed.append(report.nodeid)


def _arguments(files: Sequence[str], basetemp: Path) -> list[str]:
    return [
        *(str(TESTS / "unit" / name) for name in files),
        "-q",
        "-x",
        "--tb=no",
        "-o",
        f"cache_dir={basetemp.parent / 'cache'}",
        "-p",
        "no:faulthandler",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",  # of the libraries imported beforehand
        f"--rootdir={ROOT}",
        f"--basetemp={basetemp}",
    ]


def _quiet() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)


def _limit(seconds: Iterable[float]) -> float:
    """How much time of a CPU the tests may take that took so long, under trace, unmutated."""
    return 2 + 4 * sum(seconds)


def _forked(work: Callable[[], int], limit_s: float) -> int | None:
    """The exit status of ``work`` in a fork, with its output dropped; None beyond its CPU time, or
    a hundred times as long on the clock, as a busy machine makes of it."""
    child = os.fork()
    if not child:
        status = BROKEN
        try:
            os.setsid()
            _quiet()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit_s), math.ceil(limit_s) + 1))
            signal.signal(signal.SIGXCPU, signal.SIG_DFL)
            status = work()
        finally:
            os._exit(status)
    handle = os.pidfd_open(child)
    try:
        ended = select.select([handle], [], [], 100 * limit_s)[0]
    finally:
        os.close(handle)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # also what it started
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if ended and status not in (-signal.SIGXCPU, -signal.SIGKILL) else None


def _answer(work: Callable[[], Any], limit_s: float, folder: Path) -> Any:
    """What ``work`` gives in a fork."""
    path = folder / "answer"

    def write() -> int:
        path.write_bytes(pickle.dumps(work()))
        return 0

    status = _forked(write, limit_s)
    if status != 0:
        raise SystemExit(f"the tests could not be run (status {status})")
    return pickle.loads(path.read_bytes())


def _record(module: str, files: Sequence[str], folder: Path) -> Recorded:
    recorder = _Recorder(SOURCES / module)

    def work() -> Recorded:
        sys.settrace(recorder.trace)
        pytest.main(_arguments(files, folder / "tests"), plugins=[recorder])
        sys.settrace(None)
        return recorder.found

    found: Recorded = _answer(work, 1800, folder)
    if found.failed or not found.seconds:
        raise SystemExit(f"tests of {module} fail without a mutation: {found.failed}")
    return found


def _code_in(code: CodeType, name: str) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if one.co_qualname == name:
                yield one
            yield from _code_in(one, name)


def _replace(mutant: Mutant) -> int:
    """Gives the living functions their mutated code; how many there are."""
    path = str(SOURCES / mutant.module)
    new = {one.co_firstlineno: one for one in _code_in(compiled(mutant), mutant.function)}
    replaced = 0
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename == path:
            code = one.__code__
            if code.co_qualname == mutant.function and code.co_firstlineno in new:
                one.__code__ = new[code.co_firstlineno]
                replaced += 1
    return replaced


class _Server:
    """A plugin of pytest: in place of running the tests, forks for each mutant."""

    def __init__(self, todo: Sequence[Mutant], recorded: Recorded, done: Done) -> None:
        self.todo, self.recorded, self.done = todo, recorded, done

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        hypothesis.settings.register_profile("mutants", hypothesis.settings.default, phases=PHASES)
        hypothesis.settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for mutant in self.todo:
            chosen = [items[name] for name in self.recorded.tests(mutant)]
            self.done(mutant, self.tried(session, mutant, chosen))
        return True

    def tried(
        self, session: pytest.Session, mutant: Mutant, chosen: Sequence[pytest.Item]
    ) -> int | None:
        if not chosen:
            return 0
        limit_s = _limit(self.recorded.seconds[item.nodeid] for item in chosen)
        return _forked(lambda: _run(session, mutant, chosen), limit_s)


Done = Callable[[Mutant, int | None], None]


def _run(session: pytest.Session, mutant: Mutant, chosen: Sequence[pytest.Item]) -> int:
    if not _replace(mutant):
        return BROKEN
    for item, after in zip_longest(chosen, chosen[1:]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.testsfailed:
            return 1
    return 0


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives a module its mutated code when it is imported."""

    def __init__(self, mutant: Mutant) -> None:
        dotted = "rtgauge." + mutant.module.removesuffix(".py").replace("/", ".")
        self.name = dotted.removesuffix(".__init__")
        self.code = compiled(mutant)
        self.path = SOURCES / mutant.module

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        places = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=self, submodule_search_locations=places
        )

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)


def _run_anew(mutant: Mutant, files: Sequence[str], folder: Path, limit_s: float) -> int | None:
    def work() -> int:
        sys.meta_path.insert(0, _Finder(mutant))
        return int(pytest.main(_arguments(files, folder / "tests")))

    return _forked(work, limit_s)


# --- all of them -------------------------------------------------------------------------------


def _interval(killed: int, tried: int) -> tuple[float, float]:
    from scipy.stats import binomtest  # noqa: PLC0415

    found = binomtest(killed, tried).proportion_ci(0.95, "exact")
    return float(found.low), float(found.high)


@dataclass
class Outcome:
    """What came of the mutants of one module."""

    mutants: int = 0
    equivalent: int = 0
    killed: int = 0
    timeout: int = 0
    alive: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def tried(self) -> int:
        return self.killed + len(self.alive)


def _try(module: str, todo: Sequence[Mutant], files: Sequence[str], outcome: Outcome) -> None:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        recorded = _record(module, files, folder)

        def done(mutant: Mutant, status: int | None) -> None:
            covered = bool(recorded.tests(mutant))
            if status == BROKEN:
                raise SystemExit(f"{mutant.key} could not be tried (status {status})")
            if covered and status != 0:
                outcome.killed += 1
                outcome.timeout += status is None
                return
            alive = {"line": mutant.line, "function": mutant.function, "text": mutant.text}
            alive |= {"change": mutant.change, "executed": covered}
            outcome.alive.append(alive)
            print(
                f"alive {module}:{mutant.line} [{mutant.function}] {mutant.change}  {mutant.text}"
                + ("" if covered else "  (no test executes it)"),
                flush=True,
            )

        late = [mutant for mutant in todo if recorded.at_import(mutant)]
        early = [mutant for mutant in todo if not recorded.at_import(mutant)]
        limit_s = _limit(recorded.seconds.values())
        for mutant in late:
            done(mutant, _run_anew(mutant, files, folder, limit_s))
        if early:
            _serve(files, _Server(early, recorded, done), folder)
    outcome.seconds = round(time.monotonic() - start, 1)


def _serve(files: Sequence[str], server: _Server, folder: Path) -> None:
    """Lets a fork collect the tests and serve; what it finds comes back through a pipe."""
    reading, writing = os.pipe()
    done = server.done
    child = os.fork()
    if not child:
        os.close(reading)
        with os.fdopen(writing, "wb") as out:

            def send(mutant: Mutant, status: int | None) -> None:
                pickle.dump((mutant, status), out)
                out.flush()

            server.done = send
            _quiet()
            pytest.main(_arguments(files, folder / "tests"), plugins=[server])
        os._exit(0)
    os.close(writing)
    answered = 0
    with os.fdopen(reading, "rb") as back:
        while True:
            try:
                mutant, status = pickle.load(back)
            except EOFError:
                break
            done(mutant, status)
            answered += 1
    os.waitpid(child, 0)
    if answered != len(server.todo):
        raise SystemExit(f"the tests of {files} could not be collected")


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Mutation testing of the modules listed.")
    parser.add_argument("modules", nargs="*", help="modules below src/rtgauge; default: all listed")
    parser.add_argument("--sample", type=int, help="try this many, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default: 1)")
    parser.add_argument("--lines", help="only those of the lines FIRST-LAST")
    parser.add_argument("--survivors", type=Path, help="only those alive in this earlier result")
    parser.add_argument("--list", action="store_true", help="list the mutants and stop")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "mutants.json")
    return parser.parse_args()


def _alive(document: dict[str, Any]) -> set[tuple[str, str, str, str]]:
    """The keys of the mutants that an earlier result calls alive."""
    return {
        (module, one["function"], one["text"], one["change"])
        for module, outcome in document["modules"].items()
        for one in outcome["alive"]
    }


def main() -> int:
    words = _words()
    known = listed()
    if unknown := sorted(set(words.modules) - set(known.tests)):
        raise SystemExit(f"{LISTED.name} does not list {', '.join(unknown)}")
    outcomes: dict[str, Outcome] = {}
    todo: list[Mutant] = []
    alive = None if words.survivors is None else _alive(json.loads(words.survivors.read_text()))
    first, last = map(int, words.lines.split("-")) if words.lines else (0, sys.maxsize)
    for module in words.modules or known.tests:
        every = [one for one in mutants_of(module) if first <= one.line <= last]
        every = [one for one in every if alive is None or one.key in alive]
        rest = [one for one in every if one.key not in known.equivalent]
        outcomes[module] = Outcome(len(every), len(every) - len(rest))
        todo += rest
    possible = len(todo)
    if words.sample is not None and words.sample < possible:
        todo = random.Random(words.seed).sample(todo, words.sample)
    if words.list:
        for one in todo:
            print(f"{one.module}:{one.line} [{one.function}] {one.change}  {one.text}")
        return 0
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.path[:0] = [str(ROOT / name) for name in PATHS]
    for library in LIBRARIES:
        importlib.import_module(library)
    for module, outcome in outcomes.items():
        chosen = [one for one in todo if one.module == module]
        if chosen:
            _try(module, chosen, known.tests[module], outcome)
        print(
            f"{module}: {outcome.mutants} mutants, {outcome.equivalent} equivalent, "
            f"{outcome.tried} tried, {outcome.killed} killed ({outcome.timeout} by time), "
            f"{len(outcome.alive)} alive, {outcome.seconds:.0f} s",
            flush=True,
        )
    tried = sum(one.tried for one in outcomes.values())
    killed = sum(one.killed for one in outcomes.values())
    share = killed / tried if tried else 1.0  # all of an earlier result may be equivalent
    low, high = _interval(killed, tried) if tried else (0.0, 1.0)
    document = {
        "sample": words.sample,
        "seed": words.seed if words.sample is not None else None,
        "possible": possible,
        "tried": tried,
        "killed": killed,
        "share": share,
        "interval_95": [low, high] if tried < possible else None,
        "modules": {name: {**vars(one), "tried": one.tried} for name, one in outcomes.items()},
    }
    words.output.parent.mkdir(parents=True, exist_ok=True)
    words.output.write_text(json.dumps(document, indent=1) + "\n")
    between = f" (95 % interval {low:.1%} to {high:.1%})" if tried < possible else ""
    print(f"{killed} of {tried} mutants killed, {share:.1%}{between}. Result: {words.output}")
    return 0 if share >= LEAST and not known.stale else 1


if __name__ == "__main__":
    sys.exit(main())
