"""Alembic's entry: runs the migrations on the connection that ``store.engine`` hands over."""

from alembic import context

from layton_batch.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
