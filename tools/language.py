#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Find wording and form that the project's language rules exclude.

Looks at Markdown, at comments, docstrings and string literals of Python, C, JavaScript, shell, TOML
and Meson, and at templates. In Markdown also at the width of lines and at links. With --since, also
at the subjects of commits.

    tools/language.py                 the paths that tools/language.toml lists as clean
    tools/language.py docs src/x.py   these paths
    tools/language.py --since main    the subjects of the commits since main

Prints 'file:line: text -> hint' for each hit. Exit code 1 with hits, 2 for wrong usage, else 0.
A line may keep a phrase for a reason: 'language-ok: REASON' in a comment there or one line above.
"""

from __future__ import annotations

import argparse
import ast
import bisect
import io
import re
import subprocess
import sys
import tokenize
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Hit", "check_text", "heading_name", "link_hits", "prose_lines", "subject_faults"]

ROOT: Final = Path(__file__).resolve().parents[1]
LIST: Final = ROOT / "tools" / "language.toml"
WIDTH: Final = 100
SUBJECT_WIDTH: Final = 72
# Others' files, kept as they came.
FOREIGN: Final = ("src/rtgauge/report/render/static/uplot/",)
OPENING: Final = r"(?:\A[\s\"'(]*|[.!?:]\s+|\(\s*)"
PEOPLE: Final = (
    r"people|persons?|users?|readers?|engineers?|those|anybody|anyone|everybody|everyone|somebody|"
    r"someone|nobody|one|customers?|evaluators?|authors?|owners?|maintainers?|contributors?|"
    r"developers?|administrators?|suppliers?|vendors?|editors?|testers?|attackers?|all|others"
)


@dataclass(frozen=True)
class Hit:
    """One finding: the file's line (from 1), the text found there, and what to write instead."""

    line: int
    text: str
    hint: str


@dataclass(frozen=True)
class Piece:
    """Text that is read as a whole: a paragraph, a comment, a docstring, a string literal.

    `starts` are (offset in text, line in file) in ascending order; lines in between follow from
    the line ends in the text.
    """

    text: str
    starts: tuple[tuple[int, int], ...]
    is_message: bool = False

    def line(self, offset: int) -> int:
        """The file's line of an offset in the text."""
        at = bisect.bisect_right(self.starts, (offset, sys.maxsize)) - 1
        start, line = self.starts[at]
        return line + self.text.count("\n", start, offset)


@dataclass(frozen=True)
class Rule:
    """A pattern to avoid and its remedy. A space in the pattern also matches the end of a line."""

    pattern: str
    hint: str

    def find(self, text: str) -> Iterator[re.Match[str]]:
        """Every place of the pattern in the text."""
        return re.finditer(self.pattern.replace(" ", r"\s"), text)


