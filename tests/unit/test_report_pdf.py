# SPDX-License-Identifier: Apache-2.0
"""The PDF report, read back with poppler's tools: pages, contents, bookmarks, text, figures,
hostile text from a target, and the same bytes for the same run."""

from __future__ import annotations

import importlib.util
import itertools
import math
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Group

import report_pages as pages
import report_runs as made
from rtgauge import report, stream
from rtgauge.errors import RtgaugeError
from rtgauge.report.document import blocks
from rtgauge.report.document.cover import Cover
from rtgauge.report.document.tables import Cell, Grid, Named, Row
from rtgauge.report.document.views import views as views_of
from rtgauge.report.pictures import drawing, figures, scales
from rtgauge.report.render import console, html, markdown, pdf, pdf_full
from rtgauge.report.results import model

SVG = "{http://www.w3.org/2000/svg}"


def poppler(tool: str, *words: str, data: bytes) -> str:
    if shutil.which(tool) is None:
        pytest.fail(f"{tool} is missing: install the Debian package poppler-utils")
    done = subprocess.run([tool, *words], input=data, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


class Paper:
    """A PDF as poppler reads it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        facts = poppler("pdfinfo", "-", data=data).splitlines()
        self.info = {key: value.strip() for key, _, value in (f.partition(":") for f in facts)}
        text = poppler("pdftotext", "-layout", "-", "-", data=data)
        self.pages = text.replace("\u2060", "").split("\f")[:-1]

    @property
    def text(self) -> str:
        """All of its text, with single spaces."""
        return " ".join(" ".join(self.pages).replace("\u202f", " ").split())

    def bookmarks(self) -> list[str]:
        text = poppler("pdftohtml", "-xml", "-i", "-stdout", "-", "x", data=self.data)
        inside = text.partition("<outline>")[2]
        return [" ".join(one.split()) for one in re.findall(r"<item[^>]*>([^<]+)</item>", inside)]

    def words(self) -> list[tuple[float, float, float, float, str]]:
        """Each word with its box."""
        text = poppler("pdftotext", "-bbox", "-", "-", data=self.data)
        found = re.findall(
            r'<word xMin="(\S+)" yMin="(\S+)" xMax="(\S+)" yMax="(\S+)">(.*?)</word>', text
        )
        return [(float(a), float(b), float(c), float(d), word) for a, b, c, d, word in found]


def paper(*runs: made.FakeRun, size: str = "a4") -> Paper:
    found: Any = list(runs)
    return Paper(pdf_full.render(model.analyse(found), size))


def within(read: Paper, width: float = 595.28, height: float = 841.89) -> None:
    """No word stands outside of the margins."""
    margin = (width - drawing.FULL) / 2 - 1.5
    outside = [w for w in read.words() if w[0] < margin or w[2] > width - margin or w[3] > height]
    assert not outside, outside[:5]


@pytest.fixture(scope="module")
def example() -> Paper:
    return paper(made.evaluation(2, 4000))


@pytest.mark.slow
def test_pages_contents_and_bookmarks(example: Paper) -> None:
    number = int(example.info["Pages"])
    assert 6 <= number <= 14
    assert example.info["Page size"].startswith("595.276 x 841.89 pts (A4)")
    assert example.info["Title"] == "Real-time evaluation of local"
    assert example.info["CreationDate"].startswith("Sat Nov 21 10:00:00 2026")
    assert "Answer" in example.pages[0]
    contents = " ".join(example.pages[1].split())
    chapters = (
        "What was tested", "Summary", "Overview of the steps", "Steps without a valid result",
        "Findings about the system", "Requested and effective settings",
        "Appendix: environment", "Appendix: more tables", "Appendix: method",
    )  # fmt: skip
    marks = example.bookmarks()
    for name in chapters:
        listed = re.search(rf"{name} [ .]*(\d+)", contents)
        assert listed is not None, name
        assert name in " ".join(example.pages[int(listed[1]) - 1].split())
        assert any(mark.endswith(name) for mark in marks), name
    for at, page in enumerate(example.pages, 1):
        assert f"page {at} of {number}" in " ".join(page.split())
        assert at == 1 or page.split("\n")[0].split() == ["local:", "bench", "board", "run",
                                                          "0192f0c4-6d1e"]  # fmt: skip
    within(example)


@pytest.mark.slow
def test_the_other_paper() -> None:
    read = paper(made.simple().run, size="letter")
    assert read.info["Page size"].startswith("612 x 792 pts (letter)")
    within(read, 612, 792)


@pytest.mark.slow
def test_the_content_is_that_of_the_html_report(example: Paper) -> None:
    runs: Any = [made.evaluation(2, 4000)]
    analysis = model.analyse(runs)
    (run,) = views_of(analysis).runs
    text = example.text

    def there(words: str) -> None:
        words = " ".join(words.replace("\u202f", " ").split())
        assert re.sub(r"\W", "", words) in re.sub(r"\W", "", text), words

    there(run["verdict"]["title"])
    printed = [line.strip() for page in example.pages for line in page.splitlines()]
    commands = [" ".join(row.command) for one in run["side_by_side"] for row in one.lines]
    assert commands and all(command in printed for command in commands)
    for point in (*run["positive"], *run["negative"]):
        there(point.text)
    for step in run["steps"]:
        there(step["title"])
        for group in step["groups"]:
            for sentence in (group["meaning"], *group["sentences"], group["table"].caption):
                there(sentence)
            for row in group["table"].rows:
                there(row.name)
                for cell in row.cells:
                    there(cell.text)
        for verdict in step["verdicts"]:
            there(verdict["rule"])
        for remark in step["observations"]:
            there(remark.text)


@pytest.mark.slow
def test_all_figures_are_there(example: Paper) -> None:
    runs: Any = [made.evaluation(2, 4000)]
    analysis = model.analyse(runs)
    shown = views_of(analysis)
    due = [view for step in shown.runs[0]["steps"] for group in step["groups"]
           for view in group["figures"] if view["kind"] != "strip"]  # fmt: skip
    assert len(due) >= 12
    numbered = {int(found) for found in re.findall(r"Figure (\d+)\.", example.text)}
    published = [step["ranges"] for step in shown.runs[0]["steps"] if step["ranges"]]
    assert published
    assert numbered == set(range(1, len(due) + len(published) + 2))  # and that of the answer
    for view in due:
        assert view["title"] in example.text
    assert "max 49 0" in example.text and "budget" in example.text
    assert poppler("pdfimages", "-list", "-", data=example.data).count("\n") == 2  # none: vectors


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes(example: Paper) -> None:
    again = paper(made.evaluation(2, 4000))
    assert again.data == example.data


TEXTS = (
    '#panic("x") #image("/etc/passwd") $x$ *b* _i_ = h <a> @ref [b] `c` // d /* e \\ "f" #{1+1}',
    "\x00\x07\x1b[31m\x7f\u202e\u2066\ufeff\u200b\ud7ff\ufffe control",
    "W" * 400,
    "a/very/long/path/without/any/space-and_with.every:mark" * 6,
    "שלום עולם العربية mixed with left to right",
    "emoji 😀👩‍🚀🇩🇪 中文 日本語 ไทย",
    "</text><script>&amp;\"'\u2028]]>",
    "line\nline\r\n\tline",
    '{{ x }} {% y %} #sys.inputs #read("x") -- --- ~ ...',
)


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_hostile_text_stays_text(text: str) -> None:
    read = paper(pages.hostile_run(text))
    within(read)
    shown = re.sub(r"\s", "", drawing.visible(text))
    found = re.sub(r"\s", "", read.text)
    # What runs from right to left is read back in another order.
    assert shown[:40] in found or any("\u0590" <= character <= "\u06ff" for character in text)
    harmless = paper(made.run([made.step(0, [])]))
    assert set(read.info) == set(harmless.info)


def test_what_no_font_has_is_named_by_its_code() -> None:
    assert drawing.visible("a😀\u202eb") == "a‹U+1F600›‹U+202E›b"
    assert drawing.visible("µs ≥ 3,5 é ж שלום ع") == "µs ≥ 3,5 é ж שלום ع"
    assert pdf.words("x" * 40).replace("\u200b", "") == "x" * 40
    assert max(len(one) for one in pdf.words("x" * 400).split("\u200b")) <= 9
    assert pdf.words("pthread_mutex_uncontended_lock") == (
        "pthread_\u200bmutex_\u200buncontended_\u200block"
    )


def test_short_words_are_no_figures() -> None:
    """Columns of figures are on the right, those of names such as local on the left."""
    columns = [["local", "vm"], ["–", "a"], ["≥\u202f48\u202f000\u202fµs", "–"], ["0.5 %", ""]]
    rows = [Row("x", [Cell(text) for text in row]) for row in zip(*columns, strict=True)]
    shown = pdf.table(Grid("x", ["Run", *"abcd"], rows, "", "x"))
    assert [one["right"] for one in shown["parts"]] == [[False, False, False, True, True]]


def test_ranges_and_shares_are_figures() -> None:
    """A bound, left in its column, touched the maximum before it."""
    gap = "\u202f"
    columns = [
        ["19 595 µs", "1.71 µs"],
        [f"1 in 4{gap}500", "–"],
        [f"1.12 to 1.42{gap}µs", f"1.11{gap}µs"],
        ["1 boot, 8 s", "2 boots, 8 s"],
        ["1 passed", "–"],
    ]
    rows = [Row("x", [Cell(text) for text in row]) for row in zip(*columns, strict=True)]
    shown = pdf.table(Grid("x", ["Run", *"abcde"], rows, "", "x"))
    assert shown["parts"][0]["right"] == [False, True, True, True, False, False]


@pytest.mark.slow
def test_events_are_in_pieces_side_by_side() -> None:
    columns = (stream.Column("rule", ""), stream.Column("time", "ns"),
               stream.Column("thread", ""), stream.Column("event", ""))  # fmt: skip
    rule = "the highest waiter comes first, arrival ascending"
    order = stream.Table(
        0, "order", columns, tuple((rule, 9 * at, "t", f"e{at}") for at in range(60))
    )
    read = paper(made.run([made.step(0, [], tables=[order])]))
    page = next(page for page in read.pages if "all events" in page)
    assert re.search(r"\be3\b.*\be33\b", page)
    assert page.count("arrival") == 2
    assert len([page for page in read.pages if len(page.splitlines()) < 8]) == 0


@pytest.mark.slow
def test_two_runs_in_one_report() -> None:
    second = made.evaluation(1, 3000)
    second.id = "0192f0c5-0000-7aaa-8000-000000000002"
    second.document.update(id=second.id, label="after the change")
    second.document["target"] = "board-2"
    read = paper(made.evaluation(1, 3000), second)
    assert "Runs side by side" in read.text
    marks = read.bookmarks()
    assert any("Run 1 of 2: local: bench board" in mark for mark in marks)
    assert any("Run 2 of 2: board-2: after the change" in mark for mark in marks)
    heads = [" ".join(page.split("\n")[0].split()) for page in read.pages[1:]]
    first = heads.index("board-2: after the change run 0192f0c5-0000")
    assert "local: bench board run 0192f0c4-6d1e" in heads[:first]
    assert set(heads[first:]) == {"board-2: after the change run 0192f0c5-0000"}
    within(read)


@pytest.mark.slow
def test_nothing_was_measured() -> None:
    """A run that ended before its first step, only skipped steps, no run, or odd values."""
    assert "failed" in paper(made.run([], state="failed", reason="no agent", started="")).text
    skipped = made.step(0, [], state="skipped", reason="no right", remedy="be root", header=None,
                        end=None, duration_s=None)  # fmt: skip
    read = paper(made.run([skipped], state="skipped", environment={**made.ENVIRONMENT}))
    assert "Steps without a valid result" in read.text and "no right" in read.text
    assert paper().info["Pages"]
    within(paper(pages.odd_run()))


@pytest.mark.slow
def test_many_series_stay_small() -> None:
    steps = [made.step(at, made.timer_series(64, 300, at)) for at in range(4)]
    read = paper(made.run(steps))
    assert len(read.data) < 2_500_000
    assert "CPU 63" in read.text
    within(read)


@pytest.mark.slow
def test_the_appendix_has_the_series_with_the_highest_maxima() -> None:
    series = made.timer_series(100, 60)
    series[99].value[30] = 90_000_000
    run: Any = made.run([made.step(0, series)])
    document, _ = pdf_full._files(model.analyse([run]), "a4", None, Cover())
    (group,) = document["runs"][0]["steps"][0]["groups"]
    for name in ("all", "more"):
        names = [row["name"] for row in group[name]["parts"][0]["rows"]]
        assert len(names) == 64 and names[-1] == "CPU 99"
        assert "the 64 series with the highest maxima" in group[name]["caption"]
        assert group[name]["caption"].endswith("36 more.")


@pytest.mark.slow
def test_wide_tables_stand_in_parts() -> None:
    columns = tuple(stream.Column(f"column number {at}", "ns") for at in range(24))
    rows = tuple(tuple(10**at for _ in columns) for at in range(1, 9))
    wide = stream.Table(0, "wide", columns, rows)
    texts = stream.Table(
        0, "order",
        (stream.Column("rule", ""), stream.Column("time", "ns"),
         stream.Column("thread", ""), stream.Column("event", "")),
        (("inheritance", 1200, "low", "has the mutex " * 12), ("inheritance", 99, "high", "runs")),
    )  # fmt: skip
    read = paper(made.run([made.step(0, [], tables=[wide, texts])]))
    within(read)
    for at in range(24):
        assert re.search(rf"column\s+number\s+{at}\b", read.text) or f"{at}" in read.text
    assert read.text.count("100 000") >= 24  # 10^8 ns in each column


@pytest.mark.slow
def test_chapters_ratings_orders_and_labels() -> None:
    """More parts of an evaluation: chapters, ratings, orders of events, a label's axis."""
    order = stream.Table(
        0, "order",
        (stream.Column("rule", ""), stream.Column("time", "ns"),
         stream.Column("thread", ""), stream.Column("event", "")),
        tuple(("the highest first", 1000 * at, f"waiter {at % 3}", "waits") for at in range(9)),
    )  # fmt: skip
    random = np.random.default_rng(3)
    series = [
        made.sampled(random.integers(900 * waiters, 1100 * waiters, 300), at, name="release",
                     labels={"waiters": str(waiters)}, interval_ns=0)
        for at, waiters in enumerate((1, 10, 90))
    ]  # fmt: skip
    names = ("round-robin", "timer")
    catalogue = {**made.CATALOGUE, "measurements": [
        {**one, "chapter": f"Chapter of {one['name']}"} for one in made.CATALOGUE["measurements"]
    ]}  # fmt: skip
    steps = [made.step(0, series, names[0], tables=[order],
                       verdicts=[stream.Verdict(0, "the highest first", "pass", "so", "")]),
             made.step(1, made.timer_series(1, 2000))]  # fmt: skip
    plan = {"ratings": [{"subject": "Documentation", "rating": 7.5, "reason": "read it all"}]}
    read = paper(made.run(steps, catalogue=catalogue, plan=plan))
    for text in ("Ratings of the evaluator", "Documentation", "7.5 of 10", "read it all",
                 "Order of events", "the highest first: pass",
                 "waiter 2 waits", "Against waiters", "all events"):  # fmt: skip
        assert text in read.text, text
    marks = read.bookmarks()
    assert sum("Chapter of" in mark for mark in marks) == 2
    within(read)


def test_without_typst_there_is_a_plain_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "typst" else real(name)
    )
    with pytest.raises(RtgaugeError) as caught:
        runs: Any = [made.simple().run]
        report.write(runs, tmp_path / "x.pdf")
    assert "typst" in caught.value.message and "pip install typst" in caught.value.remedy
    assert not list(tmp_path.glob("*.pdf"))


