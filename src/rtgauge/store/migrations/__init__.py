# SPDX-License-Identifier: Apache-2.0
"""The migrations of the index, carried out by the program itself when it opens one (Alembic).

A new one is a file in ``versions/``; ``rtgauge.store.index.MIGRATION`` names the newest.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

__all__ = ["known", "upgrade"]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def known() -> set[str]:
    """The migrations that this program has."""
    script = ScriptDirectory.from_config(_config())
    return {revision.revision for revision in script.walk_revisions()}


def upgrade(connection: sa.Connection) -> None:
    """Bring the index to the newest version, inside the connection's transaction."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
