"""The driver lease: the timed right of one process to move a run, and the token that keeps out the driver before it.

A process takes the lease when nobody drives the run, when the lease has run out, or when its holder is dead; each
new driver raises the token by one. Every write transaction of a driver locks the run's row and must find its own
token there. Where another process has taken the lease since, the transaction fails, and this process stops driving.

A lease that ran out but that nobody took still holds: throwing away the id of a batch already paid for would be worse.
The intent to pay renews the lease in its own transaction, so that the step before paying has time left.

One clock counts the leases of a database: the server's on PostgreSQL, this machine's on SQLite, whose file is local.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Float, Row, Select, cast, extract, func, or_, select, update

from layton_batch.clock import LONGEST_PAUSE, Clock, SystemClock, iso
from layton_batch.errors import AnotherDriverError, StoreError
from layton_batch.processes import is_gone, myself
from layton_batch.store import schema

LEASE_SECONDS = 120.0
"""The length of a lease that nobody renews: for so long a host that vanished holds up its run."""

LEFT_SECONDS = 36 * 3600.0
"""After so long without a driver a run counts as left: one that is driven every night is not."""

Moment = float | ColumnElement[float]
"""Epoch seconds, or the expression by which a server says them."""

_numbers = itertools.count(1)
_open: set[str] = set()
_lock = Lock()


def was_left(now: Moment) -> ColumnElement[bool]:
    """Return whether nobody has driven a run for long, as a condition on its row."""
    until = schema.runs.c.driver_until
    return or_(until.is_(None), until <= now - LEFT_SECONDS)


def new_owner() -> str:
    """``machine/pid/start/number``: unique in time and space, also among several drivers of one process."""
    machine, pid, begun = myself()
    owner = f"{machine}/{pid}/{begun}/{next(_numbers)}"
    with _lock:
        _open.add(owner)
    return owner


def retire(owner: str) -> None:
    """Note that this process will not use the name again: a lease under it can be taken at once."""
    with _lock:
        _open.discard(owner)


def is_dead(owner: str) -> bool:
    """Return whether the driver certainly cannot act any more. False wherever that cannot be known from here."""
    try:
        machine, pid, begun, _ = owner.split("/")
        if (machine, int(pid), begun) == myself():
            with _lock:
                return owner not in _open
        return is_gone(machine, int(pid), begun)
    except ValueError:
        return False


def lease_clock(engine: Engine, clock: Clock) -> Callable[[], Moment]:
    """The clock by which the leases of this database are counted: on PostgreSQL the server's, for hosts' clocks differ.

    A caller with a clock of its own (not the machine's) counts by that one everywhere.
    """
    if engine.dialect.name == "postgresql" and isinstance(clock, SystemClock):
        return lambda: cast(extract("epoch", func.clock_timestamp()), Float)
    return clock.now


@dataclass(slots=True)
class DriverLease:
    """The lease on one run, and the token that this process got with it; None while it does not drive the run."""

    run_id: str
    clock: Callable[[], Moment] = field(default_factory=lambda: SystemClock().now)
    seconds: float = LEASE_SECONDS
    owner: str = ""
    token: int | None = None

    def take(self, connection: Connection) -> int:
        """Become the run's driver and return the token. Raises AnotherDriverError where another process drives it."""
        row, runs, now = self.require_undriven(connection, lock=True), schema.runs, self.clock()
        owner, token = new_owner(), int(row.driver_token) + 1
        values = {"driver": owner, "driver_host": socket.gethostname()[:64], "driver_since": now, "driver_token": token}
        connection.execute(update(runs).where(runs.c.run_id == self.run_id).values(**values))
        self.owner, self.token = owner, token
        self.prolong(connection)
        return token

    def require_undriven(self, connection: Connection, *, lock: bool = False) -> Row[Any]:
        """Return the run's row. Raises AnotherDriverError where another process drives the run."""
        until, now = schema.runs.c.driver_until, self.clock()
        over = or_(until <= now, until > now + LONGEST_PAUSE)  # as `clock.is_due`: the clock may have been put back
        row = self._row(connection, over.label("is_over"), lock=lock)
        if row.driver is not None and not row.is_over and not is_dead(row.driver):
            raise _another(self.run_id, row)
        return row

    def check(self, connection: Connection, *, lock: bool = True) -> bool:
        """Return whether the run is cancelled; ``lock``: its row, to the transaction's end.

        Raises AnotherDriverError where this process does not drive the run any more.
        """
        row = self._row(connection, lock=lock)
        if self.token is None or (row.driver, row.driver_token) != (self.owner, self.token):
            raise _another(self.run_id, row)
        return bool(row.cancelled)

    def renew(self, connection: Connection) -> None:
        """Lengthen the lease. Raises AnotherDriverError where another process took it."""
        self.check(connection)
        self.prolong(connection)

    def give_back(self, connection: Connection) -> None:
        """End the lease, unless another process took it. Its end stays, for runs that wait for this one."""
        runs = schema.runs
        mine = update(runs).where(runs.c.run_id == self.run_id, runs.c.driver == self.owner)
        nobody = dict.fromkeys(("driver", "driver_host", "driver_since"))
        connection.execute(mine.values(**nobody, driver_until=self.clock()))

    def forget(self) -> None:
        """Stop driving on this side, whether the lease could be given back or not."""
        retire(self.owner)
        self.token = None

    def prolong(self, connection: Connection) -> None:
        """Lengthen the lease in a transaction that has checked it."""
        runs = schema.runs
        this = update(runs).where(runs.c.run_id == self.run_id)
        connection.execute(this.values(driver_until=self.clock() + self.seconds))

    def _row(self, connection: Connection, *more: ColumnElement[bool], lock: bool) -> Row[Any]:
        """The run's row; ``lock``: on PostgreSQL no other transaction changes it until this one ends. (On SQLite a
        write transaction is alone from its start.)"""
        query = _row_query(self.run_id, lock=lock)
        row = connection.execute(query.add_columns(*more) if more else query).first()
        if row is None:
            raise StoreError(f"run {self.run_id} is not in its state store: was it started with another database?")
        return row


@lru_cache(256)
def _row_query(run_id: str, *, lock: bool) -> Select[Any]:
    runs = schema.runs.c
    columns = runs.driver, runs.driver_host, runs.driver_since, runs.driver_token, runs.cancelled
    query = select(*columns).where(runs.run_id == run_id)
    return query.with_for_update() if lock else query


def _another(run_id: str, row: Row[Any]) -> AnotherDriverError:
    if row.driver is None:
        return AnotherDriverError(f"run {run_id} was driven by another process meanwhile: this one stops; call again")
    _, _, rest = row.driver.partition("/")
    driver = f"process {rest.partition('/')[0]} on {row.driver_host}"
    return AnotherDriverError(
        f"run {run_id} is driven by {driver} since {iso(row.driver_since)}; wait until it ends, or stop it, then call "
        "again",
        driver,
    )
