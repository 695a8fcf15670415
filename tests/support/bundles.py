# SPDX-License-Identifier: Apache-2.0
"""Bundles for tests: true ones and hostile ones, packed from any files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import streams
from rtgauge.store import Store
from rtgauge.store.bundle import Bundle, Entry, header
from rtgauge.store.samples import IMPORTED

RUN = "0192f0c4-6d1e-7aaa-8000-000000000001"
BLOCK = 512
END = bytes(2 * BLOCK)


def carry_out(store: Store, run: str = RUN, data: bytes | None = None, **changes: Any) -> str:
    """A run in the store with one step that was measured and one that was skipped; its id."""
    steps = [
        {
            "step": 0,
            "measurement": "timer",
            "parameters": {"interval": "1ms"},
            "load": "idle",
            "budget_ns": 150_000,
            "rate_per_hour": 1.0,
            "role": "measurement",
            "state": "complete",
            "reason": "",
            "remedy": "",
            "folder": "steps/000",
            "duration_s": 1.0,
        },
        {"step": 1, "measurement": "timer", "state": "skipped", "reason": "no right"},
    ]
    document = {
        "id": run,
        "study": None,
        "label": "a label",
        "repeat": 0,
        "target": "local",
        "boot_id": "b",
        "started": "2025-11-21T01:02:03Z",
        "duration_s": 1.5,
        "state": "complete",
        "reason": "",
        "remedy": "",
        "plan": {},
        "environment": {
            "kernel": {"release": "6.1"},
            "cpu": {},
            "libc": "musl",
            "realtime": "full",
            "settings": {"x": {"asked": "1", "effective": None, "before": "0", "reason": "no"}},
        },
        "findings": [
            {"check": "c", "found": "f", "level": "error", "why": "w", "remedy": "r"},
        ],
        "steps": steps,
    } | changes
    with store.create(document) as folder:
        with folder.append_stream(0) as stream:
            stream.write(streams.one_of_each().data if data is None else data)
        folder.seal(0)
        folder.save_environment(b"environment")
        folder.write_document(document)
        store.update(folder)
    return run


def files_of(folder: Path) -> dict[str, bytes]:
    """Name and content of each file of a run's folder, without the mark of an import."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != IMPORTED
    }


def bundle_of(files: Mapping[str, bytes], run: str = RUN) -> Bundle:
    entries = (Entry(name, len(files[name]), sha256(files[name]).hexdigest()) for name in files)
    return Bundle(run, tuple(sorted(entries, key=lambda entry: entry.name)))


def member(name: str, data: bytes, head: bytes = b"", run: str = RUN) -> bytes:
    """A file with its header, padded."""
    return (head or header(f"{run}/{name}", len(data))) + data + bytes(-len(data) % BLOCK)


def pack(files: Mapping[str, bytes], run: str = RUN, manifest: bytes | None = None) -> bytes:
    """A bundle of these files; ``manifest``: another than the true one."""
    if manifest is None:
        manifest = bundle_of(files, run).manifest
    parts = [member("manifest.json", manifest, run=run)]
    parts += [member(name, files[name], run=run) for name in sorted(files)]
    return b"".join(parts) + END


def altered(head: bytes, at: int, data: bytes) -> bytes:
    """A header with other bytes at a place, and the checksum true again."""
    head = head[:at] + data + head[at + len(data) :]
    head = head[:148] + b" " * 8 + head[156:]
    return head[:148] + b"%06o\0 " % sum(head) + head[156:]


def with_json(
    files: Mapping[str, bytes], name: str, change: Callable[[dict[str, Any]], Any]
) -> dict[str, bytes]:
    """The files with one JSON document changed in place, or replaced by what ``change`` gives."""
    document = json.loads(files[name])
    found = change(document)
    return {**files, name: json.dumps(document if found is None else found).encode()}


ODD: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 10**400, 1e308, float("nan"), float("inf"), "", "x", "\0", "\ud800",
    "../../etc/passwd", [], [[]], {}, {"": {}}, ["x"], [{}], "complete", "running", "6.1" * 500,
)  # fmt: skip


def damage_json(data: bytes, rng: random.Random) -> bytes:
    """A JSON document with one value somewhere replaced, removed or added."""
    try:
        document = json.loads(data)
    except ValueError:
        return data
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, below in entries:
            places.append((value, key))
            if isinstance(below, dict | list):
                walk(below)

    if not isinstance(document, dict | list):
        return data
    walk(document)
    if not places:
        return data
    where, key = rng.choice(places)
    match rng.randrange(5):
        case 0:
            del where[key]
        case 1 if isinstance(where, dict):
            where[rng.choice(list(where))] = where[key]
        case 1 | 2:
            where[key] = rng.choice(places)[0] if rng.random() < 0.2 else rng.choice(ODD)
        case _:
            where[key] = rng.choice(ODD)
    try:
        return json.dumps(document).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return data
