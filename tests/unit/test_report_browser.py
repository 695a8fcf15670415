# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a browser: its pictures, controls and widths."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import report_runs as made
from report_pages import Page, evaluated, hostile_run, odd_run, rendered
from rtgauge import report
from rtgauge import text as numbers
from rtgauge.report import pictures
from rtgauge.report.pictures import scales
from rtgauge.report.render import html


@pytest.fixture(scope="session")
def browser() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None and os.environ.get("RTGAUGE_NO_BROWSER"):
        pytest.skip("RTGAUGE_NO_BROWSER is set: no pictures are drawn")
    assert found, "no chromium: install it, or set RTGAUGE_NO_BROWSER=1 to leave these tests out"
    return found


def drawn(browser: str, file: Path, scratch: Path, place: str = "#all") -> tuple[Page, str]:
    """The page at a place (everything opened) after its scripts ran, and their console."""
    words = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        f"--user-data-dir={scratch / 'profile'}",
        "--window-size=1000,900",
        "--enable-logging=stderr",
        "--v=0",
        "--virtual-time-budget=20000",  # the data is decompressed asynchronously
        "--dump-dom",
        file.as_uri() + place,
    ]
    done = subprocess.run(words, capture_output=True, timeout=120, check=True)
    console = [
        line for line in done.stderr.decode(errors="replace").splitlines() if "CONSOLE" in line
    ]
    return Page(done.stdout.decode()), "\n".join(console)


def in_frames(browser: str, scratch: Path, script: str, text: str, *widths: int) -> Page:
    """What a script writes that finds a page in frames of so many pixels."""
    text = re.sub(r"<meta http-equiv=[^>]*>", "", text)
    inner = text.replace("&", "&amp;").replace('"', "&quot;")
    frames = "".join(
        f'<iframe srcdoc="{inner}" width="{wide}" height="860" frameborder="0"></iframe>'
        for wide in widths
    )
    file = scratch / "frame.html"
    file.write_text(f"<!doctype html><title>-</title>{script}{frames}")
    page, _ = drawn(browser, file, scratch, "")
    return page


def pictures_of(page: Page) -> int:
    return sum("data-kind" in attributes for _, attributes in page.tags)


