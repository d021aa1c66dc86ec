"""The truth about batches: compare-and-set, locks, events, money. SQLAlchemy Core on SQLite, or a database by URL."""
