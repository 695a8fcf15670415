# SPDX-License-Identifier: Apache-2.0
"""Studies on the fake target: their order, several targets at once, and targets that are lost."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from rtgauge.engine.live import LiveStep
from rtgauge.engine.run import RunOutcome
from rtgauge.engine.study import execute, schedule
from rtgauge.errors import ExitCode, TargetError, UsageError
from rtgauge.report.results import model
from rtgauge.store import Store
from rtgauge.target import open_target
from rtgauge.target.fake import FakeTarget
from test_run import Watcher, timer


@pytest.mark.slow
def test_runs_of_a_study_are_interleaved_and_record_their_order(store: Store) -> None:
    def documents(seed: int | None = None) -> list[Mapping[str, Any]]:
        targets = [open_target("fake"), open_target("fake:late")]
        outcomes = execute(replace(timer(), repeat=2, order_seed=seed), targets, store)
        return [store.get(one.id).document for one in outcomes]

    found = documents(6)
    assert [one["target"] for one in found] == ["fake", "fake:late"] * 2
    assert [one["repeat"] for one in found] == [0, 0, 1, 1]
    assert [one["order"] for one in found] == [
        {"seed": 6, "place": place} for place in (0, 1, 1, 0)
    ]
    carried_out = sorted(found, key=lambda one: (one["repeat"], one["order"]["place"]))
    assert [one["started"] for one in carried_out] == sorted(one["started"] for one in found)
    assert {tuple(one["plan"]["targets"]) for one in found} == {("fake", "fake:late")}
    assert len({one["study"] for one in found}) == 1
    assert found[0]["study"]
    again = documents()
    (seed,) = {one["order"]["seed"] for one in again}
    assert [one["order"] for one in documents(seed)] == [one["order"] for one in again]


def test_a_single_target_has_no_order(store: Store) -> None:
    (outcome,) = execute(timer(), [open_target("fake")], store)
    assert "order" not in store.get(outcome.id).document


@pytest.mark.parametrize(
    ("targets", "repeat", "seed", "wanted"),
    [
        (1, 3, 0, ["0A", "1A", "2A"]),
        (2, 4, 6, ["0A", "0B", "1B", "1A", "2A", "2B", "3A", "3B"]),
        (3, 2, 7, ["0B", "0A", "0C", "1A", "1C", "1B"]),
    ],
)
def test_the_order_of_a_seed_stays(targets: int, repeat: int, seed: int, wanted: list[str]) -> None:
    """Across versions, because an old run's seed must give its order again."""
    assert [f"{turn}{'ABC'[at]}" for turn, at in schedule(targets, repeat, seed)] == wanted


def test_every_order_is_as_frequent() -> None:
    orders = Counter(tuple(at for _, at in schedule(3, 1, seed)) for seed in range(6000))
    assert len(orders) == 6
    # 5 standard deviations of a binomial count with p = 1/6
    assert all(abs(count - 1000) < 5 * math.sqrt(6000 * 5 / 36) for count in orders.values())