# --- the short report ------------------------------------------------------------------------

LOGO = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 2"><path d="M0 0h4v2z"/></svg>'
LONG = "rtgauge run timer --target ssh://root@board.example --for 3h --budget 150us --load "
LONG += "'sched:groups=4 with spaces' --cpu 1,2,3 --priority 90 --label 'after the change' --rate 1"


def drawing_of(wide: float, high: float) -> blocks.Figure:
    canvas = drawing.Canvas(wide, high)
    canvas.path(f"M0 0H{wide}V{high}H0z", drawing.INK)
    canvas.text(4, 20, "drawn text")
    return blocks.Figure(canvas.svg(), "A picture", "Says what to see.", "A frame.")


def grid_of(rows: int, columns: int = 5) -> Grid:
    heads = ["Series", *(f"Column {at}" for at in range(columns))]
    made_of = [Row(f"row {at}", [Cell(f"{at}.5") for _ in range(columns)]) for at in range(rows)]
    return Grid("Figures", heads, made_of, "In µs.", "Quantities", "What they mean")


def chapter_of(
    rows: int, figures: int = 2, points: int = 4, name: str = "Chapter"
) -> blocks.Section:
    items = tuple(
        (blocks.line(f"Point {at} says something about the figures above."), ())
        for at in range(points)
    )
    return blocks.Section(
        name, "", (blocks.Table(grid_of(rows)), *(drawing_of(482, 150) for _ in range(figures)),
                   blocks.Heading("Observations"), blocks.Bullets(items)), page=True,
    )  # fmt: skip


