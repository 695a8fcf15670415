# SPDX-License-Identifier: Apache-2.0
"""What Alembic runs to carry out migrations: on the connection that the store has opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
