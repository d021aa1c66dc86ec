"""What a batch about to be sent is weighed against: money, and what its provider already has of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Executable, Row, Select, bindparam, func, or_, select

from layton_batch.records import Batch
from layton_batch.states import AT_PROVIDER, Lifecycle
from layton_batch.store import schema
from layton_batch.store.rows import ZERO, RunMoney, reserve

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class UnclearCreates:
    """Creates in a row at one provider, since it last accepted one, of which nobody knows whether they were carried
    out. ``since``: when the first was answered; ``last``: when the last was intended, and ``status``: the HTTP status
    of its reply."""

    number: int
    since: float
    last: float
    status: int | None


@dataclass(frozen=True, slots=True)
class ProviderLoad:
    """Open work of all runs in the database at one provider: a provider counts by account.

    ``queued_bytes``: of batch files by model. ``creates``: calls within the last hour; ``oldest_create``: the first.
    ``unclear``: None: its last create was answered clearly. ``sending``: batches that are sent now, beside those.
    """

    running: int = 0
    queued_bytes: Mapping[str, int] = field(default_factory=dict)
    creates: int = 0
    oldest_create: float | None = None
    unclear: UnclearCreates | None = None
    sending: int = 0

    def plus(self, batch: Batch, at: float) -> ProviderLoad:
        """The load once this batch is sent too."""
        queued = {**self.queued_bytes, batch.model: self.queued_bytes.get(batch.model, 0) + batch.size_bytes}
        return replace(
            self,
            running=self.running + 1,
            queued_bytes=queued,
            creates=self.creates + 1,
            sending=self.sending + 1,
            oldest_create=at if self.oldest_create is None else self.oldest_create,
        )


def visible(run_id: str) -> ColumnElement[bool]:
    """Batches that count: all but what is planned for a retired job."""
    jobs, batches = schema.jobs, schema.batches
    retired = select(jobs.c.job_id).where(jobs.c.run_id == run_id, jobs.c.retired)
    return or_(batches.c.state != str(Lifecycle.PLANNED), batches.c.job_id.not_in(retired))


def read_load(connection: Connection, provider: str, at: float) -> ProviderLoad:
    """The load of a provider at this moment."""
    moment = {"at": at, "hour_before": at - HOUR, "hour_after": at + HOUR}
    work, recent, unclear = _load_queries(provider)
    load = [(model, int(count), int(size)) for model, count, size in connection.execute(work, moment)]
    creates, oldest = connection.execute(recent, moment).one()
    return ProviderLoad(
        running=sum(count for _, count, _ in load),
        queued_bytes={model: size for model, _, size in load},
        creates=int(creates),
        oldest_create=oldest,
        unclear=_unclear_creates(connection.execute(unclear).all()),
    )


def _unclear_creates(rows: Sequence[Row[Any]]) -> UnclearCreates | None:
    """Count the creates of batches whose last create is unclear: a planned batch was sent as often as lists lacked it,
    another one once more."""
    if not rows:
        return None
    last = max(rows, key=lambda row: row.submitting_at)
    return UnclearCreates(
        number=sum(row.absent_creates + (row.state != str(Lifecycle.PLANNED)) for row in rows),
        since=max(min(row.unclear_since for row in rows), last.accepted),
        last=last.submitting_at,
        status=last.failed_status,
    )


@lru_cache(256)
def _load_queries(provider: str) -> tuple[Executable, Executable, Executable]:
    """Return the statements that read the open work at a provider, its creates within the last hour, and the batches
    whose last create, after the last one that it accepted, is unclear."""
    table = schema.batches
    sent = table.c.state.in_(sorted(str(state) for state in (*AT_PROVIDER, Lifecycle.SUBMITTING)))
    # what is past its deadline runs nowhere any more
    alive = or_(table.c.deadline_at.is_(None), table.c.deadline_at > bindparam("at"))
    work = select(table.c.model, func.count(), func.sum(table.c.size_bytes)).group_by(table.c.model)
    hour = table.c.submitting_at.between(bindparam("hour_before"), bindparam("hour_after"))
    recent = select(func.count(), func.min(table.c.submitting_at)).where(table.c.provider == provider, hour)
    accepted = select(func.coalesce(func.max(table.c.submitted_at), 0.0)).where(table.c.provider == provider)
    since = accepted.scalar_subquery()
    states = table.c.state.in_(sorted(map(str, (Lifecycle.PLANNED, Lifecycle.SUBMITTING, Lifecycle.LOST))))
    columns = (table.c.state, table.c.absent_creates, table.c.submitting_at, table.c.unclear_since)
    unclear = select(*columns, table.c.failed_status, since.label("accepted"))
    unclear = unclear.where(table.c.provider == provider, states, table.c.unclear_since.is_not(None))
    return work.where(table.c.provider == provider, sent, alive), recent, unclear.where(table.c.submitting_at > since)


def read_money(connection: Connection, run_id: str) -> RunMoney:
    """Add up what the batches of a run have cost, what is set aside for them, and what nobody can tell."""
    spent = reserved = unknown = ZERO
    for state, bound, cost, of_requests, of_creates in connection.execute(_money_query(run_id)):
        spent, unknown = spent + cost, unknown + of_requests + of_creates
        reserved += reserve(Lifecycle(state), bound)
    return RunMoney(spent, reserved, unknown)


@lru_cache(256)
def _money_query(run_id: str) -> Select[Any]:
    columns = schema.batches.c
    query = select(columns.state, columns.max_cost, columns.spent_usd, columns.unknown_usd, columns.creates_usd)
    return query.where(columns.run_id == run_id)
