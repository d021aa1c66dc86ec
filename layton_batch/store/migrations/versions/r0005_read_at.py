"""When a provider last told of a batch: people who look at a run see how fresh that is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batches", sa.Column("read_at", sa.Float))
