"""Opens a board's database, SQLite in its folder or another one given by a URL; creates and migrates the tables."""

import os
from pathlib import Path
from typing import Optional, Union

import sqlalchemy
from alembic import command
from alembic.config import Config
from sqlalchemy import URL, Engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from ...errors import DataError, UsageError
from ...system.text import excerpt

HEAD = "0003"  # latest migration; if the tables have this version, Alembic is not loaded, because it is slow
FILE = "board.sqlite"  # name of the database in a board's folder
_BUSY_MS = 30_000  # time for which a writer waits for another writer


def file_url(path: Union[str, Path]) -> URL:
    """Return the URL of an SQLite file as an object. In a string, a question mark in the name would begin the query."""
    return URL.create("sqlite", database=str(path))


def url_of(data: str, database: Optional[str], make: bool = True) -> Union[str, URL]:
    """Return the database's URL: `database`, else SQLite in the folder `data`, which is created.

    A PostgreSQL URL without a driver means psycopg 3. Without `make`, UsageError if the folder has no board.
    """
    if database:
        scheme, _, rest = database.partition("://")
        return f"postgresql+psycopg://{rest}" if scheme in ("postgresql", "postgres") else database
    folder = Path(data)
    if not make and not os.path.exists(folder / FILE):  # Path.exists raises for a name that is too long
        raise UsageError(f"there is no board in {excerpt(data)}: create one by `board class new`")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise DataError(f"cannot make the board's folder {data}: {error.strerror}") from None
    return file_url((folder / FILE).resolve())


def engine_of(url: Union[str, URL]) -> Engine:
    """Return an engine; DataError for an invalid URL."""
    try:
        if sqlalchemy.make_url(url).get_backend_name() == "sqlite":
            engine = sqlalchemy.create_engine(url, connect_args={"timeout": _BUSY_MS / 1000})
            event.listen(engine, "connect", _sqlite)
            event.listen(engine, "begin", _immediate)
            return engine
        # A connection that the database dropped is detected before it is used.
        return sqlalchemy.create_engine(url, pool_pre_ping=True, pool_size=20, max_overflow=20)
    except (SQLAlchemyError, ImportError) as error:
        raise DataError(f"cannot use the database: {str(error).splitlines()[0]}") from None


def _sqlite(connection, record) -> None:
    connection.isolation_level = None  # `_immediate` begins transactions instead
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")  # readers do not wait for the writer
    cursor.execute("PRAGMA synchronous=FULL")  # committed data survives a power failure
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _immediate(connection) -> None:
    """Lock at the start of a write transaction, because one that begins to write later cannot wait for the lock."""
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def version_of(engine: Engine) -> Optional[str]:
    """Return the tables' version, the latest migration; None without tables or if the database cannot be reached."""
    try:
        with engine.execution_options(reading=True).connect() as connection:
            return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    except SQLAlchemyError:
        return None


def migrate(engine: Engine) -> None:
    """Migrate the tables to this version; DataError when the database cannot be reached."""
    if version_of(engine) == HEAD:
        return
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except SQLAlchemyError as error:
        raise DataError(f"cannot open the board's database: {str(error).splitlines()[0]}") from None


class Store:
    """A board's database, opened and migrated.

    Parameters
    ----------
    url
        The result of `url_of`.

    Raises
    ------
    DataError
        When the database cannot be opened.
    """

    def __init__(self, url: Union[str, URL]):
        self.engine = engine_of(url)
        migrate(self.engine)
        self._write = sessionmaker(self.engine, expire_on_commit=False)
        reading = self.engine.execution_options(reading=True)
        self._read = sessionmaker(reading, expire_on_commit=False)

    def write(self):
        """Return a transaction for `with`, which is committed after the block unless an exception ends the block."""
        return self._write.begin()

    def read(self) -> Session:
        """Return a read-only session for `with`; no writer waits for it."""
        return self._read()

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()
