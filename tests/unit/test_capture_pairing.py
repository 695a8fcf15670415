# SPDX-License-Identifier: Apache-2.0
"""Answers and their events in a recording, against a made-up board whose every answer is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgauge.capture import pairing
from rtgauge.capture.edges import Edges
from rtgauge.capture.pairing import LONGEST, Answers, Recorded, pair
from rtgauge.errors import UsageError

STEP = 1000  # samples from event to event: a sample is 10 us of 10 ms
EVENTS = 200
Delay = Callable[[int], float | None]


@dataclass(frozen=True)
class Board:
    """Events, edges of the answering line, and for each event the delay of its answer or None."""

    events: Edges
    answers: Edges
    truth: list[float | None]
    both: bool
    length: float

    def found(self, longest: float | None = None) -> Answers:
        expected = self.events.level if self.both else None
        return pair(self.events, self.answers, expected, Recorded(self.length, STEP, longest))


def board(
    delay: Delay,
    both: bool,
    *,
    messages: bool = False,
    whole: bool = True,
    shake: Callable[[int], float] = lambda _: 0.0,
) -> Board:
    """What is recorded of a board that answers event k after ``delay(k)`` samples. ``both``: the
    answer has the level of the event, and an edge is seen where the level changes, or with
    ``messages`` at each answer. ``whole``: from before the first event until after the last
    answer; else from the middle of a window to the middle of another."""
    at = [20 * STEP + k * STEP + shake(k) for k in range(EVENTS)]
    level = [k % 2 == 0 for k in range(EVENTS)]
    seen: list[tuple[float, bool]] = []
    truth: list[float | None] = []
    output = False
    for k in range(EVENTS):
        late = delay(k)
        target = level[k] if both else not output
        if late is None or (both and not messages and target == output):
            truth.append(None)
            continue
        output = target
        seen.append((at[k] + late, target))
        truth.append(late)
    begin, end = 0.0, at[-1] + 20 * STEP
    if not whole:
        begin, end = at[50] - 0.5 * STEP, at[150] + 0.5 * STEP
    kept = [k for k in range(EVENTS) if begin <= at[k] < end]
    seen = [(one - begin, way) for one, way in sorted(seen) if begin <= one < end]
    return Board(
        Edges(np.array([at[k] - begin for k in kept]), np.array([level[k] for k in kept])),
        Edges(np.array([one for one, _ in seen]), np.array([way for _, way in seen], np.bool_)),
        [truth[k] for k in kept],
        both,
        end - begin,
    )


def constant(delay: float) -> Delay:
    return lambda _: delay


def right(one: Board, found: Answers) -> bool:
    """Whether each delay is that of its event, and absent where the event has no answer. The last
    events, which are cut, are not compared."""
    counted = len(one.truth) - found.cut
    return all(
        (truth is None) == bool(np.isnan(got)) and (truth is None or truth == pytest.approx(got))
        for truth, got in zip(one.truth[:counted], found.delay[:counted].tolist(), strict=True)
    )


def accounted(one: Board, found: Answers) -> bool:
    return found.answered + found.double + found.before == len(one.answers)


EITHER = pytest.mark.parametrize("both", [True, False])


@pytest.mark.slow
@EITHER
@pytest.mark.parametrize("messages", [True, False])
def test_any_constant_delay_of_a_whole_recording(both: bool, messages: bool) -> None:
    for ms in range(1, 96):
        one = board(constant(100.0 * ms - 37), both, messages=messages)
        found = one.found()
        assert right(one, found), ms
        assert (found.ambiguous, found.double, found.before, found.cut) == (0, 0, 0, 0), ms
        assert found.late == (EVENTS - 1 if ms > 10 else 0), ms


@pytest.mark.slow
@EITHER
def test_a_recording_in_mid_run_says_that_it_cannot_tell(both: bool) -> None:
    for ms in range(1, 46):
        one = board(constant(100.0 * ms - 37), both, whole=False)
        found = one.found()
        assert found.ambiguous == found.answered > 90, ms
        assert accounted(one, found), ms


def test_what_the_user_knows_settles_it() -> None:
    one = board(lambda _: 300.0, False, whole=False)
    found = one.found(longest=STEP)
    assert (found.ambiguous, found.late) == (0, 0)
    assert right(one, found)


@pytest.mark.slow
@EITHER
def test_irregular_events_tell_where_their_answers_are(both: bool) -> None:
    rng = random.Random(1)
    shakes = [rng.uniform(-300, 300) for _ in range(EVENTS)]
    told = 0
    for ms in range(1, 46):
        delays = [100.0 * ms + rng.uniform(-10, 10) for _ in range(EVENTS)]
        one = board(delays.__getitem__, both, messages=True, whole=False, shake=shakes.__getitem__)
        found = one.found()
        assert found.ambiguous or right(one, found), ms
        told += not found.ambiguous
    assert told >= 15


def test_delays_that_jitter_over_a_window_are_ambiguous_in_mid_run() -> None:
    """All are from 1.9 to 2.9 intervals. A shift of 4 windows leaves the fewest edges."""
    events = [716, 1740, 2692, 3681, 4742, 5377, 6709, 7601]
    answers = [202, 1783, 2259, 2691, 3894, 5510, 6354, 6770, 7532, 9384, 9945]
    rising = np.arange(11) % 2 == 0
    found = pair(
        Edges(np.array(events, float), rising[:8]),
        Edges(np.array(answers, float), ~rising),
        rising[:8],
        Recorded(27_601, STEP),
    )
    assert found.ambiguous == found.answered > 0


@pytest.mark.slow
def test_delays_that_jitter_about_an_interval_are_ambiguous_in_mid_run() -> None:
    """Those of three intervals look like those of one."""
    for seed in range(40):
        rng = random.Random(seed)
        delays = [3000 + rng.uniform(-50, 50) for _ in range(EVENTS)]
        one = board(delays.__getitem__, True, messages=True, whole=False)
        found = one.found()
        assert found.ambiguous == found.answered > 90, seed


def test_the_last_answer_of_a_recording_belongs_to_the_event_before_the_last() -> None:
    """It comes after the last event, and has the wrong level for that one."""

    def shake(k: int) -> float:
        return -450.0 if k >= 150 else 0.0

    one = board(constant(600.0), True, messages=True, whole=False, shake=shake)
    found = one.found(longest=STEP)
    assert right(one, found)
    assert (found.cut, found.late, found.double, found.before) == (1, 1, 0, 1)


@pytest.mark.slow
@EITHER
@pytest.mark.parametrize("ms", [1, 3, 13, 23, 37])
def test_dropped_answers_shift_no_other(both: bool, ms: int) -> None:
    told = 0
    for seed in range(40):
        rng = random.Random(seed)
        delays = [
            None if rng.random() < 0.1 else 100.0 * ms + rng.uniform(0, 40) for _ in range(EVENTS)
        ]
        one = board(delays.__getitem__, both, messages=True)
        found = one.found()
        assert accounted(one, found)
        assert found.ambiguous or right(one, found), seed
        told += not found.ambiguous
    # a drop among the last answers, and one more edge at the end, look like late answers
    assert told >= (28 if both or ms < 10 else 3)


@pytest.mark.slow
@EITHER
@pytest.mark.parametrize("share", [0.0, 0.02])
def test_a_stall_delays_all_answers_in_it(both: bool, share: float) -> None:
    """A board that takes events in turn, and is held up now and then for some intervals."""
    for seed in range(40):
        rng = random.Random(seed)
        free = 0.0
        delays: list[float] = []
        for k in range(EVENTS):
            # not at the end of the recording, and no two in close succession
            stall = 2400.0 if k % 40 == 20 else 0.0
            free = max(free, k * STEP) + 60 + rng.uniform(0, 20) + stall
            if rng.random() < share:
                free += 900
            delays.append(free - k * STEP)
        one = board(delays.__getitem__, both)
        found = one.found()
        assert accounted(one, found)
        assert right(one, found), seed
        assert (found.ambiguous, found.double) == (0, 0)
        assert found.late >= 5


@EITHER
def test_delays_about_a_whole_number_of_intervals(both: bool) -> None:
    for ms in (10, 20, 30):
        rng = random.Random(ms)
        delays = [100.0 * ms + rng.uniform(-40, 40) for _ in range(EVENTS)]
        one = board(delays.__getitem__, both, messages=True)
        found = one.found()
        assert right(one, found), ms
        assert found.ambiguous == 0


def in_turn(delays: list[float]) -> Delay:
    """The delays of a board that answers its events in order, 20 samples apart."""
    at = np.arange(EVENTS) * (STEP - 20.0)
    found: list[float] = (np.maximum.accumulate(at + delays) - at).tolist()
    return found.__getitem__


@pytest.mark.slow
@EITHER
def test_delays_that_vary_over_several_intervals(both: bool) -> None:
    """No answer is credited to another event without a mark, though no shift fits."""
    told = 0
    for seed in range(60):
        rng = random.Random(seed)
        low, width = rng.uniform(0, 4000), rng.uniform(200, 4000)
        one = board(in_turn([low + rng.random() * width for _ in range(EVENTS)]), both)
        found = one.found()
        assert accounted(one, found)
        assert found.ambiguous or right(one, found), seed
        told += not found.ambiguous
    assert told >= 30


@pytest.mark.slow
@EITHER
@pytest.mark.parametrize("spread", [50.0, 1000.0])
def test_lost_answers_among_delays_that_vary(both: bool, spread: float) -> None:
    """Each answer of another event is marked."""
    for seed in range(60):
        rng = random.Random(seed)
        middle = 1000.0 * rng.randrange(1, 4)
        delay = in_turn([middle + rng.uniform(-spread, spread) for _ in range(EVENTS)])
        delays = [None if rng.random() < 0.02 else delay(k) for k in range(EVENTS)]
        one = board(delays.__getitem__, both, messages=True)
        found = one.found()
        assert accounted(one, found)
        wrong = sum(
            not np.isnan(got) and (truth is None or truth != pytest.approx(got))
            for truth, got in zip(one.truth, found.delay.tolist(), strict=True)
        )
        assert wrong <= found.ambiguous, seed


@EITHER
def test_a_lost_answer_in_a_stall_is_ambiguous_there_alone(both: bool) -> None:
    """The stall's answers may belong to other events; without a lost answer they are certain."""

    def delays(at: int) -> float | None:
        stall = {60: 2500.0, 61: None, 62: 900.0, 120: 2500.0, 121: 1700.0, 122: 900.0}
        return stall.get(at, 300.0)

    one = board(delays, both, messages=True)
    found = one.found()
    assert accounted(one, found)
    assert 0 < found.ambiguous <= 3


