"""The first tables."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Boolean, DateTime, Double, Index, Integer, Text, UniqueConstraint

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TABLES = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)


def _columns(nullable=False, **kinds):
    """Return a column for each name: of the given type, or a string of the given length."""
    return [
        sa.Column(name, sa.String(kind) if isinstance(kind, int) else kind, nullable=nullable)
        for name, kind in kinds.items()
    ]


def _id():
    return sa.Column("id", Integer, primary_key=True)


def _of(table, name, **options):
    return sa.Column(name, sa.ForeignKey(f"{table}.id"), **{"nullable": False, **options})


sa.Table(
    "classes",
    _TABLES,
    _id(),
    sa.Column("name", sa.String(200), unique=True, nullable=False),
    *_columns(
        edition=200,
        backend=200,
        rubric=Text,
        most_bytes=Integer,
        most_pending=Integer,
        most_an_hour=Integer,
        names_open=Boolean,
        created_at=DateTime,
    ),
    *_columns(True, deadline=DateTime, gpu_seconds=Double, finalised_at=DateTime),
)
sa.Table(
    "queues",
    _TABLES,
    sa.Column("backend", sa.String(8), primary_key=True),
    *_columns(round=Integer, slots=Integer),
    *_columns(True, seen_at=DateTime),
)
sa.Table(
    "audit",
    _TABLES,
    _id(),
    sa.Column("at", DateTime, nullable=False, index=True),
    _of("classes", "class_id", nullable=True),
    *_columns(actor=200, action=40, what=Text, address=64),
)
sa.Table(
    "teams",
    _TABLES,
    _id(),
    _of("classes", "class_id"),
    *_columns(name=200, pseudonym=200),
    UniqueConstraint("class_id", "name"),
    UniqueConstraint("class_id", "pseudonym", name="uq_teams_p"),
)
sa.Table(
    "people",
    _TABLES,
    _id(),
    _of("classes", "class_id"),
    _of("teams", "team_id", nullable=True),
    *_columns(name=200, role=20, pseudonym=200, last_round=Integer, created_at=DateTime),
    sa.CheckConstraint("role IN ('student', 'assistant', 'instructor')", name="role"),
    UniqueConstraint("class_id", "name"),
    UniqueConstraint("class_id", "pseudonym", name="uq_people_p"),
)
sa.Table(
    "submissions",
    _TABLES,
    sa.Column("id", sa.String(32), primary_key=True),
    _of("classes", "class_id"),
    _of("people", "person_id"),
    *_columns(
        key=128, digest=64, name=200, size=Integer, final=Boolean, status=20, spent=Double, submitted_at=DateTime
    ),
    UniqueConstraint("person_id", "key"),
    Index("ix_submissions_class", "class_id", "status"),
    Index("ix_submissions_person", "person_id", "submitted_at"),
)
sa.Table(
    "tokens",
    _TABLES,
    _id(),
    _of("people", "person_id", index=True),
    sa.Column("selector", sa.String(32), unique=True, nullable=False),
    *_columns(hashed=64, created_at=DateTime),
    *_columns(True, revoked_at=DateTime),
)
sa.Table("contents", _TABLES, _of("submissions", "submission_id", primary_key=True), *_columns(content=sa.LargeBinary))
sa.Table(
    "jobs",
    _TABLES,
    _id(),
    _of("submissions", "submission_id"),
    *_columns(purpose=20, backend=8, state=20, round=Integer, queued_at=DateTime, attempts=Integer),
    *_columns(True, started_at=DateTime, lease=64, lease_until=DateTime),
    UniqueConstraint("submission_id", "purpose"),
    Index("ix_jobs_queue", "backend", "state", "round", "queued_at", "id"),
)
sa.Table(
    "judgements",
    _TABLES,
    _id(),
    _of("submissions", "submission_id"),
    *_columns(
        purpose=20,
        status=20,
        reason=Text,
        ranked=Boolean,
        points=Double,
        out_of=Double,
        verdict=Text,
        seconds=Double,
        started_at=DateTime,
        finished_at=DateTime,
        node=200,
    ),
    *_columns(True, op_ms=Double, layer_ms=Double),
    UniqueConstraint("submission_id", "purpose"),
)
sa.Table(
    "log_lines",
    _TABLES,
    _id(),
    _of("submissions", "submission_id"),
    *_columns(at=DateTime, text=Text),
    Index("ix_log_lines_submission", "submission_id", "id"),
)
sa.Table(
    "sessions",
    _TABLES,
    _id(),
    _of("people", "person_id", index=True),
    _of("tokens", "token_id"),
    sa.Column("hashed", sa.String(64), unique=True, nullable=False),
    *_columns(csrf=64, created_at=DateTime, expires_at=DateTime),
)


def upgrade() -> None:
    _TABLES.create_all(op.get_bind(), checkfirst=False)


def downgrade() -> None:
    _TABLES.drop_all(op.get_bind(), checkfirst=False)
