# SPDX-License-Identifier: Apache-2.0
"""Matches the edges of one recorded line to the edges of another that they answer; pure functions.

Events and answers keep their order. The time between an event and the next is a window. Pauses, and
the time before the first and after the last event, are divided into windows of that length. With a
shift of s the answers in a window belong to the event s windows before, so a constant delay has
one shift. A window without an answer whose event is answered in a later window, together with that
window's own, is a delay that grew and shrank again: the answers between are matched in order. An
event left over has no answer, and an answer left over is an edge that answers nothing.

The shift with the fewest leftovers is right. In a recording that begins and ends between events,
several shifts can have equally few: the same edges are quick answers, or late answers to earlier
events, the first of which came before the recording. If the events are irregular enough, the spread
of the delays then decides. Otherwise the answers are ambiguous.

Delays that vary over several windows fit no shift. If there are as many answers as events in a
whole recording, the answers can be matched in order, and no edge is left over. If there are more
events or answers, the edges alone do not show which are left over, and the answers are ambiguous.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.capture.edges import Edges, Levels, Positions
from rtgauge.capture.recording import refuse

__all__ = ["LONGEST", "Answers", "Recorded", "pair"]

Counts = NDArray[np.int64]

LONGEST: Final = 10
"""Number of intervals after which an edge no longer counts as the answer to an event, unless the
user gives a shorter time."""
WINDOWS: Final = 1 << 26
"""Maximum number of windows. Each takes about 70 bytes of memory."""
LEFT: Final = 1 << 24
"""Maximum number of windows with too few or too many answers. Each takes about 200 bytes."""
_PART: Final = "save a part of it"
_LATER: Final = 2
"""How many fewer leftovers than no shift a shift needs to be certain. An event lost at the
beginning and a double edge at the end look like a shift."""
_SPREAD: Final = 2.0
"""Factor by which the delays of a shift must spread wider for it to be ruled out."""
_ENOUGH: Final = 20
"""Number of delays whose spread is meaningful."""
_PARTS: Final = 32
"""Parts of an interval in which answers are counted to find the border of windows."""
_BESIDE: Final = 4
"""Parts on each side of the border that should be empty."""
_MANY: Final = 8, 1 / 20
"""Leftovers of the best shift, in number and as a part of the events, above which a match in order
that leaves none is certain. A lost answer and a later edge that answers nothing are leftovers that
such a match hides."""
_FEW: Final = 1 / 50
"""Part of the events up to which answers in other windows are stalls, which are rare."""
_CORE: Final = (5, 95)
"""Percentiles between which most delays lie."""
_NARROW: Final = 1 / 8
"""Width of that range, in intervals, up to which a delay identifies its event."""


@dataclass(frozen=True)
class Recorded:
    """The recording, in samples: its ``length``, and the ``interval`` from event to event.
    ``longest``: the longest delay possible, given by the user; None if not known. A later edge
    answers nothing."""

    length: float
    interval: float
    longest: float | None = None


@dataclass(frozen=True, eq=False)
class Answers:
    """What became of the events. ``delay[k]``: samples from event k to its answer, or NaN without
    one. Every edge of the answering line is an answer, or ``double`` (it answers nothing), or
    came ``before`` (it answers an event before the recording). ``late``: answers that came after
    the next event. ``ambiguous``: answered events whose answers may belong to other events.
    ``ambiguous_late``: those of them that are late. ``ambiguous_max``: their longest delay.
    ``cut``: last events whose answers may have come after the recording."""

    delay: Positions
    late: int
    double: int
    before: int
    ambiguous: int = 0
    cut: int = 0
    ambiguous_late: int = 0
    ambiguous_max: float = 0.0

    @property
    def answered(self) -> int:
        return int(np.count_nonzero(~np.isnan(self.delay)))


@dataclass(frozen=True, eq=False)
class _Match:
    """The pairs of one shift, as places of events and of answers, and what is left over."""

    event: Counts
    answer: Counts
    before: int
    flying: Levels
    cost: tuple[int, int]
    """Number of events and answers left over, and of those whose counterpart is taken to lie
    outside the recording."""
    doubtful: Levels
    """Events near the ends whose answers an answer outside the recording would change."""
    crossing: bool = False
    """Whether many windows have no answer, and others nearby too many."""


class _Windows:
    """The windows of a recording, and the answers in them."""

    def __init__(
        self,
        events: Edges,
        answers: Edges,
        expected: Levels | None,
        recorded: Recorded,
        lead: float = 0.0,
    ) -> None:
        """``lead``: time from the beginning of a window to its event."""
        self.events, self.answers, self.expected, self.lead = events, answers, expected, lead
        self.length = recorded.length
        self.limit = min(recorded.longest or math.inf, LONGEST * recorded.interval)
        self.step = step = recorded.interval
        more = LONGEST + 1
        spaces = np.diff(events.at, append=events.at[-1:] + (more + 1) * step)
        pauses = np.clip(np.rint(spaces / step) - 1, 0, more).astype(np.int64)
        self.place: Counts = more + np.arange(len(events)) + np.cumsum(pauses) - pauses
        count = more + len(events) + int(pauses.sum())
        if count > WINDOWS:
            refuse("the pauses between its events are too long in total", _PART)
        whose = np.repeat(np.arange(len(events)), pauses + 1)
        since = np.arange(more, count) - self.place[whose]
        self.begin: Positions = np.concatenate(
            (events.at[0] - step * np.arange(more, 0, -1), events.at[whose] + since * step)
        )
        self.begin -= lead
        self.event = np.full(count + LONGEST, -1, np.int64)
        self.event[self.place] = np.arange(len(events))
        self.window: Counts = np.searchsorted(self.begin, answers.at, side="right") - 1
        self.count: Counts = np.bincount(
            np.maximum(self.window, 0), self.window >= 0, count + LONGEST
        ).astype(np.int64)
        self.end: Positions = np.concatenate(
            (self.begin[1:], self.begin[-1] + step * np.arange(1, LONGEST + 2))
        )

    @property
    def in_mid_run(self) -> bool:
        """Whether answers to events outside the recording may be in it, or the other way round."""
        reach = LONGEST * self.step
        first, last = float(self.events.at[0]), float(self.events.at[-1])
        return first < reach or self.length - last < reach

    def match(self, shift: int) -> _Match:
        """The pairs where an answer belongs to the event ``shift`` windows before."""
        owner = np.full(len(self.count), -1, np.int64)
        owner[shift:] = self.event[: len(owner) - shift]
        wanted = owner >= 0
        due = np.where(wanted, self.events.at[owner], math.inf) + self.limit
        flying = wanted & (self._fitting(owner) == 0) & (self.end > self.length)
        flying &= due > self.length
        # Answers to events before the recording.
        first = self.place[0] + shift
        old = np.zeros(len(self.count), np.bool_)
        old[:first] = self.begin[0] + self.lead + self._back(first, shift) < 0
        excess = np.where(old, 0, self.count - (wanted & ~flying))
        missing = np.flatnonzero(excess < 0)
        surplus = np.flatnonzero(excess > 0)
        closed, used, taken = _closed(missing, surplus, excess[surplus], LONGEST - shift, shift)

        def kept() -> tuple[Counts, Counts, Counts]:
            events = np.delete(
                owner[wanted & ~flying], self._order(wanted & ~flying, missing[~closed])
            )
            answers = self._kept(owner, old, surplus, excess[surplus] - used, used)
            possible = self._possible(self.answers.at[answers] - self.events.at[events])
            return events[possible], answers[possible], self.window[answers[~possible]]

        kept_events, kept_answers, wrong = kept()
        if closed.any() and len(wrong):
            # Without the stalls in which an answer would be later than possible.
            wrong = np.unique(wrong)
            stalled = np.flatnonzero(closed)
            ends = np.sort([missing[stalled], surplus[taken[stalled]]], axis=0)
            inside = np.searchsorted(wrong, ends[1], side="right")
            opened = stalled[inside > np.searchsorted(wrong, ends[0])]
            closed[opened] = False
            np.subtract.at(used, taken[opened], 1)
            kept_events, kept_answers, _ = kept()
        if self.expected is not None:
            good = self.answers.level[kept_answers] == self.expected[kept_events]
            kept_events, kept_answers = kept_events[good], kept_answers[good]
        early = int(np.count_nonzero(self.window < 0))
        allowed = early + int(self.count[old].sum())
        old[: self.place[0]] = True
        before = early + int(self.count[old].sum())
        lost = len(self.events) - len(kept_events) - int(np.count_nonzero(flying))
        double = len(self.answers) - len(kept_answers) - allowed
        flew = np.zeros(len(self.events), np.bool_)
        flew[owner[flying]] = True
        reach = (LONGEST - shift) * self.step
        gaps = missing[~closed]
        gaps = gaps[self.end[gaps] + reach > self.length]
        extra = surplus[used < excess[surplus]]
        extra = extra[self.begin[np.minimum(extra, len(self.begin) - 1)] < reach]
        near = np.zeros(len(self.events), np.bool_)
        if len(gaps):
            near[owner[gaps[0]] :] = True
        if len(extra):
            near |= self.place + shift <= extra[-1]
        cost = lost + double, allowed - early + int(np.count_nonzero(flying))
        crossing = bool(np.count_nonzero(closed) > _FEW * len(self.events))
        return _Match(kept_events, kept_answers, before, flew, cost, near, crossing)

    def _fitting(self, owner: Counts) -> Counts:
        """Number of answers in each window that have the level for its event."""
        if self.expected is None:
            return self.count
        event = owner[self.window]
        fits = (self.window >= 0) & (event >= 0)
        fits &= self.answers.level == self.expected[event]
        return np.bincount(self.window[fits], minlength=len(self.count)).astype(np.int64)

    def gap(self) -> float:
        """The lead with which the fewest answers lie near the border of two windows."""
        inside = self.window >= 0
        since = (self.answers.at[inside] - self.begin[self.window[inside]]) / self.step
        counts = np.bincount((since % 1 * _PARTS).astype(np.int64), minlength=_PARTS)
        near = sum(np.roll(counts, k) for k in range(-_BESIDE, _BESIDE + 1))
        return self.step * (1 - (int(np.argmin(near)) + 0.5) / _PARTS)

    def in_order(self) -> _Match | None:
        """Answer k belongs to event k; None if that cannot be."""
        if self.in_mid_run or len(self.answers) != len(self.events):
            return None
        delays = self.answers.at - self.events.at
        if not self._possible(delays).all():
            return None
        if self.expected is not None and not np.array_equal(self.answers.level, self.expected):
            return None
        every = np.arange(len(self.events))
        none = np.zeros(len(self.events), np.bool_)
        return _Match(every, every, 0, none, (0, 0), none)

    def delays(self, match: _Match) -> Positions:
        delays: Positions = self.answers.at[match.answer] - self.events.at[match.event]
        return delays

    def _possible(self, delays: Positions) -> Levels:
        """Whether an edge that comes so long after an event can answer it."""
        found: Levels = (delays >= 0) & (delays <= self.limit)
        return found

    def _back(self, first: int, shift: int) -> Positions:
        """Times of the events that the first windows would have had, from the first window on."""
        back: Positions = (np.arange(first, dtype=np.float64) - shift) * self.step
        return back

    @staticmethod
    def _order(wanted: Levels, windows: Counts) -> Counts:
        """The places of these windows among those that need an answer."""
        rank = np.cumsum(wanted) - 1
        places: Counts = rank[windows]
        return places

    def _kept(
        self, owner: Counts, old: Levels, surplus: Counts, dropped: Counts, used: Counts
    ) -> Counts:
        """The answers that belong to events: all but the old ones. A window with too many keeps the
        first ones; a window with a single event keeps the first of the right level."""
        kept = self.window >= 0
        kept[kept] = ~old[self.window[kept]]
        begin = np.searchsorted(self.window, surplus, side="left")
        room = self.count[surplus] - dropped
        few = dropped > 0
        for window, start, left, alone in zip(
            surplus[few].tolist(), begin[few].tolist(), room[few].tolist(),
            (used[few] == 0).tolist(), strict=True,
        ):  # fmt: skip
            end = start + int(self.count[window])
            chosen = start
            if self.expected is not None and alone and left == 1:
                fits = self.answers.level[start:end] == self.expected[owner[window]]
                chosen = start + int(fits.argmax())
            kept[start:end] = False
            kept[chosen : chosen + left] = True
        found: Counts = np.flatnonzero(kept)
        return found


def _closed(
    missing: Counts, surplus: Counts, excess: Counts, reach: int, back: int
) -> tuple[Levels, Counts, Counts]:
    """Which windows without an answer have it in another window, at most ``reach`` later or
    ``back`` earlier. Each takes the nearest one still open. Also returns how many of each surplus
    are used, and by each closed window which one."""
    if len(missing) + len(surplus) > LEFT:
        refuse(
            "too many of its events and answers have no counterpart nearby",
            f"check --event and --answer, or {_PART}",
        )
    closed = np.zeros(len(missing), np.bool_)
    taken = np.full(len(missing), -1, np.int64)
    used = np.zeros(len(surplus), np.int64)
    tokens = sorted(
        [(window, -1, number) for number, window in enumerate(missing.tolist())]
        + [
            (window, 1, number)
            for number, (window, many) in enumerate(
                zip(surplus.tolist(), excess.tolist(), strict=True)
            )
            for _ in range(min(many, LONGEST))
        ]
    )
    open_: list[tuple[int, int, int]] = []
    for token in tokens:
        window, sign, number = token
        near = reach if sign > 0 else back
        if open_ and open_[-1][1] != sign and window - open_[-1][0] <= near:
            other = open_.pop()[2]
            lacking, giving = (other, number) if sign > 0 else (number, other)
            closed[lacking] = True
            taken[lacking] = giving
            used[giving] += 1
        else:
            if open_ and open_[-1][1] != sign:
                open_.clear()
            open_.append(token)
    return closed, used, taken


def pair(events: Edges, answers: Edges, expected: Levels | None, recorded: Recorded) -> Answers:
    """Which edges answer which events.

    ``expected``: the level that the answer to each event has; None: any edge answers.
    """
    windows = _Windows(events, answers, expected, recorded)
    best, sure = _decide(windows)
    if best.crossing:
        other = _Windows(events, answers, expected, recorded, windows.gap())
        match, certain = _decide(other)
        if (match.cost, _width(other, match)) <= (best.cost, _width(windows, best)):
            windows, best, sure = other, match, certain
    if not best.crossing or _width(windows, best) <= _NARROW * windows.step:
        return _answers(windows, best, sure)
    straight = windows.in_order()
    if straight is not None and best.cost[0] >= _LATER:
        one, two = (_spread(windows.delays(each)) for each in (best, straight))
        if one * _SPREAD >= two - 1:
            least = max(_MANY[0], _MANY[1] * len(events))
            return _answers(windows, straight, best.cost[0] > least)
    return _answers(windows, best, sure and not best.cost[0] and not windows.in_mid_run)


def _decide(windows: _Windows) -> tuple[_Match, bool]:
    """The pairs of the best shift, and whether no other shift can be right."""
    costs = [windows.match(shift).cost for shift in range(LONGEST)]
    # A shift that moves answers outside the recording hides its leftovers, so count them, too.
    whole = [left + outside for left, outside in costs]
    shift = whole.index(min(whole)) if whole[0] - min(whole) >= _LATER else 0
    rivals = [
        other for other, (left, _) in enumerate(costs)
        if other != shift and (left <= costs[shift][0] or whole[other] <= whole[shift])
    ]  # fmt: skip
    fewest = min(left for left, _ in costs)
    best = windows.match(shift)
    sure, settled = True, costs[shift][0] == fewest
    for other in rivals:
        match = windows.match(other)
        if _same(best, match):
            continue
        one, two = (_spread(windows.delays(each)) for each in (best, match))
        few = min(len(best.event), len(match.event)) < _ENOUGH
        # Rounding positions to whole samples alone spreads delays by one.
        if not few and costs[other][0] == fewest and two * _SPREAD < one - 1:
            best, shift, sure, settled = match, other, True, True
        elif few or not settled or one * _SPREAD >= two - 1:
            sure = False
    # A later shift can leave the fewest edges when delays jitter over the border of two windows.
    if shift and best.cost[0] and windows.in_mid_run:
        sure = False
    return best, sure


def _same(one: _Match, two: _Match) -> bool:
    return np.array_equal(one.event, two.event) and np.array_equal(one.answer, two.answer)


def _spread(delays: Positions) -> float:
    if not len(delays):
        return 0.0
    low, high = np.percentile(delays, (10, 90))
    return float(high - low)


def _core(delays: Positions) -> tuple[float, float]:
    if not len(delays):
        return 0.0, 0.0
    low = np.percentile(delays, _CORE[0], method="higher")
    high = np.percentile(delays, _CORE[1], method="lower")
    return float(low), float(high)


def _width(windows: _Windows, match: _Match) -> float:
    low, high = _core(windows.delays(match))
    return high - low


def _beside_lost(windows: _Windows, match: _Match, delay: Positions) -> Levels:
    """Events whose answers may belong to an event without one. These answers come before or after
    it, with unusual delays up to the next usual one, or with a delay that is usual if it is counted
    from that event."""
    without = np.isnan(delay) & ~match.flying
    if not without.any():
        return without
    low, high = _core(windows.delays(match))
    low, high = max(low - _NARROW * windows.step, 0.0), high + _NARROW * windows.step
    usual = (delay >= low) & (delay <= high)
    run = np.cumsum(usual)
    found: Levels = ~usual & ~without & np.isin(run, run[without])
    lost = np.flatnonzero(without)
    after = np.searchsorted(match.event, lost)
    for place in (after - 1, after):
        there = (place >= 0) & (place < len(match.event))
        pairs = place[there]
        other = windows.answers.at[match.answer[pairs]] - windows.events.at[lost[there]]
        found[match.event[pairs[(other >= low) & (other <= high)]]] = True
    return found


def _answers(windows: _Windows, match: _Match, sure: bool) -> Answers:
    events, answers = windows.events, windows.answers
    delay = np.full(len(events), np.nan)
    delay[match.event] = windows.delays(match)
    after = np.append(events.at[1:], np.inf)
    late = match.event[answers.at[match.answer] >= after[match.event]]
    double = len(answers) - len(match.answer) - match.before
    landed = np.flatnonzero(~match.flying)
    cut = len(events) - 1 - (int(landed[-1]) if len(landed) else -1)
    unclear = ~np.isnan(delay)
    if sure:
        unclear &= match.doubtful | _beside_lost(windows, match, delay)
    return Answers(
        delay,
        len(late),
        double,
        match.before,
        int(np.count_nonzero(unclear)),
        cut,
        int(np.count_nonzero(unclear[late])),
        float(np.nanmax(delay[unclear], initial=0.0)),
    )
