"""The first tables. Until a release, they are those of `models`; the first migration after it freezes them here."""

from alembic import op

from fashion_infer.board.store.models import Base

revision = "0001"
down_revision = None


def upgrade() -> None:
    Base.metadata.create_all(op.get_bind(), checkfirst=False)


def downgrade() -> None:
    Base.metadata.drop_all(op.get_bind(), checkfirst=False)
