"""When a provider last told of a batch: how fresh what people see is. And an index to find the batches of a job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batches", sa.Column("read_at", sa.Float))
    op.create_index("batches_by_job", "batches", ["run_id", "job_id"])
