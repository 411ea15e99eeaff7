"""Alembic's environment, which runs the migrations on the connection that `database.migrate` passes."""

from alembic import context

from fashion_infer.board.store.models import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
if connection.dialect.name == "postgresql":
    # If two services start at the same time, the second waits here for the first one's migration. The lock's number
    # is arbitrary, but only this program uses it.
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(20260817)")
with context.begin_transaction():
    context.run_migrations()