@pytest.mark.parametrize("which", ["evaluation", "hostile", "odd", "many"])
@pytest.mark.slow
def test_pictures_are_drawn(
    browser: str, tmp_path: Path, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {"evaluation": made.evaluation(10, 3000), "hostile": hostile_run(), "odd": odd_run()}
    if which == "many":  # as on a server: the max of each series, the min of all
        monkeypatch.setattr(pictures, "_MANY", 8)
        runs["many"] = made.evaluation(10, 3000)
    file = tmp_path / "report.html"
    report.write([runs[which]], file)  # type: ignore[list-item]
    due = pictures_of(Page(file.read_text()))
    page, console = drawn(browser, file, tmp_path)
    assert "pictures: ok" in page.text
    assert console == ""
    assert due > 0 and sum(tag == "canvas" for tag, _ in page.tags) == due
    assert page.text.count("Number of samples per value") == len(page.data)
    assert len(page.blocks["script"]) == 3


@pytest.mark.slow
def test_a_link_opens_its_step_and_only_its_pictures_are_drawn(
    browser: str, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(evaluated(2))
    whole = re.search(r'id="step-2".*?</details>\s*<details class="step"', file.read_text(), re.S)
    assert whole
    due = whole.group().count("data-kind=")
    page, console = drawn(browser, file, tmp_path, "#step-2-q0")
    assert "pictures: ok" in page.text and console == ""
    assert 0 < due == sum(tag == "canvas" for tag, _ in page.tags) < pictures_of(page)
    opened = [a.get("id") for tag, a in page.tags if tag == "details" and "open" in a]
    assert opened == ["step-2"]
    page, _ = drawn(browser, file, tmp_path, "")
    assert "pictures: ok" in page.text
    assert not any(tag == "canvas" for tag, _ in page.tags)


@pytest.mark.slow
def test_steps_are_filtered_and_searched(browser: str, tmp_path: Path) -> None:
    """Each filter leaves its steps, a link to another one drops the filters."""
    text = re.sub(r"<meta http-equiv=[^>]*>", "", evaluated(2))
    acts = """<script>
    const filter = document.querySelector(".filter"), said = [];
    const left = () => [...document.querySelectorAll("details.step:not(.hidden)")]
        .map(one => one.id.slice(5)).join("");
    const act = (selector, change) => {
        const field = filter.querySelector(selector);
        change(field);
        field.dispatchEvent(new Event("input", { bubbles: true }));
        said.push(left());
    };
    act("[type=search]", one => { one.value = "CAL-P-TRC"; });
    act("[type=search]", one => { one.value = "no right  priorities"; });
    act("[type=search]", one => { one.value = ""; });
    act("[name=load]", one => { one.value = "sched"; });
    act("[name=load]", one => { one.value = ""; });
    act("[name=failed]", one => { one.checked = true; });
    location.hash = "#step-4";
    setTimeout(() => { said.push(left()); document.title = said.join("|"); }, 100);
    </script></body>"""
    file = tmp_path / "report.html"
    file.write_text(text.replace("</body>", acts))
    page, console = drawn(browser, file, tmp_path, "")
    assert console == ""
    assert "4|3|1234|2|1234|2|1234" in page.text


MEASURED = """<script>
addEventListener("load", () => {
    document.title = [...document.querySelectorAll("iframe")].map(measured).join(" | ");
});
const measured = frame => {
    const wrong = [], near = 1, page = frame.contentDocument;
    const name = one => one.textContent.trim().slice(0, 40);
    if (page.documentElement.scrollWidth > frame.clientWidth) wrong.push("the page is too wide");
    for (const one of page.querySelectorAll("#answer .command-line, #answer .callout, #answer li"))
        if (one.scrollWidth > one.clientWidth + near) wrong.push("cut: " + name(one));
    for (const code of page.querySelectorAll("#answer .command-line code")) {
        const button = code.parentElement.querySelector("button").getBoundingClientRect();
        for (const word of code.querySelectorAll("span")) for (const box of word.getClientRects())
            if (box.width && box.right > button.left + near && box.top < button.bottom - near &&
                button.width) wrong.push("below the button: " + name(word));
    }
    for (const svg of page.querySelectorAll("#answer svg[viewBox]")) {
        const room = svg.getBoundingClientRect();
        const texts = [...svg.querySelectorAll("text")]
            .map(one => [one, one.getBoundingClientRect()]);
        for (const [one, box] of texts) {
            if (box.left < room.left - near || box.right > room.right + near)
                wrong.push("outside: " + name(one));
            for (const [other, its] of texts)
                if (one !== other && box.left < its.right - near && its.left < box.right - near &&
                    box.top < its.bottom - 4 && its.top < box.bottom - 4)
                    wrong.push(name(one) + " on " + name(other));
        }
    }
    return "wrong: " + (wrong.join("; ") || "nothing") + "; texts " +
        page.querySelectorAll("#answer svg[viewBox] text").length + "; commands " +
        page.querySelectorAll("#answer .command-line button:not([hidden])").length;
};
</script>"""


INKED = """<script>
    const count = () => {
        const one = document.querySelector("figure[data-kind=time] canvas");
        const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height);
        let inked = 0;
        for (let k = 0; k < data.length; k += 4)
            if (data[k] === 29 && data[k + 1] === 92 && data[k + 2] === 136) inked++;
        document.title = "inked: " + inked;
    };
    const check = document.getElementById("selfcheck");
    new MutationObserver(() => setTimeout(count, 200)).observe(check, { childList: true });
</script></body>"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 3])
def test_samples_far_apart_are_drawn_over_time(browser: str, tmp_path: Path, number: int) -> None:
    """A value with no neighbour has no line: it was left out."""
    text = re.sub(
        r"<meta http-equiv=[^>]*>", "", rendered(made.run([made.step(0, made.apart(number))]))
    )
    file = tmp_path / "report.html"
    file.write_text(text.replace("</body>", INKED))
    page, _ = drawn(browser, file, tmp_path)
    found = re.search(r"inked: (\d+)", page.text)
    assert found and int(found[1]) >= 400, page.text[:100]
    widths = re.findall(r"a cell is (\S+?)[\s\u202f]µs wide", page.text)
    assert widths and all(400 < float(one) < 600 for one in widths), widths


ROOM = """<script>
addEventListener("load", () => {
    const frame = document.querySelector("iframe"), page = frame.contentDocument, found = [];
    for (const one of page.querySelectorAll("details")) one.open = true;
    for (const head of page.querySelectorAll("thead th")) {
        const box = head.closest(".scroll"), first = head.parentElement.firstElementChild;
        if (["Reason", "Remedy", "Evidence"].includes(head.textContent) && !head.closest(".lead"))
            found.push(head.offsetWidth >= 140 &&
                head.offsetWidth + first.offsetWidth <= box.clientWidth);
    }
    document.title = found.length + " columns, " + found.filter(one => !one).length + " narrow";
});
</script>"""


@pytest.mark.slow
def test_on_a_narrow_screen_sentences_in_tables_have_room(browser: str, tmp_path: Path) -> None:
    """Next to the first column, which stays in view."""
    why = "not permitted, even to root: the kernel is locked down, or this is a container"
    run = made.evaluation(1, 500)
    names = ("interrupt-latency", "interrupt-to-thread", "mutex-inversion")
    for at, name in enumerate(names, len(run.steps)):
        run.steps.append(made.step(at, [], name, state="skipped", reason=why, remedy=why))
    setting = {"before": "0", "asked": "1", "effective": None, "reason": why}
    run.document["environment"] = {
        **made.ENVIRONMENT,
        "settings": {"/sys/kernel/debug/sched/fair_server/cpu0/runtime": setting},
    }
    file = tmp_path / "report.html"
    report.write([run], tmp_path / "inner.html")  # type: ignore[list-item]
    inner = re.sub(r"<meta http-equiv=[^>]*>", "", (tmp_path / "inner.html").read_text())
    frame = f'<iframe width="500" height="900" srcdoc="{escape(inner)}"></iframe>'
    file.write_text(f"<!DOCTYPE html><title>none</title>{frame}{ROOM}")
    page, _ = drawn(browser, file, tmp_path, "")
    found = re.search(r"(\d+) columns, (\d+) narrow", page.text)
    assert found, page.text[:200]
    assert int(found[1]) > 5 and found[2] == "0"


@pytest.mark.parametrize("which", ["evaluation", "fake", "dense", "right"])
@pytest.mark.slow
def test_the_answer_is_neither_cut_nor_overlapping(
    browser: str, tmp_path: Path, which: str
) -> None:
    """Measured in the fonts that are drawn: commands, boxes, and the labels of the picture."""
    values = np.concatenate([np.full(300, 5000), np.linspace(60_000, 99_000, 300)])
    series = made.sampled(values.astype(np.int32))
    dense = made.run([made.step(0, [series], load="sched", budget_ns=90_000)])
    fake = made.run([made.step(0, [series], budget_ns=150_000)], target="fake")
    wide = made.sampled(np.linspace(12e3, 243e3, 600).astype("i4"))
    right = made.run([made.step(0, [wide], budget_ns=150_000)])  # the budget is named at its left
    runs = {"dense": dense, "fake": fake, "right": right}
    text = evaluated(2) if which == "evaluation" else rendered(runs[which])
    page = in_frames(browser, tmp_path, MEASURED, text, 400, 1280)
    good = r"wrong: nothing; texts [1-9]\d*; commands [1-9]\d*"
    assert re.search(rf"{good} \| {good}", page.text), page.text[:500]


LETTERS = """<script>
addEventListener("load", () => {
    const page = document.querySelector("iframe").contentDocument;
    const high = one => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a;
    const all = [...page.querySelectorAll(".drawing text")].map(high);
    const left = one => Math.min(...[...page.querySelectorAll(one)]
        .map(text => text.getBoundingClientRect().left).filter(Boolean));
    document.title = `${all.length} texts, the smallest ${Math.min(...all).toFixed(2)}; ` +
        `in the margin: ${left(".drawing text") < left(".drawn h4")}; ` +
        `too wide: ${page.documentElement.scrollWidth - page.documentElement.clientWidth}`;
});
</script>"""


@pytest.mark.slow
@pytest.mark.parametrize("wide", [400, 800, 1280])
def test_letters_of_drawings_are_readable(browser: str, tmp_path: Path, wide: int) -> None:
    """On a phone, a wide picture is scrolled instead of made small."""
    text = evaluated(2).replace("<details", "<details open")
    assert 'viewBox="0 0 482 ' in text and 'viewBox="0 0 330 ' in text
    page = in_frames(browser, tmp_path, LETTERS, text, wide)
    found = re.search(
        r"(\d+) texts, the smallest ([\d.]+); in the margin: false; too wide: 0", page.text
    )
    assert found, page.text[:200]
    assert int(found[1]) > 20 and float(found[2]) >= 9


CONTRAST = """<script>
addEventListener("load", () => {
    const page = document.querySelector("iframe").contentDocument, faint = new Set();
    const style = getComputedStyle;
    const light = colour => {
        const parts = colour.match(/[0-9.]+/g).map(part => part / 255)
            .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05;
    };
    const behind = one => {
        const colour = style(one).backgroundColor;
        return colour.startsWith("rgb(") || !one.parentElement ? colour : behind(one.parentElement);
    };
    for (const one of page.querySelectorAll("details")) one.open = true;
    const texts = [...page.querySelectorAll("body *")].filter(one => one.getClientRects().length &&
        [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()));
    for (const one of texts) {
        const text = style(one)[one.ownerSVGElement ? "fill" : "color"];
        const both = [light(text), light(behind(one))];
        const ratio = Math.max(...both) / Math.min(...both);
        if (ratio < 4.5) faint.add(`${one.outerHTML.slice(0, 60)} ${ratio.toFixed(2)}`);
    }
    document.title = `${texts.length} texts, faint: ${[...faint].join(", ") || "none"}`;
});
</script>"""


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_differ_from_their_background(browser: str, tmp_path: Path, theme: str) -> None:
    """WCAG 2.1, 1.4.3: a contrast of 4.5. The number of an open step had 4.2."""
    text = evaluated(2).replace("<html ", f'<html data-theme="{theme}" ', 1)
    page = in_frames(browser, tmp_path, CONTRAST, text, 1280)
    assert re.search(r"[1-9]\d{2,} texts, faint: none", page.text), page.text[:400]


COLUMNS = """<script>
addEventListener("load", () => {
    const page = document.querySelector("iframe").contentDocument, found = [];
    for (const one of page.querySelectorAll("details")) one.open = true;
    for (const head of page.querySelectorAll("thead th")) {
        const edge = head.closest(".scroll").getBoundingClientRect().right;
        if (head.textContent.endsWith("%")) found.push(head.getBoundingClientRect().right <= edge);
    }
    document.title = `${found.length} columns, in view: ${found.every(one => one)}`;
});
</script>"""


@pytest.mark.slow
def test_on_a_phone_the_percentile_that_decides_is_in_view(browser: str, tmp_path: Path) -> None:
    values = np.linspace(5e3, 9e4, 2000).astype(np.int32)
    series = made.sampled(values)
    runs = [made.run([made.step(0, [series])], id=f"0190c3a{at}", study="one", target=name)
            for at, name in enumerate(("a", "b"))]  # fmt: skip
    source = report.Source(runs)  # type: ignore[arg-type]
    text = html.render(source.analysis, source.comparison)
    page_of_it, _, _ = text.partition('<details class="run"')  # the runs themselves follow
    page = in_frames(browser, tmp_path, COLUMNS, page_of_it, 420)
    assert re.search("[1-9][0-9]* columns, in view: true", page.text), page.text[:200]


SPARE = """<script>
addEventListener("load", () => {
    const page = document.querySelector("iframe").contentDocument;
    for (const one of page.querySelectorAll("details")) one.open = true;
    const rows = [...page.querySelectorAll(".lead tr:not(.chapter)")], heads = new Map();
    const spare = rows.map(row => {
        const boxes = [...row.children].map(one => one.getBoundingClientRect());
        const table = row.closest("table");
        const lefts = boxes.map(box => Math.round(box.left)).join();
        heads.set(table, heads.get(table) || new Set()).get(table).add(lefts);
        return Math.round(row.getBoundingClientRect().right - Math.max(...boxes.map(b => b.right)));
    });
    const even = [...heads.values()].every(one => one.size === 1);
    const broad = rows.some(row => row.clientWidth > row.closest(".scroll").clientWidth &&
        row.firstElementChild.offsetWidth > 110);
    document.title = `${rows.length} rows, even: ${even}, broad: ${broad}, ` +
        `spare: ${Math.max(...spare)} px`;
});
</script>"""


@pytest.mark.slow
@pytest.mark.parametrize("wide", [420, 800])
def test_columns_are_below_their_heads_on_a_narrow_screen(
    browser: str, tmp_path: Path, wide: int
) -> None:
    """The rows have no common table there. Medians were below the head of the maximum, and names
    were broken into four lines next to an empty third of the screen."""
    page = in_frames(browser, tmp_path, SPARE, rendered(made.evaluation(2, 2000)), wide)
    assert re.search("[1-9][0-9]* rows, even: true, broad: false, spare: 0 px", page.text), (
        page.text[:200]
    )


LINES = """<script>
addEventListener("load", () => {
    const page = document.querySelector("iframe").contentDocument, lines = [];
    for (const one of page.querySelectorAll("summary .k-max, summary .k-median")) {
        const words = page.createRange();
        words.selectNodeContents([...one.childNodes].find(node => node.nodeType === 3));
        lines.push(words.getClientRects().length);
    }
    document.title = `lines: ${lines}; wide: ` +
        (page.documentElement.scrollWidth <= page.documentElement.clientWidth);
});
</script>"""


@pytest.mark.slow
@pytest.mark.parametrize("paper", [False, True])
def test_a_large_maximum_keeps_its_unit(browser: str, tmp_path: Path, paper: bool) -> None:
    """In the row of a step: seven digits, without a line break before the unit."""
    values = np.append(np.full(500, 1_234_567_890), 2_147_483_000).astype(np.int32)
    series = made.sampled(values)
    text = rendered(made.run([made.step(0, [series])]))
    if paper:
        text = text.replace("@media screen", "@media none").replace("@media print", "@media all")
    page = in_frames(browser, tmp_path, LINES, text, 688 if paper else 1280)
    assert "lines: 1,1; wide: true" in page.text, page.text[:200]


@pytest.mark.slow
def test_a_heading_is_printed_on_the_page_of_its_points(browser: str, tmp_path: Path) -> None:
    """In columns, the points moved to the next page without it, and left half of a page empty."""
    points = "".join(f"<li>point {at}</li>" for at in range(5))
    part = f'<section class="block"><h3>heading</h3><ul class="points">{points}</ul></section>'
    file, printed = tmp_path / "page.html", tmp_path / "page.pdf"
    style = (Path(html.__file__).parent / "static" / "report.css").read_text()
    file.write_text(f"<!doctype html><title>-</title><style>{style}</style>{part * 60}")
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    words += [f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={printed}"]
    subprocess.run([*words, file.as_uri()], capture_output=True, timeout=120, check=True)
    done = subprocess.run(["pdftotext", printed, "-"], capture_output=True, timeout=60, check=True)
    pages = [page.split() for page in done.stdout.decode().split("\f") if page.strip()]
    assert len(pages) > 5
    assert not [page for page in pages if page[-1] == "heading"]


@pytest.mark.slow
@pytest.mark.parametrize("limit", [8, 1024])
def test_the_controls_work(
    browser: str, tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hide, isolate and show series, zoom by key, change the scale: no error, pictures remain.
    ``limit``: the number of series beyond which the pictures over time have less of each."""
    monkeypatch.setattr(pictures, "_MANY", limit)
    text = re.sub(r"<meta http-equiv=[^>]*>", "", rendered(made.evaluation(10, 3000)))
    clicks = """<script>
    const act = () => {
    const all = [...document.querySelectorAll(".legend button")];
    const press = (kind, b) => b.dispatchEvent(new MouseEvent(kind, { bubbles: true }));
    for (const b of all) press("click", b);
    for (const b of all.slice(0, 10)) press("click", b);
    for (const b of document.querySelectorAll(".tools button")) press("click", b);
    for (const b of all.slice(0, 3)) press("dblclick", b);
    window.dispatchEvent(new Event("beforeprint")); window.dispatchEvent(new Event("afterprint"));
    for (const u of document.querySelectorAll(".uplot"))
        for (const key of ["+", "+", "ArrowLeft", "ArrowRight", "-", "0"])
            u.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    for (const s of document.querySelectorAll("figure select")) {
        s.selectedIndex = s.options.length - 1;
        s.dispatchEvent(new Event("change"));
    }
    for (const o of document.querySelectorAll(".u-over")) {
        const box = o.getBoundingClientRect();
        for (const part of [0.02, 0.5, 0.97])
            for (const kind of ["mouseenter", "mousemove"])
                o.dispatchEvent(new MouseEvent(kind, { bubbles: true,
                    clientX: box.left + part * box.width, clientY: box.top + part * box.height }));
    }
    for (const b of document.querySelectorAll(".legend .all")) press("click", b);
    document.title = [...document.querySelectorAll("[aria-pressed]")]
        .map(b => b.getAttribute("aria-pressed") === "true" ? "+" : "-").join("");
    };
    const check = document.getElementById("selfcheck");
    new MutationObserver(act).observe(check, { childList: true });
    </script></body>"""
    file = tmp_path / "report.html"
    file.write_text(text.replace("</body>", clicks))
    page, console = drawn(browser, file, tmp_path)
    assert "pictures: ok" in page.text
    assert console == ""
    assert sum(tag == "canvas" for tag, _ in page.tags) == pictures_of(page)
    assert "+" * 20 in page.text and "-" * 20 not in page.text


ACTING = """<script>
const drawn = [], put = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
    drawn.push(text); put.call(this, text, ...at);
};
const one = kind => document.querySelector(`figure[data-kind=${kind}]`);
const shown = (kind, part) => {
    const over = one(kind).querySelector(".u-over"), box = over.getBoundingClientRect();
    for (const what of ["mouseenter", "mousemove"])
        over.dispatchEvent(new MouseEvent(what, { bubbles: true,
            clientX: box.left + part * box.width, clientY: box.top + 0.5 * box.height }));
    return one(kind).querySelector(".readout").textContent;
};
const press = (kind, ...keys) => {
    for (const key of keys) one(kind).querySelector(".uplot")
        .dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    return later();
};
const later = () => new Promise(done => setTimeout(done, 300));  // uPlot draws and resizes later
const act = async () => {
    await later();
    document.title = `said: ${JSON.stringify(await ACTS)} .`;
};
addEventListener("load", () => new MutationObserver((_, self) => { self.disconnect(); act(); })
    .observe(document.getElementById("selfcheck"), { childList: true }));
</script>"""


def said(browser: str, scratch: Path, acts: str, *runs: Any) -> Any:
    """What an expression gives in the page of runs, all of whose pictures are drawn. It can call
    ``shown`` (the readout of a kind of picture, its cursor at a part of its width), await ``press``
    (keys), and read ``drawn``, the texts in the pictures."""
    source = report.Source(runs)
    text = html.render(source.analysis, source.comparison)
    text = re.sub(r"<meta http-equiv=[^>]*>", "", text)
    text = text.replace("<body", ACTING.replace("ACTS", acts) + "<body", 1)
    file = scratch / "report.html"
    file.write_text(text)
    page, console = drawn(browser, file, scratch)
    assert "pictures: ok" in page.text and console == ""
    found = re.search(r"said: (.*?) \.", " ".join(page.words).replace("\u202f", " "), re.S)
    assert found, page.text[:200]
    return json.loads(found[1])


def series_of(values: list[int], at: int = 0, **more: Any) -> made.FakeSeries:
    return made.sampled(np.array(values, np.int32), at, **{"cpu": at, **more})


@pytest.mark.slow
def test_a_readout_is_that_of_the_bin_below_the_cursor(browser: str, tmp_path: Path) -> None:
    """With its ends told apart. The readout of the right half of a bin was that of the next one."""
    run = made.run([made.step(0, [series_of([5000] * 900 + [5001] * 70 + [5002] * 30)])])
    acts = "[0.05, 0.3, 0.36, 0.64, 0.69, 0.9].map(part => shown('histogram', part))"
    first, second, third = (
        f"{low} to {high} µs: {count} samples"
        for low, high, count in (
            ("5", "5.001", 900), ("5.001", "5.002", 70), ("5.002", "5.003", 30),
        )
    )  # fmt: skip
    assert said(browser, tmp_path, acts, run) == [first, first, second, second, third, third]


def parts(shape: str, text: str) -> tuple[str, ...]:
    found = re.fullmatch(shape, text)
    assert found, text
    return found.groups()


@pytest.mark.slow
def test_readouts_say_what_the_samples_are(browser: str, tmp_path: Path) -> None:
    """Each picture is checked against its samples. A single sample was called "1 samples"."""
    values = [5000] * 900 + [6000] * 99 + [9000]
    run = made.run([made.step(0, [series_of(values)])])
    kinds = ("histogram", "ccdf", "time", "heat", "around", "begin")
    acts = (
        f"Object.fromEntries({list(kinds)}.map(kind => [kind, "
        "[...Array(101).keys()].map(at => shown(kind, at / 100))]))"
    )
    found = said(browser, tmp_path, acts, run)
    assert set(found["histogram"]) <= {
        "5.00 to 6.00 µs: 900 samples", "6.00 to 7.00 µs: 99 samples", "7.00 to 8.00 µs: 0 samples",
        "8.00 to 9.00 µs: 0 samples", "9.00 to 10.0 µs: 1 sample",
    }  # fmt: skip
    assert found["histogram"][-1] == "9.00 to 10.0 µs: 1 sample"
    for text in found["ccdf"]:
        low, count = parts(r"≥ (.*) µs: (.*) of 1 000", text)
        assert int(count.replace(" ", "")) == sum(v >= float(low) * 1000 for v in values), text
    for text in found["time"] + found["heat"]:
        at, top = parts(r"(.*) s · .*max (.*) µs", text)
        here = values[max(round(float(at) * 1000) - 6, 0) : round(float(at) * 1000) + 6]
        assert float(top) * 1000 in here, text
    for text in found["around"]:
        shape = r"(.*) ms · due at (.*) ms · sample (.*): (.*) µs"
        apart, due, at, value = parts(shape, text)
        assert float(due) == int(at) == 999 + float(apart.replace("−", "-")), text
        assert float(value) * 1000 == values[int(at)], text
    for text in found["begin"]:
        at, value = parts(r"due at (.*) ms: (.*) µs", text)
        assert float(value) * 1000 == values[round(float(at))], text


@pytest.mark.slow
def test_a_readout_names_whose_periods_were_missed(browser: str, tmp_path: Path) -> None:
    values = np.full(1000, 5000, np.int32)
    index, late, gaps = made.with_stalls(values, {500: 400}, made.MS)
    other = made.FakeSeries(made.info(1, 1), index, late, gaps=gaps)
    run = made.run([made.step(0, [series_of([4000] * 1000), other])])
    found = said(browser, tmp_path, "[...Array(40).keys()].map(k => shown('time', k / 40))", run)
    missed = [one for one in found if "missed" in one]
    assert missed and all("CPU 0" in one and "missed by other series" in one for one in missed)


@pytest.mark.slow
def test_a_bin_with_no_neighbour_shows_its_min_and_median(browser: str, tmp_path: Path) -> None:
    """It showed the maximum alone, as if all samples were equal."""
    bursts = [np.arange(20) + number * 2000 for number in range(25)]
    values = np.tile(np.array([2000, 9000] * 10, np.int32), 25)
    gaps = tuple((int(one[-1]), 1980) for one in bursts[:-1])
    series = made.FakeSeries(made.info(), np.concatenate(bursts), values, gaps=gaps)
    acts = """(() => {
        const bars = [], context = CanvasRenderingContext2D.prototype, put = context.fillRect;
        context.fillRect = function (...at) { bars.push(at[3]); put.call(this, ...at); };
        return press("time", "0").then(() => bars);
    })()"""
    heights = said(browser, tmp_path, acts, made.run([made.step(0, [series])]))
    assert sum(height > 60 for height in heights) >= 20


@pytest.mark.slow
def test_the_pictures_round_as_the_tables_do(browser: str, tmp_path: Path) -> None:
    """A maximum of 100.5 µs was 100 in the table and 101 in the picture."""
    values = [-5, -4, 0, 1, 999, 1115, 1125, 1135, 1725, 2675, 9995, 9996, 12_250, 12_350, 12_345]
    values += [99_950, 99_949, 100_500, 101_500, 101_501, 1_000_500, 2**31 - 1, 2**40 + 500]
    source = report_script()
    numbers_of = source[source.index("/* --- numbers --- */") : source.index("const SUP")]
    rounded = f"(() => {{ {numbers_of} return {values}.map(v => show(v / 1000)); }})()"
    shares = [99.96, 99.9996, 99.99999999999999, 100.04, 100, 0.04, 0.0004, 0]
    percent = f"(() => {{ {numbers_of} return {shares}.map(v => show(v, true, '%')); }})()"
    acts = f"[{rounded}, {percent}, [...drawn, shown('begin', 0.99)]]"
    run = made.run([made.step(0, [series_of([100_500, 12_250, -4])])])
    texts, percentages, found = said(browser, tmp_path, acts, run)
    assert percentages == [numbers.shown(share, "%").text for share in shares]
    for value, text in zip(values, texts, strict=True):
        if not -5 < value < 0:
            assert text == numbers.shown(value, "ns").text.replace("\u202f", " "), value
    assert "max 100 µs" in found and "max 101 µs" not in found
    assert found[-1].endswith(": 0.00 µs")


def report_script() -> str:
    return (Path(html.__file__).parent / "static" / "report.js").read_text()


@pytest.mark.slow
def test_an_axis_across_zero_keeps_its_numbers(browser: str, tmp_path: Path) -> None:
    """Below 1 µs the axis had the number 0 alone, and none once enlarged."""
    run = made.run([made.step(0, [series_of(list(range(900)))])])
    acts = "(async () => [drawn.splice(0), (await press('histogram', '+', '+'), drawn)])()"
    before, after = said(browser, tmp_path, acts, run)
    assert {"0", "0.2", "0.4", "0.6", "0.8"} <= set(before)
    assert len(set(after) & {"0.35", "0.4", "0.45", "0.5"}) >= 2


@pytest.mark.slow
def test_a_picture_against_a_number_is_enlarged(browser: str, tmp_path: Path) -> None:
    series = [
        series_of([3000 + at * 100] * 50, at, cpu=0, labels={"waiters": str(2**at)})
        for at in range(6)
    ]
    acts = (
        "(async () => [shown('against', 0), await press('against', '+', '+'), "
        "shown('against', 0.01)])()"
    )
    run = made.run([made.step(0, [*series])])
    first, _, enlarged = said(browser, tmp_path, acts, run)
    assert first.startswith("waiters 1:") and enlarged.startswith("waiters 4:"), enlarged


@pytest.mark.slow
def test_counts_on_an_axis_are_powers_of_ten_as_on_paper(browser: str, tmp_path: Path) -> None:
    """They were written out from 10 000, on top of the name of the axis."""
    run = made.run([made.step(0, [series_of([5000] * 20_000 + [6000])])])
    found = said(browser, tmp_path, "drawn", run)
    assert {scales.power(10.0**at) for at in range(-4, 5)} <= {
        one.replace(" ", numbers.GAP) for one in found
    }
    assert "10000" not in found


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 9])
def test_a_system_has_one_colour_in_tables_and_pictures(
    browser: str, tmp_path: Path, number: int
) -> None:
    """With nine, those of the pictures were others, and the first and the last had the same."""
    runs = [
        made.run(
            [made.step(0, [series_of(list(range(5000 + at, 5300 + at)))])],
            target=f"board-{at}", id=f"0192f0c4-6d1e-7aaa-8000-00000000000{at}", boot_id=f"b{at}",
        )
        for at in range(number)
    ]  # fmt: skip
    acts = """["legend button .swatch", "ends .swatch"].map(which =>
        [...document.querySelectorAll(".quantity ." + which)].map(one =>
        getComputedStyle(one)[which[0] === "l" ? "borderTopColor" : "backgroundColor"]))"""
    drawn_, listed = said(browser, tmp_path, acts, *runs)
    assert drawn_ == listed and len(set(listed)) == number