def answer_page() -> blocks.Section:
    first = blocks.line("Set it with ", blocks.Span("isolcpus", code=True))
    return blocks.Section(
        "The answer", "answer", (
            blocks.Callout("warn", "Not proven", (
                blocks.Paragraph(blocks.line("Worst ", blocks.Span("67 µs", "fail", strong=True))),
                blocks.Command("rtgauge run timer --for 3h --budget 150us"),
            )),
            blocks.Facts((Named("Kernel", "Linux 6.12", "PREEMPT_RT"), Named("Load", "sched"))),
            drawing_of(482, 160),
            drawing_of(236, 100), drawing_of(236, 100),
            blocks.Heading("Next"),
            blocks.Bullets(((first, (blocks.Command(LONG),)), (blocks.line("Then this"), ())),
                           numbered=True),
        ),
    )  # fmt: skip


RUNS = [{"id": "0192f0c4-6d1e-7aaa-8000-000000000001", "started": "2026-11-21T10:00:00.5Z"}]


FILLER = tuple(blocks.Section(f"Filler {at}", "", (), page=True) for at in range(pdf.FEW))


def short(*sections: blocks.Section, size: str = "a4", **cover: Any) -> Paper:
    """A document with these sections."""
    document = blocks.Document("Board 7", "Linux 6.12", sections)
    return Paper(pdf.render(document, RUNS, size, Cover(**cover)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "width", "height"), [("a4", 595.28, 841.89), ("letter", 612, 792)]
)
def test_every_block_is_on_its_page(size: str, width: float, height: float) -> None:
    system = blocks.Section("System", "", (blocks.Facts((Named("CPU", "one"),)),))
    sections = (answer_page(), chapter_of(12), *FILLER, chapter_of(6, name="Another"), system)
    read = short(*sections, size=size)
    assert len(read.pages) == 3 + len(FILLER)
    for text in (
        "Board 7", "Linux 6.12", "Not proven", "Worst 67 µs", "isolcpus", "drawn text",
        "Kernel", "PREEMPT_RT", "1. Set it with", "2. Then this", "A picture",
    ):  # fmt: skip
        assert text in " ".join(read.pages[0].split()), text
    assert "row 11" in read.pages[1] and "Point 3" in read.pages[1]
    last = read.pages[-1]
    assert "Another" in last and "System" in last and "CPU" in last
    marks = [mark for mark in read.bookmarks() if "Filler" not in mark]
    assert marks == ["The answer", "Chapter", "Another", "System"]
    assert read.info["CreationDate"].startswith("Sat Nov 21 10:00:00 2026")
    assert read.info["Keywords"] == RUNS[0]["id"]
    assert "measured 2026-11-21 10:00:00 UTC" in read.text
    assert "rtgauge report 0192f0c4-6d1e --full -o full.pdf" in last
    within(read, width, height)
    assert short(*sections, size=size).data == read.data


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows",
    [1, *(pytest.param(rows, marks=pytest.mark.slow) for rows in (30, 60, 200))],
)
@pytest.mark.parametrize("figures", [0, 2, 6])
def test_a_chapter_is_one_page(rows: int, figures: int) -> None:
    read = short(answer_page(), chapter_of(rows, figures, 30), *FILLER)
    assert len(read.pages) == 2 + len(FILLER)
    assert "row 0" in read.pages[1] and "Point 0" in read.pages[1] and "Filler 0" in read.pages[2]
    if rows == 200:
        assert re.search(r"\d+ more rows are in the complete report \(--full\)", read.text)
    within(read)


