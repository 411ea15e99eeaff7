"""Writes a backup of a board to one file, and restores a board from it."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Iterator

import sqlalchemy
from alembic.util import CommandError
from sqlalchemy import insert, select
from sqlalchemy.exc import SQLAlchemyError

from ..errors import DataError
from ..system.files import replacing
from .store.database import Store, engine_of, file_url, migrate, version_of
from .store.models import Base, Class

_ROWS = 200  # rows copied at a time; small, because a row may have a submission's bytes


def write(store: Store, path: str) -> None:
    """Write a board into a SQLite file, completely or not at all, while it runs.

    All tables are read in one transaction, so that the file has the state of one moment.
    """
    with _private(), replacing(path, DataError) as temporary:
        Path(temporary).unlink(missing_ok=True)
        copied = Store(file_url(temporary))
        try:
            copy(store.engine, copied.engine)
            with copied.engine.connect() as connection:  # so that the backup is one file
                connection.connection.dbapi_connection.execute("PRAGMA journal_mode=DELETE")  # type: ignore[union-attr]
        except SQLAlchemyError as error:
            raise DataError(f"cannot write the backup: {str(error).splitlines()[0]}") from None
        finally:
            copied.close()


@contextlib.contextmanager
def _private() -> Iterator[None]:
    """Make files created in the block readable only by their owner, because they contain code and hashes of tokens."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def restore(path: str, store: Store) -> None:
    """Fill an empty board from a backup; DataError if the board has classes, or the file is not a backup."""
    if not Path(path).is_file():
        raise DataError(f"there is no backup {path}")
    with store.read() as session:
        if session.scalar(select(Class.id).limit(1)) is not None:
            raise DataError("the board has classes: restore a backup into an empty one")
    with tempfile.TemporaryDirectory(prefix="fashion-infer-board-") as folder:
        # Work on a copy: an older version is migrated first.
        try:
            with _private():
                shutil.copyfile(path, Path(folder) / "backup")
        except OSError as error:
            raise DataError(f"cannot copy {path} to {folder}: {error.strerror}") from None
        source = engine_of(file_url(Path(folder) / "backup"))
        try:
            if version_of(source) is None:
                raise DataError(f"{path} is not a backup of a board")
            migrate(source)
            copy(source, store.engine)
        except (SQLAlchemyError, CommandError) as error:
            raise DataError(f"{path} is not a backup that this version reads: {str(error).splitlines()[0]}") from None
        finally:
            source.dispose()


def copy(source: sqlalchemy.Engine, target: sqlalchemy.Engine) -> None:
    """Copy every row of every table to an empty database, in one transaction on each side."""
    reading = source.execution_options(reading=True)
    if source.dialect.name == "postgresql":
        reading = source.execution_options(isolation_level="REPEATABLE READ")
    with reading.begin() as old, target.begin() as new:
        for table in Base.metadata.sorted_tables:
            rows = old.execution_options(yield_per=_ROWS).execute(select(table)).mappings()
            for part in rows.partitions(_ROWS):
                new.execute(insert(table), [dict(row) for row in part])
            if new.dialect.name == "postgresql" and "id" in table.c and isinstance(table.c.id.type, sqlalchemy.Integer):
                # The copied rows keep their ids: set the table's next id.
                new.exec_driver_sql(
                    f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), "
                    f"(SELECT COALESCE(MAX(id), 0) + 1 FROM {table.name}), false)"
                )
