"""A look at what a run has committed, between two of its transactions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.pool import Pool

_COMMITTED = "simulated commit"


@contextmanager
def after_commits(look: Callable[[int], None]) -> Iterator[None]:
    """Call ``look`` after every commit of this thread while the block lasts, with the commit's number."""
    thread, numbers = threading.get_ident(), iter(range(1, 1_000_000))

    def commits(connection: Any) -> None:
        connection.info[_COMMITTED] = threading.get_ident() == thread

    def is_returned(_connection: Any, record: Any) -> None:
        if record.info.pop(_COMMITTED, False):
            look(next(numbers))

    event.listen(Engine, "commit", commits)
    event.listen(Pool, "checkin", is_returned)
    try:
        yield
    finally:
        event.remove(Engine, "commit", commits)
        event.remove(Pool, "checkin", is_returned)
