"""Add cuDNN's time, which is drawn as a line of the chart."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("classes", sa.Column("cudnn_ms", sa.Double(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("classes") as batch_op:
        batch_op.drop_column("cudnn_ms")
