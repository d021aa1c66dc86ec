"""Leases: the timed right to move a batch, and the fence that keeps out whoever had it before.

A claim takes a row that is free, whose lease has run out, or whose holder is dead, by an UPDATE that names the fence it
saw and raises it by one. Whatever a holder writes names the fence it got: once anybody else has taken the row, that
UPDATE hits nothing and the holder drops its work. A lease that ran out but was taken by nobody still holds, for
throwing away the id of a batch already paid for would be the worse end; only the step before paying needs a lease that
has time left.

Hosts' clocks differ. Whether a lease of another host has run out, this one tells by its own clock alone: its holder has
not renewed it for a lease's length before our eyes, or it ended so long ago that no difference of clocks explains it.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Table, and_, or_, select, update
from sqlalchemy.exc import IntegrityError

from layton_batch.clock import LONGEST_PAUSE, Pacing, is_due
from layton_batch.errors import StaleStateError, StoreError
from layton_batch.processes import UNKNOWN, is_gone, myself
from layton_batch.records import Batch
from layton_batch.states import OPEN, Lifecycle
from layton_batch.store import schema
from layton_batch.store.rows import batch_from
from layton_batch.store.standing import CLOCKS_APART, Gate, HeldBack, ProviderLoad, read_load, still_held, visible
from layton_batch.store.transactions import Events, Writing

_numbers = itertools.count(1)
_open: set[str] = set()
_lock = Lock()


def new_owner() -> str:
    """``machine/pid/start/number``: unique in time and space, also among several holders of one process."""
    machine, pid, begun = myself()
    owner = f"{machine}/{pid}/{begun}/{next(_numbers)}"
    with _lock:
        _open.add(owner)
    return owner


def retire(owner: str) -> None:
    """This process will not use the name again: what it still holds can be taken at once."""
    with _lock:
        _open.discard(owner)


def shares_our_clock(owner: str) -> bool:
    """Whether the holder is on this machine, so that its times are ours. False wherever that is not known."""
    machine, pid, begun = myself()
    return owner.startswith(f"{machine}/{pid}/{begun}/" if machine == UNKNOWN else f"{machine}/")


def is_dead(owner: str) -> bool:
    """Whether the holder certainly cannot act any more. False wherever that cannot be known from here."""
    try:
        machine, pid, begun, _ = owner.split("/")
        if (machine, int(pid), begun) == myself():
            with _lock:
                return owner not in _open
        return is_gone(machine, int(pid), begun)
    except ValueError:
        return False


LEASE_SECONDS = 120.0
"""How long a lease lasts when nobody renews it: what a host that vanished can hold up a batch."""

WRITER_LEASE = "writer"
"""The lease on planning and on writing tables: one process at a time."""


@dataclass(slots=True)
class Holder:
    """One holder of leases, and the fences it was given. Shared by the threads of one run."""

    owner: str = field(default_factory=new_owner)
    seconds: float = LEASE_SECONDS
    _fences: dict[str, int] = field(default_factory=dict)
    _seen: dict[str, tuple[float, float]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def fence(self, name: str) -> int | None:
        with self._lock:
            return self._fences.get(name)

    def took(self, fences: Mapping[str, int]) -> None:
        with self._lock:
            self._fences.update(fences)

    def sees_over(self, owner: str, until: float, at: float) -> bool:
        """Whether this lease of another holder has run out, as far as this one can tell."""
        if shares_our_clock(owner):
            return is_due(until, at)
        with self._lock:
            newest, since = self._seen.get(owner, (until, at))
            since = at if until > newest else min(since, at)  # it was renewed, or our clock was put back
            self._seen[owner] = (max(until, newest), since)
        return at - since >= self.seconds or until + CLOCKS_APART <= at

    def let_go(self, names: Collection[str]) -> None:
        with self._lock:
            for name in names:
                self._fences.pop(name, None)

    @property
    def holds_any(self) -> bool:
        with self._lock:
            return bool(self._fences)


@dataclass(slots=True)
class Leases(Events):
    """Claiming, renewing and releasing rows of one run."""

    holder: Holder = field(default_factory=Holder)

    # ---- batches -----------------------------------------------------------------------------------------------

    def claim(
        self,
        at: float,
        *,
        states: Collection[Lifecycle] = OPEN,
        ids: Collection[str] | None = None,
        gate: Gate | None = None,
        release: Collection[str] = (),
    ) -> list[Batch]:
        """Take every due batch of these states (and ids) that nobody has in hand; returns them as they are now.

        ``gate`` weighs each planned one in the same transaction; what it holds back keeps its reason and is not taken.
        ``release``: names held until now, let go in the same transaction.
        """
        taken: list[Batch] = []
        fences: dict[str, int] = {}
        with self.writing() as writing:
            writing.alone()
            self._release(writing.connection, release)
            for row in self._due(writing.connection, at, states, ids):
                batch = batch_from(row)
                if not self._is_free(row, at) or (gate is not None and self._is_held_back(writing, batch, gate, at)):
                    continue
                if self._take(writing.connection, schema.batches, self._one(batch.id), row["fence"], at):
                    fences[batch.id] = row["fence"] + 1
                    taken.append(batch)
        self.holder.let_go(release)
        self.holder.took(fences)
        self._files_of(fences)
        return taken

    def release(self, names: Collection[str]) -> None:
        """Let go of batches; those that others have taken since stay theirs."""
        if names:
            with self.writing() as writing:
                writing.alone()
                self._release(writing.connection, names)
            self.holder.let_go(names)

    def renew(self, at: float) -> None:
        """Lengthen every lease this holder still has."""
        if not self.holder.holds_any:
            return
        until = at + self.holder.seconds
        with self.writing() as writing:
            writing.alone()
            for table in (schema.batches, schema.leases):
                mine = and_(table.c.run_id == self.run_id, table.c.lease_owner == self.holder.owner)
                writing.connection.execute(update(table).where(mine).values(lease_until=until))

    def close(self) -> None:
        """Let go of everything: this holder is done."""
        try:
            with self.writing() as writing:
                writing.alone()
                for table in (schema.batches, schema.leases):
                    mine = and_(table.c.run_id == self.run_id, table.c.lease_owner == self.holder.owner)
                    writing.connection.execute(update(table).where(mine).values(lease_owner=None, lease_until=None))
        except StoreError as error:
            logging.getLogger(__name__).warning("leases are left to run out: %s", error)
        finally:
            retire(self.holder.owner)

    def next_due(
        self, at: float, states: Collection[Lifecycle], pacing: Pacing, *, uncollected: Collection[str] = ()
    ) -> float | None:
        """When there will be something to do (epoch seconds): a batch is due, or others may have let go of one.

        A planned batch that is due and still there was held back: what it waits for shows elsewhere. ``uncollected``:
        jobs whose ended batches are left as they are.
        """
        table = schema.batches
        columns = (table.c.state, table.c.due_at, table.c.lease_owner, table.c.lease_until)
        query = select(*columns).where(table.c.run_id == self.run_id, table.c.state.in_([str(one) for one in states]))
        query = query.where(visible(self.run_id))
        query = query.where(or_(table.c.state != str(Lifecycle.ENDED), table.c.job_id.not_in(list(uncollected))))
        with self.reading() as connection:
            moments = [self._moment(row, at, pacing) for row in connection.execute(query).mappings()]
        if not moments and self.in_other_hands(WRITER_LEASE, at):
            return at + pacing.soon / 4
        return min(moments, default=None)

    def _moment(self, row: RowMapping, at: float, pacing: Pacing) -> float:
        due = min(row["due_at"], at) if is_due(row["due_at"], at) else float(row["due_at"])
        if not self._is_free(row, at):
            return max(due, at + pacing.soon)
        if row["state"] == str(Lifecycle.PLANNED):
            return max(due, at + pacing.held)
        return due

    # ---- named leases ------------------------------------------------------------------------------------------

    def claim_named(self, name: str, at: float) -> bool:
        """Take the lease of this name; False where another holder has it."""
        table = schema.leases
        this = and_(table.c.run_id == self.run_id, table.c.name == name)
        try:
            with self.writing() as writing:
                row = writing.connection.execute(select(table).where(this)).mappings().first()
                if row is None:
                    fence = 0
                    writing.connection.execute(table.insert().values(run_id=self.run_id, name=name, fence=0))
                elif self._is_free(row, at):
                    fence = row["fence"]
                else:
                    return False
                won = self._take(writing.connection, table, this, fence, at)
        except StoreError as error:
            if isinstance(error.__cause__, IntegrityError):
                return False  # another holder entered it at the same moment
            raise
        if won:
            self.holder.took({f"/{name}": fence + 1})
            self._files_of({f"/{name}": fence + 1})
        return won

    def release_named(self, name: str) -> bool:
        """Let go of it. False where it had run out and another holder took it meanwhile."""
        table = schema.leases
        fence = self.holder.fence(f"/{name}")
        mine = and_(table.c.run_id == self.run_id, table.c.name == name, table.c.fence == fence)
        with self.writing() as writing:
            result = writing.connection.execute(update(table).where(mine).values(lease_owner=None, lease_until=None))
        self.holder.let_go([f"/{name}"])
        return result.rowcount == 1

    def in_other_hands(self, name: str, at: float) -> bool:
        """Whether another holder has the lease of this name."""
        table = schema.leases
        with self.reading() as connection:
            query = select(table).where(table.c.run_id == self.run_id, table.c.name == name)
            row = connection.execute(query).mappings().first()
        return row is not None and row["lease_owner"] != self.holder.owner and not self._is_free(row, at)

    # ---- how ---------------------------------------------------------------------------------------------------

    def _files_of(self, fences: Mapping[str, int]) -> None:
        """What was claimed comes with what its last holder wrote, unless that was this one, or there was none."""
        if self.arrive is not None:
            others = [(self.run_id, name, fence - 1) for name, fence in fences.items() if fence > 1]
            self.arrive(others, [(self.run_id, name, fence) for name, fence in fences.items()])

    def _one(self, batch_id: str) -> ColumnElement[bool]:
        return and_(schema.batches.c.run_id == self.run_id, schema.batches.c.batch_id == batch_id)

    def _is_free(self, row: RowMapping, at: float) -> bool:
        owner, until = row["lease_owner"], row["lease_until"]
        if owner is None or until is None:
            return True
        return self.holder.sees_over(owner, until, at) or (owner != self.holder.owner and is_dead(owner))

    def _due(
        self, connection: Connection, at: float, states: Collection[Lifecycle], ids: Collection[str] | None
    ) -> list[RowMapping]:
        table = schema.batches
        due = or_(table.c.due_at <= at, table.c.due_at > at + LONGEST_PAUSE)  # as `is_due`
        query = select(table).where(table.c.run_id == self.run_id, due)
        query = query.where(table.c.state.in_([str(state) for state in states]))
        if ids is not None:
            query = query.where(table.c.batch_id.in_(list(ids)))
        return list(connection.execute(query.order_by(table.c.seq)).mappings())

    def _take(self, connection: Connection, table: Table, this: ColumnElement[bool], fence: int, at: float) -> bool:
        values = {"lease_owner": self.holder.owner, "lease_until": at + self.holder.seconds, "fence": fence + 1}
        result = connection.execute(update(table).where(this, table.c.fence == fence).values(**values))
        return bool(result.rowcount == 1)

    def _release(self, connection: Connection, names: Iterable[str]) -> None:
        table = schema.batches
        for name in names:
            mine = and_(self._one(name), table.c.fence == self.holder.fence(name))
            connection.execute(update(table).where(mine).values(lease_owner=None, lease_until=None))

    def _guard(self, connection: Connection, batch: Batch, at: float, *, paying: bool) -> tuple[Any, dict[str, object]]:
        """The condition under which this holder may change the batch, and what becomes of its lease.

        Who has not claimed it may change it only while nobody else has it, and raises the fence.
        """
        table = schema.batches
        fence = self.holder.fence(batch.id)
        if fence is not None:
            condition = table.c.fence == fence
            if paying:
                condition = and_(condition, still_held(at))
            return condition, {"lease_until": at + self.holder.seconds}
        query = select(table.c.lease_owner, table.c.lease_until, table.c.fence).where(self._one(batch.id))
        row = connection.execute(query).mappings().first()
        if row is None or not self._is_free(row, at):
            raise StaleStateError(f"batch {batch.id} is in another process's hands; try again in a moment")
        return table.c.fence == row["fence"], {"fence": row["fence"] + 1, "lease_owner": None, "lease_until": None}

    # ---- gates -------------------------------------------------------------------------------------------------

    def load(self, provider: str, at: float) -> ProviderLoad:
        """What a batch of this provider would be weighed against now."""
        with self.reading() as connection:
            return read_load(connection, self.run_id, provider, at, None)

    def hold_back(self, batch: Batch, held: HeldBack) -> None:
        """Write down why a planned batch is not sent, unless somebody has it in hand."""
        if batch.reason != held.reason or held.until is not None:
            with self.writing() as writing:
                self._note_held(writing, batch, held)

    def wake(self) -> None:
        """Let every planned batch that waits for a person be due at once."""
        table = schema.batches
        asleep = and_(table.c.run_id == self.run_id, table.c.state == str(Lifecycle.PLANNED), table.c.due_at > 0)
        theirs = and_(table.c.needs_person, table.c.lease_owner.is_(None))
        with self.writing() as writing:
            writing.connection.execute(update(table).where(asleep, theirs).values(due_at=0.0))

    def _is_held_back(self, writing: Writing, batch: Batch, gate: Gate, at: float) -> bool:
        if batch.state is not Lifecycle.PLANNED:
            return False
        standing = read_load(writing.connection, self.run_id, batch.provider, at, batch.id)
        held = gate(batch, standing)
        if held is not None and held.reason != batch.reason:
            self._note_held(writing, batch, held)
        return held is not None

    def _note_held(self, writing: Writing, batch: Batch, held: HeldBack) -> None:
        table = schema.batches
        planned = and_(self._one(batch.id), table.c.state == str(Lifecycle.PLANNED), table.c.lease_owner.is_(None))
        values = {"reason": writing.text(held.reason), "needs_person": held.needs_person}
        values |= {} if held.until is None else {"due_at": held.until}
        writing.connection.execute(update(table).where(planned).values(**values))
