# SPDX-License-Identifier: Apache-2.0
"""Alembic's entry point for migrations, on the connection that the store has opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
