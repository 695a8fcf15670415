# SPDX-License-Identifier: Apache-2.0
"""Runs that no agent measured: captures of an instrument and results that other programs printed.

Their streams are written on the host, record by record as docs/formats/stream.md has it, so that
seal, statistics and reports know no difference.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from rtgauge import __version__
from rtgauge.errors import StoreError
from rtgauge.store.files import FolderLock, make_folder, store_errors
from rtgauge.store.store import IMPORT, Store
from rtgauge.stream import StreamWriter

__all__ = [
    "FACTS",
    "LATEST_S",
    "READER",
    "Subject",
    "asked_of",
    "catalogue_of",
    "earlier_import",
    "find_import",
    "import_header",
    "importing",
    "measurement_of",
    "run_document",
    "step_document",
    "write_run",
]

FACTS: Final = {"agent.version": __version__}
LATEST_S: Final = float(2**33)
"""The latest file time that is accepted, in 2242: clocks of a stream are 64-bit ns."""
READER: Final = 5
"""The version of the readers of captures and printed results. A change after which a file gives
other results increases it: the file is then imported again, as a run of its own."""
_NS: Final = 10**9
_WAIT_S: Final = 600.0
_POLL_S: Final = 0.1


@dataclass(frozen=True)
class Subject:
    """The user's description of the system under test, which the file does not contain."""

    label: str = ""
    board: str = ""
    kernel: str = ""
    realtime: str = "unknown"
    lab: Mapping[str, str] = field(default_factory=dict)
    """Board and mode, if it is an emulated board: the meaning of its time."""


def asked_of(*options: object) -> str:
    """Options of an import and the version of the readers, as text that equal imports share."""
    words = ["-" if one in (None, "") else str(one) for one in options]
    return " ".join([f"reader={READER}", *words])


def measurement_of(name: str, summary: str, chapter: str, **more: Any) -> dict[str, Any]:
    """A measurement of such a catalogue."""
    return {
        "name": name, "code": "", "summary": summary, "role": "measurement", "chapter": chapter,
        "contexts": [], "options": [], "series": [], "tables": [], "verdicts": [], **more,
    }  # fmt: skip


def catalogue_of(*measurements: Mapping[str, Any]) -> dict[str, Any]:
    """The catalogue of such a run, with the entries of its measurements."""
    return {
        "format": "rtgauge-catalogue",
        "version": 1,
        "agent": __version__,
        "libc": "",
        "measurements": list(measurements),
        "loads": [],
    }


@contextlib.contextmanager
def importing(store: Store, digest: str) -> Iterator[None]:
    """A context in which no other process imports the file with this digest, so that only the first
    import of a file makes a run. Raises StoreError if the other one does not end."""
    folder = store.path / f".{digest}{IMPORT}"
    lock, waited_s = None, 0.0
    while lock is None:
        make_folder(folder)
        with store_errors("lock", folder), contextlib.suppress(FileNotFoundError):
            lock = FolderLock.take(folder, known=True)
        if lock is None and waited_s >= _WAIT_S:
            raise StoreError(
                "another process is importing this file", "wait until that process ends"
            )
        if lock is None:
            time.sleep(_POLL_S)
            waited_s += _POLL_S
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
        lock.release()


def find_import(store: Store, kind: str, digest: str, asked: str) -> tuple[str, Any] | None:
    """The run in the store that was made of the same file with the same options by readers of this
    version, and what it knows of the file. ``kind``: the key of that in the environment, and the
    beginning of the target. ``asked``: a text made by ``asked_of``."""
    for run, known in _imports(store, kind):
        if known.get("sha256") == digest and known.get("asked") == asked:
            return run, known
    return None


def earlier_import(store: Store, run: str) -> str | None:
    """A run that readers of an earlier version made of the same file as ``run``, with the same
    options; or None."""
    files = {one: _file(known) for one, known in _imports(store, "capture", "printed")}
    return next((one for one in files if one != run and files[one] == files.get(run)), None)