@pytest.mark.slow
def test_the_mark_of_a_point_says_what_its_colour_says() -> None:
    """In print without colours, an error and a warning were equal."""
    tones: tuple[blocks.Tone, ...] = ("fail", "warn", "note", "pass", "")
    items = tuple((blocks.line(blocks.Span(f"Item {tone}", tone)), ()) for tone in tones)
    read = short(answer_page(), blocks.Section("Points", "", (blocks.Bullets(items),), page=True))
    assert re.findall(r"(\S+)\s+Item", read.pages[1]) == ["✗", "!", "·", "✓", "•"]


@pytest.mark.slow
def test_the_first_page_keeps_its_picture() -> None:
    """Many tables after it flow on."""
    answer = answer_page()
    tables = tuple(
        one
        for at in range(9)
        for one in (
            blocks.Heading(f"Table {at}"),
            blocks.Table(replace(grid_of(9), title=f"Quantity {at}")),
        )
    )
    read = short(replace(answer, blocks=(*answer.blocks, *tables)), *FILLER)
    assert "Figure 1" in read.pages[0] and "Not proven" in read.pages[0]
    assert "Quantity 8" in read.text and "row 8" in read.text
    within(read)


@pytest.mark.slow
def test_a_section_joins_the_page_above_where_there_is_room() -> None:
    after = blocks.Section("After", "", chapter_of(10, 0, 3).blocks)
    assert len(short(answer_page(), chapter_of(5, 1), after).pages) == 2
    large = blocks.Section("After", "", chapter_of(30, 1, 12).blocks)
    read = short(answer_page(), chapter_of(40, 2, 12), large)
    assert len(read.pages) == 3
    assert "After" in read.pages[2] and "row 29" in read.pages[2]