@pytest.mark.slow
def test_the_browsers_own_keys_are_left_to_it(browser: str, tmp_path: Path) -> None:
    """Text could not be enlarged with Ctrl + while a picture had the focus."""
    acts = """[{}, { ctrlKey: true }, { metaKey: true }, { altKey: true }].map(held => {
        const event = new KeyboardEvent("keydown",
            { key: "+", bubbles: true, cancelable: true, ...held });
        one("time").querySelector(".uplot").dispatchEvent(event);
        return event.defaultPrevented;
    })"""
    run = made.run([made.step(0, [series_of(list(range(5000, 5300)))])])
    assert said(browser, tmp_path, acts, run) == [True, False, False, False]


@pytest.mark.slow
def test_only_a_logarithmic_axis_is_offered_a_linear_scale(browser: str, tmp_path: Path) -> None:
    """On a linear one the button changed nothing but its own text."""
    acts = """(() => {
        const found = [...one("time").querySelectorAll(".tools button")].at(-1);
        const state = () => found.getClientRects().length ? found.textContent : "";
        const before = state();
        found.click();
        return [before, state()];
    })()"""
    wide = made.run([made.step(0, [series_of([3000, 90_000] * 500)])])
    assert said(browser, tmp_path, acts, wide) == ["Linear scale", "Logarithmic scale"]
    flat = made.run([made.step(0, [series_of([3000, 4000] * 500)])])
    before, _ = said(browser, tmp_path, acts, flat)
    assert before == ""


