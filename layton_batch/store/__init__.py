"""The truth about batches: compare-and-set, leases, events, money. SQLAlchemy Core on SQLite, or a database by URL."""