@pytest.mark.slow
def test_few_chapters_share_pages() -> None:
    chapters = [chapter_of(4, 0, 2, name=f"Part {at}") for at in range(3)]
    read = short(answer_page(), *chapters)
    assert len(read.pages) == 2 and "Part 0" not in read.pages[0]
    assert all(f"Part {at}" in read.pages[1] for at in range(3))


@pytest.mark.slow
def test_several_runs_begin_with_their_comparison(tmp_path: Path) -> None:
    second = made.evaluation(1, 3000)
    second.id = "0192f0c5-0000-7aaa-8000-000000000002"
    second.document.update(id=second.id, label="after the change", target="board-2")
    runs: Any = [made.evaluation(1, 3000), second]
    report.write(runs, tmp_path / "x.pdf")
    read = Paper((tmp_path / "x.pdf").read_bytes())
    assert read.bookmarks()[0] == "Comparison"
    assert len(read.pages) <= 5
    assert all(text in read.pages[0] for text in ("board-2", "Under load", "Figure 1"))
    within(read)


def test_a_command_is_copied_as_it_is() -> None:
    read = short(answer_page())
    lines = [line.strip() for line in read.pages[0].splitlines()]
    assert "rtgauge run timer --for 3h --budget 150us" in lines
    at = next(at for at, line in enumerate(lines) if line.startswith("rtgauge run timer --target"))
    copied = lines[at]
    while copied.endswith("\\"):  # continued as a shell continues it
        at += 1
        copied += "\n" + lines[at]
    assert shlex.split(copied.replace("\\\n", "")) == shlex.split(LONG)
    assert len(copied.splitlines()) == 2
    assert "\u200b" not in read.text
    for text in ("a 'b c' \"d 'e\" f\\ g", "it's", "x  y", ""):
        assert " ".join(pdf.shell_words(text)) == " ".join(text.split())
    assert pdf.shell_words("echo a#b 0 # then, as root") == ["echo", "a#b", "0", "# then, as root"]


@pytest.mark.slow
def test_the_cover() -> None:
    meta = (("Author", "A. Author"), ("Serial number", "SN 12"), ("Customer", "#panic() *C*"))
    plain, read = short(answer_page()), short(answer_page(), title="Ours", meta=meta, logo=LOGO)
    first = " ".join(read.pages[0].split())
    assert "Ours" in first and "Board 7" not in first
    assert first.index("A. Author") < first.index("SN 12") < first.index("#panic() *C*")
    assert (read.info["Title"], read.info["Author"]) == ("Ours", "A. Author")
    assert "Author" not in plain.info
    assert len(read.pages) == 1
    within(read)


