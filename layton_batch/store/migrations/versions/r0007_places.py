"""Where each run of a database has its folder: the answers that it paid for are there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("host", sa.String(64)))
    op.add_column("runs", sa.Column("folder", sa.Text))
