"""The truth about batches: compare-and-set, leases, events, money. SQLAlchemy Core on SQLite, or a database by URL.

The names below are loaded when first used: who only looks at a store (``reading``) does without SQLAlchemy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from layton_batch.store.engine import open_engine, sqlite_url
    from layton_batch.store.leases import LEASE_SECONDS, WRITER_LEASE, Holder
    from layton_batch.store.rows import Money, RunRow
    from layton_batch.store.run_store import RunStore
    from layton_batch.store.standing import Gate, ProviderLoad

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

_PLACES = {
    "engine": ("open_engine", "sqlite_url"),
    "leases": ("LEASE_SECONDS", "WRITER_LEASE", "Holder"),
    "rows": ("Money", "RunRow"),
    "run_store": ("RunStore",),
    "standing": ("Gate", "ProviderLoad"),
}


def __getattr__(name: str) -> object:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
