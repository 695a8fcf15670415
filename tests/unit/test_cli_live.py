# SPDX-License-Identifier: Apache-2.0
"""The live view: what a terminal shows while a step is measured."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import re
import termios
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgauge.catalogue import Catalogue
from rtgauge.cli import progress as progress_module
from rtgauge.cli.progress import ConsoleProgress, Screen, _takes_text, fitted, measured
from rtgauge.cli.view import Line, lines, plain
from rtgauge.engine.live import LiveStep
from rtgauge.engine.study import execute
from rtgauge.plan import Plan, PlannedStep, planned_step
from rtgauge.plan import endless as plan_endless
from rtgauge.store import Store
from rtgauge.stream import Verdict, Work
from rtgauge.target import open_target
from rtgauge.target.fake import CATALOGUE
from rtgauge.text import GAP
from test_live import event, info, samples

NS = 10**9
HARM = "\x1b]0;owned\x07\x9b2J\x1b[31m\u202e測\u0301\n\r"


class Terminal(io.StringIO):
    """A terminal: what its screen shows, and what has left it at the top."""

    encoding = "utf-8"

    def __init__(self, columns: int = 80, height: int = 24) -> None:
        super().__init__()
        self.columns, self.height = columns, height
        self.screen = [""]
        self.row = self.column = 0
        self.gone: list[str] = []
        self.broken = 0  # lines that continued in the next one

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for piece in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+", text):
            if piece.startswith("\x1b"):
                self._obey(piece[2:-1], piece[-1])
            elif piece == "\r":
                self.column = 0
            elif piece == "\n":
                self._next()
            else:
                assert piece.isprintable(), piece
                for character in piece:
                    self._put(character)
        return len(text)

    def _obey(self, number: str, letter: str) -> None:
        if letter == "A":
            self.row = max(0, self.row - int(number))
        elif letter in "KJ":
            self.screen[self.row] = self.screen[self.row][: self.column]
            if letter == "J":
                del self.screen[self.row + 1 :]
        else:
            assert letter == "m"

    def _next(self) -> None:
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.screen):
            self.screen.append("")
        if self.row == self.height:
            self.gone.append(self.screen.pop(0))
            self.row -= 1

    def _put(self, character: str) -> None:
        if self.column == self.columns:
            self.broken += 1
            self._next()
        line = self.screen[self.row].ljust(self.column)
        self.screen[self.row] = line[: self.column] + character + line[self.column + 1 :]
        self.column += 1

    def text(self) -> str:
        return "\n".join([*self.gone, *self.screen])


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()

    def size(*_: Any) -> os.terminal_size:
        return os.terminal_size((made.columns, made.height))

    monkeypatch.setattr("shutil.get_terminal_size", size)
    monkeypatch.setattr("os.get_terminal_size", size)
    monkeypatch.setattr(progress_module, "REFRESH_S", 0)
    return made


def measure(stream: io.StringIO, target: str = "fake", **settings: str) -> None:
    opened = open_target(target)
    catalogue = Catalogue.from_json(opened.describe())
    step = planned_step(catalogue, "timer", {"for": "3s", "load": "sched", **settings})
    with Store.open("data") as store:
        execute(Plan("x", (step,)), [opened], store, ConsoleProgress(stream, {}))


def test_the_view_stands_where_it_is_and_leaves_one_line_behind(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[list[str]] = []
    draw = Screen.draw

    def watch(self: Screen, wanted: list[Line]) -> None:
        draw(self, wanted)
        begin = len(terminal.screen) - 1 - len(wanted)
        shown.append([line.rstrip() for line in terminal.screen[begin:]])
        assert shown[-1] == [*(line.text(color=False) for line in wanted), ""]
        assert not any(line in terminal.text().split(shown[-1][0])[0] for line in shown[-1][1:-1])

    monkeypatch.setattr(Screen, "draw", watch)
    measure(terminal, method="nanosleep,timerfd", budget="10us")
    assert len(shown) > 5
    last = "\n".join(shown[-1])
    assert "[1/1] timer --for 3s --method nanosleep,timerfd, load sched, budget 10us" in last
    assert "load  sched 100 k messages/s" in last
    assert re.search(r"^   1  timerfd      1000 ( +[0-9.]+){4}   .*█.*▁", last, re.M)
    assert re.search(r"^ all +4000 ", last, re.M)
    assert terminal.broken == 0
    kept = terminal.text().splitlines()
    assert [line.split(" ")[0] for line in kept] == ["run", "calibration:", "[1/1]"]
    assert re.fullmatch(
        r"\[1/1\] timer --for 3s …, load sched, budget 10us: complete, latency max [0-9.]+ µs",
        kept[-1],
    )
    assert len(kept[-1]) < 80


@pytest.mark.slow
def test_without_a_terminal_there_are_lines_and_nothing_else() -> None:
    stream = io.StringIO()
    measure(stream)
    written = stream.getvalue()
    assert "\x1b" not in written and "\r" not in written
    assert [line.partition(" ")[0] for line in written.splitlines()] == [
        "run", "calibration:", "[1/1]",
    ]  # fmt: skip
    # language-ok: the line of a step that has ended
    assert "[1/1] timer --for 3s, load sched: complete, latency max " in written
    assert written.endswith(" µs, mean 2.83, min 2.00, 6 000 samples\n")
    # a step that lasts long has a line when it begins, too
    stream = io.StringIO()
    measure(stream, **{"for": "40s", "interval": "100ms"})
    assert "[1/1] timer --for 40s --interval 100ms, load sched (40 s) …\n[1/1]" in stream.getvalue()


def test_a_dumb_terminal_is_none() -> None:
    stream = Terminal()
    ConsoleProgress(stream, {"TERM": "dumb"}).step_went_on(many(3))
    assert stream.text() == ""


@pytest.mark.parametrize(("environment", "colored"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_color_is_an_addition(environment: Mapping[str, str], colored: bool) -> None:
    stream = io.StringIO()
    screen = Screen(stream, environment)
    screen.draw(lines(many(3), "[1/1] ", 79, 23))
    written = stream.getvalue()
    assert ("\x1b[1m" in written) is colored
    plainly = re.sub(r"\x1b\[[0-9;]*m", "", written)
    assert plainly.count("latency in µs") == 1
    assert set(re.findall(r"\x1b\[[0-9;]*([A-Za-z])", plainly)) == {"J", "K"}


def test_a_terminal_without_block_elements() -> None:
    for line in lines(many(3), "[1/1] ", 79, 23, blocks=False):
        assert line.text(color=False).isascii()


def many(cpus: int, labels: Mapping[str, str] = MappingProxyType({}), **changes: Any) -> LiveStep:
    """A step with so many CPUs in which CPU n has the maximum (n + 1) · 10 us."""
    live = LiveStep(PlannedStep("timer", {"for": "10s"}, {"load": "sched"}), 10.0, elapsed_s=2.5)
    for cpu in range(cpus):
        live.take(info(cpu, labels=MappingProxyType(dict(labels)), **changes))
        for second in range(3):
            live.take(samples([2000, 2100, (cpu + 1) * 10_000], second * NS, cpu))
    live.take(Work(9, "sched", "messages", 12_345_678, 0, NS))
    return live


def test_the_worst_come_first_where_not_all_fit() -> None:
    shown = [line.text(color=False) for line in lines(many(64), "[1/1] ", 79, 23)]
    assert len(shown) == 23
    assert "the worst 17 of 64" in shown[3]
    assert [line.split()[0] for line in shown[5:]] == [*map(str, range(63, 46, -1)), "all"]
    assert "640" in shown[5].split() and "640" in shown[-1].split()
    every = [line.text(color=False) for line in lines(many(64), "[1/1] ", 119, 80)]
    assert [line.split()[0] for line in every[5:]] == [*map(str, range(64)), "all"]
    assert "max of each second" in every[4]


def test_missed_periods_have_a_column_when_there_are_any() -> None:
    live = many(2)
    assert not any("missed" in line.text(color=False) for line in lines(live, "", 79, 23))
    live.take(event("missed", series=1, index=1, count=1553))
    shown = [line.text(color=False) for line in lines(live, "", 79, 23)]
    assert "missed" in shown[4]
    assert "1553" in shown[6].split() and "1553" in shown[7].split()
    assert "max  recent  missed" in shown[4]
    shown = [line.text(color=False) for line in lines(live, "", 46, 23)]
    assert shown[4].endswith(" missed") and "recent" not in shown[4]
    assert shown[6].split()[-1] == shown[7].split()[-1] == "1553"


@pytest.mark.parametrize("columns", [50, 59, 70, 79])
def test_no_number_of_a_table_is_cut(columns: int) -> None:
    """The range of the picture ended with "10…" for 10000, and "…" replaced the missed periods."""
    live = LiveStep(PlannedStep("timer"), 10.0)
    for cpu, method in enumerate(("clock_nanosleep", "timerfd")):
        live.take(info(cpu, labels=MappingProxyType({"method": method})))
        live.take(samples([4000, 9_922_000], 0, cpu))
    live.take(event("missed", series=1, index=1, count=1553))
    head, *rows = [line.text(color=False) for line in lines(live, "", columns, 23)][3:]
    assert "missed" in head
    assert "1553" in rows[1].split() and "1553" in rows[-1].split()
    assert not any("…" in row[20:] for row in (head, *rows))


def test_a_load_that_died_is_told() -> None:
    live = many(2)
    live.take(event("load", series=None, load="sched", message="killed by signal 9"))
    assert any("sched: killed by signal 9" in line.text(color=False)
               for line in lines(live, "", 79, 23))  # fmt: skip


def test_without_a_length_the_time_that_passed_stands_there() -> None:
    live = many(1)
    live.time_s = None
    assert lines(live, "", 79, 23)[1].text(color=False) == " measuring for 2.0 s"
    live.endless = True
    assert lines(live, "", 79, 23)[1].text(color=False) == " measuring for 2.0 s, until Ctrl-C"


def test_no_more_than_the_expected_length_is_shown_as_passed() -> None:
    live = many(1)
    live.time_s = 1.0  # 2 s have passed
    assert lines(live, "", 79, 23)[1].text(color=False).endswith(" 100 %  1.0 s of 1.0 s, ending")


@pytest.mark.parametrize(
    ("settings", "endless"),
    [({}, False), ({"for": "0"}, True), ({"for": "0", "samples": "9"}, False)],
)
def test_only_a_step_without_an_end_waits_for_ctrl_c(
    settings: Mapping[str, str], endless: bool
) -> None:
    with contextlib.closing(open_target("fake")) as target:
        catalogue = Catalogue.from_json(target.describe())
    assert plan_endless(planned_step(catalogue, "timer", settings), catalogue) is endless
    assert not plan_endless(planned_step(catalogue, "clock-cost", {}), catalogue)


def test_a_measurement_with_a_time_limit_alone_ends_by_itself() -> None:
    """As mutex-inversion does after its rounds. The limit is off by default."""
    document = copy.deepcopy(dict(CATALOGUE))
    (timer,) = [one for one in document["measurements"] if one["name"] == "timer"]
    timer["options"] = [one for one in timer["options"] if one["name"] != "samples"]
    catalogue = Catalogue.from_document(document)
    assert not plan_endless(planned_step(catalogue, "timer", {"for": "0"}), catalogue)


def test_no_figure_is_a_negative_zero() -> None:
    live = LiveStep(PlannedStep("timer"), 10.0)
    live.take(info(0))
    live.take(samples([-2, -1, 2000], 0, 0))
    row = lines(live, "", 79, 23)[4].text(color=False)
    assert row.split()[1:4] == ["-", "0.00", "0.67"]
    assert measured(live) == [f"latency max 2.00{GAP}µs", "mean 0.666", "min 0.00", "3 samples"]


def test_the_maximum_is_not_rounded_to_the_budget() -> None:
    live = LiveStep(PlannedStep("timer", budget_ns=150_000), 10.0)
    live.take(info(0))
    live.take(samples([5000, 150_001], 0, 0))
    assert measured(live)[0] == f"latency max 150.001{GAP}µs"


@pytest.mark.parametrize(("gaps", "name"), [("", "hardware"), ("hardware", "irq")])
def test_a_step_with_gaps_of_several_causes_shows_the_longest(gaps: str, name: str) -> None:
    maxima = {"hardware": 1000, "irq": 3000, "other": 2000}
    live = LiveStep(PlannedStep("noise", unseen_gaps=gaps), 10.0)
    for number, (cause, value) in enumerate(maxima.items()):
        live.take(info(number, name=cause))
        live.take(samples([500, value], 0, number))
    assert measured(live)[0] == f"{name} max {maxima[name] / 1000:.2f}{GAP}µs"


def test_a_planned_step_knows_whether_its_quantities_are_gaps_by_their_cause() -> None:
    document = copy.deepcopy(dict(CATALOGUE))
    document["measurements"][0]["unseen_gaps"] = "hardware"
    catalogue = Catalogue.from_document(document)
    name = document["measurements"][0]["name"]
    assert planned_step(catalogue, name, {}).unseen_gaps == "hardware"


def test_what_a_step_without_samples_says_is_its_tests() -> None:
    live = LiveStep(PlannedStep("rules"), None)
    assert measured(live) == []
    for result in ("pass", "pass", "skipped"):
        live.take(Verdict(0, "rule", result, "", ""))
    assert measured(live) == ["pass: 2 tests"]
    live.take(Verdict(0, "rule", "fail", "", ""))
    assert measured(live) == ["1 fail: 3 tests"]


STEPS = (
    "mutex-contended --protocol inherit,protect --samples 1000, load sched:groups=4,cpu",
    "timer --for 25s, idle",
    "irq-to-thread --for 5s, load sched:groups=4,cpu, budget 150us",
    "measurement-without-options, idle",
)


@pytest.mark.parametrize("columns", [40, 60, 79])
@pytest.mark.parametrize("step", STEPS)
def test_a_line_of_a_step_always_shows_state_and_figure(step: str, columns: int) -> None:
    result = "complete, acquire max 27.9 µs"
    text = fitted(step, result, ["mean 1.70", "min 1.22"], columns)
    assert len(text) <= columns
    assert f": {result}" in text
    assert text[0] == step[0]
    if columns == 79:
        assert text.startswith(step.split(" ", maxsplit=1)[0])
        assert step.split(", ")[1] in text


@pytest.mark.parametrize("place", ["", "[2/39] ", "ssh://board: [2/39] "])
def test_a_line_of_a_step_keeps_its_name(place: str) -> None:
    step = f"{place}timer --for 35s, load sched:groups=4,cpu, budget 150us"
    assert fitted(step, "complete", [], 60).startswith(f"{place}timer ")
    assert fitted(step, "complete, latency max 9 956 µs", [], 79).startswith(f"{place}timer ")


def test_a_reason_is_told_once(terminal: Terminal) -> None:
    progress = ConsoleProgress(terminal, {"NO_COLOR": "1"})
    live = LiveStep(PlannedStep("irq-latency", {"for": "5s"}), 5.0)
    reason = "the kernel module rtgauge is not loaded, so that no interrupt can be timed on the CPU"
    for number in (1, 2, 3):
        progress.step_started(live, number, 3)
        progress.step_ended(live, {"state": "skipped", "reason": reason})
    kept = terminal.text().splitlines()
    assert " ".join(" ".join(kept).split()).count(reason) == 1
    assert kept[0].startswith("[1/3] irq-latency --for 5s, idle: skipped")
    assert kept[1:3] == [
        "  the kernel module rtgauge is not loaded, so that no interrupt can be timed on",
        "    the CPU",
    ]
    assert kept[3].startswith("[2/3] irq-latency --for 5s, idle: skipped, as [1/3]")
    assert terminal.broken == 0


def test_how_long_all_steps_take_is_shown(terminal: Terminal) -> None:
    """The first of three steps of 10 s has just begun, and 20 s follow."""
    progress = ConsoleProgress(terminal, {"NO_COLOR": "1"})
    live = many(1)
    live.after_s = 20.0
    progress.step_started(live, 1, 3)
    progress.step_went_on(live)
    found = re.search(r"^\[1/3\] timer .*  (\d+) s left in total$", terminal.text(), re.M)
    assert found and 20 <= int(found[1]) <= 30
    live.after_s = 0.0
    progress.step_started(live, 3, 3)
    progress.step_went_on(live)
    assert "left in total" not in terminal.text()
    stream = io.StringIO()
    progress = ConsoleProgress(stream, {})
    live.after_s = 20.0
    progress.step_started(live, 1, 3)
    progress.step_ended(live, {"state": "skipped", "reason": ""})
    assert stream.getvalue().endswith(" samples, 20 s left\n")


def seconds_left(
    monkeypatch: pytest.MonkeyPatch,
    steps: list[tuple[float, float, str]],
    *,
    runs: int = 1,
    left: progress_module._Left | None = None,
) -> list[float]:
    """The time left after each step of the first of ``runs``, in seconds. ``steps``: how long each
    should measure, how long it takes, and how it ends (``known``: it is skipped, and no estimate
    counts it). ``left``: what the runs before it left."""
    clock = [0.0]
    monkeypatch.setattr("rtgauge.cli.progress.time.monotonic", lambda: clock[0])
    left = left or progress_module._Left()
    left.begin_run(runs - 1)
    found = []
    for at, (length_s, takes_s, state) in enumerate(steps):
        live = LiveStep(PlannedStep("timer", {}), length_s)
        live.after_s = sum(one[0] for one in steps[at + 1 :] if one[2] != "known")
        left.begin(live, len(steps) - at - 1)
        clock[0] += takes_s
        left.end("skipped" if state == "known" else state)
        found.append(left.after())
    return found


def test_skipped_steps_never_prolong_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first steps end earlier than expected. The skipped ones after them should last less than
    what was gained."""
    steps = [(2.0, 0.3, "complete")] * 4 + [(1.0, 0.0, "skipped")] * 6 + [(1.0, 1.0, "complete")]
    left = seconds_left(monkeypatch, steps)
    assert left == sorted(left, reverse=True)
    assert left[3] == 7.0 and left[-2] == 1.0