@pytest.mark.slow
@pytest.mark.parametrize("which", ["evaluation", "long"])
@pytest.mark.parametrize("wide", [688, 400, 1280])
def test_no_part_is_wider_than_the_paper_or_the_screen(
    browser: str, tmp_path: Path, wide: int, which: str
) -> None:
    """688 pixels are the width of the text on A4, all steps open. A browser prints the whole page
    smaller if one table is wider: text of 9.5 points had 6.3, and pictures were flattened."""
    names = [
        series_of(list(range(5000, 5400)), at, labels={"method": "m" * 250 + str(at)})
        for at in range(3)
    ]
    long = made.run([made.step(0, [*names], load="L" * 250)], label="W" * 250, target="t" * 250)
    text = evaluated(4) if which == "evaluation" else rendered(long)
    text = text.replace("<details", "<details open")
    if wide == 688:
        text = text.replace("@media screen", "@media print").replace(
            "@media print {", "@media all {"
        )
    measured = (
        "<script>addEventListener('load', () => setTimeout(() => {"
        "const page = document.querySelector('iframe').contentDocument;"
        "document.title = `wide: ${page.documentElement.scrollWidth} of ${page.body.clientWidth} `"
        "+ page.querySelectorAll('canvas').length; }, 500));</script>"
    )
    page = in_frames(browser, tmp_path, measured, text, wide)
    found = re.search(r"wide: (\d+) of (\d+) (\d+)", page.text)
    assert found and int(found[3]) > 3, page.text[:200]
    assert int(found[1]) <= int(found[2])