RULES: Final = (
    Rule(
        r"(?<!\b[Tt]here )\b(?:is|are|was|were|be|being|been) (?:none\b|no (?!(?:longer|more|less|"
        r"later|earlier|better|worse|larger|smaller|slower|faster|higher|lower|shorter|wider|deeper|"
        r"different|doubt)\b)[a-z])",
        "'is not a ...' or 'does not ...'",
    ),
    Rule(r"\b(?:has|have|had|having) none\b", "name what is missing"),
    Rule(
        OPENING + r"(?:So (?:many|much|long|often|few|late)|For so (?:long|many))\b",
        "a noun: 'Number of', 'Timeout for'",
    ),
    Rule(
        OPENING + r"Of (?!course\b)[^.;:]{3,}?(?=[.;:]|\Z)",
        "begin with the subject: 'B of A is ...'",
    ),
    Rule(r"\bof which\b[^.;]{0,60}?\bis not\b", "subject, verb, object"),
    Rule(
        r"\b(?:made|tried|begun|asked|started|built|written) (?:again|anew)\b|\banew\b",
        "retried, rebuilt, restarted",
    ),
    Rule(r"\b[Ll]ikewise\b", "'also', 'the same'"),
    Rule(
        r"\bsome (?:[num\u00b5]?s|(?:nano|micro|milli)?seconds|minutes|hours|days|[kMG]Hz)\b",
        "'a few'",
    ),
    Rule(r"\b[Bb]esides\b", "'also', 'in addition'"),
    Rule(r"\b[Bb]eside\b", "'next to', 'with', 'in addition to'"),
    Rule(r"\b[Mm]eanwhile\b", "'during the run', 'while ...'"),
    Rule(r"\b[Ww]hoever\b", "name the component or the role"),
    Rule(r"\b[Ww]ho\b", "'that', 'which', or the component's name"),
    Rule(r"(?<!\bat )(?<!\bAt )\bleast\b(?!-squares| significant| squares| privilege)", "min"),
    Rule(r"\b(?:smallest|least), mean,? (?:and |or )?largest\b", "min, mean, max"),
    Rule(r"\b(?:largest|smallest) (?:latency|latencies)\b", "max latency, min latency"),
    Rule(r"\b(?:(?:to|not|can|cannot|could|may) be|was|were) had\b", "is available"),
    Rule(r"\blook (?:what|whether|into)\b", "check, see"),
    Rule(
        r"\b(?:stands?|stood) (?:in(?! the way)|on|at|there|here|above|below|under|with|behind|"
        r"before|after|as|first|last|bes[i]de|next|between|by itself|alone)\b",
        "contains, is in, is at",
    ),
    Rule(
        r"\b(?:is|are|was|were|be|been) (?:said|told)\b(?! apart)", "prints, reports, says (active)"
    ),
    Rule(r"\b(?:goes|go|went) on\b", "continues"),
    Rule(r"\btried to be\b", "active voice: 'retries ...'"),
    Rule(
        r"\b[Pp]ut(?:s|ting)? (?:(?:it|them|all|\w*things?|(?:the )?settings?) )?back\b",
        "restores, returns",
    ),
    Rule(r"\b[Nn]obody\b(?![-:])(?<!as nobody)", "name the program or role, or use the passive"),
    Rule(r"\b(?:[Tt]hat|[Tt]hose) which\b", "name it: 'the context that ...'"),
    Rule(r"\b(?:[Hh]ere|[Tt]here|[Ww]here)(?:by|of|in|to)\b", "'so', 'of it', 'in which'"),
    Rule(r"\bin vain\b", "'without a result'"),
    Rule(r"\b(?:at most|at least) so (?:many|much|long|often)\b", "a noun: 'maximum number of'"),
    Rule(r"\b[Bb]e it\b", "'even', 'such as'"),
    Rule(
        r"\b(?:threads?|tasks?|modules?|arguments?|messages|programs?|calls?|queues?|semaphores?)"
        r" of (?:Linux|the kernel|System V)\b(?!'| itself)",
        "the name first: 'kernel threads', 'Linux tasks', 'System V semaphores'",
    ),
    Rule(r"\bcore [Cc]obalt\b(?<!--core cobalt)", "'the Cobalt core'"),
)
WHO: Final = re.compile(rf"(?:\b(?:{PEOPLE}),?\s+(?:\w+\s+){{0,3}}|\()\Z", re.IGNORECASE)
FACTS: Final = "one sentence for each fact"
LETTERS: Final = re.compile(r"[a-z]{2,} [a-z(]")
CODE: Final = re.compile(
    r"[{}$=<>|\\]|\(\)|;\s*(?:\n|\Z)|\A\s*(?:cd|for|if|while|set|echo|rm|test|exec|trap)\b"
)


def _whole(text: str, line: int, is_message: bool = False) -> Piece:
    return Piece(text, ((0, line),), is_message)


# --- Where text is in a file --------------------------------------------------------------------


def _blank(text: str, pattern: str, flags: int = 0) -> str:
    """The text with each match overwritten by 'x', so that all offsets stay."""
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", "x", found.group()), text, flags=flags)


def _without_code(text: str) -> str:
    """The text without code and URLs, and with no more than one blank between words."""
    text = _blank(text, r"``[^`]+``|`[^`]+`|https?://\S+")
    return re.sub(r"[ \t]+", " ", re.sub(r"[ \t]*\n[ \t]*", "\n", text))


def prose_lines(text: str) -> str:
    """Markdown with fenced code and HTML comments overwritten, line for line."""
    lines = []
    fence = ""
    for line in re.sub(
        r"<!--.*?-->", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.DOTALL
    ).split("\n"):
        mark = re.match(r"\s*(?:[-*]\s+|\d+\.\s+)?(```+|~~~+)", line)
        if fence:
            if mark and line.strip().startswith(fence):
                fence = ""
            lines.append("")
        elif mark:
            fence = mark[1]
            lines.append("")
        else:
            lines.append(line)
    return "\n".join(lines)


