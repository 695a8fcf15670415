# SPDX-License-Identifier: Apache-2.0
"""The target ``fake``: it does what an agent does, and the same each time."""

from __future__ import annotations

import pytest

from rtgauge.audit import audit
from rtgauge.catalogue import Catalogue
from rtgauge.clock import FakeClock, RealClock
from rtgauge.engine.environment import read_facts
from rtgauge.engine.study import execute
from rtgauge.errors import ExitCode, TargetError, UsageError
from rtgauge.plan import Plan, planned_step
from rtgauge.store import Store
from rtgauge.stream import Histogram, Record, Samples, SeriesInfo, StreamEnd, StreamReader, Trailer
from rtgauge.target import open_target
from rtgauge.target.fake import CATALOGUE, COUNTED, FAULTS, FakeTarget


def stream(name: str, measurement: str = "timer", **settings: str) -> bytes:
    target = open_target(name)
    step = planned_step(Catalogue.from_json(target.describe()), measurement, settings)
    agent = target.start([*step.arguments(), "--run", "r", "--step", "0"])
    data = b""
    while (piece := agent.read(0.2)) != b"":
        data += piece or b""
    return data


def read(data: bytes) -> tuple[list[Record], StreamEnd]:
    reader = StreamReader()
    return reader.feed(data), reader.finish()


@pytest.mark.parametrize("measurement", ["timer", "pendulum", "clock-cost", "telescope"])
def test_its_streams_are_good_and_the_same_each_time(measurement: str) -> None:
    data = stream("fake", measurement, load="sched,cpu")
    records, end = read(data)
    assert (end.complete, end.reason) == (True, "")
    assert data == stream("fake", measurement, load="sched,cpu")
    assert len({record.sequence for record in records}) == len(records)


def test_what_it_counts_is_what_it_sends() -> None:
    records, _ = read(stream("fake", **{"for": "13s"}, interval="100us"))
    trailer = records[-1]
    assert isinstance(trailer, Trailer)
    for info in (record for record in records if isinstance(record, SeriesInfo)):
        values = [
            value
            for record in records
            if isinstance(record, Samples) and record.series == info.series
            for value in record.values.tolist()
        ]
        last = [r for r in records if isinstance(r, Histogram) and r.series == info.series][-1]
        assert len(values) == 130_000
        assert (last.count, last.min, last.max, last.sum) == (
            len(values), min(values), max(values), sum(values),
        )  # fmt: skip
        assert int(last.buckets[:, 1].sum()) == len(values)
        totals = trailer.series[info.series]
        due = (totals.last_due_ns - totals.first_due_ns) // info.interval_ns + 1
        assert totals.count + totals.missed == due == len(values)


def test_histograms_only() -> None:
    records, end = read(stream("fake", **{"histogram-only": "yes"}))
    assert end.complete
    assert not any(isinstance(record, Samples) for record in records)
    assert all(r.histogram_only for r in records if isinstance(r, SeriesInfo))


def test_its_time_is_its_own() -> None:
    target = FakeTarget()
    assert isinstance(target.clock, FakeClock)
    assert isinstance(FakeTarget("realtime").clock, RealClock)
    with pytest.raises(ValueError, match="back"):
        target.clock.sleep(-1)


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - set(COUNTED)))
def test_every_fault_can_be_named(fault: str) -> None:
    assert FakeTarget(fault).name == f"fake:{fault}"


def test_unknown_faults() -> None:
    with pytest.raises(UsageError) as caught:
        open_target("fake:hnag")
    assert caught.value.remedy == "did you mean 'hang'?"
    with pytest.raises(UsageError):
        open_target("fake:exit=soon")


def test_what_it_cannot_do() -> None:
    with pytest.raises(TargetError):
        FakeTarget().start(["environment"])
    with pytest.raises(TargetError):
        FakeTarget("missing").describe()


def test_the_audit_knows_what_to_say_of_it() -> None:
    _, facts, _ = read_facts(open_target("fake").environment())
    findings = audit(facts)
    assert [one.check for one in findings if "unknown" in one.found] == []
    assert {one.level for one in findings} <= {"ok", "note", "warning"}
    _, facts, _ = read_facts(open_target("fake:unprivileged").environment())
    assert [one.check for one in audit(facts) if one.level == "error"] == ["privileges"]


@pytest.mark.parametrize("name", ["response", "log-host"])
def test_what_needs_a_line_is_skipped_without_one(store: Store, name: str) -> None:
    known = Catalogue.from_document(dict(CATALOGUE))
    step = planned_step(known, name, {"for": "1s"})
    (outcome,) = execute(Plan("test", (step,)), [open_target("fake")], store)
    assert (outcome.state, outcome.exit_code) == ("skipped", ExitCode.SKIPPED)


@pytest.mark.parametrize("end", [(), ("--for", "3s")])
def test_without_an_end_it_takes_real_time(
    monkeypatch: pytest.MonkeyPatch, end: tuple[str, ...]
) -> None:
    """After SIGTERM, the samples of hours were judged."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    agent = FakeTarget("").start(["run", "response", "--line", "gpio:a:1:2", *end])
    for _ in range(8):
        agent.read(1.0)
    assert bool(slept) is not bool(end)