@EITHER
def test_a_pause_between_bursts_of_events(both: bool) -> None:
    """Each burst ends with answers after its last event."""
    for ms in (3, 13, 23):
        one = board(constant(100.0 * ms), both, shake=lambda k: k // 20 * 30.0 * STEP)
        found = one.found()
        assert right(one, found), ms
        assert (found.ambiguous, found.double) == (0, 0)


def test_late_answers_away_from_the_ends_are_certain() -> None:
    """Though an edge near the beginning of a recording in mid-run answers nothing."""

    def delays(at: int) -> float:
        return 1200.0 if at in (60, 61) else 300.0

    one = board(delays, False, whole=False)
    (bounce,) = one.answers.at[2:3] + 50.0
    at = np.insert(one.answers.at, 3, bounce)
    level = np.insert(one.answers.level, 3, ~one.answers.level[3])
    found = pair(one.events, Edges(at, level), None, Recorded(one.length, STEP, 1250.0))
    assert 0 < found.ambiguous < 10
    assert (found.late, found.ambiguous_late) == (2, 0)
    assert found.ambiguous_max == 300.0


@pytest.mark.slow
def test_few_events_and_pauses_of_any_length() -> None:
    """Each event has an answer, in order. Those that belong to another event are marked."""
    told = 0
    for seed in range(100):
        rng = random.Random(seed)
        number, pause = rng.randint(1, 10), rng.choice((0, 0, 2, 9, 10, 11, 12, 40, 1000)) * STEP
        before = rng.randint(0, number)
        low, width = rng.uniform(0, 6000), rng.choice((0, 100, 900, 3000))
        events = np.array([20.0 + k for k in range(number)]) * STEP
        events[before:] += pause
        delays = np.array([low + rng.uniform(0, width) for _ in range(number)])
        order = np.arange(number, dtype=np.float64)
        answers = np.maximum.accumulate(events + delays - order) + order
        truth = answers - events
        levels = np.arange(number) % 2 == 0
        found = pair(
            Edges(events, levels),
            Edges(answers, levels),
            levels if seed % 2 else None,
            Recorded(float(events[-1]) + 40 * STEP, STEP),
        )
        exact = bool(np.isclose(truth, found.delay, rtol=0, atol=1e-6).all())
        assert exact or found.ambiguous, seed
        assert (found.cut, found.before) == (0, 0)
        told += exact and not found.ambiguous
    assert told >= 95


def test_edges_that_answer_nothing() -> None:
    one = board(lambda _: 300.0, False)
    extra = Edges(np.array([50 * STEP + 700.0, 90 * STEP + 800.0]), np.array([True, False]))
    order = np.argsort(np.concatenate((one.answers.at, extra.at)))
    answers = Edges(
        np.concatenate((one.answers.at, extra.at))[order],
        np.concatenate((one.answers.level, extra.level))[order],
    )
    found = pair(one.events, answers, None, Recorded(one.length, STEP))
    assert right(one, found)
    assert (found.double, found.ambiguous) == (2, 0)


def edges_of(events: list[float], answers: list[float]) -> tuple[Edges, Edges, Recorded]:
    def line(at: list[float]) -> Edges:
        return Edges(np.array(sorted(at)), np.arange(len(at)) % 2 == 0)

    return line(events), line(answers), Recorded(events[-1] + 20 * STEP, STEP)


@pytest.mark.parametrize(("low", "high"), [(200.0, 210.0), (100.0, 900.0)])
def test_far_edges_that_answer_nothing_replace_no_lost_answers(low: float, high: float) -> None:
    rng = random.Random(5)
    events = [20.0 * STEP + k * STEP for k in range(2000)]
    lost = {300, 700, 1100, 1500, 1900}
    answers = [at + rng.uniform(low, high) for k, at in enumerate(events) if k not in lost]
    strays = [events[k + 12] + 950.0 for k in lost]
    asked, given, recorded = edges_of(events, answers + strays)
    found = pair(asked, given, None, recorded)
    assert (found.answered, found.double, found.late, found.ambiguous) == (1995, 5, 0, 0)


def test_a_far_edge_and_a_lost_answer_within_the_longest_delay() -> None:
    events = [20.0 * STEP + k * STEP for k in range(100)]
    answers = [at + 30.0 for k, at in enumerate(events) if k != 10]
    asked, given, recorded = edges_of(events, [*answers, events[15] + 400.0])
    found = pair(asked, given, None, replace(recorded, longest=100.0))
    assert np.flatnonzero(np.isnan(found.delay)).tolist() == [10]
    assert (found.double, found.late, found.ambiguous, found.cut) == (1, 0, 0, 0)


def test_a_true_stall_beside_one_that_is_impossible() -> None:
    events = [20.0 * STEP + k * STEP for k in range(100)]
    answers = [at + (1200.0 if k == 50 else 900.0) for k, at in enumerate(events) if k != 10]
    for more, double in (([], 0), ([events[15] + 400.0], 1)):
        asked, given, recorded = edges_of(events, answers + more)
        found = pair(asked, given, None, replace(recorded, longest=1500.0))
        assert np.flatnonzero(np.isnan(found.delay)).tolist() == [10]
        assert (found.double, found.late, found.delay[50]) == (double, 1, 1200.0)


def test_an_event_is_cut_off_only_if_its_answer_can_still_come() -> None:
    events = [20.0 * STEP + k * STEP for k in range(100)]
    asked, given, recorded = edges_of(events, [at + 30.0 for at in events[:-1]])
    for longest, cut in ((400.0, 0), (600.0, 1)):
        ends = replace(recorded, length=events[-1] + 500.0, longest=longest)
        found = pair(asked, given, None, ends)
        assert (found.answered, found.cut) == (99, cut)


def test_an_edge_that_answers_nothing_before_a_lost_answer() -> None:
    rng = random.Random(6)
    events = [20.0 * STEP + k * STEP for k in range(2000)]
    answers = [at + rng.uniform(100.0, 900.0) for k, at in enumerate(events) if k != 900]
    asked, given, recorded = edges_of(events, [*answers, events[50] + 950.0])
    found = pair(asked, given, None, recorded)
    assert (found.answered, found.double, found.late, found.ambiguous) == (1999, 1, 0, 0)


TIMES = st.lists(st.integers(0, 50), unique=True, min_size=1, max_size=14).map(sorted)


@pytest.mark.slow
@given(TIMES, TIMES, st.booleans(), st.booleans(), st.booleans(), st.integers(1, 9))
def test_any_edges(
    events: list[int], answers: list[int], up: bool, same: bool, apart: bool, step: int
) -> None:
    def edges(line: list[int], way: bool) -> Edges:
        at = np.array(line, np.float64)
        return Edges(at, np.array([bool(k % 2) ^ way for k in range(len(line))], np.bool_))

    first, second = edges(events, up), edges(answers, same)
    found = pair(first, second, first.level if apart else None, Recorded(51.0, step))
    # Every edge of the answering line is one of these, and every event answered or not.
    assert found.answered + found.double + found.before == len(answers)
    there = np.flatnonzero(~np.isnan(found.delay))
    at = first.at[there] + found.delay[there]
    assert np.isin(at, second.at).all()
    assert (found.delay[there] >= 0).all()
    assert (np.diff(at) > 0).all()
    if apart:
        levels = dict(zip(second.at.tolist(), second.level.tolist(), strict=True))
        assert [levels[one] for one in at.tolist()] == first.level[there].tolist()
    assert found.late <= found.answered
    assert 0 <= found.ambiguous <= found.answered
    assert 0 <= found.ambiguous_late <= min(found.late, found.ambiguous)
    assert 0.0 <= found.ambiguous_max <= np.nanmax(found.delay, initial=0.0)
    assert 0 <= found.cut <= len(events)
    assert np.isnan(found.delay[len(events) - found.cut :]).all()


@pytest.mark.parametrize(("limit", "why"), [("WINDOWS", "pauses"), ("LEFT", "no counterpart")])
def test_the_memory_is_limited(monkeypatch: pytest.MonkeyPatch, limit: str, why: str) -> None:
    """Pauses of 13 intervals, and a line without answers."""
    monkeypatch.setattr(pairing, limit, 1000)
    at = np.cumsum(np.tile([1000.0, 13_000.0], 100))
    events = Edges(at, np.arange(len(at)) % 2 == 0)
    if limit == "LEFT":
        at = np.arange(1100, dtype=np.float64) * 1000
        events = Edges(at, np.arange(len(at)) % 2 == 0)
    none = Edges(np.zeros(0), np.zeros(0, np.bool_))
    with pytest.raises(UsageError, match=why):
        pair(events, none, None, Recorded(float(at[-1]) + 20_000, 1000.0))


def test_how_far_it_looks() -> None:
    one = board(lambda _: (LONGEST + 5.0) * STEP, False)
    assert not np.nanmax(one.found().delay, initial=0.0) > LONGEST * STEP


@pytest.mark.parametrize(
    ("delay", "longest", "answered"),
    [
        (LONGEST * STEP, None, 1),
        (LONGEST * STEP + 1, None, 0),
        (1500, 1500, 1),
        (1501, 1500, 0),
        (300, 299, 0),
    ],
)
def test_an_edge_after_the_longest_delay_answers_nothing(
    delay: float, longest: float | None, answered: int
) -> None:
    """That of one event in a pause, and of one that stalls among quick answers."""
    asked, given, _ = edges_of([20.0 * STEP], [20.0 * STEP + delay])
    found = pair(asked, given, None, Recorded(60.0 * STEP, STEP, longest))
    assert (found.answered, found.double, found.ambiguous) == (answered, 1 - answered, 0)
    one = board(
        lambda at: float(delay) if at == 150 else 30.0,
        False,
        shake=lambda at: 30 * STEP * (at > 150),
    )
    found = one.found(longest)
    assert (found.answered, found.double) == (EVENTS - 1 + answered, 1 - answered)
    assert np.isnan(found.delay[150]) == (not answered)