def test_a_step_that_fails_at_once_does_not_shorten_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = seconds_left(monkeypatch, [(60.0, 0.0, "failed")] + [(60.0, 61.0, "complete")] * 3)
    assert left[0] == 180.0


def test_skipped_steps_do_not_count_in_the_runs_that_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of the two following runs takes 12 s: the skipped step does not last in any of them."""
    steps = [(10.0, 12.0, "complete"), (60.0, 0.1, "skipped")]
    assert seconds_left(monkeypatch, steps, runs=3) == [62.0 + 2 * 74.0, 2 * 12.0]


def test_steps_known_to_be_skipped_do_not_count_in_any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [(10.0, 10.0, "complete"), (60.0, 0.0, "known"), (20.0, 20.0, "complete")]
    assert seconds_left(monkeypatch, steps, runs=2) == [20.0 + 30.0, 20.0 + 30.0, 30.0]


def test_the_time_left_does_not_grow_at_the_start_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the run before it skipped does not count, until it is carried out after all."""
    skips = [(10.0, 10.0, "complete"), (60.0, 0.0, "skipped")]
    left = progress_module._Left()
    assert seconds_left(monkeypatch, skips, runs=3, left=left) == [60.0 + 2 * 70.0, 2 * 10.0]
    assert seconds_left(monkeypatch, skips, runs=2, left=left) == [10.0, 10.0]
    steps = [skips[0], (60.0, 60.0, "complete")]
    assert seconds_left(monkeypatch, steps, runs=2, left=left) == [10.0, 70.0]


