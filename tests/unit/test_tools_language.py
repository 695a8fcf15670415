# SPDX-License-Identifier: Apache-2.0
"""The language check: which wording it finds, where, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from language import anchors, check_text, link_hits, subject_faults

ROOT = Path(__file__).resolve().parents[2]

FOUND = [
    "'cap.1' is no capture.",
    "values that are none",
    "The board has none of them.",
    "So many samples are kept.",
    "Ends there. So long\nit waits.",
    "For so long a connection is retried.",
    "Of four series the largest has a place.",
    "three files, of which the second is not there",
    "The image is made again.",
    "The agent is asked anew.",
    "Between steps it is done likewise.",
    "after some ms, some µs,\nsome minutes",
    "The figures, and besides the tables.",
    "The median stands beside it.",
    "The other one waits meanwhile.",
    "whoever sees the end",
    "the process who sees the end",
    "The least is 3 us.",
    "smallest, mean and largest",
    "the largest latency",
    "It is to be had for arm64.",
    "The source cannot be had.",
    "None of them was had.",
    "look what else runs there",
    "The time stands in the header.",
    "the reason is said",
    "The agent goes on.",
    "It is tried to be loaded.",
    "The guardian puts the settings back.",
    "Nobody waits for it.",
    "of two tasks that which runs",
    "the children, and what they start thereby",
    "It computes in vain.",
    "It has at most so many columns.",
    "A record that differs, be it in one byte.",
    "It is woken by a thread of\nthe kernel.",
    "a task of the core cobalt",
    "One is cut; the next is whole; the last is lost.",
]
ALLOWED = [
    "There is no limit.",
    "at some second of the run, with some samples",
    "It is no longer needed, and no more than 3 are.",
    "So far, 3 of 4 have ended.",
    "Of course it ends.",
    "at least 3, at\nleast 4, and the least-squares line",
    "the mean of 5 values, and their largest one",
    "people who measure, and users of a board who wait",
    "X stands for a name, and stands in the way.",
    "Two boots can be told apart.",
    "Put the card back into its slot.",
    "ssh -l nobody-here board",
    "One is cut; the next is whole. One is lost; the next is whole.",
    "See `is no line` and ``goes on``.",
    "arguments of the kernel's make, tasks of Linux itself, --core cobalt",
]


@pytest.mark.parametrize("text", FOUND)
def test_wording_is_found_in_pages_comments_docstrings_and_strings(text: str) -> None:
    one_line = text.replace("\n", " ")
    assert check_text("a.md", f"# Title\n\n{text}\n")
    assert check_text("a.py", f'"""Head.\n\n{text}\n"""\n')
    assert check_text("a.py", f"# {text.replace(chr(10), chr(10) + '# ')}\nx = 1\n")
    assert check_text("a.py", f'x = "{one_line}"\n')
    assert check_text("a.c", f"/* {text.replace(chr(10), chr(10) + ' * ')} */\nint x;\n")
    assert check_text("a.c", f'const char *x = "{one_line}";\n')
    assert check_text("a.toml", f"# {one_line}\n")
    assert check_text("a.j2", f"<p>{text}</p>\n")
    assert check_text("a.typ", f"= [{one_line}]\n")


@pytest.mark.parametrize("text", ALLOWED)
def test_other_wording_is_left_alone(text: str) -> None:
    assert not check_text("a.md", f"{text}\n")
    assert not check_text("a.py", f'"""{text}"""\n')
    assert not check_text("a.c", f"/* {text} */\n")


def test_hits_name_the_line_in_the_file() -> None:
    assert [hit.line for hit in check_text("a.py", '"""Head.\n\nIt\ngoes on.\n"""\n')] == [4]
    source = 'x(\n  "the agent "\n  "goes on"\n  " here");\n'
    assert [hit.line for hit in check_text("a.c", source)] == [3]
    assert [hit.line for hit in check_text("a.md", "a\n\n- b\n- it\n  goes on\n")] == [5]
    source = "int a; /* goes on */\n\n/* ends */\n/* goes on */\n"
    assert [hit.line for hit in check_text("a.c", source)] == [1, 4]


def test_messages_hold_one_fact() -> None:
    assert check_text("a.py", 'x = f"{name} is cut; its end is missing"\n')
    assert check_text("a.c", 'x("%s is cut; "\n  "its end is missing");\n')
    assert not check_text("a.c", 'x = "length of the run; 0: without end";\n')
    assert not check_text("a.c", 'asm("li r3, 0\\n\\taddi r3, r3, 1; li r4, 1");\n')
    assert not check_text("a.py", 'x = "cd build; make all; make test"\ny = "a; b"\n')


def test_single_words_and_code_are_not_prose() -> None:
    assert not check_text("a.py", 'x = {"beside": 1, "who": 2}\nmeanwhile = x\n')
    assert not check_text("a.md", "```\nit goes on\n```\n\n    x\n")
    assert not check_text("a.md", "- text\n\n  ```\n  it goes on\n  ```\n")
    assert not check_text("a.bin", "it goes on")


def test_exceptions_need_a_reason() -> None:
    assert not check_text("a.py", 'x = "it goes on"  # language-ok: the kernel prints this\n')
    assert not check_text("a.md", "<!-- language-ok: quoted from POSIX -->\nit goes on\n")
    assert check_text("a.py", 'x = "it goes on"  # language-ok:\n')


def test_pages_are_wrapped_but_for_tables_links_and_code() -> None:
    words = "word " * 21
    assert [hit.line for hit in check_text("a.md", f"short\n{words}\n")] == [2]
    assert not check_text("a.md", "word " * 19 + "words\n")
    link = f"[name](https://example.org/{'x' * 100}) and [page](page.md#{'x' * 90})"
    for text in (f"| {words} |", f"```\n{words}\n```", link, "x" * 120, f"# {words}"):
        assert not check_text("a.md", f"{text}\n")


def test_links_lead_to_files_and_headings(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    other = tmp_path / "other.md"
    other.write_text("# Timer: `--for`, and more\n\n## Same\n\n## Same\n")
    page.write_text("# Here\n")
    assert anchors(other.read_text()) == {"timer---for-and-more", "same", "same-1"}
    good = "[a](other.md) [b](other.md#same-1) [c](#here) [d](https://example.org#x)\n"
    assert not list(link_hits(page, good + "`[x](y)`\n[`e`](other.md#timer---for-and-more)\n"))
    bad = "[a](missing.md)\n[b](other.md#same-2)\n[c](#nowhere)\n"
    assert [hit.line for hit in link_hits(page, bad)] == [1, 2, 3]


@pytest.mark.parametrize(
    "subject",
    [
        "Add the page of the timer",
        "Agent: embed the table",
        "docs/plans: Pass options on",
        "Fix it",
    ],
)
def test_imperative_subjects_pass(subject: str) -> None:
    assert not subject_faults(subject)


@pytest.mark.parametrize(
    "subject",
    [
        "Add the page.",
        "Add the page; remove the other",
        "Add " + "x" * 70,
        "Added the page",
        "Adds the page",
        "Adding the page",
        "The page of the timer",
        "Docs: wording of the page",
        "Agent: tables are split",
    ],
)
def test_other_subjects_are_found(subject: str) -> None:
    assert subject_faults(subject)


@pytest.mark.slow
def test_the_program_prints_hits_and_tells_them_by_its_exit_code(tmp_path: Path) -> None:
    """Run on a copy of itself in a repository of one page."""
    (tmp_path / "tools").mkdir()
    for name in ("language.py", "language.toml"):
        (tmp_path / "tools" / name).write_bytes((ROOT / "tools" / name).read_bytes())
    page = tmp_path / "page.md"
    page.write_text("# Page\n\nThe agent goes on.\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=60)
    words = [sys.executable, str(tmp_path / "tools" / "language.py")]

    def run(*given: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*words, *given], capture_output=True, check=False, text=True, timeout=60
        )

    found = run("page.md")
    assert found.returncode == 1
    assert found.stdout.startswith("page.md:3: ")
    page.write_text("# Page\n\nThe agent continues.\n")
    assert run("page.md").returncode == 0
    assert run("missing.md").returncode == 2