@pytest.mark.slow
def test_the_maximum_is_in_view_beside_the_contents(browser: str, tmp_path: Path) -> None:
    """On a screen of 1200 pixels, in a table with a column for each percentile."""
    values = np.random.default_rng(3).gamma(2, 900_000, 200_000).astype(np.int32)
    values[1000] = 79_990_005
    series = made.sampled(values)
    text = rendered(made.run([made.step(0, [series])])).replace("<details", "<details open")
    measured = (
        "<script>addEventListener('load', () => {"
        "const page = document.querySelector('iframe').contentDocument;"
        "document.title = 'in view: ' + [...page.querySelectorAll('.scroll')]"
        ".filter(one => one.textContent.includes('Below each percentile'))"
        ".map(one => [one.querySelectorAll('thead th').length, one.querySelector('td.peak')"
        ".getBoundingClientRect().right <= one.getBoundingClientRect().right]); });</script>"
    )
    page = in_frames(browser, tmp_path, measured, text, 1200)
    assert re.search(r"in view: 1[1-9],true ", page.text), page.text[:300]


@pytest.mark.parametrize("lack", ["function", "data"])
@pytest.mark.slow
def test_pictures_that_cannot_be_decompressed(browser: str, tmp_path: Path, lack: str) -> None:
    """The page says so where the pictures would be, and its tables are whole."""
    text = re.sub(r"<meta http-equiv=[^>]*>", "", evaluated(2))
    if lack == "function":
        text = text.replace("<body", "<script>delete window.DecompressionStream</script><body", 1)
        reason = (
            "No pictures: this browser has no DecompressionStream. Open the report in Chrome 80"
        )
    else:
        text = re.sub(r'(id="data">.{200}).{4}', r"\1AAAA", text)
        reason = "No pictures: "
    file = tmp_path / "report.html"
    file.write_text(text)
    page, _ = drawn(browser, file, tmp_path)
    groups = sum("data-group" in attributes for _, attributes in page.tags)
    assert page.text.count(reason) == groups > 0
    assert "pictures: ok" not in page.text
    assert not any(tag == "canvas" for tag, _ in page.tags)
