"""When our clock first said that time is up, and whether a planned batch waits for a person."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batches", sa.Column("needs_person", sa.Boolean, nullable=False, server_default=sa.false()))
