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

_ROWS = 200  # number of rows copied at a time; small, because a row may have a submission's bytes


def write(store: Store, path: str) -> None:
    """Write a backup, an SQLite file, atomically and consistent; DataError if this fails. The board may be in use."""
    with _private(), replacing(path, DataError) as temporary:
        Path(temporary).unlink(missing_ok=True)
        copied = Store(file_url(temporary))
        try:
            copy(store.engine, copied.engine)
            with copied.engine.connect() as connection:  # without WAL, the database is one file
                connection.connection.dbapi_connection.execute("PRAGMA journal_mode=DELETE")  # type: ignore[union-attr]
        except SQLAlchemyError as error:
            raise DataError(f"cannot write the backup: {str(error).splitlines()[0]}") from None
        finally:
            copied.close()


@contextlib.contextmanager
def _private() -> Iterator[None]:
    """Return a context in which new files are readable only by their owner: backups have code and hashes of tokens."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def restore(path: str, store: Store) -> None:
    """Copy a backup to an empty board; DataError if the board has classes, or the file is missing or not a backup."""
    if not Path(path).is_file():
        raise DataError(f"there is no file {path}")
    with store.read() as session:
        if session.scalar(select(Class.id).limit(1)) is not None:
            raise DataError("the board already has classes: restore the backup to an empty board")
    with tempfile.TemporaryDirectory(prefix="fashion-infer-board-") as folder:
        # A copy is used, because a backup of an older version must be migrated first, and the file must not change.
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
    reading = source.execution_options(reading=True)
    if source.dialect.name == "postgresql":
        reading = source.execution_options(isolation_level="REPEATABLE READ")
    with reading.begin() as old, target.begin() as new:
        for table in Base.metadata.sorted_tables:
            rows = old.execution_options(yield_per=_ROWS).execute(select(table)).mappings()
            for part in rows.partitions(_ROWS):
                new.execute(insert(table), [dict(row) for row in part])
            if new.dialect.name == "postgresql" and "id" in table.c and isinstance(table.c.id.type, sqlalchemy.Integer):
                # The copied rows keep their ids, so that the table's next id must be set.
                new.exec_driver_sql(
                    f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), "
                    f"(SELECT COALESCE(MAX(id), 0) + 1 FROM {table.name}), false)"
                )
