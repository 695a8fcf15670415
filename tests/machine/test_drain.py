# SPDX-License-Identifier: Apache-2.0
"""What the draining thread writes of a series, against all that happened to it.

A C driver (agent/tests/drain_driver.c) receives samples, missed periods and losses one by one,
and drains as the agent does; the host's reader must find each again, at its place.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from drivers import TIMEOUT_S, compile_driver
from rtgauge.store.scan import missed_of
from rtgauge.stream import Event, Gaps, Record, Samples, StreamReader, Trailer
from streams import Builder

SOURCES: Final = (
    "base/caller",
    "base/cbor",
    "base/clock",
    "base/cpulist",
    "base/json",
    "base/message",
    "base/option",
    "base/procstat",
    "base/schedule",
    "base/shared",
    "base/value",
    "base/version",
    "core/core_linux",
    "methods/tick",
    "run/drain",
    "run/explain",
    "stream/series",
    "stream/stream",
    "system/environment",
    "system/guardian",
    "system/journal",
    "system/prepare",
    "system/settings",
    "system/tracing",
    "system/undo",
)
BLOCK: Final = 16_000  # samples and gaps that a block has room for
INTERVAL_NS: Final = 20_000
FIRST_DUE_NS: Final = 500
RARELY: Final = 40_000  # a loss, which ends its block
INT32_MAX: Final = 2**31 - 1


class Happened(NamedTuple):
    """To a series: by index, values as they were put; runs of missed periods and losses."""

    orders: list[str]
    samples: dict[int, int]
    missed: list[tuple[int, int]]
    lost: list[tuple[int, int]]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver(tmp_path_factory.mktemp("driver"), "drain_driver", SOURCES)


def scenario(rng: random.Random, drains: Sequence[tuple[int, int]]) -> Happened:
    """For each drain a number of samples, one in so many of them after missed periods."""
    orders: list[str] = []
    samples: dict[int, int] = {}
    missed: list[tuple[int, int]] = []
    lost: list[tuple[int, int]] = []
    index = 0
    for count, one_in in drains:
        for _ in range(count):
            if rng.randrange(one_in) == 0:
                far = rng.randrange(500) == 0
                # also two in a row, the first reported before the second is known
                for some in (rng.randint(1, 9), 3 * 10**9 if far else 2)[: 1 + far]:
                    orders.append(f"m {some}")
                    missed.append((index, some))
                    index += some
            if rng.randrange(RARELY) == 0:
                orders.append("l 3")
                lost.append((index, 3))
                index += 3
            wide = rng.randrange(RARELY) == 0
            value = 2**40 + index if wide else rng.choice((index % 100_000, -index % 77))
            orders.append(f"s {value}")
            samples[index] = value
            index += 1
        orders.append("d 0")
    return Happened(orders, samples, missed, lost)


def drained(driver: Path, happened: Happened, kind: str, interval_ns: int) -> list[Record]:
    done = subprocess.run(
        [driver, kind, str(interval_ns), str(FIRST_DUE_NS)],
        input="\n".join(happened.orders).encode(), capture_output=True, check=True,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    reader = StreamReader()
    before = Builder().series(0, interval_ns=interval_ns, histogram_only=kind == "histograms").data
    records = list(reader.feed(before + done.stdout))
    end = reader.finish()
    assert end.dropped_bytes == end.lost_records == 0
    return records


def runs(periods: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """First and number, those that follow each other as one."""
    joined: list[tuple[int, int]] = []
    for first, count in sorted(periods):
        if joined and sum(joined[-1]) == first:
            joined[-1] = (joined[-1][0], joined[-1][1] + count)
        else:
            joined.append((first, count))
    return joined


def events(records: Iterable[Record], name: str, key: str) -> list[tuple[int, int]]:
    found = []
    for record in records:
        if isinstance(record, Event) and record.event == name:
            index, value = record.fields["index"], record.fields[key]
            assert isinstance(index, int) and isinstance(value, int)
            found.append((index, value))
    return found


def missed_in(records: Iterable[Record]) -> list[tuple[int, int]]:
    """A missed event, and a gap, name the sample before them."""
    found = events(records, "missed", "count")
    for record in records:
        if isinstance(record, Samples | Gaps) and record.gaps is not None:
            found += [(at, count) for at, count in missed_of(record.index, record.gaps).tolist()]
    return [(index + 1, count) for index, count in found]


def samples_in(records: Iterable[Record], interval_ns: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for record in records:
        if not isinstance(record, Samples):
            continue
        gaps = {} if record.gaps is None else dict(record.gaps.tolist())
        assert len(record.values) + 2 * len(gaps) <= BLOCK
        if interval_ns:
            assert record.due_ns == FIRST_DUE_NS + record.index * interval_ns
        index = record.index
        for place, value in enumerate(record.values.tolist()):
            index += gaps.get(place, 0)
            assert index not in found
            found[index] = value
            index += 1
    return found


# samples before each drain, and one in how many follows missed periods: blocks that gaps fill
# before samples do, blocks overfull by one or two words, and drains of less than a block
DENSE: Final = [(40_000, 3), (40_000, 1), (40_000, 2)]
SPARSE: Final = [(40_000, 40), (16_001, 10**6), (15_999, 10**6), (1, 1), (0, 1), (7, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_every_sample_gap_and_loss_is_found_again(driver: Path, seed: int) -> None:
    happened = scenario(random.Random(seed), DENSE + SPARSE)
    records = drained(driver, happened, "samples", INTERVAL_NS)
    told = {i: min(v, INT32_MAX) for i, v in happened.samples.items()}
    assert samples_in(records, INTERVAL_NS) == told
    assert runs(missed_in(records)) == runs(happened.missed)
    assert events(records, "lost", "count") == happened.lost != []
    wide = [(index, value) for index, value in happened.samples.items() if value > INT32_MAX]
    assert events(records, "wide", "value") == wide != []


@pytest.mark.parametrize("seed", range(2))
def test_without_samples_the_gaps_are_the_same(driver: Path, seed: int) -> None:
    happened = scenario(random.Random(seed), DENSE + SPARSE)
    records = drained(driver, happened, "histograms", INTERVAL_NS)
    assert samples_in(records, INTERVAL_NS) == {}
    assert runs(missed_in(records)) == runs(happened.missed)
    assert events(records, "lost", "count") == happened.lost


def test_the_trailer_of_a_series_of_which_all_samples_were_lost(driver: Path) -> None:
    """A series without a grid, of which the first sample would have had the first time."""
    happened = Happened(["l 3", "d 0", "t 0"], {}, [], [(0, 3)])
    (trailer,) = (
        one for one in drained(driver, happened, "samples", 0) if isinstance(one, Trailer)
    )
    (totals,) = trailer.series
    assert (totals.count, totals.lost, totals.last_due_ns - totals.first_due_ns) == (3, 3, 0)


@pytest.mark.parametrize("most", range(6))
def test_a_block_is_filled_to_its_last_word(driver: Path, most: int) -> None:
    """Gaps at the very end of a block: with room for both words, for one, and for none."""
    orders = ["s 1"] * (BLOCK - most)
    told = dict.fromkeys(range(BLOCK - most), 1)
    missed = []
    index = BLOCK - most
    for some in range(1, 10):
        orders += ["m 5", *["s 7"] * some]
        missed.append((index, 5))
        told |= dict.fromkeys(range(index + 5, index + 5 + some), 7)
        index += 5 + some
    orders += ["m 2", "d 0", "s 1", "d 0"]
    missed.append((index, 2))
    told[index + 2] = 1
    records = drained(driver, Happened(orders, told, missed, []), "samples", INTERVAL_NS)
    assert samples_in(records, INTERVAL_NS) == told
    assert runs(missed_in(records)) == missed


def test_a_block_ends_where_its_grid_moves(driver: Path) -> None:
    orders = ["s 1", "s 2", "g 700", "s 9", "m 2", "s 3", "m 1", "g 5", "s 4", "g 9", "m 3"]
    records = drained(driver, Happened([*orders, "d 0", "t 0"], {}, [], []), "samples", 20)
    found = [one for one in records if isinstance(one, Samples)]
    due = [FIRST_DUE_NS, FIRST_DUE_NS + 2 * 20 + 700, FIRST_DUE_NS + 7 * 20 + 705]
    assert [(one.index, one.due_ns, one.values.tolist()) for one in found] == [
        (0, due[0], [1, 2]), (2, due[1], [9, 3]), (7, due[2], [4])
    ]  # fmt: skip
    assert runs(missed_in(records)) == [(3, 2), (6, 1), (8, 3)]
    (largest,) = (one for one in records if isinstance(one, Event) and one.event == "maximum")
    assert (largest.fields["index"], largest.time_ns) == (2, due[1])
    (trailer,) = (one for one in records if isinstance(one, Trailer))
    assert trailer.series[0].last_due_ns == FIRST_DUE_NS + 10 * 20 + 714


def test_without_an_interval_a_block_has_one_time(driver: Path) -> None:
    happened = scenario(random.Random(1), [(20_000, 10**6), (5, 10**6)])
    records = drained(driver, happened, "samples", 0)
    told = {i: min(v, INT32_MAX) for i, v in happened.samples.items()}
    assert samples_in(records, 0) == told