class _Together(Watcher):
    """Lets no run end before another one is being carried out."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.meeting = threading.Barrier(number, timeout=60)

    def step_ended(self, live: LiveStep, entry: Mapping[str, Any]) -> None:
        super().step_ended(live, entry)
        self.meeting.wait()


@pytest.mark.slow
def test_runs_on_several_targets_at_once(store: Store) -> None:
    targets = [open_target("fake"), open_target("fake:late")]
    watcher = _Together(2)
    wanted = replace(timer(), repeat=3)
    outcomes = execute(wanted, targets, store, watcher, at_once=2)
    assert [one.target for one in outcomes] == ["fake", "fake:late"] * 3
    documents = [store.get(one.id).document for one in outcomes]
    assert [one["repeat"] for one in documents] == [0, 0, 1, 1, 2, 2]
    assert {one["state"] for one in documents} == {"complete"}
    assert len({one["study"] for one in documents}) == 1
    assert watcher.messages == ["next to fake", "next to fake:late"]
    (alone,) = execute(timer(), [open_target("fake:late")], store)
    samples = [
        [list(map(int, chunk.value)) for chunk in store.get(one).steps[0].series[0].chunks()]
        for one in (alone.id, outcomes[1].id)
    ]
    assert samples[0] == samples[1]


@pytest.mark.slow
def test_one_target_has_one_run_at_a_time(store: Store) -> None:
    busy: list[int] = []

    class Busy(Watcher):
        def run_started(self, document: Mapping[str, Any], number: int, total: int) -> None:
            busy.append(1)

        def run_ended(self, outcome: RunOutcome) -> None:
            busy.append(-1)

    outcomes = execute(replace(timer(), repeat=3), [open_target("fake")], store, Busy(),
                       at_once=4)  # fmt: skip
    assert len(outcomes) == 3
    assert busy == [1, -1] * 3


def test_an_error_beside_another_run_leaves_that_one_complete(store: Store) -> None:
    class Broken:
        def __init__(self) -> None:
            self.target = open_target("fake:late")
            self.name, self.clock = "broken", self.target.clock
            self.describe, self.start = self.target.describe, self.target.start
            self.close = self.target.close

        def environment(self) -> bytes:
            raise TargetError("the board went away")

    outcomes = execute(
        replace(timer(), repeat=2), [open_target("fake"), Broken()], store, at_once=2
    )
    assert [(one.target, one.state) for one in outcomes] == [
        ("fake", "complete"), ("broken", "failed"), ("fake", "complete")
    ]  # fmt: skip


class Leaving(FakeTarget):
    """A board that goes away after ``left`` runs."""

    def __init__(
        self,
        options: str = "",
        left: int = 1,
        remedy: str = "look for it",
        why: str = "the board went away",
    ) -> None:
        super().__init__(options)
        self.left, self.remedy, self.why = left, remedy, why

    def environment(self) -> bytes:
        if not self.left:
            raise TargetError(self.why, self.remedy)
        self.left -= 1
        return super().environment()


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("the board went away", "fake:late: the board went away"),
        ("fake:late cannot be reached", "fake:late cannot be reached"),
    ],
)
@pytest.mark.slow
def test_a_study_goes_on_without_a_target_that_is_lost(store: Store, why: str, said: str) -> None:
    watcher = Watcher()
    targets = [open_target("fake"), Leaving("late", why=why)]
    outcomes = execute(replace(timer(), repeat=3), targets, store, watcher)
    assert [(one.target, one.state) for one in outcomes] == [
        ("fake", "complete"), ("fake:late", "complete"),
        ("fake", "complete"), ("fake:late", "failed"),
        ("fake", "complete"),
    ]  # fmt: skip
    lost = outcomes[3]
    assert (lost.reason, lost.remedy) == (why, "look for it")
    assert lost.exit_code == ExitCode.FAILED
    assert watcher.messages == [f"{said}. The study continues without this target"]
    run = store.get(lost.id)
    assert (run.document["state"], run.document["repeat"]) == ("failed", 1)
    assert run.document["study"] == store.get(outcomes[0].id).document["study"]
    assert {(one["state"], one["reason"]) for one in run.document["steps"]} == {
        ("skipped", f"the run could not begin: {why}")
    }
    document = model.build([store.get(one.id) for one in outcomes])
    model.validate(document)
    assert document["runs"][3]["reason"] == why


class Shrinking(FakeTarget):
    """A board whose second CPU is offline after a run."""

    def __init__(self, options: str = "") -> None:
        super().__init__(options)
        self.asked = 0

    def environment(self) -> bytes:
        self.asked += 1
        few = FakeTarget("cpus=1").environment()
        return super().environment() if self.asked <= 2 else few  # the first one is a check


@pytest.mark.slow
def test_a_study_goes_on_without_a_target_that_lost_a_cpu(store: Store) -> None:
    watcher = Watcher()
    wanted = replace(timer(cpu="1"), repeat=2, order_seed=1)
    outcomes = execute(wanted, [Shrinking("late"), open_target("fake")], store, watcher)
    assert [(one.target, one.state) for one in outcomes] == [
        ("fake:late", "complete"), ("fake", "complete"), ("fake:late", "failed"),
        ("fake", "complete"),
    ]  # fmt: skip
    assert outcomes[2].reason.endswith("target 'fake:late' has no online CPU 1")
    assert outcomes[2].remedy == "its online CPUs are 0"


@pytest.mark.slow
def test_a_study_does_not_promise_to_go_on_when_nothing_follows(store: Store) -> None:
    watcher = Watcher()
    targets = [open_target("fake"), Leaving("late")]
    seed = next(seed for seed in range(100) if schedule(2, 2, seed)[-1] == (1, 1))
    outcomes = execute(replace(timer(), repeat=2, order_seed=seed), targets, store, watcher)
    assert (outcomes[3].state, outcomes[3].reason) == ("failed", "the board went away")
    assert watcher.messages == []


def test_a_study_ends_when_all_its_targets_are_lost(store: Store) -> None:
    class Gone(FakeTarget):
        def environment(self) -> bytes:
            raise TargetError("the board went away", "look for it")

    outcomes = execute(replace(timer(), repeat=3), [Gone("late"), Gone("overloaded")], store)
    assert [one.state for one in outcomes] == ["failed", "failed"]


@pytest.mark.parametrize(("after", "said"), [(0, "look for it"), (2, "look for it"), (2, "")])
def test_a_study_that_loses_its_target_names_the_runs_that_are_kept(
    store: Store, after: int, said: str
) -> None:
    with pytest.raises(TargetError, match="the board went away") as caught:
        execute(replace(timer(), repeat=3), [Leaving("", after, said)], store)
    rows = store.runs()
    assert [row.state for row in rows] == ["complete"] * after
    remedy = [said] if said else []
    if after:
        remedy.append(f"2 runs of the study can be reported: rtgauge report {rows[0].study[:18]}")
    assert caught.value.remedy == ". ".join(remedy)


@pytest.mark.slow
def test_a_study_whose_target_loses_a_cpu_names_the_runs_that_are_kept(store: Store) -> None:
    with pytest.raises(UsageError, match="no online CPU 1") as caught:
        execute(replace(timer(cpu="1"), repeat=3), [Shrinking("")], store)
    study = store.runs()[0].study[:18]
    assert caught.value.remedy == (
        "its online CPUs are 0. 2 runs of the study can be reported: rtgauge report " + study
    )


def test_the_cpus_of_all_targets_are_checked_before_the_first_run(store: Store) -> None:
    for seed in range(4):  # either target is first in some of them
        targets = [open_target("fake:cpus=4"), open_target("fake:cpus=2")]
        with pytest.raises(UsageError, match="'fake:cpus=2' has no online CPU 3"):
            execute(replace(timer(cpu="3"), order_seed=seed), targets, store)
    assert store.runs() == []