def markdown_pieces(text: str) -> Iterator[Piece]:
    """The paragraphs, list items, headings and table cells of a page."""
    block: list[str] = []
    first = 1

    def flush() -> Iterator[Piece]:
        if any(line.strip() for line in block):
            yield _whole(_without_code("\n".join(block)), first)
        block.clear()

    plain = _blank(prose_lines(text), r"(?<=\]\()[^)\n]*(?=\))")
    for number, line in enumerate(plain.split("\n"), 1):
        if line.lstrip().startswith("|"):
            yield from flush()
            for cell in _without_code(line).replace(r"\|", "xx").split("|"):
                yield _whole(cell.strip(), number)
            continue
        begin = re.match(r"\s*(?:[-*+]\s+|\d+\.\s+|#+\s+|>\s+)", line)
        if begin or not line.strip():
            yield from flush()
        if not block:
            first = number
        block.append(line[begin.end() :] if begin else line)
    yield from flush()


def _comment_blocks(comments: Sequence[tuple[int, str, bool]]) -> Iterator[Piece]:
    """Comments (line, text, alone on its line) as pieces; those on consecutive lines are one."""
    block: list[str] = []
    first = last = 0
    for line, text, is_alone in comments:
        if block and not (is_alone and line == last + 1):
            yield _whole(_without_code("\n".join(block)), first)
            block = []
        if not block:
            first = line
        block.append(text)
        last = line
    if block:
        yield _whole(_without_code("\n".join(block)), first)


def python_pieces(text: str) -> Iterator[Piece]:
    """The comments, docstrings and other strings of a Python source."""
    comments = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            is_alone = not token.line[: token.start[1]].strip()
            comments.append((token.start[0], token.string.lstrip("#: "), is_alone))
    yield from _comment_blocks(comments)
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = set()
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            docstrings.add(node.body[0].value)  # type: ignore[attr-defined]
        if isinstance(node, ast.JoinedStr):
            inside.update(part for part in node.values if isinstance(part, ast.Constant))
            words = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
            )
            yield _whole(_without_code(words), node.lineno, is_message=True)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            is_message = node not in docstrings
            yield _whole(_without_code(node.value), node.lineno, is_message)


def _source_pieces(text: str, comment: str) -> Iterator[Piece]:
    """The comments and strings of a source whose comments match a pattern."""
    scan = re.compile(
        rf'(?P<comment>{comment})|(?P<string>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')', re.DOTALL
    )
    comments: list[tuple[int, str, bool]] = []
    strings: list[tuple[int, int, str]] = []
    pieces = []
    for found in scan.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["comment"] is not None:
            alone = not text[text.rfind("\n", 0, found.start()) + 1 : found.start()].strip()
            words = re.sub(
                r"^[ \t]*(?:/\*+|\*+/|\*|//+|#+!?|\{#)[ \t]?",
                "",
                found["comment"],
                flags=re.MULTILINE,
            )
            words = re.sub(r"\s*(?:\*/|#\})\s*$", "", words)
            if "\n" in words:
                pieces.append(_whole(_without_code(words), line))
            else:
                comments.append((line, words, alone))
            continue
        words = re.sub(r"\\[nt]", "\v", found["string"][1:-1])
        gap = text[strings[-1][1] : found.start()] if strings else None
        if gap is None or re.sub(r"PRI\w+", "", gap).strip():
            yield from _joined(strings)
            strings = []
        strings.append((line, found.end(), words))
    yield from _joined(strings)
    yield from pieces
    yield from _comment_blocks(comments)


def _joined(strings: Sequence[tuple[int, int, str]]) -> Iterator[Piece]:
    """Adjacent string literals (line, end, text) as one message."""
    starts = []
    whole = ""
    for line, _, words in strings:
        starts.append((len(whole), line))
        whole += _without_code(words)
    if starts:
        yield Piece(whole, tuple(starts), is_message=True)