def _imports(store: Store, *kinds: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The runs that were made of files, and what each knows of its file, the newest first. Without
    those whose import was killed: they contain a part of it."""
    for row in store.runs():
        kind = row.target.partition(":")[0]
        if kind in kinds and row.state in ("complete", "interrupted"):
            document = store.get(row.id).document
            if not document.get("reason"):
                yield row.id, (document.get("environment") or {}).get(kind) or {}


def _file(known: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The digest of the file that a run was made of, and the options of the import."""
    words = str(known.get("asked") or "").split()
    while words and words[-1] == "-":
        words.pop()
    options = [one for one in words if not one.startswith("reader=")]
    return str(known.get("sha256")), options


def import_header(
    writer: StreamWriter,
    run: str,
    step: int,
    measurement: str,
    parameters: Mapping[str, str],
    when: float,
    load: str = "unknown",
) -> bytes:
    """The header of a stream. Nothing is known of the system under test but the file's time."""
    return writer.header(
        agent=__version__,
        run=run,
        step=step,
        measurement=measurement,
        parameters={name: {"asked": text, "effective": text} for name, text in parameters.items()},
        load=load,
        privileged=False,
        clock={"monotonic_ns": 0, "boottime_ns": 0, "realtime_ns": int(when * _NS)},
    )


def step_document(
    number: int, measurement: str, parameters: Mapping[str, str], load: str, duration_s: float
) -> dict[str, Any]:
    """A step of ``run.json``."""
    return {
        "step": number,
        "measurement": measurement,
        "parameters": dict(parameters),
        "load": load,
        "load_command": "",
        "disturb": "",
        "budget_ns": None,
        "rate_per_hour": None,
        "role": "measurement",
        "state": "running",
        "reason": "",
        "remedy": "",
        "folder": f"steps/{number:03}",
        "duration_s": duration_s,
    }


def run_document(
    run: str,
    *,
    target: str,
    tested: Subject,
    about: Mapping[str, Mapping[str, str]],
    catalogue: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    when: float,
) -> dict[str, Any]:
    """``run.json``. ``about``: what the environment knows of the file. ``when``: the time of the
    run's end, in s since 1970."""
    duration_s = round(sum(step["duration_s"] for step in steps), 3)
    started = datetime.fromtimestamp(max(when - duration_s, 0), UTC)
    environment: dict[str, Any] = {
        "kernel": {"release": tested.kernel} if tested.kernel else {},
        "cpu": {"model": tested.board} if tested.board else {},
        "libc": "",
        "realtime": tested.realtime,
        "settings": {},
        **({"lab": dict(tested.lab)} if tested.lab else {}),
        **about,
    }
    return {
        "id": run,
        "study": "",
        "label": tested.label,
        "repeat": 0,
        "target": target,
        "boot_id": "",
        "started": started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "duration_s": duration_s,
        "state": "running",
        "reason": "",
        "remedy": "",
        "plan": {},
        "environment": environment,
        "findings": [],
        "catalogue": catalogue,
        "steps": list(steps),
    }


def write_run(
    store: Store,
    document: dict[str, Any],
    when: float,
    streams: Sequence[Iterable[bytes]],
    unfinished: Mapping[int, tuple[str, str]] | None = None,
) -> None:
    """Put a run into the store: the records of each step, in order. ``unfinished``: the steps that
    are *interrupted* rather than complete, with reason and remedy. StoreError if the store cannot
    be written."""
    cut = unfinished or {}
    with store.create(document) as folder:
        try:
            writer = StreamWriter()
            header = import_header(writer, document["id"], 0, "environment", {}, when)
            folder.save_environment(header + writer.environment(FACTS))
            for number, records in enumerate(streams):
                with folder.append_stream(number) as stream:
                    for data in records:
                        stream.write(data)
                folder.seal(number)
        except OSError as error:
            raise StoreError(
                f"the store cannot be written: {error.strerror or error}",
                "check its free space and its permissions",
            ) from error
        for step in document["steps"]:
            step["state"] = "interrupted" if step["step"] in cut else "complete"
            step["reason"], step["remedy"] = cut.get(step["step"], ("", ""))
        document["state"] = "interrupted" if cut else "complete"
        folder.write_document(document)
        store.update(folder)
