"""Boards for tests: stores on both databases, people, a service in this process."""

import sys
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

if sys.version_info < (3, 10):
    collect_ignore_glob = ["test_*.py"]  # Ray and the others of the extra `board` are not made for it
else:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
    import board_trial
    from board_kit import Kit
    from sqlalchemy import text

    from fashion_infer.board.store.database import Store, url_of

    START = datetime(2026, 9, 1, 12, 0, tzinfo=timezone.utc)

    @pytest.fixture(scope="session")
    def server(tmp_path_factory):
        """A PostgreSQL server, once: its URL."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with board_trial.postgres() as url:
                yield url

    @pytest.fixture
    def postgres(server):
        """An empty database of that server."""
        import sqlalchemy

        name = f"board_{abs(hash(datetime.now()))}"
        admin = sqlalchemy.create_engine(url_of("", server), isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        yield server.replace("/postgres?", f"/{name}?")
        with admin.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        admin.dispose()

    @pytest.fixture(params=["sqlite", "postgres"])
    def store(request, tmp_path):
        """An empty board's database, of both kinds."""
        url = request.getfixturevalue("postgres") if request.param == "postgres" else None
        made = Store(url_of(str(tmp_path / "board"), url))
        yield made
        made.close()

    @pytest.fixture
    def kit(store):
        """A class with people, on both kinds of database."""
        return Kit(store, START)

    @pytest.fixture
    def small(tmp_path):
        """The same on SQLite alone, for what does not depend on the database."""
        made = Store(url_of(str(tmp_path / "board"), None))
        yield Kit(made, START)
        made.close()

    @pytest.fixture
    def hour():
        """An hour."""
        return timedelta(hours=1)
