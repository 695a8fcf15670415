# SPDX-License-Identifier: Apache-2.0
"""Pages of a report to test, and what reads them back."""

from __future__ import annotations

import base64
import functools
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any

import numpy as np

import report_runs as made
from rtgauge import stream
from rtgauge.report.render import html
from rtgauge.report.results import model

VOID = {"meta", "link", "br", "hr", "img", "input"}
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>'\"&\u2028<!--"


class Page(HTMLParser):
    """Reads a page, checking that what is opened is closed, and keeps what matters."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: dict[str, list[str]] = {"script": [], "style": []}
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in self.blocks:
            self.blocks[tag].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert tag not in VOID
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.blocks:
            self.blocks[self.open[-1]][-1] += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words).replace("\u202f", " "))

    @property
    def data(self) -> Any:
        return inflated(self.blocks["script"][0])


def inflated(text: str) -> Any:
    """The data of a page, from the text of its element."""
    return json.loads(zlib.decompress(base64.b64decode(text, validate=True)))


def page_of(*runs: made.FakeRun) -> tuple[Page, str]:
    text = rendered(*runs)
    return Page(text), text


def rendered(*runs: made.FakeRun) -> str:
    return html.render(model.analyse(list(runs)))  # type: ignore[arg-type]


@functools.cache
def evaluated(cpus: int) -> str:
    """The text of the page of an evaluation."""
    return rendered(made.evaluation(cpus, 3000))


def hostile_run(evil: str = HOSTILE) -> made.FakeRun:
    info = made.info(name=evil, labels={evil: evil}, unit=evil, policy=evil, context="user")
    values = np.arange(1, 400, dtype=np.int32)
    series = made.FakeSeries(info, np.arange(399), values)
    twin = made.sampled(values, 1, 1, name=evil, labels={evil: "other"}, unit=evil)
    events = [
        stream.Event(0, "message", 10**9, None, {"text": evil}),
        stream.Event(0, "load", 10**9, None, {"load": evil, "message": evil}),
    ]
    table = stream.Table(0, evil, (stream.Column(evil, evil),), ((evil,),))
    step = made.step(
        0,
        [series, twin],
        evil,
        load=evil,
        reason=evil,
        remedy=evil,
        told=events,
        tables=[table],
        verdicts=[stream.Verdict(0, evil, "fail", evil, evil)],
        settings=[stream.Setting(0, evil, evil, evil, evil, evil)],
        work=[stream.Work(0, evil, evil, 5, 0, 10**9)],
        end=stream.StreamEnd(False, 1, 1, 1, evil, False),
    )
    findings = [{"check": evil, "found": evil, "level": "error", "why": evil, "remedy": evil}]
    environment = {
        "kernel": {evil: evil, "release": evil},
        "cpu": {"model": evil},
        "libc": evil,
        "realtime": "none",
        "settings": {},
    }
    catalogue = {
        "measurements": [
            {
                "name": evil,
                "summary": evil,
                "code": evil,
                "role": "measurement",
                "series": [
                    {
                        "name": evil,
                        "meaning": evil,
                        "from": evil,
                        "to": evil,
                        "stages": [evil],
                    }
                ],
                "tables": [{"name": evil, "meaning": evil}],
            }
        ]
    }
    return made.run(
        [step],
        target=evil,
        label=evil,
        study=evil,
        findings=findings,
        environment=environment,
        catalogue=catalogue,
        state="failed",
        reason=evil,
        id=evil,
        boot_id=evil,
    )


def odd_run() -> made.FakeRun:
    """Negative and constant values, one sample, other units, histograms alone."""
    early = made.sampled((np.arange(500, dtype=np.int32) - 100) * 40)
    constant = made.sampled(np.full(50, 7, np.int32), 1, name="flat", unit="count")
    single = made.sampled(np.array([0], np.int32), 2, name="one")
    snapshot = stream.Histogram(
        9, 3, 50, 5, 100, 2150, 0, 0, 0, 7, np.array([[5, 30], [100, 20]], np.int64)
    )
    closed = made.sampled(
        np.empty(0, np.int32), 3, name="closed", histogram_only=True, histogram=snapshot
    )
    empty = made.sampled(np.empty(0, np.int32), 4, name="empty")
    return made.run([made.step(0, [early, constant, single, closed, empty])])
