"""What a batch about to be sent is weighed against: money, and what its provider already has of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from layton_batch.clock import LONGEST_PAUSE
from layton_batch.records import Batch
from layton_batch.states import AT_PROVIDER, Lifecycle
from layton_batch.store import schema
from layton_batch.store.rows import ZERO, Money, money_from

HOUR = 3600.0
CLOCKS_APART = 600.0
"""By how much the clocks of two hosts of one run may differ."""


@dataclass(frozen=True, slots=True)
class ProviderLoad:
    """One provider's load and one run's money. Batches that a holder has just claimed to send count as sent.

    Load is that of every run in the database, for a provider counts by account; money is the run's own.
    ``queued_bytes``: of batch files by model. ``creates``: calls within the last hour; ``oldest_create``: the first.
    """

    committed_usd: Decimal = ZERO
    running: int = 0
    queued_bytes: Mapping[str, int] = field(default_factory=dict)
    creates: int = 0
    oldest_create: float | None = None

    def plus(self, batch: Batch, at: float) -> ProviderLoad:
        """The standing once this batch is sent too."""
        queued = {**self.queued_bytes, batch.model: self.queued_bytes.get(batch.model, 0) + batch.size_bytes}
        return replace(
            self,
            committed_usd=self.committed_usd + (batch.max_cost or ZERO),
            running=self.running + 1,
            queued_bytes=queued,
            creates=self.creates + 1,
            oldest_create=at if self.oldest_create is None else self.oldest_create,
        )


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Why a batch is not sent now; when it can be, where that is known (epoch seconds); whether a person has to mend
    something first."""

    reason: str
    until: float | None = None
    needs_person: bool = False


Gate = Callable[[Batch, ProviderLoad], HeldBack | None]
"""Says why a planned batch must be held back, or None."""


def still_held(at: float) -> ColumnElement[bool]:
    """Whether a batch's lease has time left; `clock.is_due` says when it has none."""
    until = schema.batches.c.lease_until
    return and_(until > at, until <= at + LONGEST_PAUSE)


def visible(run_id: str) -> ColumnElement[bool]:
    """Batches that count: all but what is planned for a retired job."""
    jobs, batches = schema.jobs, schema.batches
    retired = select(jobs.c.job_id).where(jobs.c.run_id == run_id, jobs.c.retired)
    return or_(batches.c.state != str(Lifecycle.PLANNED), batches.c.job_id.not_in(retired))


def read_load(connection: Connection, run_id: str, provider: str, at: float, batch_id: str | None) -> ProviderLoad:
    """The standing at this moment, without the batch of this id (of this run)."""
    table = schema.batches
    claimed = and_(table.c.state == str(Lifecycle.PLANNED), still_held(at - CLOCKS_APART))
    if batch_id is not None:
        claimed = and_(claimed, or_(table.c.run_id != run_id, table.c.batch_id != batch_id))
    sent = table.c.state.in_([str(state) for state in (*AT_PROVIDER, Lifecycle.SUBMITTING)])
    alive = or_(table.c.deadline_at.is_(None), table.c.deadline_at > at)  # what is past it runs nowhere any more
    busy = and_(table.c.provider == provider, or_(claimed, and_(sent, alive)))
    query = select(table.c.model, func.count(), func.sum(table.c.size_bytes)).where(busy).group_by(table.c.model)
    load = [(model, int(count), int(size)) for model, count, size in connection.execute(query)]
    recent = and_(table.c.provider == provider, table.c.submitting_at.between(at - HOUR, at + HOUR))
    creates, oldest = connection.execute(select(func.count(), func.min(table.c.submitting_at)).where(recent)).one()
    waiting = select(table.c.max_cost).where(table.c.run_id == run_id, claimed)
    money = read_money(connection, run_id)
    return ProviderLoad(
        committed_usd=sum((cost or ZERO for (cost,) in connection.execute(waiting)), money.committed),
        running=sum(count for _, count, _ in load),
        queued_bytes={model: size for model, _, size in load},
        creates=int(creates),
        oldest_create=oldest,
    )


def read_money(connection: Connection, run_id: str, batch_id: str | None = None) -> Money:
    """The ledger of a run, or of one of its batches, added up."""
    table = schema.ledger
    which = table.c.run_id == run_id
    if batch_id is not None:
        which = and_(which, table.c.batch_id == batch_id)
    return money_from((kind, usd) for kind, usd in connection.execute(select(table.c.kind, table.c.usd).where(which)))