def template_pieces(text: str) -> Iterator[Piece]:
    """The text of an HTML template between its tags, and its comments."""
    text = _blank(
        text, r"\{%.*?%\}|<(?:style|script)\b.*?</(?:style|script)>|\b\w+=\"[^\"]*\"", re.DOTALL
    )
    for found in re.finditer(r"\{#.*?#\}|(?:\{\{.*?\}\}|[^<{>])+", text, re.DOTALL):
        yield _whole(
            re.sub(r"\{\{.*?\}\}", "X", found.group().strip("{#}")),
            text.count("\n", 0, found.start()) + 1,
        )


C_COMMENT: Final = r"/\*.*?\*/|//[^\n]*"
HASH_COMMENT: Final = r"(?:(?<=\s)|(?<=\A)|^)#[^\n]*"


def _hash_pieces(text: str) -> Iterator[Piece]:
    return _source_pieces(text, HASH_COMMENT)


def _c_pieces(text: str) -> Iterator[Piece]:
    return _source_pieces(text, C_COMMENT)


def _typst_pieces(text: str) -> Iterator[Piece]:
    yield from _source_pieces(text, C_COMMENT)
    for found in re.finditer(r"\[([^\[\]\n]*)\]", text):
        yield _whole(found[1], text.count("\n", 0, found.start()) + 1)


READERS: Final[dict[str, Callable[[str], Iterator[Piece]]]] = {
    ".md": markdown_pieces,
    ".py": python_pieces,
    ".c": _c_pieces,
    ".h": _c_pieces,
    ".js": _c_pieces,
    ".css": _c_pieces,
    ".typ": _typst_pieces,
    ".j2": template_pieces,
    ".toml": _hash_pieces,
    ".sh": _hash_pieces,
    ".build": _hash_pieces,
    ".options": _hash_pieces,
    "": _hash_pieces,
}


# --- What is found there ------------------------------------------------------------------------


def _fact_hits(piece: Piece) -> Iterator[Hit]:
    """Messages that join facts with ';', and sentences with more than one.

    A special value may follow a ';': 'length of the run; 0: without end'.
    """
    text = piece.text.strip()
    if CODE.search(text):
        return
    if piece.is_message:
        found = re.search(r"[\w)%'\"]{2,}; (?![\w-]+: )\w", text)
        if found and not re.search(r"[\n\v]", text) and len(text.split()) > 3:
            yield Hit(piece.line(found.start()), text, FACTS)
        return
    text = piece.text
    for sentence in re.finditer(r"(?:[^.!?]|[.!?](?!\s|\Z))+", text):
        if len(re.findall(r";\s", sentence.group())) > 1:
            yield Hit(piece.line(sentence.start()), " ".join(sentence.group().split()), FACTS)


def _piece_hits(piece: Piece) -> Iterator[Hit]:
    if piece.is_message and not LETTERS.search(piece.text):
        return
    for rule in RULES:
        for found in rule.find(piece.text):
            is_who = found.group() in ("who", "Who")
            if is_who and WHO.search(piece.text[: found.start()]):
                continue
            begin = max(0, found.start() - 20)
            around = " ".join(piece.text[begin : found.end() + 30].split())
            yield Hit(piece.line(found.end() - 1), around, rule.hint)
    yield from _fact_hits(piece)


def _width_hits(text: str) -> Iterator[Hit]:
    for number, line in enumerate(prose_lines(text).split("\n"), 1):
        shown = re.sub(r"\]\([^)]*\)|<https?://[^>]*>|https?://\S+", "]", line)
        if (
            len(shown) > WIDTH
            and not re.match(r"\s*(?:[|#]|!?\[.*\)$)", line)
            and " " in shown.strip()
        ):
            yield Hit(number, f"{len(line)} columns", f"at most {WIDTH}")


def heading_name(words: str) -> str:
    """The name of a heading in links, as GitHub makes it."""
    kept = [c for c in words.lower() if c in " -_" or unicodedata.category(c)[0] in "LN"]
    return "".join(kept).replace(" ", "-")


