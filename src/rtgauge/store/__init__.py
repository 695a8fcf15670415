# SPDX-License-Identifier: Apache-2.0
"""The store: what was measured, kept (docs/formats/run-folder.md, docs/formats/store.md).

with Store.open() as store:
    with store.create(document) as folder:      # a run of this process
        with folder.append_stream(0) as stream:
            stream.write(data)
        folder.seal(0)
        folder.write_document(document)
        store.update(folder)
    run = store.get("0198")                     # any run, to be read
    for values in run.steps[0].series[0].values():
        ...
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rtgauge.store.folder import RunFolder, StreamFile
    from rtgauge.store.identity import is_run_id, new_run_id
    from rtgauge.store.samples import CAUSES, StoredRun, StoredSeries, StoredStep
    from rtgauge.store.scan import Chunk, load_failure
    from rtgauge.store.store import RunRow, Store

__all__ = [
    "CAUSES",
    "Chunk",
    "RunFolder",
    "RunRow",
    "Store",
    "StoredRun",
    "StoredSeries",
    "StoredStep",
    "StreamFile",
    "is_run_id",
    "load_failure",
    "new_run_id",
]

# The names are imported when they are first used: a command that only parses its words needs
# neither the index nor the samples.
_MODULES: Final = {
    "CAUSES": "samples",
    "Chunk": "scan",
    "RunFolder": "folder",
    "RunRow": "store",
    "Store": "store",
    "StoredRun": "samples",
    "StoredSeries": "samples",
    "StoredStep": "samples",
    "StreamFile": "folder",
    "is_run_id": "identity",
    "load_failure": "scan",
    "new_run_id": "identity",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(f"{__name__}.{_MODULES[name]}"))[name]
