# SPDX-License-Identifier: Apache-2.0
"""Fuzzing the import of bundles: damaged and hostile ones by the million.

    PYTHONPATH=src python tests/support/fuzz_bundle.py --executions 10000000 --jobs 2 --seed 1

Of ten executions, six damage files of a run (JSON, records, Parquet) where a bundle has been
unpacked, and look at that folder as the import does; three damage bytes of a bundle, headers among
them with true checksums; one damages files and packs them with true sizes, digests and headers.
What is refused must be refused with one line and leave nothing behind. What is accepted is a run of
the store; the first of a block and one in ``--follow`` after it are followed to the end: reported
in every format, and exported again, which must give the same bytes. Nothing is synced, and folders
are in memory where that is possible. The first bundle that fails is written to ``--keep``, and the
exit code is 1.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import shutil
import sys
import zlib
from collections.abc import Mapping
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import NoReturn
from unittest import mock

import numpy as np

import bundles
import fuzzing
import rtgauge.store.bundle
import streams
from fuzzing import Tally, plain
from rtgauge import report
from rtgauge.errors import RtgaugeError, StoreError
from rtgauge.report.results import model
from rtgauge.store import Store
from rtgauge.store.bundle import Bundle, Entry, export_run, import_bundle
from rtgauge.store.folder import ENVIRONMENT
from rtgauge.store.foreign import check_run
from rtgauge.stream import RecordType

SIZE_LIMIT = 1 << 18
BLOCK = 5000
FOLLOW = 50
WEIGHTS = (1, 4, 1, 14, 2)  # of the seeds: the first has every record there is
IN_PLACE = 0.6
SAMPLES = 8
MANIFEST = "manifest.json"
_STEP = {"measurement": "timer", "parameters": {"context": "user,irq"}, "load": "idle",
         "prepare": True, "budget_ns": 150_000, "rate_per_hour": None, "log_host": ""}  # fmt: skip
_OWN = {"ratings": [{"subject": "a", "rating": 5, "reason": "b"}], "notes": {"a": "b"},
        "points": [{"favour": "for", "text": "a"}], "targets": ["local"]}  # fmt: skip
PLANS = (
    {"name": "evaluate", "steps": [_STEP, _STEP], "options": {"budget": "150us"}, **_OWN},
    {"name": "xeno-test", "steps": [_STEP, _STEP]},
)
header = lru_cache(1024)(rtgauge.store.bundle.header)
digest = lru_cache(256)(lambda data: sha256(data).hexdigest())


@lru_cache(1)
def seeds(folder: Path) -> list[dict[str, bytes]]:
    """The files of the true runs to begin with, small ones: each execution reads them all."""
    plain = streams.Builder().series(0, labels={})
    plain.samples(0, 0, streams.latencies(SAMPLES))
    plain.histogram(0, streams.latencies(SAMPLES).tolist())
    cut = streams.one_of_each().data
    found = []
    pieces = (None, plain.trailer().data, cut[: len(cut) // 2], _capture())
    for number, data in enumerate(pieces):
        with Store.open(str(folder / str(number))) as store:
            run = bundles.carry_out(store, data=data, plan=PLANS[number % len(PLANS)])
            found.append(bundles.files_of(store.path / run))
    # a run of which nothing was measured: what is looked at is run.json alone
    bare = {name: data for name, data in found[1].items() if not name.startswith("steps/")}
    return [*found[:3], bare, found[3]]


def _capture() -> bytes:
    """What a capture with analogue lines gives: answers, their table, and waveforms as facts."""
    numbers = {"start_ns": -50, "division_ns": 100, "columns": 4, "levels": 3}
    numbers |= {"low_uv": -1, "high_uv": 3_300_000, "events": SAMPLES}
    cells = base64.b64encode(zlib.compress((np.arange(12, dtype="<u4") % 5).tobytes())).decode()
    wave = json.dumps({**numbers, "cells": cells})
    facts = {f"capture.waveform.{n}.{line}": wave for n in (0, 1) for line in ("event", "answer")}
    values = streams.latencies(SAMPLES)
    columns = ("raised", "answered", "unanswered", "late", "double", "lost")
    table = {
        "name": "answers",
        "columns": [{"name": name, "unit": ""} for name in columns],
        "rows": [[SAMPLES + 1, SAMPLES, 1, 1, 0, 0]],
    }
    stream = streams.Builder().add(RecordType.ENVIRONMENT, {"facts": facts})
    stream.series(0, name="response", context="irq", interval_ns=30_000_000)
    stream.samples(0, 0, values).event("missed", series=0, index=SAMPLES - 1, count=1)
    return stream.add(RecordType.TABLE, table).trailer().data


def damaged(files: Mapping[str, bytes], rng: random.Random, share_of_bytes: float = 0.4) -> bytes:
    """A bundle of these files with a damage somewhere: in its bytes, or in one of its files."""
    if rng.random() >= share_of_bytes:
        return pack_quickly(*damaged_files(files, rng))[:SIZE_LIMIT]
    data = pack_quickly(files)
    for _ in range(rng.choice((1, 1, 2, 3))):
        # in a header, and its checksum true again
        if rng.random() < 0.5 and len(data) >= bundles.BLOCK:
            at = rng.randrange(len(data) // bundles.BLOCK) * bundles.BLOCK
            head, place = data[at : at + bundles.BLOCK], rng.randrange(bundles.BLOCK)
            data = data[:at] + bundles.altered(head, place, rng.randbytes(1)) + data[at + 512 :]
        else:
            data = streams.mutate(data, rng, [data])
    return data[:SIZE_LIMIT]


def damaged_files(
    files: Mapping[str, bytes], rng: random.Random, unread: tuple[str, ...] = ()
) -> tuple[dict[str, bytes], bytes | None]:
    """The files with a damage in one or two of them, and the manifest where it is in that; none
    in those that are not read anyway."""
    files = dict(files)
    manifest = None
    for _ in range(rng.choice((1, 1, 1, 2))):
        if not files.keys() - set(unread):
            break
        name = rng.choice([name for name in (*files, MANIFEST) if name not in unread])
        if name == MANIFEST:
            manifest = bundles.damage_json(bundles.bundle_of(files).manifest, rng)
            if rng.random() < 0.5:
                manifest = manifest.replace(b"run.json", rng.choice((b"../x", b"/x", b"a\\u0000")))
            continue
        match rng.randrange(12):
            case 0:
                files.pop(name)
            case 1:
                files[rng.choice(list(files))] = files[name]
            case 2:
                files["steps/001/" + name.rpartition("/")[2]] = files[name]
            case _:
                files[name] = _content(name, files[name], rng)
    return files, manifest


def _content(name: str, data: bytes, rng: random.Random) -> bytes:
    if name.endswith(".json") and rng.random() < 0.9:
        return bundles.damage_json(data, rng)
    if name.endswith(".cbor") and rng.random() < 0.7:
        return streams.damage(data, rng, [data])
    return streams.mutate(data, rng, [data])


class Place:
    """A folder as a bundle is unpacked into, with the files of a true run. What is damaged takes
    the true file's place for one look: that is the import without unpacking."""

    def __init__(self, path: Path, files: Mapping[str, bytes]) -> None:
        self.path = path
        self.files = files
        for name, data in files.items():
            self._write(name, data)

    def _write(self, name: str, data: bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def outcome(self, files: Mapping[str, bytes]) -> str:
        changed = [n for n in {**self.files, **files} if files.get(n) is not self.files.get(n)]
        for name in changed:
            if name in files:
                self._write(name, files[name])
            else:
                (self.path / name).unlink()
        try:
            check_run(self.path, bundles.RUN, _refuse)
        except RtgaugeError as error:
            return plain(error.message.removeprefix(f"{self.path}/"))
        finally:
            for name in changed:
                if name in self.files:
                    self._write(name, self.files[name])
                else:
                    (self.path / name).unlink()
                    with contextlib.suppress(OSError):
                        (self.path / name).parent.rmdir()
        return "accepted in place"


def _refuse(why: str) -> NoReturn:
    raise StoreError(why, "")


def outcome(store: Store, file: Path, data: bytes, thorough: bool) -> str:
    """What becomes of a bundle, with numbers and names taken out; AssertionError (or what was
    raised) when it is not treated as it must be."""
    file.write_bytes(data)
    try:
        bundle, new = import_bundle(store, file)
    except RtgaugeError as error:
        assert error.message.isprintable() and error.remedy, ascii(error.message)
        assert not os.listdir(store.path), "something was left behind"
        message = error.message.removeprefix(f"{file} cannot be imported: ")
        return plain(message)
    assert new and os.listdir(store.path) == [bundle.run]
    if thorough:
        follow(store, file, bundle, data)
    else:
        shutil.rmtree(store.path / bundle.run)
    return "accepted"


def follow(store: Store, file: Path, bundle: Bundle, data: bytes) -> None:
    """All that can be done with a run that was accepted."""
    run = store.get(bundle.run)
    document = model.build([run])
    model.validate(document)
    source = report.Source([run])
    for make in report.FORMATS.values():
        make(source)
    again = file.with_suffix(".again")
    assert export_run(run, again) == bundle
    assert again.read_bytes() == data, "exported again it differs"
    store.delete(bundle.run)


def pack_quickly(files: Mapping[str, bytes], manifest: bytes | None = None) -> bytes:
    """``bundles.pack``, remembering headers and digests; the tests compare them."""
    if manifest is None:
        entries = (Entry(name, len(files[name]), digest(files[name])) for name in sorted(files))
        manifest = Bundle(bundles.RUN, tuple(entries)).manifest
    parts = []
    for name, data in ((MANIFEST, manifest), *sorted(files.items())):
        parts += [header(f"{bundles.RUN}/{name}", len(data)), data, bytes(-len(data) % 512)]
    return b"".join((*parts, bundles.END))


@fuzzing.fuzzer
def fuzz(tally: Tally, rng: random.Random, numbers: range, folder: Path, one_in: int) -> None:
    pool = seeds(folder)
    places = [Place(folder / f"place-{n}", files) for n, files in enumerate(pool)]
    with (
        Store.open(str(folder / "store")) as store,
        mock.patch("os.fsync"),  # no power cut here
        mock.patch.object(rtgauge.store.bundle, "header", header),
    ):
        store.path.mkdir(exist_ok=True)
        for number in numbers:
            which = rng.choices(range(len(pool)), WEIGHTS)[0]
            if rng.random() < IN_PLACE:
                files, _ = damaged_files(pool[which], rng, (MANIFEST, ENVIRONMENT))
                tally.begin(number, partial(pack_quickly, files))
                tally.end(places[which].outcome(files))
                continue
            data = damaged(pool[which], rng, 0.8)
            thorough = tally.outcomes["accepted"] % one_in == 0
            tally.begin(number, data)
            found = outcome(store, folder / "fuzzed", data, thorough)
            tally.end(found)
            tally.thorough += thorough and found == "accepted"


if __name__ == "__main__":
    sys.exit(fuzzing.run("bundle", fuzz, 10_000, __file__, BLOCK, FOLLOW))
