# SPDX-License-Identifier: Apache-2.0
"""The headlines of events without an answer: all rows are read from the folders once more."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DELETE FROM runs")