def test_quiet_says_only_what_failed(terminal: Terminal) -> None:
    progress = ConsoleProgress(terminal, {"NO_COLOR": "1"}, steps=False, live=False)
    for number, state in ((1, "complete"), (2, "failed")):
        progress.step_started(many(1), number, 2)
        progress.step_went_on(many(1))
        progress.step_ended(many(1), {"state": state, "reason": "it broke" * (number - 1)})
    kept = terminal.text().splitlines()
    assert kept[0].startswith("[2/2] timer --for 10s, load sched: failed, latency max 10.0 µs")
    assert kept[1:] == ["  it broke"] and terminal.broken == 0


def test_a_terminal_with_another_encoding(terminal: Terminal) -> None:
    terminal.encoding = "ascii"
    progress = ConsoleProgress(terminal, {"NO_COLOR": "1"})
    progress.step_started(many(1), 1, 1)
    progress.step_went_on(many(1))
    assert "latency in us" in terminal.text() and terminal.text().isascii()
    progress.step_ended(many(1), {"state": "complete", "reason": ""})
    assert "complete, latency max 10.0 us" in terminal.text() and terminal.text().isascii()


TEXTS = st.text(max_size=40) | st.just(HARM)


@pytest.mark.slow
@given(st.integers(1, 130), st.integers(1, 45), st.integers(0, 70), TEXTS,
       st.integers(-(2**31), 2**31 - 1), st.booleans(), st.booleans())  # fmt: skip
