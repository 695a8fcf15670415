# SPDX-License-Identifier: Apache-2.0
"""Every example of README and docs that may be copied runs when copied.

Commands on stored runs are executed here. Commands that measure are parsed with the catalogue of
the real agent up to the moment at which the first agent would start: names, options, values and
plans are checked. tests/machine/test_examples_measured.py executes those that measure this machine.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import click
import numpy as np
import pytest

import captures
import marked
import xenomai
from conftest import Run
from examples import LANGUAGES, ROOT, UNTRIED, Command, Example, commands, examples, pretended
from rtgauge.catalogue import Catalogue
from rtgauge.cli import main
from rtgauge.cli.project import project
from rtgauge.lab.boards import MACHINES, Board, Own
from rtgauge.lab.registry import add
from rtgauge.plan import read_plan
from rtgauge.store import Store
from rtgauge.store.made import LATEST_S
from rtgauge.target.local import LocalTarget

COMMANDS = commands()
OURS = [command for command in COMMANDS if command.is_rtgauge and not command.untried]

#: Executed on stored runs: the words after rtgauge.
HOST_ALONE = (
    "runs", "show", "report", "compare", "delete", "export", "import", "describe", "check",
    "lab list", "lab prune", "lab config", "lab remove", "completion", "--version", "--help",
    "trend",
)  # fmt: skip
#: Parsed up to the start of the first agent.
MEASURES = ("run", "evaluate", "xeno-test", "log-host", "lab run")
#: Parsed by click alone, and why.
PARSED = {
    "explain": "boots the board of a run again: tests/lab/test_explain.py does",
    "tune": "many runs: test_tune.py carries it out on a fake",
    "lab add": "needs a kernel and the folder of its build: test_lab_own.py adds boards",
    "lab shell": "boots a board with a shell on a terminal",
    "agent": "make check builds the static agents, and tests/cross uses them",
    "module": "changes the kernel. test_cli_module.py runs it with other programs in its place",
}


class Started(BaseException):
    """Raised in place of the start of the first agent."""


def id_of(value: Command | Example) -> str:
    return value.text[:60] if isinstance(value, Command) else value.place


def test_every_block_says_what_it_is() -> None:
    found = list(examples())
    assert len(found) > 40
    for example in found:
        assert example.language in LANGUAGES, f"{example.place}: name one of {', '.join(LANGUAGES)}"
    for language in LANGUAGES:
        assert any(example.language == language for example in found), f"no page uses {language}"


def test_every_command_is_tried_or_has_a_reason() -> None:
    for command in OURS:
        kind = " ".join(command.words[1:3])
        known = (*HOST_ALONE, *MEASURES, *PARSED)
        assert any(re.match(rf"{re.escape(name)}( |$)", kind) for name in known), str(command)
    for command in COMMANDS:
        assert command in OURS or command.words[0] == "make" or command.untried, str(command)
    for start in UNTRIED:
        assert any(command.text.startswith(start) for command in COMMANDS), f"{start}: not used"


@pytest.mark.parametrize(
    "command",
    [one for one in COMMANDS if one.words[0] == "make" and not one.untried],
    ids=id_of,
)
def test_make_has_the_target(command: Command) -> None:
    if "-C" in command.words:  # kmod: tools/kmod.py builds it
        assert (ROOT / command.words[command.words.index("-C") + 1] / "Makefile").exists()
        return
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for word in command.words[1:]:
        assert "=" in word or word in targets


LABELS = (
    "before", "after", "as-is", "prepared", "isolated", "good", "new", "nightly", "thumb2", "arm",
    "cobalt", "linux", "glibc", "musl", "theirs", "ours",
)  # fmt: skip


@pytest.fixture(scope="module", name="stored")
def store_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the runs that examples name by labels, a study of two targets, which is
    the last, and its results."""
    folder = tmp_path_factory.mktemp("stored")
    named = [["--label", label] for label in LABELS]
    words = ["run", "timer", "--target", "fake", "--for", "2s", "--load", "sched"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder))
        patch.delenv("RTGAUGE_STORE", raising=False)
        patch.chdir(folder)
        for more in (*named, ["--target", "fake:late", "-o", "results.json"]):
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                assert main([*words, *more]) == 0, said.getvalue()
    return folder


