"""The truth about batches: compare-and-set, leases, events, money. SQLAlchemy Core on SQLite, or a database by URL."""

from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.leases import LEASE_SECONDS, WRITER_LEASE, Holder
from layton_batch.store.run_store import RunRow, RunStore
from layton_batch.store.standing import Gate, Money, ProviderLoad

__all__ = [
    "LEASE_SECONDS",
    "WRITER_LEASE",
    "Gate",
    "Holder",
    "Money",
    "ProviderLoad",
    "RunRow",
    "RunStore",
    "open_engine",
    "sqlite_url",
]
