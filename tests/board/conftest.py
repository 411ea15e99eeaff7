"""Fixtures for the tests of the board: databases in SQLite and PostgreSQL, and a class with people."""

import shutil
import sys
import uuid
import warnings
from datetime import datetime, timezone
from pathlib import Path

import pytest

if sys.version_info < (3, 10):
    collect_ignore_glob = ["test_*.py"]  # this Python is too old for the packages of the extra `board`
else:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
    import board_trial
    import sqlalchemy
    from board_kit import Kit
    from sqlalchemy import text

    from fashion_infer.board.store.database import Store, url_of

    START = datetime(2026, 9, 1, 12, 0, tzinfo=timezone.utc)

    @pytest.fixture(scope="session")
    def server(tmp_path_factory):
        """URL of a PostgreSQL server, which is started once for all tests."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with board_trial.postgres() as url:
                yield url

    @pytest.fixture(scope="session")
    def admin(server):
        """A connection that creates databases, after creating a template database that has all tables."""
        engine = sqlalchemy.create_engine(url_of("", server), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("CREATE DATABASE board_template"))
            Store(url_of("", server.replace("/postgres?", "/board_template?"))).close()
            yield connection
        engine.dispose()

    @pytest.fixture
    def postgres(server, admin):
        """URL of a database of the PostgreSQL server, with empty tables."""
        name = f"board_{uuid.uuid4().hex}"
        admin.execute(text(f"CREATE DATABASE {name} TEMPLATE board_template STRATEGY FILE_COPY"))
        yield server.replace("/postgres?", f"/{name}?")
        admin.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))

    @pytest.fixture(scope="session")
    def template(tmp_path_factory):
        """A SQLite file with empty tables. Tests copy it, because creating the tables takes half a second."""
        folder = tmp_path_factory.mktemp("template")
        Store(url_of(str(folder), None)).close()
        return folder / "board.sqlite"

    @pytest.fixture
    def data(tmp_path, template):
        """The folder of an empty board, whose database is SQLite."""
        (tmp_path / "board").mkdir()
        shutil.copy(template, tmp_path / "board")
        return str(tmp_path / "board")

    @pytest.fixture(scope="module")
    def board_app(tmp_path_factory):
        """The application of an empty board, which the tests of a file share."""
        from fashion_infer.board import BoardSettings, service

        return service.create_app(BoardSettings(data=str(tmp_path_factory.mktemp("board"))))

    @pytest.fixture(params=["sqlite", "postgres"])
    def store(request, data):
        """An empty board's database. A test that uses it runs twice: with SQLite and with PostgreSQL."""
        url = request.getfixturevalue("postgres") if request.param == "postgres" else None
        made = Store(url_of(data, url))
        yield made
        made.close()

    @pytest.fixture
    def kit(store):
        """A class with people. A test that uses it runs with SQLite and with PostgreSQL."""
        return Kit(store, START)

    @pytest.fixture
    def small(data):
        """A class with people in SQLite only, for behaviour that does not depend on the kind of database."""
        made = Store(url_of(data, None))
        yield Kit(made, START)
        made.close()
