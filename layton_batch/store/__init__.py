"""The truth about batches: compare-and-set, leases, events, money. SQLAlchemy Core on SQLite, or a database by URL."""

from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.leases import DESK, LEASE_SECONDS, Holder
from layton_batch.store.run_store import Entry, RunRow, RunStore
from layton_batch.store.standing import Gate, Money, Standing

__all__ = [
    "DESK",
    "LEASE_SECONDS",
    "Entry",
    "Gate",
    "Holder",
    "Money",
    "RunRow",
    "RunStore",
    "Standing",
    "open_engine",
    "sqlite_url",
]
