"""Open work at a provider, against which a batch about to be sent is weighed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, func, or_, select

from layton_batch.records import Batch
from layton_batch.states import AT_PROVIDER, Lifecycle
from layton_batch.store import schema

HOUR = 3600.0
LONGEST_CREATE = 600.0
"""Seconds after which nobody waits for the answer to a create any more."""


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
    ``unclear``: None: its last create was answered clearly. ``sending``: batches whose create is not answered yet.
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


def read_load(connection: Connection, provider: str, at: float) -> ProviderLoad:
    """Read the open work at a provider, its creates within the last hour, and those since its last clear one."""
    table = schema.batches.c
    here = table.provider == provider
    sent = table.state.in_((*AT_PROVIDER, Lifecycle.SUBMITTING))
    alive = or_(table.deadline_at.is_(None), table.deadline_at > at)  # what is past its deadline runs nowhere any more
    work = select(table.model, func.count(), func.sum(table.size_bytes)).where(here, sent, alive).group_by(table.model)
    hour = table.submitting_at.between(at - HOUR, at + HOUR)
    recent = select(func.count(), func.min(table.submitting_at)).where(here, hour)
    accepted = select(func.coalesce(func.max(table.submitted_at), 0.0)).where(here).scalar_subquery()
    states = table.state.in_((Lifecycle.PLANNED, Lifecycle.SUBMITTING, Lifecycle.LOST))
    unclear = select(
        table.state, table.given_up_creates, table.submitting_at, table.unclear_since, table.failed_status,
        accepted.label("accepted"),
    ).where(here, states, table.unclear_since.is_not(None), table.submitting_at > accepted)  # fmt: skip
    on_its_way = table.state == Lifecycle.SUBMITTING, table.unclear_since.is_(None)
    lately = table.submitting_at.between(at - LONGEST_CREATE, at + LONGEST_CREATE)
    sending = select(func.count()).where(here, *on_its_way, lately)
    load = [(model, int(count), int(size)) for model, count, size in connection.execute(work)]
    creates, oldest = connection.execute(recent).one()
    return ProviderLoad(
        running=sum(count for _, count, _ in load),
        queued_bytes={model: size for model, _, size in load},
        creates=int(creates),
        oldest_create=oldest,
        unclear=_unclear_creates(connection.execute(unclear).all()),
        sending=int(connection.execute(sending).scalar_one()),
    )


def _unclear_creates(rows: Sequence[Any]) -> UnclearCreates | None:
    """Count the creates of batches whose last create is unclear: a planned batch was sent as often as lists lacked it,
    another one once more."""
    if not rows:
        return None
    last = max(rows, key=lambda row: row.submitting_at)
    return UnclearCreates(
        number=sum(row.given_up_creates + (row.state != Lifecycle.PLANNED) for row in rows),
        since=max(min(row.unclear_since for row in rows), last.accepted),
        last=last.submitting_at,
        status=last.failed_status,
    )