def test_no_frame_is_larger_than_its_terminal(
    columns: int, height: int, cpus: int, text: str, value: int, blocks: bool, missed: bool
) -> None:
    """Whatever the target calls its things, and whatever it measured."""
    live = many(cpus, {"method": text}, name=text, unit=text[:5] or "ns", scale=max(1, len(text)))
    live.take(Work(9, text, text, 2**60, 0, 1))
    live.take(samples([value], 10 * NS, 0))
    live.take(event("wide", index=3, value=value * 2**31))
    if missed:
        live.take(event("missed", index=1, count=2**62))
    frame = lines(live, "[1/1] ", columns, height, blocks=blocks)
    assert len(frame) <= height
    for line in frame:
        assert line.width <= columns
        written = line.text(color=False)
        assert len(written) <= columns
        assert written.isprintable()
        assert re.sub(r"\x1b\[[0-9;]*m", "", line.text(color=True)).isprintable()


@given(TEXTS)
def test_every_character_takes_one_column(text: str) -> None:
    assert plain(text).isprintable() or plain(text) == ""
    assert len(plain(text)) == min(len(text), 400)
    assert not set(plain(text)) & set(HARM[:-2]) - set("]0;owned[231mJ") - {"\ufffd"}


def test_the_view_follows_the_size_of_the_terminal(terminal: Terminal) -> None:
    screen = Screen(terminal, {"NO_COLOR": "1"})
    live = many(64)
    terminal.write("before\n")
    for columns, height in ((80, 24), (120, 40), (60, 12), (20, 3), (80, 24)):
        terminal.columns, terminal.height = columns, height
        for _ in range(2):
            while len(terminal.screen) > height:
                terminal.gone.append(terminal.screen.pop(0))
                terminal.row -= 1
            wanted = lines(live, "", *screen.size())
            screen.draw(wanted)
            shown = [line.text(color=False) for line in wanted]
            assert terminal.screen[-len(shown) - 1 :] == [*shown, ""]


