# SPDX-License-Identifier: Apache-2.0
"""Writing a stream on the host: the fake target, imported captures, tests and benchmarks.

The bodies are those of docs/formats/stream.md. Nothing is checked but what CBOR needs, so that
tests can write records that are wrong; keyword arguments replace the defaults or add keys.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rtgauge.stream.bodies import FORMAT, SUB_BITS, VERSION
from rtgauge.stream.cbor import BYTES, UNSIGNED, encode, head
from rtgauge.stream.reader import ARRAY_OF_FOUR, BODY_LIMIT
from rtgauge.stream.records import RecordType

INT32_MAX: Final = 2**31 - 1

_CLOCK: Final = {"monotonic_ns": 0, "boottime_ns": 0, "realtime_ns": 0}
_HEADER: Final[Mapping[str, object]] = {
    "format": FORMAT, "version": VERSION, "agent": "", "libc": "", "compiler": "", "machine": "",
    "run": "", "step": 0, "measurement": "", "parameters": {}, "load": "idle", "boot_id": "",
    "privileged": True, "counter": {"name": "none", "hz": 0}, "clock": _CLOCK, "start_ns": 0,
}  # fmt: skip
_SERIES: Final[Mapping[str, object]] = {
    "context": "user", "cpu": 0, "thread": 0, "policy": "fifo", "priority": 0, "labels": {},
    "unit": "ns", "scale": 1, "interval_ns": 0, "histogram_only": False,
}  # fmt: skip
_TRAILER: Final[Mapping[str, object]] = {
    "state": "complete", "reason": "", "remedy": "", "duration_ns": 0, "records": 0, "series": [],
    "cpu_ns": 0,
}  # fmt: skip


def encode_record(kind: int, sequence: int, body: Mapping[str, object]) -> bytes:
    """One record; NumPy arrays become typed arrays (tag 78). ValueError for a body above 64 KiB."""
    data = encode(body)
    if len(data) > BODY_LIMIT:
        raise ValueError(f"the body has {len(data)} bytes, more than {BODY_LIMIT}")
    return (
        bytes([ARRAY_OF_FOUR])
        + head(UNSIGNED, kind)
        + head(UNSIGNED, sequence)
        + head(BYTES, len(data))
        + data
        + head(UNSIGNED, zlib.crc32(data))
    )


def _bucket_of(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The log-linear bucket of each value. Rounding to a float does not matter: where it reaches
    the next power of two, both shifts give the same bucket."""
    size = np.where(values < 0, ~values, values)
    shift = np.maximum(np.frexp(size.astype(np.float64))[1].astype(np.int64) - 1 - SUB_BITS, 0)
    bucket = (shift << SUB_BITS) + (size >> shift)
    return np.where(values < 0, ~bucket, bucket)


@dataclass
class Tally:
    """Counts of one series, for its snapshots (``histogram``) and the trailer."""

    series: int
    count: int = 0
    missed: int = 0
    lost: int = 0
    overruns: int = 0
    first_due_ns: int = 0
    last_due_ns: int = 0
    min: int = 0
    max: int = 0
    sum: int = 0
    buckets: dict[int, int] = field(default_factory=dict)

    def add(self, values: NDArray[np.integer[Any]]) -> None:
        """Count these samples."""
        if not len(values):
            return
        low, high = int(values.min()), int(values.max())
        self.min = min(self.min, low) if self.count else low
        self.max = max(self.max, high) if self.count else high
        self.sum += sum(values.tolist())
        self.count += len(values)
        found = np.unique(_bucket_of(values.astype(np.int64)), return_counts=True)
        for bucket, count in zip(found[0].tolist(), found[1].tolist(), strict=True):
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count

    def histogram(self) -> dict[str, object]:
        """The body of a snapshot."""
        pairs = [number for pair in sorted(self.buckets.items()) for number in pair]
        return {
            "series": self.series, "count": self.count, "min": self.min, "max": self.max,
            "sum": self.sum, "missed": self.missed, "lost": self.lost, "overruns": self.overruns,
            "sub_bits": SUB_BITS, "buckets": pairs,
        }  # fmt: skip

    def totals(self) -> dict[str, int]:
        """The series' entry in the trailer."""
        return {
            "series": self.series, "count": self.count, "missed": self.missed, "lost": self.lost,
            "overruns": self.overruns, "first_due_ns": self.first_due_ns,
            "last_due_ns": self.last_due_ns,
        }  # fmt: skip


class StreamWriter:
    """Numbers and encodes the records of one stream; each method returns the bytes of its record.

    ``sequence``: number of the next record.
    """

    def __init__(self) -> None:
        self.sequence = 0

    def record(self, kind: int, body: Mapping[str, object]) -> bytes:
        """A record of any type and body."""
        data = encode_record(kind, self.sequence, body)
        self.sequence += 1
        return data

    def header(self, **fields: object) -> bytes:
        """The first record."""
        return self.record(RecordType.HEADER, {**_HEADER, **fields})

    def environment(self, facts: Mapping[str, object]) -> bytes:
        """Facts of the target."""
        return self.record(RecordType.ENVIRONMENT, {"facts": dict(facts)})

    def series(self, series: int, name: str, **fields: object) -> bytes:
        """The declaration of a series."""
        return self.record(RecordType.SERIES, {"series": series, "name": name, **_SERIES, **fields})

    def samples(
        self, series: int, index: int, due_ns: int, values: ArrayLike, gaps: ArrayLike = ()
    ) -> bytes:
        """A block; values beyond 32 bits are saturated. ``gaps``: pairs (position, periods)."""
        samples = np.minimum(values, INT32_MAX).astype(np.int32)
        body = {"series": series, "index": index, "due_ns": due_ns, "samples": samples}
        pairs = np.asarray(gaps, np.int32).reshape(-1)
        return self.record(RecordType.SAMPLES, {**body, "gaps": pairs} if len(pairs) else body)

    def event(self, event: str, time_ns: int = 0, **fields: object) -> bytes:
        """Something that happened."""
        return self.record(RecordType.EVENT, {"event": event, "time_ns": time_ns, **fields})

    def missed(self, series: int, index: int, count: int, time_ns: int = 0) -> bytes:
        """The event that ``count`` periods after the sample ``index`` were missed."""
        return self.event("missed", time_ns, series=series, index=index, count=count)

    def histogram(self, tally: Tally) -> bytes:
        """A snapshot."""
        return self.record(RecordType.HISTOGRAM, tally.histogram())

    def table(self, name: str, columns: Mapping[str, str], *rows: Sequence[int | str]) -> bytes:
        """A table; ``columns``: name to unit."""
        heads = [{"name": column, "unit": unit} for column, unit in columns.items()]
        body = {"name": name, "columns": heads, "rows": list(rows)}
        return self.record(RecordType.TABLE, body)

    def verdict(self, rule: str, result: str, evidence: str, remedy: str = "") -> bytes:
        """A rule that held or did not."""
        body = {"rule": rule, "result": result, "evidence": evidence, "remedy": remedy}
        return self.record(RecordType.VERDICT, body)

    def trailer(self, tallies: Sequence[Tally], **fields: object) -> bytes:
        """The last record."""
        series = [tally.totals() for tally in tallies]
        body = {**_TRAILER, "records": self.sequence, "series": series, **fields}
        return self.record(RecordType.TRAILER, body)