@pytest.mark.slow
def test_the_items_that_a_list_leaves_out_are_counted_once() -> None:
    def listed(words: str, left_out: int) -> blocks.Section:
        items = tuple((blocks.line(f"item {at}. {words}"), ()) for at in range(12))
        return blocks.Section("Summary", "", (blocks.Bullets(items, left_out=left_out),), page=True)

    page = listed("", 4)
    document = blocks.Document("Board 7", "Linux 6.12", (page, *FILLER))
    printed = console.printed(Group(*console.render(page.blocks)))
    for text in (html.page(document), markdown.render(document), printed, short(page).text):
        assert "item 11." in text
        assert text.count("And 4 more.") == 1
    cut = short(listed("many words " * 90, 4), *FILLER).text
    shown = cut.count("item ")
    assert 0 < shown < 12
    assert f"{12 - shown + 4} more in the complete report" in cut
    assert "And 4 more" not in cut


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
@pytest.mark.slow
def test_hostile_text_stays_text_in_every_block(text: str) -> None:
    grid = Grid(text, [text, text], [Row(text, [Cell(text, note=text)])], text, text, text)
    inside = (
        blocks.Heading(text), blocks.Paragraph(blocks.line(text, blocks.Span(text, code=True))),
        blocks.Bullets(((blocks.line(text), (blocks.Command(text),)),)), blocks.Command(text),
        blocks.Facts((Named(text, text, text),)), blocks.Callout("fail", text), blocks.Table(grid),
        blocks.Figure(drawing_of(236, 50).svg, text, text, text),
    )  # fmt: skip
    section = blocks.Section(text, "", inside, page=True)
    document = blocks.Document(text, text, (section, section))
    read = Paper(pdf.render(document, RUNS, "a4", Cover(text, ((text, text),))))
    within(read)
    shown = re.sub(r"\s", "", drawing.visible(text))
    assert shown[:40] in re.sub(r"\s", "", read.text) or any(
        "\u0590" <= c <= "\u06ff" for c in text
    )


def forty_steps() -> made.FakeRun:
    """An evaluation as long as the catalogue allows: ten chapters of four steps, each with several
    quantities, failed tests and observations."""
    random = np.random.default_rng(7)
    timer = made.CATALOGUE["measurements"][0]
    catalogue = {**made.CATALOGUE, "measurements": [
        {**timer, "name": f"measure-{at}", "chapter": f"Chapter {at // 4}"} for at in range(40)
    ]}  # fmt: skip
    verdicts = [stream.Verdict(0, f"the order of {at} waiters", "fail" if at % 3 else "pass",
                               "the evidence is a long sentence " * 4, "do something about it " * 3)
                for at in range(5)]  # fmt: skip
    steps = []
    for at in range(40):
        series = [
            made.sampled(made.latencies(random, 2000, 3000 + 900 * at), one,
                         name=f"quantity {one // 2}", labels={"n": str(one % 2)})
            for one in range(4)
        ]  # fmt: skip
        steps.append(made.step(at, series, f"measure-{at}", verdicts=verdicts))
    return made.run(steps, catalogue=catalogue)


@pytest.mark.slow
def test_an_evaluation_has_at_most_16_pages(tmp_path: Path) -> None:
    runs: Any = [forty_steps()]
    source = report.Source(runs)
    report.write(source, tmp_path / "a.pdf")
    report.write(source, tmp_path / "b.pdf")
    read = Paper((tmp_path / "a.pdf").read_bytes())
    assert read.bookmarks()[:3] == ["Answer", "Summary", "Chapter 0"]
    assert len(read.pages) <= 16 and len(read.data) < 2_000_000
    assert (tmp_path / "b.pdf").read_bytes() == read.data
    for at, page in enumerate(read.pages[2:12]):
        assert f"Chapter {at}" in page and f"measure-{4 * at}" in page
    within(read)


@pytest.mark.slow
def test_the_complete_report_is_chosen(tmp_path: Path) -> None:
    runs: Any = [made.evaluation(1, 2000)]
    report.write(runs, tmp_path / "short.pdf")
    report.write(report.Source(runs, full=True, cover=Cover("Ours")), tmp_path / "full.pdf")
    less, whole = (Paper((tmp_path / f"{name}.pdf").read_bytes()) for name in ("short", "full"))
    assert "Appendix: method" in whole.text and "Appendix" not in less.text
    assert "Ours" in whole.pages[0] and whole.info["Title"] == "Ours"


def test_no_section_at_all() -> None:
    assert len(Paper(pdf.render(blocks.Document("Title", "", ()), [], "a4")).pages) == 1


# --- figures -------------------------------------------------------------------------------------


def drawn(kind: str, series: Sequence[made.FakeSeries], **more: Any) -> ElementTree.Element:
    """A figure of one step with these series."""
    return ElementTree.fromstring(figure(kind, series, **more).svg)