def test_what_is_typed_goes_away_and_messages_stay(terminal: Terminal) -> None:
    progress = ConsoleProgress(terminal, {"NO_COLOR": "1"})
    live = many(2)
    progress.step_went_on(live)
    terminal.write("^C")
    progress.message("stopping in order")
    progress.step_went_on(live)
    text = terminal.text()
    assert text.startswith("stopping in order\ntimer --for 10s")
    assert "^C" not in text and text.count("latency in µs") == 1


def test_a_stopped_terminal_does_not_hold_up_the_steps(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-S: a line at the end of a step waits, not the next step."""
    taken = [False]
    monkeypatch.setattr(progress_module, "_takes_text", lambda _: taken[0])
    progress = ConsoleProgress(terminal, {"NO_COLOR": "1"})
    progress.step_ended(many(1), {"state": "complete", "reason": ""})
    progress.step_went_on(many(1))
    assert terminal.text() == ""
    taken[0] = True
    progress.step_went_on(many(1))
    assert terminal.text().startswith("timer --for 10s, load sched: complete, latency max")
    assert "latency in µs" in terminal.text()
    taken[0] = False
    progress.message("at the end")
    assert "at the end" not in terminal.text()
    progress.close()
    assert terminal.text().endswith("at the end\n")


def test_a_terminal_that_was_stopped_takes_no_text() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(ours, "r+b", buffering=0), os.fdopen(theirs, "w") as stream:
        assert _takes_text(stream)
        termios.tcflow(stream, termios.TCOOFF)
        assert not _takes_text(stream)
        termios.tcflow(stream, termios.TCOON)
        assert _takes_text(stream)


def test_runs_at_once_stand_below_each_other(terminal: Terminal) -> None:
    whole = ConsoleProgress(terminal, {})
    lanes = [whole.of_target("rt"), whole.of_target("stock")]
    for lane, number in zip(lanes, (2, 3), strict=True):
        live = many(number)
        lane.step_started(live, 1, 2)
        lane.step_went_on(live)
    shown = "\n".join(terminal.screen)
    assert shown.index("rt [1/2] timer") < shown.index("stock [1/2] timer")
    assert len([line for line in terminal.screen if line.strip()]) <= terminal.height
    lanes[0].step_ended(many(2), {"state": "complete", "reason": ""})
    lanes[1].step_went_on(many(3))
    kept = terminal.text().splitlines()
    assert kept[0].startswith("rt [1/2] timer") and ": complete" in kept[0]
    assert sum(line.startswith("rt [1/2]") for line in kept) == 1
    assert "stock [1/2] timer" in "\n".join(kept[1:])


def test_a_terminal_that_takes_nothing_holds_up_nothing() -> None:
    """Ctrl-S: the view waits, the measurement does not."""
    ours, theirs = os.openpty()
    try:
        with open(theirs, "w", closefd=False) as stream:
            progress = ConsoleProgress(stream, {})
            progress.step_went_on(many(2))
            seen = os.read(ours, 65536)
            assert "latency in µs".encode() in seen
            import termios  # noqa: PLC0415

            termios.tcflow(theirs, termios.TCOOFF)
            for _ in range(3):
                progress._console.shown = 0.0
                progress.step_went_on(many(3))
            termios.tcflow(theirs, termios.TCOON)
            os.set_blocking(ours, False)
            with pytest.raises(BlockingIOError):
                os.read(ours, 65536)
    finally:
        os.close(ours)
        os.close(theirs)
