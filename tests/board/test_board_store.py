"""The database's tables, people, tokens, admission of submissions and backups, in SQLite and PostgreSQL."""

import hashlib
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profiles import examples
from sqlalchemy import func, select, text
from sqlalchemy.exc import IntegrityError

from fashion_infer.board import backup
from fashion_infer.board.store import admission, audit, class_settings, database, people
from fashion_infer.board.store.admission import NotTaken, safe_name
from fashion_infer.board.store.database import Store, url_of
from fashion_infer.board.store.models import Base, Content, Judgement, Person, SubmissionRow, Token
from fashion_infer.errors import DataError, UsageError


def test_head_is_the_last_migration():
    folder = Path(database.__file__).parent / "migrations"
    config = Config()
    config.set_main_option("script_location", str(folder))
    assert ScriptDirectory.from_config(config).get_current_head() == database.HEAD


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_migrations_create_the_models_tables(kind, server, admin, tmp_path):
    url = None
    if kind == "postgres":
        admin.execute(text("CREATE DATABASE board_fresh"))
        url = server.replace("/postgres?", "/board_fresh?")
    store = Store(url_of(str(tmp_path), url))
    with store.engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    # Lists are changed properties of columns, for example types that a database spells differently. The others are
    # missing or additional tables, columns, indexes and constraints.
    assert [one for one in differences if not isinstance(one, list)] == []
    store.close()


def test_an_existing_store_can_be_opened(store):
    with store.write() as session:
        people.new_class(session, "kept", "fa2017", "gpu", "")
    again = Store(store.engine.url.render_as_string(hide_password=False))
    with again.read() as session:
        assert people.find_class(session, "kept").backend == "gpu"
    again.close()


def test_times_are_read_in_utc_and_need_a_zone(kit):
    with kit.store.read() as session:
        assert kit.of_class(session).deadline == kit.now + timedelta(days=30)
        assert kit.of_class(session).deadline.utcoffset() == timedelta(0)
    with pytest.raises(Exception, match="has no time zone"):
        kit.change(deadline=kit.now.replace(tzinfo=None))


def test_an_unreachable_database_is_a_one_line_error(tmp_path):
    (tmp_path / "file").touch()
    below_file = str(tmp_path / "file" / "x")
    for url in ("postgresql://nobody@127.0.0.1:9/none", "nonsense://x", f"sqlite:///{tmp_path}/no/such/folder/x", None):
        with pytest.raises(DataError) as raised:
            Store(url_of(below_file, url))
        assert "\n" not in str(raised.value)


class TestTokens:
    def test_the_database_contains_no_secret_of_a_token(self, kit):
        with kit.store.read() as session:
            for table in Base.metadata.sorted_tables:
                shown = repr(session.execute(select(table)).all())
                for token in kit.tokens.values():
                    assert token.split("_")[2] not in shown, table.name

    def test_a_token_identifies_its_person(self, kit):
        with kit.store.read() as session:
            for name, token in kit.tokens.items():
                assert people.authenticate(session, token).person.name == name

    @pytest.mark.parametrize("change", [
        lambda token: token[:-1], lambda token: token[:-1] + ("0" if token[-1] != "0" else "1"), lambda token: "",
        lambda token: "fib_x", lambda token: token.upper(), lambda token: token + "_x", lambda token: "fib__",
        lambda token: token.replace("fib", "fic"), lambda token: "fib_\udc80_\udc80", lambda token: "x" * 10**6,
    ])  # fmt: skip
    def test_invalid_tokens_identify_nobody(self, kit, change):
        with kit.store.read() as session:
            assert people.authenticate(session, change(kit.tokens["Ann"])) is None

    def test_a_token_with_another_persons_secret_is_invalid(self, kit):
        ann, bob = kit.tokens["Ann"].split("_"), kit.tokens["Bob"].split("_")
        with kit.store.read() as session:
            assert people.authenticate(session, f"fib_{ann[1]}_{bob[2]}") is None

    def test_joining_again_adds_a_token(self, kit):
        with kit.store.write() as session:
            (one,) = people.join(session, kit.of_class(session), [("Ann", "assistant", "red")])
        with kit.store.read() as session:
            for token in (one.token, kit.tokens["Ann"]):
                found = people.authenticate(session, token).person
                assert (found.id, found.role, found.team.name) == (kit.people["Ann"], "assistant", "red")
            assert session.scalar(select(func.count()).select_from(Token)) == 6

    def test_a_list_without_role_and_team_keeps_them(self, kit):
        def joined(text):
            with kit.store.write() as session:
                (one,) = people.join(session, kit.of_class(session), class_settings.listed(text))
                return one.person.role, one.person.team.name if one.person.team else None

        assert joined("Ann,assistant,red") == ("assistant", "red")
        assert joined("Ann") == joined("name\nAnn") == ("assistant", "red")
        assert joined("name,team\nAnn,blue") == ("assistant", "blue")
        assert joined("Ann,") == ("student", "blue")
        assert joined("Ann,,") == ("student", None)
        assert joined("Zoe") == ("student", None)


