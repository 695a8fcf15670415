# SPDX-License-Identifier: Apache-2.0
"""Fuzzing the import of bundles: damaged and hostile ones by the hundred thousand.

    PYTHONPATH=src python tests/fuzz_bundle.py --executions 1000000 --seed 1

Half of the time the bytes of a bundle are damaged; else its files (JSON, records, Parquet), with
sizes, digests and headers true around the damage, so that it gets past them. What is refused must
be refused with one line and leave nothing behind; what is accepted must be reported in every
format, and exported again must give the same bytes. The first bundle that fails is written to
``--keep`` and the process ends with 1.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import bundles
import streams
from rtgauge import report
from rtgauge.errors import RtgaugeError
from rtgauge.report import model
from rtgauge.store import Store
from rtgauge.store.bundle import export_run, import_bundle

SIZE_LIMIT = 1 << 18
MEMORY_LIMIT = 3 << 30
MANIFEST = "manifest.json"


def seeds(folder: Path) -> list[dict[str, bytes]]:
    """The files of the true runs to begin with."""
    plain = streams.Builder().series(0, labels={})
    plain.samples(0, 0, streams.latencies(3000)).histogram(0, streams.latencies(3000).tolist())
    cut = streams.one_of_each().data
    found = []
    for number, data in enumerate((None, plain.trailer().data, cut[: len(cut) // 2])):
        with Store.open(str(folder / str(number))) as store:
            run = bundles.carry_out(store, data=data)
            found.append(bundles.files_of(store.path / run))
    return found


def damaged(files: Mapping[str, bytes], rng: random.Random) -> bytes:
    """A bundle of these files with a damage somewhere."""
    files = dict(files)
    if rng.random() < 0.4:
        data = bundles.pack(files)
        for _ in range(rng.choice((1, 1, 2, 3))):
            if (
                rng.random() < 0.5 and len(data) >= bundles.BLOCK
            ):  # in a header, and its checksum true again
                at = rng.randrange(len(data) // bundles.BLOCK) * bundles.BLOCK
                head, place = data[at : at + bundles.BLOCK], rng.randrange(bundles.BLOCK)
                data = data[:at] + bundles.altered(head, place, rng.randbytes(1)) + data[at + 512 :]
            else:
                data = streams.mutate(data, rng, [data])
        return data[:SIZE_LIMIT]
    manifest = None
    for _ in range(rng.choice((1, 1, 1, 2))):
        if not files:
            break
        name = rng.choice([*files, MANIFEST])
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
    return bundles.pack(files, manifest=manifest)[:SIZE_LIMIT]


def _content(name: str, data: bytes, rng: random.Random) -> bytes:
    if name.endswith(".json") and rng.random() < 0.9:
        return bundles.damage_json(data, rng)
    if name.endswith(".cbor") and rng.random() < 0.7:
        return streams.damage(data, rng, [data])
    return streams.mutate(data, rng, [data])


def outcome(store: Store, file: Path, data: bytes) -> str:
    """What becomes of a bundle, with numbers and names taken out; AssertionError (or what was
    raised) when it is not treated as it must be."""
    file.write_bytes(data)
    try:
        bundle, new = import_bundle(store, file)
    except RtgaugeError as error:
        assert error.message.isprintable() and error.remedy, ascii(error.message)
        assert not os.listdir(store.path), "something was left behind"
        return re.sub(r"\d+|'[^']*'|\S+\.(cbor|json|parquet)", "N", error.message)
    assert new and os.listdir(store.path) == [bundle.run]
    run = store.get(bundle.run)
    document = model.build([run])
    model.validate(document)
    for make in report.FORMATS.values():
        make([run]).encode()
    again = file.with_suffix(".again")
    assert export_run(run, again) == bundle
    assert again.read_bytes() == data, "exported again it differs"
    store.delete(bundle.run)
    return "accepted"


def fuzz(executions: int, seed: int, folder: Path) -> tuple[int, int, bytes | None, str]:
    """Number of different outcomes, of bundles accepted, the one that failed (or None), and how."""
    rng = random.Random(seed)
    pool = seeds(folder)
    outcomes: set[str] = set()
    accepted = 0
    with (
        Store.open(str(folder / "store")) as store,
        mock.patch("os.fsync"),  # nobody pulls the plug here
    ):
        store.path.mkdir(exist_ok=True)
        for number in range(executions):
            data = damaged(rng.choice(pool), rng)
            try:
                found = outcome(store, folder / "fuzzed", data)
            except Exception as error:
                return len(outcomes), accepted, data, f"execution {number}: {error!r}"
            outcomes.add(found)
            accepted += found == "accepted"
    return len(outcomes), accepted, None, ""


def main() -> int:
    parser = argparse.ArgumentParser(description="fuzz the import of bundles")
    parser.add_argument("--executions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-bundle-failure.rtgauge"))
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcomes, accepted, failed, how = fuzz(arguments.executions, arguments.seed, Path(folder))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{arguments.executions} executions, seed {arguments.seed}, {outcomes} outcomes, "
        f"{accepted} accepted, peak memory {peak / 2**10:.0f} MiB, {time.monotonic() - began:.0f} s"
    )
    if failed is None:
        return 0
    arguments.keep.write_bytes(failed)
    print(f"FAILED: {how}; the bundle is in {arguments.keep}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
