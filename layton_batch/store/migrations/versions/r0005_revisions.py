"""A run is revised: what its jobs ask by, which of them the manifest no longer has, and what they were made from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("identity", sa.String(64), nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("retired", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("jobs", sa.Column("retired_ends", sa.Text))
    for name in ("asked", "applied", "items"):
        op.add_column("runs", sa.Column(name, sa.String(64)))