@pytest.mark.parametrize("listed", [
    [("=1+1", "", "")], [("", "", "")], [("x" * 101, "", "")], [("Dan", "king", "")], [("Dan", "", "<b>")],
    [("Dan", "", ""), ("Dan", "", "")], [("a\nb", "", "")],
])  # fmt: skip
def test_a_refused_list_adds_nobody(kit, listed):
    with pytest.raises(UsageError), kit.store.write() as session:
        people.join(session, kit.of_class(session), [("Eve", "", ""), *listed])
    with kit.store.read() as session:
        assert people.find_person(session, kit.of_class(session), "Eve") is None


def test_pseudonyms_are_unique(small):
    with small.store.write() as session:
        people.join(session, small.of_class(session), [(f"n{number}", "", "") for number in range(300)])
        found = session.scalars(select(Person.pseudonym)).all()
    assert len(set(found)) == len(found) == 305


def refusal(kit, who, content=None, **options):
    with pytest.raises(NotTaken) as raised:
        kit.submit(who, content, **options)
    return raised.value


class TestAdmission:
    def test_a_submission_is_stored_completely(self, kit):
        identifier = kit.submit("Ann", b"\0\xffbytes")
        with kit.store.read() as session:
            found = session.get_one(SubmissionRow, identifier)
            assert session.get_one(Content, identifier).content == b"\0\xffbytes"
            assert found.digest == hashlib.sha256(b"\0\xffbytes").hexdigest() and found.status == "queued"
            entry = audit.entries(session, kit.of_class(session))[0]
            assert (entry.actor, entry.action) == ("Ann", "submit") and identifier in entry.what

    def test_a_person_submits_the_same_bytes_once(self, kit):
        one = kit.submit("Ann", b"same")
        assert kit.submit("Ann", b"same") == one
        assert kit.submit("Bob", b"same") != one
        assert kit.submit("Ann", b"same", final=True) != one
        kit.judge(), kit.judge(), kit.judge()
        assert kit.submit("Ann", b"same") == one
        assert kit.claim() is None

    def test_a_key_identifies_one_submission_of_a_person(self, kit):
        one = kit.submit("Ann", b"same", key="k1")
        assert kit.submit("Ann", b"same", key="k1") == one
        assert kit.submit("Ann", b"same", key="k2") != one
        assert kit.submit("Bob", b"same", key="k1") != one
        assert refusal(kit, "Ann", b"other", key="k1").status == 409

    def test_a_key_like_a_digest_is_not_a_digest(self, kit):
        one = kit.submit("Ann", b"same")
        assert kit.submit("Ann", b"same", key=f"sha256:{hashlib.sha256(b'same').hexdigest()}") != one

    def test_the_deadline(self, kit):
        kit.change(deadline=kit.now + timedelta(seconds=10))
        kit.submit("Ann", b"last", seconds=10)
        assert refusal(kit, "Ann", seconds=0.001).status == 403
        assert kit.submit("Ann", b"last")  # a submission whose acknowledgement was lost can be sent again

    def test_sizes(self, kit):
        kit.change(most_bytes=10)
        kit.submit("Ann", b"x" * 10)
        assert refusal(kit, "Ann", b"x" * 11).status == 413 and refusal(kit, "Ann", b"").status == 422

    def test_the_limit_of_waiting_submissions(self, kit):
        kit.change(most_pending=2)
        kit.submit("Ann"), kit.submit("Ann")
        refused = refusal(kit, "Ann")
        assert (refused.status, refused.retry_after) == (429, 30)
        kit.submit("Bob")
        kit.judge()
        kit.submit("Ann")

    def test_the_limit_per_hour(self, kit):
        kit.change(most_an_hour=3)
        for _ in range(3):
            kit.submit("Ann", seconds=600)
        assert refusal(kit, "Ann", seconds=600).retry_after == 1800
        kit.submit("Bob", seconds=0)
        kit.submit("Ann", seconds=1800)  # exactly one hour has passed

    def test_tests_have_a_limit_of_their_own(self, kit):
        kit.change(most_an_hour=1, most_tests_an_hour=2, gpu_seconds=5)
        tests = [kit.submit("Ann", b"same", test=True), kit.submit("Ann", test=True)]
        assert kit.submit("Ann", b"same", test=True) == tests[0] != kit.submit("Ann", b"same")
        for options, status in (({"test": True}, 429), ({}, 429), ({"test": True, "final": True}, 422)):
            assert refusal(kit, "Ann", **options).status == status
        kit.judge(seconds=60)
        with kit.store.read() as session:
            assert admission.gpu_seconds_left(session, kit.person(session, "Ann"), kit.now) == 5

    def test_the_limit_of_device_seconds(self, kit):
        kit.change(gpu_seconds=100)
        kit.submit("Ann")
        kit.judge(seconds=60)
        kit.submit("Ann")
        running = kit.claim()
        kit.pass_time(39)
        kit.submit("Ann", seconds=0)
        assert refusal(kit, "Ann", seconds=1).status == 403
        kit.submit("Bob")
        assert kit.finish(running, seconds=1)

    @given(name=st.text(max_size=300))
    @settings(max_examples=examples(200))
    def test_stored_names_have_only_safe_characters(self, name):
        safe = safe_name(name)
        assert 0 < len(safe) <= admission.NAME_LENGTH and safe[0] not in ".-"
        assert set(safe) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-")

    def test_safe_names_are_unchanged(self):
        names = ("new-forward.cu", "a.tar.gz", "submission.py", "x" * 96 + ".cuh")
        assert [safe_name(name) for name in names] == list(names)
        assert safe_name("../../etc/passwd") == "passwd" and safe_name("a\\b.cu") == "b.cu"


