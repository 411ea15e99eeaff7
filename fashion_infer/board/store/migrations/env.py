"""Alembic's environment: migrations run on the connection that `database.migrate` passes."""

from alembic import context

from fashion_infer.board.store.models import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
if connection.dialect.name == "postgresql":
    # When two services start at once, the second waits for the first. The number is specific to this program.
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(20260817)")
with context.begin_transaction():
    context.run_migrations()
