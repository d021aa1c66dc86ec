"""What a batch about to be sent is weighed against: money, and what its provider already has of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Executable, Select, bindparam, func, or_, select

from layton_batch.records import Batch
from layton_batch.states import AT_PROVIDER, Lifecycle
from layton_batch.store import schema
from layton_batch.store.rows import RunMoney, money_from

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class ProviderLoad:
    """Open work of all runs in the database at one provider: a provider counts by account.

    ``queued_bytes``: of batch files by model. ``creates``: calls within the last hour; ``oldest_create``: the first.
    """

    running: int = 0
    queued_bytes: Mapping[str, int] = field(default_factory=dict)
    creates: int = 0
    oldest_create: float | None = None

    def plus(self, batch: Batch, at: float) -> ProviderLoad:
        """The load once this batch is sent too."""
        queued = {**self.queued_bytes, batch.model: self.queued_bytes.get(batch.model, 0) + batch.size_bytes}
        return replace(
            self,
            running=self.running + 1,
            queued_bytes=queued,
            creates=self.creates + 1,
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
    work, recent = _load_queries(provider)
    load = [(model, int(count), int(size)) for model, count, size in connection.execute(work, moment)]
    creates, oldest = connection.execute(recent, moment).one()
    return ProviderLoad(
        running=sum(count for _, count, _ in load),
        queued_bytes={model: size for model, _, size in load},
        creates=int(creates),
        oldest_create=oldest,
    )


@lru_cache(256)
def _load_queries(provider: str) -> tuple[Executable, Executable]:
    """Return the statements that read the open work at a provider, and its creates within the last hour."""
    table = schema.batches
    sent = table.c.state.in_(sorted(str(state) for state in (*AT_PROVIDER, Lifecycle.SUBMITTING)))
    # what is past its deadline runs nowhere any more
    alive = or_(table.c.deadline_at.is_(None), table.c.deadline_at > bindparam("at"))
    work = select(table.c.model, func.count(), func.sum(table.c.size_bytes)).group_by(table.c.model)
    hour = table.c.submitting_at.between(bindparam("hour_before"), bindparam("hour_after"))
    recent = select(func.count(), func.min(table.c.submitting_at)).where(table.c.provider == provider, hour)
    return work.where(table.c.provider == provider, sent, alive), recent


def read_money(connection: Connection, run_id: str, batch_id: str | None = None) -> RunMoney:
    """The ledger of a run, or of one of its batches, added up."""
    return money_from((kind, usd) for kind, usd in connection.execute(_money_query(run_id, batch_id)))


@lru_cache(256)
def _money_query(run_id: str, batch_id: str | None) -> Select[Any]:
    table = schema.ledger
    query = select(table.c.kind, table.c.usd).where(table.c.run_id == run_id)
    return query if batch_id is None else query.where(table.c.batch_id == batch_id)