def anchors(page: str) -> set[str]:
    """The names that a link into this page may have, as GitHub makes them from headings."""
    found: set[str] = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", page))
    for heading in re.findall(r"^#+\s+(.*?)\s*#*$", prose_lines(page), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = base = heading_name(words)
        again = 0
        while name in found:
            again += 1
            name = f"{base}-{again}"
        found.add(name)
    return found


def link_hits(path: Path, text: str) -> Iterator[Hit]:
    """Links of a page to files or headings that do not exist. Links to the net are not followed."""
    plain = _blank(prose_lines(text), r"`[^`\n]+`(?!\])")
    for found in re.finditer(r"\]\(([^)\s]+)\)", plain):
        target, _, anchor = found[1].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        line = plain.count("\n", 0, found.start()) + 1
        page = path if not target else path.parent / target
        if not page.exists():
            yield Hit(line, target, "the file does not exist")
        elif anchor and page.suffix == ".md" and anchor not in anchors(page.read_text("utf-8")):
            yield Hit(line, f"{target}#{anchor}", "no heading with this anchor")


def check_text(name: str, text: str) -> list[Hit]:
    """Wording and widths of one file's text; its name tells how to read it. In order of lines.

    A name that no reader knows has no hits. Raises SyntaxError for Python that does not parse.
    """
    reader = READERS.get(Path(name).suffix)
    if reader is None:
        return []
    hits = {hit for piece in reader(text) for hit in _piece_hits(piece)}
    if name.endswith(".md"):
        hits.update(_width_hits(text))
    lines = text.split("\n")
    kept = []
    for hit in sorted(hits, key=lambda hit: (hit.line, hit.text)):
        near = " ".join(lines[max(0, hit.line - 2) : hit.line])
        if not re.search(r"language-ok: \w\w", near):
            kept.append(hit)
    return kept


def subject_faults(subject: str) -> list[str]:
    """What is wrong with a commit's subject; empty when nothing is."""
    faults = []
    if len(subject) > SUBJECT_WIDTH:
        faults.append(f"{len(subject)} columns, at most {SUBJECT_WIDTH}")
    if subject.endswith("."):
        faults.append("no period at the end")
    if ";" in subject:
        faults.append("one change for each commit, not several joined by ';'")
    words = re.sub(r"^[\w/., -]+: ", "", subject).split()
    first, second = (*words, "", "")[:2]
    looks_wrong = re.fullmatch(
        r"(?i)(?:the|a|an|it|its|this|that|these|all|each|every|no|not|of|in|on|what|which|who|"
        r"where|when|one|two|three|\w+ing|\w+(?<!e)ed|\w+[^s'u]s)",
        first,
    )
    if (looks_wrong and first.lower() not in ("embed", "shed", "bring")) or second in (
        *("of", "is", "are", "was", "were", "has", "have", "that", "which"),
    ):
        faults.append("begin with a verb in the imperative: 'Add', 'Fix', 'Report'")
    return faults


# --- The program --------------------------------------------------------------------------------


def _files(paths: Sequence[str]) -> list[str]:
    """Files of the repository below these paths, with those not yet added, without ignored ones."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths)
    names = sorted(set(listed.split("\0")) - {""})
    return [name for name in names if (ROOT / name).is_file() and not name.startswith(FOREIGN)]


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, check=True, timeout=60, text=True
    ).stdout


def _check_files(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if Path(name).suffix not in READERS:
            continue
        text = (ROOT / name).read_text("utf-8")
        hits = check_text(name, text)
        if name.endswith(".md"):
            hits += link_hits(ROOT / name, text)
        for hit in hits:
            yield f"{name}:{hit.line}: {hit.text} -> {hit.hint}"


def _check_subjects(since: str) -> Iterator[str]:
    for line in _git("log", "--no-merges", "--format=%h %s", f"{since}..HEAD").splitlines():
        commit, _, subject = line.partition(" ")
        for fault in subject_faults(subject):
            yield f"{commit}: {subject} -> {fault}"


def main() -> int:
    """Check what the command line names; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="default: tools/language.toml")
    parser.add_argument("--since", metavar="COMMIT", help="check the subjects of commits after it")
    given = parser.parse_args()
    listed = tomllib.loads(LIST.read_text("utf-8"))
    found: list[str] = []
    if given.paths or not given.since:
        paths = given.paths or listed["clean"]
        for path in paths:
            if not (ROOT / path).exists():
                parser.error(f"{path} does not exist")
        exempt = listed["exempt"]
        found += _check_files([name for name in _files(paths) if name not in exempt])
    if given.since:
        found += _check_subjects(given.since)
    for line in found:
        print(line)
    if found:
        print(f"{len(found)} hits. The rules: CONTRIBUTING.md, 'Language'.", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
