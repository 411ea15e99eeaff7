"""Alembic's environment: migrations run on the connection that `database.migrate` hands over."""

from alembic import context

from fashion_infer.board.store.models import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
if connection.dialect.name == "postgresql":
    # Two services that start at once: the second waits for the first. The number is this program's own.
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(20260817)")
with context.begin_transaction():
    context.run_migrations()