def figure(kind: str, series: Sequence[made.FakeSeries], **more: Any) -> drawing.Drawn:
    """A figure of one step with these series, and its caption."""
    runs: Any = [made.run([made.step(0, list(series), **more)])]
    analysis = model.analyse(runs)
    views = views_of(analysis)
    group = views.runs[0]["steps"][0]["groups"][0]
    view = next(view for view in group["figures"] if view["kind"] == kind)
    data = views.shared.data[group["id"]]
    found = figures.draw(data, view, iter(data["strips"]))
    assert found is not None
    return found


def texts(svg: ElementTree.Element) -> list[str]:
    return [str(one.text) for one in svg.iter(f"{SVG}text")]


@pytest.mark.parametrize("number", [2, 8])
def test_the_key_of_a_strip_names_all_its_lines(number: int) -> None:
    zones = {f"thermal_zone{at}, x86_pkg_temperature": 40_000 + at for at in range(number)}
    ambience = [
        SimpleNamespace(time_ns=(at + 1) * 10**9, cpus=[0], frequency_khz=[None], interrupts=None,
                        idle_ns=(), steal_ns=None, smi=None, temperature_mc=zones)
        for at in range(3)
    ]  # fmt: skip
    svg = drawn("strip", made.timer_series(1, 3000), ambience=ambience)
    named_once(svg, list(zones))
    filled = [path.get("stroke") for path in svg.iter(f"{SVG}path") if path.get("fill") != "none"]
    # a marker in the key, and at least one on the line
    assert all(filled.count(hue) >= 2 for hue in drawing.COLOURS[:number])


def test_answers_have_a_scale_of_colours_and_names_apart() -> None:
    """The name of max was on that of min where answers came at the left end of the picture."""

    def answers(at: int, values: Sequence[int]) -> made.FakeSeries:
        info = made.info(at, cpu=at, name="response")
        return made.FakeSeries(info, np.arange(len(values)), np.array(values, np.int32))

    spread = list(range(27_000, 33_000, 3))
    near = list(range(10_800, 13_500, 3))
    series = [answers(0, [*spread, 400_000]), answers(1, near), answers(2, [30_000])]
    for kind in ("persistence", "enlarged"):
        svg = drawn(kind, series)
        found = [text.replace("\u202f", " ") for text in texts(svg)]
        assert {"CPU 0: 2 001 answers", "CPU 2: 1 answer"} <= set(found)
        assert {"answers on a path: 1", "2 001"} <= set(found)
        boxes = []
        for one in svg.iter(f"{SVG}text"):
            if one.get("fill") == drawing.WARM:
                x, y = float(one.attrib["x"]), float(one.attrib["y"])
                wide = 0.8 * drawing.text_width(str(one.text))
                boxes.append((x - wide if one.get("text-anchor") == "end" else x, wide, y))
        assert len(boxes) >= 4
        for a, b in itertools.combinations(boxes, 2):
            assert abs(a[2] - b[2]) > 7 or a[0] + a[1] < b[0] or b[0] + b[1] < a[0]


def test_samples_far_apart_are_drawn_over_time() -> None:
    """A value with no neighbour has no line: it was left out."""
    for kind, hue in (("time", drawing.COLOURS[0]), ("heat", drawing.WARM)):
        svg = drawn(kind, made.apart(1))
        lines = [one.attrib["d"] for one in svg.iter(f"{SVG}path") if one.get("stroke") == hue]
        assert len(re.findall(r"M[-\d.]+ [-\d.]+[hL]", "".join(lines))) >= 90


def test_triangles_of_lost_samples_stay_hollow_next_to_each_other() -> None:
    """A common outline had its lines drawn after it was filled."""
    lost = tuple((at, 1, 900) for at in range(1000, 1040))
    kept = np.delete(np.arange(3000), np.arange(1000, 1040))
    series = made.FakeSeries(made.info(), kept, kept.astype(np.int32) + 1000, lost=lost)
    shapes = [
        one.attrib["d"]
        for one in drawn("time", [series]).iter(f"{SVG}path")
        if one.get("stroke") == drawing.WARN
    ]
    assert len(shapes) > 3 and all(shape.count("M") == 1 for shape in shapes)


def test_the_axis_of_a_strip_without_activity_begins_at_zero() -> None:
    """It reached from -0.5 to 0.5 %."""
    ambience = [
        SimpleNamespace(time_ns=(at + 1) * 10**9, cpus=[0], frequency_khz=[None], interrupts=None,
                        idle_ns=(), steal_ns=[0], smi=None, temperature_mc={})
        for at in range(3)
    ]  # fmt: skip
    svg = drawn("strip", made.timer_series(1, 3000), ambience=ambience)
    upwards = [
        one for one in svg.iter(f"{SVG}text") if one.text and one.get("text-anchor") == "end"
    ]
    places = {str(one.text): float(one.attrib["y"]) for one in upwards}
    assert "0" in places and "1" in places
    assert places["0"] == max(places.values())


