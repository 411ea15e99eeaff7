"""Add counts to the audit log, and indexes for recent submissions and running jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit", sa.Column("times", sa.Integer(), nullable=False, server_default="1"))
    op.create_index("ix_jobs_arrived", "jobs", ["backend", "queued_at"])
    op.create_index("ix_jobs_running", "jobs", ["state", "lease_until"])


def downgrade() -> None:
    op.drop_index("ix_jobs_running", "jobs")
    op.drop_index("ix_jobs_arrived", "jobs")
    with op.batch_alter_table("audit") as batch_op:
        batch_op.drop_column("times")
