"""Opens a board's database, which is SQLite in its folder or is given by a URL, and creates or migrates its tables."""

import contextlib
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Iterator, Optional, Union

import sqlalchemy
from alembic import command
from alembic.config import Config
from sqlalchemy import URL, Engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from ...errors import DataError, UsageError
from ...system.files import folder_made, vanishing
from ...system.text import excerpt

HEAD = "0001"  # the latest migration. If the tables have this version, Alembic, which is slow, need not run
FILE = "board.sqlite"  # name of the SQLite database in a board's folder
_BUSY_MS = 30_000  # longest time for which a writer waits for another one


def file_url(path: Union[str, Path]) -> URL:
    """Return the URL of an SQLite file. It is not a string, in which a "?" in the path would begin the URL's query."""
    return URL.create("sqlite", database=str(path))


def url_of(data: str, database: Optional[str], make: bool = True) -> Union[str, URL]:
    """Return the URL `database`, or that of SQLite in the folder `data`; without `make`, it must exist (UsageError)."""
    if database:
        scheme, _, rest = database.partition("://")
        return f"postgresql+psycopg://{rest}" if scheme in ("postgresql", "postgres") else database
    folder = Path(data)
    if not make and not os.path.exists(folder / FILE):  # Path.exists raises for a name that is too long
        raise UsageError(f"there is no board in {excerpt(data)}: create one with `board class new`")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise DataError(f"cannot create the board's folder {data}: {error.strerror}") from None
    return file_url((folder / FILE).resolve())


def engine_of(url: Union[str, URL]) -> Engine:
    try:
        if sqlalchemy.make_url(url).get_backend_name() == "sqlite":
            engine = sqlalchemy.create_engine(url, connect_args={"timeout": _BUSY_MS / 1000})
            event.listen(engine, "connect", _sqlite)
            event.listen(engine, "begin", _immediate)
            return engine
        # pool_pre_ping replaces connections that the database has closed.
        return sqlalchemy.create_engine(url, pool_pre_ping=True, pool_size=20, max_overflow=20)
    except (SQLAlchemyError, ImportError) as error:
        raise DataError(f"cannot use the database: {str(error).splitlines()[0]}") from None


def _sqlite(connection, record) -> None:
    connection.isolation_level = None  # Python's sqlite3 must not begin transactions: `_immediate` does
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")  # readers do not wait for the writer
    cursor.execute("PRAGMA synchronous=FULL")  # committed data survives a power failure
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _immediate(connection) -> None:
    """Begin a transaction. One that writes locks the database now, because SQLite cannot wait for the lock later."""
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def version_of(engine: Engine) -> Optional[str]:
    """Return the tables' version, which is their last migration; None if there are no tables or no connection."""
    try:
        with engine.execution_options(reading=True).connect() as connection:
            return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    except SQLAlchemyError:
        return None


def migrate(engine: Engine) -> None:
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
    def __init__(self, url: Union[str, URL]):
        self.engine = engine_of(url)
        migrate(self.engine)
        self._write = sessionmaker(self.engine, expire_on_commit=False)
        reading = self.engine.execution_options(reading=True)
        self._read = sessionmaker(reading, expire_on_commit=False)

    def write(self):
        """Return a context with a session, whose changes are committed unless an exception ends the block."""
        return self._write.begin()

    def read(self) -> Session:
        """Return a session for reading, which is a context. Writers do not wait for it."""
        return self._read()

    def close(self) -> None:
        self.engine.dispose()


@contextlib.contextmanager
def opened(data: str, database: Optional[str], makes: bool) -> Iterator[Store]:
    """Return a context with the board's database. With `makes`, a missing board is created if the block succeeds."""
    if database or not makes or os.path.exists(os.path.join(data, FILE)):
        with contextlib.closing(Store(url_of(data, database, makes))) as store:
            yield store
    else:
        with _created(data) as store:
            yield store


@contextlib.contextmanager
def _created(data: str) -> Iterator[Store]:
    with contextlib.ExitStack() as undo:
        try:
            folder = undo.enter_context(folder_made(data, 0o700))
            # The temporary folder is inside the board's folder, because hard links do not cross file systems.
            temporary = undo.enter_context(vanishing(partial(tempfile.mkdtemp, dir=folder, prefix=".new.")))
        except OSError as error:
            raise DataError(f"cannot create the board's folder {data}: {error.strerror}") from None
        with contextlib.closing(Store(file_url(os.path.join(temporary, FILE)))) as store:
            yield store
        try:
            # A link, because a rename would replace a board that another command has created.
            os.link(os.path.join(temporary, FILE), folder / FILE)
        except OSError as error:
            raise DataError(f"cannot create the board in {data}: {error.strerror}") from None