@pytest.mark.parametrize(("number", "lacking"), [(6, ""), (33, " The key does not name 1 line.")])
def test_the_key_against_a_label_names_all_its_lines(number: int, lacking: str) -> None:
    samples = np.arange(20, dtype=np.int32) + 900
    series = [
        made.sampled(samples, at, labels={"waiters": str(2 + at // number),
                                         "policy": f"of the order {at % number}"})
        for at in range(3 * number)
    ]  # fmt: skip
    found = figure("against", series)
    names = [f"policy of the order {at}" for at in range(number)]
    named_once(ElementTree.fromstring(found.svg), names[:32])
    assert found.caption.endswith(f"a constant cost.{lacking}")


def named_once(svg: ElementTree.Element, names: Sequence[str]) -> None:
    """Each name is in the figure, and no two of its texts are at one place."""
    found = {str(one.text): one for one in svg.iter(f"{SVG}text")}
    assert [name for name in names if name not in found] == []
    _, _, width, _ = map(float, svg.attrib["viewBox"].split())
    spans: dict[float, list[tuple[float, float]]] = {}
    for text, one in found.items():
        if one.get("text-anchor") is None:
            left, row = float(one.attrib["x"]), float(one.attrib["y"])
            spans.setdefault(row, []).append((left, left + 0.9 * drawing.text_width(text)))
    for places in map(sorted, spans.values()):
        assert all(a[1] < b[0] for a, b in itertools.pairwise(places)), places
        assert places[-1][1] <= width


@pytest.mark.parametrize("kind", ["histogram", "ccdf", "time", "heat", "around", "begin"])
@pytest.mark.parametrize("cpus", [1, 3, 12])
@pytest.mark.slow
def test_figures_stay_in_their_frame(kind: str, cpus: int) -> None:
    svg = drawn(kind, made.timer_series(cpus, 3000))
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    for path in svg.iter(f"{SVG}path"):
        # Absolute coordinates only: moves, lines to, and what is across or upright.
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.attrib["d"]):
            assert -1 <= float(x) <= width + 1 and -1 <= float(y) <= height + 1
        assert "nan" not in path.attrib["d"] and "inf" not in path.attrib["d"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["histogram", "ccdf", "time", "heat", "around"])
def test_the_maximum_is_drawn(kind: str) -> None:
    series = made.timer_series(1, 3000, stalls=False)
    series[0].value[1234] = 7_654_321
    assert any("7 654" in text.replace("\u202f", " ") for text in texts(drawn(kind, series)))
    hidden = made.timer_series(1, 3000, stalls=False)
    assert not any("7 654" in text.replace("\u202f", " ") for text in texts(drawn(kind, hidden)))


@pytest.mark.slow
def test_single_samples_are_in_the_histogram() -> None:
    values = np.full(5000, 2000, np.int32)
    values[17] = 900_000
    svg = drawn("histogram", [made.sampled(values)])
    line = next(p.attrib["d"] for p in svg.iter(f"{SVG}path") if p.attrib.get("fill") == "none"
                and p.attrib["stroke"] == drawing.COLOURS[0])  # fmt: skip
    levels = {float(y) for y in re.findall(r"V([\d.]+)", line)}
    assert len(levels) == 3  # none, one, and 4999 samples


def test_series_are_told_apart_without_colour() -> None:
    found = {re.sub(r"[\d.]+", "", drawing.swatch(at).partition("<path")[2].partition("<path")[2])
             + ("hollow" if "#ffffff" in drawing.swatch(at) else "")
             for at in range(drawing.CROWD)}  # fmt: skip
    shapes = {re.sub(r"#[0-9a-f]+", "", one) for one in found}
    assert len(shapes) == drawing.CROWD


def test_each_of_sixteen_systems_has_a_marker_of_its_own() -> None:
    """The ninth had colour and marker of the first."""
    sets = list(range(16))
    data = {"labels": [f"{at} user" for at in sets], "max": sets, "hues": sets, "dashes": [0] * 16}
    shown = drawing.key({**data, "div": 1, "unit": "", "budget": None, "at_least": [False] * 16})
    assert shown is not None
    paths = re.findall(r'<path d="M[\d.]+ [\d.]+([^"]*)"([^>]*)/>', shown)
    assert len({one for one in paths if not one[0].startswith("h14")}) == 16


def test_scales() -> None:
    log = scales.values(1.0, 1000.0)
    assert log.kind == "log" and math.isclose(log.at(math.sqrt(1000)), 0.5)
    assert [v for v in log.ticks(4)] == [1, 10, 100, 1000]
    assert scales.values(-5.0, 5.0).kind == "asinh" and scales.values(-5.0, 5.0).at(0) == 0.5
    assert scales.linear(3, 3).at(3) == 0.5
    assert scales.linear(0, 10).ticks(5) == [0, 2, 4, 6, 8, 10]
    assert [scales.tick(v) for v in (0.0, 0.5, 12345.0, -2.5, 1e-7)] == [
        "0", "0.5", "12\u202f345", "\u22122.5", "1e-07",
    ]  # fmt: skip
    assert [scales.power(v) for v in (1, 1000, 0.01, 1e-3, 1e6)] == [
        "1", "1\u202f000", "0.01", "10⁻³", "10⁶",
    ]  # fmt: skip