@pytest.fixture(scope="module", name="named")
def write_files(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that examples name."""
    folder = tmp_path_factory.mktemp("named")
    shutil.copy(stored / "results.json", folder)
    captures.session(folder / "night.sr", captures.regular(1000, 3000))
    for name in ("latency.txt", "latency-t1.txt"):
        (folder / name).write_text(xenomai.latency(np.full((3, 1000), 2000)))
    (folder / "build").mkdir()
    for place in (".config", "build/.config"):
        (folder / place).write_text("# Linux/x86 6.12.0 Kernel Configuration\nCONFIG_SMP=y\n")
    plan = next(one for one in examples() if one.language == "toml" and "[[step]]" in one.text)
    for name in ("mine.toml", "plan.toml"):
        (folder / name).write_text(plan.text)
    return folder


@pytest.fixture(name="here")
def prepare_folder(
    stored: Path, named: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files that examples name, in the current folder, and a store of the test's own."""
    data = tmp_path / "data"
    shutil.copytree(stored, data)
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    shutil.copytree(named, ".", dirs_exist_ok=True)
    for name in ("mine", "cobalt"):
        add(Board(name, MACHINES["x86_64"], "", False, Own(Path("/linux/bzImage"))))


@pytest.fixture(name="nothing_starts")
def stop_before_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every target has the catalogue of the real agent, and none is started."""

    def refuse(*_words: Any, **_more: Any) -> NoReturn:
        raise Started

    monkeypatch.setattr("rtgauge.target.open_target", pretended)
    monkeypatch.setattr("rtgauge.engine.study.execute", refuse)
    monkeypatch.setattr("rtgauge.lab.image", refuse)


def of(kinds: Iterator[str] | tuple[str, ...]) -> list[Command]:
    """The commands whose words after rtgauge begin with one of these."""
    starts = tuple(f"{kind} " for kind in kinds)
    return [one for one in OURS if f"{' '.join(one.words[1:])} ".startswith(starts)]


def record_marks(command: Command) -> None:
    """The last run of the store was marked, and the file has its line on the channel."""
    name, channel = (command.words[command.words.index(one) + 1] for one in ("import", "--mark"))
    widths = np.arange(10, 40) * 1000
    with Store.open() as store:
        marked.marked_run(store, {"acquire": widths - 5000}, when=LATEST_S)
    rises = np.cumsum(widths + 50_000.0)
    marked.line(Path(name), rises, widths.astype(np.float64), channel)


@pytest.mark.slow
@pytest.mark.parametrize("command", of(HOST_ALONE), ids=id_of)
@pytest.mark.usefixtures("here", "nothing_starts")
def test_it_is_executed(command: Command, rtgauge: Run) -> None:
    if "--mark" in command.words:
        record_marks(command)
    done = rtgauge(*command.words[1:])
    allowed = (0, 3) if "--strict" in command.words else (0,)
    if "--gate" in command.words:  # one run of each label proves nothing
        allowed = (0, 77)
    assert done.code in allowed, f"{command}\n{done.err}"


@pytest.mark.slow
@pytest.mark.parametrize("command", of(MEASURES), ids=id_of)
@pytest.mark.usefixtures("here", "nothing_starts")
def test_it_is_parsed_up_to_the_start_of_the_agent(command: Command, rtgauge: Run) -> None:
    if {"--help", "--dry-run"} & {*command.words}:
        assert rtgauge(*command.words[1:]).code == 0
        return
    with contextlib.suppress(Started):
        done = rtgauge(*command.words[1:])
        pytest.fail(f"{command.example.place}: {command.text}\n{done.err}")


@pytest.mark.parametrize("command", of(tuple(PARSED)), ids=id_of)
def test_click_parses_it(command: Command) -> None:
    from rtgauge.cli.main import cli  # noqa: PLC0415

    context = cli.make_context("rtgauge", list(command.words[1:]))
    group, rest = context.command, list(command.words[1:])
    while isinstance(group, click.Group):
        _, found, rest = group.resolve_command(context, rest)
        assert found is not None
        group = found
    group.make_context("rtgauge", rest, parent=context)


@pytest.mark.parametrize(
    "example", [one for one in examples() if one.language == "toml"], ids=id_of
)
def test_a_plan_or_a_project_is_read(example: Example) -> None:
    document = tomllib.loads(example.text)
    if not {"plan", "step", "rating"} & set(document):  # the file of a project
        Path("rtgauge.toml").write_text(example.text)
        found = project()
        assert found.path == Path("rtgauge.toml").absolute()
        assert found.target == document["target"]
        return
    if "step" not in document:  # ratings alone: part of a plan
        text = '[[step]]\nmeasurement = "timer"\n\n' + example.text
    else:
        text = example.text
    Path("plan.toml").write_text(text)
    plan = read_plan(Path("plan.toml"), Catalogue.from_json(LocalTarget().describe()))
    assert plan.steps


@pytest.mark.slow
@pytest.mark.parametrize(
    "example", [one for one in examples() if one.language == "python"], ids=id_of
)
@pytest.mark.usefixtures("here")
def test_python_is_executed(example: Example) -> None:
    code = compile(example.text, example.place, "exec")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, {})
    except SystemExit as end:  # the gate that requires proof
        assert "raise SystemExit" in example.text
        assert str(end).startswith("not proven: ")
