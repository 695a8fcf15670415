# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas (draft 2020-12) of the documents that reports give as JSON."""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any

__all__ = ["schema", "validate"]


@functools.cache
def schema(package: str, name: str) -> dict[str, Any]:
    """The schema in the file ``name`` of a package."""
    file = importlib.resources.files(package).joinpath(name)
    loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return loaded


def validate(package: str, name: str, document: object) -> None:
    """Raise ``jsonschema.ValidationError`` if the document does not follow the schema.

    For tests and tools; needs the package ``jsonschema``, which measuring does not.
    """
    import jsonschema  # noqa: PLC0415

    jsonschema.Draft202012Validator(schema(package, name)).validate(document)