def test_a_submission_has_one_judgement_per_purpose(kit):
    identifier = kit.submit("Ann")
    kit.judge()
    with pytest.raises(IntegrityError), kit.store.write() as session:
        session.add(Judgement(submission_id=identifier, purpose="first", status="judged", started_at=kit.now))


@given(contents=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=8))
@settings(max_examples=examples(3), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_restored_backup_equals_the_board(kit, tmp_path_factory, contents):
    kit.change(most_pending=10**6)  # several examples add to Bob's queue
    for content in contents:
        kit.submit("Bob", content)
    kit.claim()
    folder = tmp_path_factory.mktemp("backup")
    backup.write(kit.store, str(folder / "b.sqlite"))
    assert stat.S_IMODE((folder / "b.sqlite").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["b.sqlite"]
    fresh = Store(url_of(str(folder / "new"), None))
    backup.restore(str(folder / "b.sqlite"), fresh)
    for table in Base.metadata.sorted_tables:
        with kit.store.read() as old, fresh.read() as new:
            rows = [sorted(map(repr, session.execute(select(table)).all())) for session in (old, new)]
        assert rows[0] == rows[1], table.name
    with fresh.write() as session:
        people.join(session, people.find_class(session, "c"), [("Zoe", "", "")])
    with pytest.raises(DataError):
        backup.restore(str(folder / "b.sqlite"), fresh)
    fresh.close()


def test_a_backup_is_restored_into_postgresql(small, postgres, tmp_path):
    small.submit("Ann")
    backup.write(small.store, str(tmp_path / "b.sqlite"))
    fresh = Store(url_of("", postgres))
    backup.restore(str(tmp_path / "b.sqlite"), fresh)
    small.store.close()
    small.store = fresh
    other = small.submit("Bob")
    assert small.judge() != other and small.judge() == other
    fresh.close()


def test_a_backup_of_an_unknown_version_is_refused_unchanged(small, tmp_path):
    backup.write(small.store, str(tmp_path / "b.sqlite"))
    other = database.engine_of(f"sqlite:///{tmp_path}/b.sqlite")
    with other.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    other.dispose()
    before = (tmp_path / "b.sqlite").read_bytes()
    fresh = Store(url_of(str(tmp_path / "new"), None))
    with pytest.raises(DataError):
        backup.restore(str(tmp_path / "b.sqlite"), fresh)
    fresh.close()
    assert (tmp_path / "b.sqlite").read_bytes() == before


def test_files_that_are_not_backups_are_refused(small, tmp_path):
    (tmp_path / "x").write_bytes(b"no database, that much is sure" * 100)
    empty = Store(url_of(str(tmp_path / "new"), None))
    for path in (tmp_path / "none", tmp_path / "x"):
        with pytest.raises(DataError):
            backup.restore(str(path), empty)
    empty.close()


def test_sqlite_checks_foreign_keys_and_syncs(small):
    with small.store.read() as session:
        assert session.execute(text("PRAGMA foreign_keys")).scalar() == 1
        assert session.execute(text("PRAGMA synchronous")).scalar() == 2
        assert session.execute(text("PRAGMA journal_mode")).scalar() == "wal"
