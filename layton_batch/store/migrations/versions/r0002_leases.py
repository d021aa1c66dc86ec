"""Leases: who has a batch in hand, until when, and the fence that keeps out whoever had it before. And why an attempt
was made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rows of the older schema are in nobody's hands. Columns are added in place: nothing is copied or rewritten."""
    op.add_column("batches", sa.Column("cause", sa.Text))
    op.add_column("batches", sa.Column("lease_owner", sa.String(256)))
    op.add_column("batches", sa.Column("lease_until", sa.Float))
    op.add_column("batches", sa.Column("fence", sa.Integer, nullable=False, server_default="0"))
    op.create_table(
        "leases",
        sa.Column("run_id", sa.String(128), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("lease_owner", sa.String(256)),
        sa.Column("lease_until", sa.Float),
        sa.Column("fence", sa.Integer, nullable=False),
    )
