"""The truth about batches: compare-and-set, events, money. SQLAlchemy Core on SQLite, or any database by URL."""

from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.run_store import Entry, RunRow, RunStore

__all__ = ["Entry", "RunRow", "RunStore", "open_engine", "sqlite_url"]
