"""What was read out of events becomes columns: counters of a batch, the batches that a run ever had at providers, and
whether the manifest's prices changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "absent_looks": ("looking", ("submitting", "create_unclear")),
    "unsure_looks": ("unsure", ("submitting", "create_unclear")),
    "unread_lists": ("not_looked_for", ("submitting", "resubmit")),
    "forbidden": ("refused_403", ("resubmit",)),
    "not_found": ("refused_404", ("resubmit",)),
    "short_downloads": ("download_short", ("ended", "download_grew")),
    "absent_creates": ("not_in_list", ()),
    "resent": ("resubmit", ()),
}
"""By column: the event that is counted, and those after which it is counted anew."""
FLAGS = {"stop_refused": "cancel_failed", "retention_told": "results_expiring"}
_KNOWN = ("submitted", "found", "adopted")


def upgrade() -> None:
    for name in COUNTERS:
        op.add_column("batches", sa.Column(name, sa.Integer, nullable=False, server_default="0"))
    for name in FLAGS:
        op.add_column("batches", sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("runs", sa.Column("prices", sa.String(8)))
    op.create_table(
        "provider_batches",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(128), nullable=False, index=True),
        sa.Column("batch_id", sa.String(256), nullable=False),
        sa.Column("provider_id", sa.Text, nullable=False),
    )
    _count(op.get_bind())


def _count(connection: sa.Connection) -> None:
    """Take over what the events of existing runs tell."""
    events = sa.table(
        "events", *(sa.column(name) for name in ("seq", "run_id", "batch_id", "kind", "detail"))
    )  # fmt: skip
    about: dict[tuple[str, str | None], list[Any]] = defaultdict(list)
    for row in connection.execute(sa.select(events).order_by(events.c.seq)):
        about[row.run_id, row.batch_id].append(row)
    batches = sa.table("batches", *(sa.column(name) for name in ("run_id", "batch_id", *COUNTERS, *FLAGS)))
    known = sa.table("provider_batches", *(sa.column(name) for name in ("run_id", "provider_id", "batch_id")))
    runs = sa.table("runs", sa.column("run_id"), sa.column("prices"))
    ids: dict[tuple[str, str], str] = {}
    for (run_id, batch_id), rows in about.items():
        if batch_id is None:
            prices = [row.kind for row in rows if row.kind in ("prices_changed", "repriced")]
            if prices:
                value = "changed" if prices[-1] == "prices_changed" else "applied"
                connection.execute(sa.update(runs).where(runs.c.run_id == run_id).values(prices=value))
            continue
        this = sa.and_(batches.c.run_id == run_id, batches.c.batch_id == batch_id)
        connection.execute(sa.update(batches).where(this).values(**_facts([row.kind for row in rows])))
        ids |= {(run_id, row.detail): batch_id for row in rows if row.kind in _KNOWN}
    for (run_id, provider_id), batch_id in ids.items():
        connection.execute(known.insert().values(run_id=run_id, provider_id=provider_id, batch_id=batch_id))


def _facts(kinds: Sequence[str]) -> dict[str, int | bool]:
    found: dict[str, int | bool] = {name: kind in kinds for name, kind in FLAGS.items()}
    for name, (counted, anew) in COUNTERS.items():
        last = max((place for place, kind in enumerate(kinds) if kind in anew), default=-1)
        found[name] = sum(kind == counted for kind in kinds[last + 1 :])
    return found
